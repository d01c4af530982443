# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium environment, step by step, with several kinds of motors beside MuJoCo's own servos."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import actuon

from .gate import Gate, require_agreement
from .networks import softsign_mlp
from .runner import Table, grouped, progress

SIZES = (256, 1024)
GAINS = {"quadruped": (60.0, 1.5)}
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


def with_pd_in_numpy(num_envs: int, kp: float, kd: float) -> Walker:
    """Build an environment with a PD controller as one writes it by hand: before each step of physics, in NumPy."""
    walker = Walker("PD written in NumPy", num_envs, "servo")
    robots, simulation = walker.env.robots, walker.env.simulation
    robots.set_dof_gains(0.0, 0.0)

    def push(simulation: Any, dt: float) -> None:
        error = robots.get_dof_position_targets().numpy() - robots.get_dof_positions().numpy()
        robots.set_dof_efforts(kp * error - kd * robots.get_dof_velocities().numpy())

    simulation.subscribe(actuon.Event.PRE_STEP, push)
    return walker


def pd_network(path: Path, kp: float, kd: float) -> None:
    """Save a network of the usual size that acts as the PD: one neuron per layer passes its effort on, scaled down."""
    import torch

    module = softsign_mlp()
    linear = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer in linear:
            layer.weight[0], layer.bias[0] = 0.0, 0.0
        linear[0].weight[0, 0], linear[0].weight[0, 3] = _FAINT * kp, -_FAINT * kd
        for layer in linear[1:]:
            layer.weight[0, 0] = 1.0
        linear[-1].weight[0, 0] = 1.0 / _FAINT
    actuon.save_network(module, path)


def contenders(robot: str, num_envs: int) -> list[Walker]:
    """Build all, of which those with the same gains must move alike."""
    kp, kd = GAINS[robot]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        pd_network(path, kp, kd)
        network = actuon.ActuatorConfig(actuon.NeuralControlConfig(str(path)))
        alike = [
            Walker("MuJoCo's own servos", num_envs, "servo"),
            with_pd_in_numpy(num_envs, kp, kd),
            Walker("ideal motors", num_envs, actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd))),
            Walker("a network, 6-32-32-32-1", num_envs, network),
        ]
    for _ in range(_GATE):
        for walker in alike:
            walker.step()
    where = f"environments, {robot}, {num_envs} environments, observations after {_GATE} steps"
    require_agreement(where, {walker.label: walker.observations for walker in alike}, rtol=1e-5, atol=1e-4)
    real = Walker("real motors", num_envs, "real")
    for _ in range(_GATE):
        real.step()
    return [*alike[:3], real, alike[3]]


GATE = Gate(GAINS, contenders, smallest=2)


def measure_environments(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for robot, num_envs in product(GAINS, SIZES):
        progress(f"{num_envs} robots in the Gymnasium environment")
        everyone = contenders(robot, num_envs)
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
    """Return medians of wall time and of CPU time per step [s]."""
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
