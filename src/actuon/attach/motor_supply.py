# SPDX-License-Identifier: Apache-2.0
"""Batteries and random numbers of robots, which all their motors share; and messages about motors that tripped."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.shared_battery import SharedBattery
from ..actuator.state import ActuatorState
from ..components.effects.noise import EffectNoise
from ..components.limits.battery import ClampingBattery
from ..sim import Articulation, Simulation
from ..sim.motor import Draws, Trips

TRIPPED = "tripped"
"""The signal of a motor that was switched off."""

_log = logging.getLogger("actuon.actuators")


STREAM = "stream"
"""The parameter of stages with random numbers that tells robots apart: the same on all joints of a robot."""


def robot_numbers(articulation: Articulation) -> tuple[np.ndarray, np.ndarray]:
    """Number robots and DOFs such that all robots of a simulation differ.

    Robots are counted through the environments, one kind after the other, so that the first kind has the numbers that
    it has alone.

    Returns:
        Number of each robot, and of its first DOF, each of shape (N,).
    """
    simulation = articulation.simulation
    order = np.arange(len(simulation.robots)).reshape(simulation.num_envs, -1).T.ravel()
    widths = np.array([len(simulation.robots[i].dofs) for i in order])
    numbers, first_dofs = np.empty_like(order), np.empty_like(order)
    numbers[order], first_dofs[order] = np.arange(len(order)), np.cumsum(widths) - widths
    return numbers[articulation.robot_ids], first_dofs[articulation.robot_ids]


def number_dofs(actuators: Sequence[Actuator], robots: Sequence[np.ndarray], dofs: Sequence[np.ndarray]) -> None:
    """Give each robot lags of its own, and each DOF of each robot noise of its own, whichever actuator it belongs to.

    Args:
        actuators: All actuators of the robots.
        robots: For each of them, the number of the robot of each DOF, shape (n,).
        dofs: For each of them, numbers of the DOFs, shape (n,).
    """
    for actuator, own_robots, own_dofs in zip(actuators, robots, dofs, strict=True):
        for stage in actuator.stages:
            if isinstance(stage, EffectNoise):
                stage.number_dofs(own_dofs)
            elif STREAM in (numbers := stage.numbers()) and not numbers[STREAM].any():
                setattr(stage, STREAM, own_robots)


class BatteryPool:
    """The batteries of the robots of a simulation, one for each, and all attachments with motors on them."""

    def __init__(self) -> None:
        self._members: list[RobotBatteries] = []
        self._stepped: set[RobotBatteries] = set()
        self._battery: SharedBattery | None = None

    def check(self, new: RobotBatteries) -> None:
        """Refuse motors that do not agree with the others on the battery of their robot."""
        _shared([*self._members, new])

    def add(self, new: RobotBatteries) -> None:
        """Let motors hang on the batteries of their robots, as these are now."""
        for member in self._members:
            member.hand_charge_to(new)
        self._change([*self._members, new])

    def remove(self, member: RobotBatteries) -> None:
        """Take motors off their batteries."""
        self._change([other for other in self._members if other is not member])

    def _change(self, members: list[RobotBatteries]) -> None:
        self._members, self._battery = members, _shared(members)
        self._stepped.intersection_update(members)
        self.share()

    def has_stepped(self, member: RobotBatteries) -> None:
        """Share the loads where all have stepped, or one a second time, while the others did not."""
        is_again = member in self._stepped
        self._stepped.add(member)
        if is_again or len(self._stepped) == len(self._members):
            self.share()
            self._stepped = {member} if is_again else set()

    def follow(self, member: RobotBatteries) -> None:
        """Let batteries be as charged as they are for one of the members."""
        if len(self._members) > 1:
            for other in self._members:
                if other is not member:
                    member.hand_charge_to(other)
            self.share()

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
        """Let each motor know what the others of its robot drew in their last step."""
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
    """Those motors of an attachment that hang on the batteries of their robots.

    All motors of a robot hang on one, whichever attachment drives them.

    Args:
        actuators: All actuators of the attachment.
        robots: The number of the robot of each DOF, for each actuator.
        pool: The batteries.
    """

    def __init__(self, actuators: Sequence[Actuator], robots: Sequence[np.ndarray], pool: BatteryPool):
        self._places = [i for i, actuator in enumerate(actuators) if _has_battery(actuator)]
        self.actuators = [actuators[i] for i in self._places]
        """Those with a battery."""
        self.robots = [robots[i] for i in self._places]
        """The robot of each DOF, for each of these."""
        self.states: list[ActuatorState | None] = []
        """State of each of these."""
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

    def were_shared(self) -> None:
        """Note that compiled code stepped the motors and shared the loads."""
        if self.has_any:
            self._pool.were_shared()

    def draws(self, cells: Sequence[np.ndarray]) -> list[Draws] | None:
        """Return the motors as compiled code sees them; None where it cannot step all motors on the batteries.

        Args:
            cells: For each actuator of the attachment, its number for each robot. See `RobotCall`.
        """
        if not self.is_compiled:
            return None
        found = []
        for actuator, place, state in zip(self.actuators, self._places, self.states, strict=True):
            assert state is not None
            memory, at = state.memory, _battery_of(actuator)
            own, other = (memory.buffers["floats"].ptr + 4 * memory.places[at, name] for name in _LOADS)
            found.append(Draws(own, other, 4 * memory.sizes["floats"], memory.cells.dofs, cells[place]))
        return found

    def join(self, states: Sequence[ActuatorState | None]) -> Callable[[], None]:
        """Hang the motors, which remember ``states``, on their batteries. Returns what takes them off."""
        if not self.has_any:
            return lambda: None
        self._remember(states)
        self._pool.add(self)
        return functools.partial(self._pool.remove, self)

    def share(self, states: Sequence[ActuatorState | None]) -> None:
        """Say that the motors have stepped to ``states``; their robots' others then know what they drew."""
        if self.has_any:
            self._remember(states)
            self._pool.has_stepped(self)

    def lead(self, states: Sequence[ActuatorState | None]) -> None:
        """Let batteries be as charged as these motors remember them, as after a reset."""
        if self.has_any:
            self._remember(states)
            self._pool.follow(self)

    def _remember(self, states: Sequence[ActuatorState | None]) -> None:
        self.states = [states[i] for i in self._places]

    def _batteries(self) -> Iterator[tuple[np.ndarray, dict[str, wp.array]]]:
        """For each actuator, the robots of its DOFs, and what it remembers of their charge."""
        for actuator, robots, state in zip(self.actuators, self.robots, self.states, strict=True):
            assert state is not None
            arrays = state.stages[_battery_of(actuator)].arrays()
            yield robots, {name: array for name, array in arrays.items() if name not in _LOADS}

    def hand_charge_to(self, other: RobotBatteries) -> None:
        """Let motors of the same robots remember the charge of their batteries as these do."""
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
"""State of a battery that each motor keeps for itself; all else is the same for all motors on it."""


def _battery_of(actuator: Actuator) -> int:
    """Return the position of the battery in the chain."""
    return next(i for i, stage in enumerate(actuator.stages) if isinstance(stage, ClampingBattery))


def _has_battery(actuator: Actuator) -> bool:
    return any(isinstance(stage, ClampingBattery) for stage in actuator.stages)


class TripLog:
    """Says once for each motor that it has tripped: of which joint and robot, when, and how hot it was.

    Args:
        joint_names: Names of the joints, in order.
        robots: What to call each robot. None where there is one.
        tripped: Which motors have, above zero, shape (N, D).
        temperature: Temperatures of the windings [°C], shape (N, D).
    """

    def __init__(
        self, joint_names: Sequence[str], robots: Sequence[str] | None, tripped: wp.array, temperature: wp.array | None
    ):
        self._joint_names, self._robots = joint_names, robots
        self._tripped, self._temperature = tripped, temperature
        self._said = np.zeros(tripped.shape, np.int64)
        self._step = np.full(tripped.shape, -1, np.int64)
        self._step_temperature = np.zeros(tripped.shape, np.float32)

    def for_program(self) -> Trips:
        """Return what compiled code fills in at each step, for `report`."""
        temperature = None if self._temperature is None else self._temperature.numpy()
        return Trips(self._tripped.numpy(), temperature, self._said, self._step, self._step_temperature)

    def look(self, time: float | None = None) -> None:
        """Say what is new.

        Args:
            time: Of the simulation [s]; left out where it is not known.
        """
        flags = self._tripped.numpy() > 0.0
        new = flags & (self._said == 0)
        self._said[...] = flags  # one that was reset is said again
        if np.count_nonzero(new):
            self._say(new, time, None if self._temperature is None else self._temperature.numpy())

    def forget(self) -> None:
        """Say nothing of motors that have tripped by now."""
        self._said[...] = self._tripped.numpy() > 0.0
        self._step[...] = -1

    def report(self, begin: float, dt: float) -> None:
        """Say what is new since a run of steps of ``dt`` [s] began, at ``begin`` [s]."""
        if self._step.max() < 0:
            return
        temperatures = None if self._temperature is None else self._step_temperature
        for step in np.unique(self._step[self._step >= 0]).tolist():
            self._say(self._step == step, begin + step * dt, temperatures)
        self._step[...] = -1

    def _say(self, new: np.ndarray, time: float | None, temperatures: np.ndarray | None) -> None:
        for column in np.flatnonzero(new.any(axis=0)):
            (rows,) = np.nonzero(new[:, column])
            _log.warning(
                "%sthe motor of joint '%s'%s%s has tripped%s; it gives no effort until it is reset",
                "" if time is None else f"t = {time:.6g} s: ",
                self._joint_names[int(column)],
                "" if self._robots is None else f" of {self._robots[int(rows[0])]}",
                f", and of {len(rows) - 1} more" if len(rows) > 1 else "",
                "" if temperatures is None else f" at {temperatures[rows[0], column]:.4g} °C",
            )
