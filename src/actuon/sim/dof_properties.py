# SPDX-License-Identifier: Apache-2.0
"""What the engine holds for the joints and links of robots: limits, gains, armature, friction, masses."""

from __future__ import annotations

import numpy as np
import warp as wp

from ..errors import SimulationError
from ..typing import ArrayLike, IdsLike
from .ids import ids_to_write, read_ids
from .selection import Selection

LIMIT_PROPERTIES = ("effort_limit", "velocity_limit")
"""Properties that are infinite where an engine has none; the others are zero."""


class DofProperties(Selection):
    """The part of an articulation that reads and writes what the engine holds."""

    def get_dof_limits(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Lowest and highest position [rad or m], at the stops of the joints; ±inf where there is none."""
        lower, upper = self.simulation.dof_limits(self.robot_ids)
        return self._chosen(lower, indices, dof_indices), self._chosen(upper, indices, dof_indices)

    def set_dof_limits(
        self, lower: ArrayLike, upper: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Move the stops of joints [rad or m]; ±inf removes one."""
        robots, dofs = self.places_to_write(indices, dof_indices)
        shape = (len(robots), len(dofs))
        low, high = (self.numbers(n, v, shape, finite=False) for n, v in (("lower", lower), ("upper", upper)))
        if not (low <= high).all():
            raise SimulationError("limits: got a lower one above the upper one, or NaN; must be lower ≤ upper")
        if low.size:
            self.simulation.set_dof_limits(self.robot_ids[robots], dofs, low, high)

    def get_dof_armatures(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Return the inertia that is added to joints [kg·m² or kg], such as that of rotors.

        With what the engine's own actuators add. Zero where the engine makes no use of an armature.
        """
        return self._property("armature", indices, dof_indices)

    def set_dof_armatures(self, armatures: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set them, in the engine. Robots may differ. The engine's own actuators then add nothing."""
        self._set_property("armature", armatures, indices, dof_indices)

    def get_dof_friction(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Return dry [N·m or N] and viscous friction [N·m·s/rad or N·s/m] that the engine applies at joints.

        With what its own actuators add. Zero where the engine makes no use of it. MuJoCo's terms of higher order in the
        speed are not in it.
        """
        names = ("friction", "viscous_friction")
        dry, viscous = (self._property(name, indices, dof_indices) for name in names)
        return dry, viscous

    def set_dof_friction(
        self,
        dry: ArrayLike | None = None,
        viscous: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set them, in the engine. None keeps what it is."""
        for name, values in (("friction", dry), ("viscous_friction", viscous)):
            if values is not None:
                self._set_property(name, values, indices, dof_indices)

    def get_dof_friction_properties(
        self, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> tuple[wp.array, wp.array, wp.array]:
        """Static and dynamic dry friction [N·m or N] and viscous friction, as Isaac Sim has them.

        The engines here have one dry friction, which is both.
        """
        dry, viscous = self.get_dof_friction(indices, dof_indices)
        return dry, wp.clone(dry), viscous

    def set_dof_friction_properties(
        self,
        static_frictions: ArrayLike | None = None,
        dynamic_frictions: ArrayLike | None = None,
        viscous_frictions: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set them. Static and dynamic dry friction must be the same, or one of them left out."""
        robots, dofs = self.places_to_write(indices, dof_indices)
        given = {"static_frictions": static_frictions, "dynamic_frictions": dynamic_frictions}
        shape = (len(robots), len(dofs))
        dry = [self.numbers(name, values, shape) for name, values in given.items() if values is not None]
        if len(dry) == 2 and (dry[0] != dry[1]).any():
            raise SimulationError(
                "static_frictions and dynamic_frictions: got different values; the engine has one dry friction, so "
                "give one"
            )
        self.set_dof_friction(dry[0] if dry else None, viscous_frictions, indices, dof_indices)

    def get_dof_max_efforts(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Largest effort of the engine's own drives [N·m or N]; inf where there is no limit."""
        return self._property("effort_limit", indices, dof_indices)

    def set_dof_max_efforts(self, max_efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None) -> None:
        """Set it; inf removes a limit."""
        self._set_property("effort_limit", max_efforts, indices, dof_indices)

    def get_dof_max_velocities(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> wp.array:
        """Largest speed that the engine lets joints have [rad/s or m/s]; inf where there is no limit."""
        return self._property("velocity_limit", indices, dof_indices)

    def set_dof_max_velocities(
        self, max_velocities: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set it. MuJoCo has no such limit, and says so."""
        self._set_property("velocity_limit", max_velocities, indices, dof_indices)

    def _property(self, name: str, indices: IdsLike, dof_indices: IdsLike) -> wp.array:
        self.simulation.check_open()
        values = self.simulation.dof_property(name, self.robot_ids)
        is_limit = name in LIMIT_PROPERTIES
        if values is None:
            values = np.full((len(self), self.num_dofs), np.inf if is_limit else 0.0)
        elif is_limit:
            values = np.where(values >= self.simulation.no_limit, np.inf, values)
        return self._chosen(values, indices, dof_indices)

    def _set_property(self, name: str, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        self.simulation.check_open()
        robots, dofs = self.places_to_write(indices, dof_indices)
        is_limit = name in LIMIT_PROPERTIES
        numbers = self.numbers(name, values, (len(robots), len(dofs)), finite=not is_limit)
        if not (numbers >= 0.0).all():
            raise SimulationError(f"{name}: got {numbers.min()}; must be ≥ 0")
        if numbers.size:
            numbers = np.minimum(numbers, self.simulation.no_limit) if is_limit else numbers
            self.simulation.set_dof_property(name, self.robot_ids[robots], dofs, numbers)

    def get_dof_gains(self, indices: IdsLike = None, dof_indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Stiffness [N·m/rad or N/m] and damping [N·m·s/rad or N·s/m] of the engine's own drives."""
        stiffness, damping = self.simulation.gains(self.robot_ids)
        return self._chosen(stiffness, indices, dof_indices), self._chosen(damping, indices, dof_indices)

    def set_dof_gains(
        self,
        stiffnesses: ArrayLike | None = None,
        dampings: ArrayLike | None = None,
        indices: IdsLike = None,
        dof_indices: IdsLike = None,
    ) -> None:
        """Set the gains of the engine's own drives. None keeps what they are."""
        robots, dofs = self.places_to_write(indices, dof_indices)
        if not len(robots) or not len(dofs):
            return
        self.simulation.check_free(self.robot_ids[robots], dofs)
        before = self.simulation.gains(self.robot_ids[robots])
        shape = (len(robots), len(dofs))
        values = [
            now[:, dofs] if given is None else self.numbers(name, given, shape)
            for name, given, now in zip(("stiffnesses", "dampings"), (stiffnesses, dampings), before, strict=True)
        ]
        if any((numbers < 0.0).any() for numbers in values):
            raise SimulationError(f"gains: got {min(numbers.min() for numbers in values)}; must be ≥ 0")
        self.simulation.set_gains(self.robot_ids[robots], dofs, *values)

    @property
    def link_names(self) -> list[str]:
        """Names of the links, the root first, in the order of the columns of `get_link_masses`."""
        return self.simulation.link_names(int(self.robot_ids[0]))

    def get_link_masses(self, indices: IdsLike = None, link_indices: IdsLike = None) -> wp.array:
        """Masses of links [kg], shape (n, l)."""
        self.simulation.check_open()
        masses = self.simulation.link_masses(self.robot_ids)
        chosen = read_ids("indices", indices, len(self)), read_ids("link_indices", link_indices, masses.shape[1])
        return self._array(masses[np.ix_(*chosen)])

    def set_link_masses(self, masses: ArrayLike, indices: IdsLike = None, link_indices: IdsLike = None) -> None:
        """Set them. Inertias stay as they are."""
        robots = self._rows_to_write(indices)
        links = ids_to_write("link_indices", link_indices, len(self.link_names))
        numbers = self.numbers("masses", masses, (len(robots), len(links)))
        if not (numbers >= 0.0).all():
            raise SimulationError(f"masses: got {numbers.min()}; must be ≥ 0 [kg]")
        if numbers.size:
            self.simulation.set_link_masses(self.robot_ids[robots], links, numbers)
