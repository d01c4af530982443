# SPDX-License-Identifier: Apache-2.0
"""Base of controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import warp as wp

from ...arrays import read_array
from ...declare.registry import ComponentKind
from ...errors import StateError
from ...kernel.alone import Given, run_alone
from ...kernel.structure import SIGNALS, custom_signal
from ..component import Component


class Controller(Component):
    """Base of controllers: command and joint state in, raw effort out.

    Give a subclass a ``config`` and a ``law`` and it is fused. To launch kernels of its own instead, override
    `compute`, `resolve_arguments`, `is_stateful` and `is_graphable`, and where it is stateful also `State`, `state` and
    `update_state`.
    """

    kind = ComponentKind.CONTROLLER
    _sees_sensed = True
    _own_kernel_methods = ("run", "run_closing", "compute")
    _pending: Any = None
    custom_inputs: tuple[str, ...] = ()
    """Names of arrays of the simulation's control that it reads beside targets and feedforward."""

    def compute(
        self,
        positions: Any,
        velocities: Any,
        target_pos: Any,
        target_vel: Any,
        feedforward: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        forces: wp.array,
        state: Any,
        dt: float | None,
        device: Any = None,
        *,
        custom_inputs: Mapping[str, wp.array] | None = None,
    ) -> None:
        """Compute the effort of each DOF into ``forces``, without touching ``state``.

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
            state: State of the controller; None where it has none.
            dt: Time step [s].
            device: Where to run.
            custom_inputs: Arrays of the names in the controller's ``custom_inputs``, read at ``vel_indices``.
        """
        self._require_law("compute()")
        if self.is_stateful() and state is None:
            raise StateError(f"{type(self).__name__} is stateful: compute() needs its state")
        num_actuators = forces.shape[0]
        device = self._finalize_if_needed(device, num_actuators)
        arrays = (positions, velocities, target_pos, target_vel, feedforward)
        indices = (pos_indices, vel_indices, target_pos_indices, target_vel_indices, target_vel_indices)
        given = {n: Given(array, at) for n, array, at in zip(SIGNALS, arrays, indices, strict=True)}
        for name in self.custom_inputs:
            given[custom_signal(name)] = Given(read_array(custom_inputs or {}, name, "custom_inputs"), vel_indices)
        self._pending = self.state(num_actuators, device)
        run_alone(self, given, {"effort": forces}, state, self._pending, self.check_dt(dt))

    def update_state(self, current_state: Any, next_state: Any) -> None:
        """Move what the last `compute` found into ``next_state``."""
        if self.is_stateful():
            if self._pending is None:
                raise StateError(f"{type(self).__name__}: update_state() without a compute() before")
            next_state.assign(self._pending)

    def run(
        self,
        given: Mapping[str, Given],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, by `compute` where that is overridden."""
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
