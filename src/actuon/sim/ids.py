# SPDX-License-Identifier: Apache-2.0
"""Ids of robots, DOFs or environments: whole numbers, a slice or a mask.

Ids to read or to reset may be given several times. Ids to write may not, as they could get two values.
"""

from __future__ import annotations

import numpy as np

from ..arrays import require_values
from ..errors import SimulationError
from ..typing import IdsLike


def read_ids(name: str, ids: IdsLike, count: int) -> np.ndarray:
    """Return ids from 0 to ``count`` - 1 in the given order, shape (n,).

    Args:
        name: Name of the argument in an error.
        ids: None for all, whole numbers, a slice, or a mask of ``count`` booleans; a list or an array of any framework.
        count: Number of robots, DOFs or environments.

    Raises:
        SimulationError: They are something else, negative or too large.
    """
    if ids is None:
        return np.arange(count)
    require_values(ids, name)
    try:
        if isinstance(ids, slice):
            return np.arange(count)[ids]
        host = ids.detach().cpu() if hasattr(ids, "detach") else ids
        numbers = host.numpy() if hasattr(host, "numpy") else np.asarray(host)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"{name}: got {ids!r}; {_allowed(count)}") from error
    if numbers.dtype == bool:
        if numbers.shape == (count,):
            return np.flatnonzero(numbers)
    elif numbers.ndim <= 1 and not numbers.size:
        return np.zeros(0, dtype=np.int64)
    elif numbers.ndim <= 1 and numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < count:
        return np.atleast_1d(numbers).astype(np.int64)
    raise SimulationError(f"{name}: got {ids!r}; {_allowed(count)}")


def _allowed(count: int) -> str:
    return f"must be whole numbers from 0 to {count - 1}, a slice, or a mask of {count} booleans"


def ids_to_reset(name: str, ids: IdsLike, count: int) -> np.ndarray:
    """Return the ids of `read_ids`, each once and in rising order."""
    return np.unique(read_ids(name, ids, count))


def ids_to_write(name: str, ids: IdsLike, count: int) -> np.ndarray:
    """Return the ids of `read_ids`, each of which must be given once.

    Raises:
        SimulationError: One is given more than once.
    """
    numbers = read_ids(name, ids, count)
    if ids is None:
        return numbers
    once, times = np.unique(numbers, return_counts=True)
    if len(once) < len(numbers):
        raise SimulationError(f"{name}: got {once[times > 1][0]} more than once; each gets one value, so give it once")
    return numbers
