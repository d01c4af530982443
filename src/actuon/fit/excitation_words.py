# SPDX-License-Identifier: Apache-2.0
"""What a motion tells, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..logs import Log

NARROWED = 0.7
"""Width of an interval compared with before, below which a motion tells something about a parameter."""
_SLOW = 0.1
"""Speed [rad/s] below which friction at rest shows."""
_SMOOTHED = 0.02
"""Steps [s] over which measured positions are differentiated."""


@dataclass(frozen=True)
class Told:
    """What is known of one parameter, by its interval, before and after the motion is recorded."""

    path: str
    unit: str
    value: float
    before: tuple[float, float]
    after: tuple[float, float]
    narrower: float
    """Width of the interval on its scale, compared with that before."""

    def sentence(self) -> str:
        """What the motion tells of it."""
        before, after = (f"{low:.3g} … {high:.3g}" for low, high in (self.before, self.after))
        unit = "" if self.unit in ("", "1") else f" {self.unit}"
        return f"{self.path}: {after}{unit}, and not only {before}"


@dataclass(frozen=True)
class Motion:
    """What a motion is like."""

    low: float
    high: float
    """Positions [rad]."""
    speed: float
    """Largest [rad/s]."""
    slow: float
    """Share of the time in which it moves, but slowly."""
    reversals: int

    def sentence(self) -> str:
        """In words."""
        return (
            f"from {self.low:.2f} to {self.high:.2f} rad, up to {self.speed:.1f} rad/s, {100.0 * self.slow:.0f} % of "
            f"the time slower than {_SLOW:g} rad/s, {self.reversals} reversals"
        )


def motion_of(time: np.ndarray, position: np.ndarray) -> Motion:
    """What a motion is like, from positions [rad] over time [s], both of shape (T,)."""
    grid = np.linspace(time[0], time[-1], max(4, round((time[-1] - time[0]) / _SMOOTHED)))
    smooth = np.interp(grid, time, position)
    speed = np.gradient(smooth, grid)
    directions = np.sign(speed[np.abs(speed) > _SLOW])
    return Motion(
        float(smooth.min()),
        float(smooth.max()),
        float(np.abs(speed).max()),
        float(np.mean(np.abs(speed) < _SLOW)),
        int(np.sum(np.diff(directions) != 0.0)),
    )


def motions_of(logs: Sequence[Log], joint: str) -> Motion:
    """What the motion of a joint is like in several logs."""
    found = [motion_of(log.time, log.joint(joint).position) for log in logs]
    return Motion(
        min(one.low for one in found),
        max(one.high for one in found),
        max(one.speed for one in found),
        float(np.average([one.slow for one in found], weights=[log.duration for log in logs])),
        sum(one.reversals for one in found),
    )
