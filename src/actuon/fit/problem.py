# SPDX-License-Identifier: Apache-2.0
"""Residuals of a fit and how they change with what is looked for: parameters of joints, and zeros of encoders.

All are seen as shares of their ranges. Residuals and the central differences around them are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .models import Model
from .parameters import from_unit, to_unit
from .plants.plant import Plant
from .plants.robot import RobotPlant

STEP = 2e-3
"""Share of a range by which a number is changed for a difference: joints that stick make errors uneven on a finer
scale."""
MOST_ZERO = 0.3
"""How far the zero of an encoder may be off [rad or m]."""
_LOST = 1e3
"""Residual [rad] of a simulation that diverged."""


class Problem:
    """Residuals over the numbers of some joints, and over the zeros of each log where the plant has such.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Of each joint, shape (P,); those of joints that are not looked for stay.
        joints: Which ones are looked for, and whose residuals count.
        finds_zeros: Whether zeros are looked for too. Then the residuals of all joints count.
    """

    def __init__(
        self, plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], joints: Sequence[int],
        finds_zeros: bool = False,
    ):  # fmt: skip
        self._plant, self._models, self._values, self._joints = plant, models, values, list(joints)
        self._counted = list(range(len(models))) if finds_zeros else self._joints
        self._zeroed = plant if finds_zeros and isinstance(plant, RobotPlant) else None
        self.parameters = [p for j in joints for p in models[j].parameters]
        """What is looked for, those of one joint after those of another."""
        self.columns = np.split(np.arange(len(self.parameters)), np.cumsum([len(models[j].parameters) for j in joints]))
        """Places of the parameters of each joint."""
        self.lengths: list[int] = [len(run) for run in plant.runs for _ in self._counted]
        """How many residuals belong together, those of one joint in one run."""
        self._known: tuple[bytes, np.ndarray, np.ndarray] | None = None

    @property
    def start(self) -> np.ndarray:
        """Where to begin: the given values, and the zeros that the plant has."""
        own = np.concatenate([np.zeros(0), *(np.asarray(self._values[j], float) for j in self._joints)])
        shares = np.clip(to_unit(self.parameters, own), 0.0, 1.0) if self.parameters else own
        zeros = np.zeros(0) if self._zeroed is None else (0.5 + 0.5 * self._zeroed.zeros.ravel() / MOST_ZERO)
        return np.concatenate([shares, zeros])

    def values(self, shares: np.ndarray) -> list[np.ndarray]:
        """Values of the joints that are looked for, shapes (..., P)."""
        own = from_unit(self.parameters, shares[..., : len(self.parameters)])
        return [own[..., columns] for columns in self.columns[: len(self._joints)]]

    def zeros(self, shares: np.ndarray) -> np.ndarray:
        """Zeros of the encoders [rad or m], shape (..., L, J)."""
        assert self._zeroed is not None
        found = (2.0 * shares[..., len(self.parameters) :] - 1.0) * MOST_ZERO
        return found.reshape(*shares.shape[:-1], *self._zeroed.zeros.shape)

    def residuals(self, shares: np.ndarray) -> np.ndarray:
        """Simulated less measured positions [rad], shape (samples,)."""
        return self._at(shares)[0]

    def jacobian(self, shares: np.ndarray) -> np.ndarray:
        """Of the residuals by the shares, shape (samples, N)."""
        return self._at(shares)[1]

    def _at(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._known is None or self._known[0] != shares.tobytes():
            self._known = shares.tobytes(), *self._differences(shares)
        return self._known[1:]

    def _differences(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and Jacobian. A zero is changed in all logs at once: each log feels only its own."""
        ahead, behind = np.clip(shares + STEP, 0.0, 1.0), np.clip(shares - STEP, 0.0, 1.0)
        owns = self._owns(len(shares))
        points = np.repeat(shares[None], 1 + 2 * len(owns), axis=0)
        for i, own in enumerate(owns):
            points[1 + 2 * i, own], points[2 + 2 * i, own] = ahead[own], behind[own]
        runs = self._simulate(points)
        residuals = np.concatenate([run[0].ravel() for run in runs])
        jacobian = np.zeros((len(residuals), len(shares)))
        at = 0
        for r, run in enumerate(runs):
            rows = slice(at, at + run[0].size)
            for i, own in enumerate(owns):
                column = own[0] if len(own) == 1 else own[self._zeroed.log_of_run[r]]  # type: ignore[union-attr]
                change = (run[1 + 2 * i] - run[2 + 2 * i]).ravel()
                jacobian[rows, column] = change / (ahead[column] - behind[column])
            at = rows.stop
        return residuals, jacobian

    def _owns(self, count: int) -> list[np.ndarray]:
        """Numbers that are changed at once."""
        singles = [np.array([i]) for i in range(len(self.parameters))]
        if self._zeroed is None:
            return singles
        zeros = np.arange(len(self.parameters), count).reshape(self._zeroed.zeros.shape)
        return [*singles, *zeros.T]

    def _simulate(self, points: np.ndarray) -> list[np.ndarray]:
        """Residuals of the joints that count, by run, shapes (C, J, T)."""
        candidates = [np.repeat(np.asarray(own)[None], len(points), axis=0) for own in self._values]
        for joint, own in zip(self._joints, self.values(points), strict=True):
            candidates[joint] = own
        if self._zeroed is None:
            runs = self._plant.residuals(self._models, candidates)
        else:
            runs = self._zeroed.residuals(self._models, candidates, self.zeros(points))
        return [np.where(np.isfinite(run), run, _LOST)[..., self._counted].swapaxes(1, 2) for run in runs]
