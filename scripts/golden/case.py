# SPDX-License-Identifier: Apache-2.0
"""Cases: named computations whose arrays stand in a golden file."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2].parent / "shared" / "data"
"""Networks and robots of others, a folder each; not part of the repository."""


class Unavailable(Exception):
    """A requirement of the case is not installed on this machine."""


@dataclass(frozen=True)
class Case:
    """One computation that fails or succeeds on its own."""

    name: str
    """Its arrays are entries named ``<name>/<array>``."""
    arrays: Callable[[], Iterable[tuple[str, np.ndarray]]]
    """Compute the arrays, with their names."""


@dataclass(frozen=True)
class Scope:
    """How much of each part to run."""

    dofs: tuple[int, ...] = (1, 12, 65, 700)
    """Numbers of DOFs of each chain."""
    environments: tuple[int, ...] = (1, 3, 16)
    """Numbers of copies of each robot; MuJoCo's compiled loop steps the last."""
    prefix: str = ""
    """Prefix of the names of cases to run."""


def seeded(name: str, *numbers: int) -> np.random.Generator:
    """Return a generator of random numbers that depends on a name, and on nothing else."""
    return np.random.default_rng([zlib.crc32(name.encode()), *numbers])


@functools.cache
def leave_out_adjoints() -> None:
    """Compile Newton's kernels without their adjoints, in a fraction of the time."""
    from actuon.sim.newton.adjoints import leave_out_adjoints as leave_out

    leave_out()
