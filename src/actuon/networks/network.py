# SPDX-License-Identifier: Apache-2.0
"""What a network must be, to be run."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ParameterError
from .activations import ACTIVATION_NAMES
from .model import Activation, Network

MOST_UNITS = 8192
"""Units of all layers together: they live on the stack of a kernel's thread."""
MOST_LAYERS = 16
"""Layers are written out one by one: sixteen compile in some seconds, sixty in minutes."""

_FLOAT = np.finfo(np.float32)


def check_network(network: Network) -> None:
    """Refuse a network whose shapes do not fit together, that is too large, or whose weights 32 bits do not hold."""
    width: int | None = None
    gates = {"mlp": 0, "lstm": 4, "gru": 3}.get(network.kind)
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
        raise ParameterError(f"activation '{name}' is not known; known: {', '.join(ACTIVATION_NAMES)}")
    if name == "clamp":
        bounds = [bound for bound in (parameter, upper) if math.isfinite(bound)]
        if not -math.inf <= parameter <= upper <= math.inf or any(abs(bound) > _FLOAT.max for bound in bounds):
            raise ParameterError(f"activation 'clamp' between {parameter} and {upper}")
    elif not abs(parameter) < 1e6 or (name == "softplus" and parameter <= 0.0):
        raise ParameterError(f"activation '{name}' with the parameter {parameter}")


def _check_size(network: Network) -> None:
    layers = len(network.recurrent) + len(network.dense)
    if layers > MOST_LAYERS:
        raise ParameterError(f"the network has {layers} layers; at most {MOST_LAYERS} can be run")
    units = sum(4 * layer.hidden for layer in network.recurrent) + sum(len(dense.bias) for dense in network.dense)
    if not 0 < network.inputs <= MOST_UNITS or units > MOST_UNITS:
        raise ParameterError(
            f"the network has {network.inputs} inputs and {units} units; at most {MOST_UNITS} can be run"
        )


def check_weights(network: Network) -> None:
    """Refuse weights that are not finite, or that are not in 32 bits."""
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
                f"{name} reaches {largest:.2g} in size, which 32 bits do not hold; they hold "
                f"{_FLOAT.tiny:.1e} to {_FLOAT.max:.1e}"
            )
