# SPDX-License-Identifier: Apache-2.0
"""Candidates × runs of one joint with a known load, as DOFs of few actuators: one kernel for a step of all."""

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
from ...components.sensors.encoder import SensorEncoder
from ...components.transmissions.gear import TransmissionGear
from ...errors import ParameterError
from ...threads import available_threads, run_together
from ..models import Model
from ..parameters import place_of
from .load_stage import COLUMNS, KnownLoad, MotorSwitch

CHUNK = 64
"""Steps that are captured as one graph: at a few hundred trials, a call from Python would count."""
_INERTIAS = ("rotor_inertia", "reflected_inertia")
TRIALS_PER_THREAD = 256
"""Fewest trials worth a CPU thread of their own."""


@dataclass(frozen=True)
class Runs:
    """What a batch must know of the runs, each with R entries."""

    tables: Sequence[np.ndarray]
    """By `run_table`."""
    starts: np.ndarray
    """Position [rad] and velocity [rad/s], shape (R, 2), as measured."""
    inertias: np.ndarray
    """Of the loads [kg·m²]."""
    gravities: np.ndarray
    """Of the loads [N·m]."""
    settings: Sequence[Any]
    """Of the logs."""
    armature: float = 0.0
    """Of the joint where the chain brings none [kg·m²]."""


class LoadBatch:
    """Trials of one model, numbered run by run: trial ``r * C + c`` is candidate c in run r.

    Args:
        model: The model.
        candidates: How many there are at once, C.
        runs: The runs.
        dt: Time step [s].
        device: Where to run.
    """

    def __init__(self, model: Model, candidates: int, runs: Runs, dt: float, device: wp.Device):
        self._model, self._candidates, self._runs, self._dt = model, candidates, runs, dt
        self._steps = max(len(table) for table in runs.tables)
        factors = [model.factors(settings) for settings in runs.settings]
        self._factors = {path: np.array([own[path] for own in factors]) for path in model.times}
        trials = candidates * len(runs.tables)
        threads = max(1, min(available_threads(), trials // TRIALS_PER_THREAD)) if device.is_cpu else 1
        bounds = [trials * i // threads for i in range(threads + 1)]
        self._shards = [_Shard(model, runs, candidates, slice(a, b), dt, device) for a, b in itertools.pairwise(bounds)]

    def run(self, candidates: np.ndarray) -> np.ndarray:
        """Mean absolute error of the position [rad], shape (C, R).

        Args:
            candidates: Values of the free parameters, shape (C, P).
        """
        self._write(candidates)
        for shard in self._shards:
            shard.capture()
        chunks = -(-self._steps // CHUNK)
        run_together([functools.partial(shard.replay, chunks) for shard in self._shards])
        errors = np.concatenate([shard.errors() for shard in self._shards])
        return errors.reshape(-1, self._candidates).T

    def trace(self, candidates: np.ndarray) -> np.ndarray:
        """Positions as the encoder shows them [rad], from the start on, shape (C, R, steps + 1)."""
        return self._traced(candidates, "joint_q")

    def efforts(self, candidates: np.ndarray) -> np.ndarray:
        """Efforts of the motor at the joint [N·m] in each step, after a first one of 0, shape (C, R, steps + 1)."""
        return self._traced(candidates, "joint_f")

    def _traced(self, candidates: np.ndarray, array: str) -> np.ndarray:
        self._write(candidates)
        for shard in self._shards:
            shard.capture()
        paths = np.concatenate([shard.traced(self._steps, array) for shard in self._shards], axis=1)
        return paths.T.reshape(len(self._runs.tables), self._candidates, -1).swapaxes(0, 1)

    def _write(self, candidates: np.ndarray) -> None:
        values = {}
        for path, own in self._model.written(candidates).items():
            factor = self._factors.get(path, np.ones(len(self._runs.tables)))
            values[path] = np.outer(factor, own).ravel()
        for shard in self._shards:
            shard.write(values)


class _Shard:
    """A range of the trials, as one actuator."""

    def __init__(self, model: Model, runs: Runs, candidates: int, part: slice, dt: float, device: wp.Device):
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
        self._places = {path: place_of(config, path) for path in model.written(model.start[None])}
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
        """The delay that the load does itself, and the stages that are left without it and without gears that do
        nothing but bring inertia."""
        delay, others = None, []
        for position, (part, stage) in enumerate(zip(config.stages, chain, strict=True)):
            free = {place.name for place in self._places.values() if place.stage == position}
            if isinstance(stage, DelayInterpolated) and _is_plain(part, free, ("delay", "shortest_dt")):
                delay = stage
            elif not isinstance(stage, TransmissionGear) or not _is_plain(part, free, _INERTIAS):
                others.append(stage)
        return delay, others

    def write(self, values: dict[str, np.ndarray]) -> None:
        """Put the numbers of all trials into the chain, and go back to the start."""
        for path, place in self._places.items():
            array = getattr(self._chain[place.stage], place.name)
            array.assign(values[path][self._part].astype(np.float32))
        bias = sum(s.bias.numpy() for s in self._chain if isinstance(s, SensorEncoder))
        self._bias = np.broadcast_to(np.asarray(bias, np.float32), self._inertia.shape)
        self._load.bias.assign(np.ascontiguousarray(self._bias))
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
        """Capture one step, and `CHUNK` of them. One thread alone may do that at a time."""
        if not self._graphs:
            self._graphs = {steps: self._captured(steps) for steps in (1, CHUNK)}

    def _captured(self, steps: int) -> Any:
        with wp.ScopedCapture(device=self._device) as capture:
            for _ in range(steps):
                self._actuator.step(self._arrays, self._arrays, self._state, self._state, self._dt)
        return capture.graph

    def replay(self, chunks: int) -> None:
        """Take `CHUNK` steps so many times."""
        for _ in range(chunks):
            wp.capture_launch(self._graphs[CHUNK])

    def traced(self, steps: int, array: str = "joint_q") -> np.ndarray:
        """Take so many steps: an array before the first and after each, positions as the encoder shows them.

        Shape (steps + 1, trials).
        """
        traced = self._arrays[array]
        paths = np.empty((steps + 1, traced.shape[0]), np.float32)
        on_host = traced.numpy()  # on the CPU, the array itself
        paths[0] = on_host
        for i in range(1, steps + 1):
            wp.capture_launch(self._graphs[1])
            paths[i] = on_host if self._device.is_cpu else traced.numpy()
        return paths + self._bias if array == "joint_q" else paths

    def errors(self) -> np.ndarray:
        """Mean absolute error of each trial [rad]."""
        return self._state.stages[0].error.numpy().copy()


def _is_lag(model: Model, path: str) -> bool:
    """Whether a parameter is a time for which a ring needs room."""
    return place_of(model.actuator, path).name == "delay"


def _is_plain(part: Any, free: set[str], besides: Sequence[str]) -> bool:
    """Whether a config says nothing but ``besides``, and nothing else of it is free."""
    plain = {"ratio": 1.0} | {field.name: field.default for field in dataclasses.fields(part) if field.name != "ratio"}
    said = {name for name, value in plain.items() if name in part.declared() and getattr(part, name) != value}
    return said | free <= set(besides)


def _armature(chain: Sequence[Component]) -> np.ndarray | float:
    """What the stages bring of inertia at the joint [kg·m²], shape (N,)."""
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
