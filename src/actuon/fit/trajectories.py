# SPDX-License-Identifier: Apache-2.0
"""Commands that a few numbers describe: segments with a level that is stepped or ramped to, and a sweep on top.

A segment whose sweep is small has none: it is a hold after a step, or a slow ramp. So there are holds, steps, ramps,
reversals, sines and chirps, one after the other or mixed, and a search over the numbers can choose among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

NUMBERS = ("level", "ramp", "length", "sweep", "first", "last")
"""Of a segment, each from 0 to 1: where it goes, the share of it in which it goes there, how long it is, how large its
sweep is, and the frequencies at which that begins and ends."""

_NO_SWEEP = 0.3
"""Share below which a segment has no sweep."""
_SLOWEST, _FASTEST = 0.15, 6.0
"""Frequencies [Hz] of sweeps."""
_SHORTEST = 0.3
"""Length of the shortest segment, as a share of the longest."""
_AT_ENDS = 0.25
"""Time [s] at rest before the first and after the last segment."""


@dataclass(frozen=True)
class Trajectories:
    """Commands of a joint over time, all with as many segments.

    Args:
        low: Lowest command [rad].
        high: Highest command [rad].
        start: First and last command [rad].
        seconds: How long they are.
        rate: Commands in a second [1/s].
        segments: How many.
    """

    low: float
    high: float
    start: float
    seconds: float
    rate: float
    segments: int

    @property
    def time(self) -> np.ndarray:
        """Of the commands [s], shape (T,)."""
        return np.arange(round(self.seconds * self.rate) + 1) / self.rate

    @property
    def dimension(self) -> int:
        """Numbers that describe one, D."""
        return self.segments * len(NUMBERS)

    def command(self, numbers: np.ndarray) -> np.ndarray:
        """The commands [rad], shape (T,), from numbers of 0 to 1, shape (D,)."""
        level, ramp, length, sweep, first, last = np.clip(numbers, 0.0, 1.0).reshape(self.segments, len(NUMBERS)).T
        levels = np.append(self.low + level * (self.high - self.low), self.start)
        weights = np.append(_SHORTEST + (1.0 - _SHORTEST) * length, _SHORTEST)
        lengths = weights / weights.sum() * (self.seconds - 2.0 * _AT_ENDS)
        begins = _AT_ENDS + np.concatenate([[0.0], np.cumsum(lengths)])
        time = self.time
        command = np.full(len(time), self.start)
        before = self.start
        for i in range(self.segments + 1):
            inside = (time >= begins[i]) & (time < begins[i + 1])
            since = time[inside] - begins[i]
            share = ramp[i] if i < self.segments else 1.0
            way = np.clip(since / max(share * lengths[i], 1e-9), 0.0, 1.0)
            command[inside] = before + way * (levels[i] - before)
            if i < self.segments and sweep[i] > _NO_SWEEP:
                command[inside] += self._sweep(since, lengths[i], sweep[i], first[i], last[i])
            before = levels[i]
        return np.clip(command, self.low, self.high)

    def _sweep(self, since: np.ndarray, length: float, size: float, first: float, last: float) -> np.ndarray:
        """A sine whose frequency goes from one value to another, and which begins and ends at 0."""
        amplitude = 0.5 * (self.high - self.low) * (size - _NO_SWEEP) / (1.0 - _NO_SWEEP)
        begin, end = (_SLOWEST * (_FASTEST / _SLOWEST) ** share for share in (first, last))
        turns = begin * since + 0.5 * (end - begin) / length * since**2
        whole = max(1, round(0.5 * (begin + end) * length * 2.0)) / (0.5 * (begin + end) * length * 2.0)
        return amplitude * np.sin(2.0 * math.pi * turns * whole)

    def usual(self) -> np.ndarray:
        """Numbers of a trajectory that people record: slow ramps both ways, steps, a sweep, shape (D,)."""
        kinds = (
            (0.9, 1.0, 1.0, 0.0, 0.0, 0.0),
            (0.1, 1.0, 1.0, 0.0, 0.0, 0.0),
            (0.8, 0.0, 0.2, 0.0, 0.0, 0.0),
            (0.3, 0.0, 0.2, 0.0, 0.0, 0.0),
            (0.5, 0.2, 1.0, 0.7, 0.2, 0.8),
            (0.7, 0.0, 0.2, 0.0, 0.0, 0.0),
        )
        return np.array([kinds[i % len(kinds)] for i in range(self.segments)]).ravel()
