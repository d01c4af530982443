# SPDX-License-Identifier: Apache-2.0
"""`Robot`: what a simulation knows about a robot in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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

    def indices(self, kind: str) -> np.ndarray:
        """Where the values of ``kind`` lie, shape (D,)."""
        if kind == "joint_q":
            return self.coordinates
        return self.targets if kind == "joint_target_q" else self.dofs
