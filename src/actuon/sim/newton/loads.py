# SPDX-License-Identifier: Apache-2.0
"""What pushes on joints from outside, as Newton's MuJoCo solver tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ...kernel.types import Floats, Ints
from ..mujoco.friction import external_loads

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


def load_reader(solver: Any, loads: wp.array) -> Callable[[], None]:
    """Return what writes the external load of each DOF in the last step [N·m or N] to ``loads``, at each call.

    Args:
        solver: A ``SolverMuJoCo``.
        loads: Flat, one for each DOF of Newton's model.
    """
    mujoco, _ = solver.import_mujoco()
    of_newton = solver.mjc_dof_to_newton_dof
    if solver.use_mujoco_cpu:
        return _native_reader(mujoco, solver.mj_data, of_newton.numpy()[0], loads.numpy())
    data, kind = solver.mjw_data, int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
    all_loads = [data.qfrc_constraint, data.qfrc_bias, of_newton]
    own = [data.ne, data.nf, data.efc.type, data.efc.id, data.efc.force, kind, of_newton]

    def read() -> None:
        wp.launch(_loads, of_newton.shape, all_loads, [loads], device=loads.device)
        wp.launch(_without_own, data.efc.force.shape, own, [loads], device=loads.device)

    return read


def _native_reader(mujoco: Any, data: Any, dofs: np.ndarray, loads: np.ndarray) -> Callable[[], None]:
    has = dofs >= 0

    def read() -> None:
        loads[dofs[has]] = external_loads(mujoco, data)[has]

    return read
