# SPDX-License-Identifier: Apache-2.0
"""Files of `actuon.Recorder`, of one robot or of several: as tables of logs, and as a `Record` for plots."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..attach.recorder import FORMATS as FORMATS
from ..errors import LogError, RobotFileError
from ..files import check_readable
from ..patterns import compile_pattern
from .formats import read_table
from .table import Table

_QUANTITIES = {
    "position": ("position", "rad"),
    "velocity": ("velocity", "rad/s"),
    "position_target": ("command", "rad"),
    "velocity_target": ("velocity_command", "rad/s"),
    "applied_effort": ("effort", "N·m"),
    "current": ("current", "A"),
    "voltage": ("voltage", "V"),
    "supply_voltage": ("supply", "V"),
    "temperature": ("temperature", "°C"),
}
"""Series of a recording that a log contains, with their quantity and unit."""
_OF_SLIDES = {"rad": "m", "rad/s": "m/s", "N·m": "N"}
_IN_EVERY_RECORD = {"computed_effort", "applied_effort", "limited_by"}
"""Series that together identify a recording: each has them, and no other log has all."""
_FOR_PLOTS = ("time", "velocity", "applied_effort")


@dataclass(frozen=True)
class _Place:
    """Meaning of a column of a recording: a series of one joint of one robot. ``robot`` is empty for a single one."""

    series: str
    robot: str
    joint: str


def _places(table: Table) -> dict[str, _Place]:
    """Return the meaning of each column but the time, by its name: ``position/knee`` or ``position/3/knee``."""
    split = {name: name.split("/", 2) for name in table.columns if name != "time"}
    several = all(len(parts) == 3 and parts[1].isdecimal() for parts in split.values())
    return {
        name: _Place(*parts) if several else _Place(parts[0], "", "/".join(parts[1:])) for name, parts in split.items()
    }


def robots_of(table: Table) -> list[Table]:
    """Return a table for each robot of a recording; a table that is not a recording is returned unchanged."""
    places = _places(table)
    if "time" not in table.columns or not {place.series for place in places.values()} >= _IN_EVERY_RECORD:
        return [table]
    robots: dict[str, dict[str, np.ndarray]] = {}
    for name, place in places.items():
        values = table.columns[name]
        is_needed = place.series in ("position", "position_target")
        if place.series in _QUANTITIES and (is_needed or not np.isnan(values).all()):
            quantity, unit = _QUANTITIES[place.series]
            unit = _OF_SLIDES.get(unit, unit) if table.units.get(place.joint) == "m" else unit
            robots.setdefault(place.robot, {})[f"{quantity}/{place.joint} [{unit}]"] = values
    return [
        dataclasses.replace(
            table,
            path=f"{table.path}[{robot}]" if robot else table.path,
            columns={"time [s]": table.columns["time"], **columns},
        )
        for robot, columns in robots.items()
    ]


@dataclass(frozen=True)
class Plane:
    """Speeds and efforts of one joint, each of shape (T,)."""

    velocity: np.ndarray
    effort: np.ndarray
    motor_velocity: np.ndarray | None
    motor_effort: np.ndarray | None


@dataclass(frozen=True)
class Record:
    """A recorded run of robots."""

    title: str
    dof_names: list[str]
    series: dict[str, np.ndarray]
    """``time`` of shape (T,), others of shape (T, N, D), by name."""
    dof_units: list[str] | None = None
    """Units of the positions, "rad" or "m"; None if the file states none."""

    def unit(self, text: str) -> str:
        """Return the unit of these DOFs out of "rad or m", "N·m or N" and the like."""
        turning, _, sliding = text.partition(" or ")
        if not sliding or self.dof_units is None:
            return text
        slide = [name for name, unit in zip(self.dof_names, self.dof_units, strict=True) if unit == "m"]
        if not slide or len(slide) == len(self.dof_names):
            return sliding if slide else turning
        return f"{turning}; {sliding}: {', '.join(slide)}"

    def columns(self, patterns: tuple[str, ...]) -> list[int]:
        """Return the DOFs that names or regular expressions match; all without any."""
        if not patterns:
            return list(range(len(self.dof_names)))
        return [i for i, name in enumerate(self.dof_names) if any(_matches(pattern, name) for pattern in patterns)]

    def planes(self, patterns: tuple[str, ...]) -> list[Plane]:
        """Return the speeds and efforts of those DOFs that were driven, of all robots together.

        Values at the motor are NaN for DOFs without a transmission.
        """
        found = []
        for column in self.columns(patterns):
            velocity, effort = (self.series[name][..., column].ravel() for name in ("velocity", "applied_effort"))
            motor: list[np.ndarray | None] = [None, None]
            if {"motor_velocity", "motor_effort"} <= self.series.keys():
                motor = [self.series[name][..., column].ravel() for name in ("motor_velocity", "motor_effort")]
            sound = np.isfinite(velocity) & np.isfinite(effort)
            if effort[sound].any():
                sides = (velocity, effort, *motor)
                found.append(Plane(*(None if values is None else values[sound] for values in sides)))  # type: ignore[arg-type]
        return found


def _matches(pattern: str, name: str) -> bool:
    try:
        return pattern == name or compile_pattern(pattern, [name]).fullmatch(name) is not None
    except re.error:
        return False


def _values(table: Table, name: str) -> np.ndarray:
    """Return a column of a recording: numbers, or the stage that limited a joint, empty for none."""
    if name.partition("/")[0] != "limited_by":
        return table.numbers(name)
    values = table.columns[name]
    return values if values.dtype.kind == "U" else np.full(len(values), "")


def read_record(path: Path) -> Record:
    """Read a file of `actuon.Recorder.save` or ``actuon run --record``.

    Raises:
        RobotFileError: It cannot be read, or is not a recording.
    """
    check_readable(path, FORMATS)
    try:
        table = read_table(path)
        places = _places(table)
        columns = {(each.series, each.robot, each.joint): _values(table, name) for name, each in places.items()}
    except LogError as error:
        raise RobotFileError(f"'{path}' is not a recording: {error}") from error
    kinds, robots, joints = (list(dict.fromkeys(each)) for each in zip(*columns, strict=True)) if columns else ([],) * 3
    for name in _FOR_PLOTS:
        if name not in (kinds if name != "time" else table.columns):
            raise RobotFileError(f"'{path}' is not a recording of actuon.Recorder: it has no series '{name}'")
    series = {"time": table.numbers("time")}
    for kind in kinds:
        for robot in robots:
            for joint in joints:
                if (kind, robot, joint) not in columns:
                    of = f"'{joint}'" + (f" of robot {robot}" if robot else "")
                    raise RobotFileError(
                        f"'{path}' is not a recording of actuon.Recorder: the series '{kind}' lacks the joint {of}"
                    )
        series[kind] = np.stack(
            [np.stack([columns[kind, robot, joint] for joint in joints], axis=1) for robot in robots], axis=1
        )
    units = [table.units[joint] for joint in joints] if table.units.keys() >= set(joints) else None
    return Record(path.name, joints, series, units)
