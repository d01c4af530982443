# SPDX-License-Identifier: Apache-2.0
"""Short names of joints, and paths of the numbers in a motor model.

A number's path is the name of its stage and of the parameter: ``controller.kp``, ``friction.viscous``. The name of a
stage is its kind, if no other stage has it, or its type in YAML. See `parameter_places` for what else is understood.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

from ..actuator.config import Part, part_kind
from ..components.component import Component
from ..declare.config import Config
from ..declare.parameters import Field
from ..declare.registry import type_name_of
from ..errors import ParameterError, listed


def shortest_endings(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the shortest ending of each path that no other path has: ``knee``, or ``left/knee``."""
    ends = [tuple(reversed(path.split("/"))) for path in paths]
    seen = Counter(end[:count] for end in ends for count in range(1, len(end) + 1))
    names = []
    for end in ends:
        count = next((c for c in range(1, len(end)) if seen[end[:c]] == 1), len(end))
        names.append("/".join(reversed(end[:count])))
    return tuple(names)


def unique_name(name: str, taken: Container[str]) -> str:
    """Return ``name``, or the first of ``name_2``, ``name_3``, … that is not taken."""
    candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


@dataclass(frozen=True)
class Place:
    """Place of a number in a motor model."""

    stage: int
    """Position of the stage."""
    name: str
    """Name of the parameter."""
    declared: Field[object]


def stage_names(stages: Sequence[Part]) -> list[tuple[str, ...]]:
    """Return the names of each stage in paths: its kind, if no other stage has it, and its type in YAML.

    Further stages of a type are called ``friction_2``, ``friction_3``, ….
    """
    kinds = [part_kind(part) for part in stages]
    seen: dict[str, int] = {}
    names = []
    for kind, part in zip(kinds, stages, strict=True):
        own = [kind.value] if kind is not None and kinds.count(kind) == 1 else []
        owner = declaring_class(part)
        name = type_name_of(owner) if owner is not None else None
        if name is not None:
            seen[name] = seen.get(name, 0) + 1
            own.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
        names.append(tuple(own))
    return names


def parameter_places(stages: Sequence[Part]) -> dict[str, Place]:
    """Return the places of all numbers in a list of configs or components, by their paths.

    A stage is also called by its position, as in ``1.kp``; and a kind that several stages have means the first of them
    with such a parameter.
    """
    found: dict[str, Place] = {}
    fallbacks: dict[str, Place] = {}
    for position, (names, part) in enumerate(zip(stage_names(stages), stages, strict=True)):
        owner, kind = declaring_class(part), part_kind(part)
        for name, declared in owner.declared().items() if owner is not None else ():
            place = Place(position, name, declared)
            found |= {f"{own}.{name}": place for own in (*names, str(position))}
            if kind is not None:
                fallbacks.setdefault(f"{kind.value}.{name}", place)
    return fallbacks | found


def place_in(stages: Sequence[Part], path: str) -> Place:
    """Return the place that a path leads to in a list of configs or components.

    Raises:
        ParameterError: There is no such stage or parameter; the message lists the existing ones.
    """
    places = parameter_places(stages)
    if path in places:
        return places[path]
    stage_name, _, name = path.partition(".")
    own = [known.name for other, known in places.items() if other.startswith(f"{stage_name}.")]
    if own:
        known = listed(name, own, f"parameters of {stage_name}")
        raise ParameterError(f"{path}: there is no parameter '{name}'; {known}")
    known = listed(stage_name, [own[-1] for own in stage_names(stages) if own], "stages")
    raise ParameterError(f"{path}: there is no stage '{stage_name}'; {known}")


def declaring_class(part: Part) -> type[Config] | type[Component] | None:
    """Return the config or class that declares the parameters of a stage; None if there is none."""
    if isinstance(part, Config):
        return type(part)
    if not isinstance(part, Component):
        return None
    return part.config or (type(part) if part.declared() else None)
