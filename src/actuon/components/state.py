# SPDX-License-Identifier: Apache-2.0
"""Per-DOF state of components: its arrays, masked reset and assignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import warp as wp

from .. import arrays
from ..errors import ArrayError, StateError
from ..launch import recording_tape
from ..memory import Bools, Floats
from ..pipeline import Flavour, module_options

wp.set_module_options(module_options(Flavour.GRAD))


class State:
    """Per-DOF arrays of a component, as attributes. Starts at zero.

    A subclass may have any attributes; those that are float32 Warp arrays of shape (N,) or (…, N) are reset and
    assigned here.

    Args:
        device: Where the arrays live.
        num_actuators: Number of DOFs, N.
        names: One array of shape (N,) each.
        requires_grad: Allocate gradients.
    """

    def __init__(self, device: wp.Device, num_actuators: int, names: Iterable[str], requires_grad: bool = False):
        for name in names:
            setattr(self, name, wp.zeros(num_actuators, dtype=wp.float32, device=device, requires_grad=requires_grad))
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_rebinding(self, name)
        super().__setattr__(name, value)

    def reset(self, mask: Any = None) -> None:
        """Zero the state, of all DOFs or of those where ``mask``, bool of shape (N,), is true."""
        refuse_reset_on_tape(self._arrays().values())
        for array in self._arrays().values():
            if mask is None:
                array.zero_()
            else:
                n = array.shape[-1]
                reset_mask = as_mask(mask, n, array.device)
                wp.launch(_zero_where, array.size, [reset_mask, n, array.flatten()], device=array.device)

    def assign(self, other: State) -> None:
        """Copy the state of ``other`` into this one."""
        for name, array in self._arrays().items():
            source = getattr(other, name)
            if source.shape != array.shape:
                raise StateError(f"cannot assign {name} of shape {source.shape} to one of shape {array.shape}")
            wp.copy(array, source)

    def _arrays(self) -> dict[str, wp.array]:
        return {name: value for name, value in vars(self).items() if isinstance(value, wp.array)}


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
def _zero_where(mask: Bools, n: int, target: Floats):
    i = wp.tid()
    if mask[i % n]:
        target[i] = 0.0
