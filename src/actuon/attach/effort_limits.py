# SPDX-License-Identifier: Apache-2.0
"""Limits of joints, applied to the efforts of chains before they are written to the engine.

No other code clips efforts after a chain. The kernels start at robot ``first``: they run for all robots at once, or for
one robot in an engine's compiled loop. A thread handles ``span`` DOFs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..components.math import limit
from ..kernel.chain import CLIPPED
from ..kernel.launch import CCall, Launch
from ..kernel.types import Flavour, Floats, Ints, module_options

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

if TYPE_CHECKING:
    Table = Any
    Places = Any
else:
    Table = wp.array2d(dtype=wp.float32)
    Places = wp.array2d(dtype=wp.int32)


@wp.kernel
def _limit(
    first: int,
    span: int,
    given: Table,
    largest: Table,
    lower: Table,
    upper: Table,
    columns: Ints,
    effort: Table,
    applied: Table,
    derivative_q: Table,
    derivative_qd: Table,
    lowest: Table,
    highest: Table,
):
    """Limit efforts, and their derivatives and bounds if given. NaN and infinity stay, so that checks find them."""
    thread, part = wp.tid()
    i = first + thread
    for j in range(part * span, wp.min((part + 1) * span, columns.shape[0])):
        dof = columns[j]
        wanted = given[i, dof]
        kept = wanted
        is_limited = int(0)
        if largest:
            most = largest[i, j]
            kept = limit(kept, -most, most)
            if wp.abs(wanted) >= most:
                is_limited = 1
            if lowest:
                lowest[i, dof] = wp.max(lowest[i, dof], -most)
                highest[i, dof] = wp.min(highest[i, dof], most)
        if lower:
            kept = limit(kept, lower[i, dof], upper[i, dof])
            if kept <= lower[i, dof] or kept >= upper[i, dof]:
                is_limited = 1
            if lowest:
                lowest[i, dof] = wp.max(lower[i, dof], lowest[i, dof])
                highest[i, dof] = wp.min(upper[i, dof], highest[i, dof])
        kept = wp.where(wp.isfinite(wanted), kept, wanted)
        effort[i, dof] = kept
        if applied:
            applied[i, dof] = kept
        if derivative_q:  # noqa: SIM102 - arrays and numbers do not mix in a condition
            if is_limited == 1:
                derivative_q[i, dof] = 0.0
                derivative_qd[i, dof] = 0.0


@wp.kernel
def _show_drive(
    first: int,
    span: int,
    computed: Table,
    feedforward: Floats,
    largest: Table,
    lower: Table,
    upper: Table,
    columns: Ints,
    places: Places,
    clipped: float,
    effort: Table,
    applied: Table,
):
    """Write the feedforward for the engine, and the effort of its own drive up to its limit."""
    thread, part = wp.tid()
    i = first + thread
    for j in range(part * span, wp.min((part + 1) * span, columns.shape[0])):
        dof = columns[j]
        most = largest[i, j]
        beside = feedforward[places[i, j]]
        wanted = computed[i, dof]
        drive = wanted - beside
        given = limit(drive, wp.max(-most, lower[i, j]), wp.min(most, upper[i, j]))
        effort[i, dof] = beside
        applied[i, dof] = wp.where(wp.abs(drive - given) > clipped * wp.abs(drive), given + beside, wanted)


@dataclass(frozen=True)
class Settler:
    """A kernel that computes efforts for the engine from those of chains: for all robots at once, or for one."""

    kernel: wp.Kernel
    robots: int
    columns: int
    inputs: Sequence[object]
    """Arguments except ``first`` and ``span``."""
    device: wp.Device

    def all_robots(self) -> Launch:
        """Return the launch for all robots."""
        return self._launch(self.robots)

    def one_robot(self) -> tuple[Launch, CCall | None]:
        """Return the launch for one robot, and its call in compiled code."""
        launch = self._launch(1)
        return launch, launch.c_call

    def _launch(self, robots: int) -> Launch:
        span = self.columns if self.device.is_cpu else 1  # a thread of a CPU reads all arrays' addresses again
        return Launch(self.kernel, (robots, self.columns // span), self.device, [0, span, *self.inputs])


Bounds = tuple[wp.array, wp.array] | None
"""Lowest and highest effort of joints [N·m or N], each of shape (N, D); None: no limit."""


def effort_limiter(
    given: wp.array,
    columns: np.ndarray,
    bounds: Bounds,
    effort: wp.array,
    largest: wp.array | None = None,
    applied: wp.array | None = None,
    derivatives: Sequence[wp.array] = (),
) -> Settler:
    """Return a kernel that limits efforts of DOFs.

    Args:
        given: Efforts of the chains [N·m or N], shape (N, D).
        columns: Indices of the DOFs, shape (J,).
        bounds: Limits of the joints.
        effort: Receives efforts for the engine [N·m or N], shape (N, D); may be ``given``.
        largest: Largest effort of the engine [N·m or N], shape (N, J). Default: no limit.
        applied: Receives efforts at the joints [N·m or N], shape (N, D).
        derivatives: Derivatives of the effort by position and velocity, and its lowest and highest value, each of shape
            (N, D), which are limited as well.
    """
    chosen = wp.array(columns, dtype=wp.int32, device=given.device)
    lower, upper = bounds or (None, None)
    optional = tuple(derivatives) or (None,) * 4
    inputs = [given, largest, lower, upper, chosen, effort, applied, *optional]
    return Settler(_limit, given.shape[0], len(columns), inputs, given.device)


def drive_shower(
    computed: wp.array,
    feedforward: wp.array,
    largest: wp.array,
    bounds: tuple[wp.array, wp.array],
    columns: np.ndarray,
    places: np.ndarray,
    effort: wp.array,
    applied: wp.array,
) -> Settler:
    """Return a kernel that writes the feedforward of engine drives, and their efforts for telemetry.

    Args:
        computed: Effort of the drive with the feedforward, without limits [N·m or N], shape (N, D).
        feedforward: Feedforward [N·m or N], flat.
        largest: Largest effort of the drive [N·m or N], shape (N, J).
        bounds: Its lowest and highest effort [N·m or N], each of shape (N, J).
        columns: Indices of the DOFs, shape (J,).
        places: Indices of their feedforward, shape (N, J).
        effort: Receives efforts for the engine [N·m or N], shape (N, D).
        applied: Receives efforts at the joints [N·m or N], shape (N, D).
    """
    chosen, at = (wp.array(numbers, dtype=wp.int32, device=computed.device) for numbers in (columns, places))
    inputs = [computed, feedforward, largest, *bounds, chosen, at, CLIPPED, effort, applied]
    return Settler(_show_drive, computed.shape[0], len(columns), inputs, computed.device)
