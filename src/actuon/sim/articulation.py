# SPDX-License-Identifier: Apache-2.0
"""`Articulation`: robots of a simulation, by path, as arrays of shape (robots, DOFs)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from ..errors import SimulationError, listed
from ..typing import ArrayLike, IdsLike
from .claims import TARGETS, Unfollowed
from .ids import ids_to_write, read_ids
from .robot import Robot, find_robots
from .simulation import Simulation, current_simulation
from .tendon_targets import TendonTargets


class Articulation(TendonTargets):
    """One robot, or many of the same kind.

    Getters return Warp arrays of shape (N, D). Setters take NumPy, Warp or PyTorch arrays, lists or numbers, which are
    broadcast. Both work on a subset: ``indices`` of robots, ``dof_indices`` of DOFs, as whole numbers, a slice or a
    mask. A getter returns what is named twice twice; a setter refuses it. Joints of more than one DOF, such as a free
    base, are not among the DOFs.

    Args:
        paths: Path of a robot, a regex that matches the paths of several, or a list of these. The name of a robot alone
            means it in every environment.
        simulation: Default: the current one.
    """

    def __init__(self, paths: str | Sequence[str], simulation: Simulation | None = None):
        self.simulation = simulation or current_simulation()
        self._robots = find_robots(self.simulation.robots, paths)
        self._flat: dict[str, np.ndarray] = {}
        self._views: dict[str, tuple[wp.array, np.ndarray]] = {}
        self.robot_ids = np.array(self._robots)
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

    @property
    def robots(self) -> list[Robot]:
        """What the simulation knows about each robot."""
        return [self.simulation.robots[i] for i in self._robots]

    def __len__(self) -> int:
        return len(self._robots)

    @property
    def num_dofs(self) -> int:
        """Number of DOFs, D."""
        return len(self.dof_names)

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

    def get_dof_positions(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Positions [rad or m]."""
        return self._get("joint_q", indices, dof_indices)

    def set_dof_positions(self, positions: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Move joints to ``positions`` [rad or m] at once."""
        self._set("joint_q", positions, indices, dof_indices)

    def get_dof_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Velocities [rad/s or m/s]."""
        return self._get("joint_qd", indices, dof_indices)

    def set_dof_velocities(self, velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Give joints ``velocities`` [rad/s or m/s] at once."""
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

    def get_dof_limits(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Lowest and highest position [rad or m], at the stops of the joints; ±inf where there is none."""
        lower, upper = self.simulation.dof_limits(self.robot_ids)
        return self._chosen(lower, indices, dof_indices), self._chosen(upper, indices, dof_indices)

    def set_dof_limits(
        self, lower: ArrayLike, upper: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Move the stops of joints [rad or m]; ±inf takes one off."""
        robots, dofs = self.places_to_write(indices, dof_indices)
        shape = (len(robots), len(dofs))
        low, high = (self.numbers(n, v, shape, finite=False) for n, v in (("lower", lower), ("upper", upper)))
        if not (low <= high).all():
            raise SimulationError("limits: got a lower one above the upper one, or NaN; must be lower ≤ upper")
        if low.size:
            self.simulation.set_dof_limits(self.robot_ids[robots], dofs, low, high)

    def get_dof_armatures(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Inertia that is added to joints [kg·m² or kg], such as that of rotors."""
        return self._property("armature", indices, dof_indices)

    def set_dof_armatures(self, armatures: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set them, in the engine. Robots may differ."""
        self._set_property("armature", armatures, indices, dof_indices)

    def get_dof_friction(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Dry friction [N·m or N] and viscous friction [N·m·s/rad or N·s/m] that the engine applies at joints."""
        names = ("friction", "viscous_friction")
        dry, viscous = (self._property(name, indices, dof_indices) for name in names)
        return dry, viscous

    def set_dof_friction(
        self,
        dry: ArrayLike | None = None,
        viscous: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set them, in the engine. None keeps what it is."""
        for name, values in (("friction", dry), ("viscous_friction", viscous)):
            if values is not None:
                self._set_property(name, values, indices, dof_indices)

    def get_dof_max_efforts(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Largest effort of the engine's own drives [N·m or N]; inf where there is no limit."""
        return self._property("effort_limit", indices, dof_indices)

    def set_dof_max_efforts(self, max_efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set it; inf takes a limit off."""
        self._set_property("effort_limit", max_efforts, indices, dof_indices)

    def get_dof_max_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Largest speed that the engine lets joints have [rad/s or m/s]; inf where there is no limit."""
        return self._property("velocity_limit", indices, dof_indices)

    def set_dof_max_velocities(
        self, max_velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set it. MuJoCo has no such limit, and says so."""
        self._set_property("velocity_limit", max_velocities, indices, dof_indices)

    def _property(self, name: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        self.simulation.check_open()
        values = self.simulation.dof_property(name, self.robot_ids)
        if values is None:
            values = np.full((len(self), self.num_dofs), np.inf)
        return self._chosen(np.where(values >= self.simulation.no_limit, np.inf, values), indices, dof_indices)

    def _set_property(self, name: str, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        self.simulation.check_open()
        robots, dofs = self.places_to_write(indices, dof_indices)
        may_be_infinite = name in ("effort_limit", "velocity_limit")
        numbers = self.numbers(name, values, (len(robots), len(dofs)), finite=not may_be_infinite)
        if not (numbers >= 0.0).all():
            raise SimulationError(f"{name}: got {numbers.min()}; must be ≥ 0")
        if numbers.size:
            numbers = np.minimum(numbers, self.simulation.no_limit)
            self.simulation.set_dof_property(name, self.robot_ids[robots], dofs, numbers)

    def get_dof_gains(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Stiffness [N·m/rad or N/m] and damping [N·m·s/rad or N·s/m] of the engine's own drives."""
        stiffness, damping = self.simulation.gains(self.robot_ids)
        return self._chosen(stiffness, indices, dof_indices), self._chosen(damping, indices, dof_indices)

    def set_dof_gains(
        self,
        stiffnesses: ArrayLike | None = None,
        dampings: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set the gains of the engine's own drives. None keeps what they are."""
        robots, dofs = self.places_to_write(indices, dof_indices)
        if not len(robots) or not len(dofs):
            return
        self.simulation.check_free(self.robot_ids[robots], dofs)
        before = self.simulation.gains(self.robot_ids[robots])
        shape = (len(robots), len(dofs))
        values = [
            now[:, dofs] if given is None else self.numbers(name, given, shape)
            for name, given, now in zip(("stiffnesses", "dampings"), (stiffnesses, dampings), before, strict=True)
        ]
        self.simulation.set_gains(self.robot_ids[robots], dofs, *values)

    @property
    def link_names(self) -> list[str]:
        """Names of the links, the root first, in the order of the columns of `get_link_masses`."""
        return self.simulation.link_names(int(self.robot_ids[0]))

    def get_link_masses(self, indices: IdsLike = None, link_indices: IdsLike = None) -> wp.array:
        """Masses of links [kg], shape (n, l)."""
        masses = self.simulation.link_masses(self.robot_ids)
        chosen = read_ids("indices", indices, len(self)), read_ids("link_indices", link_indices, masses.shape[1])
        return self._array(masses[np.ix_(*chosen)])

    def set_link_masses(self, masses: ArrayLike, indices: IdsLike = None, link_indices: IdsLike = None) -> None:
        """Set them. Inertias stay as they are."""
        robots = ids_to_write("indices", indices, len(self))
        links = ids_to_write("link_indices", link_indices, len(self.link_names))
        numbers = self.numbers("masses", masses, (len(robots), len(links)))
        if not (numbers >= 0.0).all():
            raise SimulationError(f"masses: got {numbers.min()}; must be ≥ 0 [kg]")
        if numbers.size:
            self.simulation.set_link_masses(self.robot_ids[robots], links, numbers)

    def get_root_poses(self, indices: IdsLike = None) -> wp.array:
        """Position [m] and orientation (quaternion x, y, z, w) of root bodies in the world, shape (n, 7)."""
        return self._array(self.simulation.root_poses(self._rows(indices)))

    def set_root_poses(self, poses: ArrayLike, indices: IdsLike = None) -> None:
        """Move robots with a free base, to poses as above."""
        robots = ids_to_write("indices", indices, len(self))
        numbers = self.numbers("poses", poses, (len(robots), 7))
        if not np.linalg.norm(numbers[:, 3:], axis=1).all():
            raise SimulationError("poses: got a quaternion of length 0")
        if numbers.size:
            self.simulation.set_root_poses(self.robot_ids[robots], numbers)

    def get_root_velocities(self, indices: IdsLike = None) -> wp.array:
        """Linear [m/s] and angular velocity [rad/s] of root bodies in the world, of their origin, shape (n, 6)."""
        return self._array(self.simulation.root_velocities(self._rows(indices)))

    def set_root_velocities(self, velocities: ArrayLike, indices: IdsLike = None) -> None:
        """Give robots with a free base velocities as above."""
        robots = ids_to_write("indices", indices, len(self))
        numbers = self.numbers("velocities", velocities, (len(robots), 6))
        if numbers.size:
            self.simulation.set_root_velocities(self.robot_ids[robots], numbers)

    def push(self, forces: ArrayLike, indices: IdsLike = None) -> None:
        """Push root bodies with ``forces`` [N], in the world's frame, shape (3,) or (n, 3), until told otherwise."""
        robots = ids_to_write("indices", indices, len(self))
        self.simulation.push(self.robot_ids[robots], self.numbers("forces", forces, (len(robots), 3)))

    def _rows(self, indices: IdsLike) -> np.ndarray:
        """Robots to read, as indices into those of the simulation."""
        self.simulation.check_open()
        return self.robot_ids if indices is None else self.robot_ids[read_ids("indices", indices, len(self))]

    def _array(self, values: np.ndarray) -> wp.array:
        return wp.array(values.astype(np.float32, copy=False), device=self.simulation.device, copy=False)

    def _chosen(self, values: np.ndarray, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        """Some of ``values``, of shape (N, D)."""
        return self._array(values[np.ix_(*self._subset(indices, dof_indices))])

    def _subset(self, indices: IdsLike, dof_indices: IdsLike) -> tuple[np.ndarray, np.ndarray]:
        robots = read_ids("indices", indices, len(self))
        return robots, read_ids("dof_indices", dof_indices, self.num_dofs)

    def places_to_write(self, indices: IdsLike, dof_indices: IdsLike) -> tuple[np.ndarray, np.ndarray]:
        """Rows of robots, shape (n,), and columns of DOFs, shape (d,), of a setter.

        Raises:
            SimulationError: One is not there, or named twice.
        """
        robots = ids_to_write("indices", indices, len(self))
        return robots, ids_to_write("dof_indices", dof_indices, self.num_dofs)

    def values(self, kind: str) -> np.ndarray:
        """Values of ``kind``, such as ``"joint_q"``, as NumPy, shape (N, D). Does not refresh."""
        array = getattr(self.simulation.arrays, kind)
        known, view = self._views.get(kind, (None, None))
        if known is not array or view is None:
            flat = array.numpy()
            view = _grid(flat, self.flat_indices(kind))
            if view is None:
                return flat[self.flat_indices(kind)]
            if array.device.is_cpu:
                self._views[kind] = array, view
        return view.copy()

    def flat_indices(self, kind: str) -> np.ndarray:
        """Where the values of ``kind`` lie in the simulation's arrays, shape (N, D)."""
        if kind not in self._flat:
            self._flat[kind] = np.stack([robot.indices(kind) for robot in self.robots])
        return self._flat[kind]

    def _get(self, kind: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        self.simulation.check_open()
        self.simulation.refresh()
        values = self.values(kind)
        if indices is not None or dof_indices is not None:
            values = values[np.ix_(*self._subset(indices, dof_indices))]
        return self._array(values)

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

    def numbers(self, name: str, values: ArrayLike, shape: tuple[int, int], finite: bool = True) -> np.ndarray:
        """Values that a setter got, float32, broadcast to ``shape``.

        Raises:
            SimulationError: They do not fit, or are not finite in 32 bits.
        """
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        numbers = values.numpy() if hasattr(values, "numpy") else values
        try:
            with np.errstate(over="ignore"):
                numbers = np.asarray(numbers, dtype=np.float32)
            if numbers.shape != shape:
                numbers = np.broadcast_to(numbers, shape)
        except (TypeError, ValueError) as error:
            raise SimulationError(f"{name}: got {values!r}; must fit the shape {shape}") from error
        if finite and not np.isfinite(numbers).all():
            raise SimulationError(f"{name}: got NaN or infinity; must be finite, in 32 bits too")
        return np.ascontiguousarray(numbers)


def _grid(flat: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """A view of ``flat`` at ``indices`` of shape (n, d), where these lie side by side in rows; None elsewhere."""
    first = int(indices[0, 0])
    step = int(indices[1, 0]) - first if len(indices) > 1 else 0
    rows, columns = (np.arange(length) for length in indices.shape)
    if (indices != first + rows[:, None] * step + columns).any():
        return None
    return np.lib.stride_tricks.as_strided(flat[first:], indices.shape, (step * flat.itemsize, flat.itemsize))
