# SPDX-License-Identifier: Apache-2.0
"""Which component a file means: by the name of its USD schema, or by its type in YAML."""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..components.component import Component
from ..components.controllers.controller import Controller
from ..components.controllers.neural import NeuralControlConfig, neural_class
from ..components.controllers.pd import PDControlConfig
from ..components.controllers.pid import PIDControlConfig
from ..components.delay import Delay, DelayConfig
from ..components.limits.clamping import Clamping
from ..components.limits.dc_motor import DCMotorClampingConfig
from ..components.limits.max_effort import MaxEffortClampingConfig
from ..components.limits.position_based import PositionBasedClampingConfig
from ..declare.config import Config
from ..errors import RobotFileError, StructureError, listed, shown

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ComponentKind(enum.Enum):
    """The place of a component in the chain."""

    CONTROLLER = "controller"
    CLAMPING = "clamping"
    DELAY = "delay"
    DRIVE = "controller"
    """Newton's name for a controller."""


_BASES: Mapping[ComponentKind, type[Component]] = {
    ComponentKind.CONTROLLER: Controller,
    ComponentKind.CLAMPING: Clamping,
    ComponentKind.DELAY: Delay,
}


@dataclass(frozen=True)
class Registered:
    """A component that files may name."""

    schema_name: str
    component_class: type[Component] | Callable[[dict[str, Any]], type[Component]]
    kind: ComponentKind
    config: type[Config] | None

    @property
    def type_name(self) -> str:
        """Its ``type`` in YAML: ``dc_motor`` for `DCMotorClampingConfig`."""
        if self.config is None:
            return self.schema_name
        return snake_case(re.sub(r"(Control|Clamping)?Config$", "", self.config.__name__))

    def resolve_class(self, values: dict[str, Any]) -> type[Component]:
        """The class to build, which may depend on the values: a network's file says what kind it is."""
        chosen = self.component_class
        chosen = chosen if isinstance(chosen, type) else chosen(values)
        return _checked(self.schema_name, chosen, self.kind)

    def resolve_values(self, values: dict[str, Any]) -> dict[str, Any]:
        """All parameters as plain, checked values; what is left out gets the file default."""
        if self.config is None:
            return dict(self.resolve_class(values).resolve_arguments(values))
        complete = {name: values.get(name, declared.fallback) for name, declared in self.config.declared().items()}
        missing = [name for name, value in complete.items() if value is None]
        if missing:
            raise StructureError(f"{self.config.__name__}.{missing[0]}: is not given; it has no default")
        made = self.config(**complete)
        return {name: getattr(made, name) for name in complete}


_registry: dict[str, Registered] = {}


def register_actuator_component(
    schema_name: str,
    component_class: type[Component] | Callable[[dict[str, Any]], type[Component]],
    kind: ComponentKind,
    *,
    config: type[Config] | None = None,
) -> None:
    """Let robot files name a component of your own.

    Args:
        schema_name: The USD API schema that carries it, e.g. ``"MySoftLimitAPI"``. Its attributes are the parameters
            in camel case, in the namespace ``newton:``, or in any other where the schema is known to USD.
        component_class: The class, or a function that gets the values read and returns the class, or raises.
        kind: Its place in the chain.
        config: Its config; the class's own by default. Without one it can be read, not written.
    """
    if not isinstance(kind, ComponentKind):
        allowed = ", ".join(f"ComponentKind.{member.name}" for member in ComponentKind)
        raise StructureError(f"register_actuator_component('{schema_name}'): kind: got {kind!r}; must be {allowed}")
    if not isinstance(schema_name, str) or not schema_name.isidentifier():
        raise StructureError(f"register_actuator_component: schema_name: got {schema_name!r}; must be an identifier")
    if isinstance(component_class, type):
        chosen = _checked(schema_name, component_class, kind)
        config = config or chosen.config
    elif not callable(component_class):
        raise StructureError(
            f"register_actuator_component('{schema_name}'): got {component_class!r}; must be a class, or a function "
            "that returns one"
        )
    entry = Registered(schema_name, component_class, kind, config)
    before = _registry.get(schema_name)
    if before is not None and before != entry:
        warnings.warn(f"schema '{schema_name}' was registered already; the new component replaces it", stacklevel=2)
    _registry[schema_name] = entry


def _checked(schema_name: str, chosen: Any, kind: ComponentKind) -> type[Component]:
    if not (isinstance(chosen, type) and issubclass(chosen, _BASES[kind])):
        raise StructureError(f"'{schema_name}': got {chosen!r}; must be a subclass of {_BASES[kind].__name__}")
    return chosen


def by_schema(schema_name: str) -> Registered | None:
    """The component that a USD schema means, or None where it means none."""
    return _registry.get(schema_name)


def by_config(config: Config) -> Registered:
    """The component of a config."""
    for entry in _registry.values():
        if entry.config is type(config):
            return entry
    raise StructureError(
        f"{type(config).__name__}: no robot file can carry it; call register_actuator_component(schema_name, "
        "component_class, kind) first"
    )


def by_type(where: str, kind: ComponentKind, type_name: Any) -> Registered:
    """The component of a ``type`` in YAML."""
    known = {entry.type_name: entry for entry in _of_kind(kind)}
    if not isinstance(type_name, str) or type_name not in known:
        name = type_name if isinstance(type_name, str) else ""
        raise RobotFileError(f"{where}: got type {shown(type_name)}; {listed(name, known, 'types')}")
    return known[type_name]


def _of_kind(kind: ComponentKind) -> Iterator[Registered]:
    return (entry for entry in _registry.values() if entry.kind is kind and entry.config is not None)


def snake_case(name: str) -> str:
    """``maxMotorEffort`` → ``max_motor_effort``."""
    return _WORDS.sub("_", name).lower()


def camel_case(name: str) -> str:
    """``max_motor_effort`` → ``maxMotorEffort``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _register_own(config: type[Config], kind: ComponentKind, component_class: Any = None) -> None:
    assert config.schema is not None
    register_actuator_component(config.schema, component_class or config.component, kind, config=config)


_register_own(PDControlConfig, ComponentKind.CONTROLLER)
_register_own(PIDControlConfig, ComponentKind.CONTROLLER)
_register_own(NeuralControlConfig, ComponentKind.CONTROLLER, lambda values: neural_class(values["model_path"]))
_register_own(MaxEffortClampingConfig, ComponentKind.CLAMPING)
_register_own(DCMotorClampingConfig, ComponentKind.CLAMPING)
_register_own(PositionBasedClampingConfig, ComponentKind.CLAMPING)
_register_own(DelayConfig, ComponentKind.DELAY)
