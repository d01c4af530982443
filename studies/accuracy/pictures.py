# SPDX-License-Identifier: Apache-2.0
"""Pictures of ``docs/measured/accuracy.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from actuon.charts import pyplot, save_figure
from actuon.fit import Log
from actuon.fit.select import Compared

MILLI = 1e3


def draw_motion(path: Path, joint: str, runs: Sequence[tuple[Log, np.ndarray]], title: str) -> Path:
    """Logs against what a model predicts, which was not fitted to them.

    Args:
        path: Of the picture.
        joint: Name of the joint.
        runs: Logs, each with simulated less measured positions [rad], shape (T,).
        title: What the model is.
    """
    plt = pyplot()
    columns = min(len(runs), 2)
    rows = -(-len(runs) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.0 * columns, 2.4 * rows + 0.8), squeeze=False)
    for axis in axes.flat[len(runs) :]:
        axis.set_visible(False)
    for axis, (run, residual) in zip(axes.flat, runs, strict=False):
        own = run.joint(joint)
        if own.command is not None:
            axis.plot(run.time, own.command, color="0.75", linewidth=1, label="command")
        axis.plot(run.time, own.position, color="C0", linewidth=1.2, label="log")
        axis.plot(run.time, own.position + residual, color="C1", linewidth=1, label="model")
        name = run.settings.get("trajectory", Path(run.path).name.split(".")[0])
        axis.set_title(f"{name}: {MILLI * np.abs(residual).mean():.1f} mrad", fontsize=8)
        axis.set_xlabel("time [s]", fontsize=8)
        axis.set_ylabel("position [rad]", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    labels = {handle.get_label(): handle for handle in axes[0, 0].get_legend_handles_labels()[0]}
    figure.suptitle(title, fontsize=9)
    figure.legend(labels.values(), labels.keys(), loc="lower center", ncols=len(labels), fontsize=8)
    figure.tight_layout(rect=(0.0, 0.3 / figure.get_figheight(), 1.0, 1.0))
    save_figure(figure, path)
    return path


def draw_models(path: Path, compared: Sequence[Compared]) -> Path:
    """Errors of all models, in the runs fitted to and in the others."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(1.3 * len(compared) + 2.0, 3.2))
    at = np.arange(len(compared))
    axis.bar(at - 0.2, [MILLI * one.train for one in compared], 0.4, color="C0", label="fitted")
    axis.bar(at + 0.2, [MILLI * one.held_out for one in compared], 0.4, color="C1", label="held out")
    axis.set_xticks(at, [f"{one.name}\n{one.parameters} free" for one in compared], fontsize=8)
    axis.set_ylabel("mean absolute error [mrad]", fontsize=8)
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
    return path


def draw_found(path: Path, found: Mapping[str, Sequence[tuple[float, float, float, float]]], title: str) -> Path:
    """How far what was found is off, with intervals, over what is true.

    Args:
        path: Of the picture.
        found: By parameter: the truth, what was found, and the ends of its interval.
        title: Of the picture.
    """
    plt = pyplot()
    columns = 4
    rows = -(-len(found) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.9 * columns, 2.6 * rows), squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis, (name, cases) in zip(axes.flat, found.items(), strict=False):
        true, value, low, high = np.array(cases).T
        inside = (low <= true) & (true <= high)
        for which, color in ((inside, "C0"), (~inside, "C3")):
            ends = np.clip([value - low, high - value], 0.0, None)[:, which]
            axis.errorbar(true[which], (value - true)[which], ends, fmt=".", color=color, linewidth=1, markersize=4)
        axis.axhline(0.0, color="0.7", linewidth=0.8)
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    figure.supxlabel("true value", fontsize=8)
    figure.supylabel("found less true value, with the interval", fontsize=8)
    figure.suptitle(title.replace("`", ""), fontsize=9)
    figure.tight_layout()
    save_figure(figure, path)
    return path
