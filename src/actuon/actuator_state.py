# SPDX-License-Identifier: Apache-2.0
"""What an actuator remembers between two steps: the states of its stages."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from .components.controllers.controller import Controller
from .components.delay import Delay
from .errors import StateError, StructureError
from .files import replacing
from .typing import ArrayLike, PathLike

_UNSAVED = ("tag", "spare", "origin")
"""Arrays of rings that tell states of one process apart, and are nothing to another."""


class ActuatorState:
    """What an actuator remembers between two steps. Made by `Actuator.state`.

    Args:
        owner: The actuator it is made by.
        stages: The state of each stage, in order; None where it has none.
    """

    def __init__(self, owner: Any, stages: tuple[Any, ...]):
        self.owner = owner
        self.stages = stages
        self.tape: wp.Tape | None = None
        """The tape that last recorded a step from or to it."""
        self.plans: dict[int, Any] = {}
        """What is bound to steps from this state, by the state that they go to."""

    @property
    def controller_state(self) -> Any:
        """State of the controller; None where it is stateless."""
        return self._of_kind(Controller)

    @property
    def delay_state(self) -> Any:
        """Ring of past commands; None without a delay."""
        return self._of_kind(Delay)

    def _of_kind(self, kind: type) -> Any:
        pairs = zip(self.owner.stages, self.stages, strict=True)
        return next((state for component, state in pairs if isinstance(component, kind)), None)

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Go back to the initial state: all DOFs, or those where ``mask``, bool of shape (N,), is true."""
        states = [state for state in self.stages if state is not None]
        for state in states:
            if not hasattr(state, "reset"):
                raise StructureError(f"{type(state).__name__} has no reset(mask)")
        for state in states:
            state.reset(mask)

    def assign(self, other: ActuatorState) -> None:
        """Copy ``other`` into this state, keeping this state's arrays: a captured graph goes on using them."""
        if not isinstance(other, ActuatorState):
            raise StateError(f"assign: got {type(other).__name__}; must be a state from actuator.state()")
        if len(self.stages) != len(other.stages):
            raise StateError(f"assign: got a state of {len(other.stages)} stages; must be one of {len(self.stages)}")
        for component, target, source in zip(self.owner.stages, self.stages, other.stages, strict=True):
            _assign(type(component).__name__, target, source)

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
        """
        arrays = {key: array.numpy() for key, array in self._saved().items()}
        path = Path(path)
        with replacing(path) as partial, open(partial, "wb") as file:
            np.savez(file, __structure__=np.array(self._structure()), **arrays)

    def load(self, path: PathLike) -> None:
        """Take over what `save` wrote. See `Actuator.load_state`."""
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                loaded = {key: file[key] for key in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
            raise StateError(f"'{path}' cannot be read as the state of an actuator: {error}") from error
        found = loaded.pop("__structure__", None)
        if found is None:
            raise StateError(f"'{path}' is not the state of an actuator")
        for got, wanted in _pairs(found.tolist(), self._structure()):
            if got != wanted:
                raise StateError(f"'{path}': is the state of a chain with {got}; this one has {wanted}")
        saved = self._saved()
        for key, array in saved.items():
            values = loaded.get(key)
            if values is None or values.shape != array.shape or values.dtype != array.numpy().dtype:
                raise StateError(f"'{path}': '{key}' is missing, or of another shape or type than {array.shape}")
        for key, array in saved.items():
            array.assign(loaded[key])

    def _structure(self) -> list[str]:
        described = [f"{self.owner.num_actuators} DOFs"]
        for component, state in zip(self.owner.stages, self.stages, strict=True):
            depth = f" of {state.depth} steps" if hasattr(state, "depth") else ""
            described.append(f"{type(component).__name__}{depth}")
        return described

    def _saved(self) -> dict[str, wp.array]:
        saved: dict[str, wp.array] = {}
        for position, state in enumerate(self.stages):
            if state is not None:
                arrays = state.arrays() if hasattr(state, "arrays") else _arrays_of(state)
                saved |= {f"{position}.{name}": array for name, array in arrays.items() if name not in _UNSAVED}
        return saved

    def __repr__(self) -> str:
        parts = [type(component).__name__ for component, s in zip(self.owner.stages, self.stages, strict=True) if s]
        return f"<State of {self.owner.num_actuators} DOFs: {', '.join(parts)}>"


def _pairs(got: list[str], wanted: list[str]) -> list[tuple[str, str]]:
    if len(got) != len(wanted):
        return [(" → ".join(got[1:]), " → ".join(wanted[1:]))]
    return list(zip(got, wanted, strict=True))


def _arrays_of(state: Any) -> dict[str, wp.array]:
    return {name: value for name, value in vars(state).items() if isinstance(value, wp.array)}


def _assign(name: str, target: Any, source: Any) -> None:
    """Copy the state of one component."""
    if type(target) is not type(source):
        raise StateError(
            f"{name}: cannot assign a {type(source).__name__} to a {type(target).__name__}; "
            "both states must come from the same actuator"
        )
    if target is None:
        return
    if hasattr(target, "assign"):
        target.assign(source)
        return
    for attribute, array in vars(target).items():
        if not isinstance(array, wp.array):
            raise StateError(f"{name}.{attribute}: is not a Warp array; give {type(target).__name__} an assign(other)")
        wp.copy(array, getattr(source, attribute))
