# SPDX-License-Identifier: Apache-2.0
"""Robots of a simulation, and `DofSet`: DOFs of some of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SimulationError, listed
from ..patterns import compile_pattern

_MOST_SUBSETS = 64
"""Number of cached subsets of a set of DOFs."""


@dataclass(frozen=True, eq=False)
class RobotKind:
    """A robot of a file, copied to each environment: its joints of one DOF, and places of their values."""

    name: str
    """Name in every environment."""
    source_path: str
    """Its path in the file."""
    dof_names: tuple[str, ...]
    joint_paths: tuple[str, ...]
    """Paths of the joints relative to the robot, each beginning with a slash."""
    columns: Mapping[str, np.ndarray]
    """Indices of its DOFs in an environment, by the name of the simulation's array, each of shape (D,)."""
    widths: Mapping[str, int]
    """Number of values of an environment in each of these arrays."""
    links: np.ndarray
    """Its bodies in an environment, the root first, shape (L,)."""
    link_names: tuple[str, ...]
    num_bodies: int = 0
    """Number of bodies of an environment in the engine."""
    slides: tuple[bool, ...] = ()
    """Whether each DOF is a prismatic joint, with the units m and N."""
    is_fixed_base: bool = False
    """Whether its root is fixed to the world."""
    tendon_names: tuple[str, ...] = ()
    """Tendons that have a drive, T of them."""
    tendon_dofs: tuple[np.ndarray, ...] = ()
    """Indices of the robot's DOFs that each of them moves."""


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot in a simulation: its joints of one DOF, by name, and places of their values.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
        ...     (robot,) = simulation.robots
        ...     print(robot.name, robot.dof_names[:2], robot.is_fixed_base)
        link0 ('joint1', 'joint2') True
    """

    kind: RobotKind
    env: int
    path: str
    aliases: tuple[str, ...] = ()
    """Other paths of the robot."""

    @property
    def name(self) -> str:
        """Name in every environment."""
        return self.kind.name

    @property
    def source_path(self) -> str:
        """Path in the file, the same for all copies."""
        return self.kind.source_path

    @property
    def dof_names(self) -> tuple[str, ...]:
        """Names of its DOFs."""
        return self.kind.dof_names

    @property
    def dof_paths(self) -> tuple[str, ...]:
        """Paths of its joints."""
        return tuple(self.path + end for end in self.kind.joint_paths)

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of its links, the root first."""
        return self.kind.link_names

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """Tendons that have a drive."""
        return self.kind.tendon_names

    @property
    def slides(self) -> tuple[bool, ...]:
        """Whether each DOF is a prismatic joint, with the units m and N."""
        return self.kind.slides

    @property
    def is_fixed_base(self) -> bool:
        """Whether its root is fixed to the world."""
        return self.kind.is_fixed_base

    @property
    def root_body(self) -> int:
        """Index of its root body in the engine."""
        return self.env * self.kind.num_bodies + int(self.kind.links[0])

    def indices(self, kind: str) -> np.ndarray:
        """Return indices of its DOFs in an array of the simulation, such as ``"joint_q"``, shape (D,).

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
            ...     print(simulation.robots[1].indices("joint_q"))
            [ 7  8  9 10 11 12 13]
        """
        return self.env * self.kind.widths[kind] + self.kind.columns[kind]

    @property
    def coordinates(self) -> np.ndarray:
        """Indices into ``joint_q``, shape (D,)."""
        return self.indices("joint_q")

    @property
    def dofs(self) -> np.ndarray:
        """Indices into ``joint_qd``, ``joint_target_qd`` and ``joint_f``, shape (D,)."""
        return self.indices("joint_qd")

    @property
    def targets(self) -> np.ndarray:
        """Indices into ``joint_target_q``, shape (D,)."""
        return self.indices("joint_target_q")

    @property
    def names(self) -> list[str]:
        """Its paths, and last its name."""
        return [self.path, *self.aliases, f"/World/envs/env_{self.env}/{self.name}", self.name]


class DofSet:
    """A set of d DOFs of each of n robots: ``array[at.index(kind)]`` is their block of an array of all environments.

    Args:
        robots: All robots of a simulation.
        ids: Indices of the robots, shape (n,).
        dofs: Indices of the DOFs of each, shape (d,). Default: all of the first robot.
    """

    def __init__(self, robots: Sequence[Robot], ids: np.ndarray, dofs: np.ndarray | None = None):
        self._all = robots
        self.ids = ids
        """The robots, as indices into those of the simulation, shape (n,)."""
        width = len(robots[int(ids[0])].dof_names) if len(ids) else 0
        self.dofs = np.arange(width) if dofs is None else dofs
        """The DOFs of each, shape (d,)."""
        self.shape = len(ids), len(self.dofs)
        """Numbers of robots and DOFs, (n, d)."""
        self._columns: dict[str, Any] = {}
        self._indices: dict[str, tuple[Any, Any]] = {}
        self._flat: dict[str, np.ndarray] = {}
        self._subsets: dict[tuple[bytes, bytes], DofSet] = {}

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Number of DOFs of all robots."""
        return self.shape[0] * self.shape[1]

    @functools.cached_property
    def robots(self) -> list[Robot]:
        """The robots."""
        return [self._all[i] for i in self.ids.tolist()]

    @functools.cached_property
    def envs(self) -> np.ndarray:
        """The environment of each robot, shape (n,)."""
        return np.array([robot.env for robot in self.robots], dtype=np.int64)

    @functools.cached_property
    def env_index(self) -> Any:
        """The environments as an index, a slice if they are contiguous."""
        return as_slice(self.envs)

    @functools.cached_property
    def kinds(self) -> list[tuple[RobotKind, np.ndarray]]:
        """Each kind of these robots, with their rows."""
        kinds = list(dict.fromkeys(robot.kind for robot in self.robots))
        if len(kinds) == 1:
            return [(kinds[0], np.arange(len(self)))]
        numbers = np.array([kinds.index(robot.kind) for robot in self.robots])
        return [(kind, np.flatnonzero(numbers == i)) for i, kind in enumerate(kinds)]

    @functools.cached_property
    def kind(self) -> RobotKind:
        """The first robot's kind."""
        return self.robots[0].kind

    @property
    def names(self) -> list[str]:
        """Names of the DOFs."""
        return [self.kind.dof_names[dof] for dof in self.dofs.tolist()]

    def columns(self, kind: str) -> np.ndarray:
        """Return indices of the DOFs in an environment, shape (d,), for robots of one kind."""
        return self.kind.columns[kind][self.dofs]

    def column_index(self, kind: str) -> Any:
        """Return these columns as an index, a slice if they are contiguous."""
        found = self._columns.get(kind)
        if found is None:
            found = self._columns[kind] = as_slice(self.columns(kind))
        return found

    def index(self, kind: str) -> tuple[Any, Any]:
        """Return an index of an array of shape (environments, width), such as ``"joint_q"``, that selects shape (n, d).

        It has slices if environments or columns are contiguous.
        """
        found = self._indices.get(kind)
        if found is None:
            found = grid(self.env_index, self.column_index(kind))
            if len(self.kinds) > 1:
                table = np.empty(self.shape, np.int64)
                for own, rows in self.kinds:
                    table[rows] = own.columns[kind][self.dofs]
                found = self.envs[:, None], table
            self._indices[kind] = found
        return found

    def flat(self, kind: str) -> np.ndarray:
        """Return indices into the simulation's flat array, shape (n, d)."""
        if kind not in self._flat:
            table = np.empty(self.shape, np.int64)
            for own, rows in self.kinds:
                table[rows] = self.envs[rows, None] * own.widths[kind] + own.columns[kind][self.dofs]
            self._flat[kind] = table
        return self._flat[kind]

    def subset(self, rows: np.ndarray, columns: np.ndarray) -> DofSet:
        """Return some of these robots, shape (n,), with some of these DOFs, shape (d,)."""
        key = rows.tobytes(), columns.tobytes()
        found = self._subsets.get(key)
        if found is None:
            if len(self._subsets) >= _MOST_SUBSETS:
                self._subsets.clear()
            found = self._subsets[key] = DofSet(self._all, self.ids[rows], self.dofs[columns])
            found.__dict__["envs"] = self.envs[rows]
            if not rows.size:
                found.__dict__["kind"] = self.kind
        return found

    def of_dofs(self, columns: np.ndarray) -> DofSet:
        """Return all of these robots with some of these DOFs, shape (d,)."""
        return self.subset(np.arange(len(self)), columns)

    def joint(self, row: int, column: int) -> str:
        """Return the name of a joint in an error, with its robot."""
        robot = self._all[int(self.ids[row])]
        return f"joint '{robot.dof_names[int(self.dofs[column])]}' of '{robot.path}'"


def as_slice(indices: np.ndarray) -> Any:
    """Return contiguous indices as a slice, which copies nothing."""
    if indices.size and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def grid(rows: Any, columns: Any) -> tuple[Any, Any]:
    """Return an index of all ``columns`` in all ``rows``, each a slice or indices."""
    return (rows, columns) if isinstance(rows, slice) or isinstance(columns, slice) else np.ix_(rows, columns)


def find_robots(robots: Sequence[Robot], paths: str | Sequence[str]) -> list[int]:
    """Return indices of robots, in order.

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
