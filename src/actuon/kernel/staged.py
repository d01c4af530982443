# SPDX-License-Identifier: Apache-2.0
"""Steps a chain stage by stage, for components that bring kernels of their own."""

from __future__ import annotations

from typing import Any

import warp as wp

from ..arrays import DoubleArray
from .alone import Given
from .binding import Chain
from .stepping import building, check_states_on_tape, refuse_tape, run_on_copies
from .structure import CLIPPED, FEEDBACK, LIMITED_BY
from .types import Flavour, Floats, Indices, module_options

CLIPPED_ = wp.constant(CLIPPED)

wp.set_module_options(module_options(Flavour.GRAD))


class StagedRunner:
    """Runs one stage after the other, each from arrays to arrays."""

    def __init__(self, chain: Chain, requires_grad: bool):
        self._chain = chain
        self._requires_grad = requires_grad
        self._in_order = wp.array(range(chain.num_actuators), dtype=wp.uint32, device=chain.device)
        self._buffers: dict[tuple[int, str], wp.array] = {}

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""
        chain = self._chain
        with building:  # components keep what they computed until their state is updated, and may compile kernels
            if self._requires_grad:
                check_states_on_tape(current, following)
                self._buffers = {}
            else:
                refuse_tape()
            dt = chain.check_dt(dt)
            doubles: dict[str, DoubleArray] = {}
            arrays = {
                slot: chain.signal(slot, value, None if self._requires_grad else doubles)
                for slot, value in zip(chain.slots, given, strict=True)
            }
            run_on_copies(chain, doubles, lambda: self._run_stages(arrays, current, following, dt))

    def _run_stages(self, arrays: dict[str, Any], current: Any, following: Any, dt: float | None) -> None:
        chain = self._chain
        sources = chain.sources
        signals = {name: Given(arrays[name], chain.accesses[through].indices) for name, through in sources.items()}
        for name, array in chain.taken_from_state.items():
            signals[name] = Given(getattr(current.held, array), self._in_order, is_direct=True)
        sensed = {name: signals[name] for name in FEEDBACK}
        computed = None
        limited_by = self._buffer(-1, LIMITED_BY) if LIMITED_BY in chain.telemetry else None
        if limited_by is not None:
            limited_by.fill_(-1.0)
            signals[LIMITED_BY] = Given(limited_by, self._in_order, is_direct=True)
        feedback = []
        for position, component in enumerate(chain.components):
            stage = component.stage()
            feedback.append({name: signals[name] for name in FEEDBACK})
            before, after = (state.stages[position] if state is not None else None for state in (current, following))
            names = (*stage.returns, *stage.outputs) if stage.ring is None else stage.ring.signals
            results = {name: self._buffer(position, name) for name in names}
            unlimited = signals.get("effort")
            seen = signals | sensed if stage.sensed else signals
            component.run(seen, results, before, after, chain.time_step(position, dt))
            for name, array in results.items():
                held = sensed if stage.sensed and name in FEEDBACK else signals
                held[name] = Given(array, self._in_order, is_direct=True)
            if limited_by is not None and stage.limits and unlimited is not None:
                efforts = [unlimited.array, signals["effort"].array]
                wp.launch(_blame, chain.num_actuators, [*efforts, float(position), limited_by], device=chain.device)
            if position == chain.computed_after:
                computed = signals["effort"].array
            if chain.holding is not None and position == chain.holding.position:
                for name, array in chain.kept(following).items():
                    wp.copy(array, signals[name].array)
        closed: dict[str, Given] = {}
        for position, component in reversed(list(enumerate(chain.components))):
            closing = component.stage().closing()
            if closing is not None:
                before, after = (s.stages[position] if s is not None else None for s in (current, following))
                results = {name: self._buffer(-1 - position, name) for name in (*closing.returns, *closing.outputs)}
                component.run_closing(signals | feedback[position], results, before, after, dt)
                given = {name: Given(array, self._in_order, is_direct=True) for name, array in results.items()}
                signals["effort"] = given.pop("effort")
                closed = given | closed
                signals |= closed
        values = [signals["effort"].array, computed, *(signals[name].array for name in chain.telemetry)]
        targets = [arrays[slot] for slot in chain.slots[len(sources) :]]
        for write, source, target in zip(chain.writes, values, targets, strict=True):
            if target is not None:
                inputs = [source, chain.accesses["effort"].indices]
                wp.launch(_add if write.adds else _set, chain.num_actuators, inputs, [target], device=chain.device)

    def _buffer(self, position: int, name: str) -> wp.array:
        """An array for what a stage gives; on a tape a new one for each step."""
        if (position, name) not in self._buffers:
            self._buffers[position, name] = wp.zeros(
                self._chain.num_actuators,
                dtype=wp.float32,
                device=self._chain.device,
                requires_grad=self._requires_grad,
            )
        return self._buffers[position, name]


@wp.kernel
def _add(source: Floats, indices: Indices, target: Floats):
    i = wp.tid()
    wp.atomic_add(target, int(indices[i]), source[i])


@wp.kernel(enable_backward=False)
def _blame(before: Floats, after: Floats, position: float, limited_by: Floats):
    i = wp.tid()
    if wp.abs(before[i] - after[i]) > CLIPPED_ * wp.abs(before[i]):
        limited_by[i] = position


@wp.kernel
def _set(source: Floats, indices: Indices, target: Floats):
    i = wp.tid()
    target[int(indices[i])] = source[i]
