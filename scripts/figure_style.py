# SPDX-License-Identifier: Apache-2.0
"""Style of all pictures in the documentation: SVG on a light panel, the same bytes on every run."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from actuon.charts import GREEN, GREY, IDEAL, LIMIT, REAL, TARGET, pyplot

__all__ = ["FAINT", "GREEN", "GREY", "IDEAL", "INK", "LIMIT", "MUTED", "PANEL", "REAL", "TARGET", "VIOLET"]

WIDTH = 680
"""Of a picture on a page [px]."""
INK, MUTED, FAINT, PANEL = "#1f2933", "#52606d", "#dfe4ea", "#ffffff"
VIOLET = "#8a5fc4"
_POINTS = 0.75
"""Per pixel."""
_STYLE = {
    "svg.fonttype": "path",
    "figure.dpi": 72.0,
    "figure.facecolor": PANEL,
    "savefig.facecolor": PANEL,
    "axes.facecolor": PANEL,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "figure.titlesize": 11.0,
    "figure.titleweight": "bold",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
}

_DIGITS = re.compile(r"-?\d+\.\d{3,}")

Draw = Callable[[], Any]
"""Draws a picture: returns a figure of Matplotlib, or the text of an SVG."""


@contextmanager
def house_style(name: str = "actuon") -> Iterator[None]:
    """Draw in the house style.

    Args:
        name: Of the picture, from which identifiers in the file follow.
    """
    with pyplot().rc_context({**_STYLE, "svg.hashsalt": name}):
        yield


def write_pictures(pictures: Mapping[str, Draw], folder: Path) -> list[Path]:
    """Draw pictures into ``folder``, each as an SVG of its name; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in pictures.items():
        path = folder / f"{name}.svg"
        with house_style(name):
            figure = draw()
            text = figure if isinstance(figure, str) else _svg_of(figure)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _svg_of(figure: Any) -> str:
    """Return a figure as SVG, and close it."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    pyplot().close(figure)
    return _shortened(stream.getvalue())


def _shortened(text: str) -> str:
    """Return an SVG with hundredths of points in its paths, and without comments."""
    text = re.sub(r" *<!-- .*? -->\n", "", text)
    text = re.sub(r'(?<= d=")[^"]*|(?<= [xy]=")[^"]*', lambda path: _DIGITS.sub(_round, path[0]), text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _round(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def size_of(height: float) -> tuple[float, float]:
    """Return the size of a figure as wide as a page [in], from its height [px]."""
    return WIDTH * _POINTS / 72, height * _POINTS / 72


def in_points(pixels: float) -> str:
    """Return a length [px] as SVG has it in points."""
    return f"{pixels * _POINTS:g}pt"


def plot(title: str, height: int, rows: int = 1, columns: int = 1, **layout: Any) -> tuple[Any, Any]:
    """Return a figure of ``height`` [px] with its message above, and its axes, as ``subplots`` returns them."""
    figure, axes = pyplot().subplots(rows, columns, figsize=size_of(height), layout="constrained", **layout)
    figure.suptitle(title, x=0.012, ha="left")
    return figure, axes


def canvas(title: str, height: int) -> tuple[Any, Any]:
    """Return a figure of ``height`` [px], and axes in pixels from its top left corner."""
    figure = pyplot().figure(figsize=size_of(height))
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.set(xlim=(0, WIDTH), ylim=(height, 0))
    axis.set_axis_off()
    axis.text(12, 22, title, fontsize=11, fontweight="bold", va="center")
    return figure, axis


def write(
    axis: Any,
    place: tuple[float, float],
    text: str,
    colour: str = INK,
    ha: Literal["left", "center", "right"] = "left",
    va: Literal["top", "center", "bottom", "baseline"] = "center",
    **font: Any,
) -> None:
    """Write text at a place in the units of the axes, on a patch of the panel's colour."""
    box = {"facecolor": PANEL, "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
    axis.text(*place, text, color=colour, ha=ha, va=va, bbox=box, zorder=6, **{"fontsize": 8.5, **font})


def point_out(
    axis: Any,
    text: str,
    at: tuple[float, float],
    place: tuple[float, float],
    colour: str = INK,
    ha: Literal["left", "center", "right"] = "left",
    **font: Any,
) -> None:
    """Write text at a place, with a thin line from it to what it is about."""
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 2}
    box = {"facecolor": PANEL, "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
    axis.annotate(
        text, at, place, color=colour, ha=ha, va="center", arrowprops=line, bbox=box, **{"fontsize": 8.5, **font}
    )


def box(
    axis: Any,
    corner: tuple[float, float],
    size: tuple[float, float],
    name: str,
    text: str = "",
    colour: str = GREY,
) -> None:
    """Draw a box with a name, and smaller text below it, on a `canvas`."""
    patches = pyplot().matplotlib.patches
    (x, y), (width, height) = corner, size
    outline = {"linewidth": 1.4, "edgecolor": colour, "facecolor": PANEL, "zorder": 3}
    axis.add_patch(patches.FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=6", **outline))
    middle, lines = x + width / 2, text.count("\n") + 1 if text else 0
    top = y + height / 2 - 7 * lines
    axis.text(middle, top, name, ha="center", va="center", fontsize=9.5, fontweight="bold", zorder=4)
    if text:
        axis.text(middle, top + 11, text, ha="center", va="top", fontsize=8, color=MUTED, zorder=4, linespacing=1.25)


def arrow(axis: Any, *places: tuple[float, float], colour: str = INK, dashed: bool = False, width: float = 1.4) -> None:
    """Draw an arrow through places on a `canvas`, with a head at the last."""
    style = (0, (4, 2.5)) if dashed else "-"
    if len(places) > 2:
        x, y = zip(*places[:-1], strict=True)
        axis.plot(x, y, color=colour, linewidth=width, linestyle=style, zorder=2, solid_capstyle="butt")
    head = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", "color": colour, "linewidth": width}
    head |= {"shrinkA": 0, "shrinkB": 0, "linestyle": style}
    axis.annotate("", places[-1], places[-2], arrowprops=head, zorder=2)
