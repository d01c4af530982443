# SPDX-License-Identifier: Apache-2.0
"""Short names of joints, and paths of the numbers in a motor model.

A number's path is the name of its stage and of the parameter: ``controller.kp``, ``friction.viscous``. The name of a
stage is its kind, if no other stage has it, or its type in YAML. See `parameter_places` for what else is understood.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from ..actuator.config import Part, part_kind
from ..components.component import Component
from ..declare.config import Config
from ..declare.parameters import Field
from ..declare.registry import ComponentKind, type_name_of
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


_Form = tuple[type[Config] | type[Component] | None, ComponentKind | None]
"""Properties of a stage that its paths depend on: its `declaring_class` and its kind."""


def stage_names(stages: Sequence[Part]) -> list[tuple[str, ...]]:
    """Return the names of each stage in paths: its kind, if no other stage has it, and its type in YAML.

    Several stages of a type are called ``friction_1``, ``friction_2``, ….
    """
    return _names(_forms(stages))


def _forms(stages: Sequence[Part]) -> tuple[_Form, ...]:
    return tuple((declaring_class(part), part_kind(part)) for part in stages)


def _names(forms: tuple[_Form, ...]) -> list[tuple[str, ...]]:
    kinds, types = [kind for _, kind in forms], [_type_of(owner) for owner, _ in forms]
    names = []
    for i, (kind, name) in enumerate(zip(kinds, types, strict=True)):
        own = [kind.value] if kind is not None and kinds.count(kind) == 1 else []
        if name is not None:
            own.append(name if types.count(name) == 1 else f"{name}_{types[: i + 1].count(name)}")
        names.append(tuple(own))
    return names


def parameter_places(stages: Sequence[Part]) -> dict[str, Place]:
    """Return the places of all numbers in a list of configs or components, by their paths.

    A stage is also called by its position, as in ``1.kp``, and by a kind that other stages have too, if they have no
    such parameter.
    """
    return {path: places[0] for path, places in all_places(stages).items() if len(places) == 1}


def check_unambiguous(stages: Sequence[Part], path: str) -> None:
    """Check that a path does not lead to several stages.

    Raises:
        ParameterError: It does; the message lists their own paths.
    """
    places = all_places(stages).get(path, [])
    if len(places) > 1:
        known = parameter_places(stages)
        own = [next(other for other in known if known[other] == place) for place in places]
        raise ParameterError(f"{path}: several stages have this name; must be one of {', '.join(own)}")


def place_in(stages: Sequence[Part], path: str) -> Place:
    """Return the place that a path leads to in a list of configs or components, the first one if it leads to several.

    Raises:
        ParameterError: There is no such stage or parameter; the message lists the existing ones.
    """
    places = all_places(stages)
    if path in places:
        return places[path][0]
    stage_name, _, name = path.partition(".")
    own = [known[0].name for other, known in places.items() if other.startswith(f"{stage_name}.")]
    if own:
        known = listed(name, own, f"parameters of {stage_name}")
        raise ParameterError(f"{path}: there is no parameter '{name}'; {known}")
    known = listed(stage_name, [own[-1] for own in stage_names(stages) if own], "stages")
    raise ParameterError(f"{path}: there is no stage '{stage_name}'; {known}")


def all_places(stages: Sequence[Part]) -> Mapping[str, list[Place]]:
    """Return the places that each path leads to."""
    return _places(_forms(stages))


@functools.lru_cache(maxsize=1024)
def _places(forms: tuple[_Form, ...]) -> Mapping[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for position, (names, (owner, kind)) in enumerate(zip(_names(forms), forms, strict=True)):
        shared = [_type_of(owner), None if kind is None else kind.value]
        own = dict.fromkeys((*names, str(position), *filter(None, shared)))
        for name, declared in owner.declared().items() if owner is not None else ():
            for stage in own:
                found.setdefault(f"{stage}.{name}", []).append(Place(position, name, declared))
    return found


def _type_of(owner: type[Config] | type[Component] | None) -> str | None:
    """Return the type of a stage in YAML; None if it has none."""
    return None if owner is None else type_name_of(owner)


def declaring_class(part: Part) -> type[Config] | type[Component] | None:
    """Return the config or class that declares the parameters of a stage; None if there is none."""
    if isinstance(part, Config):
        return type(part)
    if not isinstance(part, Component):
        return None
    return part.config or (type(part) if part.declared() else None)
