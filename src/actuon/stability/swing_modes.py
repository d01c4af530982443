# SPDX-License-Identifier: Apache-2.0
r"""What a robot with explicit efforts swings in from step to step, and what would hold it.

The eigenvalues of :math:`L = K (1 + A)^{-1} B`, where the engine's step is :math:`x' = A x + B \tau` and all gains are
in :math:`K`: divided by the largest of them, the gains are where a root of the closed loop is at :math:`z = -1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.step_map import StepMap, euler_map
from .chain_response import ChainResponse
from .linear_motion import first_unstable, grown

LONGEST_MARGIN = 64
"""Longest delay that is looked at [steps]."""
_ROUNDS = 60
"""How often gains or inertias are changed at most until a robot is stable; each brings it nearer."""
_CLOSE = 1.0 + 1e-6


@dataclass(frozen=True)
class Modes:
    """What swings at z = -1."""

    loop: np.ndarray
    """K (1 + A)⁻¹ B, shape (d, d)."""
    share: float
    """Its largest eigenvalue."""
    shares: np.ndarray
    """The part of each joint in it, or in another mode, shape (d,)."""


class Taken(NamedTuple):
    """Which slopes an engine takes into its step, of each driven DOF, each of shape (d,)."""

    damping: np.ndarray
    stiffness: np.ndarray

    def inertias(self, kp: np.ndarray, kd: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """What slopes that are taken in add to the inertia of a swing at z = -1, and at which inertia the others alone
        are at the limit [kg·m² or kg], each of shape (d,)."""
        stiff, damped = np.abs(kp) * dt * dt / 4.0, np.abs(kd) * dt / 2.0
        added = self.damping * damped + self.stiffness * stiff
        return added, stiff + damped - added


def loop_of(seen: StepMap, response: ChainResponse, columns: np.ndarray, taken: Taken, dt: float) -> np.ndarray:
    """K (1 + A)⁻¹ B of the driven joints ``columns``, without the lateness of chains, shape (d, d)."""
    n, at = len(seen.transition) // 2, seen.dofs[columns]
    kp, kd = response.kp[columns], response.kd[columns]
    swing = np.linalg.solve(np.eye(2 * n) + seen.transition, seen.input[:, columns])
    if not taken.damping.any():
        return np.asarray(kp[:, None] * swing[at] + kd[:, None] * swing[n + at])
    added, explicit = taken.inertias(kp, kd, dt)
    return np.asarray(explicit[:, None] * np.linalg.inv(np.linalg.inv(swing[n + at] * 2.0 / dt) + np.diag(added)))


def modes_of(loop: np.ndarray) -> Modes:
    """The eigenvalues of a loop, and the joints that have a part in them.

    A joint's part is the product of its entries in the left and the right eigenvector. The joint with the largest part
    has the share of the mode, the others as much less as their part is.
    """
    if not loop.size:
        return Modes(loop, 0.0, np.zeros(0))
    values, vectors = np.linalg.eig(loop)
    parts = np.abs(vectors * np.linalg.pinv(vectors).T)
    parts /= np.maximum(parts.max(axis=0), 1e-300)
    shares = np.maximum(np.diag(loop), (parts * np.maximum(values.real, 0.0)).max(axis=1))
    return Modes(loop, float(max(values.real.max(), 0.0)), np.maximum(shares, 0.0))


def lateness(seen: StepMap, response: ChainResponse, columns: np.ndarray, closed: float, dt: float) -> float:
    """By what factor the share is more than ``closed``, that of chains that are not late, at z = -1."""
    if closed == 0.0:
        return 1.0
    kp, kd = response.kp[columns], response.kd[columns]
    held = dt * seen.input[len(seen.transition) // 2 + seen.dofs]
    is_semi_implicit = np.allclose(seen.input[seen.dofs], held, rtol=1e-4, atol=1e-6 * np.abs(held).max())
    if is_semi_implicit and response.instant[columns].all() and (kp >= 0.0).all() and (kd >= 0.0).all():
        return 1.0
    return 1.0 / (closed * first_unstable(seen, response, columns, 1.0 / closed))


def largest_factors(loops: list[np.ndarray]) -> np.ndarray:
    """What the gains of each joint may be multiplied with, in all poses, shape (d,).

    With the other joints as they are, by the inverse of 1 - L: its entry of a joint is 1/(1 - r), where r is what the
    joint's own loop and its way through the others give. Where they are unstable, all are lowered until they are not.
    """
    d = len(loops[0])
    if max(modes_of(loop).share for loop in loops) < 1.0:
        own = [1.0 - 1.0 / np.diag(np.linalg.inv(np.eye(d) - loop)) for loop in loops]
        most = np.maximum(np.max(own, axis=0), 0.0) if d else np.zeros(0)
        return np.divide(1.0, most, out=np.full(d, np.inf), where=most > 0.0)
    factors = np.ones(d)
    for _ in range(_ROUNDS):
        modes = [modes_of(factors[:, None] * loop) for loop in loops]
        if max(mode.share for mode in modes) <= _CLOSE:
            break
        factors /= np.maximum(1.0, np.max([mode.shares for mode in modes], axis=0))
    return factors


def armature_to_add(loops: list[np.ndarray], limit_inertia: np.ndarray) -> np.ndarray:
    """What makes a robot stable in all poses [kg·m² or kg], shape (d,).

    It is added to the inverse of the mobility, which is the loop by the inertia at which a joint alone is at the limit.
    """
    added = np.zeros(len(limit_inertia))
    driven = limit_inertia > 0.0
    for _ in range(_ROUNDS):
        shares = np.zeros(len(limit_inertia))
        for loop in loops:
            mobility = loop[np.ix_(driven, driven)] / limit_inertia[driven, None]
            eased = limit_inertia[driven, None] * np.linalg.inv(np.linalg.inv(mobility) + np.diag(added[driven]))
            shares[driven] = np.maximum(shares[driven], modes_of(eased).shares)
        if shares.max(initial=0.0) <= _CLOSE:
            break
        added += limit_inertia * np.maximum(0.0, 1.0 - 1.0 / np.maximum(shares, 1.0))
    return added


def delay_margins(
    response: ChainResponse, columns: np.ndarray, shares: np.ndarray, taken: Taken, felt: np.ndarray, dt: float
) -> list[float | None]:
    """By how much more the feedback of each joint may be late [s]: on an inertia that alone has the same share.

    A tangent is one as long as nothing is late; then it is an explicit effort.
    """
    d = len(columns)
    if not d:
        return []
    kp, kd = response.kp[columns], response.kd[columns]
    added, explicit = taken.inertias(kp, kd, dt)
    inertia = np.divide(explicit, shares, out=felt + added, where=shares > 0.0) - added
    alone = euler_map(np.diag(1.0 / np.maximum(inertia, 1e-12)), np.zeros(d), np.arange(d), dt)
    taps = response.stiffness[:, :, columns], response.damping[:, :, columns]
    own = ChainResponse(*taps, response.lowest[columns], response.highest[columns])
    delays = np.arange(LONGEST_MARGIN + 1)
    grows = grown(alone, own, np.arange(d), np.ones(len(delays)), delays, apart=True)
    grows[:, 0] &= ~taken.damping
    first = np.where(grows.any(axis=1), grows.argmax(axis=1), len(delays))
    return [None if count == 0 else float((count - 1) * dt) for count in first]
