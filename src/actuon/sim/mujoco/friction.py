# SPDX-License-Identifier: Apache-2.0
"""Dry friction in MuJoCo: how firmly it holds, and what pushes on joints beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SOFTNESS: Mapping[str, Callable[[float], tuple[float, ...]]] = {
    "dof_solref": lambda dt: (-1.0, -1.0 / dt),
    "dof_solimp": lambda dt: (0.9999, 0.9999, 0.001, 0.5, 2.0),
}
"""Fields of the model that say how soft dry friction is, each with the firmest values for a time step [s].

A friction constraint wants the acceleration -v·b, with b = 1/dt here, and gives way by a share 1 - 0.9999 of what the
load would do, the least that MuJoCo allows. By default b is 105 1/s and the share 0.1: a joint under load creeps.
"""

SEARCHES = 50
"""Steps of a line search of the solver, at least: with the 20 of many robots' files, firm friction is not found in some
time steps, and joints that should stand still creep. MuJoCo's own default."""

_FLAGS = {"friction": ("constraint", "frictionloss")} | dict.fromkeys(
    ("viscous_friction", "quadratic_friction", "cubic_friction"), ("damper",)
)
"""Flags of an ``<option>`` without which MuJoCo makes no use of a property of joints."""


def switched_off(mujoco: Any, model: Any, name: str) -> str:
    """Return the flag of a model that switches a property of joints off; empty where it has an effect."""
    off = int(model.opt.disableflags)
    flags = _FLAGS.get(name, ())
    return next((flag for flag in flags if off & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}"))), "")


def external_loads(mujoco: Any, data: Any, is_free: bool = False) -> np.ndarray:
    """Return what pushed on each DOF in the last step [N·m or N], shape (nv,).

    Beside motor, springs and its own dry friction: gravity, Coriolis and centrifugal forces, contacts, stops and other
    constraints. Where nothing else `is_free`, gravity and motion are all.
    """
    if is_free:
        return -data.qfrc_bias
    loads: np.ndarray = data.qfrc_constraint - data.qfrc_bias
    own = np.flatnonzero(data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF))
    loads[data.efc_id[own]] -= data.efc_force[own]
    return loads


def is_free(mujoco: Any, model: Any) -> bool:
    """Whether nothing but dry friction of joints ever constrains a model: no contact, stop, equality or tendon."""
    off = int(model.opt.disableflags)
    touches = not off & int(mujoco.mjtDisableBit.mjDSBL_CONTACT) and bool(
        np.any(model.geom_contype) or np.any(model.geom_conaffinity) or model.npair
    )
    stops = bool(np.any(model.jnt_limited)) or bool(np.any(model.tendon_limited))
    return not touches and not stops and not model.neq and not np.any(model.tendon_frictionloss)
