# SPDX-License-Identifier: Apache-2.0
"""Steps a chain as one kernel that stays bound to its arrays."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import warp as wp

from ..arrays import DoubleArray, look_at_tensor, watch
from .alone import argument_values
from .arguments import Role
from .binding import Chain
from .launch import BoundProgram, Shard, recording_tape
from .program import program
from .stepping import building, refuse_tape, renew_lock_after_fork, run_on_copies
from .types import Flavour


class FusedRunner:
    """Runs the chain as one kernel, bound once to its arrays.

    What is bound to two states is kept by the first of them until either is gone.
    """

    def __init__(self, chain: Chain):
        self._chain = chain
        self._stateless: _Plan | None = None
        self._for_others: _Plan | None = None  # apart, since they run it without the lock
        self.lock = threading.Lock()
        renew_lock_after_fork(self)
        if chain.device.is_cuda:
            wp.load_module(program(chain.structure(Flavour.SCALAR)).kernel.module, device=chain.device)

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""
        with self.lock:
            self._plan(given, current, following, dt).run()

    def shards(
        self, given: tuple[Any, ...], state: Any, dt: float | None, cells: tuple[int, ...]
    ) -> list[Shard] | None:
        """What `run` would do, in place and for each range of cells of DOFs, for others to run any number of times.

        Returns:
            The same list as long as it stays right; None where a step does more than to run them.
        """
        with self.lock:
            if state is not None:
                return self._plan(given, state, state, dt).shards(cells)
            self._for_others = self._fitting(self._for_others, given, None, None, dt)
            return self._for_others.shards(cells)

    def _plan(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> _Plan:
        known = self._stateless if current is None else current.plans.get(self._key(following), (None, None))[1]
        plan = self._fitting(known, given, current, following, dt)
        if plan is not known:
            self._keep(plan, current, following)
        return plan

    def _fitting(
        self, plan: _Plan | None, given: tuple[Any, ...], current: Any, following: Any, dt: float | None
    ) -> _Plan:
        """The plan, bound to what is given, or a new one where that cannot be."""
        if plan is not None and plan.rebind(given, dt):
            return plan
        with building:
            return _Plan(self._chain, given, current, following, dt)

    def _keep(self, plan: _Plan, current: Any, following: Any) -> None:
        if current is None:
            self._stateless = plan
            return
        plans, key = current.plans, self._key(following)
        plans[key] = weakref.ref(following, lambda _: plans.pop(key, None)), plan

    def _key(self, following: Any) -> tuple[int, bool]:
        holding = self._chain.holding
        return id(following), holding is None or holding.runs


class _Plan:
    """The chain's kernel bound to a pair of states and to the arrays of the simulation.

    It holds the arrays of the states, not the states, so that these go when the user lets go of them.
    """

    def __init__(self, chain: Chain, given: tuple[Any, ...], current: Any, following: Any, dt: float | None):
        refuse_tape()
        self._chain = chain
        self._components = chain.components
        self._revisions = [component._revision for component in self._components]
        self._doubles: dict[str, DoubleArray] = {}
        signals = {slot: self._signal(slot, value) for slot, value in zip(chain.slots, given, strict=True)}
        values = chain.values(signals, current, following, chain.check_dt(dt))
        in_blocks = chain.device.is_cpu and all(
            array.is_contiguous for table in values.values() for array in table.values() if isinstance(array, wp.array)
        )
        self._flavour = Flavour.BLOCK if in_blocks else Flavour.SCALAR
        self._dt = dt
        absent = [slot for slot in chain.optional if signals[slot] is None]
        built = program(chain.structure(self._flavour, absent))
        inputs = argument_values(built.arguments, values)
        parallel = not chain.accesses["effort"].repeats
        self._bound = BoundProgram(built, chain.num_actuators, chain.device, inputs, parallel)
        self._places = [chain.place(slot) for slot in chain.slots]
        self._seen = [(value, *watch(value)) for value in given]

    def run(self) -> None:
        """Step."""
        if self._doubles:
            run_on_copies(self._chain, self._doubles, self._bound.launch)
        else:
            self._bound.launch()

    def shards(self, cells: tuple[int, ...]) -> list[Shard] | None:
        """Steps of ranges of cells of DOFs; None where a step takes more than these."""
        if self._doubles or self._flavour is not Flavour.BLOCK or self._chain.device.is_capturing:
            return None
        return self._bound.split(cells)

    def rebind(self, given: tuple[Any, ...], dt: float | None) -> bool:
        """Take over what has changed since the last step. False where that needs a new plan."""
        for component, revision in zip(self._components, self._revisions, strict=True):
            if component._revision != revision:
                return False
        for slot, value in enumerate(given):
            known, look, seen = self._seen[slot]
            if (value is not known or look is None or look(value) != seen) and not self._bind(slot, value):
                return False
        if dt is not self._dt and not (isinstance(dt, float) and dt == self._dt):
            for name, value in self._chain.time_steps(self._chain.check_dt(dt)).items():
                self._bound.set(Role.SIZE, name, value)
            self._dt = dt
        return recording_tape() is None

    def _bind(self, slot: int, value: Any) -> bool:
        if self._chain.slots[slot] in self._chain.optional and (value is None) != (self._seen[slot][0] is None):
            return False
        look, seen = watch(value)
        if not self._moves_only(slot, look, seen):
            array = self._signal(self._chain.slots[slot], value)
            if array is not None and not array.is_contiguous and self._flavour is Flavour.BLOCK:
                return False
            self._bound.set(*self._places[slot], array)
        self._seen[slot] = value, look, seen
        return True

    def _moves_only(self, slot: int, look: Any, seen: Any) -> bool:
        """Bind to a tensor like the one before but for its address. False where there is more to do."""
        _, known_look, known = self._seen[slot]
        if look is not look_at_tensor or known_look is not look or self._chain.slots[slot] in self._doubles:
            return False
        address, *layout = seen
        is_alike = layout == list(known[1:]) and address % 4 == 0 and address != 0
        return is_alike and self._bound.move(*self._places[slot], address)

    def _signal(self, slot: str, value: Any) -> wp.array | None:
        """The Warp array that stands for one of the simulation: over the same memory, or a copy of float64."""
        copied: dict[str, DoubleArray] = {}
        array = self._chain.signal(slot, value, copied)
        self._doubles.pop(slot, None)
        self._doubles |= copied
        return array
