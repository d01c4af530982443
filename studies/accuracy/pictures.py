# SPDX-License-Identifier: Apache-2.0
"""Pictures of ``docs/measured/accuracy.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actuon.charts import Grid, arranged, save_charts
from actuon.fit import Log
from actuon.fit.report import motion_chart


def draw_motion(path: Path, joint: str, runs: Sequence[tuple[Log, np.ndarray]], title: str) -> Path:
    """Draw logs, and the predictions of a model that was not fitted to them.

    Args:
        path: Of the picture.
        joint: Name of the joint.
        runs: Logs, each with simulated less measured positions [rad], shape (T,).
        title: Name of the model.
    """
    charts = [motion_chart(run, joint, residual, _name(run)) for run, residual in runs]
    return save_charts(path, Grid(arranged(charts, min(len(charts), 2)), title), panel=(5.0, 2.4))


def _name(run: Log) -> str:
    return str(run.settings.get("trajectory", Path(run.path).name.split(".")[0]))
