# SPDX-License-Identifier: Apache-2.0
r"""A constant, symmetric limit.

.. math:: \tau \leftarrow \mathrm{clamp}(\tau,\; \pm \tau_{max})
"""

from __future__ import annotations

import math

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Clamping
from ..math import limit


class MaxEffort(Parameters):
    max_effort: Number = param(
        "N·m", "Largest effort in both directions.", minimum=0.0, finite=False, fallback=math.inf
    )


@wp.func
def max_effort_law(effort: float, max_effort: float):
    return limit(effort, -max_effort, max_effort)


class MaxEffortClampingConfig(MaxEffort, Config):
    """Constant, symmetric effort limit.

    Examples:
        >>> limit = actuon.MaxEffortClampingConfig(max_effort=23.7)
    """

    schema = "NewtonMaxEffortClampingAPI"


class ClampingMaxEffort(MaxEffort, Clamping):
    """Clamps the effort to ±``max_effort``.

    Examples:
        >>> limit = actuon.ClampingMaxEffort(max_effort=23.7)
    """

    config = MaxEffortClampingConfig
    law = max_effort_law
