# SPDX-License-Identifier: Apache-2.0
"""MuJoCo as an engine: its parts, and the compiled loop that steps motors and physics."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import mujoco
import numpy as np
import warp as wp

from ...errors import RobotFileError
from ..divergence import StateWatch, divergence
from ..motor import Motor, MotorProgram
from ..robots import Robot
from .added import MujocoModel
from .bodies import MujocoBodies
from .drives import MujocoDrives
from .implicit_efforts import MujocoImplicitEfforts
from .loop import NOT_FINITE
from .model import ModelFields, find_kinds, place_robots, why_no_robot
from .motor_table import MotorTable
from .properties import MujocoProperties
from .state import MujocoState
from .step_map import MujocoStepMaps


class MujocoEngine:
    """MuJoCo with all environments of a simulation.

    Args:
        fields: The models of all environments.
        spec: Function that returns the `MjSpec` of the model; None if unknown.
        keyframe: Number of the keyframe to start at, or -1 for the model's own state.
    """

    steps_single_robots = True

    def __init__(self, fields: ModelFields, spec: Callable[[], mujoco.MjSpec] | None, keyframe: int):
        self.fields, self.num_envs, self.device = fields, fields.num_envs, wp.get_device("cpu")
        self.time = 0.0
        self.model = MujocoModel(fields, spec)
        self.state = MujocoState(self.model, keyframe)
        self._batch = self.state.batch
        tendons = [(tendon.name, tendon.root, tendon.dofs) for tendon in self.model.actuators.tendons]
        kinds = find_kinds(fields.model, tendons)
        if not kinds:
            raise RobotFileError(f"{fields.where} holds no robot: {why_no_robot(fields.model)}")
        self.robots = place_robots(kinds, self.num_envs)
        self.properties = MujocoProperties(self.model)
        self.drives = MujocoDrives(self.model, self._batch)
        self.bodies = MujocoBodies(self.model, self.state)
        self.implicit_efforts = MujocoImplicitEfforts(self.model, self.state, self.drives)
        self.state.place(kinds)
        self.watch = StateWatch(self.robots, self.num_envs, self.state.arrays)

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.fields.dt

    def check_options(self) -> None:
        """Raise an error for options that make MuJoCo ignore written values."""
        self.fields.check_options()

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge."""
        return self._batch.is_sound

    def description(self) -> dict[str, str]:
        """Return texts by label that must match those of a file."""
        found = {"engine": f"MuJoCo {mujoco.__version__}"}
        for name, values in self.fields.structure().items():
            found[f"{name} of the model"] = f"{values.size} numbers, checksum {zlib.crc32(values.tobytes()):08x}"
        return found

    def step(self, steps: int, motors: Sequence[Motor]) -> int:
        """Step motors and physics, at least once and at most ``steps`` times."""
        dt, begin = self.dt, self.time
        programs = []
        for motor in motors:
            program = motor.program(dt)
            programs.append(program)
            if program.in_python is not None and motor.is_stepped:
                steps = 1
                program.in_python()
        steps = 1 if self.model.compensates else steps  # bounds of efforts follow the pose
        for motor, place in zip(motors, self._bind(programs).motors, strict=True):
            is_stepped = motor.is_stepped
            place.is_driven = is_stepped
            place.retakes = steps if is_stepped else motor.ends_step_at(begin)
        self.fields.count_options()
        taken = 0
        try:
            self._batch.run(steps, self.watch)
            taken = steps
        finally:
            if taken == 0 or self._batch.is_noted:
                taken = int(self._batch.notes[:, 1].max())
            self.time = _later(begin, taken, dt)
            if not self._batch.is_noted:
                self.watch.extend(taken, self.time)
            for motor in motors:
                if motor.is_stepped:
                    motor.has_run(begin)
        if self._batch.is_noted:
            self._raise_notes(motors, begin)
        return taken

    def _bind(self, programs: Sequence[MotorProgram]) -> MotorTable:
        return self._batch.bind(programs, self.robots, lambda: len(self.implicit_efforts.derivatives) > 1)

    def drive(self, motor: Motor, motors: Sequence[Motor], dt: float) -> None:
        """Step one of the motors, and write its efforts."""
        self.check_options()
        programs = [other.program(dt) for other in motors]
        table, place, begin = self._bind(programs), motors.index(motor), self.time
        self._batch.forget_notes()
        in_python = programs[place].in_python
        if in_python is not None:
            in_python()
        self._batch.drive(table.motors[place])
        motor.has_run(begin)
        if self._batch.is_noted:
            self._raise_notes([motor], begin)

    def _raise_notes(self, motors: Sequence[Motor], begin: float) -> None:
        """Raise the earliest error that ended the run of an environment."""
        notes, dt = self._batch.notes, self.dt
        found = np.flatnonzero(notes[:, 0])
        env = int(found[notes[found, 1].argmin()])
        status, steps = notes[env, :2].tolist()
        if status != NOT_FINITE:
            self.watch.extend(steps - 1, begin)
        causes = {}
        for other in found.tolist():
            kind, _, motor, column, robot = notes[other].tolist()
            is_effort = kind == NOT_FINITE
            causes[other] = (
                motors[motor].not_finite(robot, column) if is_effort else self.watch.what_diverged(dt, other)
            )
        raise divergence(_later(begin, steps, dt), env, causes)

    def step_maps(self, robot: Robot, dt: float, viscous: np.ndarray | None = None) -> MujocoStepMaps:
        """Return linear maps of steps of ``dt`` [s] for small motions of a robot."""
        self.state.refresh()
        qpos, ctrl = (self._batch.block(name)[robot.env].copy() for name in ("qpos", "ctrl"))
        for places in self.model.actuators.derivatives.values():
            ctrl[places[places >= 0]] = 0.0
        model, dofs = self.fields.model_of(robot.env), robot.kind.columns["joint_qd"]
        return MujocoStepMaps(model, (qpos, ctrl), dofs, robot.is_fixed_base, dt, viscous)


def _later(time: float, steps: int, dt: float) -> float:
    """Return the time after steps, summed step by step."""
    for _ in range(steps):
        time += dt
    return time
