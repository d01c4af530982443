# SPDX-License-Identifier: Apache-2.0
"""Components of Newton as stages. They have separate kernels, so their actuators run stage by stage."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import warp as wp

from ..components.component import Component, HeldValues
from ..components.controllers.neural import ControllerNeuralGRU, ControllerNeuralLSTM, ControllerNeuralMLP
from ..components.controllers.pd import ControllerPD
from ..components.controllers.pid import ControllerPID
from ..components.delay import Delay
from ..components.kinds import Clamping, Controller
from ..declare.registry import ComponentKind
from ..errors import ArrayError, StateError, StructureError
from ..kernel.chain import COMMANDS, Stage
from ..kernel.run_stage import SignalArray
from ..kernel.state import as_mask
from ..typing import ArrayLike, DeviceLike

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class NewtonPart(Protocol):
    """A drive, clamp or delay of ``newton.actuators``, or of a class derived from one."""

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Bind to the actuator's device and DOFs."""


def newton_kind(part: object) -> ComponentKind | None:
    """Return the kind of a component of Newton; None if it is not one. Does not import Newton."""
    actuators = sys.modules.get("newton.actuators")
    if actuators is None:
        return None
    bases = {
        ComponentKind.CONTROLLER: actuators.DriveBase,
        ComponentKind.CLAMPING: actuators.ClampingBase,
        ComponentKind.DELAY: actuators.Delay,
    }
    return next((kind for kind, base in bases.items() if isinstance(part, base)), None)


def wrap_newton_part(part: object) -> Component:
    """Return a component of Newton as a stage."""
    kind = newton_kind(part)
    assert kind is not None
    return _CLASSES[kind](part)


def check_lengths(part: object, num_actuators: int) -> None:
    """Check that the arrays of a component have one value per DOF. Those in ``SHARED_PARAMS`` may have any length.

    Raises:
        ArrayError: An array has another length.
    """
    shared = getattr(part, "SHARED_PARAMS", ())
    for name in inspect.signature(type(part)).parameters:
        value = getattr(part, name, None)
        if isinstance(value, wp.array) and value.ndim == 1 and name not in shared and len(value) != num_actuators:
            raise ArrayError(
                f"{type(part).__name__}.{name}: got {len(value)} values; must have {num_actuators}, one per DOF. If "
                "all DOFs share the array, add its name to SHARED_PARAMS"
            )


class NewtonState:
    """State of a component of Newton. A step may read and write the same object, unlike with Newton's own states.

    Args:
        make: Returns a new state of Newton.
        num_actuators: Number of DOFs, N.
        device: Device of its arrays.
    """

    def __init__(self, make: Callable[[], Any], num_actuators: int, device: wp.Device):
        self.now, self._spare = make(), make()
        self._num_actuators, self._device = num_actuators, device

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Reset all DOFs, or those where ``mask``, bool of shape (N,), is true."""
        self.now.reset(None if mask is None else as_mask(mask, self._num_actuators, self._device))

    def assign(self, other: NewtonState, mask: np.ndarray | None = None) -> None:
        """Copy the state of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        if mask is None:
            _copy(self.now, other.now)
            return
        for name, array in self.arrays().items():
            self._assign_some(name, array, getattr(other.now, name).numpy(), mask)

    def _assign_some(self, name: str, array: wp.array, source: np.ndarray, mask: np.ndarray) -> None:
        axes = [axis for axis, size in enumerate(array.shape) if size == self._num_actuators]
        if len(axes) != 1:
            raise StateError(
                f"{type(self.now).__qualname__}.{name}: has shape {array.shape}; must have exactly one axis of "
                f"{self._num_actuators} DOFs, for a mask to copy some of them"
            )
        chosen: Any = (*[slice(None)] * axes[0], mask)
        numbers = array.numpy().copy()
        numbers[chosen] = source[chosen]
        array.assign(numbers)

    def arrays(self) -> dict[str, wp.array]:
        """Return the arrays by name, for saving."""
        values = {field.name: getattr(self.now, field.name) for field in dataclasses.fields(self.now)}
        for name, value in values.items():
            if not isinstance(value, wp.array):
                raise StateError(
                    f"{type(self.now).__qualname__}.{name}: got {type(value).__name__}; only Warp arrays can be saved"
                )
        return values

    def advance(self, following: NewtonState, update: Callable[[DataclassInstance, DataclassInstance], None]) -> None:
        """Compute the state ``following`` from this one by ``update``; they may be the same."""
        target = self._spare if following is self else following.now
        _copy(target, self.now)
        update(self.now, target)
        if following is self:
            _copy(self.now, target)


class NewtonRing(NewtonState):
    """State of a delay of Newton: past commands."""

    def assign(self, other: NewtonState, mask: np.ndarray | None = None) -> None:
        """Copy the commands of ``other``, of all DOFs or of those where ``mask`` is true."""
        if mask is None:
            super().assign(other)
            return
        ahead = int(self.now.write_idx.numpy()[0] - other.now.write_idx.numpy()[0])
        for name, array in self.arrays().items():
            if name != "write_idx":
                source = getattr(other.now, name).numpy()
                numbers = array.numpy().copy()
                numbers[..., mask] = (np.roll(source, ahead, axis=0) if source.ndim == 2 else source)[..., mask]
                array.assign(numbers)


def _copy(target: DataclassInstance, source: DataclassInstance) -> None:
    for field in dataclasses.fields(target):
        to, value = getattr(target, field.name), getattr(source, field.name)
        if isinstance(to, wp.array):
            wp.copy(to, value)
        elif hasattr(to, "copy_"):
            import torch

            with torch.inference_mode():
                to.copy_(value)
        elif to is not None or value is not None:
            raise StateError(f"{type(target).__qualname__}.{field.name}: got {type(to).__name__}; must be an array")


class _NewtonStage(Component):
    """Base of the stages. Attributes, such as ``kp``, are those of the component of Newton."""

    def __init__(self, part: Any):
        self.part = part
        """Newton's component."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "part":
            raise AttributeError(f"'{type(self).__name__}' has no attribute {name!r}")
        return getattr(self.part, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_") or name in ("part", "requires_grad"):
            object.__setattr__(self, name, value)
        else:
            setattr(self.part, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.part).__name__})"

    def check_fits(self, num_actuators: int) -> None:
        check_lengths(self.part, num_actuators)

    def finalize(self, device: DeviceLike, num_actuators: int, requires_grad: bool | None = None) -> None:
        on = wp.get_device(device)
        if self.requires_grad:
            raise StructureError(
                f"{type(self.part).__name__} of Newton: cannot be differentiated here; use Actuon's component"
            )
        for name, value in vars(self.part).items():
            if isinstance(value, wp.array) and not name.startswith("_") and value.device != on:
                raise ArrayError(f"{type(self.part).__name__}.{name}: is on '{value.device}'; must be on '{on}'")
        super().finalize(on, num_actuators)
        self.part = copy.copy(self.part)
        self.part.finalize(on, num_actuators)

    def _check_together(self, values: HeldValues) -> None:
        """Skip the check: Newton's component holds the values."""

    def _check_overrides(self) -> None:
        """Skip the check: Newton's component decides which of its methods it needs."""

    def is_fused(self) -> bool:
        return False

    def is_graphable(self) -> bool:
        return bool(getattr(self.part, "is_graphable", lambda: True)())

    def state(self, num_actuators: int, device: DeviceLike) -> Any:
        on = wp.get_device(device)
        return NewtonState(lambda: self.part.state(num_actuators, on), num_actuators, on)


class NewtonDrive(_NewtonStage, Controller):
    """A drive of Newton."""

    @property
    def custom_inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of arrays in the simulation's control that it reads in addition to targets and feedforward."""
        return tuple(self.part.custom_inputs)

    def stage(self) -> Stage:
        return dataclasses.replace(super().stage(), custom_inputs=self.custom_inputs)

    def is_stateful(self) -> bool:
        return bool(self.part.is_stateful())

    def check_dt(self, dt: float | None) -> float | None:
        if dt is None and self.is_stateful():
            raise StateError(f"{type(self.part).__name__} of Newton has memory: step() needs dt")
        return dt

    def compute(self, *arguments: Any, **named: Any) -> None:
        *signals, state, dt, device = arguments
        self.part.compute(*signals, None if state is None else state.now, dt, device, **named)

    def update_state(self, current_state: NewtonState, next_state: NewtonState) -> None:
        current_state.advance(next_state, self.part.update_state)


class NewtonClamping(_NewtonStage, Clamping):
    """A clamp of Newton."""

    def modify_forces(self, *args: object, **kwargs: object) -> None:
        self.part.modify_forces(*args, **kwargs)


class NewtonDelay(_NewtonStage, Delay):
    """A delay of Newton."""

    config = None  # type: ignore[assignment]

    @property  # type: ignore[misc]
    def delay_steps(self) -> wp.array:
        """Delays [steps], int32 of shape (N,)."""
        return self.part.delay_steps

    def state(self, num_actuators: int, device: DeviceLike) -> Any:
        on = wp.get_device(device)
        return NewtonRing(lambda: self.part.state(num_actuators, on), num_actuators, on)

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: NewtonState,
        next_state: NewtonState,
        dt: float | None,
    ) -> None:
        arrays = [given[name].array for name in COMMANDS]
        command = (*arrays, given["target_q"].indices, given["target_qd"].indices)
        late = self.part.get_delayed_targets(*command, current_state.now)
        for name, array in zip(COMMANDS, late, strict=True):
            wp.copy(results[name], array)
        current_state.advance(next_state, functools.partial(self.part.update_state, *command))


_CLASSES: Mapping[ComponentKind, Callable[[Any], Component]] = {
    ComponentKind.CONTROLLER: NewtonDrive,
    ComponentKind.CLAMPING: NewtonClamping,
    ComponentKind.DELAY: NewtonDelay,
}


ClampingBase = Clamping
DriveBase = Controller
DriveNeuralGRU = ControllerNeuralGRU
DriveNeuralLSTM = ControllerNeuralLSTM
DriveNeuralMLP = ControllerNeuralMLP
DrivePD = ControllerPD
DrivePID = ControllerPID
