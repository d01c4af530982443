# SPDX-License-Identifier: Apache-2.0
"""PyTorch's files, TorchScript ``.pt`` and exported ``.pt2``, read as a graph of operations."""

from __future__ import annotations

import copy
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingExtraError, ParameterError
from .model import Network
from .recognise import NotRecognised, Op, Ref, evaluate, recognise, recurrent_layers

# aten name → our name. Trailing underscores (in place) are dropped first.
_ELEMENTWISE = {
    name: name
    for name in [
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "neg",
        "abs",
        "exp",
        "log",
        "log1p",
        "sqrt",
        "pow",
        "reciprocal",
        "erf",
        "tanh",
        "sigmoid",
        "relu",
        "leaky_relu",
        "elu",
        "selu",
        "gelu",
        "silu",
        "softplus",
        "softsign",
        "maximum",
        "minimum",
        "clamp",
        "gt",
        "ge",
        "lt",
        "le",
        "where",
    ]
} | {"clamp_min": "maximum", "clamp_max": "minimum", "hardtanh": "clamp", "relu6": "relu6"}
_SHAPE = {
    "view",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "contiguous",
    "clone",
    "detach",
    "dropout",
    "to",
    "expand",
    "select",
    "slice",
    "permute",
    "transpose",
    "t",
    "alias",
    "_to_copy",
    "type_as",
    "float",
    "identity",
}


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
            f"'{path}' is no zip archive: a truncated file, or an old pickled checkpoint, which would run code. "
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
        raise ParameterError(
            f"'{path}' cannot be loaded: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error


def read_script(module: Any) -> Network:
    """Recognise a TorchScript module by its graph."""
    torch = import_torch("reading a TorchScript module")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.freeze(module).graph.copy()
        torch._C._jit_pass_inline(graph)
    reader = _ScriptReader(any(f"aten::{kind}(" in str(graph) for kind in ("lstm", "gru")))
    reader.read_block(graph)
    inputs = [value.debugName() for value in graph.inputs()][1:]
    (output,) = (value.debugName() for value in graph.outputs())
    result = reader.known.get(output, Ref(output))
    while isinstance(result, list):
        result = result[0]
    if not isinstance(result, Ref):
        raise NotRecognised("the output does not depend on the input")
    return recognise(reader.ops, inputs[0], result.name)


class _ScriptReader:
    """Reads the nodes of a TorchScript graph, taking the branches that a call in the usual convention takes."""

    def __init__(self, is_recurrent: bool):
        self.ops: list[Op] = []
        self.known: dict[str, Any] = {}
        self._views: set[str] = set()
        self._dim = 3 if is_recurrent else 2

    def read_block(self, block: Any) -> None:
        for node in block.nodes():
            self._read(node)

    def _value(self, value: Any) -> Any:
        return self.known.get(value.debugName(), Ref(value.debugName()))

    def _read(self, node: Any) -> None:
        outputs = [value.debugName() for value in node.outputs()]
        inputs = [self._value(value) for value in node.inputs()]
        namespace, _, name = node.kind().partition("::")
        first = inputs[0] if inputs else None
        if node.kind() == "prim::Constant":
            self.known[outputs[0]] = _plain(next(node.outputs()).toIValue())
        elif node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
            self.known[outputs[0]] = inputs
        elif node.kind() in ("prim::TupleUnpack", "prim::ListUnpack") and isinstance(first, list):
            self.known.update(zip(outputs, first, strict=True))
        elif node.kind() == "prim::TupleIndex" and isinstance(first, list):
            self.known[outputs[0]] = first[inputs[1]]
        elif node.kind() in ("prim::unchecked_cast", "prim::Uninitialized"):
            self.known[outputs[0]] = first
        elif node.kind() == "prim::If":
            self._branch(node, first, outputs)
        elif name == "dim":
            self.known[outputs[0]] = self._dim
        elif name in _DECIDED and not any(isinstance(value, Ref) for value in inputs):
            self.known[outputs[0]] = _DECIDED[name](*inputs)
        elif outputs and namespace == "aten":
            if name.endswith("_") and not name.endswith("__"):
                self._write_in_place(node, name, inputs, outputs)
            self.ops.append(_aten(name, inputs, outputs))
            if name.rstrip("_") in _VIEWS:
                self._views |= {*outputs, *(value.name for value in inputs[:1] if isinstance(value, Ref))}
        elif outputs:
            self.ops.append(Op(node.kind(), inputs, outputs))

    def _write_in_place(self, node: Any, name: str, inputs: list[Any], outputs: list[str]) -> None:
        """Whoever uses the value that is written over sees the result. Writing through a view is beyond that."""
        target = next(node.inputs()).debugName()
        written = inputs[0].name if isinstance(inputs[0], Ref) else target
        if name.rstrip("_") not in _ELEMENTWISE or {target, written} & self._views:
            raise NotRecognised(f"'aten::{name}' writes in place")
        self.known[target] = self.known[written] = Ref(outputs[0])

    def _branch(self, node: Any, condition: Any, outputs: list[str]) -> None:
        blocks = list(node.blocks())
        if isinstance(condition, Ref):
            going_on = [
                block for block in blocks if "prim::RaiseException" not in str([n.kind() for n in block.nodes()])
            ]
            chosen = going_on[0] if len(going_on) == 1 else None
        else:
            chosen = blocks[0 if condition else 1]
        if chosen is None:
            if outputs:
                self.ops.append(Op("a branch that depends on the input", [condition], outputs))
            return
        self.read_block(chosen)
        self.known.update(zip(outputs, (self._value(value) for value in chosen.outputs()), strict=True))


_VIEWS = frozenset(
    [
        "select",
        "slice",
        "view",
        "reshape",
        "transpose",
        "permute",
        "squeeze",
        "unsqueeze",
        "t",
        "expand",
        "flatten",
        "detach",
        "alias",
    ]
)

_DECIDED: dict[str, Any] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "__not__": lambda x: not x,
    "__is__": lambda x, y: x is y,
    "__isnot__": lambda x, y: x is not y,
    "__contains__": lambda items, x: x in items,
}
"""Questions about shapes and options that have an answer before the network runs."""


def read_export(exported: Any) -> Network:
    """Recognise an exported program by its graph."""
    signature = exported.graph_signature
    stored = dict(exported.state_dict) | dict(exported.constants)
    held = signature.inputs_to_parameters | signature.inputs_to_buffers
    held |= getattr(signature, "inputs_to_lifted_tensor_constants", {})
    ops: list[Op] = []
    constants: dict[str, Any] = {}
    first_input = output = ""

    def value(argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return [value(part) for part in argument]
        if hasattr(argument, "op"):
            return constants.get(argument.name, Ref(argument.name))
        return argument

    for node in exported.graph.nodes:
        if node.op == "placeholder":
            if node.name in held:
                constants[node.name] = _plain(stored[held[node.name]])
            else:
                first_input = first_input or node.name
        elif node.op == "call_function":
            target = getattr(node.target, "__name__", str(node.target))
            name = target.split(".")[0]
            if name == "getitem":
                source, index = node.args
                constants[node.name] = Ref(source.name if index == 0 else f"{source.name}[{index}]")
                continue
            inputs = [value(argument) for argument in node.args]
            outputs = [node.name, *(f"{node.name}[{k}]" for k in (1, 2) if name in ("lstm", "gru"))]
            ops.append(_aten(name, inputs, outputs, {k: value(v) for k, v in node.kwargs.items()}))
        elif node.op == "output":
            results = value(node.args[0])
            mutated = len(signature.buffers_to_mutate)
            output = results[mutated].name
    return recognise(ops, first_input, output)


def _aten(name: str, inputs: list[Any], outputs: list[str], keywords: dict[str, Any] | None = None) -> Op:
    """Translate one aten operation."""
    name = name.rstrip("_")
    keywords = {k: v for k, v in (keywords or {}).items() if v is not None}
    if name in ("lstm", "gru"):
        weights = inputs[2] if isinstance(inputs[2], list) else []
        plain = [w for w in weights if isinstance(w, np.ndarray)]
        bidirectional = bool(inputs[7]) if len(inputs) > 7 else False
        if bidirectional or len(plain) != len(weights):
            return Op(f"{name} (bidirectional, or weights that are not constant)", inputs[:1], outputs)
        layers = recurrent_layers(name, plain, has_biases=bool(inputs[3]))
        return Op(name, inputs[:1], outputs, {"layers": layers})
    if name == "addmm":
        bias, x, weight = inputs[:3]
        return Op("linear", [x, weight, bias], outputs, {"transposed": True})
    if name in ("matmul", "mm"):
        return Op("linear", inputs[:2], outputs, {"transposed": True})
    if name in ("linear",):
        return Op("linear", inputs, outputs)
    if name == "t" or (name in ("transpose", "permute") and isinstance(inputs[0], np.ndarray)):
        return Op("shape", inputs[:1], outputs, {"transpose": True})
    if name == "select" and len(inputs) > 2 and isinstance(inputs[2], int):
        return Op("shape", inputs[:1], outputs, {"index": inputs[2] if inputs[1] == 0 else None})
    if name in _SHAPE:
        same = name in ("contiguous", "clone", "detach", "dropout", "alias", "identity")
        return Op("shape", inputs[:1], outputs, {"same": same})
    if name in _ELEMENTWISE:
        return Op(_ELEMENTWISE[name], inputs, outputs, keywords)
    return Op(f"aten::{name}", inputs, outputs)


def _plain(value: Any) -> Any:
    """Tensors as float64 arrays, everything else as it is."""
    if hasattr(value, "detach"):
        return value.detach().cpu().double().numpy()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def save_script(script: Any, path: Path, metadata: str) -> None:
    torch = import_torch("writing a network")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(script, str(path), _extra_files={"metadata.json": metadata})


def as_script(module: Any, features: int | None) -> Any:
    """Return a module as TorchScript: scripted, or traced where it cannot be scripted."""
    torch = import_torch("writing a network")
    module = copy.deepcopy(module).cpu().eval()
    if isinstance(module, torch.jit.ScriptModule):
        return module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.jit.script(module)
        except Exception as error:
            if features is None:
                raise ParameterError(
                    f"save_network: {type(module).__name__} cannot be scripted ({str(error).splitlines()[0]}); "
                    "give input_idx, so that it can be traced"
                ) from error
            return torch.jit.trace(module, torch.zeros(3, features))


def write_export(module: Any, network: Network | None, path: Path, metadata: str) -> None:
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
        example = (torch.zeros(2, 1, 2), state)
        shapes = ({0: batch}, ({1: batch}, {1: batch}) if network.kind == "lstm" else {1: batch})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(copy.deepcopy(module).cpu().eval(), example, dynamic_shapes=shapes, strict=False)
        torch.export.save(exported, str(path), extra_files={"metadata.json": metadata})


def call_recurrent(module: Any, x: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Call a recurrent module in the usual convention: ``(N, 1, 2)`` and its state in, effort and new state out."""
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
