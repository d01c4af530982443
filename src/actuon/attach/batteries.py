# SPDX-License-Identifier: Apache-2.0
"""Batteries that the motors of a robot share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.shared_battery import SharedBattery
from ..actuator.state import ActuatorState
from ..components.limits.battery import ClampingBattery
from ..sim import Simulation
from ..sim.motor import Draws


class BatteryPool:
    """Batteries of the robots of a simulation, one for each, with the attachments of their motors."""

    def __init__(self) -> None:
        self._members: list[RobotBatteries] = []
        self._stepped: set[RobotBatteries] = set()
        self._battery: SharedBattery | None = None

    def check(self, new: RobotBatteries) -> None:
        """Raise an error for motors whose battery differs from that of other motors of the robot."""
        _shared([*self._members, new])

    def add(self, new: RobotBatteries) -> None:
        """Connect motors to the batteries of their robots, at the present charge."""
        for member in self._members:
            member.hand_charge_to(new)
        self._change([*self._members, new])

    def remove(self, member: RobotBatteries) -> None:
        """Disconnect motors from their batteries."""
        self._change([other for other in self._members if other is not member])

    def _change(self, members: list[RobotBatteries]) -> None:
        self._members, self._battery = members, _shared(members)
        self._stepped.intersection_update(members)
        self.share()

    def has_stepped(self, member: RobotBatteries) -> None:
        """Share the loads after all members have stepped, or one of them twice."""
        is_again = member in self._stepped
        self._stepped.add(member)
        if is_again or len(self._stepped) == len(self._members):
            self.share()
            self._stepped = {member} if is_again else set()

    def follow(self, member: RobotBatteries) -> None:
        """Set the charge of the batteries from one of the members."""
        if len(self._members) > 1:
            for other in self._members:
                if other is not member:
                    member.hand_charge_to(other)
            self.share()

    @property
    def shared(self) -> SharedBattery | None:
        """Return the function that shares the loads."""
        return self._battery

    @property
    def has_one(self) -> bool:
        """Whether one attachment has all motors."""
        return len(self._members) == 1

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code can step all motors, robot by robot."""
        return all(
            actuator.is_fused() and actuator.robot_dofs is not None
            for member in self._members
            for actuator in member.actuators
        )

    def were_shared(self) -> None:
        """Note that compiled code stepped motors and shared the loads."""
        self._stepped.clear()

    def share(self) -> None:
        """Share the loads of the last step between the motors of each robot."""
        if self._battery is not None:
            self._battery.share(*(state for member in self._members for state in member.states))


def battery_pool(simulation: Simulation) -> BatteryPool:
    """Return the batteries of the robots of a simulation."""
    pool: BatteryPool = simulation.common.setdefault(BatteryPool, BatteryPool())
    return pool


def _shared(members: Sequence[RobotBatteries]) -> SharedBattery | None:
    actuators = [actuator for member in members for actuator in member.actuators]
    return SharedBattery(actuators, [given for member in members for given in member.robots]) if actuators else None


class RobotBatteries:
    """Motors of an attachment with batteries.

    All motors of a robot share one battery, also those of other attachments.

    Args:
        actuators: All actuators of the attachment.
        robots: The number of the robot of each DOF, for each actuator.
        pool: The batteries.
    """

    def __init__(self, actuators: Sequence[Actuator], robots: Sequence[np.ndarray], pool: BatteryPool):
        self._places = [i for i, actuator in enumerate(actuators) if _has_battery(actuator)]
        self.actuators = [actuators[i] for i in self._places]
        """Actuators with a battery."""
        self.robots = [robots[i] for i in self._places]
        """Robot of each DOF, for each of these actuators."""
        self.states: list[ActuatorState | None] = []
        """State of each of these actuators."""
        self._pool = pool
        if self.has_any:
            pool.check(self)

    @property
    def has_any(self) -> bool:
        """Whether there is a battery."""
        return bool(self._places)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code can step all motors on the batteries."""
        return not self.has_any or self._pool.is_compiled

    @property
    def shared(self) -> SharedBattery | None:
        """Return the function that shares the loads of all motors on the batteries."""
        return self._pool.shared if self.has_any else None

    @property
    def is_alone(self) -> bool:
        """Whether no other attachment has motors on the batteries; each step then shares the loads."""
        return not self.has_any or self._pool.has_one

    def were_shared(self) -> None:
        """Note that compiled code stepped the motors and shared the loads."""
        if self.has_any:
            self._pool.were_shared()

    def draws(self, states: Sequence[ActuatorState | None], cells: Sequence[np.ndarray]) -> list[Draws] | None:
        """Return the motors for compiled code; None if it cannot step all motors on the batteries.

        Args:
            states: States of the actuators of the attachment.
            cells: For each actuator of the attachment, its number for each robot. See `RobotCall`.
        """
        if not self.is_compiled:
            return None
        found = []
        for actuator, place in zip(self.actuators, self._places, strict=True):
            found += draws_of(actuator, states[place], cells[place])
        return found

    def join(self, states: Sequence[ActuatorState | None]) -> Callable[[], None]:
        """Connect the motors, with their ``states``, to the batteries. Returns a function that disconnects them."""
        if not self.has_any:
            return lambda: None
        self._remember(states)
        self._pool.add(self)
        return functools.partial(self._pool.remove, self)

    def share(self, states: Sequence[ActuatorState | None]) -> None:
        """Share the loads of the motors after a step to ``states``."""
        if self.has_any:
            self._remember(states)
            self._pool.has_stepped(self)

    def lead(self, states: Sequence[ActuatorState | None]) -> None:
        """Set the charge of the batteries from the states of these motors, as after a reset."""
        if self.has_any:
            self._remember(states)
            self._pool.follow(self)

    def _remember(self, states: Sequence[ActuatorState | None]) -> None:
        self.states = [states[i] for i in self._places]

    def _batteries(self) -> Iterator[tuple[np.ndarray, dict[str, wp.array]]]:
        """Return the robots of the DOFs of each actuator, and their charge in its state."""
        for actuator, robots, state in zip(self.actuators, self.robots, self.states, strict=True):
            assert state is not None
            arrays = state.stages[_battery_of(actuator)].arrays()
            yield robots, {name: array for name, array in arrays.items() if name not in _LOADS}

    def hand_charge_to(self, other: RobotBatteries) -> None:
        """Copy the charge to the states of other motors of the same robots."""
        for robots, charge in self._batteries():
            known, first = np.unique(robots, return_index=True)
            for others, its_charge in other._batteries():
                mask = np.isin(others, known)
                for name, array in its_charge.items() if mask.any() else ():
                    values = array.numpy().copy()
                    given = charge[name].numpy().ravel()[first[np.searchsorted(known, others[mask])]]
                    values.reshape(-1)[mask] = given
                    array.assign(values)


_LOADS = ("own_load", "other_load")
"""State of a battery that differs between its motors; the others are shared."""


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
