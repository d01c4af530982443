# SPDX-License-Identifier: Apache-2.0
"""The report of a fit: Markdown, with pictures of logs against the model and of what is left over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actuon.charts import pyplot, save_figure
from actuon.files import replacing
from actuon.fit import FitResult, Plant
from actuon.fit.log_names import log_names
from actuon.fit.model import place_of
from actuon.logs import Log

MILLI = 1e3
_COLUMNS = 3
_MOST_PANELS = 24
_POINTS = 1500


def write_report(result: FitResult, plant: Plant, folder: Path) -> Path:
    """Write ``report.md`` and its pictures into a folder; returns the file.

    Args:
        result: Of the fit.
        plant: What was fitted, with the runs.
        folder: Where to; it is made where it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    residuals = plant.residuals(result.trials(plant))
    pictures = []
    names = _file_names([joint.name for joint in result.joints])
    for j, (joint, name) in enumerate(zip(result.joints, names, strict=True)):
        own = [run[0, :, j] for run in residuals]
        for kind, draw in (("motion", _motion), ("residuals", _residuals)):
            path = folder / f"{name}_{kind}.png"
            draw(path, plant.runs, joint.name, own, result)
            pictures.append((f"{joint.name}: {kind}", path.name))
    if result.compared:
        _comparison(folder / "models.png", result)
        pictures.append(("models", "models.png"))
    path = folder / "report.md"
    with replacing(path) as partial:
        partial.write_text("\n".join(_text(result, pictures)) + "\n", encoding="utf-8")
    return path


def _file_names(joints: Sequence[str]) -> list[str]:
    """Return a file name for each joint, with a number where two are the same but for punctuation or case."""
    names: list[str] = []
    for joint in joints:
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in joint)
        candidates = itertools.chain([plain], (f"{plain}_{i}" for i in itertools.count(2)))
        taken = {name.casefold() for name in names}
        names.append(next(name for name in candidates if name.casefold() not in taken))
    return names


def _text(result: FitResult, pictures: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"# Fit of {', '.join(joint.name for joint in result.joints)}\n"
    for warning in result.warnings:
        yield f"**Warning: {warning}.**\n"
    yield f"Mean absolute error of positions, closed loop: **{MILLI * result.error:.2f} mrad** in the runs fitted to."
    if result.held_out is not None:
        yield f"In runs that the model was not fitted to: **{MILLI * result.held_out:.2f} mrad**."
    for verdict in result.verdicts:
        if not verdict.is_useless:  # which is a warning
            yield f"{verdict.sentence()}."
    yield f"{result.evaluations} candidates in {result.seconds:.0f} s, seed {result.seed}.\n"
    if result.findings:
        yield "## Found in the logs\n"
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
            unit = place_of(joint.model.actuator, p.path).declared.unit
            yield f"| `{p.path}` | {p.value:.4g} | {p.low:.4g} … {p.high:.4g} | {unit} | {p.note} |"
        yield ""
        for sentence in joint.undetermined:
            yield f"- {sentence}."
        yield ""
    yield "## Runs\n"
    yield "| log | joint | fitted [mrad] | held out [mrad] |"
    yield "|---|---|--:|--:|"
    names = log_names(run.path for run in result.runs)
    for run in result.runs:
        held_out = "" if run.held_out is None else f"{MILLI * run.held_out:.1f}"
        yield f"| {names[run.path]} | {run.joint} | {MILLI * run.error:.1f} | {held_out} |"
    yield "\n## Pictures\n"
    for title, name in pictures:
        yield f"![{title}]({name})\n"


def _model_table(result: FitResult) -> Iterator[str]:
    groups = list(result.compared[0].by_group)
    yield f"| model | free | train | held out | {' | '.join(groups)} | |"
    yield f"|---|--:|--:|--:|{'--:|' * len(groups)}---|"
    for one in result.compared:
        cells = " | ".join(f"{MILLI * one.by_group[name]:.1f}" for name in groups)
        errors = f"{MILLI * one.train:.1f} | {MILLI * one.held_out:.1f} | {cells}"
        yield f"| {one.name} | {one.parameters} | {errors} | {'chosen' if one.chosen else ''} |"


def _motion(path: Path, runs: Sequence[Log], joint: str, residuals: Sequence[np.ndarray], result: FitResult) -> None:
    """Log against model, and what is left over, run by run."""
    plt = pyplot()
    shown = list(zip(runs, residuals, strict=True))[:_MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.0 * columns, 2.8 * rows + 0.6), squeeze=False)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    names = log_names(run.path for run in runs)
    for axis, (run, residual) in zip(axes.flat, shown, strict=False):
        own = run.joint(joint)
        if own.command is not None:
            axis.plot(run.time, own.command, color="0.75", linewidth=1, label="command")
        axis.plot(run.time, own.position, color="C0", linewidth=1.2, label="log")
        axis.plot(run.time, own.position + residual, color="C1", linewidth=1, label="model")
        axis.plot(run.time, residual, color="C3", linewidth=0.8, label="model less log")
        says = ", ".join(f"{k} {v}" for k, v in run.settings.items() if k in ("trajectory", "kp"))
        title = f"{names[run.path]} {says}: {MILLI * np.abs(residual).mean():.1f} mrad"
        axis.set_title(title, fontsize=8)
        _label(axis, "time [s]", "position [rad]")
    _finish(figure, axes, path)


def _residuals(path: Path, runs: Sequence[Log], joint: str, residuals: Sequence[np.ndarray], result: FitResult) -> None:
    """What is left over, over speed, over position, and how it is spread; and the error of each run."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.0), squeeze=False)
    speeds, positions = [], []
    for run in runs:
        own = run.joint(joint)
        positions.append(own.position)
        speeds.append(np.gradient(own.position, run.time))
    left = MILLI * np.concatenate(residuals)
    thin = max(1, len(left) // (_POINTS * 4))
    axes[0, 0].plot(np.concatenate(speeds)[::thin], left[::thin], ".", markersize=2, color="C3")
    _label(axes[0, 0], "velocity [rad/s]", "model less log [mrad]")
    axes[0, 1].plot(np.concatenate(positions)[::thin], left[::thin], ".", markersize=2, color="C3")
    _label(axes[0, 1], "position, which sets the load [rad]", "model less log [mrad]")
    axes[1, 0].hist(left, bins=60, color="C3")
    _label(axes[1, 0], "model less log [mrad]", "samples")
    own_runs = [run for run in result.runs if run.joint == joint]
    at = np.arange(len(own_runs))
    axes[1, 1].bar(at - 0.2, [MILLI * run.error for run in own_runs], 0.4, color="C0", label="fitted")
    held_out = [np.nan if run.held_out is None else MILLI * run.held_out for run in own_runs]
    if np.isfinite(held_out).any():
        axes[1, 1].bar(at + 0.2, held_out, 0.4, color="C1", label="held out")
    _label(axes[1, 1], "run", "mean absolute error [mrad]")
    _finish(figure, axes, path)


def _comparison(path: Path, result: FitResult) -> None:
    """Errors of all models, in the runs fitted to and in the others."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 1, figsize=(1.6 * len(result.compared) + 2.0, 3.6), squeeze=False)
    at = np.arange(len(result.compared))
    axes[0, 0].bar(at - 0.2, [MILLI * one.train for one in result.compared], 0.4, color="C0", label="fitted")
    axes[0, 0].bar(at + 0.2, [MILLI * one.held_out for one in result.compared], 0.4, color="C1", label="held out")
    axes[0, 0].set_xticks(at, [f"{one.name}\n{one.parameters} free" for one in result.compared])
    _label(axes[0, 0], "", "mean absolute error [mrad]")
    _finish(figure, axes, path)


def _label(axis: Any, horizontal: str, vertical: str) -> None:
    axis.set_xlabel(horizontal, fontsize=8)
    axis.set_ylabel(vertical, fontsize=8)


def _finish(figure: Any, axes: Any, path: Path) -> None:
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    labels = {handle.get_label(): handle for axis in axes.flat for handle in axis.get_legend_handles_labels()[0]}
    if labels:
        figure.legend(labels.values(), labels.keys(), loc="upper center", ncols=len(labels), fontsize=8)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 1.0 - 0.35 / figure.get_figheight()))
    save_figure(figure, path)
