# SPDX-License-Identifier: Apache-2.0
"""Terminal output: tables and sentences that adapt to the width of the terminal, and progress bars.

A table that is too wide wraps its texts at words, then leaves out columns in the order of `Column.drop`, and finally
becomes a block of ``name value unit`` lines per row.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from actuon.declare.registry import by_config
from actuon.motors.unmodelled import limits_of_model, unmodelled

from .help import wrapped

if TYPE_CHECKING:
    from actuon.demo.motion import Joint
    from actuon.demo.run import JointSummary, Run
    from actuon.fit import Applied, FitResult, FleetJoint, Plant
    from actuon.fit.excite import Excitation, Motion
    from actuon.fit.fleet_fitting import FleetResult
    from actuon.fit.network_fitting import NetworkResult
    from actuon.fit.select import Compared
    from actuon.fit.verdict import Verdict
    from actuon.fit.workers import Progress as FitTick
    from actuon.logs import Finding, Log
    from actuon.motors.catalogue import CatalogueMotor
    from actuon.stability.report import CheckResult

MILLI = 1e3
FELL = 2.0
"""Distance that a robot falls only without a floor [m]."""
_ROUNDING = 1e-9
"""Largest error of a computation with 64 bits, for numbers in a table."""
_FILE_WIDTH = 200
"""Width of output that goes to a file or a pipe [characters]."""
_MOST_FINDINGS = 20
_MOST_NAMES = 3
_RELATED = 0.7
"""Correlation from which on two parameters are named."""
_ENOUGH = 5
"""Smallest number of robots for correlations."""


class Role(Enum):
    """Role of a column."""

    MARK = "mark"
    """Sign in front of the heading."""
    HEADING = "heading"
    """Subject of the row. Several lines run down the rows that follow with an empty heading."""
    NAME = "name"
    """Name of the row's value."""
    VALUE = "value"
    """Number, aligned to the right."""
    UNIT = "unit"
    """Unit of the row's values."""
    TEXT = "text"
    """Words, which may be wrapped."""


@dataclass(frozen=True)
class Column:
    """Column of a table."""

    title: str
    role: Role = Role.VALUE
    unit: str = ""
    """Unit of all values of the column."""
    drop: int = 0
    """Order in which columns are left out if the terminal is narrow, 1 first; 0 stays."""

    @property
    def header(self) -> str:
        """Title with the unit in brackets."""
        return f"{self.title} [{self.unit}]" if self.unit else self.title


def make_console(error: bool = False) -> Console:
    """Return a console of the terminal's width; a wide one if the output goes to a file."""
    stream = sys.stderr if error else sys.stdout
    is_file = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(width=_FILE_WIDTH if is_file else None, stderr=error)


def say(console: Console, text: str, style: str = "") -> None:
    """Print sentences, each line of them wrapped between words."""
    for line in chain.from_iterable(wrapped(part, console.width) for part in text.splitlines()):
        console.print(Text(line, style), soft_wrap=True)


def show_table(
    console: Console,
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    title: str = "",
    styles: Sequence[str] = (),
) -> None:
    """Print a table, as wide as the terminal allows.

    Args:
        console: Console to print to.
        columns: Columns of all rows.
        rows: Cells of each row.
        title: Line above the table.
        styles: Style of each row, as Rich names it. Default: none.
    """
    body = [list(row) for row in rows]
    if not body:
        return
    if title:
        say(console, title, "italic")
    styles = styles or [""] * len(body)
    lines, styled = _run_down(columns, body, styles)
    widths = _fitted(columns, lines, console.width)
    if widths is None:
        _show_blocks(console, columns, body, styles)
        return
    table = Table()
    for i, size in widths.items():
        justify: Literal["left", "right"] = "right" if columns[i].role is Role.VALUE else "left"
        table.add_column(escape(columns[i].header), width=size, justify=justify)
    is_grouped = None in styled
    for row, style in zip(lines, styled, strict=True):
        if is_grouped and style is not None:
            table.add_section()
        table.add_row(*(escape(row[i]) for i in widths), style=style or None)
    console.print(table)
    left_out = [column.title for i, column in enumerate(columns) if i not in widths]
    if left_out:
        say(console, f"not shown, for lack of width: {', '.join(left_out)}")


def fits(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table with all its columns fits the terminal."""
    return _widths(columns, rows, console.width) is not None


def _fitted(columns: Sequence[Column], lines: Sequence[Sequence[str]], width: int) -> dict[int, int] | None:
    """Return the widths of the columns to show, by index; None if there is no room for those that stay."""
    for dropped in (0, *sorted({column.drop for column in columns if column.drop})):
        kept = [i for i, column in enumerate(columns) if not 0 < column.drop <= dropped]
        widths = _widths([columns[i] for i in kept], [[row[i] for i in kept] for row in lines], width)
        if widths is not None:
            return dict(zip(kept, widths, strict=True))
    return None


def _run_down(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str]
) -> tuple[list[list[str]], list[str | None]]:
    """Return rows in which a first heading of several lines runs down the rows that follow; the style of a row that
    continues one is None."""
    if columns[0].role is not Role.HEADING:
        return [list(row) for row in rows], list(styles)
    lines: list[list[str]] = []
    styled: list[str | None] = []
    left: list[str] = []

    def flush() -> None:
        for name in left:
            lines.append([name, *[""] * (len(columns) - 1)])
            styled.append(None)

    for row, style in zip(rows, styles, strict=True):
        if row[0]:
            flush()
            first, *left = row[0].split("\n")
        else:
            first = left.pop(0) if left else ""
        lines.append([first, *row[1:]])
        styled.append(style if row[0] else None)
    flush()
    return lines, styled


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return a width for each column so that no word breaks and the frame fits; None if there is none."""
    least, most = [], []
    for i, column in enumerate(columns):
        own = [row[i] for row in rows]
        whole = max((len(line) for cell in own for line in cell.split("\n")), default=0)
        header = column.header.split("\n")
        words = chain(
            header if len(header) > 1 else column.header.split(),
            *(cell.split() for cell in own) if column.role is Role.TEXT else (),
        )
        least.append(max(max(map(len, words), default=0), 0 if column.role is Role.TEXT else whole))
        most.append(max(whole, *map(len, header)))
    spare = width - (3 * len(columns) + 1) - sum(least)
    if spare < 0:
        return None
    missing = [wide - narrow for narrow, wide in zip(least, most, strict=True)]
    share = min(1.0, spare / max(1, sum(missing)))
    return [narrow + int(share * more) for narrow, more in zip(least, missing, strict=True)]


def _show_blocks(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str]
) -> None:
    """Print each row as lines of name, value and unit, below its headings."""
    names = [column.title for column in columns if column.role in (Role.VALUE, Role.TEXT)]
    size = max((len(name) for name in names), default=0)
    for row, style in zip(rows, styles, strict=True):
        of_role: dict[Role, list[str]] = {role: [] for role in Role}
        for column, cell in zip(columns, row, strict=True):
            of_role[column.role].append(cell)
        for depth, heading in enumerate(of_role[Role.HEADING]):
            marks = of_role[Role.MARK] if depth == 0 else []
            if heading:
                text = " ".join((*marks, ", ".join(heading.split("\n"))))
                _print_words(console, text, style or "bold", "  " * depth)
        indent = "  " * len(of_role[Role.HEADING])
        unit = "".join(of_role[Role.UNIT])
        if of_role[Role.NAME]:
            value = " ".join((*of_role[Role.VALUE], unit)).strip()
            texts = ", ".join(filter(None, of_role[Role.TEXT]))
            name = f"{indent}{of_role[Role.NAME][0]}  "
            _print_words(console, "; ".join(filter(None, (value, texts))) or " ", style, name, f"{indent}    ")
            continue
        for column, cell in zip(columns, row, strict=True):
            if cell and column.role in (Role.VALUE, Role.TEXT):
                own = column.unit or unit if column.role is Role.VALUE else ""
                title = f"{indent}{' '.join(column.title.split()):<{size}}  "
                _print_words(console, f"{cell} {own}", style, title, f"{indent}    ")


def _print_words(console: Console, text: str, style: str, first: str, rest: str = "") -> None:
    """Print a text behind ``first``; further lines begin with ``rest``, or indented further than the first."""
    for line in wrapped("; ".join(text.splitlines()), console.width, first, rest or f"{first}  "):
        console.print(Text(line, style), soft_wrap=True)


def counted(entries: int) -> str:
    """Return the number of entries of a YAML in words."""
    return "1 entry" if entries == 1 else f"{entries} entries"


# Robots ---------------------------------------------------------------------------------------------------------------


def print_inspected(console: Console, path: Path, report: Any) -> None:
    """Print the joints or entries of a file with their values; equal ones share rows."""
    from actuon.inspect.report import YamlReport

    show = print_entries if isinstance(report, YamlReport) else print_report
    show(console, path.name, report)


def print_report(console: Console, robot: Path | str, report: Any) -> None:
    """Print the joints of a robot's file with their actuators; joints with equal values share rows."""
    driven = sum(bool(joint.actuators) for joint in report.joints)
    beside = getattr(report, "actuators_from", None)
    origin = f", from {Path(beside).name} next to it" if beside else ""
    say(console, f"{robot}: {len(report.joints)} joints, {driven} with an actuator{origin}")
    if beside == "" and any(joint.chain for joint in report.joints):
        say(console, "shown are the engine's own drives, as `actuon init` would write them")
    count = Counter(joint.name for joint in report.joints)
    alike: dict[Any, list[str]] = {}
    for joint in report.joints:
        shown = joint.chain or ((joint.drive,) if joint.drive is not None else ())
        name = joint.name if count[joint.name] == 1 else joint.path
        alike.setdefault((bool(joint.actuators), joint.type, shown), []).append(name)
    rows = [("\n".join(names), parts, has_actuator) for (has_actuator, _, parts), names in alike.items()]
    _print_parts(console, "joints", rows)


def print_entries(console: Console, path: Path | str, report: Any) -> None:
    """Print the entries of an ``actuon.yaml``, each with its joints."""
    say(console, f"{path}: {counted(len(report.entries))}")
    rows = [("\n".join((f"{entry.name}:", *entry.joints)), entry.chain, True) for entry in report.entries]
    _print_parts(console, "entry: joints", rows)


def _print_parts(console: Console, first: str, groups: Iterable[tuple[str, Any, bool]]) -> None:
    """Print groups of joints with the values of their parts."""
    columns = (
        Column(first, Role.HEADING),
        Column("driven by", Role.HEADING),
        Column("parameter", Role.NAME),
        Column("value"),
        Column("unit", Role.UNIT),
        Column("source", Role.TEXT, drop=1),
    )
    rows: list[tuple[str, ...]] = []
    for names, parts, has_actuator in groups:
        own: list[tuple[str, ...]] = []
        for part in parts:
            title = part.name if has_actuator else f"{part.name} (no actuator)"
            values = [(v.name, _shown(v.value), v.unit, v.source) for v in part.values] or [("", "", "", "")]
            own += [("", title if i == 0 else "", *cells) for i, cells in enumerate(values)]
        own = own or [("", "nothing", "", "", "", "")]
        rows += [(names, *own[0][1:]), *own[1:]]
    show_table(console, columns, rows)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        text = ", ".join(f"{number:g}" for number in value[:4])
        return text + (f", … ({len(value)})" if len(value) > 4 else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return Path(value).name
    return f"{value:g}"


def print_problems(console: Console, problems: Iterable[str], notes: Iterable[str] = ()) -> None:
    """Print problems and notes, or that there are none."""
    problems, noted = list(problems), list(notes)
    for note in noted:
        say(console, f"! {note}", "yellow")
    for problem in problems:
        say(console, f"✗ {problem}", "red")
    if not problems:
        say(console, "✓ no other problems found" if noted else "✓ no problems found", "green")


_DROPPED = {"kp·dt²/I": 1, "kd·dt/I": 1, "delay margin": 2, "largest kp": 3, "largest kd": 3, "armature": 4}
"""Columns of the table of stability that are left out, the least telling first."""


def print_stability(console: Console, robot: Path, result: CheckResult) -> None:
    """Print the stability of each joint with an actuator."""
    from actuon.stability.advice import summary_line
    from actuon.stability.report import COLUMNS

    mark, joint, *others = COLUMNS
    columns = [Column(mark, Role.MARK), Column(joint, Role.HEADING)]
    columns += [Column(title, drop=_DROPPED.get(title, 0)) for title in others]
    styles = ["red" if cells[0] == "✗" else "" for cells in result.cells()]
    title = f"{robot.name} at dt = {1e3 * result.robots[0].dt:.4g} ms"
    show_table(console, columns, result.cells(), title, styles)
    say(console, result.legend())
    for each in result.robots:
        if each.joints and each.is_stable:
            say(console, summary_line(each), "green")


# Motors ---------------------------------------------------------------------------------------------------------------

_MAIN_VALUES = (
    Column("stall", unit="N·m"),
    Column("peak", unit="N·m"),
    Column("rated", unit="N·m"),
    Column("no load", unit="rad/s"),
    Column("max speed", unit="rad/s", drop=2),
    Column("ratio", drop=2),
    Column("supply", unit="V", drop=2),
)
_MAIN_NAMES = (
    "stall_torque", "peak_torque", "rated_torque", "no_load_speed", "max_speed", "gear_ratio", "supply_voltage",
)  # fmt: skip


def print_motors(console: Console, motors: Iterable[CatalogueMotor]) -> None:
    """Print the motors of the catalogue with their main values at the joint."""
    columns = (
        Column("motor", Role.HEADING), Column("vendor", Role.TEXT, drop=3), Column("robots", Role.TEXT, drop=1),
        *_MAIN_VALUES,
    )  # fmt: skip
    rows = []
    lacking: dict[str, list[str]] = {}
    for motor in motors:
        lacking.setdefault(" and ".join(unmodelled(motor.datasheet.stages())), []).append(motor.name)
        values = motor.datasheet.at_joint
        curve = values.get("driving_curve", ())
        if curve:
            values["peak_torque"] = max(torque for _, torque in curve)
            values["no_load_speed"] = next((speed for speed, torque in curve if torque == 0.0), None)
        cells = ("" if values.get(name) is None else f"{values[name]:.4g}" for name in _MAIN_NAMES)
        rows.append((motor.name, motor.vendor, ", ".join(motor.robots), *cells))
    show_table(console, columns, rows)
    say(console, "Values at the joint. Empty cells: no source. More: `actuon motors show NAME`")
    for effects, names in lacking.items():
        if effects:
            say(console, f"Not modelled: {effects} of {'all motors' if len(names) == len(rows) else ', '.join(names)}")


def print_motor(console: Console, motor: CatalogueMotor) -> None:
    """Print the values of a motor, each with its source and parameter, and the stages of the motor model."""
    aliases = f" ({', '.join(motor.aliases)})" if motor.aliases else ""
    robots = f", in {', '.join(motor.robots)}" if motor.robots else ""
    say(console, f"{motor.name}{aliases}: {motor.vendor}{robots}")
    columns = (
        Column("data sheet", Role.NAME),
        Column("value"),
        Column("unit", Role.UNIT),
        Column("at", Role.TEXT),
        Column("becomes", Role.TEXT),
        Column("how", Role.TEXT, drop=2),
        Column("source", Role.TEXT, drop=1),
    )
    sources = list(dict.fromkeys(motor.sources.values()))
    rows = []
    for use in sorted(motor.datasheet.table(), key=lambda use: not use.is_used):
        value = f"{use.value:g}" if isinstance(use.value, float) else "\n".join(f"{v:g}, {e:g}" for v, e in use.value)
        number = f"[{sources.index(motor.sources[use.name]) + 1}]"
        rows.append((use.name, value, use.unit, use.at, use.became, use.how, number))
    show_table(console, columns, rows)
    for config in motor.datasheet.stages():
        units = {
            name: "" if declared.unit == "1" else f" {declared.unit}" for name, declared in config.declared().items()
        }
        stage_values = ", ".join(f"{name} {_shown(value)}{units[name]}" for name, value in config.arguments().items())
        say(console, f"{by_config(config).type_name}: {stage_values}")
    for place, source in enumerate(sources, start=1):
        say(console, f"[{place}] {source}")
    for note in motor.notes:
        say(console, f"note: {note}")
    if sentence := limits_of_model(motor):
        say(console, sentence)


# Runs -----------------------------------------------------------------------------------------------------------------


class Bar:
    """Progress bar of one task after the other, on standard output."""

    def __init__(self) -> None:
        console = make_console()
        self._bar = Progress(console=console, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Print a sentence above the bar."""
        say(self._bar.console, text)

    def task(self, title: str) -> Callable[[float], None]:
        """Begin a task; returns the function to call with the share of it that is done."""
        task = self._bar.add_task(escape(title), total=1.0)
        return lambda share: self._bar.update(task, completed=share)


def print_runs(console: Console, title: str, runs: Sequence[Run]) -> None:
    """Print a summary of each joint in each run, side by side if there is room, and of the base."""
    from actuon.demo.run import summary

    summaries = [summary(run) for run in runs]
    columns, rows = _runs_table(runs, summaries)
    if len(runs) == 1 or fits(console, columns, rows):
        show_table(console, columns, rows, title)
    else:
        for run, own in zip(runs, summaries, strict=True):
            show_table(console, *_runs_table([run], [own]), title)
    if runs[0].is_fixed_base:
        say(console, "its base is fixed to the world")
    free = [run for run in runs if run.problem is None and not run.is_fixed_base]
    for run in free:
        tilt = math.degrees(math.acos(min(1.0, run.upright[-1].min())))
        end, highest = run.heights[-1].mean(), run.heights.max()
        say(
            console,
            f"{run.title}: root body at {end:.3f} m at the end, {highest:.3f} m at most, tilted by {tilt:.0f}°",
        )
    if any(run.heights[0].max() - run.heights[-1].min() > FELL for run in free):
        advice = "If not, run a scene.xml that includes it and has one, with an actuon.yaml next to it"
        say(console, f"! it fell by more than {FELL:g} m: is there a floor in its file? {advice}", "yellow")


def _runs_table(
    runs: Sequence[Run], summaries: Sequence[Mapping[str, JointSummary]]
) -> tuple[list[Column], list[list[str]]]:
    joints = runs[0].joints
    all_driven = all(joint.driven_by == "actuator" for joint in joints)
    at_stops = any(row.at_stop for rows in summaries for row in rows.values())
    columns = [Column("joint", Role.HEADING)]
    columns += [] if all_driven else [Column("driven by", Role.TEXT)]
    for run in runs:
        title = run.title.replace(" ", "\n")
        name = title if run.problem is None else f"{title}\nuntil {run.end:.3g} s"
        names = ("error", "peak", "at a limit", *(("at a stop",) if at_stops else ()))
        columns += [Column(f"{name}\n{each}") for each in names]
    rows = []
    for joint in joints:
        cells = [cell for own in summaries for cell in _cells(joint, own[joint.name], at_stops)]
        rows.append([joint.name, *(() if all_driven else (joint.driven_by,)), *cells])
    return columns, rows


def _cells(joint: Joint, row: JointSummary, at_stops: bool) -> list[str]:
    """Return error, effort, time at a limit and at a stop; a dash for values that need a motor."""
    has_motor = joint.driven_by == "actuator"
    cells = [
        f"{_rounded(row.error, 4)} {joint.unit}" if joint.has_targets else "–",
        f"{_rounded(row.peak, 1)} {joint.effort_unit}" if has_motor else "–",
        f"{100 * row.clipped:.1f} %" if has_motor else "–",
    ]
    return [*cells, f"{100 * row.at_stop:.1f} %"] if at_stops else cells


def _rounded(value: float, digits: int) -> str:
    """Return a number with ``digits`` after the point, and at least two that are not zero; 0 for rounding errors."""
    if value >= 10.0**5:
        return f"{value:.2e}"
    value = 0.0 if abs(value) <= _ROUNDING else value
    return f"{value:.{digits}f}" if value == 0.0 or value >= 10.0 ** (1 - digits) else f"{value:.2g}"


# Fits -----------------------------------------------------------------------------------------------------------------


class SearchBar:
    """Progress bar of the search at hand, on standard error.

    Args:
        plant: Plant of the search, whose joints determine the units of errors.
        total: Maximum number of generations, if known.
    """

    def __init__(self, plant: Plant | None = None, total: int | None = None) -> None:
        self._plant = plant
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("generation {task.completed:.0f}"),
            TextColumn("[bold]{task.fields[state]}"),
            TimeElapsedColumn(),
        )
        console = make_console(error=True)
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._total = total
        self._task = self._bar.add_task("", total=total, state="", visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def search(self, title: str) -> FitTick:
        """Begin a search; returns the function to call with the errors of each generation."""
        self._bar.reset(self._task, description=escape(title), total=self._total, visible=True)

        def tick(generation: int, errors: np.ndarray) -> None:
            self._bar.update(self._task, completed=generation, state=self._shown(errors))

        return tick

    def _shown(self, errors: np.ndarray) -> str:
        """Return the errors of a search with their unit."""
        from actuon.fit.units import SHARE, error_text, error_unit, means_by_unit, shown_means

        plant = self._plant
        unit = "rad" if plant is None else error_unit(plant)
        if plant is None or unit != SHARE or plant.couples_joints or len(errors) != len(plant.units):
            return error_text(float(errors.mean()), unit)
        return shown_means(means_by_unit(errors.tolist(), plant.units))

    def motion(self, generation: int, narrower: float) -> None:
        """Show the state of the search for a motion."""
        state = f"intervals {100.0 * narrower:.0f} % as wide"
        self._bar.update(self._task, description="motion", completed=generation, state=state, visible=True)


def print_logs(console: Console, logs: Sequence[Log]) -> None:
    """Print the quantities, units, settings and findings of each log."""
    columns = (
        Column("joint", Role.HEADING),
        Column("quantity", Role.NAME),
        Column("from"),
        Column("to"),
        Column("unit", Role.UNIT),
        Column("unit in file", Role.TEXT, drop=1),
    )
    for log in logs:
        settings = ", ".join(f"{name} {value}" for name, value in log.settings.items())
        title = f"{log.path}: {len(log)} samples in {log.duration:.4g} s, {log_rate(log):.4g} Hz"
        rows = []
        for joint in log.joints:
            for i, (name, values) in enumerate(joint.quantities().items()):
                ends = (f"{values.min():.4g}", f"{values.max():.4g}")
                cells = (name, *ends, unit_of(joint, name), joint.units.get(name, "unknown"))
                rows.append((joint.name if i == 0 else "", *cells))
        show_table(console, columns, rows, title)
        if settings:
            say(console, f"settings: {settings}")
        for finding in log.findings:
            say(console, f"{finding.severity}: {finding}", "yellow" if finding.severity == "warning" else "")


def log_rate(log: Log) -> float:
    """Return the usual rate of a log [Hz]."""
    return 1.0 / float(np.median(np.diff(log.time)))


def unit_of(joint: Any, quantity: str) -> str:
    """Return the unit in which a log holds a quantity."""
    from actuon.logs.units import held_in

    return held_in(quantity, joint.units[quantity]) if quantity in joint.units else ""


def print_fit(result: FitResult) -> None:
    """Print the result of a fit, verdict and warnings first."""
    from actuon.fit.units import shown_means

    console = make_console()
    print_verdicts(console, result.verdicts, result.warnings)
    print_findings(console, result.findings, (run.path for run in result.runs))
    print_models(console, result.compared)
    columns = (
        Column("parameter", Role.NAME),
        Column("value"),
        Column("95 % interval", Role.TEXT),
        Column("unit", Role.UNIT),
        Column("note", Role.TEXT),
    )
    for joint in result.joints:
        title = f"{joint.name}: {joint.model.name}"
        if joint.model.settings:
            title += ", at " + ", ".join(f"{name} {value:g}" for name, value in joint.model.settings.items())
        rows = []
        for p in joint.parameters:
            unit = joint.unit_at(p.path, result.unit_of(joint.name))
            rows.append((p.path, f"{p.value:.4g}", f"{p.low:.4g} … {p.high:.4g}", unit, p.note))
        show_table(console, columns, rows, title)
        for sentence in joint.undetermined:
            say(console, sentence)
    _print_run_errors(console, result)
    if result.encoder_offsets:
        say(console, _offsets(result.encoder_offsets, result.unit_of))
    seconds = f"{result.evaluations} candidates in {result.seconds:.0f} s"
    say(console, f"mean absolute error {shown_means(result.errors)} in all runs, {seconds}")
    if result.held_out_errors:
        say(console, f"in runs that the model was not fitted to: {shown_means(result.held_out_errors)}")


def print_verdicts(console: Console, verdicts: Iterable[Verdict], warnings: Iterable[str]) -> None:
    """Print the verdict on each joint, then the warnings, which begin with bad verdicts."""
    sentences = {verdict.sentence(): verdict.is_useless for verdict in verdicts}
    for sentence, is_useless in sentences.items():
        say(console, f"warning: {sentence}" if is_useless else sentence, "bold" if is_useless else "")
    print_warnings(console, (warning for warning in warnings if warning not in sentences))


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print warnings about a result."""
    for warning in warnings:
        say(console, f"warning: {warning}", "bold")


def print_findings(console: Console, findings: Iterable[Finding], logs: Iterable[str]) -> None:
    """Print the findings in logs; findings that are alike in several logs take one line.

    Args:
        console: Console to print to.
        findings: Sentences, those on a log with its path in front.
        logs: Paths of the logs.
    """
    from actuon.fit.log_names import log_names

    found = list(_gathered(findings, log_names(logs)))
    for finding in found[:_MOST_FINDINGS]:
        say(console, f"found: {finding}")
    if len(found) > _MOST_FINDINGS:
        say(console, f"found: {len(found) - _MOST_FINDINGS} more, which --json shows")


def _gathered(findings: Iterable[Finding], names: Mapping[str, str]) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.kind, finding.where, finding.severity), []).append(finding)
    for own in alike.values():
        others = [names.get(finding.log, "") for finding in own[1:]]
        if len({finding.log for finding in own}) < len(own):
            yield from own
        elif others:
            more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
            yield f"{own[0]}; alike in {', '.join(others[:_MOST_NAMES])}{more}"
        else:
            yield own[0]


def print_models(console: Console, compared: Sequence[Compared]) -> None:
    """Print the errors of models that were compared."""
    if not compared:
        return
    from actuon.fit.units import shown_unit, to_shown

    folds, of = list(compared[0].by_fold), compared[0].unit
    unit = shown_unit(of)
    columns = [
        Column("model", Role.HEADING),
        Column("free", drop=2),
        Column("train", unit=unit),
        Column("held out", unit=unit),
        *(Column(name, unit=unit, drop=1) for name in folds),
        Column("choice", Role.TEXT),
    ]
    rows = []
    for one in compared:
        errors = (one.train, one.held_out, *(one.by_fold[name] for name in folds))
        cells = (f"{to_shown(error, of):.1f}" for error in errors)
        rows.append((one.name, str(one.parameters), *cells, "chosen" if one.chosen else ""))
    show_table(console, columns, rows, "mean absolute error")


def _print_run_errors(console: Console, result: FitResult) -> None:
    from actuon.fit.log_names import log_names
    from actuon.fit.units import shown_unit, to_shown

    units = {run.joint: result.unit_of(run.joint) for run in result.runs}
    common = shown_unit(next(iter(units.values()))) if len(set(units.values())) == 1 else ""
    columns = (
        Column("log", Role.HEADING),
        Column("joint", Role.TEXT),
        Column("fitted", unit=common),
        Column("held out", unit=common),
        *(() if common else (Column("unit", Role.UNIT),)),
    )
    windows: dict[tuple[str, str], list[Any]] = {}
    for run in result.runs:
        windows.setdefault((run.path, run.joint), []).append(run)
    names = log_names(path for path, _ in windows)
    rows = []
    for (path, joint), own in windows.items():
        unit, held_out = units[joint], [run.held_out for run in own if run.held_out is not None]
        shown = f"{to_shown(statistics.fmean(held_out), unit):.1f}" if held_out else ""
        fitted = f"{to_shown(statistics.fmean(run.error for run in own), unit):.1f}"
        rows.append((names[path], joint, fitted, shown, *(() if common else (shown_unit(unit),))))
    show_table(console, columns, rows)


def _offsets(offsets: Mapping[str, Mapping[str, float]], unit_of: Callable[[str], str]) -> str:
    from actuon.fit.result import named_offsets
    from actuon.fit.units import error_text

    logs = (
        f"{log} " + ", ".join(f"{joint} {error_text(offset, unit_of(joint), 1)}" for joint, offset in own.items())
        for log, own in named_offsets(offsets)
    )
    return f"encoder offsets of each log: {'; '.join(logs)}"


def print_applied(actuators: Path, found: Applied, findings: Iterable[Finding]) -> None:
    """Print the errors of actuators by log and joint, and the findings in the logs."""
    from actuon.fit.log_names import log_names
    from actuon.fit.units import shown_unit

    console = make_console()
    print_verdicts(console, found.verdicts, found.warnings)
    print_findings(console, findings, found.logs)
    errors = {shown_unit(unit): found.by_log(unit) for unit in found.means}
    names = log_names(found.logs)
    columns = (
        Column("log", Role.HEADING),
        *(Column("mean absolute error", unit=unit) for unit in errors),
    )
    rows = [
        (names[path], *(_two_digits(own["logs"][path]) for own in errors.values()))
        for path in dict.fromkeys(found.logs)
    ]
    show_table(console, columns, rows)
    if found.encoder_offsets:
        say(console, _offsets(found.encoder_offsets, found.unit_of))
    for unit, own in errors.items():
        for joint, error in own["joints"].items():
            say(console, f"{joint}: {_two_digits(error)} {unit}")
    means = ", ".join(f"{_two_digits(own['mean'])} {unit}" for unit, own in errors.items())
    say(console, f"{actuators}: {means}")


def _two_digits(error: float | None) -> str:
    return "inf" if error is None else f"{error:.2f}"


def print_excitation(found: Excitation, model: str, recorded: Motion | None) -> None:
    """Print a motion, and how it narrows the intervals of parameters."""
    console = make_console()
    columns = (
        Column("parameter", Role.HEADING),
        Column("value"),
        Column("now", Role.TEXT),
        Column("then", Role.TEXT),
        Column("width", unit="%"),
        Column("unit", Role.UNIT),
    )
    rows = []
    for one in found.parameters:
        before, after = (f"{low:.3g} … {high:.3g}" for low, high in (one.before, one.after))
        rows.append((one.path, f"{one.value:.4g}", before, after, f"{100.0 * one.narrower:.0f}", one.unit))
    show_table(console, columns, rows, f"{found.joint}: {model}, intervals before and after")
    if recorded is not None:
        say(console, f"logs: {recorded.sentence()}")
    say(console, f"motion: {found.motion.sentence()}")
    if found.interrupted:
        say(console, "the search was interrupted: this is the best motion so far")
    for sentence in found.told:
        say(console, f"identifies {sentence}")
    for sentence in found.open:
        say(console, f"still not identifiable: {sentence}")


def print_fleet(result: FleetResult) -> None:
    """Print the fits of all robots, and how the robots differ."""
    from actuon.fit.fleet import fleet_of
    from actuon.fit.units import shown_unit, to_shown
    from actuon.robot_files.fleet import FEWEST

    console = make_console()
    print_warnings(console, result.warnings)
    robots = result.robots.values()
    findings = (finding for own in robots for finding in own.findings)
    print_findings(console, findings, (run.path for own in robots for run in own.runs))
    if not result.is_comparable:
        few = f"only {len(result.robots)} robots were fitted: too few to compare"
        say(console, few if len(result.robots) < FEWEST else "the robots have different models: they are not compared")
        return
    fleet = fleet_of(result.robots, [""] * len(result.robots))
    units = {joint.unit for joint in fleet.joints}
    common = shown_unit(units.pop()) if len(units) == 1 else ""
    columns = (
        Column("robot", Role.HEADING),
        Column("joint", Role.TEXT),
        Column("model", Role.TEXT),
        Column("verdict", Role.TEXT),
        Column("fitted", unit=common),
        Column("held out", unit=common),
        *(() if common else (Column("unit", Role.UNIT),)),
    )
    rows = []
    for i, (name, own) in enumerate(result.robots.items()):
        verdicts = {verdict.joint: verdict for verdict in own.verdicts}
        for joint in fleet.joints:
            verdict = verdicts[joint.name]
            held_out = "" if verdict.held_out is None else f"{to_shown(verdict.held_out, joint.unit):.1f}"
            cells = (joint.name, joint.model, verdict.level, f"{to_shown(joint.errors[i], joint.unit):.1f}", held_out)
            rows.append((name, *cells, *(() if common else (shown_unit(joint.unit),))))
    show_table(console, columns, rows)
    for joint in fleet.joints:
        _print_spread(console, joint)
        for sentence in _related(joint):
            say(console, sentence)


def _print_spread(console: Console, joint: FleetJoint) -> None:
    """Print how the robots differ at one joint."""
    columns = (
        Column("parameter", Role.HEADING),
        Column("mean"),
        Column("deviation"),
        Column("from"),
        Column("to"),
        Column("own uncertainty", drop=1),
        Column("unit", Role.UNIT),
    )
    own = np.sqrt(np.diag(joint.noise))
    rows = []
    for i, p in enumerate(joint.parameters):
        low, high = joint.values[:, i].min(), joint.values[:, i].max()
        deviations = (_deviation(joint, i, std) for std in (joint.std[i], own[i]))
        std, noise = deviations
        rows.append((p.path, f"{joint.mean[i]:.4g}", std, f"{low:.4g}", f"{high:.4g}", noise, p.unit))
    show_table(console, columns, rows, f"{joint.name}: {joint.model} on {len(joint.errors)} robots")


def _deviation(joint: FleetJoint, index: int, std: float) -> str:
    return f"{100.0 * np.expm1(std):.1f} %" if joint.is_log[index] else f"{std:.3g}"


def _related(joint: FleetJoint) -> list[str]:
    """Return a sentence for each pair of parameters that vary together, the closest first."""
    if len(joint.errors) < _ENOUGH:
        return []
    rows, columns = np.tril_indices(len(joint.parameters), -1)
    found = sorted(zip(joint.correlation[rows, columns], rows, columns, strict=True), key=lambda each: -abs(each[0]))
    return [
        f"{joint.name}: {joint.parameters[b].path} and {joint.parameters[a].path} vary "
        f"{'together' if r > 0.0 else 'against each other'}: correlation {r:.2f}"
        for r, a, b in found
        if abs(r) >= _RELATED
    ]


def print_network(result: NetworkResult, findings: Sequence[Finding]) -> None:
    """Print a trained network and its errors."""
    from actuon.fit.units import at_joint, shown_means

    console = make_console()
    print_verdicts(console, result.applied.verdicts, result.warnings)
    print_findings(console, findings, result.applied.logs)
    print_models(console, result.compared)
    trained = result.trained
    unit = result.applied.unit_of(result.joint)
    numbers = (
        ("dry friction", trained.dynamic, "N·m"),
        ("load-dependent friction", trained.load, "1"),
        ("viscous friction", trained.viscous, "N·m·s/rad"),
        ("armature", trained.armature, "kg·m²"),
        ("encoder offset", trained.bias, "rad"),
    )
    rows = [(name, f"{value:.4g}", at_joint(declared, "", unit)) for name, value, declared in numbers]
    columns = (Column("next to the network", Role.NAME), Column("value"), Column("unit", Role.UNIT))
    title = f"{result.joint}: {trained.kind} every {1e3 * trained.dt:g} ms, {trained.parameters} numbers"
    show_table(console, columns, rows, title)
    ranges = (f"{name} {low:.3g} … {high:.3g}" for name, (low, high) in trained.ranges.items())
    say(console, f"trained on {', '.join(ranges)}")
    say(console, f"mean absolute error {shown_means(result.applied.means)} in all runs")
