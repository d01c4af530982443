# SPDX-License-Identifier: Apache-2.0
"""Tendons of robots that have a drive: by name, as arrays of shape (robots, tendons)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from ..errors import SimulationError, listed
from ..typing import ArrayLike, IdsLike
from .ids import ids_to_write, read_ids
from .selection import Selection


class TendonTargets(Selection):
    """The part of an articulation that commands tendons."""

    def get_tendon_names(self) -> list[str]:
        """Names of the tendons that have a position servo, in the order of the columns."""
        return list(self.robots[0].tendon_names)

    def get_tendon_targets(
        self, indices: IdsLike = None, tendon_indices: str | Sequence[str] | IdsLike = None
    ) -> wp.array:
        """Lengths [m or rad] that drives of tendons are to hold, shape (n, t).

        Args:
            indices: Which robots. Default: all.
            tendon_indices: Which tendons, by number or name. Default: all.
        """
        self.simulation.check_open()
        rows = read_ids("indices", indices, len(self.robot_ids))
        columns = read_ids("tendon_indices", self._tendons(tendon_indices), len(self.get_tendon_names()))
        found = np.zeros((0, len(columns)))
        if rows.size:
            found = self.simulation.tendon_targets(self.robot_ids[rows])[:, columns]
        return wp.array(found.astype(np.float32), device=self.simulation.device)

    def set_tendon_targets(
        self, lengths: ArrayLike, indices: IdsLike = None, tendon_indices: str | Sequence[str] | IdsLike = None
    ) -> None:
        """Command ``lengths`` [m or rad]. Targets of the joints on a fixed tendon follow, all by as much as they count.

        Args:
            lengths: As for `Articulation.set_dof_position_targets`.
            indices: Which robots. Default: all.
            tendon_indices: Which tendons, by number or name. Default: all.
        """
        self.simulation.check_open()
        if not self.get_tendon_names():
            raise SimulationError(f"'{self.paths[0]}' has no tendon with a position servo that a target could be for")
        rows = ids_to_write("indices", indices, len(self.robot_ids))
        columns = ids_to_write("tendon_indices", self._tendons(tendon_indices), len(self.get_tendon_names()))
        numbers = self.numbers("lengths", lengths, (len(rows), len(columns)))
        if numbers.size:
            self.simulation.set_tendon_targets(self.robot_ids[rows], columns, numbers)

    def _tendons(self, tendons: str | Sequence[str] | IdsLike) -> IdsLike:
        """Names as numbers."""
        given = [tendons] if isinstance(tendons, str) else tendons
        if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
            return given
        known = self.get_tendon_names()
        for name in given:
            if name not in known:
                raise SimulationError(
                    f"'{self.paths[0]}' has no tendon '{name}' with a drive; {listed(str(name), known, 'tendons')}"
                )
        return [known.index(str(name)) for name in given]
