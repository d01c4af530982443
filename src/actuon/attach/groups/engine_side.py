# SPDX-License-Identifier: Apache-2.0
"""From the efforts of a group's model to what the engine gets, and what its joints get together with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...components.math import limit
from ...kernel.chain import CLIPPED
from ...kernel.launch import Launch
from ...kernel.types import Flavour, Floats, Ints, module_options

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

Table: Any = wp.array2d(dtype=wp.float32)
Places: Any = wp.array2d(dtype=wp.int32)


@wp.kernel
def _explicit(limited: Table, effort_limit_sim: Table, columns: Ints, effort: Table, applied: Table):
    """The engine gets the model's effort, up to its own limit. What is not finite stays so, to be found."""
    i, j = wp.tid()
    dof = columns[j]
    most = effort_limit_sim[i, j]
    wanted = limited[i, dof]
    given = wp.where(wp.isfinite(wanted), limit(wanted, -most, most), wanted)
    effort[i, dof] = given
    applied[i, dof] = given


@wp.kernel
def _tangent(
    limited: Table,
    effort_limit_sim: Table,
    columns: Ints,
    effort: Table,
    applied: Table,
    slope_q: Table,
    slope_qd: Table,
    lower: Table,
    upper: Table,
):
    """The same, with slopes that are zero at the engine's limit."""
    i, j = wp.tid()
    dof = columns[j]
    most = effort_limit_sim[i, j]
    wanted = limited[i, dof]
    given = wp.where(wp.isfinite(wanted), limit(wanted, -most, most), wanted)
    effort[i, dof] = given
    applied[i, dof] = given
    if wp.abs(wanted) >= most:
        slope_q[i, dof] = 0.0
        slope_qd[i, dof] = 0.0
    lower[i, dof] = wp.max(lower[i, dof], -most)
    upper[i, dof] = wp.min(upper[i, dof], most)


@wp.kernel
def _implicit(
    computed: Table,
    feedforward: Floats,
    effort_limit_sim: Table,
    lower: Table,
    upper: Table,
    columns: Ints,
    places: Places,
    clipped: float,
    effort: Table,
    applied: Table,
):
    """The engine gets the feedforward; its own drive gives the rest, up to its limit."""
    i, j = wp.tid()
    dof = columns[j]
    most = effort_limit_sim[i, j]
    beside = feedforward[places[i, j]]
    wanted = computed[i, dof]
    drive = wanted - beside
    given = limit(drive, wp.max(-most, lower[i, j]), wp.min(most, upper[i, j]))
    effort[i, dof] = beside
    applied[i, dof] = wp.where(wp.abs(drive - given) > clipped * wp.abs(drive), given + beside, wanted)


def explicit_settler(
    limited: wp.array, effort_limit_sim: wp.array, columns: np.ndarray, effort: wp.array, applied: wp.array
) -> Callable[[], None]:
    """Return what hands on the efforts of an explicit group, at each call.

    Args:
        limited: What the model's own limits left [N·m or N], shape (N, D).
        effort_limit_sim: What the engine lets through [N·m or N], shape (N, J).
        columns: DOFs of the group, shape (J,).
        effort: Gets what the engine gets [N·m or N], shape (N, D).
        applied: Gets what the joint gets [N·m or N], shape (N, D).
    """
    chosen = wp.array(columns, dtype=wp.int32, device=limited.device)
    inputs = [limited, effort_limit_sim, chosen, effort, applied]
    return Launch(_explicit, effort_limit_sim.shape, limited.device, inputs).launch


def tangent_settler(
    limited: wp.array,
    effort_limit_sim: wp.array,
    columns: np.ndarray,
    effort: wp.array,
    applied: wp.array,
    tangent: Sequence[wp.array],
) -> Callable[[], None]:
    """The same for an explicit group whose efforts are tangents.

    Args:
        limited: As for `explicit_settler`, and so are the following.
        effort_limit_sim: What the engine lets through.
        columns: DOFs of the group.
        effort: Gets what the engine gets.
        applied: Gets what the joint gets.
        tangent: Slopes of the effort by position and velocity, and its lowest and highest, each of shape (N, D); they
            are kept to what the engine lets through.
    """
    chosen = wp.array(columns, dtype=wp.int32, device=limited.device)
    inputs = [limited, effort_limit_sim, chosen, effort, applied, *tangent]
    return Launch(_tangent, effort_limit_sim.shape, limited.device, inputs).launch


def implicit_settler(
    computed: wp.array,
    feedforward: wp.array,
    effort_limit_sim: wp.array,
    bounds: tuple[wp.array, wp.array],
    columns: np.ndarray,
    places: np.ndarray,
    effort: wp.array,
    applied: wp.array,
) -> Callable[[], None]:
    """Return what hands on the feedforward of an implicit group, and shows what its drive gives, at each call.

    Args:
        computed: The law of the drive with the feedforward, without limits [N·m or N], shape (N, D).
        feedforward: [N·m or N], flat.
        effort_limit_sim: Largest effort of the drive [N·m or N], shape (N, J).
        bounds: Its lowest and highest effort [N·m or N], each of shape (N, J).
        columns: DOFs of the group, shape (J,).
        places: Where their feedforward lies, shape (N, J).
        effort: Gets what the engine gets from here [N·m or N], shape (N, D).
        applied: Gets what the joint gets [N·m or N], shape (N, D).
    """
    chosen, at = (wp.array(numbers, dtype=wp.int32, device=computed.device) for numbers in (columns, places))
    inputs = [computed, feedforward, effort_limit_sim, *bounds, chosen, at, CLIPPED, effort, applied]
    return Launch(_implicit, effort_limit_sim.shape, effort_limit_sim.device, inputs).launch
