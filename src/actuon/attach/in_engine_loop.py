# SPDX-License-Identifier: Apache-2.0
"""Actuators of robots as an engine steps them in its own loop: as compiled functions, by groups of robots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ..actuator import Actuator
from ..actuator_state import ActuatorState
from ..kernel.launch import Shard
from ..kernel.types import CELL
from ..sim import Articulation
from ..sim.driver import Motors


class InEngineLoop:
    """What an engine needs to step actuators itself.

    Args:
        articulation: The robots: the only ones of their environments, one in each.
        actuators: In place, and on each of their DOFs once for each robot, robot by robot.
        control: What they read and write.
        effort: What the engine gets [N·m or N], shape (N, D).
        columns: Which of the D DOFs have an actuator, shape (d,).
        properties: What the engine gets beside efforts, as in `Motors`.
        shown: What they write.
    """

    def __init__(
        self,
        articulation: Articulation,
        actuators: Sequence[Actuator],
        control: Mapping[str, wp.array],
        effort: wp.array,
        columns: np.ndarray,
        properties: Mapping[str, tuple[wp.array, np.ndarray]],
        shown: Iterable[wp.array],
    ):
        self._arrays, self._actuators, self._control = articulation.simulation.arrays, actuators, control
        self._efforts, self._columns = effort.numpy(), columns
        self._shown = [array.numpy() for array in shown]
        self._properties = {name: (values.numpy(), own) for name, (values, own) in properties.items()}
        self._places = articulation.flat_indices("joint_qd")
        self._seen = np.zeros((len(articulation), self._arrays.joint_qd.shape[0] // len(articulation)), np.float32)
        robots = len(articulation)
        widths = [actuator.num_actuators // robots for actuator in actuators]
        size = math.lcm(*(CELL // math.gcd(CELL, width) for width in widths))
        self._group_size = min(size, robots)
        starts = [*range(0, robots, self._group_size), robots]
        self._starts = [tuple(start * width for start in starts) for width in widths]
        self._made: tuple[list[list[Shard]], Any, Motors] | None = None
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._kept_of: Sequence[ActuatorState | None] | None = None

    @staticmethod
    def fits(articulation: Articulation, robot_of: Sequence[np.ndarray]) -> bool:
        """Whether all robots are the only one of their environment, and actuators have them one after the other.

        Args:
            articulation: The robots.
            robot_of: The robot of each DOF, for each actuator.
        """
        robots = len(articulation)
        simulation = articulation.simulation
        if not robot_of or robots != simulation.num_envs or robots != len(simulation.robots):
            return False
        if not np.array_equal(articulation.env_ids, np.arange(robots)):
            return False
        return all(np.array_equal(own, np.repeat(np.arange(robots), len(own) // robots)) for own in robot_of)

    def motors(self, states: Sequence[ActuatorState | None], dt: float, bounds: Any) -> Motors | None:
        """What the engine steps: the same object as long as nothing changes. None where it cannot.

        Args:
            states: Of the actuators.
            dt: Time step [s].
            bounds: As in `Motors`.
        """
        groups = []
        for actuator, state, starts in zip(self._actuators, states, self._starts, strict=True):
            shards = actuator.shards(self._arrays, self._control, state, dt, starts)
            if shards is None:
                return None
            groups.append(shards)
        made = self._made
        if made is not None and made[1] is bounds and all(a is b for a, b in zip(made[0], groups, strict=True)):
            return made[2]
        addresses = [[shard.addresses for shard in shards] for shards in groups]
        launches = tuple(zip(*addresses, strict=True))
        if any(launch is None for group in launches for launch in group):
            return None
        motors = Motors(
            launches,
            self._group_size,
            self._efforts,
            self._columns,
            self._properties,
            self._places[0],
            bounds,
            self._seen,
            groups,
        )
        self._made = groups, bounds, motors
        return motors

    @property
    def velocities(self) -> np.ndarray:
        """What the actuators saw last [rad/s or m/s], shape (N, D)."""
        return self._seen.reshape(-1)[self._places]

    def keep(self, states: Sequence[ActuatorState | None]) -> None:
        """Copy what the actuators remember, and what they show."""
        if self._kept_of is not states:
            arrays = [array.numpy() for state in states if state is not None for array in state.arrays().values()]
            arrays += [*self._shown, self._seen]
            self._kept, self._kept_of = [(array, array.copy()) for array in arrays], states
        for array, kept in self._kept:
            np.copyto(kept, array)

    def give_back(self) -> None:
        """Let the actuators remember and show what they did at `keep`."""
        for array, kept in self._kept:
            np.copyto(array, kept)
