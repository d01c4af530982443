# SPDX-License-Identifier: Apache-2.0
"""What a motion tells, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..logs import Log
from .plants.known_load import SMOOTHED

NARROWED = 0.7
"""Width of an interval compared with before, below which a motion tells something about a parameter."""
_SLOW = 0.1
"""Speed [rad/s] below which friction at rest shows."""


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


def motion_of(log: Log, joint: str) -> Motion:
    """Describe the motion of a joint in a log."""
    at = log.joint_names.index(joint)
    position, velocity, _ = (values[:, at] for values in log.derivatives(SMOOTHED))
    directions = np.sign(velocity[np.abs(velocity) > _SLOW])
    return Motion(
        float(position.min()),
        float(position.max()),
        float(np.abs(velocity).max()),
        float(np.mean(np.abs(velocity) < _SLOW)),
        int(np.sum(np.diff(directions) != 0.0)),
    )


def motions_of(logs: Sequence[Log], joint: str) -> Motion:
    """What the motion of a joint is like in several logs."""
    found = [motion_of(log, joint) for log in logs]
    return Motion(
        min(one.low for one in found),
        max(one.high for one in found),
        max(one.speed for one in found),
        float(np.average([one.slow for one in found], weights=[log.duration for log in logs])),
        sum(one.reversals for one in found),
    )
