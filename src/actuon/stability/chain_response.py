# SPDX-License-Identifier: Apache-2.0
"""Response of actuators to small motions: stiffness, damping and delay.

It is measured by stepping the motor models on separate arrays, and so covers all stages: gears, networks, filters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.state import ActuatorState
from ..attach.chain_set import ChainSet
from ..errors import SimulationError
from ..sim import Articulation

MEMORY = 64
"""Length of a measured response [steps]; a remaining part, such as an integral, counts as constant."""
_CHANGE = (5e-3, 5e-2)
"""Changes of positions [rad or m] and velocities [rad/s or m/s], far from limits."""
OFFSETS = (0.0, 2e-2, -2e-2)
"""Offsets of targets [rad or m], since backlash is stiff only beyond its gap."""
_FAR = (1e1, 1e4)
"""Offsets of targets at which the largest effort is read [rad or m]."""
_PUSH = 100.0
"""Target velocity [rad/s or m/s] and feedforward [N·m or N] per unit of these offsets."""
_SMALL = 1e-3
"""Fraction of the largest response below which a response is rounding."""
_MOST_PHASES = 64
"""Longest common period of controllers that is examined [steps]."""
VISCOUS = "viscous_friction"
"""Signal of stages with the viscous friction of their joint."""

_States = list[ActuatorState | None]


@dataclass(frozen=True)
class ChainResponse:
    """Response of each DOF of a robot, at rest. Zero on DOFs without an actuator."""

    stiffness: np.ndarray
    """Decrease of the effort k steps after a change of position in one step, in phase p of the controller's clock,
    shape (P, K, D) [N·m/rad or N/m]."""
    damping: np.ndarray
    """Like `stiffness`, for velocity, shape (P, K, D) [N·m·s/rad or N·s/m]."""
    lowest: np.ndarray
    """Lowest effort at rest [N·m or N], shape (D,); -inf if it is not limited."""
    highest: np.ndarray
    """Highest effort at rest [N·m or N], shape (D,); inf if it is not limited."""
    offsets: tuple[float, ...] = (0.0,)
    """Offsets of targets at which an actuator was stiffest [rad or m]."""
    viscous: np.ndarray | None = None
    """Viscous friction at rest of stages of the first robot, solved by the engine [N·m·s/rad or N·s/m], shape (D,); NaN
    without such a stage."""

    @property
    def kp(self) -> np.ndarray:
        """Decrease of the effort for a lasting change of position [N·m/rad or N/m], shape (D,)."""
        return np.asarray(self.stiffness.sum(axis=1).mean(axis=0))

    @property
    def kd(self) -> np.ndarray:
        """Decrease of the effort for a lasting velocity [N·m·s/rad or N·s/m], shape (D,)."""
        return np.asarray(self.damping.sum(axis=1).mean(axis=0))

    @property
    def instant(self) -> np.ndarray:
        """Whether the effort of a DOF depends on the state of the present step alone, shape (D,)."""
        if len(self.stiffness) > 1:
            return np.zeros(self.stiffness.shape[2], dtype=bool)
        return np.asarray(~(self.stiffness[0, 1:].any(axis=0) | self.damping[0, 1:].any(axis=0)))


def measure(
    articulation: Articulation, actuators: Sequence[Actuator], dt: float, offsets: Sequence[float] = OFFSETS
) -> ChainResponse:
    """Step the actuators with small changes, from the robots' present positions.

    If robots differ, the stiffest actuator counts, for each DOF.

    Args:
        articulation: The robots.
        actuators: Actuators with ``effort_indices`` that count through robots and DOFs.
        dt: Time step [s].
        offsets: Offsets of targets to measure at [rad or m]. The stiffest response counts, for each DOF.

    Raises:
        SimulationError: An effort is not finite.
    """
    probe = ChainProbe(articulation, actuators, dt)
    lowest, highest = probe.limits()
    columns = np.arange(articulation.num_dofs)
    best, most = np.zeros((2, probe.phases, probe.length, len(columns))), np.zeros(len(columns))
    overshoot = np.array([dt * dt / 2.0, dt])[:, None, None]
    counted = []
    for offset in offsets:
        responses = probe.responses(offset, lowest, highest)
        weights = (np.abs(responses).sum(axis=(1, 2)) * overshoot).sum(axis=0)
        robots = weights.argmax(axis=0)
        is_more = weights[robots, columns] > (1.0 + _SMALL) * most
        best = np.where(is_more, responses[:, :, :, robots, columns], best)
        most = np.maximum(most, weights[robots, columns])
        counted += [offset] if is_more.any() else []
    limits = lowest.max(axis=0), highest.min(axis=0)
    used = np.flatnonzero(best.any(axis=(0, 1, 3)))
    length = int(used[-1]) + 1 if used.size else 1
    offsets = tuple(counted or offsets[:1])
    return ChainResponse(best[0, :, :length], best[1, :, :length], *limits, offsets, probe.offered(VISCOUS)[0])


class ChainProbe:
    """Actuators of robots, stepped on arrays that belong to no simulation."""

    def __init__(self, articulation: Articulation, actuators: Sequence[Actuator], dt: float):
        self._actuators = [actuator for actuator in actuators if actuator.num_actuators]
        self._dt, self._names = dt, articulation.dof_names
        self._shape = len(articulation), articulation.num_dofs
        self.phases = math.lcm(*(actuator.control_every for actuator in self._actuators))
        if self.phases > _MOST_PHASES:
            raise SimulationError(
                f"the periods of the controllers have a common multiple of {self.phases} steps; stability is computed "
                f"for up to {_MOST_PHASES}"
            )
        self._is_stateful = any(actuator.is_stateful() for actuator in self._actuators)
        self.length = max(MEMORY, 2 * self.phases) if self._is_stateful else 1
        given = articulation.simulation.arrays
        self._start = given.joint_q.numpy().copy()
        self._places = {kind: articulation.at.flat(kind) for kind in ("joint_q", "joint_qd", "joint_target_q")}
        self._state = {kind: wp.zeros_like(getattr(given, kind)) for kind in ("joint_q", "joint_qd")}
        self._chains = ChainSet(
            self._actuators,
            *(len(articulation), articulation.dof_names, articulation.simulation.device),
            given={"joint_target_q": wp.zeros_like(given.joint_target_q)},
            num_velocities=given.joint_qd.size,
            has_two_states=lambda _: False,
        )

    def offered(self, signal: str) -> np.ndarray:
        """Return a signal of the stages in the last step, shape (N, D); NaN without such a stage."""
        found = self._chains.signals.get(signal)
        return np.full(self._shape, np.nan) if found is None else found.numpy().astype(np.float64)

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest effort at rest, each of shape (N, D); ±inf if there is none."""
        bounds = []
        for sign in (-1.0, 1.0):
            near, far = (self._most(sign * distance) for distance in _FAR)
            limited = np.isclose(near, far, rtol=1e-2, atol=1e-6)
            bounds.append(np.where(limited, near, sign * np.inf))
        lowest, highest = bounds
        return lowest, highest

    def _most(self, offset: float) -> np.ndarray:
        attrs = [(each.control_target_vel_attr, each.control_feedforward_attr) for each in self._actuators]
        pushed = [self._chains.arrays[str(name)] for both in attrs for name in both if name is not None]
        for array in pushed:  # motors whose effort does not depend on positions also have limits
            array.fill_(_PUSH * offset)
        try:
            efforts = self._run(self._states(), offset, self._settling())
        finally:
            for array in pushed:
                array.zero_()
        return np.asarray(efforts.max(axis=0) if offset > 0.0 else efforts.min(axis=0))

    def _settling(self) -> int:
        """Return the steps until delays and filters have settled, a multiple of the controllers' period."""
        return self.phases * math.ceil(self.length / self.phases) if self._is_stateful else 1

    def _states(self) -> _States:
        return [actuator.state() for actuator in self._actuators]

    def responses(self, offset: float, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
        """Return stiffness and damping around targets with this offset, shape (2, P, K, N, D)."""
        settled = self._states()
        self._run(settled, offset, self._settling())
        found = np.zeros((2, self.phases, self.length, *self._shape), np.float32)
        for kind in range(2):
            change = np.full(self._shape, _CHANGE[kind])
            for _ in range(8):
                response, most, least = self._response(settled, offset, kind, change)
                at_limit = (most > 0.6 * highest) | (least < 0.6 * lowest)
                if offset != 0.0 or not at_limit.any():
                    break
                change = np.where(at_limit, 0.2 * change, change)
            found[kind] = response
        peak = np.abs(found).max(axis=(1, 2), keepdims=True)
        found -= found[:, :, -1:] if self._is_stateful else 0.0
        return np.where(np.abs(found) > _SMALL * peak, found, 0.0)

    def _response(
        self, settled: _States, offset: float, kind: int, change: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the response to ``change`` in each phase, shape (P, K, N, D), and the highest and lowest effort."""
        response = np.empty((self.phases, self.length, *self._shape), np.float32)
        most, least = np.full(self._shape, -np.inf), np.full(self._shape, np.inf)
        for phase in range(self.phases):
            before = copy.deepcopy(settled)
            if phase:
                self._run(before, offset, phase)
            sides = []
            for sign in (1.0, -1.0):
                states = copy.deepcopy(before)
                sides.append(self._run(states, offset, self.length, kind, sign * change))
            response[phase] = -(sides[0] - sides[1]) / self._difference(kind, change)
            most = np.maximum(most, np.max(sides, axis=(0, 1)))
            least = np.minimum(least, np.min(sides, axis=(0, 1)))
        return response, most, least

    def _difference(self, kind: int, change: np.ndarray) -> np.ndarray:
        """Return the difference between the two sides of a change as rounded to float32, shape (N, D)."""
        at = np.zeros(self._shape, np.float32) if kind else self._start[self._places["joint_q"]]
        return (at + np.float32(change)).astype(np.float64) - (at - np.float32(change))

    def _run(
        self, states: _States, offset: float, steps: int, kind: int = 0, change: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Return efforts [N·m or N] over steps, the first with a changed position or velocity, shape (steps, N, D)."""
        q, qd = self._start.copy(), np.zeros(self._state["joint_qd"].shape, np.float32)
        chains = self._chains
        target = chains.arrays["joint_target_q"].numpy().copy()
        target[self._places["joint_target_q"]] = q[self._places["joint_q"]] + offset
        chains.arrays["joint_target_q"].assign(target)
        chains.states = chains.other_states = states
        efforts = np.zeros((steps, *self._shape))
        for step in range(steps):
            if step < 2:
                now, speed = q.copy(), qd.copy()
                changed = (now, speed)[kind]
                changed[self._places[("joint_q", "joint_qd")[kind]]] += np.float32(change if step == 0 else 0.0)
                self._state["joint_q"].assign(now)
                self._state["joint_qd"].assign(speed)
            chains.run(self._state, chains.arrays, self._dt)
            for actuator, at in zip(self._actuators, chains.places, strict=True):
                efforts[step].ravel()[at] = chains.arrays[actuator.control_output_attr].numpy()[at]
        bad = ~np.isfinite(efforts).all(axis=(0, 1))
        if bad.any():
            names = ", ".join(self._names[i] for i in np.flatnonzero(bad))
            raise SimulationError(f"efforts at rest are NaN or infinite at {names}; check the gains")
        return efforts
