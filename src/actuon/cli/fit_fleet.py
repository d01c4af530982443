# SPDX-License-Identifier: Apache-2.0
"""``actuon fit`` of a folder of robots: an actuator for each, and how they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from actuon.errors import RobotFileError
from actuon.files import check_folder
from actuon.fit import FleetJoint, Plant, fit_fleet
from actuon.fit.fleet import fleet_of
from actuon.fit.fleet_fitting import FleetResult, robots_folder
from actuon.fit.model import LOG
from actuon.robot_files.fleet import FEWEST

from .fit_tables import FitProgress, print_findings
from .tables import make_console

MILLI = 1e3
_RELATED = 0.7
"""Correlation from which on two parameters are named."""
_ENOUGH = 5
"""Robots from which on a correlation says something."""


def fit_folders(
    plants: Mapping[str, Plant], output: Path | None, report: Path | None, as_json: bool, force: bool, **options: Any
) -> None:
    """Fit all robots, write what was asked for, and print how they differ.

    Args:
        plants: By the name of the robot.
        output: The ``fleet.yaml`` to write.
        report: Folder for a report of each robot, in a folder of its name.
        as_json: Print JSON instead of tables.
        force: Replace files.
        options: What `fit_fleet` takes.
    """
    if output is not None:
        check_folder(robots_folder(output))
        there = [robots_folder(output) / f"{name}.yaml" for name in plants]
        if not force and (taken := [path for path in there if path.exists()]):
            raise RobotFileError(f"'{taken[0]}' already exists; --force replaces it")
    with FitProgress() as progress:
        result = fit_fleet(plants, progress=progress.search, **options)
    written = []
    if output is not None and len(result.robots) >= FEWEST:
        result.save(output)
        written = [output, *(robots_folder(output) / f"{name}.yaml" for name in result.robots)]
    if report is not None:
        from actuon.fit.report import write_report

        written += [write_report(own, plants[name], report / name) for name, own in result.robots.items()]
    if as_json:
        print(json.dumps(_as_dict(result), indent=2))
    else:
        _print(result)
        for path in written:
            print(f"wrote {path}")
    if any(own.is_useless for own in result.robots.values()):
        raise typer.Exit(1)


def _as_dict(result: FleetResult) -> dict[str, Any]:
    return {
        "warnings": list(result.warnings),
        "models": [one.as_dict() for one in result.compared],
        "robots": {name: own.as_dict() for name, own in result.robots.items()},
    }


def _print(result: FleetResult) -> None:
    console = make_console()
    for warning in result.warnings:
        console.print(f"[bold]warning:[/bold] {escape(warning)}", highlight=False)
    robots = result.robots.values()
    findings = (finding for own in robots for finding in own.findings)
    print_findings(console, findings, (run.path for own in robots for run in own.runs))
    if len(result.robots) < FEWEST:
        console.print(f"only {len(result.robots)} robots were fitted: too few to compare", highlight=False)
        return
    fleet = fleet_of(result.robots, [""] * len(result.robots))
    errors = Table("robot", "joint", "model", "verdict", escape("fitted [mrad]"), escape("held out [mrad]"))
    for column in errors.columns[4:]:
        column.justify = "right"
    for i, (name, own) in enumerate(result.robots.items()):
        held_out = "" if own.held_out is None else f"{MILLI * own.held_out:.1f}"
        for joint in fleet.joints:
            level = next(verdict.level for verdict in own.verdicts if verdict.joint == joint.name)
            cells = (joint.model, level, f"{MILLI * joint.errors[i]:.1f}", held_out)
            errors.add_row(escape(name), escape(joint.name), *cells)
    console.print(errors)
    for joint in fleet.joints:
        console.print(_spread(joint))
        for sentence in _related(joint):
            console.print(escape(sentence), highlight=False)


def _spread(joint: FleetJoint) -> Table:
    """How the robots differ at one joint."""
    title = f"{joint.name}: {joint.model} on {len(joint.errors)} robots"
    table = Table("parameter", "mean", "deviation", "from", "to", "own uncertainty", "unit", title=escape(title))
    table.title_justify = "left"
    for column in table.columns[1:6]:
        column.justify = "right"
    own = np.sqrt(np.diag(joint.noise))
    for i, p in enumerate(joint.parameters):
        low, high = joint.values[:, i].min(), joint.values[:, i].max()
        cells = (f"{joint.mean[i]:.4g}", _deviation(joint, i, joint.std[i]), f"{low:.4g}", f"{high:.4g}")
        table.add_row(p.path, *cells, _deviation(joint, i, own[i]), escape(p.unit))
    return table


def _deviation(joint: FleetJoint, index: int, std: float) -> str:
    is_log = joint.parameters[index].scale == LOG
    return f"{100.0 * np.expm1(std):.1f} %" if is_log else f"{std:.3g}"


def _related(joint: FleetJoint) -> list[str]:
    """Parameters that vary together, in sentences, the closest first."""
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
