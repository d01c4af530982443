# SPDX-License-Identifier: Apache-2.0
"""Runs of a robot on the steps of a simulation: commands, measured positions, and the state at which each begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import LogError
from ...logs import Log

BEFORE = 0.1
"""Time [s] before a window of which commands are kept, for delays."""
_HALF_WIDTH = 0.015
"""Time [s] on each side of a start over which its velocity is found."""
_SMOOTHED = 0.1
"""Time [s] over which positions are smoothed where accelerations are needed."""
_FEWEST = 2
"""Samples on each side, at least."""


@dataclass(frozen=True)
class RobotRun:
    """One run of J joints: a log, or a window of one."""

    log: Log
    """The run itself."""
    parent: Log
    """The whole log that it is, or a window of."""
    command: np.ndarray
    """Target positions [rad or m] by step, from `past` steps before the run on, shape (past + steps, J)."""
    effort_command: np.ndarray
    """Commanded efforts [N·m or N], the same."""
    enabled: np.ndarray
    """1 where the motor is switched on, else 0, the same."""
    position: np.ndarray
    """Measured after each step [rad or m], shape (steps, J)."""
    weight: np.ndarray
    """Of the error after each step in the mean, shape (steps,)."""
    start: np.ndarray
    """Position [rad or m] and velocity [rad/s or m/s] at the start, shape (2, J)."""
    past: int

    @property
    def steps(self) -> int:
        """How many steps it takes."""
        return len(self.weight)

    def residuals(self, paths: np.ndarray, dt: float) -> np.ndarray:
        """Simulated less measured positions at the samples, shape (C, T, J).

        Args:
            paths: Simulated positions at each step of ``dt`` [s], from the start on, shape (C, steps + 1, J).
            dt: Time step [s].
        """
        at = (self.log.time - self.log.time[0]) / dt
        before = np.clip(at.astype(int), 0, paths.shape[1] - 2)
        share = (at - before)[:, None]
        shown = paths[:, before] * (1.0 - share) + paths[:, before + 1] * share
        measured = np.stack([joint.position for joint in self.log.joints], axis=1)
        return np.asarray(shown - measured)


def robot_runs(logs: Sequence[Log], dt: float, window: float | None) -> list[RobotRun]:
    """The runs of logs, each one run, or cut into windows.

    Args:
        logs: Of the same joints.
        dt: Time step [s].
        window: Length of a window [s]; None for whole logs.
    """
    found = []
    for log in logs:
        for joint in log.joints:
            if joint.command is None and joint.effort_command is None:
                raise LogError(f"{log.path}: joint '{joint.name}' has neither a command nor a commanded effort")
        parts = [log] if window is None else log.split_windows(window)
        found += [_run(log, part, dt, window is not None) for part in parts]
    return found


def _run(log: Log, part: Log, dt: float, is_window: bool) -> RobotRun:
    begin = part.time[0]
    steps = max(1, math.ceil((part.time[-1] - begin) / dt - 1e-6))
    past = math.ceil(BEFORE / dt)
    after = begin + dt * np.arange(1, steps + 1)
    position = np.stack([np.interp(after, part.time, joint.position) for joint in part.joints], axis=1)
    nearest = np.clip(np.rint((part.time[1:] - begin) / dt).astype(int) - 1, 0, steps - 1)
    weight = np.bincount(nearest, minlength=steps) / len(part.time)
    edges = begin + dt * np.arange(-past, steps + 1)
    commands = [_held(log.time, edges, j.command) for j in log.joints]
    efforts = [_held(log.time, edges, j.effort_command) for j in log.joints]
    held = np.clip(np.searchsorted(log.time, edges[:-1] + 1e-9, side="right") - 1, 0, None)
    enabled = [np.ones(len(held)) if j.enabled is None else j.enabled[held] for j in log.joints]
    at = int(np.searchsorted(log.time, begin))
    speed = _velocities(log, at) if is_window else _velocities(part, 0)
    first = np.array([joint.position[0] for joint in part.joints])
    return RobotRun(
        part,
        log,
        np.stack(commands, axis=1).astype(np.float32),
        np.stack(efforts, axis=1).astype(np.float32),
        np.stack(enabled, axis=1).astype(np.float32),
        position.astype(np.float32),
        weight,
        np.stack([first, speed]),
        past,
    )


def _held(time: np.ndarray, edges: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    """The mean between each two edges of a command that is held from sample to sample, shape (edges - 1,).

    Before the first sample and after the last one it is as in these.
    """
    if values is None:
        return np.zeros(len(edges) - 1)
    padded = np.concatenate([[min(edges[0], time[0]) - 1.0], time, [max(edges[-1], time[-1]) + 1.0]])
    held = np.concatenate([values[:1], values])
    total = np.concatenate([[0.0], np.cumsum(held * np.diff(padded))])
    return np.diff(np.interp(edges, padded, total)) / np.diff(edges)


def _velocities(log: Log, at: int) -> np.ndarray:
    """Velocity of each joint at a sample [rad/s or m/s], from positions around it, shape (J,)."""
    first = min(int(np.searchsorted(log.time, log.time[at] - _HALF_WIDTH)), max(at - _FEWEST, 0))
    last = max(int(np.searchsorted(log.time, log.time[at] + _HALF_WIDTH, side="right")), at + _FEWEST + 1)
    rows = slice(first, min(last, len(log)))
    time = log.time[rows] - log.time[at]
    if len(time) < 3:
        return np.zeros(len(log.joints))
    degree = 2 if at > 0 and len(time) > 4 else 1
    powers = np.vander(time, degree + 1, increasing=True)
    positions = np.stack([joint.position[rows] for joint in log.joints], axis=1)
    slopes: np.ndarray = np.linalg.lstsq(powers, positions, rcond=None)[0][1]
    return slopes


def packed(lengths: Sequence[int]) -> list[list[int]]:
    """Runs one after another in slots no longer than the longest, so that few steps are idle: runs of each slot."""
    slots: list[list[int]] = []
    room: list[int] = []
    for run in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fitting = [slot for slot, left in enumerate(room) if left >= lengths[run]]
        if fitting:
            best = min(fitting, key=lambda slot: room[slot])
            slots[best].append(run)
            room[best] -= lengths[run]
        else:
            slots.append([run])
            room.append(max(lengths) - lengths[run])
    return slots


def motion_of(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and accelerations of all joints at the samples, smoothed, each of shape (T, J)."""
    step = float(np.median(np.diff(log.time)))
    count = max(5, 2 * round(_SMOOTHED / step / 2.0) + 1)
    count = min(count, len(log) - (len(log) + 1) % 2)
    half = count // 2
    powers = np.vander(np.arange(-half, half + 1) * step, 3, increasing=True)
    filters = np.linalg.pinv(powers)
    position = np.stack([joint.position for joint in log.joints], axis=1)
    padded = np.concatenate([np.repeat(position[:1], half, 0), position, np.repeat(position[-1:], half, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, count, axis=0)
    smooth, slope, bend = (windows @ row for row in filters)
    return smooth, slope, 2.0 * bend
