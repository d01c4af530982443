# SPDX-License-Identifier: Apache-2.0
"""PyTorch's files, TorchScript ``.pt`` and exported ``.pt2``: loaded, written, compared with what was recognised."""

from __future__ import annotations

import copy
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import MissingExtraError, ParameterError
from ..activations import evaluate
from ..model import Network, NotRecognised


def import_torch(purpose: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "torch", purpose) from error
    return torch


def check_is_no_pickle(path: Path) -> None:
    """Refuse a pickled checkpoint: loading one runs whatever code its author put in."""
    try:
        names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else None
    except Exception as error:  # a damaged directory fails in many ways
        raise ParameterError(f"'{path}' is a damaged zip archive: {error!r}") from error
    if names is None:
        raise ParameterError(
            f"'{path}' is not a zip archive: a truncated file, or an old pickled checkpoint, which would run code. "
            "Save the module as TorchScript, .pt2, .onnx or .safetensors, e.g. with actuon.save_network(module, path)"
        )
    inside = [name.partition("/")[2] for name in names]
    is_script = any(name.startswith("code/") for name in inside)
    is_export = any(name.endswith((".json", "archive_format")) and not name.startswith("extra/") for name in inside)
    if not (is_script or is_export):
        raise ParameterError(
            f"'{path}' is a pickled checkpoint (torch.save), which would run code on loading; it is refused. "
            "Load it yourself where you trust it, then write it with actuon.save_network(module, path)"
        )


def load_module(path: Path) -> tuple[Any, str]:
    """Load a TorchScript or exported module onto the CPU. Returns it and ``"script"`` or ``"export"``."""
    torch = import_torch(f"reading '{path.name}'")
    check_is_no_pickle(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix == ".pt2":
                return torch.export.load(str(path)), "export"
            return torch.jit.load(str(path), map_location="cpu").eval(), "script"
    except Exception as error:
        raise ParameterError(f"'{path}' cannot be loaded: {_first_line(error)}") from error


def script_content(script: Any, metadata: str) -> bytes:
    """A module as a TorchScript file, with its metadata as an extra file."""
    torch = import_torch("writing a network")
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(script, file, _extra_files={"metadata.json": metadata})
    return file.getvalue()


def as_script(module: Any, features: int | None) -> Any:
    """Return a module as TorchScript: scripted, or traced where it cannot be scripted."""
    torch = import_torch("writing a network")
    if not isinstance(module, torch.nn.Module):
        raise ParameterError(f"save_network: got a {type(module).__name__}; must be a torch.nn.Module")
    module = copy.deepcopy(module).cpu().eval()
    if isinstance(module, torch.jit.ScriptModule):
        return module
    name = type(module).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.jit.script(module)
        except Exception as error:
            problem = f"save_network: {name} cannot be scripted ({_first_line(error)})"
            if features is None:
                raise ParameterError(f"{problem}; give input_idx, so that it can be traced") from error
        warnings.simplefilter("error", torch.jit.TracerWarning)
        try:
            return torch.jit.trace(module, torch.zeros(3, features))
        except Exception as error:  # what Python decides by the input would be lost in a trace
            raise ParameterError(f"{problem} nor traced ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]


def export_content(module: Any, network: Network | None, metadata: str) -> bytes:
    """A module as a file of ``torch.export``, with its metadata as an extra file."""
    torch = import_torch("writing a network")
    if isinstance(module, torch.jit.ScriptModule) or network is None:
        raise ParameterError("save_network: a .pt2 file needs a recognised torch.nn.Module; write a .pt file instead")
    batch = torch.export.Dim("batch", min=1)
    if network.kind == "mlp":
        example: tuple[Any, ...] = (torch.zeros(2, network.inputs),)
        shapes: Any = ({0: batch},)
    else:
        hidden = torch.zeros(len(network.recurrent), 2, network.recurrent[0].hidden)
        state = (hidden, hidden.clone()) if network.kind == "lstm" else hidden
        example = (torch.zeros(2, 1, network.inputs), state)
        shapes = ({0: batch}, ({1: batch}, {1: batch}) if network.kind == "lstm" else {1: batch})
    module = copy.deepcopy(module).cpu().eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(module, example, dynamic_shapes=shapes, strict=False)
        except Exception as error:
            problem = f"{type(module).__name__} cannot be exported ({_first_line(error)})"
            raise ParameterError(f"save_network: {problem}; write a .pt file instead") from error
        torch.export.save(exported, file, extra_files={"metadata.json": metadata})
    return file.getvalue()


def call_recurrent(module: Any, x: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Call a recurrent module in the usual way: ``(N, 1, inputs)`` and its state in, effort and new state out."""
    effort, after = module(x, state if len(state) > 1 else state[0])
    return effort, tuple(after) if len(state) > 1 else (after,)


def verify(module: Any, network: Network) -> None:
    """Compare a recognised network with its module on random inputs, small and large.

    Raises:
        NotRecognised: They differ, so something on the way was misread.
    """
    rng = np.random.default_rng(0)
    for batch in (5, 1):
        scale = np.array([0.1, 1.0, 10.0, 100.0, 1.0])[:batch, None]
        x = rng.standard_normal((batch, network.inputs)) * scale
        shape = (len(network.recurrent), batch, network.recurrent[0].hidden if network.recurrent else 0)
        state = [rng.standard_normal(shape) for _ in range({"mlp": 0, "lstm": 2, "gru": 1}[network.kind])]
        found = _called(module, network.kind, x, state)
        if found is None:  # exported for another batch size
            continue
        got, state = found
        expected = reference(network, x, state)
        within = 1e-3 * np.abs(expected).max() + 1e-3 * np.abs(expected)
        if got.shape != expected.shape or not (np.abs(got - expected) <= within).all():
            raise NotRecognised("its layers were found, but together they compute something else")
        return
    if network.kind == "mlp":
        raise NotRecognised("it cannot be called with one array of inputs")


def _called(
    module: Any, kind: str, x: np.ndarray, state: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Call a module in its precision and in whichever convention it takes: state together, apart, or left out.

    Returns the effort, shape (N,), and the state that it started from; None where it cannot be called.
    """
    torch = import_torch("reading a network")
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    tensors = [torch.tensor(array, dtype=dtype) for array in (x if kind == "mlp" else x[:, None], *state)]
    together = tuple(tensors[1:]) if kind == "lstm" else tensors[-1]
    calls = [((tensors[0], together), state), (tensors, state), (tensors[:1], [np.zeros_like(s) for s in state])]
    for arguments, start in calls if kind != "mlp" else calls[-1:]:
        try:
            with torch.inference_mode():
                result = module(*arguments)
        except Exception:  # not this convention
            continue
        effort = result[0] if isinstance(result, tuple) else result
        return effort.reshape(-1).double().numpy(), start
    return None


def reference(network: Network, x: np.ndarray, state: list[np.ndarray] | None = None) -> np.ndarray:
    """Evaluate a network in float64, shape (N, features) to (N,)."""

    def sigmoid(z: np.ndarray) -> np.ndarray:
        return 0.5 * (1.0 + np.tanh(0.5 * z))

    for i, layer in enumerate(network.recurrent):
        h = state[0][i]  # type: ignore[index]
        left, right = x @ layer.weight_ih.T + layer.bias_ih, h @ layer.weight_hh.T + layer.bias_hh
        if network.kind == "lstm":
            gate_i, gate_f, gate_g, gate_o = np.split(left + right, 4, axis=1)
            cell = sigmoid(gate_f) * state[1][i] + sigmoid(gate_i) * np.tanh(gate_g)  # type: ignore[index]
            x = sigmoid(gate_o) * np.tanh(cell)
        else:
            (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(left, 3, axis=1), np.split(right, 3, axis=1)
            update = sigmoid(z_x + z_h)
            x = (1.0 - update) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + update * h
    for dense in network.dense:
        x = evaluate(dense.activation, x @ dense.weight.T + dense.bias)
    return x[:, 0]
