# SPDX-License-Identifier: Apache-2.0
"""`ActuatorConfig`: the list of stages of one actuator, which files, builders, robots and tools exchange."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..components.component import Component
from ..components.delay import Delay
from ..components.effects.friction import LOAD_PARAMETERS, EffectFriction, FrictionEffectConfig, depends_on_load
from ..components.kinds import Clamping, Controller, Effect, Sensor, Transmission
from ..components.transmissions.gear import GearTransmissionConfig, TransmissionGear, loses
from ..declare.config import Config
from ..declare.parameters import Field
from ..declare.registry import ComponentKind, class_of, kind_of
from ..errors import ParameterError, StructureError
from .newton_parts import NewtonPart, newton_kind, wrap_newton_part

_Part = TypeVar("_Part", bound=Component)
_USUAL_ORDER = tuple(ComponentKind)
_MOST_STEPS = 1_000_000

Part: TypeAlias = Config | Component | NewtonPart
"""A stage of a motor model: a config, a component, or a component of Newton."""


EXPLICIT = "explicit"
"""An effort from the state before the step."""
IMPLICIT = "implicit"
"""Effort and its derivatives by position and velocity, for the engine's solver."""
AUTO = "auto"
"""Implicit if an explicit effort would be near the stability limit, otherwise explicit."""

EFFORT_MODE: Field[str] = Field(
    unit="1",
    doc="How the effort reaches an engine.",
    choices=(EXPLICIT, IMPLICIT, AUTO),
    fallback=EXPLICIT,
)
"""Declaration of ``effort_mode``."""


def checked_effort_mode(value: object, where: str = "effort_mode") -> str:
    """Return ``value`` if it is an effort mode.

    Raises:
        ParameterError: It is not one of the three.
    """
    EFFORT_MODE.check(where, value)
    return str(value)


def checked_control_every(value: object) -> int:
    """Return ``value`` if it is a valid control decimation.

    Raises:
        ParameterError: It is not.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not 1 <= int(value) <= _MOST_STEPS:
        raise ParameterError(f"control_every: got {value!r}; must be a whole number of steps from 1 to {_MOST_STEPS}")
    return int(value)


class KindView(MutableSequence[Any]):
    """View of the parts of one kind in a list of stages. Changes apply to the stages.

    Args:
        stages: All stages.
        kind: Kind of the parts.
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

    def insert(self, index: int, value: object) -> None:
        """Insert a part before the one at ``index``; the first of its kind goes to its usual place."""
        places = self._places()
        if places:
            start, _, _ = slice(index, None).indices(len(places))
            at = [*places, places[-1] + 1][start]
        else:
            later = _USUAL_ORDER[_USUAL_ORDER.index(self._kind) + 1 :]
            at = next((i for i, part in enumerate(self._stages) if part_kind(part) in later), len(self._stages))
        self._stages.insert(at, _checked(self._kind, len(places), value))

    def replace(self, parts: Iterable[Part]) -> None:
        """Replace all parts by these, at the place of the first."""
        wanted = [_checked(self._kind, i, part) for i, part in enumerate(parts)]
        for part in wanted[:1]:
            if len(self):
                self[0] = part
            else:
                self.append(part)
        del self[len(wanted[:1]) :]
        self.extend(wanted[1:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple, KindView)) and self._items() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items())


@dataclass(init=False, repr=False)
class ActuatorConfig:
    """Motor model: the stages of one actuator. Each is a config of numbers, or a component, also one of Newton's.

    You can change it: ``config.stages[1] = ...``, ``config.clamping.append(...)``, ``config.delay = ...``. Actuators
    that were built from it do not change: they use a copy of its stages.

    Args:
        controller: Turns commands into efforts.
        clamping: Limits of the effort, in order.
        delay: Delay of the commands. None means no delay.
        transmission: Gear, linkage or spring between motor and joint.
        effects: Friction, current loop and other effects between motor and joint, in order.
        sensors: Sensors between joint and controller, in order.
        stages: All stages in any other order, instead of the arguments by kind.
        control_every: Run the controller at every k-th step, and hold its effort in between.
        effort_mode: How the effort reaches an engine: ``"explicit"``, ``"implicit"`` or ``"auto"``.

    Examples:
        >>> pd = actuon.PDControlConfig(kp=40.0, kd=1.0)
        >>> limit = actuon.MaxEffortClampingConfig(25.0)
        >>> motor = actuon.ActuatorConfig(pd, [limit], actuon.DelayConfig(2))
        >>> motor.effects.append(actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.01))
        >>> [type(stage).__name__ for stage in motor.stages]
        ['DelayConfig', 'PDControlConfig', 'MaxEffortClampingConfig', 'FrictionEffectConfig']
    """

    stages: list[Part]
    """Parts, in the order in which they act."""
    control_every: int
    """Number of steps from one run of the controller to the next."""
    effort_mode: str
    """How the effort reaches an engine: ``"explicit"``, ``"implicit"`` or ``"auto"``."""

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
        self.control_every = checked_control_every(control_every)
        self.effort_mode = checked_effort_mode(effort_mode)
        self.stages = list(
            arranged_stages(
                controller,
                clamping,
                delay,
                transmission=transmission,
                effects=effects,
                sensors=sensors,
                stages=stages,
            )
        )

    def frozen_stages(self) -> tuple[Part, ...]:
        """Return the current stages as a tuple, which later changes of the config do not affect.

        Raises:
            StructureError: A stage is neither a component nor a config, or the losses of a gear are described twice.
            ParameterError: ``control_every`` or ``effort_mode`` has a value that is not allowed.
        """
        if not isinstance(self.stages, list):
            raise StructureError(f"stages: got {type(self.stages).__name__}; must be a list")
        checked_control_every(self.control_every)
        checked_effort_mode(self.effort_mode)
        stages = _checked_stages(self.stages)
        check_losses_once(stages)
        return stages

    def copy(self) -> ActuatorConfig:
        """Return a config with the same stages. Changes of one do not affect the other.

        Examples:
            >>> config = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0))
            >>> other = config.copy()
            >>> other.delay = actuon.DelayConfig(2)
            >>> len(config.stages), len(other.stages)
            (1, 2)
        """
        made = copy.copy(self)
        made.stages = list(self.frozen_stages())
        return made

    def with_stages(self, stages: Sequence[Part]) -> ActuatorConfig:
        """Return a config with these stages and the same ``control_every`` and ``effort_mode``.

        Examples:
            >>> config = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), control_every=4)
            >>> config.with_stages([actuon.DelayConfig(2), config.controller]).control_every
            4
        """
        return ActuatorConfig(stages=stages, control_every=self.control_every, effort_mode=self.effort_mode)

    def without_limits(self) -> ActuatorConfig:
        """Return the config of an ideal motor: the controller at its rate, without delays and limits.

        Friction and gears up to a spring, a gap or a coupling stay, since they define the joint's friction and
        armature.

        Examples:
            >>> pd, limit = actuon.PDControlConfig(40.0, 1.0), actuon.MaxEffortClampingConfig(25.0)
            >>> actuon.ActuatorConfig(pd, [limit], actuon.DelayConfig(2)).without_limits()
            ActuatorConfig(controller=PDControlConfig(kp=40.0, kd=1.0, const_effort=0.0))
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
        """True if the friction of a stage replaces the joint's own friction in an engine."""
        return any(_rubs(part) for part in self._at_joint())

    def _at_joint(self) -> list[Part]:
        """Return the stages up to a spring, gap or coupling."""
        apart = (
            i
            for i, part in enumerate(self.stages)
            if part_kind(part) is ComponentKind.TRANSMISSION and "gear_ratio" not in _outputs(part)
        )
        return self.stages[: next(apart, len(self.stages))]

    def of_kind(self, kind: ComponentKind) -> KindView:
        """Return the parts of one kind, in order.

        Examples:
            >>> pd, limit = actuon.PDControlConfig(40.0, 1.0), actuon.MaxEffortClampingConfig(25.0)
            >>> actuon.ActuatorConfig(pd, [limit]).of_kind(actuon.ComponentKind.CLAMPING)
            [MaxEffortClampingConfig(max_effort=25.0)]
        """
        return KindView(self.stages, kind)

    def _single(self, base: type[_Part]) -> Config | _Part | None:
        assert base.kind is not None
        return next(iter(self.of_kind(base.kind)), None)

    def _replace_single(self, kind: ComponentKind, part: Part | None) -> None:
        self.of_kind(kind).replace([] if part is None else [part])

    @property
    def controller(self) -> Config | Controller | None:
        """Controller, which turns commands into efforts; None without one."""
        return self._single(Controller)

    @controller.setter
    def controller(self, part: Config | Controller | NewtonPart) -> None:
        self._replace_single(ComponentKind.CONTROLLER, part)

    @property
    def clamping(self) -> KindView:
        """Limits of the effort, in order."""
        return self.of_kind(ComponentKind.CLAMPING)

    @clamping.setter
    def clamping(self, parts: Sequence[Config | Clamping | NewtonPart]) -> None:
        self.clamping.replace(_parts("clamping", parts))

    @property
    def delay(self) -> Config | Delay | None:
        """Delay of the commands; None without one."""
        return self._single(Delay)

    @delay.setter
    def delay(self, part: Config | Delay | NewtonPart | None) -> None:
        self._replace_single(ComponentKind.DELAY, part)

    @property
    def transmission(self) -> Config | Transmission | None:
        """Transmission between motor and joint; None without one."""
        return self._single(Transmission)

    @transmission.setter
    def transmission(self, part: Config | Transmission | None) -> None:
        self._replace_single(ComponentKind.TRANSMISSION, part)

    @property
    def effects(self) -> KindView:
        """Friction, current loop and other effects between motor and joint, in order."""
        return self.of_kind(ComponentKind.EFFECT)

    @effects.setter
    def effects(self, parts: Sequence[Config | Effect]) -> None:
        self.effects.replace(_parts("effects", parts))

    @property
    def sensors(self) -> KindView:
        """Sensors between joint and controller, in order."""
        return self.of_kind(ComponentKind.SENSOR)

    @sensors.setter
    def sensors(self, parts: Sequence[Config | Sensor]) -> None:
        self.sensors.replace(_parts("sensors", parts))

    def by_kind(self) -> Mapping[ComponentKind, tuple[Part, ...]] | None:
        """Return the parts by kind, in the usual order; None if the stages have another order."""
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
    """Return the names of the signals that a stage offers."""
    cls = class_of(part) if isinstance(part, Config) else type(part)
    return getattr(cls, "OUTPUTS", ())


def _rubs(part: Part) -> bool:
    return "dry_friction" in _outputs(part)


def _is_part(part: object) -> bool:
    return isinstance(part, (Config, Component)) or newton_kind(part) is not None


def part_kind(part: Part) -> ComponentKind | None:
    """Return the kind of a config or component; None if it has none."""
    if isinstance(part, Config):
        return kind_of(part)
    return part.kind if isinstance(part, Component) else newton_kind(part)


def built(part: Part) -> Component:
    """Return the component of a config, a wrapped component of Newton, or the component itself."""
    if isinstance(part, Config):
        made: Component = class_of(part).with_values(part.arguments())
        return made
    return part if isinstance(part, Component) else wrap_newton_part(part)


def arranged_stages(
    controller: Config | Controller | NewtonPart | None = None,
    clamping: Config | Clamping | NewtonPart | Sequence[Config | Clamping | NewtonPart] | None = (),
    delay: Config | Component | NewtonPart | None = None,
    *,
    transmission: Config | Transmission | None = None,
    effects: Config | Effect | Sequence[Config | Effect] | None = (),
    sensors: Config | Sensor | Sequence[Config | Sensor] | None = (),
    stages: Sequence[Part] | None = None,
) -> tuple[Part, ...]:
    """Return the stages of a motor model, from arguments by kind or from one list, in order.

    Raises:
        StructureError: A part is of the wrong kind, the controller is missing, or both ways are mixed.
    """
    given = {
        ComponentKind.SENSOR: sensors,
        ComponentKind.DELAY: delay,
        ComponentKind.CONTROLLER: controller,
        ComponentKind.TRANSMISSION: transmission,
        ComponentKind.CLAMPING: clamping,
        ComponentKind.EFFECT: effects,
    }
    by_kind = {kind: _parts(kind.key, given[kind]) for kind in _USUAL_ORDER}
    if stages is not None:
        if any(by_kind.values()):
            raise StructureError("stages: got arguments by kind as well, such as controller; pass one or the other")
        return _checked_stages(_parts("stages", stages))
    found = tuple(_checked(kind, i, part) for kind, parts in by_kind.items() for i, part in enumerate(parts))
    if not by_kind[ComponentKind.CONTROLLER]:
        _checked(ComponentKind.CONTROLLER, 0, None)
    return found


def configs_of(stages: Iterable[Part], rule: str) -> tuple[Config, ...]:
    """Return stages that must be configs of numbers.

    Args:
        stages: The stages.
        rule: Rule that the message states.

    Raises:
        StructureError: One is a component, which holds arrays.
    """
    found = []
    for part in stages:
        if not isinstance(part, Config):
            raise StructureError(f"got {type(part).__name__}, which holds arrays; {rule}")
        found.append(part)
    return tuple(found)


def check_losses_once(stages: Iterable[Part]) -> None:
    """Check that losses of a gear are described once: by efficiencies, or by friction that depends on the load.

    Raises:
        StructureError: A motor has both.
    """
    gears, frictions = np.zeros((), bool), np.zeros((), bool)
    for part in stages:
        if isinstance(part, (GearTransmissionConfig, TransmissionGear)):
            gears = gears | loses(part.arguments())
        elif isinstance(part, (FrictionEffectConfig, EffectFriction)):
            frictions = frictions | depends_on_load(part.arguments())
    if (gears & frictions).any():
        raise StructureError(
            "the gear has an efficiency, and friction depends on the load: both describe the losses of the gear; set "
            f"efficiency to 1 and leave backdrive_efficiency unset, or leave out {', '.join(LOAD_PARAMETERS)}"
        )


def _checked_stages(parts: Sequence[Part]) -> tuple[Part, ...]:
    for i, part in enumerate(parts):
        if not _is_part(part):
            raise StructureError(f"stages[{i}]: got {type(part).__name__}; must be a component, or a config")
    return tuple(parts)


def _parts(where: str, given: object) -> list[Any]:
    if given is None:
        return []
    if _is_part(given) or where in ("controller", "delay", "transmission"):
        return [given]
    if not isinstance(given, (list, tuple, KindView)):
        raise StructureError(f"{where}: got {type(given).__name__}; must be a list")
    return list(given)


def _checked(kind: ComponentKind, i: int, part: Any) -> Any:
    """Return a part, which must be of ``kind``."""
    if not _is_part(part) or part_kind(part) is not kind:
        where = f"{kind.key}[{i}]" if kind.several else kind.key
        article = "an" if kind is ComponentKind.EFFECT else "a"
        raise StructureError(
            f"{where}: got {type(part).__name__}; must be {article} {kind.base_name}, or the config of one"
        )
    return part
