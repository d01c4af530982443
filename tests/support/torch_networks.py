# SPDX-License-Identifier: Apache-2.0
"""PyTorch networks of every kind, and how PyTorch itself would run them: the reference for network controllers."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from tests.support.chains import SIGNALS, random_signals

torch = pytest.importorskip("torch")
nn = torch.nn


class Wrapped(nn.Module):
    """An activation in a module of its own."""

    def __init__(self, act: nn.Module):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


class HandSoftsign(nn.Module):
    def forward(self, x):
        return x / (1.0 + x.abs())


ACTIVATIONS = {
    "relu": nn.ReLU(),
    "leaky_relu": nn.LeakyReLU(0.07),
    "elu": nn.ELU(1.3),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "softplus": nn.Softplus(beta=1.7),
    "softsign": nn.Softsign(),
    "identity": nn.Identity(),
    "wrapped": Wrapped(nn.Tanh()),
    "by_hand": HandSoftsign(),
}


def mlp(inputs=6, width=8, layers=2, activation="softsign", bias=True, seed=0):
    torch.manual_seed(seed)
    parts = []
    for i in range(layers):
        parts += [nn.Linear(inputs if i == 0 else width, width, bias), ACTIVATIONS[activation]]
    return nn.Sequential(*parts, nn.Linear(width if layers else inputs, 1, bias)).eval()


class Recurrent(nn.Module):
    """The usual shape of a recurrent actuator network: scales as buffers, layers, a head."""

    def __init__(self, kind, layers=1, hidden=8, head=0, bias=True, seed=0):
        """``head`` is the width of a layer between; None leaves the head out."""
        super().__init__()
        torch.manual_seed(seed)
        self.rnn = getattr(nn, kind)(2, hidden, layers, batch_first=True, bias=bias)
        last = [nn.Linear(hidden, head), nn.ELU(), nn.Linear(head, 1)] if head else [nn.Linear(hidden, 1, bias)]
        self.head = nn.Sequential(*([] if head is None else last))
        self.register_buffer("in_scale", torch.tensor([2.0, 0.25]))
        self.register_buffer("out_scale", torch.tensor(7.0))


class LSTM(Recurrent):
    def __init__(self, **options):
        super().__init__("LSTM", **options)

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        out, after = self.rnn(x * self.in_scale, state)
        return self.head(out[:, 0]) * self.out_scale, after


class GRU(Recurrent):
    def __init__(self, **options):
        super().__init__("GRU", **options)

    def forward(self, x, state):
        out, after = self.rnn(x * self.in_scale, state)
        return self.head(out[:, 0]) * self.out_scale, after


class Feeder:
    """Feeds a PyTorch module as the convention says: the reference for a controller."""

    def __init__(self, module, n, kind, input_idx=(0, 1, 2), order="pos_vel", scales=(1.0, 1.0, 1.0), rnn=None):
        self.module, self.n, self.kind, self.idx, self.order, self.scales = (
            module,
            n,
            kind,
            list(input_idx),
            order,
            scales,
        )
        self.rnn = rnn
        self.reset(np.ones(n, bool))

    def reset(self, mask):
        mask = torch.from_numpy(np.asarray(mask))
        if not hasattr(self, "past"):
            depth = max(self.idx) + 1
            self.past = torch.zeros(2, depth, self.n)
            if self.kind != "mlp":
                layers, hidden = self.rnn
                self.state = [torch.zeros(layers, self.n, hidden) for _ in range(2 if self.kind == "lstm" else 1)]
        self.past[:, :, mask] = 0.0
        if self.kind != "mlp":
            for part in self.state:
                part[:, mask] = 0.0

    @torch.no_grad()
    def step(self, q, qd, target_q, target_qd, feedforward):
        now = torch.stack([torch.from_numpy(target_q - q), torch.from_numpy(qd)])
        self.past = torch.cat([now[:, None], self.past[:, :-1]], dim=1)
        columns = [self.past[0, self.idx].T * self.scales[0], self.past[1, self.idx].T * self.scales[1]]
        x = torch.cat(columns[::-1] if self.order == "vel_pos" else columns, dim=1)
        if self.kind == "mlp":
            effort = self.module(x)
        elif self.kind == "lstm":
            effort, after = self.module(x[:, None], (self.state[0], self.state[1]))
            self.state = list(after)
        else:
            effort, after = self.module(x[:, None], self.state[0])
            self.state = [after]
        return effort.reshape(-1).numpy() * self.scales[2] + (0.0 if self.kind == "gru" else feedforward)


def fed(feeder, steps, masks=None):
    efforts = []
    for t, signals in enumerate(steps):
        if masks and t in masks:
            feeder.reset(masks[t])
        efforts.append(feeder.step(*(signals[name] for name in SIGNALS)))
    return np.array(efforts)


def assert_close(got, expected, rtol=1e-5):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def signals(n, count, seed=3):
    rng = np.random.default_rng(seed)
    return [random_signals(n, rng) for _ in range(count)]


def gradients(actuator, steps, weights):
    """Step an actuator on a tape; returns the arrays of each step, with the gradients of the weighted efforts."""
    states = [actuator.state() for _ in range(len(steps) + 1)]
    sims = []
    with wp.Tape() as tape:
        for t, values in enumerate(steps):
            sim = {name: wp.array(array, requires_grad=True) for name, array in values.items()}
            sim["joint_f"] = wp.zeros(len(values["joint_q"]), dtype=wp.float32, requires_grad=True)
            actuator.step(sim, sim, states[t], states[t + 1], dt=0.01)
            sims.append(sim)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weights, strict=True)})
    return sims


def torch_objective(module, kind, rnn, tensors, weights, n, input_idx=(0, 1, 2)):
    """Sum of weighted efforts over the steps, as PyTorch differentiates it."""
    past = torch.zeros(2, max(input_idx) + 1, n, dtype=torch.float64)
    state = None if rnn is None else [torch.zeros(rnn[0], n, rnn[1], dtype=torch.float64)] * 2
    total = torch.zeros((), dtype=torch.float64)
    for s, w in zip(tensors, weights, strict=True):
        now = torch.stack([s["joint_target_q"] - s["joint_q"], s["joint_qd"]])
        past = torch.cat([now[:, None], past[:, :-1]], dim=1)
        if kind == "mlp":
            effort = module(torch.cat([past[0, list(input_idx)].T, past[1, list(input_idx)].T], dim=1))
        elif kind == "lstm":
            effort, state = module(now.T[:, None], tuple(state))
        else:
            effort, after = module(now.T[:, None], state[0])
            state = [after]
        total = total + (torch.tensor(w) * (effort.reshape(-1) + s["joint_act"] * (kind != "gru"))).sum()
    return total
