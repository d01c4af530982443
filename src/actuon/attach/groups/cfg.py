# SPDX-License-Identifier: Apache-2.0
"""Configs of actuator groups, with the names of Isaac Lab."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ...actuator.config import EXPLICIT
from ...errors import ParameterError
from ...typing import ArrayLike
from . import group_model as base, models

Value = float | dict[str, float] | None
"""A number for all joints, a dict of joint regexes to numbers, or None for the asset's value."""


@dataclass
class ActuatorBaseCfg:
    """Config of all groups. ``cfg.class_type(cfg, joint_names, joint_ids, num_envs, device, ...)`` builds the model."""

    joint_names_expr: Sequence[str] = field(default_factory=list)
    """Regexes that match the names of the group's joints whole."""
    class_type: type = base.ActuatorBase
    stiffness: Value = None
    """Position gain [N·m/rad]."""
    damping: Value = None
    """Velocity gain [N·m·s/rad]."""
    armature: Value = None
    """Rotor inertia at the joint, ``gear_ratio²·J`` [kg·m²]."""
    friction: Value = None
    """Dry friction of the joint at rest [N·m]."""
    dynamic_friction: Value = None
    """Dry friction of the moving joint [N·m]."""
    viscous_friction: Value = None
    """Viscous friction [N·m·s/rad]."""
    effort_limit: Value = None
    """Largest effort of the model [N·m]. For the engine drive, an alias of ``effort_limit_sim``."""
    actuator_effort_limit: Value = None
    """Name of ``effort_limit`` in Isaac Lab 3, for groups without the engine drive."""
    effort_limit_sim: Value = None
    """Largest effort in the engine [N·m]."""
    joint_effort_limit: Value = None
    """Name of ``effort_limit_sim`` in Isaac Lab 3."""
    velocity_limit: Value = None
    """Largest speed of the model [rad/s]."""
    actuator_velocity_limit: Value = None
    """Name of ``velocity_limit`` in Isaac Lab 3."""
    velocity_limit_sim: Value = None
    """Largest speed in the engine [rad/s]."""
    joint_velocity_limit: Value = None
    """Name of ``velocity_limit_sim`` in Isaac Lab 3."""
    seed: int | None = None
    """Seed of delays and randomisation. Robots of a simulation draw different numbers. None: different each time."""
    effort_mode: str = EXPLICIT
    """Form of the efforts: ``"explicit"``, ``"implicit"`` or ``"auto"``. Not for `ImplicitActuatorCfg`, the engine
    drive."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed.

        Examples:
            >>> cfg = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=40.0, damping=1.0)
            >>> cfg.replace(stiffness=60.0).stiffness
            60.0
        """
        return dataclasses.replace(self, **changes)

    def copy(self) -> Self:
        """Return a deep copy."""
        return copy.deepcopy(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name.

        Examples:
            >>> cfg = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=40.0, damping=1.0)
            >>> cfg.to_dict()["stiffness"]
            40.0
        """
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass
class ImplicitActuatorCfg(ActuatorBaseCfg):
    """The engine drive.

    Examples:
        >>> cfg = actuon.lab.ImplicitActuatorCfg(["arm_.*"], stiffness=80.0, damping=4.0)
    """

    class_type: type = models.ImplicitActuator


@dataclass
class IdealPDActuatorCfg(ActuatorBaseCfg):
    """Explicit PD, up to ``effort_limit``.

    Examples:
        >>> gains = {"stiffness": 40.0, "damping": 1.0}
        >>> cfg = actuon.lab.IdealPDActuatorCfg([".*_hip"], **gains, effort_limit=20.0)
    """

    class_type: type = models.IdealPDActuator
    gear_ratio: float = 1.0
    """Gear ratio: turns of the motor per turn of the joint. Limits in the config are those of the motor; at the joint,
    efforts are multiplied by ``gear_ratio`` and speeds divided by it."""

    def __post_init__(self) -> None:
        is_number = isinstance(self.gear_ratio, (int, float, np.number)) and not isinstance(self.gear_ratio, bool)
        if not is_number or not 0 < self.gear_ratio < float("inf"):
            raise ParameterError(f"gear_ratio: got {self.gear_ratio!r}; must be a finite number > 0")


@dataclass
class DCMotorCfg(IdealPDActuatorCfg):
    """Explicit PD through the torque-speed envelope of a DC motor.

    Examples:
        >>> cfg = actuon.lab.DCMotorCfg(
        ...     [".*_hip", ".*_knee"],
        ...     stiffness={".*_hip": 20.0, ".*_knee": 40.0},
        ...     damping=0.5,
        ...     effort_limit=23.5,
        ...     saturation_effort=33.5,
        ...     velocity_limit=21.0,
        ... )
    """

    class_type: type = models.DCMotor
    saturation_effort: Value = None
    """Stall effort [N·m]. Required, and so is a ``velocity_limit``."""


@dataclass
class DelayedPDActuatorCfg(IdealPDActuatorCfg):
    """Explicit PD with delayed commands.

    Examples:
        >>> gains = {"stiffness": 40.0, "damping": 1.0}
        >>> cfg = actuon.lab.DelayedPDActuatorCfg([".*"], **gains, min_delay=0, max_delay=4, seed=0)
    """

    class_type: type = models.DelayedPDActuator
    min_delay: int = 0
    """Shortest delay [physics steps]."""
    max_delay: int = 0
    """Longest delay [physics steps]. Each environment draws its delay at each reset."""
    saturation_effort: Value = None
    """Stall effort [N·m]. If given, the envelope of a DC motor limits efforts."""


@dataclass
class RemotizedPDActuatorCfg(DelayedPDActuatorCfg):
    """Explicit PD with delayed commands, through a linkage.

    Examples:
        >>> table = [[-2.0, 1.0, 30.0], [0.0, 1.2, 40.0]]  # angle [rad], ratio, effort [N·m]
        >>> cfg = actuon.lab.RemotizedPDActuatorCfg(
        ...     [".*_knee"], stiffness=60.0, damping=1.5, joint_parameter_lookup=table
        ... )
    """

    class_type: type = models.RemotizedPDActuator
    joint_parameter_lookup: ArrayLike | None = None
    """Rows of angle [rad], transmission ratio, and largest torque at the joint [N·m]."""


@dataclass
class ActuatorNetMLPCfg(DCMotorCfg):
    """A network over a few steps of position error and velocity.

    Examples:
        >>> import torch
        >>> actuon.save_network(torch.nn.Linear(2, 1), "motor.pt")
        >>> limits = {"effort_limit": 23.5, "saturation_effort": 33.5, "velocity_limit": 21.0}
        >>> cfg = actuon.lab.ActuatorNetMLPCfg([".*_knee"], network_file="motor.pt", **limits)
    """

    class_type: type = models.ActuatorNetMLP
    network_file: str = ""
    """A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file."""
    pos_scale: float | None = None
    """Factor on the position error. None: that of the file, or 1."""
    vel_scale: float | None = None
    """Factor on the velocity."""
    torque_scale: float | None = None
    """Factor on the output."""
    input_order: str | None = None
    """``"pos_vel"`` or ``"vel_pos"``."""
    input_idx: Sequence[int] | None = None
    """Past steps in the network's input; 0 is the present one."""


@dataclass
class ActuatorNetLSTMCfg(DCMotorCfg):
    """A network with a memory."""

    class_type: type = models.ActuatorNetLSTM
    network_file: str = ""
    """A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file."""
