# SPDX-License-Identifier: Apache-2.0
"""What components remember per DOF: arrays, masked reset, assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import warp as wp

from .. import arrays
from ..errors import ArrayError, StateError
from ..kernel.launch import recording_tape
from ..kernel.types import Bools, Flavour, Floats, module_options

wp.set_module_options(module_options(Flavour.GRAD))

FirstValue = float | Callable[[], wp.array]
"""What a state is after a reset: a number, or what gives an array with one value per DOF."""


class State:
    """Per-DOF arrays of a component, as attributes.

    A subclass may have any attributes; those that are float32 Warp arrays of shape (N,) or (…, N) are reset and
    assigned here.

    Args:
        device: Where the arrays live.
        num_actuators: Number of DOFs, N.
        names: One array of shape (N,) each; with their values after a reset, or zero without.
        requires_grad: Allocate gradients.
    """

    _first_values: Mapping[str, FirstValue] = {}

    def __init__(
        self,
        device: wp.Device,
        num_actuators: int,
        names: Iterable[str] | Mapping[str, FirstValue],
        requires_grad: bool = False,
    ):
        for name in names:
            setattr(self, name, wp.zeros(num_actuators, dtype=wp.float32, device=device, requires_grad=requires_grad))
        if isinstance(names, Mapping):
            self._first_values = dict(names)
        self._sealed = True
        self._fill(None)

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_rebinding(self, name)
        super().__setattr__(name, value)

    def reset(self, mask: Any = None) -> None:
        """Go back to the first value, of all DOFs or of those where ``mask``, bool of shape (N,), is true."""
        refuse_reset_on_tape(self.arrays().values())
        self._fill(mask)

    def _fill(self, mask: Any) -> None:
        for name, array in self.arrays().items():
            first = self._first_values.get(name, 0.0)
            if mask is None and not callable(first):
                array.fill_(first)
                continue
            n = array.shape[-1]
            chosen = None if mask is None else as_mask(mask, n, array.device)
            value, values = (0.0, first()) if callable(first) else (first, None)
            wp.launch(_fill_where, array.size, [chosen, n, value, values, array.flatten()], device=array.device)

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the state of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        for name, array in self.arrays().items():
            source = getattr(other, name)
            if source.shape != array.shape:
                raise StateError(f"cannot assign {name} of shape {source.shape} to one of shape {array.shape}")
            copy_where(mask, array, source)

    def arrays(self) -> dict[str, wp.array]:
        """The arrays by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, wp.array)}

    def check_saved(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Refuse arrays of a file, of the right shapes and types, that no step gives.

        Args:
            where: What to call them in an error, before the name of each.
            values: The arrays by name.

        Raises:
            StateError: One of them holds a value that is not allowed.
        """
        for name, array in values.items():
            check_finite(f"{where}{name}", array, "; reset such DOFs, with reset(mask), before the state is saved")

    def take_saved(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over arrays of a file that were checked."""
        arrays_by_name = self.arrays()
        for name, array in values.items():
            arrays_by_name[name].assign(array)


def check_finite(where: str, values: np.ndarray, remedy: str = "") -> None:
    """Refuse NaN and infinities in an array of a file; ``remedy`` ends the error."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = np.argwhere(~np.isfinite(values))[0]
        raise StateError(f"{where}: is {values[tuple(at)]} at index {_shown_index(at)}; must be finite{remedy}")


def check_range(where: str, values: np.ndarray, low: int, high: int) -> None:
    """Refuse numbers of a file below ``low`` or above ``high``."""
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        raise StateError(f"{where}: is {values[bad[0]]} at index {bad[0]}; must be from {low} to {high}")


def _shown_index(at: np.ndarray) -> str:
    """An index of one or more numbers, as an error shows it."""
    return ", ".join(str(int(i)) for i in at)


def copy_where(mask: np.ndarray | None, target: wp.array, source: wp.array) -> None:
    """Copy arrays of shape (…, N), of all DOFs or of those where ``mask``, bool of shape (N,), is true."""
    if mask is None:
        wp.copy(target, source)
        return
    values = target.numpy()
    values[..., mask] = source.numpy()[..., mask]
    if not target.device.is_cpu:
        target.assign(values)


def refuse_rebinding(state: Any, name: str) -> None:
    """Kernels hold on to a state's arrays: what is replaced would go on being used."""
    if getattr(state, "_sealed", False) and name in vars(state):
        raise StateError(f"{name}: cannot be replaced by another array; write into it, e.g. with assign()")


def refuse_reset_on_tape(state_arrays: Iterable[wp.array]) -> None:
    """A reset is not differentiable: on a tape, gradients would pass through it as if it had not been."""
    if recording_tape() is not None and any(array.requires_grad for array in state_arrays):
        raise StateError("reset() on a recording wp.Tape: reset before recording, or go on from a new actuator.state()")


def as_mask(mask: Any, num_actuators: int, device: wp.Device) -> wp.array:
    """Return ``mask`` as a bool array of shape (N,) on ``device``."""
    if device.is_capturing and not isinstance(mask, wp.array):
        raise StateError("reset mask: a captured graph reads it again at each replay; must be a Warp array that stays")
    if isinstance(mask, (list, tuple)):
        try:
            mask = arrays.numbers(mask, "reset mask")
        except ArrayError as error:
            raise StateError(str(error)) from error
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and device.is_cuda:
        mask = wp.array(mask, dtype=wp.bool, device=device)
    try:
        return arrays.flat(mask, "reset mask", device, dtype=wp.bool, length=num_actuators)
    except ArrayError as error:
        raise StateError(str(error)) from error


@wp.kernel(enable_backward=False)
def _fill_where(mask: Bools, n: int, value: float, values: Floats, target: Floats):
    i = wp.tid()
    chosen = True
    if mask:
        chosen = mask[i % n]
    if chosen:
        if values:
            target[i] = values[i % n]
        else:
            target[i] = value
