# SPDX-License-Identifier: Apache-2.0
r"""The law of a chain in Newton's implicit mode.

In Newton's implicit mode the effort of a step is solved for at the state that the step ends in, :math:`q + h w` and
:math:`w`, by a law that Newton's kernel evaluates at any w. That of a chain is a line with limits,

.. math:: \tau(w) = \mathrm{clamp}(\tau_1 + s_1 (w - w_1), \; l(w), \; u(w))

about the speed :math:`w_0` that the step would end with if each joint answered to its own effort alone, by one step of
Newton's method. The limits l and u are what the chain allows at the speed before the step and at :math:`w_0`, and
in between. The line is the tangent of the chain at :math:`w_0`; where the effort is at a limit there, that at the speed
where the controller asks for nothing, so that a step can leave the limit. A positive slope, which accelerates a motion,
is taken as zero.
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
from ..kernel.chain import BOUNDS, SLOPES
from ..kernel.launch import Launch
from ..kernel.types import Flavour, Floats, FloatTable, Indices, module_options

APART = wp.constant(1e-2)
"""Distance of two speeds [rad/s or m/s], by 1 + their magnitude, from which the controller's slope is found."""
UNLIMITED = wp.constant(1e12)
"""Stands for an infinite limit [N·m or N], which cannot be interpolated."""

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
    """Return the effort by the law of a chain near the end of a step, as `DriveBase.evaluate_force` is called."""
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
    """The way of a chain through the indices of Newton's actuator."""

    indices: tuple[wp.array, ...]
    layouts: Mapping[str, IndexLayout]
    stepper: Stepper


class ForceLaw:
    """The law of a chain near the end of a step, as `limited_line` reads it.

    Args:
        actuator: Runs the chain.
    """

    def __init__(self, actuator: Actuator):
        self._actuator, n = actuator, actuator.num_actuators
        self.params = self._floats(n, 9)
        """The speed before the step and the limits there; w₀ and the limits there; τ₁, s₁ and w₁. Shape (N, 9)."""
        self.explicit_effort = self._floats(n)
        """Efforts at the state before the step."""
        evaluated = ("effort", "computed", *SLOPES, *BOUNDS)
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
        """Write the law of this step.

        Args:
            signals: What the chain reads.
            route: Its indices.
            state: Before the step.
            inverse_mass: A_ii [1/(kg·m²) or 1/kg], shape (N,).
            dt: Time step [s].
        """
        positions, velocities, *commands = signals
        if route is not self._route:
            self._wire(route, positions, velocities)
        given = (self._arrays["trial_q"], self._arrays["trial_qd"], *commands, *self._evaluated)
        values = {"dt": dt, "positions": positions, "velocities": velocities, "inverse_mass": inverse_mass}
        self._launch(_start, values)
        for kernel in (_predict, _write_line, _aim_at_rest, _leave_limits):
            self._stepper.step(given, state, self._discarded, dt)
            self._launch(kernel, values)

    def _launch(self, kernel: wp.Kernel, values: Mapping[str, object]) -> None:
        launch = self._launches[kernel.key]
        launch.update({name: value for name, value in values.items() if name in self._names[kernel.key]})
        launch.launch()

    def _wire(self, route: Route, positions: Any, velocities: Any) -> None:
        """Take the memory that a step needs."""
        device = self._actuator.device
        if device.is_capturing:
            raise StructureError("DriveActuon: take one step in the implicit mode before a graph is captured")
        self._route = route
        self._stepper = self._actuator.stepper(route.layouts, (*SLOPES, *BOUNDS), keeps_rings=False)
        self._discarded = self._actuator.state()
        self._arrays |= {"trial_q": self._floats(*positions.shape), "trial_qd": self._floats(*velocities.shape)}
        values = {**self._arrays, "pos_indices": route.indices[0], "vel_indices": route.indices[1]}
        values |= {"dt": 0.0, "inverse_mass": self.explicit_effort, "positions": positions, "velocities": velocities}
        kernels = (_start, _predict, _write_line, _aim_at_rest, _leave_limits)
        self._names = {kernel.key: [argument.label for argument in kernel.adj.args] for kernel in kernels}
        threads = self._actuator.num_actuators, 1  # two dimensions: for one, Warp compiles the kernel twice
        self._launches = {
            kernel.key: Launch(kernel, threads, device, [values[name] for name in self._names[kernel.key]])
            for kernel in kernels
        }


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
    """Let the chain be evaluated next at a speed, and the position that a step with this speed ends at."""
    q = int(pos_indices[i])
    trial_q[q] = positions[q] + dt * speed
    trial_qd[int(vel_indices[i])] = speed


@wp.func
def write_limits(i: int, column: int, speed: float, lowest: float, highest: float, params: FloatTable):
    """Write a speed, and the efforts that limits allow there."""
    params[i, column] = speed
    params[i, column + 1] = wp.max(lowest, -UNLIMITED)
    params[i, column + 2] = wp.min(highest, UNLIMITED)


@wp.func
def write_tangent(i: int, speed: float, effort: float, slope: float, params: FloatTable):
    """Write the effort at a speed, and its slope."""
    params[i, 6] = effort
    params[i, 7] = wp.min(slope, 0.0)
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
    """Go to the speed before the step."""
    i, _unused = wp.tid()
    speed = velocities[int(vel_indices[i])]
    at_speed(i, speed, dt, positions, pos_indices, vel_indices, trial_q, trial_qd)


@wp.kernel(enable_backward=False)
def _predict(
    dt: float,
    positions: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    inverse_mass: Floats,
    effort: Floats,
    effort_slope_q: Floats,
    effort_slope_qd: Floats,
    effort_min: Floats,
    effort_max: Floats,
    trial_q: Floats,
    trial_qd: Floats,
    params: FloatTable,
):
    """Write the limits at the speed before the step, and go to w₀."""
    i, _unused = wp.tid()
    speed = trial_qd[int(vel_indices[i])]
    write_limits(i, 0, speed, effort_min[i], effort_max[i], params)
    gain = dt * inverse_mass[i]
    slope = wp.min(dt * effort_slope_q[i] + effort_slope_qd[i], 0.0)
    following = speed + gain * effort[i] / (1.0 - gain * slope)
    at_speed(i, following, dt, positions, pos_indices, vel_indices, trial_q, trial_qd)


@wp.kernel(enable_backward=False)
def _write_line(
    dt: float,
    positions: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    effort: Floats,
    computed: Floats,
    effort_slope_q: Floats,
    effort_slope_qd: Floats,
    effort_min: Floats,
    effort_max: Floats,
    trial_q: Floats,
    trial_qd: Floats,
    controller_effort: Floats,
    params: FloatTable,
):
    """Write the tangent and the limits at w₀, and go to a speed a little above it."""
    i, _unused = wp.tid()
    speed = trial_qd[int(vel_indices[i])]
    write_limits(i, 3, speed, effort_min[i], effort_max[i], params)
    write_tangent(i, speed, effort[i], dt * effort_slope_q[i] + effort_slope_qd[i], params)
    controller_effort[i] = computed[i]
    following = speed + APART * (1.0 + wp.abs(speed))
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
    """Go to the speed where the controller asks for nothing."""
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
    effort_slope_q: Floats,
    effort_slope_qd: Floats,
    effort_min: Floats,
    effort_max: Floats,
    trial_qd: Floats,
    params: FloatTable,
):
    """Where the effort at w₀ is at a limit, take the tangent from here, where it is not."""
    i, _unused = wp.tid()
    was_free = params[i, 6] > params[i, 4] and params[i, 6] < params[i, 5]
    is_free = effort[i] > effort_min[i] and effort[i] < effort_max[i]
    if is_free and not was_free:
        slope = dt * effort_slope_q[i] + effort_slope_qd[i]
        write_tangent(i, trial_qd[int(vel_indices[i])], effort[i], slope, params)
