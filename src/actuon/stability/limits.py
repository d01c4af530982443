# SPDX-License-Identifier: Apache-2.0
r"""Stability limit of the actuators of a robot: the gains at which it diverges, and the part of them in use.

An explicit effort is computed from the state before a step and held through it. For one joint of inertia :math:`I`,
under semi-implicit Euler with a step :math:`h`, a motion grows by the roots :math:`z` of

.. math:: z^2 - (2 - k_d h/I - k_p h^2/I) z + (1 - k_d h/I) = 0

of which the first to leave the unit circle does so at :math:`z = -1`, where :math:`k_d h/I + k_p h^2/(2I) = 2`. For a
robot whose engine's step is :math:`x' = A x + B \tau`, with all gains in :math:`K`, the same happens at a largest
eigenvalue of 1 of the loop :math:`L = K (1 + A)^{-1} B`. This eigenvalue is the *stability usage* of the gains: 1, or
100 %, is the limit, and gains divided by it are at the limit. Chains with delay, and integrators whose first unstable
root is elsewhere, are stepped on the linear map to see if the motion grows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..actuator.actuator import Actuator
from ..errors import StateError
from ..sim import Articulation
from ..sim.step_map import StepMap, StepMaps, euler_map
from .chain_response import ChainResponse, measure

POSES = 48
"""Number of poses to examine in addition to the present one."""
LONGEST_MARGIN = 64
"""Longest additional delay that is examined [steps]."""
_TURN = np.pi
"""Range of a joint without stops, to each side of its present position [rad]."""
_DISCRETE = "discrete"
"""The integrator that is implicit in positions as well as in velocities."""
_ROUNDS = 60
"""Most iterations that lower gains or raise inertias until a robot is stable."""
_CLOSE = 1.0 + 1e-6
"""Usage at which these iterations end."""
_STEPS = 1000
"""Length of a motion on the linear map [steps], in addition to eight times the memory of the chains."""
_GROWN = 1.5
"""Ratio of the energy in the last quarter of a motion to that in the third, above which the motion grows."""
_HUGE = 1e60
"""Position or velocity at which a motion has diverged."""
_LOWEST, _HIGHEST = 2.0**-8, 2.0
"""Range in which a limit is searched, relative to a first guess."""


@dataclass(frozen=True)
class JointStability:
    """A joint whose actuator applies efforts, in N·m, or in N for a joint that slides."""

    name: str
    slides: bool
    is_implicit: bool
    """Whether the engine integrates its effort implicitly; chains with delay are explicit."""
    inertia: float
    """Effective inertia while the other joints move freely, with armature; minimum over the poses [kg·m² or kg]."""
    kp: float
    """Decrease of the effort for a lasting change of position, through all stages [N·m/rad or N/m]."""
    kd: float
    """Decrease of the effort for a lasting velocity [N·m·s/rad or N·s/m]."""
    stiffness_number: float
    """kp·dt²/I; must be below 4 if kd is 0."""
    damping_number: float
    """kd·dt/I; must be below 2 if kp is 0."""
    usage: float
    """Part of the stability limit in use, in the worst pose, with all joints moving; unstable from 1 (100 %)."""
    usage_alone: float
    """Stability usage if all other joints had no actuators."""
    largest_kp: float
    """Largest stable kp with the present kd, and with the gains of those other joints that are stable; 0 if the present
    kd is unstable without kp."""
    largest_kd: float
    """Like `largest_kp`, for kd."""
    stable_kp: float
    """kp with which the robot is stable if all joints have `stable_kp` and `stable_kd`: kp and kd of a joint are
    divided by the same factor; the present one if the joint is stable."""
    stable_kd: float
    """Like `stable_kp`, for kd."""
    delay_margin: float | None
    """Additional delay of measured positions and velocities that keeps the joint stable [s], in whole steps; a delay of
    commands does not matter for stability. None if the joint is unstable."""
    armature: float
    """Present armature [kg·m² or kg]."""
    armature_needed: float
    """Minimum armature for stability, if all joints have theirs [kg·m² or kg]; the present one if it is stable."""
    lowest_effort: float
    """Lowest effort of the chain at rest."""
    highest_effort: float
    """Highest effort of the chain at rest."""
    hold_effort: float | None
    """Effort that holds the joint in the start pose. None for a free base."""
    largest_hold_effort: float | None
    """Largest magnitude of `hold_effort` over all poses. None for a free base."""

    @property
    def has_gains(self) -> bool:
        """Whether the effort depends on position or velocity."""
        return self.kp != 0.0 or self.kd != 0.0


@dataclass(frozen=True)
class RobotStability:
    """Stability of a robot whose actuators apply efforts."""

    path: str
    dt: float
    """Time step [s]."""
    usage: float
    """Part of the stability limit in use, in the worst pose; unstable from 1 (100 %)."""
    usage_at_start: float
    """Stability usage in the present pose."""
    largest_dt: float
    """Time step at which the usage is 100 %, in the worst pose [s]."""
    worst_pose: np.ndarray
    """Positions of all DOFs [rad or m], shape (D,)."""
    joints: list[JointStability]

    @property
    def is_stable(self) -> bool:
        """Whether the robot is stable in all poses that were examined."""
        return self.usage < 1.0


def stability_of(
    articulation: Articulation,
    actuators: Sequence[Actuator],
    dt: float | None = None,
    poses: int = POSES,
    implicit: Collection[int] = (),
) -> RobotStability:
    """Compute the stability usage of the actuators of the first robot, without contacts.

    Args:
        articulation: The robots, with the actuators attached: the inertia of their motors counts, and the engine drives
            that they disable do not.
        actuators: Actuators that apply efforts; their ``effort_indices`` count through robots and DOFs.
        dt: Time step [s]. Default: that of the simulation.
        poses: Number of poses to examine within the range of the joints, in addition to the present one.
        implicit: Columns of DOFs whose efforts the engine integrates implicitly. Default: none.
    """
    analysis = StabilityAnalysis(articulation, actuators, implicit)
    return analysis.result(articulation.simulation.dt if dt is None else dt, poses)


def usages_of(
    articulation: Articulation, actuators: Sequence[Actuator], implicit: Collection[int] = ()
) -> dict[int, float]:
    """Return the stability usage of each driven DOF, by column: the quick part of `stability_of`.

    Args:
        articulation: As for `stability_of`.
        actuators: Actuators that apply efforts.
        implicit: Columns of DOFs whose efforts the engine integrates implicitly.
    """
    analysis = StabilityAnalysis(articulation, actuators, implicit)
    usages = analysis.evaluate(articulation.simulation.dt, POSES).usages
    return dict(zip(analysis.columns.tolist(), usages.tolist(), strict=True))


def usage_of_gains(articulation: Articulation, actuators: Sequence[Actuator], implicit: Collection[int] = ()) -> float:
    """Return the stability usage of the gains kp and kd of controllers in the present pose, without other stages.

    It takes a few milliseconds for any number of robots. See `stability_of` for what it leaves out.

    Args:
        articulation: As for `stability_of`.
        actuators: Actuators that apply efforts.
        implicit: Columns of DOFs whose efforts the engine integrates implicitly.
    """
    robots, simulation = articulation, articulation.simulation
    gains = np.zeros((2, robots.num_dofs))
    for actuator in actuators:
        offered: Mapping[str, object] = getattr(actuator.controller, "declared", dict)()
        robot, columns = np.divmod(actuator.effort_indices.numpy(), robots.num_dofs)
        if {"kp", "kd"} <= offered.keys():
            values = actuator.controller.numbers("kp", "kd")
            first = robot == 0
            gains[:, columns[first]] = [np.broadcast_to(values[name], robot.shape)[first] for name in ("kp", "kd")]
    gains[:, ~simulation.engine.drives.are_silent(robots.at)[0]] = 0.0  # drives of the engine
    columns = np.flatnonzero(gains.any(axis=0))
    if not columns.size:
        return 0.0
    unlimited = np.full(robots.num_dofs, np.inf)
    response = ChainResponse(gains[:1, None], gains[1:, None], -unlimited, unlimited)
    damping = np.isin(columns, list(implicit))
    derivatives = ImplicitDerivatives(damping, damping & (simulation.integrator == _DISCRETE))
    position = robots.get_dof_positions().numpy()[0].astype(np.float64)
    step = simulation.engine.step_maps(robots.robots[0], simulation.dt, None).at(position)
    return modes_of(loop_of(step, response, columns, derivatives, simulation.dt)).usage


def poses_of(robots: Articulation, movable: np.ndarray, count: int) -> np.ndarray:
    """Return repeatable random positions of the first robot within the range of its joints, shape (count, D).

    Args:
        robots: The robots.
        movable: DOFs that leave the present pose, shape (D,).
        count: Number of poses.
    """
    start = robots.get_dof_positions().numpy()[0].astype(np.float64)
    lower, upper = (side.numpy()[0].astype(np.float64) for side in robots.get_dof_limits())
    reach = np.where(robots.robots[0].slides, 0.0, _TURN)
    lower, upper = (np.where(np.isfinite(side), side, start + sign * reach) for sign, side in ((-1, lower), (1, upper)))
    drawn = lower + (upper - lower) * np.random.default_rng(0).random((count, len(lower)))
    return np.where(movable & (lower <= upper), drawn, start)


@dataclass(frozen=True)
class Modes:
    """Modes of a loop at z = -1."""

    loop: np.ndarray
    """K (1 + A)⁻¹ B, shape (d, d)."""
    usage: float
    """The largest eigenvalue of the loop."""
    usages: np.ndarray
    """Usage of each joint, by its part in this mode or another one, shape (d,)."""


class ImplicitDerivatives(NamedTuple):
    """Masks of the driven DOFs whose stiffness and damping the engine integrates implicitly, each of shape (d,)."""

    damping: np.ndarray
    stiffness: np.ndarray

    def inertias(self, kp: np.ndarray, kd: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the inertia that implicit gains add at z = -1, and the inertia at which the explicit gains alone are
        at the limit [kg·m² or kg], each of shape (d,)."""
        stiff, damped = np.abs(kp) * dt * dt / 4.0, np.abs(kd) * dt / 2.0
        added = self.damping * damped + self.stiffness * stiff
        return added, stiff + damped - added


@dataclass(frozen=True)
class PoseResults:
    """Stability of a robot in several poses, the first of which is the present one."""

    response: ChainResponse
    poses: list[np.ndarray]
    maps: list[StepMap]
    modes: list[Modes]
    worst: int
    """The pose with the largest usage."""
    delay_factor: float
    """Factor on usages due to delay in chains, and to integrators whose first unstable root is not at z = -1."""

    @property
    def usages(self) -> np.ndarray:
        """Usage of each driven joint in its worst pose, shape (d,)."""
        return np.asarray(self.delay_factor * np.max([mode.usages for mode in self.modes], axis=0))


class StabilityAnalysis:
    """Analysis of a robot and its actuators, at any time step.

    Args:
        articulation: As for `stability_of`.
        actuators: Actuators that apply efforts.
        implicit: Columns of DOFs whose efforts the engine integrates implicitly.
    """

    def __init__(self, articulation: Articulation, actuators: Sequence[Actuator], implicit: Collection[int]):
        self._robots, self._actuators = articulation, actuators
        self._start = articulation.get_dof_positions().numpy()[0].astype(np.float64)
        driven = [actuator.effort_indices.numpy() % articulation.num_dofs for actuator in actuators]
        self.columns = np.unique(np.concatenate([np.zeros(0, np.int64), *driven])).astype(np.int64)
        """DOFs that are driven, shape (d,)."""
        self._implicit = np.isin(self.columns, list(implicit))

    def _maps(self, dt: float, response: ChainResponse) -> StepMaps:
        """Return the engine's step maps, with the viscous friction of stages that the engine solves."""
        robots, simulation = self._robots, self._robots.simulation
        viscous = response.viscous if simulation.solves_friction(robots.at) else None
        return simulation.engine.step_maps(robots.robots[0], dt, viscous)

    def _derivatives(self, response: ChainResponse) -> ImplicitDerivatives:
        """Return the DOFs that the engine integrates implicitly; chains with delay are explicit."""
        damping = self._implicit & response.instant[self.columns]
        return ImplicitDerivatives(damping, damping & (self._robots.simulation.integrator == _DISCRETE))

    def _loop(self, step: StepMap, response: ChainResponse, dt: float) -> np.ndarray:
        return loop_of(step, response, self.columns, self._derivatives(response), dt)

    def _delay_factor(self, step: StepMap, response: ChainResponse, dt: float) -> float:
        """Return the factor of explicit efforts."""
        explicit = ~self._derivatives(response).damping
        closed = modes_of(self._loop(step, response, dt)[np.ix_(explicit, explicit)]).usage
        return delay_factor(step, response, self.columns[explicit], closed, dt)

    def evaluate(self, dt: float, poses: int) -> PoseResults:
        """Measure the chains, and the engine's step in all poses."""
        response = measure(self._robots, self._actuators, dt)
        maps = self._maps(dt, response)
        silent = self._robots.simulation.engine.drives.are_silent(self._robots.at)[0]
        positions = [self._start, *poses_of(self._robots, maps.free & silent, poses)]
        steps = [maps.at(position) for position in positions]
        modes = [modes_of(self._loop(step, response, dt)) for step in steps]
        worst = int(np.argmax([mode.usage for mode in modes]))
        return PoseResults(response, positions, steps, modes, worst, self._delay_factor(steps[worst], response, dt))

    def result(self, dt: float, poses: int) -> RobotStability:
        """Return all values that `check` reports for a robot."""
        found = self.evaluate(dt, poses)
        usage, pose = float(found.usages.max(initial=0.0)), found.poses[found.worst]
        return RobotStability(
            path=self._robots.paths[0],
            dt=dt,
            usage=usage,
            usage_at_start=float(found.delay_factor * found.modes[0].usage),
            largest_dt=self._largest_dt(dt, usage, pose, found.response),
            worst_pose=pose,
            joints=self._joints(found, dt),
        )

    def _largest_dt(self, dt: float, usage: float, pose: np.ndarray, response: ChainResponse) -> float:
        """Return the time step at which the usage is 1, by bisection: it grows between linearly and quadratically."""
        if not 0.0 < usage < np.inf:
            return np.inf if usage == 0.0 else 0.0
        low, high = 0.5 * min(dt / usage, dt / usage**0.5), 2.0 * max(dt / usage, dt / usage**0.5)
        while high > 1.02 * low:
            middle = (low * high) ** 0.5
            there = self._response_at(middle, response)
            step = self._maps(middle, there).at(pose)
            closed = modes_of(self._loop(step, there, middle)).usage
            if self._delay_factor(step, there, middle) * closed < 1.0:
                low = middle
            else:
                high = middle
        return low

    def _response_at(self, dt: float, response: ChainResponse) -> ChainResponse:
        """Measure the chains at another time step; return ``response`` if they accept no other."""
        if any(getattr(stage, "sample_dt", None) for actuator in self._actuators for stage in actuator.stages):
            return response
        try:
            return measure(self._robots, self._actuators, dt, response.offsets)
        except StateError:
            return response

    def _joints(self, found: PoseResults, dt: float) -> list[JointStability]:
        robots, columns, response, usages = self._robots, self.columns, found.response, found.usages
        loops = [found.delay_factor * mode.loop for mode in found.modes]
        inertia = np.min([step.inertia for step in found.maps], axis=0)[columns]
        kp, kd = response.kp[columns], response.kd[columns]
        engine, at = robots.simulation.engine, robots.at.subset(np.array([0]), columns)
        held = engine.properties.get("armature", at)
        armature = np.zeros(len(columns)) if held is None else held[0].astype(np.float64)
        derivatives = self._derivatives(response)
        factors = stable_factors(loops)
        _, explicit = derivatives.inertias(kp, kd, dt)
        stiff = np.divide(kp * dt * dt / 4.0, explicit, out=np.ones_like(kp), where=explicit > 0.0)
        stiff = np.where(derivatives.damping, 1.0, stiff)
        most_kp, most_kd = (largest_factors(loops, usages < 1.0, share) for share in (stiff, 1.0 - stiff))
        needed = armature + armature_to_add(loops, explicit)
        margins = delay_margins(response, columns, usages, derivatives, inertia, dt)
        bounds = engine.drives.joint_range(at)
        lowest, highest = response.lowest[columns], response.highest[columns]
        if bounds is not None:
            lowest, highest = (np.clip(values, *(side[0] for side in bounds)) for values in (lowest, highest))
        holds = [step.hold[columns] for step in found.maps if step.hold is not None]
        largest = np.max(np.abs(holds), axis=0) if holds else None
        return [
            JointStability(
                name=robots.dof_names[column],
                slides=bool(robots.robots[0].slides[column]),
                is_implicit=bool(derivatives.damping[i]),
                inertia=float(inertia[i]),
                kp=float(kp[i]),
                kd=float(kd[i]),
                stiffness_number=float(kp[i] * dt**2 / inertia[i]),
                damping_number=float(kd[i] * dt / inertia[i]),
                usage=float(usages[i]),
                usage_alone=float(max(loop[i, i] for loop in loops)),
                largest_kp=float(kp[i] * most_kp[i]) if kp[i] else 0.0,
                largest_kd=float(kd[i] * most_kd[i]) if kd[i] else 0.0,
                stable_kp=float(kp[i] * factors[i]),
                stable_kd=float(kd[i] * factors[i]),
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


def loop_of(
    step: StepMap, response: ChainResponse, columns: np.ndarray, derivatives: ImplicitDerivatives, dt: float
) -> np.ndarray:
    """Return K (1 + A)⁻¹ B of the driven joints ``columns``, without the delay of chains, shape (d, d)."""
    n, at = len(step.transition) // 2, step.dofs[columns]
    kp, kd = response.kp[columns], response.kd[columns]
    swing = np.linalg.solve(np.eye(2 * n) + step.transition, step.input[:, columns])
    if not derivatives.damping.any():
        return np.asarray(kp[:, None] * swing[at] + kd[:, None] * swing[n + at])
    added, explicit = derivatives.inertias(kp, kd, dt)
    return np.asarray(explicit[:, None] * np.linalg.inv(np.linalg.inv(swing[n + at] * 2.0 / dt) + np.diag(added)))


def modes_of(loop: np.ndarray) -> Modes:
    """Return the eigenvalues of a loop, and the joints that take part in them.

    A joint's part is the product of its entries in the left and the right eigenvector. The joint with the largest part
    gets the usage of the mode, the others less, in proportion to their parts.
    """
    if not loop.size:
        return Modes(loop, 0.0, np.zeros(0))
    values, vectors = np.linalg.eig(loop)
    parts = np.abs(vectors * np.linalg.pinv(vectors).T)
    parts /= np.maximum(parts.max(axis=0), 1e-300)
    usages = np.maximum(np.diag(loop), (parts * np.maximum(values.real, 0.0)).max(axis=1))
    return Modes(loop, float(max(values.real.max(), 0.0)), np.maximum(usages, 0.0))


def delay_factor(step: StepMap, response: ChainResponse, columns: np.ndarray, closed: float, dt: float) -> float:
    """Return the factor by which the usage exceeds ``closed``, the usage at z = -1 of chains without delay."""
    if closed == 0.0:
        return 1.0
    kp, kd = response.kp[columns], response.kd[columns]
    held = dt * step.input[len(step.transition) // 2 + step.dofs]
    is_semi_implicit = np.allclose(step.input[step.dofs], held, rtol=1e-4, atol=1e-6 * np.abs(held).max())
    if is_semi_implicit and response.instant[columns].all() and (kp >= 0.0).all() and (kd >= 0.0).all():
        return 1.0
    return 1.0 / (closed * first_unstable(step, response, columns, 1.0 / closed))


def stable_factors(loops: list[np.ndarray]) -> np.ndarray:
    """Return the factors on the gains of each joint that make a robot stable in all poses, shape (d,): at most 1."""
    factors = np.ones(len(loops[0]))
    for _ in range(_ROUNDS):
        modes = [modes_of(factors[:, None] * loop) for loop in loops]
        if max(mode.usage for mode in modes) <= _CLOSE:
            break
        factors /= np.maximum(1.0, np.max([mode.usages for mode in modes], axis=0))
    return factors


def largest_factors(loops: list[np.ndarray], counted: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the factors up to which one of the gains of each joint may be multiplied, in all poses, shape (d,).

    det(1 - L) is linear in one gain, and falls to zero where the robot becomes unstable. A gain for which it is not
    positive before gets 0.

    Args:
        loops: K (1 + A)⁻¹ B of each pose.
        counted: Whether the gains of a joint count for the other joints, shape (d,).
        shares: Part of each joint's row that this gain makes, shape (d,).
    """
    d = len(counted)
    found = np.full(d, np.inf)
    for i, share in enumerate(shares):
        scaled = ((np.arange(d) == i) | counted).astype(np.float64)
        for loop in loops:
            rows = scaled[:, None] * loop
            own = share * rows[i]
            rows[i] -= own
            if modes_of(rows).usage > 2.0 - _CLOSE:
                found[i] = 0.0
            elif (growth := float(own @ np.linalg.inv(np.eye(d) - rows)[:, i])) > 0.0:
                found[i] = min(found[i], 1.0 / growth)
    return found


def armature_to_add(loops: list[np.ndarray], limit_inertia: np.ndarray) -> np.ndarray:
    """Return the armature that makes a robot stable in all poses [kg·m² or kg], shape (d,).

    It is added to the inverse of the mobility, which is the loop divided by the inertia at which a joint alone is at
    the limit.
    """
    added = np.zeros(len(limit_inertia))
    driven = limit_inertia > 0.0
    for _ in range(_ROUNDS):
        usages = np.zeros(len(limit_inertia))
        for loop in loops:
            mobility = loop[np.ix_(driven, driven)] / limit_inertia[driven, None]
            eased = limit_inertia[driven, None] * np.linalg.inv(np.linalg.inv(mobility) + np.diag(added[driven]))
            usages[driven] = np.maximum(usages[driven], modes_of(eased).usages)
        if usages.max(initial=0.0) <= _CLOSE:
            break
        added += limit_inertia * np.maximum(0.0, 1.0 - 1.0 / np.maximum(usages, 1.0))
    return added


def delay_margins(
    response: ChainResponse,
    columns: np.ndarray,
    usages: np.ndarray,
    derivatives: ImplicitDerivatives,
    felt: np.ndarray,
    dt: float,
) -> list[float | None]:
    """Return the additional feedback delay with which each joint stays stable [s].

    Each joint is examined alone, on the inertia that leads to its usage. Any additional delay makes an implicit effort
    explicit.
    """
    d = len(columns)
    if not d:
        return []
    kp, kd = response.kp[columns], response.kd[columns]
    added, explicit = derivatives.inertias(kp, kd, dt)
    inertia = np.divide(explicit, usages, out=felt + added, where=usages > 0.0) - added
    alone = euler_map(np.diag(1.0 / np.maximum(inertia, 1e-12)), np.zeros(d), np.arange(d), dt)
    taps = response.stiffness[:, :, columns], response.damping[:, :, columns]
    own = ChainResponse(*taps, response.lowest[columns], response.highest[columns])
    delays = np.arange(LONGEST_MARGIN + 1)
    grows = motion_grows(alone, own, np.arange(d), np.ones(len(delays)), delays, uncoupled=True)
    grows[:, 0] &= ~derivatives.damping
    first = np.where(grows.any(axis=1), grows.argmax(axis=1), len(delays))
    return [None if count == 0 else float((count - 1) * dt) for count in first]


def first_unstable(step: StepMap, response: ChainResponse, columns: np.ndarray, guess: float) -> float:
    """Return the smallest factor on all gains with which a motion grows, to some 2 %, at most twice the guess.

    Args:
        step: The engine's step.
        response: The chains.
        columns: DOFs of the robot that are driven, shape (d,).
        guess: Approximate factor.
    """
    low, high = _LOWEST * guess, _HIGHEST * guess
    for count in (37, 17):
        factors = np.geomspace(low, high, count)
        grows = motion_grows(step, response, columns, factors, np.zeros(count, np.int64))[0]
        if not grows.any():
            return high
        first = int(np.argmax(grows))
        if first == 0:
            return low
        low, high = factors[first - 1], factors[first]
    return float((low * high) ** 0.5)


def motion_grows(
    step: StepMap,
    response: ChainResponse,
    columns: np.ndarray,
    factors: np.ndarray,
    delays: np.ndarray,
    uncoupled: bool = False,
) -> np.ndarray:
    """Step the linear map with its chains, and return whether the energy of the motion grows.

    Args:
        step: The engine's step.
        response: The chains.
        columns: DOFs of the robot that are driven, shape (d,).
        factors: Factors on all gains, shape (C,).
        delays: Additional delays of all efforts [steps], shape (C,).
        uncoupled: Whether the DOFs do not influence each other; each then has its own energy.

    Returns:
        Shape (1, C), or (d, C) for uncoupled DOFs.
    """
    n, at = len(step.transition) // 2, step.dofs[columns]
    stiffness, damping = (taps[:, :, columns, None] for taps in (response.stiffness, response.damping))
    phases, memory = stiffness.shape[:2]
    coming = np.zeros((memory, len(columns), len(factors)))
    given = np.zeros((int(delays.max()) + 1, len(columns), len(factors)))
    everyone = np.arange(len(factors))
    inertia = np.linalg.inv(step.mobility[np.ix_(columns, columns)])
    stiff = np.abs(response.kp[columns])[:, None] * factors
    x = np.random.default_rng(0).standard_normal((2 * n, 1)) * np.ones(len(factors))
    size = np.sqrt(step.inertia[columns])[:, None]
    x[at] *= 1e-3 / size
    x[n + at] /= size
    count = _STEPS + 8 * memory + 4 * len(given)
    quarters = np.zeros((2, len(columns) if uncoupled else 1, len(factors)))
    diverged = np.zeros(quarters.shape[1:], dtype=bool)
    for i in range(count):
        phase = i % phases
        coming += stiffness[phase] * x[at] + damping[phase] * x[n + at]
        given[i % len(given)] = coming[0]
        coming = np.roll(coming, -1, axis=0)
        coming[-1] = 0.0
        late = given[(i - delays) % len(given), :, everyone].T
        x = step.transition @ x - step.input[:, columns] @ (factors * late)
        huge = np.abs(x) > _HUGE
        if huge.any():
            gone = huge[:n] | huge[n:] if uncoupled else huge.any(axis=0, keepdims=True)
            diverged |= gone
            for values in (x[:n], x[n:], *coming, *given):
                values[np.broadcast_to(gone, values.shape)] = 0.0
        if 2 * i >= count:
            energy = x[n + at] * (inertia @ x[n + at]) + stiff * x[at] ** 2
            quarter = quarters[int(4 * i >= 3 * count)]
            np.maximum(quarter, energy if uncoupled else energy.sum(axis=0), out=quarter)
    return np.asarray((quarters[1] > _GROWN * quarters[0]) | diverged)
