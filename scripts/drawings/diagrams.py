# SPDX-License-Identifier: Apache-2.0
"""Drawings without measurements: the chain, the timing of commands."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from .style import FILL, GRID, IDEAL, INK, LIMIT, OTHER, REAL, TARGET, canvas


def _box(axis: Any, x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
    shape = "round,pad=0,rounding_size=6"
    axis.add_patch(FancyBboxPatch((x, y), width, height, shape, facecolor="white", edgecolor=colour, linewidth=2))
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", weight="bold", fontsize=11)


def _arrow(axis: Any, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
    axis.annotate("", end, start, arrowprops=style)


def chain() -> Figure:
    """Signal flow of a motor model, from the command to the joint and back."""
    drawn, axis = canvas(262)
    top, high = 150, 44
    axis.add_patch(Rectangle((292, 84), 292, 148, facecolor=FILL, edgecolor="none"))
    for x in (292, 584):
        axis.plot([x, x], [84, 232], color=TARGET, linewidth=1.2, linestyle=(0, (4, 3)))
    axis.text(438, 217, "motor side", ha="center", va="center", color=TARGET, fontsize=11)
    axis.text(284, 217, "joint side", ha="right", va="center", color=TARGET, fontsize=11)
    axis.text(592, 217, "joint side", ha="left", va="center", color=TARGET, fontsize=11)
    boxes = (
        (88, 62, "delay", OTHER, "steps or seconds\njitter, loss"),
        (184, 88, "controller", REAL, "PD, PID\nnetwork\nservo firmware"),
        (304, 54, "gear", IDEAL, "effort ÷ ratio\nspeed × ratio"),
        (388, 60, "limits", LIMIT, "torque-speed\nvoltage, heat\nbattery"),
        (468, 32, "", OTHER, ""),
        (520, 52, "gear", IDEAL, "effort × ratio\nefficiency"),
        (606, 60, "joint", INK, "engine or\nyour solver"),
    )
    for x, width, name, colour, below in boxes:
        if name:
            _box(axis, x, top, width, high, name, colour)
            axis.text(x + width / 2, top - 7, below, ha="center", va="top", fontsize=8.5, color=INK, linespacing=1.25)
    _box(axis, 460, top, 48, high, "losses", OTHER)
    axis.text(484, top - 7, "friction\ncurrent lag\nripple", ha="center", va="top", fontsize=8.5, linespacing=1.25)
    middle = top + high / 2
    axis.text(12, middle, "command", va="center", fontsize=11, weight="bold")
    axis.text(12, middle - 16, "q*, q̇*, τ*", va="center", fontsize=10)
    for start, end in ((72, 88), (150, 184), (272, 304), (358, 388), (448, 460), (508, 520), (572, 606)):
        _arrow(axis, (start, middle), (end, middle))
    for x, text in ((288, "requested\neffort"), (454, "motor\neffort"), (589, "applied\neffort")):
        axis.plot([x, x], [middle, 238], color=INK, linewidth=0.8)
        axis.text(x, 250, text.replace("\n", " "), ha="center", va="center", fontsize=10, color=INK)
    _box(axis, 292, 22, 84, 40, "sensors", OTHER)
    axis.text(386, 42, "encoder steps, filter, delay, noise", va="center", fontsize=8.5)
    axis.plot([636, 636], [112, 12], color=INK, linewidth=1.6)
    axis.plot([636, 334], [12, 12], color=INK, linewidth=1.6)
    _arrow(axis, (334, 12), (334, 22))
    axis.plot([292, 228], [42, 42], color=INK, linewidth=1.6)
    _arrow(axis, (228, 42), (228, 106))
    axis.text(648, 60, "q, q̇", va="center", fontsize=10)
    return drawn


_COMMANDS = (REAL, IDEAL, OTHER, LIMIT, "#7a56a3", "#4aa3b8", "#a3832a", TARGET, REAL)


def timing() -> Figure:
    """Which command acts in which step, by delay, and how a decimated controller holds its effort."""
    left, cell, high, gap, steps = 190, 53, 26, 12, 9
    rows: tuple[tuple[str, str, list[int]], ...] = (
        ("command sent", "before the step", list(range(steps))),
        ("delay_steps = 0", "acts in the same step", list(range(steps))),
        ("delay_steps = 1", "one step later", [max(step - 1, 0) for step in range(steps)]),
        ("delay_steps = 2", "two steps later", [max(step - 2, 0) for step in range(steps)]),
        ("delay 5 ms, dt 4 ms", "rounded up to two steps", [max(step - 2, 0) for step in range(steps)]),
        ("control_every = 4", "effort held between", [4 * (step // 4) for step in range(steps)]),
    )
    height = 66 + len(rows) * (high + gap) + 44
    drawn, axis = canvas(height)
    top = height - 34
    axis.text(left - 12, top + 10, "step", ha="right", va="center", fontsize=10, color=TARGET)
    for step in range(steps):
        axis.text(left + cell * (step + 0.5), top + 10, str(step), ha="center", va="center", fontsize=10, color=TARGET)
    y = top - 10.0
    for index, (name, note, commands) in enumerate(rows):
        y -= high
        axis.text(left - 12, y + 18, name, ha="right", va="center", fontsize=10.5, weight="bold")
        axis.text(left - 12, y + 5, note, ha="right", va="center", fontsize=8.5, color=TARGET)
        for step, command in enumerate(commands):
            x = left + cell * step
            new = step == 0 or commands[step - 1] != command
            fill = {"facecolor": _COMMANDS[command], "alpha": 1.0 if new else 0.45, "edgecolor": "white"}
            axis.add_patch(Rectangle((x, y), cell, high, linewidth=1.5, **fill))
            text = f"u{command}" if index < len(rows) - 1 else f"τ(q{command})"
            colour = "white" if new else INK
            axis.text(x + cell / 2, y + high / 2, text, ha="center", va="center", color=colour, fontsize=10)
        y -= gap
        if index == 0:
            axis.plot([left, left + cell * steps], [y + gap / 2] * 2, color=GRID, linewidth=1)
    axis.plot([left, left], [y, top + 20], color=LIMIT, linewidth=1.5)
    axis.text(left + 4, y + 1, "reset: the first command passes at once, and holds until the next arrives",
              color=LIMIT, fontsize=9.5, va="center")
    axis.text(left + 4, y - 17, "In every step: read q, q̇ and command → motors → record → physics",
              fontsize=9.5, va="center", color=INK)
    return drawn
