# SPDX-License-Identifier: Apache-2.0
"""`Attachment`: what all actuators on robots have in common, from taking joints over to giving them back."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import warp as wp

from ..errors import SimulationError
from ..sim import Articulation, Event, Subscription
from ..sim.events import subscribe_weakly
from ..sim.ids import ids_to_reset
from ..sim.uncopyable import Uncopyable
from ..typing import IdsLike

_CLIPPED = 1e-6
"""Share of the wanted effort that must be missing for a limit to have clipped it."""


@dataclass(frozen=True)
class Telemetry:
    """What the actuators did in the last step, each of shape (N, D); zero on DOFs without an actuator."""

    dof_names: list[str]
    computed_effort: np.ndarray
    """What the controllers wanted [N·m or N]."""
    applied_effort: np.ndarray
    """What the limits left of it, and the joint got [N·m or N]."""
    clipped: np.ndarray
    """Whether a limit took something away."""


def is_clipped(computed: np.ndarray, applied: np.ndarray) -> np.ndarray:
    """Whether a limit took something away from efforts, same shape."""
    with np.errstate(invalid="ignore"):  # infinity less infinity, which is told elsewhere
        return np.abs(computed - applied) > _CLIPPED * np.abs(computed)


class Attachment(Uncopyable, abc.ABC):
    """Drives DOFs of robots, as their only owner, until `close` or until the last reference to it goes away."""

    articulation: Articulation
    """The robots."""
    _effort: wp.array
    """What the engine gets from here [N·m or N], shape (N, D)."""
    _write: Callable[[], None]
    _subscriptions: list[Subscription]
    _undo: contextlib.ExitStack
    _closed = True

    def _attach(self, columns: np.ndarray) -> None:
        """Take these DOFs over. If that fails, the engine is left as it was."""
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        owner = object()  # not self, which would keep itself alive
        simulation.claim(robots, columns, owner)
        with contextlib.ExitStack() as undo:
            undo.callback(simulation.release, owner)
            self._hand_over(undo)
            self._write = simulation.effort_writer(robots, columns, self._effort)
            self._subscriptions = subscribe_weakly(
                simulation,
                self,
                {Event.PRE_STEP: "_on_pre_step", Event.PHYSICS_READY: "reset", Event.RESET: "_on_reset"},
            )
            self._undo = undo.pop_all()
        self._closed = False

    @abc.abstractmethod
    def _hand_over(self, undo: contextlib.ExitStack) -> None:
        """Give the engine what is its own, and put on ``undo`` what takes it back, without a reference to self."""

    @abc.abstractmethod
    def _on_pre_step(self, dt: float) -> None:
        """Physics is about to advance by ``dt`` [s]."""

    def _on_reset(self, env_ids: np.ndarray) -> None:
        envs = np.array([robot.env for robot in self.articulation.robots])
        self.reset(np.isin(envs, env_ids))

    def reset(self, env_ids: IdsLike = None) -> None:
        """Let robots forget the past: delayed commands, integrals, hidden states. Feedforward stays.

        Args:
            env_ids: Which robots, by their row: whole numbers, a slice or a mask. Default: all. The others are not
                touched.
        """
        self._check_open()
        rows = ids_to_reset("env_ids", env_ids, len(self.articulation))
        if rows.size:
            self._forget(rows)

    @abc.abstractmethod
    def _forget(self, rows: np.ndarray) -> None:
        """Reset these robots, of which there is at least one, and each is named once."""

    @abc.abstractmethod
    def telemetry(self) -> Telemetry:
        """What the actuators did in the last step."""

    def _check_finite(self, efforts: np.ndarray) -> None:
        """Hand no effort to the engine that is NaN or infinite, as a target or parameter of NaN makes it.

        Args:
            efforts: [N·m or N], shape (N, D).
        """
        if np.isfinite(efforts).all():
            return
        robot, dof = np.argwhere(~np.isfinite(efforts))[0]
        robots = self.articulation
        raise SimulationError(
            f"t = {robots.simulation.time:.6g} s: the effort of joint '{robots.dof_names[dof]}' of "
            f"'{robots.paths[robot]}' is {efforts[robot, dof]}; look at its target and parameters"
        )

    def close(self) -> None:
        """Take the efforts off, and give the engine back what it held. May be called again."""
        if self._closed:
            return
        self._closed = True
        for subscription in self._subscriptions:
            subscription.cancel()
        if self.articulation.simulation.is_closed:
            return
        self._effort.zero_()
        self._write()
        self._undo.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise SimulationError(f"this {type(self).__name__} is closed; make another")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of a process anything may be gone already
            self.close()
