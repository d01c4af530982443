# SPDX-License-Identifier: Apache-2.0
"""Candidates in the runs of a plant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actuon.fit import Model, Plant


def errors_of(plant: Plant, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
    """Return mean absolute errors of candidates [rad], shape (C, R, J)."""
    return plant.errors(plant.trials(models, candidates))


def residuals_of(plant: Plant, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return simulated less measured positions [rad] of candidates: R arrays of shape (C, T, J)."""
    return plant.residuals(plant.trials(models, candidates))
