# SPDX-License-Identifier: Apache-2.0
"""Tables written to places of a flat array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ...kernel.launch import Launch
from ...kernel.types import Floats, Ints

Table: Any = wp.array2d(dtype=wp.float32)
Places: Any = wp.array2d(dtype=wp.int32)


@wp.kernel
def _scatter_columns(values: Table, columns: Ints, at: Places, target: Floats):
    i, j = wp.tid()
    target[at[i, j]] = values[i, columns[j]]


@wp.kernel
def _scatter(values: Table, at: Places, target: Floats):
    i, j = wp.tid()
    target[at[i, j]] = values[i, j]


def scatter(values: wp.array, at: np.ndarray, target: wp.array) -> None:
    """Write ``values`` of shape (n, d) to the indices ``at`` of a flat array."""
    indices = wp.array(at.astype(np.int32), dtype=wp.int32, device=target.device)
    wp.launch(_scatter, values.shape, [values, indices, target], device=target.device)


def column_writer(values: wp.array, columns: np.ndarray, at: np.ndarray, target: wp.array) -> Callable[[], None]:
    """Return a function that writes these columns of ``values`` to the indices ``at`` of a flat array.

    Args:
        values: Values, shape (n, D).
        columns: Columns, shape (d,).
        at: Indices, shape (n, d).
        target: Flat array.
    """
    if not at.size:
        return lambda: None
    chosen, places = (wp.array(x, dtype=wp.int32, device=target.device) for x in (columns, at))
    inputs = [values, chosen, places, target]
    return Launch(_scatter_columns, at.shape, target.device, inputs).launch
