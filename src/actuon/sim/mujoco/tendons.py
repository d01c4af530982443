# SPDX-License-Identifier: Apache-2.0
"""Drives of tendons: which joints they couple, and what their length should be for targets of these joints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .servos import Servo, read_servo


@dataclass(frozen=True, eq=False)
class TendonDrive:
    """A tendon with a position servo.

    Its length is ``Σ coefficient · q`` of the joints on it, where it is a fixed tendon; a target for these joints is a
    target of the length. The length of one through sites depends on the pose: it is told its length alone.
    """

    name: str
    tendon: int
    root: int
    """Root body of the robot that it moves; of the first, where it moves several."""
    servo: Servo
    dofs: np.ndarray
    """DOFs that it moves, in the model, shape (k,)."""
    coefficients: np.ndarray | None
    """Of each of them in the length [m/rad or 1], shape (k,); None where the length depends on the pose."""
    coupled: frozenset[int]
    """DOFs whose targets it follows: all of ``dofs``, or none where a joint on it has a servo of its own."""

    def length(self, targets: np.ndarray) -> np.ndarray:
        """Length [m or rad] for targets of ``dofs`` [rad or m], of shape (..., k)."""
        assert self.coefficients is not None
        return targets @ self.coefficients

    def spread(self, targets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Targets of ``dofs``, of shape (..., k), moved as little as it takes to have ``lengths``; as they are where
        they have these but for rounding in 32 bits."""
        assert self.coefficients is not None
        missing = lengths - self.length(targets)
        missing = np.where(np.abs(missing) > 1e-6 * (1.0 + np.abs(lengths)), missing, 0.0)
        return targets + missing[..., None] * self.coefficients / (self.coefficients @ self.coefficients)


def read_tendon_drives(mujoco: Any, model: Any, with_servo: set[int]) -> list[TendonDrive]:
    """Tendons that have one position servo, in the order of the model.

    Args:
        mujoco: The module.
        model: The model.
        with_servo: DOFs that have a servo of their own.
    """
    servos: dict[int, list[Servo]] = {}
    for i in range(model.nactuator):
        servo = read_servo(mujoco, model, i)
        if model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_TENDON) and servo is not None and servo.position >= 0:
            servos.setdefault(int(model.actuator_trnid[i, 0]), []).append(servo)
    drives = []
    for tendon, found in sorted(servos.items()):
        if len(found) > 1:
            continue
        coefficients = fixed_coefficients(mujoco, model, tendon)
        dofs = np.flatnonzero(tendon_dofs(mujoco, model, tendon))
        own = None if coefficients is None else coefficients[dofs]
        coupled = dofs.tolist() if own is not None and not with_servo.intersection(dofs.tolist()) else []
        name = model.tendon(tendon).name or f"tendon{tendon}"
        bodies = [int(model.body_rootid[model.dof_bodyid[dof]]) for dof in dofs]
        root = bodies[0] if bodies else 0
        drives.append(TendonDrive(name, tendon, root, found[0], dofs, own, frozenset(coupled)))
    return drives


def fixed_coefficients(mujoco: Any, model: Any, tendon: int) -> np.ndarray | None:
    """Coefficients of a fixed tendon, by DOF of the model, shape (DOFs,); None for one through sites."""
    wraps = _wraps(model, tendon)
    if any(model.wrap_type[wrap] != int(mujoco.mjtWrap.mjWRAP_JOINT) for wrap in wraps):
        return None
    coefficients = np.zeros(model.nv)
    for wrap in wraps:
        coefficients[model.jnt_dofadr[model.wrap_objid[wrap]]] += model.wrap_prm[wrap]
    return coefficients


def tendon_dofs(mujoco: Any, model: Any, tendon: int) -> np.ndarray:
    """Whether a tendon moves a DOF, shape (DOFs,)."""
    coefficients = fixed_coefficients(mujoco, model, tendon)
    if coefficients is not None:
        return coefficients != 0.0
    kinds = mujoco.mjtWrap
    bodies = []
    for wrap in _wraps(model, tendon):
        thing = model.wrap_objid[wrap]
        if model.wrap_type[wrap] == int(kinds.mjWRAP_SITE):
            bodies.append(int(model.site_bodyid[thing]))
        elif model.wrap_type[wrap] in (int(kinds.mjWRAP_SPHERE), int(kinds.mjWRAP_CYLINDER)):
            bodies.append(int(model.geom_bodyid[thing]))
    return bodies_dofs(model, bodies)


def bodies_dofs(model: Any, bodies: list[int]) -> np.ndarray:
    """Whether a DOF moves bodies against each other, shape (DOFs,)."""
    chains = np.zeros((len(bodies), model.nv), dtype=bool)
    for chain, body in zip(chains, bodies, strict=True):
        while body > 0:
            first, count = int(model.body_dofadr[body]), int(model.body_dofnum[body])
            chain[first : first + count] = True  # of a body without DOFs: nothing
            body = int(model.body_parentid[body])
    return np.logical_or.reduce(chains) & ~np.logical_and.reduce(chains)


def _wraps(model: Any, tendon: int) -> range:
    first = int(model.tendon_adr[tendon])
    return range(first, first + int(model.tendon_num[tendon]))
