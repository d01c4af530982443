# SPDX-License-Identifier: Apache-2.0
"""Charts of actuators, alone or compared, and of recordings: what ``actuon plot`` draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actuon.attach.telemetry import UNITS
from actuon.charts import Chart, Grid, Series, arranged, palette, save_charts
from actuon.errors import ActuonError, Option, RobotFileError, located
from actuon.logs.records import Record, read_record

from .inputs import Inputs, read_inputs
from .kinds import KINDS, PlotConditions, Subject

RECORD = "recording"
"""The kind of a chart of a recording over time."""
_KIND, _RECORD = Option("kinds", "--kind"), Option("on_top", "--record")
_COLUMNS = 4
_SHOWN = (
    ("position", "position_target"),
    ("velocity",),
    ("motor_velocity",),
    ("computed_effort", "applied_effort"),
    ("motor_effort",),
    ("mechanical_power", "electrical_power"),
    ("current",),
    ("voltage", "supply_voltage"),
    ("temperature", "housing_temperature"),
    ("energy",),
)
"""Series over time, by panel: the first is solid, the others are dashed."""
_POSITION = {"position": "rad or m", "position_target": "rad or m"}


def panels_of(subjects: Sequence[Subject]) -> list[tuple[str, list[Subject]]]:
    """Group subjects in panels: equal ones of one source together, and those of several sources by name."""
    sources = list(dict.fromkeys(subject.source for subject in subjects))
    if len(sources) == 1:
        alike: dict[str, list[Subject]] = {}
        for subject in subjects:
            alike.setdefault(f"{subject.actuator!r} {subject.slides}", []).append(subject)
        panels = []
        for same in alike.values():
            joints = tuple(joint for subject in same for joint in subject.joints)
            more = f" and {len(same) - 2} more" if len(same) > 3 else ""
            names = ", ".join(subject.name for subject in (same[:2] if more else same))
            loads = [subject.inertia for subject in same if subject.inertia is not None]
            damping = min(subject.damping for subject in same)
            merged = dataclasses.replace(same[0], joints=joints, inertia=min(loads, default=None), damping=damping)
            panels.append((f"{names}{more}", [merged]))
        return panels
    if len(subjects) == len(sources):
        return [("", list(subjects))]
    together: dict[str, list[Subject]] = {}
    for subject in subjects:
        together.setdefault(subject.name, []).append(subject)
    return list(together.items())


def actuator_grids(
    inputs: Inputs, kinds: Sequence[str], conditions: PlotConditions, on_top: Sequence[Record] = ()
) -> list[Grid]:
    """Measure actuators, and return a grid of charts for each kind.

    Args:
        inputs: Actuators to draw. Notes are added about those that could not be measured.
        kinds: Names in `KINDS`. Default: all that apply.
        conditions: Conditions of the measurements.
        on_top: Recordings to draw into the torque-speed plane.

    Raises:
        RobotFileError: There is nothing to draw, with the reason.
    """
    found, reasons = [], {}
    for name in kinds or KINDS:
        kind = KINDS[name](conditions, list(on_top))
        panels = []
        why = kind.nothing
        for title, subjects in panels_of(inputs.subjects):
            some = []
            for subject in subjects:
                try:
                    measured = kind.measure(subject)
                except ActuonError as error:
                    measured, why = None, f"{subject.name}: {error}"
                    note = f"without {why}"
                    inputs.notes += [] if note in inputs.notes else [note]
                some += [] if measured is None else [(subject, measured)]
            panels += [(title, kind.charts(some))] if some else []
        if panels:
            found.append((kind.title, panels))
        elif kinds:
            raise RobotFileError(f"there is nothing to draw: {why}", option=_kind(name))
        else:
            reasons[name] = why
    if not found:
        raise RobotFileError(f"there is nothing to draw: {'; '.join(f'{k}: {why}' for k, why in reasons.items())}")
    columns = min(_COLUMNS, max(len(panels) for _, panels in found))
    return [Grid(_rows(panels, columns), title) for title, panels in found]


def _rows(panels: Sequence[tuple[str, list[Chart]]], columns: int) -> list[list[Chart | None]]:
    """Arrange panels side by side, the charts of each below each other; those of a single panel in pairs."""
    titled = [[_with_title(title, chart) for chart in charts] for title, charts in panels]
    if columns == 1:
        return arranged(titled[0], min(2, len(titled[0])))
    deep = max(len(charts) for charts in titled)
    rows: list[list[Chart | None]] = []
    for start in range(0, len(titled), columns):
        block = titled[start : start + columns]
        for row in range(deep):
            cells = [charts[row] if row < len(charts) else None for charts in block]
            rows.append([*cells, *[None] * (columns - len(cells))])
    return rows


def _with_title(title: str, chart: Chart) -> Chart:
    return dataclasses.replace(chart, title=": ".join(filter(None, (title, chart.title))))


def _kind(name: str) -> Option:
    return Option(name, f"--kind {name}")


def record_grid(records: Sequence[Record]) -> Grid:
    """Return charts of recordings over time, of the first robot: a column for each, a colour for each joint."""
    has = [name for record in records for name in record.series]
    shown = [names for names in _SHOWN if names[0] in has]
    rows: list[list[Chart | None]] = [[_over_time(record, names) for record in records] for names in shown]
    if "limited_by" in has:
        rows.append([_limits(record) if "limited_by" in record.series else None for record in records])
    first: list[Chart | None] = []
    for record, chart in zip(records, rows[0], strict=True):
        first.append(None if chart is None else dataclasses.replace(chart, title=record.title))
    return Grid([first, *rows[1:]])


def _over_time(record: Record, names: Sequence[str]) -> Chart:
    """Return a chart of series of all joints; that of positions names them."""
    series = []
    for name, style in zip(names, ("line", "dashed"), strict=False):
        if name not in record.series:
            continue
        for i, (joint, colour) in enumerate(zip(record.dof_names, palette(len(record.dof_names)), strict=True)):
            label = joint if name == "position" else ""
            values = record.series[name][:, 0, i]
            series.append(Series(label, record.series["time"], values, colour, style, 1.0))  # type: ignore[arg-type]
    first, *others = (name.replace("_", " ") for name in names if name in record.series or name == names[0])
    unit = record.unit((UNITS | _POSITION)[names[0]])
    label = "\n".join([f"{first} [{unit}]", *(f"dashed: {name}" for name in others)])
    return Chart("time [s]", label, series, x_range=_time_range(record), note="" if series else "not recorded")


def _time_range(record: Record) -> tuple[float, float]:
    time = record.series["time"]
    return float(time[0]), max(float(time[-1]), float(time[0]) + 1e-9)


def _limits(record: Record) -> Chart:
    """Return when which stage limited the effort of which joint."""
    who, time = record.series["limited_by"][:, 0], record.series["time"]
    stages = [name for name in np.unique(who) if name]
    series = []
    for stage, colour in zip(stages, palette(len(stages)), strict=True):
        step, joint = np.nonzero(who == stage)
        series.append(Series(str(stage), time[step], joint, colour, "ticks", 5.0))
    return Chart(
        "time [s]",
        "limited by",
        series or [Series("", time[:0], time[:0])],
        x_range=_time_range(record),
        y_range=(len(record.dof_names) - 0.5, -0.5),
        y_ticks=dict(enumerate(record.dof_names)),
        note="" if series else "at no time",
    )


def save_pictures(
    given: Sequence[Path],
    output: Path,
    kinds: Sequence[str],
    on_top: Sequence[Path],
    conditions: PlotConditions,
    root: str | None = None,
    allow_torch: bool = False,
    actuators: Sequence[Path] = (),
) -> str:
    """Draw inputs into one file, and return its content in words.

    Args:
        given: As for `read_inputs`.
        output: The image.
        kinds: Names in `KINDS`, or `RECORD`. Default: all that apply.
        on_top: Recordings to draw into the torque-speed plane.
        conditions: Conditions of the measurements.
        root: Path of the robot's root prim, in USD.
        allow_torch: Trust PyTorch files that a robot's file names.
        actuators: YAML files with motors for each robot, instead of its own.
    """
    conditions.check()
    inputs = read_inputs(given, root, allow_torch, actuators)
    with located(_RECORD, RobotFileError):
        records = [read_record(path) for path in on_top]
    if RECORD in kinds or not inputs.subjects:
        if list(kinds) not in ([], [RECORD]):
            raise RobotFileError(
                f"got {' and '.join(kinds)}; a recording over time is a separate image, and the other kinds need a "
                "robot, an actuon.yaml or a motor",
                option=_KIND,
            )
        shown = [*inputs.records, *records]
        if not shown:
            raise RobotFileError("there is no recording to draw; name one, such as run.npz", option=_kind(RECORD))
        save_charts(output, record_grid(shown), panel=(5.5, 1.9))
        return f"recording of {', '.join(record.title for record in shown)}"
    grids = actuator_grids(inputs, kinds, conditions, [*inputs.records, *records])
    save_charts(output, *grids)
    noun = "actuator" if len(inputs.subjects) == 1 else "actuators"
    titles = ", ".join(grid.title for grid in grids)
    return "; ".join([f"{titles} of {len(inputs.subjects)} {noun}", *inputs.notes])
