# SPDX-License-Identifier: Apache-2.0
r"""Velocity after a step, for DOFs that respond to their own effort only.

For each DOF, Newton's method finds the root of

.. math:: F(w) = w - c - g\,\tau(w), \qquad c = \dot q + h\,(a - A \tau_r), \qquad g = h A

F rises if the effort brakes; limits give it kinks. Once F was negative and positive, the root is bracketed. The next
velocity then follows the tangent at the last one if F became much smaller; otherwise, of the tangents at both ends of
the bracket, the one that is right if F has a single kink between them. If that leaves the bracket, or the last step
halved neither the bracket nor F, the bracket is bisected. The result is the best velocity found.
"""

from __future__ import annotations

import warp as wp

from ..kernel.memory_scalar import dof_at
from ..kernel.types import Flavour, Floats, Indices, Ints, module_options

wp.set_module_options(module_options(Flavour.SCALAR))


@wp.func
def is_solved(error: float, speed: float, tolerance: float):
    """Return whether a velocity [rad/s] is within tolerance of the solution."""
    return error <= tolerance * (1.0 + wp.abs(speed))


@wp.func
def velocity_error(residual: float, gain: float, derivative: float):
    """Return the error of a velocity [rad/s]: the size of Newton's step, or less if the effort accelerates."""
    return wp.abs(residual) / wp.max(1.0 - gain * derivative, 1.0)


STARTED = ("free", "gain", "low", "high", "last", "last_width", "best", "error")
"""States of a DOF that `start_law` returns."""
IMPROVED = ("low", "high", "from_low", "from_high", "low_rise", "high_rise", "last", "last_width", "best", "error")
"""States of a DOF that `improve_law` returns."""


@wp.func
def start_law(qd: float, dt: float, inverse_inertia: float, acceleration: float, reference: float):
    """Return the first velocity to evaluate, whether the inverse inertia is bad, and `STARTED`."""
    is_bad = wp.where(inverse_inertia > 0.0, wp.where(inverse_inertia < wp.inf, 0.0, 1.0), 1.0)
    gain = dt * inverse_inertia
    free = wp.where(is_bad == 1.0, wp.nan, qd + dt * acceleration - gain * reference)
    return qd, is_bad, free, wp.where(is_bad == 1.0, 0.0, gain), -wp.inf, wp.inf, wp.inf, wp.inf, qd, wp.inf


@wp.func
def improve_law(
    trial: float,
    trial_effort: float,
    trial_derivative: float,
    tolerance: Floats,
    free: float,
    gain: float,
    low: float,
    high: float,
    from_low: float,
    from_high: float,
    low_rise: float,
    high_rise: float,
    last: float,
    last_width: float,
    best: float,
    error: float,
):
    """Return the next velocity to evaluate, or the best one if it is solved; whether it is unsolved; and `IMPROVED`.

    These are the ends of the bracket, the Newton steps from them and the derivatives of F there, the size of F, the
    width of the bracket, the best velocity and its error.
    """
    residual = trial - free - gain * trial_effort
    rise = 1.0 - gain * trial_derivative
    wanted = trial - residual / wp.where(rise > 0.01, rise, 1.0)
    lower = wp.where(residual < 0.0, trial, low)
    upper = wp.where(residual > 0.0, trial, high)
    up = wp.where(residual < 0.0, wanted, from_low)
    down = wp.where(residual > 0.0, wanted, from_high)
    rise_below = wp.where(residual < 0.0, rise, low_rise)
    rise_above = wp.where(residual > 0.0, rise, high_rise)
    width = upper - lower
    middle = lower + 0.5 * width
    bend = wp.where(rise_above > rise_below, wp.min(up, down), wp.max(up, down))
    size = wp.abs(residual)
    between = wp.where(size < 0.1 * last, wanted, bend)
    slow = wp.where(width > 0.5 * last_width, wp.where(size > 0.5 * last, middle, between), between)
    inside = wp.where(between > lower, wp.where(between < upper, slow, middle), middle)
    tried = wp.where(width < wp.inf, inside, wanted)
    off = velocity_error(residual, gain, trial_derivative)
    kept = wp.where(off < error, trial, best)
    least = wp.where(off < error, off, error)
    solved = is_solved(least, kept, tolerance[0])
    next_trial = wp.where(solved, kept, tried)
    unsolved = wp.where(solved, 0.0, 1.0)
    return next_trial, unsolved, lower, upper, up, down, rise_below, rise_above, size, width, kept, least


@wp.kernel(enable_backward=False)
def finish(
    tolerance: float,
    indices: Indices,
    offset: int,
    best: Floats,
    error: Floats,
    trial: Floats,
    velocity: Floats,
    residual: Floats,
    unconverged: Ints,
):
    """Take the best velocities, and count those beyond the tolerance."""
    i, _unused = wp.tid()  # two dimensions: for one, Warp compiles the kernel twice
    trial[dof_at(indices, offset, i)] = best[i]
    velocity[i] = best[i]
    residual[i] = error[i]
    if not is_solved(error[i], best[i], tolerance):
        wp.atomic_add(unconverged, 0, 1)
