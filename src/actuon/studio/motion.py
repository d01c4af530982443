# SPDX-License-Identifier: Apache-2.0
"""Target positions of joints over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

HOLD, STEP, SINE, CHIRP, RECORDED = "hold", "step", "sine", "chirp", "recorded"
KINDS = (HOLD, STEP, SINE, CHIRP, RECORDED)
CHIRP_SECONDS = 10.0
"""Duration of a chirp, after which it repeats [s]."""
CHIRP_LOW = 0.2
"""Initial frequency of a chirp [Hz]."""


@dataclass(frozen=True)
class Command:
    """A recorded command: target positions of some joints over time."""

    title: str
    time: np.ndarray
    """[s], from 0 on, shape (T,)."""
    targets: dict[str, np.ndarray]
    """[rad or m], each of shape (T,), by name of the joint."""

    def at(self, time: float) -> dict[str, float]:
        """Return the targets at a time. The command repeats."""
        end = float(self.time[-1])
        now = time % end if end > 0.0 else 0.0
        index = max(0, int(np.searchsorted(self.time, now, side="right")) - 1)
        return {joint: float(values[index]) for joint, values in self.targets.items()}


@dataclass(frozen=True)
class Motion:
    """Target positions around those of the start."""

    kind: str = HOLD
    """One of `KINDS`."""
    columns: tuple[int, ...] = ()
    """DOFs that move; the others hold their position."""
    amplitude: float = 0.2
    """Height of a step, amplitude of a swing [rad or m]."""
    frequency: float = 1.0
    """Frequency of sine and steps; final frequency of a chirp [Hz]."""
    offset: float = 0.0
    """Offset of all targets [rad or m]."""
    command: Command | None = None
    names: Sequence[str] = field(default=(), compare=False)

    def targets(self, time: float, home: np.ndarray) -> np.ndarray:
        """Return target positions [rad or m] at a time [s], shape (D,)."""
        targets = home.copy()
        if self.kind == RECORDED:
            for joint, value in (self.command.at(time) if self.command is not None else {}).items():
                targets[self.names.index(joint)] = value
            return targets
        targets[list(self.columns)] += self.offset + self.amplitude * self._wave(time)
        return targets

    def _wave(self, time: float) -> float:
        if self.kind == SINE:
            return math.sin(2.0 * math.pi * self.frequency * time)
        if self.kind == STEP:
            return 1.0 if (time * self.frequency) % 1.0 < 0.5 else 0.0
        if self.kind == CHIRP:
            now = time % CHIRP_SECONDS
            rate = math.log(max(self.frequency, 1.01 * CHIRP_LOW) / CHIRP_LOW) / CHIRP_SECONDS
            return math.sin(2.0 * math.pi * CHIRP_LOW / rate * math.expm1(rate * now))
        return 0.0
