# SPDX-License-Identifier: Apache-2.0
"""What every plant does for a search: run candidates through the logs, closed loop, and say how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ...logs import Log
from ..models import Model


@dataclass(frozen=True)
class Scales:
    """How large things are at a joint.

    Args:
        effort: Largest effort [N·m or N] that its motion and its load take.
        speed: Largest speed in the logs [rad/s or m/s].
        inertia: What the motor moves [kg·m² or kg].
        position: How far it moves in the logs [rad or m].
    """

    effort: float
    speed: float
    inertia: float
    position: float


@runtime_checkable
class Plant(Protocol):
    """What actuators move in a fit.

    A *run* is a log, or a window of one. A *trial* is one candidate in one run: it starts at the run's first measured
    state and gets the run's commands; nothing measured goes in afterwards. All trials of a call are one batch.

    Models are given one for each joint, and candidates one array for each joint, shape (C, P) with the P of its model:
    candidate i of every joint makes one simulated robot. So searches of several joints go on side by side, each by the
    errors of its own joint. A plant does not know how candidates are found.
    """

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the J joints that are fitted."""

    @property
    def runs(self) -> tuple[Log, ...]:
        """The R runs."""

    def subset(self, runs: Sequence[int]) -> Plant:
        """The same plant with some of the runs, by their position."""

    def errors(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Mean absolute error of the position [rad] of each candidate, run and joint, shape (C, R, J).

        inf where the simulation diverged. Called again and again with the same models and the same number of
        candidates, so that it pays to keep what was built for them.
        """

    def residuals(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Simulated less measured position [rad] at the samples of each run: R arrays of shape (C, T, J)."""

    def scales(self) -> list[Scales]:
        """How large efforts, speeds and inertias are at each joint, from which presets take their ranges."""


@runtime_checkable
class Coupled(Protocol):
    """A plant of joints that move one another.

    It may change models before they are fitted: some parameters mean nothing to it, others are its own.
    """

    @property
    def usual_model(self) -> str:
        """Name of the preset that is fitted where none is named."""

    def suited(self, joint: int, model: Model) -> Model:
        """The model of a joint as it is fitted."""

    def alone(self) -> Plant | None:
        """A faster plant of the same joints and runs, each on its own, that behaves nearly as this one does; None where
        there is none, and all joints must be searched together."""
