# SPDX-License-Identifier: Apache-2.0
"""Tables for people: what a file says about its actuators, and what joints did in a run."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from actuon.declare.registry import by_config
from actuon.demo.motion import Joint
from actuon.demo.run import JointSummary, Run, summary
from actuon.motors.catalogue import CatalogueMotor
from actuon.stability.report import COLUMNS, UNITS, CheckResult, summary_line

FELL = 5.0
"""How far a robot falls only where nothing is below it [m]."""


def make_console() -> Console:
    """A console that cuts nothing off where its output goes to a file."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=200 if piped else None)


def counted(entries: int) -> str:
    """How many entries of a YAML."""
    return "1 entry" if entries == 1 else f"{entries} entries"


def print_report(console: Console, robot: Path, report: Any) -> None:
    """Print what a robot's file says about its joints, those that say the same together."""
    driven = sum(bool(joint.actuators) for joint in report.joints)
    text = f"{robot}: {len(report.joints)} joints, {driven} with an actuator"
    beside = getattr(report, "actuators_from", None)
    if beside:
        text += f", from {Path(beside).name} next to it"
    console.print(escape(text), highlight=False)
    if beside == "" and any(joint.chain for joint in report.joints):
        console.print("shown are the engine's own drives, as  actuon init  would write them", highlight=False)
    count = Counter(joint.name for joint in report.joints)
    alike: dict[Any, list[str]] = {}
    for joint in report.joints:
        shown = joint.chain or ((joint.drive,) if joint.drive is not None else ())
        alike.setdefault((bool(joint.actuators), joint.type, shown), []).append(
            joint.name if count[joint.name] == 1 else joint.path
        )
    rows = [("\n".join(names), parts, has_actuator) for (has_actuator, _, parts), names in alike.items()]
    _print_parts(console, "joints", rows)


def print_entries(console: Console, path: Path, report: Any) -> None:
    """Print what an ``actuon.yaml`` says, entry by entry, with the joints that each is for."""
    console.print(f"{escape(str(path))}: {counted(len(report.entries))}", highlight=False)
    rows = [("\n".join((f"{entry.name}:", *entry.joints)), entry.chain, True) for entry in report.entries]
    _print_parts(console, "entry: joints", rows)


def _print_parts(console: Console, first: str, rows: list[tuple[str, Any, bool]]) -> None:
    """A row of parts with all their values for what is named on the left."""
    if not rows:
        return
    table = Table(first, "driven by", "parameter", "value", "unit", "source", show_lines=False)
    table.columns[3].justify = "right"
    for column in table.columns:
        column.overflow = "fold"
    for left, parts, has_actuator in rows:
        columns: list[list[str]] = [[], [], [], [], []]
        for part in parts:
            title = part.name if has_actuator else f"{part.name} (no actuator)"
            rows_of_part = [(v.name, _shown(v.value), v.unit, v.source) for v in part.values] or [("", "", "", "")]
            for i, cells in enumerate(rows_of_part):
                for lines, cell in zip(columns, (title if i == 0 else "", *cells), strict=True):
                    lines.append(cell)
        if not parts:
            columns[0].append("nothing")
        table.add_row(escape(left), *(escape("\n".join(lines)) for lines in columns))
        table.add_section()
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        text = ", ".join(f"{number:g}" for number in value[:4])
        return text + (f", … ({len(value)})" if len(value) > 4 else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return Path(value).name
    return f"{value:g}"


def print_motors(console: Console, motors: Iterable[CatalogueMotor]) -> None:
    """Print the motors of the catalogue, one per line, with their main figures at the joint."""
    titles = ("stall\nN·m", "peak\nN·m", "rated\nN·m", "no load\nrad/s", "max speed\nrad/s", "ratio", "supply\nV")
    table = Table("motor", "vendor", "robots")
    for title in titles:
        table.add_column(title, justify="right")
    for motor in motors:
        figures = motor.datasheet.at_joint
        curve = figures.get("driving_curve", ())
        if curve:
            figures["peak_torque"] = max(torque for _, torque in curve)
            figures["no_load_speed"] = next((speed for speed, torque in curve if torque == 0.0), None)
        names = ("stall_torque", "peak_torque", "rated_torque", "no_load_speed", "max_speed", "gear_ratio")
        cells = [figures.get(name) for name in (*names, "supply_voltage")]
        shown = ("" if value is None else f"{value:.4g}" for value in cells)
        table.add_row(escape(motor.name), escape(motor.vendor), escape(", ".join(motor.robots)), *shown)
    for column in table.columns[:3]:
        column.overflow = "fold"
    console.print(table)
    console.print("at the joint; empty: no source gives it. More:  actuon motors show NAME", highlight=False)


def print_motor(console: Console, motor: CatalogueMotor) -> None:
    """Print the figures of a motor, each with its source and what it becomes, and the stages of that."""
    robots = f", in {', '.join(motor.robots)}" if motor.robots else ""
    console.print(escape(f"{motor.name}: {motor.vendor}{robots}"), highlight=False)
    table = Table("figure", "value", "unit", "at", "becomes", "how", "source", show_lines=False)
    table.columns[1].justify = "right"
    sources = list(dict.fromkeys(motor.sources.values()))
    for use in motor.datasheet.table():
        value = f"{use.value:g}" if isinstance(use.value, float) else "\n".join(f"{v:g}, {e:g}" for v, e in use.value)
        number = f"[{sources.index(motor.sources[use.figure]) + 1}]"
        table.add_row(*(escape(cell) for cell in (use.figure, value, use.unit, use.at, use.became, use.how, number)))
    for column in table.columns:
        column.overflow = "fold"
    console.print(table)
    for config in motor.datasheet.stages():
        values = ", ".join(f"{name} {_shown(value)}" for name, value in config.arguments().items())
        console.print(escape(f"{by_config(config).type_name}: {values}"), highlight=False)
    for place, source in enumerate(sources, start=1):
        console.print(escape(f"[{place}] {source}"), highlight=False)
    for note in motor.notes:
        console.print(escape(f"note: {note}"), highlight=False)


def print_problems(console: Console, problems: Iterable[str], notes: Iterable[str] = ()) -> None:
    """Print what is wrong, or that nothing is, and what else is to be known."""
    problems, noted = list(problems), list(notes)
    for note in noted:
        console.print(Text(f"! {note}", style="yellow"))
    for problem in problems:
        console.print(Text(f"✗ {problem}", style="red"))
    if not problems:
        console.print(Text("✓ no other problems found" if noted else "✓ no problems found", style="green"))


def print_stability(console: Console, robot: Path, result: CheckResult) -> None:
    """Print how near each joint with an actuator is to diverging."""
    table = Table(*COLUMNS, title=escape(f"{robot.name} at dt = {1e3 * result.robots[0].dt:.4g} ms"))
    for column in table.columns[2:]:
        column.justify = "right"
    for column in table.columns:
        column.overflow = "fold"
    for cells in result.cells():
        table.add_row(*map(escape, cells), style="red" if cells[0] == "✗" else None)
    console.print(table)
    console.print(UNITS, highlight=False)
    for each in result.robots:
        if each.joints:
            console.print(Text(summary_line(each), style="green" if each.is_stable else "red"))


def print_runs(console: Console, title: str, runs: list[Run]) -> None:
    """Print what each joint did in each run, side by side where there is room, and where the base is in the end."""
    summaries = [summary(run) for run in runs]
    table = _runs_table(title, runs, summaries)
    unbounded = console.options.update(max_width=10_000)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
    else:
        for run, rows in zip(runs, summaries, strict=True):
            console.print(_runs_table(title, [run], [rows]))
    if runs[0].is_fixed_base:
        console.print("its base is fixed to the world", highlight=False)
    for run in runs:
        if run.problem is None and not run.is_fixed_base:
            tilt = math.degrees(math.acos(min(1.0, run.upright[-1].min())))
            end, highest = run.heights[-1].mean(), run.heights.max()
            text = f"root body at {end:.3f} m at the end, {highest:.3f} m at most, tilted by {tilt:.0f}°"
            console.print(f"{run.title}: {text}", highlight=False)
    whole = [run for run in runs if run.problem is None and not run.is_fixed_base]
    if any(run.heights[0].max() - run.heights[-1].min() > FELL for run in whole):
        advice = "Else run a scene.xml that includes it and has one, with an actuon.yaml beside that"
        text = f"! it fell by more than {FELL:g} m: is there a floor in its file? {advice}"
        console.print(Text(text, style="yellow"))


def _runs_table(title: str, runs: list[Run], summaries: list[dict[str, JointSummary]]) -> Table:
    joints = runs[0].joints
    all_driven = all(joint.driven_by == "actuator" for joint in joints)
    at_stops = any(row.at_stop for rows in summaries for row in rows.values())
    table = Table("joint", *(() if all_driven else ("driven by",)), title=escape(title))
    for run in runs:
        name = run.title if run.problem is None else f"{run.title}\nuntil {run.end:.3g} s"
        for column in ("error", "peak", "at a limit", *(("at a stop",) if at_stops else ())):
            table.add_column(escape(f"{name}\n{column}"), justify="right")
    for joint in joints:
        cells = [cell for rows in summaries for cell in _cells(joint, rows[joint.name], at_stops)]
        table.add_row(escape(joint.name), *(() if all_driven else (joint.driven_by,)), *cells)
    for column in table.columns:
        column.overflow = "fold"
    return table


def _cells(joint: Joint, row: JointSummary, at_stops: bool) -> list[str]:
    """Error, effort, time at a limit and at a stop; a dash for what a joint without a motor has not."""
    has_motor = joint.driven_by == "actuator"
    cells = [
        f"{_rounded(row.error, 4)} {joint.unit}" if joint.has_targets else "–",
        f"{_rounded(row.peak, 1)} {joint.effort_unit}" if has_motor else "–",
        f"{100 * row.clipped:.1f} %" if has_motor else "–",
    ]
    return [*cells, f"{100 * row.at_stop:.1f} %"] if at_stops else cells


def _rounded(value: float, digits: int) -> str:
    """With ``digits`` after the point, and at least two that are not zero."""
    if value >= 10.0**5:
        return f"{value:.2e}"
    return f"{value:.{digits}f}" if value == 0.0 or value >= 10.0 ** (1 - digits) else f"{value:.2g}"
