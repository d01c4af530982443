# SPDX-License-Identifier: Apache-2.0
"""The stages of an actuator, by kind."""

from __future__ import annotations

from typing import TypeVar

from .components.component import Component
from .components.controllers.controller import Controller
from .components.delay import Delay
from .components.delay_low_pass import DelayLowPass
from .components.delay_time import DelayTime
from .components.effects.effect import Effect
from .components.limits.clamping import Clamping
from .components.sensors.sensor import Sensor
from .components.transmissions.transmission import Transmission
from .declare.registry import ComponentKind
from .errors import StructureError

_Part = TypeVar("_Part", bound=Component)


class ActuatorStages:
    """Shows what an actuator is made of."""

    _stages: tuple[Component, ...]

    @property
    def stages(self) -> tuple[Component, ...]:
        """All components, in the order in which they act. Their parameters are live; they themselves stay."""
        return self._stages

    @property
    def controller(self) -> Controller:
        """Turns commands into efforts."""
        controllers = self._of_kind(Controller)
        if not controllers:
            raise StructureError("the chain has no controller; see actuator.stages")
        return controllers[0]

    @property
    def drive(self) -> Controller:
        """What Newton calls the controller."""
        return self.controller

    @property
    def delay(self) -> Delay | DelayTime | DelayLowPass | None:
        """Delay of the commands, the first of several; None in a chain without one."""
        found = (stage for stage in self._stages if stage.kind is ComponentKind.DELAY)
        return next(found, None)  # type: ignore[return-value]

    @property
    def transmission(self) -> Transmission | None:
        """What stands between motor and joint; None in a chain without one."""
        return next(iter(self._of_kind(Transmission)), None)

    @property
    def clamping(self) -> tuple[Clamping, ...]:
        """What limits the effort, in order."""
        return self._of_kind(Clamping)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Losses and lags between motor and joint, in order."""
        return self._of_kind(Effect)

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        """What the controller sees of the joint, in order."""
        return self._of_kind(Sensor)

    def _of_kind(self, kind: type[_Part]) -> tuple[_Part, ...]:
        return tuple(component for component in self._stages if isinstance(component, kind))

    @property
    def signals(self) -> tuple[str, ...]:
        """Signals that stages offer beside the effort, such as a motor's current, in their order."""
        stages = [component.stage() for component in self._stages]
        names = (name for stage in stages for name in (*stage.outputs, *stage.closing_outputs))
        return tuple(dict.fromkeys(names))
