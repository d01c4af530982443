# SPDX-License-Identifier: Apache-2.0
"""`Articulation`: robots of a simulation, by path, as arrays of shape (robots, DOFs)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from ..errors import SimulationError, listed
from ..typing import ArrayLike, IdsLike
from .claims import TARGETS, Unfollowed
from .dof_properties import DofProperties
from .robot import find_robots
from .root_states import RootStates
from .simulation import Simulation, current_simulation
from .tendon_targets import TendonTargets


class Articulation(DofProperties, RootStates, TendonTargets):
    """One robot, or many of the same kind.

    Getters return Warp arrays of shape (N, D). Setters take NumPy, Warp or PyTorch arrays, lists or numbers, which are
    broadcast. Both work on a subset: ``indices`` of robots, ``dof_indices`` of DOFs, as whole numbers, a slice or a
    mask. A getter returns an entry that is given twice twice; a setter refuses it. Joints of more than one DOF, such as
    a free base, are not among the DOFs.

    Args:
        paths: Path of a robot, a regex that matches the paths of several, or a list of these. The name of a robot alone
            means it in every environment.
        simulation: Default: the current one.
    """

    def __init__(self, paths: str | Sequence[str], simulation: Simulation | None = None):
        self.simulation = simulation or current_simulation()
        self._flat: dict[str, np.ndarray] = {}
        self._views: dict[str, tuple[wp.array, np.ndarray]] = {}
        self.robot_ids = np.array(find_robots(self.simulation.robots, paths))
        """Indices of the robots in ``simulation.robots``, shape (N,)."""
        self._unfollowed = Unfollowed(self.simulation, self.robot_ids)
        first = self.robots[0]
        for robot in self.robots:
            if robot.dof_names != first.dof_names:
                raise SimulationError(
                    f"'{robot.path}' has other joints than '{first.path}'; an articulation holds robots of one kind"
                )
        self.paths = [robot.path for robot in self.robots]
        """Path of each robot."""
        self.dof_names = list(first.dof_names)
        """Names of the DOFs, in the order of the columns."""
        self.dof_paths = [list(robot.dof_paths) for robot in self.robots]
        """Paths of the joints, for each robot."""
        self._everything = np.arange(len(self)), np.arange(self.num_dofs)

    def get_dof_indices(self, names: str | Sequence[str]) -> wp.array:
        """Columns of the DOFs with these names, int32 of shape (n,)."""
        return wp.array(self.dof_columns(names), dtype=wp.int32, device=self.simulation.device)

    def dof_columns(self, names: str | Sequence[str]) -> np.ndarray:
        """The same as NumPy."""
        chosen = [names] if isinstance(names, str) else list(names)
        for name in chosen:
            if name not in self.dof_names:
                raise SimulationError(
                    f"'{self.paths[0]}' has no DOF '{name}'; {listed(str(name), self.dof_names, 'DOFs')}"
                )
            if self.dof_names.count(name) > 1:
                raise SimulationError(f"'{self.paths[0]}' has {self.dof_names.count(name)} DOFs called '{name}'")
        return np.array([self.dof_names.index(name) for name in chosen], dtype=np.int64)

    def live(self, kind: str) -> wp.array | None:
        """Values as the simulation itself holds them, shape (N, D): not copied, and overwritten by the next step.

        For loops that count microseconds. Only to be read; what is written there need not reach the engine.

        Args:
            kind: ``"joint_q"``, ``"joint_qd"``, ``"joint_target_q"``, ``"joint_target_qd"`` or ``"joint_f"``.

        Returns:
            None where the DOFs of a robot do not lie side by side, as around a ball joint.
        """
        self.simulation.check_open()
        array = getattr(self.simulation.arrays, kind)
        at = _grid(self.flat_indices(kind))
        if at is None:
            return None
        first, step = at
        shape, size = (len(self), self.num_dofs), 4
        strides = (step * size, size)
        view = wp.array(
            ptr=array.ptr + first * size, shape=shape, strides=strides, dtype=wp.float32, device=array.device
        )
        view._kept = array
        return view

    def get_dof_positions(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Positions [rad or m]."""
        return self._get("joint_q", indices, dof_indices)

    def set_dof_positions(self, positions: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set joint positions [rad or m] immediately."""
        self._set("joint_q", positions, indices, dof_indices)

    def get_dof_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Velocities [rad/s or m/s]."""
        return self._get("joint_qd", indices, dof_indices)

    def set_dof_velocities(self, velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set joint velocities [rad/s or m/s] immediately."""
        self._set("joint_qd", velocities, indices, dof_indices)

    def get_dof_position_targets(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Target positions [rad or m]."""
        return self._get("joint_target_q", indices, dof_indices)

    def set_dof_position_targets(
        self, positions: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Command ``positions`` [rad or m], of actuators and of the engine's own drives alike."""
        self._set("joint_target_q", positions, indices, dof_indices)

    def get_dof_velocity_targets(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Target velocities [rad/s or m/s]."""
        return self._get("joint_target_qd", indices, dof_indices)

    def set_dof_velocity_targets(
        self, velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Command ``velocities`` [rad/s or m/s]."""
        self._set("joint_target_qd", velocities, indices, dof_indices)

    def get_dof_efforts(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Efforts from outside the engine [N·m or N], such as those of actuators."""
        return self._get("joint_f", indices, dof_indices)

    def set_dof_efforts(self, efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Apply ``efforts`` [N·m or N] from the next step on. On actuated DOFs the actuators overwrite them."""
        self._set("joint_f", efforts, indices, dof_indices)

    def values(self, kind: str) -> np.ndarray:
        """Values of ``kind``, such as ``"joint_q"``, as NumPy, shape (N, D). Does not refresh."""
        return self._view(kind).copy()

    def _view(self, kind: str) -> np.ndarray:
        """The same without a copy, where the DOFs lie side by side."""
        array = getattr(self.simulation.arrays, kind)
        known, view = self._views.get(kind, (None, None))
        if known is array and view is not None:
            return view
        flat, at = array.numpy(), _grid(self.flat_indices(kind))
        if at is None:
            return flat[self.flat_indices(kind)]
        first, step = at
        shape, strides = (len(self), self.num_dofs), (step * flat.itemsize, flat.itemsize)
        view = np.lib.stride_tricks.as_strided(flat[first:], shape, strides)
        if array.device.is_cpu:
            self._views[kind] = array, view
        return view

    def flat_indices(self, kind: str) -> np.ndarray:
        """Where the values of ``kind`` lie in the simulation's arrays, shape (N, D)."""
        if kind not in self._flat:
            self._flat[kind] = np.stack([robot.indices(kind) for robot in self.robots])
        return self._flat[kind]

    def _get(self, kind: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        self.simulation.check_open()
        self.simulation.refresh()
        values = self._view(kind)
        if indices is None and dof_indices is None:
            return self._copied(values)
        return self._array(values[np.ix_(*self._subset(indices, dof_indices))])

    def _set(self, kind: str, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        self.simulation.check_open()
        rows, dofs = self._everything
        if indices is not None or dof_indices is not None:
            rows, dofs = self.places_to_write(indices, dof_indices)
        if not len(rows) or not len(dofs):
            return
        numbers = self.numbers(kind, values, (len(rows), len(dofs)))
        if kind in TARGETS:
            lost = self._unfollowed.among(kind, rows, dofs)
            if lost is not None:
                self._check_same(kind, rows, dofs, lost & (numbers != self.values(kind)[np.ix_(rows, dofs)]))
        self.simulation.write(kind, self.robot_ids[rows], dofs, numbers)

    def _check_same(self, kind: str, rows: np.ndarray, dofs: np.ndarray, is_other: np.ndarray) -> None:
        """Refuse targets that nothing follows, where they are other than before."""
        told = np.argwhere(is_other)
        if told.size:
            path, names = self.paths[rows[told[0, 0]]], [self.dof_names[dofs[i]] for i in np.unique(told[:, 1])]
            raise SimulationError(
                f"nothing follows a target {TARGETS[kind]} of {', '.join(names)} of '{path}': the model has no such "
                "drive there, and no actuators are attached. Attach some first, or leave these joints out with "
                "dof_indices="
            )


def _grid(indices: np.ndarray) -> tuple[int, int] | None:
    """First index, and distance of rows, where ``indices`` of shape (n, d) lie side by side in rows; None elsewhere."""
    first = int(indices[0, 0])
    step = int(indices[1, 0]) - first if len(indices) > 1 else indices.shape[1]
    rows, columns = (np.arange(length) for length in indices.shape)
    return (first, step) if (indices == first + rows[:, None] * step + columns).all() else None
