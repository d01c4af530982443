# SPDX-License-Identifier: Apache-2.0
"""The safetensors format: a length, a JSON header, and raw tensors. Read as data, every size checked first."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ParameterError

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16}
_LARGEST_HEADER = 16 * 1024 * 1024


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, str], int]:
    """Return the tensors' entries, the metadata, and where the data starts."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise ParameterError(
                f"'{path}' is not a valid safetensors file: its header would take {length} of {size} bytes"
            )
        text = file.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"'{path}': the safetensors header is not valid JSON: {error}") from error
    if not isinstance(header, dict) or not all(isinstance(entry, dict) for entry in header.values()):
        raise ParameterError(f"'{path}': the safetensors header must be a JSON object of objects")
    return header, header.pop("__metadata__", {}), 8 + length


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return all tensors as float64."""
    header, _, start = read_header(path)
    available = path.stat().st_size - start
    tensors: dict[str, np.ndarray] = {}
    taken = 0
    with path.open("rb") as file:
        for name, entry in header.items():
            dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
            if not isinstance(dtype, str) or dtype not in _DTYPES:
                raise ParameterError(f"'{path}': tensor '{name}' has dtype {dtype!r}; known: {', '.join(_DTYPES)}")
            if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
                raise ParameterError(f"'{path}': tensor '{name}' has a malformed entry {entry}")
            first, last = offsets
            if last > available or last - first != math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize:
                raise ParameterError(f"'{path}': tensor '{name}' of shape {shape} does not fit its bytes {offsets}")
            taken += last - first
            if taken > available:
                raise ParameterError(f"'{path}': its tensors overlap: they claim {taken} of {available} bytes")
            file.seek(start + first)
            tensors[name] = np.frombuffer(file.read(last - first), _DTYPES[dtype]).reshape(shape).astype(np.float64)
    return tensors


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(type(n) is int and 0 <= n < 2**40 for n in value)


def content(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """A file of float32 tensors and string metadata."""
    header: dict[str, Any] = {"__metadata__": metadata}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        blob = np.ascontiguousarray(tensor, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)
