# SPDX-License-Identifier: Apache-2.0
"""Networks as plain data: recurrent layers, then dense layers, each with its activation.

A network is assembled from the steps of a graph, with scales folded into the weights, and checked before use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import ActuonError, ParameterError
from .activations import ACTIVATION_NAMES, IDENTITY, Activation, FloatArray

GATES: Final = {"mlp": 0, "lstm": 4, "gru": 3}
"""Gates of a recurrent unit, by kind of network."""

MOST_UNITS = 8192
"""Largest number of units of all layers together: they are on the stack of a kernel's thread."""
MOST_LAYERS = 16
"""Largest number of layers. The code is unrolled: sixteen layers compile in some seconds, sixty in minutes."""

_FLOAT = np.finfo(np.float32)


class NotRecognised(ActuonError, ValueError):
    """A graph does not compute a known network."""


@dataclass(frozen=True)
class Dense:
    """``activation(weight·x + bias)``; weight of shape (out, in)."""

    weight: FloatArray
    bias: FloatArray
    activation: Activation = IDENTITY


@dataclass(frozen=True)
class Recurrent:
    """An LSTM or GRU layer, gates in PyTorch's order: i f g o, or r z n.

    Shapes: ``weight_ih`` (gates·hidden, in), ``weight_hh`` (gates·hidden, hidden), biases (gates·hidden,).
    """

    weight_ih: FloatArray
    weight_hh: FloatArray
    bias_ih: FloatArray
    bias_hh: FloatArray

    @property
    def hidden(self) -> int:
        return self.weight_hh.shape[1]


class RecurrentShape(NamedTuple):
    """Sizes of one recurrent layer."""

    hidden: int
    inputs: int


class DenseShape(NamedTuple):
    """Sizes and activation of one dense layer."""

    outputs: int
    inputs: int
    activation: Activation


class Structure(NamedTuple):
    """Compiled part of a network: everything except the weights."""

    kind: str
    recurrent: tuple[RecurrentShape, ...]
    dense: tuple[DenseShape, ...]


@dataclass(frozen=True)
class Network:
    """``kind`` is ``"mlp"``, ``"lstm"`` or ``"gru"``. The output is one effort."""

    kind: str
    dense: tuple[Dense, ...]
    recurrent: tuple[Recurrent, ...] = ()

    @property
    def inputs(self) -> int:
        return self.recurrent[0].weight_ih.shape[1] if self.recurrent else self.dense[0].weight.shape[1]

    def scaled(self, input_scale: npt.ArrayLike, output_scale: float, output_shift: float = 0.0) -> Network:
        """Return the network with inputs · ``input_scale`` and output · ``output_scale`` + ``output_shift``."""
        scale = np.asarray(input_scale, np.float64)
        dense, recurrent = list(self.dense), list(self.recurrent)
        if recurrent:
            recurrent[0] = replace(recurrent[0], weight_ih=recurrent[0].weight_ih * scale)
        else:
            dense[0] = replace(dense[0], weight=dense[0].weight * scale)
        if dense[-1].activation.name == "identity":
            last = dense[-1]
            bias = last.bias * output_scale + output_shift
            dense[-1] = replace(last, weight=last.weight * output_scale, bias=bias)
        elif output_scale != 1.0 or output_shift != 0.0:
            dense.append(Dense(np.array([[output_scale]]), np.array([output_shift])))
        return Network(self.kind, tuple(dense), tuple(recurrent))

    def structure(self) -> Structure:
        """Return the compiled part of the network."""
        recurrent = tuple(RecurrentShape(layer.hidden, layer.weight_ih.shape[1]) for layer in self.recurrent)
        dense = tuple(DenseShape(len(layer.bias), layer.weight.shape[1], layer.activation) for layer in self.dense)
        return Structure(self.kind, recurrent, dense)


@dataclass(frozen=True)
class Scale:
    """``scale·x + shift``, feature by feature."""

    scale: FloatArray
    shift: FloatArray

    def then(self, other: Scale) -> Scale:
        """Return the composition of both, this one first."""
        return Scale(self.scale * other.scale, self.shift * other.scale + other.shift)

    def as_layer(self) -> Dense:
        """Return a dense layer that only scales and shifts."""
        return Dense(np.diag(self.scale), np.array(self.shift))


@dataclass(frozen=True)
class Activated:
    """An activation of ``width`` features."""

    activation: Activation
    width: int


Step: TypeAlias = Dense | Recurrent | Scale | Activated


def assemble(steps: Iterable[Step]) -> tuple[list[Dense], list[Recurrent]]:
    """Return the layers of steps in the order in which they apply.

    Scales are folded into adjacent weights, and each activation into the linear layer before it.
    """
    recurrent: list[Recurrent] = []
    dense: list[Dense] = []
    pending: Scale | None = None
    width = 1
    for step in steps:
        takes_more = bool(dense) and dense[-1].activation == IDENTITY and pending is None
        if isinstance(step, Scale):
            width = len(step.scale)
            if takes_more:
                last = dense[-1]
                dense[-1] = Dense(last.weight * step.scale[:, None], last.bias * step.scale + step.shift)
            else:
                pending = step if pending is None else pending.then(step)
        elif isinstance(step, Activated):
            width = step.width
            if not takes_more:
                dense.append(_layer_between(pending, width))
                pending = None
            dense[-1] = replace(dense[-1], activation=step.activation)
        elif isinstance(step, Recurrent):
            if dense:
                raise NotRecognised("a recurrent layer after a linear one, or after an activation")
            if pending is not None:
                weight_ih, bias_ih = step.weight_ih * pending.scale, step.bias_ih + step.weight_ih @ pending.shift
                step = replace(step, weight_ih=weight_ih, bias_ih=bias_ih)
            recurrent.append(step)
            pending, width = None, step.hidden
        else:
            if pending is not None:
                step = Dense(step.weight * pending.scale, step.bias + step.weight @ pending.shift)
                pending = None
            dense.append(step)
            width = len(step.weight)
    if pending is not None or not dense:
        dense.append(_layer_between(pending, width))
    return dense, recurrent


def _layer_between(pending: Scale | None, width: int) -> Dense:
    """Return a layer for a scale that no adjacent layer can take."""
    return (pending or Scale(np.ones(width), np.zeros(width))).as_layer()


def recurrent_layers(kind: str, tensors: Sequence[npt.ArrayLike], has_biases: bool = True) -> list[Recurrent]:
    """Group PyTorch's flat list of recurrent weights into layers."""
    per_layer = 4 if has_biases else 2
    if not tensors or len(tensors) % per_layer:
        raise NotRecognised(
            f"{kind} with {len(tensors)} weight tensors (projections and biased variants are not supported)"
        )
    layers = []
    for start in range(0, len(tensors), per_layer):
        weight_ih, weight_hh, *biases = (np.asarray(t, np.float64) for t in tensors[start : start + per_layer])
        bias_ih, bias_hh = biases or (np.zeros(len(weight_ih)), np.zeros(len(weight_ih)))
        layers.append(Recurrent(weight_ih, weight_hh, bias_ih, bias_hh))
    return layers


def check_network(network: Network) -> None:
    """Raise if the shapes of a network do not fit, it is too large, or its weights exceed 32 bits."""
    width: int | None = None
    gates = GATES.get(network.kind)
    if gates is None or bool(network.recurrent) != bool(gates) or not network.dense:
        raise ParameterError(f"a network of kind '{network.kind}' with {len(network.recurrent)} recurrent layers")
    for layer in network.recurrent:
        hidden = layer.weight_hh.shape[-1] if layer.weight_hh.ndim == 2 else 0
        if not hidden:
            raise ParameterError("a recurrent layer without units")
        shapes = [array.shape for array in vars(layer).values()]
        expected = [
            (gates * hidden, layer.weight_ih.shape[-1]),
            (gates * hidden, hidden),
            (gates * hidden,),
            (gates * hidden,),
        ]
        if shapes != expected or width not in (None, layer.weight_ih.shape[1]):
            raise ParameterError(f"recurrent weights of shapes {shapes} do not fit")
        width = hidden
    for dense in network.dense:
        if (
            dense.weight.ndim != 2
            or dense.bias.shape != dense.weight.shape[:1]
            or width not in (None, dense.weight.shape[1])
        ):
            raise ParameterError(f"dense weights of shapes {dense.weight.shape} and {dense.bias.shape} do not fit")
        _check_activation(dense.activation)
        width = dense.weight.shape[0]
    if width != 1:
        raise ParameterError(f"the network has {width} outputs; an actuator network has one")
    _check_size(network)
    check_weights(network)


def _check_activation(activation: Activation) -> None:
    name, parameter, upper = activation.name, activation.parameter, activation.upper
    if name not in ACTIVATION_NAMES:
        raise ParameterError(f"unknown activation '{name}'; must be one of {', '.join(ACTIVATION_NAMES)}")
    if name == "clamp":
        bounds = [bound for bound in (parameter, upper) if math.isfinite(bound)]
        if not -math.inf <= parameter <= upper <= math.inf or any(abs(bound) > _FLOAT.max for bound in bounds):
            raise ParameterError(f"activation 'clamp' between {parameter} and {upper}")
    elif not abs(parameter) < 1e6 or (name == "softplus" and parameter <= 0.0):
        raise ParameterError(f"activation '{name}' with the parameter {parameter}")


def _check_size(network: Network) -> None:
    layers = len(network.recurrent) + len(network.dense)
    if layers > MOST_LAYERS:
        raise ParameterError(f"the network has {layers} layers; must have at most {MOST_LAYERS}")
    units = sum(4 * layer.hidden for layer in network.recurrent) + sum(len(dense.bias) for dense in network.dense)
    if not 0 < network.inputs <= MOST_UNITS or units > MOST_UNITS:
        raise ParameterError(
            f"the network has {network.inputs} inputs and {units} units; must have 1 to {MOST_UNITS} of each"
        )


def check_weights(network: Network) -> None:
    """Raise if weights are not finite, or exceed the range of 32 bits."""
    arrays = {f"recurrent.{i}.{n}": a for i, layer in enumerate(network.recurrent) for n, a in vars(layer).items()}
    with np.errstate(over="ignore"):
        sums = [layer.bias_ih + layer.bias_hh for layer in network.recurrent]
    arrays |= {f"recurrent.{i}.bias_ih + bias_hh": total for i, total in enumerate(sums)}
    for i, dense in enumerate(network.dense):
        arrays |= {f"dense.{i}.weight": dense.weight, f"dense.{i}.bias": dense.bias}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ParameterError(f"{name} holds NaN or infinity")
        with np.errstate(over="ignore", under="ignore"):
            single = array.astype(np.float32)
        largest = np.abs(array).max(initial=0.0)
        if not np.isfinite(single).all() or (largest > 0.0 and not single.any()):
            raise ParameterError(
                f"{name} has the magnitude {largest:.2g}; must be from {_FLOAT.tiny:.1e} to {_FLOAT.max:.1e}, the "
                "range of 32 bits"
            )
