# SPDX-License-Identifier: Apache-2.0
"""`ActuatorBase`: model of a group, with its parameters as tensors."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp

from ...actuator.config import EXPLICIT, ActuatorConfig
from ...components.component import Component
from ...components.controllers.pd import ControllerPD
from ...components.delay import Delay
from ...components.kinds import Clamping, Controller
from ...components.limits.max_effort import ClampingMaxEffort
from ...errors import ParameterError
from ...typing import Array, ArrayLike, DeviceLike, IdsLike, IndexLike, PathLike, Tensor
from .own_compute import ClampingOfModel, ControllerOfModel
from .parameters import GroupParameters
from .randomisation import STREAM, Distribution, check_stream, set_stream, stream_of
from .resolution import (
    PARAMETERS,
    Resolved,
    asset_values,
    joint_numbers,
    take_newer_names,
    values_by_joint,
)
from .tensor_step import TensorStep
from .tensors import copied_columns, like, viewed, warp_device

if TYPE_CHECKING:
    from ..fitted_motors import DrawnMotors
    from .cfg import ActuatorBaseCfg

NO_LIMIT_SIM = 1.0e9
"""Effort limit of the engine for an explicit model [N·m], so that the engine does not clip."""


@dataclass
class ArticulationActions:
    """Commands for joints. Each is a tensor of shape (environments, joints), or None.

    Examples:
        >>> cfg = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=40.0, damping=1.0)
        >>> arm = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=1, device="cpu")
        >>> zeros = np.zeros((1, 2), np.float32)
        >>> command = actuon.lab.ArticulationActions(joint_positions=zeros + 0.5)
        >>> arm.compute(command, zeros, zeros).joint_efforts
        array([[20., 20.]], dtype=float32)
    """

    joint_positions: Tensor | None = None
    joint_velocities: Tensor | None = None
    joint_efforts: Tensor | None = None
    joint_indices: IdsLike = None


@dataclass(frozen=True)
class _OnRobot:
    """Efforts of a model on robots. See `ActuatorBase._attach`."""

    computed: wp.array
    applied: wp.array
    columns: np.ndarray

    def efforts(self) -> tuple[Tensor, Tensor]:
        """Return computed and applied efforts of the last step, copied."""
        return copied_columns(self.computed, self.columns), copied_columns(self.applied, self.columns)


class ActuatorBase:
    """Model of a group of joints, built by `ActuatorGroups`, or by ``cfg.class_type(cfg, ...)``.

    Every number is a tensor of shape (environments, joints), of PyTorch if that is loaded, otherwise of NumPy. It
    shares memory with the kernel: values that you write into it act at the next `compute`.

    Args:
        cfg: The config.
        joint_names: Names of the joints, in the order of the columns.
        joint_ids: Their indices in the articulation, or ``slice(None)``.
        num_envs: Number of environments.
        device: Device of the model.
        stiffness: Value of the asset, a number or of shape (environments, joints), like all following ones.
        damping: Value of the asset.
        armature: Value of the asset.
        friction: Value of the asset.
        dynamic_friction: Value of the asset.
        viscous_friction: Value of the asset.
        effort_limit: Value of the asset.
        velocity_limit: Value of the asset.

    Examples:
        >>> cfg = actuon.lab.IdealPDActuatorCfg(["hip", "knee"], stiffness=40.0, damping=1.0)
        >>> legs = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=2, device="cpu")
        >>> legs.stiffness[:, 1] = 60.0  # of the knees
        >>> legs.numbers("stiffness")
        array([[40., 60.],
               [40., 60.]], dtype=float32)
    """

    stiffness: Tensor
    """Position gain [N·m/rad]."""
    damping: Tensor
    """Velocity gain [N·m·s/rad]."""
    armature: Tensor
    """Rotor inertia at the joint [kg·m²]."""
    friction: Tensor
    """Dry friction of the joint at rest [N·m]."""
    dynamic_friction: Tensor
    """Dry friction of the moving joint [N·m]."""
    viscous_friction: Tensor
    """Viscous friction [N·m·s/rad]."""
    effort_limit: Tensor
    """Largest effort of the model [N·m]."""
    effort_limit_sim: Tensor
    """Largest effort in the engine [N·m]."""
    velocity_limit: Tensor
    """Largest speed of the model [rad/s]."""
    velocity_limit_sim: Tensor
    """Largest speed in the engine [rad/s]."""
    is_implicit_model: ClassVar[bool] = False
    _motor_side: ClassVar[tuple[str, ...]] = ("effort_limit", "saturation_effort")
    _extra: ClassVar[tuple[str, ...]] = ()
    """Further parameters of a subclass."""

    def __init__(
        self,
        cfg: ActuatorBaseCfg,
        joint_names: Sequence[str],
        joint_ids: IndexLike | slice,
        num_envs: int,
        device: DeviceLike,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        armature: ArrayLike = 0.0,
        friction: ArrayLike = 0.0,
        dynamic_friction: ArrayLike = 0.0,
        viscous_friction: ArrayLike = 0.0,
        effort_limit: ArrayLike = float("inf"),
        velocity_limit: ArrayLike = float("inf"),
    ):
        self.cfg: Any = copy.copy(cfg)
        """Copy of the config, with its limits filled in."""
        self.joint_names = list(joint_names)
        """Names of the joints, in the order of the columns."""
        self.joint_indices = joint_ids
        """Their indices in the articulation."""
        self.num_envs = int(num_envs)
        self.shape = (self.num_envs, len(self.joint_names))
        """Shape of parameters, (environments, joints)."""
        try:
            self.device = wp.get_device(warp_device(device))
        except (ValueError, RuntimeError) as error:
            known = ", ".join(map(str, wp.get_devices()))
            raise ParameterError(f"{self._where}: device: got {device!r}; there are: {known}") from error
        if not self.joint_names or self.num_envs < 1:
            raise ParameterError(f"{self._where}: got {len(self.joint_names)} joints and {num_envs} environments")
        if len(joint_numbers(joint_ids, self.num_joints)) != self.num_joints:
            raise ParameterError(
                f"{self._where}: joint_ids: got {joint_ids!r}; must be {self.num_joints}, one per joint"
            )
        assets = {
            "stiffness": stiffness,
            "damping": damping,
            "armature": armature,
            "friction": friction,
            "dynamic_friction": dynamic_friction,
            "viscous_friction": viscous_friction,
            "effort_limit": effort_limit,
            "effort_limit_sim": effort_limit,
            "velocity_limit": velocity_limit,
            "velocity_limit_sim": velocity_limit,
        }
        self._assets = {name: asset_values(f"{self._where}: {name}", v, self.shape) for name, v in assets.items()}
        self.asset_places: dict[str, list[str]] = {}
        """Places of values in the asset, by parameter and for each joint, for the table."""
        take_newer_names(self._where, self.cfg, self.joint_names)
        self.parameters = GroupParameters(
            self._where, self.joint_names, self.num_envs, self._resolve(), getattr(cfg, "seed", None), self.device
        )
        """Values of all parameters, and the draws that change them."""
        for name in self._united():
            self.parameters.unite(name, f"{name}_sim")
        self._efforts: tuple[Tensor, Tensor] | None = None
        self._own_effort: Any = None
        """Efforts that the `compute` of a subclass returned on a robot."""
        self._on_robot: _OnRobot | None = None
        self.stages = tuple(self.make_stages())
        """Stages, in order; after the first step, or on robots, the running ones."""

    @property
    def _where(self) -> str:
        return type(self).__name__

    def _united(self) -> list[str]:
        """Return limits of the model that are those of the engine."""
        return []

    @property
    def num_joints(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    if not TYPE_CHECKING:  # type checkers know the annotated parameters, and refuse other names

        def __getattr__(self, name):
            parameters = self.__dict__.get("parameters")
            if parameters is not None and name in parameters.arrays:
                return self._view(parameters.arrays[name])
            raise AttributeError(f"'{type(self).__name__}' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        parameters = self.__dict__.get("parameters")
        if parameters is not None and name in parameters.arrays:
            raise ParameterError(
                f"{self._where}.{name}: is a tensor that the kernel reads; write into it: {name}[:] = ..."
            )
        super().__setattr__(name, value)

    def _view(self, array: wp.array) -> Tensor:
        """Return an array's memory as a tensor."""
        return viewed(array, self.shape)

    @property
    def computed_effort(self) -> Tensor:
        """Requested effort of the last step on a robot, or of the last `compute`, before limits [N·m]."""
        return self._last_efforts()[0]

    @computed_effort.setter
    def computed_effort(self, effort: Tensor) -> None:
        self._efforts = effort, effort if self._efforts is None else self._efforts[1]

    @property
    def applied_effort(self) -> Tensor:
        """Effort of the last step on a robot, or of the last `compute`, after the limits of the model [N·m]."""
        return self._last_efforts()[1]

    @applied_effort.setter
    def applied_effort(self, effort: Tensor) -> None:
        self._efforts = effort if self._efforts is None else self._efforts[0], effort

    def _last_efforts(self) -> tuple[Tensor, Tensor]:
        if self._efforts is None:
            if self._on_robot is not None:
                self._efforts = self._on_robot.efforts()
            else:
                zeros = wp.zeros_like(self.parameters.arrays["stiffness"])
                self._efforts = self._view(zeros), self._view(wp.clone(zeros))
        return self._efforts

    def _attach(
        self, on_change: Callable[[str], None], computed: wp.array, applied: wp.array, columns: np.ndarray
    ) -> None:
        """Attach the model to robots.

        Args:
            on_change: Called when a parameter was drawn, to update the engine.
            computed: Requested efforts of each step [N·m], shape (environments, D).
            applied: Applied efforts of each step [N·m], shape (environments, D).
            columns: The joints among the D, shape (joints,).
        """
        self.parameters.on_change, self._on_robot = on_change, _OnRobot(computed, applied, columns)

    def _efforts_changed(self) -> None:
        """Update efforts after a step on robots."""
        self._efforts = None

    def _detach(self) -> None:
        """Detach the model from robots. The last efforts stay."""
        self._last_efforts()
        self.parameters.on_change = self._on_robot = None

    def _resolve(self) -> dict[str, Resolved]:
        names = [name for name in PARAMETERS if name in self._assets or name in self._extra]
        resolved = {name: self._resolve_one(name) for name in names}
        if getattr(self.cfg, "velocity_limit", None) is None:
            inner = resolved["velocity_limit_sim"]
            resolved["velocity_limit"] = Resolved(
                "velocity_limit",
                inner.asset,
                inner.config,
                inner.used,
                inner.source.replace("config", "velocity_limit_sim"),
            )
        if self.cfg.effort_limit_sim is None:
            used = np.full(self.shape, NO_LIMIT_SIM, np.float32)
            nothing: list[float | None] = [None] * self.num_joints
            asset = self._assets["effort_limit_sim"]
            resolved["effort_limit_sim"] = Resolved("effort_limit_sim", asset, nothing, used, "model: no second limit")
        return resolved

    def _resolve_one(self, name: str) -> Resolved:
        given = getattr(self.cfg, name, None)
        asset = self._assets.get(name)
        if given is None:
            if asset is None:
                raise ParameterError(
                    f"{self._where}: {name} is not given, and the asset has none; {name} must be given"
                )
            return Resolved(name, asset, [None] * self.num_joints, asset, "asset")
        numbers = values_by_joint(f"{self._where}: {name}", given, self.joint_names, PARAMETERS[name])
        used = np.broadcast_to(np.array(numbers, np.float32), self.shape)
        source = "config"
        ratio = getattr(self.cfg, "gear_ratio", 1.0)
        if ratio != 1.0 and name in (*self._motor_side, "velocity_limit"):
            used = used / np.float32(ratio) if name == "velocity_limit" else used * np.float32(ratio)
            source = f"config, motor side, {'÷' if name == 'velocity_limit' else '×'} {ratio:g}"
        return Resolved(name, asset, list(numbers), used, source)

    @functools.cached_property
    def _on_tensors(self) -> TensorStep:
        step = TensorStep(self._where, self.shape, self.config(), self.device)
        if self._on_robot is None:
            self.stages = step.stages
        return step

    def make_stages(self) -> list[Component]:
        """Return the stages, in order. Those of a subclass run on robots and in `compute`, compiled.

        Examples:
            >>> class LimitedActuator(actuon.lab.IdealPDActuator):
            ...     def make_stages(self):
            ...         return [*super().make_stages(), actuon.ClampingMaxEffort(5.0)]
        """
        delay = self._delay()
        return [*([] if delay is None else [delay]), self._controller(), *self._clamping()]

    def config(self) -> ActuatorConfig:
        """Return the motor model. Its stages have a value for each environment and joint, in the memory of the group's
        tensors."""
        return ActuatorConfig(stages=self.stages, effort_mode=getattr(self.cfg, "effort_mode", EXPLICIT))

    def stages_on_robots(self) -> tuple[Component, ...]:
        """Return the stages that run on robots: those that call `compute` if a subclass overrides it."""
        if type(self).compute is self._plain_compute:
            return self.stages
        return ControllerOfModel(self, ArticulationActions), ClampingOfModel(self)

    @property
    def _plain_compute(self) -> Any:
        """`compute` of the class that comes with Actuon."""
        own = next(cls for cls in type(self).__mro__ if cls.__module__.startswith(f"{__package__}."))
        return own.compute  # type: ignore[attr-defined]

    @property
    def _num_envs(self) -> int:
        """Isaac Lab's name of `num_envs`, for subclasses."""
        return self.num_envs

    @property
    def _device(self) -> str:
        """Isaac Lab's name of `device`, for subclasses."""
        return str(self.device)

    def _clip_effort(self, effort: Tensor) -> Tensor:
        """Return efforts clipped to ``effort_limit``. Isaac Lab's method, for subclasses."""
        return effort.clip(-self.effort_limit, self.effort_limit)

    def _controller(self) -> Controller:
        return ControllerPD(self.parameters.arrays["stiffness"], self.parameters.arrays["damping"])

    def _delay(self) -> Delay | None:
        return None

    def _clamping(self) -> list[Clamping]:
        return [ClampingMaxEffort(self.parameters.arrays["effort_limit"])]

    def compute(self, control_action: ArticulationActions, joint_pos: Array, joint_vel: Array) -> ArticulationActions:
        """Compute efforts from commands. On robots, one of a subclass runs in Python, and others do not run.

        Args:
            control_action: Targets [rad, rad/s] and feedforward [N·m]; None means zero.
            joint_pos: Positions [rad], shape (environments, joints).
            joint_vel: Velocities [rad/s], shape (environments, joints).

        Returns:
            ``control_action`` with the efforts; its positions and velocities are None.

        Raises:
            ArrayError: A PyTorch tensor requires grad; efforts have no gradient.

        Examples:
            >>> gains = {"stiffness": 40.0, "damping": 1.0}
            >>> cfg = actuon.lab.IdealPDActuatorCfg([".*"], **gains, effort_limit=15.0)
            >>> arm = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=1, device="cpu")
            >>> command = actuon.lab.ArticulationActions(np.array([[0.1, 0.5]], np.float32))
            >>> zeros = np.zeros((1, 2), np.float32)
            >>> arm.compute(command, zeros, zeros).joint_efforts
            array([[ 4., 15.]], dtype=float32)
        """
        self._step(control_action, joint_pos, joint_vel)
        control_action.joint_efforts = like(self.applied_effort, joint_pos)
        control_action.joint_positions = None
        control_action.joint_velocities = None
        return control_action

    def _step(self, action: ArticulationActions, joint_pos: Array, joint_vel: Array) -> None:
        targets = action.joint_positions, action.joint_velocities, action.joint_efforts
        self._efforts = self._on_tensors.run(joint_pos, joint_vel, *targets)

    def reset(self, env_ids: IdsLike = None) -> None:
        """Clear the memory of environments: delayed commands, hidden states.

        Args:
            env_ids: Which environments. None, or ``slice(None)``, means all.
        """
        ids = self.parameters.ids(env_ids)
        if ids.size and "_on_tensors" in vars(self):
            self._on_tensors.reset(ids)

    def numbers(self, name: str) -> np.ndarray:
        """Return a parameter as NumPy, shape (environments, joints)."""
        return self.parameters.numbers(name)

    def randomize(
        self,
        name: str | None = None,
        distribution: Distribution | None = None,
        env_ids: IdsLike = None,
        relative_to: str = "baseline",
        seed: int | None = None,
        *,
        from_fit: PathLike | None = None,
        joints: Mapping[str, str] | None = None,
    ) -> DrawnMotors | None:
        """Draw a parameter for each environment; or, with ``from_fit``, all fitted parameters together.

        Args:
            name: Name of a parameter, such as ``"stiffness"``.
            distribution: `Uniform`, `LogUniform` or `Normal`.
            env_ids: Which environments. Default: all.
            relative_to: ``"baseline"``, the built value, or ``"current"``.
            seed: Seed of this draw. Default: the group's generator, with the seed of the config.
            from_fit: A ``fleet.yaml`` or the ``actuon.yaml`` of a fit, instead of a name and a distribution. Each joint
                gets a motor that is drawn around one of the fitted ones.
            joints: With ``from_fit``, regexes of joints, and the joint of the file that each is drawn from. Default:
                all, by their names.

        Returns:
            With ``from_fit``, which motor each joint was drawn around; else None.

        Examples:
            >>> cfg = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=40.0, damping=1.0, seed=0)
            >>> arm = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=8, device="cpu")
            >>> arm.randomize("stiffness", actuon.lab.Uniform(0.8, 1.2), env_ids=[0, 1])
            >>> len(np.unique(arm.numbers("stiffness")))
            5
        """
        return self.parameters.draw(name, distribution, env_ids, relative_to, seed, from_fit, joints)

    def _drawn(self) -> dict[str, np.ndarray]:
        """Return draws besides those of parameters, a row for each environment, and the state of the generator."""
        return {STREAM: stream_of(self.parameters.rng)}

    def _check_drawn(self, where: str, drawn: Mapping[str, np.ndarray]) -> None:
        """Raise an error for arrays that `_drawn` cannot return.

        Args:
            where: Prefix of the name of each array in an error.
            drawn: Arrays of a file.
        """
        check_stream(f"{where}{STREAM}", drawn[STREAM])

    def _redraw(self, drawn: Mapping[str, np.ndarray]) -> None:
        """Load the result of `_drawn`."""
        set_stream(self.parameters.rng, drawn[STREAM])

    @property
    def joint_property_resolution_table(self) -> dict[str, list[list[str | float | None]]]:
        """Rows of each parameter, one for each joint: name, index, value of the asset, of the config, used value."""
        return self.parameters.rows(self.joint_indices)

    def resolution_table(self) -> str:
        """Return `joint_property_resolution_table` as text, with units and sources."""
        return self.parameters.text(self.asset_places)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_joints} joints in {self.num_envs} environments on {self.device}>"
