# SPDX-License-Identifier: Apache-2.0
"""MuJoCo: one model, and one ``MjData`` for each environment."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...errors import MissingExtraError, RobotFileError, SimulationError
from ...files import check_readable
from ..simulation import STATE, Robot, Simulation
from .drives import Drives

if TYPE_CHECKING:
    import mujoco

FORMATS = (".xml", ".urdf", ".mjb")
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

    def __init__(self, path_or_model: str | Path | mujoco.MjModel, num_envs: int = 1, dt: float | None = None):
        self._check_arguments(num_envs, dt)
        self._mujoco = _import_mujoco()
        model = self._load(path_or_model)
        if dt is not None:
            model.opt.timestep = dt
        elif not 0.0 < model.opt.timestep < math.inf:
            where = f"'{self.source}'" if self.source else "the model"
            raise RobotFileError(f"{where}: option timestep: got {model.opt.timestep}; must be finite and > 0 [s]")
        # A state that is not finite must be seen, not silently replaced by the first one.
        model.opt.disableflags |= int(self._mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        super().__init__(num_envs, float(model.opt.timestep), "cpu")
        self.models = [model] * num_envs
        """The model of each environment: one for all, until their gains differ."""
        self.data = [self._mujoco.MjData(model) for _ in range(num_envs)]
        """The state of each environment."""
        self._keyframe = self._mujoco.mj_name2id(model, self._mujoco.mjtObj.mjOBJ_KEY, _HOME)
        self._drives = Drives(self._mujoco, model)
        self._make_arrays(model)
        self.robots = self._find_robots(model)
        self._reset(np.arange(num_envs))
        self._be_current()

    def _load(self, path_or_model: str | Path | mujoco.MjModel) -> mujoco.MjModel:
        if isinstance(path_or_model, self._mujoco.MjModel):
            return copy.copy(path_or_model)
        if not isinstance(path_or_model, (str, Path)):
            raise RobotFileError(f"got {path_or_model!r}; must be the path of a model, or an MjModel")
        path = Path(path_or_model)
        check_readable(path, FORMATS)
        self.source = path
        mujoco = self._mujoco
        try:
            if path.suffix.lower() == ".mjb":
                model = mujoco.MjModel.from_binary_path(str(path))
            elif (
                path.suffix.lower() == ".urdf"
            ):  # whose fixed base would be melted into the world, and its name with it
                spec = mujoco.MjSpec.from_file(str(path))
                spec.compiler.fusestatic = False
                model = spec.compile()
            else:
                model = mujoco.MjModel.from_xml_path(str(path))
            model.names.decode()
        except UnicodeDecodeError as error:
            raise RobotFileError(f"'{path}' cannot be read: a name in it is not valid UTF-8: {error}") from error
        except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
            raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
        return model

    def _make_arrays(self, model: Any) -> None:
        widths = {"joint_q": model.nq} | dict.fromkeys(
            ("joint_qd", "joint_target_q", "joint_target_qd", "joint_f"), model.nv
        )
        self._rows = {kind: np.zeros((self.num_envs, width), np.float32) for kind, width in widths.items()}
        self.arrays = SimpleNamespace(
            **{kind: wp.array(rows.ravel(), copy=False, device="cpu") for kind, rows in self._rows.items()}
        )
        self._views = [(data.qpos, data.qvel, data.ctrl, data.qfrc_applied) for data in self.data]
        self._told = []
        for kind, servos in (("joint_target_q", self._drives.position), ("joint_target_qd", self._drives.velocity)):
            dofs = np.flatnonzero(servos >= 0)
            if dofs.size:
                ids, gear = servos[dofs], self._drives.gear[servos[dofs]]
                divisor = None if (gear == 1.0).all() else gear
                for row, data in zip(self._rows[kind], self.data, strict=True):
                    self._told.append((*_narrowed(row, dofs), *_narrowed(data.ctrl, ids), divisor))

    def _find_robots(self, model: Any) -> list[Robot]:
        mujoco = self._mujoco
        single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        by_root: dict[int, list[int]] = {}
        for joint in range(model.njnt):
            root = int(model.body_rootid[model.jnt_bodyid[joint]])
            if model.jnt_type[joint] in single:
                by_root.setdefault(root, []).append(joint)
        free = set(model.jnt_bodyid[model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE)].tolist())
        everyone = [joint for joints in by_root.values() for joint in joints]
        self._single_dofs, self._single_coordinates = model.jnt_dofadr[everyone], model.jnt_qposadr[everyone]
        robots = []
        for env in range(self.num_envs):
            for root, joints in by_root.items():
                name = _unique(model.body(root).name, f"body{root}", model, "body")
                path = f"/{name}" if self.num_envs == 1 else f"/World/envs/env_{env}/{name}"
                names = tuple(_unique(model.joint(j).name, f"joint{j}", model, "jnt") for j in joints)
                dofs = env * model.nv + model.jnt_dofadr[joints]
                paths = tuple(f"{path}/{n}" for n in names)
                coordinates = env * model.nq + model.jnt_qposadr[joints]
                slides = tuple(bool(model.jnt_type[j] == single[1]) for j in joints)
                fixed = root not in free
                robots.append(
                    Robot(path, env, f"/{name}", names, paths, coordinates, dofs, dofs, root, (), slides, fixed)
                )
        return robots

    def refresh(self) -> None:
        q, qd, effort = (self._rows[kind] for kind in (*STATE, "joint_f"))
        with np.errstate(over="ignore"):  # too large for 32 bits is infinite, and told by the next check
            for env, (qpos, qvel, _, applied) in enumerate(self._views):
                q[env] = qpos
                qd[env] = qvel
                effort[env] = applied
        self.refresh_targets()

    def refresh_targets(self) -> None:
        for targets, dofs, controls, ids, gear in self._told:
            targets[dofs] = controls[ids] if gear is None else controls[ids] / gear

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
            # A joint without a servo is told to stay where it is.
            self._rows["joint_target_q"][env, self._single_dofs] = data.qpos[self._single_coordinates]
            self._rows["joint_target_qd"][env] = 0.0
        self.refresh()

    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: wp.array) -> None:
        numbers = values.numpy()
        width = self._rows[kind].shape[1]
        place = {"joint_q": 0, "joint_qd": 1, "joint_f": 3}.get(kind, 2)
        servos = {"joint_target_q": self._drives.position, "joint_target_qd": self._drives.velocity}.get(kind)
        for i, row in zip(robots, numbers, strict=True):
            robot = self.robots[i]
            at = robot.indices(kind)[dofs] - robot.env * width
            self._rows[kind][robot.env, at] = row
            if servos is not None:
                at = servos[at]
                has = at >= 0
                at, row = (at, row) if has.all() else (at[has], row[has])
                row = row * self._drives.gear[at]
            self._views[robot.env][place][at] = row
        if kind in STATE:
            for env in {self.robots[i].env for i in robots}:
                self._mujoco.mj_forward(self.models[env], self.data[env])

    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        rows = efforts.numpy()
        places = []
        for row, robot in zip(rows, (self.robots[i] for i in robots), strict=True):
            at = robot.dofs[dofs] - robot.env * self.models[robot.env].nv
            places.append((*_narrowed(self._views[robot.env][3], at), *_narrowed(row, dofs)))

        def write() -> None:
            for applied, at, row, columns in places:
                applied[at] = row[columns]

        return write

    def root_poses(self, robots: np.ndarray) -> np.ndarray:
        rows = []
        for robot in (self.robots[i] for i in robots):
            data = self.data[robot.env]
            self._mujoco.mj_kinematics(self.models[robot.env], data)  # which a step leaves at the state before it
            w, *xyz = data.xquat[robot.root_body]
            rows.append([*data.xpos[robot.root_body], *xyz, w])
        return np.array(rows, np.float32)

    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        for robot, force in zip((self.robots[i] for i in robots), forces, strict=True):
            self.data[robot.env].xfrc_applied[robot.root_body, :3] = force

    def _with_models(self, robots: np.ndarray) -> Iterator[tuple[Any, Robot, np.ndarray]]:
        """Model, robot, and its DOFs in the model."""
        for robot in (self.robots[i] for i in robots):
            model = self.models[robot.env]
            yield model, robot, robot.dofs - robot.env * model.nv

    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        """The effort limit is that of a joint's servo; a limit of the speed MuJoCo has not."""
        if name == "velocity_limit":
            return None
        rows = []
        for model, _, dofs in self._with_models(robots):
            if name == "effort_limit":
                rows.append(self._drives.effort_limits(model, dofs))
            else:
                rows.append(getattr(model, _PROPERTIES[name])[dofs])
        return np.array(rows, np.float32)

    def keep_properties(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        kept = []
        for model, robot, own in self._with_models(robots):
            at, ids = own[dofs], self._drives.ids(own[dofs])
            places = dict.fromkeys(_PROPERTIES.values(), at)
            places |= dict.fromkeys(("actuator_forcelimited", "actuator_forcerange"), ids)
            kept.append((robot.env, {name: (where, getattr(model, name)[where]) for name, where in places.items()}))

        def give_back() -> None:
            for env, fields in kept:
                model = self.models[env]
                at, armature = fields["dof_armature"]
                is_other = (model.dof_armature[at] != armature).any()
                for name, (where, values) in fields.items():
                    getattr(model, name)[where] = values
                if is_other:
                    self._mujoco.mj_setConst(model, self._mujoco.MjData(model))

        return give_back

    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        alike = bool((values == values[:1]).all())
        for row, robot in self._to_change(robots, alike):
            model = self.models[robot.env]
            at = robot.dofs[dofs] - robot.env * model.nv
            if name == "effort_limit":
                self._drives.set_effort_limits(model, at, values[row])
                continue
            getattr(model, _PROPERTIES[name])[at] = values[row]
            if name == "armature":  # constants of the constraint solver follow from it
                self._mujoco.mj_setConst(model, self._mujoco.MjData(model))

    def dof_limits(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = []
        for model, _, dofs in self._with_models(robots):
            joints = model.dof_jntid[dofs]
            has_stops = model.jnt_limited[joints].astype(bool)[:, None]
            rows.append(np.where(has_stops, model.jnt_range[joints], (-np.inf, np.inf)))
        limits = np.array(rows)
        return limits[..., 0], limits[..., 1]

    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = [self._drives.gains(model, dofs) for model, _, dofs in self._with_models(robots)]
        return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])

    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        for row, (_, robot, own) in enumerate(self._with_models(robots)):
            for column, dof in enumerate(own[dofs]):
                kp, kd = stiffness[row, column], damping[row, column]
                why = self._drives.why_not(int(dof), float(kp)) if kp or kd else None
                if why:
                    raise SimulationError(f"joint '{robot.dof_names[int(dofs[column])]}' of '{robot.path}' {why}")
        alike = bool((stiffness == stiffness[:1]).all() and (damping == damping[:1]).all())
        for row, robot in self._to_change(robots, alike):
            model = self.models[robot.env]
            own = robot.dofs[dofs] - robot.env * model.nv
            self._drives.set_gains(model, own, stiffness[row], damping[row])

    def _to_change(self, robots: np.ndarray, alike: bool) -> Iterator[tuple[int, Robot]]:
        """Robots whose models to change, with their row. Environments that differ get a model of their own first."""
        chosen = [(row, self.robots[i]) for row, i in enumerate(robots)]
        sharing = Counter(id(model) for model in self.models)
        if len(sharing) == 1 and alike and len({robot.env for _, robot in chosen}) == self.num_envs:
            yield from ((row, robot) for row, robot in chosen if robot.env == 0)
            return
        for row, robot in chosen:
            model = self.models[robot.env]
            if sharing[id(model)] > 1:
                sharing[id(model)] -= 1
                self.models[robot.env] = copy.copy(model)
                sharing[id(self.models[robot.env])] = 1
            yield row, robot

    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        kept = []
        for model, robot, own in self._with_models(robots):
            ids = self._drives.ids(own[dofs])
            kept.append((robot.env, ids, self._drives.keep(model, ids)))
        for _, robot in self._to_change(robots, alike=True):
            model = self.models[robot.env]
            self._drives.silence(model, self._drives.ids(robot.dofs[dofs] - robot.env * model.nv))

        def give_back() -> None:
            for env, ids, values in kept:
                self._drives.put_back(self.models[env], ids, values)

        return give_back

    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        """A tendon that moves the joint is a drive too."""
        return np.array(
            [self._drives.silent(model, self.data[robot.env], dofs) for model, robot, dofs in self._with_models(robots)]
        )


def _as_slice(indices: np.ndarray) -> Any:
    """Indices without gaps as a slice, which copies nothing."""
    if indices.size and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _narrowed(values: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, Any]:
    """Values, and where the chosen ones lie in them; of indices without gaps, these values alone."""
    at = _as_slice(indices)
    return (values[at], slice(None)) if isinstance(at, slice) else (values, at)


def _unique(name: str, fallback: str, model: Any, kind: str) -> str:
    """The name of a body or joint; for one without, a name that no other has."""
    if name:
        return name
    count = {"body": model.nbody, "jnt": model.njnt}[kind]
    taken = {getattr(model, {"body": "body", "jnt": "joint"}[kind])(i).name for i in range(count)}
    while fallback in taken:
        fallback += "_"
    return fallback


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("mujoco", "mujoco", "simulating with MuJoCo") from error
    return mujoco
