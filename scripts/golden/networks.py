# SPDX-License-Identifier: Apache-2.0
"""Network controllers of every kind, several sizes and usual activations, and published ones where they are there."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import actuon

from .case import DATA, Case, Scope, Unavailable, seeded
from .rollout import Named, cases_of

FOLDER = DATA / "networks"
PUBLISHED = {"unitree_go1.pt": "mlp", "anydrive_v3_lstm.pt": "lstm"}
MLPS: dict[str, tuple[int, tuple[tuple[int, str], ...], str]] = {
    "mlp of 0": (4, (), ".safetensors"),
    "mlp of 1": (4, ((4, "ELU"),), ".safetensors"),
    "mlp of 2": (6, ((30, "Softsign"),) * 2, ".pt"),
    "mlp of 3": (6, ((64, "ELU"),) * 3, ".onnx"),
    "mlp piecewise": (6, ((8, "ReLU"), (9, "LeakyReLU"), (7, "Identity")), ".safetensors"),
    "mlp smooth": (6, ((8, "ELU"), (9, "SELU"), (7, "GELU"), (8, "SiLU")), ".safetensors"),
    "mlp bounded": (6, ((8, "Tanh"), (9, "Sigmoid"), (7, "Softplus"), (8, "Softsign")), ".safetensors"),
}
"""By name: number of inputs, width and activation of each layer, and format."""
RECURRENT = {
    f"{kind} of {layers} of {hidden}": (kind, layers, hidden, ending)
    for kind in ("lstm", "gru")
    for layers, hidden, ending in ((1, 4, ".safetensors"), (2, 9, ".pt"), (1, 33, ".onnx"))
}
"""By name: kind, layers, width and format."""
_CLASSES = {
    "mlp": actuon.ControllerNeuralMLP,
    "lstm": actuon.ControllerNeuralLSTM,
    "gru": actuon.ControllerNeuralGRU,
}


def cases(scope: Scope) -> Iterator[Case]:
    """Return the cases of all networks."""
    kinds = dict.fromkeys(MLPS, "mlp") | {name: values[0] for name, values in RECURRENT.items()} | PUBLISHED
    for name, kind in kinds.items():
        if name in PUBLISHED and not (FOLDER / name).is_file():
            yield Case(f"networks/{name}", functools.partial(_absent, name))
            continue
        yield from cases_of(f"networks/{name}", functools.partial(_build, name, kind), scope.dofs)


def _absent(name: str) -> Named:
    raise Unavailable(f"'{name}' is not in the folder of networks")


def _build(name: str, kind: str, n: int, **options: Any) -> actuon.Actuator:
    stages = [_CLASSES[kind](network_file(name)), actuon.ClampingMaxEffort(9.0)]
    return actuon.Actuator(range(n), stages=stages, **options)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="golden-networks-")


@functools.cache
def network_file(name: str) -> Path:
    """Return the file of a network, which is written the first time."""
    if name in PUBLISHED:
        return FOLDER / name
    module = _mlp(name) if name in MLPS else _recurrent(name)
    ending = MLPS[name][-1] if name in MLPS else RECURRENT[name][-1]
    path = Path(_folder().name) / f"{name}{ending}"
    actuon.save_network(_with_random_weights(module, name), path)
    return path


def _with_random_weights(module: Any, name: str) -> Any:
    """Fill the weights with NumPy's random numbers, which are the same in every version of PyTorch."""
    import torch

    rng = seeded(f"weights of {name}")
    with torch.no_grad():
        for parameter in module.parameters():
            spread = 1.0 / np.sqrt(parameter.shape[-1])
            parameter.copy_(torch.from_numpy(rng.uniform(-spread, spread, parameter.shape).astype(np.float32)))
    return module.eval()


def _mlp(name: str) -> Any:
    from torch import nn

    inputs, layers, _ = MLPS[name]
    parts: list[Any] = []
    for width, activation in layers:
        parts += [nn.Linear(inputs, width), getattr(nn, activation)()]
        inputs = width
    return nn.Sequential(*parts, nn.Linear(inputs, 1))


def _recurrent(name: str) -> Any:
    import torch
    from torch import nn

    kind, layers, hidden, _ = RECURRENT[name]

    class LSTM(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(2, hidden, layers, batch_first=True)
            self.head = nn.Linear(hidden, 1)

        def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):  # type: ignore[no-untyped-def]
            out, after = self.rnn(x, state)
            return self.head(out[:, 0]), after

    class GRU(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(2, hidden, layers, batch_first=True)
            self.head = nn.Linear(hidden, 1)

        def forward(self, x, state):  # type: ignore[no-untyped-def]
            out, after = self.rnn(x, state)
            return self.head(out[:, 0]), after

    return LSTM() if kind == "lstm" else GRU()
