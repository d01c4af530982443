# SPDX-License-Identifier: Apache-2.0
"""Detection of divergence, with the joint that started it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import SimulationError

if TYPE_CHECKING:
    from .robots import Robot

HUGE = 1.0e10
"""Position [rad or m] or velocity [rad/s or m/s] beyond which a simulation has diverged, as in MuJoCo."""
_HUGE_SQUARED = np.float32(HUGE**2)
_STEPS = (16, 2048)
"""Smallest and largest number of steps that are remembered."""
_NUMBERS = 1 << 20
"""Number of remembered speeds of all DOFs, above the smallest number of steps."""
_FAST = 1.0
"""Motion within one step [rad or m] beyond which the integration itself diverges."""
_QUICK = 0.1
"""Motion within one step [rad or m] that may start a divergence, if it is also `_FASTER` than before."""
_FASTER = 10.0
_BEFORE = 8
_ONSET = 32
"""Steps around the start of a divergence whose energy is counted."""


def divergence(time: float, env: int, causes: Mapping[int, tuple[str, str | None]]) -> SimulationError:
    """Return the error of environments that diverged.

    Args:
        time: Time at which the first one did [s].
        env: The first one.
        causes: What diverged, as text, and the joint that caused it, by environment.
    """
    text, joint = causes[env]
    error = SimulationError(f"t = {time:.6g} s: {text}")
    error.joint, error.diverged = joint, {each: cause[1] for each, cause in causes.items()}
    return error


class StateWatch:
    """Check of the state after each step, with a memory of the last steps.

    In a coupled robot, one unstable joint moves the others, the light ones faster than itself, until all are NaN in the
    same step. Energy identifies it: in a step, an effort τ adds τ·(q̇₀ + q̇₁)/2·dt, which is positive and grows at the
    joint that drives the instability, and is negative at joints whose motors only resist.

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
        """Time of the last remembered step [s]."""
        self.forget()

    def forget(self) -> None:
        """Forget all steps, as after a reset."""
        self._length = 0
        self.time = -1.0

    def is_sound(self) -> bool:
        """Whether no position or velocity is NaN, infinite or huge."""
        return _is_sound(self._position) and _is_sound(self._velocity)

    def check(self, time: float, dt: float, sound: bool) -> None:
        """Remember the state at ``time`` [s], after a step of ``dt`` [s].

        Args:
            time: Simulated time [s].
            dt: Time step [s].
            sound: Whether no position or velocity is NaN, infinite or huge.

        Raises:
            SimulationError: The state is not sound; names the joint that diverged.
        """
        if not sound:
            values = np.stack(
                [np.abs(side.reshape(self._num_envs, -1)).max(axis=1) for side in (self._position, self._velocity)]
            )
            bad = np.flatnonzero(~(values <= HUGE).all(axis=0)).tolist()
            raise divergence(time, bad[0], {each: self.what_diverged(dt, each) for each in bad})
        self.remember(time, self._velocity, self._effort)

    @property
    def ring(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Rows to which an engine writes velocities and efforts of its steps, and their number.

        It starts at row `length`, modulo that number, and then calls `extend`.
        """
        return self._steps, self._velocities, self._efforts

    @property
    def length(self) -> int:
        """Number of steps since the last `forget`."""
        return self._length

    def extend(self, steps: int, time: float) -> None:
        """Accept steps that an engine has written to the `ring`, up to ``time`` [s]."""
        self._length += steps
        self.time = time

    def remember(self, time: float, velocity: np.ndarray, effort: np.ndarray) -> None:
        """Remember the sound velocities and efforts at ``time`` [s], flat as the simulation's arrays."""
        if time != self.time:
            row = self._length % self._steps
            self._velocities[row] = velocity
            self._efforts[row] = effort
            self._length += 1
            self.time = time

    def what_diverged(self, dt: float, env: int) -> tuple[str, str | None]:
        """Return what diverged in a step of ``dt`` [s], as text, and the joint that caused it; None for a base."""
        found = []
        for kind, values in (("joint_q", self._position), ("joint_qd", self._velocity)):
            places = np.flatnonzero(~(np.abs(values) <= HUGE))
            envs = places * self._num_envs // len(values)
            found += [(kind, values, int(i)) for i in places[envs == env][:1]]
        kind, values, first = found[0]
        joints = [(robot, i) for robot in self._robots if robot.env == env for i in range(len(robot.dofs))]
        dofs = np.array([robot.dofs[i] for robot, i in joints])
        state = np.stack([self._position[[robot.coordinates[i] for robot, i in joints]], self._velocity[dofs]])
        bad = ~(np.abs(state) <= HUGE)
        if not bad.any():
            return f"{kind}[{first}], of a free base or ball joint, is {values[first]:.6g}", None
        fast = ~(np.abs(state[1]) * dt < _FAST)
        chosen = np.flatnonzero(bad.any(axis=0) | fast)  # joints that move as usual did not cause it
        column = int(chosen[self._first_to_leave(dofs[chosen], dt)])
        what, value = ("position", state[0, column]) if bad[0, column] else ("velocity", state[1, column])
        robot, i = joints[column]
        end = "; it diverged" if np.isfinite(value) else ""
        name = robot.dof_names[i]
        return f"the {what} of joint '{name}' of '{robot.path}' is {value:.6g}{end}", name

    def _first_to_leave(self, dofs: np.ndarray, dt: float) -> int:
        """Return the one of ``dofs`` that received most energy when the motion began to grow; without efforts, the
        fastest."""
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
    """Return whether all values, of shape (n,), are finite, and none is huge.

    If the sum of squares is below the square of the limit, each value is below it: one call instead of three.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(values.dot(values) <= _HUGE_SQUARED) or bool((np.absolute(values) <= HUGE).all())
