# SPDX-License-Identifier: Apache-2.0
"""Structure → kernel, built once per process and compiled once per machine."""

from __future__ import annotations

import functools
import hashlib
import linecache
from dataclasses import dataclass
from typing import Any

import warp as wp

from . import access_block, access_scalar, ring, types
from .arguments import Argument, arguments
from .source import kernel_source
from .structure import Structure
from .types import Flavour, module_options


@dataclass(frozen=True)
class Program:
    """A built kernel and its arguments, in order."""

    structure: Structure
    kernel: Any
    arguments: tuple[Argument, ...]


@functools.cache
def program(structure: Structure) -> Program:
    """Return the kernel for ``structure``."""
    signature = arguments(structure)
    source, functions = kernel_source(structure, signature)
    filename = f"<actuon {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = _namespace(structure) | functions
    exec(compile(source, filename, "exec"), namespace)
    kernel = wp.kernel(
        namespace["actuator_step"],
        enable_backward=structure.flavour is Flavour.GRAD,
        module="unique",
        module_options=module_options(structure.flavour),
    )
    return Program(structure, kernel, signature)


def _namespace(structure: Structure) -> dict[str, Any]:
    """What the text of a kernel refers to, by name."""
    in_blocks = structure.flavour is Flavour.BLOCK
    access = access_block if in_blocks else access_scalar
    names: dict[str, Any] = {"wp": wp, **access.FUNCTIONS}
    names |= {f.key: f for f in (ring.next_row, ring.late_row, ring.ring_at)}
    names |= {f.key: f for f in (ring.held_back, ring.whole_back, ring.share_back)}
    names |= {f.key: f for f in (ring.uneven_back, ring.uneven_share)}
    names |= {name: getattr(types, name) for name in ("Floats", "Ints", "Longs", "Indices", "FloatBlock", "IntBlock")}
    names |= {name: getattr(types, name) for name in ("LANES", "BLOCKS", "CELL")}
    for _, stage, label in structure.labelled():
        names[f"{label}_law"] = stage.law
        names[f"{label}_closing_law"] = stage.closing_law
        if stage.ring is not None:
            names[f"{label}_lag_law"] = stage.ring.law
        if stage.network is not None:
            names[f"{label}_network"] = stage.network.build(in_blocks, structure.has_slopes)
    return names
