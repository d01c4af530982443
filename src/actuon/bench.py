# SPDX-License-Identifier: Apache-2.0
"""Former name of `actuon.studio`, kept for one version."""

from __future__ import annotations

from .studio import Session as Session, Studio as Bench, find_source as find_source, open as open

__all__ = ["Bench", "Session", "find_source", "open"]


def __dir__() -> list[str]:
    return __all__
