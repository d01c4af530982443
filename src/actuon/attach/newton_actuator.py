# SPDX-License-Identifier: Apache-2.0
"""Actuon's `Actuator` with the interface of ``newton.actuators.Actuator``."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator as PlainActuator
from ..actuator.implicit_step import ImplicitStepper
from ..actuator.response import MAX_SIZE, Response
from ..actuator.state import ActuatorState, assign_state
from ..actuator.stepping import MaybeState, stepper_of
from ..errors import ArrayError, ArrayTypeError, MissingExtraError, ParameterError, StateError, StructureError
from ..kernel.chain import DERIVATIVES
from ..kernel.types import FloatGrid, Floats, Indices, Ints
from ..typing import Array

try:
    import newton
    from newton.actuators import JointSpaceResponse
except ImportError as error:
    raise MissingExtraError("newton", "newton", "Newton's actuators") from error

ImplicitOptions = newton.actuators.Actuator.ImplicitOptions

if TYPE_CHECKING:
    Transforms = Any
else:
    Transforms = wp.array(dtype=wp.transform)

_TOLERANCE = 1e-5
"""Relative error of the velocities after a step, which is that of Newton's efforts."""
_FREE, _DISTANCE = (wp.constant(int(kind)) for kind in (newton.JointType.FREE, newton.JointType.DISTANCE))


@dataclass
class ComposedState:
    """States of a delay and of a drive, to reset and copy together. Steps need those of ``actuator.state()``."""

    delay_state: Any = None
    drive_state: Any = None

    def reset(self, mask: wp.array | None = None) -> None:
        """Reset both states, of all DOFs or of those where ``mask`` is true."""
        for state in (self.delay_state, self.drive_state):
            if state is not None:
                state.reset(mask)

    def assign(self, other: ComposedState) -> None:
        """Copy the states of ``other`` into these."""
        for field in dataclasses.fields(self):
            assign_state(field.name, getattr(self, field.name), getattr(other, field.name))


class Actuator(PlainActuator):
    """Actuator with the interface of Newton's: implicit efforts by ``JointSpaceResponse``, and input containers.

    Arguments as for `actuon.Actuator`.

    Examples:
        >>> import newton
        >>> import warp as wp
        >>> from actuon.newton import ModelBuilder
        >>> builder = ModelBuilder(gravity=(0.0, 0.0, 0.0))
        >>> link = builder.add_link(mass=1.0, inertia=wp.mat33(0.01 * np.eye(3)))
        >>> builder.add_articulation([builder.add_joint_revolute(parent=-1, child=link)])
        >>> builder.add_actuator(actuon.ControllerPD, index=0, kp=400.0, kd=10.0)
        >>> model = builder.finalize(device="cpu")
        >>> state, control = model.state(), model.control()
        >>> control.joint_target_q.fill_(0.1)
        >>> response = newton.actuators.JointSpaceResponse(model)
        >>> model.actuators[0].set_effort_mode_implicit(response)
        >>> response.refresh(state)
        >>> model.actuators[0].step(state, control, dt=0.01)
        >>> bool(control.joint_f.numpy()[0] < 40.0)  # explicitly 40 N·m, which would overshoot
        True
    """

    ImplicitOptions = ImplicitOptions
    """Options of `set_effort_mode_implicit`, Newton's own."""

    State: Any = ComposedState
    """States of components, to be built by field."""
    _coupled: CoupledResponse | None = None

    def set_effort_mode_implicit(
        self,
        response: JointSpaceResponse | Response | Array,
        options: ImplicitOptions | None = None,  # type: ignore[valid-type]
    ) -> None:
        """Compute efforts at the positions and velocities after each step.

        Args:
            response: Newton's response of a model's joints, which you refresh before each step. Positions are then
                those after the step too, as in Newton. Or as for `actuon.Actuator`.
            options: Newton's options. ``max_iters`` times ``1 + ls_iterations`` is the largest number of evaluations of
                the motor model. The others are for Newton's own search: they are checked, and have no effect.

        Raises:
            StructureError: The effort has no derivatives, which implicit steps require.
            ParameterError: An option is not allowed, or a DOF is in no articulation or has no position of its own.
        """
        if not isinstance(response, JointSpaceResponse):
            if options is not None:
                raise ParameterError("options: are for a JointSpaceResponse; a Response has max_iterations, tolerance")
            if response is None:
                raise ParameterError("response: got None; must be a newton.actuators.JointSpaceResponse")
            self._coupled = None
            super().set_effort_mode_implicit(response)
            return
        obstacle = self.derivative_obstacle()
        if obstacle:
            raise _Unsupported(f"implicit efforts: the effort has no derivatives: {obstacle}")
        self._response = None
        self._coupled = CoupledResponse(self, response, _checked(options))

    def set_effort_mode_explicit(self) -> None:
        """Compute efforts at the positions and velocities before each step."""
        self._coupled = None
        super().set_effort_mode_explicit()

    def step(
        self,
        sim_state: object,
        sim_control: object,
        current_act_state: ActuatorState | None = None,
        next_act_state: ActuatorState | None = None,
        dt: float | None = None,
        *,
        response: Response | Array | None = None,
        bias_force: wp.array | None = None,
    ) -> None:
        """Read state and commands, and add the effort of each DOF to the output. See `actuon.Actuator.step`.

        Args:
            sim_state: Object or mapping with positions and velocities.
            sim_control: Object or mapping with targets, feedforward and outputs.
            current_act_state: State before the step.
            next_act_state: State after the step.
            dt: Time step [s].
            response: As for `actuon.Actuator.step`.
            bias_force: Coriolis and gravity forces of all DOFs of the model [N or N·m], float32 of the length of
                ``joint_qd``, for the prediction of implicit efforts. Explicit efforts do not use it.
        """
        if self._coupled is None or response is not None or self.num_actuators == 0:
            super().step(sim_state, sim_control, current_act_state, next_act_state, dt, response=response)
            return
        if self._stateful:
            self._check_state("current_act_state", current_act_state)
            self._check_state("next_act_state", next_act_state)
        given = self._given(sim_state, sim_control)
        self._coupled.step(given, current_act_state, next_act_state, dt, sim_state, bias_force)

    def sim_state(self) -> object:
        """Return a container with the fields that the actuator reads from ``sim_state``, each None."""
        return _container("sim_state", (self.state_pos_attr, self.state_vel_attr))

    def sim_control(self) -> object:
        """Return a container with the fields that the actuator reads and writes in ``sim_control``, each None."""
        names = (
            self.control_target_pos_attr,
            self.control_target_vel_attr,
            self.control_feedforward_attr,
            self.control_output_attr,
            self.control_computed_output_attr,
            *self.custom_inputs,
        )
        return _container("sim_control", tuple(dict.fromkeys(name for name in names if name is not None)))


class _Unsupported(StructureError, NotImplementedError):
    """Raised, as by Newton, for drives without implicit efforts."""


@functools.cache
def _container_class(name: str, fields: tuple[str, ...]) -> type:
    return dataclasses.make_dataclass(name, [(field, Any, None) for field in fields], slots=True)


def _container(name: str, fields: tuple[str, ...]) -> Any:
    return _container_class(name, fields)()


def _checked(options: Any) -> Any:
    """Return Newton's options, or raise an error for values that are not allowed."""
    options = ImplicitOptions() if options is None else options
    if not isinstance(options, newton.actuators.Actuator.ImplicitOptions):
        raise ParameterError(f"options: got {type(options).__name__}; must be Actuator.ImplicitOptions")
    allowed = [start.value for start in ImplicitOptions.WarmStart]
    if options.warm_start not in allowed:
        raise ParameterError(f"options.warm_start: got {options.warm_start!r}; must be one of {', '.join(allowed)}")
    for name, lowest in (("max_iters", 1), ("ls_iterations", 0)):
        if not isinstance(getattr(options, name), int) or getattr(options, name) < lowest:
            raise ParameterError(f"options.{name}: got {getattr(options, name)!r}; must be a whole number ≥ {lowest}")
    for name in ("residual_tol", "update_tol", "fd_epsilon", "derivative_floor"):
        if not getattr(options, name) > 0.0:
            raise ParameterError(f"options.{name}: got {getattr(options, name)!r}; must be > 0")
    return options


class CoupledResponse:
    """Implicit steps of an actuator by the inverse mass matrices of a model.

    Args:
        actuator: The actuator.
        source: Newton's response, which holds the matrices.
        options: Newton's options.
    """

    def __init__(self, actuator: PlainActuator, source: JointSpaceResponse, options: Any):
        self._source, self._device = source, actuator.device
        model = source.model
        self._articulations, self._local = _places(model, actuator.indices.numpy().astype(np.int64))
        robots = _by_robot(self._articulations, actuator.num_actuators)
        shape = robots, actuator.num_actuators // robots, actuator.num_actuators // robots
        if shape[1] > MAX_SIZE:
            raise ParameterError(
                f"response: got {shape[1]} DOFs that are solved together; must be at most {MAX_SIZE}: put the DOFs of "
                "an articulation next to each other, equally many of each, or split the actuator"
            )
        n, device = actuator.num_actuators, self._device
        self._matrix = wp.array(np.tile(np.eye(shape[1], dtype=np.float32), (robots, 1, 1)), device=device)
        self._acceleration = wp.zeros(n, dtype=wp.float32, device=device)
        evaluations = max(2, options.max_iters * (1 + options.ls_iterations))
        self._response = Response(self._matrix, max_iterations=evaluations, tolerance=_TOLERANCE)
        self._at = [wp.array(values, dtype=wp.int32, device=device) for values in (self._articulations, self._local)]
        starts = model.joint_qd_start.numpy()[model.articulation_start.numpy()[: model.articulation_count]]
        self._base = wp.array(starts, dtype=wp.int32, device=device)
        self._rotated = wp.zeros(model.joint_dof_count, dtype=wp.float32, device=device)
        self._stepper = AfterStep(actuator)

    def step(
        self,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        dt: float | None,
        sim_state: Any,
        bias_force: wp.array | None,
    ) -> None:
        """Step the actuator, from its arrays in the order of its wiring."""
        if dt is None or not dt > 0.0:
            raise StateError(f"dt: got {dt!r}; implicit efforts need a time step > 0 [s]")
        blocks = self._source.inverse_blocks
        wp.launch(_gather, self._matrix.shape, [blocks, *self._at], [self._matrix], device=self._device)
        self._response.acceleration = None
        if bias_force is not None:
            self._check_bias(bias_force)
            model = self._source.model
            wp.copy(self._rotated, bias_force)
            joints = [model.joint_type, model.joint_parent, model.joint_X_p, model.joint_qd_start, sim_state.body_q]
            wp.launch(_to_parent, model.joint_count, [bias_force, *joints], [self._rotated], device=self._device)
            inputs = [blocks, *self._at, self._base, self._rotated]
            wp.launch(_accelerate, len(self._acceleration), inputs, [self._acceleration], device=self._device)
            self._response.acceleration = self._acceleration
        self._stepper.step(given, current, following, dt, self._response)

    def _check_bias(self, bias_force: object) -> None:
        count = self._source.model.joint_dof_count
        if not isinstance(bias_force, wp.array):
            raise ArrayTypeError(f"bias_force: got {type(bias_force).__name__}; must be a Warp array")
        if bias_force.shape != (count,) or bias_force.dtype is not wp.float32 or bias_force.device != self._device:
            raise ArrayError(
                f"bias_force: got shape {bias_force.shape} of {wp.types.type_repr(bias_force.dtype)} on "
                f"'{bias_force.device}'; must be ({count},) of float32 on '{self._device}', one per DOF of the model"
            )


class AfterStep(ImplicitStepper):
    """Implicit steps with efforts at the positions and velocities after the step, q + h·w and w."""

    def __init__(self, actuator: PlainActuator):
        super().__init__(actuator._wiring, actuator._stepper, actuator.state, False)
        wiring, device = self._wiring, actuator.device
        both = dataclasses.replace(
            self._derivative_wiring,
            labels={**wiring.labels, **{name: name for name in DERIVATIVES}},
            telemetry=DERIVATIVES,
        )
        self._derivatives = stepper_of(both, requires_grad=False, fused=True)
        self._by = [wp.zeros(wiring.num_dofs, dtype=wp.float32, device=device) for _ in DERIVATIVES]
        self._positions = wp.zeros(wiring.layouts["pos"].largest + 1, dtype=wp.float32, device=device)
        self._through = [actuator.pos_indices, actuator.indices]
        self._dt = 0.0

    def _with_velocities(self, speeds: wp.array, given: tuple[Array | None, ...], **written: Array) -> tuple[Any, ...]:
        q = self._wiring.signal("q", given[self._wiring.slots.index("q")])
        inputs = [q, speeds, *self._through, self._dt]
        wp.launch(_predict, self._wiring.num_dofs, inputs, [self._positions], device=self._wiring.device)
        replaced = {"q": self._positions, "qd": speeds} | written
        return tuple(replaced.get(slot, value) for slot, value in zip(self._wiring.slots, given, strict=True))

    def _evaluate(self, given: tuple[Array | None, ...], current: MaybeState, dt: float) -> None:
        buffers, self._dt = self._buffers, dt
        signals = self._with_velocities(buffers.trial, given)[: len(self._wiring.sources)]
        self._derivatives.step((*signals, buffers.effort, None, *self._by), current, self._discarded_state, dt)
        wp.launch(_total, self._wiring.num_dofs, [*self._by, dt], [buffers.derivative], device=self._wiring.device)


def _places(model: newton.Model, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the articulation of each DOF, and its number there."""
    starts = model.joint_qd_start.numpy()
    ends = model.articulation_start, model.articulation_end
    first, last = (starts[joints.numpy()[: model.articulation_count]] for joints in ends)
    positions = model.joint_q_start.numpy()
    articulations = np.zeros(len(dofs), np.int64)
    for i, dof in enumerate(dofs):
        own = np.flatnonzero((first <= dof) & (dof < last))
        if not own.size:
            raise ParameterError(f"response: DOF {dof} is in no articulation")
        joint = int(np.searchsorted(starts, dof, side="right")) - 1
        if starts[joint + 1] - starts[joint] != positions[joint + 1] - positions[joint]:
            name = newton.JointType(int(model.joint_type.numpy()[joint])).name
            raise ParameterError(
                f"response: DOF {dof} is of a {name} joint, whose positions are a quaternion; implicit efforts need "
                "one position per DOF"
            )
        articulations[i] = own[0]
    return articulations, dofs - first[articulations]


def _by_robot(articulations: np.ndarray, count: int) -> int:
    """Return the number of equal groups of adjacent DOFs, each of one articulation; 1 if there are no such groups."""
    changes = np.flatnonzero(np.diff(articulations)) + 1
    sizes = np.diff([0, *changes, count])
    is_regular = len(set(sizes.tolist())) == 1 and len(set(articulations[[0, *changes]].tolist())) == len(sizes)
    return len(sizes) if is_regular else 1


@wp.kernel(enable_backward=False)
def _gather(blocks: FloatGrid, articulations: Ints, local: Ints, matrix: FloatGrid) -> None:
    robot, i, j = wp.tid()
    first = robot * matrix.shape[1]
    own, other = articulations[first + i], articulations[first + j]
    matrix[robot, i, j] = wp.where(own == other, blocks[own, local[first + i], local[first + j]], 0.0)


@wp.kernel(enable_backward=False)
def _to_parent(
    bias: Floats,
    joint_type: Ints,
    joint_parent: Ints,
    joint_frame: Transforms,
    joint_start: Ints,
    body_q: Transforms,
    rotated: Floats,
) -> None:
    joint = wp.tid()
    kind = joint_type[joint]
    if kind != _FREE and kind != _DISTANCE:
        return
    frame = joint_frame[joint]
    if joint_parent[joint] >= 0:
        frame = body_q[joint_parent[joint]] * frame
    q = wp.transform_get_rotation(frame)
    first = joint_start[joint]
    for part in range(2):
        at = first + 3 * part
        turned = wp.quat_rotate_inv(q, wp.vec3(bias[at], bias[at + 1], bias[at + 2]))
        for k in range(3):
            rotated[at + k] = turned[k]


@wp.kernel(enable_backward=False)
def _accelerate(
    blocks: FloatGrid, articulations: Ints, local: Ints, base: Ints, bias: Floats, acceleration: Floats
) -> None:
    i = wp.tid()
    own = articulations[i]
    total = float(0.0)
    for j in range(blocks.shape[2]):
        dof = base[own] + j
        if dof < bias.shape[0]:
            total += blocks[own, local[i], j] * bias[dof]
    acceleration[i] = -total


@wp.kernel(enable_backward=False)
def _predict(q: Floats, qd: Floats, pos_indices: Indices, vel_indices: Indices, dt: float, after: Floats) -> None:
    i = wp.tid()
    at = int(pos_indices[i])
    after[at] = q[at] + dt * qd[int(vel_indices[i])]


@wp.kernel(enable_backward=False)
def _total(by_q: Floats, by_qd: Floats, dt: float, derivative: Floats) -> None:
    i = wp.tid()
    derivative[i] = by_qd[i] + dt * by_q[i]
