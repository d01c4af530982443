# SPDX-License-Identifier: Apache-2.0
r"""How near explicit actuators of a robot are to the gains at which they diverge.

An explicit effort is computed from the state before a step and held through it. For one joint of inertia :math:`I`,
under semi-implicit Euler with a step :math:`h`, a motion grows by the roots :math:`z` of

.. math:: z^2 - (2 - k_d h/I - k_p h^2/I) z + (1 - k_d h/I) = 0

of which the first to leave the unit circle does so at :math:`z = -1`, where :math:`k_d h/I + k_p h^2/(2I) = 2`. For a
robot whose engine's step is :math:`x' = A x + B \tau`, with all gains in :math:`K`, that is where the largest
eigenvalue of :math:`K (1 + A)^{-1} B` is 1. This eigenvalue is the *share* of the limit that the gains use: divided by
it, they are at the limit. Chains that are late, and integrators with roots elsewhere, are stepped on the linear map.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..actuator import Actuator
from ..errors import StateError
from ..sim import Articulation
from ..sim.step_map import StepMap, StepMaps, euler_map
from .chain_response import ChainResponse, measure
from .linear_motion import first_unstable, grown

POSES = 48
"""How many poses are looked at beside the present one."""
LONGEST_MARGIN = 64
"""Longest delay that is looked at [steps]."""
_TURN = np.pi
"""How far a joint without stops turns to each side, from where it is [rad]."""
_ROUNDS = 60
"""How often gains or inertias are changed at most until a robot is stable; each brings it nearer."""
_CLOSE = 1.0 + 1e-6
_DISCRETE = "discrete"
"""The integrator that takes in slopes by position, too."""


@dataclass(frozen=True)
class JointStability:
    """A joint with an explicit actuator. Efforts in N·m, or N for one that slides."""

    name: str
    slides: bool
    inertia: float
    """What it feels while the others move freely, armature included, the least of all poses [kg·m² or kg]."""
    kp: float
    """What a lasting change of position takes off the effort, through the whole chain [N·m/rad or N/m]."""
    kd: float
    """What a lasting velocity takes off the effort [N·m·s/rad or N·s/m]."""
    stiffness_number: float
    """kp·dt²/I, which must be below 4 where kd is 0."""
    damping_number: float
    """kd·dt/I, which must be below 2 where kp is 0."""
    share: float
    """Share of the stability limit, in the worst pose, with all joints moving: below 1 is stable."""
    share_alone: float
    """The same with all other joints free of actuators."""
    largest_kp: float
    """Up to where kp and kd may be raised together, the other joints as they are; in an unstable robot, to where they
    must be lowered, together with those of the others."""
    largest_kd: float
    """As largest_kp."""
    delay_margin: float | None
    """By how much more the feedback may be late [s], in whole steps. None where there is none: it is unstable."""
    armature: float
    """What it has [kg·m² or kg]."""
    armature_needed: float
    """What would make the robot stable, where all joints have theirs [kg·m² or kg]; what it has, in a stable one."""
    lowest_effort: float
    """What the chain can give at rest."""
    highest_effort: float
    hold_effort: float | None
    """What holds it in the start pose. None for a free base."""
    largest_hold_effort: float | None
    """The largest, up or down, of all poses. None for a free base."""


@dataclass(frozen=True)
class RobotStability:
    """A robot with explicit actuators."""

    path: str
    dt: float
    """Time step [s]."""
    share: float
    """Share of the stability limit in the worst pose."""
    share_at_start: float
    """The same where the robot stands now."""
    largest_dt: float
    """The time step at which the share is 1, in the worst pose [s]."""
    worst_pose: np.ndarray
    """Positions of all DOFs [rad or m], shape (D,)."""
    joints: list[JointStability]

    @property
    def is_stable(self) -> bool:
        """Whether it diverges in none of the poses that were looked at."""
        return self.share < 1.0


def stability_of(
    articulation: Articulation,
    actuators: Sequence[Actuator],
    dt: float | None = None,
    poses: int = POSES,
    tangent: Collection[int] = (),
) -> RobotStability:
    """How near the actuators are to diverging, in the first robot, free of contacts.

    Args:
        articulation: The robots, which the actuators drive: inertia of motors and silenced drives count.
        actuators: Those that give the engine efforts, whose ``effort_indices`` count through robots and DOFs.
        dt: Time step [s]. Default: that of the simulation.
        poses: How many poses within the range of the joints are looked at, beside the present one.
        tangent: Columns of DOFs whose slopes the engine takes into its step. Default: all efforts are explicit.
    """
    study = _Study(articulation, actuators, tangent)
    return study.result(articulation.simulation.dt if dt is None else dt, poses)


class _Study:
    """A robot and its actuators, looked at with one time step or another."""

    def __init__(self, articulation: Articulation, actuators: Sequence[Actuator], tangent: Collection[int]):
        self._robots, self._actuators = articulation, actuators
        self._start = articulation.get_dof_positions().numpy()[0].astype(np.float64)
        driven = [actuator.effort_indices.numpy() % articulation.num_dofs for actuator in actuators]
        self._columns = np.unique(np.concatenate([np.zeros(0, np.int64), *driven])).astype(np.int64)
        self._tangent = np.isin(self._columns, list(tangent))

    def _maps(self, dt: float) -> StepMaps:
        return self._robots.simulation.step_maps(int(self._robots.robot_ids[0]), dt)

    def _taken(self, response: ChainResponse) -> Taken:
        """What the engine takes into its step of tangents. The slopes of chains that are late are zero."""
        damping = self._tangent & response.instant[self._columns]
        return Taken(damping, damping & (self._robots.simulation.integrator == _DISCRETE))

    def _loop(self, seen: StepMap, response: ChainResponse, dt: float) -> np.ndarray:
        return loop_of(seen, response, self._columns, self._taken(response), dt)

    def _lateness(self, seen: StepMap, response: ChainResponse, dt: float) -> float:
        """Of explicit efforts."""
        explicit = ~self._taken(response).damping
        closed = modes_of(self._loop(seen, response, dt)[np.ix_(explicit, explicit)]).share
        return lateness(seen, response, self._columns[explicit], closed, dt)

    def result(self, dt: float, poses: int) -> RobotStability:
        response, maps = measure(self._robots, self._actuators, dt), self._maps(dt)
        positions = [self._start, *self._poses(maps.free, poses)]
        seen = [maps.at(position) for position in positions]
        modes = [modes_of(self._loop(each, response, dt)) for each in seen]
        worst = int(np.argmax([mode.share for mode in modes]))
        late = self._lateness(seen[worst], response, dt)
        loops = [late * mode.loop for mode in modes]
        shares = late * np.max([mode.shares for mode in modes], axis=0)
        share = float(shares.max(initial=0.0))
        return RobotStability(
            self._robots.paths[0],
            dt,
            share,
            float(late * modes[0].share),
            self._largest_dt(dt, share, positions[worst], response),
            positions[worst],
            self._joints(response, seen, loops, shares, dt),
        )

    def _poses(self, free: np.ndarray, count: int) -> np.ndarray:
        """Positions within the range of the joints, the same at every call, shape (count, D)."""
        lower, upper = (side.numpy()[0].astype(np.float64) for side in self._robots.get_dof_limits())
        silent = self._robots.simulation.silent_drives(self._robots.robot_ids[:1])[0]
        reach = np.where(self._robots.robots[0].slides, 0.0, _TURN)
        lower, upper = (
            np.where(np.isfinite(side), side, self._start + sign * reach) for sign, side in ((-1, lower), (1, upper))
        )
        drawn = lower + (upper - lower) * np.random.default_rng(0).random((count, len(lower)))
        return np.where(free & silent & (lower <= upper), drawn, self._start)

    def _largest_dt(self, dt: float, share: float, pose: np.ndarray, response: ChainResponse) -> float:
        """By halving, around where a share that grows between linearly and by the square would be 1."""
        if not 0.0 < share < np.inf:
            return np.inf if share == 0.0 else 0.0
        low, high = 0.5 * min(dt / share, dt / share**0.5), 2.0 * max(dt / share, dt / share**0.5)
        for _ in range(7):
            middle = (low * high) ** 0.5
            seen = self._maps(middle).at(pose)
            answers = self._answers(middle, response)
            closed = modes_of(self._loop(seen, answers, middle)).share
            if self._lateness(seen, answers, middle) * closed < 1.0:
                low = middle
            else:
                high = middle
        return low

    def _answers(self, dt: float, response: ChainResponse) -> ChainResponse:
        """What chains answer at another time step; where they take no other, what they answer now, step by step."""
        if any(getattr(stage, "sample_dt", None) for actuator in self._actuators for stage in actuator.stages):
            return response
        try:
            return measure(self._robots, self._actuators, dt, response.offsets)
        except StateError:
            return response

    def _joints(
        self, response: ChainResponse, seen: list[StepMap], loops: list[np.ndarray], shares: np.ndarray, dt: float
    ) -> list[JointStability]:
        robots, columns = self._robots, self._columns
        inertia = np.min([each.inertia for each in seen], axis=0)[columns]
        kp, kd = response.kp[columns], response.kd[columns]
        held = robots.simulation.dof_property("armature", robots.robot_ids[:1])
        armature = np.zeros(len(columns)) if held is None else held[0, columns].astype(np.float64)
        taken = self._taken(response)
        factors = _largest_factors(loops)
        needed = armature + _armature_to_add(loops, taken.inertias(kp, kd, dt)[1])
        margins = _margins(response, columns, shares, taken, inertia, dt)
        bounds = robots.simulation.joint_effort_range(robots.robot_ids[:1])
        lowest, highest = response.lowest[columns], response.highest[columns]
        if bounds is not None:
            lowest, highest = (np.clip(values, *(side[0, columns] for side in bounds)) for values in (lowest, highest))
        holds = [each.hold[columns] for each in seen if each.hold is not None]
        largest = np.max(np.abs(holds), axis=0) if holds else None
        return [
            JointStability(
                name=robots.dof_names[column],
                slides=bool(robots.robots[0].slides[column]),
                inertia=float(inertia[i]),
                kp=float(kp[i]),
                kd=float(kd[i]),
                stiffness_number=float(kp[i] * dt**2 / inertia[i]),
                damping_number=float(kd[i] * dt / inertia[i]),
                share=float(shares[i]),
                share_alone=float(max(loop[i, i] for loop in loops)),
                largest_kp=float(kp[i] * factors[i]) if kp[i] else 0.0,
                largest_kd=float(kd[i] * factors[i]) if kd[i] else 0.0,
                delay_margin=margins[i],
                armature=float(armature[i]),
                armature_needed=float(needed[i]),
                lowest_effort=float(lowest[i]),
                highest_effort=float(highest[i]),
                hold_effort=float(holds[0][i]) if holds else None,
                largest_hold_effort=float(largest[i]) if largest is not None else None,
            )
            for i, column in enumerate(columns)
        ]


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


def _largest_factors(loops: list[np.ndarray]) -> np.ndarray:
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


def _armature_to_add(loops: list[np.ndarray], limit_inertia: np.ndarray) -> np.ndarray:
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


def _margins(
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
