# SPDX-License-Identifier: Apache-2.0
"""A drop-in ``newton.ModelBuilder`` with Actuon's actuators in ``model.actuators``, a drive that runs a motor model in
Newton's own actuators, and Actuon's classes by their names in ``newton.actuators``."""

from .errors import check_installed as _check_installed

_check_installed(["newton", "mujoco"], "newton", "actuon.newton")

from .actuator.newton_parts import (
    ClampingBase as ClampingBase,
    DriveBase as DriveBase,
    DriveNeuralGRU as DriveNeuralGRU,
    DriveNeuralLSTM as DriveNeuralLSTM,
    DriveNeuralMLP as DriveNeuralMLP,
    DrivePD as DrivePD,
    DrivePID as DrivePID,
)
from .attach.newton_actuator import Actuator as Actuator
from .attach.newton_builder import ModelBuilder as ModelBuilder
from .attach.newton_drive import DriveActuon as DriveActuon
from .components.controllers.neural import (
    ControllerNeuralLSTM as ControllerNeuralLSTM,
    ControllerNeuralMLP as ControllerNeuralMLP,
)
from .components.controllers.pd import ControllerPD as ControllerPD
from .components.controllers.pid import ControllerPID as ControllerPID
from .components.delay import Delay as Delay
from .components.kinds import Clamping as Clamping, Controller as Controller
from .components.limits.dc_motor import ClampingDCMotor as ClampingDCMotor
from .components.limits.max_effort import ClampingMaxEffort as ClampingMaxEffort
from .components.limits.position_based import ClampingPositionBased as ClampingPositionBased
from .declare.registry import ComponentKind as ComponentKind, register_actuator_component as register_actuator_component
from .robot_files.parsed import ActuatorParsed as ActuatorParsed

__all__ = [
    "Actuator",
    "ActuatorParsed",
    "Clamping",
    "ClampingBase",
    "ClampingDCMotor",
    "ClampingMaxEffort",
    "ClampingPositionBased",
    "ComponentKind",
    "Controller",
    "ControllerNeuralLSTM",
    "ControllerNeuralMLP",
    "ControllerPD",
    "ControllerPID",
    "Delay",
    "DriveActuon",
    "DriveBase",
    "DriveNeuralGRU",
    "DriveNeuralLSTM",
    "DriveNeuralMLP",
    "DrivePD",
    "DrivePID",
    "ModelBuilder",
    "register_actuator_component",
]
