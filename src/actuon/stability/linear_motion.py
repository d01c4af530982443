# SPDX-License-Identifier: Apache-2.0
"""Steps a robot's linear map with its chains, late as they are, and looks whether the motion grows."""

from __future__ import annotations

import numpy as np

from ..sim.step_map import StepMap
from .chain_response import ChainResponse

_STEPS = 1000
"""How long a motion is followed [steps], beside eight times the memory of the chains."""
_GROWN = 1.5
"""How much more energy there is in the last quarter than in the third of a motion that grows."""
_HUGE = 1e60
_LOWEST, _HIGHEST = 2.0**-8, 2.0
"""How far from a first guess the limit is looked for."""


def first_unstable(seen: StepMap, response: ChainResponse, columns: np.ndarray, guess: float) -> float:
    """The smallest factor on all gains with which a motion grows, to some 2 %, at most twice the guess.

    Args:
        seen: The engine's step.
        response: The chains.
        columns: DOFs of the robot that are driven, shape (d,).
        guess: About where it is.
    """
    low, high = _LOWEST * guess, _HIGHEST * guess
    for count in (37, 17):
        factors = np.geomspace(low, high, count)
        grows = grown(seen, response, columns, factors, np.zeros(count, np.int64))[0]
        if not grows.any():
            return high
        first = int(np.argmax(grows))
        if first == 0:
            return low
        low, high = factors[first - 1], factors[first]
    return float((low * high) ** 0.5)


def grown(
    seen: StepMap,
    response: ChainResponse,
    columns: np.ndarray,
    factors: np.ndarray,
    delays: np.ndarray,
    apart: bool = False,
) -> np.ndarray:
    """Whether the energy of the motion grows, shape (1, C), or (d, C) of each driven DOF.

    Args:
        seen: The engine's step.
        response: The chains.
        columns: DOFs of the robot that are driven, shape (d,).
        factors: On all gains, shape (C,).
        delays: By how many more steps all efforts are late, shape (C,).
        apart: Whether nothing couples the DOFs, so that each has an energy of its own.
    """
    n, at = len(seen.transition) // 2, seen.dofs[columns]
    stiffness, damping = (taps[:, :, columns, None] for taps in (response.stiffness, response.damping))
    phases, memory = stiffness.shape[:2]
    coming = np.zeros((memory, len(columns), len(factors)))
    given = np.zeros((int(delays.max()) + 1, len(columns), len(factors)))
    everyone = np.arange(len(factors))
    inertia = np.linalg.inv(seen.mobility[np.ix_(columns, columns)])
    stiff = np.abs(response.kp[columns])[:, None] * factors
    x = np.random.default_rng(0).standard_normal((2 * n, 1)) * np.ones(len(factors))
    size = np.sqrt(seen.inertia[columns])[:, None]
    x[at] *= 1e-3 / size
    x[n + at] /= size
    steps = _STEPS + 8 * memory + 4 * len(given)
    quarters = np.zeros((2, len(columns) if apart else 1, len(factors)))
    diverged = np.zeros(quarters.shape[1:], dtype=bool)
    for step in range(steps):
        phase = step % phases
        coming += stiffness[phase] * x[at] + damping[phase] * x[n + at]
        given[step % len(given)] = coming[0]
        coming = np.roll(coming, -1, axis=0)
        coming[-1] = 0.0
        late = given[(step - delays) % len(given), :, everyone].T
        x = seen.transition @ x - seen.input[:, columns] @ (factors * late)
        huge = np.abs(x) > _HUGE
        if huge.any():
            gone = huge[:n] | huge[n:] if apart else huge.any(axis=0, keepdims=True)
            diverged |= gone
            for values in (x[:n], x[n:], *coming, *given):
                values[np.broadcast_to(gone, values.shape)] = 0.0
        if 2 * step >= steps:
            energy = x[n + at] * (inertia @ x[n + at]) + stiff * x[at] ** 2
            quarter = quarters[int(4 * step >= 3 * steps)]
            np.maximum(quarter, energy if apart else energy.sum(axis=0), out=quarter)
    return np.asarray((quarters[1] > _GROWN * quarters[0]) | diverged)
