# SPDX-License-Identifier: Apache-2.0
"""Who drives which DOF, and so which targets anything follows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..errors import SimulationError
from .robot import Robot

TARGETS = {"joint_target_q": "position", "joint_target_qd": "velocity"}
"""Kinds of targets, and what they are targets of."""


class Claims:
    """The part of a simulation that knows who drives which DOF: the engine, or one owner."""

    robots: list[Robot]
    """All robots, environment by environment."""
    claims_version: int = 0
    """Another number whenever a DOF has got or lost an owner, or a drive."""

    def _reset_claims(self) -> None:
        self._claims: dict[tuple[int, int], int] = {}
        self._followed: dict[tuple[int, int], int] = {}

    def claim(self, robots: np.ndarray, dofs: np.ndarray, owner: object, followed: np.ndarray | None = None) -> None:
        """Let ``owner`` alone drive these DOFs, until `release`.

        Args:
            robots: Which robots, indices into ``robots``, shape (n,).
            dofs: Which DOFs of each, shape (d,).
            owner: Who drives them.
            followed: Those of them whose targets it follows itself, and does not leave to the engine. Default: all.

        Raises:
            SimulationError: Another one drives one of them.
        """
        pairs = [(int(robot), int(dof)) for robot in robots for dof in dofs]
        for robot, dof in pairs:
            if (robot, dof) in self._claims:
                name, path = self.robots[robot].dof_names[dof], self.robots[robot].path
                raise SimulationError(
                    f"joint '{name}' of '{path}' is driven by other actuators already; close() them first"
                )
        self._claims |= dict.fromkeys(pairs, id(owner))
        own = dofs if followed is None else followed
        self.claims_version += 1
        self._followed |= {(int(robot), int(dof)): id(owner) for robot in robots for dof in own}

    def check_free(self, robots: Iterable[int], dofs: Iterable[int]) -> None:
        """Refuse to touch the engine's drives of DOFs that have an owner."""
        columns = list(dofs)
        for robot in robots:
            for dof in columns:
                if (int(robot), int(dof)) in self._claims:
                    found = self.robots[robot]
                    raise SimulationError(
                        f"joint '{found.dof_names[dof]}' of '{found.path}' is driven by actuators, and the engine's "
                        "own drive is off: set the actuators' gains, or close() them"
                    )

    def release(self, owner: object) -> None:
        """Let others drive what ``owner`` did."""
        self._claims = {pair: claimed for pair, claimed in self._claims.items() if claimed != id(owner)}
        self.claims_version += 1
        self._followed = {pair: claimed for pair, claimed in self._followed.items() if claimed != id(owner)}

    def follows(self, kind: str, robot: Robot) -> np.ndarray | None:
        """Whether the engine itself follows targets of a `TARGETS` kind, of DOFs, shape (D,). None: of all."""
        return None

    def unfollowed(self, kind: str, robots: np.ndarray) -> np.ndarray:
        """Whether nothing follows such targets, neither the engine nor actuators, shape (n, D)."""
        rows = []
        for i in robots.tolist():
            robot = self.robots[i]
            by_engine = self.follows(kind, robot)
            rows.append(np.zeros(len(robot.dofs), dtype=bool) if by_engine is None else ~by_engine)
            rows[-1][[dof for dof in range(len(robot.dofs)) if (i, dof) in self._followed]] = False
        return np.array(rows)


class Unfollowed:
    """Which targets of robots nothing follows, found anew whenever that may have changed.

    Args:
        simulation: What knows it.
        robots: Which robots, shape (n,).
    """

    def __init__(self, simulation: Claims, robots: np.ndarray):
        self._simulation, self._robots = simulation, robots
        self._found: dict[str, tuple[int, np.ndarray | None]] = {}

    def among(self, kind: str, rows: np.ndarray, dofs: np.ndarray) -> np.ndarray | None:
        """Those among targets of shape (n, d), as booleans; None where there are none anywhere."""
        version, lost = self._found.get(kind, (-1, None))
        if version != self._simulation.claims_version:
            lost = self._simulation.unfollowed(kind, self._robots)
            lost = lost if lost.any() else None
            self._found[kind] = self._simulation.claims_version, lost
        return None if lost is None else lost[np.ix_(rows, dofs)]
