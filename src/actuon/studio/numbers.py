# SPDX-License-Identifier: Apache-2.0
"""Values of an actuator that the page shows and changes, from their declarations."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ..actuator.config import ActuatorConfig, part_kind
from ..declare.config import Config
from ..declare.parameters import Field, unit_at_joint
from ..declare.registry import by_config

_STEPS = 100
"""Least number of steps of a slider."""
_SCALES = {"N·m/rad": 10.0, "N·m·s/rad": 1.0, "N·m": 1.0, "rad/s": 10.0, "A": 10.0, "V": 24.0, "s": 0.02, "Hz": 200.0}
_SCALES |= {"kg·m²": 0.01, "rad": 0.1}
"""Order of magnitude by unit, for values that are 0 or infinite if no other value has this unit."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Number:
    """A parameter of a stage."""

    stage: int
    """Index of its stage."""
    stage_name: str
    """Type of the stage in files, such as ``"dc_motor"``."""
    name: str
    declared: Field[Any]
    value: Any
    slides: bool = False
    """Whether the joint slides, so that units are those of forces and lengths."""
    scale: float = 1.0
    """Order of magnitude for a slider if the value is 0 or infinite."""

    @property
    def label(self) -> str:
        """Name and unit; infinite limits are marked as off."""
        unit = unit_at_joint(self.declared.unit, self.slides)
        return self.name + (f" [{unit}]" if unit != "1" else "") + (" (off)" if self.is_off else "")

    @property
    def hint(self) -> str:
        """Description and range."""
        return f"{self.declared.doc} Allowed: {unit_at_joint(self.declared.range, self.slides)}."

    @property
    def is_slider(self) -> bool:
        """Whether the value is one number."""
        declared = self.declared
        is_word = declared.path or declared.shared or declared.boolean or bool(declared.choices)
        return not is_word and isinstance(self.value, (int, float)) and not math.isnan(self.value)

    @property
    def is_off(self) -> bool:
        """Whether the value is an infinite limit, which has no effect."""
        return self.is_slider and math.isinf(self.value)

    def slider_range(self) -> tuple[float, float, float]:
        """Return lower and upper end of a slider and its step, within the declared range."""
        declared = self.declared
        value = 0.0 if self.is_off else float(self.value)
        high = round_up(10.0 * self.scale if self.is_off else 2.5 * (abs(value) or self.scale))
        if declared.integer:
            high = max(10.0, math.ceil(high))
        low = -high
        if declared.minimum is not None:
            low = declared.minimum
        elif declared.above is not None:
            low = declared.above
        if declared.maximum is not None:
            high = min(high, declared.maximum) if declared.maximum < 1e6 else high
            high = declared.maximum if declared.maximum <= 1.0 else high
        step = 1.0 if declared.integer else _round_down((high - low) / _STEPS)
        if declared.minimum is None and declared.above is not None:
            low += step
        return min(low, value), max(high, value), step


def round_up(value: float) -> float:
    """Return the next of 1, 1.5, 2, 3, 4, 5, 7.5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((power * step for step in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5) if power * step >= value), 10.0 * power)


def _round_down(value: float) -> float:
    """Return the previous of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * next((step for step in (5.0, 2.0) if power * step <= value), 1.0)


def numbers_of(config: ActuatorConfig, slides: bool = False, inertia: float = 0.0) -> list[Number]:
    """Return all declared parameters of an actuator, stage by stage. Stages that are not configs have none.

    Args:
        config: The actuator.
        slides: Whether its joint slides.
        inertia: Armature of its joint in the engine [kg·m² or kg]; 0 if it is not known.
    """
    found = []
    for stage, part in enumerate(config.stages):
        if isinstance(part, Config):
            for name, declared in part.declared().items():
                found.append(Number(stage, by_config(part).type_name, name, declared, getattr(part, name), slides))
    largest: dict[str, float] = {}
    for number in found:
        if number.is_slider and not number.is_off and number.value:
            unit = number.declared.unit
            largest[unit] = max(largest.get(unit, 0.0), abs(number.value))
    scales = _SCALES | {unit: 0.1 * value for unit, value in largest.items()}
    if inertia > 0.0:
        scales["kg·m²"] = inertia
    return [dataclasses.replace(number, scale=scales.get(number.declared.unit, 1.0)) for number in found]


def stage_titles(config: ActuatorConfig) -> list[str]:
    """Return a title for each stage: its kind and its type in files."""
    titles = []
    for part in config.stages:
        kind = part_kind(part)
        name = by_config(part).type_name if isinstance(part, Config) else type(part).__name__
        titles.append(name if kind is None or kind.value == name else f"{kind.value}: {name}")
    return titles


def alike(configs: dict[str, ActuatorConfig], joint: str) -> list[str]:
    """Return the joints whose actuators equal that of ``joint``, including it."""
    return [name for name, config in configs.items() if config == configs[joint]]


def exact(value: float) -> str:
    """Return a number with the digits that 32 bits hold, such as 35.55 and 5.56e-08."""
    return f"{value:.7g}"


def written(value: float) -> str:
    """Return a number with three significant digits, such as 0.0123, 4.57 and 1 230."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    power = math.floor(math.log10(abs(value)))
    if not -5 < power < 9:
        return f"{value / 10.0**power:.3g} × 10{str(power).translate(_SUPERSCRIPTS)}"
    return f"{round(value, 2 - power):,.{max(0, 2 - power)}f}".replace(",", "\u202f")
