# SPDX-License-Identifier: Apache-2.0
"""Plots of the studio: a joint over the last seconds, and a log against its replay."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..actuator.trials import Envelope
from ..charts import GREY, IDEAL, ORANGE, REAL, RED, Chart, Series, area, dashed, dots, line, to_uplot
from .history import Window
from .numbers import round_up
from .replay import Replayed

SECONDS = 4.0
"""Time span of the plots [s]."""
PATH_SECONDS = 1.5
"""Time span of the path in the torque-speed plane [s]."""
_NOW_SECONDS = 0.05
"""Time span that is marked as now [s]."""
_BUCKETS = 200
_PATH_POINTS = 300
_SMALLEST = 1e-3
"""Smallest amplitude in a spectrum [N·m or N]; uPlot writes three decimals."""
_MODELLED = (("current", "current [A]"), ("temperature", "temperature [°C]"))
_HOUSING = "housing_temperature"
_PLANE_HEIGHT = 230
_OUTSIDE = 1.25
"""Largest speed that is shown, relative to the envelope."""


class Plots:
    """Charts in a container of a viser GUI. They keep the zoom of the user while their data change.

    Args:
        server: A ``viser.ViserServer``.
        container: Tab or folder of the charts.
    """

    def __init__(self, server: Any, container: Any):
        self._server, self._container = server, container
        self._drawn: dict[str, tuple[dict[str, Any], Any]] = {}

    def show(self, charts: Mapping[str, Chart]) -> None:
        """Draw charts by name, in this order, and remove others."""
        for name in self._drawn.keys() - charts.keys():
            self._drawn.pop(name)[1].remove()
        for order, (name, chart) in enumerate(charts.items()):
            settings = to_uplot(chart)
            if name not in self._drawn:
                with self._container:
                    handle = self._server.gui.add_uplot(order=order, **settings)
            else:
                known, handle = self._drawn[name]
                with self._server.atomic():
                    for key, value in settings.items():
                        if not (_are_same if key == "data" else operator.eq)(value, known[key]):
                            setattr(handle, key, value)
            self._drawn[name] = settings, handle


def _are_same(data: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> bool:
    pairs = zip(data, known, strict=False)
    return len(data) == len(known) and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def joint_charts(
    window: Window,
    others: Sequence[tuple[str, str, Window]],
    envelope: Envelope | None,
    dt: float,
    units: tuple[str, str],
) -> dict[str, Chart]:
    """Return the charts of a joint over the last seconds, by name.

    Args:
        window: Of the robot, at least two steps.
        others: Name, colour and window of each robot next to it.
        envelope: Envelope of the joint; None if it is not known or limited.
        dt: Time step [s].
        units: Of position and effort.
    """
    length, force = units
    time = window.time - window.time[-1]
    thin = _Thinning(time)

    def over_time(label: str, *series: Series) -> Chart:
        return Chart("time [s]", label, series, x_range=(-SECONDS, 0.0))

    others = [each for each in others if len(each[2].time)]
    windows = [other for _, _, other in others]

    def at_times(rows: Iterable[np.ndarray | None]) -> list[tuple[str, str, np.ndarray]]:
        """Return name, colour and values of each other robot that has them, at the times of the window."""
        pairs = zip(others, rows, strict=True)
        return [(name, colour, np.interp(window.time, x.time, y)) for (name, colour, x), y in pairs if y is not None]

    def compared(rows: Iterable[np.ndarray | None], most: float = np.inf) -> list[Series]:
        return [line(name, thin.x, thin(np.clip(y, -most, most)), colour) for name, colour, y in at_times(rows)]

    most = 2.0 * float(np.abs(window.applied).max()) or np.inf
    charts = {
        "plane": _plane(window, others, envelope, dt, units),
        "position": over_time(
            f"position [{length}]",
            dashed("target", thin.x, thin(window.target), GREY),
            *compared(each.position for each in windows),
            line("position", thin.x, thin(window.position)),
        ),
        "effort": over_time(
            f"effort [{force}]",
            dashed("requested", thin.x, thin(np.clip(window.requested, -most, most)), GREY),
            *compared((each.applied for each in windows), most),
            line("applied", thin.x, thin(window.applied)),
            dots("clipped", thin.x, thin.where(window.limit >= 0, window.applied), RED, 4.0),
        ),
    }
    frequency, amplitude = spectrum(window.applied, dt)
    if len(frequency):
        label = f"effort [{force}]"
        applied = at_times(each.applied for each in windows)
        series = [line(name, *spectrum(values, dt), colour) for name, colour, values in applied]
        series.append(line("amplitude", frequency, amplitude))
        limits = 0.0, float(round(0.5 / dt))
        charts["spectrum"] = Chart("frequency [Hz]", label, series, x_range=limits, y_log=True)
    for name, label in _MODELLED:
        if name in window.signals:
            lines = compared(each.signals.get(name) for each in windows)
            lines.append(line(name, thin.x, thin(window.signals[name])))
            if name == "temperature" and _HOUSING in window.signals:
                lines.append(line("housing", thin.x, thin(window.signals[_HOUSING]), GREY))
            charts[name] = over_time(label, *lines)
    return charts


def log_charts(joint: Replayed, units: tuple[str, str]) -> dict[str, Chart]:
    """Return the charts of a replayed log by name: recorded against simulated, and the error.

    Args:
        joint: Of the log.
        units: Of positions, and of a thousandth.
    """
    thin = _Thinning(joint.time)
    limits = 0.0, float(joint.time[-1])
    lines = [
        line("recorded", thin.x, thin(joint.recorded), REAL, 2.0),
        line("simulated", thin.x, thin(joint.simulated), IDEAL),
    ]
    if joint.command is not None:
        lines.insert(0, dashed("command", thin.x, thin(joint.command), GREY, 1.0))
    error = line("simulated − recorded", thin.x, thin(1e3 * (joint.simulated - joint.recorded)), RED)
    return {
        joint.joint: Chart("time [s]", f"{joint.joint} [{units[0]}]", lines, x_range=limits, height=220),
        f"{joint.joint}, error": Chart("time [s]", f"error [{units[1]}]", [error], x_range=limits),
    }


def spectrum(values: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies [Hz], and the amplitude at each in the unit of ``values``, without their mean."""
    if len(values) < 16:
        return np.zeros(0), np.zeros(0)
    taper = np.hanning(len(values))
    amplitude = 2.0 * np.abs(np.fft.rfft((values - values.mean()) * taper)) / taper.sum()
    frequency = np.fft.rfftfreq(len(values), dt)
    bins = max(1, len(frequency) // (2 * _BUCKETS))
    count = len(frequency) // bins * bins
    highest = amplitude[:count].reshape(-1, bins).max(axis=1)
    return frequency[:count:bins], np.maximum(highest, _SMALLEST)


def _plane(
    window: Window,
    others: Sequence[tuple[str, str, Window]],
    envelope: Envelope | None,
    dt: float,
    units: tuple[str, str],
) -> Chart:
    """Draw the envelope, and the path of each robot as dots: uPlot draws no line whose x goes back."""
    count = max(2, round(PATH_SECONDS / dt))
    stride = max(1, min(count, len(window.time)) // _PATH_POINTS)
    path = slice(-1, -count - 1, -stride)
    velocity, effort, clipped = (each[path] for each in (window.velocity, window.applied, window.limit >= 0))
    now = slice(0, max(1, round(_NOW_SECONDS / dt / stride)))
    series = [
        *(dots(name, other.velocity[path], other.applied[path], colour, 2.5) for name, colour, other in others),
        dots("path", velocity, effort, GREY, 2.5),
        dots("clipped", velocity[clipped], effort[clipped], RED, 4.0),
        dots("now", velocity[now], effort[now], ORANGE, 7.0),
    ]
    fastest, strongest = float(np.abs(velocity).max()), float(np.abs(effort).max())
    if envelope is not None:
        series.insert(0, area("motor envelope", envelope.velocity, envelope.least, envelope.most))
        fastest = max(min(fastest, _OUTSIDE * envelope.velocity[-1]), envelope.velocity[-1])
        strongest = max(strongest, float(np.abs([envelope.least, envelope.most]).max()))
    across, up = (round_up(1.02 * each or 1.0) for each in (fastest, strongest))
    labels = f"velocity [{units[0]}/s]", f"effort [{units[1]}]"
    return Chart(*labels, series, x_range=(-across, across), y_range=(-up, up), height=_PLANE_HEIGHT)


class _Thinning:
    """Fewer points over one x: the lowest and the highest of each stretch, so that a fast swing keeps its width.

    Args:
        x: Ascending, shape (T,).
    """

    def __init__(self, x: np.ndarray):
        self._width = len(x) // _BUCKETS
        if self._width < 3:
            self._width = 0
            self.x = x
            return
        rows = self._rows(x)
        self.x = rows[:, [0, self._width // 2]].ravel()

    def _rows(self, values: np.ndarray) -> np.ndarray:
        count = len(values) // self._width * self._width
        return values[-count:].reshape(-1, self._width)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the values of a line at ``x``."""
        if not self._width:
            return values
        rows = self._rows(values)
        ends = np.sort(np.stack([rows.argmin(axis=1), rows.argmax(axis=1)], axis=1), axis=1)
        return np.take_along_axis(rows, ends, axis=1).ravel()

    def where(self, condition: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return a value at which the condition holds for each ``x``, or NaN."""
        if not self._width:
            return np.where(condition, values, np.nan)
        rows = self._rows(np.where(condition, values, np.nan))
        first = np.isfinite(rows).argmax(axis=1)[:, None]
        found = np.take_along_axis(rows, first, axis=1)
        return np.concatenate([found, np.full_like(found, np.nan)], axis=1).ravel()
