# SPDX-License-Identifier: Apache-2.0
"""Properties and drives of joints in Newton's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import warp as wp

from ...actuator.state import check_like
from ...errors import SimulationError
from ..engine import Undo
from ..robots import DofSet
from .rows import PROPERTIES
from .scatter import column_writer
from .solvers import Physics
from .state import as_numpy

_CHANGEABLE = {
    "JOINT_DOF_PROPERTIES": (
        *(row.array for row in PROPERTIES.values() if row.array),
        *("joint_limit_ke", "joint_limit_kd", "mujoco.solreffriction", "mujoco.solimpfriction"),
        *("joint_stiffness", "joint_rest_q"),
    ),
    "JOINT_PROPERTIES": ("joint_X_p", "joint_X_c", "joint_axis"),
    "BODY_INERTIAL_PROPERTIES": ("body_mass", "body_inv_mass", "body_inertia", "body_inv_inertia", "body_com"),
    "SHAPE_PROPERTIES": (
        *("shape_transform", "shape_scale", "shape_margin", "shape_gap"),
        *(f"shape_material_{name}" for name in ("ke", "kd", "kf", "ka", "kh", "mu")),
        *("shape_material_restitution", "shape_material_mu_torsional", "shape_material_mu_rolling"),
    ),
    "MODEL_PROPERTIES": ("gravity",),
}
"""Arrays of a model that may change at run time, by the notification of the solver."""


class NewtonProperties:
    """Properties of joints in the model's arrays. The solver is notified of changes.

    Args:
        physics: The solver.
        dt: Time step [s].
    """

    no_limit = 1.0e6
    limits_version = 0

    def __init__(self, physics: Physics, dt: float):
        self._physics, self._model, self._newton, self._dt = physics, physics.model, physics.newton, dt

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, shape (n, d); None if the solver does not use it."""
        row = PROPERTIES[name]
        return row.read(self._physics, row, at) if row.is_used(self._physics) else None

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or both stops or gains, for values of shape (n, d)."""
        row = PROPERTIES[next(iter(values))]
        accepted = row.accept(self._physics, row, at, values)
        if accepted is None:
            return
        for name, numbers in accepted.items():
            write_model(self._model, PROPERTIES[name].array, at.flat("joint_qd"), numbers)
        self._tell()

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return a function that writes ``values``, float32 of shape (n, D), of these DOFs."""
        write = column_writer(values, at.dofs, at.flat("joint_qd"), getattr(self._model, PROPERTIES[name].array))
        of_forces = self._newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES  # not of inertias, which take ten times as long

        def hand_over() -> None:
            write()
            self._physics.solver.notify_model_changed(of_forces)

        return hand_over

    def _property_arrays(self) -> Iterator[tuple[str, int, wp.array | np.ndarray]]:
        """Yield arrays that may change at run time, with their names, and the notification of the solver."""
        flags, own = self._newton.ModelFlags, getattr(self._model, "mujoco", None)
        for flag, names in _CHANGEABLE.items():
            for name in names:
                array = getattr(self._model, name, None) if "." not in name else getattr(own, name[7:], None)
                if array is not None and array.size:
                    yield name, int(getattr(flags, flag)), array
        for name, values in self._physics.own_properties().items():
            yield f"solver.{name}", 0, values

    def contents(self) -> dict[str, np.ndarray]:
        """Return the values of the model that may change, by name, not copied."""
        return {name: as_numpy(array) for name, _, array in self._property_arrays()}

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Raise an error for contents of a file that do not fit. Returns a function that loads them."""
        like = self.contents()
        for name in sorted(like.keys() | found.keys()):
            check_like(where, f"properties/{name}", found.get(name), like.get(name))

        def take() -> None:
            changed = 0
            for name, flag, array in self._property_arrays():
                if not np.array_equal(as_numpy(array), found[name]):
                    changed |= flag
                    if isinstance(array, np.ndarray):
                        array[...] = found[name]
                    else:
                        array.assign(found[name])
            if changed:
                self._physics.solver.notify_model_changed(changed)
            self.limits_version += 1

        return take

    def keep(self, at: DofSet) -> Undo:
        """Return a function that restores the present properties of these DOFs, to the last bit."""
        places = at.flat("joint_qd")
        rows = [row for row in PROPERTIES.values() if row.is_kept and row.array]
        kept = {row.array: row.numbers(self._physics)[places] for row in rows}
        give_actuators_back = self._physics.keep_of_actuators(places.ravel())

        def give_back() -> None:
            give_actuators_back()
            for name, values in kept.items():
                write_model(self._model, name, places, values)
            self._tell()

        return give_back

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Make dry friction of these DOFs as stiff as the solver can."""
        return self._physics.stiffen_friction(at.flat("joint_qd"), self._dt, self._tell)

    def _tell(self) -> None:
        self._physics.solver.notify_model_changed(self._newton.ModelFlags.JOINT_DOF_PROPERTIES)


class NewtonDrives:
    """The solver's own drives.

    Args:
        physics: The solver.
        properties: The properties of joints, their gains among them.
    """

    version = 0

    def __init__(self, physics: Physics, properties: NewtonProperties):
        self._physics, self._properties = physics, properties

    def follows(self, kind: str, at: DofSet) -> None:
        """Return None: the solver follows targets of all DOFs."""

    def silence(self, at: DofSet) -> Undo:
        """Disable the solver's drives of these DOFs."""
        stiffness, damping = (self._properties.get(name, at) for name in ("stiffness", "damping"))
        assert stiffness is not None
        assert damping is not None
        self._properties.set(at, stiffness=np.zeros_like(stiffness), damping=np.zeros_like(damping))
        give_others_back = self._physics.silence_others(at.flat("joint_qd").ravel())

        def give_back() -> None:
            give_others_back()
            self._properties.set(at, stiffness=stiffness, damping=damping)

        return give_back

    def are_silent(self, at: DofSet) -> np.ndarray:
        """Return whether no drive acts on a DOF, read back from the solver, shape (n, d)."""
        return ~self._physics.is_pushed()[at.flat("joint_qd")]

    def describe(self, at: DofSet) -> str:
        """Describe a drive that still acts."""
        return "two drives would act on one joint"

    def add(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> Undo:
        """Raise an error for drives that options disable. Newton's models cannot grow."""
        why = self._physics.why_drives_rest()
        if why and (np.any(stiffness) or np.any(damping)):
            raise SimulationError(
                f"{type(self._physics.solver).__name__} {why}; drive the joints with an explicit model"
            )
        return lambda: None

    def effort_range(self, at: DofSet) -> None:
        """Return None: both bounds are equal everywhere."""

    def effort_sources(self, at: DofSet) -> list[str]:
        """Return an empty list: Newton does not know the source of a limit."""
        return []

    def joint_range(self, at: DofSet) -> None:
        """Return None: joints have no limits besides those of their drives."""

    def lift_limits(self, at: DofSet) -> Undo:
        """Do nothing: Newton clips no part of an effort."""
        return lambda: None


def write_model(model: Any, name: str, places: np.ndarray, values: np.ndarray) -> None:
    """Write values to places of an array of a ``newton.Model``."""
    array = getattr(model, name)
    numbers = array.numpy().copy()
    numbers[places] = values
    array.assign(numbers)
