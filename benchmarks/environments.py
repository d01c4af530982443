# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium environment, step by step, with several kinds of motors beside MuJoCo's own servos."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import actuon

from .networks import softsign_mlp
from .runner import Table, grouped

SIZES = (256, 1024)
KP, KD = 60.0, 1.5
"""Gains of the model's own servos [N·m/rad, N·m·s/rad], which all but the real motors have here."""
_GATE = 25
"""Steps over which all with the same gains must agree."""
_TURN = 4
"""Steps that one takes before it is the turn of the next."""
_FAINT = 1e-9
"""Factor on the efforts in a network, so small that its activations pass them on as they are."""


class Walker:
    """An environment that gets small actions, so that no robot falls."""

    def __init__(self, label: str, num_envs: int, motors: Any):
        from actuon.gym import QuadrupedEnv

        self.label = label
        self.env = QuadrupedEnv(num_envs, motors)
        self.env.reset(seed=0)
        self.actions = 0.2 * np.random.default_rng(1).uniform(-1.0, 1.0, (16, num_envs, 12)).astype(np.float32)
        self.observations = np.zeros((num_envs, 50), np.float32)
        self._at = 0

    def step(self) -> None:
        self.observations, *_ = self.env.step(self.actions[self._at % len(self.actions)])
        self._at += 1


def with_pd_in_numpy(num_envs: int) -> Walker:
    """A PD controller as one writes it by hand: before each step of physics, in NumPy."""
    walker = Walker("PD written in NumPy", num_envs, "servo")
    robots, simulation = walker.env.robots, walker.env.simulation
    robots.set_dof_gains(0.0, 0.0)

    def push(simulation: Any, dt: float) -> None:
        error = robots.get_dof_position_targets().numpy() - robots.get_dof_positions().numpy()
        robots.set_dof_efforts(KP * error - KD * robots.get_dof_velocities().numpy())

    simulation.subscribe(actuon.Event.PRE_STEP, push)
    return walker


def pd_network(path: Path) -> None:
    """A network of the usual size that does as the PD does: a neuron hands its effort, made faint, on to the next."""
    import torch

    module = softsign_mlp()
    linear = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer in linear:
            layer.weight[0], layer.bias[0] = 0.0, 0.0
        linear[0].weight[0, 0], linear[0].weight[0, 3] = _FAINT * KP, -_FAINT * KD
        for layer in linear[1:]:
            layer.weight[0, 0] = 1.0
        linear[-1].weight[0, 0] = 1.0 / _FAINT
    actuon.save_network(module, path)


def contenders(num_envs: int) -> list[Walker]:
    """Build all, and check that those with the same gains move alike."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        pd_network(path)
        network = actuon.ActuatorConfig(actuon.NeuralControlConfig(str(path)))
        alike = [
            Walker("MuJoCo's own servos", num_envs, "servo"),
            with_pd_in_numpy(num_envs),
            Walker("ideal motors", num_envs, actuon.ActuatorConfig(actuon.PDControlConfig(KP, KD))),
            Walker("a network, 6-32-32-32-1", num_envs, network),
        ]
    for _ in range(_GATE):
        for walker in alike:
            walker.step()
    for walker in alike[1:]:
        if not np.allclose(walker.observations, alike[0].observations, atol=1e-4):
            raise SystemExit(f"{num_envs} robots with {walker.label} do not move as with {alike[0].label}: no times")
    real = Walker("real motors", num_envs, "real")
    for _ in range(_GATE):
        real.step()
    return [*alike[:3], real, alike[3]]


def measure_environments(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for num_envs in SIZES:
        print(f"  {num_envs} robots in the Gymnasium environment …", file=sys.stderr, flush=True)
        everyone = contenders(num_envs)
        times = _in_turns(everyone, 4 * seconds)
        servos = times[0]
        for walker, own in zip(everyone, times, strict=True):
            ratios = [f"{mine / theirs:.3f}" for mine, theirs in zip(own, servos, strict=True)]
            cells = [grouped(round(num_envs / own[0])), f"{own[0] * 1e3:.2f}", f"{own[1] * 1e3:.2f}", *ratios]
            rows.append((grouped(num_envs), walker.label, *cells))
            walker.env.close()
    header = ("robots", "motors", "steps/s", "ms", "CPU ms", "÷ servos", "÷ servos, CPU")
    title = "The Gymnasium environment: steps of 20 ms, five of physics, with observations and rewards; medians."
    return [Table(title, header, rows)]


def _in_turns(walkers: Sequence[Walker], seconds: float) -> list[tuple[float, float]]:
    """Medians of the time that a step takes [s], and of the time that CPUs work on it, whoever else they work for."""
    taken: list[list[tuple[float, float]]] = [[] for _ in walkers]
    end = time.perf_counter() + seconds
    while not taken[-1] or time.perf_counter() < end:
        for walker, times in zip(walkers, taken, strict=True):
            walker.step()  # which finds the caches as another left them
            for _ in range(_TURN):
                start, work = time.perf_counter(), time.process_time()
                walker.step()
                times.append((time.perf_counter() - start, time.process_time() - work))
    return [
        (statistics.median(wall for wall, _ in times), statistics.median(cpu for _, cpu in times)) for times in taken
    ]
