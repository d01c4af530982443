# SPDX-License-Identifier: Apache-2.0
"""The studio: a page in the browser with a robot or a motor in real time, and sliders for its values."""

from __future__ import annotations

from ..errors import check_installed

check_installed(("mujoco", "cmaes", "scipy", "ruamel.yaml"), "studio", "actuon.studio")

from ..robot_source import find_source as find_source
from .page import Studio as Studio
from .session import Session as Session

open = Studio
"""Open a page and return at once: ``actuon.studio.open("robot.xml")``. See `Studio`."""

__all__ = [
    "Session",
    "Studio",
    "find_source",
    "open",
]


def __dir__() -> list[str]:
    return __all__
