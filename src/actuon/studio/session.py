# SPDX-License-Identifier: Apache-2.0
"""`Session`: robots in real time, with everything that a page can do to them."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..actuator.config import ActuatorConfig
from ..attach.recorder import FORMATS, Recorder
from ..charts import GREEN, IDEAL, palette
from ..errors import ActuonError, SimulationError
from ..files import check_folder
from ..robot_source import RobotSource
from ..sim.mujoco import mute_mujoco_warnings
from ..typing import PathLike
from .history import Pace
from .motion import SINE, Motion
from .numbers import alike
from .robot import OF_FILE, StudioRobot
from .scene import poses_of

PUSH_SECONDS = 0.12
_BATCH = 0.004
"""Simulated time between two readings of the clock [s]."""
_LONGEST_LAG = 0.1
"""Longest time by which the simulation may fall behind; beyond it, the robot moves in slow motion [s]."""
_IDLE = 0.01
LONGEST_RECORD = 600.0
"""Longest recording, after which it is saved [s]."""
_log = logging.getLogger("actuon.studio")


class Session:
    """A robot, alone or next to others with the same commands, stepped in real time by a thread.

    Methods are called between two steps by `ask` or `do`, from any thread and in their order. The message of a failure
    is in ``message``, and the robot keeps moving.

    Args:
        source: The robot.
        compared: The robot with other motors, each next to it. Changes of values do not act on these.

    Examples:
        Without `start`, a session runs as fast as possible in the calling thread:

        >>> from actuon.studio import Session, find_source
        >>> with Session(find_source(actuon.assets.arm_mjcf)) as session:
        ...     session.set_number(session.joints, stage=1, name="kp", value=60.0)
        ...     session.record("run.csv")
        ...     session.advance(0.5)  # seconds
        ...     print(session.joints[:2], round(session.time, 3))
        ['joint1', 'joint2'] 0.5
    """

    def __init__(self, source: RobotSource, compared: Sequence[RobotSource] = ()):
        self.source = source
        self.compared: list[StudioRobot] = []
        """Robots with other motors."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(mute_mujoco_warnings())
            self.real = StudioRobot(source)
            stack.callback(self.real.close)
            colours = [GREEN, *palette(4 + len(compared))[4:]]  # without red, which marks limits
            for each, colour in zip(compared, colours, strict=False):
                self.compared.append(StudioRobot(each, colour=colour))
                stack.callback(self.compared[-1].close)
            self._opened = stack.pop_all()
        names = ", ".join(each.name for each in (self.real, *self.compared))
        self.title = f"{source.title} ({names})" if compared else source.title
        """Name of the robot, and of the files with motors if there are several."""
        self.ideal: StudioRobot | None = None
        """Copy of the robot with ideal motors; None if it is not shown."""
        robot = self.real
        self.dof_names = robot.dof_names
        self.joints = list(robot.configs)
        """Names of joints with an actuator."""
        self.file_configs = dict(robot.configs)
        """Actuators of the file, by joint."""
        self.history = robot.history
        self.work = np.zeros(len(robot.dof_names))
        """Positive work of the actuators on the joints since the reset [J], shape (D,)."""
        self.electrical = np.full(len(robot.dof_names), math.nan)
        """Electrical energy of the motors [J], NaN without voltage and current signals, shape (D,)."""
        self.pace = Pace()
        self.message = ""
        """Message of the last failure of a change."""
        self.problem = ""
        """Reason for a stop, until the next reset."""
        self.is_paused = False
        self.values_version = 0
        """Number of changes of values and stages."""
        self.first_joint = self.joints[0 if robot.is_fixed_base else -1]
        """Joint that is selected first."""
        columns = tuple(self.dof_names.index(name) for name in alike(robot.configs, self.first_joint))
        self.motion = Motion(SINE, columns, amplitude=0.02 if robot.slides[columns[0]] else 0.2, names=self.dof_names)
        self._motion_start = 0.0
        self._push: tuple[float, np.ndarray] | None = None
        self.poses = [poses_of(each.simulation) for each in self.robots]
        """Poses of the bodies of each robot, see `scene.poses_of`."""
        self._changes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._recorder: Recorder | None = None
        self._record_path: PathLike | None = None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()

    @property
    def robots(self) -> list[StudioRobot]:
        """The robot, those with other motors, and the ideal one if it is shown."""
        real, *ideal = self._changed
        return [real, *self.compared, *ideal]

    @property
    def _changed(self) -> list[StudioRobot]:
        """Robots that changes of values act on: the robot, and the ideal one if it is shown."""
        return [self.real] if self.ideal is None else [self.real, self.ideal]

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return self.real.simulation.time

    @property
    def has_changes(self) -> bool:
        """Whether changes are pending."""
        return not self._changes.empty()

    def start(self) -> Self:
        """Start a thread that steps in real time.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source("ak80-9")).start() as session:
            ...     session.do(session.pause, True)
            ...     print(session.is_paused)
            True
        """
        self._thread = threading.Thread(target=self._run, name="actuon-studio", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread, save the recording and close the simulations. Further calls have no effect."""
        self._ends.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        try:
            self.stop_recording()
        finally:
            if self._recorder is not None:
                self._recorder.close()
            self.show_ideal(False)
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, change: Callable[..., Any], *args: Any) -> None:
        """Queue a call of ``change(*args)`` between two steps.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> session = Session(find_source("ak80-9"))
            >>> session.ask(session.set_number, ["motor"], 0, "kd", 2.0)
            >>> session.has_changes
            True
            >>> session.advance(0.01)  # makes the change before the next step
            >>> session.real.configs["motor"].controller.kd, session.values_version
            (2.0, 1)
            >>> session.close()
        """
        self._changes.put(lambda: change(*args))

    def do(self, change: Callable[..., Any], *args: Any, timeout: float = 30.0) -> Any:
        """Call ``change(*args)`` between two steps, and return or raise its outcome.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source("ak80-9")).start() as session:
            ...     session.do(session.set_mode, "implicit")
            ...     print(session.real.mode)
            implicit
        """
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
        """Set a value on the robot and the ideal one, see `StudioRobot.set_number`."""
        joints = list(joints)
        for robot in self._changed:
            robot.set_number(joints, stage, name, value)
        self._values_changed()

    def set_configs(self, configs: Mapping[str, ActuatorConfig]) -> None:
        """Replace the actuators of joints, on the robot and the ideal one."""
        for robot in self._changed:
            robot.set_configs(configs)
        self._values_changed()

    def restore(self, joints: Iterable[str], stage: int, name: str) -> None:
        """Restore a value of some joints to that of the file."""
        by_value: dict[Any, list[str]] = {}
        for joint in joints:
            by_value.setdefault(getattr(self.file_configs[joint].stages[stage], name), []).append(joint)
        for value, same in by_value.items():
            self.set_number(same, stage, name, value)

    def restore_all(self) -> None:
        """Restore all values and the mode to those of the file.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source(actuon.assets.arm_mjcf)) as session:
            ...     session.set_number(["joint1"], 1, "kp", 60.0)
            ...     session.set_number(["joint1"], 1, "kd", 6.0)
            ...     session.restore(["joint1"], 1, "kp")
            ...     session.restore_all()
            ...     print(session.real.configs == session.file_configs)
            True
        """
        self.set_configs(self.file_configs)
        self.set_mode(OF_FILE)

    def set_mode(self, mode: str) -> None:
        """Set the integration of efforts, one of `robot.MODES`."""
        self.real.set_configs({}, mode)
        self._values_changed()

    def _values_changed(self) -> None:
        self.values_version += 1
        if self._recorder is not None and self._recorder.actuators is not self.real.actuators:
            self._recorder.continue_with(self.real.actuators)

    def set_motion(self, motion: Motion) -> None:
        """Replace the motion of the targets.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> from actuon.studio.motion import STEP, Motion
            >>> with Session(find_source("ak80-9")) as session:
            ...     session.set_motion(Motion(STEP, columns=(0,), amplitude=0.5))
            ...     session.advance(0.3)
            ...     print(session.history.window(0, 0.1, session.real.dt).target[-1])
            0.5
        """
        if motion.kind != self.motion.kind or motion.command is not self.motion.command:
            self._motion_start = self.time
        self.motion = motion

    def show_ideal(self, is_shown: bool) -> None:
        """Show or hide a copy of the robot with ideal motors, after the others. Showing it resets all robots.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source("ak80-9")) as session:
            ...     session.show_ideal(True)
            ...     print([robot.name for robot in session.robots])
            ['ak80-9', 'ideal']
        """
        if not is_shown and self.ideal is not None:
            self.ideal.close()
            self.ideal = None
            self.poses = self.poses[: len(self.robots)]
        elif is_shown and self.ideal is None:
            self.ideal = StudioRobot(self.source, True, self.real.configs, colour=IDEAL)
            self.reset()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume."""
        self.is_paused = is_paused
        self.pace.restart()

    def reset(self) -> None:
        """Reset robots, histories and energies."""
        for robot in self.robots:
            robot.reset()
        self.poses = [poses_of(robot.simulation) for robot in self.robots]
        self.work[:] = 0.0
        self.electrical[:] = math.nan
        self.problem = ""
        self._push = None
        self._motion_start = 0.0
        self.pace.restart()

    def push(self, force: tuple[float, float, float], knock: float = 0.0, column: int = 0) -> None:
        """Push the trunk with ``force`` [N] for 0.12 s; if the base is fixed, add ``knock`` [rad/s or m/s] to the
        velocity of a joint.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source(actuon.assets.quadruped_mjcf)) as session:
            ...     session.push((0.0, 60.0, 0.0))
            ...     session.advance(0.2)
            ...     session.reset()
            ...     print(session.time)
            0.0
        """
        if not self.real.is_fixed_base:
            self._push = self.time + PUSH_SECONDS, np.array(force)
            return
        for robot in self.robots:
            speeds = robot.articulation.get_dof_velocities().numpy()[0, column]
            robot.articulation.set_dof_velocities(speeds + knock, dof_indices=[column])

    def record(self, path: PathLike) -> None:
        """Record all steps, until `stop_recording` or `close` saves the file.

        Examples:
            >>> from actuon.studio import Session, find_source
            >>> with Session(find_source("ak80-9")) as session:
            ...     session.record("run.npz")
            ...     session.advance(0.1)
            ...     print(session.is_recording, session.stop_recording())
            True run.npz
        """
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

    def stop_recording(self, path: PathLike | None = None) -> PathLike | None:
        """Save the recording and return its path; None if it is empty. If it cannot be saved, it continues.

        Args:
            path: File to save to. Default: that of `record`.
        """
        recorder, path = self._recorder, path or self._record_path
        if recorder is None or path is None:
            return None
        if len(recorder):
            recorder.save(path)
        recorder.close()
        self._recorder = None
        return path if len(recorder) else None

    def advance(self, seconds: float) -> None:
        """Step for this simulated time in the calling thread, as fast as possible. For use without `start`."""
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
            began = time.thread_time()
            try:
                for _ in range(steps):
                    self._step()
            except Exception as error:
                if not isinstance(error, ActuonError):
                    _log.exception("the robot cannot be stepped")
                self.problem = self.problem or f"{type(error).__name__}: {error}"
            self.poses = [poses_of(robot.simulation) for robot in self.robots]
            wait = self.pace.took(steps * self.real.dt, time.thread_time() - began, _LONGEST_LAG)
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
                self.values_version += 1  # pages show the present values again

    def _step(self) -> None:
        now = self.time
        if self._push is not None:
            end, force = self._push
            self._push = self._push if now < end else None
            for robot in self.robots:
                robot.articulation.push(tuple(force) if self._push is not None else (0.0, 0.0, 0.0))
        targets = self.motion.targets(now - self._motion_start, self.real.home)
        try:
            for robot in self.robots:
                telemetry = robot.step(targets)
                if robot is self.real:
                    self._count_energy(telemetry)
            if self._recorder is not None and len(self._recorder) * self.real.dt >= LONGEST_RECORD:
                self.message = f"saved {self.stop_recording()}: the longest recording is {LONGEST_RECORD:g} s"
        except ActuonError as error:
            which = "" if robot is self.real else f"{robot.name}: "
            self.problem = f"{which}{error}"
            raise

    def _count_energy(self, telemetry: Any) -> None:
        dt = self.real.dt
        self.work += np.maximum(telemetry.mechanical_power[0], 0.0) * dt
        if "voltage" in telemetry.signals and "current" in telemetry.signals:
            drawn = telemetry.electrical_power[0] * dt
            self.electrical = np.where(np.isnan(self.electrical), drawn, self.electrical + np.nan_to_num(drawn))
