# SPDX-License-Identifier: Apache-2.0
"""Positions, efforts and signals of the last seconds of a run, and its ratio to real time."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from ..attach.telemetry import Telemetry

_LOOKED_AT = 2.0
"""Time over which averages are taken [s]."""
KEPT_SECONDS = 20.0
"""Time span of the history of a robot [s]."""
SERIES = ("position", "target", "velocity", "requested", "applied")


@dataclass(frozen=True)
class Window:
    """Values of a joint over the last seconds, each of shape (T,)."""

    time: np.ndarray
    """[s]."""
    position: np.ndarray
    """[rad or m]."""
    target: np.ndarray
    """[rad or m]."""
    velocity: np.ndarray
    """Velocity measured by the actuator [rad/s or m/s]."""
    requested: np.ndarray
    """Requested effort [N·m or N]."""
    applied: np.ndarray
    """Applied effort [N·m or N]."""
    limit: np.ndarray
    """Index in `limits` of the limit that clipped the effort; -1 if none did."""
    limits: tuple[str, ...]
    """Names of the stages, or ``"engine"``."""
    signals: dict[str, np.ndarray]
    """Signals of the stages, such as a current, by name."""

    def clipped_shares(self) -> dict[str, float]:
        """Return the fraction of time that each limit clipped the effort, for those that did."""
        if not len(self.limit):
            return {}
        shares = {name: float(np.mean(self.limit == i)) for i, name in enumerate(self.limits)}
        return {name: share for name, share in shares.items() if share > 0.0}


class History:
    """Ring buffer of the last steps. One thread writes, others read.

    Args:
        steps: Number of steps.
        dofs: Number of DOFs.
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
        """Add a step: positions after it, and telemetry of the actuators in it."""
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
        """Remove all steps."""
        with self._lock:
            self._count = 0

    def __len__(self) -> int:
        return min(self._count, self._steps)

    def window(self, column: int, seconds: float, dt: float) -> Window:
        """Return the last ``seconds`` of a DOF, as far as they are stored."""
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
    """Ratio of simulated time to real time, and CPU usage."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float, float]] = deque()
        self.given_up = 0.0
        """Time by which the simulation has fallen behind since the start [s]."""
        self.restart()

    def restart(self) -> None:
        """Start counting again, as after a pause."""
        self._due = time.perf_counter()
        self._rows.clear()

    def took(self, simulated: float, busy: float, longest_lag: float) -> float:
        """Count steps.

        Args:
            simulated: Simulated time of the steps [s].
            busy: CPU time of the steps [s].
            longest_lag: Longest time by which the simulation may fall behind before the clock is moved [s].

        Returns:
            Time until the next steps are due [s].
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
        """Simulated time divided by real time, over the last two seconds."""
        rows = list(self._rows)
        if len(rows) < 2:
            return 1.0
        return sum(row[1] for row in rows[1:]) / (rows[-1][0] - rows[0][0])

    @property
    def cpu(self) -> float:
        """CPU time of the steps divided by simulated time: usage of one core in real time."""
        rows = list(self._rows)
        return sum(row[2] for row in rows) / sum(row[1] for row in rows) if rows else 0.0
