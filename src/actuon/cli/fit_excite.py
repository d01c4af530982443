# SPDX-License-Identifier: Apache-2.0
"""``actuon fit --excite``: which motion to record next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from actuon.charts import pyplot
from actuon.errors import ParameterError, RobotFileError
from actuon.files import check_folder
from actuon.fit import Plant, fit_logs
from actuon.fit.excite import (
    Excitation,
    ExcitationOptions,
    Limits,
    Motion,
    excite,
    facts_of,
    from_file,
    limits_of,
    motions_of,
)
from actuon.fit.model import changed
from actuon.fit.refine import refine
from actuon.fit.report import draw_excitation
from actuon.fit.terms import JointFacts, build_model

from .fit_tables import FitProgress
from .tables import make_console

_DEFAULT_MODEL = "m4"


def check_path(path: Path, force: bool) -> None:
    """Refuse a file that could not be written at the end."""
    if path.suffix.lower() != ".csv":
        raise RobotFileError(f"'{path}' has the format '{path.suffix}'; must be .csv")
    if path.is_file() and not force:
        raise RobotFileError(f"'{path}' already exists; --force replaces it")
    check_folder(path.parent)
    pyplot()


def limits_from(given: Iterable[str] | None, usual: Limits | None) -> Limits:
    """Limits by the options ``--limit``, over those that logs show."""
    found: dict[str, float] = {} if usual is None else dataclasses.asdict(usual)
    for text in given or ():
        name, _, numbers = text.partition("=")
        try:
            ends = [float(number) for number in numbers.split(":")]
        except ValueError:
            ends = []
        if name == "position" and len(ends) == 2:
            found |= {"low": ends[0], "high": ends[1]}
        elif name in ("speed", "effort") and len(ends) == 1:
            found[name] = ends[0]
        else:
            raise ParameterError(f"--limit: got '{text}'; must be position=LOW:HIGH, speed=MOST or effort=MOST")
    if "low" not in found:
        raise ParameterError("--limit: a motion needs the range of the joint: --limit position=LOW:HIGH [rad]")
    return Limits(**found)


def propose(
    path: Path,
    plant: Plant | None,
    *,
    model: str | None,
    actuators: Path | None,
    limit: Iterable[str] | None,
    settings: Mapping[str, float],
    seconds: float,
    as_json: bool,
    known: Mapping[str, Any],
    workers: Any = None,
) -> None:
    """Look for a motion, write it with a picture, and print what it will tell.

    Args:
        path: The CSV to write.
        plant: With the logs recorded so far; None where there are none.
        model: Name of the model.
        actuators: File with what is known of it, in place of a fit.
        limit: Options ``--limit``.
        settings: Settings of the recording, if no logs state them.
        seconds: Length of the motion.
        as_json: Print JSON instead of tables.
        known: What the fit is told: ``fix``, ``free``, ``options``.
        workers: What runs searches of the fit.
    """
    search = known["options"]
    most = min(search.generations, ExcitationOptions.generations)
    options = ExcitationOptions(seconds=seconds, generations=most, seed=search.seed)
    local, recorded = None, None
    stated: Mapping[str, Any] = {}
    if plant is None:
        limits = limits_from(limit, None)
        facts = facts_of(settings, limits)
        if actuators is not None:
            chosen, values = from_file(actuators, facts, model)
        else:
            chosen = changed(build_model(model or _DEFAULT_MODEL, facts), known["fix"], known["free"])
            values = chosen.start
    else:
        if plant.loads is None:
            raise ParameterError("--excite: needs a joint with a known load; that of a robot's joints is not known")
        (joint,) = plant.joints
        limits = limits_from(limit, limits_of(plant.runs, joint))
        facts = JointFacts(plant.scales()[0], plant.runs, joint)
        if actuators is not None:
            chosen, values = from_file(actuators, facts, model)
        else:
            with FitProgress() as progress:
                fitted = fit_logs(model=model, plant=plant, progress=progress.search, workers=workers, **known).joints[
                    0
                ]
            chosen, values = fitted.model, fitted.values
        local = refine(plant, [chosen], [values], 0, steps=0)
        rates = [len(run) / run.duration for run in plant.runs]
        options = dataclasses.replace(options, rate=float(np.clip(np.median(rates), 10.0, 2000.0)))
        recorded, stated = motions_of(plant.runs, joint), plant.runs[0].settings
    with _Bar(options.generations) as bar:
        found = excite(
            facts.joint, chosen, values, limits, {**stated, **settings}, options, local=local, progress=bar.update
        )
    found.save(path)
    picture = path.with_suffix(".png")
    draw_excitation(found, limits, picture)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        print_excitation(found, chosen.name, recorded)
        print(f"wrote {path}\nwrote {picture}")


class _Bar(Progress):
    """How far the search for a motion is, on standard error."""

    def __init__(self, generations: int) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("motion"), BarColumn(), TextColumn("{task.fields[width]}"), TimeElapsedColumn())
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._one = self.add_task("motion", total=generations, width="")

    def update(self, generation: int, narrower: float) -> None:  # type: ignore[override]
        """Told after each generation."""
        super().update(self._one, completed=generation, width=f"intervals {100.0 * narrower:.0f} % as wide")


def print_excitation(found: Excitation, model: str, recorded: Motion | None) -> None:
    """Print what a motion is like, and what it will tell."""
    console = make_console()
    title = f"{found.joint}: {model}, intervals before and after"
    table = Table("parameter", "value", "now", "then", "width", "unit", title=escape(title), title_justify="left")
    for column in table.columns[1:5]:
        column.justify = "right"
    for one in found.parameters:
        before, after = (f"{low:.3g} … {high:.3g}" for low, high in (one.before, one.after))
        table.add_row(one.path, f"{one.value:.4g}", before, after, f"{100.0 * one.narrower:.0f} %", escape(one.unit))
    console.print(table)
    if recorded is not None:
        console.print(f"logs:   {recorded.sentence()}", highlight=False)
    console.print(f"motion: {found.motion.sentence()}", highlight=False)
    for sentence in found.told:
        console.print(f"tells {escape(sentence)}", highlight=False)
    for sentence in found.open:
        console.print(f"not told then either: {escape(sentence)}", highlight=False)
