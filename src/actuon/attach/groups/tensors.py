# SPDX-License-Identifier: Apache-2.0
"""Tensors of groups: of PyTorch if it is loaded, otherwise of Warp or NumPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import warp as wp


def warp_device(device: Any) -> Any:
    """Return the name of a device in Warp; PyTorch's ``cuda`` is Warp's ``cuda:0``."""
    text = str(device) if device is not None else None
    if text is not None and text.startswith("cuda") and ":" not in text:
        return "cuda:0"
    return text if text is not None and not isinstance(device, wp.Device) else device


def to_numpy(tensor: Any) -> np.ndarray:
    """Return ``tensor`` as NumPy, without a copy on the CPU."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)


def like(tensor: Any, model: Any) -> Any:
    """Return ``tensor`` as an array of the framework of ``model``."""
    return tensor if hasattr(model, "detach") or isinstance(model, wp.array) else to_numpy(tensor)


def viewed(array: wp.array, shape: tuple[int, int]) -> Any:
    """Return an array's memory as a tensor of ``shape``: of PyTorch if it is loaded, else of NumPy."""
    return wp.to_torch(array).view(shape) if "torch" in sys.modules else array.numpy().reshape(shape)


def copied_columns(array: wp.array, columns: np.ndarray) -> Any:
    """Return a copy of columns of an array of shape (N, D): of PyTorch if it is loaded, else of NumPy."""
    return wp.to_torch(array)[:, columns] if "torch" in sys.modules else array.numpy()[:, columns]
