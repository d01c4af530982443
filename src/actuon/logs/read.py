# SPDX-License-Identifier: Apache-2.0
"""Read files as logs: `read_log`, `read_logs`, and `Reader`, which turns one table into a `Log`."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..errors import LogError
from ..typing import PathLike
from . import checks, infer
from .columns import Column, ColumnMapping, Signal
from .files import log_files, robot_folders
from .formats import read_table
from .infer import Joint
from .log import SERIES, UNNAMED, Finding, FindingKind, JointLog, Log, Severity
from .records import robots_of
from .table import Table
from .units import CLOCKS, NEEDED, SHARED, default, factor

T = TypeVar("T")
MappingLike: TypeAlias = ColumnMapping | Mapping[str, Any] | PathLike | None
FEWEST = 3
"""Smallest number of samples of a log."""
LARGEST = 1e25
"""Bound of the numbers in a log; nanoseconds since 1970 are below."""
_HIGHEST_SUPPLY = 100.0
"""Largest supply voltage [V]; larger numbers have another unit."""
_SHORTEST = 1e-9
"""Shortest distance of two different times [s]."""
_EPOCH = 1e8
"""Smallest time that counts from 1970 or from the start of a computer [s]."""
_COARSE = 0.2
"""Share of samples with the time of the previous one, from which on a clock is too coarse."""
_COMMANDS = ("command", "velocity_command", "effort_command")


def read_log(path: PathLike, mapping: MappingLike = None) -> Log:
    """Read the log of a robot, or of a joint on a test stand.

    Args:
        path: A ``.csv``, ``.json``, ``.npz`` or ``.parquet`` file; the first two also as ``.gz``.
        mapping: Meanings of its columns: a `ColumnMapping`, a dictionary with the same contents, or the path of a YAML
            file. Default: columns have usual names, such as ``time``, ``cmd_knee`` and ``pos_knee``.

    Raises:
        LogError: The file cannot be read, or is not a log; the message names the place and the reason.

    Examples:
        >>> time = np.arange(0.0, 2.0, 0.01)
        >>> goal, angle = np.degrees([np.sin(3.0 * time), np.sin(3.0 * time - 0.1)])
        >>> table, names = np.column_stack([1e3 * time, goal, angle]), "t_ms,goal [deg],angle [deg]"
        >>> np.savetxt("run.csv", table, delimiter=",", header=names, comments="")
        >>> log = actuon.fit.read_log("run.csv", {"settings": {"mass": 0.49}})
        >>> print(log.joint("joint").command.max().round(3), log.settings)
        1.0 {'mass': 0.49}
    """
    logs = _read_all(path, mapping)
    if len(logs) > 1:
        raise LogError(
            f"'{path}' is a recording of {len(logs)} robots; read it with read_logs, which returns a log for each"
        )
    return logs[0]


def read_logs(paths: PathLike | Iterable[PathLike], mapping: MappingLike = None) -> list[Log]:
    """Read logs of the same joints. A recording of several robots becomes a log for each.

    Args:
        paths: Files, folders of files, and patterns such as ``"runs/*.csv.gz"``. With a folder that holds a folder for
            each robot of a fleet, `Log.robot` is the name of the latter.
        mapping: Meanings of columns, as in `read_log`.

    Raises:
        LogError: One cannot be read, there are none, or they have different joints.

    Examples:
        >>> time = np.arange(0.0, 2.0, 0.01)
        >>> table = np.column_stack([time, np.sin(3.0 * time), 0.9 * np.sin(3.0 * time - 0.1)])
        >>> names = "time,cmd_knee,pos_knee"
        >>> np.savetxt("run.csv", table, delimiter=",", header=names, comments="")
        >>> (log,) = actuon.fit.read_logs("*.csv")
        >>> log.joint_names, len(log)
        (('knee',), 200)
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    robot_of = {folder: robot for path in given for robot, folder in robot_folders(path).items()}
    logs = [
        dataclasses.replace(log, robot=robot_of.get(path.parent, log.robot))
        for path in log_files(given)
        for log in _read_all(path, mapping)
    ]
    first = logs[0]
    for log in logs[1:]:
        more = [name for name in log.joint_names if name not in first.joint_names]
        fewer = [name for name in first.joint_names if name not in log.joint_names]
        if more or fewer:
            differences = [f"has no {_quoted(fewer)}"] if fewer else []
            differences += [f"also has {_quoted(more)}"] if more else []
            raise LogError(
                f"'{log.path}' {' and '.join(differences)}, compared with '{first.path}'; logs that are read together "
                "must have the same joints"
            )
    return [dataclasses.replace(log, joints=tuple(log.joint(name) for name in first.joint_names)) for log in logs]


def _read_all(path: PathLike, mapping: MappingLike) -> list[Log]:
    """Return the logs of all robots in a file, most often of one."""
    meaning = ColumnMapping.of(mapping)
    return [Reader(table, meaning).log() for table in robots_of(read_table(Path(path)))]


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class Reader:
    """Turns one table into a `Log`: columns, clock, signals, SI units.

    Args:
        table: Columns of a file.
        mapping: Meanings of the columns.
    """

    def __init__(self, table: Table, mapping: ColumnMapping):
        self.table, self.mapping = table, mapping
        self.findings: list[Finding] = list(table.findings)
        """Findings so far."""
        self.rows: np.ndarray = np.arange(0)
        """Rows of the table that are samples of the log."""

    def log(self) -> Log:
        """Return the log.

        Raises:
            LogError: The table is not that of a log; the message names the place and the reason.
        """
        columns = self._columns()
        time, held = self._clock(columns)
        signals = self._signals(columns, held)
        self.findings += infer.AngleUnits(self.table.path, time, signals).settle()
        if all(np.ptp(joint["position"].values) == 0.0 for joint in signals.values()):
            names = _quoted([joint["position"].column.name for joint in signals.values()])
            raise LogError(
                f"'{self.table.path}': nothing moves: the same position in all {len(self.rows)} samples of {names}"
            )
        joints = []
        for name, own in signals.items():
            joint = self._joint(name, own)
            joints.append(self._found(infer.unwrapped_turns(joint, time, self.table, self.rows)))
        log = Log(self.table.path, time, tuple(joints), {**self.table.settings, **self.mapping.settings})
        self.findings += checks.gaps(log.time, self._row)
        for joint in log.joints:
            self.findings += checks.check_joint(log, joint, self._row)
        self.findings += checks.check_joints(log)
        self.findings += checks.check_supply(log)
        return dataclasses.replace(log, findings=tuple(self.findings))

    def _note(self, text: str, kind: FindingKind, where: str = "", severity: Severity = "info") -> None:
        self.findings.append(Finding(text, kind, where, severity))

    def _found(self, found: tuple[T, Iterable[Finding]]) -> T:
        """Keep the findings of a result."""
        result, findings = found
        self.findings += findings
        return result

    def _row(self, sample: int) -> str:
        return self.table.row(self.rows[sample])

    def _at(self, sample: int, column: Column) -> str:
        return self.table.at(self.rows[sample], column.name)

    def _columns(self) -> list[Column]:
        """Return the columns to read: clocks, and quantities of joints with a position."""
        path, names = self.table.path, list(self.table.columns)
        meant = self._found(self.mapping.meanings(path, names))
        joints = {column.joint for column in meant if column.quantity == "position"}
        if not joints:
            raise LogError(
                f"'{path}' has no column of a position, such as 'pos_knee' or 'position'; state it in a mapping. "
                f"Columns: {', '.join(names)}"
            )
        if len(joints) == 1:
            (only,) = joints
            meant = [column if column.joint else dataclasses.replace(column, joint=only) for column in meant]
        used = [column for column in meant if column.quantity in CLOCKS or column.joint in joints or _is_shared(column)]
        if not any(column.quantity in ("command", "effort_command") for column in used):
            raise LogError(
                f"'{path}' has no column of a command, such as 'cmd_knee', 'goal_position' or 'tau_cmd_knee'; state "
                f"it in a mapping. Columns: {', '.join(names)}"
            )
        for column in used:
            changes = column.changes()
            if changes:
                self._note(f"{column.name}: {changes}, as stated", "stated", column.name)
        unused = ", ".join(name for name in names if name not in {column.name for column in used})
        if unused and not self.mapping.columns:
            self._note(f"columns that are not used: {unused}", "unused", unused)
        return used

    def _clock(self, columns: list[Column]) -> tuple[np.ndarray, np.ndarray | None]:
        """Find the rows of the log. Return their times [s], and the row of the command that holds at each of them if
        commands have their own clock.

        Of rows with equal times, the last is kept.
        """
        path = self.table.path
        clocks = {column.quantity: column for column in columns if column.quantity in CLOCKS}
        self.rows = self._filled(columns)
        if len(self.rows) < FEWEST:
            count = f"{len(self.rows)} sample{'s' * (len(self.rows) != 1)}"
            raise LogError(f"'{path}' has {count}; must have at least {FEWEST}")
        if self.mapping.rate is not None:
            if clocks:
                name = next(iter(clocks.values())).name
                raise LogError(f"'{path}' has the column of time '{name}', and the mapping a 'rate'; must have one")
            return np.arange(len(self.rows)) / self.mapping.rate, None
        if "time" not in clocks:
            raise LogError(
                f"'{path}' has no column of time, such as 'time' or 't'; state it, or the 'rate' [Hz], in a mapping. "
                f"Columns: {', '.join(self.table.columns)}"
            )
        column = clocks["time"]
        time = self._seconds(column)
        self._check_increasing(column, time)
        steps = np.diff(time)
        same = np.flatnonzero(steps < _SHORTEST)
        if len(same) > _COARSE * len(steps) or len(same) == len(steps):
            raise LogError(
                f"'{path}', column '{column.name}': {len(same)} of {len(time)} samples have the time of the one "
                "before; the clock is too coarse. If samples are evenly spaced, state their 'rate' in a mapping "
                "instead"
            )
        if len(same):
            self._note(
                f"{column.name}: {len(same)} samples have the time of the one after (first: {self._row(same[0])}), "
                "and are left out",
                "left out",
                column.name,
                "warning",
            )
            time, self.rows = np.delete(time, same), np.delete(self.rows, same)
        start = float(time[0]) if abs(time[0]) >= _EPOCH else 0.0
        if start:
            self._note(f"{column.name}: starts at {start:.9g} s; counted from there", "clock", column.name)
        time = time - start
        if "command_time" not in clocks:
            return time, None
        return time, self._held(clocks["command_time"], time, start)

    def _filled(self, columns: list[Column]) -> np.ndarray:
        """Return the rows up to the last one with a measurement; a log that was stopped may end in empty rows."""
        is_filled = np.zeros(len(self.table.rows), dtype=bool)
        for column in columns:
            values = self.table.columns[column.name]
            if column.quantity not in CLOCKS:
                is_filled |= np.isfinite(values) if values.dtype.kind == "f" else values != ""
        count = int(np.flatnonzero(is_filled)[-1]) + 1 if is_filled.any() else 0
        if 0 < count < len(is_filled):
            row = self.table.row(count)
            text = f"the last {len(is_filled) - count} rows, from {row} on, are empty and are left out"
            self._note(text, "left out", row)
        return np.arange(count)

    def _seconds(self, column: Column) -> np.ndarray:
        """Return a column of time in seconds, wrapped counters unwrapped."""
        dates = _dates(self.table.columns[column.name])
        if dates is not None:
            self._note(f"{column.name}: dates, converted to seconds", "unit", column.name)
            return dates[self.rows] + column.offset
        time = self.table.numbers(column.name)[self.rows] * column.scale
        for i in np.flatnonzero(~(np.abs(time) < LARGEST))[:1]:
            raise LogError(f"{self._at(i, column)}: {_not_a_number(time[i])}")
        time = self._found(infer.unwrapped_time(column.name, time))
        unit = column.unit or self._found(infer.time_unit(self.table.path, column.name, time))
        return time * factor("time", unit) + column.offset

    def _check_increasing(self, column: Column, time: np.ndarray) -> None:
        for i in np.flatnonzero(np.diff(time) < 0.0)[:1]:
            raise LogError(
                f"{self._at(i + 1, column)}: time runs backwards, from {time[i]:.9g} s to {time[i + 1]:.9g} s; "
                "must increase"
            )

    def _held(self, column: Column, time: np.ndarray, start: float) -> np.ndarray:
        """Return the row of the command that holds at each sample, for commands with their own clock."""
        times = self._seconds(column) - start
        self._check_increasing(column, times)
        common = min(times[-1], time[-1]) - max(times[0], time[0])
        if common < 0.5 * (time[-1] - time[0]):
            raise LogError(
                f"'{self.table.path}': commands are from {times[0]:.6g} s to {times[-1]:.6g} s by the clock "
                f"'{column.name}', samples from {time[0]:.6g} s to {time[-1]:.6g} s by theirs; state the 'offset' of "
                "one in a mapping"
            )
        ahead = 1e3 * (time - times)
        self._note(
            f"{column.name}: commands have their own clock; in its rows they are {np.median(ahead):.3g} ms "
            f"({ahead.min():.3g} to {ahead.max():.3g}) before the samples. Each holds from its own time",
            "clock",
            column.name,
        )
        held: np.ndarray = np.clip(np.searchsorted(times, time, side="right") - 1, 0, None)
        return held

    def _signals(self, columns: list[Column], held: np.ndarray | None) -> dict[str, Joint]:
        """Return the signals of each joint by quantity."""
        joints: dict[str, Joint] = {column.joint: {} for column in columns if column.quantity == "position"}
        for column in columns:
            signal = None if column.quantity in CLOCKS else self._signal(column)
            if signal is None:
                continue
            if held is not None and column.quantity in _COMMANDS:
                signal = signal.with_values(signal.values[held])
            for name in joints if _is_shared(column) else [column.joint]:
                joints[name].setdefault(column.quantity, signal)
        return {name or UNNAMED: joint for name, joint in joints.items()}

    def _signal(self, column: Column) -> Signal | None:
        """Return the numbers of a column; None if some are missing and the quantity is not needed."""
        is_needed = column.quantity in NEEDED
        try:
            values = self.table.numbers(column.name)[self.rows]
        except LogError as error:
            if is_needed:
                raise
            self._note(f"{column.name} is left out: {error}", "left out", column.name, "warning")
            return None
        missing = np.flatnonzero(~(np.abs(values) < LARGEST))
        if len(missing) and is_needed:
            raise LogError(f"{self._at(missing[0], column)}: {_not_a_number(values[missing[0]])}")
        if len(missing):
            self._note(
                f"{column.name} is left out: {len(missing)} of {len(values)} cells are empty, not finite or huge "
                f"(first: {self._row(missing[0])})",
                "left out",
                column.name,
                "warning",
            )
            return None
        return Signal(column, self._found(infer.signed(column, values)) * column.scale)

    def _joint(self, name: str, signals: Mapping[str, Signal]) -> JointLog:
        values: dict[str, np.ndarray] = {}
        units: dict[str, str] = {}
        for quantity, signal in signals.items():
            column, first = signal.column, signal.values[0]
            if quantity == "supply" and signal.unit is None and np.median(signal.values) > _HIGHEST_SUPPLY:
                if np.median(signal.values) < 10.0 * _HIGHEST_SUPPLY:
                    text = f"{column.name} is left out: {first:g} is not a voltage; state its unit or scale"
                    self._note(text, "left out", column.name, "warning")
                    continue
                signal = signal.with_unit("mV")
                self._note(f"{column.name}: {first:g} and the like are mV, converted to V", "unit", column.name)
            signal = signal.with_unit(signal.unit or default(quantity))
            converted = signal.si()
            if quantity == "enabled":
                for row in np.flatnonzero((signal.values != 0.0) & (signal.values != 1.0))[:1]:
                    raise LogError(f"{self._at(row, column)}: got {signal.values[row]:g}; must be 0 or 1")
                converted = converted != 0.0
            values[quantity], units[quantity] = converted, signal.unit or ""
        series = {quantity: array for quantity, array in values.items() if quantity in SERIES}
        extra = {quantity: array for quantity, array in values.items() if quantity not in SERIES}
        return JointLog(name, **series, extra=extra, units=units)


def _is_shared(column: Column) -> bool:
    return column.quantity in SHARED and not column.joint


def _not_a_number(value: float) -> str:
    """Return the end of a message about a value that is not finite, or too large."""
    if np.isfinite(value):
        return f"got {value:g}; must be smaller than {LARGEST:g}"
    return "is empty or not finite; must be a number"


def _dates(values: np.ndarray) -> np.ndarray | None:
    if values.dtype.kind != "U":
        return None
    try:
        return np.array([datetime.datetime.fromisoformat(text).timestamp() for text in values])
    except ValueError:
        return None
