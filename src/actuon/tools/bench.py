# SPDX-License-Identifier: Apache-2.0
"""Actuon beside Newton's actuators and a PyTorch version, measured in one run on this machine.

Each row first checks that all agree on the efforts of several steps. Then each contender steps in turn, round after
round, and its best time counts: other work on a shared machine only ever adds time.

Run with ``make bench``, or ``python -m actuon.tools.bench --markdown`` for the README's tables.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

import actuon

from . import bench_lab, bench_networks

DEPTH = 5
JOINTS = 12
SIZES = (12, 1_200, 49_152, 786_432)
LAYOUTS = ("contiguous", "scattered")
GATE_STEPS = 12
FLOATS_TOUCHED = 22
"""Numbers per DOF that an in-place step reads or writes: signals 5 + 2, parameters 7, pushes 2, ring 3 + 3."""

KP, KD, STALL, NO_LOAD, MOTOR_LIMIT, LIMIT = 50.0, 2.0, 40.0, 20.0, 30.0, 25.0


@dataclass
class Problem:
    """PD + delay + DC motor + max effort over ``n`` DOFs, as plain arrays.

    ``contiguous``: DOF i is entry i of every array, all lags 5. ``scattered``: each environment's 12 joints come after
    a free base of 7 coordinates and 6 velocities, and lags are mixed from 0 to 5.
    """

    n: int
    layout: str

    def __post_init__(self) -> None:
        rng = np.random.default_rng(1)
        dofs = coords = np.arange(self.n)
        self.lags = np.full(self.n, DEPTH, np.int32)
        if self.layout == "scattered":
            env, joint = np.divmod(np.arange(self.n), JOINTS)
            dofs, coords = env * (JOINTS + 6) + 6 + joint, env * (JOINTS + 7) + 7 + joint
            self.lags = rng.integers(0, DEPTH + 1, self.n).astype(np.int32)
        self.dofs, self.coords = dofs.astype(np.uint32), coords.astype(np.uint32)
        size = {
            "joint_q": coords,
            "joint_qd": dofs,
            "joint_target_q": coords,
            "joint_target_qd": dofs,
            "joint_act": dofs,
        }
        self.signals = {
            name: rng.standard_normal(int(index[-1]) + 1).astype(np.float32) * 2 for name, index in size.items()
        }
        self.outputs = int(dofs[-1]) + 1

    def gate_signals(self, step: int) -> dict[str, np.ndarray]:
        return {name: np.roll(array, step) for name, array in self.signals.items()}


class Contender(ABC):
    """Something that steps a problem. ``sim`` holds its arrays by name."""

    def __init__(self, problem: Problem):
        self.sim = SimpleNamespace(**{name: wp.array(array) for name, array in problem.signals.items()})
        self.sim.joint_f = wp.zeros(problem.outputs, dtype=wp.float32)

    @abstractmethod
    def step(self) -> None: ...

    def efforts(self, signals: dict[str, np.ndarray]) -> np.ndarray:
        for name, array in signals.items():
            getattr(self.sim, name).assign(array)
        self.sim.joint_f.zero_()
        self.step()
        return self.sim.joint_f.numpy().copy()


class ActuonSwapped(Contender):
    """Two states, swapped after each step."""

    label = "Actuon, two states"

    def __init__(self, problem: Problem):
        super().__init__(problem)
        clamping = [actuon.ClampingDCMotor(STALL, NO_LOAD, MOTOR_LIMIT), actuon.ClampingMaxEffort(LIMIT)]
        delay = actuon.Delay(wp.array(problem.lags), DEPTH)
        indices, coords = wp.array(problem.dofs), wp.array(problem.coords)
        self.actuator = actuon.Actuator(indices, actuon.ControllerPD(KP, KD), delay, clamping, pos_indices=coords)
        self.current, self.other = self.actuator.state(), self.actuator.state()

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.current, self.other, dt=0.005)
        self.current, self.other = self.other, self.current


class ActuonInPlace(ActuonSwapped):
    """One state, updated in place."""

    label = "Actuon, in place"

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.other = self.current


class ActuonCaptured(ActuonInPlace):
    """One step in place, captured and replayed."""

    label = "Actuon, captured graph"

    def __init__(self, problem: Problem):
        super().__init__(problem)
        with wp.ScopedCapture() as capture:
            super().step()
        self.graph = capture.graph
        if self.current is not None:
            self.current.reset()

    def step(self) -> None:
        wp.capture_launch(self.graph)


class NewtonActuators(Contender):
    """Newton's own actuators: one kernel per stage."""

    label = "Newton"

    def __init__(self, problem: Problem):
        import newton.actuators as na

        super().__init__(problem)

        def full(value: float) -> wp.array:
            return wp.full(problem.n, value, dtype=wp.float32)

        coords = wp.array(problem.coords)
        self.actuator = na.Actuator(
            wp.array(problem.dofs),
            drive=na.DrivePD(kp=full(KP), kd=full(KD)),
            delay=na.Delay(wp.array(problem.lags), DEPTH),
            clamping=[
                na.ClampingDCMotor(full(STALL), full(NO_LOAD), full(MOTOR_LIMIT)),
                na.ClampingMaxEffort(full(LIMIT)),
            ],
            pos_indices=coords,
            target_pos_indices=coords,
        )
        self.current, self.other = self.actuator.state(), self.actuator.state()

    step = ActuonSwapped.step


class TorchEager(Contender):
    """The same maths in eager PyTorch, with its ring updated in place and one gather per command."""

    label = "PyTorch"

    def __init__(self, problem: Problem):
        import torch

        super().__init__(problem)
        self.torch = torch
        self.tensors = {name: wp.to_torch(array) for name, array in vars(self.sim).items()}
        self.contiguous = problem.layout == "contiguous"
        self.dofs = torch.from_numpy(problem.dofs.astype(np.int64))
        self.coords = torch.from_numpy(problem.coords.astype(np.int64))
        self.lags = torch.from_numpy(problem.lags.astype(np.int64))
        self.common_lag = int(problem.lags[0]) if (problem.lags == problem.lags[0]).all() else None
        self.ring = torch.zeros(3, DEPTH, problem.n)
        self.pushes, self.newest = 0, DEPTH - 1
        full = torch.full((6, problem.n), 0.0)
        full.copy_(torch.tensor([KP, KD, STALL, NO_LOAD, MOTOR_LIMIT, LIMIT])[:, None])
        self.kp, self.kd, self.stall, self.no_load, self.motor_limit, self.limit = full

    def _late(self, command: Any) -> Any:
        torch = self.torch
        if self.pushes == 0:
            return command
        if self.common_lag is not None:
            lag = min(self.common_lag, self.pushes)
            return self.ring[:, (self.newest - lag + 1) % DEPTH] if lag else command
        lag = self.lags.clamp(max=self.pushes)
        row = (self.newest - lag + 1) % DEPTH
        late = torch.gather(self.ring, 1, row.expand(3, 1, -1))[:, 0]
        return torch.where(lag > 0, late, command)

    def step(self) -> None:
        torch = self.torch
        with torch.inference_mode():
            t = self.tensors
            if self.contiguous:
                q, qd = t["joint_q"], t["joint_qd"]
                command = torch.stack([t["joint_target_q"], t["joint_target_qd"], t["joint_act"]])
            else:
                q, qd = t["joint_q"][self.coords], t["joint_qd"][self.dofs]
                target_qd, act = t["joint_target_qd"][self.dofs], t["joint_act"][self.dofs]
                command = torch.stack([t["joint_target_q"][self.coords], target_qd, act])
            target_q, target_qd, act = self._late(command)
            effort = act + self.kp * (target_q - q) + self.kd * (target_qd - qd)
            corner = self.no_load * (1.0 + self.motor_limit / self.stall)
            speed = torch.clamp(qd, -corner, corner) / self.no_load
            high = torch.minimum(self.stall * (1.0 - speed), self.motor_limit)
            low = torch.maximum(self.stall * (-1.0 - speed), -self.motor_limit)
            effort = torch.clamp(torch.clamp(effort, low, high), -self.limit, self.limit)
            if self.contiguous:
                t["joint_f"].add_(effort)
            else:
                t["joint_f"].index_add_(0, self.dofs, effort)
            self.newest = (self.newest + 1) % DEPTH
            self.ring[:, self.newest] = command
            self.pushes = min(self.pushes + 1, DEPTH)


class Copy:
    """Copying as many bytes as an in-place step touches, half read and half written."""

    label = "copy of the same bytes"

    def __init__(self, problem: Problem):
        self.source = np.zeros(problem.n * FLOATS_TOUCHED // 2, np.float32)
        self.target = np.empty_like(self.source)

    def step(self) -> None:
        np.copyto(self.target, self.source)


def check(problem: Problem, contenders: list[Contender]) -> None:
    """Stop unless all contenders give the same efforts."""
    for step in range(GATE_STEPS):
        signals = problem.gate_signals(step)
        reference, *others = [contender.efforts(signals) for contender in contenders]
        for contender, efforts in zip(contenders[1:], others, strict=True):
            if not np.allclose(reference, efforts, rtol=1e-4, atol=1e-4):
                raise SystemExit(f"{type(contender).__name__} disagrees at step {step} of {problem.n} DOFs: no times")


_TURN = 0.03
"""Length of a turn [s]."""


def best_times(contenders: list[Any], n: int, seconds: float) -> list[float]:
    """Best time of one step [s] of each, taken in turns.

    A turn is long enough for the threads of who was before, which wait busily for a while, to have gone to sleep.
    """
    per_round = max(1, min(200, 20_000 // n))
    best = [float("inf")] * len(contenders)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, contender in enumerate(contenders):
            step: Callable[[], None] = contender.step
            turn = time.perf_counter() + _TURN
            while (start := time.perf_counter()) < turn:
                for _ in range(per_round):
                    step()
                best[i] = min(best[i], (time.perf_counter() - start) / per_round)
    return best


@dataclass
class Row:
    n: int
    layout: str
    label: str
    seconds: float
    newton: float
    torch: float

    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.n:,}".replace(",", " "),
            self.layout,
            self.label,
            f"{self.seconds * 1e6:.1f}",
            f"{self.seconds / self.n * 1e9:.2f}",
            f"{self.newton / self.seconds:.1f} ×",
            f"{self.torch / self.seconds:.1f} ×",
        )


HEADER = ("DOFs", "layout", "who", "µs per step", "ns per DOF", "faster than Newton", "faster than PyTorch")


def measure_steps(seconds: float) -> list[Row]:
    rows = []
    for n in SIZES:
        for layout in LAYOUTS:
            print(f"  {n} DOFs, {layout} …", file=sys.stderr, flush=True)
            problem = Problem(n, layout)
            classes = (NewtonActuators, TorchEager, ActuonSwapped, ActuonInPlace, ActuonCaptured)
            contenders: list[Any] = [contender(problem) for contender in classes]
            check(problem, contenders)
            contenders.append(Copy(problem))
            times = best_times(contenders, n, seconds if n < 100_000 else 3 * seconds)
            for contender, best in zip(contenders, times, strict=True):
                rows.append(Row(n, layout, contender.label, best, times[0], times[1]))
    return rows


def measure_networks(seconds: float) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for n in bench_networks.SIZES:
        for name in bench_networks.KINDS:
            print(f"  {n} DOFs, {name} …", file=sys.stderr, flush=True)
            both = bench_networks.contenders(n, name)
            times = best_times(both, n, seconds)
            for contender, best in zip(both, times, strict=True):
                cells = (
                    f"{n:,}".replace(",", " "),
                    name,
                    contender.label,
                    f"{best * 1e6:.1f}",
                    f"{best / n * 1e9:.1f}",
                )
                rows.append((*cells, f"{times[0] / best:.1f} ×"))
    return rows


def measure_groups(seconds: float) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for envs, joints in bench_lab.SIZES:
        print(f"  {envs} × {joints} joints in groups …", file=sys.stderr, flush=True)
        everyone = bench_lab.contenders(envs, joints)
        times = best_times(everyone, envs * joints, 2 * seconds)
        for contender, best in zip(everyone, times, strict=True):
            cells = (f"{envs:,} × {joints}".replace(",", " "), contender.label, f"{best * 1e6:.1f}")
            rows.append((*cells, f"{times[0] / best:.1f} ×", f"{times[1] / best:.1f} ×"))
    return rows


_FIRST_USE = {
    "import warp": "import warp",
    "import actuon": "import actuon",
    "Actuon": "from actuon.tools.bench import *; c = ActuonSwapped(Problem(12, 'contiguous')); c.step()",
    "Newton": "from actuon.tools.bench import *; c = NewtonActuators(Problem(12, 'contiguous')); c.step()",
}


def measure_first_use(rounds: int = 3) -> dict[str, float]:
    """Best wall time [s] inside a fresh process, with an empty kernel cache, from before the first import."""
    best = dict.fromkeys(_FIRST_USE, float("inf"))
    for _ in range(rounds):
        for name, code in _FIRST_USE.items():
            with tempfile.TemporaryDirectory() as cache:
                program = f"import time; t = time.perf_counter()\n{code}\nprint('seconds', time.perf_counter() - t)"
                done = subprocess.run(
                    [sys.executable, "-c", program],
                    env=os.environ | {"WARP_CACHE_PATH": cache},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                best[name] = min(best[name], float(done.stdout.split("seconds")[-1]))
    return best


def machine() -> str:
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
            name = names[0] if names else name
    from importlib.metadata import version

    versions = ", ".join(f"{package} {version(package)}" for package in ("warp-lang", "newton", "torch", "numpy"))
    return f"{name}, {os.cpu_count()} cores, no GPU used; Python {platform.python_version()}, {versions}"


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]], markdown: bool) -> None:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    edge = "| " if markdown else "  "
    between = " | " if markdown else "  "
    for i, row in enumerate((header, *rows)):
        print(edge + between.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + edge[::-1])
        if i == 0:
            print(("|" if markdown else " ") + ("|" if markdown else "-").join("-" * (w + 2) for w in widths) + edge[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=6.0, help="time for each size and layout")
    parser.add_argument("--markdown", action="store_true", help="print tables for a README")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    groups = measure_groups(options.seconds)
    rows = measure_steps(options.seconds)
    networks = measure_networks(options.seconds)
    print("  first use …", file=sys.stderr, flush=True)
    first = measure_first_use()
    print(f"\n{machine()}\n")
    print_table(HEADER, [row.cells() for row in rows], options.markdown)
    print()
    header = ("DOFs", "network", "who", "µs per step", "ns per DOF", "faster than PyTorch")
    print_table(header, networks, options.markdown)
    print()
    print("DelayedPDActuator with the limits of a DC motor, through compute():\n")
    print_table(
        ("environments × joints", "who", "µs per step", "faster than PyTorch", "than lean"), groups, options.markdown
    )
    print()
    imports = (f"{first[name]:.2f}" for name in ("import warp", "import actuon"))
    efforts = (f"{first[name]:.2f}" for name in ("Newton", "Actuon"))
    table = [
        ("import, beside `import warp`", *imports, f"{first['import actuon'] / first['import warp']:.2f} ×"),
        (
            "import to first effort, empty kernel cache, beside Newton",
            *efforts,
            f"{first['Actuon'] / first['Newton']:.2f} ×",
        ),
    ]
    print_table(("first use", "peer [s]", "Actuon [s]", "Actuon takes"), table, options.markdown)


if __name__ == "__main__":
    main()
