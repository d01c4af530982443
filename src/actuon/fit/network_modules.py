# SPDX-License-Identifier: Apache-2.0
"""Networks that move a joint with a known load, in PyTorch: many windows of logs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import require

if TYPE_CHECKING:
    from .network_training import TrainingRun

KINDS = ("mlp", "lstm", "gru")
_WIDTH = {"mlp": 32, "lstm": 16, "gru": 16}
_BIAS = 0.02
"""Bias of an encoder [rad] that counts as one."""


def make_module(kind: str, steps: int) -> Any:
    """A network of position errors and velocities, scaled, to the effort, scaled.

    Args:
        kind: One of `KINDS`.
        steps: How many steps an MLP sees.
    """
    nn = require("torch", "torch", "training networks").nn
    width = _WIDTH[kind]
    if kind == "mlp":
        layers = [nn.Linear(2 * steps, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)]
        return nn.Sequential(*layers)
    from . import network_recurrent as recurrent

    return recurrent.LSTM(width) if kind == "lstm" else recurrent.GRU(width)


class Rolled:
    """A network and the joint it moves, with what is looked for beside its weights.

    Args:
        kind: One of `KINDS`.
        steps: History steps that an MLP sees.
        history: Steps before a window that are needed.
        dt: Of a step [s].
        scales: On position error, velocity and effort.
        inertia: Of the load [kg·m²], of which the armature is a share at first.
        damping: Effort by speed [N·m·s/rad], of which viscous friction is a share at first.
    """

    def __init__(
        self, *, kind: str, steps: tuple[int, ...], history: int, dt: float, scales: tuple[float, float, float],
        inertia: float, damping: float,
    ):  # fmt: skip
        torch = self._torch = require("torch", "torch", "training networks")
        self.kind, self.steps, self.history, self._dt, self.scales = kind, steps, history, dt, scales
        self.network = make_module(kind, len(steps))
        begin = {
            "dynamic": 0.02 * scales[2], "load": 0.05, "viscous": 0.02 * damping, "armature": 0.2 * inertia,
        }  # fmt: skip
        self._logs = {name: torch.tensor(float(np.log(value)), requires_grad=True) for name, value in begin.items()}
        self._bias = torch.tensor(0.0, requires_grad=True)

    @property
    def physical(self) -> list[Any]:
        """What is looked for beside the weights."""
        return [*self._logs.values(), self._bias]

    def found(self) -> dict[str, float]:
        """The same by name."""
        return {name: float(value.detach().exp()) for name, value in self._logs.items()} | {
            "bias": _BIAS * float(self._bias.detach())
        }

    def gather(self, windows: Sequence[tuple[TrainingRun, int]], length: int) -> dict[str, Any]:
        """Windows of so many steps as tensors, W of each.

        ``errors`` and ``speeds`` are those of the steps before, the last first, scaled by the run's factor, shape
        (W, history); 0 before a run begins, as a new state is.
        """
        columns: dict[str, list[Any]] = {
            name: []
            for name in ("command", "enabled", "measured", "position", "velocity", "factor", "inertia", "gravity")
        }
        columns |= {"errors": [], "speeds": [], "is_inside": []}
        for run, begin in windows:
            inside = slice(begin, begin + length)
            past = slice(max(begin - self.history, 0), begin)
            error = run.factor * (run.command[past] - run.position[past])
            columns["command"].append(run.command[inside])
            columns["enabled"].append(run.enabled[inside])
            columns["measured"].append(run.position[begin + 1 : begin + length + 1])
            columns["position"].append(run.position[begin])
            columns["velocity"].append(run.velocity[begin])
            columns["factor"].append(run.factor)
            columns["inertia"].append(run.inertia)
            columns["gravity"].append(run.gravity)
            columns["is_inside"].append(float(begin > 0))
            for name, values in (("errors", error), ("speeds", run.velocity[past])):
                padded = np.zeros(self.history)
                padded[: len(values)] = values[::-1]
                columns[name].append(padded)
        return {name: self._torch.tensor(np.array(rows), dtype=self._torch.float32) for name, rows in columns.items()}

    def chosen(self, batch: Mapping[str, Any], rows: Any) -> dict[str, Any]:
        """Some of the windows."""
        return {name: values[rows] for name, values in batch.items()}

    def effort_at(self, batch: Mapping[str, Any]) -> Any:
        """The effort [N·m] at the first step of each window, from what was measured, shape (W,)."""
        controller = _Controller(self, batch)
        error = batch["factor"] * (batch["command"][:, 0] - batch["position"])
        return controller.effort(error, batch["velocity"])

    def roll(self, batch: Mapping[str, Any]) -> Any:
        """Positions [rad] after each step of each window, as the encoder shows them, shape (W, steps)."""
        torch, dt = self._torch, self._dt
        dynamic, load, viscous, armature = (self._logs[n].exp() for n in ("dynamic", "load", "viscous", "armature"))
        inertia = batch["inertia"] + armature
        bias = _BIAS * self._bias
        controller = _Controller(self, batch)
        position, velocity = batch["position"] - bias, batch["velocity"]
        path = []
        commands, enabled = batch["command"].unbind(1), batch["enabled"].unbind(1)
        for command, is_on in zip(commands, enabled, strict=True):
            error = batch["factor"] * (command - position - bias)
            effort = controller.effort(error, velocity) * is_on
            external = -batch["gravity"] * torch.sin(position)
            drive = effort + external + inertia * velocity / dt
            most = dynamic + load * (effort - external).abs()
            moving = drive - torch.clamp(drive, -most, most)
            velocity = moving * dt / (inertia + viscous * dt)
            position = position + dt * velocity
            path.append(position)
        return torch.stack(path, 1) + bias


class _Controller:
    """A network that is stepped, with what it remembers."""

    def __init__(self, rolled: Rolled, batch: Mapping[str, Any]):
        self._rolled, self._torch = rolled, rolled._torch
        pos, vel, self._effort = rolled.scales
        self._pos, self._vel = pos, vel
        if rolled.kind == "mlp":
            self._errors, self._speeds = list(batch["errors"].unbind(1)), list(batch["speeds"].unbind(1))
            self._layers = self._scaled_layers()
            return
        past = self._torch.stack([pos * batch["errors"], vel * batch["speeds"]], 2).flip(1)
        _, state = rolled.network.rnn(past)
        inside = batch["is_inside"][None, :, None]
        self._state = tuple(own * inside for own in state) if rolled.kind == "lstm" else state * inside

    def effort(self, error: Any, velocity: Any) -> Any:
        """Step: the effort [N·m] for position errors and velocities, all of shape (W,)."""
        if self._rolled.kind != "mlp":
            given = self._torch.stack([self._pos * error, self._vel * velocity], 1)[:, None]
            out, self._state = self._rolled.network(given, self._state)
            return self._effort * out[:, 0]
        errors, speeds = [error, *self._errors], [velocity, *self._speeds]
        seen = [series[step] for series in (errors, speeds) for step in self._rolled.steps]
        self._errors, self._speeds = errors[:-1], speeds[:-1]
        (first, a), (second, b), (last, c) = self._layers
        hidden = self._torch.addmm(b, self._torch.addmm(a, self._torch.stack(seen, 1), first).tanh(), second).tanh()
        return self._torch.addmm(c, hidden, last)[:, 0]

    def _scaled_layers(self) -> list[tuple[Any, Any]]:
        """Weights, turned, and biases of an MLP, with the scales in them: there are many small steps."""
        layers = [self._rolled.network[i] for i in (0, 2, 4)]
        count = len(self._rolled.steps)
        scales = self._torch.tensor([self._pos] * count + [self._vel] * count)
        first, second, last = ((layer.weight.t(), layer.bias) for layer in layers)
        return [(first[0] * scales[:, None], first[1]), second, (self._effort * last[0], self._effort * last[1])]
