# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities, targets and efforts of robots in Newton's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...errors import SimulationError
from ..engine import CONTROL, STATE
from ..robots import DofSet, Robot
from .implicit_efforts import Lines
from .reading import RobotFile
from .scatter import column_writer, scatter
from .solvers import Physics


class NewtonState:
    """State and control of all environments.

    Args:
        physics: The solver.
        file: Robots of an environment.
        robots: All robots.
        num_envs: Number of environments.
    """

    def __init__(self, physics: Physics, file: RobotFile, robots: Sequence[Robot], num_envs: int):
        self._newton, self._physics, self._num_envs = physics.newton, physics, num_envs
        self._model = model = physics.model
        self.state, self.control = model.state(), model.control()
        """Newton's state and control."""
        if file.stage is not None:
            self._newton.eval_ik(model, self.state, self.state.joint_q, self.state.joint_qd)
        else:
            self.pose_bodies()
        self._first = {kind: wp.clone(getattr(self.state, kind)) for kind in STATE}
        self._first |= {kind: wp.clone(getattr(self.control, kind)) for kind in CONTROL}
        self.arrays = SimpleNamespace(
            **{kind: getattr(self.state, kind) for kind in STATE},
            **{kind: getattr(self.control, kind) for kind in CONTROL},
        )
        """Flat arrays of state, targets and efforts for actuators."""
        kept = {**vars(self.arrays), "body_q": self.state.body_q, "body_qd": self.state.body_qd}
        self._views = {kind: array.numpy() for kind, array in kept.items()} if model.device.is_cpu else {}
        self.lines = Lines(physics, self.state, self.control, num_envs)
        """Efforts as lines."""
        self.are_loads_old = True
        """Whether a step was taken since loads of joints were read."""
        self._loads: wp.array | None = None
        self._read_loads: Callable[[], None] | None = None
        self._roots = np.array([robot.root_body for robot in robots])
        self._envs = np.array([robot.env for robot in robots])

    def refresh(self) -> None:
        """Do nothing: the arrays are the engine's own."""

    def pose_bodies(self) -> None:
        """Update the poses of bodies from their joints."""
        self._newton.eval_fk(self._model, self.state.joint_q, self.state.joint_qd, self.state)

    def numbers(self, kind: str) -> np.ndarray:
        """Return the values of an array of the state; on the CPU, the array itself."""
        return self._views[kind] if self._views else getattr(self.state, kind).numpy()

    def write(self, kind: str, at: DofSet, values: np.ndarray) -> None:
        """Set values of DOFs, float32 of shape (n, d)."""
        self.write_flat(kind, at.flat(kind), values)
        if kind == "joint_f" and self.lines.are_held:
            self.lines.level(at.flat(kind).ravel(), np.ravel(values))

    def write_flat(self, kind: str, places: np.ndarray, values: np.ndarray) -> None:
        """Set values at indices of a flat array, each of shape (n, d), and pose the bodies."""
        if self._views:
            self._views[kind][places] = values
        else:
            scatter(wp.array(values, dtype=wp.float32, device=self._model.device), places, getattr(self.arrays, kind))
        if kind in STATE:
            self.pose_bodies()

    def effort_writer(self, at: DofSet, efforts: wp.array) -> Callable[[], None]:
        """Return a function that writes ``efforts``, float32 of shape (n, D), of these DOFs to Newton."""
        return column_writer(efforts, at.dofs, at.flat("joint_f"), self.arrays.joint_f)

    def load_reader(self, at: DofSet, loads: wp.array) -> Callable[[], None] | None:
        """Return a function that writes the external loads in the last step to ``loads``; None without any."""
        if self._loads is None:
            told = wp.zeros_like(self.arrays.joint_qd)
            self._read_loads = self._physics.load_reader(told)
            self._loads = None if self._read_loads is None else told
        told = self._loads
        if told is None:
            return None

        def read() -> None:
            self._renew_loads()
            wp.copy(loads, told)

        return read

    def _renew_loads(self) -> None:
        """Read the loads of the last step, once."""
        if self.are_loads_old and self._read_loads is not None:
            self._read_loads()
            self.are_loads_old = False

    def loads(self) -> np.ndarray | None:
        """Return a copy of the external loads that `load_reader` writes next [N·m or N], shape (environments, DOFs)."""
        if self._loads is None:
            return None
        self._renew_loads()
        return np.array(self._loads.numpy().reshape(self._num_envs, -1))

    def set_loads(self, envs: np.ndarray, loads: np.ndarray) -> None:
        """Set the loads that `load_reader` writes until the next step, shape (n, DOFs)."""
        told = self.loads()
        if told is not None and self._loads is not None:
            told[envs] = loads
            self._loads.assign(told.ravel())

    def tendon_targets(self, at: DofSet) -> np.ndarray:
        """Return an array of shape (n, 0): Newton has no tendon drives."""
        return np.zeros((len(at), 0), np.float32)

    def set_tendon_targets(self, at: DofSet, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Raise an error: Newton has no tendon drives."""
        raise SimulationError("Newton has no tendon drives")

    def push(self, roots: np.ndarray, forces: np.ndarray) -> None:
        """Push these bodies with ``forces`` [N] of shape (n, 3), until the next call."""
        wrenches = self.state.body_f.numpy()
        wrenches[roots, :3] = forces
        self.state.body_f.assign(wrenches)

    def reset(self, envs: np.ndarray) -> None:
        """Return environments to their first state and targets."""
        for kind, first in self._first.items():
            target = getattr(self.arrays, kind)
            width = len(target) // self._num_envs
            if len(envs) == self._num_envs:
                wp.copy(target, first)
                continue
            for env in envs:
                wp.copy(target, first, dest_offset=int(env) * width, src_offset=int(env) * width, count=width)
        self.are_loads_old = True
        if self.lines.are_held:
            self.lines.reset(envs, self._first["joint_f"])
        self.push(self._roots[np.isin(self._envs, envs)], np.zeros((1, 3), np.float32))
        self._physics.reset(self.state, envs)
        self.pose_bodies()

    def _memory(self) -> list[wp.array | np.ndarray]:
        """Return all arrays that the next step depends on, each environment by environment."""
        own = [*vars(self.arrays).values(), self.state.body_q, self.state.body_qd, self.state.body_f]
        own += [self.lines.constant, self.lines.derivative] if self.lines.are_held else []
        return [array for array in (*own, *self._physics.memory(self.control)) if array.size]

    def save(self) -> np.ndarray:
        """Return all that the next step depends on, shape (environments, ...)."""
        rows = [as_numpy(array).reshape(self._num_envs, -1) for array in self._memory()]
        return np.concatenate(rows, axis=1, dtype=np.float64)

    def load(self, envs: np.ndarray, state: np.ndarray) -> None:
        """Load a state of `save` into environments, shape (n, ...)."""
        start = 0
        for array in self._memory():
            numbers = as_numpy(array)
            rows = numbers.reshape(self._num_envs, -1)
            rows[envs] = state[:, start : start + rows.shape[1]]
            start += rows.shape[1]
            if not isinstance(array, np.ndarray) and not self._model.device.is_cpu:
                array.assign(numbers)


def as_numpy(array: Any) -> np.ndarray:
    """Return an array as NumPy; on the CPU, the array itself."""
    return array if isinstance(array, np.ndarray) else array.numpy()
