# SPDX-License-Identifier: Apache-2.0
"""A composed chain as the runners see it: components, indices and names, and how they become kernel arguments."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from .arrays import DoubleArray, flat, is_double, is_read_only
from .components.base import Clamping, Component, Controller
from .components.delay import Delay
from .errors import ArrayError
from .pipeline import SIGNALS, Flavour, Structure

READ_THROUGH = SIGNALS | {"output": "effort", "computed_output": "effort"}
"""Simulation arrays in the order a step gathers them, and the indices each is accessed through."""


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
    controller: Controller
    delay: Delay | None
    clamping: tuple[Clamping, ...]
    accesses: dict[str, Access]
    """By name of the indices: ``pos``, ``vel``, ``target_pos``, ``target_vel``, ``effort``."""
    labels: dict[str, str]
    """What to call each simulation array in an error, e.g. ``"sim_state.joint_q"``."""
    adds: bool = True
    """Whether efforts are added to the output, and not written over it."""

    @property
    def components(self) -> tuple[Component, ...]:
        delay = () if self.delay is None else (self.delay,)
        return (*delay, self.controller, *self.clamping)

    def structure(self, flavour: Flavour) -> Structure:
        """What picks this chain's kernel."""
        clamps = (clamp._stage(f"clamping_{i}") for i, clamp in enumerate(self.clamping))
        stages = (self.controller._stage("controller"), *clamps)
        return Structure(stages, self.delay is not None, flavour, adds=self.adds)

    def constants(self) -> dict[str, Any]:
        """Kernel arguments that stay from step to step: indices, and parameter arrays, whose values may change."""
        values: dict[str, Any] = {}
        for name, access in self.accesses.items():
            values[f"{name}_indices"] = None if access.runs_on else access.indices
            values[f"{name}_offset"] = access.first
        for name, component in (("controller", self.controller), *self._named_clamping()):
            values |= {f"{name}_{argument}": value for argument, value in component.arguments().items()}
        if self.delay is not None:
            values["depth"] = self.delay.buf_depth
            values["delay_steps"] = self.delay.delay_steps
        return values

    def states(self, current: Any, following: Any) -> dict[str, Any]:
        """Kernel arguments that carry the state before and after a step."""
        values: dict[str, Any] = {}
        for side, state in (("in", current), ("out", following)):
            for name in self.controller.STATES:
                values[f"controller_{name}_{side}"] = getattr(state.controller_state, name).flatten()
            if self.delay is not None:
                values |= state.delay_state.arguments(side)
        if self.delay is not None:
            values["in_place"] = current is following
            values["cell_size"] = current.delay_state.cell_size
        return values

    def signal(self, name: str, value: Any, doubles: dict[str, DoubleArray] | None = None) -> wp.array | None:
        """Return a simulation array as a Warp array over the same memory, checked against the indices.

        Args:
            name: Of `READ_THROUGH`.
            value: The array, of any framework.
            doubles: Gets a float32 copy of an array of float64, which is then returned. None refuses such arrays.
        """
        if value is None:
            return None
        label = self.labels[name]
        copied = doubles is not None and self.device.is_cpu and is_double(value)
        double = DoubleArray(value, label) if copied else None
        array = flat(value if double is None else double.copy, label, self.device)
        through = READ_THROUGH[name]
        largest = self.accesses[through].largest
        if array.shape[0] <= largest:
            raise ArrayError(f"{label}: has {array.shape[0]} entries; the {through} indices reach {largest}")
        if through == "effort" and is_read_only(value):
            raise ArrayError(f"{label}: is read-only; efforts are written to it")
        if doubles is not None and double is not None:
            doubles[name] = double
        return array

    def _named_clamping(self) -> tuple[tuple[str, Clamping], ...]:
        return tuple((f"clamping_{i}", clamp) for i, clamp in enumerate(self.clamping))
