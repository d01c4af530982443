# SPDX-License-Identifier: Apache-2.0
"""`Log` and `JointLog`: a recording of a real robot, in SI units and radians, with findings on it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ..errors import LogError, listed, require, shown
from .units import default, held_in

SERIES = ("position", "command", "velocity", "effort_command", "enabled", "supply")
"""Fields of `JointLog` that hold a value per sample."""
UNNAMED = "joint"
"""Name of the only joint of a log that does not name it."""
HELD = ("command", "effort_command", "enabled", "velocity_command")
"""Quantities that keep their value until the next sample. Others are measured, and interpolated."""

_EVEN = 1e-2
"""Largest distance of samples from an even grid that they are on [step]."""
_MOST_PER_SAMPLE = 16
"""Most points of an even grid per sample of an uneven log, if steps are much shorter than gaps."""
_HEADER = ("joint", "samples", "rate", "span", "position", "command", "unit in file", "also logged")

FindingKind: TypeAlias = Literal[
    "unused",  # columns, arrays or settings that are not read
    "left out",  # columns, rows or lines that are damaged
    "stated",  # a change of numbers that a mapping states
    "number format",  # decimal commas
    "unit",  # inferred from the numbers
    "counter",  # whole numbers without their sign, or that wrap
    "turns",  # angles that wrap after a turn
    "clock",  # its start, a second one of the commands, and a difference between the two
    "gap",
    "rate",  # too few samples per second
    "uneven",
    "still",  # a joint that does not move
    "constant command",
    "spike",
    "frozen",  # positions that are not read for a time
    "stale",  # positions that repeat while the joint moves
    "sign",
    "off",  # a motor that is never switched on
    "swapped",
    "lag",
    "drift",
    "supply",  # a stated voltage that the measured one contradicts
    "robot",  # a change of the robot's file by a plant
]
Severity: TypeAlias = Literal["info", "warning"]


class Finding(str):
    """A sentence on an observation in a log and its treatment, with fields for programs.

    Args:
        text: The sentence.
        kind: Kind of the observation.
        where: Joint, column or row that it concerns; several are separated by commas. Empty: the whole log.
        severity: "warning" if the log may be wrong, otherwise "info".
        log: Path of the log, if the sentence begins with it.
    """

    kind: FindingKind
    where: str
    severity: Severity
    log: str

    def __new__(
        cls, text: str, kind: FindingKind = "unused", where: str = "", severity: Severity = "info", log: str = ""
    ) -> Finding:
        """Make the sentence, and set its fields."""
        self = super().__new__(cls, text)
        self.kind, self.where, self.severity, self.log = kind, where, severity, log
        return self

    def of_log(self, path: str) -> Finding:
        """Return the finding with the path of its log in front.

        Examples:
            >>> finding = actuon.logs.Finding("samples are 5 ms apart", "gap", "knee", "warning")
            >>> print(finding.of_log("run.csv"), finding.kind)
            run.csv: samples are 5 ms apart gap
        """
        return Finding(f"{path}: {self}", self.kind, self.where, self.severity, path)


@dataclass(frozen=True, eq=False)
class JointLog:
    """One joint in one log: arrays of shape (T,) on the log's clock.

    Args:
        name: Name of the joint, in the log or by the mapping.
        position: Measured position [rad or m].
        command: Target position [rad or m].
        velocity: Logged velocity [rad/s or m/s].
        effort_command: Commanded effort [N·m or N].
        enabled: Whether the motor was switched on, as booleans. None: always.
        supply: Supply voltage of the motor [V].
        extra: Other quantities by name: ``effort`` [N·m], ``velocity_command`` [rad/s], ``current`` [A],
            ``voltage`` [V], ``temperature`` [°C] and ``duty``; the last four as logged if their unit is unknown.
        units: Unit of each quantity in the file, by name.
    """

    name: str
    position: np.ndarray
    command: np.ndarray | None = None
    velocity: np.ndarray | None = None
    effort_command: np.ndarray | None = None
    enabled: np.ndarray | None = None
    supply: np.ndarray | None = None
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Unit of the position, ``"rad"`` or ``"m"``; rad if the file states none.

        Examples:
            >>> actuon.fit.JointLog("rail", np.zeros(3), units={"position": "mm"}).unit
            'm'
        """
        return held_in("position", self.units.get("position", default("position")))

    def quantities(self) -> dict[str, np.ndarray]:
        """Return all series of the joint, by name.

        Examples:
            >>> knee = actuon.fit.JointLog("knee", np.zeros(3), extra={"current": np.ones(3)})
            >>> list(knee.quantities())
            ['position', 'current']
        """
        own = {name: getattr(self, name) for name in SERIES}
        return {name: values for name, values in own.items() if values is not None} | dict(self.extra)

    def replaced(self, values: Mapping[str, np.ndarray]) -> JointLog:
        """Return the joint with other series, by name.

        Examples:
            >>> knee = actuon.fit.JointLog("knee", np.zeros(3))
            >>> knee.replaced({"position": np.ones(3)}).position
            array([1., 1., 1.])
        """
        own = {name: array for name, array in values.items() if name in SERIES}
        extra = {name: array for name, array in values.items() if name not in SERIES}
        return dataclasses.replace(self, **own, extra={**self.extra, **extra})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Log:
    """One run of a robot, or of a joint on a test stand.

    Args:
        path: Path of the file.
        time: Times of the samples [s], shape (T,), increasing; steps may be uneven.
        joints: Series of each joint.
        settings: Values that the file states for the run, such as ``mass``, ``length``, ``kp`` and ``motor``.
        findings: Sentences on observations in the file, with kind, place and severity.
        robot: Name of the robot in a fleet.
        recording: Identity of the recording, equal for a log and its windows.

    Examples:
        >>> time = np.arange(0.0, 4.0, 0.01)
        >>> knee = actuon.fit.JointLog("knee", position=np.sin(time), command=np.sin(time + 0.05))
        >>> log = actuon.fit.Log("run 1", time, (knee,), {"mass": 0.49})
        >>> len(log), round(log.duration, 2), log.joint_names
        (400, 3.99, ('knee',))
    """

    path: str
    time: np.ndarray
    joints: tuple[JointLog, ...]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    robot: str = ""
    recording: object = field(default_factory=object, repr=False)

    def __post_init__(self) -> None:
        if self.time.ndim != 1 or len(self.time) < 2 or not np.all(np.diff(self.time) > 0.0):
            raise LogError(f"'{self.path}': time must be an array of at least 2 increasing numbers")
        if not self.joints or len(set(self.joint_names)) < len(self.joints):
            raise LogError(f"'{self.path}': got the joints {shown(self.joint_names)}; must be at least one, each once")
        for joint in self.joints:
            for name, values in joint.quantities().items():
                if values.shape != self.time.shape:
                    raise LogError(
                        f"'{self.path}': {name} of '{joint.name}' has the shape {values.shape}; must be "
                        f"{self.time.shape}"
                    )

    def __len__(self) -> int:
        return len(self.time)

    @property
    def duration(self) -> float:
        """Time from the first sample to the last [s]."""
        return float(self.time[-1] - self.time[0])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of ``joints``."""
        return tuple(joint.name for joint in self.joints)

    def joint(self, name: str) -> JointLog:
        """Return the series of one joint.

        Raises:
            LogError: There is no such joint.

        Examples:
            >>> time = np.arange(0.0, 4.0, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> log.joint("knee").position.shape
            (400,)
        """
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise LogError(f"'{self.path}' has no joint {shown(name)}; {listed(str(name), self.joint_names, 'joints')}")

    def window(self, start: float, stop: float) -> Log:
        """Return the part with ``start <= time < stop``. Times are not shifted.

        Args:
            start: Start of the window [s].
            stop: End of the window [s].

        Raises:
            LogError: It holds fewer than two samples.

        Examples:
            >>> time = np.arange(0.0, 4.0, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> part = log.window(1.0, 2.0)
            >>> len(part), float(part.time[0])
            (100, 1.0)
        """
        rows = slice(*np.searchsorted(self.time, (start, stop)).tolist())
        if len(self.time[rows]) < 2:
            raise LogError(
                f"'{self.path}': the window from {start:g} s to {stop:g} s holds {len(self.time[rows])} samples; must "
                f"hold at least 2 of the log's, which lasts from {self.time[0]:g} s to {self.time[-1]:g} s"
            )
        return self._at(rows)

    def split_windows(self, seconds: float) -> list[Log]:
        """Split the log into windows of equal length. A shorter rest at the end is left out.

        Args:
            seconds: Length of a window [s], at most that of the log.

        Examples:
            >>> time = np.arange(0.0, 4.5, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> [len(part) for part in log.split_windows(2.0)]
            [200, 200]
        """
        if not (math.isfinite(seconds) and seconds > 0.0):
            raise LogError(f"windows: got {shown(seconds)} s; must be greater than 0")
        step = float(np.median(np.diff(self.time)))
        count = math.floor((self.duration + 1.01 * step) / seconds)
        if count == 0:
            raise LogError(f"'{self.path}' lasts {self.duration:g} s; windows of {seconds:g} s do not fit")
        starts = self.time[0] + seconds * np.arange(count + 1)
        return [self.window(start, stop) for start, stop in itertools.pairwise(starts)]

    def resampled(self, dt: float) -> Log:
        """Return the log at a fixed time step. Commands keep their last value; measurements are interpolated linearly.

        Args:
            dt: Time step [s].

        Examples:
            >>> time = np.arange(0.0, 4.0, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> len(log.resampled(0.002))
            1996
        """
        if not (math.isfinite(dt) and dt > 0.0):
            raise LogError(f"resampling: got a step of {shown(dt)} s; must be greater than 0")
        count = math.floor(self.duration / dt * (1.0 + 1e-12)) + 1
        time = self.time[0] + dt * np.arange(count)
        last = np.clip(np.searchsorted(self.time, time + 1e-6 * dt, side="right") - 1, 0, None)

        def at(name: str, values: np.ndarray) -> np.ndarray:
            return values[last] if name in HELD else np.interp(time, self.time, values)

        joints = (
            joint.replaced({name: at(name, values) for name, values in joint.quantities().items()})
            for joint in self.joints
        )
        return dataclasses.replace(self, time=time, joints=tuple(joints))

    def derivatives(self, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions [rad or m], velocities and accelerations of all joints at the samples, each of shape (T, J).

        A Savitzky-Golay filter fits a parabola to the positions within ``width`` around each sample by least squares.
        Samples within half a window of an end use the parabola of the first or last whole window, with more noise in
        accelerations. If steps are uneven, positions are interpolated linearly onto an even grid of about the median
        step, filtered, and interpolated back: the motion across a gap is a straight line.

        Args:
            width: Length of the window [s], rounded to an odd number of samples: at least 5, at most the whole log.

        Raises:
            LogError: ``width`` is not positive, or the log has fewer than 3 samples.
            MissingExtraError: SciPy is not installed.

        Examples:
            >>> time = np.arange(0.0, 4.0, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> position, velocity, acceleration = log.derivatives(width=0.1)
            >>> bool(np.abs(velocity[:, 0] - np.cos(time)).max() < 0.01)
            True
        """
        if not (math.isfinite(width) and width > 0.0):
            raise LogError(f"derivatives: got a width of {shown(width)} s; must be greater than 0")
        if len(self) < 3:
            raise LogError(f"'{self.path}' has {len(self)} samples; must have at least 3 for derivatives")
        signal = require("scipy.signal", "fit", "derivatives of logs")
        position = np.stack([joint.position for joint in self.joints], axis=1).astype(np.float64)
        step = float(np.median(np.diff(self.time)))
        even = np.linspace(self.time[0], self.time[-1], len(self))
        is_even = bool(np.abs(self.time - even).max() < _EVEN * step)
        if not is_even:
            count = min(round(self.duration / step) + 1, _MOST_PER_SAMPLE * len(self))
            even = np.linspace(self.time[0], self.time[-1], max(count, len(self)))
            position = _interpolated(even, self.time, position)
        step = float(even[1] - even[0])
        samples = max(5, 2 * round(min(width / step, len(even)) / 2.0) + 1)
        samples = min(samples, len(even) - (len(even) + 1) % 2)
        motion = [signal.savgol_filter(position, samples, 2, deriv=order, delta=step, axis=0) for order in range(3)]
        smooth, velocity, acceleration = (each if is_even else _interpolated(self.time, even, each) for each in motion)
        return smooth, velocity, acceleration

    def describe(self) -> str:
        """Return a table of the joints as text, with the settings and findings.

        Examples:
            >>> time = np.arange(0.0, 4.0, 0.01)
            >>> log = actuon.fit.Log("run 1", time, (actuon.fit.JointLog("knee", np.sin(time)),))
            >>> print(log.describe())
            run 1
            joint  samples  rate    span    position      command  unit in file  also logged
            knee   400      100 Hz  3.99 s  -0.7502 to 1  none     unknown
            found: nothing unusual
        """
        rows = [_HEADER, *(self._described(joint) for joint in self.joints)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = [self.path]
        lines += ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
        if self.settings:
            lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in self.settings.items()))
        lines += ["found:", *(f"- {text}" for text in self.findings)] if self.findings else ["found: nothing unusual"]
        return "\n".join(lines)

    def _described(self, joint: JointLog) -> tuple[str, ...]:
        rate = 1.0 / float(np.median(np.diff(self.time)))
        command = "effort_command" if joint.command is None else "command"
        values = joint.quantities()
        units = dict.fromkeys(joint.units[name] for name in ("position", command) if name in joint.units)
        others = (f"{name} [{joint.units[name]}]" if name in joint.units else name for name in values)
        return (
            joint.name,
            str(len(self)),
            f"{rate:.4g} Hz",
            f"{self.duration:.4g} s",
            _range(joint, "position", joint.position),
            _range(joint, command, values[command]) if command in values else "none",
            ", ".join(units) or "unknown",
            ", ".join(text for text, name in zip(others, values, strict=True) if name not in ("position", command)),
        )

    def _at(self, rows: slice) -> Log:
        joints = (
            joint.replaced({name: values[rows] for name, values in joint.quantities().items()}) for joint in self.joints
        )
        return dataclasses.replace(self, time=self.time[rows], joints=tuple(joints))


def _interpolated(at: np.ndarray, time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Interpolate the columns of ``values``, shape (T, J), linearly."""
    return np.stack([np.interp(at, time, column) for column in values.T], axis=1)


def _range(joint: JointLog, quantity: str, values: np.ndarray) -> str:
    unit = held_in(quantity, joint.units[quantity]) if quantity in joint.units else ""
    return f"{values.min():.4g} to {values.max():.4g} {unit}".rstrip()
