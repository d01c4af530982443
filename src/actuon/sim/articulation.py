# SPDX-License-Identifier: Apache-2.0
"""`Articulation`: robots of a simulation, by path, as arrays of shape (robots, DOFs)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from ..arrays import require_values
from ..errors import SimulationError, listed, shown
from ..typing import ArrayLike, IdsLike
from .engine import PROPERTIES, TARGETS
from .ids import ids_to_write, read_ids
from .robots import DofSet, Robot, find_robots
from .simulation import Simulation, current_simulation

_WXYZ = [6, 3, 4, 5]
"""Columns of Isaac Sim's quaternions in a pose, whose own order is x, y, z, w."""


class Articulation:
    """One robot, or many of the same kind.

    Getters return Warp arrays of shape (N, D). Setters take NumPy, Warp or PyTorch arrays, lists or numbers, which are
    broadcast. Both accept a subset: ``indices`` of robots, ``dof_indices`` of DOFs, as whole numbers, a slice or a
    mask. Getters return duplicated indices twice; setters raise an error. Joints of more than one DOF, such as a free
    base, are not among the DOFs.

    Args:
        paths: Path of a robot, a regex that matches the paths of several, or a list of these. The name of a robot
            selects it in every environment.
        simulation: Default: the current one.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=4):
        ...     robots = actuon.Articulation("link0")
        ...     print(len(robots), robots.num_dofs, robots.dof_names[:2])
        4 7 ['joint1', 'joint2']
    """

    def __init__(self, paths: str | Sequence[str], simulation: Simulation | None = None):
        self.simulation = simulation or current_simulation()
        """Simulation of the robots."""
        self.robot_ids = np.array(find_robots(self.simulation.robots, paths))
        """Indices of the robots in ``simulation.robots``, shape (N,)."""
        self.robots: list[Robot] = [self.simulation.robots[i] for i in self.robot_ids]
        """Names, paths and indices of each robot."""
        first = self.robots[0]
        for robot in self.robots:
            if robot.dof_names != first.dof_names:
                raise SimulationError(
                    f"'{robot.path}' has other joints than '{first.path}'; an articulation holds robots of one kind"
                )
        self.paths = [robot.path for robot in self.robots]
        """Path of each robot."""
        self.env_ids = np.array([robot.env for robot in self.robots])
        """Environment of each robot, shape (N,)."""
        self.dof_names = list(first.dof_names)
        """Names of the DOFs, in the order of the columns."""
        self.link_names = list(first.link_names)
        """Names of the links, the root first, in the order of the columns of `get_link_masses`."""
        self.at = DofSet(self.simulation.robots, self.robot_ids)
        """All DOFs of all robots."""
        self._views: dict[str, tuple[wp.array, np.ndarray]] = {}
        self._unused: dict[str, tuple[tuple[int, int], np.ndarray | None]] = {}
        self._slabs: dict[tuple[int, ...], _Slab] = {}

    def __len__(self) -> int:
        return len(self.robot_ids)

    @functools.cached_property
    def dof_paths(self) -> list[list[str]]:
        """Paths of the joints, for each robot."""
        return [list(robot.dof_paths) for robot in self.robots]

    @property
    def num_dofs(self) -> int:
        """Number of DOFs, D."""
        return len(self.dof_names)

    def get_dof_indices(self, names: str | Sequence[str]) -> wp.array:
        """Columns of the DOFs with these names, int32 of shape (n,).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_indices(["joint2", "joint4"]).numpy())
            [1 3]
        """
        return wp.array(self.dof_columns(names), dtype=wp.int32, device=self.simulation.device)

    def dof_columns(self, names: str | Sequence[str]) -> np.ndarray:
        """Return columns of the DOFs with these names as NumPy, shape (n,).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.dof_columns(["joint2", "joint4"]))
            [1 3]
        """
        return self._find([names] if isinstance(names, str) else list(names), self.dof_names, "DOF")

    # State, targets and efforts

    def get_dof_positions(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Positions [rad or m].

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_positions().shape)
            ...     print(robots.get_dof_positions([0], robots.dof_columns(["joint2", "joint4"])))
            (2, 7)
            [[-0.7853982 -2.3561945]]
        """
        return self._get("joint_q", indices, dof_indices)

    def set_dof_positions(self, positions: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set joint positions [rad or m] immediately.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_positions(0.1, indices=[1], dof_indices=[0])
            ...     print(robots.get_dof_positions(dof_indices=[0]).numpy().ravel())
            [0.  0.1]
        """
        self._set("joint_q", positions, indices, dof_indices)

    def get_dof_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Velocities [rad/s or m/s].

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_velocities(dof_indices=[0, 1]))
            [[0. 0.]
             [0. 0.]]
        """
        return self._get("joint_qd", indices, dof_indices)

    def set_dof_velocities(self, velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set joint velocities [rad/s or m/s] immediately.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_velocities([[0.5], [-0.5]], dof_indices=[6])
            ...     print(robots.get_dof_velocities(dof_indices=[6]).numpy().ravel())
            [ 0.5 -0.5]
        """
        self._set("joint_qd", velocities, indices, dof_indices)

    def get_dof_position_targets(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Target positions [rad or m].

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_position_targets([0], slice(0, 4)))
            [[ 0.        -0.7853982  0.        -2.3561945]]
        """
        return self._get("joint_target_q", indices, dof_indices)

    def set_dof_position_targets(
        self, positions: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set target positions [rad or m] of actuators and of engine drives.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_position_targets([[0.2], [0.4]], dof_indices=[3])
            ...     print(robots.get_dof_position_targets(dof_indices=[3]).numpy().ravel())
            [0.2 0.4]
        """
        self._set("joint_target_q", positions, indices, dof_indices)

    def get_dof_velocity_targets(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Target velocities [rad/s or m/s].

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_velocity_targets([0], [0, 1]))
            [[0. 0.]]
        """
        return self._get("joint_target_qd", indices, dof_indices)

    def set_dof_velocity_targets(
        self, velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set target velocities [rad/s or m/s] of actuators and of engine drives.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     robots.set_dof_velocity_targets(0.3, dof_indices=[0, 1])
            ...     print(robots.get_dof_velocity_targets(indices=[0], dof_indices=[0, 1]).numpy())
            [[0.3 0.3]]
        """
        self._set("joint_target_qd", velocities, indices, dof_indices)

    def get_dof_efforts(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Efforts from outside the engine [N·m or N], such as those of actuators.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     simulation.step(10)
            ...     print(actuators.articulation.get_dof_efforts(dof_indices=[1, 3]).numpy().round(1))
            [[ 1.9 12.7]]
        """
        return self._get("joint_f", indices, dof_indices)

    def set_dof_efforts(self, efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Apply ``efforts`` [N·m or N] from the next step on. On actuated DOFs the actuators overwrite them.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_efforts(np.full((2, 7), 1.5))
            ...     print(robots.get_dof_efforts(indices=[0]).numpy())
            [[1.5 1.5 1.5 1.5 1.5 1.5 1.5]]
        """
        self._set("joint_f", efforts, indices, dof_indices)

    # Properties that the engine holds

    def get_dof_limits(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Lowest and highest position [rad or m], at the stops of the joints; ±inf without a stop.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     lower, upper = robots.get_dof_limits([0], [0, 1])
            ...     print(lower, upper)
            [[-2.7437 -1.7837]] [[2.7437 1.7837]]
        """
        return self._pair("lower_limit", "upper_limit", indices, dof_indices)

    def set_dof_limits(
        self, lower: ArrayLike, upper: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Move the stops of joints [rad or m]; ±inf removes one.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_limits(-1.0, np.inf, dof_indices=[0])
            ...     lower, upper = robots.get_dof_limits([0], [0])
            ...     print(lower.numpy(), upper.numpy())
            [[-1.]] [[inf]]
        """
        at = self.to_write(indices, dof_indices)
        low, high = (self.numbers(n, v, at.shape, finite=False) for n, v in (("lower", lower), ("upper", upper)))
        if not (low <= high).all():
            raise SimulationError("limits: got a lower one above the upper one, or NaN; must be lower ≤ upper")
        if low.size:
            self.simulation.engine.properties.set(at, lower_limit=low, upper_limit=high)

    def get_dof_armatures(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Return the armature of joints [kg·m² or kg], including that of the engine's own actuators.

        It is zero if the engine does not use armature.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_armatures([0]))
            [[0.195 0.195 0.195 0.195 0.074 0.074 0.074]]
        """
        return self._property("armature", indices, dof_indices)

    def set_dof_armatures(self, armatures: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set the armatures in the engine. The engine's own actuators then add nothing.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_armatures([[0.1], [0.2]], dof_indices=[0])
            ...     print(robots.get_dof_armatures(dof_indices=[0]).numpy().ravel())
            [0.1 0.2]
        """
        self._set_property("armature", armatures, indices, dof_indices)

    def get_dof_friction(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Return dry [N·m or N] and viscous friction [N·m·s/rad or N·s/m] that the engine applies at joints.

        It includes that of the engine's own actuators, and is zero if the engine does not use it. MuJoCo's terms of
        higher order in the speed are not included.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     dry, viscous = robots.get_dof_friction([0], [0, 1])
            ...     print(dry, viscous)
            [[1.137 1.137]] [[0.21 0.21]]
        """
        return self._pair("friction", "viscous_friction", indices, dof_indices)

    def set_dof_friction(
        self,
        dry: ArrayLike | None = None,
        viscous: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set dry and viscous friction in the engine. None keeps the value.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_friction(dry=0.5, dof_indices=[0])
            ...     dry, viscous = robots.get_dof_friction([0], [0])
            ...     print(dry.numpy(), viscous.numpy())
            [[0.5]] [[0.21]]
        """
        for name, values in (("friction", dry), ("viscous_friction", viscous)):
            if values is not None:
                self._set_property(name, values, indices, dof_indices)

    def get_dof_friction_properties(
        self, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> tuple[wp.array, wp.array, wp.array]:
        """Return static and dynamic dry friction [N·m or N] and viscous friction, as in Isaac Sim.

        The engines here have one dry friction, which is both.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     static, dynamic, viscous = robots.get_dof_friction_properties([0], [0])
            ...     print(static, dynamic, viscous)
            [[1.137]] [[1.137]] [[0.21]]
        """
        dry, viscous = self.get_dof_friction(indices, dof_indices)
        return dry, wp.clone(dry), viscous

    def set_dof_friction_properties(
        self,
        static_frictions: ArrayLike | None = None,
        dynamic_frictions: ArrayLike | None = None,
        viscous_frictions: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set friction. Static and dynamic dry friction must be equal, or one of them None.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_friction_properties(0.4, 0.4, 0.1, dof_indices=[6])
            ...     static, dynamic, viscous = robots.get_dof_friction_properties([0], [6])
            ...     print(static.numpy(), dynamic.numpy(), viscous.numpy())
            [[0.4]] [[0.4]] [[0.1]]
        """
        shape = self.to_write(indices, dof_indices).shape
        given = {"static_frictions": static_frictions, "dynamic_frictions": dynamic_frictions}
        dry = [self.numbers(name, values, shape) for name, values in given.items() if values is not None]
        if len(dry) == 2 and (dry[0] != dry[1]).any():
            raise SimulationError(
                "static_frictions and dynamic_frictions: got different values; the engine has one dry friction, so "
                "give one"
            )
        self.set_dof_friction(dry[0] if dry else None, viscous_frictions, indices, dof_indices)

    def get_dof_max_efforts(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Largest effort of engine drives [N·m or N]; inf without a limit.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_max_efforts([0]))
            [[87. 87. 87. 87. 12. 12. 12.]]
        """
        return self._property("effort_limit", indices, dof_indices)

    def set_dof_max_efforts(self, max_efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set the largest effort; inf removes a limit.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_max_efforts(40.0, dof_indices=[0])
            ...     print(robots.get_dof_max_efforts([0], [0, 1]).numpy())
            [[40. 87.]]
        """
        self._set_property("effort_limit", max_efforts, indices, dof_indices)

    def get_dof_max_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Speed limits of joints in the engine [rad/s or m/s]; inf without a limit.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_dof_max_velocities([0], [0, 1]))
            [[inf inf]]
        """
        return self._property("velocity_limit", indices, dof_indices)

    def set_dof_max_velocities(
        self, max_velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set the speed limits. MuJoCo has none and raises an error.

        Examples:
            >>> with actuon.NewtonSimulation(actuon.assets.arm_usd, device="cpu"):
            ...     robot = actuon.Articulation("Arm")
            ...     robot.set_dof_max_velocities(2.0, dof_indices=[0])
            ...     print(robot.get_dof_max_velocities([0], [0]))
            [[2.]]
        """
        self._set_property("velocity_limit", max_velocities, indices, dof_indices)

    def get_dof_gains(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Stiffness [N·m/rad or N/m] and damping [N·m·s/rad or N·s/m] of engine drives.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     stiffness, damping = robots.get_dof_gains([0], [0, 6])
            ...     print(stiffness, damping)
            [[600.  50.]] [[50. 15.]]
        """
        return self._pair("stiffness", "damping", indices, dof_indices)

    def set_dof_gains(
        self,
        stiffnesses: ArrayLike | None = None,
        dampings: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set the gains of engine drives. None keeps the values.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     robots.set_dof_gains(stiffnesses=300.0, dof_indices=[0])
            ...     stiffness, damping = robots.get_dof_gains([0], [0])
            ...     print(stiffness.numpy(), damping.numpy())
            [[300.]] [[50.]]
        """
        at = self.to_write(indices, dof_indices)
        if not at.size:
            return
        self.simulation.owners.check_free(at)
        stiffness = self._gain("stiffness", "stiffnesses", stiffnesses, at)
        damping = self._gain("damping", "dampings", dampings, at)
        lowest, minimum = min(stiffness.min(), damping.min()), PROPERTIES["stiffness"].minimum
        if lowest < minimum:
            raise SimulationError(f"gains: got {lowest}; must be ≥ {minimum:g}")
        self.simulation.engine.properties.set(at, stiffness=stiffness, damping=damping)

    def _gain(self, name: str, argument: str, values: ArrayLike | None, at: DofSet) -> np.ndarray:
        """Return the gains passed to a setter, or the present ones."""
        if values is not None:
            return self.numbers(argument, values, at.shape)
        held = self.simulation.engine.properties.get(name, at)
        assert held is not None
        return held

    def get_link_masses(self, indices: IdsLike = None, link_indices: IdsLike = None) -> wp.array:
        """Masses of links [kg], shape (n, l).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.get_link_masses([0], [0, 1]), robots.link_names[:2])
            [[2.3966    2.9274654]] ['link0', 'link1']
        """
        masses = self.simulation.engine.bodies.masses(self._to_read(indices))
        return self._array(masses[:, read_ids("link_indices", link_indices, masses.shape[1])])

    def set_link_masses(self, masses: ArrayLike, indices: IdsLike = None, link_indices: IdsLike = None) -> None:
        """Set masses of links. Inertias stay as they are.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     masses = robots.get_link_masses(link_indices=[1]).numpy()
            ...     robots.set_link_masses(1.2 * masses, link_indices=[1])
            ...     print(robots.get_link_masses([0], [1]).numpy() / masses[0])
            [[1.2]]
        """
        at, links = self.to_write(indices), ids_to_write("link_indices", link_indices, len(self.link_names))
        numbers = self.numbers("masses", masses, (len(at), len(links)))
        if not (numbers >= 0.0).all():
            raise SimulationError(f"masses: got {numbers.min()}; must be ≥ 0 [kg]")
        if numbers.size:
            self.simulation.engine.bodies.set_masses(at, links, numbers)

    # Roots

    def get_root_poses(self, indices: IdsLike = None) -> wp.array:
        """Position [m] and orientation (quaternion x, y, z, w) of root bodies in the world, shape (n, 7).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("base")
            ...     print(robots.get_root_poses([0]))
            [[0.       0.       0.286806 0.       0.       0.       1.      ]]
        """
        return self._copied(self.simulation.engine.bodies.poses(self._to_read(indices)))

    def set_root_poses(self, poses: ArrayLike, indices: IdsLike = None) -> None:
        """Move robots with a free base to poses in the format of `get_root_poses`.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf) as simulation:
            ...     robot = actuon.Articulation("base")
            ...     robot.set_root_poses([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
            ...     print(robot.get_root_poses().numpy())
            [[0.  0.  0.5 0.  0.  0.  1. ]]
        """
        at = self.to_write(indices)
        numbers = self.numbers("poses", poses, (len(at), 7))
        if not np.linalg.norm(numbers[:, 3:], axis=1).all():
            raise SimulationError("poses: got a quaternion of length 0")
        if numbers.size:
            self.simulation.engine.bodies.set_poses(at, numbers)

    def get_root_velocities(self, indices: IdsLike = None) -> wp.array:
        """Linear [m/s] and angular velocity [rad/s] of root bodies in the world, of their origin, shape (n, 6).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("base")
            ...     print(robots.get_root_velocities().shape)
            (2, 6)
        """
        return self._copied(self.simulation.engine.bodies.velocities(self._to_read(indices)))

    def set_root_velocities(self, velocities: ArrayLike, indices: IdsLike = None) -> None:
        """Set velocities of robots with a free base, in the format of `get_root_velocities`.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf) as simulation:
            ...     robot = actuon.Articulation("base")
            ...     robot.set_root_velocities([1.0, 0.0, 0.0, 0.0, 0.0, 0.5])
            ...     print(robot.get_root_velocities().numpy())
            [[1.  0.  0.  0.  0.  0.5]]
        """
        at = self.to_write(indices)
        numbers = self.numbers("velocities", velocities, (len(at), 6))
        if numbers.size:
            self.simulation.engine.bodies.set_velocities(at, numbers)

    def get_world_poses(self, indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Positions [m], shape (n, 3), and orientations (w, x, y, z), shape (n, 4), of root bodies, as in Isaac Sim.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("base")
            ...     positions, orientations = robots.get_world_poses([0])
            ...     print(positions, orientations)
            [[0.       0.       0.286806]] [[1. 0. 0. 0.]]
        """
        poses = self.simulation.engine.bodies.poses(self._to_read(indices))
        return self._array(poses[:, :3].copy()), self._array(poses[:, _WXYZ])

    def set_world_poses(
        self, positions: ArrayLike | None = None, orientations: ArrayLike | None = None, indices: IdsLike = None
    ) -> None:
        """Move robots with a free base. None keeps the position or orientation.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf) as simulation:
            ...     robot = actuon.Articulation("base")
            ...     robot.set_world_poses(positions=[[0.0, 1.0, 0.4]])
            ...     positions, orientations = robot.get_world_poses()
            ...     print(positions.numpy(), orientations.numpy().shape)
            [[0.  1.  0.4]] (1, 4)
        """
        poses = self.simulation.engine.bodies.poses(self.to_write(indices))
        for name, values, columns in (("positions", positions, [0, 1, 2]), ("orientations", orientations, _WXYZ)):
            if values is not None:
                poses[:, columns] = self.numbers(name, values, (len(poses), len(columns)))
        self.set_root_poses(poses, indices)

    def get_velocities(self, indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Linear [m/s] and angular velocities [rad/s] of root bodies in the world, each of shape (n, 3).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("base")
            ...     linear, angular = robots.get_velocities()
            ...     print(linear.shape, angular.shape)
            (2, 3) (2, 3)
        """
        velocities = self.simulation.engine.bodies.velocities(self._to_read(indices))
        return self._array(velocities[:, :3].copy()), self._array(velocities[:, 3:].copy())

    def set_velocities(
        self,
        linear_velocities: ArrayLike | None = None,
        angular_velocities: ArrayLike | None = None,
        indices: IdsLike = None,
    ) -> None:
        """Set velocities of robots with a free base. None keeps the linear or angular velocity.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf) as simulation:
            ...     robot = actuon.Articulation("base")
            ...     robot.set_velocities(linear_velocities=[[0.5, 0.0, 0.0]])
            ...     linear, angular = robot.get_velocities()
            ...     print(linear.numpy(), angular.numpy())
            [[0.5 0.  0. ]] [[0. 0. 0.]]
        """
        velocities = self.simulation.engine.bodies.velocities(self.to_write(indices))
        for name, values, start in (("linear", linear_velocities, 0), ("angular", angular_velocities, 3)):
            if values is not None:
                velocities[:, start : start + 3] = self.numbers(f"{name}_velocities", values, (len(velocities), 3))
        self.set_root_velocities(velocities, indices)

    def push(self, forces: ArrayLike, indices: IdsLike = None) -> None:
        """Push root bodies with ``forces`` [N], in the world's frame, shape (3,) or (n, 3), until the next call.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf) as simulation:
            ...     robot = actuon.Articulation("base")
            ...     robot.push([100.0, 0.0, 0.0])
            ...     simulation.step(10)
            ...     robot.push(0.0)
            ...     print(robot.get_root_velocities().numpy()[0, 0] > 0.1)
            True
        """
        at = self.to_write(indices)
        self.simulation.engine.bodies.push(at, self.numbers("forces", forces, (len(at), 3)))

    # Tendons

    def get_tendon_names(self) -> list[str]:
        """Names of the tendons that have a position servo, in the order of the columns."""
        return list(self.robots[0].tendon_names)

    def get_tendon_targets(
        self, indices: IdsLike = None, tendon_indices: str | Sequence[str] | IdsLike = None
    ) -> wp.array:
        """Target lengths of tendons [m or rad], shape (n, t).

        Args:
            indices: Which robots. Default: all.
            tendon_indices: Which tendons, by number or name. Default: all.
        """
        at = self._to_read(indices)
        columns = read_ids("tendon_indices", self._tendons(tendon_indices), len(self.get_tendon_names()))
        return self._array(self.simulation.engine.state.tendon_targets(at)[:, columns])

    def set_tendon_targets(
        self, lengths: ArrayLike, indices: IdsLike = None, tendon_indices: str | Sequence[str] | IdsLike = None
    ) -> None:
        """Set target lengths [m or rad]. Targets of the joints on a fixed tendon follow.

        Args:
            lengths: As for `set_dof_position_targets`.
            indices: Which robots. Default: all.
            tendon_indices: Which tendons, by number or name. Default: all.

        Examples:
            >>> import mujoco
            >>> hand = '''<mujoco><worldbody><body name="hand"><joint name="finger"/><geom size="0.1"/>
            ... </body></worldbody><tendon><fixed name="wire"><joint joint="finger" coef="0.02"/>
            ... </fixed></tendon><actuator><position tendon="wire"/></actuator></mujoco>'''
            >>> with actuon.MujocoSimulation(mujoco.MjSpec.from_string(hand)):
            ...     robot = actuon.Articulation("hand")
            ...     robot.set_tendon_targets(0.01, tendon_indices="wire")
            ...     print(robot.get_tendon_names(), robot.get_tendon_targets())
            ['wire'] [[0.01]]
        """
        self.simulation.check_open()
        if not self.get_tendon_names():
            raise SimulationError(f"'{self.paths[0]}' has no tendon with a position servo; targets need one")
        at, moved = self.to_write(indices), self.robots[0].kind.tendon_dofs
        columns = ids_to_write("tendon_indices", self._tendons(tendon_indices), len(moved))
        numbers = self.numbers("lengths", lengths, (len(at), len(columns)))
        if numbers.size:
            self.simulation.owners.check_free(at.of_dofs(np.unique(np.concatenate([moved[i] for i in columns]))))
            self.simulation.engine.state.set_tendon_targets(at, columns, numbers)

    def _tendons(self, tendons: str | Sequence[str] | IdsLike) -> IdsLike:
        """Return names as numbers."""
        given = [tendons] if isinstance(tendons, str) else tendons
        if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
            return given
        return self._find(given, self.get_tendon_names(), "tendon", " with a drive")

    # Arrays of the simulation

    def live(self, kind: str) -> wp.array | None:
        """Return the simulation's own array, shape (N, D), not copied. The next step overwrites it.

        For fast loops. Read only: the engine may ignore values that are written to it.

        Args:
            kind: ``"joint_q"``, ``"joint_qd"``, ``"joint_target_q"``, ``"joint_target_qd"`` or ``"joint_f"``.

        Returns:
            None if the DOFs of a robot are not contiguous, as around a ball joint.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
            ...     positions = actuon.Articulation("link0").live("joint_q")
            ...     before = positions.numpy().copy()
            ...     simulation.step()
            ...     print((positions.numpy() != before).any(axis=1))
            [ True  True]
        """
        self.simulation.check_open()
        array = getattr(self.simulation.arrays, kind)
        at = _grid(self.at.flat(kind))
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

    def values(self, kind: str) -> np.ndarray:
        """Return values of ``kind``, such as ``"joint_q"``, as NumPy, shape (N, D). Does not refresh.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2):
            ...     robots = actuon.Articulation("link0")
            ...     print(robots.values("joint_qd").shape)
            (2, 7)
        """
        return self._view(kind).copy()

    def _view(self, kind: str) -> np.ndarray:
        """Return values of ``kind``, without a copy if the DOFs are contiguous."""
        array = getattr(self.simulation.arrays, kind)
        known, view = self._views.get(kind, (None, None))
        if known is array and view is not None:
            return view
        flat, at = array.numpy(), _grid(self.at.flat(kind))
        if at is None:
            return flat[self.at.flat(kind)]
        first, step = at
        shape, strides = (len(self), self.num_dofs), (step * flat.itemsize, flat.itemsize)
        view = np.lib.stride_tricks.as_strided(flat[first:], shape, strides)
        if array.device.is_cpu:
            self._views[kind] = array, view
        return view

    # Arguments

    def _get(self, kind: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        simulation = self.simulation
        simulation.check_open()
        simulation.engine.state.refresh()
        values = self._view(kind)
        if indices is None and dof_indices is None:
            return self._copied(values)
        return self._array(values[np.ix_(*self._chosen(read_ids, indices, dof_indices))])

    def _set(self, kind: str, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        at = self.to_write(indices, dof_indices)
        if not at.size:
            return
        numbers = self.numbers(kind, values, at.shape)
        if kind in TARGETS:
            self._check_used(kind, at, numbers, indices, dof_indices)
        self.simulation.engine.state.write(kind, at, numbers)

    def _check_used(self, kind: str, at: DofSet, targets: np.ndarray, indices: IdsLike, dof_indices: IdsLike) -> None:
        """Raise an error for changed targets that nothing follows."""
        simulation = self.simulation
        now = simulation.owners.version, simulation.engine.drives.version
        version, unused = self._unused.get(kind, (None, None))
        if version != now:
            unused = simulation.unused_targets(kind, self.at)
            self._unused[kind] = now, unused
        if unused is None:
            return
        places = np.ix_(*self._chosen(ids_to_write, indices, dof_indices))
        is_other = unused[places] & (targets != self._view(kind)[places])
        if is_other.any():
            names = np.array(at.names)[is_other.any(axis=0)]
            path = at.robots[int(is_other.any(axis=1).argmax())].path
            raise SimulationError(
                f"no servo or actuator follows a target {TARGETS[kind]} of {', '.join(names)} of '{path}'; create "
                "actuators first, or leave these joints out with dof_indices="
            )

    def _property(self, name: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        at, is_limit = self._to_read(indices, dof_indices), PROPERTIES[name].is_limit
        values = self.simulation.engine.properties.get(name, at) if at.size else None
        if values is None:
            values = np.full(at.shape, np.inf if is_limit else 0.0)
        elif is_limit:
            values = np.where(values >= self.simulation.engine.properties.no_limit, np.inf, values)
        return self._array(values)

    def _pair(self, first: str, second: str, indices: IdsLike, dof_indices: IdsLike) -> tuple[wp.array, wp.array]:
        return self._property(first, indices, dof_indices), self._property(second, indices, dof_indices)

    def _set_property(self, name: str, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        at, properties = self.to_write(indices, dof_indices), self.simulation.engine.properties
        row = PROPERTIES[name]
        numbers = self.numbers(name, values, at.shape, finite=not row.is_limit)
        if not (numbers >= row.minimum).all():
            raise SimulationError(f"{name}: got {numbers.min()}; must be ≥ {row.minimum:g}")
        if numbers.size:
            properties.set(at, **{name: np.minimum(numbers, properties.no_limit) if row.is_limit else numbers})

    def _to_read(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> DofSet:
        """Return the DOFs of a getter."""
        self.simulation.check_open()
        if indices is None and dof_indices is None:
            return self.at
        return self.at.subset(*self._chosen(read_ids, indices, dof_indices))

    def to_write(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> DofSet:
        """Return the DOFs of a setter.

        Raises:
            SimulationError: A robot or DOF does not exist, or is given twice.
        """
        self.simulation.check_open()
        if indices is None and dof_indices is None:
            return self.at
        return self.at.subset(*self._chosen(ids_to_write, indices, dof_indices))

    def _chosen(
        self, ids: Callable[[str, IdsLike, int], np.ndarray], indices: IdsLike, dof_indices: IdsLike
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of robots and columns of DOFs."""
        return ids("indices", indices, len(self)), ids("dof_indices", dof_indices, self.num_dofs)

    def numbers(self, name: str, values: ArrayLike, shape: tuple[int, int], finite: bool = True) -> np.ndarray:
        """Return the values of a setter as float32, broadcast to ``shape``.

        Raises:
            SimulationError: They do not fit the shape, or are not finite in 32 bits.
        """
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        require_values(values, name)
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
            raise SimulationError(f"{name}: got NaN or infinity; must be finite as float32")
        return np.ascontiguousarray(numbers)

    def _array(self, values: np.ndarray) -> wp.array:
        return wp.array(values.astype(np.float32, copy=False), device=self.simulation.device, copy=False)

    def _copied(self, values: np.ndarray) -> wp.array:
        """Return a copy of a view as a new array."""
        if not self.simulation.device.is_cpu or not values.size:
            return self._array(values.copy())
        slab = self._slabs.get(values.shape)
        if slab is None or slab.is_used_up:
            slab = self._slabs[values.shape] = _Slab(values.shape)
        return slab.copied(values)

    def _find(self, names: Sequence[Any], known: list[str], what: str, which: str = "") -> np.ndarray:
        """Return the numbers of DOFs or tendons with these names."""
        for name in names:
            if name not in known:
                told = listed(str(name), known, f"{what}s")
                raise SimulationError(f"'{self.paths[0]}' has no {what} '{name}'{which}; {told}")
            if known.count(name) > 1:
                raise SimulationError(f"'{self.paths[0]}' has {known.count(name)} {what}s called '{name}'")
        return np.array([known.index(name) for name in names], dtype=np.int64)


class _Slab:
    """Memory of several arrays of a shape, each of which is given away once.

    Warp's constructor takes longer than the rest of a getter, so arrays get the attributes of one that it made.
    """

    def __init__(self, shape: tuple[int, ...]):
        self._stride = 4 * math.prod(shape)
        self._rows = np.empty((max(1, _SLAB // self._stride), *shape), np.float32)
        self._attributes = {**vars(wp.array(self._rows[0], device="cpu", copy=False)), "_ref": self._rows}
        self._address: int = self._attributes["ptr"]
        self._used = 0

    @property
    def is_used_up(self) -> bool:
        """Whether all arrays were given away."""
        return self._used == len(self._rows)

    def copied(self, values: np.ndarray) -> wp.array:
        """Return a copy of ``values`` as a new array."""
        self._rows[self._used] = values
        made = object.__new__(wp.array)
        vars(made).update(self._attributes)
        made.ptr = self._address + self._used * self._stride
        self._used += 1
        return made


_SLAB = 2**15
"""Bytes that arrays of a getter share; larger arrays have memory of their own."""


def _grid(indices: np.ndarray) -> tuple[int, int] | None:
    """Return first index and stride of the rows of ``indices``, shape (n, d), if each is contiguous; else None."""
    first = int(indices[0, 0])
    step = int(indices[1, 0]) - first if len(indices) > 1 else indices.shape[1]
    rows, columns = (np.arange(length) for length in indices.shape)
    return (first, step) if (indices == first + rows[:, None] * step + columns).all() else None
