# SPDX-License-Identifier: Apache-2.0
"""What a physics engine holds of robots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Property:
    """A property of joints that engines hold."""

    unit: str
    """For a revolute joint."""
    is_limit: bool = False
    """Whether it is infinite where an engine has none; others are zero."""


PROPERTIES = {
    "armature": Property("kg·m²"),
    "friction": Property("N·m"),
    "viscous_friction": Property("N·m·s/rad"),
    "quadratic_friction": Property("N·m·s²/rad²"),
    "cubic_friction": Property("N·m·s³/rad³"),
    "effort_limit": Property("N·m", is_limit=True),
    "velocity_limit": Property("rad/s", is_limit=True),
}
"""Properties of joints, by name."""
