# SPDX-License-Identifier: Apache-2.0
"""Dry friction in MuJoCo: its stiffness, and the external loads of joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np
import warp as wp

from ...kernel.types import Floats, Ints

Table: Any = wp.array2d(dtype=wp.float32)
Numbers: Any = wp.array2d(dtype=wp.int32)

SOFTNESS: Mapping[str, Callable[[float], tuple[float, ...]]] = {
    "dof_solref": lambda dt: (-1.0, -1.0 / dt),
    "dof_solimp": lambda dt: (0.9999, 0.9999, 0.001, 0.5, 2.0),
}
"""Fields of the model for the softness of dry friction, each with the stiffest values for a time step [s].

A friction constraint has the reference acceleration -v·b, with b = 1/dt here, and yields by a share 1 - 0.9999 of the
acceleration by the load, the smallest that MuJoCo allows. By default b is 105 1/s and the share 0.1, so that a joint
under load creeps.
"""

SEARCHES = 50
"""Smallest number of line search iterations of the solver, MuJoCo's default: with the 20 of many robot files, stiff
friction does not converge in some time steps, and joints that should stand still creep."""


def external_loads(data: Any, is_free: bool = False) -> np.ndarray:
    """Return the external load of each DOF in the last step [N·m or N], shape (nv,).

    It is the sum of gravity, Coriolis and centrifugal forces, contacts, stops and other constraints, without motor,
    springs and the DOF's own dry friction. If the model `is_free`, only gravity and motion remain.
    """
    if is_free:
        return -data.qfrc_bias
    loads: np.ndarray = data.qfrc_constraint - data.qfrc_bias
    own = np.flatnonzero(data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF))
    loads[data.efc_id[own]] -= data.efc_force[own]
    return loads


def is_free(model: Any) -> bool:
    """Return whether only dry friction of joints ever constrains a model: no contact, stop, equality or tendon."""
    off = int(model.opt.disableflags)
    touches = not off & int(mujoco.mjtDisableBit.mjDSBL_CONTACT) and bool(
        np.any(model.geom_contype) or np.any(model.geom_conaffinity) or model.npair
    )
    stops = bool(np.any(model.jnt_limited)) or bool(np.any(model.tendon_limited))
    return not touches and not stops and not model.neq and not np.any(model.tendon_frictionloss)


@wp.kernel
def _loads(constraint: Table, bias: Table, dofs: Numbers, loads: Floats):
    """Return loads including the dry friction of the joints."""
    world, i = wp.tid()
    if dofs[world, i] >= 0:
        loads[dofs[world, i]] = constraint[world, i] - bias[world, i]


@wp.kernel
def _without_own(
    num_equality: Ints, num_friction: Ints, kinds: Numbers, ids: Numbers, forces: Table, kind: int, dofs: Numbers,
    loads: Floats,
):  # fmt: skip
    """Subtract the dry friction of the joints."""
    world, row = wp.tid()
    if row < num_equality[world] + num_friction[world] and kinds[world, row] == kind:
        dof = dofs[world, ids[world, row]]
        if dof >= 0:
            wp.atomic_sub(loads, dof, forces[world, row])


def warp_load_reader(data: Any, dofs: wp.array, loads: wp.array) -> Callable[[], None]:
    """Return a function that writes the external load of each DOF in the last step [N·m or N] to ``loads``.

    Args:
        data: Data of MuJoCo Warp.
        dofs: Index in ``loads`` of each DOF of the model, or -1, shape (worlds, nv).
        loads: Flat array.
    """
    all_loads = [data.qfrc_constraint, data.qfrc_bias, dofs]
    kind = int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
    own = [data.ne, data.nf, data.efc.type, data.efc.id, data.efc.force, kind, dofs]

    def read() -> None:
        wp.launch(_loads, dofs.shape, all_loads, [loads], device=loads.device)
        wp.launch(_without_own, data.efc.force.shape, own, [loads], device=loads.device)

    return read
