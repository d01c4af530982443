# SPDX-License-Identifier: Apache-2.0
"""Newton: one world for each environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...actuator.state import check_like
from ...errors import MissingExtraError, SimulationError
from ...typing import DeviceLike, PathLike
from ..dof_properties import LIMIT_PROPERTIES
from ..simulation import CONTROL, STATE, live_simulations
from ..step_map import StepMaps
from .placing import indices_of, place_robots
from .reading import RobotFile, new_builder, read_robot_file
from .roots import FreeRoots, shift
from .scatter import column_writer, scatter
from .slopes import Lines, SlopeHolder
from .solvers import SolverLike, check_options, make_physics

if TYPE_CHECKING:
    from pxr import Usd

_DEFAULT_DT = 0.002
_PROPERTIES = {
    "armature": "joint_armature",
    "friction": "joint_friction",
    "viscous_friction": "joint_damping",
    "effort_limit": "joint_effort_limit",
    "velocity_limit": "joint_velocity_limit",
}
_CHANGEABLE = {
    "JOINT_DOF_PROPERTIES": (
        *_PROPERTIES.values(),
        *("joint_target_ke", "joint_target_kd", "joint_limit_lower", "joint_limit_upper"),
        *("joint_limit_ke", "joint_limit_kd", "mujoco.solreffriction", "mujoco.solimpfriction"),
    ),
    "BODY_INERTIAL_PROPERTIES": ("body_mass", "body_inv_mass", "body_inertia", "body_inv_inertia", "body_com"),
    "SHAPE_PROPERTIES": tuple(
        f"shape_material_{name}" for name in ("ke", "kd", "kf", "ka", "mu", "restitution", "mu_torsional", "mu_rolling")
    ),
    "MODEL_PROPERTIES": ("gravity",),
}
"""Arrays of a model that may be changed while it runs, by what a solver is told then."""
_ONLY_TOLD = "velocity_limit"  # which no solver enforces, but models of motors ask for


class NewtonSimulation(SlopeHolder):
    """Newton with one or many copies of a USD stage or an MJCF model.

    A robot of a stage is named by its articulation root: its path, or ``"/World/envs/env_3/Robot"`` with several
    environments. It starts as its links stand in the stage. A robot of an MJCF file is named, and starts, as in
    `MujocoSimulation`. On the CPU one environment is stepped by MuJoCo itself, and several by MuJoCo Warp, which also
    serves GPUs.

    A joint of several DOFs, ``PhysicsJoint`` in USD, has one for each free axis, linear ones first: ``waist:0``,
    ``waist:1``.

    Args:
        stage_or_path: A ``Usd.Stage``, a USD file or an MJCF file.
        num_envs: Number of copies.
        dt: Time step [s]. Default: that of the file.
        device: Where to run. Default: Warp's current device.
        solver: ``"mujoco"``, ``"featherstone"``, ``"semi_implicit"`` or ``"xpbd"``; or the class of such a solver;
            or a function ``make(model)`` that makes one, with any of its options.
        integrator: ``"euler"``, ``"implicitfast"`` or ``"rk4"``, of the MuJoCo solver. Default: what the file asks for,
            else ``"implicitfast"``.
        njmax: Most constraints in an environment, of MuJoCo Warp. Default: Newton's estimate.
        nconmax: Most contact points in an environment, of MuJoCo Warp. Default: Newton's estimate.
    """

    no_limit = 1.0e6
    _loads: wp.array | None = None
    """External loads of the last step [N·m or N], flat as velocities; None where nobody reads them."""
    _read_loads: Callable[[], None] | None = None
    """Writes them."""

    def __init__(
        self,
        stage_or_path: Usd.Stage | PathLike,
        num_envs: int = 1,
        dt: float | None = None,
        device: DeviceLike = None,
        *,
        solver: SolverLike = "mujoco",
        integrator: str | None = None,
        njmax: int | None = None,
        nconmax: int | None = None,
    ):
        self._check_arguments(num_envs, dt)
        sizes = {"njmax": njmax, "nconmax": nconmax}
        check_options(solver, integrator, sizes)
        self._newton = newton = import_newton()
        file = read_robot_file(newton, stage_or_path)
        self.stage, self.source = file.stage, file.source
        builder = file.builder
        if num_envs > 1:
            builder = new_builder(newton)
            builder.replicate(file.builder, num_envs)
        super().__init__(num_envs, float(dt or file.dt or _DEFAULT_DT), device)
        self.model = builder.finalize(device=self.device)
        options = {"use_mujoco_cpu": self.device.is_cpu and num_envs == 1, "integrator": integrator, **sizes}
        self._physics = make_physics(newton, self.model, solver, options)
        self.solver = self._physics.solver
        self._make_state(file)
        self._lines = Lines(self._physics, self.state, self.control, num_envs)
        self.robots = place_robots(newton, file, num_envs)
        self._roots = np.array([robot.root_body for robot in self.robots])
        self._indices = {kind: indices_of(self.robots, kind) for kind in (*STATE, *CONTROL)}
        envs = range(num_envs)
        self._links = [env * file.builder.body_count + np.array(robot.links) for env in envs for robot in file.robots]
        self._link_names = [robot.link_names for _ in envs for robot in file.robots]
        self._bases = np.array([env * file.builder.joint_count + robot.base for env in envs for robot in file.robots])
        self._provide_stage()
        self._be_current()

    def _make_state(self, file: RobotFile) -> None:
        """Make the state, as the file has it, and views of it where that costs nothing."""
        self.state, self.control = self.model.state(), self.model.control()
        if file.stage is not None:
            self._newton.eval_ik(self.model, self.state, self.state.joint_q, self.state.joint_qd)
        else:
            self._pose_bodies()
        self._first = {kind: wp.clone(getattr(self.state, kind)) for kind in STATE}
        self._first |= {kind: wp.clone(getattr(self.control, kind)) for kind in CONTROL}
        self.arrays = SimpleNamespace(
            **{kind: getattr(self.state, kind) for kind in STATE},
            **{kind: getattr(self.control, kind) for kind in CONTROL},
        )
        kept = {**vars(self.arrays), "body_q": self.state.body_q, "body_qd": self.state.body_qd}
        self._views = {kind: array.numpy() for kind, array in kept.items()} if self.device.is_cpu else {}

    def _provide_stage(self) -> None:
        if self.stage is not None:
            from ...robot_files.usd.stage import provide_stage

            provide_stage(_current_stage)

    def refresh(self) -> None:
        """The arrays are the engine's own."""

    def refresh_targets(self) -> None:
        """So are the targets."""

    def _pose_bodies(self) -> None:
        """Bring the bodies to where their joints are."""
        self._newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def _reset(self, env_ids: np.ndarray) -> None:
        for kind, first in self._first.items():
            target = getattr(self.arrays, kind)
            width = len(target) // self.num_envs
            if len(env_ids) == self.num_envs:
                wp.copy(target, first)
                continue
            for env in env_ids:
                wp.copy(target, first, dest_offset=int(env) * width, src_offset=int(env) * width, count=width)
        self._are_loads_old = True
        if self._lines.are_held:
            self._lines.reset(env_ids, self._first["joint_f"])
        self.push(np.flatnonzero([robot.env in env_ids for robot in self.robots]), np.zeros((1, 3), np.float32))
        self._physics.reset(self.state, env_ids)
        self._pose_bodies()

    def _numbers(self, kind: str) -> np.ndarray:
        """The values of an array of the state or the control; on the CPU, the array itself."""
        return self._views[kind] if self._views else getattr(self.state, kind).numpy()

    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        at = self._at(kind, robots, dofs)
        if self._views:
            self._views[kind][at] = values
        else:
            scatter(wp.array(values, dtype=wp.float32, device=self.device), at, getattr(self.arrays, kind))
        if kind in STATE:
            self._pose_bodies()
        elif kind == "joint_f" and self._lines.are_held:
            self._lines.level(at.ravel(), np.ravel(values))

    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        at = self._dofs(robots, dofs)
        return column_writer(efforts, dofs, at, self.arrays.joint_f)

    def property_writer(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: wp.array) -> Callable[[], None]:
        write = column_writer(values, dofs, self._dofs(robots, dofs), getattr(self.model, _PROPERTIES[name]))
        of_forces = self._newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES  # not of inertias, which take ten times as long

        def hand_over() -> None:
            write()
            self.solver.notify_model_changed(of_forces)

        return hand_over

    def sharpen_friction(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        return self._physics.sharpen_friction(self._dofs(robots, dofs), self.dt, self._tell_of_joints)

    def load_reader(self, robots: np.ndarray, loads: wp.array) -> Callable[[], None] | None:
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
        """Read the loads of the last step where that was not done since."""
        if self._are_loads_old and self._read_loads is not None:
            self._read_loads()
            self._are_loads_old = False

    def _told_loads(self) -> np.ndarray | None:
        if self._loads is None:
            return None
        self._renew_loads()
        return np.array(self._loads.numpy().reshape(self.num_envs, -1))

    def _tell_loads(self, env_ids: np.ndarray, loads: np.ndarray) -> None:
        told = self._told_loads()
        if told is not None and self._loads is not None:
            told[env_ids] = loads
            self._loads.assign(told.ravel())

    def step_maps(self, robot: int, dt: float, viscous: np.ndarray | None = None) -> StepMaps:
        first = self.robots[robot % (len(self.robots) // self.num_envs)]
        return self._physics.step_maps(first, self.state.joint_q.numpy(), dt, viscous)

    def root_poses(self, robots: np.ndarray) -> np.ndarray:
        return self._numbers("body_q")[self._roots[robots]]

    def root_velocities(self, robots: np.ndarray) -> np.ndarray:
        """Linear [m/s] and angular velocity [rad/s] of root bodies, at their origin, in the world, shape (n, 6)."""
        bodies = self._roots[robots]
        centres = self.model.body_com.numpy()[bodies]
        return shift(self._numbers("body_qd")[bodies], self._numbers("body_q")[bodies], -centres)

    def set_root_poses(self, robots: np.ndarray, poses: np.ndarray) -> None:
        """Move root bodies, as `root_poses` gives them. Their velocities stay.

        Raises:
            SimulationError: A base is fixed, or an orientation has length zero.
        """
        lengths = np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        if not (lengths > 0.0).all():
            raise SimulationError("poses: got an orientation of length zero; must be a quaternion x, y, z, w")
        velocities = self.root_velocities(robots)
        roots = self._free_roots(robots)
        unit = np.concatenate([poses[:, :3], poses[:, 3:] / lengths], axis=1)
        self._set_joints("joint_q", roots.coordinates, roots.joint_positions(unit))
        self.set_root_velocities(robots, velocities)

    def set_root_velocities(self, robots: np.ndarray, velocities: np.ndarray) -> None:
        """Give root bodies velocities, as `root_velocities` gives them.

        Raises:
            SimulationError: A base is fixed.
        """
        roots = self._free_roots(robots)
        bodies = self._roots[robots]
        at_centre = shift(velocities, self.root_poses(robots), self.model.body_com.numpy()[bodies])
        self._set_joints("joint_qd", roots.dofs, roots.joint_velocities(at_centre))

    def _free_roots(self, robots: np.ndarray) -> FreeRoots:
        for robot in (self.robots[i] for i in robots):
            if robot.is_fixed_base:
                raise SimulationError(f"'{robot.path}' has a fixed base: its root cannot be moved")
        return FreeRoots(self.model, self._bases[robots])

    def _set_joints(self, kind: str, at: np.ndarray, values: np.ndarray) -> None:
        scatter(wp.array(values, dtype=wp.float32, device=self.device), at, getattr(self.arrays, kind))
        self._pose_bodies()

    def _memory(self) -> list[wp.array | np.ndarray]:
        """Everything that the next step depends on, each array environment by environment."""
        own = [*vars(self.arrays).values(), self.state.body_q, self.state.body_qd, self.state.body_f]
        own += [self._lines.constant, self._lines.slope] if self._lines.are_held else []
        return [array for array in (*own, *self._physics.memory(self.control)) if array.size]

    def _engine_state(self) -> np.ndarray:
        rows = [_as_numpy(array).reshape(self.num_envs, -1) for array in self._memory()]
        return np.concatenate(rows, axis=1, dtype=np.float64)

    def _load_engine_state(self, env_ids: np.ndarray, state: np.ndarray) -> None:
        start = 0
        for array in self._memory():
            numbers = _as_numpy(array)
            rows = numbers.reshape(self.num_envs, -1)
            rows[env_ids] = state[:, start : start + rows.shape[1]]
            start += rows.shape[1]
            if not isinstance(array, np.ndarray) and not self.device.is_cpu:
                array.assign(numbers)

    def _engine_description(self) -> dict[str, str]:
        return {
            "engine": f"Newton {self._newton.__version__}, {type(self.solver).__name__}",
            "time step": f"{self.dt} s",
        }

    def _property_arrays(self) -> Iterator[tuple[str, int, wp.array | np.ndarray]]:
        """Arrays that may be changed while it runs, with their names, and what the solver is told of a change."""
        flags, own = self._newton.ModelFlags, getattr(self.model, "mujoco", None)
        for flag, names in _CHANGEABLE.items():
            for name in names:
                array = getattr(self.model, name, None) if "." not in name else getattr(own, name[7:], None)
                if array is not None and array.size:
                    yield name, int(getattr(flags, flag)), array
        for name, values in self._physics.own_properties().items():
            yield f"solver.{name}", 0, values

    def _properties(self) -> dict[str, np.ndarray]:
        return {name: _as_numpy(array) for name, _, array in self._property_arrays()}

    def _checked_properties(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        like = self._properties()
        for name in sorted(like.keys() | found.keys()):
            check_like(where, f"properties/{name}", found.get(name), like.get(name))

        def take() -> None:
            changed = 0
            for name, flag, array in self._property_arrays():
                if not np.array_equal(_as_numpy(array), found[name]):
                    changed |= flag
                    if isinstance(array, np.ndarray):
                        array[...] = found[name]
                    else:
                        array.assign(found[name])
            if changed:
                self.solver.notify_model_changed(changed)
            self.limits_version += 1

        return take

    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        wrenches = self.state.body_f.numpy()
        wrenches[self._roots[robots], :3] = forces
        self.state.body_f.assign(wrenches)

    def link_names(self, robot: int) -> list[str]:
        """Names of a robot's bodies, the root first."""
        return list(self._link_names[robot])

    def link_masses(self, robots: np.ndarray) -> np.ndarray:
        """Masses of links [kg], shape (n, L)."""
        return self.model.body_mass.numpy()[np.stack([self._links[i] for i in robots])]

    def set_link_masses(self, robots: np.ndarray, links: np.ndarray, values: np.ndarray) -> None:
        """Set masses [kg] of shape (n, l). Inertias stay as they are.

        Args:
            robots: Which robots, shape (n,).
            links: Which links of each, shape (l,).
            values: > 0.
        """
        if not (np.asarray(values) > 0.0).all():
            raise SimulationError(f"masses: got {np.min(values):.6g}; must be > 0 [kg]")
        at = np.stack([self._links[i][links] for i in robots])
        self._set_model("body_mass", at, values)
        self._set_model("body_inv_mass", at, 1.0 / np.asarray(values))
        self.solver.notify_model_changed(self._newton.ModelFlags.BODY_INERTIAL_PROPERTIES)

    def _at(self, kind: str, robots: np.ndarray, dofs: np.ndarray | None = None) -> np.ndarray:
        """Where values of ``kind`` lie in the flat arrays, of these DOFs or of all, shape (n, d)."""
        if dofs is None:
            dofs = np.arange(len(self.robots[robots[0]].dofs) if len(robots) else 0)
        return self._indices[kind][np.ix_(robots, dofs)]

    def _dofs(self, robots: np.ndarray, dofs: np.ndarray | None = None) -> np.ndarray:
        """Where DOFs lie in the model's arrays, shape (n, d)."""
        return self._at("joint_qd", robots, dofs)

    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        """None for what the solver makes no use of."""
        if name not in self._physics.honours and name != _ONLY_TOLD:
            return None
        at = self._dofs(robots)
        own = getattr(self.model, _PROPERTIES[name]).numpy()[at] if name in _PROPERTIES else np.float32(0.0)
        return np.asarray(own + self._physics.of_actuators(name)[at])

    def keep_properties(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        at = self._dofs(robots, dofs)
        kept = {name: getattr(self.model, name).numpy()[at] for name in _PROPERTIES.values()}
        give_actuators_back = self._physics.keep_of_actuators(at.ravel())

        def give_back() -> None:
            give_actuators_back()
            for name, values in kept.items():
                self._set_model(name, at, values)
            self._tell_of_joints()

        return give_back

    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        if self.dof_property(name, robots) is None:
            if name in LIMIT_PROPERTIES or np.any(values):
                raise SimulationError(f"{type(self.solver).__name__} makes no use of the {name} of joints")
            return
        at = self._dofs(robots, dofs)
        if name not in _PROPERTIES and np.any(values):
            raise SimulationError(f"Newton's models hold no {name} of joints")
        self._physics.clear_of_actuators(name, at.ravel())
        if name in _PROPERTIES:
            self._set_model(_PROPERTIES[name], at, values)
        self._tell_of_joints()

    def _set_model(self, name: str, at: np.ndarray, values: np.ndarray) -> None:
        array = getattr(self.model, name)
        numbers = array.numpy().copy()
        numbers[at] = values
        array.assign(numbers)

    def _tell_of_joints(self) -> None:
        self.solver.notify_model_changed(self._newton.ModelFlags.JOINT_DOF_PROPERTIES)

    def dof_limits(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = self._dofs(robots)
        lower, upper = (getattr(self.model, f"joint_limit_{side}").numpy()[at] for side in ("lower", "upper"))
        none = self._newton.MAXVAL
        return np.where(lower <= -none, -np.inf, lower), np.where(upper >= none, np.inf, upper)

    def set_dof_limits(self, robots: np.ndarray, dofs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Set the stops of joints [rad or m], each of shape (n, d); ±inf for none.

        Raises:
            SimulationError: A lower one is above its upper one, or a joint had no stops when the solver was made.
        """
        at = self._dofs(robots, dofs)
        low, high = (np.broadcast_to(np.asarray(side, np.float32), at.shape) for side in (lower, upper))
        stops = np.isfinite(low) | np.isfinite(high)
        for wrong, why in (
            (~(low <= high), "gets a lower stop above its upper one"),
            (stops & ~self._physics.can_have_stops()[at], "has no stops in its file, and the solver cannot add them"),
        ):
            if wrong.any():
                self._refuse(robots, dofs, wrong, why)
        none = self._newton.MAXVAL
        self._set_model("joint_limit_lower", at, np.maximum(low, -none))
        self._set_model("joint_limit_upper", at, np.minimum(high, none))
        self._tell_of_joints()

    def _refuse(self, robots: np.ndarray, dofs: np.ndarray, wrong: np.ndarray, why: str) -> None:
        row, column = np.argwhere(wrong)[0]
        robot = self.robots[robots[row]]
        raise SimulationError(f"joint '{robot.dof_names[int(dofs[column])]}' of '{robot.path}' {why}")

    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = self._dofs(robots)
        return self.model.joint_target_ke.numpy()[at], self.model.joint_target_kd.numpy()[at]

    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        at = self._dofs(robots, dofs)
        wanted = np.logical_or(stiffness != 0.0, damping != 0.0)
        missing = wanted & ~self._physics.can_be_driven()[at]
        if missing.any():
            self._refuse(robots, dofs, missing, "has no drive in its file to set gains of")
        self._set_model("joint_target_ke", at, stiffness)
        self._set_model("joint_target_kd", at, damping)
        self._tell_of_joints()

    def add_drives(
        self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
    ) -> Callable[[], None]:
        """Newton's models cannot grow: drives that their options switch off are refused."""
        why = self._physics.why_drives_rest()
        if why and (np.any(stiffness) or np.any(damping)):
            raise SimulationError(f"{type(self.solver).__name__} {why}; drive the joints with an explicit model")
        return super().add_drives(robots, dofs, stiffness, damping)

    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        stiffness, damping = (values[:, dofs] for values in self.gains(robots))
        self.set_gains(robots, dofs, np.zeros_like(stiffness), np.zeros_like(damping))
        give_others_back = self._physics.silence_others(self._dofs(robots, dofs).ravel())

        def give_back() -> None:
            give_others_back()
            self.set_gains(robots, dofs, stiffness, damping)

        return give_back

    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        return ~self._physics.is_pushed()[self._dofs(robots)]


def _as_numpy(array: wp.array | np.ndarray) -> np.ndarray:
    """On the CPU, the array itself."""
    return array if isinstance(array, np.ndarray) else array.numpy()


def _current_stage() -> Usd.Stage | None:
    stages = [simulation.stage for simulation in live_simulations() if simulation.stage is not None]
    return stages[-1] if stages else None


def import_newton() -> Any:
    """The package ``newton``."""
    try:
        import newton
    except ImportError as error:
        raise MissingExtraError("newton", "newton", "simulating with Newton") from error
    return newton
