# SPDX-License-Identifier: Apache-2.0
"""Configs: the values of a component as a person or a file writes them."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import ParameterError, StructureError
from .parameter import METADATA_KEY, Field


@dataclass(frozen=True)
class Config:
    """Base of the scalar configs: plain values that a person or a file writes. Touches no device."""

    component: ClassVar[Any] = None
    """The component class that runs this config; set when that class is defined."""
    schema: ClassVar[str | None] = None
    """The USD API schema that carries it in a robot file."""

    def __post_init__(self) -> None:
        where = type(self).__name__
        for name, declared in self.declared().items():
            object.__setattr__(self, name, _plain(f"{where}.{name}", declared, getattr(self, name)))
        self.check_together(where, {name: getattr(self, name) for name in self.declared()})

    @classmethod
    def declared(cls) -> Mapping[str, Field]:
        """The declared parameters, in order."""
        return _declared(cls)  # type: ignore[arg-type]

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, Any]) -> None:
        """Check what one parameter alone cannot show. Gets scalars or arrays; override where needed."""

    def arguments(self) -> dict[str, Any]:
        """The parameters by name, without those that are None."""
        values = {name: getattr(self, name) for name in self.declared()}
        return {name: value for name, value in values.items() if value is not None}

    def from_files(self) -> dict[str, Any]:
        """What files that it names say of what it leaves open, by name. Override where there is such a file."""
        return {}

    def at_place(self, place: int, places: int) -> Config:
        """The config for the joints that one of an entry's names or regular expressions in a YAML file means.

        Override it where the order of them says something.

        Args:
            place: Which of them, from 0 on.
            places: How many there are.
        """
        return self

    def component_class(self) -> Any:
        """The class that runs this config. Override where it depends on the values."""
        if self.component is None:
            raise StructureError(f"{type(self).__name__}: no component class declares 'config = {type(self).__name__}'")
        return self.component

    def build(self) -> Any:
        """Return the component with these values, broadcast to every DOF of the actuator that takes it."""
        return self.component_class().with_values(self.arguments())


def _plain(where: str, declared: Field, value: Any) -> Any:
    """Validate one config value and return it as a plain Python number, tuple of numbers, or path."""
    if value is None and declared.nullable:
        return None
    declared.check(where, value)
    if declared.path:
        return os.fspath(value)
    if declared.choices or declared.boolean:
        return value
    if declared.shared:
        number_type = int if declared.integer else rounded
        return tuple(number_type(number) for number in np.ravel(value)) if np.ndim(value) == 1 else value
    if np.ndim(value) != 0:
        raise ParameterError(f"{where}: got {np.size(value)} values; a config holds one number")
    return int(value) if declared.integer else rounded(value)


def rounded(value: Any) -> float:
    """``value`` at the precision of the kernels and of robot files, written with as few digits as that takes.

    So 0.1 stays 0.1 on its way through a file of 32-bit numbers.
    """
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


@functools.cache
def _declared(cls: Any) -> Mapping[str, Field]:
    missing = [field.name for field in dataclasses.fields(cls) if METADATA_KEY not in field.metadata]
    if missing:
        raise StructureError(f"{cls.__name__}.{missing[0]}: declare it with actuon.param(unit, doc, ...)")
    return {field.name: field.metadata[METADATA_KEY] for field in dataclasses.fields(cls)}
