# SPDX-License-Identifier: Apache-2.0
"""A million steps: efforts stay those of the reference, memory stays what it is, and a saved state starts again."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import actuon

from .networks import MODULES, Architecture, Fed
from .reference import assert_within
from .values import PARAMETERS, SIGNALS, Chain, Structure, random_signals

DT = 0.002
PERIOD = 997
"""Steps after which the signals begin again; a prime, so that they meet the intervals anew each time."""
WINDOW = 64
"""Steps that are compared and replayed at each interval."""
MEGABYTES = 16
"""Allowed growth of the process after the first tenth [MB]."""


@dataclass
class Report:
    """Results of a soak."""

    name: str
    steps: int
    seconds: float
    compared: int
    grown: float
    """Memory that was taken after the first tenth of the steps [MB]."""

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.steps} steps of 12 DOFs in {self.seconds:.1f} s, {self.compared} of them compared, "
            f"memory grew by {self.grown:.1f} MB"
        )


class Soak:
    """An actuator that is stepped in place on signals that repeat, with masked resets.

    The reference starts at each interval from the actuator's own state, and follows it for a window of steps.
    """

    def __init__(self, name: str, actuator: actuon.Actuator, seed: int):
        self.name, self.actuator = name, actuator
        self.n = actuator.num_actuators
        self.rng = np.random.default_rng(seed)
        self.signals = [random_signals((self.n, self.n), "plain", self.rng) for _ in range(PERIOD)]
        self.sim: dict[str, Any] = {key: values.copy() for key, values in self.signals[0].items()}
        self.sim["joint_f"] = np.zeros(self.n, np.float32)
        self.state, self.saved = actuator.state(), actuator.state()
        self.since = np.zeros(self.n, int)
        """The step since which each DOF has not been reset."""

    def step(self, t: int) -> None:
        """Step on the signals of step ``t``."""
        for name, values in self.signals[t % PERIOD].items():
            self.sim[name][:] = values
        self.sim["joint_f"][:] = 0.0
        self.actuator.step(self.sim, self.sim, self.state, self.state, dt=DT)

    def reference(self, t: int) -> Any:
        """A function of a step's signals, from step ``t`` on: the efforts, and the size of their terms."""
        raise NotImplementedError

    def run(self, steps: int, intervals: int = 50) -> Report:
        """Step, and look at each interval."""
        interval = max(WINDOW, steps // intervals)
        compared, early = 0, 0.0
        start = time.perf_counter()
        for t in range(0, steps, interval):
            compared += self._compare(t, min(WINDOW, steps - t))
            for later in range(t + WINDOW, min(t + interval, steps)):
                self.step(later)
            assert np.isfinite(self.sim["joint_f"]).all(), f"{self.name}: step {t}: {self.sim['joint_f']}"
            mask = self.rng.random(self.n) < 0.3
            self.state.reset(mask)
            self.since[mask] = min(t + interval, steps)
            if t <= steps // 10:
                early = _memory()
        grown = _memory() - early
        assert grown < MEGABYTES, f"{self.name}: memory grew by {grown:.1f} MB in {steps} steps"
        return Report(self.name, steps, time.perf_counter() - start, compared, grown)

    def _compare(self, first: int, count: int) -> int:
        """Play a window of steps against the reference, then once more from the state before."""
        self.saved.assign(self.state)
        reference = self.reference(first)
        efforts = []
        for t in range(first, first + count):
            self.step(t)
            efforts.append(self.sim["joint_f"].copy())
            expected, tolerance = reference(*(self.signals[t % PERIOD][name] for name in SIGNALS))
            assert_within(efforts[-1], expected, tolerance, f"{self.name}: step {t}")
        self.state.assign(self.saved)
        for t, effort in zip(range(first, first + count), efforts, strict=True):
            self.step(t)
            np.testing.assert_array_equal(self.sim["joint_f"], effort, f"{self.name}: step {t} from a saved state")
        return count


class ChainSoak(Soak):
    """PID, delay, DC motor and max effort."""

    def __init__(self, seed: int, n: int = 12):
        names = ("Delay", "ControllerPID", "ClampingDCMotor", "ClampingMaxEffort")
        structure = Structure(tuple((name, PARAMETERS[name][-1]) for name in names))
        rng = np.random.default_rng(seed)
        self.chain = Chain.random(structure, n, "plain", rng)
        super().__init__("PID, delay, DC motor, max effort", self.chain.actuator(range(n), rng), seed)

    def reference(self, t: int) -> Any:
        """The oracle, with the integral of the actuator's state and the commands since the last reset."""
        reference = self.chain.reference()
        integral = self.state.controller_state.integral.numpy().astype(np.float64)
        reference.memory[1]["integral"], reference.sizes[1]["integral"] = integral, np.abs(integral)
        for i, since in enumerate(self.since):
            for past in range(max(since, t - self.chain.depth), t):
                command = np.array([self.signals[past % PERIOD][name][i] for name in SIGNALS[2:]], np.float64)
                for line, kept in zip(reference.lines, (command, np.abs(command)), strict=True):
                    line.push(i, kept)

        def step(*signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            exact, sizes = reference.step(*signals, dt=DT)
            return exact["joint_f"], sizes["joint_f"]

        return step


class NetworkSoak(Soak):
    """An LSTM of two layers."""

    def __init__(self, seed: int, n: int = 12):
        self.architecture = Architecture("lstm", (0,), 2, 8, (), "tanh", False, "pos_vel")
        self.module = MODULES["lstm"](self.architecture, True, 5.0, seed).eval()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.safetensors"
            actuon.save_network(self.module, path)
            super().__init__("LSTM of 2 × 8", actuon.Actuator(range(n), actuon.ControllerNeuralLSTM(path)), seed)

    def reference(self, t: int) -> Any:
        """PyTorch in float64, in the actuator's own hidden state."""
        fed = Fed(self.module, self.architecture, self.n, {"pos_scale": 1.0, "vel_scale": 1.0, "effort_scale": 1.0})
        arrays = (self.state.controller_state.hidden, self.state.controller_state.cell)
        fed.state = [torch.from_numpy(a.numpy().astype(np.float64)) for a in arrays]

        def step(*signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            expected = fed.step(*signals)
            return expected, np.abs(expected) + 50.0

        return step


def _memory() -> float:
    """Memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(steps: int, seed: int) -> None:
    """Soak a chain and a network, and print what was done."""
    for made in (ChainSoak(seed), NetworkSoak(seed)):
        print(made.run(steps), flush=True)
