# SPDX-License-Identifier: Apache-2.0
"""Batteries that the motors of a robot share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.shared_battery import SharedBattery
from ..actuator.state import ActuatorState
from ..components.limits.battery import ClampingBattery
from ..sim.motor import Draws


class RobotBatteries:
    """Batteries of robots, one for each, with the motors of a set of chains.

    Args:
        actuators: All actuators of the set.
        robots: The number of the robot of each DOF, for each actuator.

    Raises:
        ParameterError: Motors of a robot differ in their battery.
    """

    def __init__(self, actuators: Sequence[Actuator], robots: Sequence[np.ndarray]):
        self.places = [i for i, actuator in enumerate(actuators) if _has_battery(actuator)]
        """Positions of the actuators with a battery."""
        self._actuators = [actuators[i] for i in self.places]
        self._battery = SharedBattery(self._actuators, [robots[i] for i in self.places]) if self.places else None

    def share(self, states: Sequence[ActuatorState | None]) -> None:
        """Share the loads of the last step between the motors of each robot.

        Args:
            states: States of all actuators of the set after that step.
        """
        if self._battery is not None:
            self._battery.share(*(states[i] for i in self.places))

    def draws(self, states: Sequence[ActuatorState | None], cells: Sequence[np.ndarray]) -> list[Draws]:
        """Return the motors for compiled code.

        Args:
            states: States of all actuators of the set.
            cells: For each of them, its number for each robot. See `RobotCall`.
        """
        of_actuators = (draws_of(own, states[i], cells[i]) for own, i in zip(self._actuators, self.places, strict=True))
        return [draws for each in of_actuators for draws in each]


_LOADS = ("own_load", "other_load")
"""Names of the loads of a battery, of a motor and of the others."""


def draws_of(actuator: Actuator, state: ActuatorState | None, cells: np.ndarray) -> list[Draws]:
    """Return the motors of an actuator with batteries for compiled code, if it has any.

    Args:
        actuator: The actuator.
        state: Its state.
        cells: Its number for each robot. See `RobotCall`.
    """
    if state is None or not _has_battery(actuator):
        return []
    memory, at = state.memory, _battery_of(actuator)
    own, other = (memory.buffers["floats"].ptr + 4 * memory.places[at, name] for name in _LOADS)
    return [Draws(own, other, 4 * memory.sizes["floats"], memory.cells.dofs, cells)]


def _battery_of(actuator: Actuator) -> int:
    """Return the position of the battery in the chain."""
    return next(i for i, stage in enumerate(actuator.stages) if isinstance(stage, ClampingBattery))


def _has_battery(actuator: Actuator) -> bool:
    return any(isinstance(stage, ClampingBattery) for stage in actuator.stages)
