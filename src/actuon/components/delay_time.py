# SPDX-License-Identifier: Apache-2.0
r"""Delays in seconds, independent of the time step, with jitter and lost messages.

A signal that is sent at time :math:`t` arrives at :math:`t + d`, with

.. math:: d = d_0 + s\,u_{reset} + j\,u_{step}

of a delay :math:`d_0`, a spread :math:`s` drawn at each reset, and a jitter :math:`j` drawn at each step; :math:`u` are
uniform in [0, 1). A step gets the newest signal that has arrived (held), or an interpolation between the two around
:math:`t - d` (interpolated). It is never older than the one before, so its age at step :math:`k` is

.. math:: a_k = \min(d_k,\; a_{k-1} + t_k - t_{k-1})

If a message is lost, with the probability ``dropout``, the one before it stays. Steps may differ in length.

Random numbers depend on the ``seed``, the ``stream``, the number of resets and the number of steps since, so runs are
reproducible. DOFs with the same seed and stream share their random delays, as on one bus.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, SupportsFloat

import numpy as np
import warp as wp

from ..arrays import numbers
from ..declare.config import Config
from ..declare.parameters import Number, Parameters, Whole, param
from ..declare.registry import ComponentKind
from ..errors import ParameterError, StateError
from ..kernel.chain import COMMANDS, FEEDBACK, Ring, Stage
from ..kernel.state import NEXT, RingState, Word, check_range, ring_words
from ..typing import DeviceLike
from .component import Component, HeldValues
from .kinds import Sensor

_DEEPEST = 10_000
"""Longest delay [steps], which bounds the memory."""
LOST_IN_A_ROW = wp.constant(8)
"""Largest number of lost messages in a row, which bounds the memory."""
_LAST_COUNT = wp.constant(2**31 - 1)
"""Last step before the count starts again."""
_ALL_ALIKE = wp.constant(2**20)
"""Number of steps of equal length that exceeds any ring."""


class TimeLag(Parameters):
    delay: Number = param("s", "Time by which signals are delayed.", minimum=0.0, fallback=0.0)
    spread: Number = param("s", "Drawn at each reset from 0 to this, and added.", minimum=0.0, default=0.0)
    jitter: Number = param("s", "Drawn at each step from 0 to this, and added.", minimum=0.0, default=0.0)
    dropout: Number = param("1", "Share of messages that are lost.", minimum=0.0, maximum=1.0, default=0.0)
    seed: Whole = param("1", "Seed of the random numbers.", minimum=0, integer=True, default=0)
    stream: Whole = param(
        "1", "DOFs with the same number share their random delays.", minimum=0, integer=True, default=0
    )
    shortest_dt: Number = param("s", "Shortest time step that memory is reserved for.", above=0.0, default=0.001)


@wp.func
def time_lag(
    dt: float,
    gap: float,
    delay: float,
    spread: float,
    jitter: float,
    dropout: float,
    seed: int,
    stream: int,
    count: int,
    lost: int,
    episode: int,
    alike: int,
    oldest: float,
):
    at_reset = wp.rand_init(int(wp.rand_init(seed, stream)), episode)
    at_step = wp.rand_init(int(at_reset), count)
    late = delay + spread * wp.randf(at_reset) + jitter * wp.randf(at_step)
    lost_next = wp.where(wp.randf(at_step) < dropout, wp.where(lost < LOST_IN_A_ROW, lost + 1, 0), 0)
    age = wp.where(lost_next > 0, oldest, wp.min(late, oldest))
    count_next = wp.where(count == _LAST_COUNT, 0, count + 1)
    alike_next = wp.where(dt == gap, wp.min(alike + 1, _ALL_ALIKE), 1)
    return age, alike, count_next, lost_next, episode, alike_next, age + dt


class _TimedRing(RingState):
    """Buffer of past signals and lengths of steps, and state of the random numbers."""

    def check_arrays(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Check arrays for values that no step produces."""
        super().check_arrays(where, values)
        for name, low, high in (("count", 0, _LAST_COUNT), ("episode", 0, _LAST_COUNT), ("alike", 1, _ALL_ALIKE)):
            check_range(f"{where}{name}", values[name], low, int(high))
        check_range(f"{where}lost", values["lost"], 0, int(LOST_IN_A_ROW))
        check_range(f"{where}oldest", values["oldest"], 0, math.inf)


class TimeDelayConfig(TimeLag, Config):
    """Delay of the commands in seconds. The last command that arrived is held.

    Examples:
        >>> delay = actuon.TimeDelayConfig(delay=0.004, jitter=0.001, dropout=0.01)
    """

    schema: ClassVar[str | None] = "ActuonTimeDelayAPI"


class InterpolatedDelayConfig(TimeDelayConfig):
    """Delay of the commands in seconds, interpolated between the commands that arrive.

    Examples:
        >>> delay = actuon.InterpolatedDelayConfig(delay=0.0035)
    """

    schema = "ActuonInterpolatedDelayAPI"


class DelaySensorConfig(TimeDelayConfig):
    """Delay of the measured position and velocity in seconds.

    Examples:
        >>> sensor = actuon.DelaySensorConfig(delay=0.002)
    """

    schema = "ActuonDelaySensorAPI"


class DelayTime(TimeLag, Component):
    """Delays commands by a time, per DOF.

    DOFs with the same ``stream`` and ``seed`` share their random delays. On robots, ``stream`` is the number of the
    robot: all its joints are on one bus.

    Examples:
        >>> delay = actuon.DelayTime(delay=0.004, jitter=0.001, dropout=0.01, seed=7)
    """

    kind = ComponentKind.DELAY
    config = TimeDelayConfig
    _signals: ClassVar[tuple[str, ...]] = COMMANDS
    _blends: ClassVar[bool] = False
    _is_ring = True

    _depth = 0
    """Number of steps in the buffer of states, from the first `finalize` on; 0 before."""

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        super().finalize(device, num_actuators)
        longest, shortest, lost = self._room_needed(self._values)
        steps = longest / shortest
        if not steps <= _DEEPEST:
            raise ParameterError(
                f"{type(self).__name__}: got a delay of {longest:.3g} s at shortest_dt {shortest:.3g} s; must be at "
                f"most {_DEEPEST} steps: increase shortest_dt"
            )
        if not self._depth:
            self._depth = math.ceil(steps) + 1 + lost
        self._shortest = self._shortest_with_room()

    def _has_written(self) -> None:
        super()._has_written()
        if self._depth:
            before, self._shortest = self._shortest, self._shortest_with_room()
            self._revision += before != self._shortest  # to check the time step again

    def _shortest_with_room(self) -> float:
        """Return the shortest time step [s] at which the delays fit into the buffer, at least ``shortest_dt``."""
        longest, shortest, lost = self._room_needed(self._values)
        room = self._depth - 1 - lost
        if room > 0:
            return max(shortest, longest / room * (1.0 - 1e-6))
        return shortest if room == 0 and longest == 0.0 else math.inf

    def check_memory(self, values: HeldValues, dt: float | None) -> None:
        """Raise if the buffer is too small for delays at steps of ``dt`` [s]; None for ``shortest_dt``."""
        if not self._depth:
            return
        longest, shortest, lost = self._room_needed(values)
        shortest = shortest if dt is None else max(shortest, dt)
        if math.ceil(longest / shortest * (1.0 - 1e-6)) + 1 + lost > self._depth:
            room = max(self._depth - 1 - lost, 0) * shortest
            losses = f" and {lost} lost messages" if lost else ""
            steps = f"{shortest:.3g} s{' (shortest_dt)' if dt is None else ''}"
            raise ParameterError(
                f"{type(self).__name__}: got {longest:.3g} s of delay, spread and jitter; its buffer holds "
                f"{room:.3g} s{losses} at steps of {steps}: build it with the longest delay, and with a dropout above "
                "0 if you need one later"
            )

    @staticmethod
    def _room_needed(values: HeldValues) -> tuple[float, float, int]:
        """Return the longest delay [s], the shortest time step [s], and the number of messages lost in a row."""
        held = {name: numbers(value, name) for name, value in values.items()}
        longest = np.max(held["delay"] + held["spread"] + held["jitter"], initial=0.0)
        shortest = np.min(held["shortest_dt"], initial=math.inf)
        return float(longest), float(shortest), int(LOST_IN_A_ROW) if held["dropout"].any() else 0

    @property
    def shortest_step(self) -> float:
        """Shortest time step that the buffer allows [s]."""
        return self._shortest

    def longest(self, dt: float) -> np.ndarray:
        """Return the longest ``delay`` that the buffer holds at steps of ``dt`` [s], shape (N,)."""
        room = (self._depth - 1 - self._room_needed(self._values)[2]) * dt
        return np.maximum(room - self._values["spread"].numpy() - self._values["jitter"].numpy(), 0.0)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step [s], or raise if it is not allowed."""
        if not self.uses_dt():
            return dt
        if dt is None:
            raise StateError(f"{type(self).__name__} is a delay in seconds: step() needs dt [s]")
        if not isinstance(dt, SupportsFloat) or not self._shortest * (1.0 - 1e-5) <= float(dt) < math.inf:
            raise StateError(
                f"dt: got {dt!r}; must be a finite number ≥ {self._shortest:.3g} [s] for the buffer of "
                f"{type(self).__name__}: build it with a shorter shortest_dt"
            )
        return float(dt)

    def stage(self) -> Stage:
        plain, counts = super().stage(), ("count", "lost", "episode", "alike")
        ring = Ring(self._signals, law=time_lag, blends=self._blends)
        integers = plain.integers | {*counts}
        return dataclasses.replace(
            plain, integers=integers, states=(*counts, "oldest"), signals=self._signals, ring=ring
        )

    def is_stateful(self) -> bool:
        return True

    def uses_dt(self) -> bool:
        return True

    State = _TimedRing

    def words(self) -> tuple[Word, ...]:
        counts = [Word(name, "ints") for name in ("count", "lost")]
        counts += [Word("episode", "ints", first=NEXT), Word("alike", "ints", first=int(_ALL_ALIKE))]
        return (*ring_words(self._depth, len(self._signals) + 1), *counts, Word("oldest"))


class DelayInterpolated(DelayTime):
    """Delays commands by a time, per DOF, and interpolates between them.

    Examples:
        >>> delay = actuon.DelayInterpolated(delay=0.0035)
    """

    config = InterpolatedDelayConfig
    _blends = True


class SensorDelay(DelayTime, Sensor):
    """Delays the measured position and velocity by a time, per DOF.

    Examples:
        >>> sensor = actuon.SensorDelay(delay=0.002)
    """

    kind = ComponentKind.SENSOR
    config = DelaySensorConfig
    _signals = FEEDBACK
    _sees_sensed = True
