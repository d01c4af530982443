# SPDX-License-Identifier: Apache-2.0
"""Pictures of actuators, alone or compared, and of records: what ``actuon plot`` draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from actuon.actuator.trials import Conditions
from actuon.attach.telemetry import UNITS
from actuon.charts import pyplot, save_figure
from actuon.components.controllers.pd import PDControlConfig
from actuon.errors import ActuonError, RobotFileError, listed
from actuon.inspect.robot_report import FORMATS, actuators_of, sliding
from actuon.logs.records import FORMATS as RECORDS, Record, read_record
from actuon.motors.catalogue import find_motor, motor_names

from .kinds import KINDS, Kind, Subject, label_axes

RECORD = "record"
"""The kind of a picture of a record over time."""
ALL_KINDS = (*KINDS, RECORD)
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
"""Series that are drawn over time, together where they belong together: what is first in full, the rest dashed."""
_POSITION = {"position": "rad or m", "position_target": "rad or m"}


@dataclass
class Inputs:
    """What is to be drawn."""

    subjects: list[Subject] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is to be known: where actuators come from, where that is not the file itself, and which are left out."""


@dataclass(frozen=True)
class Section:
    """The pictures of one kind."""

    kind: Kind
    panels: list[tuple[str, list[tuple[Subject, Any]]]]
    """Title, subjects and what was measured of them, for each."""

    @property
    def rows(self) -> int:
        """Axes of each panel."""
        return self.kind.rows([measured for _, compared in self.panels for _, measured in compared])

    def grid(self, columns: int) -> tuple[int, int]:
        """Rows and columns of axes, for panels side by side; of one panel, its axes are."""
        if columns == 1:
            across = min(2, self.rows)
            return self.rows // across, across
        return self.rows * -(-len(self.panels) // columns), columns


def read_inputs(given: Sequence[Path], root: str | None = None, allow_torch: bool = False) -> Inputs:
    """Read robots, ``actuon.yaml`` files, names of motors in the catalogue, and records.

    Raises:
        RobotFileError: One of them is none of these, or cannot be read.
    """
    inputs = Inputs()
    titles = _titles(given)
    for path, title in zip(given, titles, strict=True):
        motor = None if path.exists() or path.suffix.lower() in (*FORMATS, *RECORDS) else _motor(str(path))
        if motor is not None:
            inputs.subjects.append(motor)
        elif path.suffix.lower() in RECORDS:
            inputs.records.append(dataclasses.replace(read_record(path), title=title))
        else:
            found = actuators_of(path, root, allow_torch)
            inputs.notes += [f"{title}: {found.origin}"] if found.origin else []
            for entry in found.entries:
                slides = sliding(entry, found.joints)
                inputs.subjects.append(Subject(title, entry.name, entry.actuator, slides, tuple(entry.joints)))
    return inputs


def _titles(paths: Sequence[Path]) -> list[str]:
    """The names of files; whole paths, where several have one name."""
    names = [path.name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def _motor(name: str) -> Subject | None:
    """A motor of the catalogue, without a controller; None where what was given has the looks of a file."""
    try:
        motor = find_motor(name)
    except ActuonError as error:
        if Path(name).suffix or "/" in name:
            return None
        raise RobotFileError(
            f"'{name}' is neither a file nor a motor; {listed(name.lower(), motor_names(), 'motors')}"
        ) from error
    return Subject(motor.name, motor.name, motor.datasheet.actuator(PDControlConfig(0.0, 0.0)))


def panels_of(subjects: Sequence[Subject]) -> list[tuple[str, list[Subject]]]:
    """Which subjects are drawn together: of one source, those that are alike, once; of several, those of one name."""
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
            panels.append((f"{names}{more}", [dataclasses.replace(same[0], joints=joints)]))
        return panels
    if len(subjects) == len(sources):
        return [("", list(subjects))]
    together: dict[str, list[Subject]] = {}
    for subject in subjects:
        together.setdefault(subject.name, []).append(subject)
    return list(together.items())


def sections_of(
    inputs: Inputs, kinds: Sequence[str], conditions: Conditions, on_top: Sequence[Record] = ()
) -> list[Section]:
    """Measure what is to be drawn.

    Args:
        inputs: What to draw.
        kinds: Of `KINDS`. None of them: those that have something to show.
        conditions: Under which to measure.
        on_top: Records to draw into the torque-speed plane.

    Raises:
        RobotFileError: There is nothing to draw; says why.
    """
    sections, reasons = [], {}
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
            panels += [(title, some)] if some else []
        if panels:
            sections.append(Section(kind, panels))
        elif kinds:
            raise RobotFileError(f"--kind {name}: there is nothing to draw: {why}")
        else:
            reasons[name] = why
    if not sections:
        raise RobotFileError(f"there is nothing to draw: {'; '.join(f'{k}: {why}' for k, why in reasons.items())}")
    return sections


def save_pictures(
    given: Sequence[Path],
    output: Path,
    kinds: Sequence[str],
    on_top: Sequence[Path],
    conditions: Conditions,
    root: str | None = None,
    allow_torch: bool = False,
) -> str:
    """Draw what was given into one file; returns what it shows.

    Args:
        given: As for `read_inputs`.
        output: The picture.
        kinds: Of `ALL_KINDS`. None of them: those that have something to show.
        on_top: Records to draw into the torque-speed plane.
        conditions: Under which to measure.
        root: Path of the robot's root prim, in USD.
        allow_torch: Trust PyTorch files that a robot's file names.
    """
    for name in kinds:
        if name not in ALL_KINDS:
            raise RobotFileError(f"--kind: got '{name}'; must be one of {', '.join(ALL_KINDS)}")
    conditions.check()
    pyplot()
    return _save(read_inputs(given, root, allow_torch), output, kinds, on_top, conditions)


def _save(inputs: Inputs, output: Path, kinds: Sequence[str], on_top: Sequence[Path], conditions: Conditions) -> str:
    records = [read_record(path) for path in on_top]
    if RECORD in kinds or not inputs.subjects:
        if list(kinds) not in ([], [RECORD]):
            raise RobotFileError(
                f"--kind: got {' and '.join(kinds)}; a record over time is a picture of its own, and the others need "
                "a robot, an actuon.yaml or a motor"
            )
        shown = [*inputs.records, *records]
        if not shown:
            raise RobotFileError("--kind record: there is no record to draw; name one, as run.npz")
        save_figure(draw_records(shown), output)
        return f"record of {', '.join(record.title for record in shown)}"
    sections = sections_of(inputs, kinds, conditions, [*inputs.records, *records])
    save_figure(draw_sections(sections), output)
    noun = "actuator" if len(inputs.subjects) == 1 else "actuators"
    titles = ", ".join(section.kind.title for section in sections)
    return "; ".join([f"{titles} of {len(inputs.subjects)} {noun}", *inputs.notes])


def draw_sections(sections: Sequence[Section]) -> Any:
    """A figure of actuators, a part for each kind."""
    plt = pyplot()
    columns = min(_COLUMNS, max(len(section.panels) for section in sections))
    sizes = [section.grid(columns) for section in sections]
    heights = [2.3 * rows + 0.5 for rows, _ in sizes]
    width = 4.2 * max(columns for _, columns in sizes)
    figure = plt.figure(figsize=(max(6.4, width), sum(heights)), layout="constrained")
    parts = figure.subfigures(len(sections), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, section, size in zip(parts, sections, sizes, strict=True):
        part.suptitle(section.kind.title, fontsize=10)
        axes = part.subplots(*size, squeeze=False)
        blocks = axes.reshape(-1, section.rows, size[1]).transpose(0, 2, 1) if columns > 1 else axes
        panels = blocks.reshape(-1, section.rows)
        for own, (title, compared) in zip(panels, section.panels, strict=False):
            own[0].set_title(title, fontsize=9)
            _draw_panel(section.kind, list(own), compared)
        for axis in panels[len(section.panels) :].flat:
            axis.set_visible(False)
    return figure


def _draw_panel(kind: Kind, axes: list[Any], compared: list[tuple[Subject, Any]]) -> None:
    for i, (subject, measured) in enumerate(compared):
        kind.draw(axes, subject, measured, f"C{i}", subject.source if len(compared) > 1 else "")
    for axis in axes:
        if not axis.has_data():
            axis.set_axis_off()
            axis.text(0.5, 0.5, kind.blank, ha="center", transform=axis.transAxes, fontsize=8)
        handles, labels = axis.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        if unique:
            axis.legend(unique.values(), unique.keys(), fontsize=6)


def draw_records(records: Sequence[Record]) -> Any:
    """A figure of records over time, of the first robot: a column for each record, a colour for each joint."""
    plt = pyplot()
    has = [name for record in records for name in record.series]
    shown = [names for names in _SHOWN if names[0] in has]
    rows = len(shown) + ("limited_by" in has)
    width = max(6.4, 5.5 * len(records))
    figure, axes = plt.subplots(rows, len(records), figsize=(width, 1.9 * rows), layout="constrained", squeeze=False)
    for column, record in enumerate(records):
        for axis, names in zip(axes[:, column], shown, strict=False):
            for name, style in zip(names, ("-", "--"), strict=False):
                _draw_series(axis, record, name, style)
            first, *dashed = (name.replace("_", " ") for name in names if name in record.series or name == names[0])
            unit = record.unit((UNITS | _POSITION)[names[0]])
            text = "\n".join([f"{first} [{unit}]", *(f"dashed: {name}" for name in dashed)])
            label_axes(axis, "time [s]", text)
        if "limited_by" in record.series:
            _draw_limits(axes[-1, column], record)
        lines = axes[0, column].get_lines()[: len(record.dof_names)]
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02, 1.0, 0.1), "mode": "expand", "ncols": 4}
        axes[0, column].legend(lines, record.dof_names, title=record.title, fontsize=6, title_fontsize=9, **place)
    return figure


def _draw_series(axis: Any, record: Record, name: str, style: str) -> None:
    if name not in record.series:
        return
    colours = _colours(len(record.dof_names))
    for i, colour in enumerate(colours):
        values = record.series[name][:, 0, i]
        axis.plot(record.series["time"], values, style, color=colour, linewidth=1)


def _colours(count: int) -> list[Any]:
    """As many colours, no two alike."""
    maps = pyplot().colormaps
    for name in ("tab10", "tab20"):
        if count <= len(maps[name].colors):
            return list(maps[name].colors[:count])
    return list(maps["turbo"](np.linspace(0.0, 1.0, count)))


def _draw_limits(axis: Any, record: Record) -> None:
    """When which stage limited the effort of which joint."""
    who = record.series["limited_by"][:, 0]
    for i, stage in enumerate(name for name in np.unique(who) if name):
        step, joint = np.nonzero(who == stage)
        axis.plot(record.series["time"][step], joint, "|", color=f"C{i}", markersize=5, label=stage)
    axis.set_yticks(range(len(record.dof_names)), record.dof_names)
    axis.set_ylim(len(record.dof_names) - 0.5, -0.5)
    axis.set_xlim(record.series["time"][0], max(record.series["time"][-1], record.series["time"][0] + 1e-9))
    label_axes(axis, "time [s]", "limited by")
    axis.tick_params(axis="y", labelsize=5)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=6)
    else:
        axis.text(0.5, 0.5, "at no time", ha="center", va="center", transform=axis.transAxes, fontsize=8)
