# SPDX-License-Identifier: Apache-2.0
"""Steppers of a motor model: fused into one kernel that stays bound to its arrays, or staged, kernel by kernel."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import warp as wp

from ..arrays import change_detector, constant, flat, is_double, is_read_only, tensor_signature
from ..components.component import Component
from ..errors import ArrayError, StateError, StructureError
from ..kernel.arguments import Role
from ..kernel.build import Kernel, kernel_for
from ..kernel.chain import (
    CLIPPED,
    CLOCK,
    CONTROL_DT,
    FEEDBACK,
    HELD,
    JOINT_SIGNALS,
    LIMITED_BY,
    SIGNALS,
    Chain,
    Stage,
    Write,
    custom_signal,
    held,
    sources,
)
from ..kernel.launch import Launch, TiledLaunch, recording_tape
from ..kernel.run_stage import SignalArray, memory_values, parameter_values, run_stage, values_by_name
from ..kernel.state import Cells, Word
from ..kernel.types import Doubles, Flavour, Floats, Indices, module_options
from ..typing import Array
from .state import ActuatorState

wp.set_module_options(module_options(Flavour.GRAD))

MaybeState: TypeAlias = ActuatorState | None

OUTPUT, COMPUTED = "output", "computed_output"
"""Names of the output arrays: the effort, and the effort before limits."""


@dataclass(frozen=True)
class IndexLayout:
    """Access to an array of the simulation: through indices, or contiguous from an offset on."""

    indices: wp.array
    is_contiguous: bool
    """Whether the indices are consecutive: the kernel then does not read them."""
    first: int
    largest: int
    repeats: bool

    @staticmethod
    def of(indices: wp.array) -> IndexLayout:
        """Return the access through ``indices``.

        During graph capture they cannot be read: an array may have its values only when the graph is replayed.
        """
        if indices.device.is_capturing:
            return IndexLayout(indices, is_contiguous=False, first=0, largest=-1, repeats=False)
        numbers = indices.numpy()
        if numbers.size == 0:
            return IndexLayout(indices, True, 0, -1, False)
        is_contiguous = bool((np.diff(numbers.astype(np.int64)) == 1).all())
        repeats = not is_contiguous and np.unique(numbers).size < numbers.size
        return IndexLayout(indices, is_contiguous, int(numbers[0]), int(numbers.max()), repeats)


@dataclass(frozen=True)
class Wiring:
    """Components in order, and the arrays of a simulation that they read and write."""

    device: wp.Device
    cells: Cells
    """Layout of the DOFs in memory."""
    components: tuple[Component, ...]
    """The stages, in order."""
    layouts: Mapping[str, IndexLayout]
    """Index layouts by name: ``pos``, ``vel``, ``target_pos``, ``target_vel``, ``effort``."""
    labels: Mapping[str, str]
    """Name of each simulation array in an error, e.g. ``"sim_state.joint_q"``."""
    computed_after: int
    """Position of the stage after which the effort is the one before limits."""
    adds: bool = True
    """Whether efforts are added to the output instead of overwriting it."""
    telemetry: tuple[str, ...] = ()
    """Signals of stages that are also written to arrays of the simulation."""
    held: int | None = None
    """Position of a controller that does not run at every step."""
    control_every: int = 1
    keeps_rings: bool = True
    """Whether new signals are written to delay buffers."""
    sources: Mapping[str, str] = field(init=False)
    """Signals from the simulation, and the indices through which they are read."""
    slots: tuple[str, ...] = field(init=False)
    """Simulation arrays in the order of a step's arguments: signals, then outputs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", sources(component.stage() for component in self.components))
        object.__setattr__(self, "slots", (*self.sources, OUTPUT, COMPUTED, *self.telemetry))

    @property
    def num_dofs(self) -> int:
        """Number of DOFs, N."""
        return self.cells.num_dofs

    @functools.cached_property
    def writes(self) -> tuple[Write, ...]:
        """Outputs of a step, in the order of their arrays."""
        efforts = (Write("effort", may_add=True), Write("effort", may_add=True, after=self.computed_after))
        return (*efforts, *(Write(name) for name in self.telemetry))

    def is_written(self, slot: str) -> bool:
        """Return whether a simulation array is an output."""
        return slot not in self.sources

    def through(self, slot: str) -> str:
        """Return the name of the indices through which a simulation array is accessed."""
        return self.sources.get(slot, "effort")

    def argument(self, slot: str) -> tuple[Role, Any]:
        """Return the kernel argument of a simulation array."""
        if slot in self.sources:
            return Role.SIGNAL, slot
        return Role.WRITE, self.slots.index(slot) - len(self.sources)

    def chain(self, flavour: Flavour, absent: Collection[str] = (), doubles: frozenset[str] = frozenset()) -> Chain:
        """Return the key of the kernel.

        Args:
            flavour: Access to memory.
            absent: `optional` signals without an array.
            doubles: Simulation arrays of float64.
        """
        stages = [_without_inputs(component.stage(), absent) for component in self.components]
        if self.held is not None:
            stages[self.held] = dataclasses.replace(stages[self.held], time_step=CONTROL_DT)
        writes = tuple(
            dataclasses.replace(write, is_double=slot in doubles)
            for write, slot in zip(self.writes, self.slots[len(self.sources) :], strict=True)
        )
        return Chain(
            tuple(stages),
            writes,
            flavour,
            keeps_rings=self.keeps_rings,
            doubles=frozenset(doubles & self.sources.keys()),
            held=self.held,
            tile=self.cells.tile,
        )

    @functools.cached_property
    def optional(self) -> frozenset[str]:
        """Signals from arrays of the simulation that no stage requires."""
        stages = [component.stage() for component in self.components]
        custom = [name for name in self.sources if name not in SIGNALS]
        needed = {name for stage in stages for name in stage.inputs if name not in dict(stage.defaults)}
        return frozenset(name for name in custom if name not in needed)

    @functools.cached_property
    def held_signals(self) -> tuple[str, ...]:
        """Signals of a controller that does not run at every step."""
        if self.held is None:
            return ()
        return self.components[self.held].stage().signals

    def revisions(self) -> list[int]:
        """Return how often the parameters of each component were rebound: kernel or arrays may have changed."""
        return [component._revision for component in self.components]

    def held_words(self) -> tuple[Word, ...]:
        """Return the memory between two runs of a controller with decimation."""
        if self.held is None:
            return ()
        return (*(Word(held(name)) for name in self.held_signals), Word(CLOCK, "ints", per_tile=True, by_mask=False))

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step [s]; raise an error if it is not allowed."""
        for position, component in enumerate(self.components):
            own = self.time_step(position, dt)
            checked = component.check_dt(own)
            dt = checked if own is dt else dt
        return dt

    def time_step(self, position: int, dt: float | None) -> float | None:
        """Return the time [s] from one run of a stage to the next, for steps of ``dt`` [s]."""
        if position != self.held:
            return dt
        return float(dt) * self.control_every if isinstance(dt, (int, float, np.number)) else dt

    def time_steps(self, dt: float | None) -> dict[str, float | None]:
        """Return the time [s] between runs of a stage, by name of the kernel's argument."""
        times = {"dt": dt}
        return times if self.held is None else times | {CONTROL_DT: self.time_step(self.held, dt)}

    def values(
        self, signals: Mapping[str, wp.array | None], current: MaybeState, following: MaybeState, dt: float | None
    ) -> dict[Role, dict[Any, Any]]:
        """Return the values of kernel arguments, by role and key. Indices and parameters stay from step to step."""
        by_place = {self.argument(slot): array for slot, array in signals.items()}
        parameters = parameter_values(dict(enumerate(self.components)))
        before, after = (None if state is None else state.memory for state in (current, following))
        values = memory_values(self.cells, before, after)
        values[Role.SIZE] |= {**self.time_steps(dt), "control_every": self.control_every, "adds": self.adds}
        values[Role.SIZE]["room"] = _room(parameters.values(), self.num_dofs)
        return values | {
            Role.SIGNAL: {key: array for (role, key), array in by_place.items() if role is Role.SIGNAL},
            Role.INDICES: {name: None if a.is_contiguous else a.indices for name, a in self.layouts.items()},
            Role.OFFSET: {name: access.first for name, access in self.layouts.items()},
            Role.PARAMETER: parameters,
            Role.WRITE: {key: array for (role, key), array in by_place.items() if role is Role.WRITE},
        }

    def signal(self, slot: str, value: Array | None, doubles: set[str] | None = None) -> wp.array | None:
        """Return a simulation array as a Warp array over the same memory, checked against the indices.

        Args:
            slot: Of ``slots``.
            value: The array, of any framework.
            doubles: The slot of a float64 array is added to it. None: such arrays raise an error.
        """
        if value is None:
            return None
        label = self.labels[slot]
        if self.is_written(slot) and is_read_only(value):
            raise ArrayError(
                f"{label}: got {type(value).__name__}, which is read-only; efforts are written to it, so pass an array "
                "that can be written"
            )
        double = doubles is not None and self.device.is_cpu and is_double(value)
        array = flat(value, label, self.device, dtype=wp.float64 if double else wp.float32)
        through = self.through(slot)
        largest = self.layouts[through].largest
        if array.shape[0] <= largest:
            raise ArrayError(f"{label}: has {array.shape[0]} entries; the {through} indices reach {largest}")
        if double and doubles is not None:
            doubles.add(slot)
        return array


def _without_inputs(stage: Stage, absent: Collection[str]) -> Stage:
    inputs = tuple(name for name in stage.custom_inputs if custom_signal(name) not in absent)
    return stage if inputs == stage.custom_inputs else dataclasses.replace(stage, custom_inputs=inputs)


def _room(parameters: Collection[object], num_dofs: int) -> int:
    """Return the readable length of all parameters: blocks of lanes reach beyond the last DOF."""
    arrays = [value for value in parameters if isinstance(value, wp.array) and value.shape == (num_dofs,)]
    return min((array.capacity // 4 for array in arrays if array.is_contiguous), default=num_dofs)


compile_lock = threading.RLock()
"""Held while kernels are built: neither this code nor Warp's compiler is thread-safe."""


class HasLock(Protocol):
    """Object for one thread at a time."""

    lock: threading.Lock


_locked: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_lock_after_fork(owner: HasLock) -> None:
    """Replace the lock of ``owner`` in child processes: the thread that holds it does not exist there."""
    _locked.add(owner)


def _renew_locks() -> None:
    compile_lock.release()
    for owner in list(_locked):
        owner.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A fork waits for running builds: a child could not complete the build of another thread.
    os.register_at_fork(before=compile_lock.acquire, after_in_parent=compile_lock.release, after_in_child=_renew_locks)


def require_no_tape() -> None:
    """Raise an error if a `wp.Tape` records a step that has no adjoint."""
    if recording_tape() is not None:
        raise StructureError(
            "a wp.Tape is recording, but the actuator cannot be differentiated: "
            "build it with requires_grad=True, or step it outside the tape"
        )


def check_states_on_tape(current: MaybeState, following: MaybeState) -> None:
    """Raise an error if the next state was used on the tape: the backward pass reads it, so it must not change."""
    tape = recording_tape()
    if current is None or following is None or tape is None:
        return
    if following.tape is tape or following is current:
        raise StateError(
            "next_act_state: was already used on this wp.Tape; each step needs a new next state, from actuator.state()"
        )
    current.tape = following.tape = tape


class Stepper(Protocol):
    """Steps the motors of an actuator."""

    def step(
        self, given: tuple[Array | None, ...], current: MaybeState, following: MaybeState, dt: float | None
    ) -> None:
        """Step, from the simulation arrays in the order of `Wiring.slots`."""


def stepper_of(wiring: Wiring, requires_grad: bool, fused: bool) -> Stepper:
    """Return a stepper."""
    return FusedStepper(wiring, requires_grad) if fused else StagedStepper(wiring, requires_grad)


class FusedStepper:
    """Runs all stages as one kernel: bound once to its arrays, or on a tape.

    The first of two states holds the kernel that is bound to them until either is deleted.
    """

    def __init__(self, wiring: Wiring, requires_grad: bool = False):
        self._wiring = wiring
        self._with_adjoint: Kernel | None = None
        self._revisions: list[int] = []
        if requires_grad:
            self._update_adjoint()
        self._stateless: _Bound | None = None
        self.lock = threading.Lock()
        renew_lock_after_fork(self)
        if wiring.device.is_cuda and not requires_grad:
            wp.load_module(kernel_for(wiring.chain(Flavour.SCALAR)).function.module, device=wiring.device)

    def step(
        self, given: tuple[Array | None, ...], current: MaybeState, following: MaybeState, dt: float | None
    ) -> None:
        """Step, from the simulation arrays in the order of `Wiring.slots`."""
        if self._with_adjoint is not None:
            self._step_on_tape(self._update_adjoint(), given, current, following, dt)
            return
        with self.lock:
            if current is None or following is None:
                self._stateless = self._fitting(self._stateless, given, None, None, dt)
                self._stateless.run()
                return
            plans, key = current.plans, id(following)
            known = plans.get(key)
            bound = self._fitting(None if known is None else known[1], given, current, following, dt)
            if known is None or bound is not known[1]:
                plans[key] = weakref.ref(following, lambda _: plans.pop(key, None)), bound
            bound.run()

    def _update_adjoint(self) -> Kernel:
        """Return the kernel with an adjoint, rebuilt if an optional parameter was set."""
        revisions = self._wiring.revisions()
        if self._with_adjoint is None or revisions != self._revisions:
            with compile_lock:
                self._with_adjoint = kernel_for(self._wiring.chain(Flavour.GRAD))
            self._revisions = revisions
        return self._with_adjoint

    def _step_on_tape(
        self,
        kernel: Kernel,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        dt: float | None,
    ) -> None:
        """Launch the kernel with an adjoint, which a `wp.Tape` can record."""
        wiring = self._wiring
        check_states_on_tape(current, following)
        self._check_signals_on_tape(given)
        signals = {slot: wiring.signal(slot, value) for slot, value in zip(wiring.slots, given, strict=True)}
        values = wiring.values(signals, current, following, wiring.check_dt(dt))
        inputs = values_by_name(kernel.arguments, values)
        with compile_lock:
            wp.launch(kernel.function, wiring.num_dofs, list(inputs.values()), device=wiring.device)

    def _check_signals_on_tape(self, given: tuple[Array | None, ...]) -> None:
        """Raise an error for signals that would have no gradient."""
        if recording_tape() is None:
            return
        for slot, value in zip(self._wiring.slots, given, strict=True):
            wanted = slot == OUTPUT or getattr(value, "requires_grad", False)
            if wanted and not (isinstance(value, wp.array) and value.requires_grad):
                raise ArrayError(
                    f"{self._wiring.labels[slot]}: a wp.Tape is recording, which needs a Warp array with "
                    "requires_grad=True here, e.g. from wp.from_torch(tensor)"
                )

    def robot_launch(self, given: tuple[Array | None, ...], state: MaybeState, dt: float | None) -> Launch | None:
        """Return the in-place step of one robot; None if a step is not one kernel over blocks of lanes."""
        with self.lock, compile_lock:
            return _Bound(self._wiring, given, state, state, dt).robot_launch()

    def _fitting(
        self,
        bound: _Bound | None,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        dt: float | None,
    ) -> _Bound:
        """Return the bound kernel, or a new one if it cannot be rebound."""
        if bound is not None and bound.rebind(given, dt):
            return bound
        with compile_lock:
            return _Bound(self._wiring, given, current, following, dt)


class _Bound:
    """A kernel bound to a pair of states and to the arrays of the simulation.

    It holds the arrays of the states, not the states: these are deleted with the user's last reference.
    """

    def __init__(
        self,
        wiring: Wiring,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        dt: float | None,
    ):
        require_no_tape()
        if wiring.device.is_capturing:  # replays read the current values of parameters
            for component in wiring.components:
                component.expose()
        self._wiring = wiring
        self._components = wiring.components
        self._revisions = wiring.revisions()
        doubles: set[str] = set()
        signals = {s: wiring.signal(s, value, doubles) for s, value in zip(wiring.slots, given, strict=True)}
        self._doubles = frozenset(doubles)
        values = wiring.values(signals, current, following, wiring.check_dt(dt))
        self._in_blocks = wiring.device.is_cpu and all(
            array.is_contiguous for table in values.values() for array in table.values() if isinstance(array, wp.array)
        )
        self._dt = dt
        absent = [slot for slot in wiring.optional if signals[slot] is None]
        flavour = Flavour.BLOCK if self._in_blocks else Flavour.SCALAR
        built = kernel_for(wiring.chain(flavour, absent, self._doubles))
        cells = wiring.cells
        self._launch = TiledLaunch(
            built.function,
            cells.count * cells.tiles if self._in_blocks else cells.num_dofs,
            self._in_blocks,
            0 if wiring.layouts["effort"].repeats else cells.num_dofs,
            wiring.device,
            values_by_name(built.arguments, values),
        )
        names = {(argument.role, argument.key): argument.name for argument in built.arguments}
        self._names = [names.get(wiring.argument(slot), "") for slot in wiring.slots]
        self._seen = [(value, *change_detector(value)) for value in given]

    def run(self) -> None:
        """Step."""
        self._launch.run()

    def robot_launch(self) -> Launch | None:
        """Return the step of one robot; None if a step is not one kernel over blocks of lanes."""
        return self._launch.part(0, self._wiring.cells.tiles) if self._in_blocks else None

    def rebind(self, given: tuple[Array | None, ...], dt: float | None) -> bool:
        """Rebind to changed arguments. Return False if another kernel or other states are needed."""
        for component, revision in zip(self._components, self._revisions, strict=True):
            if component._revision != revision:
                return False
        for slot, value in enumerate(given):
            known, look, seen = self._seen[slot]
            if (value is not known or look is None or look(value) != seen) and not self._bind(slot, value):
                return False
        if dt is not self._dt and not (isinstance(dt, float) and dt == self._dt):
            for name, value in self._wiring.time_steps(self._wiring.check_dt(dt)).items():
                self._launch.set(name, value)
            self._dt = dt
        return recording_tape() is None

    def _bind(self, slot: int, value: Array | None) -> bool:
        name = self._wiring.slots[slot]
        if name in self._wiring.optional and (value is None) != (self._seen[slot][0] is None):
            return False
        look, seen = change_detector(value)
        if not self._retarget(slot, look, seen):
            doubles: set[str] = set()
            array = self._wiring.signal(name, value, doubles)
            if array is not None and not array.is_contiguous and self._in_blocks:
                return False
            if array is not None and (name in doubles) != (name in self._doubles):
                return False
            self._launch.set(self._names[slot], array)
        self._seen[slot] = value, look, seen
        return True

    def _retarget(self, slot: int, look: Callable[..., object] | None, seen: Any) -> bool:
        """Bind to a tensor that differs from the last one in its address only. Return False if it differs in more."""
        _, known_look, known = self._seen[slot]
        if look is not tensor_signature or known_look is not look:
            return False
        address, *layout = seen
        aligned = address != 0 and address % (8 if self._wiring.slots[slot] in self._doubles else 4) == 0
        return layout == list(known[1:]) and aligned and self._launch.move(self._names[slot], address)


class StagedStepper:
    """Runs one stage after the other, each from arrays to arrays, for components with their own kernels."""

    def __init__(self, wiring: Wiring, requires_grad: bool):
        self._wiring = wiring
        self._requires_grad = requires_grad
        self._in_order = constant(np.arange(wiring.num_dofs, dtype=np.uint32), wiring.device)
        self._buffers: dict[tuple[int, str], wp.array] = {}

    def step(
        self, given: tuple[Array | None, ...], current: MaybeState, following: MaybeState, dt: float | None
    ) -> None:
        """Step, from the simulation arrays in the order of `Wiring.slots`."""
        wiring = self._wiring
        with compile_lock:  # components keep results until their state is updated, and may compile kernels
            if self._requires_grad:
                check_states_on_tape(current, following)
                self._buffers = {}
            else:
                require_no_tape()
            dt = wiring.check_dt(dt)
            doubles: set[str] = set()
            arrays = {
                slot: wiring.signal(slot, value, None if self._requires_grad else doubles)
                for slot, value in zip(wiring.slots, given, strict=True)
            }
            for slot in doubles & wiring.sources.keys():
                arrays[slot] = self._single(slot, arrays[slot])
            self._run_stages(arrays, current, following, dt)

    def _single(self, slot: str, array: wp.array) -> wp.array:
        """Return a float32 copy of a float64 array, for kernels of components."""
        key = -1, slot
        if key not in self._buffers or self._buffers[key].shape != array.shape:
            self._buffers[key] = wp.zeros(array.shape, dtype=wp.float32, device=self._wiring.device)
        wp.launch(_narrow, array.shape, [array], [self._buffers[key]], device=self._wiring.device)
        return self._buffers[key]

    def _run_stages(
        self, arrays: Mapping[str, wp.array], current: MaybeState, following: MaybeState, dt: float | None
    ) -> None:
        wiring = self._wiring
        sources, device, n = wiring.sources, wiring.device, wiring.num_dofs
        signals = {
            name: SignalArray(arrays[name], wiring.layouts[through].indices) for name, through in sources.items()
        }
        sensed = {name: signals[name] for name in FEEDBACK}
        signals |= {name: signals[own] for name, own in JOINT_SIGNALS.items()}
        computed = None
        limited_by = self._buffer(-1, LIMITED_BY) if LIMITED_BY in wiring.telemetry else None
        if limited_by is not None:
            limited_by.fill_(-1.0)
            signals[LIMITED_BY] = SignalArray(limited_by, self._in_order, is_direct=True)
        feedback = []
        for position, component in enumerate(wiring.components):
            stage = component.stage()
            feedback.append({name: signals[name] for name in FEEDBACK})
            before, after = _states_at(position, current, following)
            results = {name: self._buffer(position, name) for name in stage.signals}
            unlimited = signals.get("effort")
            joint = {name: sensed[own] for name, own in JOINT_SIGNALS.items()}
            seen = signals | sensed | joint if stage.sensed else signals
            if position == wiring.held and current is not None and following is not None:
                self._run_held(component, seen, results, current, following, wiring.time_step(position, dt))
            else:
                component.run(seen, results, before, after, dt)
            for name, array in results.items():
                known = sensed if stage.sensed and name in FEEDBACK else signals
                known[name] = SignalArray(array, self._in_order, is_direct=True)
            if limited_by is not None and stage.limits and unlimited is not None:
                efforts = [unlimited.array, signals["effort"].array]
                wp.launch(_mark_limited, n, [*efforts, float(position), limited_by], device=device)
            if position == wiring.computed_after:
                computed = signals["effort"].array
        closed: dict[str, SignalArray] = {}
        for position, component in reversed(list(enumerate(wiring.components))):
            closing = component.stage().closing
            if closing is not None:
                before, after = _states_at(position, current, following)
                results = {name: self._buffer(-1 - position, name) for name in closing.returns}
                component.run_closing(signals | feedback[position], results, before, after, dt)
                given = {name: SignalArray(array, self._in_order, is_direct=True) for name, array in results.items()}
                signals["effort"] = given.pop("effort")
                closed = given | closed
                signals |= closed
        values = [signals["effort"].array, computed, *(signals[name].array for name in wiring.telemetry)]
        targets = [arrays[slot] for slot in wiring.slots[len(sources) :]]
        for write, source, target in zip(wiring.writes, values, targets, strict=True):
            if target is not None:
                inputs = [source, wiring.layouts["effort"].indices, write.may_add and wiring.adds]
                wp.launch(_put_double if target.dtype is wp.float64 else _put, n, inputs, [target], device=device)

    def _run_held(
        self,
        component: Component,
        seen: dict[str, SignalArray],
        results: dict[str, wp.array],
        current: ActuatorState,
        following: ActuatorState,
        dt: float | None,
    ) -> None:
        """Run a controller at every k-th step, and repeat its signals in between.

        A stage function reads the clock in its kernel. For components with their own kernels, the host reads it.
        """
        wiring = self._wiring
        assert wiring.held is not None
        before, after = _states_at(wiring.held, current, following)
        if component.is_fused():
            run_stage(component, seen, results, before, after, dt, control=(current, following, wiring.control_every))
            return
        if wiring.device.is_capturing:
            raise StructureError(
                f"{type(component).__name__} has its own kernels, so steps with control_every = "
                f"{wiring.control_every} cannot be captured: a graph would replay the same step of the controller"
            )
        clock = current.clock
        if clock == 0:
            component.run(seen, results, before, after, dt)
        else:
            for name, array in results.items():
                kept = current.memory.view(HELD, held(name))
                wp.copy(array.reshape(kept.shape), kept)
            if after is not before and after is not None:
                after.assign(before)
        for name, array in results.items():
            kept = following.memory.view(HELD, held(name))
            wp.copy(kept, array.reshape(kept.shape))
        following.clock = (clock + 1) % wiring.control_every

    def _buffer(self, position: int, name: str) -> wp.array:
        """Return the array of a stage's signal; on a tape, a new one for each step."""
        if (position, name) not in self._buffers:
            self._buffers[position, name] = wp.zeros(
                self._wiring.num_dofs,
                dtype=wp.float32,
                device=self._wiring.device,
                requires_grad=self._requires_grad,
            )
        return self._buffers[position, name]


def _states_at(position: int, *states: MaybeState) -> tuple[Any, Any]:
    before, after = (None if state is None else state.stages[position] for state in states)
    return before, after


@wp.kernel
def _put(source: Floats, indices: Indices, adds: bool, target: Floats):
    i = wp.tid()
    if adds:
        wp.atomic_add(target, int(indices[i]), source[i])
    else:
        target[int(indices[i])] = source[i]


@wp.kernel(enable_backward=False)
def _put_double(source: Floats, indices: Indices, adds: bool, target: Doubles):
    i = wp.tid()
    if adds:
        wp.atomic_add(target, int(indices[i]), wp.float64(source[i]))
    else:
        target[int(indices[i])] = wp.float64(source[i])


@wp.kernel(enable_backward=False)
def _narrow(source: Doubles, target: Floats):
    i = wp.tid()
    target[i] = float(source[i])


CLIPPED_ = wp.constant(CLIPPED)


@wp.kernel(enable_backward=False)
def _mark_limited(before: Floats, after: Floats, position: float, limited_by: Floats):
    i = wp.tid()
    if wp.abs(before[i] - after[i]) > CLIPPED_ * wp.abs(before[i]):
        limited_by[i] = position
