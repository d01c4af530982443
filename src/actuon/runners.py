# SPDX-License-Identifier: Apache-2.0
"""The three ways to run a chain for one step: fused, fused on a tape, and stage by stage."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import warp as wp

from .chain import READ_THROUGH, Chain
from .errors import ArrayError, StateError, StructureError
from .launch import BoundProgram, recording_tape
from .memory import Floats, Indices
from .pipeline import Flavour, module_options, program

wp.set_module_options(module_options(Flavour.GRAD))

_MOST_PLANS = 64
"""Pairs of states that stay bound at once. Two states that are swapped make two pairs."""

_building = threading.RLock()
"""Held while kernels are made: neither they nor Warp's compiler are made for two threads at once."""


def _refuse_tape() -> None:
    if recording_tape() is not None:
        raise StructureError(
            "a wp.Tape is recording, but the actuator cannot be differentiated: "
            "build it with requires_grad=True, or step it outside the tape"
        )


def _check_states_on_tape(current: Any, following: Any) -> None:
    """On a tape every step needs a next state of its own: what the backward pass reads must not be written again."""
    tape = recording_tape()
    if current is None or tape is None:
        return
    if following.tape is tape or following is current:
        raise StateError(
            "next_act_state: was already used on this wp.Tape; each step needs a new next state, from actuator.state()"
        )
    current.tape = following.tape = tape


class FusedRunner:
    """Runs the chain as one kernel, bound once to its arrays."""

    def __init__(self, chain: Chain):
        self._chain = chain
        self._plans: dict[tuple[int, int], _Plan] = {}
        self._stepping = threading.Lock()
        if chain.device.is_cuda:
            wp.load_module(program(chain.structure(Flavour.SCALAR)).kernel.module, device=chain.device)

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        with self._stepping:
            plan = self._plans.get((id(current), id(following)))
            if plan is None or not plan.rebind(given, dt):
                with _building:
                    plan = self._new_plan(given, current, following, dt)
            plan.bound.launch()

    def _new_plan(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> _Plan:
        plan = _Plan(self._chain, given, current, following, dt)
        key = id(current), id(following)
        if self._plans.pop(key, None) is None:
            for state in (current, following):
                if state is not None:
                    weakref.finalize(state, _forget, weakref.ref(self), key).atexit = False
        self._plans[key] = plan
        if len(self._plans) > _MOST_PLANS:
            self._plans.pop(next(iter(self._plans)))
        return plan


def _forget(runner: weakref.ref[FusedRunner], key: tuple[int, int]) -> None:
    """Drop what is bound to a state that is gone: its memory, and an address that another state may take over."""
    alive = runner()
    if alive is not None:
        alive._plans.pop(key, None)


class _Plan:
    """The chain's kernel bound to a pair of states and to the arrays of the simulation.

    It holds the arrays of the states, not the states, so that these go when the user lets go of them.
    """

    def __init__(self, chain: Chain, given: tuple[Any, ...], current: Any, following: Any, dt: float | None):
        _refuse_tape()
        self._chain = chain
        self._components = chain.components
        self._revisions = self._current_revisions()
        signals = {name: chain.signal(name, value) for name, value in zip(READ_THROUGH, given, strict=True)}
        values = chain.constants() | signals | chain.states(current, following)
        in_blocks = chain.device.is_cpu and all(
            array.is_contiguous for array in values.values() if isinstance(array, wp.array)
        )
        self._flavour = Flavour.BLOCK if in_blocks else Flavour.SCALAR
        structure = chain.structure(self._flavour)
        self._uses_dt = structure.uses_dt
        self._dt = dt
        values["dt"] = chain.controller.check_dt(dt)
        parallel = not chain.accesses["effort"].repeats
        built = program(structure)
        self._argument_names = set(built.arguments)
        self.bound = BoundProgram(built, chain.num_actuators, chain.device, values, parallel)
        self._seen = list(given)
        self._addresses = [_movable_address(value) for value in given]

    def _current_revisions(self) -> list[int]:
        return [component._revision for component in self._components]

    def rebind(self, given: tuple[Any, ...], dt: float | None) -> bool:
        """Take over what has changed since the last step. False where that needs a new plan."""
        for component, revision in zip(self._components, self._revisions, strict=True):
            if component._revision != revision:
                return False
        for slot, value in enumerate(given):
            changed = value is not self._seen[slot] or (self._addresses[slot] is not None and self._has_moved(slot))
            if changed and not self._bind(slot, value):
                return False
        if dt is not self._dt and not (isinstance(dt, float) and dt == self._dt):
            checked = self._chain.controller.check_dt(dt)
            if self._uses_dt:
                self.bound.set("dt", checked)
            self._dt = dt
        return recording_tape() is None

    def _has_moved(self, slot: int) -> bool:
        return _movable_address(self._seen[slot]) != self._addresses[slot]

    def _bind(self, slot: int, value: Any) -> bool:
        name = _SLOTS[slot]
        if name in self._argument_names and _differs_in_place_only(self._seen[slot], value):
            address = value.data_ptr()
            if address == self._addresses[slot] or self.bound.move(name, address):
                self._seen[slot], self._addresses[slot] = value, address
                return True
        array = self._chain.signal(name, value)
        if array is not None and not array.is_contiguous and self._flavour is Flavour.BLOCK:
            return False
        if name in self._argument_names:
            self.bound.set(name, array)
        self._seen[slot] = value
        self._addresses[slot] = _movable_address(value)
        return True


_SLOTS = tuple(READ_THROUGH)


def _movable_address(value: Any) -> Any:
    """What tells whether an array's memory has changed while its object stayed; None where it cannot change."""
    if value is None or isinstance(value, (wp.array, np.ndarray)):
        return None
    return value.data_ptr() if hasattr(value, "data_ptr") else object()


def _differs_in_place_only(old: Any, new: Any) -> bool:
    """Whether two PyTorch tensors are alike but for where they lie, so that binding to the new takes no more checks."""
    return (
        type(new) is type(old)
        and hasattr(new, "data_ptr")
        and new.shape == old.shape
        and new.dtype == old.dtype
        and new.device == old.device
        and new.is_contiguous()
        and old.is_contiguous()
        and new.data_ptr() % 4 == 0
        and new.data_ptr() != 0
    )


class TapeRunner:
    """Runs the chain as one kernel that a `wp.Tape` can record and differentiate."""

    def __init__(self, chain: Chain):
        self._chain = chain
        self._program = program(chain.structure(Flavour.GRAD))

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        chain = self._chain
        _check_states_on_tape(current, following)
        self._check_signals_on_tape(given)
        signals = {name: chain.signal(name, value) for name, value in zip(READ_THROUGH, given, strict=True)}
        values = chain.constants() | signals | chain.states(current, following)
        values |= {"n": chain.num_actuators, "first": 0, "dt": chain.controller.check_dt(dt)}
        inputs = [values[name] for name in self._program.arguments]
        wp.launch(self._program.kernel, chain.num_actuators, inputs, device=chain.device)

    def _check_signals_on_tape(self, given: tuple[Any, ...]) -> None:
        """Refuse what would silently get no gradient."""
        if recording_tape() is None:
            return
        for name, value in zip(READ_THROUGH, given, strict=True):
            wanted = name == "output" or getattr(value, "requires_grad", False)
            if wanted and not (isinstance(value, wp.array) and value.requires_grad):
                raise ArrayError(
                    f"{self._chain.labels[name]}: a wp.Tape is recording, which needs a Warp array with "
                    "requires_grad=True here, e.g. from wp.from_torch(tensor)"
                )


class StagedRunner:
    """Runs the chain component by component, through the methods that a component with its own kernels implements."""

    def __init__(self, chain: Chain, requires_grad: bool):
        self._chain = chain
        self._requires_grad = requires_grad
        self._in_order = wp.array(range(chain.num_actuators), dtype=wp.uint32, device=chain.device)
        self._buffers = self._new_buffers()

    def _new_buffers(self) -> list[wp.array]:
        chain = self._chain
        return [
            wp.zeros(chain.num_actuators, device=chain.device, requires_grad=self._requires_grad)
            for _ in range(1 + len(chain.clamping))
        ]

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        chain = self._chain
        if self._requires_grad:
            _check_states_on_tape(current, following)
            self._buffers = self._new_buffers()
        else:
            _refuse_tape()
        dt = chain.controller.check_dt(dt)
        signals = {name: chain.signal(name, value) for name, value in zip(READ_THROUGH, given, strict=True)}
        q, qd, target_q, target_qd, feedforward, output, computed_output = signals.values()
        pos, vel, target_pos, effort = (chain.accesses[name].indices for name in ("pos", "vel", "target_pos", "effort"))
        target_vel = vel
        command = (target_q, target_qd, feedforward)
        late = command
        if chain.delay is not None:
            late = chain.delay.get_delayed_targets(*command, target_pos, vel, current.delay_state)
            target_pos = target_vel = self._in_order
        controller_state = current.controller_state if current is not None else None
        forces = self._buffers[0]
        chain.controller.compute(
            q, qd, *late, pos, vel, target_pos, target_vel, forces, controller_state, dt, chain.device
        )
        for clamp, clamped in zip(chain.clamping, self._buffers[1:], strict=True):
            clamp.modify_forces(forces, clamped, q, qd, pos, vel, chain.device)
            forces = clamped
        for target, source in ((output, forces), (computed_output, self._buffers[0])):
            if target is not None:
                kernel = _scatter_add if chain.adds else _scatter_set
                wp.launch(kernel, chain.num_actuators, [source, effort], [target], device=chain.device)
        if chain.controller.is_stateful():
            chain.controller.update_state(controller_state, following.controller_state)
        if chain.delay is not None:
            indices = (chain.accesses["target_pos"].indices, vel)
            chain.delay.update_state(*command, *indices, current.delay_state, following.delay_state)


@wp.kernel
def _scatter_add(source: Floats, indices: Indices, target: Floats):
    i = wp.tid()
    wp.atomic_add(target, int(indices[i]), source[i])


@wp.kernel
def _scatter_set(source: Floats, indices: Indices, target: Floats):
    i = wp.tid()
    target[int(indices[i])] = source[i]
