# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text: axes with ticks, lines and dots."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLUE, ORANGE, RED, GREY, GREEN = "#2f6fd0", "#e8871e", "#d6453d", "#8a94a3", "#2f9e62"
_GRID = "#c3cad4"
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 10.0, 8.0, 30.0
_WIDTH = 440.0


class Axis:
    """From values to pixels.

    Args:
        low: Value at the start.
        high: Value at the end, above ``low``.
        start: Pixel of ``low``.
        end: Pixel of ``high``.
        is_log: Whether it is logarithmic; both values are then > 0.
    """

    def __init__(self, low: float, high: float, start: float, end: float, is_log: bool = False):
        self.low, self.high, self.is_log = low, high, is_log
        first, last = self._scaled(np.array([low, high]))
        self._gain = (end - start) / (last - first)
        self._shift = start - self._gain * first

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return np.log10(np.maximum(values, 1e-12)) if self.is_log else np.asarray(values, np.float64)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return self._shift + self._gain * self._scaled(values)

    def ticks(self) -> list[float]:
        """Round values between the two ends, some four of them."""
        if self.is_log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [10.0**power for power in powers]
        raw = (self.high - self.low) / 4.5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * size for size in (1.0, 2.0, 5.0, 10.0) if power * size >= raw)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """A series: a line, or dots where ``is_dots``. NaN is left out."""

    label: str
    x: np.ndarray
    y: np.ndarray
    colour: str
    width: float = 1.6
    is_dots: bool = False
    dash: str = ""


class Canvas:
    """A chart that grows.

    Args:
        across: Lowest and highest value of the horizontal axis.
        up: Of the vertical one.
        height: In pixels.
        labels: Of the axes, with units.
        is_log: Whether the vertical axis is logarithmic.
    """

    def __init__(
        self,
        across: tuple[float, float],
        up: tuple[float, float],
        height: float,
        labels: tuple[str, str],
        is_log: bool = False,
    ):
        self._height = height
        self.x = Axis(*across, _LEFT, _WIDTH - _RIGHT)
        self.y = Axis(*up, height - _BOTTOM, _TOP, is_log)
        self._parts = [*self._grid(), *self._labels(*labels)]

    def _grid(self) -> list[str]:
        lines = []
        bottom, right = self._height - _BOTTOM, _WIDTH - _RIGHT
        for tick in self.x.ticks():
            at = float(self.x(np.array(tick)))
            lines.append(
                f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="{_GRID}" stroke-width="{_weight(tick)}"/>'
                f'<text x="{at:.1f}" y="{bottom + 13}" text-anchor="middle">{_text(tick)}</text>'
            )
        for tick in self.y.ticks():
            at = float(self.y(np.array(tick)))
            lines.append(
                f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="{_GRID}" stroke-width="{_weight(tick)}"/>'
                f'<text x="{_LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{_text(tick)}</text>'
            )
        return lines

    def _labels(self, across: str, up: str) -> list[str]:
        middle = 0.5 * (self._height - _BOTTOM + _TOP)
        return [
            f'<text x="{_WIDTH - _RIGHT}" y="{self._height - 4}" text-anchor="end">{html.escape(across)}</text>',
            f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text>',
        ]

    def area(self, x: np.ndarray, y: np.ndarray, colour: str, name: str) -> None:
        """A closed shape, filled lightly, that programs find by its ``data-actuon``."""
        self._parts.append(
            f'<polygon data-actuon="{name}" points="{self._points(x, y)}" fill="{colour}" fill-opacity="0.13" '
            f'stroke="{colour}" stroke-width="1.6"/>'
        )

    def line(self, line: Line) -> None:
        """A series."""
        known = np.isfinite(line.y)
        if not known.any():
            return
        x, y = line.x[known], np.clip(line.y[known], self.y.low, self.y.high)
        if line.is_dots:
            across, up = np.round(self.x(x), 1).tolist(), np.round(self.y(y), 1).tolist()
            dots = "".join(f"M{a} {b}h0" for a, b in zip(across, up, strict=True))
            self._parts.append(
                f'<path d="{dots}" stroke="{line.colour}" stroke-width="{line.width}" stroke-linecap="round"/>'
            )
            return
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        self._parts.append(
            f'<polyline points="{self._points(x, y)}" fill="none" stroke="{line.colour}" stroke-width="{line.width}" '
            f'stroke-linejoin="round"{dash}/>'
        )

    def spot(self, x: float, y: float, colour: str) -> None:
        """Where something is now."""
        self._parts.append(
            f'<circle cx="{float(self.x(np.array(x))):.1f}" cy="{float(self.y(np.array(y))):.1f}" r="4.5" '
            f'fill="{colour}" stroke="#fff" stroke-width="1.5"/>'
        )

    def _points(self, x: np.ndarray, y: np.ndarray) -> str:
        pairs = np.round(np.stack([self.x(x), self.y(y)], axis=1), 1).ravel().tolist()
        return " ".join(map(str, pairs))

    def text(self, legend: Sequence[tuple[str, str]] = ()) -> str:
        """The picture. The legend holds labels and colours."""
        keys = "".join(
            f'<tspan fill="{colour}" font-weight="bold"> ━ </tspan><tspan>{html.escape(label)}  </tspan>'
            for label, colour in legend
        )
        key = f'<text x="{_LEFT}" y="{self._height - 4}" xml:space="preserve">{keys}</text>' if keys else ""
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {self._height:g}" style="width:100%;display:block" '
            f'font-family="system-ui,sans-serif" font-size="10.5" fill="currentColor">{"".join(self._parts)}{key}</svg>'
        )


def draw_lines(
    lines: Sequence[Line], across: tuple[float, float], height: float, labels: tuple[str, str], is_log: bool = False
) -> str:
    """A chart of series over one axis, as high as they ask for."""
    known = [line.y[np.isfinite(line.y)] for line in lines]
    values = np.concatenate([np.zeros(0), *known])
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if is_log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(1.001 * high))
    else:
        room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - room, high + room
    canvas = Canvas(across, (low, high), height, labels, is_log)
    for line in lines:
        canvas.line(line)
    return canvas.text([(line.label, line.colour) for line in lines if np.isfinite(line.y).any()])


def thinned(time: np.ndarray, values: np.ndarray, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each of so many stretches, so that a fast swing stays as wide as it is."""
    width = len(values) // buckets
    if width < 3:
        return time, values
    count = len(values) // width * width
    rows = values[-count:].reshape(-1, width)
    lowest, highest = rows.argmin(axis=1), rows.argmax(axis=1)
    picks = np.sort(np.stack([lowest, highest], axis=1), axis=1) + np.arange(len(rows))[:, None] * width
    at = picks.ravel() + len(values) - count
    return time[at], values[at]


def _weight(tick: float) -> float:
    return 1.2 if tick == 0.0 else 0.5


def _text(tick: float) -> str:
    return f"{tick:.4g}" if abs(tick) > 1e-12 else "0"
