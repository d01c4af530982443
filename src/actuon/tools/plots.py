# SPDX-License-Identifier: Apache-2.0
"""Pictures of what actuators did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from actuon.actuator import Actuator
from actuon.actuator_config import ActuatorConfig
from actuon.components.controllers.pd import PDControlConfig
from actuon.components.transmissions.coupled import CoupledTransmissionConfig
from actuon.errors import MissingExtraError

from .run import Run

FORMATS = (".png", ".svg", ".pdf")
"""Of pictures."""
_HUGE = 1e9


def pyplot() -> Any:
    """Matplotlib, without a screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "a plot") from error
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def envelope(actuator: ActuatorConfig, speeds: np.ndarray, position: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest effort [N·m] that the clamps allow at ``speeds`` [rad/s], from the clamps themselves.

    Args:
        actuator: Whose clamps, and transmission; its parts are configs.
        speeds: Shape (K,).
        position: Of the joint [rad], for clamps that depend on it.
    """
    limits = []
    for wish in (-_HUGE, _HUGE):
        motor = Actuator(
            range(len(speeds)),
            PDControlConfig(0.0, 0.0, wish),
            clamping=actuator.clamping,
            transmission=actuator.transmission,
        )
        zeros = np.zeros(len(speeds), np.float32)
        sim = {"joint_q": zeros + np.float32(position), "joint_qd": speeds.astype(np.float32), "joint_f": zeros.copy()}
        state = motor.state()
        motor.step(sim, sim | {"joint_target_q": zeros, "joint_target_qd": zeros}, state, state, dt=1e-3)
        limits.append(sim["joint_f"])
    return limits[0], limits[1]


def save_envelopes(drawn: list[tuple[str, ActuatorConfig, bool]], path: Path) -> None:
    """Save the torque-speed plane of actuators: what each can give, at any speed.

    Args:
        drawn: Title, actuator, and whether its joints slide, for each.
        path: The picture.
    """
    plt = pyplot()
    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.0 * rows), squeeze=False)
    for axis in axes.flat[len(drawn) :]:
        axis.set_visible(False)
    for axis, (title, actuator, slides) in zip(axes.flat, drawn, strict=False):
        width = 1.1 * max([1.0, *_speed_limits(actuator)])
        grid = np.linspace(-width, width, 301)
        if any(isinstance(part, CoupledTransmissionConfig) for part in actuator.stages):
            axis.text(
                0.5, 0.5, "coupled: what one can give\ndepends on the others", ha="center", transform=axis.transAxes
            )
        else:
            least, most = envelope(actuator, grid)
            if np.abs([least, most]).max() < 0.99 * _HUGE:
                axis.fill_between(grid, least, most, color="0.85")
            else:
                axis.text(0.5, 0.5, "no limit", ha="center", transform=axis.transAxes)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        _label(axis, f"velocity [{'m' if slides else 'rad'}/s]", f"effort [{'N' if slides else 'N·m'}]")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _speed_limits(actuator: ActuatorConfig) -> list[float]:
    """Speeds of the joint at which its clamps give nothing more."""
    ratio = abs(getattr(actuator.transmission, "ratio", 1.0))
    limits = [getattr(part, "velocity_limit", 0.0) / ratio for part in actuator.clamping]
    return [limit for limit in limits if np.isfinite(limit)]


def save_all(runs: list[Run], folder: Path) -> list[Path]:
    """Save tracking, effort and the torque-speed plane of the first robot; returns the files.

    A run that diverged is drawn as far as the picture goes that the others give.
    """
    plt = pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in (("tracking", _tracking), ("effort", _effort), ("torque_speed", _torque_speed)):
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
        figure.tight_layout(rect=(0.0, 0.0, 1.0, 1.0 - 0.5 / (2.4 * rows + 1.0)))
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=90)
        plt.close(figure)
    return paths


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


def _tracking(axis: Any, runs: list[Run], dof: int) -> None:
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
    for stop in (joint.lower, joint.upper):
        if low <= stop <= high:
            axis.axhline(stop, color="0.3", linestyle=":", linewidth=1, label="stop")
    _label(axis, "time [s]", f"position [{joint.unit}]")


def _effort(axis: Any, runs: list[Run], dof: int) -> None:
    for i, run in reversed(list(enumerate(runs))):
        axis.plot(run.data["time"], _series(run, "applied_effort", dof), color=f"C{i}", linewidth=1, label=run.title)
    if any(run.problem for run in runs):
        axis.set_ylim(*_view(runs, "applied_effort", dof))
    _label(axis, "time [s]", f"effort [{runs[0].joints[dof].effort_unit}]")


def _torque_speed(axis: Any, runs: list[Run], dof: int) -> None:
    joint = runs[0].joints[dof]
    (slowest, fastest), (low, high) = (_view(runs, name, dof) for name in ("velocity", "applied_effort"))
    config = runs[0].actuators.get(joint.name)
    if config is not None and config.clamping:
        width = 1.1 * max(-slowest, fastest, 1.0, *_speed_limits(config))
        grid = np.linspace(-width, width, 301)
        least, most = envelope(config, grid)
        if np.abs([least, most]).max() < _HUGE:
            axis.fill_between(grid, least, most, color="0.9", label="what the motor can give")
            reach = max(1.3 * np.abs([least, most]).max(), -low, high, 1e-3)
            axis.set_ylim(-reach, reach)
            axis.set_xlim(-width, width)
    elif any(run.problem for run in runs):
        axis.set_xlim(slowest, fastest)
        axis.set_ylim(low, high)
    for i, run in reversed(list(enumerate(runs))):
        speeds, efforts = _series(run, "velocity", dof), _series(run, "applied_effort", dof)
        axis.plot(speeds, efforts, ".", color=f"C{i}", markersize=2, label=run.title)
    _label(axis, f"velocity [{joint.unit}/s]", f"effort [{joint.effort_unit}]")
