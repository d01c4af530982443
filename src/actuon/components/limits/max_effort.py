# SPDX-License-Identifier: Apache-2.0
r"""A symmetric limit.

.. math:: \tau \leftarrow \mathrm{clamp}(\tau,\; \pm \tau_{max})
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from ..component import limit
from .clamping import Clamping


@dataclass(frozen=True)
class MaxEffortClampingConfig(Config):
    """A symmetric effort limit."""

    schema = "NewtonMaxEffortClampingAPI"

    max_effort: float = param("N·m", "Largest effort, either way.", minimum=0.0, finite=False, fallback=math.inf)


@wp.func
def max_effort_law(effort: float, max_effort: float):
    return limit(effort, -max_effort, max_effort)


class ClampingMaxEffort(Clamping):
    """Holds the effort within ±``max_effort``.

    Args:
        max_effort: Largest efforts [N·m or N], shape (N,).
    """

    config = MaxEffortClampingConfig
    law = max_effort_law

    def __init__(self, max_effort: ArrayLike):
        super().__init__(max_effort)
