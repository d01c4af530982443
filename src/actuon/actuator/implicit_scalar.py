# SPDX-License-Identifier: Apache-2.0
"""Kernels that find the speeds of DOFs by themselves (see `implicit_laws`), one DOF per thread, and their adjoint."""

from __future__ import annotations

import warp as wp

from ..kernel.types import Flavour, Floats, Indices, Ints, module_options
from .implicit_laws import array_place, bracketed_newton_step, is_solved, unforced_velocity, velocity_error

wp.set_module_options(module_options(Flavour.SCALAR))


@wp.kernel(enable_backward=False)
def start(
    dt: float,
    velocities: Floats,
    indices: Indices,
    offset: int,
    inverse_inertia: Floats,
    acceleration: Floats,
    reference: Floats,
    trial: Floats,
    free: Floats,
    gain: Floats,
    low: Floats,
    high: Floats,
    last: Floats,
    last_width: Floats,
    best: Floats,
    error: Floats,
    bad: Ints,
):
    """Start at the speeds before the step."""
    i, _unused = wp.tid()  # two dimensions: for one, Warp compiles the kernel twice
    at = array_place(indices, offset, i)
    qd = velocities[at]
    given = float(0.0)
    if acceleration:
        given = acceleration[i]
    under = float(0.0)
    if reference:
        under = reference[i]
    c, g, is_bad = unforced_velocity(qd, dt, inverse_inertia[i], given, under)
    trial[at] = qd
    free[i] = c
    gain[i] = g
    low[i] = -wp.inf
    high[i] = wp.inf
    best[i] = qd
    error[i] = wp.inf
    last[i] = wp.inf
    last_width[i] = wp.inf
    if is_bad == 1:
        wp.atomic_add(bad, 0, 1)


@wp.kernel(enable_backward=False)
def improve(
    tolerance: float,
    is_first: bool,
    effort: Floats,
    slope: Floats,
    indices: Indices,
    offset: int,
    trial: Floats,
    free: Floats,
    gain: Floats,
    low: Floats,
    high: Floats,
    from_low: Floats,
    from_high: Floats,
    low_rise: Floats,
    high_rise: Floats,
    last: Floats,
    last_width: Floats,
    best: Floats,
    error: Floats,
    remaining: Ints,
):
    """Find the speeds to try next, from the efforts at the last ones and their slopes."""
    i, _unused = wp.tid()
    at = array_place(indices, offset, i)
    w = trial[at]
    tried, lower, upper, up, down, rise_below, rise_above, residual, width = bracketed_newton_step(
        w,
        effort[i],
        slope[i],
        free[i],
        gain[i],
        low[i],
        high[i],
        from_low[i],
        from_high[i],
        low_rise[i],
        high_rise[i],
        last[i],
        last_width[i],
    )
    off = velocity_error(residual, gain[i], slope[i])
    kept = wp.where(off < error[i], w, best[i])
    least = wp.where(off < error[i], off, error[i])
    solved = is_solved(least, kept, tolerance) and not is_first
    trial[at] = wp.where(solved, kept, tried)
    low[i] = lower
    high[i] = upper
    from_low[i] = up
    from_high[i] = down
    low_rise[i] = rise_below
    high_rise[i] = rise_above
    last[i] = residual
    last_width[i] = width
    best[i] = kept
    error[i] = least
    if remaining and not solved:
        wp.atomic_add(remaining, 0, 1)


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
    """Take the best speeds, and count those that are not good enough."""
    i, _unused = wp.tid()
    trial[array_place(indices, offset, i)] = best[i]
    velocity[i] = best[i]
    residual[i] = error[i]
    if not is_solved(error[i], best[i], tolerance):
        wp.atomic_add(unconverged, 0, 1)


@wp.kernel(enable_backward=False)
def adjoint(
    dt: float,
    indices: Indices,
    offset: int,
    effort_indices: Indices,
    effort_offset: int,
    effort: Floats,
    slope: Floats,
    inverse_inertia: Floats,
    reference: Floats,
    speed_adjoint: Floats,
    effort_adjoint: Floats,
    velocity_adjoint: Floats,
    acceleration_adjoint: Floats,
    reference_adjoint: Floats,
    inertia_adjoint: Floats,
):
    """Propagate the gradient by the speeds to all that they depend on."""
    i, _unused = wp.tid()
    at = array_place(indices, offset, i)
    gain = dt * inverse_inertia[i]
    share = speed_adjoint[at] / (1.0 - gain * slope[i])
    effort_adjoint[array_place(effort_indices, effort_offset, i)] = gain * share
    more = effort[i]
    if reference:
        more -= reference[i]
    if velocity_adjoint:
        velocity_adjoint[at] += share
    if acceleration_adjoint:
        acceleration_adjoint[i] += dt * share
    if reference_adjoint:
        reference_adjoint[i] -= gain * share
    if inertia_adjoint:
        inertia_adjoint[i] += dt * share * more
