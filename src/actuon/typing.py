# SPDX-License-Identifier: Apache-2.0
"""Types for annotations of arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt
import warp as wp

if TYPE_CHECKING:
    import torch

    Tensor: TypeAlias = torch.Tensor | np.ndarray
    """An array that groups return: a PyTorch tensor if PyTorch is imported, otherwise a NumPy array."""
else:
    Tensor = Any


class DLPackArray(Protocol):
    """An array that other frameworks can share, such as a PyTorch tensor."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the array as a DLPack capsule."""


Array: TypeAlias = wp.array | np.ndarray | DLPackArray
"""An array of any framework."""
ArrayLike: TypeAlias = Array | npt.ArrayLike
"""Numbers: one, a list, or an array of any framework."""
IndexLike: TypeAlias = Sequence[SupportsIndex] | Array
"""Whole numbers: a list or range, or an array of any framework."""
IdsLike: TypeAlias = SupportsIndex | IndexLike | slice | None
"""Indices of robots, DOFs or environments: whole numbers, a slice, or a mask of booleans. None means all."""
DeviceLike: TypeAlias = wp.Device | str | None
"""A Warp device or its name, such as ``"cuda:0"``. None means Warp's current device."""
PathLike: TypeAlias = str | os.PathLike[str]
"""Path of a file."""
