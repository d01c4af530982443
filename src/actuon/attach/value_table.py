# SPDX-License-Identifier: Apache-2.0
"""Tables of the parameters of actuators on robots, with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig
from ..robot_files.paths import stage_names
from .chain_set import ChainSet
from .groups.resolution import aligned, shown_number

Sources = dict[tuple[str, int, str], str]
"""Sources of drawn values of a robot, by joint, position of the stage, and parameter."""


def table_of_values(
    chains: ChainSet,
    configs: Mapping[str, ActuatorConfig],
    sources: Sources,
) -> str:
    """Return a table of the joints' parameters: value in the config, value of the first robot, unit, and source."""
    rows: list[Sequence[str]] = [("joint", "parameter", "config", "used", "unit", "source")]
    for joint, config in configs.items():
        column = chains.dof_names.index(joint)
        for actuator, places in zip(chains.actuators, chains.places, strict=True):
            for at in np.flatnonzero(places == column):
                rows += _rows(joint, config, actuator, int(at), sources)
    return aligned(rows)


def _rows(joint: str, config: ActuatorConfig, actuator: Actuator, at: int, sources: Sources) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for i, (names, stage) in enumerate(zip(stage_names(actuator.stages), actuator.stages, strict=True)):
        declared = stage.declared()
        for name, values in stage.numbers().items():
            if name in declared and not declared[name].shared:
                given = getattr(config.stages[i], name, None)
                told = float(given) if isinstance(given, (int, float)) else None
                source = sources.get((joint, i, name), "config")
                numbers = shown_number(told), shown_number(float(values[at]))
                label = names[-1] if names else type(stage).__name__
                rows.append((joint, f"{label}.{name}", *numbers, declared[name].unit, source))
    return rows
