# SPDX-License-Identifier: Apache-2.0
"""Properties of joints in MuJoCo's model, with a row for each: fields, flags that disable it, and access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from ...errors import SimulationError
from ..robots import DofSet
from .model import are_alike, field

if TYPE_CHECKING:
    from .added import MujocoModel

GAIN_FIELDS = (
    "actuator_gaintype",
    "actuator_biastype",
    "actuator_dyntype",
    "actuator_gainprm",
    "actuator_biasprm",
)
"""Fields of a model with the gains of actuators."""
JOINT_FIELDS = ("jnt_actfrclimited", "jnt_actfrcrange")
ACTUATOR_FIELDS = ("actuator_forcelimited", "actuator_forcerange")
CONTROL_FIELDS = ("actuator_ctrllimited", "actuator_ctrlrange")
LIMIT_FIELDS = (*ACTUATOR_FIELDS, *JOINT_FIELDS, *CONTROL_FIELDS)
"""Fields of a model with effort limits, by actuator, by joint and by place in ``ctrl``."""
STOP_FIELDS = ("jnt_limited", "jnt_range")

_DAMPER = ("damper",)


def _field(model: MujocoModel, row: Row, at: DofSet) -> np.ndarray:
    """Return values of a field of DOFs, including those of actuators."""
    fields = model.fields
    values = row.part(fields.read(row.of_dof, at, at.columns("joint_qd")))
    if row.is_added_to(model):
        (added,) = fields.each(at, [row.of_actuator], lambda *own: [_added(model, row, *own)])
        values = values + added
    return values.astype(np.float32)


def _added(model: MujocoModel, row: Row, compiled: mujoco.MjModel, dofs: np.ndarray) -> np.ndarray:
    """Return the sum of a property of actuators at these DOFs, shape (d,)."""
    return model.actuators.at_joints(compiled, row.part(field(compiled, row.of_actuator)), dofs)


def _set_field(model: MujocoModel, row: Row, at: DofSet, values: np.ndarray) -> None:
    """Write a field of DOFs, and set that of actuators to zero."""
    columns = at.columns("joint_qd")
    adds = row.is_added_to(model)
    if adds:
        _check_not_shared(model, row, at)
    _write(model, row.of_dof, row.term, at, columns, values)
    if adds:
        _write(model, row.of_actuator, row.term, at, np.array(model.actuators.ids(columns), np.int64), 0.0)
    if row.moves_constants:
        model.fields.recompute_constants(at.envs.tolist())


def _write(
    model: MujocoModel, name: str, term: int | None, at: DofSet, columns: np.ndarray, values: np.ndarray | float
) -> None:
    """Write a field of DOFs or actuators, or one of its terms."""
    now = model.fields.read(name, at, columns).copy()
    now[... if term is None else (..., term)] = values
    model.fields.write(name, at, columns, now)


def _check_not_shared(model: MujocoModel, row: Row, at: DofSet) -> None:
    """Raise an error if an actuator adds to a property of these DOFs and of others."""
    actuators, columns = model.actuators, at.columns("joint_qd")
    others = np.setdiff1d(np.flatnonzero(actuators.moves[:, columns].any(axis=1)), actuators.ids(columns))
    adds = row.part(model.fields.read(row.of_actuator, at, others)) != 0.0
    if adds.any():
        robot, column = np.argwhere(adds)[0]
        why = actuators.what_moves(model.fields.model, int(others[column]), "set")
        raise SimulationError(f"'{at.robots[robot].path}': {row.name} of joints cannot be set: {why}")


def _effort_limit(model: MujocoModel, row: Row, at: DofSet) -> np.ndarray:
    lower, upper = model.fields.each(at, LIMIT_FIELDS, lambda *own: model.limits.effort_range(*own)[:2])
    return np.maximum(np.abs(lower), np.abs(upper)).astype(np.float32)


def _set_effort_limit(model: MujocoModel, row: Row, at: DofSet, values: np.ndarray) -> None:
    model.limits_version += 1
    for i, compiled in model.fields.change(LIMIT_FIELDS, at, are_alike(values)):
        model.limits.set_effort_limits(compiled, at.columns("joint_qd"), values[i])


def _stop(model: MujocoModel, row: Row, at: DofSet) -> np.ndarray:
    joints = model.fields.model.dof_jntid[at.columns("joint_qd")]
    limited, stops = (model.fields.read(name, at, joints) for name in STOP_FIELDS)
    stop = stops[..., row.side]
    has_stop = limited.astype(bool) & (np.abs(stop) < mujoco.mjMAXVAL)
    return np.where(has_stop, stop, (-np.inf, np.inf)[row.side])


def _set_stops(model: MujocoModel, row: Row, at: DofSet, lower: np.ndarray, upper: np.ndarray) -> None:
    joints = model.fields.model.dof_jntid[at.columns("joint_qd")]
    stops = np.stack([lower, upper], axis=-1)
    values = np.isfinite(stops).any(axis=-1), np.clip(stops, -mujoco.mjMAXVAL, mujoco.mjMAXVAL)
    for name, numbers in zip(STOP_FIELDS, values, strict=True):
        model.fields.write(name, at, joints, numbers)


_PARAMETERS = ("actuator_gainprm", "actuator_biasprm")


def _gain(model: MujocoModel, row: Row, at: DofSet) -> np.ndarray:
    return model.fields.each(at, _PARAMETERS, model.actuators.gains)[row.side]


def _set_gains(model: MujocoModel, row: Row, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> None:
    actuators, columns = model.actuators, at.columns("joint_qd")
    is_set = (stiffness != 0.0) | (damping != 0.0)
    for column in np.flatnonzero(is_set.any(axis=0)).tolist():
        i = int((stiffness[:, column] if stiffness[:, column].any() else is_set[:, column]).argmax())
        why = actuators.gain_error(int(columns[column]), float(stiffness[i, column]))
        if why:
            raise SimulationError(f"{at.joint(i, column)} {why}")
    alike = are_alike(stiffness) and are_alike(damping)
    for i, compiled in model.fields.change(_PARAMETERS, at, alike):
        actuators.set_gains(compiled, columns, stiffness[i], damping[i])


def _refuse(model: MujocoModel, row: Row, at: DofSet, values: np.ndarray) -> None:
    raise SimulationError("MuJoCo has no speed limit of joints; give it to an actuator")


@dataclass(frozen=True)
class Row:
    """A property of joints in MuJoCo's model. Unit and range are those of `sim.engine.PROPERTIES`."""

    name: str
    of_dof: str = ""
    """Field of the DOFs."""
    of_actuator: str = ""
    """Field of actuators that MuJoCo adds to it, multiplied by the square of their ratio to the joint."""
    term: int | None = None
    """Column of both fields, if these are polynomials."""
    side: int = 0
    """Index in a pair of stops or gains."""
    actuator_fields: tuple[str, ...] = ()
    """Further fields of it, by actuator."""
    joint_fields: tuple[str, ...] = ()
    """Further fields of it, by joint."""
    control_fields: tuple[str, ...] = ()
    """Further fields of it, by place in ``ctrl``."""
    flags: tuple[str, ...] = ()
    """Flags of an ``<option>`` that MuJoCo needs to use it."""
    moves_constants: bool = False
    """Whether MuJoCo derives further fields from it."""
    get: Callable[[MujocoModel, Row, DofSet], np.ndarray] | None = _field
    """Reads it, shape (n, d). None: MuJoCo has no such property."""
    set: Callable[..., None] = _set_field
    """Writes it, or the pair, for values of shape (n, d)."""

    def part(self, values: np.ndarray) -> np.ndarray:
        """Return the property from values of a field, whose shape starts with (DOFs,) or (actuators,)."""
        return values if self.term is None else values[..., self.term]

    def is_added_to(self, model: MujocoModel) -> bool:
        """Return whether an actuator of the model adds to it."""
        own, fields = self.of_actuator, model.fields
        return bool(own) and bool(np.any(fields.rows[own] if own in fields.rows else field(fields.model, own)))

    def switched_off(self, model: Any) -> str:
        """Return the flag of a model that disables it; empty if it is enabled."""
        off = int(model.opt.disableflags)
        bits = ((flag, int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}"))) for flag in self.flags)
        return next((flag for flag, bit in bits if off & bit), "")


PROPERTIES = {
    row.name: row
    for row in (
        Row("armature", "dof_armature", "actuator_armature", moves_constants=True),
        Row("friction", "dof_frictionloss", flags=("constraint", "frictionloss")),
        Row("viscous_friction", "dof_damping", "actuator_damping", flags=_DAMPER),
        Row("quadratic_friction", "dof_dampingpoly", "actuator_dampingpoly", term=0, flags=_DAMPER),
        Row("cubic_friction", "dof_dampingpoly", "actuator_dampingpoly", term=1, flags=_DAMPER),
        Row(
            "effort_limit",
            actuator_fields=ACTUATOR_FIELDS,
            joint_fields=JOINT_FIELDS,
            control_fields=CONTROL_FIELDS,
            get=_effort_limit,
            set=_set_effort_limit,
        ),
        Row("velocity_limit", get=None, set=_refuse),
        Row("lower_limit", get=_stop, set=_set_stops),
        Row("upper_limit", side=1, get=_stop, set=_set_stops),
        Row("stiffness", actuator_fields=GAIN_FIELDS, get=_gain, set=_set_gains),
        Row("damping", side=1, actuator_fields=GAIN_FIELDS, get=_gain, set=_set_gains),
    )
}
"""Properties of joints, by name."""
