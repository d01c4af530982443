# SPDX-License-Identifier: Apache-2.0
"""Charts as data, drawn by Matplotlib, by uPlot in the page, or by Plotly.

A `Chart` holds numbers and words only. One place decides how they look: `to_matplotlib`, `to_uplot` and `to_plotly`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from actuon.errors import require

FORMATS = (".png", ".svg", ".pdf")
"""Of pictures."""
BLUE, ORANGE, RED, GREY, GREEN = "#2f6fd0", "#e8871e", "#d6453d", "#8a94a3", "#2f9e62"
REAL, IDEAL, TARGET, LIMIT = BLUE, ORANGE, GREY, RED
"""One colour for one thing on every chart: real motors and logs, ideal motors and models, targets, limits and errors."""
_MORE = ("#8a5fc4", "#8c6450", "#d565ab", "#9a9b2e", "#22a5b8")
Style = Literal["line", "dashed", "dots", "ticks", "bars", "area"]


@dataclass(frozen=True, eq=False)
class Series:
    """One curve, cloud of dots, row of bars, or area of a chart. NaN leaves a gap."""

    label: str
    """In the legend; empty: not in it."""
    x: np.ndarray
    y: np.ndarray
    colour: str = BLUE
    style: Style = "line"
    width: float = 1.2
    """Of a line [points], of a dot [points], of a bar [units of x]."""
    spread: tuple[np.ndarray, np.ndarray] | None = None
    """Lower and upper ends: of an area, or of an interval at each dot."""


@dataclass(frozen=True)
class Mark:
    """A straight line across the chart, at a value of ``x`` or of ``y``."""

    axis: Literal["x", "y"]
    value: float
    label: str = ""
    colour: str = GREY
    dashed: bool = False


@dataclass(frozen=True)
class Span:
    """A stretch of ``x`` with a name. Without a colour it is not shaded."""

    start: float
    end: float
    label: str
    colour: str | None = GREY


@dataclass(frozen=True, eq=False)
class Chart:
    """Series over two axes."""

    x_label: str
    """With its unit, as ``"time [s]"``."""
    y_label: str
    series: Sequence[Series] = ()
    title: str = ""
    marks: Sequence[Mark] = ()
    spans: Sequence[Span] = ()
    x_range: tuple[float, float] | None = None
    """None: that of the data."""
    y_range: tuple[float, float] | None = None
    x_log: bool = False
    y_log: bool = False
    x_ticks: Mapping[float, str] = field(default_factory=dict)
    """Names of values; none: numbers."""
    y_ticks: Mapping[float, str] = field(default_factory=dict)
    note: str = ""
    """Shown instead of axes if there are no series, and above them else."""

    @property
    def labels(self) -> list[str]:
        """The legend."""
        marks = [mark.label for mark in self.marks]
        return [label for label in dict.fromkeys([*(one.label for one in self.series), *marks]) if label]

    def __getitem__(self, label: str) -> Series:
        """The first series of a label."""
        return next(one for one in self.series if one.label == label)


@dataclass(frozen=True, eq=False)
class Grid:
    """Charts in rows below each other; None leaves a place empty."""

    rows: Sequence[Sequence[Chart | None]]
    title: str = ""

    @property
    def charts(self) -> list[Chart]:
        """All of them, row by row."""
        return [chart for row in self.rows for chart in row if chart is not None]


def arranged(charts: Sequence[Chart | None], columns: int) -> list[list[Chart | None]]:
    """Return charts in rows of so many; the last row is filled up with None."""
    padded = [*charts, *[None] * (-len(charts) % columns)]
    return [padded[i : i + columns] for i in range(0, len(padded), columns)]


def palette(count: int) -> list[str]:
    """Return as many colours, no two alike."""
    first = [BLUE, ORANGE, GREEN, RED, *_MORE]
    if count <= len(first):
        return first[:count]
    import colorsys

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
        panel: Width and height of a chart [in].
        shared_legend: One legend above all charts, instead of one in each.

    Returns:
        The figure.
    """
    plt = pyplot()
    columns = max(len(row) for grid in grids for row in grid.rows)
    heights = [panel[1] * len(grid.rows) + 0.5 for grid in grids]
    size = (max(6.4, panel[0] * columns), sum(heights) + 0.4 * shared_legend)
    figure = plt.figure(figsize=size, layout=None if shared_legend else "constrained")
    parts = [figure] if len(grids) == 1 else figure.subfigures(len(grids), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, grid in zip(parts, grids, strict=True):
        if grid.title:
            part.suptitle(grid.title, fontsize=10)
        across = max(len(row) for row in grid.rows)
        axes = part.subplots(len(grid.rows), across, squeeze=False)
        for row, places in zip(grid.rows, axes, strict=True):
            for chart, axis in itertools.zip_longest(row, places):
                if chart is None:
                    axis.set_visible(False)
                else:
                    draw_chart(axis, chart, legend=not shared_legend)
    if shared_legend:
        _share_legend(figure, len(grids[0].rows), columns)
    return figure


def draw_chart(axis: Any, chart: Chart, legend: bool = True) -> None:
    """Draw a chart into axes of Matplotlib."""
    axis.set_title(chart.title, fontsize=9)
    if not chart.series:
        axis.set_axis_off()
        axis.text(0.5, 0.5, chart.note, ha="center", transform=axis.transAxes, fontsize=8)
        return
    for series in chart.series:
        _draw_series(axis, series)
    for mark in chart.marks:
        straight = axis.axvline if mark.axis == "x" else axis.axhline
        style = "--" if mark.dashed else "-"
        straight(mark.value, color=mark.colour, linewidth=0.8, linestyle=style, label=mark.label or None)
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
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if legend and handles:
        axis.legend(handles.values(), handles.keys(), fontsize=6, markerscale=2)


def _draw_series(axis: Any, series: Series) -> None:
    style: dict[str, Any] = {"color": series.colour, "label": series.label or None}
    if series.style == "bars":
        axis.bar(series.x, series.y, series.width, **style)
    elif series.style == "area" and series.spread is not None:
        axis.fill_between(series.x, *series.spread, color=series.colour, alpha=0.15, linewidth=0)
        for values, own in zip(series.spread, ({"color": series.colour}, style), strict=True):
            axis.plot(series.x, values, linewidth=series.width, **own)
    elif series.spread is not None:
        low, high = series.spread
        ends = np.clip([series.y - low, high - series.y], 0.0, None)
        axis.errorbar(series.x, series.y, ends, fmt=".", linewidth=1, markersize=series.width, **style)
    elif series.style in ("dots", "ticks"):
        axis.plot(series.x, series.y, "." if series.style == "dots" else "|", markersize=series.width, **style)
    else:
        axis.plot(series.x, series.y, "-" if series.style == "line" else "--", linewidth=series.width, **style)


def _draw_spans(axis: Any, chart: Chart) -> None:
    """Shade spans, with names in room of their own above the curves."""
    for span in chart.spans:
        if span.colour is not None:
            alpha = 0.12 if span.colour == GREY else 0.3
            axis.axvspan(span.start, span.end, color=span.colour, alpha=alpha, linewidth=0)
        place = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top"}
        axis.text((span.start + span.end) / 2, 0.98, span.label, fontsize=7, color="0.4", **place)
    if chart.spans and chart.y_range is None:
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.12 * (high - low))


def _share_legend(figure: Any, rows: int, columns: int) -> None:
    """Put one legend above all panels, and room around these: to measure labels takes longer than to draw."""
    handles = {handle.get_label(): handle for axis in figure.axes for handle in axis.get_legend_handles_labels()[0]}
    if handles:
        place = {"loc": "upper center", "ncols": min(5, len(handles)), "fontsize": 8, "markerscale": 3}
        figure.legend(handles.values(), handles.keys(), bbox_to_anchor=(0.5, 1.0 - 0.2 / figure.get_figheight()), **place)
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


# uPlot and Plotly ----------------------------------------------------------------------------------------------------


def to_uplot(chart: Chart) -> dict[str, Any]:
    """Return a chart as arguments of viser's ``gui.add_uplot``: ``data``, ``series``, ``scales``, ``axes``, ``bands``.

    Series are put onto one ascending ``x``: curves by linear interpolation, dots as they are, with NaN between them.

    Raises:
        ValueError: A series has ``x`` that does not ascend, which uPlot cannot draw. `to_plotly` does.
    """
    for one in chart.series:
        if np.any(np.diff(one.x) < 0.0):
            raise ValueError(f"series '{one.label}': x must ascend, for uPlot; use to_plotly")
    marks = [mark for mark in chart.marks if mark.axis == "y"]
    grid = np.unique(np.concatenate([np.zeros(0), *(np.asarray(one.x, np.float64) for one in chart.series)]))
    data, series, bands = [grid], [{"label": chart.x_label}], []

    def on_grid(one: Series, values: np.ndarray) -> np.ndarray:
        if one.style in ("line", "dashed", "area") and len(one.x):
            return np.interp(grid, one.x, values, left=np.nan, right=np.nan)
        found = np.full(len(grid), np.nan)
        found[np.searchsorted(grid, one.x)] = values
        return found

    for one in chart.series:
        look: dict[str, Any] = {"label": one.label, "stroke": one.colour, "width": one.width, "spanGaps": True}
        if one.style == "dashed":
            look["dash"] = (4, 3)
        elif one.style in ("dots", "ticks"):
            look |= {"stroke": "transparent", "points": {"show": True, "size": 2.0 * one.width, "fill": one.colour}}
        curves = [one.y] if one.style != "area" or one.spread is None else list(reversed(one.spread))
        for values in curves:
            data.append(on_grid(one, values))
            series.append(look)
        if len(curves) == 2:
            bands.append({"series": (len(data) - 2, len(data) - 1), "fill": f"{one.colour}22"})
    for mark in marks:
        data.append(np.full(len(grid), mark.value))
        series.append({"label": mark.label, "stroke": mark.colour, "width": 1.0, **({"dash": (4, 3)} if mark.dashed else {})})
    x_scale: dict[str, Any] = {"time": False}
    y_scale: dict[str, Any] = {}
    for scale, ends, is_log in ((x_scale, chart.x_range, chart.x_log), (y_scale, chart.y_range, chart.y_log)):
        scale |= {} if ends is None else {"range": ends, "auto": False}
        scale |= {"distr": 3} if is_log else {}
    found: dict[str, Any] = {
        "data": tuple(data),
        "series": tuple(series),
        "scales": {"x": x_scale, "y": y_scale},
        "axes": ({"label": chart.x_label}, {"label": chart.y_label}),
    }
    return found | ({"title": chart.title} if chart.title else {}) | ({"bands": tuple(bands)} if bands else {})


def to_plotly(chart: Chart) -> dict[str, Any]:
    """Return a chart as a figure of Plotly in plain values: ``plotly.graph_objects.Figure(to_plotly(chart))``."""
    traces = []
    for one in chart.series:
        shown = {"name": one.label, "showlegend": bool(one.label)}
        if one.style == "area" and one.spread is not None:
            low, high = one.spread
            outline = {"x": [*one.x.tolist(), *one.x[::-1].tolist()], "y": [*high.tolist(), *low[::-1].tolist()]}
            fill = {"fill": "toself", "fillcolor": f"{one.colour}22", "mode": "lines"}
            traces.append({"type": "scatter", **outline, **fill, "line": {"color": one.colour, "width": 1}, **shown})
            continue
        values = {"x": one.x.tolist(), "y": [None if np.isnan(value) else value for value in one.y.tolist()]}
        if one.style == "bars":
            traces.append({"type": "bar", **values, "width": one.width, "marker": {"color": one.colour}, **shown})
            continue
        look: dict[str, Any] = {"mode": "lines", "line": {"color": one.colour, "width": one.width}}
        if one.style == "dashed":
            look["line"]["dash"] = "dash"
        elif one.style in ("dots", "ticks"):
            look = {"mode": "markers", "marker": {"color": one.colour, "size": 2.0 * one.width}}
        if one.spread is not None:
            low, high = one.spread
            ends = {"array": (high - one.y).tolist(), "arrayminus": (one.y - low).tolist(), "symmetric": False}
            look["error_y"] = {"type": "data", **ends}
        traces.append({"type": "scatter", **values, **look, **shown})
    axes = {}
    sides = (("x", chart.x_label, chart.x_range, chart.x_log, chart.x_ticks),)
    sides += (("y", chart.y_label, chart.y_range, chart.y_log, chart.y_ticks),)  # type: ignore[assignment]
    for side, label, ends, is_log, names in sides:
        axis: dict[str, Any] = {"title": {"text": label}, "type": "log" if is_log else "linear"}
        if ends is not None:
            axis["range"] = [float(np.log10(end)) if is_log else float(end) for end in ends]
        if names:
            axis |= {"tickvals": list(names), "ticktext": list(names.values())}
        axes[f"{side}axis"] = axis
    shapes = [
        {
            "type": "line",
            f"{mark.axis}0": mark.value,
            f"{mark.axis}1": mark.value,
            **{f"{other}ref": f"{other} domain", f"{other}0": 0, f"{other}1": 1},
            "line": {"color": mark.colour, "width": 1, "dash": "dash" if mark.dashed else "solid"},
        }
        for mark in chart.marks
        for other in ("y" if mark.axis == "x" else "x",)
    ]
    shapes += [
        {
            "type": "rect",
            **{"x0": span.start, "x1": span.end, "yref": "y domain", "y0": 0, "y1": 1},
            **{"fillcolor": f"{span.colour}22", "line": {"width": 0}, "label": {"text": span.label}},
        }
        for span in chart.spans
        if span.colour is not None
    ]
    return {"data": traces, "layout": {"title": {"text": chart.title}, **axes, "shapes": shapes}}
