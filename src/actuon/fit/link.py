# SPDX-License-Identifier: Apache-2.0
"""What a fit may change of the mechanism: the link that a joint moves, as ``link.mass`` or ``link.com_z``."""

from __future__ import annotations

from ..declare.config import Config
from ..declare.parameters import param

LINK = "link"
"""The place of these parameters in a path."""


class LinkConfig(Config):
    """The body that a joint moves, in its own frame. What is left out is as in the robot's file."""

    mass: float | None = param("kg", "Mass of the link.", default=None, optional=True, above=0.0)
    com_x: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    com_y: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    com_z: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    inertia_x: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )
    inertia_y: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )
    inertia_z: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )


def is_of_link(path: str) -> bool:
    """Whether a path leads to the link that the joint moves, and not into its actuator."""
    return path.partition(".")[0] == LINK
