# SPDX-License-Identifier: Apache-2.0
"""House style of the drawings: colours with one meaning each, fonts, axes, and SVG files that do not change by themselves."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

WIDTH = 680
"""Of a drawing [px]."""

REAL, IDEAL, TARGET, LIMIT, OTHER = "#2a6db0", "#dd7f12", "#868c96", "#c5303f", "#2f8468"
"""Real motors and Actuon; ideal motors and peers; targets and references; limits; a third series."""
INK, GRID, FILL = "#20242b", "#e3e6eb", "#f1f3f6"

_STYLE = {
    "figure.facecolor": "white",
    "font.family": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 11.0,
    "text.color": INK,
    "axes.edgecolor": TARGET,
    "axes.labelcolor": INK,
    "axes.labelsize": 11.0,
    "axes.titlesize": 12.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 1.0,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "legend.frameon": False,
    "legend.fontsize": 10.0,
    "lines.linewidth": 2.0,
    "hatch.linewidth": 1.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "actuon",
    "path.simplify": False,
}


def in_style() -> Any:
    """Return a context in which Matplotlib draws in the house style, whatever the user's own settings are."""
    return rc_context(_STYLE)


def figure(height: float, rows: int = 1, columns: int = 1, **layout: Any) -> tuple[Figure, Any]:
    """Make a figure of the house width, in pixels, and its axes."""
    made = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained")
    made.get_layout_engine().set(w_pad=8 / 72, h_pad=8 / 72)  # type: ignore[union-attr]
    return made, made.subplots(rows, columns, **layout)


def canvas(height: float) -> tuple[Figure, Any]:
    """Make a figure with one empty axis whose units are pixels, y up from the bottom."""
    made = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    axis = made.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.set(xlim=(0, WIDTH), ylim=(0, height))
    axis.set_axis_off()
    return made, axis


def label_line(axis: Any, x: float, y: float, text: str, colour: str, offset: tuple[float, float] = (6, 0)) -> None:
    """Write the name of a curve beside its end."""
    side = "left" if offset[0] >= 0 else "right"
    axis.annotate(text, (x, y), offset, textcoords="offset points", color=colour, va="center", ha=side, fontsize=10)


def plain_log(axis: Any, which: str, ticks: Sequence[float]) -> None:
    """Make an axis logarithmic, with ticks as people write numbers."""
    getattr(axis, f"set_{which}scale")("log")
    texts = [f"{tick:,.0f}".replace(",", "\u2009") if tick >= 1000 else f"{tick:g}" for tick in ticks]
    getattr(axis, f"set_{which}ticks")(ticks, texts)
    getattr(axis, f"{which}axis").set_minor_formatter("")


def svg(drawn: Figure) -> str:
    """Return a figure as SVG: pixels, two decimals, names in order of appearance, no date and no version."""
    stream = io.StringIO()
    drawn.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = re.sub(r"<\?xml.*?\?>\s*<!DOCTYPE.*?>\s*", "", stream.getvalue(), flags=re.DOTALL)
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', text)
    text = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), text)
    text = re.sub(r"(?<![\w.])-0(?![\w.])", "0", text)
    names = dict.fromkeys(re.findall(r'(?:<clipPath|<path|<pattern) id="(\w+)"', text))
    for number, name in enumerate(names):
        text = re.sub(rf'(?<=[#"]){name}(?=[")])', f"d{number}", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    return re.sub(r"[ \t]+\n", "\n", text)
