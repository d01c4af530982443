# SPDX-License-Identifier: Apache-2.0
"""What all models of groups share: resolved parameters as tensors, and one fused actuator underneath."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp

from ...actuator import Actuator
from ...arrays import refuse_autograd
from ...components.controllers.controller import Controller
from ...components.controllers.pd import ControllerPD
from ...components.delay import Delay
from ...components.limits.clamping import Clamping
from ...components.limits.max_effort import ClampingMaxEffort
from ...errors import ParameterError, listed
from ...sim.ids import ids_to_reset
from ...typing import Array, ArrayLike, DeviceLike, IdsLike, IndexLike, Tensor
from .randomisation import Distribution
from .resolution import PARAMETERS, Resolved, asset_values, joint_numbers, shown, values_by_joint
from .tensors import like, warp_device

if TYPE_CHECKING:
    from .cfg import ActuatorBaseCfg

NO_LIMIT_SIM = 1.0e9
"""What an explicit model gives the engine as effort limit, so that it does not clip again [N·m]."""


@dataclass
class ArticulationActions:
    """Commands for joints. Each is a tensor of shape (environments, joints), or None."""

    joint_positions: Tensor | None = None
    joint_velocities: Tensor | None = None
    joint_efforts: Tensor | None = None
    joint_indices: IdsLike = None


class ActuatorBase:
    """A group of joints and its model. Made by ``cfg.class_type(cfg, ...)``.

    Every parameter is a tensor of shape (environments, joints), PyTorch where that is loaded and NumPy otherwise, that
    shares its memory with what the kernel reads: writing into it takes effect at the next `compute`.

    Args:
        cfg: The config.
        joint_names: Names of the joints, in the order of the columns.
        joint_ids: Their indices in the articulation, or ``slice(None)``.
        num_envs: Number of environments.
        device: Where to run.
        stiffness: Value of the asset, a number or of shape (environments, joints); so are the following.
        damping: Value of the asset.
        armature: Value of the asset.
        friction: Value of the asset.
        dynamic_friction: Value of the asset.
        viscous_friction: Value of the asset.
        effort_limit: Value of the asset.
        velocity_limit: Value of the asset.
    """

    is_implicit_model: ClassVar[bool] = False
    _motor_side: ClassVar[tuple[str, ...]] = ("effort_limit", "saturation_effort")
    _extra: ClassVar[tuple[str, ...]] = ()
    """Parameters beyond those that all models have."""
    _on_change: Callable[[str], None] | None = None
    """Told when a parameter was drawn anew, for what the engine holds."""

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
        """A copy of the config. The one that was given is never changed."""
        self.joint_names = list(joint_names)
        """Names of the joints, in the order of the columns."""
        self.joint_indices = joint_ids
        """Their indices in the articulation."""
        self.num_envs = int(num_envs)
        self.shape = (self.num_envs, len(self.joint_names))
        """(environments, joints)."""
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
        self._resolved = self._resolve()
        self._values = {r.name: wp.array(self._spread(r), device=self.device) for r in self._resolved.values()}
        self._baseline = {name: array.numpy().copy() for name, array in self._values.items()}
        self._rng = np.random.default_rng(getattr(cfg, "seed", None))
        self._zeros = self._view(wp.zeros(self.num_envs * self.num_joints, dtype=wp.float32, device=self.device))
        self._flattened: dict[str, tuple[Any, Any]] = {}
        self._efforts = [self._view(wp.zeros_like(self._values["stiffness"])) for _ in range(2)]
        self._actuator = self._build()
        self._state = self._actuator.state()

    @property
    def _where(self) -> str:
        return type(self).__name__

    @property
    def num_joints(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return self._view(values[name])
        raise AttributeError(f"'{type(self).__name__}' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_values", {}):
            raise ParameterError(
                f"{self._where}.{name}: is a tensor that the kernel reads; write into it: {name}[:] = ..."
            )
        super().__setattr__(name, value)

    def _view(self, array: wp.array) -> Tensor:
        """Memory of ours as a tensor."""
        if "torch" in sys.modules:
            return wp.to_torch(array).view(self.shape)
        return array.numpy().reshape(self.shape)

    @property
    def computed_effort(self) -> Tensor:
        """What the last `compute` wanted, before limits [N·m]."""
        return self._efforts[0]

    @property
    def applied_effort(self) -> Tensor:
        """What limits left of it [N·m]."""
        return self._efforts[1]

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

    def _spread(self, resolved: Resolved) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(resolved.used, self.shape), dtype=np.float32).ravel()

    def _build(self) -> Actuator:
        """The fused actuator of the group: all environments and joints, in one kernel."""
        return Actuator(
            wp.array(np.arange(self.num_envs * self.num_joints, dtype=np.uint32), device=self.device),
            self._controller(),
            delay=self._delay(),
            clamping=self._clamping(),
            control_computed_output_attr="computed",
            accumulate=False,
        )

    def _controller(self) -> Controller:
        return ControllerPD(self._values["stiffness"], self._values["damping"])

    def _delay(self) -> Delay | None:
        return None

    def _clamping(self) -> list[Clamping]:
        return [ClampingMaxEffort(self._values["effort_limit"])]

    def compute(self, control_action: ArticulationActions, joint_pos: Array, joint_vel: Array) -> ArticulationActions:
        """Turn commands into efforts.

        Args:
            control_action: Targets [rad, rad/s] and feedforward [N·m]; None means zero.
            joint_pos: Positions [rad], shape (environments, joints).
            joint_vel: Velocities [rad/s], shape (environments, joints).

        Returns:
            ``control_action`` itself, with the efforts; positions and velocities are None.

        Raises:
            ArrayError: A PyTorch tensor requires grad, which the efforts would not have.
        """
        self._step(control_action, joint_pos, joint_vel)
        control_action.joint_efforts = like(self._efforts[1], joint_pos)
        control_action.joint_positions = None
        control_action.joint_velocities = None
        return control_action

    def _step(self, action: ArticulationActions, joint_pos: Array, joint_vel: Array) -> None:
        computed, applied = self._new(), self._new()
        sim = {
            "joint_q": self._flat("joint_pos", joint_pos),
            "joint_qd": self._flat("joint_vel", joint_vel),
            "joint_target_q": self._flat("joint_positions", action.joint_positions),
            "joint_target_qd": self._flat("joint_velocities", action.joint_velocities),
            "joint_act": self._flat("joint_efforts", action.joint_efforts),
            "joint_f": applied,
            "computed": computed,
        }
        self._actuator.step(sim, sim, self._state, self._state)
        self._efforts[:] = computed.reshape(self.shape), applied.reshape(self.shape)

    def _new(self) -> Tensor:
        """A flat tensor for the efforts of one step, in the kind that the model has. What was given out stays."""
        count, torch = self.shape[0] * self.shape[1], sys.modules.get("torch")
        if torch is not None:
            return torch.empty(count, dtype=torch.float32, device=wp.device_to_torch(self.device))
        return np.empty(count, np.float32) if self.device.is_cpu else wp.empty(count, wp.float32, self.device)

    def _flat(self, name: str, tensor: Tensor | None) -> Tensor:
        """A tensor of shape (environments, joints) as a flat one, without a copy where its memory allows."""
        if tensor is None:
            tensor = self._zeros
        refuse_autograd(tensor, f"{self._where}: {name}")
        known, flat = self._flattened.get(name, (None, None))
        if (
            tensor is known
            and tensor.shape == self.shape
            and tensor.dtype == flat.dtype
            and tensor.is_contiguous()
            and flat.data_ptr() == tensor.data_ptr()
        ):
            return flat
        shape = getattr(tensor, "shape", ())
        if tuple(shape) != self.shape:
            raise ParameterError(
                f"{self._where}: {name}: got {tuple(shape) or tensor}; must have the shape {self.shape}"
            )
        if hasattr(tensor, "detach"):
            plain = not tensor.requires_grad and tensor.itemsize == 4 and tensor.is_floating_point()
            flat = tensor.reshape(-1) if plain else tensor.detach().reshape(-1).float()
            if plain and tensor.is_contiguous():
                self._flattened[name] = (tensor, flat)
            return flat
        if isinstance(tensor, wp.array):
            return tensor.contiguous().flatten()
        array = np.ascontiguousarray(tensor, dtype=np.float32).ravel()
        return array if self.device.is_cpu else wp.array(array, device=self.device)

    def reset(self, env_ids: IdsLike = None) -> None:
        """Let environments forget the past. None, or ``slice(None)``, means all."""
        ids = self._env_ids(env_ids)
        if self._state is not None and ids.size:
            mask = np.zeros(self.shape, dtype=bool)
            mask[ids] = True
            everyone = len(ids) == self.num_envs
            self._state.reset(None if everyone else wp.array(mask.ravel(), device=self.device))

    def _env_ids(self, env_ids: IdsLike) -> np.ndarray:
        return ids_to_reset("env_ids", env_ids, self.num_envs)

    def randomize(
        self,
        name: str,
        distribution: Distribution,
        env_ids: IdsLike = None,
        relative_to: str = "baseline",
        seed: int | None = None,
    ) -> None:
        """Draw a parameter anew, for each environment.

        Args:
            name: Any parameter, such as ``"stiffness"``.
            distribution: What to draw, and what it does: `Uniform`, `LogUniform` or `Normal`.
            env_ids: Which environments. Default: all.
            relative_to: ``"baseline"``, the value that the group was made with, or ``"current"``.
            seed: Of this draw alone. Default: the group's own stream, which starts from ``cfg.seed``.
        """
        if name not in self._values:
            raise ParameterError(f"{self._where}: no parameter '{name}'; {listed(name, self._values, 'parameters')}")
        if not isinstance(distribution, Distribution):
            raise ParameterError(f"{self._where}: got {distribution!r}; must be a Uniform, LogUniform or Normal")
        if relative_to not in ("baseline", "current"):
            raise ParameterError(f"relative_to: got {relative_to!r}; must be 'baseline' or 'current'")
        ids = self._env_ids(env_ids)
        rng = self._rng if seed is None else np.random.default_rng(seed)
        stream = rng.bit_generator.state
        drawn = distribution.draw(rng, (len(ids), self.num_joints))
        now = self._values[name].numpy().copy().reshape(self.shape)
        start = self._baseline[name].reshape(self.shape) if relative_to == "baseline" else now
        changed = distribution.apply(start[ids], drawn)
        before = now.copy()
        try:
            PARAMETERS[name].check(f"{self._where}.{name}", changed)
            now[ids] = changed
            self._values[name].assign(now.ravel())
            if self._on_change is not None:
                self._on_change(name)
        except BaseException:
            self._values[name].assign(before.ravel())
            rng.bit_generator.state = stream
            raise

    def is_given(self, name: str) -> bool:
        """Whether the config says what a parameter is, and not the asset."""
        return self._resolved[name].source != "asset"

    def numbers(self, name: str) -> np.ndarray:
        """A parameter as NumPy, shape (environments, joints)."""
        return self._values[name].numpy().reshape(self.shape)

    @property
    def joint_property_resolution_table(self) -> dict[str, list[list[str | float | None]]]:
        """For each parameter, a row per joint: name, index, the asset's value, the config's, the one used."""
        ids = joint_numbers(self.joint_indices, self.num_joints)
        table = {}
        for name, r in self._resolved.items():
            asset = [None] * self.num_joints if r.asset is None else r.asset[0].tolist()
            rows = zip(self.joint_names, map(int, ids), asset, r.config, r.used[0].tolist(), strict=True)
            table[name] = [list(row) for row in rows]
        return table

    def resolution_table(self) -> str:
        """Print, and return, the same as text, with units and sources."""
        text = self._table_text()
        print(text)
        return text

    def _table_text(self) -> str:
        header = ("joint", "parameter", "asset", "config", "used", "unit", "source")
        rows: list[Sequence[str]] = [header]
        for i, joint in enumerate(self.joint_names):
            for name, r in self._resolved.items():
                asset = None if r.asset is None else float(r.asset[0, i])
                numbers = (shown(asset), shown(r.config[i]), shown(float(r.used[0, i])))
                rows.append((joint, name, *numbers, PARAMETERS[name].unit, r.source))
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_joints} joints in {self.num_envs} environments on {self.device}>"
