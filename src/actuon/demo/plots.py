# SPDX-License-Identifier: Apache-2.0
"""Plots of a run: tracking, effort, torque-speed plane and height."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from actuon.actuator.trials import envelope, is_coupled, speed_range
from actuon.charts import pyplot, save_figure

from .run import Run


def save_all(runs: list[Run], folder: Path) -> list[Path]:
    """Save tracking, effort and the torque-speed plane of the first robot, and its height where it is free; returns the
    files.

    A run that diverged is drawn as far as the picture goes that the others give.
    """
    plt = pyplot()
    paths = []
    for name, draw in (("tracking", draw_tracking), ("effort", draw_effort), ("torque_speed", draw_torque_speed)):
        joints = runs[0].joints
        columns = 3 if len(joints) % 3 == 0 else min(4, len(joints))
        rows = -(-len(joints) // columns)
        figure, axes = plt.subplots(rows, columns, figsize=(max(8.0, 4.2 * columns), 2.4 * rows + 1.0), squeeze=False)
        for dof, axis in enumerate(axes.flat):
            if dof >= len(joints):
                axis.set_visible(False)
                continue
            draw(axis, runs, dof)
            axis.set_title(joints[dof].name, fontsize=9)
            axis.tick_params(labelsize=7)
            axis.grid(alpha=0.3)
        labels = {handle.get_label(): handle for axis in axes.flat for handle in axis.get_legend_handles_labels()[0]}
        figure.legend(labels.values(), labels.keys(), loc="upper center", ncols=len(labels), markerscale=5)
        _leave_room(figure, rows, columns)
        paths.append(folder / f"{name}.png")
        save_figure(figure, paths[-1])
    if not runs[0].is_fixed_base and all(len(run.heights) for run in runs):
        paths.append(folder / "height.png")
        figure, axis = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
        draw_height(axis, runs)
        save_figure(figure, paths[-1])
    return paths


def _leave_room(figure: Any, rows: int, columns: int) -> None:
    """Place panels for titles and labels as large as they are here: to measure them takes longer than to draw."""
    width, height = figure.get_size_inches()
    beside, below, above, legend = 0.7, 0.5, 0.25, 0.5  # inches
    panel_width = (width - 0.1) / columns - beside
    panel_height = (height - legend) / rows - below - above
    figure.subplots_adjust(
        left=beside / width,
        right=1.0 - 0.1 / width,
        bottom=below / height,
        top=1.0 - (legend + above) / height,
        wspace=beside / panel_width,
        hspace=(below + above) / panel_height,
    )


def draw_height(axis: Any, runs: list[Run]) -> None:
    """How high the root body of the first robot is over time, and what it is told to do."""
    for i, run in reversed(list(enumerate(runs))):
        label = f"{run.title}: {run.heights[:, 0].max():.3f} m at most"
        axis.plot(_times(run), run.heights[:, 0], color=f"C{i}", label=label)
    heights = np.concatenate([run.heights[:, 0] for run in runs if run.problem is None] or [runs[0].heights[:, 0]])
    low, high = float(heights.min()), float(heights.max())
    axis.set_ylim(low - 0.1 * (high - low) - 1e-3, high + 0.25 * (high - low) + 1e-3)
    _mark_phases(axis, runs, with_names=True)
    _label(axis, "time [s]", f"height of the {'trunk' if runs[0].phases else 'root body'} [m]")
    axis.legend(loc="lower right", fontsize=8)
    axis.grid(alpha=0.3)


def _times(run: Run) -> np.ndarray:
    """Of poses [s], shape (T,): they are read after each step, and of a step that diverged there is none."""
    return run.data["time"][: len(run.heights)]


def _mark_phases(axis: Any, runs: list[Run], with_names: bool = False) -> None:
    """Shade what the robot is told to do: every second phase in grey, a push in red."""
    phases = max((run.phases for run in runs), key=len)
    is_grey = True
    for phase in phases:
        is_grey = is_grey != (phase.force is None)
        if phase.force is not None:
            axis.axvspan(phase.start, phase.end, color="C3", alpha=0.3, linewidth=0, label=phase.name)
        elif is_grey:
            axis.axvspan(phase.start, phase.end, color="0.5", alpha=0.12, linewidth=0)
        if with_names or phase.force is None:
            place = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top"}
            axis.text(
                (phase.start + phase.end) / 2, 0.98, phase.name, fontsize=8 if with_names else 6, color="0.4", **place
            )


def _label(axis: Any, horizontal: str, vertical: str) -> None:
    axis.set_xlabel(horizontal, fontsize=8)
    axis.set_ylabel(vertical, fontsize=8)


def _series(run: Run, name: str, dof: int) -> np.ndarray:
    """Of the first robot, shape (T,)."""
    return run.data[name][:, 0, dof].astype(np.float64)


def _view(runs: list[Run], name: str, dof: int) -> tuple[float, float]:
    """What to show of a series: that of the runs that reached their end, or else the first half of the others."""
    whole = [_series(run, name, dof) for run in runs if run.problem is None]
    values = np.concatenate(whole or [_series(run, name, dof)[: len(run.data["time"]) // 2] for run in runs])
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    margin = max(0.1 * (high - low), 1e-3)
    return low - margin, high + margin


def draw_tracking(axis: Any, runs: list[Run], dof: int) -> None:
    """Draw the position of a joint over time, and its target."""
    joint = runs[0].joints[dof]
    longest = max(runs, key=lambda run: len(run.data["time"]))
    if joint.has_targets:
        axis.plot(longest.data["time"], _series(longest, "position_target", dof), color="0.6", label="target")
    for i, run in reversed(list(enumerate(runs))):
        axis.plot(run.data["time"], _series(run, "position", dof), color=f"C{i}", linewidth=1, label=run.title)
    if any(run.problem for run in runs):
        views = [_view(runs, "position", dof), _view([longest], "position_target", dof)]
        axis.set_ylim(min(low for low, _ in views), max(high for _, high in views))
    low, high = axis.get_ylim()
    _mark_phases(axis, runs)
    for stop in (joint.lower, joint.upper):
        if low <= stop <= high:
            axis.axhline(stop, color="0.3", linestyle=":", linewidth=1, label="stop")
    _label(axis, "time [s]", f"position [{joint.unit}]")


def draw_effort(axis: Any, runs: list[Run], dof: int) -> None:
    """Draw the effort at a joint over time."""
    for i, run in reversed(list(enumerate(runs))):
        axis.plot(run.data["time"], _series(run, "applied_effort", dof), color=f"C{i}", linewidth=1, label=run.title)
    if any(run.problem for run in runs):
        axis.set_ylim(*_view(runs, "applied_effort", dof))
    _mark_phases(axis, runs)
    _label(axis, "time [s]", f"effort [{runs[0].joints[dof].effort_unit}]")


def draw_torque_speed(axis: Any, runs: list[Run], dof: int) -> None:
    """Draw effort over speed of a joint, within the envelope of its motor."""
    joint = runs[0].joints[dof]
    (slowest, fastest), (low, high) = (_view(runs, name, dof) for name in ("velocity", "applied_effort"))
    config = runs[0].actuators.get(joint.name)
    if config is not None and config.clamping and not is_coupled(config):
        width = 1.1 * max(-slowest, fastest, 1.0, speed_range(config))
        can = envelope(config, np.linspace(-width, width, 301))
        if can.is_limited:
            axis.fill_between(can.velocity, can.least, can.most, color="0.9", label="what the motor can give")
            reach = max(1.3 * np.abs([can.least, can.most]).max(), -low, high, 1e-3)
            axis.set_ylim(-reach, reach)
            axis.set_xlim(-width, width)
    elif any(run.problem for run in runs):
        axis.set_xlim(slowest, fastest)
        axis.set_ylim(low, high)
    for i, run in reversed(list(enumerate(runs))):
        speeds, efforts = _series(run, "velocity", dof), _series(run, "applied_effort", dof)
        axis.plot(speeds, efforts, ".", color=f"C{i}", markersize=2, label=run.title)
    _label(axis, f"velocity [{joint.unit}/s]", f"effort [{joint.effort_unit}]")
