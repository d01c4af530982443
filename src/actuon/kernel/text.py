# SPDX-License-Identifier: Apache-2.0
"""Python source that is written here and compiled by Warp."""

from __future__ import annotations

import itertools
import linecache
from typing import Any


def define(source: str, called: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run source that defines functions for Warp, which reads it again.

    Args:
        source: The source.
        called: What to call it where lines of it are shown, different from any other source.
        namespace: What it refers to; gets what it defines.

    Returns:
        The namespace.
    """
    filename = f"<actuon {called}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace


def new_name(name: str, taken: set[str]) -> str:
    """Return ``name``, or the first of ``name_2``, ``name_3``, … that is not taken; from now on it is."""
    names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    free = next(candidate for candidate in names if candidate not in taken)
    taken.add(free)
    return free
