# SPDX-License-Identifier: Apache-2.0
"""Charts as data, and how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from actuon.errors import MissingExtraError

FORMATS = (".png", ".svg", ".pdf")
"""Of pictures."""
BLUE, ORANGE, RED, GREY, GREEN = "#2f6fd0", "#e8871e", "#d6453d", "#8a94a3", "#2f9e62"
_FONT = "11px sans-serif"
_DIGITS = 4


@dataclass(frozen=True, eq=False)
class Series:
    """A line, or dots, over x. NaN is left out."""

    label: str
    x: np.ndarray
    """Shape (N,); ascending unless ``is_dots``."""
    y: np.ndarray
    """Shape (N,)."""
    colour: str
    width: float = 1.5
    """Of the line, or of the dots [px]."""
    is_dots: bool = False
    is_dashed: bool = False


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two lines over x."""

    label: str
    x: np.ndarray
    """Ascending, shape (N,)."""
    low: np.ndarray
    """Shape (N,)."""
    high: np.ndarray
    """Shape (N,)."""
    colour: str


@dataclass(frozen=True, eq=False)
class Chart:
    """Series over one pair of axes."""

    x_label: str
    """With its unit."""
    y_label: str
    """With its unit."""
    series: Sequence[Series]
    bands: Sequence[Band] = ()
    x_range: tuple[float, float] | None = None
    """Lowest and highest x; None fits the series."""
    y_range: tuple[float, float] | None = None
    """Lowest and highest y; None fits the series."""
    is_log: bool = False
    """Whether y is logarithmic."""
    height: int = 150
    """[px]."""


def to_uplot(chart: Chart) -> dict[str, Any]:
    """Return the arguments of viser's ``gui.add_uplot`` for a chart; ``data`` alone changes with the values.

    uPlot draws over one ascending x: lines and bands are interpolated at the x of the others, and dots are sorted.
    Where ``y_range`` is None, the axis fits the lines.
    """
    edges = [
        Series(f"{band.label} {arrow}", band.x, y, band.colour, 1.0)
        for band in chart.bands
        for arrow, y in (("↑", band.high), ("↓", band.low))
    ]
    series = [*edges, *chart.series]
    x = series[0].x
    if any(each.x is not x for each in series):
        x = np.unique(np.concatenate([each.x for each in series]))
    beyond = None if chart.y_range is None else np.nan
    font = {"font": _FONT, "labelFont": _FONT, "labelGap": 0, "grid": {"width": 1}, "ticks": {"width": 1, "size": 4}}
    return {
        "data": (
            np.ascontiguousarray(x, np.float64),
            *(_rounded(_at(each, x, beyond), chart.is_log) for each in series),
        ),
        "series": ({"label": chart.x_label}, *map(_uplot_series, series)),
        "bands": tuple(
            {"series": (2 * i + 1, 2 * i + 2), "fill": f"{band.colour}22"} for i, band in enumerate(chart.bands)
        ),
        "scales": {
            "x": {"time": False} if chart.x_range is None else {"time": False, "range": chart.x_range},
            "y": ({"distr": 3} if chart.is_log else {}) | ({} if chart.y_range is None else {"range": chart.y_range}),
        },
        "axes": (
            {"label": chart.x_label, "size": 24, "labelSize": 18, **font},
            {"label": chart.y_label, "size": 40, "labelSize": 16, **font},
        ),
        "padding": (10, 14, 0, 0),
        "height": chart.height,
    }


def _uplot_series(series: Series) -> dict[str, Any]:
    settings: dict[str, Any] = {"label": series.label, "stroke": series.colour, "width": series.width}
    if series.is_dots:
        points = {"show": True, "size": series.width, "stroke": series.colour, "fill": series.colour, "width": 1}
        return settings | {"width": 0, "points": points, "auto": False}
    return settings | {"points": {"show": False}} | ({"dash": (4, 3)} if series.is_dashed else {})


def _at(series: Series, x: np.ndarray, beyond: float | None) -> np.ndarray:
    """Return the values of a series at ascending x.

    Args:
        series: The series.
        x: Where.
        beyond: Of a line, before its start and after its end; None goes on with its first and last value.
    """
    known = np.isfinite(series.y)
    if series.x is x and known.all():
        return series.y
    if series.is_dots:
        y = np.full(len(x), np.nan)
        y[np.searchsorted(x, series.x[known])] = series.y[known]
        return y
    if not known.any():
        return np.full(len(x), np.nan if beyond is not None else 0.0)
    return np.interp(x, series.x[known], series.y[known], beyond, beyond)


def _rounded(values: np.ndarray, is_log: bool) -> np.ndarray:
    """Return values with few digits, since uPlot shows all that they have."""
    if is_log:
        return np.array([float(f"{value:.{_DIGITS}g}") for value in values])
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return np.round(values.astype(np.float64), _DIGITS - math.floor(math.log10(largest))) if largest else values


def to_matplotlib(chart: Chart, axes: Any) -> None:
    """Draw a chart into axes of Matplotlib."""
    for band in chart.bands:
        axes.fill_between(band.x, band.low, band.high, color=band.colour, alpha=0.13, lw=0.0, label=band.label)
        for edge in (band.low, band.high):
            axes.plot(band.x, edge, color=band.colour, lw=1.0)
    for series in chart.series:
        if series.is_dots:
            axes.plot(series.x, series.y, ".", color=series.colour, ms=series.width, label=series.label)
        else:
            style = "--" if series.is_dashed else "-"
            axes.plot(series.x, series.y, style, color=series.colour, lw=series.width, label=series.label)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label, yscale="log" if chart.is_log else "linear")
    if chart.x_range is not None:
        axes.set_xlim(*chart.x_range)
    if chart.y_range is not None:
        axes.set_ylim(*chart.y_range)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper right")


def pyplot() -> Any:
    """Matplotlib, without a screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "a plot") from error
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot().close(figure)
