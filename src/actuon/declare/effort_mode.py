# SPDX-License-Identifier: Apache-2.0
"""How the effort of an actuator reaches an engine: as a number that is held through the step, or as a tangent."""

from __future__ import annotations

from typing import Any

from .parameter import Field

EXPLICIT = "explicit"
"""A number, that of the state before the step."""
TANGENT = "tangent"
"""That number and its slopes by position and velocity, which the engine takes into its own solve."""
AUTO = "auto"
"""A tangent where an explicit effort would come near the limit of what is stable, else a number."""

EFFORT_MODE = Field(
    unit="1",
    doc="How the effort reaches an engine.",
    choices=(EXPLICIT, TANGENT, AUTO),
    fallback=EXPLICIT,
)
"""The declaration of ``effort_mode``, wherever it can be given."""


def checked_effort_mode(value: Any, where: str = "effort_mode") -> str:
    """An effort mode.

    Raises:
        ParameterError: It is not one of the three.
    """
    EFFORT_MODE.check(where, value)
    return str(value)
