# SPDX-License-Identifier: Apache-2.0
"""Newton as an engine: its parts, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ..divergence import StateWatch
from ..motor import Motor, MotorKernels
from ..robots import Robot
from ..step_map import StepMaps
from .bodies import NewtonBodies
from .implicit_efforts import NewtonImplicitEfforts
from .loop import StepLoop, WatchedLoop
from .placing import place_robots
from .properties import NewtonDrives, NewtonProperties
from .reading import RobotFile
from .replay import Replay
from .solvers import Physics
from .state import NewtonState

_AT_ONCE = 256
"""Most steps without a return to Python, which handles interrupts."""


class NewtonEngine:
    """Newton with all environments of a simulation.

    Args:
        physics: The solver.
        file: Content of an environment.
        num_envs: Number of environments.
        dt: Time step [s].
    """

    steps_single_robots = False

    def __init__(self, physics: Physics, file: RobotFile, num_envs: int, dt: float):
        self._physics, self.num_envs, self.dt, self.time = physics, num_envs, dt, 0.0
        self.device = physics.model.device
        self.robots = place_robots(physics.newton, file, num_envs)
        self.state = NewtonState(physics, file, self.robots, num_envs)
        self.properties = NewtonProperties(physics, dt)
        self.drives = NewtonDrives(physics, self.properties)
        self.bodies = NewtonBodies(physics, self.state, file, num_envs)
        self.implicit_efforts = NewtonImplicitEfforts(physics, self.state.lines, self.state.control)
        self._replays: WeakKeyDictionary[Motor, Replay] = WeakKeyDictionary()
        self.watch: StateWatch | None = None
        self._loop = StepLoop(self.device)
        if self.device.is_cpu and self.robots:
            self.watch = StateWatch(self.robots, num_envs, self.state.arrays)
            self._loop = WatchedLoop(self.state.arrays, self.watch)

    def check_options(self) -> None:
        """Do nothing: Newton's options do not change."""

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge, if it is checked."""
        return self._loop.is_sound()

    def description(self) -> dict[str, str]:
        """Return texts by label that must match those of a file."""
        newton, solver = self._physics.newton, self._physics.solver
        return {"engine": f"Newton {newton.__version__}, {type(solver).__name__}", "time step": f"{self.dt} s"}

    def step(self, steps: int, motors: Sequence[Motor]) -> int:
        """Step motors and physics, at least once and at most ``steps`` times.

        Motors that consist of kernels are in one graph with the solver, which Python starts. If MuJoCo itself steps,
        which no kernel can call, a graph covers the time between two of its steps. Other motors, and implicit efforts,
        are stepped from Python, one step at a time.
        """
        stepped = [motor for motor in motors if motor.is_stepped]
        kernels = [motor.kernels(self.dt) for motor in stepped]
        self._physics.notice_changes()
        graphable = [each for each in kernels if each is not None]
        if len(graphable) < len(kernels) or self.state.lines.are_held:
            return self._step_from_python(steps, stepped)
        return self._step_by_kernels(steps, stepped, graphable)

    def _step_by_kernels(self, steps: int, motors: Sequence[Motor], kernels: Sequence[MotorKernels]) -> int:
        done, is_sound, has_failed = 0, True, False
        while done < steps and is_sound and not has_failed:
            begin, wanted = self.time, min(steps - done, _AT_ONCE)
            self._loop.begin(wanted)
            try:
                if not self._physics.step(self.state.state, self.state.control, self.dt, self._loop, kernels):
                    wanted = 1
            finally:  # interrupts are handled between steps
                taken, is_sound = self._loop.taken(wanted)
                self._count(taken, is_sound)
            for motor in motors:
                motor.has_run(begin)
            done += taken
            has_failed = taken < wanted
        if is_sound and has_failed:
            for motor in motors:
                motor.check()
        return done

    def _count(self, taken: int, is_sound: bool) -> None:
        """Count steps. The last one diverged if the state is not sound."""
        for _ in range(taken):  # as if one by one
            self.time += self.dt
        if taken:
            self.state.are_loads_old = True
            if self.watch is not None:
                self.watch.extend(taken if is_sound else taken - 1, self.time)

    def _step_from_python(self, steps: int, motors: Sequence[Motor]) -> int:
        for done in range(1, steps + 1):
            for motor in motors:
                self._step_motor(motor)
            self._take_step()
            self.time += self.dt
            if not self.is_sound():
                return done
            if motors and self.watch is not None:
                self.watch.check(self.time, self.dt, sound=True)
        return steps

    def _step_motor(self, motor: Motor) -> None:
        replay = self._replays.get(motor)
        if replay is None:
            replay = self._replays[motor] = Replay(self.device, self._physics.graphs)
        dt = self.dt
        motor.prepare()
        key = motor.capture_key(dt) if motor.is_graphable else None
        replay.run(key, lambda: motor.compute(dt))
        motor.hand_over(dt)

    def _take_step(self) -> None:
        if self.state.lines.are_held:
            self.state.lines.step(self.dt)
        else:
            self._physics.step(self.state.state, self.state.control, self.dt)
        self.state.are_loads_old = True

    def drive(self, motor: Motor, motors: Sequence[Motor], dt: float) -> None:
        """Step one of the motors, and write its efforts."""
        motor.prepare()
        motor.compute(dt)
        motor.hand_over(dt)

    def step_maps(self, robot: Robot, dt: float, viscous: np.ndarray | None = None) -> StepMaps:
        """Return linear maps of steps of ``dt`` [s] for small motions of a robot, from the first environment."""
        first = next(other for other in self.robots if other.kind is robot.kind)
        return self._physics.step_maps(first, self.state.state.joint_q.numpy(), dt, viscous)
