# SPDX-License-Identifier: Apache-2.0
"""Charts of runs: tracking, effort and torque-speed plane of each joint, and the height of the base."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actuon.actuator.trials import envelope, is_coupled, speed_range
from actuon.charts import (
    GREY,
    IDEAL,
    LIMIT,
    REAL,
    TARGET,
    Chart,
    Grid,
    Mark,
    Span,
    area,
    arranged,
    dots,
    line,
    palette,
    save_charts,
)

from .run import Run


def save_all(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Save tracking, effort and the torque-speed plane of the first robot, and its height if it is free; returns the
    files.

    A run that diverged is drawn within the limits of the others.
    """
    joints = runs[0].joints
    columns = 3 if len(joints) % 3 == 0 else min(4, len(joints))
    paths = []
    for name, chart in (("tracking", tracking), ("effort", effort), ("torque_speed", torque_speed)):
        charts = [chart(runs, dof) for dof in range(len(joints))]
        paths.append(save_charts(folder / f"{name}.png", Grid(arranged(charts, columns)), shared_legend=True))
    if not runs[0].is_fixed_base and all(len(run.heights) for run in runs):
        paths.append(save_charts(folder / "height.png", Grid([[height(runs)]]), panel=(8.0, 3.2)))
    return paths


def height(runs: Sequence[Run]) -> Chart:
    """Return how high the root body of the first robot is over time."""
    series = [
        line(f"{run.title}: {run.heights[:, 0].max():.3f} m at most", _times(run), run.heights[:, 0], colour, 1.5)
        for run, colour in _back_to_front(runs)
    ]
    heights = np.concatenate([run.heights[:, 0] for run in runs if run.problem is None] or [runs[0].heights[:, 0]])
    low, high = float(heights.min()), float(heights.max())
    ends = (low - 0.1 * (high - low) - 1e-3, high + 0.25 * (high - low) + 1e-3)
    label = f"height of the {'trunk' if runs[0].phases else 'root body'} [m]"
    return Chart("time [s]", label, series, spans=_spans(runs), y_range=ends)


def tracking(runs: Sequence[Run], dof: int) -> Chart:
    """Return the position of a joint over time, and its target."""
    joint = runs[0].joints[dof]
    longest = max(runs, key=lambda run: len(run.data["time"]))
    series = [line("target", longest.data["time"], _series(longest, "position_target", dof), TARGET, 1.5)]
    series = series if joint.has_targets else []
    series += [
        line(run.title, run.data["time"], _series(run, "position", dof), c, 1.0) for run, c in _back_to_front(runs)
    ]
    views = [_view(runs, "position", dof)]
    views += [_view([longest], "position_target", dof)] if joint.has_targets else []
    low, high = min(low for low, _ in views), max(high for _, high in views)
    stops = [Mark("y", stop, "joint limit", dashed=True) for stop in (joint.lower, joint.upper) if low <= stop <= high]
    ends = _with_room_for_names(runs, low, high)
    return Chart("time [s]", f"position [{joint.unit}]", series, joint.name, stops, _spans(runs), y_range=ends)


def effort(runs: Sequence[Run], dof: int) -> Chart:
    """Return the effort at a joint over time."""
    joint = runs[0].joints[dof]
    series = [
        line(run.title, run.data["time"], _series(run, "applied_effort", dof), colour, 1.0)
        for run, colour in _back_to_front(runs)
    ]
    ends = _with_room_for_names(runs, *_view(runs, "applied_effort", dof))
    return Chart("time [s]", f"effort [{joint.effort_unit}]", series, joint.name, (), _spans(runs), y_range=ends)


def torque_speed(runs: Sequence[Run], dof: int) -> Chart:
    """Return effort over speed of a joint, within the envelope of its motor."""
    joint = runs[0].joints[dof]
    (slowest, fastest), (low, high) = (_view(runs, name, dof) for name in ("velocity", "applied_effort"))
    config = runs[0].actuators.get(joint.name)
    series, across, up = [], None, None
    if config is not None and config.clamping and not is_coupled(config):
        width = 1.1 * max(-slowest, fastest, 1.0, speed_range(config))
        can = envelope(config, np.linspace(-width, width, 301))
        if can.is_limited:
            series.append(area("motor envelope", can.velocity, can.least, can.most, GREY))
            reach = max(1.3 * float(np.abs([can.least, can.most]).max()), -low, high, 1e-3)
            across, up = (-width, width), (-reach, reach)
    elif any(run.problem for run in runs):
        across, up = (slowest, fastest), (low, high)
    for run, colour in _back_to_front(runs):
        series.append(dots(run.title, _series(run, "velocity", dof), _series(run, "applied_effort", dof), colour))
    labels = f"velocity [{joint.unit}/s]", f"effort [{joint.effort_unit}]"
    return Chart(*labels, series, joint.name, x_range=across, y_range=up)


def _back_to_front(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    colours = [REAL, *palette(len(runs))[2:], IDEAL][: len(runs)]
    return list(zip(runs, colours, strict=True))[::-1]


def _times(run: Run) -> np.ndarray:
    """Return times of poses [s], shape (T,): they are read after each step, and of a step that diverged is none."""
    return run.data["time"][: len(run.heights)]


def _spans(runs: Sequence[Run]) -> list[Span]:
    """Return the phases of the motion: every second one shaded, a push in red."""
    spans, is_grey = [], True
    for phase in max((run.phases for run in runs), key=len):
        is_grey = is_grey != (phase.force is None)
        colour = LIMIT if phase.force is not None else GREY if is_grey else None
        spans.append(Span(phase.start, phase.end, phase.name, colour))
    return spans


def _with_room_for_names(runs: Sequence[Run], low: float, high: float) -> tuple[float, float]:
    """Return a range with room above the curves for the names of phases."""
    return low, high + (0.12 * (high - low) if any(run.phases for run in runs) else 0.0)


def _series(run: Run, name: str, dof: int) -> np.ndarray:
    """Return a series of the first robot, shape (T,)."""
    return run.data[name][:, 0, dof].astype(np.float64)


def _view(runs: Sequence[Run], name: str, dof: int) -> tuple[float, float]:
    """Return the range to show: that of the runs that reached their end, or else of the first half of the others."""
    whole = [_series(run, name, dof) for run in runs if run.problem is None]
    values = np.concatenate(whole or [_series(run, name, dof)[: len(run.data["time"]) // 2] for run in runs])
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    margin = max(0.1 * (high - low), 1e-3)
    return low - margin, high + margin
