# SPDX-License-Identifier: Apache-2.0
"""Style of all pictures in the documentation: SVG on a light panel, the same bytes on every run."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

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

_FREE, _OF_DOT = "_free", "_of_dot"
"""Labels of texts that `place_labels` may move."""
_DIRECTIONS = [(round(np.cos(angle), 9), round(np.sin(angle), 9)) for angle in np.arange(16) * np.pi / 8]
_PER_POINT, _TOO_MUCH, _CROWD = 0.05, 5.0, 60.0
"""Cost of moving a label by a point, cost from which on its place is not free, reach of a crowd [points]."""
_NEAR = [(0.0, 0.0), *((x * far, y * far) for far in range(3, 61, 3) for x, y in _DIRECTIONS)]
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
    place_labels(figure)
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
    """Write text near a place in the units of the axes: `place_labels` moves it off curves and other text."""
    axis.text(*place, text, color=colour, ha=ha, va=va, zorder=6, label=_FREE, **{"fontsize": 8.5, **font})


def point_out(
    axis: Any,
    text: str,
    at: tuple[float, float],
    place: tuple[float, float],
    colour: str = INK,
    ha: Literal["left", "center", "right"] = "left",
    **font: Any,
) -> None:
    """Write text near a place, like `write`, with a thin line from it to what it is about."""
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 2}
    font = {"fontsize": 8.5, "va": "center", "zorder": 6, **font}
    axis.annotate(text, at, place, color=colour, ha=ha, arrowprops=line, label=_FREE, **font)


def name_dot(axis: Any, at: tuple[float, float], text: str, colour: str = INK, **font: Any) -> None:
    """Write the name of a dot beside it: `place_labels` finds the side, with a thin line to the dot if it is far."""
    font = {"fontsize": 8.5, "va": "center", "ha": "center", "zorder": 6, **font}
    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}
    axis.annotate(text, at, at, color=colour, arrowprops=line, label=_OF_DOT, **font)


def place_labels(figure: Any) -> None:
    """Move the texts of `write`, `point_out` and `name_dot` off curves, dots and other text, as little as possible.

    Warns of a text for which nothing is free.
    """
    texts = [text for text in figure.findobj(_text_class()) if text.get_visible() and text.get_text()]
    labels = [text for text in texts if text.get_label() in (_FREE, _OF_DOT)]
    if not labels:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    middles = [_edges(label).reshape(2, 2).mean(axis=0) for label in labels]
    crowd = [sum(np.hypot(*(own - other)) < _CROWD for other in middles) for own in middles]
    page = _Page(figure, [_edges(text) for text in texts if text not in labels])
    for _, label in sorted(zip(crowd, labels, strict=True), key=lambda one: -one[0]):
        page.place(label)


class _Page:
    """Places that labels of a figure avoid [points]."""

    def __init__(self, figure: Any, texts: list[np.ndarray]) -> None:
        left, bottom, right, top = figure.bbox.extents
        self.corners = np.array([left + 3.0, bottom + 3.0]), np.array([right - 3.0, top - 3.0])
        self.texts, self.leaders = texts, [np.empty((0, 2))]
        self.curves = {axis: _curves(axis) for axis in figure.axes}
        self.dots = {axis: _dots(axis) for axis in figure.axes}

    def place(self, label: Any) -> None:
        """Move a label to where it costs least, and avoid it from now on."""
        edges, is_of_dot = _edges(label), label.get_label() == _OF_DOT
        has_leader = hasattr(label, "xy")
        at = label.axes.transData.transform(label.xy) if has_leader else np.zeros(2)
        moves = (
            _around(*(edges[2:] - edges[:2])) if is_of_dot else ((np.hypot(*move), np.array(move)) for move in _NEAR)
        )
        best = np.inf
        for far, move in moves:
            if _PER_POINT * far >= best:
                break
            own = edges + np.tile(move, 2)
            leader = _leader(own, at) if has_leader and not (is_of_dot and far < 9.0) else np.empty((0, 2))
            cost = _PER_POINT * far + self._cost(label.axes, own, leader, at)
            if cost < best:
                best, shift, taken, line = cost, move, own, leader
        start = label.get_transform().transform(label.xyann if has_leader else label.get_position())
        label.set_position(label.get_transform().inverted().transform(start + shift))
        if is_of_dot and not len(line):
            label.arrow_patch.set_visible(False)
        self.texts.append(taken)
        self.leaders.append(line)
        if best > _TOO_MUCH:
            warnings.warn(f"no free place for the label {label.get_text()!r}", stacklevel=2)

    def _cost(self, axis: Any, own: np.ndarray, leader: np.ndarray, at: np.ndarray) -> float:
        """Return how much text and its leader cover."""
        low, high = self.corners
        cost = 20.0 * ((own[:2] < low).any() or (own[2:] > high).any())
        cost += 10.0 * sum(_overlap(own, other) for other in self.texts)
        cost += 0.5 * min(_count(self.curves[axis], own, 2.0), 8) + 8.0 * min(_count(self.dots[axis], own, 4.0), 2)
        cost += 6.0 * sum(_count(other, own) > 0 for other in self.leaders)
        cost += 6.0 * sum(_count(leader, other) > 0 for other in self.texts)
        cost += 0.5 * _crossings(leader, at, self.curves[axis], 1.5) + 3.0 * _crossings(
            leader, at, self.dots[axis], 4.0
        )
        return float(cost)


def _text_class() -> Any:
    from matplotlib.text import Text

    return Text


def _edges(text: Any) -> np.ndarray:
    """Return left, bottom, right and top of a text, without its leader [points]."""
    return np.array(_text_class().get_window_extent(text).extents)


def _around(width: float, height: float) -> Iterator[tuple[float, np.ndarray]]:
    """Yield moves of a text from the middle of a dot to around it, and how far from the dot they leave it [points]."""
    sides = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), *_DIRECTIONS]
    for far in (6.0, 9.0, 13.0, 18.0, 24.0, 31.0, 39.0, 48.0, 58.0, 70.0):
        for right, up in sides:
            yield far, np.array([right * (far + width / 2), up * (far + height / 2)])


def _leader(edges: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return points of the line from a text to what it is about, outside of the text."""
    middle = (edges[:2] + edges[2:]) / 2
    points = middle + np.linspace(0.0, 1.0, 100)[:, None] * (at - middle)
    return points[~_is_in(points, edges)]


def _is_in(points: np.ndarray, edges: np.ndarray, margin: float = 0.0) -> np.ndarray:
    return np.all((points > edges[:2] - margin) & (points < edges[2:] + margin), axis=-1)


def _count(points: np.ndarray, edges: np.ndarray, margin: float = 0.0) -> int:
    return int(_is_in(points, edges, margin).sum())


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    return bool((one[:2] < other[2:] + 1.0).all() and (other[:2] < one[2:] + 1.0).all())


def _crossings(line: np.ndarray, at: np.ndarray, curves: np.ndarray, near: float) -> int:
    """Return how many points of a leader lie on curves or dots, but at the one that it leads to."""
    line = line[np.hypot(*(line - at).T) > 7.0] if len(line) else line
    if not len(line):
        return 0
    curves = curves[_is_in(curves, np.concatenate([line.min(axis=0), line.max(axis=0)]), near)]
    curves = curves[np.hypot(*(curves - at).T) > 0.1]
    return int((np.abs(line[:, None] - curves).max(axis=-1) < near).any(axis=1).sum())


def _dots(axis: Any) -> np.ndarray:
    """Return the middles of the markers of axes."""
    lines = [line for line in axis.get_lines() if line.get_marker() not in ("None", "none", "", None)]
    return np.concatenate([np.empty((0, 2)), *(line.get_transform().transform(line.get_xydata()) for line in lines)])


def _curves(axis: Any) -> np.ndarray:
    """Return points on the lines, bars, arrows and visible edges of axes, at most 2 points of type apart."""
    box = np.array(axis.bbox.extents)
    paths, found = [], [np.empty((0, 2))]
    for line in axis.get_lines():
        path = line.get_transform().transform(line.get_xydata())
        paths += [path] if line.get_linestyle() not in ("None", "none", "") else []
    for patch in axis.patches:
        paths.append(patch.get_transform().transform_path(patch.get_path()).vertices)
    for lines in axis.collections:
        if hasattr(lines, "get_segments"):
            paths += [lines.get_transform().transform(segment) for segment in lines.get_segments()]
    for text in axis.texts:  # arrows
        if hasattr(text, "xy") and not text.get_text():
            paths.append(axis.transData.transform([text.xyann, text.xy]))
    corners = {"left": (0, 1, 0, 3), "right": (2, 1, 2, 3), "bottom": (0, 1, 2, 1), "top": (0, 3, 2, 3)}
    for side, own in corners.items():
        if axis.axison and axis.spines[side].get_visible():
            paths.append(box[list(own)].reshape(2, 2))
    for path in paths:
        path = np.clip(path[np.isfinite(path).all(axis=1)], -5000.0, 5000.0)
        for start, end in itertools.pairwise(path):
            count = 1 + int(np.hypot(*(end - start)) / 2.0)
            found.append(start + np.linspace(0.0, 1.0, count + 1)[:, None] * (end - start))
    points = np.concatenate(found)
    return points[_is_in(points, box, 3.0)]


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
