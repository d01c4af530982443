# SPDX-License-Identifier: Apache-2.0
"""Registry of components, by the name of their USD schema or their type in YAML.

A class whose config has a ``schema`` registers itself when it is defined.
"""

from __future__ import annotations

import contextlib
import enum
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import RobotFileError, StructureError, listed, shown
from .config import Config

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDING = re.compile(r"(Control|Clamping|Transmission|Effect|Sensor)?Config$")


class ComponentKind(enum.Enum):
    """Kind of a stage, in the usual order."""

    SENSOR = "sensor"
    DELAY = "delay"
    CONTROLLER = "controller"
    TRANSMISSION = "transmission"
    CLAMPING = "clamping"
    EFFECT = "effect"
    DRIVE = "controller"
    """Newton's name for a controller."""

    @property
    def several(self) -> bool:
        """Whether a motor model in the usual order may have more than one of this kind."""
        return self in (ComponentKind.SENSOR, ComponentKind.CLAMPING, ComponentKind.EFFECT)

    @property
    def key(self) -> str:
        """Name of the stages of this kind, as an argument and in YAML: ``"effects"``."""
        return f"{self.value}s" if self in (ComponentKind.SENSOR, ComponentKind.EFFECT) else self.value

    @property
    def base_name(self) -> str:
        """Name of the base class of the kind."""
        return self.value.capitalize()


@dataclass(frozen=True)
class Registered:
    """A component that files may contain."""

    schema_name: str
    component_class: Any
    """Class of the component, or a function from the values of a file to the class."""
    kind: ComponentKind
    config: type[Config] | None

    @property
    def type_name(self) -> str:
        """Its ``type`` in YAML: ``dc_motor`` for `DCMotorClampingConfig`; the schema's name if that is taken."""
        name = self._short_name
        return name if _types(self.kind).get(name) is self else self.schema_name

    @property
    def _short_name(self) -> str:
        return self.schema_name if self.config is None else snake_case(_ENDING.sub("", self.config.__name__))

    @property
    def namespace(self) -> str:
        """Namespace of its attributes in USD, unless USD knows the schema: ``newton``, or the name of the config's
        schema."""
        schema = self.config.schema if self.config is not None else None
        if schema is None or schema.startswith("Newton"):
            return "newton"
        name = schema.removesuffix("API")
        return name[:1].lower() + name[1:]

    def resolve_class(self, values: dict[str, Any]) -> Any:
        """Return the component class, which may depend on the values."""
        chosen = self.component_class
        return _checked(self.schema_name, chosen if isinstance(chosen, type) else chosen(values), self.kind)

    def make_config(self, values: dict[str, Any]) -> Config:
        """Return the checked config of a file's values. Others get the defaults of files."""
        if self.config is None:
            chosen = self.resolve_class(values)
            return ClassConfig(chosen, chosen.resolve_arguments(values))
        return self.config(**self.config.complete(values, fallbacks=True, where=self.config.__name__))


class ClassConfig(Config):
    """A component class without a config, and its arguments."""

    component: Any = None  # type: ignore[misc]
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Skip the check, since nothing is declared."""

    @classmethod
    def declared(cls) -> dict[str, Any]:
        """Return an empty dict: the class has no config."""
        return {}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the class that are set."""
        return {name: value for name, value in self.values.items() if value is not None}

    def __hash__(self) -> int:
        return hash(self.component)

    def __repr__(self) -> str:
        return f"{self.component.__name__}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


_registry: dict[str, Registered] = {}


def register_actuator_component(
    schema_name: str,
    component_class: type | Callable[[dict[str, Any]], type],
    kind: ComponentKind,
    *,
    config: type[Config] | None = None,
) -> None:
    """Register a component for robot files. Only needed if its config has no ``schema``.

    Args:
        schema_name: USD API schema of the component, e.g. ``"MySoftLimitAPI"``. Its attributes are the parameters in
            camel case, in the namespace ``newton:``, or in that of the schema if USD knows it.
        component_class: Class of the component, or a function from the values of a file to the class.
        kind: Kind of the component.
        config: Config of the component. Default: that of the class. Without one, files can be read, not written.

    Examples:
        >>> class HoldControlConfig(actuon.Config):
        ...     hold: float = actuon.param("N·m", "Constant effort.")
        >>> class ControllerHold(actuon.Controller):
        ...     config = HoldControlConfig
        >>> kind = actuon.ComponentKind.CONTROLLER
        >>> actuon.register_actuator_component("MyHoldAPI", ControllerHold, kind)
    """
    if not isinstance(kind, ComponentKind):
        allowed = ", ".join(f"ComponentKind.{member.name}" for member in ComponentKind)
        raise StructureError(
            f"register_actuator_component('{schema_name}'): kind: got {kind!r}; must be one of {allowed}"
        )
    if not isinstance(schema_name, str) or not schema_name.isidentifier():
        raise StructureError(f"register_actuator_component: schema_name: got {schema_name!r}; must be an identifier")
    if isinstance(component_class, type):
        config = config or _checked(schema_name, component_class, kind).config
    elif not callable(component_class):
        raise StructureError(
            f"register_actuator_component('{schema_name}'): got {component_class!r}; must be a class, or a function "
            "that returns one"
        )
    entry = Registered(schema_name, component_class, kind, config)
    before = _registry.get(schema_name)
    if before is not None and before != entry and not _is_defined_again(before.component_class, component_class):
        warnings.warn(f"schema '{schema_name}' is already registered; the new component replaces it", stacklevel=2)
    _registry[schema_name] = entry


@contextlib.contextmanager
def temporary_registrations() -> Iterator[None]:
    """Remove the block's registrations at its end."""
    before = dict(_registry)
    try:
        yield
    finally:
        _registry.clear()
        _registry.update(before)


def _is_defined_again(before: type | Callable[..., object], after: type | Callable[..., object]) -> bool:
    """Return whether both have the same definition, run twice, as in a notebook."""
    return (before.__module__, before.__qualname__) == (after.__module__, after.__qualname__)


def _checked(schema_name: str, chosen: object, kind: ComponentKind) -> Any:
    if not isinstance(chosen, type) or getattr(chosen, "kind", None) is not kind:
        raise StructureError(f"'{schema_name}': got {chosen!r}; must be a subclass of {kind.base_name}")
    return chosen


def by_schema(schema_name: str) -> Registered | None:
    """Return the component of a USD schema; None for other schemas."""
    return _registry.get(schema_name)


def by_config(config: Config) -> Registered:
    """Return the registered component of a config, for files."""
    entry = _find(config)
    if entry is None:
        named = config.component if isinstance(config, ClassConfig) else type(config)
        hint = "define a config for it, and " if isinstance(config, ClassConfig) else ""
        raise StructureError(
            f"{named.__name__}: robot files cannot contain it; {hint}call register_actuator_component(schema_name, "
            "component_class, kind) first"
        )
    return entry


def type_name_of(config: type) -> str | None:
    """Return the YAML ``type`` of a config class; None if files cannot contain it."""
    entry = next((entry for entry in _registry.values() if entry.config is config), None)
    return None if entry is None else entry.type_name


def by_type(where: str, kind: ComponentKind, type_name: object) -> Registered:
    """Return the component of a ``type`` in YAML."""
    known = _types(kind)
    found = known.get(type_name) if isinstance(type_name, str) else None
    if found is None and isinstance(type_name, str) and type_name in _registry:
        found = _registry[type_name] if _registry[type_name].kind is kind else None
    if found is None or found.config is None:
        name = type_name if isinstance(type_name, str) else ""
        raise RobotFileError(f"{where}: got type {shown(type_name)}; {listed(name, known, 'types')}")
    return found


def _types(kind: ComponentKind) -> dict[str, Registered]:
    """Return the components of a kind by short name; the first one registered keeps a name."""
    own = [entry for entry in _registry.values() if entry.kind is kind and entry.config is not None]
    return {entry._short_name: entry for entry in reversed(own)}


def kind_of(config: Config) -> ComponentKind | None:
    """Return the kind of a config; None if unknown."""
    if config.component is not None:
        return config.component.kind
    entry = _find(config)
    return entry.kind if entry is not None else None


def class_of(config: Config) -> Any:
    """Return the class that runs a config."""
    entry = _find(config)
    if entry is not None and not isinstance(entry.component_class, type):
        return entry.resolve_class(config.arguments())
    return config.component_class()


def _find(config: Config) -> Registered | None:
    return next((entry for entry in _registry.values() if entry.config is type(config)), None)


def snake_case(name: str) -> str:
    """Convert camel case to snake case: ``maxMotorEffort`` → ``max_motor_effort``."""
    return _WORDS.sub("_", name).lower()


def camel_case(name: str) -> str:
    """Convert snake case to camel case: ``max_motor_effort`` → ``maxMotorEffort``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
