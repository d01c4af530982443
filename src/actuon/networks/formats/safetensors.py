# SPDX-License-Identifier: Apache-2.0
"""The safetensors format: a length, a JSON header, and raw tensors. Every size is checked before reading.

A network is stored as weights by name. The entry ``layout`` of the metadata holds its kind and activations.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsFloat, TypeGuard

import numpy as np

from ...errors import ActuonError, ParameterError
from ..activations import Activation, FloatArray
from ..inputs import whole_number
from ..network import Dense, Network, Recurrent, check_network

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16}
_LARGEST_HEADER = 16 * 1024 * 1024
_RECURRENT = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, str], int]:
    """Return the entries of the tensors, the metadata, and the offset of the data."""
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


def read_tensors(path: Path) -> dict[str, FloatArray]:
    """Return all tensors as float64."""
    header, _, start = read_header(path)
    available = path.stat().st_size - start
    tensors: dict[str, FloatArray] = {}
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


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and len(value) <= 8 and all(type(n) is int and 0 <= n < 2**40 for n in value)


def tensor_content(tensors: dict[str, FloatArray], metadata: dict[str, str]) -> bytes:
    """Return a file of float32 tensors and string metadata."""
    header: dict[str, Any] = {"__metadata__": metadata}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        blob = np.ascontiguousarray(tensor, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def read(path: Path, metadata: Mapping[str, Any]) -> Network:
    """Build a network from named tensors and the ``layout`` entry that `save_network` writes."""
    layout = metadata.get("layout")
    if layout is None:
        raise ParameterError(
            f"'{path}': its metadata has no 'layout', and safetensors holds weights only; write it with save_network"
        )
    tensors = read_tensors(path)
    try:
        recurrent = tuple(
            Recurrent(*(tensors[f"recurrent.{i}.{name}"] for name in _RECURRENT))
            for i in range(whole_number("layout.recurrent", layout["recurrent"], least=0))
        )
        dense = tuple(
            Dense(tensors[f"dense.{i}.weight"], tensors[f"dense.{i}.bias"], _from_layout(*entry))
            for i, entry in enumerate(layout["activations"])
        )
        network = Network(str(layout["kind"]), dense, recurrent)
        check_network(network)
        return network
    except ActuonError as error:
        raise ParameterError(f"'{path}': {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise ParameterError(f"'{path}': its tensors do not fit its layout {layout}: {error!r}") from error


def content(network: Network, metadata: Mapping[str, Any]) -> bytes:
    """Return a network as a file, with its metadata and layout as one JSON entry."""
    tensors: dict[str, FloatArray] = {}
    for i, layer in enumerate(network.recurrent):
        tensors |= {f"recurrent.{i}.{name}": getattr(layer, name) for name in _RECURRENT}
    for i, dense in enumerate(network.dense):
        tensors |= {f"dense.{i}.weight": dense.weight, f"dense.{i}.bias": dense.bias}
    activations = [_to_layout(dense.activation) for dense in network.dense]
    layout = {"kind": network.kind, "recurrent": len(network.recurrent), "activations": activations}
    return tensor_content(tensors, {"metadata": json.dumps({**metadata, "layout": layout})})


def _to_layout(activation: Activation) -> list[Any]:
    if activation.name != "clamp":
        return [activation.name, activation.parameter]
    return ["clamp", *(x if math.isfinite(x) else None for x in (activation.parameter, activation.upper))]


def _from_layout(name: object, parameter: SupportsFloat, *upper: SupportsFloat) -> Activation:
    if name != "clamp":
        return Activation(str(name), float(parameter))
    (high,) = upper
    low = -math.inf if parameter is None else float(parameter)
    return Activation("clamp", low, math.inf if high is None else float(high))
