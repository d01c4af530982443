# SPDX-License-Identifier: Apache-2.0
"""The plots beside the robot, of one joint."""

from __future__ import annotations

import numpy as np

from ..actuator.trials import Envelope
from .history import Window
from .plane import draw_plane
from .svg import BLUE, GREEN, GREY, ORANGE, RED, Line, draw_lines, thinned

SECONDS = 4.0
"""How much of the past is drawn [s]."""
PATH_SECONDS = 1.5
"""How much of it on the plane [s]."""
_BUCKETS = 200
_SMALLEST = 1e-4
"""Amplitude [N·m or N] that a spectrum ends at."""
_MODELLED = (("current", "current [A]", ORANGE), ("temperature", "temperature [°C]", RED))
_HOUSING = "housing_temperature"
_HEIGHT = 150.0


def draw_joint(
    window: Window, ideal: Window | None, envelope: Envelope | None, dt: float, units: tuple[str, str]
) -> dict[str, str]:
    """Pictures of a joint over the last seconds, by name, as SVG and HTML.

    Args:
        window: Of the robot.
        ideal: Of the ideal one, where it is there.
        envelope: Envelope of the joint; None if it is not known or limited.
        dt: Time step [s].
        units: Of position and effort.
    """
    length, force = units
    path = slice(-max(2, round(PATH_SECONDS / dt)), None)
    stride = max(1, len(window.time[path]) // 300)
    speeds, efforts, hits = (
        values[path][::-1][::stride][::-1] for values in (window.velocity, window.given, window.limit >= 0)
    )
    pictures = {"plane": draw_plane(envelope, speeds, efforts, hits, units)}
    time = window.time - window.time[-1]

    def series(label: str, values: np.ndarray, colour: str, width: float = 1.6, dash: str = "") -> Line:
        return Line(label, *thinned(time, values, _BUCKETS), colour, width, dash=dash)

    def over_time(label: str, *lines: Line) -> str:
        return draw_lines(lines, (-SECONDS, 0.0), _HEIGHT, ("time [s]", label))

    other = []
    if ideal is not None and len(ideal.time) > 1:
        other = [series("ideal", np.interp(window.time, ideal.time, ideal.position), GREEN)]
    target = series("target", window.target, GREY, 1.2, "4 2")
    pictures["position"] = over_time(f"position [{length}]", target, *other, series("position", window.position, BLUE))
    most = 2.0 * float(np.abs(window.given).max()) or np.inf
    wanted = series("wanted", np.clip(window.wanted, -most, most), GREY, 1.2, "4 2")
    hit = window.limit >= 0
    pictures["effort"] = over_time(
        f"effort [{force}]",
        wanted,
        series("given", window.given, BLUE),
        Line("clipped", time[hit][::3], window.given[hit][::3], RED, 3.0, is_dots=True),
    )
    pictures["clipping"] = _clipping(window)
    frequency, amplitude = spectrum(window.given, dt)
    if len(frequency):
        pictures["spectrum"] = draw_lines(
            [Line("spectrum of the effort", frequency, amplitude, BLUE, 1.2)],
            (0.0, float(frequency[-1])),
            _HEIGHT,
            ("frequency [Hz]", f"[{force}]"),
            is_log=True,
        )
    for name, label, colour in _MODELLED:
        if name in window.signals:
            lines = [series(name, window.signals[name], colour)]
            if name == "temperature" and _HOUSING in window.signals:
                lines.append(series("housing", window.signals[_HOUSING], GREY))
            pictures[name] = over_time(label, *lines)
    return pictures


def spectrum(values: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies [Hz], and the amplitude at each in the unit of ``values``, without their mean."""
    if len(values) < 16:
        return np.zeros(0), np.zeros(0)
    taper = np.hanning(len(values))
    amplitude = 2.0 * np.abs(np.fft.rfft((values - values.mean()) * taper)) / taper.sum()
    frequency = np.fft.rfftfreq(len(values), dt)
    bins = max(1, len(frequency) // (2 * _BUCKETS))
    count = len(frequency) // bins * bins
    highest = amplitude[:count].reshape(-1, bins).max(axis=1)
    return frequency[:count:bins], np.maximum(highest, _SMALLEST)


def _clipping(window: Window) -> str:
    shares = window.clipped_shares()
    said = ", ".join(f"{name.removeprefix('Clamping')} {100.0 * share:.0f} %" for name, share in shares.items())
    style = "font-size:0.75em;margin:0 0.6em 0.4em 3.4em;"
    colour = f"color:{RED}" if said else f"color:{GREY}"
    return f'<div style="{style}{colour}">clipped in the last {SECONDS:g} s: {said or "never"}</div>'
