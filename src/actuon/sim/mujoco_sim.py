# SPDX-License-Identifier: Apache-2.0
"""MuJoCo: one model, and one ``MjData`` for each environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ..errors import MissingExtraError, RobotFileError, SimulationError
from .simulation import CONTROL, STATE, Robot, Simulation

_HOME = "home"
_PROPERTIES = {"armature": "dof_armature", "friction": "dof_frictionloss", "viscous_friction": "dof_damping"}


class MujocoSimulation(Simulation):
    """MuJoCo with one or many copies of a model. MJCF and URDF.

    A robot is named by its root body: ``"/base"``, or ``"/World/envs/env_3/base"`` with several environments. It starts
    at the keyframe ``home`` where the model has one. Position targets are the ``ctrl`` of a joint's position servo
    where it has one. Efforts go to ``qfrc_applied``.

    Args:
        path_or_model: An ``.xml`` or ``.urdf`` file, or an ``MjModel``, which is copied.
        num_envs: Number of copies.
        dt: Time step [s]. Default: the model's.
    """

    def __init__(self, path_or_model: Any, num_envs: int = 1, dt: float | None = None):
        self._check_arguments(num_envs, dt)
        self._mujoco = _import_mujoco()
        model = self._load(path_or_model)
        if dt is not None:
            model.opt.timestep = dt
        # A state that is not finite must be seen, not silently replaced by the first one.
        model.opt.disableflags |= int(self._mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        super().__init__(num_envs, float(model.opt.timestep), "cpu")
        self.models = [model] * num_envs
        """The model of each environment: one for all, until their gains differ."""
        self.data = [self._mujoco.MjData(model) for _ in range(num_envs)]
        """The state of each environment."""
        self._keyframe = self._mujoco.mj_name2id(model, self._mujoco.mjtObj.mjOBJ_KEY, _HOME)
        self._find_drives(model)
        self._make_arrays(model)
        self.robots = self._find_robots(model)
        self._reset(np.arange(num_envs))
        self._be_current()

    def _load(self, path_or_model: Any) -> Any:
        if isinstance(path_or_model, self._mujoco.MjModel):
            return copy.copy(path_or_model)
        path = Path(path_or_model)
        if path.suffix not in (".xml", ".urdf", ".mjb"):
            raise RobotFileError(f"'{path}' has the format '{path.suffix}'; must be one of .xml, .urdf, .mjb")
        if not path.is_file():
            raise RobotFileError(f"'{path}' does not exist")
        self.source = path
        try:
            if path.suffix == ".mjb":
                return self._mujoco.MjModel.from_binary_path(str(path))
            return self._mujoco.MjModel.from_xml_path(str(path))
        except (ValueError, RuntimeError) as error:
            raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error

    def _find_drives(self, model: Any) -> None:
        """For each DOF, the actuators that act on its joint alone, and among them the servo for positions."""
        joint_types = (int(self._mujoco.mjtTrn.mjTRN_JOINT), int(self._mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        self._drives: dict[int, list[int]] = {}
        self._servo = np.full(model.nv, -1)
        self._velocity_servo = np.full(model.nv, -1)
        for i in range(model.nu):
            if model.actuator_trntype[i] in joint_types:
                dof = int(model.jnt_dofadr[model.actuator_trnid[i, 0]])
                self._drives.setdefault(dof, []).append(i)
                holds, brakes = model.actuator_biasprm[i, 1:3] != 0.0
                if model.actuator_biastype[i] == int(self._mujoco.mjtBias.mjBIAS_AFFINE):
                    (self._velocity_servo if brakes and not holds else self._servo)[dof] = i

    def _make_arrays(self, model: Any) -> None:
        widths = {"joint_q": model.nq} | dict.fromkeys(
            ("joint_qd", "joint_target_q", "joint_target_qd", "joint_f"), model.nv
        )
        self._rows = {kind: np.zeros((self.num_envs, width), np.float32) for kind, width in widths.items()}
        self.arrays = SimpleNamespace(
            **{kind: wp.array(rows.ravel(), copy=False, device="cpu") for kind, rows in self._rows.items()}
        )
        self._views = [(data.qpos, data.qvel, data.ctrl, data.qfrc_applied) for data in self.data]
        self._servo_dofs = np.flatnonzero(self._servo >= 0)
        self._servo_ids = self._servo[self._servo_dofs]
        self._velocity_dofs = np.flatnonzero(self._velocity_servo >= 0)
        self._velocity_ids = self._velocity_servo[self._velocity_dofs]

    def _find_robots(self, model: Any) -> list[Robot]:
        mujoco = self._mujoco
        single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        by_root: dict[int, list[int]] = {}
        for joint in range(model.njnt):
            root = int(model.body_rootid[model.jnt_bodyid[joint]])
            if model.jnt_type[joint] in single:
                by_root.setdefault(root, []).append(joint)
        robots = []
        for env in range(self.num_envs):
            for root, joints in by_root.items():
                name = model.body(root).name or f"body{root}"
                path = f"/{name}" if self.num_envs == 1 else f"/World/envs/env_{env}/{name}"
                names = tuple(model.joint(joint).name or f"joint{joint}" for joint in joints)
                dofs = env * model.nv + model.jnt_dofadr[joints]
                paths = tuple(f"{path}/{n}" for n in names)
                coordinates = env * model.nq + model.jnt_qposadr[joints]
                robots.append(Robot(path, env, f"/{name}", names, paths, coordinates, dofs, dofs, root))
        return robots

    def refresh(self) -> None:
        rows = self._rows
        q, qd, target, target_velocity, effort = (rows[kind] for kind in (*STATE, *CONTROL))
        for env, (qpos, qvel, ctrl, applied) in enumerate(self._views):
            q[env] = qpos
            qd[env] = qvel
            effort[env] = applied
            if self._servo_ids.size:
                target[env, self._servo_dofs] = ctrl[self._servo_ids]
            if self._velocity_ids.size:
                target_velocity[env, self._velocity_dofs] = ctrl[self._velocity_ids]

    def _advance(self) -> None:
        step = self._mujoco.mj_step
        for model, data in zip(self.models, self.data, strict=True):
            step(model, data)

    def _reset(self, env_ids: np.ndarray) -> None:
        for env in env_ids:
            model, data = self.models[env], self.data[env]
            if self._keyframe >= 0:
                self._mujoco.mj_resetDataKeyframe(model, data, self._keyframe)
            else:
                self._mujoco.mj_resetData(model, data)
            self._mujoco.mj_forward(model, data)
            self._rows["joint_target_q"][env] = 0.0
            self._rows["joint_target_qd"][env] = 0.0
        self.refresh()
        for robot in self.robots:
            if robot.env in env_ids:
                own = self._servo[robot.dofs - robot.env * self._rows["joint_qd"].shape[1]] < 0
                self._rows["joint_target_q"].ravel()[robot.dofs[own]] = self._rows["joint_q"].ravel()[
                    robot.coordinates[own]
                ]

    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: wp.array) -> None:
        numbers = values.numpy()
        width = self._rows[kind].shape[1]
        place = {"joint_q": 0, "joint_qd": 1, "joint_f": 3}.get(kind, 2)
        servos = {"joint_target_q": self._servo, "joint_target_qd": self._velocity_servo}.get(kind)
        for i, row in zip(robots, numbers, strict=True):
            robot = self.robots[i]
            at = robot.indices(kind)[dofs] - robot.env * width
            self._rows[kind][robot.env, at] = row
            if servos is not None:
                at = servos[at]
                if (at < 0).any():
                    at, row = at[at >= 0], row[at >= 0]
            self._views[robot.env][place][at] = row
        if kind in STATE:
            for env in {self.robots[i].env for i in robots}:
                self._mujoco.mj_forward(self.models[env], self.data[env])

    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        rows = efforts.numpy()
        columns = _as_slice(dofs)
        places = []
        for row, robot in zip(rows, (self.robots[i] for i in robots), strict=True):
            at = _as_slice(robot.dofs[dofs] - robot.env * self.models[robot.env].nv)
            places.append((self._views[robot.env][3], at, row))

        def write() -> None:
            for applied, at, row in places:
                applied[at] = row[columns]

        return write

    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        for robot, force in zip((self.robots[i] for i in robots), forces, strict=True):
            self.data[robot.env].xfrc_applied[robot.root_body, :3] = force

    def _model_drives(self, robots: np.ndarray) -> Iterator[tuple[Any, Robot, list[list[int]]]]:
        """Model, robot, and the actuators on each of its DOFs."""
        for robot in (self.robots[i] for i in robots):
            model = self.models[robot.env]
            yield model, robot, [self._drives.get(int(dof), []) for dof in robot.dofs - robot.env * model.nv]

    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        """The effort limit is that of a joint's servo; a limit of the speed MuJoCo has not."""
        if name == "velocity_limit":
            return None
        rows = []
        for model, robot, _ in self._model_drives(robots):
            dofs = robot.dofs - robot.env * model.nv
            if name == "effort_limit":
                servos = self._servo[dofs]
                limited = (servos >= 0) & (model.actuator_forcelimited[servos] != 0)
                rows.append(np.where(limited, model.actuator_forcerange[servos, 1], np.inf))
            else:
                rows.append(getattr(model, _PROPERTIES[name])[dofs])
        return np.array(rows, np.float32)

    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        alike = bool((values == values[:1]).all())
        for row, robot in self._to_change(robots, alike):
            model = self.models[robot.env]
            at = robot.dofs[dofs] - robot.env * model.nv
            if name == "effort_limit":
                has = self._servo[at] >= 0
                servos, limits = self._servo[at][has], values[row][has]
                model.actuator_forcelimited[servos] = np.isfinite(limits)
                model.actuator_forcerange[servos] = np.stack([-limits, limits], axis=1)
                continue
            getattr(model, _PROPERTIES[name])[at] = values[row]
            if name == "armature":  # constants of the constraint solver follow from it
                self._mujoco.mj_setConst(model, self._mujoco.MjData(model))

    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of position servos, ``kp`` and ``kv``, and of velocity servos ``kv``; zero where a DOF has none."""
        stiffness = [
            [sum(-model.actuator_biasprm[i, 1] for i in ids) for ids in drives]
            for model, _, drives in self._model_drives(robots)
        ]
        damping = [
            [sum(-model.actuator_biasprm[i, 2] for i in ids) for ids in drives]
            for model, _, drives in self._model_drives(robots)
        ]
        return np.array(stiffness, np.float32) + 0.0, np.array(damping, np.float32) + 0.0

    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        for robot in (self.robots[i] for i in robots):
            own = robot.dofs[dofs] - robot.env * self.models[robot.env].nv
            missing = self._servo[own] < 0
            if missing.any():
                name = robot.dof_names[int(dofs[np.argmax(missing)])]
                raise SimulationError(f"joint '{name}' of '{robot.path}' has no position servo in the model")
        alike = bool((stiffness == stiffness[:1]).all() and (damping == damping[:1]).all())
        for row, robot in self._to_change(robots, alike):
            model = self.models[robot.env]
            servos = self._servo[robot.dofs[dofs] - robot.env * model.nv]
            model.actuator_gainprm[servos, 0] = stiffness[row]
            model.actuator_biasprm[servos, 1] = -stiffness[row]
            model.actuator_biasprm[servos, 2] = -damping[row]

    def _to_change(self, robots: np.ndarray, alike: bool) -> Iterator[tuple[int, Robot]]:
        """Robots whose models to change, with their row. Environments that differ get a model of their own first."""
        chosen = [(row, self.robots[i]) for row, i in enumerate(robots)]
        shared = all(model is self.models[0] for model in self.models)
        if shared and alike and len({robot.env for _, robot in chosen}) == self.num_envs:
            yield from ((row, robot) for row, robot in chosen if robot.env == 0)
            return
        for row, robot in chosen:
            if sum(model is self.models[robot.env] for model in self.models) > 1:
                self.models[robot.env] = copy.copy(self.models[robot.env])
            yield row, robot

    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        fields = ("actuator_gaintype", "actuator_biastype", "actuator_gainprm", "actuator_biasprm")
        kept = []
        for _, robot in self._to_change(robots, alike=True):
            model = self.models[robot.env]
            own = robot.dofs[dofs] - robot.env * model.nv
            ids = [i for dof in own for i in self._drives.get(int(dof), [])]
            kept.append((model, ids, [getattr(model, field)[ids].copy() for field in fields]))
            model.actuator_gaintype[ids] = int(self._mujoco.mjtGain.mjGAIN_FIXED)
            model.actuator_biastype[ids] = int(self._mujoco.mjtBias.mjBIAS_AFFINE)
            model.actuator_gainprm[ids] = 0.0
            model.actuator_biasprm[ids] = 0.0

        def give_back() -> None:
            for model, ids, values in kept:
                for field, value in zip(fields, values, strict=True):
                    getattr(model, field)[ids] = value

        return give_back

    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        def is_silent(model: Any, ids: list[int]) -> bool:
            return not model.actuator_gainprm[ids].any() and not model.actuator_biasprm[ids].any()

        return np.array([[is_silent(model, ids) for ids in drives] for model, _, drives in self._model_drives(robots)])


def _as_slice(indices: np.ndarray) -> Any:
    """Indices without gaps as a slice, which copies nothing."""
    if indices.size and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("mujoco", "mujoco", "simulating with MuJoCo") from error
    return mujoco
