# SPDX-License-Identifier: Apache-2.0
"""Arrays of every kind that a simulation may hand over."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp


class Interface:
    """An array that shows itself through NumPy's array interface only."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__


def _spread(size: int, dtype: Any) -> np.ndarray:
    return np.zeros((size, 3), dtype)[:, 1]


FLOAT32 = {
    "numpy": lambda size: _both(np.zeros(size, np.float32)),
    "torch": lambda size: _torch(torch.zeros(size)),
    "warp": lambda size: _warp(wp.zeros(size, dtype=wp.float32)),
    "interface": lambda size: (Interface(array := np.zeros(size, np.float32)), array),
}
STRIDED = {
    "numpy strided": lambda size: _both(_spread(size, np.float32)),
    "torch strided": lambda size: _torch(torch.zeros(size, 2)[:, 0]),
    "warp strided": lambda size: _warp(wp.zeros(2 * size + 1, dtype=wp.float32)[1::2]),
}
FLOAT64 = {
    "numpy double": lambda size: _both(np.zeros(size)),
    "numpy double strided": lambda size: _both(_spread(size, np.float64)),
    "torch double": lambda size: _torch(torch.zeros(size, dtype=torch.float64)),
    "warp double": lambda size: _warp(wp.zeros(size, dtype=wp.float64)),
}
KINDS = FLOAT32 | STRIDED | FLOAT64


def _both(array: np.ndarray) -> tuple[Any, np.ndarray]:
    return array, array


def _torch(tensor: torch.Tensor) -> tuple[Any, np.ndarray]:
    return tensor, tensor.numpy()


def _warp(array: wp.array) -> tuple[Any, np.ndarray]:
    return array, array.numpy()


class Held:
    """An array of some kind, and a NumPy view of it to fill and read."""

    def __init__(self, kind: str, values: np.ndarray):
        self.array, self.view = KINDS[kind](len(values))
        self.view[:] = values
