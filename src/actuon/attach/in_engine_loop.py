# SPDX-License-Identifier: Apache-2.0
"""Actuators of robots as an engine steps them in its own loop: as compiled functions, by groups of robots."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..sim import Articulation
from ..sim.driver import Motors

if TYPE_CHECKING:
    from .attachment import Attachment


class InEngineLoop:
    """Steps actuators in an engine's loop, and takes that back: the `Driver` of an attachment.

    Args:
        owner: The attachment, which is not kept alive. It `fits`, and its actuators are stepped in place.
        columns: Which of the D DOFs have an actuator, shape (d,).
    """

    def __init__(self, owner: Attachment, columns: np.ndarray):
        articulation = owner.articulation
        self._owner = weakref.ref(owner)
        self._arrays, self._control = articulation.simulation.arrays, owner._control
        self._actuators, self._states, self._trips = owner._actuators, owner._states, owner._trips
        self._efforts, self._columns = owner._effort.numpy(), columns
        self._properties = {name: (values.numpy(), own) for name, (values, own) in owner._friction.handed_over.items()}
        self._places = articulation.flat_indices("joint_qd")
        self._seen = np.zeros((len(articulation), self._arrays.joint_qd.shape[0] // len(articulation)), np.float32)
        robots = len(articulation)
        widths = [actuator.num_actuators // robots for actuator in self._actuators]
        tiles = [actuator.tile_size for actuator in self._actuators]
        size = math.lcm(*(tile // math.gcd(tile, width) for tile, width in zip(tiles, widths, strict=True)))
        self._group_size = min(size, robots)
        starts = [*range(0, robots, self._group_size), robots]
        self._starts = [tuple(start * width for start in starts) for width in widths]
        self._made: Motors | None = None
        remembered = [array for state in self._states if state is not None for array in state.arrays().values()]
        shown = [owner._effort, owner._computed, *owner._signals.values()]
        changed = [*(array.numpy() for array in (*remembered, *shown)), self._seen]
        self._kept = [(array, array.copy()) for array in changed]

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

    def motors(self, dt: float) -> Motors | None:
        """What the engine steps, at steps of ``dt`` [s]: the same object as long as nothing changes. None where it must
        not, or cannot."""
        owner = self._owner()
        if owner is None or owner.is_closed or not owner._auto_step:
            return None
        owner._renew_inertia()
        owner._renew_bounds()
        bounds = owner._bounds
        groups = []
        for actuator, state, starts in zip(self._actuators, self._states, self._starts, strict=True):
            shards = actuator.launches(self._arrays, self._control, state, dt, starts)
            if shards is None:
                return None
            groups.append(shards)
        made = self._made
        if made is not None and made.bounds is bounds and all(a is b for a, b in zip(made.shards, groups, strict=True)):
            return made
        calls = [[shard.c_call for shard in shards] for shards in groups]
        if any(call is None for group in calls for call in group):
            return None
        addresses = [[(c.function, c.bounds, c.arguments) for c in group if c is not None] for group in calls]
        launches = tuple(zip(*addresses, strict=True))
        self._made = Motors(
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
        return self._made

    @property
    def velocities(self) -> np.ndarray:
        """What the actuators saw last [rad/s or m/s], shape (N, D)."""
        return self._seen.reshape(-1)[self._places]

    def begin_loop(self) -> None:
        """Keep what the actuators remember, and what they show."""
        for array, kept in self._kept:
            np.copyto(kept, array)

    def end_loop(self) -> bool:
        """Let the owner show the last step. False where a motor tripped: single steps tell when, and how hot it was."""
        owner = self._owner()
        if owner is None or (self._trips is not None and self._trips.has_news):
            return False
        owner._velocity = None
        return True

    def undo_loop(self) -> None:
        """Let the actuators remember and show what they did at `begin_loop`."""
        for array, kept in self._kept:
            np.copyto(array, kept)
