# SPDX-License-Identifier: Apache-2.0
"""The state of a stage that looks back: a ring of past signals (see `actuon.kernel.ring`)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from ..errors import StateError
from ..kernel.ring import ring_size
from ..kernel.types import CELL, LANES, Bools, Ints, Longs
from .state import State, as_mask, check_range, refuse_reset_on_tape

_serial = itertools.count(1)


class RingState(State):
    """The last values of some signals, for each DOF.

    Args:
        depth: How many steps one may look back.
        columns: Number of signals.
        num_actuators: Number of DOFs, N.
        device: Where it lives.
        requires_grad: Allocate gradients.
    """

    num_pushes: wp.array
    """How many steps back each DOF may look, shape (N,)."""
    write_idx: wp.array
    """The row written last, shape (cells,)."""

    def __init__(self, depth: int, columns: int, num_actuators: int, device: wp.Device, requires_grad: bool):
        self.depth = depth
        self.columns = columns
        self.cell_size = 1 if device.is_cuda else CELL
        cells = -(-num_actuators // self.cell_size)
        size = ring_size(num_actuators, depth + 1, columns)
        self._ring = wp.zeros(size, dtype=wp.float32, device=device, requires_grad=requires_grad)
        self.num_pushes = wp.zeros(num_actuators, dtype=wp.int32, device=device)
        self.write_idx = wp.full(cells, depth - 1, dtype=wp.int32, device=device)
        self._filled = wp.zeros(cells, dtype=wp.int32, device=device)
        self._tag = wp.full(cells, next(_serial) << 32, dtype=wp.int64, device=device)
        self._spare = wp.zeros(cells, dtype=wp.int64, device=device)
        self._origin = wp.zeros(cells, dtype=wp.int64, device=device)
        self._sealed = True

    def arrays(self) -> dict[str, wp.array]:
        """The arrays by name, as kernels call them."""
        return {
            "ring": self._ring,
            "pushes": self.num_pushes,
            "newest": self.write_idx,
            "filled": self._filled,
            "tag": self._tag,
            "spare": self._spare,
            "origin": self._origin,
        }

    def past(self, column: int) -> wp.array:
        """A copy of the past values of one signal, shape (depth, N); row k is that of k + 1 steps ago, zero before."""
        n = self.num_pushes.shape[0]
        rows = self.depth + 1
        by_row = self._ring.numpy().reshape(rows, -1, self.columns, LANES)[:, :, column].reshape(rows, -1)[:, :n]
        newest = np.repeat(self.write_idx.numpy(), self.cell_size)[:n]
        back = np.arange(self.depth)[:, None]
        values = np.take_along_axis(by_row, (newest - back) % rows, axis=0)
        values = np.where(back < self.num_pushes.numpy(), values, np.float32(0.0))
        return wp.array(values, dtype=wp.float32, device=self._ring.device)

    def reset(self, mask: Any = None) -> None:
        """Forget the past, of all DOFs or of those where ``mask``, bool of shape (N,), is true."""
        refuse_reset_on_tape([self._ring])
        device, n = self.num_pushes.device, self.num_pushes.shape[0]
        if mask is None:
            self.num_pushes.zero_()
            self._filled.zero_()
            self.write_idx.fill_(self.depth - 1)
        else:
            inputs = [as_mask(mask, n, device), self.cell_size, self.num_pushes, self._filled]
            wp.launch(_forget, n, inputs, device=device)

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the ring of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        if not isinstance(other, RingState) or _shape(self) != _shape(other):
            raise StateError(f"cannot assign {_shape(other)} to {_shape(self)}")
        if mask is not None:
            self._assign_some(other, np.flatnonzero(mask))
            return
        for name in ("ring", "pushes", "newest", "filled", "spare"):
            wp.copy(self.arrays()[name], other.arrays()[name])
        cells = self.write_idx.shape[0]
        wp.launch(_mark_as_copy, cells, [other._tag], [self._tag, self._origin], device=self.write_idx.device)

    def check_saved(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Refuse arrays of a file that no step gives: a kernel would read and write beside the ring."""
        n = self.num_pushes.shape[0]
        ring = values["ring"].reshape(self.depth + 1, -1, self.columns, LANES).transpose(0, 2, 1, 3)
        past = ring.reshape(self.depth + 1, self.columns, -1)[..., :n]  # beyond the last DOF may be anything
        for name in ("pushes", "newest", "filled"):
            check_range(f"{where}{name}", values[name], 0, self.depth)
        back = (np.repeat(values["newest"], self.cell_size)[:n] - np.arange(self.depth + 1)[:, None]) % (self.depth + 1)
        is_past = back < values["pushes"]  # and so may what a DOF cannot look back at
        super().check_saved(where, {**values, "ring": np.where(is_past[:, None], past, np.float32(0.0))})
        most = np.repeat(values["filled"], self.cell_size)[:n]
        bad = np.flatnonzero(most > values["pushes"])
        if bad.size:
            raise StateError(
                f"{where}filled: is {most[bad[0]]} where 'pushes' is {values['pushes'][bad[0]]}, at DOF {bad[0]}; "
                "must not be larger"
            )

    def take_saved(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over arrays of a file that were checked. Another ring is not taken for a copy of it any more."""
        super().take_saved(values)
        self._spare.zero_()
        self._origin.zero_()
        self._tag.assign(self._tag.numpy() + 1)

    def _assign_some(self, other: RingState, dofs: np.ndarray) -> None:
        """Copy the past of some DOFs, whose rows lie elsewhere in the other ring."""
        target, source = (s._ring.numpy().reshape(s.depth + 1, -1, s.columns, LANES) for s in (self, other))
        back, rows = np.arange(self.depth)[:, None], self.depth + 1
        cells, blocks, lanes = dofs // self.cell_size, dofs // LANES, dofs % LANES
        to, start = ((s.write_idx.numpy()[cells] - back) % rows for s in (self, other))
        target[to, blocks, :, lanes] = source[start, blocks, :, lanes]
        pushes, filled, tag, origin = (a.numpy() for a in (self.num_pushes, self._filled, self._tag, self._origin))
        pushes[dofs] = other.num_pushes.numpy()[dofs]
        filled[cells] = 0
        tag[np.unique(cells)] += 1
        origin[cells] = 0
        if not self._ring.device.is_cpu:
            held = (self._ring, self.num_pushes, self._filled, self._tag, self._origin)
            for array, values in zip(held, (target.ravel(), pushes, filled, tag, origin), strict=True):
                array.assign(values)


def _shape(state: Any) -> str:
    if not isinstance(state, RingState):
        return f"a {type(state).__name__}"
    steps, dofs = state.depth, state.num_pushes.shape[0]
    return f"a ring of {state.columns} signals, {steps} steps, {dofs} DOFs"


@wp.kernel(enable_backward=False)
def _forget(mask: Bools, cell_size: int, pushes: Ints, filled: Ints):
    i = wp.tid()
    if mask[i]:
        pushes[i] = 0
        filled[i / cell_size] = 0


@wp.kernel(enable_backward=False)
def _mark_as_copy(tag_in: Longs, tag_out: Longs, origin_out: Longs):
    i = wp.tid()
    tag_out[i] = tag_out[i] + wp.int64(1)
    origin_out[i] = tag_in[i]
