# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own actuators, as drives of joints: which there are, what they are told, how strong they are."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .names import joint_name
from .servos import Servo, is_active, keep, put_back, read_servo, silence
from .tendons import TendonDrive, bodies_dofs, fixed_coefficients, read_tendon_drives, tendon_dofs


class Slope(enum.Enum):
    """What an effort changes with."""

    BY_POSITION = "q"
    BY_VELOCITY = "qd"


class Drives:
    """The actuators of a model, by DOF.

    A joint may have a position servo, a velocity servo, both, or one drive that follows both targets. A joint with two
    servos of a kind is treated as having none: it is not defined which of them a target is for. Others, such as motors
    and muscles, are not told targets.

    What it knows is the structure, of the model as it was compiled: actuators may be silenced later. Actuators that
    were added to hold the slopes of efforts are not drives.
    """

    def __init__(self, mujoco: Any, model: Any, added: Sequence[int] = (), slopes: Mapping[int, Slope] | None = None):
        self._mujoco = mujoco
        self.added = frozenset(added)
        """Actuators that were added to the model. They are the servos of their joints, whatever else is there."""
        self.on: dict[int, list[int]] = {}
        """Actuators on the joint of a DOF alone."""
        self.servos: dict[int, list[Servo]] = {}
        """Those of them that follow a target: one, or one for positions and one for velocities."""
        self.several: set[int] = set()
        """DOFs with servos that cannot be told apart."""
        self.motor_gain: dict[int, float] = {}
        """Effort of a motor before its gear, per unit of ``ctrl``, by actuator."""
        self.slopes = {slope: np.full(model.nv, -1) for slope in Slope}
        """Where in ``ctrl`` the slope of each DOF's effort is, or -1, by what it changes with."""
        self.moves = np.zeros((model.nactuator, model.nv), dtype=bool)
        """Whether an actuator drives a DOF, on its joint or through a tendon, shape (actuators, DOFs)."""
        found: dict[int, list[Servo]] = {}
        for i in range(model.nactuator):
            dof = self._joint_dof(model, i)
            if slopes is not None and i in slopes:
                self.slopes[slopes[i]][dof] = int(model.actuator_ctrladr[i])
                continue
            if dof is None:
                self.moves[i] = self._moved_from_afar(model, i)
                continue
            self.moves[i, dof] = True
            self.on.setdefault(dof, []).append(i)
            servo = read_servo(mujoco, model, i)
            if servo is not None:
                found.setdefault(dof, []).append(servo)
            elif self._is_motor(model, i):
                self.motor_gain[i] = float(model.actuator_gainprm[i, 0])
        self.position, self.velocity = np.full(model.nv, -1), np.full(model.nv, -1)
        """Where in ``ctrl`` the target of each DOF is, or -1."""
        self.scale, self.offset = np.ones(model.nu), np.zeros(model.nu)
        """``ctrl`` = scale · target + offset, by input."""
        for dof, servos in found.items():
            self._take(dof, servos)
        self.tendons: list[TendonDrive] = read_tendon_drives(mujoco, model, set(self.servos))
        """Drives of tendons, which may move several joints."""
        self.coupling = [tendon for tendon in self.tendons if tendon.coupled]
        """Those of them that follow the targets of joints."""
        for tendon in self.tendons:
            self._scale(tendon.servo)

    def _joint_dof(self, model: Any, actuator: int) -> int | None:
        """The DOF on whose joint an actuator is, where that joint has one DOF."""
        mujoco = self._mujoco
        on_joint = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        joint = int(model.actuator_trnid[actuator, 0])
        if model.actuator_trntype[actuator] not in on_joint or model.jnt_type[joint] not in single:
            return None
        return int(model.jnt_dofadr[joint])

    def _moved_from_afar(self, model: Any, actuator: int) -> np.ndarray:
        """Which DOFs an actuator drives that is not on their joint. A push at a site or body drives no joint."""
        kinds, (target, other) = self._mujoco.mjtTrn, model.actuator_trnid[actuator]
        kind = model.actuator_trntype[actuator]
        if kind == int(kinds.mjTRN_TENDON):
            return tendon_dofs(self._mujoco, model, int(target))
        if kind in (int(kinds.mjTRN_SITE), int(kinds.mjTRN_SLIDERCRANK)) and other >= 0:
            return bodies_dofs(model, [int(model.site_bodyid[site]) for site in (target, other)])
        return np.zeros(model.nv, dtype=bool)

    def _is_motor(self, model: Any, i: int) -> bool:
        mujoco = self._mujoco
        has_bias = model.actuator_biastype[i] != int(mujoco.mjtBias.mjBIAS_NONE) and model.actuator_biasprm[i].any()
        is_fixed = model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_FIXED)
        kinds = (mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
        return is_fixed and not has_bias and int(model.actuator_dyntype[i]) in map(int, kinds)

    @property
    def added_dofs(self) -> list[int]:
        """DOFs that have an added drive, in the order of these."""
        return [int(np.flatnonzero(self.moves[i])[0]) for i in sorted(self.added)]

    def _take(self, dof: int, servos: list[Servo]) -> None:
        servos = [servo for servo in servos if servo.actuator in self.added] or servos
        for kind, places in (("position", self.position), ("velocity", self.velocity)):
            inputs = [getattr(servo, kind) for servo in servos if getattr(servo, kind) >= 0]
            if len(inputs) > 1:
                self.several.add(dof)
            elif inputs:
                places[dof] = inputs[0]
        if dof in self.several:
            self.position[dof] = self.velocity[dof] = -1
            return
        self.servos[dof] = servos
        for servo in servos:
            self._scale(servo)

    def _scale(self, servo: Servo) -> None:
        for place in (servo.position, servo.velocity):
            if place >= 0:
                self.scale[place], self.offset[place] = servo.scale, servo.offset

    def gains(self, model: Any, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping at the joint, of its servos together; zero without one."""
        pairs = [self._gains(model, int(dof)) for dof in dofs]
        gains = np.array(pairs, np.float32).reshape(-1, 2)
        return gains[:, 0].copy(), gains[:, 1].copy()

    def _gains(self, model: Any, dof: int) -> tuple[float, float]:
        pairs = [servo.gains(model) for servo in self.servos.get(dof, [])]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    def why_not(self, dof: int, stiffness: float) -> str | None:
        """Why a DOF cannot be given gains, or None where it can."""
        if dof in self.several:
            return "has several servos in the model, which cannot be told apart"
        if dof not in self.servos:
            return "has no servo in the model"
        if self.position[dof] < 0 and stiffness != 0.0:
            return "has a velocity servo alone in the model, which has no stiffness"
        return None

    def set_gains(self, model: Any, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Set what `gains` returns. DOFs without a servo are passed over.

        Of two servos on a joint, the velocity servo gets the damping, which then acts on the difference to the target
        velocity; where the damping stays the same, so does its share in both.
        """
        for dof, kp, kd in zip(dofs.tolist(), stiffness, damping, strict=True):
            servos = self.servos.get(dof, [])
            keeps_damping = len(servos) > 1 and np.float32(self._gains(model, dof)[1]) == np.float32(kd)
            for servo in servos:
                own_kp = float(kp) if servo.position >= 0 or len(servos) == 1 else 0.0
                takes_damping = len(servos) == 1 or servo.velocity >= 0
                own_kd = servo.gains(model)[1] if keeps_damping else float(kd) * takes_damping
                servo.set_gains(self._mujoco, model, own_kp, own_kd)

    def at_joints(self, model: Any, values: np.ndarray, dofs: np.ndarray) -> np.ndarray:
        """Return the sum of inertias or dampings of actuators at each DOF, shape (d,).

        Each counts times the square of its ratio to the joint. An actuator whose ratio depends on the pose is left out.

        Args:
            model: The model.
            values: Of each actuator, shape (actuators,).
            dofs: DOFs of the model, shape (d,).
        """
        total = np.zeros(model.nv)
        for i in np.flatnonzero(values).tolist():
            ratios: np.ndarray | None = self.moves[i].astype(float)
            if model.actuator_trntype[i] == int(self._mujoco.mjtTrn.mjTRN_TENDON):
                ratios = fixed_coefficients(self._mujoco, model, int(model.actuator_trnid[i, 0]))
            elif self._joint_dof(model, i) is None:
                ratios = None
            if ratios is not None:
                total += values[i] * (model.actuator_gear[i, 0] * ratios) ** 2
        return np.asarray(total[dofs])

    def controls(self, targets: np.ndarray, places: np.ndarray) -> np.ndarray:
        """``ctrl`` at ``places`` for targets [rad or m, or per second]."""
        return targets * self.scale[places] + self.offset[places]

    def targets(self, controls: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Targets [rad or m, or per second] of what ``ctrl`` is at ``places``."""
        return (controls - self.offset[places]) / self.scale[places]

    def follows(self, dof: int, kind: str) -> bool:
        """Whether the model follows a target ``"position"`` or ``"velocity"`` of a DOF by itself."""
        if (self.position if kind == "position" else self.velocity)[dof] >= 0:
            return True
        return kind == "position" and any(dof in tendon.coupled for tendon in self.coupling)

    def ids(self, dofs: np.ndarray) -> list[int]:
        """Actuators that drive these DOFs and no others: on their joints, and through tendons."""
        chosen = np.zeros(self.moves.shape[1], dtype=bool)
        chosen[dofs] = True
        return np.flatnonzero((self.moves & chosen).any(axis=1) & ~(self.moves & ~chosen).any(axis=1)).tolist()

    def keep(self, model: Any, ids: list[int]) -> list[np.ndarray]:
        """What `put_back` needs to restore the strength of actuators."""
        return keep(model, ids)

    def put_back(self, model: Any, ids: list[int], values: list[np.ndarray]) -> None:
        """Restore the strength of actuators."""
        put_back(model, ids, values)

    def silence(self, model: Any, ids: list[int]) -> None:
        """Switch actuators off."""
        silence(self._mujoco, model, ids)

    def silent(self, model: Any, dofs: np.ndarray) -> np.ndarray:
        """Whether no actuator pushes on a DOF, neither on its joint nor through a tendon."""
        active = model.actuator_gainprm.any(axis=1) | model.actuator_biasprm.any(axis=1)
        return ~np.asarray(self.moves[active][:, dofs].any(axis=0))

    def why_active(self, model: Any, dof: int) -> str:
        """What pushes on a DOF."""
        active = [i for i in np.flatnonzero(self.moves[:, dof]).tolist() if is_active(model, i)]
        return self.what_moves(model, active[0]) if active else "nothing pushes on it"

    def what_moves(self, model: Any, actuator: int, do: str = "drive") -> str:
        """Which joints an actuator moves together, and what to do with all of them."""
        names = [joint_name(model, int(model.dof_jntid[dof])) for dof in np.flatnonzero(self.moves[actuator])]
        name = model.actuator(actuator).name or actuator
        return f"actuator '{name}' moves {', '.join(names)} together: {do} all or none of them"
