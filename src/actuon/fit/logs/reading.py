# SPDX-License-Identifier: Apache-2.0
"""`read_log` and `read_logs`: files to `Log`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LogError
from ...typing import PathLike
from .columns import Column, recognise
from .formats.csv_files import read_csv
from .formats.json_files import read_json
from .log import SERIES, JointLog, Log
from .mapping import ColumnMapping
from .table import Table
from .units import AS_LOGGED, CLOCKS, SHARED, factor, si

READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".json": read_json,
    ".json.gz": read_json,
}
FEWEST = 3
"""Samples of a log."""


def read_log(path: PathLike, mapping: ColumnMapping | Mapping[str, Any] | PathLike | None = None) -> Log:
    """Read what was recorded of a robot.

    Args:
        path: A ``.csv`` or ``.json`` file, both as ``.gz`` too.
        mapping: What its columns mean: a `ColumnMapping`, what one is written as in YAML, or the path of such a file.
            None: columns have usual names, such as ``time``, ``cmd_knee``, ``pos_knee``.

    Raises:
        LogError: The file cannot be read, or is not a log; says where and why.
    """
    path = Path(path)
    table = _reader(path)(path)
    said = ColumnMapping.of(mapping)
    columns = said.meanings(table) if said else [column for name in table.columns if (column := recognise(name))]
    findings = list(table.findings)
    unused = [name for name in table.columns if name not in {column.name for column in columns}]
    if unused and not (said and said.columns):
        findings.append(f"columns that are not used: {', '.join(unused)}")
    clocks = {column.quantity: column for column in columns if column.quantity in CLOCKS}
    if "time" not in clocks:
        raise LogError(f"'{path}' has no column of time, such as 'time' or 't'; columns: {', '.join(table.columns)}")
    time = _converted(table, clocks["time"])
    for row in np.flatnonzero(np.diff(time) <= 0.0)[:1]:
        raise LogError(f"{table.at(row + 1, clocks['time'].name)}: time runs backwards")
    joints = _joints(table, columns, findings)
    settings = dict(table.settings) | (dict(said.settings) if said else {})
    return Log(str(path), time, joints, settings, tuple(findings))


def read_logs(
    paths: Iterable[PathLike], mapping: ColumnMapping | Mapping[str, Any] | PathLike | None = None
) -> list[Log]:
    """Read several logs."""
    return [read_log(path, mapping) for path in paths]


def _reader(path: Path) -> Callable[[Path], Table]:
    for ending, reader in READERS.items():
        if path.name.lower().endswith(ending):
            return reader
    raise LogError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(READERS)}")


def _joints(table: Table, columns: list[Column], findings: list[str]) -> tuple[JointLog, ...]:
    names = list(dict.fromkeys(column.joint for column in columns if column.quantity == "position"))
    if not names:
        raise LogError(
            f"'{table.path}' has no column of a position, such as 'pos_knee'; columns: {', '.join(table.columns)}"
        )
    joints = []
    for name in names:
        own: dict[str, np.ndarray] = {}
        units: dict[str, str] = {}
        for column in columns:
            is_own = column.joint == name or (not column.joint and column.quantity in SHARED)
            if is_own and column.quantity not in CLOCKS:
                own[column.quantity] = _converted(table, column, findings)
                default = AS_LOGGED if column.quantity in ("load", "current") else si(column.quantity)
                units[column.quantity] = column.unit or default
        if "enabled" in own:
            own["enabled"] = own["enabled"] != 0.0
        series = {quantity: values for quantity, values in own.items() if quantity in SERIES}
        extra = {quantity: values for quantity, values in own.items() if quantity not in SERIES}
        joints.append(JointLog(name or "joint", **series, extra=extra, units=units))
    return tuple(joints)


def _converted(table: Table, column: Column, findings: list[str] | None = None) -> np.ndarray:
    values = table.numbers(column.name)
    for row in np.flatnonzero(~np.isfinite(values))[:1]:
        raise LogError(f"{table.at(row, column.name)}: got {values[row]}; must be a number")
    if column.quantity == "load" and values.max(initial=0.0) > 32767 and not np.any(values % 1.0):
        values = np.where(values > 32767, values - 65536, values)
        if findings is not None:
            findings.append(f"{column.name}: numbers above 32767 are negative ones of 16 bits, and are unwrapped")
    scale = column.scale
    if column.unit is not None:
        unit, one = factor(f"'{table.path}', column '{column.name}'", column.quantity, column.unit)
        column, scale = dataclasses.replace(column, unit=unit), scale * one
    return column.sign * (scale * values) + column.offset
