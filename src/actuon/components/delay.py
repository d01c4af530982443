# SPDX-License-Identifier: Apache-2.0
r"""Commands that arrive late: target position, target velocity and feedforward together.

.. math:: u_{out}(t) = u(t - d)

with a lag :math:`d` in steps for each DOF. Just after a reset the ring is empty and the command passes as it is; until
it holds :math:`d` entries, the oldest one stands in.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from .. import memory
from ..errors import ParameterError, StateError, shown
from ..fields import Config, param
from ..memory import Bools, Floats, Indices, Ints, Longs, scalar
from ..pipeline import RING_STATE, Flavour, module_options, ring_offset
from .base import Component
from .state import as_mask, refuse_rebinding, refuse_reset_on_tape

wp.set_module_options(module_options(Flavour.GRAD))

_serial = itertools.count(1)
_LONGEST = 10_000
"""Longest lag [steps]: a second at ten thousand steps per second. It keeps rings small, whatever a file says."""
_MOST_ENTRIES = 2**28
"""Steps times DOFs of one ring: 3 GiB in its three buffers."""


@dataclass(frozen=True)
class DelayConfig(Config):
    """A lag, in steps of the actuator."""

    schema = "NewtonActuatorDelayAPI"

    delay_steps: int = param(
        "steps", "Steps by which commands are late.", minimum=0, maximum=_LONGEST, integer=True, fallback=1
    )

    def build(self) -> Delay:
        return Delay(self.delay_steps, max(1, self.delay_steps))


class Delay(Component):
    """Holds commands back by a number of steps, per DOF.

    Args:
        delay_steps: Lags [steps], int32 of shape (N,).
        max_delay: Depth of the ring [steps]: the longest lag that ``delay_steps`` may hold, now or later.
    """

    config = DelayConfig
    delay_steps: Any

    def __init__(self, delay_steps: Any, max_delay: int):
        whole = isinstance(max_delay, (int, np.integer)) and not isinstance(max_delay, bool)
        if not whole or not 1 <= max_delay <= _LONGEST:
            raise ParameterError(
                f"Delay.max_delay: got {shown(max_delay)}; must be a whole number ≥ 1 and ≤ {_LONGEST} [steps]"
            )
        self.buf_depth = int(max_delay)
        super().__init__(delay_steps)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, max_delay={self.buf_depth})"

    def _check_together(self, values: Mapping[str, Any]) -> None:
        steps = values["delay_steps"]
        steps = steps.numpy() if isinstance(steps, wp.array) else steps
        if np.size(steps) and np.max(steps) > self.buf_depth:
            at = f" at index {int(np.argmax(steps))}" if np.ndim(steps) else ""
            raise ParameterError(f"Delay.delay_steps: got {np.max(steps)}{at}; max_delay is {self.buf_depth}")

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        """Check the lag in ``args`` and return it as a plain scalar. It has no default here: it is what a delay is."""
        if "delay_steps" not in args:
            raise ParameterError("Delay: needs 'delay_steps'")
        return super().resolve_arguments(args)

    def finalize(self, device: Any, num_actuators: int, requires_grad: bool = False) -> None:
        """Bring the lags onto ``device``. Called by `Actuator`.

        Args:
            device: Where the actuator runs.
            num_actuators: Number of DOFs, N.
            requires_grad: Give states and delayed commands gradients.
        """
        if self.buf_depth * num_actuators > _MOST_ENTRIES:
            raise ParameterError(
                f"Delay: {self.buf_depth} steps × {num_actuators} DOFs are more than {_MOST_ENTRIES} entries, "
                "which take 3 GiB in each state; shorten the longest delay, or split the actuator"
            )
        super().finalize(device, num_actuators)
        self.requires_grad = requires_grad

    def state(self, num_actuators: int, device: Any) -> Delay.State:
        """Return a new, empty ring for ``num_actuators`` DOFs."""
        return Delay.State(self.buf_depth, num_actuators, wp.get_device(device), self.requires_grad)

    def get_delayed_targets(
        self,
        target_pos: Any,
        target_vel: Any,
        feedforward: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        current_state: Delay.State,
    ) -> tuple[wp.array, wp.array, wp.array]:
        """Return what arrives now: target positions, target velocities and feedforward, each of shape (N,).

        Args:
            target_pos: Current target positions [rad or m], read at ``pos_indices``.
            target_vel: Current target velocities [rad/s or m/s], read at ``vel_indices``.
            feedforward: Current feedforward efforts [N·m or N], read at ``vel_indices``; None stands for zeros.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            current_state: Ring to read.
        """
        n, device = self._check_states(current_state)
        outputs = tuple(wp.zeros(n, device=device, requires_grad=self.requires_grad) for _ in range(3))
        ring = current_state.arguments("in")
        for command, indices, name, output in zip(
            (target_pos, target_vel, feedforward),
            (pos_indices, vel_indices, vel_indices),
            ("ring_target_q_in", "ring_target_qd_in", "ring_feedforward_in"),
            outputs,
            strict=True,
        ):
            inputs = [n, self.buf_depth, current_state.cell_size, command, indices, self.delay_steps]
            inputs += [ring[name], ring["pushes_in"], ring["newest_in"]]
            wp.launch(_read_late, n, inputs, [output], device=device)
        return outputs

    def update_state(
        self,
        target_pos: Any,
        target_vel: Any,
        feedforward: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        current_state: Delay.State,
        next_state: Delay.State,
    ) -> None:
        """Write the current commands into ``next_state``, which may be ``current_state``.

        Args:
            target_pos: Current target positions [rad or m], read at ``pos_indices``.
            target_vel: Current target velocities [rad/s or m/s], read at ``vel_indices``.
            feedforward: Current feedforward efforts [N·m or N], read at ``vel_indices``; None stands for zeros.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            current_state: Ring so far.
            next_state: Ring to write.
        """
        n, device = self._check_states(current_state, next_state)
        commands = [target_pos, target_vel, feedforward, pos_indices, vel_indices]
        before, after = current_state.arguments("in"), next_state.arguments("out")
        inputs = [n, self.buf_depth, current_state.cell_size, current_state is next_state, *commands, *before.values()]
        wp.launch(_push, n, inputs, list(after.values()), device=device)

    def _check_states(self, *states: Delay.State) -> tuple[int, wp.Device]:
        """Return the number of DOFs and the device of states that fit this delay."""
        n, device = states[0].num_pushes.shape[0], states[0].num_pushes.device
        for state in states:
            if state.buffer_pos.shape != (self.buf_depth, n) or state.buffer_pos.device != device:
                raise StateError(
                    f"Delay: got a ring of {state.buffer_pos.shape} (steps, DOFs) on '{state.buffer_pos.device}'; "
                    f"must be {(self.buf_depth, n)} on '{device}'"
                )
        return n, self._finalize_if_needed(device, n)

    class State:
        """A ring of past commands for each DOF.

        A step reads one state and writes another. Stepping back and forth between two states moves one row from the
        one to the other; stepping to any other state moves the whole ring. To tell the cases apart, a state carries a
        tag that no other content has had, and the tag of the state that it came from.

        ``write_idx`` and the tags are kept once per cell of DOFs, a cell being what one thread of a kernel works on.
        That lets a step write them in place while other threads are still reading theirs.
        """

        buffer_pos: wp.array
        """Past target positions [rad or m], shape (max_delay, N)."""
        buffer_vel: wp.array
        """Past target velocities [rad/s or m/s], shape (max_delay, N)."""
        buffer_act: wp.array
        """Past feedforward efforts [N·m or N], shape (max_delay, N)."""
        num_pushes: wp.array
        """How many rows hold a command since the last reset, shape (N,)."""
        write_idx: wp.array
        """The row written last, shape (cells,)."""

        def __init__(self, depth: int, num_actuators: int, device: wp.Device, requires_grad: bool):
            def ring() -> wp.array:
                return wp.zeros((depth, num_actuators), device=device, requires_grad=requires_grad)

            self.cell_size = 1 if device.is_cuda else memory.CELL
            cells = -(-num_actuators // self.cell_size)
            self.buffer_pos, self.buffer_vel, self.buffer_act = ring(), ring(), ring()
            self.num_pushes = wp.zeros(num_actuators, dtype=wp.int32, device=device)
            self.write_idx = wp.full(cells, depth - 1, dtype=wp.int32, device=device)
            self._tag = wp.full(cells, next(_serial) << 32, dtype=wp.int64, device=device)
            self._origin = wp.zeros(cells, dtype=wp.int64, device=device)
            self._sealed = True

        def __setattr__(self, name: str, value: Any) -> None:
            refuse_rebinding(self, name)
            super().__setattr__(name, value)

        def arguments(self, side: str) -> dict[str, wp.array]:
            """The arrays as arguments of a kernel that reads (``"in"``) or writes (``"out"``) them."""
            rings = (array.flatten() for array in (self.buffer_pos, self.buffer_vel, self.buffer_act))
            values = (*rings, self.num_pushes, self.write_idx, self._tag, self._origin)
            return {f"{name}_{side}": value for name, value in zip(RING_STATE, values, strict=True)}

        def reset(self, mask: Any = None) -> None:
            """Empty the ring, of all DOFs or of those where ``mask``, bool of shape (N,), is true."""
            refuse_reset_on_tape([self.buffer_pos])
            device, n = self.num_pushes.device, self.num_pushes.shape[0]
            if mask is not None:
                mask = as_mask(mask, n, device)
            depth = self.buffer_pos.shape[0]
            ring = self.arguments("in")
            del ring["origin_in"]
            wp.launch(_reset, n, [mask, n, depth, self.cell_size, *ring.values()], device=device)

        def assign(self, other: Delay.State) -> None:
            """Copy the ring of ``other`` into this one."""
            if self.buffer_pos.shape != other.buffer_pos.shape:
                raise StateError(
                    f"cannot assign a ring of {other.buffer_pos.shape} to one of {self.buffer_pos.shape} (steps, DOFs)"
                )
            for name in ("buffer_pos", "buffer_vel", "buffer_act", "num_pushes", "write_idx"):
                wp.copy(getattr(self, name), getattr(other, name))
            cells = self.write_idx.shape[0]
            wp.launch(_mark_as_copy, cells, [other._tag], [self._tag, self._origin], device=self.write_idx.device)


@wp.kernel
def _read_late(
    n: int,
    depth: int,
    cell_size: int,
    command: Floats,
    indices: Indices,
    delay_steps: Ints,
    ring: Floats,
    pushes: Ints,
    newest: Ints,
    output: Floats,
):
    i = wp.tid()
    now = scalar.gather(command, indices, 0, i, 1)
    late = ring_offset(delay_steps[i], pushes[i], newest[i / cell_size], depth, n)
    output[i] = scalar.ring_read(ring, late, late, now, i, 1)


@wp.kernel
def _push(
    n: int,
    depth: int,
    cell_size: int,
    in_place: bool,
    target_pos: Floats,
    target_vel: Floats,
    feedforward: Floats,
    pos_indices: Indices,
    vel_indices: Indices,
    ring_pos_in: Floats,
    ring_vel_in: Floats,
    ring_act_in: Floats,
    pushes_in: Ints,
    newest_in: Ints,
    tag_in: Longs,
    origin_in: Longs,
    ring_pos_out: Floats,
    ring_vel_out: Floats,
    ring_act_out: Floats,
    pushes_out: Ints,
    newest_out: Ints,
    tag_out: Longs,
    origin_out: Longs,
):
    i = wp.tid()
    cell = i / cell_size
    newest = newest_in[cell]
    slot = (newest + 1) % depth
    if not in_place:
        for row in range(depth):
            if row != slot:
                at = row * n + i
                ring_pos_out[at] = ring_pos_in[at]
                ring_vel_out[at] = ring_vel_in[at]
                ring_act_out[at] = ring_act_in[at]
    ring_pos_out[slot * n + i] = scalar.gather(target_pos, pos_indices, 0, i, 1)
    ring_vel_out[slot * n + i] = scalar.gather(target_vel, vel_indices, 0, i, 1)
    ring_act_out[slot * n + i] = scalar.gather(feedforward, vel_indices, 0, i, 1)
    pushes_out[i] = wp.min(pushes_in[i] + 1, depth)
    if i == wp.min((cell + 1) * cell_size, n) - 1:
        before = tag_in[cell]
        tag_out[cell] = tag_out[cell] + wp.int64(1)
        origin_out[cell] = before
        newest_out[cell] = slot


@wp.kernel(enable_backward=False)
def _reset(
    mask: Bools,
    n: int,
    depth: int,
    cell_size: int,
    ring_pos: Floats,
    ring_vel: Floats,
    ring_act: Floats,
    pushes: Ints,
    newest: Ints,
    tag: Longs,
):
    i = wp.tid()
    chosen = True
    if mask:
        chosen = mask[i]
    if chosen:
        for row in range(depth):
            ring_pos[row * n + i] = 0.0
            ring_vel[row * n + i] = 0.0
            ring_act[row * n + i] = 0.0
        pushes[i] = 0
    if i % cell_size == 0:
        cell = i / cell_size
        tag[cell] = tag[cell] + wp.int64(1)
        if not mask:
            newest[cell] = depth - 1


@wp.kernel(enable_backward=False)
def _mark_as_copy(tag_in: Longs, tag_out: Longs, origin_out: Longs):
    i = wp.tid()
    tag_out[i] = tag_out[i] + wp.int64(1)
    origin_out[i] = tag_in[i]
