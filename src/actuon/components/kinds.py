# SPDX-License-Identifier: Apache-2.0
"""The kinds of components: bases of sensors, controllers, transmissions, clamps and effects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..arrays import read_array
from ..declare.registry import ComponentKind
from ..errors import StateError, StructureError
from ..kernel.chain import SIGNALS, custom_signal
from ..kernel.run_stage import SignalArray, run_stage
from ..kernel.state import State
from ..typing import DeviceLike
from .component import Component


class Controller(Component):
    """Base of controllers: from command and joint state to the requested effort.

    A subclass with a ``config`` and a ``law`` is fused. To launch other kernels instead, override `compute`,
    `resolve_arguments`, `is_stateful` and `is_graphable`; with memory also `State`, `state` and `update_state`.
    """

    kind = ComponentKind.CONTROLLER
    _sees_sensed = True
    _own_kernel_methods = (*Component._own_kernel_methods, "compute", "update_state")
    _pending: Any = None
    custom_inputs: tuple[str, ...] = ()
    """Names of arrays in the simulation's control that it reads in addition to targets and feedforward."""

    def compute(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        target_vel: wp.array,
        feedforward: wp.array | None,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        forces: wp.array,
        state: Any,
        dt: float | None,
        device: DeviceLike = None,
        *,
        custom_inputs: Mapping[str, wp.array] | None = None,
    ) -> None:
        """Compute the effort of each DOF into ``forces``, without changing ``state``.

        Args:
            positions: Joint positions [rad or m], read at ``pos_indices``.
            velocities: Joint velocities [rad/s or m/s], read at ``vel_indices``.
            target_pos: Target positions [rad or m], read at ``target_pos_indices``.
            target_vel: Target velocities [rad/s or m/s], read at ``target_vel_indices``.
            feedforward: Feedforward efforts [N·m or N], read at ``target_vel_indices``; may be None.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            target_pos_indices: Indices, shape (N,).
            target_vel_indices: Indices, shape (N,).
            forces: Efforts [N·m or N], shape (N,), written.
            state: State of the controller; None without memory.
            dt: Time step [s].
            device: Device of the arrays.
            custom_inputs: Arrays by the names in the controller's ``custom_inputs``, read at ``vel_indices``.
        """
        self._require_law("compute()")
        if self.is_stateful() and state is None:
            raise StateError(f"{type(self).__name__} has memory: compute() needs its state, from state()")
        self._finalize_if_needed(device, forces.shape[0])
        arrays = (positions, velocities, target_pos, target_vel, feedforward)
        indices = (pos_indices, vel_indices, target_pos_indices, target_vel_indices, target_vel_indices)
        given = {n: SignalArray(array, at) for n, array, at in zip(SIGNALS, arrays, indices, strict=True)}
        if isinstance(state, State) and not state.is_in_memory:
            passed, state = state, self.state(forces.shape[0], forces.device)
            for name, array in passed.arrays().items():
                wp.copy(getattr(state, name), array)
        for name in self.custom_inputs:
            given[custom_signal(name)] = SignalArray(
                read_array(custom_inputs or {}, name, "custom_inputs"), vel_indices
            )
        self._pending = None if state is None else state.empty_like()
        self._evaluate(given, {"effort": forces}, state, self._pending, self.check_dt(dt))

    def _evaluate(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run the stage function. See `run`."""
        run_stage(self, given, results, current_state, next_state, dt)

    def update_state(self, current_state: Any, next_state: Any) -> None:
        """Copy the new state from the last `compute` into ``next_state``."""
        if self.is_stateful():
            if self._pending is None:
                raise StateError(f"{type(self).__name__}: call compute() before update_state()")
            next_state.assign(self._pending)

    def _check_overrides(self) -> None:
        methods = self._overridden()
        if "update_state" in methods and not self.is_stateful():
            raise StructureError(
                f"{type(self).__name__}.update_state: is not called, since the controller has no memory; override "
                "is_stateful() and state() too"
            )
        check_results(self, "compute", methods, {*SIGNALS, "dt"})

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, by `compute` if that is overridden."""
        if self.is_fused():
            super().run(given, results, current_state, next_state, dt)
            return
        arrays = (given[name].array for name in SIGNALS)
        indices = (given[name].indices for name in ("q", "qd", "target_q", "target_qd"))
        forces = results["effort"]
        custom = {name: given[custom_signal(name)].array for name in self.custom_inputs}
        named = {"custom_inputs": custom} if custom else {}
        self.compute(*arrays, *indices, forces, current_state, dt, forces.device, **named)  # type: ignore[arg-type, call-arg]
        if self.is_stateful():
            self.update_state(current_state, next_state)


class Clamping(Component):
    """Base of limits: from the requested effort to the effort that the motor delivers.

    A subclass with a ``config`` and a ``law`` is fused. To launch other kernels instead, override `modify_forces` and
    `resolve_arguments`.
    """

    kind = ComponentKind.CLAMPING
    _own_kernel_methods = (*Component._own_kernel_methods, "modify_forces")

    def modify_forces(
        self,
        src_forces: wp.array,
        dst_forces: wp.array,
        positions: wp.array,
        velocities: wp.array,
        pos_indices: wp.array,
        vel_indices: wp.array,
        device: DeviceLike = None,
    ) -> None:
        """Clamp the effort of each DOF from ``src_forces`` into ``dst_forces``, which may be the same array.

        For functions of effort, position and velocity only, without memory.

        Args:
            src_forces: Efforts to clamp [N·m or N], shape (N,).
            dst_forces: Clamped efforts [N·m or N], shape (N,), written.
            positions: Joint positions [rad or m], read at ``pos_indices``.
            velocities: Joint velocities [rad/s or m/s], read at ``vel_indices``.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            device: Device of the arrays.
        """
        self._require_law("modify_forces()")
        self._finalize_if_needed(device, src_forces.shape[0])
        given = {
            "q": SignalArray(positions, pos_indices),
            "qd": SignalArray(velocities, vel_indices),
            "effort": SignalArray(
                wp.clone(src_forces) if src_forces.ptr == dst_forces.ptr else src_forces, vel_indices
            ),
        }
        run_stage(self, given, {"effort": dst_forces}, None, None, None)

    def _check_overrides(self) -> None:
        methods = self._overridden()
        if "modify_forces" in methods and self.is_stateful():
            raise StructureError(
                f"{type(self).__name__}.modify_forces: cannot change the memory of the clamp; override run() instead"
            )
        check_results(self, "modify_forces", methods, {"q", "qd", "effort"})

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, by `modify_forces` if that is overridden."""
        if "modify_forces" not in self._overridden():
            super().run(given, results, current_state, next_state, dt)
            return
        q, qd, forces = given["q"], given["qd"], results["effort"]
        self.modify_forces(given["effort"].array, forces, q.array, qd.array, q.indices, qd.indices, forces.device)


def check_results(component: Component, method: str, overridden: Collection[str], inputs: Collection[str]) -> None:
    """Check that an overridden method gets all inputs of a stage, and can write all its results.

    Raises:
        StructureError: The stage has others.
    """
    if method not in overridden or "run" in overridden:
        return
    stage = component.stage()
    for verb, names in (("write", stage.outputs), ("read", stage.law_inputs)):
        known = {*inputs, *component.declared(), *map(custom_signal, stage.custom_inputs)}
        more = [name for name in names if name not in known]
        if more:
            raise StructureError(
                f"{type(component).__name__}.{method}: cannot {verb} the signal '{more[0]}' of the stage; override "
                "run() instead"
            )


def check_limits_first(components: Sequence[Component]) -> None:
    """Check that limits are before the stages that optionally use their signals, and would ignore them otherwise.

    Raises:
        StructureError: A limit is after such a stage.
    """
    known: set[str] = set()
    for i, component in enumerate(components):
        stage = component.stage()
        wanted = (set(dict(stage.defaults)) & set(stage.law_inputs)) - known
        for later in components[i + 1 :]:
            late = sorted(wanted & set(later.stage().outputs)) if isinstance(later, Clamping) else []
            if late:
                raise StructureError(
                    f"{type(later).__name__} is after {type(component).__name__}, which uses its signal '{late[0]}'; "
                    "list it before"
                )
        known |= set(stage.outputs)


class Effect(Component):
    """Base of effects: from an effort to the effort after losses or delayed response.

    A subclass with a ``config``, a ``law`` and, with memory, ``STATES`` is fused. To launch other kernels instead,
    override `run`.
    """

    kind = ComponentKind.EFFECT


class Sensor(Component):
    """Base of sensors: from the position and velocity of the joint to the measured ones.

    The law of a subclass returns position and velocity, then its states. Controllers and later sensors get these
    values; other stages get the true ones.
    """

    kind = ComponentKind.SENSOR
    _returns = ("q", "qd")
    _sees_sensed = True


SMALLEST_RATIO = 1e-6
"""Smallest allowed ratio of a motor's speed to a joint's."""


class Transmission(Component):
    """Base of transmissions: from the joint side to the motor side, and back after the last stage.

    The law of a subclass returns position, velocity and effort of the motor for later stages. ``closing_law``, of the
    same parameters, then converts the motor's effort to the joint's.
    """

    kind = ComponentKind.TRANSMISSION
    _returns = ("q", "qd", "effort")

    def constant_ratio(self) -> np.ndarray | None:
        """Return the ratio of the motor's speed to the joint's [1], shape (N,).

        None if it depends on the position or on other joints.
        """
        return None


if TYPE_CHECKING:
    # An actuator's config decides the class of each stage, which a type checker cannot know. These classes accept any
    # parameter, so that actuator.controller.kp passes; those of a known class must exist: ControllerPD(...).kq fails.

    class _AnyParameters:
        def __getattr__(self, name: str) -> wp.array: ...
        def __setattr__(self, name: str, value: Any) -> None: ...  # of any other type, kp = 1.0 would make kp a float

    class AnyController(Controller, _AnyParameters):
        """A controller of any class."""

    class AnyTransmission(Transmission, _AnyParameters):
        """A transmission of any class."""

    class AnyClamping(Clamping, _AnyParameters):
        """A clamp of any class."""

    class AnyEffect(Effect, _AnyParameters):
        """An effect of any class."""

    class AnySensor(Sensor, _AnyParameters):
        """A sensor of any class."""
else:
    AnyController, AnyTransmission, AnyClamping, AnyEffect, AnySensor = (
        Controller,
        Transmission,
        Clamping,
        Effect,
        Sensor,
    )
