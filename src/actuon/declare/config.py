# SPDX-License-Identifier: Apache-2.0
"""Configs: scalar values of a component, as people and files write them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import StructureError
from .parameters import Field, Parameters, with_arguments


class _Frozen:
    """Base of configs: immutable, so that subclasses may be decorated with ``@dataclass(frozen=True)``."""

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _as_frozen_dataclass(cls: type) -> None:
    dataclass(frozen=True)(cls)
    del cls.__setattr__, cls.__delattr__  # dataclass raises for a class that has them when it is decorated again


class Config(Parameters, _Frozen):
    """Base of configs: plain scalar values, independent of any device. Subclasses are frozen dataclasses."""

    component: ClassVar[Any] = None
    """Component class of this config; set when that class is defined."""
    schema: ClassVar[str | None] = None
    """USD API schema of this config in robot files."""
    _undeclared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own = inspect.get_annotations(cls)
        cls.__annotations__ = {name: own.get(name, field.value_type) for name, field in cls._declared.items()} | own
        if cls.__doc__ is not None:
            cls.__doc__ = with_arguments(cls.__doc__, cls._declared, per_dof=False)
        _as_frozen_dataclass(cls)
        cls._undeclared = tuple(f.name for f in dataclasses.fields(cls) if f.name not in cls._declared)

    def __post_init__(self) -> None:
        where = type(self).__name__
        for name, declared in self.declared().items():
            self._values[name] = declared.plain(f"{where}.{name}", self._values[name])
        self.check_together(where, {name: self._values[name] for name in self.declared()})

    @property
    def _values(self) -> dict[str, Any]:
        return vars(self)

    @classmethod
    def declared(cls) -> Mapping[str, Field[object]]:
        """Return the declared parameters, in order."""
        if cls._undeclared:
            raise StructureError(f"{cls.__name__}.{cls._undeclared[0]}: declare it with actuon.param(unit, doc, ...)")
        return cls._declared

    @classmethod
    def _class_value(cls, declared: Field[object]) -> Any:
        if declared.required:
            raise AttributeError(f"{cls.__name__}.{declared.name}: has no default")  # makes a field without one
        return declared.default

    def _assign(self, declared: Field[object], value: object) -> None:
        self._values[declared.name] = value

    def arguments(self) -> dict[str, Any]:
        """Return the parameters by name, without unset ones."""
        values = {name: getattr(self, name) for name in self.declared()}
        return {name: value for name, value in values.items() if value is not None}

    def from_files(self) -> dict[str, Any]:
        """Return values of unset parameters from files that the config names. Override it for such configs."""
        return {}

    def at_place(self, place: int, places: int) -> Config:
        """Return the config for the joints of one name or regular expression of a YAML entry.

        Override it if their order matters.

        Args:
            place: Position of the name in the entry, from 0.
            places: Number of names in the entry.
        """
        return self

    def component_class(self) -> Any:
        """Return the component class of this config. Override it if that depends on the values."""
        if self.component is None:
            raise StructureError(
                f"{type(self).__name__}: has no component class; define one with config = {type(self).__name__}"
            )
        return self.component

    def build(self) -> Any:
        """Return the component with these values for every DOF of its actuator."""
        return self.component_class().with_values(self.arguments())


_as_frozen_dataclass(Config)
