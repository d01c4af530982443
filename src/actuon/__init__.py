# SPDX-License-Identifier: Apache-2.0
"""Actuon: the actuator layer of robot simulation."""

from .actuator import Actuator
from .builder import ActuatorBuilder
from .components.base import Clamping, Component, Controller, State, limit
from .components.dc_motor import ClampingDCMotor, DCMotorClampingConfig
from .components.delay import Delay, DelayConfig
from .components.max_effort import ClampingMaxEffort, MaxEffortClampingConfig
from .components.pd import ControllerPD, PDControlConfig
from .components.pid import ControllerPID, PIDControlConfig
from .components.position_based import ClampingPositionBased, PositionBasedClampingConfig, read_lookup_table
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

__version__ = "0.1.0"
