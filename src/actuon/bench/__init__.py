# SPDX-License-Identifier: Apache-2.0
"""A bench in the browser: a robot, or a motor, that moves in real time, and whose values can be changed meanwhile."""

from __future__ import annotations

from .page import Bench as Bench
from .session import Session as Session
from .source import find_source as find_source

open = Bench
"""``actuon.bench.open("robot.xml")`` opens a page and returns at once, as in a notebook; see `Bench`."""

__all__ = [
    "Bench",
    "Session",
    "find_source",
    "open",
]


def __dir__() -> list[str]:
    return __all__
