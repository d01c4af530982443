# SPDX-License-Identifier: Apache-2.0
"""Candidates in the runs of a plant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actuon.fit import Model, Plant, SearchOptions
from actuon.fit.search import Search, SearchResult, run_searches
from actuon.typing import PathLike


def errors_of(plant: Plant, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
    """Return mean absolute errors of candidates [rad], shape (C, R, J)."""
    return plant.errors(plant.trials(models, candidates))


def residuals_of(plant: Plant, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return simulated less measured positions [rad] of candidates: R arrays of shape (C, T, J)."""
    return plant.residuals(plant.trials(models, candidates))


def search(
    plant: Plant, models: Sequence[Model], options: SearchOptions, resume: PathLike | None = None
) -> SearchResult:
    """Return the parameters with the smallest error of one search."""
    (found,) = run_searches([Search(plant, tuple(models), options, resume=resume)])
    return found
