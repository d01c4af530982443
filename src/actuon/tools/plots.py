# SPDX-License-Identifier: Apache-2.0
"""Pictures of what actuators did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from actuon.actuator import Actuator
from actuon.components.pd import ControllerPD
from actuon.errors import MissingExtraError
from actuon.spec.actuator_config import ActuatorConfig

from .run import Run

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
        actuator: Whose clamps; its parts are configs.
        speeds: Shape (K,).
        position: Of the joint [rad], for clamps that depend on it.
    """
    limits = []
    for wish in (-_HUGE, _HUGE):
        clamps = [part.build() for part in actuator.clamping]  # type: ignore[union-attr]
        motor = Actuator(range(len(speeds)), ControllerPD(0.0, 0.0, wish), clamping=clamps)
        zeros = np.zeros(len(speeds), np.float32)
        sim = {"joint_q": zeros + np.float32(position), "joint_qd": speeds.astype(np.float32), "joint_f": zeros.copy()}
        motor.step(sim, sim | {"joint_target_q": zeros, "joint_target_qd": zeros})
        limits.append(sim["joint_f"])
    return limits[0], limits[1]


def save_all(runs: list[Run], folder: Path) -> list[Path]:
    """Save tracking, effort and the torque-speed plane of the first robot; returns the files."""
    plt = pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in (("tracking", _tracking), ("effort", _effort), ("torque_speed", _torque_speed)):
        names = runs[0].dof_names
        columns = 3 if len(names) % 3 == 0 else min(4, len(names))
        rows = -(-len(names) // columns)
        figure, axes = plt.subplots(rows, columns, figsize=(max(8.0, 4.2 * columns), 2.4 * rows + 1.0), squeeze=False)
        for dof, axis in enumerate(axes.flat):
            if dof >= len(names):
                axis.set_visible(False)
                continue
            draw(axis, runs, dof)
            axis.set_title(names[dof], fontsize=9)
            axis.grid(alpha=0.3)
        units = {"tracking": ("time [s]", "position [rad, m]"), "effort": ("time [s]", "effort [N·m, N]")}
        horizontal, vertical = units.get(name, ("velocity [rad/s, m/s]", "effort [N·m, N]"))
        figure.supxlabel(horizontal)
        figure.supylabel(vertical)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=len(labels), markerscale=5)
        figure.tight_layout(rect=(0.01, 0.01, 1.0, 1.0 - 0.5 / (2.4 * rows + 1.0)))
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=90)
        plt.close(figure)
    return paths


def _tracking(axis: Any, runs: list[Run], dof: int) -> None:
    axis.plot(runs[0].data["time"], runs[0].data["position_target"][:, 0, dof], color="0.6", label="target")
    for i, run in reversed(list(enumerate(runs))):
        axis.plot(run.data["time"], run.data["position"][:, 0, dof], color=f"C{i}", linewidth=1, label=run.title)


def _effort(axis: Any, runs: list[Run], dof: int) -> None:
    for i, run in reversed(list(enumerate(runs))):
        axis.plot(run.data["time"], run.data["applied_effort"][:, 0, dof], color=f"C{i}", linewidth=1, label=run.title)


def _torque_speed(axis: Any, runs: list[Run], dof: int) -> None:
    speeds = np.concatenate([run.data["velocity"][:, 0, dof] for run in runs])
    efforts = np.concatenate([run.data["applied_effort"][:, 0, dof] for run in runs])
    config = runs[0].actuators.get(runs[0].dof_names[dof])
    if config is not None and config.clamping:
        limits = [getattr(part, "velocity_limit", 0.0) for part in config.clamping]
        width = 1.1 * max(np.abs(speeds).max(), *(limit for limit in (1.0, *limits) if np.isfinite(limit)))
        grid = np.linspace(-width, width, 301)
        low, high = envelope(config, grid)
        if np.abs([low, high]).max() < _HUGE:
            axis.fill_between(grid, low, high, color="0.9", label="what the motor can give")
            reach = 1.3 * max(np.abs([low, high]).max(), 1e-3)
            reach = max(reach, 1.05 * np.abs(efforts).max())
            axis.set_ylim(-reach, reach)
    for i, run in reversed(list(enumerate(runs))):
        data = run.data
        axis.plot(
            data["velocity"][:, 0, dof],
            data["applied_effort"][:, 0, dof],
            ".",
            color=f"C{i}",
            markersize=2,
            label=run.title,
        )
