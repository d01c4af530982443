# SPDX-License-Identifier: Apache-2.0
"""A model: a chain, and which of its numbers a fit may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..actuator.config import ActuatorConfig
from ..errors import ParameterError, listed
from .link import is_of_link
from .parameters import LINEAR, LOG, Parameter, place_of, value_at, with_values


@dataclass(frozen=True)
class Model:
    """A chain with free parameters.

    Args:
        name: What to call it.
        actuator: The chain; numbers that are not free stay as they are.
        parameters: What is free.
        times: Paths of numbers that grow with a setting of the log, such as the gain of a servo's firmware, and the
            name of the setting. Free or not, they are those at the model's own ``settings``; in a log with twice the
            setting they are twice as large.
        settings: The settings for which the numbers of the chain are, as far as ``times`` asks for them.
        links: Numbers of the link that the joint moves which are known, by path, such as ``link.mass``.
    """

    name: str
    actuator: ActuatorConfig
    parameters: tuple[Parameter, ...]
    times: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, float] = dataclasses.field(default_factory=dict)
    links: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, name in self.times.items():
            place_of(self.actuator, path)
            setting_of(self.settings, name, path)
        paths = self.paths
        for path in paths:
            if paths.count(path) > 1:
                raise ParameterError(f"{self.name}: {path} is free twice")
        for parameter in self.parameters:
            for path in (parameter.path, *parameter.also, *filter(None, [parameter.above])):
                place_of(self.actuator, path)

    @property
    def paths(self) -> list[str]:
        """Paths of the free parameters."""
        return [parameter.path for parameter in self.parameters]

    @property
    def start(self) -> np.ndarray:
        """Where to begin, shape (P,)."""
        return np.array([parameter.start for parameter in self.parameters], dtype=float)

    def factors(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """By what numbers are multiplied in a log with these settings, by path."""
        return {
            path: setting_of(settings, name, path) / setting_of(self.settings, name, path)
            for path, name in self.times.items()
        }

    def written(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
        """What candidates put into the chain: by path, one number for each of them, shape (C,).

        Those that grow with a setting are there too, free or not; a plant multiplies them by the `factors` of the log.

        Args:
            candidates: Values of the free parameters, shape (C, P).
        """
        own = {p.path: np.asarray(candidates[:, i], float) for i, p in enumerate(self.parameters)}
        values = {path: np.full(len(candidates), value_at(self.actuator, path)) for path in self.times}
        values |= {path: np.full(len(candidates), value) for path, value in self.links.items()}
        for parameter in self.parameters:
            value = own[parameter.path]
            if parameter.above:
                base = own.get(parameter.above)
                value = value + (value_at(self.actuator, parameter.above) or 0.0 if base is None else base)
            values |= dict.fromkeys((parameter.path, *parameter.also), value)
        return values

    def config(self, candidate: np.ndarray, settings: Mapping[str, Any] | None = None) -> ActuatorConfig:
        """The chain with the values of one candidate.

        Args:
            candidate: Values of the free parameters, shape (P,).
            settings: Of a log, by which some numbers are multiplied. Default: the model's own.
        """
        values = {path: float(value[0]) for path, value in self.written(np.asarray(candidate, float)[None]).items()}
        for path, factor in ({} if settings is None else self.factors(settings)).items():
            values[path] *= factor
        return with_values(self.actuator, values)

    def fixed(self, path: str, value: float) -> Model:
        """The model with a parameter that is not free any more."""
        place = place_of(self.actuator, path)
        place.declared.check(path, value)
        match = [p for p in self.parameters if p.path == path]
        others = tuple(p for p in self.parameters if p.path != path)
        names = [path, *(match[0].also if match else ())]
        actuator = with_values(self.actuator, dict.fromkeys(names, value))
        links = {**self.links, **{name: value for name in names if is_of_link(name)}}
        return dataclasses.replace(self, actuator=actuator, parameters=others, links=links)

    def links_at(self, candidate: np.ndarray) -> dict[str, float]:
        """Numbers of the link with the values of one candidate, by path."""
        written = self.written(np.asarray(candidate, float)[None])
        return {path: float(value[0]) for path, value in written.items() if is_of_link(path)}

    def freed(self, parameter: Parameter) -> Model:
        """The model with one more free parameter, or another range for one."""
        others = tuple(p for p in self.parameters if p.path != parameter.path)
        return dataclasses.replace(self, parameters=(*others, parameter))


def setting_of(settings: Mapping[str, Any], name: str, path: str) -> float:
    """A number among the settings of a log."""
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(f"{path}: needs the setting '{name}' of the log; {listed(name, settings, 'settings')}")
    return float(value)


def changed(model: Model, fix: Mapping[str, float], free: Mapping[str, tuple[float, float] | None]) -> Model:
    """A model with some parameters fixed, and others free."""
    for path, value in fix.items():
        model = model.fixed(path, value)
    for path, ends in free.items():
        model = model.freed(_freed(model, path, ends))
    return model


def _freed(model: Model, path: str, ends: tuple[float, float] | None) -> Parameter:
    known = next((p for p in model.parameters if p.path == path), None)
    declared, value = place_of(model.actuator, path).declared, value_at(model.actuator, path)
    if ends is None and known is not None:
        return known
    if ends is None:
        if not value:
            raise ParameterError(f"{path}: has no value to begin from; give a range, --free {path}=LOW:HIGH")
        ends = (0.01 * value, 100.0 * value) if value > 0.0 else (100.0 * value, -100.0 * value)
        least = declared.minimum if declared.minimum is not None else declared.above
        low = ends[0] if least is None else max(ends[0], least)
        ends = low, ends[1] if declared.maximum is None else min(ends[1], declared.maximum)
    low, high = ends
    scale = LOG if low > 0.0 and high / low > 10.0 else LINEAR
    start = value if value is not None and low <= value <= high else None
    also, above = (known.also, known.above) if known is not None else ((), "")
    return Parameter(path, low, high, start if not above else None, scale, also, above)
