# SPDX-License-Identifier: Apache-2.0
"""Chain → kernel, built once per process and compiled once per machine."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import warp as wp

from . import memory_block, memory_scalar, ring, types
from .arguments import Argument, arguments
from .chain import Chain
from .text import define
from .types import Flavour, module_options
from .writer import kernel_source


@dataclass(frozen=True)
class Kernel:
    """A built kernel and its arguments, in order."""

    chain: Chain
    source: str
    function: Any
    arguments: tuple[Argument, ...]


@functools.cache
def kernel_for(chain: Chain) -> Kernel:
    """Return the kernel for ``chain``."""
    signature = arguments(chain)
    namespace = _namespace(chain)
    source, functions = kernel_source(chain, signature, namespace)
    made = define(source, hashlib.sha256(source.encode()).hexdigest()[:16], namespace | functions)
    function = wp.kernel(
        made["actuator_step"],
        enable_backward=chain.flavour is Flavour.GRAD,
        module="unique",
        module_options=module_options(chain.flavour, chain.is_wide),
    )
    return Kernel(chain, source, function, signature)


def _namespace(chain: Chain) -> dict[str, Any]:
    """Return the objects that a kernel's source refers to, by name."""
    in_blocks = chain.flavour is Flavour.BLOCK
    lanes = chain.tile.lanes
    names: dict[str, Any] = {"wp": wp}
    names |= memory_block.functions(lanes) if in_blocks else memory_scalar.FUNCTIONS
    names |= {f.key: f for f in (ring.next_row, ring.late_row, ring.ring_at)}
    names |= {f.key: f for f in (ring.held_back, ring.whole_back, ring.share_back)}
    names |= {f.key: f for f in (ring.uneven_back, ring.uneven_share)}
    names |= {name: getattr(types, name) for name in ("Floats", "Doubles", "Ints", "Longs", "Indices")}
    names |= {"LANES": lanes, "BLOCKS": chain.tile.blocks, "TILE": chain.tile.size}
    for _, stage, label in chain.labelled():
        names |= {called: law.function for called, law in stage.named_laws(label).items()}
        if stage.closing is not None:
            names[f"{label}_closing_law"] = stage.closing.function
        if stage.ring is not None:
            names[f"{label}_lag_law"] = stage.ring.law
        if stage.network is not None:
            names[f"{label}_network"] = stage.network.build(lanes if in_blocks else 0, chain.has_derivatives)
    return names
