# SPDX-License-Identifier: Apache-2.0
"""MuJoCo as an engine: its parts, and the compiled loop that steps motors and physics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np
import warp as wp

from ...errors import RobotFileError, SimulationError
from ..divergence import StateWatch
from ..motor import Motor, MotorProgram
from ..robots import Robot
from .added import MujocoModel
from .batch import STEPS_PER_CALL
from .bodies import MujocoBodies
from .drives import MujocoDrives
from .loop import DIVERGED, NOT_FINITE, RUNS
from .model import ModelFields, find_kinds, place_robots, why_no_robot
from .motor_table import MotorTable
from .properties import MujocoProperties
from .state import MujocoState
from .step_map import MujocoStepMaps
from .tangents import MujocoTangents


class MujocoEngine:
    """MuJoCo with all environments of a simulation.

    Args:
        fields: The models of all environments.
        spec: What reads the `MjSpec` that the model was compiled from; None where there is none.
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
        self.tangents = MujocoTangents(self.model, self.state, self.drives)
        self.state.place(kinds)
        self.watch = StateWatch(self.robots, self.num_envs, self.state.arrays)

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.fields.dt

    def check_options(self) -> None:
        """Refuse options of the model with which MuJoCo ignores what it was handed."""
        self.fields.check_options()

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge."""
        return not self._batch.failures

    def step(self, steps: int, motors: Sequence[Motor]) -> int:
        """Step motors and physics, at least once and at most so often."""
        dt = self.dt
        programs = [motor.program(dt) for motor in motors]
        in_python = [motor for motor, own in zip(motors, programs, strict=True) if own is None and motor.is_stepped]
        if self.model.compensates or in_python:
            steps = 1  # bounds, or efforts, come from Python
        steps = min(steps, STEPS_PER_CALL)
        for motor in in_python:
            motor.step_in_python(dt)
        compiled = [(motor, own) for motor, own in zip(motors, programs, strict=True) if own is not None]
        table = self._bind(compiled)
        for (motor, _), place in zip(compiled, table.motors, strict=True):
            place.is_driven = motor.is_stepped
            place.retakes = steps if motor.is_stepped else int(motor.ends_step_at(self.time))
        self.fields.count_options()
        begin, before = self.time, self._batch.block("time").copy()
        taken = 0
        try:
            self._batch.run(steps, self.watch)
            taken = steps
        finally:
            is_sound = not self._batch.notes[:, 0].any()
            if taken == 0 or not is_sound:  # as many as some environment took
                taken = int(np.rint((self._batch.block("time") - before).max() / dt))
            for _ in range(taken):
                self.time += dt
            if is_sound:
                self.watch.extend(taken, self.time)
            for motor, _ in compiled:
                if motor.is_stepped:
                    motor.has_run(begin)
        if not is_sound:
            self._raise_notes(compiled, begin)
        return taken

    def _bind(self, compiled: Sequence[tuple[Motor, MotorProgram]]) -> MotorTable:
        by_position = len(self.tangents.slopes) > 1
        return self._batch.bind([program for _, program in compiled], self.robots, by_position)

    def drive(self, motor: Motor, motors: Sequence[Motor], dt: float) -> bool:
        """Step one of the motors at once. False where it has to be stepped from Python."""
        program = motor.program(dt)
        if program is None:
            return False
        self.check_options()
        others = [(other, own) for other in motors if (own := other.program(dt)) is not None]
        table = self._bind(others)
        begin = self.time
        self._batch.notes[self._batch.notes[:, 0] != DIVERGED, 0] = RUNS
        for (other, _), place in zip(others, table.motors, strict=True):
            if other is motor:
                self._batch.drive(place)
        motor.has_run(begin)
        self._raise_notes([(motor, program)], begin)
        return True

    def _raise_notes(self, motors: Sequence[tuple[Motor, MotorProgram]], begin: float) -> None:
        """Raise what ended the run of an environment, of the earliest step."""
        notes, dt = self._batch.notes, self.dt
        found = np.flatnonzero(notes[:, 0])
        if not found.size:
            return
        status, step, motor, column, robot = notes[found[notes[found, 1].argmin()]].tolist()
        if status == NOT_FINITE:
            time = begin
            for _ in range(step):
                time += dt
            raise SimulationError(f"t = {time:.6g} s: {motors[motor][0].not_finite(robot, column)}")
        self.watch.extend(step, begin)
        for _ in range(step + 1):
            begin += dt
        self.watch.check(begin, dt, False)

    def step_maps(self, robot: Robot, dt: float, viscous: np.ndarray | None = None) -> MujocoStepMaps:
        """Return how steps of ``dt`` [s] answer to small motions of a robot."""
        self.state.refresh()
        qpos, ctrl = (self._batch.block(name)[robot.env].copy() for name in ("qpos", "ctrl"))
        for places in self.model.actuators.slopes.values():
            ctrl[places[places >= 0]] = 0.0
        model, dofs = self.fields.model_of(robot.env), robot.kind.columns["joint_qd"]
        return MujocoStepMaps(model, (qpos, ctrl), dofs, robot.is_fixed_base, dt, viscous)
