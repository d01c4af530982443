# SPDX-License-Identifier: Apache-2.0
"""Candidates × runs of one joint with a known load, as DOFs of one kernel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ...actuator.actuator import Actuator
from ...actuator.config import ActuatorConfig, built
from ...components.component import Component, Placement
from ...components.delay_time import DelayInterpolated
from ...components.kinds import Controller, Transmission
from ...components.transmissions.gear import TransmissionGear
from ...errors import ParameterError
from ...threads import available_threads, run_together
from ..model import OUTSIDE, Model, place_of
from .load_stage import COLUMNS, KnownLoad, MotorSwitch
from .plant import Plant, Signal, Trials
from .runs import Run

CHUNK = 64
"""Number of steps captured as one graph, as calls from Python are slow compared with a few hundred trials."""
_INERTIAS = ("rotor_inertia", "reflected_inertia")
TRIALS_PER_THREAD = 256
"""Minimum number of trials per CPU thread."""


@dataclass(frozen=True)
class LoadedRuns:
    """R runs of one joint with their loads."""

    tables: Sequence[np.ndarray]
    """`COLUMNS` of each run, shape (steps, columns)."""
    starts: np.ndarray
    """Measured position [rad] and velocity [rad/s] at the start, shape (R, 2)."""
    inertias: np.ndarray
    """Inertias of the loads [kg·m²], shape (R,)."""
    gravities: np.ndarray
    """Mass times gravity times length of the loads [N·m], shape (R,)."""
    armature: float = 0.0
    """Armature of the joint if the motor model has none [kg·m²]."""


class LoadedPlant(Plant):
    """Base of plants of one joint whose load is known at each step. Their trials are DOFs of one kernel."""

    def _set_loads(self, on_grid: Sequence[Run], loaded: LoadedRuns, device: wp.Device) -> None:
        """Set the resampled runs and their loads."""
        self._on_grid, self._loaded, self._device = tuple(on_grid), loaded, device
        self._batches: list[LoadBatch] = []

    def mean_errors(self, trials: Trials) -> np.ndarray:
        """See `Plant.mean_errors`."""
        return self._batch(trials).errors(trials)[..., None]

    def simulate(self, trials: Trials, signal: Signal = "position") -> list[np.ndarray]:
        """See `Plant.simulate`."""
        paths = self._batch(trials).trace(trials, signal)[..., None]
        return [run.at_samples(paths[:, r, : run.steps + 1]) for r, run in enumerate(self._on_grid)]

    def _batch(self, trials: Trials) -> LoadBatch:
        """Return the batch for a model and a number of candidates, from a cache of four."""
        (model,) = trials.models
        for batch in self._batches:
            if batch.model is model and batch.candidates == trials.count:
                return batch
        batch = LoadBatch(model, trials.count, self._loaded, self.dt, self._device)
        self._batches = [*self._batches[-3:], batch]
        return batch


class LoadBatch:
    """Trials of one model, numbered run by run: trial ``r * C + c`` is candidate c in run r.

    Args:
        model: Model of the joint.
        candidates: Number of candidates in a batch, C.
        runs: Runs of the joint.
        dt: Time step [s].
        device: Device of the simulation.
    """

    def __init__(self, model: Model, candidates: int, runs: LoadedRuns, dt: float, device: wp.Device):
        self.model, self.candidates, self._runs = model, candidates, runs
        self._steps = max(len(table) for table in runs.tables)
        trials = candidates * len(runs.tables)
        threads = max(1, min(available_threads(), trials // TRIALS_PER_THREAD)) if device.is_cpu else 1
        bounds = [trials * i // threads for i in range(threads + 1)]
        self._shards = [_Shard(model, runs, candidates, slice(a, b), dt, device) for a, b in itertools.pairwise(bounds)]

    def errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of the position [rad], shape (C, R); not finite if a trial diverged."""
        self._write(trials)
        chunks = -(-self._steps // CHUNK)
        run_together([functools.partial(shard.replay, chunks) for shard in self._shards])
        errors = np.concatenate([shard.errors() for shard in self._shards])
        return errors.reshape(-1, self.candidates).T

    def trace(self, trials: Trials, signal: Signal) -> np.ndarray:
        """Return a signal of each trial from its start, shape (C, R, steps + 1).

        Positions [rad] are those of the encoder. Efforts [N·m] are those of the motor at the joint in each step; the
        first is 0.
        """
        self._write(trials)
        paths = np.concatenate([shard.traced(self._steps, signal) for shard in self._shards], axis=1)
        return paths.T.reshape(len(self._runs.tables), self.candidates, -1).swapaxes(0, 1)

    def _write(self, trials: Trials) -> None:
        (values,), bias = trials.values, trials.biases[..., 0].T.ravel()
        by_trial = {path: own.T.ravel() for path, own in values.items()}
        for shard in self._shards:
            shard.write(by_trial, bias)
            shard.capture()


class _Shard:
    """A range of the trials, as one actuator."""

    def __init__(self, model: Model, runs: LoadedRuns, candidates: int, part: slice, dt: float, device: wp.Device):
        self._part, self._dt, self._device = part, dt, device
        run_of = np.repeat(np.arange(len(runs.tables)), candidates)[part]
        self._start = runs.starts[run_of]
        self._inertia, self._own_armature = runs.inertias[run_of], runs.armature
        lengths = np.array([len(table) for table in runs.tables])
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        load = KnownLoad(
            np.concatenate(runs.tables),
            inertia=self._inertia,
            gravity=runs.gravities[run_of],
            first_row=first[run_of],
            last_row=lengths[run_of] - 1,
        )
        begin = np.array([p.high if _is_lag(model, p.path) else p.start for p in model.parameters])
        config = model.config(begin)
        chain = [built(part) for part in config.stages]
        self._places = {path: place_of(config, path) for path in model.written_paths}
        for path, place in self._places.items():
            if place.stage == OUTSIDE:
                raise ParameterError(f"{path}: does not apply to a single joint; fix it, or fit the whole robot")
        delay, others = self._split(config, chain)
        n = len(run_of)
        is_switched = any((table[:, COLUMNS.index("enabled")] == 0.0).any() for table in runs.tables)
        stages: list[Component] = [load]
        for stage in others:
            stages.append(stage)
            if is_switched and isinstance(stage, Controller):
                stages.append(MotorSwitch())
        self._arrays = {
            name: wp.zeros(n, dtype=wp.float32, device=device)
            for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
        }
        self._actuator = Actuator(
            wp.array(np.arange(n), dtype=wp.uint32, device=device),
            stages=stages,
            control_signal_attrs={"next_q": "joint_q", "next_qd": "joint_qd"},
            control_every=config.control_every,
            accumulate=False,
            in_engine=True,
        )
        placement = Placement(device, n)
        live: dict[Component, Component] = dict(zip(stages, self._actuator.stages, strict=True))
        self._load = next(stage for stage in self._actuator.stages if isinstance(stage, KnownLoad))
        self._delay = None
        if delay is not None:
            live[delay] = self._delay = delay.bound(placement)
        self._chain = [live.get(stage) or stage.bound(placement) for stage in chain]
        state = self._actuator.state()
        assert state is not None  # the row and the error are states of the load
        self._state = state
        self._graphs: dict[int, Any] = {}

    def _split(
        self, config: ActuatorConfig, chain: Sequence[Component]
    ) -> tuple[DelayInterpolated | None, list[Component]]:
        """Return the delay, if the load stage can apply it, and the other stages but for gears with inertia alone."""
        delay, others = None, []
        for position, (part, stage) in enumerate(zip(config.stages, chain, strict=True)):
            free = {place.name for place in self._places.values() if place.stage == position}
            if isinstance(stage, DelayInterpolated) and _is_plain(part, free, ("delay", "shortest_dt")):
                delay = stage
            elif not isinstance(stage, TransmissionGear) or not _is_plain(part, free, _INERTIAS):
                others.append(stage)
        return delay, others

    def write(self, values: dict[str, np.ndarray], bias: np.ndarray) -> None:
        """Write the values of all trials to the stages, and reset the state."""
        for path, place in self._places.items():
            array = getattr(self._chain[place.stage], place.name)
            array.assign(values[path][self._part].astype(np.float32))
        self._bias = bias[self._part]
        self._load.bias.assign(self._bias)
        armature = _armature(self._chain)
        moved = self._inertia + np.where(armature > 0.0, armature, self._own_armature)
        self._load.inertia.assign(moved.astype(np.float32))
        if self._delay is not None:
            self._load.delay.assign(self._delay.delay)
        self._state.reset()
        self._arrays["joint_q"].assign((self._start[:, 0] - self._bias).astype(np.float32))
        self._arrays["joint_qd"].assign(self._start[:, 1].astype(np.float32))
        self._arrays["joint_f"].zero_()

    def capture(self) -> None:
        """Capture one step, and `CHUNK` steps. Not thread-safe."""
        if not self._graphs:
            self._graphs = {steps: self._captured(steps) for steps in (1, CHUNK)}

    def _captured(self, steps: int) -> Any:
        with wp.ScopedCapture(device=self._device) as capture:
            for _ in range(steps):
                self._actuator.step(self._arrays, self._arrays, self._state, self._state, self._dt)
        return capture.graph

    def replay(self, chunks: int) -> None:
        """Run ``chunks`` times `CHUNK` steps."""
        for _ in range(chunks):
            wp.capture_launch(self._graphs[CHUNK])

    def traced(self, steps: int, signal: Signal) -> np.ndarray:
        """Run ``steps`` steps; return a signal before the first and after each, shape (steps + 1, trials)."""
        traced = self._arrays["joint_q" if signal == "position" else "joint_f"]
        paths = np.empty((steps + 1, traced.shape[0]), np.float32)
        on_host = traced.numpy()  # on the CPU, the array itself
        paths[0] = on_host
        for i in range(1, steps + 1):
            wp.capture_launch(self._graphs[1])
            paths[i] = on_host if self._device.is_cpu else traced.numpy()
        return paths + self._bias if signal == "position" else paths

    def errors(self) -> np.ndarray:
        """Return the mean absolute error of each trial [rad]."""
        return self._state.stages[0].error.numpy().copy()


def _is_lag(model: Model, path: str) -> bool:
    """Return whether a parameter is a delay, which determines the size of a buffer."""
    return place_of(model.actuator, path).name == "delay"


def _is_plain(part: Any, free: set[str], besides: Sequence[str]) -> bool:
    """Return whether all parameters of a config except ``besides`` are fixed at values without effect."""
    plain = {"ratio": 1.0} | {field.name: field.default for field in dataclasses.fields(part) if field.name != "ratio"}
    said = {name for name, value in plain.items() if name in part.declared() and getattr(part, name) != value}
    return said | free <= set(besides)


def _armature(chain: Sequence[Component]) -> np.ndarray | float:
    """Return the inertia of the stages at the joint [kg·m²], shape (N,)."""
    total: Any = 0.0
    ratio: Any = 1.0
    for stage in chain:
        inertia = stage.engine_armature()
        if inertia is not None:
            if ratio is None:
                raise ParameterError(f"{type(stage).__name__}: its inertia is behind a transmission whose ratio varies")
            total = total + inertia * ratio**2
        if isinstance(stage, Transmission):
            own = stage.constant_ratio()
            ratio = ratio * own if ratio is not None and own is not None else None
    return total
