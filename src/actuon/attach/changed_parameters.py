# SPDX-License-Identifier: Apache-2.0
"""Parameters of stages that are about to be written together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..components.component import Component

Changed = Mapping[tuple[int, str], tuple[Component, np.ndarray]]
"""New values by the ``id`` of a stage and the name of its parameter, with the stage."""


def check_changed(new: Changed) -> None:
    """Refuse values that are not allowed, each or together.

    Raises:
        ParameterError: One of them is not; says which, and what is.
    """
    for stage in {id(stage): stage for stage, _ in new.values()}.values():
        held = {name: array.numpy() for name, array in stage.parameters().items()}
        changed = {name: numbers for (of, name), (_, numbers) in new.items() if of == id(stage)}
        assert stage.config is not None
        for name, numbers in changed.items():
            stage.config.declared()[name].check(f"{type(stage).__name__}.{name}", numbers)
        left_out = dict.fromkeys(stage.config.declared())
        stage.config.check_together(type(stage).__name__, left_out | held | changed)


def write_changed(new: Changed) -> None:
    """Write values that were checked."""
    for (_, name), (stage, numbers) in new.items():
        stage.parameters()[name].assign(numbers)
