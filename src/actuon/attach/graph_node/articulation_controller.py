# SPDX-License-Identifier: Apache-2.0
"""Node that commands joints from a graph, with the name and inputs of Isaac Sim's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from ...errors import ActuonError, SimulationError
from ...sim import Articulation, Simulation

_COMMANDS = {
    "positionCommand": "set_dof_position_targets",
    "velocityCommand": "set_dof_velocity_targets",
    "effortCommand": "set_dof_efforts",
}
"""Setters of an articulation, by input."""


class ControllerState:
    """State of one node between pulses: the robots that it commands."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._robots: Articulation | None = None

    def robots(self, path: str, simulation: Simulation) -> Articulation:
        """Return the robots at ``path``."""
        if self._robots is None or path != self._path or self._robots.simulation is not simulation:
            self._robots, self._path = Articulation(path, simulation), path
        return self._robots


class IsaacArticulationController:
    """Node that sets targets and efforts of joints at each pulse: by name, by index, or of all. NaN changes nothing."""

    OGN: ClassVar[dict[str, Any]] = {
        "inputs": {
            "execIn": {"type": "execution"},
            "robotPath": {"type": "string", "default": ""},
            "targetPrim": {"type": "target"},
            "jointNames": {"type": "token[]", "default": []},
            "jointIndices": {"type": "int[]", "default": []},
            "positionCommand": {"type": "double[]", "default": []},
            "velocityCommand": {"type": "double[]", "default": []},
            "effortCommand": {"type": "double[]", "default": []},
        },
        "outputs": {},
    }

    @staticmethod
    def internal_state() -> ControllerState:
        """Return the state of a node."""
        return ControllerState()

    @staticmethod
    def compute(db: Any) -> bool:
        """Run a pulse: set all commands, or nothing if one does not fit."""
        try:
            robots = db.per_instance_state.robots(_path(db.inputs.robotPath, db.inputs.targetPrim), db.simulation)
            columns = _columns(robots, db.inputs.jointNames, db.inputs.jointIndices)
            commands = {name: _told(robots, name, getattr(db.inputs, name), columns) for name in _COMMANDS}
            for name, (values, at) in commands.items():
                getattr(robots, _COMMANDS[name])(values, dof_indices=at)
        except ActuonError as error:
            db.log_error(str(error))
            return False
        return True


def _path(robot_path: str, targets: Iterable[str] | None) -> str:
    """Return the path of the robot, or of the target of a relationship."""
    path = robot_path or next(iter([] if targets is None else targets), "")
    if not path:
        raise SimulationError("got neither robotPath nor targetPrim; one must name a robot, such as '/Robot'")
    return str(path)


def _told(robots: Articulation, name: str, command: Any, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of a command, shape (robots, n), and their joints, shape (n,)."""
    values = np.asarray(command, dtype=np.float64).ravel()
    if values.size not in (0, len(columns)):
        raise SimulationError(
            f"{name}: got {values.size} values; must be none, or one for each of {len(columns)} commanded joints"
        )
    at = columns[: values.size][~np.isnan(values)]
    return robots.numbers(name, values[~np.isnan(values)], (len(robots), len(at))), at


def _columns(robots: Articulation, names: Iterable[str], indices: Any) -> np.ndarray:
    """Return the commanded joints, shape (d,)."""
    chosen = [str(name) for name in names]
    if chosen:
        return robots.to_write(None, robots.dof_columns(chosen)).dofs
    return robots.to_write(None, indices if len(indices) else None).dofs
