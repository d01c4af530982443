# SPDX-License-Identifier: Apache-2.0
"""What ``actuon fit`` shows: how far it is, and what it has found."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from actuon.fit import Applied, FitResult
from actuon.fit.log_names import log_names
from actuon.fit.model import place_of
from actuon.fit.result import RunError, named_offsets
from actuon.fit.select import Compared
from actuon.fit.workers import Progress as Told
from actuon.logs import Finding

from .tables import make_console

MILLI = 1e3
_MOST_FINDINGS = 20
_MOST_NAMES = 3


class FitProgress:
    """A bar for the search at hand, with its error in mrad, on standard error."""

    def __init__(self, generations: int | None = None) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("generation {task.completed:.0f}"),
            TextColumn("[bold]{task.fields[error]}"),
            TimeElapsedColumn(),
        )
        console = Console(stderr=True)
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._generations = generations
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def search(self, title: str) -> Told:
        """What is told after each generation of a search with this title."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        task = self._task = self._bar.add_task(escape(title), total=self._generations, error="")

        def told(generation: int, errors: np.ndarray) -> None:
            self._bar.update(task, completed=generation, error=f"{MILLI * float(errors.mean()):.2f} mrad")

        return told


def print_fit(result: FitResult) -> None:
    """Print what a fit has found; what is to be known first stands at the top."""
    console = make_console()
    for warning in result.warnings:
        console.print(f"[bold]warning:[/bold] {escape(warning)}", highlight=False)
    for verdict in result.verdicts:
        if not verdict.is_useless:
            console.print(escape(verdict.sentence()), highlight=False)
    print_findings(console, result.findings, (run.path for run in result.runs))
    if result.compared:
        console.print(models_table(result.compared))
    for joint in result.joints:
        title = f"{joint.name}: {joint.model.name}"
        if joint.model.settings:
            title += ", at " + ", ".join(f"{name} {value:g}" for name, value in joint.model.settings.items())
        table = Table("parameter", "value", "95 % interval", "unit", "", title=escape(title), title_justify="left")
        table.columns[1].justify = "right"
        for p in joint.parameters:
            unit = place_of(joint.model.actuator, p.path).declared.unit
            table.add_row(p.path, f"{p.value:.4g}", f"{p.low:.4g} … {p.high:.4g}", escape(unit), p.note)
        console.print(table)
        for sentence in joint.undetermined:
            console.print(escape(sentence), highlight=False)
    console.print(_runs(result))
    if result.encoder_offsets:
        console.print(escape(_offsets(result.encoder_offsets)), highlight=False)
    seconds = f"{result.evaluations} candidates in {result.seconds:.0f} s"
    console.print(f"mean absolute error {_mrad(result.error)} in all runs, {seconds}", highlight=False)
    if result.held_out is not None:
        console.print(f"in runs that the model was not fitted to: {_mrad(result.held_out)}", highlight=False)


def print_findings(console: Console, findings: Iterable[Finding], logs: Iterable[str]) -> None:
    """Print what was noticed while logs were read. One line for what was found alike in several logs.

    Args:
        console: Where to.
        findings: Sentences, those on a log with its path in front.
        logs: Paths of the logs.
    """
    found = list(_gathered(findings, log_names(logs)))
    for finding in found[:_MOST_FINDINGS]:
        console.print(f"found: {escape(finding)}", highlight=False)
    if len(found) > _MOST_FINDINGS:
        console.print(f"found: {len(found) - _MOST_FINDINGS} more, which --json shows", highlight=False)


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


def _mrad(error: float | None) -> str:
    return "" if error is None else f"{MILLI * error:.2f} mrad"


def models_table(compared: Sequence[Compared]) -> Table:
    """Errors of models that were compared."""
    groups = list(compared[0].by_group)
    table = Table(
        "model", "free", "train", "held out", *(escape(name) for name in groups), "",
        title=escape("mean absolute error [mrad]"), title_justify="left",
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    for one in compared:
        by_group = (f"{MILLI * one.by_group[name]:.1f}" for name in groups)
        cells = (str(one.parameters), f"{MILLI * one.train:.1f}", f"{MILLI * one.held_out:.1f}", *by_group)
        table.add_row(escape(one.name), *cells, "chosen" if one.chosen else "")
    return table


def _runs(result: FitResult) -> Table:
    table = Table("log", "joint", escape("fitted [mrad]"), escape("held out [mrad]"))
    for column in table.columns[2:]:
        column.justify = "right"
    windows: dict[tuple[str, str], list[RunError]] = {}
    for run in result.runs:
        windows.setdefault((run.path, run.joint), []).append(run)
    names = log_names(path for path, _ in windows)
    for (path, joint), own in windows.items():
        held_out = [run.held_out for run in own if run.held_out is not None]
        shown = f"{MILLI * statistics.fmean(held_out):.1f}" if held_out else ""
        error = statistics.fmean(run.error for run in own)
        table.add_row(escape(names[path]), escape(joint), f"{MILLI * error:.1f}", shown)
    return table


def _offsets(offsets: Mapping[str, Mapping[str, float]]) -> str:
    logs = (
        f"{log} " + ", ".join(f"{j} {MILLI * z:.1f}" for j, z in own.items()) for log, own in named_offsets(offsets)
    )
    return f"encoder offsets in each log [mrad]: {'; '.join(logs)}"


def print_applied(actuators: Path, found: Applied, findings: Iterable[Finding]) -> None:
    """Print how far actuators are off, by log and joint, and what was noticed in the logs."""
    console = make_console()
    for warning in found.warnings:
        console.print(f"[bold]warning:[/bold] {escape(warning)}", highlight=False)
    print_findings(console, findings, found.logs)
    errors = found.as_dict()["mae_mrad"]
    table = Table("log", escape("mean absolute error [mrad]"))
    table.columns[1].justify = "right"
    names = log_names(errors["logs"])
    for path, error in errors["logs"].items():
        table.add_row(escape(names[path]), _two_digits(error))
    console.print(table)
    if found.encoder_offsets:
        console.print(escape(_offsets(found.encoder_offsets)), highlight=False)
    for joint, error in errors["joints"].items():
        console.print(f"{escape(joint)}: {_two_digits(error)} mrad", highlight=False)
    console.print(f"{escape(str(actuators))}: {_two_digits(errors['mean'])} mrad", highlight=False)


def _two_digits(error: float | None) -> str:
    return "inf" if error is None else f"{error:.2f}"
