# SPDX-License-Identifier: Apache-2.0
r"""The limit of a linkage-driven joint: ratio and largest effort depend on the angle.

.. math:: \tau \leftarrow \mathrm{clamp}(\tau,\; \pm \min(\tau_{max}(q),\; |r(q)|\, \tau_m))

with the ratio :math:`r` and the joint's limit :math:`\tau_{max}` linear between the table's entries and constant beyond
its ends, and the motor's limit :math:`\tau_m`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, ParameterValue, Table, param
from ...errors import ParameterError
from ...kernel.types import Floats
from ..kinds import Clamping
from ..math import limit
from .position_based import PositionBased, looked_up

SMALLEST = wp.constant(1.0e-30)
"""Smallest ratio, so that zero times an infinite limit is not NaN."""


class Remotized(Parameters):
    lookup_positions: Table = param(
        "rad", "Angles of the entries; must not decrease. Two equal ones are a jump.", shared=True
    )
    lookup_ratios: Table = param("1", "Turns of the motor per turn of the joint.", shared=True)
    lookup_efforts: Table = param("N·m", "Largest effort at the joint.", shared=True, minimum=0.0)
    motor_effort_limit: Number = param(
        "N·m", "Largest effort of the motor, before the ratio.", default=float("inf"), minimum=0.0, finite=False
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        PositionBased.check_together(where, {name: values[name] for name in ("lookup_positions", "lookup_efforts")})
        if np.shape(np.asarray(values["lookup_ratios"])) != np.shape(np.asarray(values["lookup_positions"])):
            raise ParameterError(
                f"{where}.lookup_ratios: got {values['lookup_ratios']!r}; must be one for each position"
            )


@wp.func
def remotized_law(
    effort: float,
    q: float,
    lookup_positions: Floats,
    lookup_ratios: Floats,
    lookup_efforts: Floats,
    motor_effort_limit: float,
):
    ratio = wp.max(wp.abs(looked_up(q, lookup_positions, lookup_ratios)), SMALLEST)
    most = wp.min(looked_up(q, lookup_positions, lookup_efforts), ratio * motor_effort_limit)
    return limit(effort, -most, most)


class RemotizedClampingConfig(Remotized, Config):
    """Table of ratio and effort limit over the joint's angle, and the motor's limit.

    Examples:
        >>> limit = actuon.RemotizedClampingConfig((-2.0, 0.0), (1.0, 1.2), (30.0, 40.0))
    """

    schema = "ActuonRemotizedClampingAPI"


class ClampingRemotized(Remotized, Clamping):
    """Clamps the effort of a linkage-driven joint, whose ratio and limit depend on the angle.

    Examples:
        >>> limit = actuon.ClampingRemotized([-2.0, 0.0], [1.0, 1.2], [30.0, 40.0])
    """

    config = RemotizedClampingConfig
    law = remotized_law
