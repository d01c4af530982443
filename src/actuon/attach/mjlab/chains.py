# SPDX-License-Identifier: Apache-2.0
"""Motors of joints in many environments, on PyTorch tensors of shape (environments, joints)."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import warp as wp

from ...actuator.actuator import Actuator
from ...actuator.builder import ActuatorBuilder
from ...actuator.config import IMPLICIT, ActuatorConfig
from ...arrays import require_detached
from ...components.component import Component
from ...components.effects.friction import EffectFriction
from ...components.kinds import Transmission
from ...errors import ArrayError, ParameterError, StructureError, listed, located
from ...kernel.chain import DERIVATIVES, LIMITED_BY
from ...robot_files.paths import all_places, check_unambiguous
from ...sim.ids import ids_to_reset, ids_to_write
from ...sim.mujoco.rows import PROPERTIES
from ...torch import check_tensor
from ...typing import IdsLike, PathLike
from ..chain_set import ALL, ChainSet, check_changed, signal_attr
from ..fitted_motors import DrawnMotors
from ..groups.randomisation import Distribution
from ..random_motors import randomize, randomize_parameters
from ..solved_by_engine import at_joints

_FRICTION = (
    "friction",
    "add the event term actuon.mjlab.solve_friction, or randomise it with mjlab's dr.dof_frictionloss",
)
ARMATURE, DRY, VISCOUS = (PROPERTIES[name].of_dof for name in ("armature", "friction", "viscous_friction"))
HELD_FIELDS = {
    ARMATURE: ("inertia of the rotor", "randomise it with mjlab's dr.dof_armature"),
    DRY: _FRICTION,
    VISCOUS: _FRICTION,
}
"""Fields of a model that have a property of a chain: its name, and the alternative to changing a parameter."""

INPUTS = {
    "pos": "joint_q",
    "vel": "joint_qd",
    "position_target": "joint_target_q",
    "velocity_target": "joint_target_qd",
    "effort_target": "joint_act",
}
"""Array of an actuator, by tensor of mjlab's commands."""

DERIVATIVE = DERIVATIVES[1]
"""Signal of implicit efforts: their derivative by velocity [N·m·s/rad or N·s/m]."""


@dataclass(frozen=True)
class _Parameter:
    """One parameter of one actuator."""

    stage: Component
    name: str
    columns: np.ndarray
    """Joints that have it."""
    is_whole: bool
    """Whether it takes whole numbers."""


class EnvironmentMotors:
    """Motors of some joints in all environments, with their memory.

    A step has two halves: `run` returns the efforts and can be repeated, and `advance` updates the memory after the
    physics step. mjlab also requests efforts of all environments after each reset, without a physics step.

    Args:
        configs: Motor of each joint, by name, in the order of the columns. Those with the ``effort_mode``
            ``"implicit"`` have the derivative of the effort as a signal.
        in_engine: For each joint, whether the engine solves its friction.
        num_envs: Number of environments.
        device: Device of the motors.
        dt: Time step of physics [s].
        pool: Batteries of the robots, if other motors share them. Default: of these motors only.
        columns: Indices of the joints among all ``width`` joints of a robot, for random numbers. Default: in order.
        width: Number of joints of a robot. Default: that of these motors.

    Examples:
        >>> import torch
        >>> import warp as wp
        >>> from actuon.attach.mjlab.chains import INPUTS, EnvironmentMotors
        >>> pd = actuon.ActuatorConfig(actuon.PDControlConfig(kp=40.0, kd=1.0))
        >>> joints, cpu = {"hip": pd, "knee": pd}, wp.get_device("cpu")
        >>> motors = EnvironmentMotors(joints, [True, True], num_envs=4, device=cpu, dt=0.005)
        >>> motors.set_parameter("controller.kp", torch.tensor([20.0, 30.0]))
        >>> command = {name: torch.zeros(4, 2) for name in INPUTS}
        >>> command["position_target"] += 0.1
        >>> motors.run(command)[0]
        tensor([2., 3.])
        >>> motors.advance()  # after the physics step
        >>> motors.randomize("controller.kp", actuon.lab.Uniform(0.8, 1.2), env_ids=[0, 1])
        >>> motors.parameter("controller.kp")[2:]
        tensor([[20., 30.],
                [20., 30.]])
        >>> motors.reset([0])
    """

    def __init__(
        self,
        configs: Mapping[str, ActuatorConfig],
        in_engine: Sequence[bool],
        num_envs: int,
        device: wp.Device,
        dt: float,
        *,
        columns: Sequence[int] | None = None,
        width: int | None = None,
    ):
        columns, width = range(len(configs)) if columns is None else columns, width or len(configs)
        self.joint_names = tuple(configs)
        self.shape = (num_envs, len(configs))
        self.device = device
        self._torch_device = torch.device(wp.device_to_torch(device))
        self._dt = dt
        self._solved: list[Actuator] = []
        """Actuators whose friction the engine solves."""
        numbers = np.arange(num_envs)[:, None], np.arange(num_envs)[:, None] * width + np.asarray(columns)
        self._chains = ChainSet(
            self._build(configs, in_engine),
            *(num_envs, self.joint_names, device),
            without=(*INPUTS.values(), "joint_f", signal_attr(LIMITED_BY)),
            numbers=numbers,
            shares_batteries=True,
            has_two_states=lambda _: True,
        )
        self.actuators = self._chains.actuators
        """Actuators, one for each combination of stages; each DOF is a joint of an environment."""
        self._has_run = False
        self._signals, self._inputs = (
            {name: wp.to_torch(array.reshape(self.shape)) for name, array in own.items()}
            for own in (self._chains.signals, self._chains.inputs)
        )
        self._parameters = self._find_parameters([np.unique(at % self.shape[1]) for at in self._chains.places])
        self.friction_is_handed_over = False
        """Whether friction is written to the model at each step, so that its parameters may change."""
        wp.synchronize_device(device)

    def _build(self, configs: Mapping[str, ActuatorConfig], in_engine: Sequence[bool]) -> list[Actuator]:
        built: list[Actuator] = []
        rows = np.arange(self.shape[0]) * self.shape[1]
        for solved, is_implicit in itertools.product((True, False), (False, True)):
            builder = ActuatorBuilder()
            for column, (name, config) in enumerate(configs.items()):
                if (in_engine[column], config.effort_mode == IMPLICIT) == (solved, is_implicit):
                    with located(f"joint '{name}'"):
                        builder.add(config, rows + column)
            own = builder.finalize(
                self.device,
                accumulate=False,
                control_signal_attrs=signal_attr,
                control_derivative_attrs={DERIVATIVE: signal_attr(DERIVATIVE)} if is_implicit else None,
                in_engine=solved,
                losses_in_engine=False,
            )
            built += own
            self._solved += own if solved else []
        return built

    def _find_parameters(self, columns: Sequence[np.ndarray]) -> dict[str, list[_Parameter]]:
        """Return parameters by their paths, given the joints of each actuator."""
        found: dict[str, list[_Parameter]] = {}
        ambiguous: set[str] = set()
        for actuator, own in zip(self.actuators, columns, strict=True):
            numbers = [stage.numbers() for stage in actuator.stages]
            for path, (place, *others) in all_places(actuator.stages).items():
                if others:
                    ambiguous.add(path)
                stage, values = actuator.stages[place.stage], numbers[place.stage].get(place.name)
                if values is not None and place.name not in stage.SHARED_PARAMS:
                    found.setdefault(path, []).append(_Parameter(stage, place.name, own, place.declared.integer))
        return {path: places for path, places in found.items() if path not in ambiguous}

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names for `parameter`, `set_parameter` and `randomize`."""
        return tuple(self._parameters)

    @property
    def signals(self) -> dict[str, torch.Tensor]:
        """Signals of stages, such as a motor's temperature, each of shape (environments, joints).

        They share memory with the kernel. Joints without a signal have NaN. Implicit efforts have the signal
        ``effort_derivative_qd``, their derivative by velocity [N·m·s/rad or N·s/m].
        """
        return dict(self._signals)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """Further inputs of stages, each of shape (environments, joints), to write to. The default is 0."""
        return dict(self._inputs)

    def run(self, command: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the efforts for a command [N·m or N], shape (environments, joints).

        Args:
            command: Tensors ``"pos"``, ``"vel"``, ``"position_target"``, ``"velocity_target"`` and ``"effort_target"``,
                float32 of shape (environments, joints).
        """
        arrays = {array: self._flat(name, command[name]) for name, array in INPUTS.items()}
        effort = torch.empty(self.shape, dtype=torch.float32, device=self._torch_device)
        control = {**arrays, **self._chains.arrays, "joint_f": effort.view(-1)}
        with self._on_stream_of_torch():
            self._chains.run(arrays, control, self._dt)
            self._chains.batteries.share(self._chains.other_states)
        self._has_run = True
        return effort

    def advance(self) -> None:
        """Update the memory after a physics step with the efforts of the last `run`."""
        if self._has_run:
            self._chains.advance()
            self._has_run = False

    def reset(self, env_ids: IdsLike = None) -> None:
        """Clear the memory of environments.

        Args:
            env_ids: Which environments. None means all.
        """
        ids = ids_to_reset("env_ids", env_ids, self.shape[0])
        if not ids.size:
            return
        with self._on_stream_of_torch():
            self._chains.reset(ids, self._has_run)

    def parameter(self, name: str, default: bool = False) -> torch.Tensor:
        """Return a copy of a parameter, shape (environments, joints); NaN for joints without it.

        Args:
            name: Stage and parameter, such as ``"controller.kp"``. The stage is its kind, its type in YAML, or its
                position, as in ``"1.kp"``.
            default: Return the built value instead of the present one.
        """
        whole = np.full(self.shape, np.nan, dtype=np.float32)
        with self._on_stream_of_torch():
            for own in self._having(name):
                whole[:, own.columns] = self._values(own, default)
        return torch.as_tensor(whole, device=self._torch_device)

    def is_whole(self, name: str) -> bool:
        """Return whether a parameter takes whole numbers, such as a delay in steps."""
        return self._having(name)[0].is_whole

    def set_parameter(self, name: str, values: torch.Tensor, env_ids: IdsLike = None) -> None:
        """Change a parameter of some environments. If a value is not allowed, nothing is changed.

        Args:
            name: As for `parameter`.
            values: One number, or values that fit (chosen environments, joints). Joints without the parameter ignore
                them.
            env_ids: Which environments, each once. None means all.
        """
        having = self._having(name)
        ids = ids_to_write("env_ids", env_ids, self.shape[0])
        shape = (len(ids), self.shape[1])
        given = torch.as_tensor(values).detach().cpu().numpy()
        try:
            given = np.broadcast_to(given, shape)
        except ValueError as error:
            raise ParameterError(f"{name}: got values of shape {given.shape}; must fit {shape}") from error
        new = {}
        with self._on_stream_of_torch(), self._undone_if_held(name):
            for own in having:
                numbers, chosen = self._values(own), given[:, own.columns]
                is_broken = own.is_whole and not np.array_equal(chosen, np.rint(chosen))
                numbers = numbers.astype(chosen.dtype if is_broken else numbers.dtype)  # the check says what is wrong
                numbers[ids] = chosen
                new[id(own.stage), own.name] = own.stage, ALL, numbers.ravel()
            check_changed(new, self._dt)
            self._chains.write(new)

    def randomize(
        self,
        name: str,
        distribution: Distribution,
        env_ids: IdsLike = None,
        joints: Collection[str] | None = None,
        default: bool = True,
    ) -> None:
        """Draw a parameter for joints of some environments. If a value is not allowed, nothing is changed.

        Args:
            name: As for `parameter`.
            distribution: Distribution, such as `actuon.lab.Uniform`.
            env_ids: Which environments. None means all.
            joints: Names of the joints. Default: all. Joints without the parameter keep their values.
            default: Whether scaling and adding start from the built values, or from the present ones.
        """
        ids = ids_to_reset("env_ids", env_ids, self.shape[0])
        columns = sorted(column for own in self._having(name) for column in own.columns)
        names = [self.joint_names[column] for column in columns]
        names = [each for each in names if joints is None or each in joints]
        with self._on_stream_of_torch(), self._undone_if_held(name):
            if names:
                rng = np.random.default_rng()
                randomize_parameters(self._chains, self._dt, {name: distribution}, names, ids, rng, default)

    @contextlib.contextmanager
    def _undone_if_held(self, name: str) -> Iterator[None]:
        """Undo a change of a parameter, and raise an error, if it changes armature or friction of the model."""
        having = self._having(name)
        if not any(isinstance(own.stage, (Transmission, EffectFriction)) for own in having):
            yield
            return
        held = self._held()
        old = {(id(own.stage), own.name): (own.stage, ALL, self._values(own).ravel()) for own in having}
        yield
        now = self._held()
        for field, (what, instead) in HELD_FIELDS.items():
            if not np.array_equal(held[field], now[field], equal_nan=True):
                self._chains.write(old)
                raise ParameterError(f"{name}: would change the {what} at the joint, which the model holds; {instead}")

    def _values(self, own: _Parameter, default: bool = False) -> np.ndarray:
        """Return a copy of a parameter, or of its built values, shape (environments, columns)."""
        built = self._chains.built(own.stage, own.name)
        values = built.copy() if default else own.stage.numbers()[own.name]
        return values.reshape(self.shape[0], -1)

    def draw_motors(
        self, from_fit: PathLike, joints: Mapping[str, str] | None, env_ids: IdsLike, seed: int | None
    ) -> DrawnMotors:
        """Draw motors of environments around fitted ones. Write `held` to the model afterwards.

        Args:
            from_fit: A ``fleet.yaml``, or the ``actuon.yaml`` of a fit.
            joints: Regexes of joints, and the joint of the file that each is drawn from. None: all, by their names.
            env_ids: Which environments. None means all.
            seed: Seed of the draw; None for a different one each time.
        """
        names = list(self.joint_names)
        with self._on_stream_of_torch():
            drawn, _ = randomize(self._chains, self._dt, names, None, from_fit, joints, env_ids, seed)
        assert drawn is not None
        return drawn

    def held(self) -> dict[str, torch.Tensor]:
        """Return inertia and friction by field of the model, each of shape (environments, joints); NaN for none.

        Friction that is written at each step is left out.
        """
        return {field: torch.as_tensor(values, device=self._torch_device) for field, values in self._held().items()}

    def _held(self) -> dict[str, np.ndarray]:
        found = {field: np.full(math.prod(self.shape), np.nan, np.float32) for field in HELD_FIELDS}
        for actuator, at in zip(self.actuators, self._chains.places, strict=True):
            own = at_joints(actuator)
            found[ARMATURE][at] = np.where(own.inertia > 0.0, own.inertia, np.nan)
            offers = "dry_friction" in actuator.signals and actuator in self._solved
            if offers and not self.friction_is_handed_over:
                found[DRY][at], found[VISCOUS][at] = own.dry, own.viscous
        return {field: values.reshape(self.shape) for field, values in found.items()}

    def _having(self, name: str) -> list[_Parameter]:
        if name not in self._parameters:
            for actuator in self.actuators:
                check_unambiguous(actuator.stages, name)
            raise ParameterError(f"no parameter '{name}'; {listed(name, self._parameters, 'parameters')}")
        return self._parameters[name]

    def _flat(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a command as a flat one, without a copy if possible."""
        check_tensor(self.device, name, tensor)
        if tuple(tensor.shape) != self.shape:
            raise ArrayError(f"{name}: got shape {tuple(tensor.shape)}; must be {self.shape}, (environments, joints)")
        require_detached(tensor, name)
        return tensor.detach().reshape(-1)

    @contextlib.contextmanager
    def _on_stream_of_torch(self) -> Iterator[None]:
        """Launch kernels on PyTorch's stream."""
        if self.device.is_cpu:
            yield
            return
        if torch.cuda.is_current_stream_capturing():
            raise StructureError("steps of motors cannot be captured; capture physics only, as mjlab does")
        stream = wp.stream_from_torch(torch.cuda.current_stream(self._torch_device))
        with wp.ScopedStream(stream, sync_enter=False):
            yield
