# SPDX-License-Identifier: Apache-2.0
"""Events in the life of an actuator, drawn in advance, to replay on several actuators and on a reference."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import warp as wp

import actuon

from .arrays import KINDS, Held
from .values import SIGNALS, Chain, Structure, as_given, is_legal, parameter, random_signals


@dataclass(frozen=True)
class Case:
    """Random values of a case, which determine the rest."""

    structure: Structure
    n: int
    layout: str
    stepping: str
    mood: str
    feedforward: str
    arrays: str
    accumulate: bool
    computed: bool
    length: int
    dt: float | None
    """Time step [s]; None for another one at each step."""
    numbers: int
    """Seed of all numbers."""


@dataclass
class Event:
    """One thing that happens."""

    kind: str
    states: tuple[int, int] = (0, 0)
    signals: Any = None
    """Of a step: the signals by name."""
    before: Any = None
    """Of a step: what is in the outputs."""
    dt: float = 0.01
    mask: Any = None
    """Of a reset: which DOFs; None for all."""
    place: int = 0
    """Of a parameter: which stage has it."""
    name: str = ""
    values: Any = None


LAYOUTS = ("contiguous", "offset", "scattered", "free base", "same reads", "repeated efforts")
STEPPINGS = {"one": 1, "two": 2, "fresh": None, "many": 4}
OUTPUTS = ("joint_f", "computed", "motor_speed")


class Script:
    """A chain, its indices, and what happens to it."""

    def __init__(self, case: Case):
        self.case = case
        self.rng = np.random.default_rng(case.numbers)
        self.chain = Chain.random(case.structure, case.n, case.mood, self.rng)
        self.indices, self.sizes = self._layout()
        self.stateful = case.structure.is_stateful
        self.num_states = STEPPINGS[case.stepping] or case.length + 1
        self.events = self._events()

    def _layout(self) -> tuple[dict[str, np.ndarray], tuple[int, int]]:
        """Indices by argument of the actuator, and the sizes of velocities and positions."""
        n, rng, layout = self.case.n, self.rng, self.case.layout
        size = n + 5
        if layout == "contiguous":
            return {"indices": np.arange(n)}, (n + 1, n + 1)
        if layout == "offset":
            return {"indices": np.arange(n) + 5}, (size, size)
        if layout == "scattered":
            names = ("indices", "pos_indices", "target_pos_indices", "effort_indices")
            return {name: rng.permutation(size)[:n] for name in names}, (size, size)
        if layout == "free base":
            joints = int(rng.choice([1, 3, 12]))
            robot, joint = np.divmod(np.arange(n), joints)
            robots = n // joints + 1
            indices = {"indices": robot * (joints + 6) + 6 + joint, "pos_indices": robot * (joints + 7) + 7 + joint}
            return indices, (robots * (joints + 6), robots * (joints + 7))
        if layout == "same reads":
            indices = {name: rng.integers(0, size, n) for name in ("indices", "pos_indices")}
            return indices | {"effort_indices": rng.permutation(size)[:n]}, (size, size)
        return {"indices": np.arange(n), "effort_indices": rng.integers(0, max(1, n // 3), n)}, (size, size)

    @property
    def offers_speed(self) -> bool:
        """Whether the motor's speed can be written out: each DOF needs an entry of its own."""
        return self.case.structure.has("TransmissionGear") and self.case.layout != "repeated efforts"

    @property
    def effort_indices(self) -> np.ndarray:
        return self.indices.get("effort_indices", self.indices["indices"])

    def _events(self) -> list[Event]:
        events = []
        for t in range(self.case.length):
            while self.rng.random() < 0.3:
                events += self._between_steps()
            dt = self.case.dt
            dt = float(self.rng.choice([0.0, 1e-6, 0.002, 0.01, 0.01, 0.01, 0.5])) if dt is None else dt
            signals = random_signals(self.sizes, self.case.mood, self.rng)
            if self.case.feedforward == "absent" or (self.case.feedforward == "at times" and self.rng.random() < 0.5):
                signals["joint_act"] = None
            before = {name: (self.rng.standard_normal(self.sizes[0]) * 9).astype(np.float32) for name in OUTPUTS}
            events.append(Event("step", self._pair(t), signals, before, dt))
        return events

    def _pair(self, t: int) -> tuple[int, int]:
        if self.case.stepping == "many":
            first, second = self.rng.integers(0, self.num_states, 2).tolist()
            return first, second
        return t % self.num_states, (t + 1) % self.num_states

    def _between_steps(self) -> list[Event]:
        kinds = ["reset", "assign", "set", "set", "refused"]
        if self.case.mood in ("plain", "far") and self.rng.random() < 0.1:  # a file with NaN is refused
            kinds = ["file"]
        kind = str(self.rng.choice(kinds))
        one, other = self.rng.integers(0, self.num_states, 2).tolist()
        if kind in ("set", "refused"):
            return self._parameter_event(kind)
        if not self.stateful:
            return []
        mask = self.rng.random(self.case.n) < self.rng.random() if self.rng.random() < 0.8 else None
        return [Event(kind, (one, other), mask=mask)]

    def _parameter_event(self, kind: str) -> list[Event]:
        place = int(self.rng.integers(len(self.chain.owners)))
        owner, values = self.chain.owners[place]
        name = str(self.rng.choice(list(values)))
        if name == "lookup_positions" or (kind == "refused" and (not self.case.n or values[name].dtype == np.int32)):
            return []
        if name == "delay_steps":
            made = self.rng.integers(0, self.chain.depth + 1, self.case.n).astype(np.int32)
        else:
            made = parameter(name, owner, len(values[name]), self.case.mood, self.rng)
        if name == "lookup_efforts":
            made = np.abs(made)
        if self.rng.random() < 0.3:
            made[:] = made[:1]
        if kind == "refused":
            made[int(self.rng.integers(len(made)))] = np.nan
        return [Event(kind, place=place, name=name, values=made)]

    def is_refused(self, chain: Chain, event: Event) -> bool:
        """Whether a parameter must be refused, alone or beside the others."""
        owner, values = chain.owners[event.place]
        return event.kind == "refused" or not is_legal(owner, values | {event.name: event.values})


class Reader:
    """Plays a script on the reference. ``signals`` and ``sizes`` by name, in order of the steps."""

    def __init__(self, script: Script):
        self.script = script
        self.chain = copy.deepcopy(script.chain)
        self.states = [self.chain.reference() for _ in range(script.num_states)]
        self.signals: list[dict[str, np.ndarray]] = []
        self.sizes: list[dict[str, np.ndarray]] = []
        with np.errstate(all="ignore"):
            for event in script.events:
                getattr(self, f"_{event.kind}")(event)

    def _step(self, event: Event) -> None:
        indices = self.script.indices
        at = indices["indices"]
        at_pos = indices.get("pos_indices", at)
        through = (at_pos, at, indices.get("target_pos_indices", at_pos), at, at)
        arrays = []
        for name, where in zip(SIGNALS, through, strict=True):
            values = event.signals[name]
            arrays.append(np.zeros(len(at)) if values is None else values[where])
        first, second = event.states
        after = self.states[first] if first == second else self.states[first].copy()
        signals, sizes = after.step(*arrays, dt=event.dt)
        self.signals.append(signals)
        self.sizes.append(sizes)
        self.states[second] = after

    def _reset(self, event: Event) -> None:
        self.states[event.states[0]].reset(np.ones(self.script.case.n, bool) if event.mask is None else event.mask)

    def _assign(self, event: Event) -> None:
        first, second = event.states
        self.states[second] = self.states[first].copy()

    _file = _assign

    def _set(self, event: Event) -> None:
        if not self.script.is_refused(self.chain, event):
            self.chain.owners[event.place][1][event.name][:] = event.values

    _refused = _set


class Player:
    """Plays a script on actuators. ``outputs`` are the output arrays after each step.

    Args:
        script: What to play.
        staged: Run the chain stage by stage.
        kinds: Kinds of arrays to take from.
        replayed: Capture one step in a graph and replay it; for a script of one state and one time step.
        only: Take these DOFs, each as an actuator of its own.
        options: Of the actuator.
    """

    def __init__(self, script: Script, *, staged=False, kinds=tuple(KINDS), replayed=False, only=None, **options):
        self.script, self.kinds, self.replayed = script, tuple(kinds), replayed
        self.rng = np.random.default_rng(script.case.numbers + 1)
        self.chain = copy.deepcopy(script.chain)
        case = script.case
        options |= {"accumulate": case.accumulate}
        if case.computed:
            options["control_computed_output_attr"] = "computed"
            options |= {"control_signal_attrs": {"motor_speed": "motor_speed"}} if script.offers_speed else {}
        groups = [np.arange(case.n)] if only is None else [np.array([i]) for i in only]
        self.groups, self.split = groups, only is not None
        self.actuators = []
        for group in groups:
            indices = {name: values[group] for name, values in script.indices.items()}
            chain = self.chain if only is None else self.chain.of(group)
            options["own_arrays"] = not replayed
            self.actuators.append(chain.actuator(rng=self.rng, staged=staged, **indices, **options))
        self.states = [[actuator.state() for _ in range(script.num_states)] for actuator in self.actuators]
        assert all(actuator.is_fused() is not staged for actuator in self.actuators)
        assert all(actuator.is_stateful() is script.stateful for actuator in self.actuators)
        self._held: dict[str, Held] = {}
        self._graph: Any = None
        self.outputs: list[dict[str, np.ndarray]] = []
        for event in script.events:
            getattr(self, f"_{event.kind}")(event)

    def _hold(self, name: str, values: np.ndarray) -> Any:
        """Hand over values, in the array of the step before or in another one."""
        if name not in self._held or (not self.replayed and self.rng.random() < 0.3):
            kinds = [k for k in self.kinds if self.script.case.arrays in ("any", k)] or self.kinds
            self._held[name] = Held(str(self.rng.choice(kinds)), values)
        self._held[name].view[:] = values
        return self._held[name].array

    def _step(self, event: Event) -> None:
        sim = {name: None if v is None else self._hold(name, v) for name, v in event.signals.items()}
        sim |= {name: self._hold(name, values) for name, values in event.before.items()}
        if sim["joint_act"] is None and self.rng.random() < 0.5:
            del sim["joint_act"]
        handed = sim if self.rng.random() < 0.5 else SimpleNamespace(**sim)
        if not self.replayed:
            self._step_all(handed, event)
        else:
            if self._graph is None:
                with wp.ScopedCapture(device="cpu") as capture:
                    self._step_all(handed, event)
                self._graph = capture.graph
            wp.capture_launch(self._graph)
        self.outputs.append({name: self._held[name].view.copy() for name in OUTPUTS})

    def _step_all(self, sim: Any, event: Event) -> None:
        for actuator, states in zip(self.actuators, self.states, strict=True):
            actuator.step(sim, sim, *(states[i] for i in event.states), dt=event.dt)

    def _reset(self, event: Event) -> None:
        for group, states in zip(self.groups, self.states, strict=True):
            states[event.states[0]].reset(None if event.mask is None else self._mask(event.mask[group]))

    def _mask(self, mask: np.ndarray) -> Any:
        return mask.tolist() if self.rng.random() < 0.3 and len(mask) else wp.array(mask, dtype=wp.bool)

    def _assign(self, event: Event) -> None:
        first, second = event.states
        for states in self.states:
            states[second].assign(states[first])

    def _file(self, event: Event) -> None:
        """Save one state to a file, and let the other take it over."""
        first, second = event.states
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.npz"
            for states in self.states:
                states[first].save(path)
                states[second].load(path)

    def _set(self, event: Event) -> None:
        refused = self.script.is_refused(self.chain, event)
        for group, actuator in zip(self.groups, self.actuators, strict=True):
            shared = event.name == "lookup_efforts"
            values = event.values if shared else event.values[group]
            values = values.copy() if self.replayed else as_given(values, self.rng, shared)
            if not refused:
                setattr(actuator.stages[event.place], event.name, values)
            elif not self.split:
                with pytest.raises(actuon.ParameterError):
                    setattr(actuator.stages[event.place], event.name, values)
        if not refused:
            self.chain.owners[event.place][1][event.name][:] = event.values

    _refused = _set
