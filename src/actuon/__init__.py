# SPDX-License-Identifier: Apache-2.0
"""Actuon: the actuator layer of robot simulation."""

from typing import Any as _Any

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
    NeuralControlConfig,
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
    RobotFileError,
    SimulationError,
    StateError,
    StructureError,
)
from .fields import Config, Field, param
from .networks.files import load_metadata, save_network
from .spec.actuator_config import ActuatorConfig, ActuatorParsed
from .spec.registry import ComponentKind, register_actuator_component
from .spec.yaml_files import ActuatorEntry, load_actuators, match_joints, save_actuators
from .usd_plugin import announce_schemas as _announce_schemas

__version__ = "0.1.0"

_announce_schemas()

_LAZY: dict[str, tuple[str, ...]] = {
    "articulation_actuators": ("ArticulationActuators", "Telemetry"),
    "recorder": ("Recorder",),
    "sim": ("Articulation", "Event", "MujocoSimulation", "NewtonSimulation", "Simulation", "current_simulation"),
    "newton": (),
    "assets": (),
    "graph": (),
    "lab": (),
    "usd": (
        "add_actuator",
        "author_actuators",
        "current_stage",
        "export_actuators",
        "inspect_actuators",
        "parse_actuator_prim",
        "parse_actuators",
        "use_stage",
    ),
}
"""Names that load more than Warp and NumPy, by the module that holds them. They are loaded when first asked for."""


def __getattr__(name: str) -> _Any:
    import importlib

    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __name__), name)
        if name == module:
            return importlib.import_module(f".{module}", __name__)
    raise AttributeError(f"module 'actuon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *(name for names in _LAZY.values() for name in names)])
