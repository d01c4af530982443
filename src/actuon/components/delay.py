# SPDX-License-Identifier: Apache-2.0
r"""Delay of commands: target position, target velocity and feedforward together.

.. math:: u_{out}(t) = u(t - d)

with a delay :math:`d` in steps for each DOF. The first command after a reset is not delayed; until the buffer holds
:math:`d` entries, its oldest entry is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from ..arrays import numbers
from ..declare.config import Config
from ..declare.parameters import Parameters, Whole, param
from ..declare.registry import ComponentKind
from ..errors import ParameterError, StateError, shown
from ..kernel.chain import COMMANDS, Ring, Stage
from ..kernel.run_stage import SignalArray, run_stage
from ..kernel.state import BufferCopy, RingState, Word, ring_words
from ..typing import ArrayLike, DeviceLike
from .component import Component, HeldValues

_LONGEST = 10_000
"""Longest delay [steps], one second at ten thousand steps per second, which bounds the memory."""
_MOST_ENTRIES = 2**28
"""Largest number of steps times DOFs: 3 GiB for three signals."""


class Lag(Parameters):
    delay_steps: Whole = param(
        "steps", "Steps by which commands are delayed.", minimum=0, maximum=_LONGEST, integer=True, fallback=1
    )


class DelayConfig(Lag, Config):
    """Delay of the commands in steps of the actuator.

    Examples:
        >>> delay = actuon.DelayConfig(delay_steps=2)
    """

    schema = "NewtonActuatorDelayAPI"


class Delay(Lag, Component):
    """Delays commands by a number of steps, per DOF.

    Args:
        delay_steps: Delays [steps], int32 of shape (N,).
        max_delay: Depth of the buffer: the longest delay that ``delay_steps`` may have, now or later [steps].

    Examples:
        >>> delay = actuon.Delay(delay_steps=[2, 3], max_delay=4)
    """

    kind = ComponentKind.DELAY
    config = DelayConfig
    _returns = COMMANDS
    _is_ring = True
    _own_kernel_methods = (*Component._own_kernel_methods, "get_delayed_targets", "update_state")

    def __init__(self, delay_steps: ArrayLike, max_delay: int):
        whole = isinstance(max_delay, (int, np.integer)) and not isinstance(max_delay, bool)
        if not whole or not 1 <= max_delay <= _LONGEST:
            raise ParameterError(
                f"Delay.max_delay: got {shown(max_delay)}; must be a whole number ≥ 1 and ≤ {_LONGEST} [steps]"
            )
        self.buf_depth = int(max_delay)
        super().__init__(delay_steps)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, max_delay={self.buf_depth})"

    def _check_together(self, values: HeldValues) -> None:
        super()._check_together(values)
        steps = numbers(values["delay_steps"], "Delay.delay_steps")
        if steps.size and steps.max() > self.buf_depth:
            at = f" at index {int(np.argmax(steps))}" if steps.ndim else ""
            raise ParameterError(
                f"Delay.delay_steps: got {steps.max()}{at}; must be at most max_delay, {self.buf_depth} [steps]"
            )

    @classmethod
    def with_values(cls, values: Mapping[str, Any]) -> Delay:
        """Return a delay with a buffer for the longest of these delays."""
        steps = values["delay_steps"]
        return cls(steps, int(np.max(numbers(steps, "Delay.delay_steps"), initial=1)))

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, object]) -> dict[str, Any]:
        """Check the delay in ``args`` and return it as a plain scalar. It is required."""
        if "delay_steps" not in args:
            raise ParameterError("Delay: needs 'delay_steps'")
        return super().resolve_arguments(args)

    def finalize(self, device: DeviceLike, num_actuators: int, requires_grad: bool | None = None) -> None:
        """Copy the delays to ``device``. Called by `Actuator`.

        Args:
            device: Device of the actuator.
            num_actuators: Number of DOFs, N.
            requires_grad: Whether states and delayed commands have gradients. None keeps the current setting.
        """
        if self.buf_depth * num_actuators > _MOST_ENTRIES:
            raise ParameterError(
                f"Delay: got {self.buf_depth} steps × {num_actuators} DOFs; must be at most {_MOST_ENTRIES} entries, "
                "3 GiB in each state: shorten the longest delay, or split the actuator"
            )
        super().finalize(device, num_actuators)
        if requires_grad is not None:
            self.requires_grad = requires_grad

    def stage(self) -> Stage:
        return dataclasses.replace(super().stage(), ring=Ring(COMMANDS, lag="delay_steps"))

    def is_stateful(self) -> bool:
        return True

    def words(self) -> tuple[Word, ...]:
        return ring_words(self.buf_depth, len(COMMANDS))

    def get_delayed_targets(
        self,
        target_pos: wp.array,
        target_vel: wp.array,
        feedforward: wp.array | None,
        pos_indices: wp.array,
        vel_indices: wp.array,
        current_state: Delay.State,
    ) -> tuple[wp.array, wp.array, wp.array]:
        """Return the delayed target positions, target velocities and feedforward, each of shape (N,).

        Args:
            target_pos: Current target positions [rad or m], read at ``pos_indices``.
            target_vel: Current target velocities [rad/s or m/s], read at ``vel_indices``.
            feedforward: Current feedforward efforts [N·m or N], read at ``vel_indices``; None means zero.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            current_state: Buffer to read.
        """
        self._check_states(current_state)
        indices = (pos_indices, vel_indices, vel_indices)
        return self._pass_on((target_pos, target_vel, feedforward), indices, current_state, current_state.empty_like())

    def update_state(
        self,
        target_pos: wp.array,
        target_vel: wp.array,
        feedforward: wp.array | None,
        pos_indices: wp.array,
        vel_indices: wp.array,
        current_state: Delay.State,
        next_state: Delay.State,
    ) -> None:
        """Write the current command into ``next_state``, after everything in ``current_state``.

        Args:
            target_pos: Current target positions [rad or m], read at ``pos_indices``.
            target_vel: Current target velocities [rad/s or m/s], read at ``vel_indices``.
            feedforward: Current feedforward efforts [N·m or N], read at ``vel_indices``; None means zero.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            current_state: Buffer before the step.
            next_state: Buffer to write.
        """
        self._check_states(current_state, next_state)
        indices = (pos_indices, vel_indices, vel_indices)
        self._pass_on((target_pos, target_vel, feedforward), indices, current_state, next_state)

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, by `get_delayed_targets` and `update_state` if one of them is overridden."""
        if self.is_fused():
            super().run(given, results, current_state, next_state, dt)
            return
        q, qd, feedforward = (given[name].array for name in COMMANDS)
        command = (q, qd, feedforward, given["target_q"].indices, given["target_qd"].indices)
        for name, late in zip(COMMANDS, self.get_delayed_targets(*command, current_state), strict=True):
            wp.copy(results[name], late)
        self.update_state(*command, current_state, next_state)

    def _pass_on(
        self,
        commands: tuple[wp.array | None, ...],
        indices: tuple[wp.array, ...],
        current_state: Delay.State,
        next_state: Delay.State,
    ) -> tuple[wp.array, wp.array, wp.array]:
        n, device = current_state.memory.cells.num_dofs, current_state.memory.device
        given = {name: SignalArray(c, at) for name, c, at in zip(COMMANDS, commands, indices, strict=True)}
        late = {name: wp.zeros(n, device=device, requires_grad=self.requires_grad) for name in COMMANDS}
        run_stage(self, given, late, current_state, next_state, None)
        return late["target_q"], late["target_qd"], late["feedforward"]

    def _check_states(self, *states: Delay.State) -> None:
        """Raise if states do not fit this delay, and move it to their device."""
        memory = states[0].memory
        n, device = memory.cells.num_dofs, memory.device
        for state in states:
            got = state.depth, state.memory.cells.num_dofs
            if got != (self.buf_depth, n) or state.memory.device != device:
                raise StateError(
                    f"Delay: got a delay buffer of {got} (steps, DOFs) on '{state.memory.device}'; "
                    f"must be {(self.buf_depth, n)} on '{device}'"
                )
        self._finalize_if_needed(device, n)

    class State(RingState):
        """Buffer of past commands for each DOF. See `RingState`."""

        @property
        def buffer_pos(self) -> BufferCopy:
            """Past target positions [rad or m], shape (max_delay, N), the newest first."""
            return self.past(0)

        @property
        def buffer_vel(self) -> BufferCopy:
            """Past target velocities [rad/s or m/s], shape (max_delay, N), the newest first."""
            return self.past(1)

        @property
        def buffer_act(self) -> BufferCopy:
            """Past feedforward efforts [N·m or N], shape (max_delay, N), the newest first."""
            return self.past(2)
