# SPDX-License-Identifier: Apache-2.0
"""Griffe extension for the API pages: arguments of configs and components, which come from declared parameters.

Griffe reads source code without running it, so it does not see the signatures and ``Args`` sections that classes of
`actuon.Parameters` get when they are made.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import griffe

import actuon
from actuon.declare.parameters import ParameterOwner


class DeclaredParameters(griffe.Extension):
    """Give configs and components their signature and docstring; leave out members that only override."""

    def __init__(self) -> None:
        self._classes = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in _subclasses(ParameterOwner)}  # type: ignore[type-abstract]

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Complete a class that has declared parameters, unless it has its own constructor."""
        found = self._classes.get(cls.path)
        if found is not None:
            for name in [name for name in cls.members if _overrides(found, name)]:
                cls.del_member(name)
        if found is None or not found.declared() or "__init__" in cls.members:
            return
        if issubclass(found, actuon.Component) and found.__init__ is not actuon.Component.__init__:
            return
        cls.docstring = griffe.Docstring(inspect.getdoc(found) or "", parent=cls)
        parameters = griffe.Parameters(
            griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword),
            *(_described(parameter) for parameter in inspect.signature(found).parameters.values()),
        )
        cls.set_member("__init__", griffe.Function("__init__", parameters=parameters))


def _overrides(cls: type[ParameterOwner], name: str) -> bool:
    """Whether a public member is documented by a base class that stages share."""
    shared = (base for base in cls.__mro__[1:] if issubclass(base, ParameterOwner))
    return not name.startswith("_") and any(hasattr(base, name) for base in shared)


def _subclasses(base: type[ParameterOwner]) -> Iterator[type[ParameterOwner]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _subclasses(cls)


def _described(parameter: inspect.Parameter) -> griffe.Parameter:
    """Return an argument as Griffe describes it."""
    annotation = parameter.annotation
    default = None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
    return griffe.Parameter(
        parameter.name,
        annotation=annotation if isinstance(annotation, str) else inspect.formatannotation(annotation),
        kind=griffe.ParameterKind.positional_or_keyword,
        default=default,
    )
