# SPDX-License-Identifier: Apache-2.0
"""Keeps simulated time beside that of the clock, and says how well that works."""

from __future__ import annotations

import time
from collections import deque

_LOOKED_AT = 2.0
"""Over how much of the past shares are taken [s]."""


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
