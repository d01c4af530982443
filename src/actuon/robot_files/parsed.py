# SPDX-License-Identifier: Apache-2.0
"""What a robot file says about an actuator, and what of an actuator a robot file can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..actuator_config import ActuatorConfig, part_kind
from ..components.component import Component
from ..declare.config import Config
from ..declare.registry import ComponentKind, Registered, by_config
from ..errors import StructureError


@dataclass(frozen=True)
class ActuatorParsed:
    """What a robot file says about the actuator of a joint, resolved: defaults are filled in."""

    config: ActuatorConfig
    """The actuator."""
    target_path: str
    """Path of the joint."""
    target_paths: tuple[str, ...]
    """Paths of all joints that the prim drives, each with an actuator of its own and the same parameters."""
    prim_path: str = ""
    """Path of the prim that says so."""
    classes: tuple[type[Component], ...] = field(default=(), repr=False, compare=False)
    """For each stage of the config, the class that runs it."""
    sources: tuple[Mapping[str, str], ...] = field(default=(), repr=False, compare=False)
    """For each of them, where each parameter comes from: ``"authored"`` or ``"schema default"``."""

    def _specs(self) -> list[tuple[ComponentKind | None, type[Component], dict[str, Any]]]:
        return [
            (part_kind(part), cls, part.arguments())
            for part, cls in zip(self.config.stages, self.classes, strict=True)
            if isinstance(part, Config)
        ]

    @property
    def controller_class(self) -> type[Component]:
        """Class of the controller."""
        return next(cls for kind, cls, _ in self._specs() if kind is ComponentKind.CONTROLLER)

    @property
    def controller_kwargs(self) -> dict[str, Any]:
        """All its parameters, without those that the file leaves open."""
        return next(values for kind, _, values in self._specs() if kind is ComponentKind.CONTROLLER)

    @property
    def drive_class(self) -> type[Component]:
        """What Newton calls the class of the controller."""
        return self.controller_class

    @property
    def drive_kwargs(self) -> dict[str, Any]:
        """What Newton calls its parameters."""
        return self.controller_kwargs

    @property
    def component_specs(self) -> list[tuple[type[Component], dict[str, Any]]]:
        """All other stages as (class, parameters), in the order in which they act."""
        return [(cls, values) for kind, cls, values in self._specs() if kind is not ComponentKind.CONTROLLER]

    @property
    def clamping(self) -> list[tuple[type[Component], dict[str, Any]]]:
        """The clamps as (class, parameters)."""
        return [(cls, values) for kind, cls, values in self._specs() if kind is ComponentKind.CLAMPING]

    @property
    def delay_steps(self) -> int | None:
        """Lag of the commands [steps], or None where there is no delay in steps."""
        return next((values["delay_steps"] for _, _, values in self._specs() if "delay_steps" in values), None)


def carried(actuator: ActuatorConfig) -> list[tuple[Config, Registered]]:
    """The stages as a file carries them, each with what it is registered as.

    Raises:
        StructureError: A part is a component with arrays, is not registered, or is there twice; or there is not one
            controller.
    """
    found: dict[str, tuple[Config, Registered]] = {}
    for part in actuator.copy().stages:
        if not isinstance(part, Config):
            raise StructureError(f"got {type(part).__name__}, which holds arrays; a file carries configs of numbers")
        entry = by_config(part)
        if entry.schema_name in found:
            raise StructureError(f"got {type(part).__name__} twice; a robot file can carry each kind of stage once")
        found[entry.schema_name] = part, entry
    controllers = len(actuator.of_kind(ComponentKind.CONTROLLER))
    if controllers != 1:
        raise StructureError(f"got {controllers or 'no'} controllers; a robot file carries chains with one")
    return list(found.values())
