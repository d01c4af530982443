# SPDX-License-Identifier: Apache-2.0
"""The last seconds of a run: what the joints did, and what their actuators wanted and gave."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from ..attach.telemetry import Telemetry

SERIES = ("position", "target", "velocity", "wanted", "given")


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
    wanted: np.ndarray
    """Effort of the controller [N·m or N]."""
    given: np.ndarray
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
            self._rows["wanted"][at] = telemetry.computed_effort[0]
            self._rows["given"][at] = telemetry.applied_effort[0]
            self._limit[at] = -1
            for column in np.flatnonzero(telemetry.clipped[0]):
                name = telemetry.limited_by[0, column]
                self._limit[at, column] = self._limits.setdefault(name, len(self._limits))
            for name, values in telemetry.signals.items():
                if name not in self._signals:
                    self._signals[name] = np.full_like(self._rows["given"], np.nan)
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
