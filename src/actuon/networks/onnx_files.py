# SPDX-License-Identifier: Apache-2.0
"""ONNX files, read as a graph of operations and written from a network. Needs the ``onnx`` package, no runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingExtraError, ParameterError
from .model import Activation, Network, Recurrent
from .recognise import NotRecognised, Op, Ref, recognise

_LARGEST_FILE = 512 * 1024 * 1024

_ELEMENTWISE = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Neg": "neg", "Abs": "abs", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Pow": "pow", "Reciprocal": "reciprocal", "Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid",
    "Relu": "relu", "LeakyRelu": "leaky_relu", "Elu": "elu", "Selu": "selu", "Gelu": "gelu", "Softplus": "softplus",
    "Softsign": "softsign", "Max": "maximum", "Min": "minimum", "Clip": "clamp", "Greater": "gt", "Less": "lt",
    "Where": "where", "Swish": "silu",
}  # fmt: skip
_SHAPE = {
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Transpose",
    "Dropout",
    "Cast",
    "Gather",
    "Slice",
    "Expand",
}
_ATTRIBUTES = {
    ("Clip", "min"): "low",
    ("Clip", "max"): "high",
    ("LeakyRelu", "alpha"): "slope",
    ("Elu", "alpha"): "alpha",
    ("Gelu", "approximate"): "approximate",
}
_WRITTEN = {
    "relu": "Relu", "leaky_relu": "LeakyRelu", "elu": "Elu", "selu": "Selu", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "softsign": "Softsign", "gelu": "Gelu", "gelu_tanh": "Gelu",
}  # fmt: skip
_TO_ONNX_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
_FROM_ONNX_GATES = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2)}


def import_onnx(purpose: str) -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", purpose) from error
    return onnx


def load(path: Path) -> Any:
    """Parse the file; nothing outside it is read."""
    onnx = import_onnx(f"reading '{path.name}'")
    if path.stat().st_size > _LARGEST_FILE:
        raise ParameterError(
            f"'{path}' has {path.stat().st_size} bytes; actuator networks have at most {_LARGEST_FILE}"
        )
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ParameterError(f"'{path}' is no ONNX file: {error}") from error
    if not model.graph.node:
        raise ParameterError(f"'{path}' is no ONNX file, or holds an empty graph")
    return model


def properties(model: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def read(model: Any, path: Path) -> Network:
    """Recognise the model by its graph."""
    onnx = import_onnx("reading an ONNX file")
    constants: dict[str, Any] = {}
    for tensor in model.graph.initializer:
        constants[tensor.name] = _array(onnx, tensor, path)
    ops: list[Op] = []
    is_recurrent = any(node.op_type in ("LSTM", "GRU") for node in model.graph.node)
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            if "value" in attributes:
                constants[node.output[0]] = _array(onnx, attributes["value"], path)
            else:
                constants[node.output[0]] = np.asarray(next(iter(attributes.values())))
            continue
        inputs = [constants.get(name, Ref(name)) if name else None for name in node.input]
        ops.append(_translate(node.op_type, inputs, list(node.output), attributes, is_recurrent))
    graph_inputs = [value.name for value in model.graph.input if value.name not in constants]
    if not graph_inputs or not model.graph.output:
        raise ParameterError(f"'{path}': the graph has no input or no output")
    return recognise(ops, graph_inputs[0], model.graph.output[0].name)


def _array(onnx: Any, tensor: Any, path: Path) -> np.ndarray:
    if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ParameterError(
            f"'{path}': tensor '{tensor.name}' lies in another file; save the network with its weights inside"
        )
    size = int(np.prod([int(n) for n in tensor.dims], dtype=object)) if tensor.dims else 1
    if any(n < 0 for n in tensor.dims) or size > _LARGEST_FILE // 4:
        raise ParameterError(f"'{path}': tensor '{tensor.name}' claims {list(tensor.dims)} entries")
    if tensor.raw_data and len(tensor.raw_data) < size:
        raise ParameterError(f"'{path}': tensor '{tensor.name}' has too few bytes for {list(tensor.dims)} entries")
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ParameterError(f"'{path}': tensor '{tensor.name}' cannot be read: {error}") from error
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _translate(kind: str, inputs: list[Any], outputs: list[str], attributes: dict[str, Any], is_recurrent: bool) -> Op:
    if kind == "Gemm":
        if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            return Op("Gemm with transA, alpha or beta", inputs[:1], outputs)
        return Op("linear", inputs, outputs, {"transposed": not attributes.get("transB")})
    if kind == "MatMul":
        return Op("linear", inputs, outputs, {"transposed": True})
    if kind in ("LSTM", "GRU"):
        return _recurrent(kind.lower(), inputs, outputs, attributes)
    if kind in _SHAPE:
        if isinstance(inputs[0], Ref) and not _keeps_features(kind, inputs, attributes, is_recurrent):
            return Op(f"{kind} of the features", inputs, outputs)
        same = kind in ("Identity", "Dropout", "Cast")
        return Op("shape", inputs[:1], outputs[:1], {"transpose": kind == "Transpose", "same": same})
    if kind in _ELEMENTWISE:
        other = {k for k in attributes if (kind, k) not in _ATTRIBUTES}
        if other and not (kind == "Selu" and abs(attributes.get("alpha", 1.67326) - 1.67326) < 1e-4
                          and abs(attributes.get("gamma", 1.0507) - 1.0507) < 1e-4):  # fmt: skip
            return Op(f"{kind} with {', '.join(sorted(other))}", inputs, outputs)
        named = {_ATTRIBUTES[kind, k]: v for k, v in attributes.items() if (kind, k) in _ATTRIBUTES}
        named = {k: v.decode() if isinstance(v, bytes) else v for k, v in named.items()}
        return Op(_ELEMENTWISE[kind], inputs, outputs, named)
    return Op(kind, inputs, outputs)


def _keeps_features(kind: str, inputs: list[Any], attributes: dict[str, Any], is_recurrent: bool) -> bool:
    """Whether an arranging operation leaves the features in their order. Nothing else would notice if it did not."""
    if kind == "Cast":
        return attributes.get("to") in (1, 10, 11)
    if kind == "Transpose":
        order = list(attributes.get("perm", (1, 0)))
        return is_recurrent and order[-1] == len(order) - 1
    if kind == "Gather":
        return is_recurrent and attributes.get("axis", 0) in (0, 1)
    if kind == "Slice":
        axes = inputs[3] if len(inputs) > 3 else None
        return is_recurrent and isinstance(axes, np.ndarray) and set(axes.ravel().tolist()) <= {0, 1}
    return kind != "Expand"


def _recurrent(kind: str, inputs: list[Any], outputs: list[str], attributes: dict[str, Any]) -> Op:
    weight, recurrence, *rest = inputs[1:]
    bias = rest[0] if rest else None
    plain = isinstance(weight, np.ndarray) and isinstance(recurrence, np.ndarray)
    forward = attributes.get("direction", b"forward") in (b"forward", "forward")
    usual = [b"Sigmoid", b"Tanh", b"Tanh"] if kind == "lstm" else [b"Sigmoid", b"Tanh"]
    default = attributes.get("activations", usual) in (usual, [])
    default = default and not attributes.get("clip") and not attributes.get("input_forget")
    peephole = len(inputs) > 7 and inputs[7] is not None
    if (
        not plain
        or not forward
        or not default
        or peephole
        or (kind == "gru" and not attributes.get("linear_before_reset"))
    ):
        raise NotRecognised(
            f"an ONNX {kind.upper()} that is bidirectional, clipped, or has other activations or gates than PyTorch's"
        )
    hidden = recurrence.shape[-1]
    order = _FROM_ONNX_GATES[kind]

    def gates(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(len(order), hidden, -1)
        return parts[list(order)].reshape(len(order) * hidden, -1)

    both = np.zeros((2, len(order) * hidden)) if bias is None else np.asarray(bias).reshape(2, -1)
    layer = Recurrent(gates(weight[0]), gates(recurrence[0]), gates(both[0]).ravel(), gates(both[1]).ravel())
    return Op(kind, inputs[:1], outputs, {"layers": [layer]})


def write(network: Network, path: Path, metadata: str) -> None:
    """Write a network as ONNX, with its metadata as one JSON property."""
    onnx = import_onnx(f"writing '{path.name}'")
    helper = onnx.helper
    nodes, weights = [], []

    def constant(name: str, value: np.ndarray, dtype: Any = np.float32) -> str:
        weights.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name))
        return name

    flow = "input"
    inputs = [helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["N", network.inputs])]
    outputs = [helper.make_tensor_value_info("effort", onnx.TensorProto.FLOAT, ["N", 1])]
    if network.recurrent:
        nodes.append(
            helper.make_node("Unsqueeze", [flow, constant("time_axis", np.array([0]), np.int64)], ["sequence"])
        )
        flow = "sequence"
    states = ("hidden", "cell") if network.kind == "lstm" else ("hidden",)
    for i, layer in enumerate(network.recurrent):
        order = list(_TO_ONNX_GATES[network.kind])
        gates = len(order)

        def arranged(array: np.ndarray, order: list[int] = order, gates: int = gates) -> np.ndarray:
            return array.reshape(gates, -1, *array.shape[1:])[order].reshape(array.shape)

        names = [flow, constant(f"W{i}", arranged(layer.weight_ih)[None])]
        names += [constant(f"R{i}", arranged(layer.weight_hh)[None])]
        names += [constant(f"B{i}", np.concatenate([arranged(layer.bias_ih), arranged(layer.bias_hh)])[None]), ""]
        names += [f"{state}_{i}" for state in states]
        extra = {"linear_before_reset": 1} if network.kind == "gru" else {}
        results = [f"Y{i}", *(f"next_{state}_{i}" for state in states)]
        nodes.append(helper.make_node(network.kind.upper(), names, results, hidden_size=layer.hidden, **extra))
        nodes.append(
            helper.make_node("Squeeze", [f"Y{i}", constant(f"direction_{i}", np.array([1]), np.int64)], [f"out{i}"])
        )
        flow = f"out{i}"
        shape = [1, "N", layer.hidden]
        inputs += [helper.make_tensor_value_info(f"{s}_{i}", onnx.TensorProto.FLOAT, shape) for s in states]
        outputs += [helper.make_tensor_value_info(f"next_{s}_{i}", onnx.TensorProto.FLOAT, shape) for s in states]
    if network.recurrent:
        nodes.append(helper.make_node("Squeeze", [flow, "time_axis"], ["features"]))
        flow = "features"
    for i, dense in enumerate(network.dense):
        names = [flow, constant(f"weight{i}", dense.weight), constant(f"bias{i}", dense.bias)]
        nodes.append(helper.make_node("Gemm", names, [f"z{i}"], transB=1))
        flow = _write_activation(helper, nodes, constant, dense.activation, f"z{i}", f"y{i}")
    nodes.append(helper.make_node("Identity", [flow], ["effort"]))
    graph = helper.make_graph(nodes, "actuator_network", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    helper.set_model_props(model, {"metadata": metadata})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def _write_activation(
    helper: Any, nodes: list[Any], constant: Any, activation: Activation, source: str, target: str
) -> str:
    name = activation.name
    if name == "identity":
        return source
    if name == "silu":
        nodes.append(helper.make_node("Sigmoid", [source], [f"{target}_gate"]))
        nodes.append(helper.make_node("Mul", [source, f"{target}_gate"], [target]))
    elif name == "softplus":
        beta = constant(f"{target}_beta", np.array(activation.parameter))
        nodes.append(helper.make_node("Mul", [source, beta], [f"{target}_scaled"]))
        nodes.append(helper.make_node("Softplus", [f"{target}_scaled"], [f"{target}_soft"]))
        nodes.append(helper.make_node("Div", [f"{target}_soft", beta], [target]))
    else:
        attributes: dict[str, Any] = {"alpha": activation.parameter} if name in ("leaky_relu", "elu") else {}
        if name == "gelu_tanh":
            attributes["approximate"] = "tanh"
        nodes.append(helper.make_node(_WRITTEN[name], [source], [target], **attributes))
    return target
