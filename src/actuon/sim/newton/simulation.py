# SPDX-License-Identifier: Apache-2.0
"""Newton, with its MuJoCo solver: one world for each environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...errors import MissingExtraError, RobotFileError, SimulationError
from ...kernel.types import Floats, Ints
from ...robot_files.names import shortest_endings
from ...typing import DeviceLike, PathLike
from ..robot import Robot
from ..simulation import CONTROL, STATE, Simulation, live_simulations

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
Table: Any = wp.array2d(dtype=wp.float32)
Places: Any = wp.array2d(dtype=wp.int32)


class NewtonSimulation(Simulation):
    """Newton with one or many copies of a USD stage.

    A robot is named by its articulation root: its path in the stage, or ``"/World/envs/env_3/Robot"`` with several
    environments. It starts as its links stand in the stage. On the CPU one environment is stepped by MuJoCo itself, and
    several by MuJoCo Warp, which also serves GPUs; both with the Euler integrator.

    Args:
        stage_or_path: A ``Usd.Stage`` or a USD file.
        num_envs: Number of copies.
        dt: Time step [s]. Default: that of the stage's physics scene.
        device: Where to run. Default: Warp's current device.
    """

    no_limit = 1.0e9
    stage: Usd.Stage

    def __init__(
        self,
        stage_or_path: Usd.Stage | PathLike,
        num_envs: int = 1,
        dt: float | None = None,
        device: DeviceLike = None,
    ):
        self._check_arguments(num_envs, dt)
        self._newton = newton = _import_newton()
        from ...robot_files.usd.stage import provide_stage

        self.stage = self._open(stage_or_path)
        template = newton.ModelBuilder()
        newton.solvers.SolverMuJoCo.register_custom_attributes(template)
        try:
            found = template.add_usd(self.stage, ignore_paths=self._own_prims())
        except (ValueError, RuntimeError, KeyError) as error:
            raise RobotFileError(f"'{self._name()}' cannot be simulated: {' '.join(str(error).split())}") from error
        in_robots = [j for j in range(template.joint_count) if template.joint_articulation[j] >= 0]
        if not any(template.joint_type[j] in self._single() for j in in_robots):
            raise RobotFileError(f"'{self._name()}' holds no robot: no articulation with a revolute or prismatic joint")
        builder = template
        if num_envs > 1:
            builder = newton.ModelBuilder()
            newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
            builder.replicate(template, num_envs)
        super().__init__(num_envs, float(dt or found["physics_dt"] or _DEFAULT_DT), device)
        self.model = builder.finalize(device=self.device)
        native = self.device.is_cpu and num_envs == 1
        self.solver = newton.solvers.SolverMuJoCo(self.model, use_mujoco_cpu=native, integrator="euler")
        if native:  # a state that diverged must be seen, not silently replaced by the first one
            mujoco, _ = self.solver.import_mujoco()
            self.solver.mj_model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.state, self.control = self.model.state(), self.model.control()
        newton.eval_ik(self.model, self.state, self.state.joint_q, self.state.joint_qd)
        self._first = {kind: wp.clone(getattr(self.state, kind)) for kind in STATE}
        self._first |= {kind: wp.clone(getattr(self.control, kind)) for kind in CONTROL}
        self.arrays = SimpleNamespace(
            **{kind: getattr(self.state, kind) for kind in STATE},
            **{kind: getattr(self.control, kind) for kind in CONTROL},
        )
        self.robots = self._find_robots(template)
        provide_stage(self._current_stage)
        self._be_current()

    @staticmethod
    def _current_stage() -> Usd.Stage | None:
        stages = [simulation.stage for simulation in live_simulations() if simulation.stage is not None]
        return stages[-1] if stages else None

    def _open(self, stage_or_path: Usd.Stage | PathLike) -> Usd.Stage:
        from ...robot_files.usd.stage import check_stage, open_stage

        if not isinstance(stage_or_path, (str, os.PathLike)):
            return check_stage(stage_or_path)

        self.source = Path(stage_or_path)
        return open_stage(self.source)

    def _name(self) -> str:
        return Path(self.stage.GetRootLayer().identifier).name

    def _own_prims(self) -> list[str]:
        """Paths that Newton shall not read: actuators are ours."""
        from ...robot_files.usd.attributes import ACTUATOR
        from ...robot_files.usd.stage import everything_below

        prims = everything_below(self.stage.GetPseudoRoot())
        return [str(prim.GetPath()) for prim in prims if prim.GetTypeName() == ACTUATOR]

    def _single(self) -> tuple[Any, Any]:
        """Types of joints that have one DOF."""
        return self._newton.JointType.REVOLUTE, self._newton.JointType.PRISMATIC

    def _find_robots(self, template: Any) -> list[Robot]:
        found: list[tuple[str, str, list[int], int]] = []
        for number, label in enumerate(template.articulation_label):
            members = [j for j in range(template.joint_count) if template.joint_articulation[j] == number]
            joints = [j for j in members if template.joint_type[j] in self._single()]
            if joints:
                bodies = [template.body_label[template.joint_child[j]] for j in members]
                root = _common_root([label, *bodies, *(template.joint_label[j] for j in joints)]) or label
                found.append((root, label, joints, members[0]))
        roots = [root for root, *_ in found]
        found = [(r if roots.count(r) == 1 else label, label, joints, base) for r, label, joints, base in found]
        ends = [root.rsplit("/", 1)[-1] for root, *_ in found]
        coordinates, dofs = template.joint_coord_count, template.joint_dof_count
        robots = []
        for env in range(self.num_envs):
            for (root, label, joints, base), end in zip(found, ends, strict=True):
                name = end if ends.count(end) == 1 else root[1:]
                path = root if self.num_envs == 1 else f"/World/envs/env_{env}/{name}"
                labels = [template.joint_label[j] for j in joints]
                paths = tuple(path + label.removeprefix(root) for label in labels)
                q = env * coordinates + np.array([template.joint_q_start[j] for j in joints])
                qd = env * dofs + np.array([template.joint_qd_start[j] for j in joints])
                targets = q if self.model.use_coord_layout_targets else qd
                body = env * template.body_count + template.joint_child[base]
                aliases = (label,) if self.num_envs == 1 else ()
                slides = tuple(template.joint_type[j] == self._single()[1] for j in joints)
                fixed = template.joint_type[base] != self._newton.JointType.FREE
                names = shortest_endings(labels)
                robots.append(Robot(path, env, root, names, paths, q, qd, targets, body, aliases, slides, fixed))
        return robots

    def refresh(self) -> None:
        """The arrays are the engine's own."""

    def refresh_targets(self) -> None:
        """So are the targets."""

    def _advance(self, steps: int) -> int:
        for _ in range(steps):
            self.solver.step(self.state, self.state, self.control, None, self.dt)
        return steps

    def _reset(self, env_ids: np.ndarray) -> None:
        for kind, first in self._first.items():
            target = getattr(self.arrays, kind)
            width = len(target) // self.num_envs
            if len(env_ids) == self.num_envs:
                wp.copy(target, first)
                continue
            for env in env_ids:
                wp.copy(target, first, dest_offset=int(env) * width, src_offset=int(env) * width, count=width)
        self.push(np.flatnonzero([robot.env in env_ids for robot in self.robots]), np.zeros((1, 3), np.float32))
        mask = np.zeros(self.model.world_count + 1, dtype=bool)
        mask[env_ids] = True
        flags = 0  # the joints are reset already; the rest is the solver's own memory
        self.solver.reset(self.state, wp.array(mask, device=self.device) if self.num_envs > 1 else None, flags)
        self._newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        at = np.stack([self.robots[i].indices(kind)[dofs] for i in robots])
        scatter(wp.array(values, dtype=wp.float32, device=self.device), at, getattr(self.arrays, kind))
        if kind in STATE:
            self._newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        at = np.stack([self.robots[i].dofs[dofs] for i in robots]).astype(np.int32)
        if not at.size:
            return lambda: None
        indices, columns = (wp.array(x, device=self.device) for x in (at, dofs.astype(np.int32)))
        command = wp.launch(
            _scatter_columns,
            at.shape,
            [efforts, columns, indices, self.arrays.joint_f],
            device=self.device,
            record_cmd=True,
        )
        return command.launch

    def root_poses(self, robots: np.ndarray) -> np.ndarray:
        return self.state.body_q.numpy()[[self.robots[i].root_body for i in robots]]

    def _engine_state(self):
        raise NotImplementedError

    def _load_engine_state(self, env_ids, state):
        raise NotImplementedError

    def root_velocities(self, robots):
        raise NotImplementedError

    def set_root_poses(self, robots, poses):
        raise NotImplementedError

    def set_root_velocities(self, robots, velocities):
        raise NotImplementedError

    def link_names(self, robot):
        raise NotImplementedError

    def link_masses(self, robots):
        raise NotImplementedError

    def set_link_masses(self, robots, links, values):
        raise NotImplementedError

    def set_dof_limits(self, robots, dofs, lower, upper):
        raise NotImplementedError

    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        wrenches = self.state.body_f.numpy()
        wrenches[[self.robots[i].root_body for i in robots], :3] = forces
        self.state.body_f.assign(wrenches)

    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        at = np.stack([self.robots[i].dofs for i in robots])
        return getattr(self.model, _PROPERTIES[name]).numpy()[at]

    def keep_properties(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        at = np.stack([self.robots[i].dofs[dofs] for i in robots])
        kept = {name: getattr(self.model, name).numpy()[at] for name in _PROPERTIES.values()}

        def give_back() -> None:
            for name, values in kept.items():
                self._set_model(name, robots, dofs, values)
            self.solver.notify_model_changed(self._newton.ModelFlags.JOINT_DOF_PROPERTIES)

        return give_back

    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        self._set_model(_PROPERTIES[name], robots, dofs, values)
        self.solver.notify_model_changed(self._newton.ModelFlags.JOINT_DOF_PROPERTIES)

    def _set_model(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        array = getattr(self.model, name)
        numbers = array.numpy().copy()
        numbers[np.stack([self.robots[i].dofs[dofs] for i in robots])] = values
        array.assign(numbers)

    def dof_limits(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.stack([self.robots[i].dofs for i in robots])
        lower, upper = (getattr(self.model, f"joint_limit_{side}").numpy()[at] for side in ("lower", "upper"))
        none = self._newton.MAXVAL
        return np.where(lower <= -none, -np.inf, lower), np.where(upper >= none, np.inf, upper)

    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.stack([self.robots[i].dofs for i in robots])
        return self.model.joint_target_ke.numpy()[at], self.model.joint_target_kd.numpy()[at]

    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        driven = set(self._driven_dofs().values())
        width = self.model.joint_dof_count // self.num_envs
        for row, robot in enumerate(self.robots[i] for i in robots):
            for column, dof in enumerate(robot.dofs[dofs] % width):
                if int(dof) not in driven and (stiffness[row, column] or damping[row, column]):
                    name = robot.dof_names[int(dofs[column])]
                    raise SimulationError(f"joint '{name}' of '{robot.path}' has no drive in the stage to set gains of")
        self._set_model("joint_target_ke", robots, dofs, stiffness)
        self._set_model("joint_target_kd", robots, dofs, damping)
        self.solver.notify_model_changed(self._newton.ModelFlags.JOINT_DOF_PROPERTIES)

    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        stiffness, damping = (values[:, dofs] for values in self.gains(robots))
        self.set_gains(robots, dofs, np.zeros_like(stiffness), np.zeros_like(damping))
        return lambda: self.set_gains(robots, dofs, stiffness, damping)

    def _driven_dofs(self) -> dict[int, int]:
        """The solver's actuators that follow joint targets, and the DOF of each in the first world."""
        if self.solver.mjc_actuator_to_newton_idx is None:
            return {}
        numbers = self.solver.mjc_actuator_to_newton_idx.numpy()
        sources = self.solver.mjc_actuator_ctrl_source.numpy()
        follows = [i for i, dof in enumerate(numbers) if sources[i] == 0 and dof != -1]
        return {i: int(numbers[i] if numbers[i] >= 0 else -(numbers[i] + 2)) for i in follows}

    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        """Read back from the solver's own model, not from the one that it was told about."""
        held = self.solver.mj_model if self.solver.use_mujoco_cpu else self.solver.mjw_model
        gain, bias = (np.asarray(getattr(held, f"actuator_{name}prm")) for name in ("gain", "bias"))
        if gain.ndim == 2:
            gain, bias = gain[None], bias[None]
        loud = np.logical_or(gain.any(axis=2), bias.any(axis=2))
        width = self.model.joint_dof_count // self.num_envs
        pushed = np.zeros((self.num_envs, width), dtype=bool)
        for i, dof in self._driven_dofs().items():
            pushed[:, dof] |= loud[:, i]
        at = np.stack([self.robots[i].dofs for i in robots])
        return np.logical_not(pushed.ravel()[at])


def _common_root(paths: list[str]) -> str:
    """The deepest path that all of ``paths`` lie in or below; empty where there is none."""
    split = [path.split("/") for path in paths if path.startswith("/")]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


@wp.kernel
def _scatter_columns(
    values: Table,
    columns: Ints,
    at: Places,
    target: Floats,
):
    i, j = wp.tid()
    target[at[i, j]] = values[i, columns[j]]


@wp.kernel
def _scatter(values: Table, at: Places, target: Floats):
    i, j = wp.tid()
    target[at[i, j]] = values[i, j]


def scatter(values: wp.array, at: np.ndarray, target: wp.array) -> None:
    """Write ``values`` of shape (n, d) to the indices ``at`` of a flat array."""
    indices = wp.array(at.astype(np.int32), dtype=wp.int32, device=target.device)
    wp.launch(_scatter, values.shape, [values, indices, target], device=target.device)


def _import_newton() -> Any:
    try:
        import newton
    except ImportError as error:
        raise MissingExtraError("newton", "newton", "simulating with Newton") from error
    return newton
