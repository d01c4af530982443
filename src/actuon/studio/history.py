# SPDX-License-Identifier: Apache-2.0
"""The last seconds of a run: positions, efforts and signals of the joints, and how well real time was kept."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from ..attach.telemetry import Telemetry

_LOOKED_AT = 2.0
"""Over how much of the past shares are taken [s]."""
SERIES = ("position", "target", "velocity", "requested", "applied")


@dataclass(frozen=True)
class Window:
    """A joint over the last seconds, each of shape (T,)."""

    time: np.ndarray
    """[s]."""
    position: np.ndarray
    """[rad or m]."""
    target: np.ndarray
    """[rad or m]."""
    velocity: np.ndarray
    """That the actuator saw [rad/s or m/s]."""
    requested: np.ndarray
    """Effort of the controller [N·m or N]."""
    applied: np.ndarray
    """Effort that the joint got [N·m or N]."""
    limit: np.ndarray
    """Which limit clipped it, as an index of ``limits``; -1 where none did."""
    limits: tuple[str, ...]
    """Names of the stages, or ``"engine"``."""
    signals: dict[str, np.ndarray]
    """What the stages offer, such as a current, by name."""

    def clipped_shares(self) -> dict[str, float]:
        """The share of the time that each limit clipped the effort, for those that did."""
        if not len(self.limit):
            return {}
        shares = {name: float(np.mean(self.limit == i)) for i, name in enumerate(self.limits)}
        return {name: share for name, share in shares.items() if share > 0.0}


class History:
    """A ring of the last steps. One thread adds, others look.

    Args:
        steps: How many.
        dofs: Of how many DOFs.
    """

    def __init__(self, steps: int, dofs: int):
        self._lock = threading.Lock()
        self._steps = steps
        self._time = np.zeros(steps)
        self._rows = {name: np.zeros((steps, dofs)) for name in SERIES}
        self._limit = np.full((steps, dofs), -1, np.int16)
        self._limits: dict[str, int] = {}
        self._signals: dict[str, np.ndarray] = {}
        self._count = 0

    def add(self, time: float, position: np.ndarray, target: np.ndarray, telemetry: Telemetry) -> None:
        """Keep a step: where the joints are after it, and what the actuators did in it."""
        with self._lock:
            at = self._count % self._steps
            self._time[at] = time
            self._rows["position"][at] = position
            self._rows["target"][at] = target
            self._rows["velocity"][at] = telemetry.velocity[0]
            self._rows["requested"][at] = telemetry.computed_effort[0]
            self._rows["applied"][at] = telemetry.applied_effort[0]
            self._limit[at] = -1
            for column in np.flatnonzero(telemetry.clipped[0]):
                name = telemetry.limited_by[0, column]
                self._limit[at, column] = self._limits.setdefault(name, len(self._limits))
            for name, values in telemetry.signals.items():
                if name not in self._signals:
                    self._signals[name] = np.full_like(self._rows["applied"], np.nan)
                self._signals[name][at] = values[0]
            for name in self._signals.keys() - telemetry.signals.keys():
                self._signals[name][at] = np.nan
            self._count += 1

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._count = 0

    def __len__(self) -> int:
        return min(self._count, self._steps)

    def window(self, column: int, seconds: float, dt: float) -> Window:
        """The last ``seconds`` of a DOF, at most as many as are kept."""
        with self._lock:
            count = min(len(self), max(1, round(seconds / dt)))
            at = np.arange(self._count - count, self._count) % self._steps
            rows = {name: values[at, column] for name, values in self._rows.items()}
            signals = {name: values[at, column] for name, values in self._signals.items()}
            return Window(
                self._time[at],
                **rows,
                limit=self._limit[at, column],
                limits=tuple(self._limits),
                signals={name: values for name, values in signals.items() if np.isfinite(values).any()},
            )


class Pace:
    """How far simulated time is, and how fast it goes."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float, float]] = deque()
        self.given_up = 0.0
        """Time that was given up since the start because a step took too long [s]."""
        self.restart()

    def restart(self) -> None:
        """Count from here on, as after a pause."""
        self._due = time.perf_counter()
        self._rows.clear()

    def took(self, simulated: float, busy: float, longest_lag: float) -> float:
        """Count steps.

        Args:
            simulated: How much time they were [s].
            busy: How long they took [s].
            longest_lag: How far simulated time may fall back before the rest is given up [s].

        Returns:
            How long to wait until the next ones are due [s].
        """
        now = time.perf_counter()
        self._due += simulated
        if now - self._due > longest_lag:
            self.given_up += now - self._due
            self._due = now
        self._rows.append((now, simulated, busy))
        while self._rows and now - self._rows[0][0] > _LOOKED_AT:
            self._rows.popleft()
        return self._due - now

    @property
    def real_time(self) -> float:
        """Simulated time by time of the clock, over the last two seconds: 1 where it keeps up."""
        rows = list(self._rows)
        if len(rows) < 2:
            return 1.0
        return sum(row[1] for row in rows[1:]) / (rows[-1][0] - rows[0][0])

    @property
    def load(self) -> float:
        """Share of simulated time that the steps take to compute: from 1 on it cannot keep up."""
        rows = list(self._rows)
        return sum(row[2] for row in rows) / sum(row[1] for row in rows) if rows else 0.0
