# SPDX-License-Identifier: Apache-2.0
"""Pictures of ``docs/measured/accuracy.md`` that need the logs; ``make figures`` draws the others from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actuon.fit import Log
from scripts.figure_style import IDEAL, LIMIT, REAL, TARGET, plot, write_pictures

_POINTS = 300
"""Most points of a curve."""


def draw_motion(
    path: Path, joint: str, runs: Sequence[tuple[Log, np.ndarray]], title: str, start: float = 0.0, end: float = np.inf
) -> Path:
    """Draw logs, the predictions of a model that was not fitted to them, and the differences.

    Args:
        path: SVG to write.
        joint: Name of the joint.
        runs: Two logs per row, each with simulated less measured positions [rad], shape (T,).
        title: Message of the picture.
        start: First time to show [s].
        end: Last time to show [s].
    """

    def draw() -> Any:
        rows = len(runs) // 2
        figure, axes = plot(title, 60 + 250 * rows, 2 * rows, 2, height_ratios=(2.5, 1) * rows)
        for number, (run, residual) in enumerate(runs):
            row, column = divmod(number, 2)
            above, below = axes[2 * row : 2 * row + 2, column]
            shown = np.flatnonzero((run.time >= start) & (run.time <= end))
            shown = shown[:: 1 + len(shown) // _POINTS]
            own, time = run.joint(joint), run.time[shown]
            log, model = own.position[shown], (own.position + residual)[shown]
            if own.command is not None:
                above.plot(time, own.command[shown], color=TARGET, linewidth=1.0, label="command")
            above.plot(time, log, color=REAL, linewidth=2.4, label="log")
            above.plot(time, model, color=IDEAL, linewidth=1.2, label="model")
            below.plot(time, 1e3 * residual[shown], color=LIMIT, linewidth=1.0)
            reach = np.array([min(log.min(), model.min()), max(log.max(), model.max())])
            above.set(title=f"{_name(run)}: {1e3 * np.abs(residual).mean():.1f} mrad")
            above.set(xlim=(time[0], time[-1]), ylim=reach + 0.12 * np.ptp(reach) * np.array([-1.0, 1.0]))
            below.set(xlim=(time[0], time[-1]), xlabel="time [s]")
            above.tick_params(labelbottom=False)
            if column == 0:
                above.set_ylabel("position [rad]")
                below.set_ylabel("model − log\n[mrad]")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure

    (written,) = write_pictures({path.stem: draw}, path.parent)
    return written


def _name(run: Log) -> str:
    return str(run.settings.get("trajectory", Path(run.path).name.split(".")[0]))
