# SPDX-License-Identifier: Apache-2.0
"""The tangent of a chain: how its effort changes with position and velocity of the joint."""

from __future__ import annotations

from collections.abc import Sequence

from .components.component import Component


def why_no_slopes(stages: Sequence[Component], requires_grad: bool) -> str:
    """Why the slopes of a chain cannot be had; empty where they can.

    Args:
        stages: The chain.
        requires_grad: Whether a tape differentiates it.
    """
    apart = [type(component).__name__ for component in stages if not component.is_fused()]
    if apart:
        return f"{apart[0]} brings kernels of its own, of which no slopes are known"
    return "it is differentiated itself (requires_grad=True), and its slopes are not" if requires_grad else ""
