# SPDX-License-Identifier: Apache-2.0
"""How components are called and shown."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import warp as wp

from ..declare.config import Config


def is_device_array(value: Any) -> bool:
    """Whether ``value`` is an array to share, and not a number or NumPy data to copy."""
    if isinstance(value, wp.array):
        return True
    plain = isinstance(value, (np.ndarray, np.generic))
    return not plain and hasattr(value, "__dlpack__") and getattr(value, "ndim", None) != 0


def shown(value: Any) -> str:
    """A parameter in few words: one number where all DOFs have the same."""
    if value is None:
        return "None"
    numbers = np.atleast_1d(value.numpy() if isinstance(value, wp.array) else value)
    if numbers.size and (numbers == numbers.flat[0]).all():
        return str(numbers.flat[0])
    few = ", ".join(map(str, numbers[:3]))
    return f"[{few}]" if numbers.size <= 3 else f"[{few}, … {numbers.size} values]"


def signature(config: type[Config] | None) -> inspect.Signature:
    parameters = []
    for field in dataclasses.fields(config) if config is not None else ():
        declared = config.declared()[field.name]  # type: ignore[union-attr]
        default = None if declared.optional else field.default
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        parameters.append(inspect.Parameter(field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)
