# SPDX-License-Identifier: Apache-2.0
"""Motion of a robot in ``actuon run``.

A quadruped crouches, hops twice, is pushed and stands. Any other robot swings all its joints, within their range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SWING = 0.5
"""Amplitude of the swing of a joint that turns [rad], and of one that slides [m]."""
SLIDE = 0.1
SHARE = 0.4
"""Largest amplitude of a swing, as a fraction of the range of the joint."""


@dataclass(frozen=True)
class Joint:
    """A joint of the robot."""

    name: str
    slides: bool
    lower: float
    """Lower stop [rad or m]; -inf without one."""
    upper: float
    driven_by: str
    """``"actuator"``, ``"engine drive"`` or ``"nothing"``."""
    has_targets: bool
    """Whether its actuator or engine drive tracks position targets."""

    @property
    def unit(self) -> str:
        """Unit of its position."""
        return "m" if self.slides else "rad"

    @property
    def effort_unit(self) -> str:
        """Unit of its effort."""
        return "N" if self.slides else "N·m"


@dataclass(frozen=True)
class Phase:
    """A part of a motion, from ``start`` to ``end`` [s], in which ``force`` [N] acts on the root body."""

    name: str
    start: float
    end: float
    force: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Choreography:
    """A motion: targets over time, shape (D,), within the range of each joint, and its phases, if it has any."""

    targets: Callable[[float], np.ndarray]
    phases: tuple[Phase, ...] = ()

    def force(self, time: float) -> tuple[float, float, float]:
        """Return the force on the root body [N]."""
        acting = (phase.force for phase in self.phases if phase.force and phase.start <= time < phase.end)
        return next(acting, (0.0, 0.0, 0.0))


QUADRUPED = (
    Phase("crouch", 0.0, 1.3),
    Phase("hop", 1.3, 2.4),
    Phase("crouch", 2.4, 3.3),
    Phase("hop", 3.3, 4.5),
    Phase("push", 4.5, 4.62, (0.0, 80.0, 0.0)),
    Phase("stand", 4.62, np.inf),
)
DOWN, UP = 0.9, 0.03
"""Duration of crouching, if there is time for it, and of stretching [s]."""


def choreography(joints: list[Joint], home: np.ndarray) -> Choreography:
    """Return the motion of a robot with these joints from ``home`` [rad or m], shape (D,)."""
    lower, upper = np.array([joint.lower for joint in joints]), np.array([joint.upper for joint in joints])
    home = np.clip(home, lower, upper)
    if not is_quadruped(joints):
        return Choreography(_swing(joints, home, lower, upper))
    # A knee bends twice as far as a hip, which keeps the feet below the hips.
    names = [joint.name for joint in joints]
    fold = np.array([0.29 if "thigh" in name else -0.58 if "calf" in name else 0.0 for name in names])
    times, depths = [], []
    for phase in QUADRUPED:
        if phase.name == "crouch":
            down = min(DOWN, 2 / 3 * (phase.end - phase.start))
            times += [phase.start, phase.start + down, phase.end, phase.end + UP]
            depths += [0.0, 1.0, 1.0, 0.0]
    return Choreography(
        lambda time: np.clip(home + fold * np.interp(time, times, depths), lower, upper),
        QUADRUPED,
    )


def _swing(
    joints: list[Joint], home: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> Callable[[float], np.ndarray]:
    span = np.maximum(upper - lower, 0.0)
    reach = np.minimum([SLIDE if joint.slides else SWING for joint in joints], SHARE * span)
    room = np.where(np.isfinite(span), (0.5 - SHARE) * span, 0.0) + reach
    middle = np.clip(home, lower + room, upper - room)
    follows = np.array([joint.has_targets for joint in joints])
    reach, middle = np.where(follows, reach, 0.0), np.where(follows, middle, home)
    phase = np.arange(len(joints)) * 0.7

    def targets(time: float) -> np.ndarray:
        return home + min(1.0, time) * (middle - home + reach * np.sin(2 * np.pi * time + phase))

    return targets


def is_quadruped(joints: list[Joint]) -> bool:
    return sum("calf" in joint.name for joint in joints) == 4
