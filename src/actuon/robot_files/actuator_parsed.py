# SPDX-License-Identifier: Apache-2.0
"""One actuator as a person or a file describes it: a controller, clamps, a delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..components.component import Component
from ..components.controllers.controller import Controller
from ..components.delay import Delay
from ..components.limits.clamping import Clamping
from ..declare.config import Config
from ..errors import StructureError
from .registry import Registered, by_config


@dataclass(frozen=True)
class ActuatorConfig:
    """The chain of one actuator.

    Args:
        controller: A controller's config, or a controller.
        clamping: Configs of clamps, or clamps, in the order in which they act.
        delay: A `DelayConfig`, or a `Delay`. None means no delay.
    """

    controller: Config | Controller
    clamping: Sequence[Config | Clamping] = ()
    delay: Config | Delay | None = None

    def __post_init__(self) -> None:
        clamping: Any = self.clamping
        clamping = (clamping,) if isinstance(clamping, (Config, Component)) else clamping
        if clamping is not None and not isinstance(clamping, Sequence):
            raise StructureError(f"clamping: got {clamping!r}; must be a list of clamps")
        object.__setattr__(self, "clamping", tuple(clamping or ()))
        _check("controller", self.controller, Controller)
        for part in self.clamping:
            _check("clamping", part, Clamping)
        if self.delay is not None:
            _check("delay", self.delay, Delay)

    def parts(self) -> tuple[Config, ...]:
        """The configs in the order in which a file lists them: controller, clamps, delay.

        Raises:
            StructureError: A part is a component with arrays, is not registered, or is there twice.
        """
        parts = (self.controller, *self.clamping, *((self.delay,) if self.delay is not None else ()))
        seen: dict[str, Config] = {}
        for part in parts:
            if not isinstance(part, Config):
                raise StructureError(
                    f"got {type(part).__name__}, which holds arrays; a file carries configs of numbers"
                )
            schema = by_config(part).schema_name
            if schema in seen:
                raise StructureError(f"got {type(part).__name__} twice; a robot file can carry each kind of clamp once")
            seen[schema] = part
        return tuple(seen.values())


def _check(where: str, part: Any, base: type[Component]) -> None:
    component = part.component if isinstance(part, Config) else type(part)
    if not (isinstance(component, type) and issubclass(component, base)):
        raise StructureError(f"{where}: got {part!r}; must be a {base.__name__} or the config of one")


@dataclass(frozen=True)
class ActuatorParsed:
    """What a robot file says about the actuator of a joint, resolved: defaults are filled in."""

    controller_class: type[Controller]
    """Class of the controller."""
    controller_kwargs: dict[str, Any]
    """All its parameters."""
    component_specs: list[tuple[type[Clamping] | type[Delay], dict[str, Any]]]
    """Clamps and delay as (class, parameters), in the order in which the file applies them."""
    target_path: str
    """Path of the joint."""
    target_paths: tuple[str, ...]
    """Paths of all joints that the prim drives, each with an actuator of its own and the same parameters."""
    prim_path: str = ""
    """Path of the prim that says so."""
    registered: tuple[Registered, ...] = field(default=(), repr=False, compare=False)
    """What the schemas stand for: the controller's first, then those of ``component_specs``."""
    sources: tuple[Mapping[str, str], ...] = field(default=(), repr=False, compare=False)
    """For each of them, where each parameter comes from: ``"authored"`` or ``"schema default"``."""

    @property
    def config(self) -> ActuatorConfig:
        """The same as configs."""
        controller, *others = self._configs()
        clamping = [part for part in others if issubclass(part.component, Clamping)]
        delay = [part for part in others if issubclass(part.component, Delay)]
        return ActuatorConfig(controller, clamping, delay[0] if delay else None)

    def _configs(self) -> list[Config]:
        kwargs = [self.controller_kwargs, *(values for _, values in self.component_specs)]
        made = []
        for entry, values in zip(self.registered, kwargs, strict=True):
            if entry.config is None:
                raise StructureError(f"{self.prim_path}: '{entry.schema_name}' was registered without a config")
            made.append(entry.config(**values))
        return made

    @property
    def delay_steps(self) -> int | None:
        """Lag of the commands [steps], or None where there is no delay."""
        return next((values["delay_steps"] for cls, values in self.component_specs if issubclass(cls, Delay)), None)

    @property
    def clamping(self) -> list[tuple[type[Clamping], dict[str, Any]]]:
        """The clamps as (class, parameters)."""
        return [(cls, values) for cls, values in self.component_specs if issubclass(cls, Clamping)]
