# SPDX-License-Identifier: Apache-2.0
"""Records of runs, read back from the files that `actuon.Recorder` writes."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from actuon.attach.recorder import FORMATS as FORMATS
from actuon.errors import RobotFileError
from actuon.files import check_readable
from actuon.patterns import compile_pattern

NEEDED = ("time", "velocity", "applied_effort")


@dataclass(frozen=True)
class Plane:
    """The torque-speed plane of one joint, each of shape (T,)."""

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
    """Of the positions, "rad" or "m"; None where the file does not say."""

    def unit(self, text: str) -> str:
        """Which of "rad or m", "N·m or N" and the like is that of these DOFs."""
        turning, _, sliding = text.partition(" or ")
        if not sliding or self.dof_units is None:
            return text
        slide = [name for name, unit in zip(self.dof_names, self.dof_units, strict=True) if unit == "m"]
        if not slide or len(slide) == len(self.dof_names):
            return sliding if slide else turning
        return f"{turning}; {sliding}: {', '.join(slide)}"

    def columns(self, patterns: tuple[str, ...]) -> list[int]:
        """The DOFs that names or regular expressions mean; all, where there are none."""
        if not patterns:
            return list(range(len(self.dof_names)))
        return [i for i, name in enumerate(self.dof_names) if any(_matches(pattern, name) for pattern in patterns)]

    def planes(self, patterns: tuple[str, ...]) -> list[Plane]:
        """Of those DOFs that were driven, of all robots together. Motors of DOFs without a transmission are NaN."""
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


def read_record(path: Path) -> Record:
    """A record that `actuon.Recorder.save` or ``actuon run --record`` wrote.

    Raises:
        RobotFileError: It cannot be read, or is not a record.
    """
    check_readable(path, FORMATS)
    try:
        is_npz = path.suffix.lower() == ".npz"
        names, series, units = _read_npz(path) if is_npz else (*_read_csv(path), None)
    except Exception as error:  # whatever csv, zipfile, zlib and NumPy raise of a damaged file
        raise RobotFileError(f"'{path}' is not a record: {error}") from error
    missing = [name for name in NEEDED if name not in series]
    if missing:
        raise RobotFileError(f"'{path}' is not a record of actuon.Recorder: it has no series '{missing[0]}'")
    for name, values in series.items():
        if name != "time" and values.shape[0::2] != (len(series["time"]), len(names)):
            raise RobotFileError(
                f"'{path}' is not a record of actuon.Recorder: the series '{name}' has the shape {values.shape}; must "
                f"be ({len(series['time'])}, robots, {len(names)})"
            )
    if units is not None and len(units) != len(names):
        raise RobotFileError(
            f"'{path}' is not a record of actuon.Recorder: it has {len(units)} units of {len(names)} DOFs"
        )
    return Record(path.name, names, series, units)


def _read_npz(path: Path) -> tuple[list[str], dict[str, np.ndarray], list[str] | None]:
    with np.load(path, allow_pickle=False) as contents:
        about = ("dof_names", "dof_units", "paths")
        series = {name: contents[name] for name in contents.files if name not in about}
        units = [str(unit) for unit in contents["dof_units"]] if "dof_units" in contents.files else None
        return [str(name) for name in contents["dof_names"]], series, units


def _read_csv(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    columns: dict[str, dict[tuple[int, str], list[str]]] = {}
    time = []
    for title, values in zip(header, zip(*rows, strict=True), strict=True):
        kind, _, place = title.partition("/")
        first, has_robot, name = place.partition("/")
        is_robot = bool(has_robot) and first.isdigit()
        if kind == "time":
            time = list(values)
        else:
            key = (int(first), name) if is_robot else (0, place)
            columns.setdefault(kind, {})[key] = list(values)
    names = list(dict.fromkeys(name for _, name in next(iter(columns.values()), {})))
    series = {"time": np.array(time, np.float64)}
    for kind, found in columns.items():
        robots = 1 + max(robot for robot, _ in found)
        written = np.array([[found[robot, name] for name in names] for robot in range(robots)])
        series[kind] = np.moveaxis(written if kind == "limited_by" else written.astype(np.float64), 2, 0)
    return names, series
