# SPDX-License-Identifier: Apache-2.0
"""Parameters of stages that are about to be written together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..components.component import Component

Changed = Mapping[tuple[int, str], tuple[Component, np.ndarray]]
"""New values by the ``id`` of a stage and the name of its parameter, with the stage."""


def check_changed(new: Changed, dt: float | None) -> None:
    """Refuse values that are not allowed, each or together, or that a stage has no memory for.

    Args:
        new: The values.
        dt: Time step [s]. None: the shortest that each stage takes.

    Raises:
        ParameterError: One of them is not; says which, and what is.
    """
    for stage, changed in _by_stage(new):
        for name, numbers in changed.items():
            stage.declared()[name].check(f"{type(stage).__name__}.{name}", numbers)
        values = stage.arguments() | changed
        stage._check_together(values)
        stage.check_memory(values, dt)


def write_changed(new: Changed) -> None:
    """Write values that were checked, where they differ from what is there."""
    for stage, changed in _by_stage(new):
        before = stage.numbers()
        stage.write_together({name: numbers for name, numbers in changed.items() if (before[name] != numbers).any()})


def _by_stage(new: Changed) -> Iterator[tuple[Component, dict[str, np.ndarray]]]:
    for stage in {id(stage): stage for stage, _ in new.values()}.values():
        yield stage, {name: numbers for (of, name), (_, numbers) in new.items() if of == id(stage)}
