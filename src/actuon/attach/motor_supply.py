# SPDX-License-Identifier: Apache-2.0
"""What the motors of a robot have in common: its battery, and a number that tells it from other robots. And what must
be said of them: that one has tripped."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import warp as wp

from ..actuator import Actuator
from ..actuator_state import ActuatorState
from ..components.effects.noise import EffectNoise
from ..components.limits.battery import ClampingBattery
from ..shared_battery import SharedBattery
from ..sim import Articulation

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
            elif STREAM in stage.parameters() and not stage.parameters()[STREAM].numpy().any():
                setattr(stage, STREAM, own_robots)


class RobotBatteries:
    """One battery for each robot, for all its motors that have one.

    Args:
        actuators: All actuators of the robots.
        robot_of: The robot of each DOF, for each actuator.
    """

    def __init__(self, actuators: Sequence[Actuator], robot_of: Sequence[np.ndarray]):
        self._places = [i for i, actuator in enumerate(actuators) if _has_battery(actuator)]
        supplied = [actuators[i] for i in self._places]
        self._battery = SharedBattery(supplied, [robot_of[i] for i in self._places]) if supplied else None

    @property
    def has_any(self) -> bool:
        """Whether there is a battery."""
        return self._battery is not None

    def share(self, states: Sequence[ActuatorState | None]) -> None:
        """Let each motor know after a step what the others of its robot drew."""
        if self._battery is not None:
            self._battery.share(*(states[i] for i in self._places))


def _has_battery(actuator: Actuator) -> bool:
    return any(isinstance(stage, ClampingBattery) for stage in actuator.stages)


class Trips:
    """Says once for each motor that it has tripped: of which joint and robot, when, and how hot it was.

    Args:
        articulation: The robots.
        tripped: Which motors have, above zero, shape (N, D).
        temperature: Temperatures of the windings [°C], shape (N, D).
    """

    def __init__(self, articulation: Articulation, tripped: wp.array, temperature: wp.array | None):
        self._articulation = articulation
        self._tripped, self._temperature = tripped, temperature
        self._said = np.zeros(tripped.shape, dtype=bool)

    @property
    def has_news(self) -> bool:
        """Whether `look` would say something, or has to forget what it said."""
        return bool((self._said != (self._tripped.numpy() > 0.0)).any())

    def look(self) -> None:
        """Say what is new."""
        flags = self._tripped.numpy() > 0.0
        new, self._said = flags & ~self._said, flags  # one that was reset is said again
        if np.count_nonzero(new) == 0:
            return
        robots = self._articulation
        for column in np.flatnonzero(new.any(axis=0)):
            (rows,) = np.nonzero(new[:, column])
            others = f", and of {len(rows) - 1} more" if len(rows) > 1 else ""
            hot = "" if self._temperature is None else f" at {self._temperature.numpy()[rows[0], column]:.4g} °C"
            _log.warning(
                "t = %.6g s: the motor of joint '%s' of '%s'%s has tripped%s; it gives no effort until it is reset",
                robots.simulation.time,
                robots.dof_names[column],
                robots.paths[rows[0]],
                others,
                hot,
            )
