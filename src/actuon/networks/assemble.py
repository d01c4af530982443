# SPDX-License-Identifier: Apache-2.0
"""Layers, activations and scales in the order in which they apply → the layers of a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .model import Activation, Dense, NotRecognised, Recurrent


def assembled(steps: list[tuple[str, Any]]) -> tuple[list[Dense], list[Recurrent]]:
    """Put scales into the weights beside them, and each activation onto the linear layer before it."""
    recurrent: list[Recurrent] = []
    dense: list[Dense] = []
    pending: tuple[np.ndarray, np.ndarray] | None = None
    width = 1
    for kind, value in steps:
        if kind == "scale":
            scale, shift = value
            width = len(scale)
            if dense and dense[-1].activation == Activation() and pending is None:
                dense[-1] = Dense(dense[-1].weight * scale[:, None], dense[-1].bias * scale + shift)
            else:
                pending = value if pending is None else (pending[0] * scale, pending[1] * scale + shift)
        elif kind == "activation":
            activation, width = value
            if not dense or dense[-1].activation != Activation() or pending is not None:
                dense.append(_between(pending, width))
                pending = None
            dense[-1] = replace(dense[-1], activation=activation)
        elif kind == "recurrent":
            if dense:
                raise NotRecognised("a recurrent layer after a linear one, or after an activation")
            recurrent.append(value if pending is None else _scaled_recurrent(value, *pending))
            pending, width = None, value.hidden
        else:
            weight, bias = value
            if pending is not None:
                weight, bias, pending = weight * pending[0], bias + weight @ pending[1], None
            dense.append(Dense(weight, bias))
            width = len(weight)
    if pending is not None or not dense:
        dense.append(_between(pending, width))
    return dense, recurrent


def _between(scale_and_shift: tuple[np.ndarray, np.ndarray] | None, width: int) -> Dense:
    """A layer that only scales and shifts, for what no layer beside it can take."""
    scale, shift = (np.ones(width), np.zeros(width)) if scale_and_shift is None else scale_and_shift
    return Dense(np.diag(scale), np.array(shift))


def _scaled_recurrent(layer: Recurrent, scale: np.ndarray, shift: np.ndarray) -> Recurrent:
    return replace(layer, weight_ih=layer.weight_ih * scale, bias_ih=layer.bias_ih + layer.weight_ih @ shift)


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
