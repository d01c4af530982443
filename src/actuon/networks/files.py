# SPDX-License-Identifier: Apache-2.0
"""Network files of any supported format: their metadata, their weights, and how to write them."""

from __future__ import annotations

import json
import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ActuonError, MissingExtraError, ParameterError
from ..typing import PathLike
from .checks import check_network
from .feeding import feeding
from .formats import onnx as onnx_files, safetensors as safetensors_files, torch as torch_files, torch_graphs
from .metadata import checked_entries, checked_metadata, whole_number
from .model import Activation, Dense, Network, NotRecognised, Recurrent
from .reading import read_once

if TYPE_CHECKING:
    import torch

TORCH_FORMATS = (".pt", ".pt2")
FORMATS = (*TORCH_FORMATS, ".onnx", ".safetensors")
_LARGEST_METADATA = 1024 * 1024
_METADATA = ("extra/metadata.json", "extra_files/metadata.json")
"""Where PyTorch puts extra files; the second is how ``torch.export`` did it until 2.7."""


@dataclass
class Loaded:
    """What a file holds: a recognised network, or a PyTorch module that only PyTorch can run, and why."""

    network: Network | None
    module: Any
    reason: str
    metadata: dict[str, Any]


def check_path(path: PathLike) -> Path:
    """Return the path of a network file that exists and has a known format."""
    path = as_path(path)
    if path.suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise ParameterError(f"network file '{path}' has the format '{path.suffix}'; known: {known}")
    if not os.path.isfile(path):
        problem = "is a folder" if os.path.isdir(path) else "does not exist"
        raise ParameterError(f"network file '{path}' {problem}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise ParameterError(f"network file '{path}' cannot be read: {error.strerror}") from error
    return path


def as_path(path: Any) -> Path:
    """Return the path of a network file, which must name one."""
    try:
        if path != "":
            return Path(path)
    except TypeError as error:
        raise ParameterError(f"network file: got {path!r}; must be a path to a file") from error
    raise ParameterError("network file: got ''; must be a path to a file")


@read_once
def load_metadata(path: PathLike) -> dict[str, Any]:
    """Read only the metadata of a network file, without its weights. Needs no PyTorch.

    Args:
        path: A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file.

    Returns:
        The entries by name; empty where the file carries none. ``torque_scale`` is returned as ``effort_scale``,
        ``sample_dt_s`` as ``sample_dt``.

    Raises:
        ParameterError: An entry is not understood, or has a value that is not allowed.
    """
    path = check_path(path)
    if path.suffix in TORCH_FORMATS:
        found = _zip_metadata(path)
    elif path.suffix == ".onnx":
        found = onnx_files.properties(onnx_files.load(path))
    else:
        found = safetensors_files.read_header(path)[1]
    return checked_metadata(path, found, ("layout",) if path.suffix == ".safetensors" else ())


def _zip_metadata(path: Path) -> dict[str, Any]:
    torch_files.check_is_no_pickle(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(_METADATA)]
            if not names:
                return {}
            if archive.getinfo(names[0]).file_size > _LARGEST_METADATA:
                raise ParameterError(f"'{path}': metadata.json has more than {_LARGEST_METADATA} bytes")
            return {"metadata": archive.read(names[0]).decode()}
    except ActuonError:
        raise
    except Exception as error:  # a damaged archive fails in many ways
        raise ParameterError(f"'{path}' cannot be read: {error!r}") from error


@read_once
def load_network(path: PathLike) -> Loaded:
    """Read a network file. PyTorch loads ``.pt`` and ``.pt2``, and trusts them: call this on files that you trust."""
    path = check_path(path)
    metadata = load_metadata(path)
    try:
        return _load(path, metadata)
    except NotRecognised as error:
        raise ParameterError(f"'{path}' cannot be run: {error}. Only PyTorch could, from a .pt or .pt2 file") from error
    except ActuonError as error:
        if str(path) in str(error) or isinstance(error, MissingExtraError):
            raise
        raise ParameterError(f"'{path}': {error}") from error
    except Exception as error:  # a damaged file fails in many ways
        raise ParameterError(f"'{path}' cannot be read: {error!r}") from error


def _load(path: Path, metadata: dict[str, Any]) -> Loaded:
    if path.suffix in (".onnx", ".safetensors"):
        is_onnx = path.suffix == ".onnx"
        network = onnx_files.read(onnx_files.load(path), path, metadata) if is_onnx else _from_tensors(path, metadata)
        check_network(network)
        _check_sizes(network, metadata)
        return Loaded(network, None, "", metadata)
    loaded, kind = torch_files.load_module(path)
    module = loaded if kind == "script" else loaded.module()
    try:
        network = torch_graphs.read_script(loaded) if kind == "script" else torch_graphs.read_export(loaded)
        check_network(network)
        torch_files.verify(module, network)
        _check_sizes(network, metadata)
        return Loaded(network, None, "", metadata)
    except NotRecognised as error:
        return Loaded(None, module, str(error), metadata)


def _check_sizes(network: Network, metadata: dict[str, Any]) -> None:
    """Refuse metadata that speaks of other recurrent layers than there are."""
    sizes = {
        "num_layers": len(network.recurrent),
        "hidden_size": network.recurrent[0].hidden if network.recurrent else 0,
    }
    for key, found in sizes.items():
        if metadata.get(key, found) != found:
            raise ParameterError(f"{key}: got {metadata[key]}; the file holds {found} ({network.kind})")


def save_network(module: torch.nn.Module, path: PathLike, **metadata: Any) -> None:
    """Write a PyTorch module as a network file that carries its own convention.

    Args:
        module: The trained module: an MLP of ``(N, inputs)``, or an LSTM or GRU of ``(N, 1, inputs)`` and its state.
        path: Where to; its ending picks the format: ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors``.
        metadata: ``model_type``, ``input_order``, ``input_idx``, ``pos_scale``, ``vel_scale``, ``effort_scale`` (or
            ``torque_scale``), ``sample_dt`` (or ``sample_dt_s``), ``input_columns``, ``custom_inputs``,
            ``normalization``, ``input_range`` (of each column in what it was trained on), and ``notes`` of any kind
            that JSON can hold. ``model_type`` is found out.
    """
    path = as_path(path)
    if path.suffix not in FORMATS:
        raise ParameterError(f"'{path}': the format '{path.suffix}' is not known; known: {', '.join(FORMATS)}")
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        problem = "it is a folder" if os.path.isdir(path) else f"the folder '{path.parent}' does not exist"
        raise ParameterError(f"'{path}' cannot be written: {problem}; name a file in a folder that exists")
    metadata = checked_entries("save_network", metadata)
    columns = len(feeding("save_network", metadata).columns)
    script = torch_files.as_script(module, len(metadata.get("input_idx", ())) * columns or None)
    network: Network | None
    try:
        network = torch_graphs.read_script(script)
        check_network(network)
        torch_files.verify(script, network)
    except NotRecognised as error:
        if path.suffix not in TORCH_FORMATS:
            raise ParameterError(f"save_network: {error}; such a module can only be written as .pt") from error
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
    elif path.suffix == ".onnx":
        content = onnx_files.content(network, text)  # type: ignore[arg-type]
    else:
        tensors, layout = _to_tensors(network)  # type: ignore[arg-type]
        content = safetensors_files.content(tensors, {"metadata": json.dumps(metadata | {"layout": layout})})
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"'{path}' cannot be written: {getattr(error, 'strerror', None) or error}; name a file in a folder that "
            "exists and may be written to"
        ) from error


def _check_convention(network: Network, columns: int, metadata: dict[str, Any]) -> None:
    """Refuse metadata that does not fit the network."""
    named = metadata.get("model_type", network.kind)
    if named != network.kind:
        raise ParameterError(f"save_network: model_type: got '{named}'; the module is of type '{network.kind}'")
    steps = metadata.get("input_idx")
    if network.kind == "mlp" and steps is not None and columns * len(steps) != network.inputs:
        raise ParameterError(f"save_network: input_idx: got {len(steps)} steps; the module has {network.inputs} inputs")


def _to_tensors(network: Network) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Weights by name, and what the names alone do not say."""
    tensors: dict[str, np.ndarray] = {}
    for i, layer in enumerate(network.recurrent):
        tensors |= {f"recurrent.{i}.{name}": value for name, value in vars(layer).items()}
    for i, dense in enumerate(network.dense):
        tensors |= {f"dense.{i}.weight": dense.weight, f"dense.{i}.bias": dense.bias}
    activations = [_to_layout(dense.activation) for dense in network.dense]
    return tensors, {"kind": network.kind, "recurrent": len(network.recurrent), "activations": activations}


def _to_layout(activation: Activation) -> list[Any]:
    if activation.name != "clamp":
        return [activation.name, activation.parameter]
    return ["clamp", *(x if math.isfinite(x) else None for x in (activation.parameter, activation.upper))]


def _from_layout(name: Any, parameter: Any, *upper: Any) -> Activation:
    if name != "clamp":
        return Activation(str(name), float(parameter))
    (high,) = upper
    return Activation(
        "clamp", *(unbounded if x is None else float(x) for x, unbounded in ((parameter, -math.inf), (high, math.inf)))
    )


def _from_tensors(path: Path, metadata: dict[str, Any]) -> Network:
    """Build a network from named tensors and the ``layout`` entry that `save_network` writes."""
    layout = metadata.get("layout")
    if layout is None:
        raise ParameterError(
            f"'{path}': safetensors holds weights only; its metadata must have a 'layout', as save_network writes it"
        )
    tensors = safetensors_files.read_tensors(path)
    try:
        recurrent = tuple(
            Recurrent(*(tensors[f"recurrent.{i}.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
            for i in range(whole_number("layout.recurrent", layout["recurrent"], least=0))
        )
        dense = tuple(
            Dense(tensors[f"dense.{i}.weight"], tensors[f"dense.{i}.bias"], _from_layout(*entry))
            for i, entry in enumerate(layout["activations"])
        )
        network = Network(str(layout["kind"]), dense, recurrent)
        check_network(network)
        return network
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        if isinstance(error, ActuonError):
            raise ParameterError(f"'{path}': {error}") from error
        raise ParameterError(f"'{path}': its tensors do not fit its layout {layout}: {error!r}") from error
