# SPDX-License-Identifier: Apache-2.0
"""The picture of ``actuon fit excite``."""

from __future__ import annotations

from pathlib import Path

from actuon.charts import pyplot, save_figure
from actuon.fit.excitation import Excitation, Limits


def draw(found: Excitation, limits: Limits, path: Path) -> None:
    """Draw the motion, and how wide the intervals stay."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(13.0, 6.5), width_ratios=(2.2, 1.0))
    panels = (
        (axes[0, 0], "position [rad]", found.position, (limits.low, limits.high)),
        (
            axes[1, 0],
            "velocity [rad/s]",
            found.velocity,
            None if limits.speed is None else (-limits.speed, limits.speed),
        ),
        (axes[1, 1], "effort [N·m]", found.effort, None if limits.effort is None else (-limits.effort, limits.effort)),
    )
    axes[0, 0].plot(found.time, found.command, color="0.7", linewidth=1, label="command")
    for axis, label, values, ends in panels:
        axis.plot(found.time, values, color="C0", linewidth=1, label="predicted")
        for end in ends or ():
            axis.axhline(end, color="C3", linestyle="--", linewidth=0.8, label="limit")
        axis.set_xlabel("time [s]", fontsize=8)
        axis.set_ylabel(label, fontsize=8)
        axis.grid(alpha=0.3)
    bars = axes[0, 1]
    names = [one.path for one in found.parameters][::-1]
    bars.barh(names, [100.0 * one.narrower for one in found.parameters][::-1], color="C1")
    bars.axvline(100.0, color="0.5", linewidth=0.8)
    bars.set_xlabel("width of the interval then [% of now]", fontsize=8)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    handles = {handle.get_label(): handle for axis in axes.flat for handle in axis.get_legend_handles_labels()[0]}
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=len(handles), fontsize=8)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.95))
    save_figure(figure, path)
