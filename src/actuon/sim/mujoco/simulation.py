# SPDX-License-Identifier: Apache-2.0
"""MuJoCo: one model, and the state of all environments in one array."""

from __future__ import annotations

import math
import operator
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...errors import MissingExtraError, RobotFileError, SimulationError
from ...typing import IdsLike
from ..claims import TARGETS
from ..motor import Motor, MotorProgram
from ..robot import Robot
from ..simulation import STATE
from .batch import Batch
from .drives import Drives
from .fields import ModelFields
from .limits import Limits
from .load import find_robots, links_of, load_model, spec_reader
from .loop import NOT_FINITE, Target
from .motor_table import MotorTable
from .names import find_keyframe, why_no_robot
from .places import Places, as_slice, grid
from .roots import Roots
from .slopes import SlopeHolder
from .tendons import TendonDrive

if TYPE_CHECKING:
    import mujoco

_BLOCKS = {"joint_q": "qpos", "joint_qd": "qvel", "joint_f": "qfrc_applied"}


class MujocoSimulation(SlopeHolder):
    """MuJoCo with one or many copies of a model. MJCF and URDF.

    A robot is named by its root body: ``"/base"``, or ``"/World/envs/env_3/base"`` with several environments. Targets
    are the ``ctrl`` of a joint's servos, or of the servo of a tendon that joins it to others. Efforts go to
    ``qfrc_applied``.

    Many environments are stepped by all cores, with the results of plain ``mj_step``, warm starts included, to the last
    bit.

    Args:
        path_or_model: An ``.xml`` or ``.urdf`` file, or an ``MjModel`` or ``MjSpec``, which is copied.
        num_envs: Number of copies.
        dt: Time step [s]. Default: the model's.
        keyframe: Name or number of the keyframe to start at. Default: ``home`` where the model has it, else its own
            state.
    """

    steps_single_robots = True

    def __init__(
        self,
        path_or_model: str | Path | mujoco.MjModel | mujoco.MjSpec,
        num_envs: int = 1,
        dt: float | None = None,
        *,
        keyframe: str | int | None = None,
    ):
        self._check_arguments(num_envs, dt)
        self._mujoco = _import_mujoco()
        model = load_model(self._mujoco, path_or_model, dt)
        self._spec = spec_reader(self._mujoco, path_or_model)
        if isinstance(path_or_model, (str, Path)):
            self.source = Path(path_or_model)
        self._where = f"'{self.source}'" if self.source else "the model"
        self._keyframe = find_keyframe(model, keyframe, self._where)
        super().__init__(num_envs, float(model.opt.timestep), "cpu")
        self._fields = ModelFields(self._mujoco, model, num_envs)
        self._drives = Drives(self._mujoco, model)
        self._lifted, self._relied_on, self._sharpened = Counter(), [], []
        self._compensates = bool(model.jnt_actgravcomp.any())
        self._limits = Limits(self._mujoco, self._drives, self._lifted)
        widths = {"joint_q": model.nq} | dict.fromkeys(
            ("joint_qd", "joint_target_q", "joint_target_qd", "joint_f"), model.nv
        )
        self._rows = {kind: np.zeros((num_envs, width), np.float32) for kind, width in widths.items()}
        self.arrays = SimpleNamespace(
            **{kind: wp.array(rows.ravel(), copy=False, device="cpu") for kind, rows in self._rows.items()}
        )
        self._batch = Batch(self._mujoco, self._fields, self._rows, self._find_targets())
        self.robots = find_robots(self._mujoco, model, num_envs, self._drives.tendons)
        if not self.robots:
            raise RobotFileError(f"{self._where} holds no robot: {why_no_robot(self._mujoco, model)}")
        self._places = Places()
        self._roots = Roots(self._mujoco, self._fields, self._batch)
        first = [robot for robot in self.robots if robot.env == 0]
        self._dofs, self._coordinates = (
            np.concatenate([np.zeros(0, np.int64), *(robot.indices(kind) for robot in first)])
            for kind in ("joint_qd", "joint_q")
        )
        self._start = self._state_at(self._keyframe)
        self._reset(np.arange(num_envs))
        self._be_current()

    @property
    def models(self) -> Sequence[mujoco.MjModel]:
        """The ``MjModel`` of each environment: the one that all share, or a copy for one that differs from it.

        All environments have the same options: those that are written into any of these take effect at the next step,
        the time step included.
        """
        return _Each(self.num_envs, self._fields.show)

    @property
    def data(self) -> Sequence[mujoco.MjData]:
        """The ``MjData`` of each environment, with its contacts and sensors, for a viewer too.

        One that was asked for stays up to date, and what is written into it takes effect. Ask for those that you need:
        each takes as much memory as hundreds of environments without.
        """
        self._fields.is_shown = True  # by its attribute ``model``
        return _Each(self.num_envs, self._batch.data)

    @property
    def dt(self) -> float:
        """Time step [s]: that of the model's options, which may be changed between two steps."""
        fields = self._fields
        fields.gather_options()
        if fields.options.timestep != self._dt:
            self._take_timestep(float(fields.options.timestep))
        return self._dt

    def _take_timestep(self, dt: float) -> None:
        """Go on with another time step [s]."""
        if not 0.0 < dt < math.inf:
            raise SimulationError(f"opt.timestep of {self._where}: got {dt}; must be a finite number > 0 [s]")
        self._dt = dt
        self._fields.version += 1
        self._sharpen_again()

    def _find_targets(self) -> list[Target]:
        """Targets that are controls of servos."""
        found = []
        for kind, servos in (("joint_target_q", self._drives.position), ("joint_target_qd", self._drives.velocity)):
            rows = self._rows[kind]
            for dof in np.flatnonzero(servos >= 0):
                control = int(servos[dof])
                place = (rows.ctypes.data, rows.shape[1], int(dof), control)
                meaning = float(self._drives.scale[control]), float(self._drives.offset[control])
                found.append(Target(*place, *meaning, *self._limits.control_range(self._fields.model, control)))
        return found

    def _take_model(self, model: Any, drives: Drives) -> None:
        self.refresh()
        self._fields.share(model)
        self._drives, self._limits = drives, Limits(self._mujoco, drives, self._lifted)
        self._batch.change(self._find_targets(), self._lines())
        self._places.clear()
        self._start = self._state_at(self._keyframe)
        self.claims_version += 1
        self.limits_version += 1
        for kind, places in (("joint_target_q", drives.position), ("joint_target_qd", drives.velocity)):
            added = [dof for dof in drives.added_dofs if places[dof] >= 0]
            if added:
                self._tell(kind, slice(None), np.array(added), self._rows[kind][:, added])

    def _state_at(self, keyframe: int) -> np.ndarray:
        """The state at a keyframe, or the model's own for -1, shape (W,)."""
        mujoco, model = self._mujoco, self._fields.model
        data = mujoco.MjData(model)
        if keyframe >= 0:
            mujoco.mj_resetDataKeyframe(model, data, keyframe)
        for dof in self._drives.added_dofs:  # which are told to stay where they are
            if self._drives.position[dof] >= 0:
                data.ctrl[self._drives.position[dof]] = data.qpos[model.jnt_qposadr[model.dof_jntid[dof]]]
        state = np.zeros(self._batch.states.shape[1])
        mujoco.mj_getState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        return state

    def refresh(self) -> None:
        self._batch.refresh()
        if self._compensates:
            self.limits_version += 1

    refresh_targets = refresh

    def _check_options(self) -> None:
        if not self._relied_on:
            return
        fields = self._fields
        fields.gather_options()
        flags = fields.options.disableflags, fields.options.disableactuator, fields.options.integrator
        if flags != self._checked_flags:
            for check in self._relied_on:
                check()
            self._checked_flags = flags

    def _advance(self, steps: int) -> int:
        dt, begin, compiled = self.dt, self._time, []
        for motor in self.motors:
            program = motor.program(dt)
            if program is not None:
                compiled.append((motor, program))
            elif motor.is_stepped:
                steps = 1
                motor.step_in_python(dt)
        steps = 1 if self._compensates else steps  # where bounds of efforts follow the pose
        for (motor, _), place in zip(compiled, self._bind(compiled).motors, strict=True):
            is_stepped = motor.is_stepped
            place.is_driven = is_stepped
            place.retakes = steps if is_stepped else motor.ends_step_at(begin)
        self._fields.count_options()
        taken = 0
        try:
            self._batch.run(steps, self._watch)
            taken = steps
        finally:
            if taken == 0 or self._batch.is_noted:
                taken = int(self._batch.notes[:, 1].max())
            self._time = _later(begin, taken, dt)
            if self._watch is not None and not self._batch.is_noted:
                self._watch.extend(taken, self._time)
            for motor, _ in compiled:
                if motor.is_stepped:
                    motor.has_run(begin)
        if self._batch.is_noted:
            self._raise_notes(compiled, begin)
        return taken

    def _bind(self, compiled: Sequence[tuple[Motor, MotorProgram]]) -> MotorTable:
        programs = [program for _, program in compiled]
        return self._batch.bind(programs, self.robots, lambda: len(self._held_slopes()) > 1)

    def drive(self, motor: Motor, dt: float) -> bool:
        program = motor.program(dt)
        if program is None:
            return False
        self._check_options()
        others = [(other, own) for other in self.motors if (own := other.program(dt)) is not None]
        table = self._bind(others)
        begin = self._time
        self._batch.forget_notes()
        for (other, _), place in zip(others, table.motors, strict=True):
            if other is motor:
                self._batch.drive(place)
        motor.has_run(begin)
        if self._batch.is_noted:
            self._raise_notes([(motor, program)], begin)
        return True

    def _raise_notes(self, motors: Sequence[tuple[Motor, MotorProgram]], begin: float) -> None:
        """Raise what ended the run of an environment, of the earliest step."""
        notes = self._batch.notes
        found = np.flatnonzero(notes[:, 0])
        env = int(found[notes[found, 1].argmin()])
        status, steps, motor, column, robot = notes[env].tolist()
        time = _later(begin, steps, self._dt)
        if status == NOT_FINITE:
            raise SimulationError(f"t = {time:.6g} s: {motors[motor][0].not_finite(robot, column)}")
        if self._watch is not None:
            self._watch.extend(steps - 1, begin)
            self._watch.check(time, self._dt, False, env)

    def _check_state(self) -> None:
        if not self._batch.is_sound or (self._watch is not None and self._watch.time != self._time):
            super()._check_state()

    def _is_sound(self) -> bool:
        return self._batch.is_sound

    def reset(self, env_ids: IdsLike = None, *, keyframe: str | int | None = None) -> None:
        """Bring environments back to their first state, or to a keyframe. The others are not touched.

        Args:
            env_ids: Which ones: whole numbers, a slice or a mask. None of them: nothing happens. Default: all, and the
                time too.
            keyframe: Name or number of a keyframe, for this time. Default: what the simulation starts at.
        """
        first = self._start
        if keyframe is not None:
            self._start = self._state_at(find_keyframe(self._fields.model, keyframe, self._where))
        try:
            super().reset(env_ids)
        finally:
            self._start = first

    def _reset(self, env_ids: np.ndarray) -> None:
        # A joint without a servo is told to stay where it is.
        self._rows["joint_target_q"][env_ids[:, None], self._dofs] = self._batch.part(self._start, "qpos")[
            self._coordinates
        ]
        self._rows["joint_target_qd"][env_ids] = 0.0
        self._batch.take(env_ids, self._start)
        self._read_tendons(env_ids)

    def _at(self, kind: str, robots: np.ndarray, dofs: np.ndarray) -> tuple[Any, Any]:
        """Environments and columns of the values of ``kind``, as slices where they have no gaps."""
        key = (kind, robots.tobytes(), dofs.tobytes())
        found = self._places.get(key)
        if found is None:
            width = self._rows[kind].shape[1]
            columns = {tuple((self.robots[i].indices(kind)[dofs] % width).tolist()) for i in robots}
            if len(columns) > 1:
                raise SimulationError("robots of several kinds cannot be written at once")
            envs = np.array([self.robots[i].env for i in robots])
            found = self._places.keep(key, (as_slice(envs), as_slice(np.array(columns.pop(), dtype=np.int64))))
        return found

    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        envs, columns = self._at(kind, robots, dofs)
        self.refresh()
        is_for_tendons = kind == "joint_target_q" and bool(self._drives.coupling)
        if is_for_tendons:
            self._read_tendons(envs)
        self._rows[kind][grid(envs, columns)] = values
        if kind in _BLOCKS:
            self._batch.put(_BLOCKS[kind], envs, columns, values)
            if kind == "joint_f":
                self._level(envs, columns)
        else:
            self._tell(kind, envs, columns, values)
        if is_for_tendons:
            for tendon in self._drives.coupling:
                self._pull(tendon, envs, tendon.length(self._rows[kind][envs][:, tendon.dofs]))
        if kind in STATE:
            self._batch.look(envs)
            self._batch.forward(np.arange(self.num_envs)[envs])

    def _tell(self, kind: str, envs: Any, columns: Any, targets: np.ndarray) -> None:
        """Tell servos their targets, as far as they follow them, and show what they follow."""
        at = (columns.start, columns.stop) if isinstance(columns, slice) else columns.tobytes()
        key = ("told", kind, at)
        found = self._places.get(key)
        if found is None:
            places = (self._drives.position if kind == "joint_target_q" else self._drives.velocity)[columns]
            has = np.flatnonzero(places >= 0)
            at, dofs = places[has], np.arange(self._rows[kind].shape[1])[columns][has]
            ranges = np.array([self._limits.control_range(self._fields.model, int(place)) for place in at])
            meaning = self._drives.scale[at], self._drives.offset[at], *ranges.reshape(-1, 2).T
            is_plain = all(
                (one == other).all() for one, other in zip(meaning, (1.0, 0.0, -np.inf, np.inf), strict=True)
            )
            found = self._places.keep(key, (as_slice(has), as_slice(at), as_slice(dofs), None if is_plain else meaning))
        has, at, dofs, meaning = found
        controls = targets[:, has]
        if meaning is not None:
            scale, offset, low, high = meaning
            controls = np.clip(controls * scale + offset, low, high)
            self._rows[kind][grid(envs, dofs)] = (controls - offset) / scale
        self._batch.put("ctrl", envs, at, controls)

    def _pull(self, tendon: TendonDrive, envs: Any, lengths: np.ndarray) -> None:
        """Tell the drive of a tendon lengths [m or rad] of shape (n,)."""
        place = np.array([tendon.servo.position])
        low, high = self._limits.control_range(self._fields.model, int(place[0]))
        self._batch.put("ctrl", envs, place, np.clip(self._drives.controls(lengths[:, None], place), low, high))

    def _lengths(self, tendon: TendonDrive, envs: Any) -> np.ndarray:
        """Lengths that a tendon is told [m or rad], shape (n,)."""
        place = tendon.servo.position
        return np.asarray(self._drives.targets(self._batch.block("ctrl")[envs, place], np.array(place)))

    def _read_tendons(self, envs: Any) -> None:
        """Let the targets of joints fit what their tendons are told."""
        rows = self._rows["joint_target_q"]
        for tendon in self._drives.coupling:
            at = grid(envs, tendon.dofs)
            rows[at] = tendon.spread(rows[at].astype(np.float64), self._lengths(tendon, envs))

    def _tendons_of(self, robot: Robot) -> list[TendonDrive]:
        return [tendon for tendon in self._drives.tendons if tendon.root == robot.root_body]

    def tendon_targets(self, robots: np.ndarray) -> np.ndarray:
        self.refresh()
        rows = []
        for robot in (self.robots[i] for i in robots):
            envs = slice(robot.env, robot.env + 1)
            rows.append([self._lengths(tendon, envs)[0] for tendon in self._tendons_of(robot)])
        return np.array(rows)

    def set_tendon_targets(self, robots: np.ndarray, tendons: np.ndarray, lengths: np.ndarray) -> None:
        chosen = [(self.robots[i], [self._tendons_of(self.robots[i])[j] for j in tendons]) for i in robots]
        nv = self._fields.model.nv
        for i, (robot, own) in zip(robots, chosen, strict=True):
            moved = {int(dof) for tendon in own for dof in tendon.dofs}
            self.check_free([i], [j for j, dof in enumerate(robot.dofs - robot.env * nv) if int(dof) in moved])
        self.refresh()
        for row, (robot, own) in zip(lengths, chosen, strict=True):
            envs = slice(robot.env, robot.env + 1)
            for length, tendon in zip(row, own, strict=True):
                self._pull(tendon, envs, np.array([float(length)]))
            self._read_tendons(envs)

    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        envs, columns = self._at("joint_f", robots, dofs)
        rows, chosen = efforts.numpy(), as_slice(dofs)
        shown, batch, place = self._rows["joint_f"], self._batch, grid(envs, columns)

        def write() -> None:
            values = rows[:, chosen]
            shown[place] = values
            batch.put("qfrc_applied", envs, columns, values)

        return write

    def follows(self, kind: str, robot: Robot) -> np.ndarray:
        dofs = robot.dofs - robot.env * self._fields.model.nv
        return np.array([self._drives.follows(dof, TARGETS[kind]) for dof in dofs.tolist()])

    def root_poses(self, robots: np.ndarray) -> np.ndarray:
        self.refresh()
        return self._per_root(robots, 7, self._roots.poses)

    def set_root_poses(self, robots: np.ndarray, poses: np.ndarray) -> None:
        self._set_roots(robots, poses, self._roots.set_poses)

    def root_velocities(self, robots: np.ndarray) -> np.ndarray:
        self.refresh()
        return self._per_root(robots, 6, self._roots.velocities)

    def set_root_velocities(self, robots: np.ndarray, velocities: np.ndarray) -> None:
        self._set_roots(robots, velocities, self._roots.set_velocities)

    def _by_root(self, robots: np.ndarray) -> list[tuple[int, Any, Any]]:
        """Root bodies, with the rows of their robots and the environments of these, as slices where without gaps."""
        key = ("root", robots.tobytes())
        found = self._places.get(key)
        if found is None:
            roots = np.array([self.robots[i].root_body for i in robots], dtype=np.int64)
            envs = np.array([self.robots[i].env for i in robots], dtype=np.int64)
            alike = [np.flatnonzero(roots == root) for root in np.unique(roots)]
            places = [(int(roots[rows[0]]), as_slice(rows), as_slice(envs[rows])) for rows in alike]
            found = self._places.keep(key, places)
        return found

    def _per_root(self, robots: np.ndarray, width: int, read: Callable[[int, Any], np.ndarray]) -> np.ndarray:
        found = np.empty((len(robots), width), np.float32)
        for root, rows, envs in self._by_root(robots):
            found[rows] = read(root, envs)
        return found

    def _set_roots(self, robots: np.ndarray, values: np.ndarray, put: Callable[..., None]) -> None:
        for i in robots:
            if self.robots[i].is_fixed_base:
                raise SimulationError(f"'{self.robots[i].path}' has no free base: its root cannot be moved")
        self.refresh()
        for root, rows, envs in self._by_root(robots):
            put(root, envs, values[rows])
            self._batch.forward(np.arange(self.num_envs)[envs])
        self._batch.show()

    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        for root, rows, envs in self._by_root(robots):
            self._batch.put("xfrc_applied", envs, slice(6 * root, 6 * root + 3), forces[rows])

    def link_names(self, robot: int) -> list[str]:
        model = self._fields.model
        return [model.body(int(body)).name for body in links_of(model, self.robots[robot].root_body)]

    def _engine_state(self) -> np.ndarray:
        self.refresh()
        targets = (self._rows[kind] for kind in ("joint_target_q", "joint_target_qd"))
        return np.hstack([self._batch.states, *targets])

    def _load_engine_state(self, env_ids: np.ndarray, state: np.ndarray) -> None:
        width, nv = self._batch.states.shape[1], self._rows["joint_target_q"].shape[1]
        for i, kind in enumerate(("joint_target_q", "joint_target_qd")):
            self._rows[kind][env_ids] = state[:, width + i * nv : width + (i + 1) * nv]
        self._batch.take(env_ids, state[:, :width])

    def _engine_description(self) -> dict[str, str]:
        found = {"engine": f"MuJoCo {self._mujoco.__version__}"}
        for name, values in self._fields.structure().items():
            found[f"{name} of the model"] = f"{values.size} numbers, checksum {zlib.crc32(values.tobytes()):08x}"
        return found

    def _properties(self) -> dict[str, np.ndarray]:
        assert self.dt  # which follows the options
        return self._fields.values()

    def _checked_properties(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        self._fields.check(where, found)

        def take() -> None:
            self._fields.gather_options()
            self._fields.take(found)
            self._dt = float(self._fields.options.timestep)
            self._checked_flags = None
            self.limits_version += 1

        return take

    def _told_loads(self) -> np.ndarray | None:
        return None if self._batch.loads is None else self._batch.loads.copy()

    def _tell_loads(self, env_ids: np.ndarray, loads: np.ndarray) -> None:
        if self._batch.loads is not None:
            self._batch.loads[env_ids] = loads


class _Each(Sequence[Any]):
    """Something of each environment, made when it is asked for."""

    def __init__(self, count: int, get: Callable[[int], Any]):
        self._count, self._get = count, get

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, env: Any) -> Any:
        if isinstance(env, slice):
            return [self._get(i) for i in range(*env.indices(self._count))]
        place = operator.index(env)
        if not -self._count <= place < self._count:
            raise IndexError(f"environment {place}: there are {self._count}")
        return self._get(place % self._count)


def _later(time: float, steps: int, dt: float) -> float:
    """Return the time after steps, added one by one as single steps do."""
    for _ in range(steps):
        time += dt
    return time


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("mujoco", "mujoco", "simulating with MuJoCo") from error
    return mujoco
