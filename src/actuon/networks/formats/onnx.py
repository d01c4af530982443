# SPDX-License-Identifier: Apache-2.0
"""ONNX files, read as a graph of operations and written from a network. Needs the ``onnx`` package, no runtime."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import MissingExtraError, ParameterError, listed
from ..activations import Activation, FloatArray
from ..axes import BATCH, EITHER, FEATURES, Axes
from ..network import Network, NotRecognised, Recurrent
from ..recognise import Op, Recogniser, Ref

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

_LARGEST_FILE = 512 * 1024 * 1024

_ELEMENTWISE = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Neg": "neg", "Abs": "abs", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Pow": "pow", "Reciprocal": "reciprocal", "Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid",
    "Relu": "relu", "LeakyRelu": "leaky_relu", "Elu": "elu", "Selu": "selu", "Gelu": "gelu", "Softplus": "softplus",
    "Softsign": "softsign", "Clip": "clamp", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt",
    "LessOrEqual": "le", "Where": "where",
}  # fmt: skip
_ATTRIBUTES = {
    ("Clip", "min"): "low",
    ("Clip", "max"): "high",
    ("LeakyRelu", "alpha"): "slope",
    ("Elu", "alpha"): "alpha",
    ("Selu", "alpha"): "alpha",
    ("Selu", "gamma"): "gamma",
    ("Gelu", "approximate"): "approximate",
}
_FLOATING = (1, 10, 11, 16)
"""ONNX's codes of floating-point types with 32, 16 and 64 bits, and bfloat16."""
_WRITTEN = {
    "relu": "Relu", "leaky_relu": "LeakyRelu", "elu": "Elu", "selu": "Selu", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "softsign": "Softsign", "gelu": "Gelu", "gelu_tanh": "Gelu",
}  # fmt: skip
_TO_ONNX_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
_FROM_ONNX_GATES = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2)}


def _import_onnx(purpose: str) -> Any:
    """Import ``onnx``, or raise an error with its purpose."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", purpose) from error
    return onnx


def load(path: Path) -> Any:
    """Parse the file, without any other file that it names."""
    onnx = _import_onnx(f"reading '{path.name}'")
    if path.stat().st_size > _LARGEST_FILE:
        raise ParameterError(
            f"'{path}' has {path.stat().st_size} bytes; actuator networks have at most {_LARGEST_FILE}"
        )
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ParameterError(f"'{path}' is not a valid ONNX file: {error}") from error
    if not model.graph.node:
        raise ParameterError(f"'{path}' is not a valid ONNX file, or its graph is empty")
    return model


def properties(model: ModelProto) -> dict[str, str]:
    """Return the metadata entries of a model."""
    return {entry.key: entry.value for entry in model.metadata_props}


def read(model: ModelProto, path: Path, names: Mapping[str, str]) -> Network:
    """Recognise the model by its graph.

    Args:
        model: As `load` returns it.
        path: Its file, for errors.
        names: Names of its inputs and outputs, by `inputs.GRAPH_NAMES`. Without them, the first are the signal and the
            effort.
    """
    onnx = _import_onnx("reading an ONNX file")
    constants: dict[str, Any] = {}
    for tensor in model.graph.initializer:
        constants[tensor.name] = _array(onnx, tensor, path)
    graph_inputs = [value for value in model.graph.input if value.name not in constants]
    if not graph_inputs or not model.graph.output:
        raise ParameterError(f"'{path}': the graph has no input or no output")
    is_recurrent = any(node.op_type in ("LSTM", "GRU") for node in model.graph.node)
    signal, *states = _ordered(path, graph_inputs, names, ("input_name", "hidden_in_name", "cell_in_name"))
    named_states = [state.name for state in states] if "hidden_in_name" in names and "cell_in_name" in names else []
    recogniser = Recogniser(signal.name, *_axes(signal, is_recurrent), named_states)
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            (found,) = attributes.values()
            is_tensor = "value" in attributes
            constants[node.output[0]] = _array(onnx, found, path) if is_tensor else np.asarray(found)
            continue
        inputs = [constants.get(name, Ref(name)) if name else None for name in node.input]
        label = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
        attributes = {n: _array(onnx, v, path) if isinstance(v, onnx.TensorProto) else v for n, v in attributes.items()}
        for op in _translate(onnx, label, inputs, list(node.output), attributes):
            recogniser.run(op)
    outputs = _ordered(path, model.graph.output, names, ("output_name", "hidden_out_name", "cell_out_name"))
    effort, *new_states = (Ref(value.name) for value in outputs)
    return recogniser.finish(effort, new_states)


def _ordered(
    path: Path, values: Sequence[ValueInfoProto], names: Mapping[str, str], keys: tuple[str, ...]
) -> list[Any]:
    """Return inputs or outputs of a graph, starting with those that the metadata names, in the order of ``keys``."""
    by_name = {value.name: value for value in values}
    named = []
    for key in keys:
        if key in names:
            if names[key] not in by_name:
                raise ParameterError(
                    f"'{path}': {key}: got '{names[key]}'; {listed(names[key], by_name, 'the graph has')}"
                )
            named.append(by_name.pop(names[key]))
    rest = list(by_name.values())
    return [*named, *rest] if keys[0] in names else [*rest[:1], *named, *rest[1:]]


def _axes(value: ValueInfoProto, is_recurrent: bool) -> tuple[Axes, int | None]:
    """Return the axes of the graph's input, and its number of features if known."""
    shape = value.type.tensor_type
    lengths = [dim.dim_value for dim in shape.shape.dim] if shape.HasField("shape") else []
    width = lengths[-1] or None if lengths else None
    if len(lengths) == 3 and lengths[1] == 1 and (lengths[0] != 1 or not is_recurrent):
        return (BATCH, 1, FEATURES), width
    if len(lengths) == 3 and lengths[0] == 1 and lengths[1] != 1:
        return (1, BATCH, FEATURES), width
    if is_recurrent and len(lengths) in (0, 3):
        return (EITHER, EITHER, FEATURES), width
    if len(lengths) in (0, 2):
        return (BATCH, FEATURES), width
    raise NotRecognised(f"its input has {len(lengths)} axes; must be (DOFs, features)")


def _array(onnx: ModuleType, tensor: TensorProto, path: Path) -> np.ndarray:
    if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ParameterError(
            f"'{path}': tensor '{tensor.name}' is in another file; save the network with its weights inside, as "
            "onnx.save(onnx.load(path), path) does"
        )
    size = int(np.prod([int(n) for n in tensor.dims], dtype=object)) if tensor.dims else 1
    if any(n < 0 for n in tensor.dims) or size > _LARGEST_FILE // 4:
        raise ParameterError(
            f"'{path}': tensor '{tensor.name}' has the shape {list(tensor.dims)}; must be sizes ≥ 0 that fit into "
            f"{_LARGEST_FILE} bytes"
        )
    if tensor.raw_data and len(tensor.raw_data) < size:
        raise ParameterError(f"'{path}': tensor '{tensor.name}' has too few bytes for {list(tensor.dims)} entries")
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ParameterError(f"'{path}': tensor '{tensor.name}' cannot be read: {error}") from error
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _translate(
    onnx: ModuleType, kind: str, inputs: Sequence[Any], outputs: list[str], attributes: Mapping[str, Any]
) -> Iterator[Op]:
    """Translate one node into operations, mostly one."""

    def op(name: str, arguments: Sequence[object], **named: object) -> Op:
        return Op(name, arguments, outputs, named, kind)

    first = inputs[0] if inputs else None
    if kind == "Gemm" and not attributes.get("transA"):
        folded = {"alpha": attributes.get("alpha", 1.0), "beta": attributes.get("beta", 1.0)}
        yield op("linear", inputs, transposed=not attributes.get("transB"), **folded)
    elif kind == "MatMul":
        yield op("linear", inputs, transposed=True)
    elif kind in ("LSTM", "GRU"):
        yield _recurrent(kind.lower(), inputs, outputs, attributes)
    elif kind == "Identity" or (kind == "Dropout" and (len(inputs) < 3 or _is_false(inputs[2]))):
        yield op("same", [first])
    elif kind == "Cast":
        is_floating = attributes["to"] in _FLOATING
        yield op("same", [first]) if is_floating else op("cast", [first], dtype=_dtype(onnx, attributes["to"]))
    elif kind in ("Squeeze", "Unsqueeze"):
        axes = inputs[1] if len(inputs) > 1 else attributes.get("axes")
        yield op(kind.lower(), [first, np.ravel(axes).tolist() if isinstance(axes, (np.ndarray, list)) else axes])
    elif kind == "Flatten":
        yield op("flatten_in_two", [first, attributes.get("axis", 1)])
    elif kind == "Transpose":
        yield op("permute", [first, attributes["perm"]]) if "perm" in attributes else op("t", [first])
    elif kind == "Reshape" and len(inputs) > 1:
        yield op("reshape", [first, inputs[1], *([] if attributes.get("allowzero") else [True])])
    elif kind == "Shape" and not attributes:
        yield op("size", [first])
    elif kind == "Gather":
        yield op("index", [first, inputs[1], attributes.get("axis", 0)])
    elif kind == "Slice":
        yield from _slices(inputs, outputs, attributes)
    elif kind in ("Concat", "Split", "Expand"):
        yield op({"Concat": "cat"}.get(kind, kind.lower()), inputs)
    elif kind == "ConstantOfShape":
        value = attributes.get("value")
        is_zero = value is None or not np.any(value)
        yield op("zeros" if is_zero else kind, inputs)
    elif kind in ("Max", "Min") and not attributes:
        name = "maximum" if kind == "Max" else "minimum"
        partial = [f"{outputs[0]} of {i}" for i in range(2, len(inputs))]
        steps = zip([first, *map(Ref, partial)], inputs[1:], [*partial, outputs[0]], strict=True)
        yield from (
            (Op(name, [x, y], [result], {}, kind) for x, y, result in steps)
            if len(inputs) > 1
            else [op("same", inputs)]
        )
    elif kind in _ELEMENTWISE and all((kind, k) in _ATTRIBUTES for k in attributes):
        named = {_ATTRIBUTES[kind, k]: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        yield op(_ELEMENTWISE[kind], inputs, **named)
    else:
        yield Op(f"{kind} with {', '.join(sorted(attributes))}" if attributes else kind, inputs, outputs)


def _is_false(value: object) -> bool:
    return value is None or (isinstance(value, np.ndarray) and not np.any(value))


def _dtype(onnx: ModuleType, number: int) -> Any:
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(number)
    except KeyError as error:
        raise NotRecognised(f"'Cast' to the unsupported type {number}") from error


def _slices(inputs: Sequence[Any], outputs: list[str], attributes: Mapping[str, Any]) -> Iterator[Op]:
    """Translate a slice along several axes into one after the other."""
    given = dict(zip(("starts", "ends", "axes", "steps"), inputs[1:], strict=False)) or attributes
    starts, ends, axes, steps = (given.get(name) for name in ("starts", "ends", "axes", "steps"))
    if any(isinstance(part, Ref) for part in given.values()) or starts is None or ends is None:
        yield Op("Slice with bounds that are not constant", inputs[:1], outputs)
        return
    starts, ends = np.ravel(starts).tolist(), np.ravel(ends).tolist()
    axes = list(range(len(starts))) if axes is None else np.ravel(axes).tolist()
    steps = [1] * len(starts) if steps is None else np.ravel(steps).tolist()
    names = [*(f"{outputs[0]} along {i}" for i in range(len(starts) - 1)), outputs[0]]
    sources = [inputs[0], *map(Ref, names)]
    for source, name, *bounds in zip(sources, names, axes, starts, ends, steps, strict=False):
        yield Op("slice", [source, *bounds], [name], {}, "Slice")


def _recurrent(kind: str, inputs: Sequence[Any], outputs: list[str], attributes: Mapping[str, Any]) -> Op:
    signal, weight, recurrence, bias, lengths, *rest = [*inputs, *[None] * 8][:8]
    states, peepholes = rest[:-1], rest[-1]
    usual = [b"Sigmoid", b"Tanh", b"Tanh"] if kind == "lstm" else [b"Sigmoid", b"Tanh"]
    is_plain = isinstance(weight, np.ndarray) and isinstance(recurrence, np.ndarray) and not isinstance(bias, Ref)
    is_plain = is_plain and lengths is None and peepholes is None
    is_plain = is_plain and attributes.get("direction", b"forward") in (b"forward", "forward")
    is_plain = is_plain and attributes.get("activations", usual) in (usual, [])
    is_plain = is_plain and not any(attributes.get(name) for name in ("clip", "input_forget", "layout"))
    if not is_plain or (kind == "gru" and not attributes.get("linear_before_reset")):
        raise NotRecognised(
            f"an ONNX {kind.upper()} that is bidirectional, clipped, batch first, or of varying length, "
            "or has other activations or gates than PyTorch's"
        )
    hidden = recurrence.shape[-1]
    if attributes.get("hidden_size", hidden) != hidden:
        raise ParameterError(
            f"an ONNX {kind.upper()} with hidden_size {attributes['hidden_size']}, but weights of {hidden} units; its "
            "file is damaged"
        )
    order = _FROM_ONNX_GATES[kind]

    def gates(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(len(order), hidden, -1)
        return parts[list(order)].reshape(len(order) * hidden, -1)

    both = np.zeros((2, len(order) * hidden)) if bias is None else np.asarray(bias).reshape(2, -1)
    layer = Recurrent(gates(weight[0]), gates(recurrence[0]), gates(both[0]).ravel(), gates(both[1]).ravel())
    named = {"layers": [layer], "axes": (1, 1, BATCH, FEATURES)}
    return Op(kind, [signal, *states], outputs, named, kind.upper())


class _GraphWriter:
    """Nodes and weights of an ONNX graph that is being written."""

    def __init__(self) -> None:
        self._onnx = _import_onnx("writing an ONNX file")
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Sequence[str | int]) -> str:
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, shape))
        return name

    def output(self, name: str, shape: Sequence[str | int]) -> str:
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, shape))
        return name

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        self._weights.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], *outputs: str, **attributes: object) -> str:
        """Add a node, and return the name of its first output."""
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]

    def content(self, metadata: str) -> bytes:
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "actuator_network", self._inputs, self._outputs, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        helper.set_model_props(model, {"metadata": metadata})
        self._onnx.checker.check_model(model)
        return model.SerializeToString()


def content(network: Network, metadata: str) -> bytes:
    """Return a network as an ONNX file, with its metadata as one JSON property."""
    graph = _GraphWriter()
    flow = graph.input("input", ["N", network.inputs])
    effort = graph.output("effort", ["N", 1])
    if network.recurrent:
        flow = graph.node("Unsqueeze", [flow, graph.constant("time_axis", [0], np.int64)], "sequence")
        for i, layer in enumerate(network.recurrent):
            flow = _write_recurrent(graph, network.kind, i, layer, flow)
        flow = graph.node("Squeeze", [flow, "time_axis"], "features")
    for i, dense in enumerate(network.dense):
        names = [flow, graph.constant(f"weight{i}", dense.weight), graph.constant(f"bias{i}", dense.bias)]
        flow = _write_activation(graph, dense.activation, graph.node("Gemm", names, f"z{i}", transB=1), f"y{i}")
    graph.node("Identity", [flow], effort)
    return graph.content(metadata)


def _write_recurrent(graph: _GraphWriter, kind: str, i: int, layer: Recurrent, flow: str) -> str:
    order = list(_TO_ONNX_GATES[kind])
    states = ("hidden", "cell") if kind == "lstm" else ("hidden",)
    shape: list[str | int] = [1, "N", layer.hidden]

    def arranged(array: FloatArray) -> FloatArray:
        return array.reshape(len(order), -1, *array.shape[1:])[order].reshape(array.shape)

    names = [
        flow,
        graph.constant(f"W{i}", arranged(layer.weight_ih)[None]),
        graph.constant(f"R{i}", arranged(layer.weight_hh)[None]),
        graph.constant(f"B{i}", np.concatenate([arranged(layer.bias_ih), arranged(layer.bias_hh)])[None]),
        "",  # lengths of sequences
        *(graph.input(f"{state}_{i}", shape) for state in states),
    ]
    results = [f"Y{i}", *(graph.output(f"next_{state}_{i}", shape) for state in states)]
    options = {"linear_before_reset": 1} if kind == "gru" else {}
    out = graph.node(kind.upper(), names, *results, hidden_size=layer.hidden, **options)
    return graph.node("Squeeze", [out, graph.constant(f"direction_{i}", [1], np.int64)], f"out{i}")


def _write_activation(graph: _GraphWriter, activation: Activation, source: str, target: str) -> str:
    name = activation.name
    if name == "identity":
        return source
    if name == "silu":
        return graph.node("Mul", [source, graph.node("Sigmoid", [source], f"{target}_gate")], target)
    if name == "clamp":
        bounds = [("low", activation.parameter), ("high", activation.upper)]
        names = [graph.constant(f"{target}_{side}", x) if math.isfinite(x) else "" for side, x in bounds]
        return graph.node("Clip", [source, *names], target)
    if name == "softplus":
        beta = graph.constant(f"{target}_beta", activation.parameter)
        soft = graph.node("Softplus", [graph.node("Mul", [source, beta], f"{target}_scaled")], f"{target}_soft")
        return graph.node("Div", [soft, beta], target)
    attributes: dict[str, Any] = {"alpha": activation.parameter} if name in ("leaky_relu", "elu") else {}
    if name == "gelu_tanh":
        attributes["approximate"] = "tanh"
    return graph.node(_WRITTEN[name], [source], target, **attributes)
