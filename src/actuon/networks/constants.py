# SPDX-License-Identifier: Apache-2.0
"""Operations of a graph on constants and sizes alone, which have their result before the network runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, alpha=1: x + alpha * y,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "pow": lambda x, y: x**y,
}

_ARRANGEMENTS: dict[str, Callable[..., np.ndarray]] = {
    "unsqueeze": lambda array, at: np.expand_dims(array, tuple(at) if isinstance(at, list) else at),
    "squeeze": lambda array, at=None: np.squeeze(array, tuple(at) if isinstance(at, list) else at),
    "permute": lambda array, order: np.transpose(array, order),
    "transpose": np.swapaxes,
    "t": np.transpose,
    "reshape": lambda array, shape, *unused: np.reshape(array, [int(length) for length in shape]),
}


def folded(name: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """The result of an operation on constants. None: it is not known."""
    first = inputs[0] if inputs else None
    is_shape = isinstance(first, (list, str, int))
    if name == "same":
        return first
    try:
        if name == "cast":
            return first if is_shape else np.asarray(first).astype(attributes["dtype"])
        if name == "cat":
            return [length for part in inputs for length in np.ravel(part).tolist()]
        if name == "index" and isinstance(first, list):
            return [first[int(i)] for i in inputs[1]] if np.ndim(inputs[1]) else first[int(inputs[1])]
        if name in ("squeeze", "unsqueeze") and is_shape:
            return first if isinstance(first, list) else [first]
        if name in _ARRANGEMENTS and isinstance(first, np.ndarray):
            return _ARRANGEMENTS[name](first, *inputs[1:])
        return _calculated(name, inputs, attributes)
    except (TypeError, ValueError, IndexError):  # arguments that do not fit
        return None


def _calculated(name: str, inputs: list[Any], attributes: dict[str, Any]) -> np.ndarray | None:
    """Arithmetic in 64 bits. Whole numbers alone are left out: formats divide them differently."""
    numbers = [np.asarray(value) for value in inputs]
    if name not in _ARITHMETIC or not all(number.dtype.kind in "fi" for number in numbers):
        return None
    size = math.prod(np.broadcast_shapes(*(number.shape for number in numbers)))
    if all(number.dtype.kind == "i" for number in numbers) or size > max(number.size for number in numbers):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(_ARITHMETIC[name](*numbers, **attributes), np.float64)
