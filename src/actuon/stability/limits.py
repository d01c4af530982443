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

import numpy as np

from ..actuator.actuator import Actuator
from ..errors import StateError
from ..sim import Articulation
from ..sim.step_map import StepMap, StepMaps
from .chain_response import ChainResponse, measure
from .engine_friction import solves_friction
from .swing_modes import Modes, Taken, armature_to_add, delay_margins, largest_factors, lateness, loop_of, modes_of

POSES = 48
"""How many poses are looked at beside the present one."""
_TURN = np.pi
"""How far a joint without stops turns to each side, from where it is [rad]."""
_DISCRETE = "discrete"
"""The integrator that takes in slopes by position, too."""


@dataclass(frozen=True)
class JointStability:
    """A joint with an actuator that gives the engine efforts. They are in N·m, or N for one that slides."""

    name: str
    slides: bool
    is_tangent: bool
    """Whether the engine takes the slopes of its effort into the step; late chains have none."""
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
        """Whether it diverges in none of the poses examined."""
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
        poses: Number of poses to examine within the range of the joints, besides the present one.
        tangent: Columns of DOFs whose slopes the engine takes into its step. Default: all efforts are explicit.
    """
    study = _Study(articulation, actuators, tangent)
    return study.result(articulation.simulation.dt if dt is None else dt, poses)


def shares_of(
    articulation: Articulation, actuators: Sequence[Actuator], tangent: Collection[int] = ()
) -> dict[int, float]:
    """The share of the stability limit that each driven DOF uses, by column: all of `stability_of` that is quick.

    Args:
        articulation: As for `stability_of`, as are the others.
        actuators: Those that give the engine efforts.
        tangent: Columns of DOFs whose slopes the engine takes into its step.
    """
    study = _Study(articulation, actuators, tangent)
    shares = study.look(articulation.simulation.dt, POSES).shares
    return dict(zip(study.columns.tolist(), shares.tolist(), strict=True))


@dataclass(frozen=True)
class _Seen:
    """A robot in its poses, the first of which is the present one."""

    response: ChainResponse
    poses: list[np.ndarray]
    maps: list[StepMap]
    modes: list[Modes]
    worst: int
    """The pose with the largest share."""
    late: float
    """By how much lateness makes shares larger."""

    @property
    def shares(self) -> np.ndarray:
        """Of the driven joints in the worst of all poses, shape (d,)."""
        return np.asarray(self.late * np.max([mode.shares for mode in self.modes], axis=0))


class _Study:
    """A robot and its actuators, looked at with one time step or another."""

    def __init__(self, articulation: Articulation, actuators: Sequence[Actuator], tangent: Collection[int]):
        self._robots, self._actuators = articulation, actuators
        self._start = articulation.get_dof_positions().numpy()[0].astype(np.float64)
        driven = [actuator.effort_indices.numpy() % articulation.num_dofs for actuator in actuators]
        self.columns = np.unique(np.concatenate([np.zeros(0, np.int64), *driven])).astype(np.int64)
        """DOFs that are driven, shape (d,)."""
        self._tangent = np.isin(self.columns, list(tangent))

    def _maps(self, dt: float, response: ChainResponse) -> StepMaps:
        """Those of the engine, with the viscous friction that it gets from stages at each step."""
        viscous = response.viscous if solves_friction(self._robots) else None
        return self._robots.simulation.step_maps(int(self._robots.robot_ids[0]), dt, viscous)

    def _taken(self, response: ChainResponse) -> Taken:
        """What the engine takes into its step of tangents. The slopes of chains that are late are zero."""
        damping = self._tangent & response.instant[self.columns]
        return Taken(damping, damping & (self._robots.simulation.integrator == _DISCRETE))

    def _loop(self, seen: StepMap, response: ChainResponse, dt: float) -> np.ndarray:
        return loop_of(seen, response, self.columns, self._taken(response), dt)

    def _lateness(self, seen: StepMap, response: ChainResponse, dt: float) -> float:
        """Of explicit efforts."""
        explicit = ~self._taken(response).damping
        closed = modes_of(self._loop(seen, response, dt)[np.ix_(explicit, explicit)]).share
        return lateness(seen, response, self.columns[explicit], closed, dt)

    def look(self, dt: float, poses: int) -> _Seen:
        """Measure the chains, and the engine's step in all poses."""
        response = measure(self._robots, self._actuators, dt)
        maps = self._maps(dt, response)
        positions = [self._start, *self._poses(maps.free, poses)]
        seen = [maps.at(position) for position in positions]
        modes = [modes_of(self._loop(each, response, dt)) for each in seen]
        worst = int(np.argmax([mode.share for mode in modes]))
        return _Seen(response, positions, seen, modes, worst, self._lateness(seen[worst], response, dt))

    def result(self, dt: float, poses: int) -> RobotStability:
        """All that there is to say."""
        seen = self.look(dt, poses)
        share, pose = float(seen.shares.max(initial=0.0)), seen.poses[seen.worst]
        return RobotStability(
            path=self._robots.paths[0],
            dt=dt,
            share=share,
            share_at_start=float(seen.late * seen.modes[0].share),
            largest_dt=self._largest_dt(dt, share, pose, seen.response),
            worst_pose=pose,
            joints=self._joints(seen, dt),
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
        while high > 1.02 * low:
            middle = (low * high) ** 0.5
            answers = self._answers(middle, response)
            seen = self._maps(middle, answers).at(pose)
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

    def _joints(self, seen: _Seen, dt: float) -> list[JointStability]:
        robots, columns, response, shares = self._robots, self.columns, seen.response, seen.shares
        loops = [seen.late * mode.loop for mode in seen.modes]
        inertia = np.min([each.inertia for each in seen.maps], axis=0)[columns]
        kp, kd = response.kp[columns], response.kd[columns]
        held = robots.simulation.dof_property("armature", robots.robot_ids[:1])
        armature = np.zeros(len(columns)) if held is None else held[0, columns].astype(np.float64)
        taken = self._taken(response)
        factors = largest_factors(loops)
        needed = armature + armature_to_add(loops, taken.inertias(kp, kd, dt)[1])
        margins = delay_margins(response, columns, shares, taken, inertia, dt)
        bounds = robots.simulation.joint_effort_range(robots.robot_ids[:1])
        lowest, highest = response.lowest[columns], response.highest[columns]
        if bounds is not None:
            lowest, highest = (np.clip(values, *(side[0, columns] for side in bounds)) for values in (lowest, highest))
        holds = [each.hold[columns] for each in seen.maps if each.hold is not None]
        largest = np.max(np.abs(holds), axis=0) if holds else None
        return [
            JointStability(
                name=robots.dof_names[column],
                slides=bool(robots.robots[0].slides[column]),
                is_tangent=bool(taken.damping[i]),
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
