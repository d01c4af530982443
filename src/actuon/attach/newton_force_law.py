# SPDX-License-Identifier: Apache-2.0
r"""The law of a chain in Newton's implicit mode.

In Newton's implicit mode the effort of a step is solved for at the end of the step, at :math:`q + h w` and :math:`w`,
by a law that Newton's kernel evaluates at any w. The law of a chain is a line with limits,

.. math:: \tau(w) = \mathrm{clamp}(\tau_1 + s_1 (w - w_1), \; l(w), \; u(w))

near the speed :math:`w_0` that one step of Newton's method predicts for each joint alone. The limits l and u are those
of the chain at the speed before the step and at :math:`w_0`, interpolated in between. The line is the linearisation of
the chain at :math:`w_0`. If the effort there is at a limit, it is that at the speed where the controller requests zero
effort, so that a step can leave the limit. A positive derivative, which accelerates a motion, counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.state import ActuatorState
from ..actuator.stepping import IndexLayout, Stepper
from ..errors import StructureError
from ..kernel.chain import BOUNDS, DERIVATIVES
from ..kernel.launch import Launch
from ..kernel.types import Flavour, Floats, FloatTable, Indices, module_options

APART = wp.constant(1e-2)
"""Difference of the two speeds of the controller's finite difference [rad/s or m/s], relative to 1 + the speed."""
UNLIMITED = wp.constant(1e12)
"""Replaces infinite limits [N·m or N], which cannot be interpolated."""

wp.set_module_options(module_options(Flavour.SCALAR))


@wp.func
def limited_line(
    q: wp.float64,
    qd: wp.float64,
    target_q: wp.float64,
    target_qd: wp.float64,
    feedforward: wp.float64,
    params: FloatTable,
    i: wp.int32,
):
    """Return the effort of the motor model near the end of a step, for `DriveBase.evaluate_force`."""
    before = wp.float64(params[i, 0])
    apart = wp.float64(params[i, 3]) - before
    share = wp.where(apart == wp.float64(0.0), wp.float64(0.0), (qd - before) / apart)
    share = wp.clamp(share, wp.float64(0.0), wp.float64(1.0))
    lowest = wp.lerp(wp.float64(params[i, 1]), wp.float64(params[i, 4]), share)
    highest = wp.lerp(wp.float64(params[i, 2]), wp.float64(params[i, 5]), share)
    effort = wp.float64(params[i, 6]) + wp.float64(params[i, 7]) * (qd - wp.float64(params[i, 8]))
    return wp.where(effort == effort, wp.clamp(effort, lowest, highest), effort)  # NaN stays NaN


@dataclass(frozen=True)
class Route:
    """Indices of a chain in the arrays of Newton's actuator."""

    indices: tuple[wp.array, ...]
    layouts: Mapping[str, IndexLayout]
    stepper: Stepper


class ForceLaw:
    """Parameters of `limited_line` for a chain.

    Args:
        actuator: Actuator of the chain.
    """

    def __init__(self, actuator: Actuator):
        self._actuator, n = actuator, actuator.num_actuators
        self.params = self._floats(n, 9)
        """The speed before the step and the limits there; w₀ and the limits there; τ₁, s₁ and w₁. Shape (N, 9)."""
        self.explicit_effort = self._floats(n)
        """Efforts before the step."""
        evaluated = ("effort", "computed", *DERIVATIVES, *BOUNDS)
        self._arrays = {name: self._floats(n) for name in (*evaluated, "controller_effort")} | {"params": self.params}
        self._evaluated = tuple(self._arrays[name] for name in evaluated)
        self._route: Route | None = None

    def _floats(self, *shape: int) -> wp.array:
        return wp.zeros(shape, dtype=wp.float32, device=self._actuator.device)

    def update(
        self,
        signals: tuple[wp.array | None, ...],
        route: Route,
        state: ActuatorState | None,
        inverse_mass: wp.array | None,
        dt: float,
    ) -> None:
        """Update the parameters for a step.

        Args:
            signals: Inputs of the chain.
            route: Its indices.
            state: State before the step.
            inverse_mass: Diagonal of the inverse mass matrix [1/(kg·m²) or 1/kg], shape (N,). None predicts the speed
                before the step.
            dt: Time step [s].
        """
        positions, velocities, *commands = signals
        if route is not self._route:
            self._wire(route, positions, velocities)
        given = (self._arrays["trial_q"], self._arrays["trial_qd"], *commands, *self._evaluated)
        values = {"dt": dt, "positions": positions, "velocities": velocities, "inverse_mass": inverse_mass}
        for i, (launch, names) in enumerate(self._launches):
            if i > 0:
                self._stepper.step(given, state, self._discarded, dt)
            launch.update({name: value for name, value in values.items() if name in names})
            launch.launch()

    def _wire(self, route: Route, positions: Any, velocities: Any) -> None:
        """Allocate the memory of a step."""
        device = self._actuator.device
        if device.is_capturing:
            raise StructureError("DriveActuon: take one step in the implicit mode before a graph is captured")
        self._route = route
        self._stepper = self._actuator.stepper(route.layouts, (*DERIVATIVES, *BOUNDS), keeps_rings=False)
        self._discarded = self._actuator.state()
        self._arrays |= {"trial_q": self._floats(*positions.shape), "trial_qd": self._floats(*velocities.shape)}
        values = {**self._arrays, "pos_indices": route.indices[0], "vel_indices": route.indices[1]}
        values |= {"dt": 0.0, "inverse_mass": self.explicit_effort, "positions": positions, "velocities": velocities}
        threads = self._actuator.num_actuators, 1  # two dimensions: for one, Warp compiles the kernel twice
        self._launches = []
        for kernel, column in ((_start, 0), (_write_line, 0), (_write_line, 3), (_aim_at_rest, 3), (_leave_limits, 3)):
            names = [argument.label for argument in kernel.adj.args]
            arguments = [(values | {"column": column})[name] for name in names]
            self._launches.append((Launch(kernel, threads, device, arguments), names))


@wp.func
def at_speed(
    i: int,
    speed: float,
    dt: float,
    positions: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    trial_q: Floats,
    trial_qd: Floats,
):
    """Set the state of the next evaluation: a speed, and the position after a step with this speed."""
    q = int(pos_indices[i])
    trial_q[q] = positions[q] + dt * speed
    trial_qd[int(vel_indices[i])] = speed


@wp.func
def write_limits(i: int, column: int, speed: float, lowest: float, highest: float, params: FloatTable):
    """Write a speed, and the limits there."""
    params[i, column] = speed
    params[i, column + 1] = wp.max(lowest, -UNLIMITED)
    params[i, column + 2] = wp.min(highest, UNLIMITED)


@wp.func
def write_derivative(i: int, speed: float, effort: float, derivative: float, params: FloatTable):
    """Write the effort at a speed, and its derivative."""
    params[i, 6] = effort
    params[i, 7] = wp.min(derivative, 0.0)
    params[i, 8] = speed


@wp.kernel(enable_backward=False)
def _start(
    dt: float,
    positions: Floats,
    velocities: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    trial_q: Floats,
    trial_qd: Floats,
):
    """Evaluate at the speed before the step."""
    i, _unused = wp.tid()
    speed = velocities[int(vel_indices[i])]
    at_speed(i, speed, dt, positions, pos_indices, vel_indices, trial_q, trial_qd)


@wp.kernel(enable_backward=False)
def _write_line(
    column: int,
    dt: float,
    positions: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    inverse_mass: Floats,
    effort: Floats,
    computed: Floats,
    effort_derivative_q: Floats,
    effort_derivative_qd: Floats,
    effort_min: Floats,
    effort_max: Floats,
    trial_q: Floats,
    trial_qd: Floats,
    controller_effort: Floats,
    params: FloatTable,
):
    """Write derivative and limits. At the speed before the step (column 0), go to w₀; at w₀ (column 3), go above it."""
    i, _unused = wp.tid()
    speed = trial_qd[int(vel_indices[i])]
    derivative = dt * effort_derivative_q[i] + effort_derivative_qd[i]
    write_limits(i, column, speed, effort_min[i], effort_max[i], params)
    write_derivative(i, speed, effort[i], derivative, params)
    controller_effort[i] = computed[i]
    following = speed + APART * (1.0 + wp.abs(speed))
    if column == 0:
        gain = float(0.0)
        if inverse_mass:
            gain = dt * inverse_mass[i]
        following = speed + gain * effort[i] / (1.0 - gain * wp.min(derivative, 0.0))
    at_speed(i, following, dt, positions, pos_indices, vel_indices, trial_q, trial_qd)


@wp.kernel(enable_backward=False)
def _aim_at_rest(
    dt: float,
    positions: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    computed: Floats,
    trial_q: Floats,
    trial_qd: Floats,
    controller_effort: Floats,
    params: FloatTable,
):
    """Go to the speed at which the controller requests zero effort."""
    i, _unused = wp.tid()
    speed = params[i, 3]
    rise = (computed[i] - controller_effort[i]) / (trial_qd[int(vel_indices[i])] - speed)
    following = speed - wp.where(rise < 0.0, controller_effort[i] / rise, 0.0)
    at_speed(i, following, dt, positions, pos_indices, vel_indices, trial_q, trial_qd)


@wp.kernel(enable_backward=False)
def _leave_limits(
    dt: float,
    vel_indices: Indices,
    effort: Floats,
    effort_derivative_q: Floats,
    effort_derivative_qd: Floats,
    effort_min: Floats,
    effort_max: Floats,
    trial_qd: Floats,
    params: FloatTable,
):
    """Replace the derivative by the one at this speed if the effort is at a limit at w₀, and not here."""
    i, _unused = wp.tid()
    was_free = params[i, 6] > params[i, 4] and params[i, 6] < params[i, 5]
    is_free = effort[i] > effort_min[i] and effort[i] < effort_max[i]
    if is_free and not was_free:
        derivative = dt * effort_derivative_q[i] + effort_derivative_qd[i]
        write_derivative(i, trial_qd[int(vel_indices[i])], effort[i], derivative, params)
