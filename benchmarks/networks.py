# SPDX-License-Identifier: Apache-2.0
"""Network controllers beside the same modules in PyTorch: eager with eager, captured with compiled."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import actuon

from .contenders import COMPILED, EAGER
from .gate import Gate, require_agreement
from .runner import TIMES_HEADER, Table, grouped, measure, progress, times_faster

SIZES = (12, 49_152)


def softsign_mlp() -> Any:
    """Return an MLP of 6-32-32-32-1 with softsign activations."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(6, 32),
        nn.Softsign(),
        nn.Linear(32, 32),
        nn.Softsign(),
        nn.Linear(32, 32),
        nn.Softsign(),
        nn.Linear(32, 1),
    ).eval()


def small_lstm() -> Any:
    """Return an LSTM of the size of the published ANYdrive network: 2 → 2 × 8 → 1."""
    import torch

    class ActuatorLSTM(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(2, 8, 2, batch_first=True)
            self.linear = torch.nn.Linear(8, 1)

        def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
            out, after = self.lstm(x, state)
            return self.linear(out[:, 0]), after

    return ActuatorLSTM().eval()


KINDS = {"MLP 6-32-32-32-1 softsign": ("mlp", softsign_mlp), "LSTM 2-8-8-1": ("lstm", small_lstm)}


def controller(kind: str, module: Any) -> actuon.Controller:
    """Return a PyTorch module as a controller."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        actuon.save_network(module, path)
        return {"mlp": actuon.ControllerNeuralMLP, "lstm": actuon.ControllerNeuralLSTM}[kind](path)


class TorchNetwork:
    """Feeds a module in eager PyTorch."""

    label = "PyTorch"
    mode = EAGER

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        import torch

        self.torch, self.kind, self.module = torch, kind, module
        self.n = len(signals["joint_q"])
        self.signals = {name: torch.from_numpy(array) for name, array in signals.items()}
        self.past = torch.zeros(2, 3, self.n)
        self.state = (torch.zeros(2, self.n, 8), torch.zeros(2, self.n, 8))
        self.effort = torch.zeros(self.n)

    def compute(self, past: Any, state: Any) -> tuple[Any, Any, Any]:
        """Return the efforts of a step, the past inputs and the state of the network."""
        torch, s = self.torch, self.signals
        error = s["joint_target_q"] - s["joint_q"]
        if self.kind == "mlp":
            past = torch.cat([torch.stack([error, s["joint_qd"]])[:, None], past[:, :-1]], dim=1)
            effort = self.module(past.reshape(6, self.n).T)
        else:
            effort, state = self.module(torch.stack([error, s["joint_qd"]], dim=1)[:, None], state)
        return effort.reshape(-1), past, state

    def step(self) -> None:
        with self.torch.inference_mode():
            self.effort, self.past, self.state = self.compute(self.past, self.state)


class TorchCompiledNetwork(TorchNetwork):
    """A module by ``torch.compile``, which needs a C++ compiler."""

    label = "PyTorch, compiled"
    mode = COMPILED

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        super().__init__(kind, module, signals)
        self.torch.compiler.reset()
        self.compute = self.torch.compile(self.compute)  # type: ignore[method-assign]


class ActuonNetwork:
    """Actuon's controller from the PyTorch module, its state updated in place."""

    label = "Actuon, in place"
    mode = EAGER

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        n = len(signals["joint_q"])
        self.actuator = actuon.Actuator(range(n), controller(kind, module))
        self.state = self.actuator.state()
        self.sim = {name: wp.array(array) for name, array in signals.items()}
        self.sim["joint_f"] = wp.zeros(n, dtype=wp.float32)

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.state, self.state)


class ActuonCapturedNetwork(ActuonNetwork):
    """Actuon's controller, captured and replayed."""

    label = "Actuon, captured graph"
    mode = COMPILED

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        super().__init__(kind, module, signals)
        with wp.ScopedCapture() as capture:
            super().step()
        self.graph = capture.graph
        if self.state is not None:
            self.state.reset()

    def step(self) -> None:
        wp.capture_launch(self.graph)


OURS: Sequence[type[ActuonNetwork]] = (ActuonNetwork, ActuonCapturedNetwork)


def contenders(name: str, dofs: int, *peers: type[TorchNetwork]) -> list[Any]:
    """Build eager PyTorch, other peers and Actuon's, which must agree over several steps."""
    kind, make = KINDS[name]
    rng = np.random.default_rng(2)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    signals = {key: rng.standard_normal(dofs).astype(np.float32) for key in names}
    module = make()
    kinds: list[type[TorchNetwork]] = [TorchNetwork, *peers]
    references = [peer(kind, module, signals) for peer in kinds]
    ours = [contender(kind, module, signals) for contender in OURS]
    for step in range(5):
        efforts = {}
        for contender in references:
            contender.step()
            efforts[contender.label] = contender.effort.numpy()
        for own in ours:
            own.sim["joint_f"].zero_()
            own.step()
            efforts[own.label] = own.sim["joint_f"].numpy()
        require_agreement(f"networks, {name}, {dofs} DOFs, step {step}", efforts, rtol=1e-4, atol=1e-5)
    return [*references, *ours]


GATE = Gate(KINDS, contenders, smallest=12)
"""Leaves out compiled PyTorch, which takes a minute to compile."""


def measure_networks(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for n in SIZES:
        for name in KINDS:
            progress(f"{n} DOFs, {name}")
            everyone = contenders(name, n, TorchCompiledNetwork)
            times = dict(zip(everyone, measure(everyone, n, seconds), strict=True))
            torch = {peer.mode: times[peer] for peer in everyone[:2]}
            for contender in sorted(everyone, key=lambda contender: contender.mode != EAGER):
                own = times[contender]
                cells = (grouped(n), name, contender.mode, contender.label, *own.cells(), f"{own.loop / n * 1e9:.1f}")
                rows.append((*cells, times_faster(torch[contender.mode], own)))
    header = ("DOFs", "network", "mode", "who", *TIMES_HEADER, "ns per DOF", "faster than PyTorch")
    return [Table("Networks. Speeds are compared within a mode.", header, rows)]
