# SPDX-License-Identifier: Apache-2.0
"""Actuon: the actuator layer of robot simulation."""

from .actuator import Actuator
from .builder import ActuatorBuilder
from .components.base import Clamping, Component, Controller, limit
from .components.dc_motor import ClampingDCMotor, DCMotorClampingConfig
from .components.delay import Delay, DelayConfig
from .components.max_effort import ClampingMaxEffort, MaxEffortClampingConfig
from .components.neural import (
    ControllerNeural,
    ControllerNeuralGRU,
    ControllerNeuralLSTM,
    ControllerNeuralMLP,
    NeuralState,
)
from .components.pd import ControllerPD, PDControlConfig
from .components.pid import ControllerPID, PIDControlConfig
from .components.position_based import ClampingPositionBased, PositionBasedClampingConfig, read_lookup_table
from .components.state import State
from .errors import (
    ActuonError,
    ArrayError,
    ArrayTypeError,
    MissingArrayError,
    MissingExtraError,
    ParameterError,
    StateError,
    StructureError,
)
from .fields import Config, Field, param
from .networks.files import load_metadata, save_network

__version__ = "0.1.0"
