# SPDX-License-Identifier: Apache-2.0
"""``effort_mode="auto"``: which DOFs are so near to diverging that their efforts reach the engine as tangents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ..actuator import Actuator
from ..errors import SimulationError
from ..sim import Articulation
from .stability import stability_of

SHARE = 0.5
"""Share of the stability limit above which an explicit effort is made a tangent."""

_log = logging.getLogger("actuon.actuators")


class Attached(Protocol):
    """Actuators on robots."""

    articulation: Articulation
    actuators: list[Actuator]

    def close(self) -> None:
        """Give the robots back."""


def install_with_auto(
    attached: Attached, install: Callable[[np.ndarray], None], given: np.ndarray, auto: np.ndarray
) -> None:
    """Attach actuators with tangents of DOFs, and of those of ``auto`` that use much of the stability limit.

    Where the engine takes in no slopes, a warning says which of those stay explicit.

    Args:
        attached: The actuators.
        install: Builds and attaches them, with tangents of the DOFs that it is given.
        given: DOFs whose efforts are tangents in any case, shape (d,).
        auto: DOFs whose efforts may be.
    """
    install(given)
    further = np.intersect1d(auto, _near_the_limit(attached.articulation, attached.actuators, given))
    if not further.size:
        return
    attached.close()
    try:
        install(np.union1d(given, further))
    except SimulationError as error:
        if not str(error).startswith("effort_mode"):
            raise
        names = ", ".join(attached.articulation.dof_names[column] for column in further)
        _log.warning("%s; 'auto' leaves %s explicit, which use more than half of the stability limit", error, names)
        install(given)


def _near_the_limit(articulation: Articulation, actuators: Sequence[Actuator], tangent: np.ndarray) -> np.ndarray:
    """Columns of the DOFs that have slopes, and use more than `SHARE` of the stability limit, in rising order.

    Args:
        articulation: The robots.
        actuators: What drives them.
        tangent: DOFs whose efforts are tangents already.
    """
    found = stability_of(articulation, actuators, tangent=tangent.tolist())
    width, none = articulation.num_dofs, np.zeros(0, np.int64)
    driven, sloped = (
        np.unique(np.concatenate([none, *(each.effort_indices.numpy() % width for each in chosen)]))
        for chosen in (actuators, [each for each in actuators if not each.why_no_slopes()])
    )
    near = driven[np.array([joint.share for joint in found.joints]) > SHARE]
    return np.intersect1d(near, sloped).astype(np.int64)
