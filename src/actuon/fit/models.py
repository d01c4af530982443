# SPDX-License-Identifier: Apache-2.0
"""A model: a chain, and which of its numbers a fit may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..actuator_config import ActuatorConfig
from ..errors import ParameterError, listed
from .parameters import Parameter, place_of, value_at, with_values


@dataclass(frozen=True)
class Model:
    """A chain with free parameters.

    Args:
        name: What to call it.
        actuator: The chain; numbers that are not free stay as they are.
        parameters: What is free.
        settings: What the logs' settings are for the numbers in ``actuator`` that a parameter with ``times`` stands
            for: a gain of 2 per unit of a firmware's gain is 400 in a chain whose setting is 200.
    """

    name: str
    actuator: ActuatorConfig
    parameters: tuple[Parameter, ...]
    settings: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
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

    def times(self) -> dict[str, str]:
        """Paths whose numbers are those of a candidate times a setting of the log, and the name of the setting."""
        return {path: p.times for p in self.parameters if p.times for path in (p.path, *p.also)}

    def written(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
        """What candidates put into the chain: by path, one number for each of them, shape (C,).

        A plant multiplies those in `times` by the setting of the log.

        Args:
            candidates: Values of the free parameters, shape (C, P).
        """
        own = {p.path: np.asarray(candidates[:, i], float) for i, p in enumerate(self.parameters)}
        values: dict[str, np.ndarray] = {}
        for parameter in self.parameters:
            value = own[parameter.path]
            if parameter.above:
                base = own.get(parameter.above)
                value = value + (value_at(self.actuator, parameter.above) or 0.0 if base is None else base)
            values |= dict.fromkeys((parameter.path, *parameter.also), value)
        return values

    def config(self, candidate: np.ndarray, settings: Mapping[str, float] | None = None) -> ActuatorConfig:
        """The chain with the values of one candidate.

        Args:
            candidate: Values of the free parameters, shape (P,).
            settings: For which settings of a log. Default: those of the model.
        """
        values = {path: float(value[0]) for path, value in self.written(np.asarray(candidate, float)[None]).items()}
        known = self.settings if settings is None else settings
        for path, name in self.times().items():
            values[path] *= setting_of(known, name, path)
        return with_values(self.actuator, values)

    def fixed(self, path: str, value: float) -> Model:
        """The model with a parameter that is not free any more."""
        place = place_of(self.actuator, path)
        place.declared.check(path, value)
        match = [p for p in self.parameters if p.path == path]
        others = tuple(p for p in self.parameters if p.path != path)
        names = [path, *(match[0].also if match else ())]
        actuator = with_values(self.actuator, dict.fromkeys(names, value))
        return dataclasses.replace(self, actuator=actuator, parameters=others)

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
