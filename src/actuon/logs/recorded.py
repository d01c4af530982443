# SPDX-License-Identifier: Apache-2.0
"""Records of `actuon.Recorder`, of one robot or of several, as tables of one robot each."""

from __future__ import annotations

import dataclasses

import numpy as np

from .table import Table

_KINDS = {
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
"""What a log takes from a record, and what its column says."""
_OF_SLIDES = {"rad": "m", "rad/s": "m/s", "N·m": "N"}
_ONLY_THERE = ("computed_effort", "applied_effort", "limited_by")
"""Series that every record has, and nobody else's log has all of."""


def robots_of(table: Table) -> list[Table]:
    """A table for each robot of a record. The table itself where it is not a record."""
    kinds = {name.partition("/")[0] for name in table.columns}
    if "time" not in table.columns or not kinds.issuperset(_ONLY_THERE):
        return [table]
    robots: dict[str, dict[str, np.ndarray]] = {}
    several = all(_robot(name) for name in table.columns if name != "time")
    for name, values in table.columns.items():
        kind, _, joint = name.partition("/")
        robot, joint = (_robot(name), joint.partition("/")[2]) if several else ("", joint)
        if kind in _KINDS and not (kind not in ("position", "position_target") and np.isnan(values).all()):
            robots.setdefault(robot, {})[_column(kind, joint, joint in table.slides)] = values
    return [
        dataclasses.replace(
            table,
            path=f"{table.path}[{robot}]" if robot else table.path,
            columns={"time [s]": table.columns["time"], **columns},
        )
        for robot, columns in robots.items()
    ]


def _column(kind: str, joint: str, slides: bool) -> str:
    column, unit = _KINDS[kind]
    return f"{column}/{joint} [{_OF_SLIDES.get(unit, unit) if slides else unit}]"


def _robot(name: str) -> str:
    """The number of the robot in the name of a column; empty where there is none."""
    number, slash, _ = name.partition("/")[2].partition("/")
    return number if slash and number.isdecimal() else ""
