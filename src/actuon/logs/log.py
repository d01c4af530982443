# SPDX-License-Identifier: Apache-2.0
"""`Log` and `JointLog`: what was recorded of a real robot, in SI units and radians, and what was found in it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ..errors import LogError, listed, require, shown
from .units import held_in

SERIES = ("position", "command", "velocity", "effort_command", "enabled", "supply")
"""Fields of `JointLog` that hold a value per sample."""
UNNAMED = "joint"
"""The name of a joint where the log has one and does not name it."""
HELD = ("command", "effort_command", "enabled", "velocity_command")
"""Quantities that keep their value until the next sample. Others are measured, and change between two samples."""

_EVEN = 1e-2
"""Of a step: samples that are less off an even grid are on it."""
_MOST_PER_SAMPLE = 16
"""Points of an even grid for each sample of an uneven log, where steps are much shorter than gaps."""
_HEADER = ("joint", "samples", "rate", "span", "position", "command", "unit in file", "also logged")

FindingKind: TypeAlias = Literal[
    "unused",  # columns, arrays or settings that are not read
    "left out",  # columns, rows or lines that would be read if they were sound
    "stated",  # a change of numbers that a mapping states
    "number format",  # decimal commas
    "unit",  # found by the numbers
    "counter",  # whole numbers without their sign, or that start again
    "turns",  # angles that start again after a turn
    "clock",  # where it starts, whether commands have their own, and whether the two agree
    "gap",
    "rate",  # too few samples per second
    "uneven",
    "still",  # a joint that does not move
    "constant command",
    "spike",
    "frozen",  # positions that are not read for a time
    "stale",  # positions that are read more often than they change
    "sign",
    "off",  # a motor that is never switched on
    "swapped",
    "lag",
    "drift",
    "robot",  # what a plant changes in the file of its robot
]
Severity: TypeAlias = Literal["info", "warning"]


class Finding(str):
    """A sentence on what was noticed in a log and done about it, with what it is about as fields.

    Args:
        text: The sentence.
        kind: What it is about.
        where: Joint, column or row that it concerns; several are separated by commas. "" for all of the log.
        severity: "info" where the log is read right all the same; "warning" where somebody should look.
        log: Path of the log, where the sentence begins with it.
    """

    kind: FindingKind
    where: str
    severity: Severity
    log: str

    def __new__(
        cls, text: str, kind: FindingKind = "unused", where: str = "", severity: Severity = "info", log: str = ""
    ) -> Finding:
        """Make the sentence; fields are set beside it."""
        self = super().__new__(cls, text)
        self.kind, self.where, self.severity, self.log = kind, where, severity, log
        return self

    def of_log(self, path: str) -> Finding:
        """Return the finding with the path of its log in front."""
        return Finding(f"{path}: {self}", self.kind, self.where, self.severity, path)


@dataclass(frozen=True, eq=False)
class JointLog:
    """One joint in one log: arrays of shape (T,) on the log's clock.

    Args:
        name: What the log calls the joint, or the mapping does.
        position: Measured [rad].
        command: Target position [rad].
        velocity: As logged [rad/s].
        effort_command: Commanded torque [N·m].
        enabled: Whether the motor was switched on, as booleans. None: always.
        supply: Of the motor [V].
        extra: Other quantities by name: ``effort`` [N·m], ``velocity_command`` [rad/s], ``current`` [A],
            ``voltage`` [V], ``temperature`` [°C] and ``load`` (duty), the last four as logged where no unit is stated.
        units: The unit in which each quantity stood in the file, by its name.
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

    def quantities(self) -> dict[str, np.ndarray]:
        """All that was logged of the joint, by name."""
        own = {name: getattr(self, name) for name in SERIES}
        return {name: values for name, values in own.items() if values is not None} | dict(self.extra)

    def replaced(self, values: Mapping[str, np.ndarray]) -> JointLog:
        """The joint with other values, by the names of quantities."""
        own = {name: array for name, array in values.items() if name in SERIES}
        extra = {name: array for name, array in values.items() if name not in SERIES}
        return dataclasses.replace(self, **own, extra={**self.extra, **extra})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Log:
    """One run of a robot, or of a joint on a bench.

    Args:
        path: Of its file.
        time: Of each sample [s], shape (T,), increasing; steps may be uneven.
        joints: What was logged of each.
        settings: What the file says of the run, such as ``mass``, ``length``, ``kp`` and ``motor``.
        findings: What was noticed in the file and done about it: sentences with a kind, a place and a severity.
        unit: Which robot of a fleet it is of, by name.
        recording: Identity of the recording: the same for a log and its windows.
    """

    path: str
    time: np.ndarray
    joints: tuple[JointLog, ...]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unit: str = ""
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
        """From the first sample to the last [s]."""
        return float(self.time[-1] - self.time[0])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """In the order of ``joints``."""
        return tuple(joint.name for joint in self.joints)

    def joint(self, name: str) -> JointLog:
        """Return the series of one joint.

        Raises:
            LogError: There is no such joint.
        """
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise LogError(f"'{self.path}' has no joint {shown(name)}; {listed(str(name), self.joint_names, 'joints')}")

    def window(self, start: float, stop: float) -> Log:
        """The samples with ``start <= time < stop``. The clock stays that of the log.

        Args:
            start: [s].
            stop: [s].

        Raises:
            LogError: Fewer than two samples are inside.
        """
        rows = slice(*np.searchsorted(self.time, (start, stop)).tolist())
        if len(self.time[rows]) < 2:
            raise LogError(
                f"'{self.path}': the window from {start:g} s to {stop:g} s holds {len(self.time[rows])} samples; must "
                f"hold at least 2 of the log's, which lasts from {self.time[0]:g} s to {self.time[-1]:g} s"
            )
        return self._at(rows)

    def split_windows(self, seconds: float) -> list[Log]:
        """Windows one after another, each of ``seconds``. What remains at the end is left out.

        Args:
            seconds: Length of a window [s], at most that of the log.
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
        """The log at a fixed step. Commands keep their last value, measurements are interpolated linearly.

        Args:
            dt: The step [s].
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

        A Savitzky-Golay filter: at each sample the parabola through the positions within ``width`` around it, by least
        squares. Near the ends, where half of the window is missing, it is the parabola of the first or last whole
        window, so that noise of accelerations there is greater. Where steps are uneven, positions are interpolated
        linearly onto an even grid of about the median step, filtered there, and interpolated back; across a gap the
        motion is therefore a straight line.

        Args:
            width: Length of the window [s], rounded to an odd number of samples: at least 5, at most all of the log.

        Raises:
            LogError: ``width`` is not positive, or the log has fewer than 3 samples.
            MissingExtraError: SciPy is not installed.
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
        """Return what the log holds, as text: a row per joint, its settings, and what was found and done."""
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
