# SPDX-License-Identifier: Apache-2.0
"""Pictures of ``docs/measured/accuracy.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actuon.charts import pyplot, save_figure
from actuon.fit import Log

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
