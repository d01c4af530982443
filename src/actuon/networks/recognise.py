# SPDX-License-Identifier: Apache-2.0
"""Which network does a graph of operations compute?

A file's graph is read as a list of `Op`. It is followed from the input to the output: linear and recurrent layers are
taken as they are, and whatever element-wise operations stand between them are evaluated on a grid of numbers and
recognised by what they compute: a scale and shift, or one of the known activations. So a softsign written as
``x / (1 + |x|)`` in a module of its own is a softsign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ActuonError
from .model import Activation, Dense, Network, Recurrent


class NotRecognised(ActuonError, ValueError):
    """The graph computes something that is no known network."""


@dataclass
class Op:
    """One operation. ``inputs`` are names of values, or constants: arrays, numbers, lists of them, None."""

    name: str
    inputs: list[Any]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ref:
    """The name of a value that another operation or the caller makes."""

    name: str


@dataclass(frozen=True)
class _Feature:
    """A value that depends on the input: element-wise ``fn`` of what the last layer put out."""

    origin: int
    width: int | None
    fn: Callable[[np.ndarray], np.ndarray]
    depth: int = 0
    """How many element-wise operations deep it is."""


@dataclass(frozen=True)
class _Hidden:
    """The hidden states of all recurrent layers, of which the last is what the layers put out."""

    feature: _Feature
    layers: int


class _State:
    """A value that comes from a recurrent state, or from nowhere: it only ever goes into a recurrent layer."""


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def _softplus(x: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    return np.where(x * beta > threshold, x, np.logaddexp(0.0, x * beta) / beta)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _gelu(x: np.ndarray, approximate: Any = "none") -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _elu(x: np.ndarray, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> np.ndarray:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x * input_scale, 0.0)))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, alpha=1: x + alpha * y,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "pow": lambda x, y: x**y,
    "reciprocal": lambda x: 1.0 / x,
    "erf": _erf,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x, slope=0.01: np.where(x > 0, x, slope * x),
    "elu": _elu,
    "selu": lambda x: _elu(x, _SELU_ALPHA, _SELU_SCALE),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": _softplus,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp": lambda x, low=None, high=None: np.clip(x, low, high),
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "where": np.where,
}
"""Element-wise operations by the name that the readers translate to, on float64 arrays."""

SHAPE_ONLY = {"shape"}
"""Operations that only arrange numbers: the first input passes through."""

_FAR = [12.0, 17.0, 30.0, 70.0, 300.0]
_GRID = np.concatenate([np.linspace(-9.0, 9.0, 181), [-0.003, 0.004, 1.37, -2.61], _FAR, [-x for x in _FAR]])
"""Where element-wise functions are looked at: closely around zero, and far out, where a clip would show."""

_MOST_ELEMENTWISE = 100
"""Operations between two layers; an activation has a handful."""


def recognise(ops: Iterable[Op], input_name: str, output_name: str) -> Network:
    """Follow ``ops`` from the input to the output.

    Raises:
        NotRecognised: Something on the way is no layer and no known activation; the message says what.
    """
    reader = _Reader()
    values: dict[str, Any] = {input_name: _Feature(0, None, lambda x: x)}
    for op in ops:
        reader.run(op, values)
    output = values.get(output_name)
    if not isinstance(output, _Feature):
        raise NotRecognised("the output does not depend on the input")
    if isinstance(output, _Unknown):
        raise NotRecognised(f"operation '{output.name}' is not known")
    return reader.finish(output)


class _Reader:
    """Collects the layers met so far."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Any]] = []
        self.kinds: set[str] = set()

    def run(self, op: Op, values: dict[str, Any]) -> None:
        inputs = [_chosen(op, _resolve(value, values)) for value in op.inputs]
        features = [value for value in inputs if isinstance(value, _Feature)]
        unknown = next((value for value in features if isinstance(value, _Unknown)), None)
        if not features:
            outputs: list[Any] = [_constant(op, inputs)] if len(op.outputs) == 1 else [_State()] * len(op.outputs)
        elif unknown is not None:
            if op.name in ("linear", "lstm", "gru"):
                raise NotRecognised(f"operation '{unknown.name}' is not known")
            outputs = [unknown] * len(op.outputs)
        elif op.name in SHAPE_ONLY:
            outputs = [features[0]]
        elif op.name == "linear":
            outputs = [self._linear(inputs, bool(op.attributes.get("transposed")))]
        elif op.name in ("lstm", "gru"):
            feature = self._recurrent(op, features[0])
            hidden = _Hidden(feature, len(op.attributes["layers"]))
            outputs = [feature, hidden, *(_State() for _ in op.outputs[2:])]
        elif op.name in ELEMENTWISE:
            outputs = [self._elementwise(op, inputs, features)]
        else:
            outputs = [_Unknown(op.name)] * len(op.outputs)
        values.update(zip(op.outputs, outputs, strict=False))

    def _linear(self, inputs: list[Any], transposed: bool) -> _Feature:
        feature, weight, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
        if not isinstance(feature, _Feature) or not isinstance(weight, np.ndarray) or weight.ndim != 2:
            raise NotRecognised("a linear layer whose weights are not constant")
        if not (bias is None or isinstance(bias, np.ndarray)):
            raise NotRecognised("a linear layer whose bias is not constant")
        weight = weight.T if transposed else weight
        self._settle(feature, weight.shape[1])
        offset = np.zeros(weight.shape[0]) if bias is None else np.asarray(bias, np.float64).ravel()
        self.steps.append(("dense", (np.asarray(weight, np.float64), np.broadcast_to(offset, weight.shape[:1]))))
        return _Feature(len(self.steps), weight.shape[0], lambda x: x)

    def _recurrent(self, op: Op, feature: _Feature) -> _Feature:
        layers: list[Recurrent] = op.attributes["layers"]
        self._settle(feature, layers[0].weight_ih.shape[1])
        self.kinds.add(op.name)
        self.steps += [("recurrent", layer) for layer in layers]
        return _Feature(len(self.steps), layers[-1].hidden, lambda x: x)

    def _elementwise(self, op: Op, inputs: list[Any], features: list[_Feature]) -> _Feature:
        if any(isinstance(value, _State) for value in inputs):
            raise NotRecognised(f"'{op.name}' mixes the signal with a recurrent state")
        if len({feature.origin for feature in features}) > 1:
            raise NotRecognised(f"'{op.name}' joins two layers: skip connections are not known")
        depth = 1 + max(feature.depth for feature in features)
        if depth > _MOST_ELEMENTWISE:
            raise NotRecognised(f"more than {_MOST_ELEMENTWISE} element-wise operations between two layers")
        widths = [feature.width for feature in features]
        widths += [np.size(v) for v in inputs if isinstance(v, np.ndarray) and np.size(v) > 1]
        width = next((w for w in widths if w is not None), None)
        is_bias = op.name == "add" and any(isinstance(v, np.ndarray) and v.size > 1 for v in inputs)
        if is_bias or op.name in _UNARY:
            inputs = [self._settle_affine(v, width) if isinstance(v, _Feature) else v for v in inputs]
        function, attributes = ELEMENTWISE[op.name], op.attributes
        memo: dict[int, tuple[np.ndarray, np.ndarray]] = {}

        def fn(x: np.ndarray) -> np.ndarray:
            if id(x) not in memo:
                arguments = [v.fn(x) if isinstance(v, _Feature) else _flat_constant(v) for v in inputs]
                memo[id(x)] = (x, function(*arguments, **attributes))
            return memo[id(x)][1]

        result = _Feature(next(v.origin for v in inputs if isinstance(v, _Feature)), width, fn, depth)
        return self._settle_affine(result, width) if is_bias else result

    def _settle_affine(self, feature: _Feature, width: int | None) -> _Feature:
        """Make a scale and shift a step of its own, so that what follows starts afresh: a bias, or a scaled input."""
        if feature.depth == 0 or feature.origin != len(self.steps) or not self.steps:
            return feature
        grid, got = self._on_grid(feature, width or 1)
        affine = _affine(grid, got)
        if affine is None:
            return feature
        self.steps.append(("scale", affine))
        return _Feature(len(self.steps), width, lambda x: x)

    def _on_grid(self, feature: _Feature, width: int) -> tuple[np.ndarray, np.ndarray]:
        grid = np.repeat(_GRID[:, None], width, axis=1)
        with np.errstate(all="ignore"):
            return grid, np.broadcast_to(feature.fn(grid), grid.shape)

    def _settle(self, feature: _Feature, width: int) -> None:
        """Recognise what stands between the last layer and the next, of ``width`` inputs."""
        if feature.origin != len(self.steps):
            raise NotRecognised("a layer is used twice: skip connections are not known")
        grid, got = self._on_grid(feature, width)
        affine = _affine(grid, got)
        if affine is not None:
            if not (np.all(affine[0] == 1.0) and np.all(affine[1] == 0.0)):
                self.steps.append(("scale", affine))
            return
        activation, gain, offset = _match(got)
        self.steps.append(("activation", activation))
        if not (np.allclose(gain, 1.0, atol=1e-7) and np.allclose(offset, 0.0, atol=1e-7)):
            self.steps.append(("scale", (gain, offset)))

    def finish(self, output: _Feature) -> Network:
        self._settle(output, output.width or 1)
        recurrent: list[Recurrent] = []
        dense: list[Dense] = []
        pending: tuple[np.ndarray, np.ndarray] | None = None
        for kind, value in self.steps:
            if kind == "scale":
                if dense and dense[-1].activation.name == "identity" and pending is None:
                    scale, shift = value
                    dense[-1] = Dense(dense[-1].weight * scale[:, None], dense[-1].bias * scale + shift)
                else:
                    pending = value if pending is None else (pending[0] * value[0], pending[1] * value[0] + value[1])
            elif kind == "activation":
                if not dense or pending is not None:
                    raise NotRecognised("an activation that follows no linear layer")
                dense[-1] = Dense(dense[-1].weight, dense[-1].bias, value)
            elif kind == "recurrent":
                if dense:
                    raise NotRecognised("a recurrent layer after a linear one")
                recurrent.append(value if pending is None else _scaled_recurrent(value, *pending))
                pending = None
            else:
                weight, bias = value
                if pending is not None:
                    weight, bias, pending = weight * pending[0], bias + weight @ pending[1], None
                dense.append(Dense(weight, bias))
        if pending is not None and dense:
            dense.append(Dense(np.diag(pending[0]), pending[1]))
        if not dense:
            raise NotRecognised("no linear layer")
        if len(self.kinds) > 1:
            raise NotRecognised("LSTM and GRU layers in one network")
        if dense[-1].weight.shape[0] != 1:
            raise NotRecognised(f"the network has {dense[-1].weight.shape[0]} outputs; an actuator network has one")
        return Network(next(iter(self.kinds), "mlp"), tuple(dense), tuple(recurrent))


_UNARY = frozenset(["tanh", "sigmoid", "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "softsign"])


def _affine(grid: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Scale and shift of each column, where that is all it is."""
    if not np.isfinite(got).all():
        return None
    shift = got[90]
    scale = (got[180] - shift) / 9.0
    within = 1e-6 * np.abs(got).max(axis=0)
    return (scale, shift) if (np.abs(got - (scale * grid + shift)) <= within).all() else None


class _Unknown(_Feature):
    """The result of an operation that is not known; only wrong once it is used."""

    def __init__(self, name: str):
        super().__init__(-1, None, lambda x: x)
        object.__setattr__(self, "name", name)

    name: str


_USUAL = {"leaky_relu": 0.01, "elu": 1.0, "softplus": 1.0}
"""Parameters that are tried together with any gain; others are fitted, with a gain of one."""


def _match(got: np.ndarray) -> tuple[Activation, np.ndarray, np.ndarray]:
    """Find the activation of which every column of ``got`` is a multiple plus a constant."""
    column = got[:, 0]
    at = dict(zip(_GRID.tolist(), column.tolist(), strict=True))
    candidates = [
        Activation(name) for name in ("relu", "selu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softsign")
    ]
    candidates += [Activation(name, parameter) for name, parameter in _USUAL.items()]
    slope = (at[-9.0] - at[-8.0]) / -1.0
    candidates.append(Activation("leaky_relu", slope))
    candidates.append(Activation("elu", -float(column.min())))
    if at[0.0] > 0:
        candidates.append(Activation("softplus", math.log(2.0) / at[0.0]))
    if not np.isfinite(got).all():
        raise NotRecognised("an element-wise function between two layers is not finite everywhere")
    near = np.abs(_GRID) <= 9.0
    for activation in candidates:
        exact = evaluate(activation, _GRID)
        basis = np.stack([exact, np.ones_like(exact)], axis=1)
        fit, *_ = np.linalg.lstsq(basis[near], got[near], rcond=None)
        if not np.allclose(basis @ fit, got, rtol=1e-5, atol=2e-6 * np.abs(got[near]).max()):
            continue
        gain, offset = fit
        fitted = activation.parameter not in (0.0, _USUAL.get(activation.name))
        if fitted and not (np.allclose(gain, 1.0, atol=1e-4) and np.allclose(offset, 0.0, atol=1e-4)):
            continue
        snap = np.allclose(gain, 1.0, atol=1e-5) and np.allclose(offset, 0.0, atol=1e-5)
        return activation, np.ones_like(gain) if snap else gain, np.zeros_like(offset) if snap else offset
    raise NotRecognised("an element-wise function between two layers is no known activation")


def evaluate(activation: Activation, x: np.ndarray) -> np.ndarray:
    """The activation in float64."""
    if activation.name == "identity":
        return x
    if activation.name == "gelu_tanh":
        return _gelu(x, "tanh")
    parameters = (activation.parameter,) if activation.name in ("leaky_relu", "elu", "softplus") else ()
    return ELEMENTWISE[activation.name](x, *parameters)


def _scaled_recurrent(layer: Recurrent, scale: np.ndarray, shift: np.ndarray) -> Recurrent:
    bias = layer.bias_ih + layer.weight_ih @ shift
    return Recurrent(layer.weight_ih * scale, layer.weight_hh, bias, layer.bias_hh)


def _resolve(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, Ref):
        return values.get(value.name, _State())
    if isinstance(value, (list, tuple)) and any(isinstance(part, Ref) for part in value):
        return [_resolve(part, values) for part in value]
    return value


def _constant(op: Op, inputs: list[Any]) -> Any:
    """An operation on constants alone, such as the transpose of a weight."""
    if any(isinstance(value, _State) for value in inputs):
        return _State()
    if op.name in SHAPE_ONLY:
        if op.attributes.get("transpose"):
            return inputs[0].T if np.ndim(inputs[0]) == 2 else _State()
        return inputs[0] if op.attributes.get("same") or np.ndim(inputs[0]) < 2 else _State()
    if np.size(inputs[0] if inputs else 0) > 1:
        return _State()
    try:
        return ELEMENTWISE[op.name](*inputs, **op.attributes)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError):
        return _State()


def _chosen(op: Op, value: Any) -> Any:
    """The last layer's hidden state, where an operation picks it out of all of them."""
    if not isinstance(value, _Hidden):
        return value
    picked = op.attributes.get("index", 0 if value.layers == 1 else None)
    return value.feature if picked in (-1, value.layers - 1) else _State()


def _flat_constant(value: Any) -> Any:
    """A constant as it meets features in the last axis."""
    if isinstance(value, np.ndarray):
        return value.ravel().astype(np.float64) if value.size > 1 else float(value.ravel()[0]) if value.size else value
    return value


def recurrent_layers(kind: str, tensors: list[np.ndarray], has_biases: bool = True) -> list[Recurrent]:
    """Group PyTorch's flat list of recurrent weights into layers."""
    per_layer = 4 if has_biases else 2
    if not tensors or len(tensors) % per_layer:
        raise NotRecognised(
            f"{kind} with {len(tensors)} weight tensors (projections and biased variants are not known)"
        )
    layers = []
    for start in range(0, len(tensors), per_layer):
        weight_ih, weight_hh, *biases = (np.asarray(t, np.float64) for t in tensors[start : start + per_layer])
        bias_ih, bias_hh = biases or (np.zeros(len(weight_ih)), np.zeros(len(weight_ih)))
        layers.append(Recurrent(weight_ih, weight_hh, bias_ih, bias_hh))
    return layers
