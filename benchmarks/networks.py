# SPDX-License-Identifier: Apache-2.0
"""Network controllers beside the same modules in eager PyTorch, fed in the same convention."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import actuon

from .gate import Gate, require_agreement
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, progress, times_faster

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

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        import torch

        self.torch, self.kind, self.module = torch, kind, module
        self.n = len(signals["joint_q"])
        self.signals = {name: torch.from_numpy(array) for name, array in signals.items()}
        self.past = torch.zeros(2, 3, self.n)
        self.state = (torch.zeros(2, self.n, 8), torch.zeros(2, self.n, 8))
        self.effort = torch.zeros(self.n)

    def step(self) -> None:
        torch, s = self.torch, self.signals
        with torch.inference_mode():
            error = s["joint_target_q"] - s["joint_q"]
            if self.kind == "mlp":
                self.past = torch.cat([torch.stack([error, s["joint_qd"]])[:, None], self.past[:, :-1]], dim=1)
                effort = self.module(self.past.reshape(6, self.n).T)
            else:
                effort, self.state = self.module(torch.stack([error, s["joint_qd"]], dim=1)[:, None], self.state)
            self.effort = effort.reshape(-1)


class ActuonNetwork:
    """Actuon's controller from the PyTorch module, its state updated in place."""

    label = "Actuon, in place"

    def __init__(self, kind: str, module: Any, signals: dict[str, np.ndarray]):
        n = len(signals["joint_q"])
        self.actuator = actuon.Actuator(range(n), controller(kind, module))
        self.state = self.actuator.state()
        self.sim = {name: wp.array(array) for name, array in signals.items()}
        self.sim["joint_f"] = wp.zeros(n, dtype=wp.float32)

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.state, self.state)


def contenders(name: str, dofs: int) -> list[Stepper]:
    """Build both, which must agree over several steps."""
    kind, make = KINDS[name]
    rng = np.random.default_rng(2)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    signals = {key: rng.standard_normal(dofs).astype(np.float32) for key in names}
    module = make()
    reference, ours = TorchNetwork(kind, module, signals), ActuonNetwork(kind, module, signals)
    for step in range(5):
        ours.sim["joint_f"].zero_()
        reference.step()
        ours.step()
        efforts = {reference.label: reference.effort.numpy(), ours.label: ours.sim["joint_f"].numpy()}
        require_agreement(f"networks, {name}, {dofs} DOFs, step {step}", efforts, rtol=1e-4, atol=1e-5)
    return [reference, ours]


GATE = Gate(KINDS, contenders, smallest=12)


def measure_networks(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for n in SIZES:
        for name in KINDS:
            progress(f"{n} DOFs, {name}")
            both = contenders(name, n)
            times = measure(both, n, seconds)
            for contender, own in zip(both, times, strict=True):
                cells = (grouped(n), name, contender.label, *own.cells(), f"{own.loop / n * 1e9:.1f}")
                rows.append((*cells, times_faster(times[0], own)))
    header = ("DOFs", "network", "who", *TIMES_HEADER, "ns per DOF", "faster than PyTorch")
    return [Table("Networks.", header, rows)]
