# SPDX-License-Identifier: Apache-2.0
"""Charts as data, drawn by Matplotlib in files, or by uPlot in the page.

A `Chart` holds numbers and words only. One place decides how they look: `draw_chart` and `to_uplot`.
"""

from __future__ import annotations

import colorsys
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from actuon.errors import require

FORMATS = (".png", ".svg", ".pdf")
"""Formats of images."""
BLUE, ORANGE, RED, GREY, GREEN = "#2f6fd0", "#e8871e", "#d6453d", "#8a94a3", "#2f9e62"
REAL, IDEAL, TARGET, LIMIT = BLUE, ORANGE, GREY, RED
"""Colours of real motors and logs, of ideal motors and models, of targets, and of limits and errors."""
_FONT = "11px sans-serif"
_DIGITS = 4
_HEIGHT = 150
_MORE = ("#8a5fc4", "#8c6450", "#d565ab", "#9a9b2e", "#22a5b8")
Style = Literal["line", "dashed", "dots", "ticks", "bars", "area"]


@dataclass(frozen=True, eq=False)
class Series:
    """One curve, cloud of dots, row of bars, or area of a chart. NaN leaves a gap."""

    label: str
    """Name next to it, or in the legend; empty: none."""
    x: np.ndarray
    y: np.ndarray
    colour: str = BLUE
    style: Style = "line"
    width: float = 1.2
    """Width of a line or a dot [points, or pixels in the page], or of a bar [units of x]."""
    spread: tuple[np.ndarray, np.ndarray] | None = None
    """Lower and upper ends of an area, or of an interval at each dot."""


@dataclass(frozen=True)
class Mark:
    """A straight line across the chart, at a value of ``x`` or of ``y``."""

    axis: Literal["x", "y"]
    value: float
    label: str = ""
    colour: str = GREY
    dashed: bool = False


@dataclass(frozen=True)
class Point:
    """A name next to a place in the chart, with a dot there if it has a colour."""

    x: float
    y: float
    label: str
    colour: str | None = GREY
    side: str = "right"
    """Preferred side of the name: ``right``, ``above``, ``below left``, ``centre`` and the like."""


@dataclass(frozen=True)
class Span:
    """A stretch of ``x``, shaded unless its colour is None, with its name above the curves."""

    start: float
    end: float
    label: str
    colour: str | None = GREY


@dataclass(frozen=True, eq=False)
class Chart:
    """Series over two axes."""

    x_label: str
    """Quantity with its unit, such as ``"time [s]"``."""
    y_label: str
    series: Sequence[Series] = ()
    title: str = ""
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()
    points: Sequence[Point] = ()
    x_range: tuple[float, float] | None = None
    """Range of the axis; None: that of the data."""
    y_range: tuple[float, float] | None = None
    x_log: bool = False
    y_log: bool = False
    x_ticks: Mapping[float, str] = field(default_factory=dict)
    """Names of values on the axis; empty: numbers."""
    y_ticks: Mapping[float, str] = field(default_factory=dict)
    note: str = ""
    """Text instead of the axes if there are no series, otherwise on top of them."""
    height: int = _HEIGHT
    """Height in the page [px]. In files, heights of rows are in the proportion of these."""

    @property
    def labels(self) -> list[str]:
        """Names of curves and marks."""
        marks = [mark.label for mark in self.marks]
        return [label for label in dict.fromkeys([*(one.label for one in self.series), *marks]) if label]

    def __getitem__(self, label: str) -> Series:
        """Return the first series of a label."""
        return next(one for one in self.series if one.label == label)


@dataclass(frozen=True, eq=False)
class Grid:
    """Charts in rows below each other; None leaves a place empty."""

    rows: Sequence[Sequence[Chart | None]]
    title: str = ""

    @property
    def charts(self) -> list[Chart]:
        """All charts, row by row."""
        return [chart for row in self.rows for chart in row if chart is not None]


def arranged(charts: Sequence[Chart | None], columns: int) -> list[list[Chart | None]]:
    """Return charts in rows of ``columns``; the last row is padded with None."""
    padded = [*charts, *[None] * (-len(charts) % columns)]
    return [padded[i : i + columns] for i in range(0, len(padded), columns)]


def palette(count: int) -> list[str]:
    """Return ``count`` different colours."""
    first = [BLUE, ORANGE, GREEN, RED, *_MORE]
    if count <= len(first):
        return first[:count]
    turns = [(i * 0.618034) % 1.0 for i in range(count - len(first))]
    tones = [colorsys.hls_to_rgb(turn, 0.35 + 0.3 * (i % 2), 0.6) for i, turn in enumerate(turns)]
    return first + ["#" + "".join(f"{round(255 * part):02x}" for part in tone) for tone in tones]


def line(label: str, x: ArrayLike, y: ArrayLike, colour: str = BLUE, width: float = 1.2) -> Series:
    """Return a curve."""
    return Series(label, np.asarray(x), np.asarray(y), colour, "line", width)


def dashed(label: str, x: ArrayLike, y: ArrayLike, colour: str = BLUE, width: float = 1.2) -> Series:
    """Return a dashed curve."""
    return Series(label, np.asarray(x), np.asarray(y), colour, "dashed", width)


def dots(label: str, x: ArrayLike, y: ArrayLike, colour: str = BLUE, width: float = 2.0) -> Series:
    """Return a cloud of dots."""
    return Series(label, np.asarray(x), np.asarray(y), colour, "dots", width)


def bars(label: str, x: ArrayLike, y: ArrayLike, colour: str = BLUE, width: float = 0.4) -> Series:
    """Return bars that stand on zero."""
    return Series(label, np.asarray(x), np.asarray(y), colour, "bars", width)


def area(label: str, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str = BLUE) -> Series:
    """Return the area between two curves, and the curves."""
    return Series(
        label, np.asarray(x), np.asarray(high), colour, "area", 1.0, spread=(np.asarray(low), np.asarray(high))
    )


# Matplotlib ----------------------------------------------------------------------------------------------------------


def pyplot() -> Any:
    """Return Matplotlib, without a screen."""
    require("matplotlib", "plot", "a plot").use("agg")
    return require("matplotlib.pyplot", "plot", "a plot")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot().close(figure)


def save_charts(path: Path, *grids: Grid, panel: tuple[float, float] = (4.2, 2.4), shared_legend: bool = False) -> Path:
    """Draw grids of charts into a file; returns it. See `to_matplotlib`."""
    save_figure(to_matplotlib(*grids, panel=panel, shared_legend=shared_legend), path)
    return path


def to_matplotlib(*grids: Grid, panel: tuple[float, float] = (4.2, 2.4), shared_legend: bool = False) -> Any:
    """Draw grids of charts below each other.

    Args:
        grids: What to draw.
        panel: Width and height of a chart of the usual ``height`` [in].
        shared_legend: One legend above all charts, instead of names in each.

    Returns:
        The figure.
    """
    plt = pyplot()
    columns = max(len(row) for grid in grids for row in grid.rows)
    ratios = [[max(chart.height for chart in row if chart) / _HEIGHT for row in grid.rows] for grid in grids]
    heights = [panel[1] * sum(rows) + 0.5 for rows in ratios]
    size = (max(6.4, panel[0] * columns), sum(heights) + 0.4 * shared_legend)
    figure = plt.figure(figsize=size, layout=None if shared_legend else "constrained")
    parts = (
        [figure] if len(grids) == 1 else figure.subfigures(len(grids), 1, squeeze=False, height_ratios=heights)[:, 0]
    )
    drawn: list[tuple[Any, Chart]] = []
    for part, grid, rows in zip(parts, grids, ratios, strict=True):
        if grid.title:
            part.suptitle(grid.title, fontsize=10)
        across = max(len(row) for row in grid.rows)
        axes = part.subplots(len(grid.rows), across, squeeze=False, height_ratios=rows)
        for row, places in zip(grid.rows, axes, strict=True):
            for chart, axis in itertools.zip_longest(row, places):
                if chart is None:
                    axis.set_visible(False)
                else:
                    draw_chart(axis, chart)
                    drawn.append((axis, chart))
    if shared_legend:
        _share_legend(figure, [chart for _, chart in drawn], len(grids[0].rows), columns)
        for axis, chart in drawn:
            _name_spans(axis, chart)
    else:
        name_curves(figure, drawn)
    return figure


def draw_chart(axis: Any, chart: Chart) -> None:
    """Draw a chart into axes of Matplotlib. Call `name_curves` when all charts of the figure are drawn."""
    axis.set_title(chart.title, fontsize=9)
    axis.margins(y=0.12 if chart.labels else None)
    if not chart.series:
        axis.set_axis_off()
        axis.text(0.5, 0.5, chart.note, ha="center", transform=axis.transAxes, fontsize=8)
        return
    for series in chart.series:
        _draw_series(axis, series)
    for mark in chart.marks:
        straight = axis.axvline if mark.axis == "x" else axis.axhline
        straight(mark.value, color=mark.colour, linewidth=0.8, linestyle="--" if mark.dashed else "-")
    for point in chart.points:
        if point.colour is not None:
            axis.plot(point.x, point.y, ".", color=point.colour, markersize=_DOT)
    _draw_spans(axis, chart)
    for scale, is_log in ((axis.set_xscale, chart.x_log), (axis.set_yscale, chart.y_log)):
        if is_log:
            scale("log")
    for ticks, names in ((axis.set_xticks, chart.x_ticks), (axis.set_yticks, chart.y_ticks)):
        if names:
            ticks(list(names), list(names.values()))
    for limit, ends in ((axis.set_xlim, chart.x_range), (axis.set_ylim, chart.y_range)):
        if ends is not None:
            limit(*ends)
    if chart.note:
        axis.text(0.5, 0.5, chart.note, ha="center", va="center", transform=axis.transAxes, fontsize=8)
    axis.set_xlabel(chart.x_label, fontsize=8)
    axis.set_ylabel(chart.y_label, fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.3)


def _draw_series(axis: Any, series: Series) -> None:
    style: dict[str, Any] = {"color": series.colour}
    if series.style == "bars":
        axis.bar(series.x, series.y, series.width, **style)
    elif series.style == "area" and series.spread is not None:
        axis.fill_between(series.x, *series.spread, color=series.colour, alpha=0.15, linewidth=0)
        for values in series.spread:
            axis.plot(series.x, values, linewidth=series.width, **style)
    elif series.spread is not None:
        low, high = series.spread
        ends = np.clip([series.y - low, high - series.y], 0.0, None)
        axis.errorbar(series.x, series.y, ends, fmt=".", linewidth=1, markersize=series.width, **style)
    elif series.style in ("dots", "ticks"):
        axis.plot(series.x, series.y, "." if series.style == "dots" else "|", markersize=series.width, **style)
    else:
        axis.plot(series.x, series.y, "-" if series.style == "line" else "--", linewidth=series.width, **style)


_SIDES = {
    "right": (1.0, 0.0, "left", "center"),
    "above": (0.0, 0.6, "center", "bottom"),
    "below": (0.0, -0.6, "center", "top"),
    "left": (-1.0, 0.0, "right", "center"),
    "above right": (0.6, 0.2, "left", "bottom"),
    "above left": (-0.6, 0.2, "right", "bottom"),
    "below right": (0.6, -0.2, "left", "top"),
    "below left": (-0.6, -0.6, "right", "top"),
    "centre": (0.0, 0.0, "center", "center"),
}
"""Offset of a name from its place [`_GAP`], and its alignment there."""
_BEGIN = {"left": 0.0, "bottom": 0.0, "center": -0.5, "right": -1.0, "top": -1.0}
"""Begin of an aligned name [its size]."""
_GAP, _LETTER, _DOT = 5.0, 7.0, 7.0
"""Distance of a name from its place, and size of its letters and of the dot of a place [points]."""
_FARTHER = (1.0, 2.0, 3.0, 5.0, 8.0)
"""Distances at which the name of a place is tried [`_GAP`]."""
_RIM = 3.0
"""Smallest distance between a name and the frame [points]."""
_MOST_PLACES = 200_000
"""Places of a curve of which names keep clear."""


def _write(
    axis: Any, text: str, place: Any, side: str, colour: str, gap: float = _GAP, coordinates: str = "data"
) -> None:
    across, up, horizontal, vertical = _SIDES[side]
    style = {"fontsize": _LETTER, "color": colour, "ha": horizontal, "va": vertical}
    axis.annotate(text, place, (gap * across, gap * up), coordinates, textcoords="offset points", **style)


def _size(axis: Any, text: str) -> np.ndarray:
    """Return width and height of a name [points]."""
    written = axis.text(0.0, 0.0, text, fontsize=_LETTER)
    size = written.get_window_extent().size * 72.0 / axis.figure.dpi
    written.remove()
    return size


def _corner(size: np.ndarray, place: np.ndarray, side: str, gap: float = _GAP) -> np.ndarray:
    """Return the lower left corner of a name at a place, or at several [points]."""
    across, up, *aligned = _SIDES[side]
    return place + gap * np.array([across, up]) + np.array([_BEGIN[one] for one in aligned]) * size


@dataclass(frozen=True, eq=False)
class _Trace:
    """Places of a curve in its axes."""

    series: Series
    path: np.ndarray
    """Places about a point apart, or those of its dots [points from the lower left corner], shape (n, 2)."""
    covered: np.ndarray
    """Whether it covers each square point of the axes, shape (height, width)."""


def _traces(axis: Any, chart: Chart) -> list[_Trace]:
    """Return the traces of the curves and marks of a chart that is drawn."""
    ends, frame, scale = (axis.get_xlim(), axis.get_ylim()), axis.get_window_extent(), 72.0 / axis.figure.dpi
    marks = []
    for mark in chart.marks:
        x, y = ([mark.value] * 2, ends[1]) if mark.axis == "x" else (ends[0], [mark.value] * 2)
        marks.append(line(mark.label, x, y, mark.colour))
    traces = []
    for series in (*chart.series, *marks):
        parts = []
        for y in series.spread if series.style == "area" and series.spread is not None else (series.y,):
            at = scale * (axis.transData.transform(np.column_stack([series.x, y])) - frame.min)
            at = np.clip(at[np.isfinite(at).all(axis=1)], -1e4, 1e4)
            if len(at) > 1 and series.style != "dots":
                way = np.concatenate([[0.0], np.hypot(*np.diff(at, axis=0).T).cumsum()])
                fine = np.linspace(0.0, way[-1], min(int(way[-1]) + 2, _MOST_PLACES))
                at = np.column_stack([np.interp(fine, way, values) for values in at.T])
            parts.append(at)
        path, covered = np.concatenate(parts), np.zeros((int(scale * frame.height), int(scale * frame.width)), bool)
        path = path[((path >= 0.0) & (path < covered.shape[::-1])).all(axis=1)]
        covered[*path.astype(int).T[::-1]] = True
        traces.append(_Trace(series, path, covered))
    return traces


def name_curves(figure: Any, charts: Iterable[tuple[Any, Chart]]) -> None:
    """Write the names of curves next to them, or into a legend if one does not fit.

    Args:
        figure: The figure, whose layout is computed.
        charts: Axes with the chart that is drawn in them.
    """
    named = [(axis, chart) for axis, chart in charts if chart.series]
    if named:
        figure.draw_without_rendering()
    for axis, chart in named:
        taken = _name_spans(axis, chart)
        traces = _traces(axis, chart)
        curves = np.any([one.covered for one in traces], axis=0)
        _name_points(axis, chart, curves, taken)
        sizes = {label: _size(axis, label) for label in chart.labels}
        places = _places_of_names(traces, sizes, taken.copy())
        for label, where in places.items():
            _write(axis, label, *where)
        if sizes and not places:
            _add_legend(axis, chart, sizes, taken | curves)


def _name_points(axis: Any, chart: Chart, curves: np.ndarray, taken: np.ndarray) -> None:
    """Write the names of places clear of curves and of each other, close to their preferred side; adds them to
    ``taken``."""
    frame, scale = axis.get_window_extent(), 72.0 / axis.figure.dpi
    at = [scale * (axis.transData.transform((point.x, point.y)) - frame.min) for point in chart.points]
    for point, place in zip(chart.points, at, strict=True):
        if point.colour is not None:
            _fill(taken, place - _DOT / 2, np.full(2, _DOT))
    for point, place in sorted(zip(chart.points, at, strict=True), key=lambda one: one[0].colour is None):
        size = _size(axis, point.label)
        tried = [(side, gap * _GAP) for gap in _FARTHER for side in dict.fromkeys((point.side, *_SIDES))]
        tried = [(side, gap) for side, gap in tried if point.colour is None or side != "centre"]
        corners = np.array([_corner(size, place, side, gap) for side, gap in tried])
        margin = 1.0 if point.colour else _GAP
        covered = _count(taken | curves, corners - margin, size + 2.0 * margin)
        outside = ((corners < _RIM) | (corners + size > np.array(taken.shape[::-1]) - _RIM)).any(axis=1)
        best = int(np.argmin(covered + taken.size * outside))
        _write(axis, point.label, (point.x, point.y), tried[best][0], point.colour or "0.6", tried[best][1])
        _fill(taken, corners[best], size)


def _places_of_names(
    traces: Sequence[_Trace], sizes: Mapping[str, np.ndarray], taken: np.ndarray
) -> dict[str, tuple[Any, ...]]:
    """Return a place for the name of each curve, next to it and clear of others; empty if there is none for one."""
    if any(one.series.label and one.series.style in ("bars", "ticks") for one in traces):
        return {}
    margin = 1.0 + max((one.series.width / 2 for one in traces if one.series.style == "dots"), default=0.0)
    places: dict[str, tuple[Any, ...]] = {}
    for trace in traces:
        label = trace.series.label
        if not label or label in places:
            continue
        gap = _GAP + (trace.series.width / 2 if trace.series.style == "dots" else 0.0)
        others = np.any([np.zeros_like(taken), *(one.covered for one in traces if one is not trace)], axis=0)
        path = trace.path[::-3]
        path = path[_count(others, path - 3.0, np.full(2, 6.0)) == 0]  # where it can be told from the others
        found, size = [], sizes[label]
        for side in [side for side in _SIDES if side != "centre"]:
            corner = _corner(size, path, side, gap)
            is_free = _count(taken | others | trace.covered, corner - margin, size + 2.0 * margin) == 0
            is_free &= ((corner >= _RIM) & (corner + size <= np.array(taken.shape[::-1]) - _RIM)).all(axis=1)
            near = _count(taken | others, corner - 2.0 * _GAP, size + 4.0 * _GAP)
            found += [(near[i], path[i], side, corner[i]) for i in np.flatnonzero(is_free)]
        if not found:
            return {}
        _, place, side, corner = min(found, key=lambda one: one[0])
        _fill(taken, corner, size)
        places[label] = (place / taken.shape[::-1], side, trace.series.colour, gap, "axes fraction")
    return places


def _add_legend(axis: Any, chart: Chart, sizes: Mapping[str, np.ndarray], taken: np.ndarray) -> None:
    """Add a legend where no curve is, to the right of the axes if there is no such place."""
    handles, letter = _handles([chart]), 6.0
    widest = max(size[0] for size in sizes.values()) * letter / _LETTER
    size = np.array([widest + 4.0 * letter, letter * (1.5 * len(handles) + 1.0)])
    height, width = taken.shape
    corners = np.array([(x, y) for y in range(height, 0, -4) for x in range(width, 0, -4)]) - size - 3.0
    is_free = (_count(taken, corners, size) == 0) & (corners >= 3.0).all(axis=1)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": 1 + len(handles) // 16}
    if is_free.any():
        x, y = (corners[is_free.argmax()] + size) / (width, height)
        place = {"loc": "upper right", "bbox_to_anchor": (x, y), "borderaxespad": 0.0}
    axis.legend(handles.values(), handles.keys(), fontsize=letter, markerscale=2, **place)


def _handles(charts: Iterable[Chart]) -> dict[str, Any]:
    """Return a handle for a legend for each label; Matplotlib itself leaves out labels that begin with "_"."""
    plt = pyplot()
    handles: dict[str, Any] = {}
    for chart in charts:
        marks = [(dashed if mark.dashed else line)(mark.label, [], [], mark.colour) for mark in chart.marks]
        for series in (*chart.series, *marks):
            if series.style == "bars":
                handle = plt.Rectangle((0.0, 0.0), 1.0, 1.0, color=series.colour)
            else:
                marker = {"dots": ".", "ticks": "|"}.get(series.style, "")
                dash = "" if marker else "--" if series.style == "dashed" else "-"
                sized = {"linewidth": series.width, "markersize": series.width}
                handle = plt.Line2D([], [], color=series.colour, marker=marker, linestyle=dash, **sized)
            if series.label:
                handles.setdefault(series.label, handle)
    return handles


def _corners(shape: tuple[int, ...], corner: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return left, lower, right and upper ends of boxes in a grid, shape (4, ...)."""
    ends = np.concatenate([corner, corner + size], axis=-1)
    return np.clip(ends, 0, [*shape[::-1]] * 2).astype(int).T


def _fill(grid: np.ndarray, corner: np.ndarray, size: np.ndarray) -> None:
    left, lower, right, upper = _corners(grid.shape, corner, size)
    grid[lower:upper, left:right] = True


def _count(grid: np.ndarray, corner: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return how many squares of a grid are true in each box, shape (n,)."""
    sums = np.pad(grid, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    left, lower, right, upper = _corners(grid.shape, corner, size)
    return sums[upper, right] - sums[lower, right] - sums[upper, left] + sums[lower, left]


def _draw_spans(axis: Any, chart: Chart) -> None:
    """Shade spans, and leave room for their names above the curves."""
    for span in chart.spans:
        if span.colour is not None:
            alpha = 0.12 if span.colour == GREY else 0.3
            axis.axvspan(span.start, span.end, color=span.colour, alpha=alpha, linewidth=0)
    if chart.spans and chart.y_range is None:
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.12 * (high - low))


def _name_spans(axis: Any, chart: Chart) -> np.ndarray:
    """Write the names of spans above the curves, those that stand out first; one that would touch another is left out.

    Returns:
        Which square points of the axes names and spans that stand out take, shape (height, width).
    """
    frame, scale = axis.get_window_extent(), 72.0 / axis.figure.dpi
    width, height = scale * frame.width, scale * frame.height
    taken, stand_out = np.zeros((2, int(height), int(width)), bool)
    for span in sorted(chart.spans, key=lambda one: one.colour in (None, GREY)):
        start, end = scale * (axis.transData.transform([(span.start, 0.0), (span.end, 0.0)])[:, 0] - frame.x0)
        size = _size(axis, span.label)
        middle = min(max((start + end) / 2, size[0] / 2 + 1.0), width - size[0] / 2 - 1.0)
        corner = np.array([middle, 0.98 * height]) - size * (0.5, 1.0)
        is_plain = span.colour in (None, GREY)
        if not _count(taken, corner - np.array([2.0, 0.0]), size + np.array([4.0, 0.0])):
            colour = "0.4" if is_plain else str(span.colour)
            _write(axis, span.label, (middle / width, 0.98), "below", colour, 0.0, "axes fraction")
            _fill(taken, corner, size)
        if not is_plain:
            _fill(stand_out, np.array([start, 0.0]), np.array([end - start, height]))
    taken[-int(2.0 * _LETTER) :] |= bool(chart.spans)
    return taken | stand_out


def _share_legend(figure: Any, charts: Iterable[Chart], rows: int, columns: int) -> None:
    """Put one legend above all panels, and room around these: to measure labels takes longer than to draw."""
    handles = _handles(charts)
    if handles:
        place = {"loc": "upper center", "ncols": min(5, len(handles)), "fontsize": 8, "markerscale": 3}
        figure.legend(
            handles.values(), handles.keys(), bbox_to_anchor=(0.5, 1.0 - 0.2 / figure.get_figheight()), **place
        )
    width, height = figure.get_size_inches()
    beside, below, above, legend = 0.7, 0.5, 0.25, 0.65  # inches
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


# uPlot ---------------------------------------------------------------------------------------------------------------


def to_uplot(chart: Chart) -> dict[str, Any]:
    """Return the arguments of viser's ``gui.add_uplot`` for a chart; ``data`` alone changes with the values.

    uPlot draws over one ascending x: curves and areas are interpolated at the x of the others, and dots are sorted.
    Where ``y_range`` is None, the axis fits the curves. Areas are drawn first.

    Raises:
        ValueError: The x of a curve does not ascend, or the chart has bars, spans, or names of values or places.
    """
    if (
        chart.spans
        or chart.points
        or chart.x_ticks
        or chart.y_ticks
        or any(one.style == "bars" for one in chart.series)
    ):
        raise ValueError(f"'{chart.y_label}': bars, spans and names of values or places are drawn by Matplotlib only")
    areas = [one for one in chart.series if one.style == "area" and one.spread is not None]
    edges = [
        Series(f"{one.label} {arrow}", one.x, y, one.colour, "line", one.width)
        for one in areas
        for arrow, y in zip("↑↓", reversed(one.spread or ()), strict=True)
    ]
    series = [*edges, *(one for one in chart.series if one not in areas)]
    x = series[0].x
    if any(one.x is not x for one in series):
        x = np.unique(np.concatenate([one.x for one in series]))
    series += [
        Series(mark.label, x, np.full(len(x), mark.value), mark.colour, "dashed" if mark.dashed else "line", 1.0)
        for mark in chart.marks
        if mark.axis == "y"
    ]
    beyond = None if chart.y_range is None else np.nan
    font = {"font": _FONT, "labelFont": _FONT, "labelGap": 0, "grid": {"width": 1}, "ticks": {"width": 1, "size": 4}}
    scales: list[dict[str, Any]] = [{"time": False}, {}]
    for scale, ends, is_log in zip(scales, (chart.x_range, chart.y_range), (chart.x_log, chart.y_log), strict=True):
        scale |= ({"distr": 3} if is_log else {}) | ({} if ends is None else {"range": ends})
    return {
        "data": (
            np.ascontiguousarray(x, np.float64),
            *(_rounded(_at(one, x, beyond), chart.y_log) for one in series),
        ),
        "series": ({"label": chart.x_label}, *map(_uplot_series, series)),
        "bands": tuple({"series": (2 * i + 1, 2 * i + 2), "fill": f"{one.colour}22"} for i, one in enumerate(areas)),
        "scales": dict(zip("xy", scales, strict=True)),
        "axes": (
            {"label": chart.x_label, "size": 24, "labelSize": 18, **font},
            {"label": chart.y_label, "size": 40, "labelSize": 16, "space": 20, **font},
        ),
        "padding": (10, 14, 0, 0),
        "height": chart.height,
    }


def _uplot_series(series: Series) -> dict[str, Any]:
    settings: dict[str, Any] = {"label": series.label, "stroke": series.colour, "width": series.width}
    if series.style in ("dots", "ticks"):
        points = {"show": True, "size": series.width, "stroke": series.colour, "fill": series.colour, "width": 1}
        return settings | {"width": 0, "points": points, "auto": False}
    return settings | {"points": {"show": False}} | ({"dash": (4, 3)} if series.style == "dashed" else {})


def _at(series: Series, x: np.ndarray, beyond: float | None) -> np.ndarray:
    """Return the values of a series at ascending x.

    Args:
        series: The series.
        x: Where.
        beyond: Of a curve, before its start and after its end; None goes on with its first and last value.
    """
    known = np.isfinite(series.y)
    if series.style in ("dots", "ticks"):
        y = np.full(len(x), np.nan)
        y[np.searchsorted(x, series.x[known])] = series.y[known]
        return y
    if np.any(np.diff(series.x) < 0.0):
        raise ValueError(f"'{series.label}': the x of a curve must ascend for uPlot; draw dots")
    if series.x is x and known.all():
        return series.y
    if not known.any():
        return np.full(len(x), np.nan if beyond is not None else 0.0)
    return np.interp(x, series.x[known], series.y[known], beyond, beyond)


def _rounded(values: np.ndarray, is_log: bool) -> np.ndarray:
    """Return values with few digits, since uPlot shows all that they have."""
    if is_log:
        return np.array([float(f"{value:.{_DIGITS}g}") for value in values])
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return np.round(values.astype(np.float64), _DIGITS - math.floor(math.log10(largest))) if largest else values
