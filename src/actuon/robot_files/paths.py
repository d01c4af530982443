# SPDX-License-Identifier: Apache-2.0
"""Numbers of a chain by their paths.

A path is the place of a stage and the name of a parameter: ``controller.kp``, ``friction.viscous``. The place is the
kind of the stage where the chain has one of it, or its type in YAML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..actuator_config import Part, part_kind
from ..components.component import Component
from ..declare.config import Config
from ..declare.parameter import Field
from ..declare.registry import type_name_of
from ..errors import ParameterError, listed


@dataclass(frozen=True)
class Place:
    """Where a path leads to in a chain."""

    stage: int
    """Position of the stage."""
    name: str
    """Of the parameter."""
    declared: Field


def stage_names(stages: Sequence[Part]) -> list[tuple[str, ...]]:
    """By what names paths may call each stage: its kind, where no other has it, and its type in YAML.

    Further stages of a type are called ``friction_2``, ``friction_3``, ….
    """
    kinds = [part_kind(part) for part in stages]
    seen: dict[str, int] = {}
    names = []
    for kind, part in zip(kinds, stages, strict=True):
        own = [kind.value] if kind is not None and kinds.count(kind) == 1 else []
        config = config_class(part)
        name = type_name_of(config) if config is not None else None
        if name is not None:
            seen[name] = seen.get(name, 0) + 1
            own.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
        names.append(tuple(own))
    return names


def place_in(stages: Sequence[Part], path: str) -> Place:
    """Find what a path means in a chain of configs or components.

    Raises:
        ParameterError: The chain has no such stage or parameter; lists those that it has.
    """
    stage_name, _, name = path.partition(".")
    names = stage_names(stages)
    for position, own in enumerate(names):
        config = config_class(stages[position])
        if stage_name in own and config is not None:
            declared = config.declared()
            if name not in declared:
                known = listed(name, declared, f"parameters of {stage_name}")
                raise ParameterError(f"{path}: there is no parameter '{name}'; {known}")
            return Place(position, name, declared[name])
    known = listed(stage_name, [own[-1] for own in names if own], "stages")
    raise ParameterError(f"{path}: there is no stage '{stage_name}'; {known}")


def config_class(part: Part) -> type[Config] | None:
    """What declares the parameters of a stage; None where nothing does."""
    if isinstance(part, Config):
        return type(part)
    return part.config if isinstance(part, Component) else None
