# SPDX-License-Identifier: Apache-2.0
"""Numbers and functions that laws share."""

from __future__ import annotations

import warp as wp

HALF_STEP = wp.constant(2.0**-24)
"""Largest relative error of rounding to 32 bits."""
SHORTEST = wp.constant(1e-9)
"""A time [s] below this is taken as this where something is divided by it."""


@wp.func
def exponential_less_one(x: float):
    """``exp(x) - 1`` without cancellation near zero."""
    return wp.tanh(0.5 * x) * (wp.exp(x) + 1.0)


@wp.func
def integrated(total: float, added: float, rest: float, most: float):
    """Return a sum, held within ± ``most``, and its rounding error, so that small parts of a large sum are not lost."""
    part = added + rest
    grown = total + part
    held = wp.where(grown < -most, -most, wp.where(grown > most, most, grown))
    lost = part - (grown - total)
    lost = wp.where(wp.abs(lost) <= wp.abs(part), lost, 0.0)  # NaN of an infinite sum
    return held, wp.where(held == grown, lost, 0.0)


@wp.func
def regained(q: float, qd: float, dt: float, last_q: float, last_rest: float):
    """Rounding error of a position ``q`` in 32 bits, to be added to it.

    At 10⁴ rad numbers of 32 bits are 1 mrad apart. Engines move a joint by the velocity that a step ends with: within
    what rounding can have moved ``q``, the joint is where that takes it from where it was, ``last_q + last_rest``.
    Gradients pass as if nothing was rounded.
    """
    most = HALF_STEP * wp.abs(q)
    return wp.min(wp.max(last_rest + qd * dt - (q - last_q), -most), most)


@wp.func_grad(regained)
def adj_regained(q: float, qd: float, dt: float, last_q: float, last_rest: float, adj_ret: float):
    pass
