# SPDX-License-Identifier: Apache-2.0
r"""Trains a network controller on logs of a joint with a known load.

The network gives the effort of the motor; what else the joint has is found together with it: an armature, an encoder's
bias, and dry and viscous friction, which hold a joint that a smooth network could not, and are there as well while the
motor is switched off. All of them move the joint as in a fit,

.. math::
    J\,(v' - v)/h = \tau_{net} + \tau_e - f - b\,v', \qquad |f| \le F + \mu\,|\tau_{net} - \tau_e|

and the mean absolute error of the positions is made less by Adam, through the motion: first over short windows of the
logs, each from its measured state, then over longer ones. Before that the network learns the effort that is logged, or
the one that the load needs where it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Option, ParameterError, listed, require
from .network_modules import KINDS, Rolled, make_module
from .workers import Progress

NETWORK = Option("kind", "--network")
_WINDOWS = (0.1, 0.3, 1.0)
"""Lengths of the windows [s]."""
_EVERY = 0.25
"""Share of a window after which the next one begins."""
_BATCH = (256, 192, 128)
"""Windows in one step, of each length."""
_ITERATIONS = {"mlp": (200, 130, 95), "lstm": (140, 90, 70), "gru": (140, 90, 70)}
"""Steps with each length, so that one takes half a minute on a core for 12 runs of 6 s."""
_REGRESSION = 200
"""Steps in which the network learns efforts."""
_LAGS = (0.0, 0.004, 0.008, 0.016, 0.032)
"""How far back an MLP sees [s]."""
_BURN_IN = 0.12
"""Time [s] over which a recurrent network sees what was measured before a window."""
_RATE = 3e-3


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """One run at even steps, arrays of shape (T,).

    Args:
        command: [rad].
        position: As measured [rad].
        velocity: [rad/s], of smoothed positions.
        enabled: 1 where the motor is switched on, else 0.
        effort: Of the motor, as logged, or as the load needs it [N·m].
        is_known: 1 where ``effort`` means something, else 0.
        inertia: Of the load [kg·m²].
        gravity: Of the load [N·m].
        factor: By what the position error is multiplied: the gain of the log, compared with the one trained for.
    """

    command: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    enabled: np.ndarray
    effort: np.ndarray
    is_known: np.ndarray
    inertia: float
    gravity: float
    factor: float


@dataclass(frozen=True)
class TrainingJob:
    """A training, with all that it needs.

    Args:
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        runs: What to train on.
        dt: Step of the runs, and of the network [s].
        seed: Seed of the random numbers.
        effort: Largest effort that the load needs [N·m].
        share: Of the usual number of steps.
    """

    kind: str
    runs: tuple[TrainingRun, ...]
    dt: float
    seed: int
    effort: float
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"got '{self.kind}'; {listed(self.kind, KINDS, 'networks')}", option=NETWORK)


@dataclass(frozen=True, eq=False)
class Trained:
    """A network, and what the joint has beside it."""

    kind: str
    weights: dict[str, np.ndarray]
    """By the names of PyTorch."""
    steps: tuple[int, ...]
    """History steps that an MLP sees."""
    pos_scale: float
    vel_scale: float
    effort_scale: float
    dt: float
    dynamic: float
    """Dry friction [N·m]."""
    load: float
    """Share of the efforts that rubs."""
    viscous: float
    """[N·m·s/rad]."""
    armature: float
    """[kg·m²]."""
    bias: float
    """Of the encoder [rad]."""
    ranges: dict[str, tuple[float, float]]
    """Of the inputs in the runs it was trained on: ``position_error`` [rad] and ``velocity`` [rad/s]."""
    error: float
    """Mean absolute error [rad] over windows, at the end."""
    interrupted: bool = False

    @property
    def parameters(self) -> int:
        """Numbers that were found."""
        return sum(array.size for array in self.weights.values()) + 5

    def module(self) -> Any:
        """The network as PyTorch has it, without its scales."""
        torch = require("torch", "torch", "training networks")
        module = make_module(self.kind, len(self.steps))
        module.load_state_dict({name: torch.tensor(array) for name, array in self.weights.items()})
        return module.eval()


def run_training(job: TrainingJob, progress: Progress | None = None) -> Trained:
    """Train, as the job says. The same seed gives the same network. An interrupt gives it as it is by then."""
    torch = require("torch", "torch", "training networks")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            return _Training(job, progress).run()
    finally:
        torch.set_num_threads(threads)


class _Training:
    """The state of a training."""

    def __init__(self, job: TrainingJob, progress: Progress | None):
        self._torch = require("torch", "torch", "training networks")
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
        self._optimiser = self._torch.optim.Adam(groups, lr=_RATE)
        iterations = [max(1, round(job.share * count)) for count in _ITERATIONS[job.kind]]
        self._total, self._done = sum(iterations), 0
        self._iterations = iterations
        self._error = math.inf

    def run(self) -> Trained:
        """Learn efforts, then motions over longer and longer windows."""
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
        """Windows of so many steps: runs, and where they begin. Each run has one at its start."""
        every = max(1, round(_EVERY * length))
        found = []
        for run in self._job.runs:
            last = len(run.position) - length - 1
            if last >= 0:
                begins = [0, *range(max(every, self._rolled.history), last + 1, every)]
                found += [(run, begin) for begin in begins]
        return found

    def _learn_efforts(self) -> None:
        """Let the network give the efforts that are known, from measured inputs."""
        windows = self._windows(1)
        known = [(run, begin) for run, begin in windows if run.is_known[begin] > 0.0]
        if not known:
            return
        batch = self._rolled.gather(known, 1)
        wanted = self._torch.tensor([run.effort[begin] for run, begin in known], dtype=self._torch.float32)
        optimiser = self._torch.optim.Adam(self._rolled.network.parameters(), lr=_RATE)
        for _ in range(round(self._job.share * _REGRESSION)):
            chosen = self._torch.tensor(self._rng.choice(len(known), min(len(known), 512), replace=False))
            given = self._rolled.effort_at(self._rolled.chosen(batch, chosen))
            loss = (given - wanted[chosen]).abs().mean() / self._job.effort
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def _learn_motion(self, seconds: float, size: int, count: int) -> None:
        """Make the error of positions over windows of this length less."""
        shortest = min(len(run.position) for run in self._job.runs)
        length = min(max(2, round(seconds / self._job.dt)), shortest - 2)
        windows = self._windows(length)
        batch = self._rolled.gather(windows, length)
        errors: list[float] = []
        for _ in range(count):
            chosen = self._torch.tensor(self._rng.choice(len(windows), min(len(windows), size), replace=False))
            part = self._rolled.chosen(batch, chosen)
            loss = (self._rolled.roll(part) - part["measured"]).abs().mean()
            share = self._done / self._total
            for group in self._optimiser.param_groups:
                group["lr"] = group["times"] * (_RATE * (1.0 - share) + 0.03 * _RATE)
            self._optimiser.zero_grad()
            loss.backward()
            everything = [p for group in self._optimiser.param_groups for p in group["params"]]
            norm = self._torch.nn.utils.clip_grad_norm_(everything, 1.0)
            if bool(self._torch.isfinite(norm)):
                self._optimiser.step()
            self._done += 1
            errors = [*errors[-19:], float(loss.detach())]
            self._error = float(np.mean(errors))
            if self._progress is not None:
                self._progress(self._done, np.array([self._error]))


def check_kind(kind: str) -> None:
    """Refuse a kind of network that there is not."""
    TrainingJob(kind, (), 1.0, 0, 1.0)
