# SPDX-License-Identifier: Apache-2.0
"""Short, distinct names of logs for files and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath


def log_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a short name for each path: the file, with as many parent folders as make it unique."""
    parts = {path: PurePath(path).parts for path in paths}
    names = numbered([_shortest(own, set(parts.values())) for own in parts.values()])
    return dict(zip(parts, names, strict=True))


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names with a number after each repeated one: ``run.csv``, ``run.csv (2)``."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _shortest(own: tuple[str, ...], known: set[tuple[str, ...]]) -> str:
    count = 1
    while count < len(own) and any(other[-count:] == own[-count:] for other in known if other != own):
        count += 1
    return PurePath(*own[-count:]).as_posix()
