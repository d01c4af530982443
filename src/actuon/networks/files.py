# SPDX-License-Identifier: Apache-2.0
"""Network files of any supported format: their metadata, their weights, and how to write them."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ActuonError, ParameterError, located
from ..typing import PathLike
from .formats import onnx as onnx_files, safetensors as safetensors_files, torch as torch_files
from .inputs import InputSpec, check_entries, check_metadata
from .network import Network, NotRecognised, check_network

if TYPE_CHECKING:
    import torch

TORCH_FORMATS = (".pt", ".pt2")
FORMATS = (*TORCH_FORMATS, ".onnx", ".safetensors")
_MOST_REMEMBERED = 16
"""Number of files in the cache: a robot has a handful, which all of its joints read."""


@dataclass(frozen=True)
class Loaded:
    """Content of a network file: a recognised network, or a PyTorch module that only PyTorch can run."""

    metadata: Mapping[str, Any]
    network: Network | None
    module: torch.nn.Module = None
    reason: str = ""
    """Why the network was not recognised."""


def _checked_path(path: PathLike) -> tuple[Path, bytes]:
    """Return the path of a network file that exists and has a known format, and a digest of its content.

    Both are the key of the cache, so that an overwritten file is read again.
    """
    path = as_path(path)
    if path.suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise ParameterError(f"network file '{path}' has the format '{path.suffix}'; must be one of {known}")
    if not os.path.isfile(path):
        problem = "is a folder" if os.path.isdir(path) else "does not exist"
        raise ParameterError(f"network file '{path}' {problem}")
    try:
        with path.open("rb") as file:
            return path, hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ParameterError(f"network file '{path}' cannot be read: {error.strerror}") from error


def as_path(path: PathLike) -> Path:
    """Return the path of a network file, or raise if it is not a path."""
    try:
        if path != "":
            return Path(path)
    except TypeError as error:
        raise ParameterError(f"network file: got {path!r}; must be a path to a file") from error
    raise ParameterError("network file: got ''; must be a path to a file")


def load_metadata(path: PathLike) -> dict[str, Any]:
    """Read only the metadata of a network file, without its weights. Needs no PyTorch.

    Args:
        path: A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file.

    Returns:
        The entries by name, possibly none. ``torque_scale`` is returned as ``effort_scale``, ``sample_dt_s`` as
        ``sample_dt``.

    Raises:
        ParameterError: An entry is unknown, or has a value that is not allowed.

    Examples:
        >>> import torch
        >>> actuon.save_network(torch.nn.Linear(2, 1), "motor.pt", effort_scale=20.0)
        >>> actuon.load_metadata("motor.pt")
        {'effort_scale': 20.0, 'model_type': 'mlp'}
    """
    return copy.deepcopy(_read_metadata(*_checked_path(path)))


@functools.lru_cache(_MOST_REMEMBERED)
def _read_metadata(path: Path, digest: bytes) -> dict[str, Any]:
    if path.suffix in TORCH_FORMATS:
        found = torch_files.read_metadata(path)
    elif path.suffix == ".onnx":
        found = onnx_files.properties(onnx_files.load(path))
    else:
        found = safetensors_files.read_header(path)[1]
    return check_metadata(path, found, ("layout",) if path.suffix == ".safetensors" else ())


def load_network(path: PathLike) -> Loaded:
    """Read a network file. PyTorch loads ``.pt`` and ``.pt2``, which can execute code: call this on trusted files only.

    A module that was not recognised is a new object for each call, since modules move between devices and hold state.
    """
    path, digest = _checked_path(path)
    loaded = _read_network(path, digest)
    return loaded if loaded.network is not None else replace(loaded, module=_load_torch(path)[0])


@functools.lru_cache(_MOST_REMEMBERED)
def _read_network(path: Path, digest: bytes) -> Loaded:
    metadata = _read_metadata(path, digest)
    try:
        if path.suffix in TORCH_FORMATS:
            return _read_torch(path, metadata)
        if path.suffix == ".onnx":
            network = onnx_files.read(onnx_files.load(path), path, metadata)
            with located(f"'{path}'"):
                check_network(network)
        else:
            network = safetensors_files.read(path, metadata)
        with located(f"'{path}'"):
            _check_sizes(network, metadata)
        return Loaded(metadata, network)
    except NotRecognised as error:
        raise ParameterError(
            f"'{path}' cannot be run: {error}. Save it as .pt or .pt2, which PyTorch can run"
        ) from error
    except ActuonError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise ParameterError(f"'{path}' cannot be read: {error!r}") from error


def _read_torch(path: Path, metadata: Mapping[str, object]) -> Loaded:
    module, read = _load_torch(path)
    try:
        network = read()
        with located(f"'{path}'"):
            check_network(network)
        torch_files.verify(module, network)
        with located(f"'{path}'"):
            _check_sizes(network, metadata)
        return Loaded(metadata, network)
    except NotRecognised as error:
        return Loaded(metadata, None, reason=str(error))


def _load_torch(path: Path) -> tuple[Any, Callable[[], Network]]:
    """Return a PyTorch module, and a function that recognises it by its graph."""
    loaded = torch_files.load_module(path)
    if path.suffix == ".pt2":
        return loaded.module(), functools.partial(torch_files.read_export, loaded)
    return loaded, functools.partial(torch_files.read_script, loaded)


def _check_sizes(network: Network, metadata: Mapping[str, object]) -> None:
    """Raise if the sizes of recurrent layers in the metadata are wrong."""
    sizes = {
        "num_layers": len(network.recurrent),
        "hidden_size": network.recurrent[0].hidden if network.recurrent else 0,
    }
    for key, found in sizes.items():
        if metadata.get(key, found) != found:
            raise ParameterError(f"{key}: got {metadata[key]}; the file holds {found} ({network.kind})")


def save_network(module: torch.nn.Module, path: PathLike, **metadata: Any) -> None:
    """Write a PyTorch module as a network file, with its input convention as metadata.

    Args:
        module: Trained module: an MLP of ``(N, inputs)``, or an LSTM or GRU of ``(N, 1, inputs)`` and its state.
        path: File to write. Its ending selects the format: ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors``.
        metadata: ``model_type`` (default: that of the module), ``input_order``, ``input_idx``, ``pos_scale``,
            ``vel_scale``, ``effort_scale`` (or ``torque_scale``), ``sample_dt`` (or ``sample_dt_s``),
            ``input_columns``, ``custom_inputs``, ``normalization``, ``input_range`` (of each column in the training
            data), and ``notes`` of any kind that JSON can hold.

    Examples:
        >>> import torch
        >>> actuon.save_network(torch.nn.Linear(2, 1), "motor.onnx", sample_dt=0.005)
        >>> actuon.load_metadata("motor.onnx")["sample_dt"]
        0.005
    """
    path = as_path(path)
    if path.suffix not in FORMATS:
        raise ParameterError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(FORMATS)}")
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        problem = "it is a folder" if os.path.isdir(path) else f"the folder '{path.parent}' does not exist"
        raise ParameterError(f"'{path}' cannot be written: {problem}; name a file in a folder that exists")
    metadata = check_entries("save_network", metadata)
    columns = len(InputSpec.from_metadata("save_network", metadata).columns)
    script = torch_files.as_script(module, len(metadata.get("input_idx", ())) * columns or None)
    try:
        network: Network | None = _recognised(script)
    except NotRecognised as error:
        if path.suffix not in TORCH_FORMATS:
            raise ParameterError(f"save_network: {error}; write such a module as .pt") from error
        network = None
    if network is not None:
        _check_convention(network, columns, metadata)
        metadata.setdefault("model_type", network.kind)
    try:
        text = json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"save_network: metadata that JSON cannot hold: {error}") from error
    if path.suffix == ".pt":
        content = torch_files.script_content(script, text)
    elif path.suffix == ".pt2":
        content = torch_files.export_content(module, network, text)
    else:
        assert network is not None
        is_onnx = path.suffix == ".onnx"
        content = onnx_files.content(network, text) if is_onnx else safetensors_files.content(network, metadata)
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"'{path}' cannot be written: {getattr(error, 'strerror', None) or error}; name a file in a writable folder"
        ) from error


def _recognised(script: torch.nn.Module) -> Network:
    network = torch_files.read_script(script)
    check_network(network)
    torch_files.verify(script, network)
    return network


def _check_convention(network: Network, columns: int, metadata: dict[str, Any]) -> None:
    """Raise if the metadata does not fit the network."""
    named = metadata.get("model_type", network.kind)
    if named != network.kind:
        raise ParameterError(f"save_network: model_type: got '{named}'; the module is of type '{network.kind}'")
    steps = metadata.get("input_idx")
    if network.kind == "mlp" and steps is not None and columns * len(steps) != network.inputs:
        raise ParameterError(f"save_network: input_idx: got {len(steps)} steps; the module has {network.inputs} inputs")
