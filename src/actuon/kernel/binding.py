# SPDX-License-Identifier: Apache-2.0
"""A composed chain as the ways to step it see it: stages, indices and names, and how they become kernel arguments."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from ..arrays import DoubleArray, flat, is_double, is_read_only
from ..errors import ArrayError
from .alone import parameter_values, ring_values, state_values
from .arguments import Role
from .structure import CONTROL_DT, DIRECT, SIGNALS, Stage, Structure, Write, custom_signal, sources
from .types import Flavour

OUTPUT, COMPUTED = "output", "computed_output"
"""What the arrays are called that the effort, and the effort before limits, are written to."""


@dataclass(frozen=True)
class Access:
    """How an array of the simulation is accessed: through indices, or as one run from an offset on."""

    indices: wp.array
    runs_on: bool
    """Whether the indices are consecutive, so that the kernel need not read them."""
    first: int
    largest: int
    repeats: bool

    @functools.cached_property
    def chosen(self) -> np.ndarray:
        """The indices, each once."""
        return np.unique(self.indices.numpy())

    @staticmethod
    def through(indices: wp.array) -> Access:
        numbers = indices.numpy()
        if numbers.size == 0:
            return Access(indices, True, 0, -1, False)
        runs_on = bool((np.diff(numbers.astype(np.int64)) == 1).all())
        repeats = not runs_on and np.unique(numbers).size < numbers.size
        return Access(indices, runs_on, int(numbers[0]), int(numbers.max()), repeats)


@dataclass(frozen=True)
class Holding:
    """How a controller runs at every k-th step, and what it gave is held in between."""

    position: int
    """Of the controller's stage."""
    every: int
    """k, at least 2."""
    signals: tuple[str, ...]
    """What the controller gives."""
    runs: bool = True
    """Whether this is the chain of the steps in which it runs. In the others a stage stands in its place that asks for
    ``held_effort``."""


def held(signal: str) -> str:
    """What the array of a state is called that holds a signal."""
    return f"held_{signal}"


@dataclass(frozen=True)
class Chain:
    """What an actuator is made of."""

    device: wp.Device
    num_actuators: int
    components: tuple[Any, ...]
    """The stages, in order."""
    accesses: Mapping[str, Access]
    """By name of the indices: ``pos``, ``vel``, ``target_pos``, ``target_vel``, ``effort``."""
    labels: Mapping[str, str]
    """What to call each simulation array in an error, e.g. ``"sim_state.joint_q"``."""
    computed_after: int
    """Position of the stage after which the effort is the one before limits."""
    adds: bool = True
    """Whether efforts are added to the output, and not written over it."""
    telemetry: tuple[str, ...] = ()
    """Signals of stages that are written to arrays of the simulation too."""
    holding: Holding | None = None
    """Where the controller does not run at every step."""
    keeps_rings: bool = True
    """Whether rings of past signals get what is new."""
    sources: Mapping[str, str] = field(init=False)
    """Signals that come from the simulation, and the indices they are read through."""
    slots: tuple[str, ...] = field(init=False)
    """Simulation arrays in the order in which a step gets them: signals, then what is written."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", sources(component.stage() for component in self.components))
        object.__setattr__(self, "slots", (*self.sources, OUTPUT, COMPUTED, *self.telemetry))

    @functools.cached_property
    def writes(self) -> tuple[Write, ...]:
        """What a step writes, in the order of the slots."""
        efforts = (Write("effort", self.adds), Write("effort", self.adds, after=self.computed_after))
        return (*efforts, *(Write(name) for name in self.telemetry))

    def is_written(self, slot: str) -> bool:
        """Whether a simulation array is written, and not read."""
        return slot not in self.sources

    def through(self, slot: str) -> str:
        """Name of the indices that a simulation array is accessed through."""
        return self.sources.get(slot, "effort")

    def place(self, slot: str) -> tuple[Role, Any]:
        """Which argument of the kernel stands for a simulation array."""
        if slot in self.sources:
            return Role.SIGNAL, slot
        return Role.WRITE, self.slots.index(slot) - len(self.sources)

    def structure(self, flavour: Flavour, absent: Collection[str] = ()) -> Structure:
        """What picks this chain's kernel.

        Args:
            flavour: How it touches memory.
            absent: Those of the `optional` signals for which there is no array.
        """
        stages = [_without_inputs(component.stage(), absent) for component in self.components]
        writes = self.writes
        if self.holding is not None:
            at = self.holding.position
            writes += tuple(Write(name, scattered=False, after=at) for name in self.holding.signals)
            if self.holding.runs:
                stages[at] = dataclasses.replace(stages[at], time_step=CONTROL_DT)
        given = tuple((name, DIRECT) for name in self.taken_from_state)
        return Structure(tuple(stages), writes, flavour, given, self.keeps_rings)

    @functools.cached_property
    def optional(self) -> frozenset[str]:
        """Signals from arrays of the simulation that all stages can do without."""
        stages = [component.stage() for component in self.components]
        custom = [name for name in self.sources if name not in SIGNALS]
        needed = {name for stage in stages for name in stage.asks if name not in dict(stage.defaults)}
        return frozenset(name for name in custom if name not in needed)

    @property
    def taken_from_state(self) -> Mapping[str, str]:
        """Signals that a step takes from the state, where the controller does not run, and their arrays there."""
        if self.holding is None or self.holding.runs:
            return {}
        return {held(name) if name == "effort" else name: held(name) for name in self.holding.signals}

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        for position, component in enumerate(self.components):
            own = self.time_step(position, dt)
            checked = component.check_dt(own)
            dt = checked if own is dt else dt
        return dt

    def time_step(self, position: int, dt: float | None) -> float | None:
        """The time [s] from one run of a stage to the next, where steps are ``dt`` [s] apart."""
        if self.holding is None or position != self.holding.position or not self.holding.runs:
            return dt
        return float(dt) * self.holding.every if isinstance(dt, (int, float, np.number)) else dt

    def time_steps(self, dt: float | None) -> dict[str, float | None]:
        """What a kernel gets as the time [s] between runs of a stage, by name."""
        times = {"dt": dt}
        return times if self.holding is None else times | {CONTROL_DT: self.time_step(self.holding.position, dt)}

    def values(
        self, signals: Mapping[str, wp.array | None], current: Any, following: Any, dt: float | None
    ) -> dict[Role, Mapping[Any, Any]]:
        """The values of kernel arguments, by role and key. Indices and parameters stay from step to step."""
        before = dict(enumerate(current.stages)) if current is not None else {}
        after = dict(enumerate(following.stages)) if following is not None else {}
        sizes, rows = ring_values([component.stage() for component in self.components], before, after)
        by_place = {self.place(slot): array for slot, array in signals.items()}
        taken = {name: getattr(current.held, array) for name, array in self.taken_from_state.items()}
        return {
            Role.SIZE: {"n": self.num_actuators, "first": 0, **self.time_steps(dt), **sizes},
            Role.SIGNAL: {key: array for (role, key), array in by_place.items() if role is Role.SIGNAL} | taken,
            Role.INDICES: {name: None if a.runs_on else a.indices for name, a in self.accesses.items()},
            Role.OFFSET: {name: access.first for name, access in self.accesses.items()},
            Role.PARAMETER: parameter_values(dict(enumerate(self.components))),
            Role.DEPTH: rows,
            Role.STATE_IN: state_values(before),
            Role.STATE_OUT: state_values(after),
            Role.WRITE: {key: array for (role, key), array in by_place.items() if role is Role.WRITE}
            | {len(self.writes) + i: array for i, array in enumerate(self.kept(following).values())},
        }

    def kept(self, following: Any) -> dict[str, wp.array]:
        """The arrays of a state after a step that keep what the controller gave, by the name of the signal."""
        if self.holding is None:
            return {}
        return {name: getattr(following.held, held(name)) for name in self.holding.signals}

    def signal(self, slot: str, value: Any, doubles: dict[str, DoubleArray] | None = None) -> wp.array | None:
        """Return a simulation array as a Warp array over the same memory, checked against the indices.

        Args:
            slot: Of ``slots``.
            value: The array, of any framework.
            doubles: Gets a float32 copy of an array of float64, which is then returned. None refuses such arrays.
        """
        if value is None:
            return None
        label = self.labels[slot]
        if self.is_written(slot) and is_read_only(value):
            raise ArrayError(
                f"{label}: got {type(value).__name__}, which is read-only; efforts are written to it, so pass an array "
                "that can be written"
            )
        copied = doubles is not None and self.device.is_cpu and is_double(value)
        double = DoubleArray(value, label) if copied else None
        array = flat(value if double is None else double.copy, label, self.device)
        through = self.through(slot)
        largest = self.accesses[through].largest
        if array.shape[0] <= largest:
            raise ArrayError(f"{label}: has {array.shape[0]} entries; the {through} indices reach {largest}")
        if doubles is not None and double is not None:
            doubles[slot] = double
        return array


def _without_inputs(stage: Stage, absent: Collection[str]) -> Stage:
    inputs = tuple(name for name in stage.custom_inputs if custom_signal(name) not in absent)
    return stage if inputs == stage.custom_inputs else dataclasses.replace(stage, custom_inputs=inputs)
