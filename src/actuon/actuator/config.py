# SPDX-License-Identifier: Apache-2.0
"""One actuator as a person or a file describes it: a list of stages. Files, builders, robots and tools pass this on."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from .components.component import Component
from .components.controllers.controller import Controller
from .components.delay import Delay
from .components.effects.effect import Effect
from .components.limits.clamping import Clamping
from .components.sensors.sensor import Sensor
from .components.transmissions.transmission import Transmission
from .declare.config import Config
from .declare.effort_mode import EXPLICIT, checked_effort_mode
from .declare.registry import ComponentKind, class_of, kind_of
from .errors import ParameterError, StructureError
from .newton_parts import NewtonPart, adopted, newton_kind

_Part = TypeVar("_Part", bound=Component)
_USUAL_ORDER = tuple(ComponentKind)
_MOST_STEPS = 1_000_000

Part: TypeAlias = Config | Component | NewtonPart
"""A stage of a chain: a config of numbers, a component, or one of Newton's own."""


class PartsOfKind(MutableSequence[Any]):
    """The parts of one kind in a list of stages, as a list: what is done to it is done to the stages.

    Args:
        stages: All stages.
        kind: Which of them.
    """

    def __init__(self, stages: list[Part], kind: ComponentKind):
        self._stages, self._kind = stages, kind

    def _places(self) -> list[int]:
        return [i for i, part in enumerate(self._stages) if part_kind(part) is self._kind]

    def _items(self) -> list[Part]:
        return [self._stages[i] for i in self._places()]

    def __len__(self) -> int:
        return len(self._places())

    def __getitem__(self, index: Any) -> Any:
        return self._items()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            items = self._items()
            items[index] = value
            self.replace(items)
        else:
            self._stages[self._places()[index]] = _checked(self._kind, range(len(self))[index], value)

    def __delitem__(self, index: Any) -> None:
        chosen = self._places()[index]
        for place in sorted(chosen if isinstance(index, slice) else [chosen], reverse=True):
            del self._stages[place]

    def insert(self, index: int, value: Any) -> None:
        """Put a part before the one at ``index``; the first of its kind goes where it usually stands."""
        places = self._places()
        if places:
            start, _, _ = slice(index, None).indices(len(places))
            at = [*places, places[-1] + 1][start]
        else:
            later = _USUAL_ORDER[_USUAL_ORDER.index(self._kind) + 1 :]
            at = next((i for i, part in enumerate(self._stages) if part_kind(part) in later), len(self._stages))
        self._stages.insert(at, _checked(self._kind, len(places), value))

    def replace(self, parts: Iterable[Part]) -> None:
        """Have these parts instead, at the place of the first."""
        wanted = [_checked(self._kind, i, part) for i, part in enumerate(parts)]
        for part in wanted[:1]:
            if len(self):
                self[0] = part
            else:
                self.append(part)
        del self[len(wanted[:1]) :]
        self.extend(wanted[1:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple, PartsOfKind)) and self._items() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items())


@dataclass(init=False, repr=False)
class ActuatorConfig:
    """The chain of one actuator. Each part is a config of numbers, or a component, which may be Newton's own.

    It can be changed until it is used: ``config.stages[1] = ...``, ``config.clamping.append(...)``,
    ``config.delay = ...``. What uses it takes what it holds then, so that later changes have no effect on that.

    Args:
        controller: Turns commands into efforts.
        clamping: What limits the effort, in this order.
        delay: Delay of the commands. None means no delay.
        transmission: What stands between motor and joint.
        effects: Losses and lags between motor and joint, in this order.
        sensors: What the controller sees of the joint, in this order.
        stages: All stages in another order than the usual one, instead of the arguments by kind.
        control_every: The controller runs at every k-th step, and what it gives is held in between.
        effort_mode: How the effort reaches an engine: ``"explicit"``, ``"tangent"`` or ``"auto"``.
    """

    stages: list[Part]
    """All parts, in the order in which they act."""
    control_every: int
    """The controller runs at every k-th step."""
    effort_mode: str
    """How the effort reaches an engine."""

    def __init__(
        self,
        controller: Config | Controller | NewtonPart | None = None,
        clamping: Config | Clamping | NewtonPart | Sequence[Config | Clamping | NewtonPart] | None = (),
        delay: Config | Delay | NewtonPart | None = None,
        *,
        transmission: Config | Transmission | None = None,
        effects: Config | Effect | Sequence[Config | Effect] | None = (),
        sensors: Config | Sensor | Sequence[Config | Sensor] | None = (),
        stages: Sequence[Part] | None = None,
        control_every: int = 1,
        effort_mode: str = EXPLICIT,
    ):
        self.control_every = _steps("control_every", control_every)
        self.effort_mode = checked_effort_mode(effort_mode)
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
            found = {kind: [_checked(kind, i, part) for i, part in enumerate(parts[kind])] for kind in _USUAL_ORDER}
            if not found[ComponentKind.CONTROLLER]:
                _checked(ComponentKind.CONTROLLER, 0, None)
            self.stages = [part for kind in _USUAL_ORDER for part in found[kind]]
        elif any(parts.values()):
            raise StructureError("stages: got components by kind too; must be either one list, or arguments by kind")
        else:
            self.stages = _parts("stages", stages)
            self._check()

    def _check(self) -> None:
        for i, part in enumerate(self.stages):
            if not _is_part(part):
                raise StructureError(f"stages[{i}]: got {type(part).__name__}; must be a component, or a config")

    def copy(self) -> ActuatorConfig:
        """A config with the same parts, checked: a change of one is none of the other."""
        if not isinstance(self.stages, list):
            raise StructureError(f"stages: got {type(self.stages).__name__}; must be a list")
        return self.with_stages(self.stages)

    def with_stages(self, stages: Sequence[Part]) -> ActuatorConfig:
        """A config of other stages that is otherwise the same."""
        return ActuatorConfig(stages=stages, control_every=self.control_every, effort_mode=self.effort_mode)

    def without_limits(self) -> ActuatorConfig:
        """Ideal motor: this controller, at this rate and on this joint, at once and with any effort.

        Friction and gears up to a spring, a gap or a coupling stay: they give the joint its friction and armature, and
        let the effort through as it is.
        """
        near, controller = len(self._at_joint()), self.controller
        return self.with_stages(
            [
                part
                for i, part in enumerate(self.stages)
                if part is controller or (i < near and (part_kind(part) is ComponentKind.TRANSMISSION or _rubs(part)))
            ]
        )

    @property
    def gives_friction(self) -> bool:
        """True if friction of a stage replaces the joint's own in an engine."""
        return any(_rubs(part) for part in self._at_joint())

    def _at_joint(self) -> list[Part]:
        """The stages up to a transmission whose other side moves apart from the joint."""
        apart = (
            i
            for i, part in enumerate(self.stages)
            if part_kind(part) is ComponentKind.TRANSMISSION and "gear_ratio" not in _outputs(part)
        )
        return self.stages[: next(apart, len(self.stages))]

    def of_kind(self, kind: ComponentKind) -> PartsOfKind:
        """The parts of one kind, in order."""
        return PartsOfKind(self.stages, kind)

    def _one(self, base: type[_Part]) -> Config | _Part | None:
        assert base.kind is not None
        return next(iter(self.of_kind(base.kind)), None)

    def _set_one(self, kind: ComponentKind, part: Part | None) -> None:
        self.of_kind(kind).replace([] if part is None else [part])

    @property
    def controller(self) -> Config | Controller | None:
        """Turns commands into efforts; None in a chain without a controller."""
        return self._one(Controller)

    @controller.setter
    def controller(self, part: Config | Controller | NewtonPart) -> None:
        self._set_one(ComponentKind.CONTROLLER, part)

    @property
    def clamping(self) -> PartsOfKind:
        """What limits the effort, in order."""
        return self.of_kind(ComponentKind.CLAMPING)

    @clamping.setter
    def clamping(self, parts: Sequence[Config | Clamping | NewtonPart]) -> None:
        self.clamping.replace(_parts("clamping", parts))

    @property
    def delay(self) -> Config | Delay | None:
        """Delay of the commands; None in a chain without one."""
        return self._one(Delay)

    @delay.setter
    def delay(self, part: Config | Delay | NewtonPart | None) -> None:
        self._set_one(ComponentKind.DELAY, part)

    @property
    def transmission(self) -> Config | Transmission | None:
        """What stands between motor and joint; None in a chain without a transmission."""
        return self._one(Transmission)

    @transmission.setter
    def transmission(self, part: Config | Transmission | None) -> None:
        self._set_one(ComponentKind.TRANSMISSION, part)

    @property
    def effects(self) -> PartsOfKind:
        """Losses and lags between motor and joint, in order."""
        return self.of_kind(ComponentKind.EFFECT)

    @effects.setter
    def effects(self, parts: Sequence[Config | Effect]) -> None:
        self.effects.replace(_parts("effects", parts))

    @property
    def sensors(self) -> PartsOfKind:
        """What the controller sees of the joint, in order."""
        return self.of_kind(ComponentKind.SENSOR)

    @sensors.setter
    def sensors(self, parts: Sequence[Config | Sensor]) -> None:
        self.sensors.replace(_parts("sensors", parts))

    def by_kind(self) -> Mapping[ComponentKind, tuple[Part, ...]] | None:
        """The parts of each kind that there is, in the usual order; None where the chain has another order."""
        found = {kind: tuple(self.of_kind(kind)) for kind in _USUAL_ORDER}
        usual = [part for parts in found.values() for part in parts]
        if usual != self.stages or len(found[ComponentKind.CONTROLLER]) != 1:
            return None
        if any(len(parts) > 1 and not kind.several for kind, parts in found.items()):
            return None
        return {kind: parts for kind, parts in found.items() if parts}

    def __repr__(self) -> str:
        found = self.by_kind()
        shown = [f"stages={self.stages!r}"]
        if found is not None:
            shown = [f"{k.key}={list(parts) if k.several else parts[0]!r}" for k, parts in found.items()]
        if self.control_every != 1:
            shown.append(f"control_every={self.control_every!r}")
        if self.effort_mode != EXPLICIT:
            shown.append(f"effort_mode={self.effort_mode!r}")
        return f"ActuatorConfig({', '.join(shown)})"


def _outputs(part: Part) -> tuple[str, ...]:
    """Names of the signals that a stage offers."""
    cls = class_of(part) if isinstance(part, Config) else type(part)
    return getattr(cls, "OUTPUTS", ())


def _rubs(part: Part) -> bool:
    return "dry_friction" in _outputs(part)


def _steps(where: str, value: Any) -> int:
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= _MOST_STEPS:
        raise ParameterError(f"{where}: got {value!r}; must be a whole number of steps from 1 to {_MOST_STEPS}")
    return int(value)


def _is_part(part: object) -> bool:
    return isinstance(part, (Config, Component)) or newton_kind(part) is not None


def part_kind(part: Part) -> ComponentKind | None:
    """The place of a config or a component in the chain."""
    if isinstance(part, Config):
        return kind_of(part)
    return part.kind if isinstance(part, Component) else newton_kind(part)


def built(part: Part) -> Component:
    """A component as it is, or the one that a config describes, or a stage with Newton's own."""
    if isinstance(part, Config):
        made: Component = class_of(part).with_values(part.arguments())
        return made
    return part if isinstance(part, Component) else adopted(part)


def _parts(where: str, given: Any) -> list[Any]:
    if given is None:
        return []
    if _is_part(given) or where in ("controller", "delay", "transmission"):
        return [given]
    if not isinstance(given, (list, tuple, PartsOfKind)):
        raise StructureError(f"{where}: got {type(given).__name__}; must be a list")
    return list(given)


def _checked(kind: ComponentKind, i: int, part: Any) -> Any:
    """A part, which must be of ``kind``."""
    if not _is_part(part) or part_kind(part) is not kind:
        where = f"{kind.key}[{i}]" if kind.several else kind.key
        article = "an" if kind is ComponentKind.EFFECT else "a"
        raise StructureError(
            f"{where}: got {type(part).__name__}; must be {article} {kind.base_name}, or the config of one"
        )
    return part
