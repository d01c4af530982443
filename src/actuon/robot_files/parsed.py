# SPDX-License-Identifier: Apache-2.0
"""`ActuatorParsed`: the actuator of a joint, as read from a robot file; and the stages that a file can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..actuator.config import ActuatorConfig, configs_of, part_kind
from ..components.component import Component
from ..declare.config import Config
from ..declare.registry import ComponentKind, Registered, by_config
from ..errors import StructureError


@dataclass(frozen=True)
class ActuatorParsed:
    """Actuator of a joint, as read from a robot file. Defaults are filled in."""

    config: ActuatorConfig
    """The actuator."""
    target_path: str
    """Path of the joint."""
    target_paths: tuple[str, ...]
    """Paths of all joints that the prim drives, each with a separate actuator and the same parameters."""
    prim_path: str = ""
    """Path of the prim that describes the actuator."""
    classes: tuple[type[Component], ...] = field(default=(), repr=False, compare=False)
    """Component class of each stage."""
    sources: tuple[Mapping[str, str], ...] = field(default=(), repr=False, compare=False)
    """Source of each parameter of each stage: ``"authored"`` or ``"schema default"``."""

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
        """Parameters of the controller, without those that are None."""
        return next(values for kind, _, values in self._specs() if kind is ComponentKind.CONTROLLER)

    @property
    def drive_class(self) -> type[Component]:
        """Newton's name for `controller_class`."""
        return self.controller_class

    @property
    def drive_kwargs(self) -> dict[str, Any]:
        """Newton's name for `controller_kwargs`."""
        return self.controller_kwargs

    @property
    def component_specs(self) -> list[tuple[type[Component], dict[str, Any]]]:
        """Other stages as (class, parameters), in the order in which they act."""
        return [(cls, values) for kind, cls, values in self._specs() if kind is not ComponentKind.CONTROLLER]

    @property
    def clamping(self) -> list[tuple[type[Component], dict[str, Any]]]:
        """Clamps as (class, parameters)."""
        return [(cls, values) for kind, cls, values in self._specs() if kind is ComponentKind.CLAMPING]

    @property
    def delay_steps(self) -> int | None:
        """Delay of the commands [steps]; None without a delay in steps."""
        return next((values["delay_steps"] for _, _, values in self._specs() if "delay_steps" in values), None)


def file_stages(actuator: ActuatorConfig) -> list[tuple[Config, Registered]]:
    """Return the stages as a robot file carries them, each with its registration.

    Raises:
        StructureError: A part is a component with arrays, is not registered, or occurs twice; or there is not
            exactly one controller.
    """
    found: dict[str, tuple[Config, Registered]] = {}
    for part in configs_of(actuator.frozen_stages(), "a file carries configs of numbers"):
        entry = by_config(part)
        if entry.schema_name in found:
            raise StructureError(f"got {type(part).__name__} twice; a robot file can carry each kind of stage once")
        found[entry.schema_name] = part, entry
    controllers = len(actuator.of_kind(ComponentKind.CONTROLLER))
    if controllers != 1:
        raise StructureError(f"got {controllers or 'no'} controllers; a motor model in a robot file needs exactly one")
    return list(found.values())
