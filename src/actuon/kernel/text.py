# SPDX-License-Identifier: Apache-2.0
"""Generated Python source that Warp compiles."""

from __future__ import annotations

import itertools
import linecache
from typing import Any


def define(source: str, called: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run source that defines Warp functions, and keep its text for Warp to read.

    Args:
        source: The source.
        called: Unique name of the source in tracebacks.
        namespace: Objects that it refers to; gets its definitions.

    Returns:
        The namespace.
    """
    filename = f"<actuon {called}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace


def new_name(name: str, taken: set[str]) -> str:
    """Reserve and return ``name``, or the first of ``name_2``, ``name_3``, … that is not taken."""
    names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    free = next(candidate for candidate in names if candidate not in taken)
    taken.add(free)
    return free
