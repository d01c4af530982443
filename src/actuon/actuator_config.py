# SPDX-License-Identifier: Apache-2.0
"""One actuator as a person or a file describes it: a list of stages. Files, builders, robots and tools pass this on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .components.component import Component
from .components.controllers.controller import Controller
from .components.delay import Delay
from .components.effects.effect import Effect
from .components.limits.clamping import Clamping
from .components.sensors.sensor import Sensor
from .components.transmissions.transmission import Transmission
from .declare.config import Config
from .declare.registry import ComponentKind, class_of, kind_of
from .errors import StructureError

_Part = TypeVar("_Part", bound=Component)
_USUAL_ORDER = tuple(ComponentKind)


@dataclass(frozen=True, init=False, repr=False)
class ActuatorConfig:
    """The chain of one actuator. Each part is a config of numbers, or a component.

    Args:
        controller: What makes effort out of commands.
        clamping: What limits the effort, in this order.
        delay: What holds commands back. None means no delay.
        transmission: What stands between motor and joint.
        effects: What is lost or late on the way, in this order.
        sensors: What the controller sees of the joint, in this order.
        stages: All stages in another order than the usual one, instead of the arguments by kind.
    """

    stages: tuple[Config | Component, ...]
    """All parts, in the order in which they act."""

    def __init__(
        self,
        controller: Config | Controller | None = None,
        clamping: Config | Clamping | Sequence[Config | Clamping] | None = (),
        delay: Config | Delay | None = None,
        *,
        transmission: Config | Transmission | None = None,
        effects: Config | Effect | Sequence[Config | Effect] | None = (),
        sensors: Config | Sensor | Sequence[Config | Sensor] | None = (),
        stages: Sequence[Config | Component] | None = None,
    ):
        by_kind: dict[ComponentKind, Any] = {
            ComponentKind.SENSOR: sensors,
            ComponentKind.DELAY: delay,
            ComponentKind.CONTROLLER: controller,
            ComponentKind.TRANSMISSION: transmission,
            ComponentKind.CLAMPING: clamping,
            ComponentKind.EFFECT: effects,
        }
        parts = {kind: _parts(kind.key, given) for kind, given in by_kind.items()}
        if stages is None:
            found = [part for kind in _USUAL_ORDER for part in _of_kind(kind, parts[kind])]
        elif any(parts.values()):
            raise StructureError("stages: got components by kind too; must be either one list, or arguments by kind")
        else:
            found = _parts("stages", stages)
            for i, part in enumerate(found):
                if not isinstance(part, (Config, Component)):
                    raise StructureError(f"stages[{i}]: got {type(part).__name__}; must be a component, or a config")
        object.__setattr__(self, "stages", tuple(found))

    def of_kind(self, kind: ComponentKind) -> tuple[Config | Component, ...]:
        """The parts of one kind, in order."""
        return tuple(part for part in self.stages if part_kind(part) is kind)

    def _of(self, base: type[_Part]) -> tuple[Config | _Part, ...]:
        return tuple(part for part in self.stages if part_kind(part) is base.kind)  # type: ignore[misc]

    @property
    def controller(self) -> Config | Controller | None:
        """What makes effort out of commands; None in a chain without a controller."""
        return next(iter(self._of(Controller)), None)

    @property
    def clamping(self) -> tuple[Config | Clamping, ...]:
        """What limits the effort, in order."""
        return self._of(Clamping)

    @property
    def delay(self) -> Config | Delay | None:
        """What holds commands back; None in a chain without a delay."""
        return next(iter(self._of(Delay)), None)

    @property
    def transmission(self) -> Config | Transmission | None:
        """What stands between motor and joint; None in a chain without a transmission."""
        return next(iter(self._of(Transmission)), None)

    @property
    def effects(self) -> tuple[Config | Effect, ...]:
        """What is lost or late on the way, in order."""
        return self._of(Effect)

    @property
    def sensors(self) -> tuple[Config | Sensor, ...]:
        """What the controller sees of the joint, in order."""
        return self._of(Sensor)

    def by_kind(self) -> Mapping[ComponentKind, tuple[Config | Component, ...]] | None:
        """The parts of each kind that there is, in the usual order; None where the chain has another order."""
        found = {kind: self.of_kind(kind) for kind in _USUAL_ORDER}
        usual = tuple(part for parts in found.values() for part in parts)
        if usual != self.stages or len(found[ComponentKind.CONTROLLER]) != 1:
            return None
        if any(len(parts) > 1 and not kind.several for kind, parts in found.items()):
            return None
        return {kind: parts for kind, parts in found.items() if parts}

    def __repr__(self) -> str:
        found = self.by_kind()
        if found is None:
            return f"ActuatorConfig(stages={list(self.stages)!r})"
        shown = (f"{k.key}={list(parts) if k.several else parts[0]!r}" for k, parts in found.items())
        return f"ActuatorConfig({', '.join(shown)})"


def part_kind(part: Config | Component) -> ComponentKind | None:
    """The place of a config or a component in the chain."""
    return kind_of(part) if isinstance(part, Config) else part.kind


def built(part: Config | Component) -> Component:
    """A component as it is, or the one that a config describes."""
    return class_of(part).with_values(part.arguments()) if isinstance(part, Config) else part


def _parts(where: str, given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, (Config, Component)) or where in ("controller", "delay", "transmission"):
        return [given]
    if not isinstance(given, (list, tuple)):
        raise StructureError(f"{where}: got {type(given).__name__}; must be a list")
    return list(given)


def _of_kind(kind: ComponentKind, parts: list[Any]) -> Iterable[Any]:
    """The parts, all of which must be of ``kind``."""
    if not parts and kind is ComponentKind.CONTROLLER:
        parts = [None]
    for i, part in enumerate(parts):
        if not isinstance(part, (Config, Component)) or part_kind(part) is not kind:
            where = f"{kind.key}[{i}]" if kind.several else kind.key
            article = "an" if kind is ComponentKind.EFFECT else "a"
            raise StructureError(
                f"{where}: got {type(part).__name__}; must be {article} {kind.base_name}, or the config of one"
            )
    return parts
