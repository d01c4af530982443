# SPDX-License-Identifier: Apache-2.0
"""Reward terms of a walking robot, each for all robots at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ParameterError, listed, shown

REWARDS: Mapping[str, float] = MappingProxyType(
    {
        "track_linear_velocity": 1.5,
        "track_yaw_rate": 0.75,
        "vertical_velocity": -2.0,
        "roll_pitch_rate": -0.05,
        "orientation": -2.5,
        "posture": -0.1,
        "effort": -2.0e-4,
        "power": -5.0e-4,
        "action_rate": -0.1,
        "fall": -2.0,
    }
)
"""Weights of the terms, for each second of walking; of ``fall``, for each fall."""

_TOLERANCE = 0.25
"""Squared error of a velocity at which its reward falls to 1/e [m²/s² or rad²/s²]."""


@dataclass
class Motion:
    """Motion of robots after a step, in the frames of their bases. Each array has a row for each robot."""

    linear_velocity: np.ndarray
    """[m/s], shape (N, 3)."""
    angular_velocity: np.ndarray
    """[rad/s], shape (N, 3)."""
    gravity: np.ndarray
    """Unit vector of gravity, shape (N, 3)."""
    height: np.ndarray
    """Height of the base above ground [m], shape (N,)."""
    position: np.ndarray
    """Positions of joints relative to home [rad], shape (N, D)."""
    velocity: np.ndarray
    """Velocities of joints [rad/s], shape (N, D)."""


def checked_weights(rewards: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the weights of all terms; those that are not given are as in `REWARDS`."""
    if rewards is not None and not isinstance(rewards, Mapping):
        raise ParameterError(f"rewards: got {shown(rewards)}; must be a dict of weights by name")
    given = dict(rewards or {})
    for name, weight in given.items():
        if name not in REWARDS:
            raise ParameterError(f"rewards: unknown term {shown(name)}; {listed(str(name), REWARDS, 'terms')}")
        is_number = isinstance(weight, (int, float, np.number)) and not isinstance(weight, bool)
        if not is_number or not np.isfinite(weight):
            raise ParameterError(f"rewards: {name}: got {shown(weight)}; must be a finite number")
    return {name: float(given.get(name, weight)) for name, weight in REWARDS.items()}


def reward_terms(
    motion: Motion, commands: np.ndarray, effort: np.ndarray, action_change: np.ndarray, fell: np.ndarray
) -> dict[str, np.ndarray]:
    """Return each term without its weight, shape (N,).

    Args:
        motion: Motion of the robots.
        commands: Forward and sideways velocity [m/s] and yaw rate [rad/s], shape (N, 3).
        effort: Efforts of joints [N·m], shape (N, D).
        action_change: Change of actions since the step before, shape (N, D).
        fell: Mask of robots that fell, shape (N,).
    """
    error = motion.linear_velocity[:, :2] - commands[:, :2]
    yaw_error = motion.angular_velocity[:, 2] - commands[:, 2]
    return {
        "track_linear_velocity": np.exp(_squared(error) / -_TOLERANCE),
        "track_yaw_rate": np.exp(np.square(yaw_error) / -_TOLERANCE),
        "vertical_velocity": np.square(motion.linear_velocity[:, 2]),
        "roll_pitch_rate": _squared(motion.angular_velocity[:, :2]),
        "orientation": _squared(motion.gravity[:, :2]),
        "posture": _squared(motion.position),
        "effort": _squared(effort),
        "power": np.abs(effort * motion.velocity).sum(axis=1),
        "action_rate": _squared(action_change),
        "fall": fell.astype(np.float32),
    }


def _squared(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ni,ni->n", rows, rows)
