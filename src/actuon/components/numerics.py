# SPDX-License-Identifier: Apache-2.0
"""Numbers and functions that laws share."""

from __future__ import annotations

import warp as wp

SHORTEST = wp.constant(1e-9)
"""A time [s] below this is taken as this where something is divided by it."""


@wp.func
def exponential_less_one(x: float):
    """``exp(x) - 1`` without cancellation near zero."""
    return wp.tanh(0.5 * x) * (wp.exp(x) + 1.0)
