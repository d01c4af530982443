# SPDX-License-Identifier: Apache-2.0
"""What an actuator remembers between two steps: the states of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from .components.state import State, check_finite, copy_where
from .declare.registry import ComponentKind
from .errors import StateError, StructureError, shown
from .files import replacing
from .typing import ArrayLike, PathLike

STRUCTURE = "__structure__"
"""Name of the description of a chain among saved arrays."""
VERSION = 2
"""Version of the files. Those without one, from before there was any, are of the first. Since the second, delays in
seconds remember the length of each step, and integrals what rounding took from them (`Component.ADDED_STATES`)."""

_VERSION_NAME = "__version__"
_CLOCK = "clock"
_UNSAVED = ("tag", "spare", "origin")
"""Arrays of rings that tell states of one process apart, and are nothing to another."""


class ActuatorState:
    """What an actuator remembers between two steps. Made by `Actuator.state`.

    Args:
        owner: The actuator it is made by.
        stages: The state of each stage, in order; None where it has none.
        held: What the controller gave when it last ran; None where it runs at every step.
    """

    def __init__(self, owner: Any, stages: tuple[Any, ...], held: State | None = None):
        self.owner = owner
        self.stages = stages
        self.held = held
        self.clock = 0
        """Steps since the controller last ran, where it does not run at every step. It runs at 0."""
        self.in_graph = False
        """Whether the last step to it was captured in a graph."""
        self.tape: wp.Tape | None = None
        """The tape that last recorded a step from or to it."""
        self.plans: dict[tuple[int, bool], Any] = {}
        """What is bound to steps from this state, by the state that they go to and whether the controller runs."""

    @property
    def controller_state(self) -> Any:
        """State of the controller; None where it is stateless."""
        return self._of_kind(ComponentKind.CONTROLLER)

    @property
    def drive_state(self) -> Any:
        """What Newton calls the state of the controller."""
        return self.controller_state

    @property
    def delay_state(self) -> Any:
        """State of the delay, such as its ring of past commands; None without a delay."""
        return self._of_kind(ComponentKind.DELAY)

    def _of_kind(self, kind: ComponentKind) -> Any:
        pairs = zip(self.owner.stages, self.stages, strict=True)
        return next((state for component, state in pairs if component.kind is kind), None)

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Go back to the initial state: all DOFs, or those where ``mask``, bool of shape (N,), is true.

        Where the controller does not run at every step, it runs in the first step after all DOFs were reset. With a
        mask it keeps its pace, which all DOFs share, and the effort that is held for those that were reset is zero.
        """
        states = [state for state in (*self.stages, self.held) if state is not None]
        for state in states:
            if not hasattr(state, "reset"):
                raise StructureError(f"{type(state).__name__} has no reset(mask)")
        for state in states:
            state.reset(mask)
        if mask is None:
            self.clock, self.in_graph = 0, False

    def assign(self, other: ActuatorState, mask: np.ndarray | None = None) -> None:
        """Copy ``other`` into this state, keeping this state's arrays: a captured graph goes on using them.

        Args:
            other: A state of the same actuator.
            mask: Which DOFs to copy, bool of shape (N,). Default: all. With a mask the clock of a controller that does
                not run at every step, which all DOFs share, stays.
        """
        if not isinstance(other, ActuatorState):
            raise StateError(f"assign: got {type(other).__name__}; must be a state from actuator.state()")
        if len(self.stages) != len(other.stages):
            raise StateError(f"assign: got a state of {len(other.stages)} stages; must be one of {len(self.stages)}")
        for component, target, source in zip(self.owner.stages, self.stages, other.stages, strict=True):
            assign_state(type(component).__name__, target, source, mask)
        assign_state("control_every", self.held, other.held, mask)
        if mask is None:
            self.clock, self.in_graph = other.clock, other.in_graph

    def __deepcopy__(self, memo: dict[int, Any]) -> ActuatorState:
        copied: ActuatorState = self.owner.state()
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
        """Write everything that is remembered to a file, for `Actuator.load_state`.

        Args:
            path: An ``.npz`` file. It is written whole, or not at all.

        Raises:
            StateError: A DOF diverged, and remembers NaN. Says which.
        """
        write_arrays(path, self.contents())

    def load(self, path: PathLike) -> None:
        """Take over what `save` wrote. See `Actuator.load_state`."""
        contents, version = read_arrays(path, "the state of an actuator")
        contents = self.upgraded(contents, version)
        self.check(f"'{path}'", contents)
        self.take(contents)

    def contents(self, where: str = "state") -> dict[str, np.ndarray]:
        """Everything that is remembered, and a description of the chain, as arrays by name.

        Args:
            where: What to call it in an error.

        Raises:
            StateError: It could not be loaded: a DOF diverged, and remembers NaN. Says which.
        """
        arrays = {key: array.numpy() for key, array in self._saved().items()}
        self._check_values(f"{where}: ", arrays)
        clock = {} if self.held is None else {_CLOCK: np.array(self.clock)}
        return {STRUCTURE: np.array(self._structure()), **arrays, **clock}

    def upgraded(self, contents: Mapping[str, np.ndarray], version: int) -> dict[str, np.ndarray]:
        """Convert the contents of a file of an earlier version. Damaged ones are left for `check`."""
        changed = dict(contents)
        if version == VERSION:
            return changed
        saved = self._saved()
        for position, component in enumerate(self.owner.stages):
            for key in (f"{position}.{name}" for name in component.ADDED_STATES):
                changed.setdefault(key, np.zeros(saved[key].shape, np.float32))
        for prefix, state, names in self._parts():
            if hasattr(state, "from_version_1"):
                had = {name: changed[f"{prefix}{name}"] for name in names if f"{prefix}{name}" in changed}
                changed |= {f"{prefix}{name}": array for name, array in state.from_version_1(had).items()}
        return changed

    def check(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Refuse contents of another chain.

        Args:
            where: What to call their origin in an error.
            contents: What `contents` of another state gave.

        Raises:
            StateError: They are of another chain, or incomplete; says how they differ.
        """
        check_structure(where, contents, self._structure(), "the state of a chain with {}; this one has {}")
        for key, array in self._saved().items():
            check_like(where, key, contents.get(key), array.numpy())
        self._check_values(f"{where}: ", contents)
        if self.held is not None:
            check_like(where, _CLOCK, contents.get(_CLOCK), np.array(self.clock))
            clock, every = int(contents[_CLOCK]), self.owner.control_every
            if not 0 <= clock < every:
                raise StateError(f"{where}: '{_CLOCK}' is {clock}; must be from 0 to {every - 1}")

    def _check_values(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Refuse values of arrays that have the right shapes and types."""
        for prefix, state, names in self._parts():
            values = {name: contents[f"{prefix}{name}"] for name in names}
            if isinstance(state, State):
                state.check_saved(f"{where}{prefix}", values)
            else:
                for name, array in values.items():
                    check_finite(f"{where}{prefix}{name}", array)

    def take(self, contents: Mapping[str, np.ndarray]) -> None:
        """Take over contents that were checked."""
        for prefix, state, names in self._parts():
            values = {name: contents[f"{prefix}{name}"] for name in names}
            if isinstance(state, State):
                state.take_saved(values)
            else:
                for name, array in values.items():
                    _arrays_in(state)[name].assign(array)
        if self.held is not None:
            self.clock, self.in_graph = int(contents[_CLOCK]), False

    def _structure(self) -> list[str]:
        described = [f"{self.owner.num_actuators} DOFs"]
        for component, state in zip(self.owner.stages, self.stages, strict=True):
            depth = f" of {state.depth} steps" if hasattr(state, "depth") else ""
            described.append(f"{type(component).__name__}{depth}")
        if self.held is not None:
            described.append(f"control every {self.owner.control_every} steps")
        return described

    def _saved(self) -> dict[str, wp.array]:
        return {f"{prefix}{name}": array for prefix, _, arrays in self._parts() for name, array in arrays.items()}

    def _parts(self) -> Iterator[tuple[str, Any, dict[str, wp.array]]]:
        """State of each stage with the prefix of its arrays in a file, and these arrays by name."""
        states = [(f"{position}.", state) for position, state in enumerate(self.stages)]
        for prefix, state in [*states, ("", self.held)]:
            if state is not None:
                yield prefix, state, {n: array for n, array in _arrays_in(state).items() if n not in _UNSAVED}

    def arrays(self) -> dict[str, wp.array]:
        """All arrays that a step in place reads and writes, by stage and name. They stay the same."""
        found: dict[str, wp.array] = {}
        for position, state in enumerate(self.stages):
            if state is not None:
                found |= {f"{position}.{name}": array for name, array in _arrays_in(state).items()}
        return found | (self.held.arrays() if self.held is not None else {})

    def __repr__(self) -> str:
        parts = [type(component).__name__ for component, s in zip(self.owner.stages, self.stages, strict=True) if s]
        return f"<State of {self.owner.num_actuators} DOFs: {', '.join(parts)}>"


def write_arrays(path: PathLike, contents: Mapping[str, np.ndarray]) -> None:
    """Write arrays and the version to an ``.npz`` file, whole or not at all."""
    arrays: dict[str, Any] = {_VERSION_NAME: np.array(VERSION), **contents}
    with replacing(Path(path)) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def read_arrays(path: PathLike, what: str) -> tuple[dict[str, np.ndarray], int]:
    """Read what `write_arrays` wrote: arrays by name, and the version.

    Raises:
        StateError: It cannot be read as ``what`` the file should be, or is of a later version.
    """
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key]) for key in file.files}
    except Exception as error:  # whatever zipfile, zlib and NumPy raise of a damaged file
        raise StateError(f"'{path}' cannot be read as {what}: {error}") from error
    version = arrays.pop(_VERSION_NAME, np.array(1))
    if version.shape or version.dtype.kind not in "iu" or not 1 <= version <= VERSION:
        raise StateError(f"'{path}': got version {shown(version.tolist())}; this Actuon reads versions up to {VERSION}")
    return arrays, int(version)


def check_structure(where: str, contents: Mapping[str, np.ndarray], wanted: list[str], said: str) -> None:
    """Refuse contents whose description differs.

    Args:
        where: What to call their origin in an error.
        contents: Arrays by name, `STRUCTURE` among them.
        wanted: What the description must be, line by line. The first counts things, the others are in order.
        said: What to say of two lines that differ.
    """
    found = contents.get(STRUCTURE)
    if found is None or not _is_text(found):
        raise StateError(f"{where} is not the state of an actuator")
    got = [str(line) for line in np.atleast_1d(found)]
    if len(got) != len(wanted):
        got, wanted = [" → ".join(got[1:])], [" → ".join(wanted[1:])]
    for theirs, ours in zip(got, wanted, strict=True):
        if theirs != ours:
            raise StateError(f"{where}: is {said.format(theirs, ours)}")


def _is_text(array: np.ndarray) -> bool:
    """Return whether an array holds characters that exist: NumPy reads any number as one, which cannot be printed."""
    if array.dtype.kind != "U":
        return False
    codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
    return not np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000)))


def check_like(where: str, key: str, values: np.ndarray | None, like: np.ndarray) -> None:
    """Refuse an array that is missing, or of another shape or type than ``like``."""
    if values is None or values.shape != like.shape or values.dtype != like.dtype:
        raise StateError(f"{where}: '{key}' is missing, or of another shape or type than {like.shape}")


def _arrays_in(state: Any) -> dict[str, wp.array]:
    """The arrays of a state of any class, by name."""
    if hasattr(state, "arrays"):
        return dict(state.arrays())
    return {name: value for name, value in vars(state).items() if isinstance(value, wp.array)}


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
    for attribute, array in vars(target).items():
        if not isinstance(array, wp.array):
            raise StateError(f"{name}.{attribute}: is not a Warp array; give {type(target).__name__} an assign(other)")
        copy_where(mask, array, getattr(source, attribute))
