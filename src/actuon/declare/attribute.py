# SPDX-License-Identifier: Apache-2.0
"""A declared parameter as an attribute of a component."""

from __future__ import annotations

from typing import Any

from .parameter import Field


class ParameterAttribute:
    """A declared parameter as an attribute: reads as an array, checks what is written to it."""

    def __init__(self, name: str, declared: Field):
        self.name = name
        self.declared = declared
        self.__doc__ = f"{declared.doc} [{declared.unit}]"

    def __get__(self, component: Any, owner: type | None = None) -> Any:
        return self if component is None else component._values[self.name]

    def __set__(self, component: Any, value: Any) -> None:
        component._write(self.name, self.declared, value)
        component._has_written()
