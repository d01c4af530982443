# SPDX-License-Identifier: Apache-2.0
"""`DriveActuon`: a motor as a drive of ``newton.actuators.Actuator``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.config import EXPLICIT, IMPLICIT, ActuatorConfig, Part, built, configs_of
from ..actuator.state import ActuatorState
from ..actuator.stepping import IndexLayout
from ..arrays import read_custom
from ..components.component import Component
from ..components.effects.friction import EffectFriction
from ..components.kinds import Controller
from ..declare.registry import class_of
from ..errors import MissingExtraError, ParameterError, StateError, StructureError, listed, shown
from ..kernel.chain import SIGNALS
from ..kernel.launch import recording_tape
from ..motors.catalogue import CatalogueMotor
from ..motors.datasheet import MotorDatasheet
from ..typing import PathLike
from .motors import JointFriction, is_by_joint, open_configs, possible_dt, report_simulator_side
from .newton_force_law import ForceLaw, Route, limited_line
from .solved_by_engine import at_joints

try:
    from newton.actuators import DriveBase
except ImportError as error:
    raise MissingExtraError("newton", "newton", "drives for Newton's actuators") from error

_FRICTION = ("dry_friction", "viscous_friction")
_FEEDFORWARD = "joint_act"
_INDICES = ("pos", "vel", "target_pos", "target_vel")
"""Names of the indices of `DriveBase.compute`, in its order."""
_ARGUMENTS = ("config", "joint", "controller", "allow_unsafe_torch_checkpoints")


class DriveActuon(DriveBase):
    """A motor as a drive of ``newton.actuators.Actuator``.

    Pass it as ``drive=``, or to a builder: ``builder.add_actuator(DriveActuon, index=dof, config=...)``. A builder puts
    joints with the same stages into one actuator. Parameters of the controller are attributes, as in Newton's drives:
    ``drive.kp``. Those of other stages are in `actuator`.

    Args:
        config: An `ActuatorConfig`; a list of stages; the name of a motor in the catalogue, or its data sheet; or, with
            ``joint``, a file or a mapping of joints to configs. As for `Motors`.
        joint: Name of the joint in the file.
        controller: Controller of a motor from the catalogue or a data sheet. Default: as for `Motors`.
        allow_unsafe_torch_checkpoints: Let a file name ``.pt`` and ``.pt2`` networks, which can run code when loaded.
        values: Parameters of stages as arrays, from Newton's builder for several joints.

    Raises:
        RobotFileError: The source is neither a file nor a motor, or has no actuator for the joint.

    Examples:
        >>> import newton
        >>> import warp as wp
        >>> from actuon.newton import DriveActuon
        >>> pd = actuon.PDControlConfig(kp=60.0, kd=2.0)
        >>> dofs = wp.array([0, 1, 2], dtype=wp.uint32, device="cpu")
        >>> legs = newton.actuators.Actuator(dofs, drive=DriveActuon("ak80-9", controller=pd))
        >>> legs.drive.kp.numpy()
        array([60., 60., 60.], dtype=float32)
    """

    SHARED_PARAMS = frozenset(_ARGUMENTS)
    evaluate_force = limited_line

    @dataclass
    class State(DriveBase.State):
        """Memory of the motor model."""

        memory: ActuatorState
        """State of `DriveActuon.actuator`."""

        def reset(self, mask: wp.array | None = None) -> None:
            """Reset all DOFs, or those where ``mask``, bool of shape (N,), is true."""
            self.memory.reset(mask)

        def assign(self, other: DriveActuon.State) -> None:
            """Copy ``other`` into this state, keeping its arrays."""
            self.memory.assign(other.memory)

    def __init__(
        self,
        config: PathLike
        | ActuatorConfig
        | Sequence[Part]
        | MotorDatasheet
        | CatalogueMotor
        | Mapping[str, ActuatorConfig],
        joint: str | None = None,
        *,
        controller: Part | None = None,
        allow_unsafe_torch_checkpoints: bool = False,
        **values: wp.array,
    ):
        self._stages: list[Component]
        if isinstance(config, _Structure):
            self._stages = config.stages(values)
            self._control_every: int = config.control_every
        else:
            _check_names(values)
            opened = _opened(config, joint, controller, allow_unsafe_torch_checkpoints)
            self._stages = [built(part) for part in opened.frozen_stages()]
            self._control_every = opened.control_every
        self.custom_inputs: tuple[str, ...] = ()
        """Names of further arrays of the simulation's control that stages read."""
        self._actuator: Actuator | None = None
        self._after: ActuatorState | None = None
        """State after the last step, for `update_state`."""
        self._needed_by: dict[str, str | None] = {}
        """Stage that needs a custom input, by the name of the input; None if it is optional."""
        self._friction: dict[str, wp.array] = {}
        """Friction for the simulator, by signal."""
        self._law: ForceLaw | None = None
        self._route: Route | None = None
        self._has_stepped = False

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of a motor model by name, for arrays of Newton's builder, and all that joints share."""
        _check_names(name for name in args if name not in _ARGUMENTS)
        if "config" not in args:
            raise StructureError("DriveActuon: got no config; must be an ActuatorConfig, a motor's name, or a file")
        structure, numbers = _Structure.of(_opened(**args))
        return {**dict.fromkeys(args), "config": structure, **numbers}

    @property
    def actuator(self) -> Actuator:
        """The actuator of the motor model, with its stages: ``drive.actuator.clamping[0].max_effort``."""
        if self._actuator is None:
            raise StructureError("DriveActuon: is in no actuator yet; pass it to newton.actuators.Actuator(drive=...)")
        return self._actuator

    def _controller_with(self, name: str) -> Component | None:
        """Return the controller if it has a parameter of this name."""
        actuator = vars(self).get("_actuator")
        if name.startswith("_") or actuator is None:
            return None
        return next((s for s in actuator.stages if isinstance(s, Controller) and name in s.declared()), None)

    def __getattr__(self, name: str) -> Any:
        controller = self._controller_with(name)
        if controller is None:
            raise AttributeError(f"'DriveActuon' has no attribute {name!r}")
        return getattr(controller, name)

    def __setattr__(self, name: str, value: object) -> None:
        controller = self._controller_with(name)
        if controller is None:
            super().__setattr__(name, value)
        else:
            setattr(controller, name, value)

    @property
    def armature(self) -> np.ndarray:
        """Rotor inertia at the joints, to set in the simulator [kg·m² or kg], shape (N,)."""
        return at_joints(self.actuator).inertia

    @property
    def friction(self) -> JointFriction:
        """Friction of the joints at the last step, to set in the simulator, shape (N,); 0 if the motor applies it."""
        n = self.actuator.num_actuators
        if self._friction and not self._has_stepped:
            self._step_at_rest()
        found = {name: array.numpy().copy() for name, array in self._friction.items()}
        return JointFriction(*(found.get(name, np.zeros(n, np.float32)) for name in _FRICTION))

    def _step_at_rest(self) -> None:
        """Write the friction of joints at rest."""
        actuator = self.actuator
        zero, effort = (wp.zeros(actuator.num_actuators, dtype=wp.float32, device=actuator.device) for _ in range(2))
        signals = [zero] * (len(SIGNALS) + len(self._needed_by))
        stepper = actuator.stepper({}, tuple(self._friction))
        given = (*signals, effort, None, *self._friction.values())
        stepper.step(given, actuator.state(), actuator.state(), possible_dt([actuator], None))

    def finalize(self, device: wp.Device, num_actuators: int) -> None:
        """Build the motor model for the DOFs of an actuator. Called by Newton's `Actuator`."""
        if self._actuator is not None:
            raise StructureError("DriveActuon: is in an actuator already; give each actuator its own drive")
        leaves_friction = any(isinstance(s, EffectFriction) and s.inertia is None for s in self._stages)
        self._actuator = actuator = Actuator(
            wp.array(np.arange(num_actuators), dtype=wp.uint32, device=device),
            stages=self._stages,
            control_every=self._control_every,
            accumulate=False,
            in_engine=leaves_friction,
            losses_in_engine=False,
        )
        offered = [name for name in _FRICTION if leaves_friction and name in actuator.signals]
        self._friction = {name: wp.zeros(num_actuators, dtype=wp.float32, device=device) for name in offered}
        self.custom_inputs = actuator.custom_inputs
        self._needed_by = {
            name: None if name in stage.OPTIONAL_INPUTS else type(stage).__name__
            for stage in actuator.stages
            for name in stage.stage().custom_inputs
        }
        self._after = actuator.state()
        dofs = f"{num_actuators} DOF{'s' * (num_actuators != 1)}"
        remedy = "an inertia in its stage lets the motor apply it"
        report_simulator_side("drive", dofs if self.armature.any() else "", dofs if offered else "", remedy)

    def is_stateful(self) -> bool:
        """Return whether the motor model has memory."""
        return self.actuator.is_stateful()

    def is_graphable(self) -> bool:
        """Return whether steps can be captured in a graph."""
        return self.actuator.is_graphable()

    def state(self, num_actuators: int, device: wp.Device) -> DriveActuon.State | None:
        """Return a new initial state, or None if the motor model has no memory."""
        memory = self.actuator.state()
        return None if memory is None else DriveActuon.State(memory)

    def compute(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        target_vel: wp.array,
        feedforward: wp.array | None,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        forces: wp.array,
        state: DriveActuon.State | None,
        dt: float | None,
        device: wp.Device | None = None,
        *,
        custom_inputs: Mapping[str, wp.array] | None = None,
    ) -> None:
        """Write the effort of each DOF to ``forces``. Called by Newton's `Actuator`, as are the methods below."""
        signals = self._signals(positions, velocities, target_pos, target_vel, feedforward, custom_inputs)
        self._step(signals, (pos_indices, vel_indices, target_pos_indices, target_vel_indices), forces, state, dt)

    def update_state(self, current_state: DriveActuon.State, next_state: DriveActuon.State) -> None:
        """Write the memory of the motor model after the step."""
        assert self._after is not None
        next_state.memory.assign(self._after)

    def bind_params(self) -> wp.array:
        """Return the parameters of `evaluate_force`, shape (N, 9).

        Raises:
            StructureError: The effort of the motor model has no derivatives, which Newton's implicit mode needs.
        """
        if self._law is None:
            why_not = self.actuator.derivative_obstacle()
            if why_not:
                raise StructureError(f"DriveActuon: the implicit mode needs derivatives of the effort, but {why_not}")
            self._law = ForceLaw(self.actuator)
        # Newton passes custom inputs to prepare_implicit(), but no feedforward.
        self.custom_inputs = tuple(dict.fromkeys((*self.actuator.custom_inputs, _FEEDFORWARD)))
        return self._law.params

    def prepare_implicit(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        target_vel: wp.array,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        drive_state: DriveActuon.State | None,
        dt: float,
        inv_mass: wp.array | None = None,
        device: wp.Device | None = None,
        *,
        custom_inputs: Mapping[str, wp.array] | None = None,
    ) -> None:
        """Step the motor model, and write its force law near the end of the step."""
        assert self._law is not None
        if target_vel_indices is not vel_indices:
            raise StructureError(
                "DriveActuon: a Delay of Newton's holds back feedforward, which a drive does not see in the implicit "
                "mode; put the delay in the motor model, such as actuon.DelayConfig"
            )
        if custom_inputs is None:
            raise StructureError("DriveActuon: the implicit mode needs Newton 1.8, which hands feedforward to drives")
        feedforward = custom_inputs.get(_FEEDFORWARD)
        signals = self._signals(positions, velocities, target_pos, target_vel, feedforward, custom_inputs)
        indices = pos_indices, vel_indices, target_pos_indices, target_vel_indices
        route = self._step(signals, indices, self._law.explicit_effort, drive_state, dt)
        self._law.update(signals, route, None if drive_state is None else drive_state.memory, inv_mass, dt)

    def _signals(self, *given: Any) -> tuple[wp.array | None, ...]:
        """Return the input arrays of the motor model: positions, velocities, targets, feedforward, custom inputs."""
        *arrays, custom = given
        if not self._needed_by:
            return tuple(arrays)
        return *arrays, *(read_custom(custom or {}, name, asking) for name, asking in self._needed_by.items())

    def _step(
        self,
        signals: tuple[wp.array | None, ...],
        indices: tuple[wp.array, ...],
        effort: wp.array,
        state: DriveActuon.State | None,
        dt: float | None,
    ) -> Route:
        """Step the motor model from ``state`` to the state for `update_state`."""
        actuator = self.actuator
        if effort.requires_grad or recording_tape() is not None:
            raise StructureError(
                "DriveActuon: gradients do not go through it; use the actuators of actuon.newton.ModelBuilder, or "
                "requires_grad=False"
            )
        if actuator.device.is_capturing and not actuator.is_graphable():
            raise StructureError(f"DriveActuon: {actuator} cannot be captured in a graph; step it outside of one")
        if state is not None and state.memory.owner is not actuator:
            raise StateError("DriveActuon: got a state of another drive; make states with this actuator's state()")
        route = self._route
        if route is None or any(known is not given for known, given in zip(route.indices, indices, strict=True)):
            route = self._route = self._wired(indices)
        if actuator.num_actuators:
            given = (*signals, effort, None, *self._friction.values())
            route.stepper.step(given, None if state is None else state.memory, self._after, dt)
        self._has_stepped = True
        return route

    def _wired(self, indices: tuple[wp.array, ...]) -> Route:
        """Return the route of the motor model through the indices of Newton's actuator."""
        layouts = {name: IndexLayout.of(array) for name, array in zip(_INDICES, indices, strict=True)}
        if self._route is not None:
            self._after = self.actuator.state()
        return Route(indices, layouts, self.actuator.stepper(layouts, tuple(self._friction)))

    def __repr__(self) -> str:
        return f"<DriveActuon: {' → '.join(type(stage).__name__ for stage in self._stages)}>"


@dataclass(frozen=True)
class _Structure:
    """Stages that joints of an actuator share, with their shared parameters."""

    control_every: int
    parts: tuple[tuple[type[Component], tuple[tuple[str, Hashable], ...]], ...]
    """The class of each stage, with its shared parameters."""

    @staticmethod
    def of(config: ActuatorConfig) -> tuple[_Structure, dict[str, float]]:
        """Return the structure of a motor model, and its numbers by position of the stage and name."""
        parts, numbers = [], {}
        stages = configs_of(config.frozen_stages(), "a builder takes configs of numbers")
        for position, part in enumerate(stages):
            cls, shared = class_of(part), []
            for name, value in part.arguments().items():
                if name in cls.SHARED_PARAMS or not isinstance(value, (int, float)):
                    shared.append((name, value))
                else:
                    numbers[f"{position}.{name}"] = value
            parts.append((cls, tuple(shared)))
        return _Structure(config.control_every, tuple(parts)), numbers

    def stages(self, values: Mapping[str, wp.array]) -> list[Component]:
        """Return the stages with these arrays, by position of the stage and name."""
        arguments = [dict(shared) for _, shared in self.parts]
        for key, array in values.items():
            position, _, name = key.partition(".")
            declared = self.parts[int(position)][0].declared()
            if name in declared and declared[name].integer:
                array = wp.array(array.numpy().astype(np.int32), device=array.device)
            arguments[int(position)][name] = array
        return [cls.with_values(given) for (cls, _), given in zip(self.parts, arguments, strict=True)]


def _opened(
    config: Any, joint: str | None = None, controller: Part | None = None, allow_unsafe_torch_checkpoints: bool = False
) -> ActuatorConfig:
    """Return the motor model for the arguments of a drive."""
    if isinstance(config, (list, tuple)):
        config = ActuatorConfig(stages=config)
    if joint is not None and not isinstance(joint, str):
        raise StructureError(f"joint: got {shown(joint)}; must be the name of a joint in the file")
    if joint is None and is_by_joint(config):
        raise StructureError(f"joint: got None; {shown(config)} has an actuator for each joint: name one")
    (opened,) = open_configs(config, [joint or ""], controller, allow_unsafe_torch_checkpoints)
    if opened.effort_mode == IMPLICIT:
        raise StructureError(
            f"config: got effort_mode '{IMPLICIT}', but a drive passes no derivatives; use '{EXPLICIT}', and "
            "set_effort_mode_implicit() of Newton's actuator"
        )
    return opened


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        raise ParameterError(f"DriveActuon: has no argument '{name}'; {listed(name, _ARGUMENTS, 'arguments')}")
