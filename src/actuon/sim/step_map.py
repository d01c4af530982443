# SPDX-License-Identifier: Apache-2.0
"""A step of an engine as a linear map, around a pose at rest."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class StepMap:
    r"""Effect of a step on a small motion, without contacts, stops, dry friction and gravity.

    .. math:: x' = A x + B \tau

    for :math:`x = (\delta q, \dot q)` of all n DOFs of the model, and efforts :math:`\tau` at the robot's D DOFs that
    are held through the step. It includes the integrator, passive springs and dampers, the engine's own drives and
    kinematic loops.
    """

    transition: np.ndarray
    """A, shape (2n, 2n)."""
    input: np.ndarray
    """B, shape (2n, D)."""
    dofs: np.ndarray
    """Indices of the robot's DOFs among the n, shape (D,)."""
    mobility: np.ndarray
    """Acceleration of the robot's DOFs per unit of effort at each of them, shape (D, D) [1/(kg·m²) or 1/kg]."""
    hold: np.ndarray | None = None
    """Efforts that hold the robot in its pose against gravity and springs [N·m or N], shape (D,). None for a free base,
    and if the engine does not compute them."""

    @property
    def inertia(self) -> np.ndarray:
        """Inertia of each DOF while the others move freely, armature included [kg·m² or kg], shape (D,)."""
        return np.asarray(1.0 / np.diag(self.mobility))


class StepMaps(abc.ABC):
    """Step maps of a robot at poses."""

    free: np.ndarray
    """Whether each DOF can move in its range independently of the others, shape (D,)."""

    @abc.abstractmethod
    def at(self, positions: np.ndarray) -> StepMap:
        """Return the map at positions [rad or m] of shape (D,). All else keeps its present position."""


def put_over(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return ``others``, with NaN replaced by ``values``."""
    return np.where(np.isnan(others), values, others)


def euler_map(mobility: np.ndarray, damping: np.ndarray, dofs: np.ndarray, dt: float) -> StepMap:
    """Return the map of the semi-implicit Euler step q̇' = q̇ + dt·q̈, q' = q + dt·q̇', with explicit viscous friction.

    Args:
        mobility: Inverse of the mass matrix, shape (n, n) [1/(kg·m²)].
        damping: Viscous friction, shape (n,) [N·m·s/rad].
        dofs: Indices of the robot's DOFs among the n, shape (D,).
        dt: Time step [s].
    """
    n = len(mobility)
    velocity = np.eye(n) - dt * mobility * damping
    push = dt * mobility[:, dofs]
    return StepMap(
        np.block([[np.eye(n), dt * velocity], [np.zeros((n, n)), velocity]]),
        np.vstack([dt * push, push]),
        dofs,
        mobility[np.ix_(dofs, dofs)],
    )
