# SPDX-License-Identifier: Apache-2.0
"""`read_log`: a file to a `Log`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import LogError
from ..typing import PathLike
from . import checks
from .angles import Joint, find_angles
from .clock import Clock, on_clock, read_clock, seconds
from .columns import Column
from .log import SERIES, UNNAMED, JointLog, Log
from .mapping import ColumnMapping
from .signals import Signal, read_signal
from .table import Table
from .tables import read_tables
from .turns import unwrap_turns
from .units import CLOCKS, SHARED, default

MappingLike: TypeAlias = ColumnMapping | Mapping[str, Any] | PathLike | None
FEWEST = 3
"""Samples of a log."""
_HIGHEST_SUPPLY = 100.0
"""[V]. Numbers above are not volts."""


def read_log(path: PathLike, mapping: MappingLike = None) -> Log:
    """Read what was recorded of a robot, or of a joint on a bench.

    Args:
        path: A ``.csv``, ``.json``, ``.npz`` or ``.parquet`` file; the first two as ``.gz`` too.
        mapping: What its columns mean: a `ColumnMapping`, what one is written as in YAML, or the path of such a file.
            None: columns have usual names, such as ``time``, ``cmd_knee`` and ``pos_knee``.

    Raises:
        LogError: The file cannot be read, or is not a log; says where and why.
    """
    logs = read_all(path, mapping)
    if len(logs) > 1:
        raise LogError(
            f"'{path}' is a record of {len(logs)} robots; read them with read_logs, which gives a log for each"
        )
    return logs[0]


def read_all(path: PathLike, mapping: MappingLike = None) -> list[Log]:
    """The logs of all robots in a file, most often of one. See `read_log`."""
    said = ColumnMapping.of(mapping)
    return [_log(table, said) for table in read_tables(Path(path))]


def _log(table: Table, said: ColumnMapping) -> Log:
    findings = list(table.findings)
    columns = _used(table, said, findings)
    clock, held = _clock(table, said, columns, findings)
    joints = _signals(table, columns, clock, held, findings)
    find_angles(table.path, clock.time, joints, findings)
    if all(np.ptp(joint["position"].values) == 0.0 for joint in joints.values()):
        names = ", ".join(f"'{joint['position'].column.name}'" for joint in joints.values())
        raise LogError(f"'{table.path}': nothing moves: the same position in all {len(clock.rows)} samples of {names}")
    made = [
        unwrap_turns(_joint(table, name, signals, clock.rows, findings), clock.time, table, clock.rows, findings)
        for name, signals in joints.items()
    ]
    settings = {**table.settings, **said.settings}
    log = Log(table.path, clock.time, tuple(made), settings)

    def row(sample: int) -> str:
        return table.row(clock.rows[sample])

    findings += checks.gaps(log.time, row)
    for joint in log.joints:
        findings += checks.look_at(log, joint, row)
    findings += checks.together(log)
    return dataclasses.replace(log, findings=tuple(findings))


def _used(table: Table, said: ColumnMapping, findings: list[str]) -> list[Column]:
    """The columns that are read: clocks, and quantities of joints that have a position."""
    meant = said.meanings(table, findings)
    joints = {column.joint for column in meant if column.quantity == "position"}
    if not joints:
        raise LogError(
            f"'{table.path}' has no column of a position, such as 'pos_knee' or 'position'; state it in a mapping. "
            f"Columns: {', '.join(table.columns)}"
        )
    if len(joints) == 1:
        (only,) = joints
        meant = [column if column.joint else dataclasses.replace(column, joint=only) for column in meant]
    used = [column for column in meant if column.quantity in CLOCKS or column.joint in joints or _is_shared(column)]
    if not any(column.quantity in ("command", "effort_command") for column in used):
        raise LogError(
            f"'{table.path}' has no column of a command, such as 'cmd_knee', 'goal_position' or 'tau_cmd_knee'; state "
            f"it in a mapping. Columns: {', '.join(table.columns)}"
        )
    findings += [text for column in used if (text := _changes(column))]
    unused = [name for name in table.columns if name not in {column.name for column in used}]
    if unused and not said.columns:
        findings.append(f"columns that are not used: {', '.join(unused)}")
    return used


def _changes(column: Column) -> str:
    """What a mapping does to the numbers of a column, in words."""
    changes = [f"scale {column.scale:g}"] if column.scale != 1.0 else []
    changes += ["sign -1"] if column.sign < 0 else []
    changes += [f"offset {column.offset:g}"] if column.offset else []
    return f"{column.name}: {', '.join(changes)}, as stated" if changes else ""


def _is_shared(column: Column) -> bool:
    return column.quantity in SHARED and not column.joint


def _clock(
    table: Table, said: ColumnMapping, columns: list[Column], findings: list[str]
) -> tuple[Clock, np.ndarray | None]:
    """The clock of the samples, and which command holds at each, where commands have a clock of their own."""
    clocks = {column.quantity: column for column in columns if column.quantity in CLOCKS}
    rows = _filled(table, columns, findings)
    if len(rows) < FEWEST:
        raise LogError(f"'{table.path}' has {len(rows)} samples; must have at least {FEWEST}")
    if said.rate is not None:
        if clocks:
            name = next(iter(clocks.values())).name
            raise LogError(f"'{table.path}' has the column of time '{name}', and the mapping a 'rate'; must have one")
        return Clock(np.arange(len(rows)) / said.rate, rows), None
    if "time" not in clocks:
        raise LogError(
            f"'{table.path}' has no column of time, such as 'time' or 't'; state it, or the 'rate' [Hz], in a mapping. "
            f"Columns: {', '.join(table.columns)}"
        )
    clock = read_clock(table, clocks["time"], rows, findings)
    if "command_time" not in clocks:
        return clock, None
    column = clocks["command_time"]
    return clock, on_clock(clock, seconds(table, column, clock.rows, findings), table, column, findings)


def _filled(table: Table, columns: list[Column], findings: list[str]) -> np.ndarray:
    """The rows up to the last in which anything was measured. A log that was stopped may have empty ones after it."""
    is_filled = np.zeros(len(table.rows), dtype=bool)
    for column in columns:
        values = table.columns[column.name]
        if column.quantity not in CLOCKS:
            is_filled |= np.isfinite(values) if values.dtype.kind == "f" else values != ""
    count = int(np.flatnonzero(is_filled)[-1]) + 1 if is_filled.any() else 0
    if 0 < count < len(is_filled):
        findings.append(
            f"the last {len(is_filled) - count} rows, from {table.row(count)} on, are empty and are left out"
        )
    return np.arange(count)


def _signals(
    table: Table, columns: list[Column], clock: Clock, held: np.ndarray | None, findings: list[str]
) -> dict[str, Joint]:
    joints: dict[str, Joint] = {column.joint: {} for column in columns if column.quantity == "position"}
    for column in columns:
        if column.quantity in CLOCKS:
            continue
        signal = read_signal(table, column, clock.rows, findings)
        if signal is None:
            continue
        if held is not None and column.quantity in ("command", "velocity_command", "effort_command"):
            signal = signal.with_values(signal.values[held])
        for name in joints if _is_shared(column) else [column.joint]:
            joints[name].setdefault(column.quantity, signal)
    return {name or UNNAMED: joint for name, joint in joints.items()}


def _joint(table: Table, name: str, signals: Mapping[str, Signal], rows: np.ndarray, findings: list[str]) -> JointLog:
    values: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for quantity, signal in signals.items():
        column = signal.column
        if quantity == "supply" and signal.unit is None and np.median(signal.values) > _HIGHEST_SUPPLY:
            if np.median(signal.values) < 10.0 * _HIGHEST_SUPPLY:
                findings.append(
                    f"{column.name} is left out: {signal.values[0]:g} is not a voltage; state its unit or scale"
                )
                continue
            signal = signal.with_unit("mV")
            findings.append(f"{column.name}: {signal.values[0]:g} and the like are mV, turned to V")
        signal = signal.with_unit(signal.unit or default(quantity))
        converted = signal.si()
        if quantity == "enabled":
            for row in np.flatnonzero((signal.values != 0.0) & (signal.values != 1.0))[:1]:
                raise LogError(f"{table.at(rows[row], column.name)}: got {signal.values[row]:g}; must be 0 or 1")
            converted = converted != 0.0
        values[quantity], units[quantity] = converted, signal.unit or ""
    series = {quantity: array for quantity, array in values.items() if quantity in SERIES}
    extra = {quantity: array for quantity, array in values.items() if quantity not in SERIES}
    return JointLog(name, **series, extra=extra, units=units)
