# SPDX-License-Identifier: Apache-2.0
"""Robots of one kind, and which of them, and of their DOFs, a getter or setter means."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import warp as wp

from ..errors import SimulationError, shown
from ..typing import ArrayLike, IdsLike
from .buffers import Buffers
from .ids import ids_to_write, read_ids
from .robot import Robot
from .simulation import Simulation


class Selection:
    """N robots with D DOFs each."""

    simulation: Simulation
    """Where they are."""
    robot_ids: np.ndarray
    """Indices of the robots in ``simulation.robots``, shape (N,)."""
    paths: list[str]
    """Path of each robot."""
    dof_names: list[str]
    """Names of the DOFs, in the order of the columns."""

    @property
    def robots(self) -> list[Robot]:
        """What the simulation knows about each robot."""
        return [self.simulation.robots[i] for i in self.robot_ids]

    @functools.cached_property
    def env_ids(self) -> np.ndarray:
        """Environment of each robot, shape (N,)."""
        return np.array([robot.env for robot in self.robots])

    def __len__(self) -> int:
        return len(self.robot_ids)

    @property
    def num_dofs(self) -> int:
        """Number of DOFs, D."""
        return len(self.dof_names)

    def _rows(self, indices: IdsLike) -> np.ndarray:
        """Robots to read, as indices into those of the simulation."""
        self.simulation.check_open()
        return self.robot_ids if indices is None else self.robot_ids[read_ids("indices", indices, len(self))]

    def _copied(self, values: np.ndarray) -> wp.array:
        """A copy of a view, shape (N, ...)."""
        if not self.simulation.device.is_cpu:
            return self._array(values.copy())
        buffers = self._buffers.get(values.shape)
        if buffers is None:
            buffers = self._buffers[values.shape] = Buffers(values.shape)
        array, numbers = buffers.take()
        numbers[...] = values
        return array

    @functools.cached_property
    def _buffers(self) -> dict[tuple[int, ...], Buffers]:
        return {}

    def _array(self, values: np.ndarray) -> wp.array:
        return wp.array(values.astype(np.float32, copy=False), device=self.simulation.device, copy=False)

    def _chosen(self, values: np.ndarray, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        """Some of ``values``, of shape (N, D)."""
        return self._array(values[np.ix_(*self._subset(indices, dof_indices))])

    def _subset(self, indices: IdsLike, dof_indices: IdsLike) -> tuple[np.ndarray, np.ndarray]:
        self.simulation.check_open()
        robots = read_ids("indices", indices, len(self))
        return robots, read_ids("dof_indices", dof_indices, self.num_dofs)

    def places_to_write(self, indices: IdsLike, dof_indices: IdsLike) -> tuple[np.ndarray, np.ndarray]:
        """Rows of robots, shape (n,), and columns of DOFs, shape (d,), of a setter.

        Raises:
            SimulationError: One is not there, or named twice.
        """
        robots = self._rows_to_write(indices)
        return robots, ids_to_write("dof_indices", dof_indices, self.num_dofs)

    def _rows_to_write(self, indices: IdsLike) -> np.ndarray:
        """Rows of robots of a setter, shape (n,)."""
        self.simulation.check_open()
        return ids_to_write("indices", indices, len(self))

    def numbers(self, name: str, values: ArrayLike, shape: tuple[int, int], finite: bool = True) -> np.ndarray:
        """Values that a setter got, float32, broadcast to ``shape``.

        Raises:
            SimulationError: They do not fit, or are not finite in 32 bits.
        """
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        numbers: Any = values.numpy() if hasattr(values, "numpy") else values
        try:
            if not (isinstance(numbers, np.ndarray) and numbers.dtype == np.float32):
                with np.errstate(over="ignore"):
                    numbers = np.asarray(numbers, dtype=np.float32)
            if numbers.shape != shape:
                numbers = np.broadcast_to(numbers, shape)
        except (TypeError, ValueError) as error:
            got = f"shape {numbers.shape}" if isinstance(numbers, np.ndarray) else shown(values)
            raise SimulationError(f"{name}: got {got}; must fit the shape {shape}") from error
        if finite and not np.isfinite(numbers).all():
            raise SimulationError(f"{name}: got NaN or infinity; must be finite, in 32 bits too")
        return np.ascontiguousarray(numbers)
