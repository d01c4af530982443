# SPDX-License-Identifier: Apache-2.0
"""State of an actuator between two steps: the states of its stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..declare.registry import ComponentKind
from ..errors import StateError, StructureError, shown
from ..files import replacing
from ..kernel.chain import CLOCK, HELD
from ..kernel.state import Memory, RingState, State, as_mask, check_finite, refuse_reset_on_tape
from ..typing import ArrayLike, PathLike

if TYPE_CHECKING:
    from .actuator import Actuator

STRUCTURE = "__structure__"
"""Name of the description of the motor model among saved arrays."""
VERSION = 1
"""Version of the files. Files of other versions are refused."""

_VERSION_NAME = "__version__"


class ActuatorState:
    """State of an actuator between two steps, from `Actuator.state`.

    States of fused stages are in one block of memory per type, robot by robot if the actuator has ``robot_dofs``.
    Components with their own kernels have separate state objects.

    Args:
        owner: Actuator of the state.
        memory: Memory of fused stages.
        stages: State of each stage, in order; None for stages without memory.
    """

    def __init__(self, owner: Actuator, memory: Memory, stages: tuple[Any, ...]):
        self.owner = owner
        self.memory = memory
        self.stages = stages
        self.held = State.over(memory, HELD) if owner.control_every > 1 else None
        """Signals of the controller from its last run; None if it runs at every step."""
        self.tape: wp.Tape | None = None
        """Tape that last recorded a step from or to this state."""
        self.plans: dict[int, Any] = {}
        """Kernels bound to steps from this state, by the id of the next state."""

    @property
    def clock(self) -> int:
        """Steps since the controller last ran; it runs at 0. Always 0 without ``control_every``."""
        clocks = self._clocks()
        return int(clocks[0]) if clocks.size else 0

    @clock.setter
    def clock(self, steps: int) -> None:
        self.memory.view(HELD, CLOCK).fill_(steps)

    def _clocks(self) -> np.ndarray:
        """Return the clock of each DOF: robots that an engine steps separately have separate clocks."""
        return np.zeros(0, np.int32) if self.held is None else self.memory.of_tiles(HELD, CLOCK)

    def _by_tile(self, where: str, clock: np.ndarray) -> np.ndarray:
        """Return one clock per tile, from one clock or one per DOF. Raise if clocks differ within a tile."""
        cells = self.memory.cells
        by_cell = np.broadcast_to(clock, cells.num_dofs).reshape(cells.count, cells.dofs)
        by_tile = by_cell[:, :: cells.tile_size]
        if (np.repeat(by_tile, cells.tile_size, axis=1)[:, : cells.dofs] != by_cell).any():
            raise StateError(
                f"{where}: '{CLOCK}' differs between DOFs that share one here; build the actuator with the same "
                "robot_dofs as the one that wrote it"
            )
        return by_tile

    def _set_clocks(self, by_tile: np.ndarray) -> None:
        clocks = self.memory.view(HELD, CLOCK)
        clocks.assign(by_tile.reshape(clocks.shape).astype(np.int32))

    @property
    def controller_state(self) -> Any:
        """State of the controller; None if it has none."""
        return self._of_kind(ComponentKind.CONTROLLER)

    @property
    def drive_state(self) -> Any:
        """State of the controller, by its name in Newton."""
        return self.controller_state

    @property
    def delay_state(self) -> Any:
        """State of the delay, such as its buffer of past commands; None without a delay."""
        return self._of_kind(ComponentKind.DELAY)

    def _of_kind(self, kind: ComponentKind) -> Any:
        pairs = zip(self.owner.stages, self.stages, strict=True)
        return next((state for component, state in pairs if component.kind is kind), None)

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Reset all DOFs, or those where ``mask``, bool of shape (N,), is true.

        With ``control_every``, the controller runs in the first step after a reset of all DOFs. With a mask it keeps
        its pace, which all DOFs share; the held effort of the DOFs that were reset is zero until it runs.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> actuator = actuon.Actuator(range(3), pd, delay)
            >>> state = actuator.state()
            >>> state.reset(np.array([True, False, False]))
        """
        beside = [state for state in self.stages if state is not None and not self._is_in_memory(state, "reset")]
        for state in beside:
            if not hasattr(state, "reset"):
                raise StructureError(f"{type(state).__name__} has no reset(mask)")
        refuse_reset_on_tape([self.memory.buffers["floats"]])
        chosen = None if mask is None else as_mask(mask, self.owner.num_actuators, self.memory.device)
        self.memory.reset(chosen)
        for state in beside:
            state.reset(mask)

    def _is_in_memory(self, state: object, method: str) -> bool:
        """Return whether the state of a stage is in the memory, and its class does not override a method."""
        if not isinstance(state, State) or getattr(state, "memory", None) is not self.memory:
            return False
        return getattr(type(state), method) in (getattr(State, method), getattr(RingState, method))

    def assign(self, other: ActuatorState, mask: ArrayLike | None = None) -> None:
        """Copy ``other`` into the arrays of this state, which captured graphs keep using.

        Args:
            other: State of the same actuator, or of one with the same stages and number of DOFs.
            mask: DOFs to copy, bool of shape (N,). Default: all. With a mask and ``control_every``, the controller
                keeps its pace, which all DOFs share.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> actuator = actuon.Actuator(range(3), pd, delay)
            >>> state = actuator.state()
            >>> before = actuator.state()
            >>> before.assign(state)
        """
        if not isinstance(other, ActuatorState):
            raise StateError(f"assign: got {type(other).__name__}; must be a state from actuator.state()")
        if len(self.stages) != len(other.stages):
            raise StateError(f"assign: got a state of {len(other.stages)} stages; must have {len(self.stages)}")
        chosen = None
        if mask is not None:
            chosen = as_mask(mask, self.owner.num_actuators, self.memory.device, "assign: mask").numpy()
        in_one = mask is None and self.memory.places == other.memory.places and self.memory.cells == other.memory.cells
        if in_one:
            self.memory.assign(other.memory)
        for component, target, source in zip(self.owner.stages, self.stages, other.stages, strict=True):
            if not in_one or not self._is_in_memory(target, "assign"):
                assign_state(type(component).__name__, target, source, chosen)
        if not in_one:
            assign_state("control_every", self.held, other.held, chosen)
            if mask is None and self.held is not None:
                self._set_clocks(self._by_tile("assign", other._clocks()))

    def __deepcopy__(self, memo: dict[int, object]) -> ActuatorState:
        copied = self.owner.state()
        assert copied is not None
        memo[id(self)] = copied
        copied.assign(self)
        return copied

    def __copy__(self) -> ActuatorState:
        raise StateError(
            "a state cannot share its arrays with another; use copy.deepcopy, or assign() one to the other"
        )

    def __reduce__(self) -> Any:
        raise StateError("a state cannot be pickled without its actuator; use state.save() and actuator.load_state()")

    def save(self, path: PathLike) -> None:
        """Write the state to a file, for `Actuator.load_state`.

        Args:
            path: An ``.npz`` file. It is written whole, or not at all.

        Raises:
            StateError: The state of a DOF is not finite.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> actuator = actuon.Actuator(range(3), pd, delay)
            >>> state = actuator.state()
            >>> state.save("state.npz")
            >>> state = actuator.load_state("state.npz")
        """
        write_arrays(path, self.saved("state"))

    def load(self, path: PathLike) -> None:
        """Read a file that `save` wrote into this state. See `Actuator.load_state`."""
        self.from_arrays(read_arrays(path, "the state of an actuator"), f"'{path}'")

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all states, and a description of the motor model, by name.

        They are valid in any process, and fit any actuator with the same stages and DOFs, on any device, with
        ``robot_dofs`` or without.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> actuator = actuon.Actuator(range(3), pd, delay)
            >>> state = actuator.state()
            >>> arrays = state.to_arrays()
            >>> arrays["0.past"].shape  # signals, depth, DOFs
            (3, 2, 3)
        """
        arrays = {
            f"{prefix}{name}": array for prefix, state in self._parts() for name, array in _to_arrays(state).items()
        }
        clocks = self._clocks()
        are_alike = not clocks.size or (clocks == clocks[0]).all()
        clock = {} if self.held is None else {CLOCK: np.array(self.clock) if are_alike else clocks.astype(np.int64)}
        return {STRUCTURE: np.array(self._structure()), **arrays, **clock}

    def saved(self, where: str) -> dict[str, np.ndarray]:
        """Return `to_arrays` for a file, after a check that it can be loaded again.

        Args:
            where: Name of the state in an error.

        Raises:
            StateError: The state of a DOF is not finite.
        """
        arrays = self.to_arrays()
        self.check_finite(where, arrays)
        return arrays

    def from_arrays(self, arrays: Mapping[str, np.ndarray], where: str = "arrays") -> None:
        """Set the state from the result of `to_arrays`. On an error, nothing changes.

        Args:
            arrays: Arrays by name.
            where: Name of their origin in an error.

        Raises:
            StateError: They belong to other motors, or are incomplete. The message names the difference.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> actuator = actuon.Actuator(range(3), pd, delay)
            >>> state = actuator.state()
            >>> state.from_arrays(state.to_arrays())
        """
        if not isinstance(arrays, Mapping):
            raise StateError(f"{where}: got {type(arrays).__name__}; must be a dict of arrays from to_arrays()")
        found = {name: np.asarray(array) for name, array in arrays.items()}
        self.take(self.checked(where, found))

    def check_finite(self, where: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise if arrays of this state hold NaN, or values that no step produces."""
        for prefix, state in self._parts():
            names = _to_arrays(state)
            values = {name: arrays[f"{prefix}{name}"] for name in names}
            if isinstance(state, State):
                state.check_arrays(f"{where}: {prefix}", values)
            else:
                for name, array in values.items():
                    check_finite(f"{where}: {prefix}{name}", array)

    def checked(self, where: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return arrays of a file, checked.

        Args:
            where: Name of their origin in an error.
            arrays: Arrays by name.

        Raises:
            StateError: They belong to other motors, or are incomplete. The message names the difference.
        """
        check_structure(where, arrays, self._structure(), "the state of motors with {}; this one has {}")
        for prefix, state in self._parts():
            for name, array in _to_arrays(state).items():
                check_like(where, f"{prefix}{name}", arrays.get(f"{prefix}{name}"), array)
        self.check_finite(where, arrays)
        if self.held is not None:
            clock, every = arrays.get(CLOCK), self.owner.control_every
            of_each = np.zeros(self.owner.num_actuators, np.int64)
            check_like(where, CLOCK, clock, of_each if clock is not None and clock.ndim else np.array(0))
            bad = [int(steps) for steps in np.ravel(arrays[CLOCK]) if not 0 <= steps < every]
            if bad:
                raise StateError(f"{where}: '{CLOCK}' is {bad[0]}; must be from 0 to {every - 1}")
            self._by_tile(where, arrays[CLOCK])
        return dict(arrays)

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state from arrays that were `checked`."""
        for prefix, state in self._parts():
            values = {name: arrays[f"{prefix}{name}"] for name in _to_arrays(state)}
            if isinstance(state, State):
                state.from_arrays(values)
            else:
                for name, array in values.items():
                    _arrays_in(state)[name].assign(array)
        if self.held is not None:
            self._set_clocks(self._by_tile("", arrays[CLOCK]))

    def _structure(self) -> list[str]:
        described = [f"{self.owner.num_actuators} DOFs"]
        for component, state in zip(self.owner.stages, self.stages, strict=True):
            depth = f" of {state.depth} steps" if hasattr(state, "depth") else ""
            described.append(f"{type(component).__name__}{depth} {component.fingerprint()}".strip())
        if self.held is not None:
            described.append(f"control every {self.owner.control_every} steps")
        return described

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """Return the state of each stage, with the prefix of its arrays in a file."""
        states = [(f"{position}.", state) for position, state in enumerate(self.stages)]
        return ((prefix, state) for prefix, state in [*states, ("", self.held)] if state is not None)

    def arrays(self) -> dict[str, wp.array]:
        """Return all arrays that an in-place step reads and writes, by name. These are always the same objects."""
        beside = {
            f"{position}.{name}": array
            for position, state in enumerate(self.stages)
            if state is not None and getattr(state, "memory", None) is not self.memory
            for name, array in _arrays_in(state).items()
        }
        return {**self.memory.buffers, **beside}

    def __repr__(self) -> str:
        parts = [type(component).__name__ for component, s in zip(self.owner.stages, self.stages, strict=True) if s]
        return f"<State of {self.owner.num_actuators} DOFs: {', '.join(parts)}>"


def write_arrays(path: PathLike, contents: Mapping[str, np.ndarray]) -> None:
    """Write arrays and the version to an ``.npz`` file, whole or not at all."""
    arrays: dict[str, Any] = {_VERSION_NAME: np.array(VERSION), **contents}
    with replacing(Path(path)) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def read_arrays(path: PathLike, what: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of `write_arrays` by name.

    Args:
        path: The file.
        what: Name of its contents in an error.

    Raises:
        StateError: It cannot be read, or is of another version.
    """
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key]) for key in file.files}
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged file
        raise StateError(f"'{path}' cannot be read as {what}: {error}") from error
    version = arrays.pop(_VERSION_NAME, None)
    if version is None or version.shape or version.dtype.kind not in "iu" or version != VERSION:
        got = "no version" if version is None else f"version {shown(version.tolist())}"
        raise StateError(f"'{path}': got {got}; this Actuon reads version {VERSION}")
    return arrays


def check_structure(where: str, contents: Mapping[str, np.ndarray], expected: list[str], message: str) -> None:
    """Raise if the description of saved contents differs.

    Args:
        where: Name of their origin in an error.
        contents: Arrays by name, including `STRUCTURE`.
        expected: Expected description, line by line. The first line is a count, the others are in order.
        message: Format of the message, for two lines that differ.
    """
    found = contents.get(STRUCTURE)
    if found is None or not _is_text(found):
        raise StateError(f"{where} is not the state of an actuator")
    got = [str(line) for line in np.atleast_1d(found)]
    if len(got) != len(expected):
        got, expected = [" → ".join(got[1:])], [" → ".join(expected[1:])]
    for theirs, ours in zip(got, expected, strict=True):
        if theirs != ours:
            raise StateError(f"{where}: is {message.format(theirs, ours)}")


def _is_text(array: np.ndarray) -> bool:
    """Return whether an array holds valid characters. NumPy reads any number as one, which cannot be printed."""
    if array.dtype.kind != "U":
        return False
    codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
    return not np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000)))


def check_like(where: str, key: str, values: np.ndarray | None, like: np.ndarray | None) -> None:
    """Raise if an array is missing, or its shape or dtype differs from ``like``; or if ``like`` is None."""
    if like is None:
        raise StateError(f"{where}: unknown array '{key}'")
    if values is None:
        raise StateError(f"{where}: '{key}' is missing")
    if values.shape != like.shape or values.dtype != like.dtype:
        raise StateError(
            f"{where}: '{key}': got shape {values.shape} of {values.dtype}; must be {like.shape} of {like.dtype}"
        )


def _arrays_in(state: object) -> dict[str, wp.array]:
    """Return the arrays of a state of any class, by name."""
    if hasattr(state, "arrays"):
        return dict(state.arrays())
    return {name: value for name, value in vars(state).items() if isinstance(value, wp.array)}


def _to_arrays(state: object) -> dict[str, np.ndarray]:
    """Return copies of the arrays of a state of any class, by name."""
    if isinstance(state, State):
        return state.to_arrays()
    return {name: np.array(array.numpy()) for name, array in _arrays_in(state).items()}


def assign_state(name: str, target: Any, source: Any, mask: np.ndarray | None = None) -> None:
    """Copy the state of one component."""
    if type(target) is not type(source):
        raise StateError(
            f"{name}: cannot assign a {type(source).__name__} to a {type(target).__name__}; "
            "both states must come from the same actuator"
        )
    if target is None:
        return
    if hasattr(target, "assign"):
        target.assign(source) if mask is None else target.assign(source, mask)
        return
    fields = [field.name for field in dataclasses.fields(target)] if dataclasses.is_dataclass(target) else []
    held = {name: getattr(target, name) for name in fields} | getattr(target, "__dict__", {})
    for attribute, array in held.items():
        if not isinstance(array, wp.array):
            raise StateError(
                f"{name}.{attribute}: got {type(array).__name__}; must be a Warp array, or {type(target).__name__} "
                "needs a method assign(other)"
            )
        other = getattr(source, attribute)
        if mask is None:
            wp.copy(array, other)
        else:
            values = array.numpy()
            values[..., mask] = other.numpy()[..., mask]
            if not array.device.is_cpu:
                array.assign(values)
