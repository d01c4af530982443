# SPDX-License-Identifier: Apache-2.0
"""The graphs of PyTorch's files, TorchScript and exported programs, as operations to be recognised."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..assemble import recurrent_layers
from ..axes import BATCH, FEATURES
from ..elementwise import OPERATIONS
from ..model import Network, NotRecognised
from ..recognise import Hidden, Op, Recogniser, Ref, Signal, State

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
"""aten names that we call otherwise. Trailing underscores (in place) are dropped first."""
_AS_THEY_ARE = frozenset(
    ["reshape", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "t", "select", "slice", "size", "expand",
     "cat", "stack", "split", "zeros", "zeros_like", "new_zeros", "sqrt", "rsqrt", "log", *OPERATIONS]
)  # fmt: skip
_VIEWS = frozenset(
    ["select", "slice", "view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "t", "expand", "flatten",
     "detach", "alias"]
)  # fmt: skip
_FLOATING = (5, 6, 7, 15)
"""TorchScript's numbers for 16, 32 and 64 bits, and bfloat16."""
_KEYWORDS = {"min": "low", "max": "high", "negative_slope": "slope", "min_val": "low", "max_val": "high"}
_DECIDED: dict[str, Any] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "__not__": lambda x: not x,
    "__is__": lambda x, y: x is y,
    "__isnot__": lambda x, y: x is not y,
    "__contains__": lambda items, x: x in items,
}
"""Questions about shapes and options that have an answer before the network runs."""


def read_script(module: Any) -> Network:
    """Recognise a TorchScript module by its graph."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.freeze(module).graph.copy()
        torch._C._jit_pass_inline(graph)
    is_recurrent = any(f"aten::{kind}(" in str(graph) for kind in ("lstm", "gru"))
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


def _flat(value: Any) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, (list, tuple)) else [value]


class _ScriptReader:
    """Reads the nodes of a TorchScript graph, taking the branches that a call in the usual convention takes."""

    def __init__(self, recogniser: Recogniser):
        self.recogniser = recogniser
        self.known: dict[str, Any] = {}
        self._views: set[str] = set()

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

    def _dim(self, value: Any, output: str) -> Any:
        found = self.recogniser.resolve(value)
        if isinstance(found, Signal):
            return len(found.axes)
        return 3 if isinstance(found, (State, Hidden)) else Ref(output)

    def _write_in_place(self, node: Any, name: str, inputs: list[Any], outputs: list[str]) -> None:
        """Whoever uses the value that is written over sees the result. Writing through a view is beyond that."""
        target = next(node.inputs()).debugName()
        written = inputs[0].name if isinstance(inputs[0], Ref) else target
        if name.rstrip("_") not in OPERATIONS or {target, written} & self._views:
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
            self.recogniser.forget(outputs, "a branch depends on the input")
            return
        self.read_block(chosen)
        self.known.update(zip(outputs, (self._value(value) for value in chosen.outputs()), strict=True))


def read_export(exported: Any) -> Network:
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


def _aten(name: str, inputs: list[Any], outputs: list[str], keywords: dict[str, Any] | None = None) -> Op:
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


def _recurrent(kind: str, label: str, inputs: list[Any], outputs: list[str]) -> Op:
    weights = inputs[2] if len(inputs) == 9 and isinstance(inputs[2], list) else []
    plain = [w for w in weights if isinstance(w, np.ndarray)]
    if len(inputs) != 9 or len(plain) != len(weights):
        return Op(f"{label} with weights that are not constant", inputs[:1], outputs)
    has_biases, _, dropout, trains, bidirectional, batch_first = inputs[3:]
    if bidirectional or (trains and dropout):
        return Op(f"{label} (bidirectional, or in training)", inputs[:1], outputs)
    layers = recurrent_layers(kind, plain, has_biases=bool(has_biases))
    return Op(kind, inputs[:2], outputs, {"layers": layers, "batch_first": bool(batch_first)}, label)


def _keeps_numbers(argument: Any) -> bool:
    """Whether an argument of ``to`` leaves the numbers as they are: no type, or a floating-point one."""
    if isinstance(argument, np.ndarray):
        return argument.dtype.kind == "f"
    if isinstance(argument, int) and not isinstance(argument, bool):
        return argument in _FLOATING
    return getattr(argument, "is_floating_point", True) is True


def _plain(value: Any) -> Any:
    """Tensors as arrays, of float64 where they hold floating-point numbers; everything else as it is."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value
