# SPDX-License-Identifier: Apache-2.0
"""Stops a simulation that diverged, and says which joint started it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import SimulationError

if TYPE_CHECKING:
    from .robots import Robot

HUGE = 1.0e10
"""A position [rad or m] or velocity [rad/s or m/s] beyond it has diverged. MuJoCo draws the same line."""
_HUGE_SQUARED = np.float32(HUGE**2)
_STEPS = (16, 2048)
"""How many steps are remembered, at least and at most."""
_NUMBERS = 1 << 20
"""How many speeds are remembered, of all DOFs, beyond the least number of steps."""
_FAST = 1.0
"""Motion within one step [rad or m] from which on the arithmetic alone makes a robot diverge."""
_QUICK = 0.1
"""Motion within one step [rad or m] that may be the begin of it, where it is also `_FASTER` than before."""
_FASTER = 10.0
_BEFORE = 8
_ONSET = 32
"""Steps around its begin in which energy is counted."""


class StateWatch:
    """Looks at the state of a simulation after each step, and remembers the last ones.

    In a coupled robot, one unstable joint takes the others along, the light ones faster than itself, until everything
    is NaN in the same step. Energy tells them apart: over a step, an effort τ puts in τ·(q̇₀ + q̇₁)/2·dt, which is
    positive and grows where the effort drives the instability, and negative on joints whose motors only resist.

    Args:
        robots: All robots, environment by environment.
        num_envs: Number of environments.
        arrays: ``joint_q``, ``joint_qd`` and ``joint_f`` of all robots, flat Warp arrays on the CPU.
    """

    def __init__(self, robots: list[Robot], num_envs: int, arrays: SimpleNamespace):
        self._robots, self._num_envs = robots, num_envs
        self._position, self._velocity, self._effort = (
            getattr(arrays, kind).numpy() for kind in ("joint_q", "joint_qd", "joint_f")
        )
        width = len(self._velocity)
        self._steps = int(np.clip(_NUMBERS // max(width, 1), *_STEPS))
        self._velocities = np.zeros((self._steps, width), np.float32)
        self._efforts = np.zeros((self._steps, width), np.float32)
        self.time: float
        """Time of the last step that is remembered [s]."""
        self.forget()

    def forget(self) -> None:
        """Forget all steps, as after a reset."""
        self._length = 0
        self.time = -1.0

    def is_sound(self) -> bool:
        """Whether no position or velocity is NaN, infinite or huge."""
        return _is_sound(self._position) and _is_sound(self._velocity)

    def check(self, time: float, dt: float, sound: bool, env: int | None = None) -> None:
        """Remember the state at ``time`` [s], after a step of ``dt`` [s].

        Args:
            time: Simulated time [s].
            dt: Time step [s].
            sound: Whether no position or velocity is NaN, infinite or huge.
            env: Environment to name where one is. Default: the first in which one is.

        Raises:
            SimulationError: It is not sound; says which joint diverged.
        """
        if not sound:
            what, joint = self._what_diverged(dt, env)
            error = SimulationError(f"t = {time:.6g} s: {what}")
            error.joint = joint
            raise error
        self.remember(time, self._velocity, self._effort)

    @property
    def ring(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Rows to which an engine writes velocities and efforts of its steps itself, and how many there are.

        It begins with row `length`, modulo that number, and tells `extend`.
        """
        return self._steps, self._velocities, self._efforts

    @property
    def length(self) -> int:
        """How many steps were remembered since the last `forget`."""
        return self._length

    def extend(self, steps: int, time: float) -> None:
        """Take over steps that an engine has written to the `ring`, up to ``time`` [s]."""
        self._length += steps
        self.time = time

    def remember(self, time: float, velocity: np.ndarray, effort: np.ndarray) -> None:
        """Remember what was sound at ``time`` [s]: velocities and efforts, flat as the simulation's are."""
        if time != self.time:
            row = self._length % self._steps
            self._velocities[row] = velocity
            self._efforts[row] = effort
            self._length += 1
            self.time = time

    def _what_diverged(self, dt: float, env: int | None) -> tuple[str, str | None]:
        """Say what diverged in a step of ``dt`` [s], and name the joint that did it; None for that of a base."""
        found = []
        for kind, values in (("joint_q", self._position), ("joint_qd", self._velocity)):
            places = np.flatnonzero(~(np.abs(values) <= HUGE))
            envs = places * self._num_envs // len(values)
            found += [(kind, values, int(i)) for i in places[slice(None) if env is None else envs == env][:1]]
        kind, values, first = found[0]
        env = first * self._num_envs // len(values)
        joints = [(robot, i) for robot in self._robots if robot.env == env for i in range(len(robot.dofs))]
        dofs = np.array([robot.dofs[i] for robot, i in joints])
        state = np.stack([self._position[[robot.coordinates[i] for robot, i in joints]], self._velocity[dofs]])
        bad = ~(np.abs(state) <= HUGE)
        if not bad.any():
            return f"{kind}[{first}], of a free base or ball joint, is {values[first]:.6g}", None
        fast = ~(np.abs(state[1]) * dt < _FAST)
        chosen = np.flatnonzero(bad.any(axis=0) | fast)  # what moves as usual has no part in it
        column = int(chosen[self._first_to_leave(dofs[chosen], dt)])
        what, value = ("position", state[0, column]) if bad[0, column] else ("velocity", state[1, column])
        robot, i = joints[column]
        end = "; it diverged" if np.isfinite(value) else ""
        name = robot.dof_names[i]
        return f"the {what} of joint '{name}' of '{robot.path}' is {value:.6g}{end}", name

    def _first_to_leave(self, dofs: np.ndarray, dt: float) -> int:
        """Which of ``dofs`` got the most energy from its effort when the motion began to grow; without efforts, which
        is the fastest."""
        rows = [i % self._steps for i in range(max(0, self._length - self._steps), self._length)]
        now = np.abs(self._velocity[dofs])
        speeds = self._velocities[rows][:, dofs].astype(np.float64)
        efforts = self._efforts[rows][:, dofs].astype(np.float64)
        if np.isfinite(now).all():
            speeds = np.vstack([speeds, self._velocity[dofs]])
            efforts = np.vstack([efforts, self._effort[dofs]])
        paces = dt * np.abs(speeds).max(axis=1, initial=0.0)
        usual = np.percentile(paces, 25) if len(paces) else 0.0
        leaves = np.flatnonzero(paces > np.clip(_FASTER * usual, _QUICK, _FAST))
        begin = int(leaves[0]) if leaves.size else max(0, len(paces) - _ONSET)
        fast = np.flatnonzero(paces[begin:] >= _FAST)
        length = min(int(fast[0]) + 1 if fast.size else _ONSET, _ONSET)
        onset = slice(max(0, begin - _BEFORE), begin + length)
        powers = efforts[onset][1:] * (speeds[onset][1:] + speeds[onset][:-1])
        energy = powers.cumsum(axis=0).max(axis=0, initial=0.0)
        return int((energy if (energy > 0.0).any() else np.where(np.isnan(now), np.inf, now)).argmax())


def _is_sound(values: np.ndarray) -> bool:
    """Whether all values, of shape (n,), are finite, and none is huge.

    Where the sum of their squares is within the square of what is huge, each of them is: one call in place of three.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(values.dot(values) <= _HUGE_SQUARED) or bool((np.absolute(values) <= HUGE).all())
