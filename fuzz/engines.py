# SPDX-License-Identifier: Apache-2.0
"""Robots in engines: ways of stepping against each other, and a plain MuJoCo loop against a simulation."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support import loaded as loaded_models, step_counts as counts, stepping as ways

from .rig import rig, without_messages


def _cells(seed: int) -> dict[str, st.SearchStrategy[Any]]:
    pairs = [(kind, mode) for kind in ways.KINDS for mode in ways.MODES]
    kind, mode = pairs[seed % len(pairs)]
    return {"cell": st.sampled_from(ways.cells([kind], modes=[mode]))}


@rig("stepping", examples=6, drawn=_cells)
def stepping(cell: ways.Cell) -> None:
    """Joints move as in single steps, and as beside any other motor; motors that cannot be are refused by name."""
    with without_messages():
        ways.check(cell)


def _flags(seed: int) -> dict[str, st.SearchStrategy[Any]]:
    attached = list(counts.ATTACHED)
    return {"attach": st.just(attached[seed % len(attached)]), "flag": st.sampled_from(list(counts.FLAGS))}


@rig("step_counts", examples=6, drawn=_flags)
def step_counts(attach: str, flag: str | None) -> None:
    """`step(n)` is n single steps, whoever listens, under a flag of MuJoCo."""
    with without_messages():
        counts.check(attach, flag)


@rig("loaded", examples=20, drawn=lambda seed: {"number": st.integers(20 * seed, 20 * seed + 19)})
def loaded(number: int) -> None:
    """A random model moves the same in a plain loop and in a simulation."""
    loaded.tally.add("steps", loaded_models.check(loaded_models.draw(number)))
