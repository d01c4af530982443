# SPDX-License-Identifier: Apache-2.0
"""``effort_mode="auto"``: which DOFs are so near to diverging that their efforts reach the engine as tangents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from ..actuator.actuator import Actuator
from ..sim import Articulation
from ..sim.engine import SlopesRefusedError
from ..stability.limits import shares_of

SHARE = 0.5
"""Share of the stability limit above which an explicit effort is made a tangent."""

_log = logging.getLogger("actuon.actuators")


class Attached(Protocol):
    """Actuators on robots."""

    articulation: Articulation

    @property
    def actuators(self) -> list[Actuator]:
        """Actuators that are stepped."""

    def close(self) -> None:
        """Give the robots back."""


def install_with_auto(
    attached: Attached, install: Callable[[np.ndarray], None], given: np.ndarray, auto: np.ndarray
) -> None:
    """Attach actuators with tangents of DOFs, and of those of ``auto`` that use much of the stability limit.

    Where the engine takes in no slopes, or a chain has none, a warning says which of those stay explicit.

    Args:
        attached: The actuators.
        install: Builds and attaches them, with tangents of the DOFs that it is given.
        given: DOFs whose efforts are tangents in any case, shape (d,).
        auto: DOFs whose efforts may be.
    """
    install(given)
    near = np.intersect1d(auto, _near_the_limit(attached.articulation, attached.actuators, given))
    why = {
        int(column): actuator.slope_obstacle()
        for actuator in attached.actuators
        for column in actuator.effort_indices.numpy() % attached.articulation.num_dofs
    }
    without = [column for column in near if why[int(column)]]
    if without:
        _warn(attached, without, why[int(without[0])])
    further = np.setdiff1d(near, without)
    if not further.size:
        return
    attached.close()
    try:
        install(np.union1d(given, further))
    except SlopesRefusedError as error:
        _warn(attached, further, str(error))
        install(given)


def _warn(attached: Attached, columns: Iterable[int], why: str) -> None:
    names = ", ".join(attached.articulation.dof_names[column] for column in columns)
    _log.warning("effort_mode 'auto' leaves %s explicit, beyond half of the stability limit: %s", names, why)


def _near_the_limit(articulation: Articulation, actuators: Sequence[Actuator], tangent: np.ndarray) -> np.ndarray:
    """Columns of the DOFs that use more than `SHARE` of the stability limit, in rising order.

    Args:
        articulation: The robots.
        actuators: What drives them.
        tangent: DOFs whose efforts are tangents already.
    """
    shares = shares_of(articulation, actuators, tangent.tolist())
    return np.array([column for column, share in shares.items() if share > SHARE], dtype=np.int64)
