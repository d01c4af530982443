# SPDX-License-Identifier: Apache-2.0
"""Axes of a graph's signal that hold its DOFs and its features, through operations that rearrange an array.

The axes of an array are labelled: `BATCH` holds the DOFs, `FEATURES` the features, 1 has one entry. An arrangement is
supported if it keeps each DOF's features together and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

BATCH = "batch"
FEATURES = "features"
EITHER = "batch or time"
"""A leading axis of a recurrent input, batch or time, which a recurrent layer decides."""

Axes = tuple[str | int, ...]

_REST = -1
"""Inferred length in a reshape."""


class Unclear(ValueError):
    """An arrangement moves features, or may do so."""


def size(axes: Axes, width: int | None, axis: object) -> str | int:
    """Return the length of an axis: a number, or a label."""
    label = axes[_index(axis, len(axes))]
    return width if label == FEATURES and width is not None else label


def rearranged(name: str, arguments: Sequence[object], axes: Axes, width: int | None) -> Axes:
    """Return the axes after an arrangement, whose ``arguments`` are those of PyTorch.

    Raises:
        Unclear: It is not supported.
    """
    try:
        return _ARRANGEMENTS[name](axes, width, *arguments)
    except TypeError as error:  # unsupported arguments
        raise Unclear(str(error)) from error


def _index(axis: object, rank: int) -> int:
    if not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
        raise Unclear(f"axis {axis} of {rank}")
    return int(axis) % rank


def _indices(axes: object, rank: int) -> list[int]:
    return [_index(axis, rank) for axis in (axes if isinstance(axes, (list, tuple)) else [axes])]


def _is_single(label: str | int, width: int | None) -> bool:
    return label == 1 or (label == FEATURES and width == 1)


def _unsqueeze(axes: Axes, width: int | None, at: object) -> Axes:
    rank = len(axes) + (len(at) if isinstance(at, (list, tuple)) else 1)
    new = _indices(at, rank)
    rest = iter(axes)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def _squeeze(axes: Axes, width: int | None, at: object = None) -> Axes:
    if at is None:
        return tuple(label for label in axes if not _is_single(label, width))
    gone = _indices(at, len(axes))
    if not all(_is_single(axes[i], width) for i in gone):
        raise Unclear("an axis of several entries")
    return tuple(label for i, label in enumerate(axes) if i not in gone)


def _permute(axes: Axes, width: int | None, order: object) -> Axes:
    places = _indices(order, len(axes))
    if sorted(places) != list(range(len(axes))):
        raise Unclear(f"order {order}")
    return tuple(axes[i] for i in places)


def _transpose(axes: Axes, width: int | None, first: object, second: object) -> Axes:
    places = list(range(len(axes)))
    i, j = _index(first, len(axes)), _index(second, len(axes))
    places[i], places[j] = j, i
    return _permute(axes, width, places)


def _flatten(axes: Axes, width: int | None, start: object = 0, end: object = -1) -> Axes:
    first, last = _index(start, len(axes)), _index(end, len(axes))
    return (*axes[:first], _merged(axes[first : last + 1], width), *axes[last + 1 :])


def _flatten_in_two(axes: Axes, width: int | None, at: object) -> Axes:
    """Merge the axes before ``at`` into one, and the others into a second one, as ONNX does."""
    split = len(axes) if at == len(axes) else _index(at, len(axes))
    return _merged(axes[:split], width), _merged(axes[split:], width)


def _merged(axes: Axes, width: int | None) -> str | int:
    many = [label for label in axes if not _is_single(label, width)]
    if len(many) > 1:
        raise Unclear("several axes become one")
    return many[0] if many else FEATURES if FEATURES in axes else 1


def _reshape(axes: Axes, width: int | None, shape: Sequence[object], zero_keeps: bool = False) -> Axes:
    many = [label for label in axes if not _is_single(label, width)]
    result: list[str | int] = []
    for i, length in enumerate(shape):
        if length == 0 and zero_keeps and i < len(axes):
            result.append(axes[i])
        elif length in (1, _REST, BATCH, FEATURES, EITHER):
            result.append(length)
        elif length == width:
            result.append(FEATURES)
        else:
            raise Unclear(f"a length of {length}")
    missing = [label for label in many if label not in result]
    if result.count(_REST) > 1 or len(missing) > 1:
        raise Unclear("several axes become one")
    result = [(missing[0] if missing else 1) if label == _REST else label for label in result]
    if [label for label in result if not _is_single(label, width)] != many:
        raise Unclear("axes in another order")
    return tuple(result)


def _select(axes: Axes, width: int | None, axis: object, index: object) -> Axes:
    i = _index(axis, len(axes))
    if not _is_single(axes[i], width) or index not in (0, -1):
        raise Unclear("an entry of several")
    return axes[:i] + axes[i + 1 :]


def _slice(
    axes: Axes, width: int | None, axis: object = 0, start: object = None, end: Any = None, step: object = 1
) -> Axes:
    label = axes[_index(axis, len(axes))]
    length = width if label == FEATURES else label
    reaches_end = end is None or end >= 2**31 - 1 or (isinstance(length, int) and end >= length)
    from_start = start in (None, 0) or (_is_single(label, width) and start == -1)
    if not from_start or not reaches_end or step != 1:
        raise Unclear("a part of an axis")
    return axes


_ARRANGEMENTS: dict[str, Callable[..., Axes]] = {
    "same": lambda axes, width, *unused: axes,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "permute": _permute,
    "transpose": _transpose,
    "t": lambda axes, width: axes[::-1],
    "flatten": _flatten,
    "flatten_in_two": _flatten_in_two,
    "reshape": _reshape,
    "select": _select,
    "slice": _slice,
}

ARRANGEMENTS = frozenset(_ARRANGEMENTS)
