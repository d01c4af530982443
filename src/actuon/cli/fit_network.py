# SPDX-License-Identifier: Apache-2.0
"""``actuon fit --network``: a network controller from logs, beside physical models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from actuon.errors import RobotFileError, require
from actuon.files import check_folder
from actuon.fit import Plant
from actuon.fit.fitting import candidates_of, findings_of
from actuon.fit.network_fitting import NetworkResult, check_kind, fit_network
from actuon.fit.search import SearchOptions
from actuon.logs import Finding

from .fit_tables import FitProgress, models_table, print_findings
from .tables import make_console

MILLI = 1e3


def train(
    kind: str,
    output: Path | None,
    plant_of: Callable[[], Plant],
    *,
    model: str | None,
    select: bool | Sequence[str],
    known: Mapping[str, Any],
    workers: Any,
    as_json: bool,
    force: bool,
) -> None:
    """Train a network, write it with its actuator, and print how it compares.

    Args:
        kind: Of the network.
        output: The ``.safetensors`` file to write; the actuator is written beside it.
        plant_of: Gives what the actuators move, with the logs.
        model: The physical model to compare it with.
        select: Those, where there are several.
        known: What the fit of physical models is told: ``fix``, ``free``, ``options``.
        workers: What runs trainings and searches.
        as_json: Print JSON instead of tables.
        force: Replace files.
    """
    check_kind(kind)
    require("torch", "torch", "training networks")
    if output is not None:
        if output.suffix.lower() != ".safetensors":
            raise RobotFileError(f"'{output}' has the format '{output.suffix}'; a network is written as .safetensors")
        for path in (output, output.with_suffix(".yaml")):
            if path.is_file() and not force:
                raise RobotFileError(f"'{path}' already exists; --force replaces it")
        check_folder(output.parent)
    plant = plant_of()
    candidates = candidates_of(plant, model, select=select, fix=known["fix"], free=known["free"])
    search: SearchOptions = known["options"]
    share = min(1.0, search.generations / SearchOptions.generations)
    with FitProgress() as progress:
        result = fit_network(
            plant, kind, candidates, options=search, share=share, progress=progress.search, workers=workers
        )
    written = [] if output is None else [output, result.save(output)]
    findings = list(findings_of(plant))
    if as_json:
        print(json.dumps({**result.as_dict(), "findings": findings}, indent=2))
    else:
        _print(result, findings)
        for path in written:
            print(f"wrote {path}")


def _print(result: NetworkResult, findings: Sequence[Finding]) -> None:
    console = make_console()
    for warning in result.warnings:
        console.print(f"[bold]warning:[/bold] {escape(warning)}", highlight=False)
    print_findings(console, findings, result.applied.logs)
    if result.compared:
        console.print(models_table(result.compared))
    trained = result.trained
    title = f"{result.joint}: {trained.kind} every {1e3 * trained.dt:g} ms, {trained.parameters} numbers"
    table = Table("beside the network", "value", "unit", title=escape(title), title_justify="left")
    table.columns[1].justify = "right"
    for name, value, unit in (
        ("dry friction", trained.dynamic, "N·m"),
        ("share of the load that rubs", trained.load, "1"),
        ("viscous friction", trained.viscous, "N·m·s/rad"),
        ("armature", trained.armature, "kg·m²"),
        ("bias of the encoder", trained.bias, "rad"),
    ):
        table.add_row(name, f"{value:.4g}", unit)
    console.print(table)
    ranges = (f"{name} {low:.3g} … {high:.3g}" for name, (low, high) in trained.ranges.items())
    console.print(f"trained on {', '.join(ranges)}", highlight=False)
    console.print(f"mean absolute error {MILLI * result.applied.mean:.2f} mrad in all runs", highlight=False)
