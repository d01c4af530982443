# SPDX-License-Identifier: Apache-2.0
"""Kernels that find the speeds of DOFs by themselves (see `implicit_laws`), in blocks of lanes, on the CPU."""

from __future__ import annotations

import warp as wp

from ..kernel import memory_block
from ..kernel.types import BLOCKS, DENSE, LANES, Flavour, Floats, Indices, Ints, module_options
from .implicit_laws import bracketed_newton_step, is_solved, unforced_velocity, velocity_error

wp.set_module_options(module_options(Flavour.BLOCK))

_FUNCTIONS = memory_block.functions(LANES)
FloatBlock, gather, load, scatter, store = (
    _FUNCTIONS[name] for name in ("FloatBlock", "gather", "load", "scatter", "store")
)
CELL = DENSE.size


@wp.kernel(enable_backward=False)
def start(
    n: int,
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
    cell, _unused = wp.tid()
    for block in range(BLOCKS):
        base = cell * CELL + block * LANES
        count = wp.min(LANES, n - base)
        if count > 0:
            qd = gather(velocities, indices, offset, base, count)
            inverse = load(inverse_inertia, base, count)
            given = load(acceleration, base, count)
            under = load(reference, base, count)
            c = FloatBlock()
            g = FloatBlock()
            bads = int(0)
            for j in range(LANES):
                c_j, g_j, is_bad = unforced_velocity(qd[j], dt, inverse[j], given[j], under[j])
                c[j] = c_j
                g[j] = g_j
                bads += wp.where(j < count, is_bad, 0)
            scatter(trial, qd, False, indices, offset, base, count)
            store(free, c, base, count)
            store(gain, g, base, count)
            store(low, FloatBlock(-wp.inf), base, count)
            store(high, FloatBlock(wp.inf), base, count)
            store(best, qd, base, count)
            store(error, FloatBlock(wp.inf), base, count)
            store(last, FloatBlock(wp.inf), base, count)
            store(last_width, FloatBlock(wp.inf), base, count)
            if bads > 0:
                wp.atomic_add(bad, 0, bads)


@wp.kernel(enable_backward=False)
def improve(
    n: int,
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
    cell, _unused = wp.tid()
    enough = wp.where(is_first, -1.0, tolerance)
    for block in range(BLOCKS):
        base = cell * CELL + block * LANES
        count = wp.min(LANES, n - base)
        if count > 0:
            w = gather(trial, indices, offset, base, count)
            effort_ = load(effort, base, count)
            slope_ = load(slope, base, count)
            free_ = load(free, base, count)
            gain_ = load(gain, base, count)
            low_ = load(low, base, count)
            high_ = load(high, base, count)
            best_ = load(best, base, count)
            error_ = load(error, base, count)
            from_low_ = load(from_low, base, count)
            from_high_ = load(from_high, base, count)
            low_rise_ = load(low_rise, base, count)
            high_rise_ = load(high_rise, base, count)
            last_ = load(last, base, count)
            last_width_ = load(last_width, base, count)
            left = int(0)
            for j in range(LANES):
                tried, lower, upper, up, down, rise_below, rise_above, residual, width = bracketed_newton_step(
                    w[j],
                    effort_[j],
                    slope_[j],
                    free_[j],
                    gain_[j],
                    low_[j],
                    high_[j],
                    from_low_[j],
                    from_high_[j],
                    low_rise_[j],
                    high_rise_[j],
                    last_[j],
                    last_width_[j],
                )
                off = velocity_error(residual, gain_[j], slope_[j])
                kept = wp.where(off < error_[j], w[j], best_[j])
                least = wp.where(off < error_[j], off, error_[j])
                solved = is_solved(least, kept, enough)
                w[j] = wp.where(solved, kept, tried)
                low_[j] = lower
                high_[j] = upper
                from_low_[j] = up
                from_high_[j] = down
                low_rise_[j] = rise_below
                high_rise_[j] = rise_above
                last_[j] = residual
                last_width_[j] = width
                best_[j] = kept
                error_[j] = least
                left += wp.where(j < count, wp.where(solved, 0, 1), 0)
            scatter(trial, w, False, indices, offset, base, count)
            store(low, low_, base, count)
            store(high, high_, base, count)
            store(best, best_, base, count)
            store(error, error_, base, count)
            store(from_low, from_low_, base, count)
            store(from_high, from_high_, base, count)
            store(low_rise, low_rise_, base, count)
            store(high_rise, high_rise_, base, count)
            store(last, last_, base, count)
            store(last_width, last_width_, base, count)
            if remaining and left > 0:
                wp.atomic_add(remaining, 0, left)


@wp.kernel(enable_backward=False)
def finish(
    n: int,
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
    cell, _unused = wp.tid()
    for block in range(BLOCKS):
        base = cell * CELL + block * LANES
        count = wp.min(LANES, n - base)
        if count > 0:
            best_ = load(best, base, count)
            error_ = load(error, base, count)
            left = int(0)
            for j in range(LANES):
                left += wp.where(is_solved(error_[j], best_[j], tolerance), 0, 1)
            scatter(trial, best_, False, indices, offset, base, count)
            store(velocity, best_, base, count)
            store(residual, error_, base, count)
            if left > 0:
                wp.atomic_add(unconverged, 0, left)
