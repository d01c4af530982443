# SPDX-License-Identifier: Apache-2.0
"""A page in the browser on which a robot or a motor moves in real time while its values are changed."""

from __future__ import annotations

from ..robot_source import find_source as find_source
from .page import Studio as Studio
from .session import Session as Session

open = Studio
"""``actuon.studio.open("robot.xml")`` opens a page and returns at once, as in a notebook; see `Studio`."""

__all__ = [
    "Session",
    "Studio",
    "find_source",
    "open",
]


def __dir__() -> list[str]:
    return __all__
