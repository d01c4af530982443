# SPDX-License-Identifier: Apache-2.0
"""Properties of joints in Newton's model, with a row for each: array, solvers that use it, and access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SimulationError
from ..engine import PROPERTIES as JOINT_PROPERTIES
from ..robots import DofSet

if TYPE_CHECKING:
    from .solvers import Physics

Values = Mapping[str, np.ndarray]
"""New values by property, each of shape (n, d)."""


def _own(physics: Physics, row: Row, at: DofSet) -> np.ndarray:
    """Return values of the array, including those of the solver's own actuators."""
    places = at.flat("joint_qd")
    own = row.numbers(physics)[places] if row.array else np.float32(0.0)
    return np.asarray(own + physics.of_actuators(row.name)[places])


def _accept(physics: Physics, row: Row, at: DofSet, values: Values) -> Values | None:
    """Return values for the model, and set those of actuators to zero; None for zeros that nobody uses."""
    name, is_given = row.name, np.any(values[row.name])
    if not row.is_used(physics):
        if JOINT_PROPERTIES[name].is_limit or is_given:
            raise SimulationError(f"{type(physics.solver).__name__} does not use the {name} of joints")
        return None
    if not row.array and is_given:
        raise SimulationError(f"Newton's models have no {name} of joints")
    physics.clear_of_actuators(name, at.flat("joint_qd").ravel())
    return values if row.array else {}


def _stop(physics: Physics, row: Row, at: DofSet) -> np.ndarray:
    stops, none = row.numbers(physics)[at.flat("joint_qd")], physics.newton.MAXVAL
    return np.where(stops <= -none, -np.inf, np.where(stops >= none, np.inf, stops))


def _accept_stops(physics: Physics, row: Row, at: DofSet, values: Values) -> Values:
    """Return stops for the model.

    Raises:
        SimulationError: A lower one is above its upper one, or a joint had no stops when the solver was built.
    """
    given = (values["lower_limit"], values["upper_limit"])
    low, high = (np.broadcast_to(np.asarray(side, np.float32), at.shape) for side in given)
    _refuse(at, ~(low <= high), "gets a lower stop above its upper one")
    cannot = (np.isfinite(low) | np.isfinite(high)) & ~physics.can_have_stops()[at.flat("joint_qd")]
    _refuse(at, cannot, "has no stops in its file, and the solver cannot add them")
    none = physics.newton.MAXVAL
    return {"lower_limit": np.maximum(low, -none), "upper_limit": np.minimum(high, none)}


def _accept_gains(physics: Physics, row: Row, at: DofSet, values: Values) -> Values:
    is_set = (values["stiffness"] != 0.0) | (values["damping"] != 0.0)
    _refuse(at, is_set & ~physics.can_be_driven()[at.flat("joint_qd")], "has no drive in its file to set gains of")
    return values


def _refuse(at: DofSet, wrong: np.ndarray, why: str) -> None:
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise SimulationError(f"{at.joint(row, column)} {why}")


MUJOCO, FEATHERSTONE, SEMI_IMPLICIT, XPBD = "mujoco", "featherstone", "semi_implicit", "xpbd"
"""Solvers."""
_ALL = frozenset({MUJOCO, FEATHERSTONE, SEMI_IMPLICIT, XPBD})


@dataclass(frozen=True)
class Row:
    """A property of joints in Newton's model. Unit and range are those of `sim.engine.PROPERTIES`."""

    name: str
    array: str
    """Array of the model; empty if only actuators of the solver's own model have it."""
    solvers: frozenset[str]
    """Solvers that use it."""
    is_kept: bool = True
    """Whether actuators restore it on the joints that they release."""
    read: Callable[[Physics, Row, DofSet], np.ndarray] = _own
    """Reads it, shape (n, d)."""
    accept: Callable[[Physics, Row, DofSet, Values], Values | None] = _accept
    """Checks new values, of a pair both. Returns values for the model; None if nothing is to be written."""

    def is_used(self, physics: Physics) -> bool:
        """Return whether a solver uses it."""
        return self.name in physics.used_properties

    def numbers(self, physics: Physics) -> np.ndarray:
        """Return the array, copied from a GPU."""
        return np.asarray(getattr(physics.model, self.array).numpy())


PROPERTIES = {
    row.name: row
    for row in (
        Row("armature", "joint_armature", frozenset({MUJOCO, FEATHERSTONE})),
        Row("friction", "joint_friction", frozenset({MUJOCO})),
        Row("viscous_friction", "joint_damping", _ALL - {XPBD}),
        Row("quadratic_friction", "", frozenset({MUJOCO})),
        Row("cubic_friction", "", frozenset({MUJOCO})),
        Row("effort_limit", "joint_effort_limit", frozenset({MUJOCO})),
        Row("velocity_limit", "joint_velocity_limit", _ALL),  # no solver enforces it, but models of motors read it
        Row("lower_limit", "joint_limit_lower", _ALL, is_kept=False, read=_stop, accept=_accept_stops),
        Row("upper_limit", "joint_limit_upper", _ALL, is_kept=False, read=_stop, accept=_accept_stops),
        Row("stiffness", "joint_target_ke", _ALL, is_kept=False, accept=_accept_gains),
        Row("damping", "joint_target_kd", _ALL, is_kept=False, accept=_accept_gains),
    )
}
"""Properties of joints, by name."""


def used_by(solver: str) -> frozenset[str]:
    """Return the properties of joints that a solver uses."""
    return frozenset(row.name for row in PROPERTIES.values() if solver in row.solvers)
