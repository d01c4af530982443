# SPDX-License-Identifier: Apache-2.0
"""Actuators that an engine steps in its own compiled loop, without the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Launch = tuple[int, int, int]
"""Address of a compiled function, and of its two arguments."""


@dataclass(frozen=True, eq=False)
class Motors:
    """The actuators of the only robot of each environment, in groups of environments that do not depend on each other.

    They read positions and velocities of the simulation's arrays, and write efforts.
    """

    launches: tuple[tuple[Launch, ...], ...]
    """What steps each group."""
    group_size: int
    """Environments in a group; the last may have fewer."""
    efforts: np.ndarray
    """What they write [N·m or N], float32 of shape (N, D)."""
    columns: np.ndarray
    """Which of the D DOFs they drive, shape (d,)."""
    properties: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """Properties of DOFs that they change at each step, by name: float32 of shape (N, D), and for which of the D."""
    dofs: np.ndarray
    """Number of each of the D DOFs among the nv of an environment, shape (D,)."""
    bounds: tuple[np.ndarray, np.ndarray] | None
    """Lowest and highest efforts that the engine gets [N·m or N], float32, each of shape (N, D). None: any."""
    velocities: np.ndarray
    """Gets the velocities that they saw last [rad/s or m/s], float32 of shape (N, nv)."""
    shards: Sequence[Any]
    """What the addresses are of, and keeps them alive."""


class Driver(Protocol):
    """Whoever steps actuators before each step of physics."""

    def motors(self, dt: float) -> Motors | None:
        """What the engine can step in its own loop, at steps of ``dt`` [s]: the same object as long as nothing changes.
        None where only `Event.PRE_STEP` does."""

    def begin_loop(self) -> None:
        """The engine is about to step the motors."""

    def end_loop(self) -> bool:
        """It has. False where something is to be said of one of the steps, which single ones will say."""

    def undo_loop(self) -> None:
        """Let the motors remember and show what they did at `begin_loop`."""
