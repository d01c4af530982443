# SPDX-License-Identifier: Apache-2.0
"""The numbers of actuators on robots, and where each comes from, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig
from ..robot_files.paths import place_in, stage_names
from .chain_set import ChainSet
from .fitted_motors import DrawnMotors
from .groups.resolution import aligned, shown_number

Sources = dict[tuple[str, int, str], str]
"""Where numbers of the first robot were drawn from, by joint, position of the stage, and parameter."""


def sources_of(drawn: DrawnMotors, configs: Mapping[str, ActuatorConfig]) -> Sources:
    """Where the first of the robots that got motors has its numbers from."""
    return {
        (joint, place.stage, place.name): drawn.source(0, joint)
        for joint, paths in drawn.paths.items()
        for place in (place_in(configs[joint].stages, path) for path in paths)
    }


def table_of_values(
    chains: ChainSet,
    configs: Mapping[str, ActuatorConfig],
    sources: Mapping[tuple[str, int, str], str],
) -> str:
    """Per joint and parameter: the config's value, that of the first robot, unit, and where it comes from."""
    rows: list[Sequence[str]] = [("joint", "parameter", "config", "used", "unit", "source")]
    for joint, config in configs.items():
        column = chains.dof_names.index(joint)
        for actuator, places in zip(chains.actuators, chains.places, strict=True):
            for at in np.flatnonzero(places == column):
                rows += _rows(joint, config, actuator, int(at), sources)
    return aligned(rows)


def _rows(
    joint: str, config: ActuatorConfig, actuator: Actuator, at: int, sources: Mapping[tuple[str, int, str], str]
) -> list[Sequence[str]]:
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
