# SPDX-License-Identifier: Apache-2.0
"""What pushes on joints from outside, as MuJoCo Warp tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from ...kernel.types import Floats, Ints

FRICTION_DOF = 1
"""What MuJoCo calls a constraint that is the dry friction of a DOF: ``mjtConstraint.mjCNSTR_FRICTION_DOF``."""

Table: Any = wp.array2d(dtype=wp.float32)
Numbers: Any = wp.array2d(dtype=wp.int32)


@wp.kernel
def _loads(constraint: Table, bias: Table, dofs: Numbers, loads: Floats):
    """Loads with the dry friction of the joints themselves."""
    world, i = wp.tid()
    if dofs[world, i] >= 0:
        loads[dofs[world, i]] = constraint[world, i] - bias[world, i]


@wp.kernel
def _without_own(
    num_equality: Ints, num_friction: Ints, kinds: Numbers, ids: Numbers, forces: Table, kind: int, dofs: Numbers,
    loads: Floats,
):  # fmt: skip
    """Take the dry friction of the joints themselves off."""
    world, row = wp.tid()
    if row < num_equality[world] + num_friction[world] and kinds[world, row] == kind:
        dof = dofs[world, ids[world, row]]
        if dof >= 0:
            wp.atomic_sub(loads, dof, forces[world, row])


def warp_load_reader(data: Any, dofs: wp.array, loads: wp.array) -> Callable[[], None]:
    """Return what writes the external load of each DOF in the last step [N·m or N] to ``loads``, at each call.

    Args:
        data: Of MuJoCo Warp.
        dofs: Where in ``loads`` each DOF of the model is, or -1, shape (worlds, nv).
        loads: Flat.
    """
    all_loads = [data.qfrc_constraint, data.qfrc_bias, dofs]
    own = [data.ne, data.nf, data.efc.type, data.efc.id, data.efc.force, FRICTION_DOF, dofs]

    def read() -> None:
        wp.launch(_loads, dofs.shape, all_loads, [loads], device=loads.device)
        wp.launch(_without_own, data.efc.force.shape, own, [loads], device=loads.device)

    return read
