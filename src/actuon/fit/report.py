# SPDX-License-Identifier: Apache-2.0
"""Reports of fits in Markdown, and charts of fits and of motions to record."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..charts import (
    GREY,
    IDEAL,
    LIMIT,
    REAL,
    RED,
    TARGET,
    Chart,
    Grid,
    Mark,
    arranged,
    bars,
    dots,
    line,
    save_charts,
)
from ..files import replacing
from ..logs import Log
from .excite import Excitation, Limits
from .log_names import log_names
from .plants.plant import Plant
from .result import FitResult, named_offsets
from .select import Compared
from .units import at_joint, error_text, shown_means, shown_unit, to_shown

_COLUMNS = 3
_MOST_PANELS = 24
_POINTS = 6000
"""Maximum number of samples in a scatter plot."""
_BINS = 60
_TITLED = ("trajectory", "kp")
"""Settings in the title of a chart."""
_ERROR = "mean absolute error"
_LEFT = "model − log"
MILLI = 1e3


def write_report(result: FitResult, plant: Plant, folder: Path) -> Path:
    """Write ``report.md`` and its plots into a folder, which is created if needed; returns the file.

    Args:
        result: Result of the fit.
        plant: Plant of the fit, with the runs.
        folder: Folder to write to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    residuals = plant.residuals(result.trials(plant))
    pictures = []
    names = _file_names([joint.name for joint in result.joints])
    for j, (joint, name) in enumerate(zip(result.joints, names, strict=True)):
        own, unit = [run[0, :, j] for run in residuals], result.unit_of(joint.name)
        grids = {
            "motion": motion_grid(plant.runs, joint.name, own, unit),
            "residuals": residual_grid(plant.runs, joint.name, own, unit),
            "runs": Grid([[runs_chart(result, joint.name)]]),
        }
        for kind, grid in grids.items():
            path = save_charts(folder / f"{name}_{kind}.png", grid, panel=_panel(grid), shared_legend=kind == "motion")
            pictures.append((f"{joint.name}: {kind}", path.name))
    if result.compared:
        grid = Grid([[models_chart(result.compared)]])
        pictures.append(("models", save_charts(folder / "models.png", grid, panel=_panel(grid)).name))
    path = folder / "report.md"
    with replacing(path) as partial:
        partial.write_text("\n".join(_text(result, pictures)) + "\n", encoding="utf-8")
    return path


def _panel(grid: Grid) -> tuple[float, float]:
    """Return width and height of each chart [in], with room for the tick labels."""
    chart = grid.charts[0]
    return max(5.0, 1.4 * len(chart.x_ticks)), max(2.6, 0.6 + 0.16 * len(chart.y_ticks))


def _file_names(joints: Sequence[str]) -> list[str]:
    """Return a file name for each joint, numbered if two differ only in punctuation or case."""
    names: list[str] = []
    for joint in joints:
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in joint)
        candidates = itertools.chain([plain], (f"{plain}_{i}" for i in itertools.count(2)))
        taken = {name.casefold() for name in names}
        names.append(next(name for name in candidates if name.casefold() not in taken))
    return names


# Charts --------------------------------------------------------------------------------------------------------------


def motion_grid(runs: Sequence[Log], joint: str, residuals: Sequence[np.ndarray], unit: str = "rad") -> Grid:
    """Return a chart of each run with the log and the model, and one of their difference below it.

    Args:
        runs: Runs of the fit.
        joint: Name of the joint.
        residuals: Simulated − measured positions of each run, shape (T,).
        unit: Unit of positions.
    """
    names = log_names(run.path for run in runs)
    pairs = []
    for run, residual in list(zip(runs, residuals, strict=True))[:_MOST_PANELS]:
        settings = ", ".join(f"{name} {run.settings[name]}" for name in _TITLED if name in run.settings)
        pairs.append(motion_charts(run, joint, residual, f"{names[run.path]} {settings}".strip(), unit))
    above, below = (arranged(charts, min(_COLUMNS, len(pairs))) for charts in zip(*pairs, strict=True))
    return Grid([row for rows in zip(above, below, strict=True) for row in rows])


def motion_charts(run: Log, joint: str, residual: np.ndarray, title: str, unit: str = "rad") -> tuple[Chart, Chart]:
    """Return a chart of one run with the log and the model, and one of their difference. See `motion_grid`."""
    own = run.joint(joint)
    series = [] if own.command is None else [line("command", run.time, own.command, TARGET, 1.0)]
    series += [
        line("log", run.time, own.position, REAL),
        line("model", run.time, own.position + residual, IDEAL, 1.0),
    ]
    title = f"{title}: {MILLI * np.abs(residual).mean():.1f} m{unit}"
    left = line("", run.time, MILLI * residual, RED, 0.8)
    return (
        Chart("", f"position [{unit}]", series, title),
        Chart("time [s]", f"{_LEFT} [m{unit}]", [left], height=100),
    )


def residual_grid(runs: Sequence[Log], joint: str, residuals: Sequence[np.ndarray], unit: str = "rad") -> Grid:
    """Return charts of residuals over velocity and over position, and their histogram. See `motion_grid`."""
    positions = np.concatenate([run.joint(joint).position for run in runs])
    velocities = np.concatenate([np.gradient(run.joint(joint).position, run.time) for run in runs])
    left, label = MILLI * np.concatenate(residuals), f"{_LEFT} [m{unit}]"
    thin = slice(None, None, max(1, len(left) // _POINTS))
    counts, edges = np.histogram(left[np.isfinite(left)], bins=_BINS)
    spread = bars("", (edges[:-1] + edges[1:]) / 2, counts, RED, float(edges[1] - edges[0]))
    return Grid(
        [
            [
                Chart(f"velocity [{unit}/s]", label, [dots("", velocities[thin], left[thin], RED)]),
                Chart(f"position [{unit}]", label, [dots("", positions[thin], left[thin], RED)]),
                Chart(label, "samples", [spread]),
            ]
        ]
    )


def runs_chart(result: FitResult, joint: str) -> Chart:
    """Return a chart of the error in each log, in the order of the runs; windows of a log are averaged."""
    logs: dict[str, list[tuple[float, float]]] = {}
    for run in result.runs:
        if run.joint == joint:
            logs.setdefault(run.path, []).append((run.error, np.nan if run.held_out is None else run.held_out))
    fitted, held_out = MILLI * np.array([np.mean(own, axis=0) for own in logs.values()]).T
    at = np.arange(len(logs))[::-1]
    series = [dots("fitted", fitted, at, REAL, 9.0)]
    series += [dots("held out", held_out, at, IDEAL, 9.0)] if np.isfinite(held_out).any() else []
    largest = np.nanmax(np.where(np.isfinite([fitted, held_out]), [fitted, held_out], 0.0))
    return Chart(
        f"{_ERROR} [m{result.unit_of(joint)}]",
        "",
        series,
        x_range=(0.0, 1.1 * float(largest) or 1.0),
        y_range=(-0.7, len(logs) - 0.3),
        y_ticks=dict(zip(map(float, at), log_names(logs).values(), strict=True)),
    )


def models_chart(compared: Sequence[Compared]) -> Chart:
    """Return a chart of the errors of models in fitted and in held-out runs."""
    at, unit = np.arange(len(compared)), compared[0].unit
    series = [
        bars("fitted", at - 0.2, [to_shown(one.train, unit) for one in compared], REAL),
        bars("held out", at + 0.2, [to_shown(one.held_out, unit) for one in compared], IDEAL),
    ]
    ticks = {float(i): f"{one.name}\n{one.parameters} free" for i, one in enumerate(compared)}
    return Chart("", f"{_ERROR} [{shown_unit(unit)}]", series, x_ticks=ticks)


def draw_excitation(found: Excitation, limits: Limits, path: Path) -> Path:
    """Save `excitation_grid` as an image; returns its path."""
    return save_charts(path, excitation_grid(found, limits), panel=(6.5, 3.0), shared_legend=False)


def excitation_grid(found: Excitation, limits: Limits) -> Grid:
    """Return charts of a motion to record, and of the confidence intervals after it."""
    unit, effort_unit = found.unit, at_joint("N·m", "", found.unit)
    signals = (
        (f"position [{unit}]", found.position, (limits.low, limits.high)),
        (f"velocity [{unit}/s]", found.velocity, () if limits.speed is None else (-limits.speed, limits.speed)),
        (f"effort [{effort_unit}]", found.effort, () if limits.effort is None else (-limits.effort, limits.effort)),
    )
    position, velocity, effort = (
        Chart(
            "time [s]",
            label,
            [line("predicted", found.time, values, REAL, 1.0)],
            marks=[Mark("y", end, "limit", LIMIT, dashed=True) for end in ends],
        )
        for label, values, ends in signals
    )
    command = line("command", found.time, found.command, TARGET, 1.0)
    position = dataclasses.replace(position, series=[command, *position.series])
    widths = 100.0 * np.array([one.narrower for one in found.parameters])
    at = np.arange(len(widths))[::-1]
    intervals = Chart(
        "width of the interval afterwards [% of now]",
        "",
        [dots("", widths, at, IDEAL, 10.0)],
        marks=[Mark("x", 100.0, "", GREY)],
        x_range=(0.0, max(105.0, 1.05 * float(widths.max()))),
        y_range=(-0.7, len(at) - 0.3),
        y_ticks={float(y): one.path for y, one in zip(at, found.parameters, strict=True)},
    )
    return Grid([[position, intervals], [velocity, effort]])


# Markdown ------------------------------------------------------------------------------------------------------------


def _text(result: FitResult, pictures: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"# Fit of {', '.join(joint.name for joint in result.joints)}\n"
    sentences = {verdict.sentence(): verdict.is_useless for verdict in result.verdicts}
    for sentence, is_useless in sentences.items():
        yield f"**Warning: {sentence}.**\n" if is_useless else f"{sentence}.\n"
    for warning in result.warnings:
        if warning not in sentences:
            yield f"**Warning: {warning}.**\n"
    yield f"Mean absolute error of positions, closed loop: **{shown_means(result.errors)}** in the fitted runs."
    if result.held_out_errors:
        yield f"In held-out runs: **{shown_means(result.held_out_errors)}**."
    yield f"{result.evaluations} candidates in {result.seconds:.0f} s, seed {result.seed}.\n"
    if result.findings:
        yield "## Findings in the logs\n"
        yield from (f"- {finding}" for finding in result.findings)
        yield ""
    if result.compared:
        yield "## Models\n"
        yield from _model_table(result)
    yield "\n## Parameters\n"
    for joint in result.joints:
        at = ", ".join(f"{name} {value:g}" for name, value in joint.model.settings.items())
        yield f"### {joint.name}: {joint.model.name}{f', at {at}' if at else ''}\n"
        yield "| parameter | value | 95 % interval | unit | |"
        yield "|---|--:|--:|---|---|"
        for p in joint.parameters:
            unit = joint.unit_at(p.path, result.unit_of(joint.name))
            yield f"| `{p.path}` | {p.value:.4g} | {p.low:.4g} … {p.high:.4g} | {unit} | {p.note} |"
        yield ""
        for sentence in joint.undetermined:
            yield f"- {sentence}."
        yield ""
    if result.encoder_offsets:
        yield "## Encoder offsets\n"
        yield f"| log | {' | '.join(f'{j.name} [m{result.unit_of(j.name)}]' for j in result.joints)} |"
        yield f"|---|{'--:|' * len(result.joints)}"
        for log, own in named_offsets(result.encoder_offsets):
            yield f"| {log} | {' | '.join(f'{MILLI * own[joint.name]:.1f}' for joint in result.joints)} |"
        yield ""
    yield "## Runs\n"
    yield "| log | joint | fitted | held out |"
    yield "|---|---|--:|--:|"
    names = log_names(run.path for run in result.runs)
    for run in result.runs:
        unit = result.unit_of(run.joint)
        held_out = "" if run.held_out is None else error_text(run.held_out, unit, 1)
        yield f"| {names[run.path]} | {run.joint} | {error_text(run.error, unit, 1)} | {held_out} |"
    yield "\n## Plots\n"
    for title, name in pictures:
        yield f"![{title}]({name})\n"


def _model_table(result: FitResult) -> Iterator[str]:
    folds = list(result.compared[0].by_fold)
    yield f"| model | free | train | held out | {' | '.join(folds)} | |"
    yield f"|---|--:|--:|--:|{'--:|' * len(folds)}---|"
    for one in result.compared:
        cells = " | ".join(error_text(one.by_fold[name], one.unit, 1) for name in folds)
        errors = f"{error_text(one.train, one.unit, 1)} | {error_text(one.held_out, one.unit, 1)} | {cells}"
        yield f"| {one.name} | {one.parameters} | {errors} | {'chosen' if one.chosen else ''} |"
