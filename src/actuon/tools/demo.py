# SPDX-License-Identifier: Apache-2.0
"""A joint swings between two angles, driven by an ideal motor and by one that is late and limited.

The four variants are four DOFs of one actuator: a limit of infinity and a lag of zero are values, not another kernel.
Run with ``make demo``; prints a table and saves a plot.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import actuon
from actuon.errors import MissingExtraError

VARIANTS = ("ideal PD", "late", "limited", "late and limited")
DT = 0.002
SECONDS = 3.0
INERTIA = 0.12
"""Of the swinging link about the joint [kg·m²]."""
GRAVITY_EFFORT = 6.0
"""Needed to hold the link out horizontally [N·m]."""
KP, KD = 150.0, 4.0
LAG = 15
"""Steps of 2 ms: 30 ms from policy to motor."""
STALL, NO_LOAD, MOTOR_LIMIT = 33.5, 21.0, 28.0
"""Peak torque [N·m] and no-load speed [rad/s] of a Unitree A1 leg motor, as its maker gives them; the continuous limit
is set lower here so that both kinds of limit show."""


def simulate() -> dict[str, np.ndarray]:
    """Step the joints and their actuator; returns time series of shape (T,) or (T, 4)."""
    n = len(VARIANTS)
    clamp = actuon.ClampingDCMotor(
        saturation_effort=[math.inf, math.inf, STALL, STALL],
        velocity_limit=[math.inf, math.inf, NO_LOAD, NO_LOAD],
        max_motor_effort=[math.inf, math.inf, MOTOR_LIMIT, MOTOR_LIMIT],
    )
    actuator = actuon.Actuator(
        range(n),
        actuon.ControllerPD(KP, KD),
        delay=actuon.Delay([0, LAG, 0, LAG], max_delay=LAG),
        clamping=[clamp],
        control_computed_output_attr="wanted",
    )
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f", "wanted")
    sim = {name: np.zeros(n, np.float32) for name in names}
    state = actuator.state()
    log: dict[str, list[Any]] = {name: [] for name in ("time", "target", "q", "qd", "effort", "wanted")}
    for step in range(round(SECONDS / DT)):
        time = step * DT
        target = 1.4 if int(time / 0.75) % 2 == 0 else -0.4
        sim["joint_target_q"][:] = target
        sim["joint_f"][:] = 0.0
        sim["wanted"][:] = 0.0
        actuator.step(sim, sim, state, state, dt=DT)
        row = (time, target, *(sim[name].copy() for name in ("joint_q", "joint_qd", "joint_f", "wanted")))
        for series, value in zip(log.values(), row, strict=True):
            series.append(value)
        load = sim["joint_f"] - GRAVITY_EFFORT * np.sin(sim["joint_q"])
        sim["joint_qd"] += DT * load / INERTIA
        sim["joint_q"] += DT * sim["joint_qd"]
    return {name: np.array(series) for name, series in log.items()}


def print_table(log: dict[str, np.ndarray]) -> None:
    error = np.sqrt(np.mean((log["q"] - log["target"][:, None]) ** 2, axis=0))
    overshoot = np.maximum(log["q"].max(axis=0) - log["target"].max(), 0.0)
    clipped = np.mean(np.abs(log["effort"] - log["wanted"]) > 1e-4, axis=0)
    header = ("motor", "error [rad]", "overshoot [rad]", "peak [N·m]", "peak [rad/s]", "at a limit")
    print("  ".join(f"{title:>16}" for title in header))
    for i, name in enumerate(VARIANTS):
        cells = (
            f"{error[i]:.3f}",
            f"{overshoot[i]:.3f}",
            f"{np.abs(log['effort'][:, i]).max():.1f}",
            f"{np.abs(log['qd'][:, i]).max():.1f}",
            f"{100 * clipped[i]:.0f} %",
        )
        print("  ".join(f"{cell:>16}" for cell in (name, *cells)))


def save_plot(log: dict[str, np.ndarray], path: Path) -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "the demo's plot") from error
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (tracking, effort, plane) = plt.subplots(1, 3, figsize=(15, 4.2), constrained_layout=True)
    tracking.step(log["time"], log["target"], color="0.6", where="post", label="target")
    for i, name in enumerate(VARIANTS):
        tracking.plot(log["time"], log["q"][:, i], color=f"C{i}", label=name)
        effort.plot(log["time"], log["effort"][:, i], color=f"C{i}")
    tracking.set(title="Tracking", xlabel="time [s]", ylabel="position [rad]")
    effort.set(title="Effort (ideal PD goes beyond)", xlabel="time [s]", ylabel="effort [N·m]", ylim=(-80, 80))
    speed = np.linspace(-1.6 * NO_LOAD, 1.6 * NO_LOAD, 400)
    high = np.clip(STALL * (1 - speed / NO_LOAD), -MOTOR_LIMIT, MOTOR_LIMIT)
    low = np.clip(STALL * (-1 - speed / NO_LOAD), -MOTOR_LIMIT, MOTOR_LIMIT)
    plane.fill_between(speed, low, high, color="0.92", label="motor's envelope")
    for i in (0, 2, 3):
        plane.plot(log["qd"][:, i], log["effort"][:, i], ".", color=f"C{i}", markersize=3, label=VARIANTS[i])
    plane.set(title="Torque-speed plane", xlabel="velocity [rad/s]", ylabel="effort [N·m]", ylim=(-80, 80))
    for axes in (tracking, effort, plane):
        axes.grid(alpha=0.3)
    handles, labels = tracking.get_legend_handles_labels()
    envelope, envelope_label = plane.get_legend_handles_labels()
    figure.legend([*handles, envelope[0]], [*labels, envelope_label[0]], loc="outside lower center", ncols=6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("out/demo.png"), help="where to save the plot")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    print("compiling the kernel on first use, then simulating 3 s of a swinging joint …", flush=True)
    log = simulate()
    print_table(log)
    save_plot(log, options.output)
    print("The delay holds back commands, not the joint's own state: it shifts the motion, and the error with it.")
    print(f"plot saved to {options.output}")


if __name__ == "__main__":
    main()
