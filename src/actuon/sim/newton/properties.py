# SPDX-License-Identifier: Apache-2.0
"""Properties and drives of joints as Newton's model holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import warp as wp

from ...actuator.state import check_like
from ...errors import SimulationError
from ..engine import PROPERTIES, Undo
from ..robots import DofSet
from .scatter import column_writer
from .solvers import Physics
from .state import as_numpy

FIELDS = {
    "armature": "joint_armature",
    "friction": "joint_friction",
    "viscous_friction": "joint_damping",
    "effort_limit": "joint_effort_limit",
    "velocity_limit": "joint_velocity_limit",
    "lower_limit": "joint_limit_lower",
    "upper_limit": "joint_limit_upper",
    "stiffness": "joint_target_ke",
    "damping": "joint_target_kd",
}
"""Arrays of the model, by property."""

_OWN = ("armature", "friction", "viscous_friction", "effort_limit", "velocity_limit")
"""Properties that a joint has whatever drives it."""
_STOPS = ("lower_limit", "upper_limit")
_GAINS = ("stiffness", "damping")
_STORED_ONLY = "velocity_limit"
"""Property that no solver enforces, but models of motors ask for."""

_CHANGEABLE = {
    "JOINT_DOF_PROPERTIES": (
        *FIELDS.values(),
        *("joint_limit_ke", "joint_limit_kd", "mujoco.solreffriction", "mujoco.solimpfriction"),
    ),
    "BODY_INERTIAL_PROPERTIES": ("body_mass", "body_inv_mass", "body_inertia", "body_inv_inertia", "body_com"),
    "SHAPE_PROPERTIES": tuple(
        f"shape_material_{name}" for name in ("ke", "kd", "kf", "ka", "mu", "restitution", "mu_torsional", "mu_rolling")
    ),
    "MODEL_PROPERTIES": ("gravity",),
}
"""Arrays of a model that may be changed while it runs, by what a solver is told then."""


class NewtonProperties:
    """Reads and writes the model's arrays, and tells the solver.

    Args:
        physics: The solver.
        dt: Time step [s].
    """

    no_limit = 1.0e6
    limits_version = 0

    def __init__(self, physics: Physics, dt: float):
        self._physics, self._model, self._newton, self._dt = physics, physics.model, physics.newton, dt

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, shape (n, d); None for what the solver makes no use of."""
        places = at.flat("joint_qd")
        if name in _STOPS:
            stops, none = self._numbers(name)[places], self._newton.MAXVAL
            return np.where(stops <= -none, -np.inf, np.where(stops >= none, np.inf, stops))
        if name in _GAINS:
            return self._numbers(name)[places]
        if name not in self._physics.used_properties and name != _STORED_ONLY:
            return None
        own = self._numbers(name)[places] if name in FIELDS else np.float32(0.0)
        return np.asarray(own + self._physics.of_actuators(name)[places])

    def _numbers(self, name: str) -> np.ndarray:
        return np.asarray(getattr(self._model, FIELDS[name]).numpy())

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or both stops or gains, for values of shape (n, d)."""
        places = at.flat("joint_qd")
        if "stiffness" in values:
            wanted = (values["stiffness"] != 0.0) | (values["damping"] != 0.0)
            missing = wanted & ~self._physics.can_be_driven()[places]
            _refuse(at, missing, "has no drive in its file to set gains of")
        elif "lower_limit" in values:
            values = self._stops(at, values["lower_limit"], values["upper_limit"])
        else:
            ((name, numbers),) = values.items()
            if self.get(name, at) is None:
                if PROPERTIES[name].is_limit or np.any(numbers):
                    raise SimulationError(f"{type(self._physics.solver).__name__} makes no use of the {name} of joints")
                return
            if name not in FIELDS and np.any(numbers):
                raise SimulationError(f"Newton's models hold no {name} of joints")
            self._physics.clear_of_actuators(name, places.ravel())
        for name, numbers in values.items():
            if name in FIELDS:
                write_model(self._model, FIELDS[name], places, numbers)
        self._tell()

    def _stops(self, at: DofSet, lower: np.ndarray, upper: np.ndarray) -> dict[str, np.ndarray]:
        """Return stops as the model takes them.

        Raises:
            SimulationError: A lower one is above its upper one, or a joint had no stops when the solver was made.
        """
        low, high = (np.broadcast_to(np.asarray(side, np.float32), at.shape) for side in (lower, upper))
        _refuse(at, ~(low <= high), "gets a lower stop above its upper one")
        cannot = (np.isfinite(low) | np.isfinite(high)) & ~self._physics.can_have_stops()[at.flat("joint_qd")]
        _refuse(at, cannot, "has no stops in its file, and the solver cannot add them")
        none = self._newton.MAXVAL
        return {"lower_limit": np.maximum(low, -none), "upper_limit": np.minimum(high, none)}

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return what writes ``values``, float32 of shape (n, D), at each call, for these DOFs only."""
        write = column_writer(values, at.dofs, at.flat("joint_qd"), getattr(self._model, FIELDS[name]))
        of_forces = self._newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES  # not of inertias, which take ten times as long

        def hand_over() -> None:
            write()
            self._physics.solver.notify_model_changed(of_forces)

        return hand_over

    def _property_arrays(self) -> Iterator[tuple[str, int, wp.array | np.ndarray]]:
        """Arrays that may be changed while it runs, with their names, and what the solver is told of a change."""
        flags, own = self._newton.ModelFlags, getattr(self._model, "mujoco", None)
        for flag, names in _CHANGEABLE.items():
            for name in names:
                array = getattr(self._model, name, None) if "." not in name else getattr(own, name[7:], None)
                if array is not None and array.size:
                    yield name, int(getattr(flags, flag)), array
        for name, values in self._physics.own_properties().items():
            yield f"solver.{name}", 0, values

    def contents(self) -> dict[str, np.ndarray]:
        """Return what the model holds and may be changed, by name, not copied."""
        return {name: as_numpy(array) for name, _, array in self._property_arrays()}

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Refuse contents of a file that do not fit. Returns what takes them over."""
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
        """Return what gives these DOFs their properties back as they are now, to the last bit."""
        places = at.flat("joint_qd")
        kept = {FIELDS[name]: self._numbers(name)[places] for name in _OWN}
        give_actuators_back = self._physics.keep_of_actuators(places.ravel())

        def give_back() -> None:
            give_actuators_back()
            for name, values in kept.items():
                write_model(self._model, name, places, values)
            self._tell()

        return give_back

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Let dry friction of these DOFs hold as firmly as the solver can."""
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
        """Return None: it follows targets of all DOFs."""

    def silence(self, at: DofSet) -> Undo:
        """Make the solver's drives push no more on these DOFs."""
        stiffness, damping = (self._properties.get(name, at) for name in _GAINS)
        assert stiffness is not None
        assert damping is not None
        self._properties.set(at, stiffness=np.zeros_like(stiffness), damping=np.zeros_like(damping))
        give_others_back = self._physics.silence_others(at.flat("joint_qd").ravel())

        def give_back() -> None:
            give_others_back()
            self._properties.set(at, stiffness=stiffness, damping=damping)

        return give_back

    def are_silent(self, at: DofSet) -> np.ndarray:
        """Return whether no drive pushes on a DOF, read back from the solver, shape (n, d)."""
        return ~self._physics.is_pushed()[at.flat("joint_qd")]

    def describe(self, at: DofSet) -> str:
        """Return what is wrong with a drive that still pushes."""
        return "two drives would act on one joint"

    def add(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> Undo:
        """Refuse drives that options switch off. Newton's models cannot grow."""
        why = self._physics.why_drives_rest()
        if why and (np.any(stiffness) or np.any(damping)):
            raise SimulationError(
                f"{type(self._physics.solver).__name__} {why}; drive the joints with an explicit model"
            )
        return lambda: None

    def effort_range(self, at: DofSet) -> None:
        """Return None: both bounds are alike everywhere."""

    def effort_sources(self, at: DofSet) -> list[str]:
        """Return nothing: Newton does not say where a limit comes from."""
        return []

    def joint_range(self, at: DofSet) -> None:
        """Return None: joints have no limits beside those of their drives."""

    def lift_limits(self, at: DofSet) -> Undo:
        """Do nothing: Newton clips no part of an effort."""
        return lambda: None


def write_model(model: Any, name: str, places: np.ndarray, values: np.ndarray) -> None:
    """Write values to places of an array of a ``newton.Model``."""
    array = getattr(model, name)
    numbers = array.numpy().copy()
    numbers[places] = values
    array.assign(numbers)


def _refuse(at: DofSet, wrong: np.ndarray, why: str) -> None:
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise SimulationError(f"{at.joint(row, column)} {why}")
