# SPDX-License-Identifier: Apache-2.0
"""A composed chain as the ways to step it see it: stages, indices and names, and how they become kernel arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from ..arrays import DoubleArray, flat, is_double, is_read_only
from ..errors import ArrayError
from .alone import parameter_values, ring_values, state_values
from .arguments import Role
from .structure import Structure, Write, sources
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

    def structure(self, flavour: Flavour) -> Structure:
        """What picks this chain's kernel."""
        return Structure(tuple(component.stage() for component in self.components), self.writes, flavour)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        for component in self.components:
            dt = component.check_dt(dt)
        return dt

    def values(
        self, signals: Mapping[str, wp.array | None], current: Any, following: Any, dt: float | None
    ) -> dict[Role, Mapping[Any, Any]]:
        """The values of kernel arguments, by role and key. Indices and parameters stay from step to step."""
        before = dict(enumerate(current.stages)) if current is not None else {}
        after = dict(enumerate(following.stages)) if following is not None else {}
        sizes, rows = ring_values([component.stage() for component in self.components], before, after)
        by_place = {self.place(slot): array for slot, array in signals.items()}
        return {
            Role.SIZE: {"n": self.num_actuators, "first": 0, "dt": dt, **sizes},
            Role.SIGNAL: {key: array for (role, key), array in by_place.items() if role is Role.SIGNAL},
            Role.INDICES: {name: None if a.runs_on else a.indices for name, a in self.accesses.items()},
            Role.OFFSET: {name: access.first for name, access in self.accesses.items()},
            Role.PARAMETER: parameter_values(dict(enumerate(self.components))),
            Role.DEPTH: rows,
            Role.STATE_IN: state_values(before),
            Role.STATE_OUT: state_values(after),
            Role.WRITE: {key: array for (role, key), array in by_place.items() if role is Role.WRITE},
        }

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
        copied = doubles is not None and self.device.is_cpu and is_double(value)
        double = DoubleArray(value, label) if copied else None
        array = flat(value if double is None else double.copy, label, self.device)
        through = self.through(slot)
        largest = self.accesses[through].largest
        if array.shape[0] <= largest:
            raise ArrayError(f"{label}: has {array.shape[0]} entries; the {through} indices reach {largest}")
        if self.is_written(slot) and is_read_only(value):
            raise ArrayError(f"{label}: is read-only; efforts are written to it")
        if doubles is not None and double is not None:
            doubles[slot] = double
        return array
