# SPDX-License-Identifier: Apache-2.0
"""`Robot`: what a simulation knows about a robot in it, and how it is found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import SimulationError, listed
from ..patterns import compile_pattern


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot in a simulation: its joints of one DOF, by name, and where their values lie."""

    path: str
    env: int
    source_path: str
    """Its path in the file, which all its copies share."""
    dof_names: tuple[str, ...]
    dof_paths: tuple[str, ...]
    coordinates: np.ndarray
    """Indices into ``joint_q``, shape (D,)."""
    dofs: np.ndarray
    """Indices into ``joint_qd``, ``joint_target_qd`` and ``joint_f``, shape (D,)."""
    targets: np.ndarray
    """Indices into ``joint_target_q``, shape (D,)."""
    root_body: int = 0
    """The engine's number of its root body."""
    aliases: tuple[str, ...] = ()
    """Other paths by which it may be called."""
    slides: tuple[bool, ...] = ()
    """Whether a DOF is a prismatic joint, whose units are m and N, for each DOF."""
    is_fixed_base: bool = False
    """Whether its root is fixed to the world."""

    name: str = ""
    """What it is called in every environment. Default: the last part of its path."""
    tendon_names: tuple[str, ...] = ()
    """Tendons that have a drive."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.path.rsplit("/", 1)[-1])

    def indices(self, kind: str) -> np.ndarray:
        """Where the values of ``kind`` lie, shape (D,)."""
        if kind == "joint_q":
            return self.coordinates
        return self.targets if kind == "joint_target_q" else self.dofs

    @property
    def names(self) -> list[str]:
        """Paths by which it may be called, and last its name alone."""
        return [self.path, *self.aliases, f"/World/envs/env_{self.env}/{self.name}", self.name]


def find_robots(robots: Sequence[Robot], paths: str | Sequence[str]) -> list[int]:
    """Indices of robots, in order.

    Args:
        robots: All of them.
        paths: Path or name of a robot, a regex that matches paths or names whole, or a list of these.

    Raises:
        SimulationError: There is no such robot.
    """
    alone = dict.fromkeys(robot.names[-1] for robot in robots)
    known = [*alone, *(robot.path for robot in robots)]
    found: dict[int, None] = {}
    if not isinstance(paths, (str, Sequence)) or not all(isinstance(pattern, str) for pattern in paths):
        raise SimulationError(f"paths: got {paths!r}; must be the path of a robot, a regex, or a list of these")
    for pattern in [paths] if isinstance(paths, str) else list(paths):
        matched = [i for i, robot in enumerate(robots) if pattern in robot.names] or _matching(robots, pattern)
        if not matched:
            raise SimulationError(f"there is no robot at '{pattern}'; {listed(pattern, known, 'robots')}")
        found |= dict.fromkeys(matched)
    if not found:
        raise SimulationError(f"paths: got none; {listed('', known, 'robots')}")
    return sorted(found)


def _matching(robots: Sequence[Robot], pattern: str) -> list[int]:
    try:
        regex = compile_pattern(pattern, [name for robot in robots for name in robot.names])
    except re.error as error:
        known = [robot.path for robot in robots]
        raise SimulationError(
            f"'{pattern}' is not the path of a robot, nor a valid regex: {error}; {listed(pattern, known, 'robots')}"
        ) from error
    return [i for i, robot in enumerate(robots) if any(regex.fullmatch(name) for name in robot.names)]
