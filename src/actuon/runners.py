# SPDX-License-Identifier: Apache-2.0
"""The three ways to run a chain for one step: fused, fused on a tape, and stage by stage."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from .arrays import DoubleArray, is_recorded
from .chain import READ_THROUGH, Chain
from .errors import ArrayError, StateError, StructureError
from .launch import BoundProgram, recording_tape
from .memory import Floats, Indices
from .pipeline import Flavour, module_options, program

wp.set_module_options(module_options(Flavour.GRAD))

_building = threading.RLock()
"""Held while kernels are made: neither they nor Warp's compiler are made for two threads at once."""

_runners: weakref.WeakSet[FusedRunner] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a child process, where the threads that held them are not."""
    _building.release()
    for runner in list(_runners):
        runner._stepping = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A fork waits until kernels are made: a child could not finish what another thread had begun.
    os.register_at_fork(before=_building.acquire, after_in_parent=_building.release, after_in_child=_renew_locks)


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
    """Runs the chain as one kernel, bound once to its arrays.

    What is bound to two states is kept by the first of them until either is gone.
    """

    def __init__(self, chain: Chain):
        self._chain = chain
        self._stateless: _Plan | None = None
        self._stepping = threading.Lock()
        _runners.add(self)
        if chain.device.is_cuda:
            wp.load_module(program(chain.structure(Flavour.SCALAR)).kernel.module, device=chain.device)

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        with self._stepping:
            plan = self._stateless if current is None else current.plans.get(id(following), (None, None))[1]
            if plan is None or not plan.rebind(given, dt):
                with _building:
                    plan = _Plan(self._chain, given, current, following, dt)
                self._keep(plan, current, following)
            plan.run()

    def _keep(self, plan: _Plan, current: Any, following: Any) -> None:
        if current is None:
            self._stateless = plan
            return
        plans, key = current.plans, id(following)
        plans[key] = weakref.ref(following, lambda _: plans.pop(key, None)), plan


class _Plan:
    """The chain's kernel bound to a pair of states and to the arrays of the simulation.

    It holds the arrays of the states, not the states, so that these go when the user lets go of them.
    """

    def __init__(self, chain: Chain, given: tuple[Any, ...], current: Any, following: Any, dt: float | None):
        _refuse_tape()
        self._chain = chain
        self._components = chain.components
        self._revisions = [component._revision for component in self._components]
        self._doubles: dict[str, DoubleArray] = {}
        signals = {name: self._signal(name, value) for name, value in zip(READ_THROUGH, given, strict=True)}
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
        self._bound = BoundProgram(built, chain.num_actuators, chain.device, values, parallel)
        self._seen = [(value, *_watch(value)) for value in given]

    def run(self) -> None:
        """Step."""
        if self._doubles:
            _run_on_copies(self._chain, self._doubles, self._bound.launch)
        else:
            self._bound.launch()

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
            checked = self._chain.controller.check_dt(dt)
            if self._uses_dt:
                self._bound.set("dt", checked)
            self._dt = dt
        return recording_tape() is None

    def _bind(self, slot: int, value: Any) -> bool:
        name = _SLOTS[slot]
        look, seen = _watch(value)
        if not self._moves_only(slot, look, seen):
            array = self._signal(name, value)
            if array is not None and not array.is_contiguous and self._flavour is Flavour.BLOCK:
                return False
            if name in self._argument_names:
                self._bound.set(name, array)
        self._seen[slot] = value, look, seen
        return True

    def _moves_only(self, slot: int, look: Any, seen: Any) -> bool:
        """Bind to a tensor like the one before but for its address. False where there is more to do."""
        name = _SLOTS[slot]
        _, known_look, known = self._seen[slot]
        if look is not _look_at_tensor or known_look is not look or name in self._doubles:
            return False
        address, *layout = seen
        is_alike = layout == list(known[1:]) and address % 4 == 0 and address != 0
        return is_alike and (name not in self._argument_names or self._bound.move(name, address))

    def _signal(self, name: str, value: Any) -> wp.array | None:
        """The Warp array that stands for one of the simulation: over the same memory, or a copy of float64."""
        copied: dict[str, DoubleArray] = {}
        array = self._chain.signal(name, value, copied)
        self._doubles.pop(name, None)
        self._doubles |= copied
        return array


_SLOTS = tuple(READ_THROUGH)


def _watch(value: Any) -> tuple[Callable[[Any], Any] | None, Any]:
    """How to tell at little cost whether an array has changed under us, and what that gives now.

    None for arrays that do not tell: they are bound again at every step.
    """
    if value is None:
        look: Callable[[Any], Any] | None = _look_at_nothing
    elif isinstance(value, wp.array):
        look = _look_at_warp
    elif isinstance(value, np.ndarray):
        look = _look_at_numpy
    else:
        look = _look_at_tensor if hasattr(value, "data_ptr") else None
    return look, look(value) if look is not None else None


def _look_at_nothing(value: None) -> None:
    return None


def _look_at_warp(value: wp.array) -> Any:
    return value.ptr, value.shape, value.strides, value.dtype


def _look_at_numpy(value: np.ndarray) -> Any:
    return value.shape, value.strides, value.dtype


def _look_at_tensor(value: Any) -> Any:
    return value.data_ptr(), value.shape, value.stride(), value.dtype, value.device, is_recorded(value)


def _run_on_copies(chain: Chain, doubles: dict[str, DoubleArray], run: Callable[[], None]) -> None:
    """Run a step on float32 copies of some arrays."""
    if doubles and chain.device.is_capturing:
        name = next(iter(doubles))
        raise ArrayError(
            f"{chain.labels[name]}: got dtype float64, which a captured graph cannot take; must be float32"
        )
    for name, double in doubles.items():
        if READ_THROUGH[name] == "effort":
            double.copy[:] = 0.0
        else:
            double.fetch()
    run()
    for name, double in doubles.items():
        if READ_THROUGH[name] == "effort":
            double.deliver(chain.accesses["effort"].chosen, chain.adds)


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
        with _building:  # components keep what they computed until their state is updated, and may compile kernels
            if self._requires_grad:
                _check_states_on_tape(current, following)
                self._buffers = self._new_buffers()
            else:
                _refuse_tape()
            dt = chain.controller.check_dt(dt)
            doubles: dict[str, DoubleArray] = {}
            signals = {
                name: chain.signal(name, value, None if self._requires_grad else doubles)
                for name, value in zip(READ_THROUGH, given, strict=True)
            }
            _run_on_copies(chain, doubles, lambda: self._run_stages(signals, current, following, dt))

    def _run_stages(self, signals: dict[str, Any], current: Any, following: Any, dt: float | None) -> None:
        chain = self._chain
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
