# SPDX-License-Identifier: Apache-2.0
"""`Session`: robots that move in real time, and everything that can be done to them. It knows of no page."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..actuator.config import ActuatorConfig
from ..attach.recorder import FORMATS, Recorder
from ..errors import ActuonError, SimulationError
from ..files import check_folder
from ..robot_source import RobotSource
from ..sim.mujoco import mute_mujoco_warnings
from ..typing import PathLike
from .drive import SINE, Drive
from .history import History, Pace
from .numbers import alike
from .robot import OF_FILE, StudioRobot
from .scene import poses_of

KEPT_SECONDS = 20.0
"""How much of the past is kept [s]."""
PUSH_SECONDS = 0.12
_BATCH = 0.004
"""How much simulated time is stepped between two looks at the clock [s]."""
_LONGEST_LAG = 0.1
"""Behind the clock by more than this [s], time is given up: the robot then moves slower than in reality."""
_IDLE = 0.01
LONGEST_RECORD = 600.0
"""How much simulated time a record holds before it is saved [s]."""
_log = logging.getLogger("actuon.studio")


class Session:
    """A robot, or two of them side by side, stepped by a thread of its own.

    Anything may be asked of it from any thread, and at any time: changes are queued, and made between two steps, in the
    order in which they came. What goes wrong in one is kept in ``message``, and the robot goes on.

    Args:
        source: The robot.
    """

    def __init__(self, source: RobotSource):
        self.source = source
        with contextlib.ExitStack() as stack:
            stack.enter_context(mute_mujoco_warnings())
            self.real = StudioRobot(source)
            self._quiet = stack.pop_all()
        self.ideal: StudioRobot | None = None
        """The same robot with ideal motors, while it is there."""
        robot = self.real
        self.dof_names = robot.dof_names
        self.joints = list(robot.configs)
        """Names of the joints that have an actuator."""
        self.file_configs = dict(robot.configs)
        """Actuators as the file has them, by joint."""
        self.history = History(round(KEPT_SECONDS / robot.dt), len(robot.dof_names))
        self.ideal_history = History(round(KEPT_SECONDS / robot.dt), len(robot.dof_names))
        self.work = np.zeros(len(robot.dof_names))
        """What the actuators gave the joints since the reset, without what came back [J], shape (D,)."""
        self.electrical = np.full(len(robot.dof_names), math.nan)
        """What the motors drew [J], where their chains say voltage and current, shape (D,)."""
        self.pace = Pace()
        self.message = ""
        """What went wrong last."""
        self.problem = ""
        """Why it does not go on, until the next reset."""
        self.is_paused = False
        self.values_version = 0
        """Counts changes of values and stages."""
        self.first_joint = self.joints[0 if robot.is_fixed_base else -1]
        """Where to look first: on legs, what carries."""
        columns = tuple(self.dof_names.index(name) for name in alike(robot.configs, self.first_joint))
        self.drive = Drive(SINE, columns, amplitude=0.02 if robot.slides[columns[0]] else 0.2, names=self.dof_names)
        self._drive_start = 0.0
        self._push: tuple[float, np.ndarray] | None = None
        self.poses = [poses_of(robot.simulation)]
        """Where the bodies of the robots are, as `scene.poses_of` gives them, for each robot."""
        self._changes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._recorder: Recorder | None = None
        self._record_path: PathLike | None = None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()

    @property
    def robots(self) -> list[StudioRobot]:
        """Those that are there."""
        return [self.real] if self.ideal is None else [self.real, self.ideal]

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return self.real.simulation.time

    @property
    def has_changes(self) -> bool:
        """Whether something was asked for that is not done yet."""
        return not self._changes.empty()

    def start(self) -> Self:
        """Let it run in real time, in a thread."""
        self._thread = threading.Thread(target=self._run, name="actuon-studio", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """End the thread, save what was recorded, and let go of the engines. May be called again."""
        self._ends.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        try:
            self.stop_recording()
        finally:
            for robot in self.robots:
                robot.close()
            self._quiet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, change: Callable[..., Any], *args: Any) -> None:
        """Have ``change(*args)`` called between two steps, by whoever steps."""
        self._changes.put(lambda: change(*args))

    def do(self, change: Callable[..., Any], *args: Any, timeout: float = 30.0) -> Any:
        """As `ask`, and wait for what it returns or raises."""
        if self._thread is None or threading.current_thread() is self._thread:
            return change(*args)
        done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                done.put((change(*args), None))
            except BaseException as error:
                done.put((None, error))

        self._changes.put(run)
        try:
            result, error = done.get(timeout=timeout)
        except queue.Empty as late:
            raise SimulationError(f"the session did not answer within {timeout:g} s") from late
        if error is not None:
            raise error
        return result

    def set_number(self, joints: Iterable[str], stage: int, name: str, value: Any) -> None:
        """As `StudioRobot.set_number`, on all robots that are there."""
        joints = list(joints)
        for robot in self.robots:
            robot.set_number(joints, stage, name, value)
        self._values_changed()

    def set_configs(self, configs: Mapping[str, ActuatorConfig]) -> None:
        """Give joints other actuators, on all robots that are there."""
        for robot in self.robots:
            robot.set_configs(configs)
        self._values_changed()

    def restore(self, joints: Iterable[str], stage: int, name: str) -> None:
        """Bring one value of some joints back to that of the file."""
        by_value: dict[Any, list[str]] = {}
        for joint in joints:
            by_value.setdefault(getattr(self.file_configs[joint].stages[stage], name), []).append(joint)
        for value, same in by_value.items():
            self.set_number(same, stage, name, value)

    def restore_all(self) -> None:
        """Bring all values back to those of the file, and the mode too."""
        self.set_configs(self.file_configs)
        self.set_mode(OF_FILE)

    def set_mode(self, mode: str) -> None:
        """Hand efforts to the engine as one of `robot.MODES`."""
        self.real.set_mode(mode)
        self._values_changed()

    def _values_changed(self) -> None:
        self.values_version += 1
        if self._recorder is not None and self._recorder.actuators is not self.real.actuators:
            self._recorder.go_on_with(self.real.actuators)

    def set_drive(self, drive: Drive) -> None:
        """Tell the joints to do something else."""
        if drive.kind != self.drive.kind or drive.command is not self.drive.command:
            self._drive_start = self.time
        self.drive = drive

    def show_ideal(self, wanted: bool) -> None:
        """Have the same robot with ideal motors beside it, or no more. Both start over."""
        if not wanted and self.ideal is not None:
            self.ideal.close()
            self.ideal = None
            self.poses = self.poses[:1]
        elif wanted and self.ideal is None:
            self.ideal = StudioRobot(self.source, True, self.real.configs)
            self.reset()

    def pause(self, wanted: bool) -> None:
        """Hold time, or let it go on."""
        self.is_paused = wanted
        self.pace.restart()

    def reset(self) -> None:
        """Bring everything back to the start."""
        for robot in self.robots:
            robot.reset()
        self.poses = [poses_of(robot.simulation) for robot in self.robots]
        self.history.clear()
        self.ideal_history.clear()
        self.work[:] = 0.0
        self.electrical[:] = math.nan
        self.problem = ""
        self._push = None
        self._drive_start = 0.0
        self.pace.restart()

    def push(self, force: tuple[float, float, float], knock: float = 0.0, column: int = 0) -> None:
        """Push the trunk with ``force`` [N] for 0.12 s; knock a joint of a robot that is bolted down by ``knock``
        [rad/s or m/s]."""
        if not self.real.is_fixed_base:
            self._push = self.time + PUSH_SECONDS, np.array(force)
            return
        for robot in self.robots:
            speeds = robot.articulation.get_dof_velocities().numpy()[0, column]
            robot.articulation.set_dof_velocities(speeds + knock, dof_indices=[column])

    def record(self, path: PathLike) -> None:
        """Record every step from now on, to be saved at the end."""
        path = Path(path)
        if path.suffix not in FORMATS or path.is_dir():
            raise SimulationError(f"record: got '{path}'; must be a file that ends in {' or '.join(FORMATS)}")
        check_folder(path.parent)
        self.stop_recording()
        self._recorder, self._record_path = Recorder(self.real.actuators), path

    @property
    def is_recording(self) -> bool:
        """Whether steps are recorded."""
        return self._recorder is not None

    def stop_recording(self) -> PathLike | None:
        """Save what was recorded. Returns where to, if there was anything."""
        recorder, self._recorder = self._recorder, None
        if recorder is None or self._record_path is None:
            return None
        recorder.close()
        if not len(recorder):
            return None
        recorder.save(self._record_path)
        return self._record_path

    def advance(self, seconds: float) -> None:
        """Step for this long in simulated time, in the calling thread, as fast as can be. For use without `start`."""
        for _ in range(round(seconds / self.real.dt)):
            self._make_changes()
            self._step()

    def _run(self) -> None:
        steps = max(1, round(_BATCH / self.real.dt))
        self.pace.restart()
        while not self._ends.is_set():
            self._make_changes()
            if self.is_paused or self.problem:
                self.pace.restart()
                self._ends.wait(_IDLE)
                continue
            began = time.perf_counter()
            try:
                for _ in range(steps):
                    self._step()
            except Exception as error:
                if not isinstance(error, ActuonError):
                    _log.exception("the robot cannot be stepped")
                self.problem = self.problem or f"{type(error).__name__}: {error}"
            self.poses = [poses_of(robot.simulation) for robot in self.robots]
            wait = self.pace.took(steps * self.real.dt, time.perf_counter() - began, _LONGEST_LAG)
            if wait > 0.0:
                self._ends.wait(wait)

    def _make_changes(self) -> None:
        while not self._changes.empty():
            try:
                self._changes.get()()
                self.message = ""
            except Exception as error:
                if not isinstance(error, ActuonError):
                    _log.exception("a change could not be made")
                self.message = str(error)
                self.values_version += 1  # so that pages show what still holds

    def _step(self) -> None:
        now = self.time
        if self._push is not None:
            end, force = self._push
            self._push = self._push if now < end else None
            for robot in self.robots:
                robot.articulation.push(tuple(force) if self._push is not None else (0.0, 0.0, 0.0))
        targets = self.drive.targets(now - self._drive_start, self.real.home)
        histories = (self.history, self.ideal_history)
        try:
            for robot, history in zip(self.robots, histories, strict=False):
                telemetry = robot.step(targets)
                position = robot.articulation.values("joint_q")[0]
                history.add(robot.simulation.time, position, targets, telemetry)
                if robot is self.real:
                    self._count_energy(telemetry)
            if self._recorder is not None and len(self._recorder) * self.real.dt >= LONGEST_RECORD:
                self.message = f"saved {self.stop_recording()}: a record holds {LONGEST_RECORD:g} s"
        except ActuonError as error:
            which = "ideal robot: " if robot.is_ideal else ""
            self.problem = f"{which}{error}"
            raise

    def _count_energy(self, telemetry: Any) -> None:
        dt = self.real.dt
        self.work += np.maximum(telemetry.mechanical_power[0], 0.0) * dt
        if "voltage" in telemetry.signals and "current" in telemetry.signals:
            drawn = telemetry.electrical_power[0] * dt
            self.electrical = np.where(np.isnan(self.electrical), drawn, self.electrical + np.nan_to_num(drawn))
