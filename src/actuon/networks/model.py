# SPDX-License-Identifier: Apache-2.0
"""A network as plain data: recurrent layers, then dense layers, each with its activation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import ActuonError


class NotRecognised(ActuonError, ValueError):
    """The graph computes something that is not a known network."""


@dataclass(frozen=True)
class Activation:
    """An element-wise function by name, with its one parameter where it has one.

    ``"clamp"`` has two: it holds values between ``parameter`` and ``upper``, of which one may be infinite.
    """

    name: str = "identity"
    parameter: float = 0.0
    upper: float = 0.0

    @property
    def is_bounded_below(self) -> bool:
        return math.isfinite(self.parameter)

    @property
    def is_bounded_above(self) -> bool:
        return math.isfinite(self.upper)


@dataclass(frozen=True)
class Dense:
    """``activation(weight·x + bias)``; weight of shape (out, in)."""

    weight: np.ndarray
    bias: np.ndarray
    activation: Activation = Activation()


@dataclass(frozen=True)
class Recurrent:
    """One LSTM or GRU layer, gates in PyTorch's order: i f g o, or r z n.

    Shapes: ``weight_ih`` (gates·hidden, in), ``weight_hh`` (gates·hidden, hidden), biases (gates·hidden,).
    """

    weight_ih: np.ndarray
    weight_hh: np.ndarray
    bias_ih: np.ndarray
    bias_hh: np.ndarray

    @property
    def hidden(self) -> int:
        return self.weight_hh.shape[1]


@dataclass(frozen=True)
class Network:
    """``kind`` is ``"mlp"``, ``"lstm"`` or ``"gru"``. The output is one effort."""

    kind: str
    dense: tuple[Dense, ...]
    recurrent: tuple[Recurrent, ...] = field(default=())

    @property
    def inputs(self) -> int:
        return self.recurrent[0].weight_ih.shape[1] if self.recurrent else self.dense[0].weight.shape[1]

    def scaled(self, input_scale: np.ndarray, output_scale: float, output_shift: float = 0.0) -> Network:
        """The network of inputs · ``input_scale`` with output · ``output_scale`` + ``output_shift``, in its weights."""
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

    def structure(self) -> tuple:
        """What of it is compiled: everything but the weights."""
        layers = tuple((*layer.weight.shape, layer.activation) for layer in self.dense)
        return self.kind, tuple(layer.weight_ih.shape for layer in self.recurrent), layers
