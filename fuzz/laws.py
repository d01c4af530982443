# SPDX-License-Identifier: Apache-2.0
"""Components of a user's own, each with its equation once more in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

import actuon


@dataclass(frozen=True)
class SoftLimitConfig(actuon.Config):
    """A limit that is approached and never passed."""

    max_effort: float = actuon.param("N·m", "Effort approached.", above=0.0)


@wp.func
def soft_limit_law(effort: float, max_effort: float):
    return max_effort * wp.tanh(effort / max_effort)


class ClampingSoftLimit(actuon.Clamping):
    """Effort squashed by a tanh."""

    config = SoftLimitConfig
    law = soft_limit_law


def soft_limit(effort, q, qd, max_effort):
    return max_effort * np.tanh(effort / max_effort)


@dataclass(frozen=True)
class RepeatedConfig(actuon.Config):
    """A whole number of windings."""

    count: int = actuon.param("1", "How often the effort acts.", minimum=0, integer=True, fallback=1)
    gain: float = actuon.param("1", "A factor.", default=1.0)


@wp.func
def repeated_law(effort: float, count: int, gain: float):
    return effort * float(count) * gain


class ClampingRepeated(actuon.Clamping):
    """Not a limit: it has a whole-number parameter, and one with a default."""

    config = RepeatedConfig
    law = repeated_law


def repeated(effort, q, qd, count, gain):
    return effort * count * gain


@dataclass(frozen=True)
class StopConfig(actuon.Config):
    """Less effort near the end of the range and at speed."""

    slope: float = actuon.param("N·m/rad", "How fast the limit falls.", minimum=0.0)
    reach: float = actuon.param("rad", "Where it is zero.", minimum=0.0)
    drag: float = actuon.param("N·m·s/rad", "What speed takes away from it.", minimum=0.0, fallback=0.0)


@wp.func
def stop_law(effort: float, q: float, qd: float, slope: float, reach: float, drag: float):
    largest = wp.max(slope * (reach - wp.abs(q)) - drag * wp.abs(qd), 0.0)
    return actuon.limit(effort, -largest, largest)


class ClampingStop(actuon.Clamping):
    """A limit from position and velocity."""

    config = StopConfig
    law = stop_law


def stop(effort, q, qd, slope, reach, drag):
    largest = np.maximum(slope * (reach - np.abs(q)) - drag * np.abs(qd), 0.0)
    return np.clip(effort, -largest, largest)


@dataclass(frozen=True)
class FilteredConfig(actuon.Config):
    """A PD controller behind two low-passes."""

    kp: float = actuon.param("N·m/rad", "Position gain.", minimum=0.0)
    kd: float = actuon.param("N·m·s/rad", "Velocity gain.", minimum=0.0)
    time_constant: float = actuon.param("s", "Of the low-passes.", above=0.0)


@wp.func
def filtered_law(
    q: float,
    qd: float,
    target_q: float,
    target_qd: float,
    feedforward: float,
    dt: float,
    error: float,
    rate: float,
    kp: float,
    kd: float,
    time_constant: float,
):
    share = dt / (time_constant + dt)
    error_now = error + (target_q - q - error) * share
    rate_now = rate + (target_qd - qd - rate) * share
    return feedforward + kp * error_now + kd * rate_now, error_now, rate_now


class ControllerFiltered(actuon.Controller):
    """A controller with two states."""

    config = FilteredConfig
    law = filtered_law
    STATES = ("error", "rate")


def filtered(states, q, qd, target_q, target_qd, feedforward, dt, kp, kd, time_constant):
    """The effort; ``states``, of shape (2, N), is written."""
    share = dt / (time_constant + dt)
    states += (np.stack([target_q - q, target_qd - qd]) - states) * share
    return feedforward + kp * states[0] + kd * states[1]


CLASSES = {cls.__name__: cls for cls in (ClampingSoftLimit, ClampingRepeated, ClampingStop, ControllerFiltered)}
CLAMPS = {"ClampingSoftLimit": soft_limit, "ClampingRepeated": repeated, "ClampingStop": stop}
