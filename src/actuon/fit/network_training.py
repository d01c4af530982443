# SPDX-License-Identifier: Apache-2.0
r"""Training of a network controller on logs of a joint with a known load, in PyTorch, which this module imports.

The network computes the effort of the motor. Armature, bias of the encoder, and Coulomb and viscous friction are
estimated with the network. Friction holds the joint, which a smooth network cannot, and also acts while the motor is
switched off. The joint moves as in a fit,

.. math::
    J\,(v' - v)/h = \tau_{net} + \tau_e - f - b\,v', \qquad |f| \le F + \mu\,|\tau_{net} - \tau_e|

First, the network learns the logged effort, or the effort that the load requires. Then Adam minimises the mean absolute
error of the positions through the simulated motion, over short windows of the logs and later longer ones. Each window
starts from its measured state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .interrupts import check
from .network_fitting import Trained, TrainingJob, TrainingRun
from .workers import Progress

_WINDOWS = (0.1, 0.3, 1.0)
"""Lengths of the windows [s]."""
_EVERY = 0.25
"""Distance between the starts of windows, as a share of a window."""
_BATCH = (256, 192, 128)
"""Batch size for each length of windows."""
_ITERATIONS = {"mlp": (200, 130, 95), "lstm": (140, 90, 70), "gru": (140, 90, 70)}
"""Training steps for each length, about half a minute on one core for 12 runs of 6 s."""
_REGRESSION = 200
"""Training steps for the efforts."""
_LAGS = (0.0, 0.004, 0.008, 0.016, 0.032)
"""Ages of the inputs of an MLP [s]."""
_BURN_IN = 0.12
"""Time [s] of measured inputs that a recurrent network gets before a window."""
_RATE = 3e-3
_WIDTH = {"mlp": 32, "lstm": 16, "gru": 16}
_BIAS = 0.02
"""Unit of the bias of the encoder [rad]."""


class LSTM(torch.nn.Module):
    """LSTM layer of position error and velocity with ``width`` units, and a linear output."""

    def __init__(self, width: int):
        super().__init__()
        self.rnn = torch.nn.LSTM(2, width, batch_first=True)
        self.head = torch.nn.Linear(width, 1)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Return the output for inputs of shape (N, steps, 2), shape (N, 1), and the state after them."""
        out, after = self.rnn(x, state)
        return self.head(out[:, -1]), after


class GRU(torch.nn.Module):
    """GRU layer of position error and velocity with ``width`` units, and a linear output."""

    def __init__(self, width: int):
        super().__init__()
        self.rnn = torch.nn.GRU(2, width, batch_first=True)
        self.head = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output for inputs of shape (N, steps, 2), shape (N, 1), and the state after them."""
        out, after = self.rnn(x, state)
        return self.head(out[:, -1]), after


def make_module(kind: str, steps: int) -> Any:
    """Return a network from scaled position errors and velocities to the scaled effort.

    Args:
        kind: One of `KINDS`.
        steps: Number of history steps of an MLP.
    """
    nn, width = torch.nn, _WIDTH[kind]
    if kind == "mlp":
        layers = [nn.Linear(2 * steps, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)]
        return nn.Sequential(*layers)
    return LSTM(width) if kind == "lstm" else GRU(width)


def module_of(trained: Trained) -> Any:
    """Return the network as a PyTorch module, without its scales."""
    module = make_module(trained.kind, len(trained.steps))
    module.load_state_dict({name: torch.tensor(array) for name, array in trained.weights.items()})
    return module.eval()


class Rolled:
    """A network and the joint that it drives, with the physical parameters estimated with its weights.

    Args:
        kind: One of `KINDS`.
        steps: Input history of an MLP [steps].
        history: Number of steps required before a window.
        dt: Time step [s].
        scales: Scales of position error, velocity and effort.
        inertia: Inertia of the load [kg·m²]; the initial armature is a share of it.
        damping: Effort over speed [N·m·s/rad]; the initial viscous friction is a share of it.
    """

    def __init__(
        self, *, kind: str, steps: tuple[int, ...], history: int, dt: float, scales: tuple[float, float, float],
        inertia: float, damping: float,
    ):  # fmt: skip
        self.kind, self.steps, self.history, self._dt, self.scales = kind, steps, history, dt, scales
        self.network = make_module(kind, len(steps))
        begin = {
            "dynamic": 0.02 * scales[2], "load": 0.05, "viscous": 0.02 * damping, "armature": 0.2 * inertia,
        }  # fmt: skip
        self._logs = {name: torch.tensor(float(np.log(value)), requires_grad=True) for name, value in begin.items()}
        self._bias = torch.tensor(0.0, requires_grad=True)

    @property
    def physical(self) -> list[Any]:
        """Physical parameters."""
        return [*self._logs.values(), self._bias]

    def found(self) -> dict[str, float]:
        """Return the values of the physical parameters by name."""
        return {name: float(value.detach().exp()) for name, value in self._logs.items()} | {
            "bias": _BIAS * float(self._bias.detach())
        }

    def gather(self, windows: Sequence[tuple[TrainingRun, int]], length: int) -> dict[str, Any]:
        """Return W windows of ``length`` steps as tensors.

        ``errors`` and ``speeds`` are the inputs of the preceding steps, latest first, shape (W, history); 0 before a
        run begins, like a new state.
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
        return {name: torch.tensor(np.array(rows), dtype=torch.float32) for name, rows in columns.items()}

    def chosen(self, batch: Mapping[str, Any], rows: Any) -> dict[str, Any]:
        """Return a selection of the windows."""
        return {name: values[rows] for name, values in batch.items()}

    def effort_at(self, batch: Mapping[str, Any]) -> Any:
        """Return the effort [N·m] at the first step of each window for the measured motion, shape (W,)."""
        controller = _Controller(self, batch)
        error = batch["factor"] * (batch["command"][:, 0] - batch["position"])
        return controller.effort(error, batch["velocity"])

    def roll(self, batch: Mapping[str, Any]) -> Any:
        """Simulate each window; return the encoder's positions after each step [rad], shape (W, steps)."""
        dt = self._dt
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
    """A network with its state."""

    def __init__(self, rolled: Rolled, batch: Mapping[str, Any]):
        self._rolled = rolled
        pos, vel, self._effort = rolled.scales
        self._pos, self._vel = pos, vel
        if rolled.kind == "mlp":
            self._errors, self._speeds = list(batch["errors"].unbind(1)), list(batch["speeds"].unbind(1))
            self._layers = self._scaled_layers()
            return
        past = torch.stack([pos * batch["errors"], vel * batch["speeds"]], 2).flip(1)
        _, state = rolled.network.rnn(past)
        inside = batch["is_inside"][None, :, None]
        self._state = tuple(own * inside for own in state) if rolled.kind == "lstm" else state * inside

    def effort(self, error: Any, velocity: Any) -> Any:
        """Advance one step; return the effort [N·m] for position errors and velocities, all of shape (W,)."""
        if self._rolled.kind != "mlp":
            given = torch.stack([self._pos * error, self._vel * velocity], 1)[:, None]
            out, self._state = self._rolled.network(given, self._state)
            return self._effort * out[:, 0]
        errors, speeds = [error, *self._errors], [velocity, *self._speeds]
        seen = [series[step] for series in (errors, speeds) for step in self._rolled.steps]
        self._errors, self._speeds = errors[:-1], speeds[:-1]
        (first, a), (second, b), (last, c) = self._layers
        hidden = torch.addmm(b, torch.addmm(a, torch.stack(seen, 1), first).tanh(), second).tanh()
        return torch.addmm(c, hidden, last)[:, 0]

    def _scaled_layers(self) -> list[tuple[Any, Any]]:
        """Return transposed weights and biases of an MLP with the scales included, to save operations."""
        layers = [self._rolled.network[i] for i in (0, 2, 4)]
        count = len(self._rolled.steps)
        scales = torch.tensor([self._pos] * count + [self._vel] * count)
        first, second, last = ((layer.weight.t(), layer.bias) for layer in layers)
        return [(first[0] * scales[:, None], first[1]), second, (self._effort * last[0], self._effort * last[1])]


def run_training(job: TrainingJob, progress: Progress | None = None) -> Trained:
    """Train a network. The same seed gives the same network; an interrupt returns the present one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            return _Training(job, progress).run()
    finally:
        torch.set_num_threads(threads)


class _Training:
    """State of a training."""

    def __init__(self, job: TrainingJob, progress: Progress | None):
        self._job, self._progress = job, progress
        self._rng = np.random.default_rng(job.seed)
        on = [run.enabled > 0.0 for run in job.runs]
        errors = np.concatenate(
            [(run.factor * (run.command - run.position))[own] for run, own in zip(job.runs, on, strict=True)]
        )
        speeds = np.concatenate([run.velocity for run in job.runs])
        self._ranges = {
            "position_error": (float(errors.min()), float(errors.max())),
            "velocity": (float(speeds.min()), float(speeds.max())),
        }
        steps = tuple(dict.fromkeys(round(lag / job.dt) for lag in _LAGS)) if job.kind == "mlp" else (0,)
        self._rolled = Rolled(
            kind=job.kind,
            steps=steps,
            history=max(steps) if job.kind == "mlp" else max(1, round(_BURN_IN / job.dt)),
            dt=job.dt,
            scales=(1.0 / max(float(errors.std()), 1e-6), 1.0 / max(float(speeds.std()), 1e-6), job.effort),
            inertia=float(np.mean([run.inertia for run in job.runs])),
            damping=job.effort / max(float(np.abs(speeds).max()), 1e-6),
        )
        groups = [
            {"params": list(self._rolled.network.parameters()), "times": 1.0},
            {"params": self._rolled.physical, "times": 3.0},
        ]
        self._optimiser = torch.optim.Adam(groups, lr=_RATE)
        iterations = [max(1, round(job.share * count)) for count in _ITERATIONS[job.kind]]
        self._total, self._done = sum(iterations), 0
        self._iterations = iterations
        self._error = math.inf

    def run(self) -> Trained:
        """Learn efforts, then motions over increasingly long windows."""
        is_interrupted = False
        try:
            self._learn_efforts()
            for seconds, size, count in zip(_WINDOWS, _BATCH, self._iterations, strict=True):
                self._learn_motion(seconds, size, count)
        except KeyboardInterrupt:
            is_interrupted = True
        job, rolled = self._job, self._rolled
        weights = {name: value.detach().numpy().copy() for name, value in rolled.network.state_dict().items()}
        scales = dict(zip(("pos_scale", "vel_scale", "effort_scale"), rolled.scales, strict=True))
        return Trained(
            job.kind, weights, rolled.steps, dt=job.dt, ranges=self._ranges, error=self._error,
            interrupted=is_interrupted, **scales, **rolled.found(),
        )  # fmt: skip

    def _windows(self, length: int) -> list[tuple[TrainingRun, int]]:
        """Return windows of ``length`` steps as runs and start indices. Each run has one at its start."""
        every = max(1, round(_EVERY * length))
        found = []
        for run in self._job.runs:
            last = len(run.position) - length - 1
            if last >= 0:
                begins = [0, *range(max(every, self._rolled.history), last + 1, every)]
                found += [(run, begin) for begin in begins]
        return found

    def _learn_efforts(self) -> None:
        """Fit the network to the known efforts, with measured inputs."""
        windows = self._windows(1)
        known = [(run, begin) for run, begin in windows if run.is_known[begin] > 0.0]
        if not known:
            return
        batch = self._rolled.gather(known, 1)
        wanted = torch.tensor([run.effort[begin] for run, begin in known], dtype=torch.float32)
        optimiser = torch.optim.Adam(self._rolled.network.parameters(), lr=_RATE)
        for _ in range(round(self._job.share * _REGRESSION)):
            check()
            chosen = torch.tensor(self._rng.choice(len(known), min(len(known), 512), replace=False))
            given = self._rolled.effort_at(self._rolled.chosen(batch, chosen))
            loss = (given - wanted[chosen]).abs().mean() / self._job.effort
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def _learn_motion(self, seconds: float, size: int, count: int) -> None:
        """Minimise the error of positions over windows of this length [s]."""
        shortest = min(len(run.position) for run in self._job.runs)
        length = min(max(2, round(seconds / self._job.dt)), shortest - 2)
        windows = self._windows(length)
        batch = self._rolled.gather(windows, length)
        errors: list[float] = []
        for _ in range(count):
            check()
            chosen = torch.tensor(self._rng.choice(len(windows), min(len(windows), size), replace=False))
            part = self._rolled.chosen(batch, chosen)
            loss = (self._rolled.roll(part) - part["measured"]).abs().mean()
            share = self._done / self._total
            for group in self._optimiser.param_groups:
                group["lr"] = group["times"] * (_RATE * (1.0 - share) + 0.03 * _RATE)
            self._optimiser.zero_grad()
            loss.backward()
            everything = [p for group in self._optimiser.param_groups for p in group["params"]]
            norm = torch.nn.utils.clip_grad_norm_(everything, 1.0)
            if bool(torch.isfinite(norm)):
                self._optimiser.step()
            self._done += 1
            errors = [*errors[-19:], float(loss.detach())]
            self._error = float(np.mean(errors))
            if self._progress is not None:
                self._progress(self._done, np.array([self._error]))
