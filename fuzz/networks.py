# SPDX-License-Identifier: Apache-2.0
"""Random networks in every format against PyTorch in float64, and network files that are damaged."""

from __future__ import annotations

import copy
import functools
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

import actuon

from .isolated import Refused, worker
from .mutations import Edit, damaged, damaged_inside, edits
from .rig import rig
from .values import SIGNALS, random_signals

FORMATS = (".safetensors", ".onnx", ".pt", ".pt2")
ACTIVATIONS = {
    "relu": nn.ReLU, "leaky_relu": lambda: nn.LeakyReLU(0.07), "elu": lambda: nn.ELU(1.3), "selu": nn.SELU,
    "gelu": nn.GELU, "gelu_tanh": lambda: nn.GELU(approximate="tanh"), "silu": nn.SiLU, "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid, "softplus": lambda: nn.Softplus(beta=1.7), "softsign": nn.Softsign, "identity": nn.Identity,
}  # fmt: skip
CLASSES = {
    "mlp": actuon.ControllerNeuralMLP,
    "lstm": actuon.ControllerNeuralLSTM,
    "gru": actuon.ControllerNeuralGRU,
}


@dataclass(frozen=True)
class Architecture:
    """Structure of a network that determines its kernel."""

    kind: str
    input_idx: tuple[int, ...]
    layers: int
    units: int
    head: tuple[int, ...]
    activation: str
    squashed: bool
    """Whether the output passes an activation too."""
    order: str


class Module(nn.Module):
    """A network with scales inside, as people train them."""

    def __init__(self, architecture: Architecture, bias: bool, scale: float, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        made = architecture
        inputs = 2 * len(made.input_idx) if made.kind == "mlp" else 2
        if made.kind != "mlp":
            rnn = nn.LSTM if made.kind == "lstm" else nn.GRU
            self.rnn = rnn(inputs, made.units, made.layers, batch_first=True, bias=bias)
        parts: list[nn.Module] = []
        width = inputs if made.kind == "mlp" else made.units
        for units in made.head:
            parts += [nn.Linear(width, units, bias=bias), ACTIVATIONS[made.activation]()]
            width = units
        parts.append(nn.Linear(width, 1, bias=bias))
        parts += [ACTIVATIONS[made.activation]()] if made.squashed else []
        self.head = nn.Sequential(*parts)
        self.register_buffer("inside", torch.rand(inputs) + 0.5)
        self.register_buffer("outside", torch.tensor(scale))


class MLP(Module):
    def forward(self, x):
        return self.head(x * self.inside) * self.outside


class LSTM(Module):
    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        out, after = self.rnn(x * self.inside, state)
        return self.head(out[:, 0]) * self.outside, after


class GRU(Module):
    def forward(self, x, state):
        out, after = self.rnn(x * self.inside, state)
        return self.head(out[:, 0]) * self.outside, after


MODULES = {"mlp": MLP, "lstm": LSTM, "gru": GRU}


class Fed:
    """PyTorch in float64, fed as the convention says."""

    def __init__(self, module: nn.Module, architecture: Architecture, n: int, scales: Mapping[str, float]):
        self.module = copy.deepcopy(module).double()
        self.architecture, self.scales = architecture, scales
        self.past = torch.zeros(2, max(architecture.input_idx) + 1, n, dtype=torch.float64)
        count = {"mlp": 0, "lstm": 2, "gru": 1}[architecture.kind]
        shape = (architecture.layers, n, architecture.units)
        self.state = [torch.zeros(shape, dtype=torch.float64) for _ in range(count)]

    def reset(self, mask: np.ndarray) -> None:
        for part in (self.past, *self.state):
            chosen = torch.from_numpy(mask)
            if part is self.past:
                part[:, :, chosen] = 0.0
            else:
                part[:, chosen] = 0.0

    @torch.no_grad()
    def step(self, q, qd, target_q, target_qd, feedforward):
        made = self.architecture
        now = torch.from_numpy(np.stack([np.float64(target_q) - q, qd]).astype(np.float64))
        self.past = torch.cat([now[:, None], self.past[:, :-1]], dim=1)
        steps = list(made.input_idx) if made.kind == "mlp" else [0]
        columns = [self.past[0, steps].T * self.scales["pos_scale"], self.past[1, steps].T * self.scales["vel_scale"]]
        x = torch.cat(columns[::-1] if made.order == "vel_pos" else columns, dim=1)
        if made.kind == "mlp":
            effort = self.module(x)
        else:
            state = tuple(self.state) if made.kind == "lstm" else self.state[0]
            effort, after = self.module(x[:, None], state)
            self.state = list(after) if made.kind == "lstm" else [after]
        added = 0.0 if made.kind == "gru" else feedforward
        return effort.reshape(-1).numpy() * self.scales["effort_scale"] + added


@functools.lru_cache(2)
def _of_seed(seed: int) -> Architecture:
    """One network a seed: each costs a compilation."""
    from random import Random

    source = Random(seed)
    return Architecture(
        kind=source.choice(["mlp", "mlp", "lstm", "gru"]),
        input_idx=tuple(source.sample(range(7), source.choice([1, 1, 2, 3]))),
        layers=source.choice([1, 1, 2, 3]),
        units=source.choice([1, 2, 7, 16]),
        head=tuple(source.choice([1, 3, 8, 20]) for _ in range(source.choice([0, 1, 2, 3]))),
        activation=source.choice(list(ACTIVATIONS)),
        squashed=source.random() < 0.3,
        order=source.choice(["pos_vel", "vel_pos"]),
    )


def _networks(seed: int) -> dict[str, st.SearchStrategy]:
    scale = st.sampled_from([1.0, -1.0, 0.1, 7.5])
    return {
        "architecture": st.just(_of_seed(seed)),
        "suffix": st.sampled_from(FORMATS),
        "bias": st.booleans(),
        "weights": st.sampled_from([0.1, 1.0, 20.0]),
        "scales": st.fixed_dictionaries({"pos_scale": scale, "vel_scale": scale, "effort_scale": scale}),
        "n": st.sampled_from([1, 3, 64, 70]),
        "length": st.integers(1, 12),
        "numbers": st.integers(0, 2**32 - 1),
    }


@rig("networks", examples=6, drawn=_networks)
def networks(
    architecture: Architecture,
    suffix: str,
    bias: bool,
    weights: float,
    scales: dict[str, float],
    n: int,
    length: int,
    numbers: int,
) -> None:
    """A network that was saved and read back gives the efforts of PyTorch."""
    module = MODULES[architecture.kind](architecture, bias, weights, numbers).eval()
    rng = np.random.default_rng(numbers)
    convention: dict[str, Any] = {"input_order": architecture.order, **scales}
    if architecture.kind == "mlp":
        convention["input_idx"] = list(architecture.input_idx)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        path = Path(folder) / f"network{suffix}"
        actuon.save_network(module, path, **convention)
        found = actuon.load_metadata(path)
        assert {key: found[key] for key in scales} == scales
        assert found["model_type"] == architecture.kind
        actuator = actuon.Actuator(range(n), CLASSES[architecture.kind](path))
    assert actuator.is_fused()
    reference = Fed(module, architecture, n, scales)
    state = actuator.state()
    for t in range(length):
        if state is not None and rng.random() < 0.2:
            mask = rng.random(n) < 0.5
            state.reset(mask)
            reference.reset(mask)
        sim = random_signals((n, n), "plain", rng)
        expected = reference.step(*(sim[name] for name in SIGNALS))
        sim["joint_f"] = np.zeros(n, np.float32)
        actuator.step(sim, sim, state, state, dt=0.01)
        scale = np.abs(expected).max() + weights * abs(scales["effort_scale"])
        np.testing.assert_allclose(sim["joint_f"], expected, rtol=1e-4, atol=2e-5 * scale, err_msg=f"step {t}")


@functools.cache
def _sound_file(kind: str, suffix: str) -> bytes:
    """A small network's file."""
    architecture = Architecture(kind, (0, 2), 1, 3, (4,), "tanh", False, "pos_vel")
    convention = {"input_idx": [0, 2]} if kind == "mlp" else {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        path = Path(folder) / f"network{suffix}"
        actuon.save_network(MODULES[kind](architecture, True, 1.0, 0).eval(), path, **convention)
        return path.read_bytes()


def _prepare() -> None:
    import onnx  # noqa: F401
    import torch

    torch.set_num_threads(1)


def load(path: str) -> str:
    """Read a network file in every way."""
    actuon.load_metadata(path)
    return repr(actuon.NeuralControlConfig(path).build())


@rig(
    "network_files",
    examples=300,
    drawn=lambda seed: {
        "kind": st.sampled_from(list(CLASSES)),
        "suffix": st.sampled_from(FORMATS),
        "renamed": st.sampled_from([None, None, None, *FORMATS]),
        "member": st.none() | st.integers(0, 30),
        "changes": edits,
    },
)
def network_files(kind: str, suffix: str, renamed: str | None, member: int | None, changes: list[Edit]) -> None:
    """A damaged file is read or refused by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network{renamed or suffix}"
        content = _sound_file(kind, suffix)
        inside = member is not None and suffix in (".pt", ".pt2")
        path.write_bytes(damaged_inside(content, member, changes) if inside else damaged(content, changes))
        # PyTorch may crash on an archive whose checksums hide the damage, which is why such files need to be trusted.
        outcome = worker(_prepare).call(load, str(path), may_crash=inside)
        if isinstance(outcome, Refused) and outcome.kind != "crashed":
            assert "network" in outcome.message, outcome
