# SPDX-License-Identifier: Apache-2.0
"""Noise of measured positions, motion above it, and spikes."""

from __future__ import annotations

import math

import numpy as np

_ORDERS = (3, 4, 5, 6)
"""Orders of the differences for the estimate of the noise."""
_MOVES = 3.0
"""Smallest mean distance from the median position of a joint that moves [noise]."""
_WINDOW = 7
"""Samples of the running median that spikes are compared with: it ignores up to three in a row."""
_SPIKE = 20.0
"""Smallest distance of a spike from that median [usual largest change between samples]."""
_FEWEST = 20
"""Fewest samples of a log in which spikes are searched."""


def noise_of(position: np.ndarray) -> float:
    """Estimate the mean absolute error of measured positions [rad or m].

    The rounding error of an encoder is a quarter of its step. Random noise is estimated from differences in time of
    high order: all orders show the same noise, while the differences of smooth motion decrease from order to order.
    """
    steps = np.abs(np.diff(position))
    if not steps.any() or len(position) < 8:
        return 0.0
    resolution = float(np.quantile(steps[steps > 0.0], 0.01)) / 4.0
    deviations = (
        float(np.median(np.abs(np.diff(position, order)))) / (0.6745 * math.sqrt(math.comb(2 * order, order)))
        for order in _ORDERS
    )
    return max(resolution, 0.8 * min(deviations))


def motion_of(position: np.ndarray) -> float:
    """Return the mean distance of positions from their median [rad or m], the error of "no motion"."""
    return float(np.abs(position - np.median(position)).mean())


def is_above_noise(position: np.ndarray) -> bool:
    """Return whether positions move further than their noise."""
    return motion_of(position) > _MOVES * noise_of(position)


def spikes(position: np.ndarray) -> np.ndarray:
    """Return the samples, up to three in a row, that are far from those around them, as bool of shape (T,)."""
    if len(position) < _FEWEST:
        return np.zeros(len(position), bool)
    padded = np.pad(position, _WINDOW // 2, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, _WINDOW), axis=1)
    smooth = np.abs(np.diff(middle))
    usual = float(np.quantile(smooth[smooth > 0.0], 0.99)) if smooth.any() else 0.0
    usual = max(usual, float(np.quantile(np.abs(np.diff(position)), 0.9)))  # of motion that the median flattens
    return np.asarray(np.abs(position - middle) > _SPIKE * usual + 1e-9)


def without_spikes(position: np.ndarray) -> np.ndarray:
    """Return the positions with spikes replaced by lines between their neighbours."""
    is_spike = spikes(position)
    if not is_spike.any():
        return position
    at = np.arange(len(position))
    return np.interp(at, at[~is_spike], position[~is_spike])
