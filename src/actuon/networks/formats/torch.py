# SPDX-License-Identifier: Apache-2.0
"""Files of PyTorch, TorchScript ``.pt`` and exported ``.pt2``: reading, recognition by graph, writing."""

from __future__ import annotations

import copy
import io
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ActuonError, MissingExtraError, ParameterError
from ..activations import FloatArray, evaluate
from ..axes import BATCH, FEATURES
from ..elementwise import OPERATIONS
from ..network import Network, NotRecognised, recurrent_layers
from ..recognise import Hidden, Op, Recogniser, Ref, Signal, State

if TYPE_CHECKING:
    import torch

RENAMED = {
    "view": "reshape",
    "_unsafe_view": "reshape",
    "contiguous": "same",
    "clone": "same",
    "detach": "same",
    "alias": "same",
    "lift_fresh_copy": "same",
    "float": "same",
    "double": "same",
    "Int": "same",
    "ScalarImplicit": "same",
    "__getitem__": "index",
    "sym_size": "size",
    "repeat": "expand",
    "chunk": "split",
    "unbind": "split",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
}
"""Actuon's names of aten operations, if they differ. Trailing underscores (in place) are dropped first."""
_AS_THEY_ARE = frozenset(
    ["reshape", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "t", "select", "slice", "size", "expand",
     "cat", "stack", "split", "zeros", "zeros_like", "new_zeros", "sqrt", "rsqrt", "log", *OPERATIONS]
)  # fmt: skip
_VIEWS = frozenset(
    ["select", "slice", "view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "t", "expand", "flatten",
     "detach", "alias"]
)  # fmt: skip
_LARGEST_METADATA = 1024 * 1024
_METADATA = ("extra/metadata.json", "extra_files/metadata.json")
"""Folders of extra files in PyTorch's archives; the second is for ``torch.export`` until 2.7."""
_FLOATING = (5, 6, 7, 15)
"""TorchScript's codes of floating-point types with 16, 32 and 64 bits, and bfloat16."""
_KEYWORDS = {"min": "low", "max": "high", "negative_slope": "slope", "min_val": "low", "max_val": "high"}
_DECIDED: dict[str, Any] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "__not__": lambda x: not x,
    "__is__": lambda x, y: x is y,
    "__isnot__": lambda x, y: x is not y,
    "__contains__": lambda items, x: x in items,
}
"""Conditions on shapes and options that are constant."""


def import_torch(purpose: str) -> Any:
    """Import PyTorch, or raise an error with its purpose."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "torch", purpose) from error
    return torch


def check_is_no_pickle(path: Path) -> None:
    """Raise if a file is a pickled checkpoint, which can execute any code when it is loaded."""
    try:
        names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else None
    except Exception as error:  # a damaged directory fails in many ways
        raise ParameterError(f"'{path}' is a damaged zip archive: {error!r}") from error
    if names is None:
        raise ParameterError(
            f"'{path}' is not a zip archive: a truncated file, or an old pickled checkpoint, which can execute code. "
            "Save the module as TorchScript, .pt2, .onnx or .safetensors, e.g. with actuon.save_network(module, path)"
        )
    inside = [name.partition("/")[2] for name in names]
    is_script = any(name.startswith("code/") for name in inside)
    is_export = any(name.endswith((".json", "archive_format")) and not name.startswith("extra/") for name in inside)
    if not (is_script or is_export):
        raise ParameterError(
            f"'{path}' is a pickled checkpoint (torch.save), which can execute code when it is loaded. If you trust "
            "it, load it yourself, then write it with actuon.save_network(module, path)"
        )


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a file without loading it. Raise if it is a pickle."""
    check_is_no_pickle(path)
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


def load_module(path: Path) -> Any:
    """Load a TorchScript module, or from a ``.pt2`` file an exported program, onto the CPU."""
    torch = import_torch(f"reading '{path.name}'")
    check_is_no_pickle(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix == ".pt2":
                return torch.export.load(str(path))
            return torch.jit.load(str(path), map_location="cpu").eval()
    except Exception as error:
        raise ParameterError(f"'{path}' cannot be loaded: {_first_line(error)}") from error


def script_content(script: torch.nn.Module, metadata: str) -> bytes:
    """Return a module as a TorchScript file, with its metadata as an extra file."""
    torch = import_torch("writing a network")
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(script, file, _extra_files={"metadata.json": metadata})
    return file.getvalue()


def as_script(module: torch.nn.Module, features: int | None) -> Any:
    """Return a module as TorchScript: scripted, or traced if it cannot be scripted."""
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
                raise ParameterError(f"{problem}; pass input_idx, so that it can be traced") from error
        warnings.simplefilter("error", torch.jit.TracerWarning)
        try:
            return torch.jit.trace(module, torch.zeros(3, features))
        except Exception as error:  # a trace would lose decisions that depend on the input
            raise ParameterError(f"{problem} nor traced ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]


def export_content(module: torch.nn.Module, network: Network | None, metadata: str) -> bytes:
    """Return a module as a file of ``torch.export``, with its metadata as an extra file."""
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


def call_recurrent(
    module: torch.nn.Module, x: torch.Tensor, state: tuple[torch.Tensor, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Call a recurrent module with ``(N, 1, inputs)`` and its state; return the effort and the new state."""
    effort, after = module(x, state if len(state) > 1 else state[0])
    return effort, tuple(after) if len(state) > 1 else (after,)


def verify(module: torch.nn.Module, network: Network) -> None:
    """Compare a recognised network with its module on random inputs, small and large.

    Raises:
        NotRecognised: They differ, so the graph was misread.
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
            raise NotRecognised("its layers are known, but the module computes something else")
        return
    if network.kind == "mlp":
        raise NotRecognised("it cannot be called with one array of inputs")


def _called(
    module: torch.nn.Module, kind: str, x: FloatArray, state: list[FloatArray]
) -> tuple[FloatArray, list[FloatArray]] | None:
    """Call a module in its precision and in any convention that works: state as a tuple, as arguments, or omitted.

    Return the effort, shape (N,), and the start state; None if it cannot be called.
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


def reference(network: Network, x: FloatArray, state: Sequence[FloatArray] = ()) -> FloatArray:
    """Evaluate a network in float64, shape (N, features) to (N,)."""

    def sigmoid(z: FloatArray) -> FloatArray:
        return 0.5 * (1.0 + np.tanh(0.5 * z))

    for i, layer in enumerate(network.recurrent):
        h = state[0][i]
        left, right = x @ layer.weight_ih.T + layer.bias_ih, h @ layer.weight_hh.T + layer.bias_hh
        if network.kind == "lstm":
            gate_i, gate_f, gate_g, gate_o = np.split(left + right, 4, axis=1)
            cell = sigmoid(gate_f) * state[1][i] + sigmoid(gate_i) * np.tanh(gate_g)
            x = sigmoid(gate_o) * np.tanh(cell)
        else:
            (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(left, 3, axis=1), np.split(right, 3, axis=1)
            update = sigmoid(z_x + z_h)
            x = (1.0 - update) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + update * h
    for dense in network.dense:
        x = evaluate(dense.activation, x @ dense.weight.T + dense.bias)
    return x[:, 0]


def read_script(module: torch.nn.Module) -> Network:
    """Recognise a TorchScript module by its graph."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.freeze(module).graph.copy()
        torch._C._jit_pass_inline(graph)
    is_recurrent = any(graph.findAllNodes(f"aten::{kind}") for kind in ("lstm", "gru"))
    inputs = [value.debugName() for value in graph.inputs()][1:]
    if not inputs:
        raise NotRecognised("it has no input")
    reader = _ScriptReader(_recogniser(inputs, is_recurrent))
    reader.read_block(graph)
    (output,) = (value.debugName() for value in graph.outputs())
    results = _flat(reader.known.get(output, Ref(output)))
    return reader.recogniser.finish(results[0], results[1:])


def _recogniser(inputs: list[str], is_recurrent: bool) -> Recogniser:
    axes = (BATCH, 1, FEATURES) if is_recurrent else (BATCH, FEATURES)
    return Recogniser(inputs[0], axes, states=inputs[1:])


def _flat(value: object) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, (list, tuple)) else [value]


class _ScriptReader:
    """Reader of a TorchScript graph, along the branches of a call in the usual convention."""

    def __init__(self, recogniser: Recogniser):
        self.recogniser = recogniser
        self.known: dict[str, Any] = {}
        self._views: set[str] = set()

    def read_block(self, block: torch._C.Block) -> None:
        for node in block.nodes():
            self._read(node)

    def _value(self, value: torch._C.Value) -> Any:
        return self.known.get(value.debugName(), Ref(value.debugName()))

    def _read(self, node: torch._C.Node) -> None:
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
        elif node.kind() in ("prim::unchecked_cast", "prim::Uninitialized", "prim::NumToTensor"):
            self.known[outputs[0]] = first
        elif node.kind() == "prim::If":
            self._branch(node, first, outputs)
        elif name == "dim":
            self.known[outputs[0]] = self._dim(first, outputs[0])
        elif name in ("__is__", "__isnot__") and isinstance(first, Ref) and inputs[1] is None:
            self.known[outputs[0]] = name == "__isnot__"  # the usual convention leaves nothing out
        elif name in _DECIDED and not any(isinstance(value, Ref) for value in _flat(inputs)):
            self.known[outputs[0]] = _DECIDED[name](*inputs)
        elif outputs and namespace == "aten":
            if name.endswith("_") and not name.endswith("__"):
                self._write_in_place(node, name, inputs, outputs)
            self.recogniser.run(_aten(name, inputs, outputs))
            if name.rstrip("_") in _VIEWS:
                self._views |= {*outputs, *(value.name for value in inputs[:1] if isinstance(value, Ref))}
        elif outputs:
            takes_apart = node.kind() in ("prim::TupleUnpack", "prim::TupleIndex")
            self.recogniser.run(Op("parts" if takes_apart else node.kind(), inputs, outputs, {}, node.kind()))

    def _dim(self, value: torch._C.Value, output: str) -> Any:
        found = self.recogniser.resolve(value)
        if isinstance(found, Signal):
            return len(found.axes)
        return 3 if isinstance(found, (State, Hidden)) else Ref(output)

    def _write_in_place(self, node: torch._C.Node, name: str, inputs: Sequence[object], outputs: list[str]) -> None:
        """Redirect later uses of an overwritten value to the result. Writing through a view is not supported."""
        target = next(node.inputs()).debugName()
        written = inputs[0].name if isinstance(inputs[0], Ref) else target
        if name.rstrip("_") not in OPERATIONS or {target, written} & self._views:
            raise NotRecognised(f"'aten::{name}' writes in place")
        self.known[target] = self.known[written] = Ref(outputs[0])

    def _branch(self, node: torch._C.Node, condition: object, outputs: list[str]) -> None:
        blocks = list(node.blocks())
        if isinstance(condition, Ref):
            going_on = [block for block in blocks if all(n.kind() != "prim::RaiseException" for n in block.nodes())]
            chosen = going_on[0] if len(going_on) == 1 else None
        else:
            chosen = blocks[0 if condition else 1]
        if chosen is None:
            self.recogniser.forget(outputs, "a branch depends on the input")
            return
        self.read_block(chosen)
        self.known.update(zip(outputs, (self._value(value) for value in chosen.outputs()), strict=True))


def read_export(exported: torch.export.ExportedProgram) -> Network:
    """Recognise an exported program by its graph."""
    signature = exported.graph_signature
    stored = dict(exported.state_dict) | dict(exported.constants)
    held = signature.inputs_to_parameters | signature.inputs_to_buffers
    held |= getattr(signature, "inputs_to_lifted_tensor_constants", {})
    nodes = list(exported.graph.nodes)
    names = {node: getattr(node.target, "__name__", str(node.target)).split(".")[0] for node in nodes}
    is_recurrent = any(name in ("lstm", "gru") for name in names.values())
    given = [node.name for node in nodes if node.op == "placeholder" and node.name not in held]
    if not given:
        raise NotRecognised("it has no input")
    recogniser = _recogniser(given, is_recurrent)
    constants: dict[str, Any] = {}

    def value(argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return [value(part) for part in argument]
        if hasattr(argument, "op"):
            return constants.get(argument.name, Ref(argument.name))
        return argument

    results: list[Any] = []
    for node in nodes:
        if node.op == "placeholder" and node.name in held:
            constants[node.name] = _plain(stored[held[node.name]])
        elif node.op == "call_function" and names[node] == "getitem":
            source, index = node.args
            constants[node.name] = Ref(source.name if index == 0 else f"{source.name}[{index}]")
        elif node.op == "call_function":
            outputs = [node.name, *(f"{node.name}[{k}]" for k in (1, 2) if names[node] in ("lstm", "gru"))]
            keywords = {k: value(v) for k, v in node.kwargs.items()}
            recogniser.run(_aten(names[node], [value(a) for a in node.args], outputs, keywords))
        elif node.op == "output":
            results = value(node.args[0])[len(signature.buffers_to_mutate) :]
    if not results or signature.buffers_to_mutate:
        raise NotRecognised("it has no output, or changes its own buffers")
    return recogniser.finish(results[0], _flat(results[1:]))


def _aten(name: str, inputs: Sequence[object], outputs: list[str], keywords: dict[str, Any] | None = None) -> Op:
    """Translate one aten operation."""
    label = f"aten::{name}"
    name = name if name.endswith("__") else name.rstrip("_")
    keywords = {_KEYWORDS.get(k, k): v for k, v in (keywords or {}).items() if v is not None}
    if name in ("lstm", "gru"):
        return _recurrent(name, label, inputs, outputs)
    if name == "addmm":
        (bias, x, weight), rest = inputs[:3], inputs[3:]
        keywords |= dict(zip(("beta", "alpha"), rest, strict=False))
        return Op("linear", [x, weight, bias], outputs, {"transposed": True} | keywords, label)
    if name in ("matmul", "mm"):
        return Op("linear", inputs[:2], outputs, {"transposed": True}, label)
    if name == "linear":
        return Op("linear", inputs, outputs, {}, label)
    if name in ("dropout", "feature_dropout", "alpha_dropout"):
        trains = inputs[2] if len(inputs) > 2 else True
        return Op("same" if trains is False else f"{label} in training", inputs[:1], outputs)
    if name in ("to", "_to_copy", "type_as"):
        keeps = all(_keeps_numbers(argument) for argument in [*inputs[1:], keywords.get("dtype")])
        return Op("same" if keeps else label, inputs[:1], outputs)
    if name in RENAMED:
        ours = RENAMED[name]
        return Op(ours, inputs[:1] if ours == "same" else inputs, outputs, keywords, label)
    if name in _AS_THEY_ARE:
        return Op(name, inputs, outputs, keywords, label)
    return Op(label, inputs, outputs)


def _recurrent(kind: str, label: str, inputs: Sequence[object], outputs: list[str]) -> Op:
    weights = inputs[2] if len(inputs) == 9 and isinstance(inputs[2], list) else []
    plain = [w for w in weights if isinstance(w, np.ndarray)]
    if len(inputs) != 9 or len(plain) != len(weights):
        return Op(f"{label} with weights that are not constant", inputs[:1], outputs)
    has_biases, _, dropout, trains, bidirectional, batch_first = inputs[3:]
    if bidirectional or (trains and dropout):
        return Op(f"{label} (bidirectional, or in training)", inputs[:1], outputs)
    layers = recurrent_layers(kind, plain, has_biases=bool(has_biases))
    return Op(kind, inputs[:2], outputs, {"layers": layers, "batch_first": bool(batch_first)}, label)


def _keeps_numbers(argument: object) -> bool:
    """Return whether an argument of ``to`` keeps the numbers: no type, or a floating-point one."""
    if isinstance(argument, np.ndarray):
        return argument.dtype.kind == "f"
    if isinstance(argument, int) and not isinstance(argument, bool):
        return argument in _FLOATING
    return getattr(argument, "is_floating_point", True) is True


def _plain(value: Any) -> Any:
    """Return tensors as arrays, floating-point ones as float64; anything else unchanged."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value
