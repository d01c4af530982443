# SPDX-License-Identifier: Apache-2.0
"""Names of joints from their paths."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Sequence


def shortest_endings(paths: Sequence[str]) -> tuple[str, ...]:
    """As little of the end of each path as tells it from the others: ``knee``, or ``left/knee``."""
    ends = [tuple(reversed(path.split("/"))) for path in paths]
    seen = Counter(end[:count] for end in ends for count in range(1, len(end) + 1))
    names = []
    for end in ends:
        count = next((c for c in range(1, len(end)) if seen[end[:c]] == 1), len(end))
        names.append("/".join(reversed(end[:count])))
    return tuple(names)


def unique_name(name: str, taken: Container[str]) -> str:
    """``name``, or the first of ``name_2``, ``name_3``, … that is not taken."""
    candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)
