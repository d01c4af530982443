# SPDX-License-Identifier: Apache-2.0
"""`Run`: a log, or a window of one, on the steps of a simulation, for one joint or for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...logs import Log
from .load_stage import COLUMNS

BEFORE = 0.1
"""Time [s] before a window of which commands are kept, for delays."""
_HALF_WIDTH = 0.015
"""Time [s] on each side of the start of a run over which its velocity is found."""
_FEWEST = 2
"""Samples on each side, at least."""


def usual_step(logs: Sequence[Log], steps: Sequence[float]) -> float:
    """Return the longest of some steps that is not much longer than the step of any log, or the shortest [s]."""
    shortest = min(float(np.median(np.diff(log.time))) for log in logs)
    return max((step for step in steps if step <= 1.25 * shortest), default=min(steps))


@dataclass(frozen=True, eq=False)
class Run:
    """One run of J joints."""

    log: Log
    """The run itself."""
    source: Log
    """The whole log that it is, or a window of."""
    dt: float
    """Time step [s]."""
    command: np.ndarray
    """Target positions [rad or m] by step, from `past` steps before the run on, float32 of shape (past + steps, J)."""
    effort_command: np.ndarray
    """Commanded efforts [N·m or N], likewise."""
    enabled: np.ndarray
    """1 where the motor is switched on, else 0, likewise."""
    position: np.ndarray
    """Measured after each step [rad or m], float32 of shape (steps, J)."""
    weight: np.ndarray
    """Of the error after each step in the mean, shape (steps,). Each sample but the first, from which a run starts,
    counts once, in the step nearest to it."""
    start: np.ndarray
    """Position [rad or m] and velocity [rad/s or m/s] at the start, shape (2, J)."""
    past: int = 0

    @classmethod
    def of(cls, log: Log, dt: float, source: Log | None = None, *, is_held: bool = False) -> Run:
        """Return a log, or a window of one, on the steps of a simulation.

        Args:
            log: The log or window.
            dt: Time step [s].
            source: The whole log of a window, of which commands of `BEFORE` its start are kept.
            is_held: Whether a step has the command of the last sample before it, as a servo on a bus that is read at
                about the rate of the steps, and the first velocity is the logged one. Default: the mean of the command
                over the step, which is right for any rate, and a velocity from positions. Held-out runs of an XL330
                are predicted better by the former (20.8 instead of 22.6 mrad at a lower gain), those of an SO-101 by
                the latter (5.7 instead of 5.9 mrad in the motion of its gripper).
        """
        whole = log if source is None else source
        steps, position, weight = _measured(log, dt)
        past = math.ceil(BEFORE / dt)
        edges = log.time[0] + dt * np.arange(-past, steps + 1)
        at = _held_at(whole.time, edges[:-1])

        def taken(values: np.ndarray) -> np.ndarray:
            return values[at] if is_held else _mean_between(whole.time, edges, values)

        command, efforts = (_columns(whole, name, taken, past + steps) for name in ("command", "effort_command"))
        first = np.array([joint.position[0] for joint in log.joints])
        velocities = _velocities(whole, int(np.searchsorted(whole.time, log.time[0])))
        if is_held:
            logged = (joint.velocity for joint in log.joints)
            velocities = np.array([v if own is None else own[0] for v, own in zip(velocities, logged, strict=True)])
        start = np.stack([first, velocities])
        return cls(log, whole, dt, command, efforts, _enabled(whole, at), position, weight, start, past)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.weight)

    def at_samples(self, paths: np.ndarray) -> np.ndarray:
        """Return values at the samples, shape (C, T, J), from those at each step, shape (C, steps + 1, J)."""
        at = (self.log.time - self.log.time[0]) / self.dt
        before = np.clip(at.astype(int), 0, paths.shape[1] - 2)
        share = (at - before)[:, None]
        return np.asarray(paths[:, before] * (1.0 - share) + paths[:, before + 1] * share)

    def table(self, joint: int) -> np.ndarray:
        """Return `COLUMNS` of one joint at each step, shape (steps, columns), without a load."""
        table = np.zeros((self.steps, len(COLUMNS)), np.float32)
        columns = dict(zip(COLUMNS, table.T, strict=True))
        for name in ("command", "effort_command", "enabled"):
            columns[name][:] = getattr(self, name)[self.past :, joint]
        columns["position"][:] = self.position[:, joint]
        columns["weight"][:] = self.weight
        return table


def _measured(log: Log, dt: float) -> tuple[int, np.ndarray, np.ndarray]:
    """Return how many steps a log takes, its positions after each, and their weights."""
    steps = max(1, math.ceil((log.time[-1] - log.time[0]) / dt - 1e-6))
    after = log.time[0] + dt * np.arange(1, steps + 1)
    position = np.stack([np.interp(after, log.time, joint.position) for joint in log.joints], axis=1)
    nearest = np.clip(np.rint((log.time[1:] - log.time[0]) / dt).astype(int) - 1, 0, steps - 1)
    weight = np.bincount(nearest, minlength=steps) / len(log.time)
    return steps, position.astype(np.float32), weight


def _columns(log: Log, name: str, taken: Callable[[np.ndarray], np.ndarray], rows: int) -> np.ndarray:
    """Return what is taken of a quantity of each joint, 0 where it was not logged, shape (rows, J)."""
    series = [getattr(joint, name) for joint in log.joints]
    none = np.zeros(rows)
    return np.stack([none if values is None else taken(values) for values in series], axis=1).astype(np.float32)


def _enabled(log: Log, at: np.ndarray) -> np.ndarray:
    always = np.ones(len(at))
    switched = [always if joint.enabled is None else joint.enabled[at] for joint in log.joints]
    return np.stack(switched, axis=1).astype(np.float32)


def _held_at(time: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return the sample that is held at the beginning of each step."""
    return np.clip(np.searchsorted(time, begins + 1e-9, side="right") - 1, 0, len(time) - 1)


def _mean_between(time: np.ndarray, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the mean between each two edges of a command that is held from sample to sample, shape (edges - 1,).

    Before the first sample and after the last one it is as in these.
    """
    padded = np.concatenate([[min(edges[0], time[0]) - 1.0], time, [max(edges[-1], time[-1]) + 1.0]])
    held = np.concatenate([values[:1], values])
    total = np.concatenate([[0.0], np.cumsum(held * np.diff(padded))])
    return np.diff(np.interp(edges, padded, total)) / np.diff(edges)


def _velocities(log: Log, at: int) -> np.ndarray:
    """Return the velocity of each joint at a sample [rad/s or m/s], shape (J,).

    That of a parabola through the positions around it, or of a line at the start of a log. Logged velocities are often
    filtered, and then late: windows of a double pendulum that start with them are predicted by 26 mrad, not 16.
    """
    first = min(int(np.searchsorted(log.time, log.time[at] - _HALF_WIDTH)), max(at - _FEWEST, 0))
    last = max(int(np.searchsorted(log.time, log.time[at] + _HALF_WIDTH, side="right")), at + _FEWEST + 1)
    rows = slice(first, min(last, len(log)))
    time = log.time[rows] - log.time[at]
    slopes = np.zeros(len(log.joints))
    if len(time) >= 3:
        degree = 2 if at > 0 and len(time) > 4 else 1
        positions = np.stack([joint.position[rows] for joint in log.joints], axis=1)
        slopes = np.linalg.lstsq(np.vander(time, degree + 1, increasing=True), positions, rcond=None)[0][1]
    return slopes
