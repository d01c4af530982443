# SPDX-License-Identifier: Apache-2.0
"""Chains of joints in many environments, over PyTorch tensors of shape (environments, joints)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import warp as wp

from ...actuator.actuator import Actuator
from ...actuator.builder import ActuatorBuilder
from ...actuator.config import ActuatorConfig
from ...arrays import require_detached
from ...components.component import Component
from ...components.effects.friction import EffectFriction
from ...components.kinds import Transmission
from ...errors import ArrayError, ArrayTypeError, ParameterError, StructureError, listed, located
from ...sim.ids import ids_to_reset, ids_to_write
from ...typing import IdsLike, PathLike
from ..attachment import signal_attr
from ..engine_inertia import inertia_at_joints
from ..fitted_motors import DrawnMotors
from ..motor_supply import BatteryPool, RobotBatteries, number_dofs
from ..random_motors import randomize_from_fit
from .engine_side import friction_at_joints

_HELD = {
    "inertia of the rotor": "randomise it with mjlab's dr.dof_armature",
    "friction": "add the event term actuon.mjlab.solve_friction, or randomise it with mjlab's dr.dof_frictionloss",
}
"""What the model holds of chains, and what to do instead of changing a parameter."""

HELD_FIELDS = ("dof_armature", "dof_frictionloss", "dof_damping")
"""Fields of a model that hold something of a chain."""

INPUTS = {
    "pos": "joint_q",
    "vel": "joint_qd",
    "position_target": "joint_target_q",
    "velocity_target": "joint_target_qd",
    "effort_target": "joint_act",
}
"""What mjlab calls the tensors of a command, and what an actuator calls their arrays."""


@dataclass(frozen=True)
class _Values:
    """One parameter of one actuator."""

    stage: Component
    name: str
    columns: np.ndarray
    """The joints that have it."""
    array: wp.array
    """Flat: environments, and in each the ``columns``."""
    defaults: np.ndarray
    """What it was at first, shape (environments, columns)."""

    @property
    def is_whole(self) -> bool:
        """Whether it takes whole numbers."""
        return self.array.dtype is wp.int32


class EnvironmentChains:
    """The chains of some joints in all environments, and what they remember.

    A step has two halves: `run` gives the efforts, as often as it is asked, and `advance` says that physics has moved
    on. mjlab asks for efforts after each reset too, of all environments, and physics does not move on then.

    Args:
        configs: The chain of each joint, by name, in the order of the columns.
        in_engine: For each joint, whether the engine solves its friction.
        num_envs: Number of environments.
        device: Where to run.
        dt: Time step of physics [s].
    """

    def __init__(
        self,
        configs: Mapping[str, ActuatorConfig],
        in_engine: Sequence[bool],
        num_envs: int,
        device: wp.Device,
        dt: float,
    ):
        self.joint_names = tuple(configs)
        self.shape = (num_envs, len(configs))
        self.device = device
        self._torch_device = torch.device(wp.device_to_torch(device))
        self._dt = dt
        self.actuators = self._build(configs, in_engine)
        """As few as there are kinds of chains; each DOF is an environment's joint."""
        width = self.shape[1]
        places = [actuator.effort_indices.numpy().astype(np.int64) for actuator in self.actuators]
        number_dofs(self.actuators, [at // width for at in places], places)
        self._columns = [np.unique(at % width) for at in places]
        self._batteries = RobotBatteries(self.actuators, [at // width for at in places], BatteryPool())
        self._before = [actuator.state() for actuator in self.actuators]
        self._after = [actuator.state() for actuator in self.actuators]
        self._batteries.join(self._before)
        self._has_run = False
        self._signals = {
            name: wp.full(self.shape, np.nan, dtype=wp.float32, device=device)
            for name in dict.fromkeys(name for actuator in self.actuators for name in actuator.signals)
        }
        inputs = dict.fromkeys(name for actuator in self.actuators for name in actuator.custom_inputs)
        self._inputs = {name: wp.zeros(self.shape, dtype=wp.float32, device=device) for name in inputs}
        self._kept = {signal_attr(name): array.flatten() for name, array in self._signals.items()}
        self._kept |= {name: array.flatten() for name, array in self._inputs.items()}
        self._parameters = self._find_parameters()
        self.friction_is_handed_over = False
        """Whether the model gets friction at each step, so that its parameters may change."""
        wp.synchronize_device(device)

    def _build(self, configs: Mapping[str, ActuatorConfig], in_engine: Sequence[bool]) -> list[Actuator]:
        built: list[Actuator] = []
        self._solved: list[Actuator] = []
        rows = np.arange(self.shape[0]) * self.shape[1]
        for solved in (True, False):
            builder = ActuatorBuilder()
            for column, (name, config) in enumerate(configs.items()):
                if in_engine[column] is solved:
                    with located(f"joint '{name}'"):
                        builder.add(config, rows + column)
            own = builder.finalize(self.device, accumulate=False, control_signal_attrs=signal_attr, in_engine=solved)
            built += own
            self._solved += own if solved else []
        return built

    def _find_parameters(self) -> dict[str, list[_Values]]:
        """By kind of stage and name, as in ``"controller.kp"``, and by the position of the stage, as in ``"1.kp"``."""
        found: dict[str, list[_Values]] = {}
        for actuator, columns in zip(self.actuators, self._columns, strict=True):
            own: dict[str, _Values] = {}
            for position, stage in enumerate(actuator.stages):
                for name, array in stage.parameters().items():
                    if name in stage.SHARED_PARAMS or array.shape != (actuator.num_actuators,):
                        continue
                    start = array.numpy().reshape(self.shape[0], -1).copy()
                    values = _Values(stage, name, columns, array, start)
                    own[f"{position}.{name}"] = values
                    if stage.kind is not None:
                        own.setdefault(f"{stage.kind.value}.{name}", values)
            for key, values in own.items():
                found.setdefault(key, []).append(values)
        return found

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What `parameter` and `set_parameter` know."""
        return tuple(self._parameters)

    @property
    def signals(self) -> dict[str, torch.Tensor]:
        """What stages offer beside the effort, such as a motor's temperature, each of shape (environments, joints).

        The memory is shared with the kernel. A joint whose chain does not offer a signal has NaN there.
        """
        return {name: wp.to_torch(array) for name, array in self._signals.items()}

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What stages read beside targets, each of shape (environments, joints), to be written to. Zero at first."""
        return {name: wp.to_torch(array) for name, array in self._inputs.items()}

    def run(self, command: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Give the efforts [N·m or N] that follow a command, shape (environments, joints).

        Args:
            command: The tensors of `INPUTS`, by mjlab's names, float32 of shape (environments, joints).
        """
        arrays = {array: self._flat(name, command[name]) for name, array in INPUTS.items()}
        effort = torch.empty(self.shape, dtype=torch.float32, device=self._torch_device)
        control = {**arrays, **self._kept, "joint_f": effort.view(-1)}
        with self._on_stream_of_torch():
            for actuator, before, after in zip(self.actuators, self._before, self._after, strict=True):
                actuator.step(arrays, control, before, after, self._dt)
            self._batteries.share(self._after)
        self._has_run = True
        return effort

    def advance(self) -> None:
        """Physics has moved on by a time step: what the last `run` led to is the past now."""
        if self._has_run:
            self._before, self._after = self._after, self._before
            self._has_run = False

    def reset(self, env_ids: IdsLike = None) -> None:
        """Let environments forget the past, and no others.

        Args:
            env_ids: Which. None means all.
        """
        ids = ids_to_reset("env_ids", env_ids, self.shape[0])
        if not ids.size:
            return
        chosen = np.zeros(self.shape[0], dtype=bool)
        chosen[ids] = True
        with self._on_stream_of_torch():
            for states, columns in zip(zip(self._before, self._after, strict=True), self._columns, strict=True):
                mask = wp.array(np.repeat(chosen, len(columns)), dtype=wp.bool, device=self.device)
                for state in states if self._has_run else states[:1]:
                    if state is not None:
                        state.reset(None if chosen.all() else mask)

    def parameter(self, name: str, default: bool = False) -> torch.Tensor:
        """A copy of a parameter, shape (environments, joints); NaN for joints whose chain does not have it.

        Args:
            name: Kind of the stage and parameter, as in ``"controller.kp"``, or its position, as in ``"1.kp"``.
            default: What it was at first, instead of what it is.
        """
        whole = np.full(self.shape, np.nan, dtype=np.float32)
        for values in self._values(name):
            whole[:, values.columns] = values.defaults if default else self._now(values)
        return torch.as_tensor(whole, device=self._torch_device)

    def is_whole(self, name: str) -> bool:
        """Whether a parameter takes whole numbers, as a delay in steps does."""
        return self._values(name)[0].is_whole

    def set_parameter(self, name: str, values: torch.Tensor, env_ids: IdsLike = None) -> None:
        """Change a parameter of some environments. Nothing is changed where a value is not allowed.

        Args:
            name: As for `parameter`.
            values: One number for all, or what fits (chosen environments, joints). Those of joints whose chain does
                not have the parameter are not used.
            env_ids: Which environments, each once. None means all.
        """
        found = self._values(name)
        ids = ids_to_write("env_ids", env_ids, self.shape[0])
        shape = (len(ids), self.shape[1])
        given = torch.as_tensor(values).detach().cpu().numpy()
        try:
            given = np.broadcast_to(given, shape)
        except ValueError as error:
            raise ParameterError(f"{name}: got values of shape {given.shape}; must fit {shape}") from error
        changed = []
        for own in found:
            numbers = self._now(own)
            new = given[:, own.columns]
            where = f"{type(own.stage).__name__}.{own.name}"
            if own.is_whole and np.array_equal(new, np.rint(new)):
                new = new.astype(np.int64)
            own.stage.declared()[own.name].check(where, new)
            numbers[ids] = new
            own.stage._check_together(own.stage.arguments() | {own.name: numbers.ravel()})
            changed.append(numbers.ravel())
        may_be_held = any(isinstance(own.stage, (Transmission, EffectFriction)) for own in found)
        with self._on_stream_of_torch(), self._held_stays(name) if may_be_held else contextlib.nullcontext():
            for own, numbers in zip(found, changed, strict=True):
                own.stage.write_together({own.name: numbers})

    def draw_motors(
        self, from_fit: PathLike, joints: Mapping[str, str] | None, env_ids: IdsLike, seed: int | None
    ) -> DrawnMotors:
        """Give environments motors that are drawn from fitted ones. What the model holds of them, `held` tells.

        Args:
            from_fit: A ``fleet.yaml``, or the ``actuon.yaml`` of a fit.
            joints: Regexes of joints that get motors, and the joint of the file that each is drawn from. None: all, by
                their own names.
            env_ids: Which environments. None means all.
            seed: Of the draw; None for another each time.
        """
        ids = ids_to_reset("env_ids", env_ids, self.shape[0])
        names = list(self.joint_names)
        with self._on_stream_of_torch():
            return randomize_from_fit(names, self._dt, self.actuators, names, from_fit, joints, ids, seed)

    def held(self) -> dict[str, torch.Tensor]:
        """What a model holds of the chains, by its name for it, each of shape (environments, joints); NaN: nothing.

        Friction that is handed over at each step is not in it.
        """
        found = {field: np.full(self.shape[0] * self.shape[1], np.nan, np.float32) for field in HELD_FIELDS}
        for actuator in self.actuators:
            at = actuator.effort_indices.numpy()
            inertia = inertia_at_joints(actuator)
            found["dof_armature"][at] = np.where(inertia > 0.0, inertia, np.nan)
            offers = "dry_friction" in actuator.signals and actuator in self._solved
            if offers and not self.friction_is_handed_over:
                found["dof_frictionloss"][at], found["dof_damping"][at] = friction_at_joints(actuator)
        return {f: torch.as_tensor(v.reshape(self.shape), device=self._torch_device) for f, v in found.items()}

    @contextlib.contextmanager
    def _held_stays(self, name: str) -> Iterator[None]:
        """Undo a change of parameters that would be one of the model, which holds inertia and friction."""
        arrays = [array for a in self.actuators for stage in a.stages for array in stage.parameters().values()]
        kept, before = [array.numpy().copy() for array in arrays], self._numbers_held()
        try:
            yield
            for (what, instead), was, now in zip(_HELD.items(), before, self._numbers_held(), strict=True):
                if not np.array_equal(was, now):
                    raise ParameterError(
                        f"{name}: would change the {what} at the joint, which the model holds; {instead}"
                    )
        except BaseException:
            for array, numbers in zip(arrays, kept, strict=True):
                array.assign(numbers)
            raise

    def _numbers_held(self) -> tuple[np.ndarray, np.ndarray]:
        """What the model holds of all chains: inertia and friction, in the order of `_HELD`."""
        inertia = [inertia_at_joints(actuator) for actuator in self.actuators]
        solved = [] if self.friction_is_handed_over else self._solved
        friction = [each for actuator in solved for each in friction_at_joints(actuator)]
        return np.concatenate(inertia), np.concatenate([np.zeros(0), *friction])

    def _now(self, values: _Values) -> np.ndarray:
        """A copy of a parameter of one actuator, shape (environments, columns)."""
        with self._on_stream_of_torch():
            return values.array.numpy().reshape(values.defaults.shape).copy()

    def _values(self, name: str) -> list[_Values]:
        if name not in self._parameters:
            raise ParameterError(f"no parameter '{name}'; {listed(name, self._parameters, 'parameters')}")
        return self._parameters[name]

    def _flat(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of a command as a flat one, without a copy where its memory allows."""
        if not isinstance(tensor, torch.Tensor):
            raise ArrayTypeError(f"{name}: got {type(tensor).__name__}; must be a PyTorch tensor")
        if tensor.device != self._torch_device:
            raise ArrayError(f"{name}: got a tensor on '{tensor.device}'; the actuator runs on '{self._torch_device}'")
        if tensor.dtype is not torch.float32:
            raise ArrayTypeError(f"{name}: got dtype {tensor.dtype}; must be torch.float32: pass tensor.float()")
        if tuple(tensor.shape) != self.shape:
            raise ArrayError(f"{name}: got shape {tuple(tensor.shape)}; must be {self.shape}, (environments, joints)")
        require_detached(tensor, name)
        return tensor.detach().reshape(-1)

    @contextlib.contextmanager
    def _on_stream_of_torch(self) -> Iterator[None]:
        """Launch where PyTorch has written what is read, and reads what is written."""
        if self.device.is_cpu:
            yield
            return
        if torch.cuda.is_current_stream_capturing():
            raise StructureError(
                "a graph is being captured, whose replays would not move chains on; capture physics alone, as mjlab "
                "does"
            )
        stream = wp.stream_from_torch(torch.cuda.current_stream(self._torch_device))
        with wp.ScopedStream(stream, sync_enter=False):
            yield
