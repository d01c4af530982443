# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own actuators, as drives of joints: which there are, what they are told, how strong they are."""

from __future__ import annotations

from typing import Any

import numpy as np

FIELDS = ("actuator_gaintype", "actuator_biastype", "actuator_gainprm", "actuator_biasprm")


class Drives:
    """The actuators of a model, by DOF.

    A *position servo* pulls with ``kp·(ctrl − gear·q) − kv·gear·q̇``, times its gear; a *velocity servo* with
    ``kv·(ctrl − gear·q̇)``. Others, such as motors and muscles, are not told targets. A joint with two servos of a
    kind is treated as having none: nobody could say which of them a target is for.
    """

    def __init__(self, mujoco: Any, model: Any):
        self._mujoco = mujoco
        joint_types = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        self.on: dict[int, list[int]] = {}
        """Actuators on the joint of a DOF alone."""
        self.elsewhere: list[int] = []
        """Actuators through tendons, sites and the like, which may move several joints."""
        servos: dict[str, dict[int, list[int]]] = {"position": {}, "velocity": {}}
        for i in range(model.nu):
            if model.actuator_trntype[i] not in joint_types:
                self.elsewhere.append(i)
                continue
            dof = int(model.jnt_dofadr[model.actuator_trnid[i, 0]])
            self.on.setdefault(dof, []).append(i)
            kind = self._kind(model, i)
            if kind:
                servos[kind].setdefault(dof, []).append(i)
        self.gear = model.actuator_gear[:, 0].copy()
        self.position, self.velocity = (self._single(model.nv, servos[kind]) for kind in ("position", "velocity"))
        """The servo of each DOF, or -1."""
        self.several = {dof for kind in servos.values() for dof, ids in kind.items() if len(ids) > 1}

    def _kind(self, model: Any, i: int) -> str | None:
        """Whether an actuator is a position or a velocity servo."""
        gain, (constant, holds, brakes) = model.actuator_gainprm[i, 0], model.actuator_biasprm[i, :3]
        plain = (
            model.actuator_gaintype[i] == int(self._mujoco.mjtGain.mjGAIN_FIXED)
            and model.actuator_biastype[i] == int(self._mujoco.mjtBias.mjBIAS_AFFINE)
            and model.actuator_dyntype[i] != int(self._mujoco.mjtDyn.mjDYN_INTEGRATOR)
            and constant == 0.0
            and model.actuator_gear[i, 0] != 0.0
        )
        if plain and gain == -holds:
            return "position"
        return "velocity" if plain and holds == 0.0 and gain == -brakes else None

    @staticmethod
    def _single(count: int, servos: dict[int, list[int]]) -> np.ndarray:
        found = np.full(count, -1)
        for dof, ids in servos.items():
            if len(ids) == 1:
                found[dof] = ids[0]
        return found

    def gains(self, model: Any, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping at the joint, of its position servo or else of its velocity servo; zero without one."""
        stiffness, damping = np.zeros(len(dofs), np.float32), np.zeros(len(dofs), np.float32)
        for column, dof in enumerate(dofs):
            servo = self.position[dof] if self.position[dof] >= 0 else self.velocity[dof]
            if servo >= 0:
                _, holds, brakes = -model.actuator_biasprm[servo, :3] * self.gear[servo] ** 2
                stiffness[column], damping[column] = holds + 0.0, brakes + 0.0
        return stiffness, damping

    def why_not(self, dof: int, stiffness: float) -> str | None:
        """Why a DOF cannot be given gains, or None where it can."""
        if self.position[dof] >= 0 or (self.velocity[dof] >= 0 and stiffness == 0.0):
            return None
        if dof in self.several:
            return "has several servos in the model, which cannot be told apart"
        return "has no position servo in the model"

    def set_gains(self, model: Any, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Set what `gains` returns. DOFs without a servo are passed over."""
        for dof, kp, kd in zip(dofs, stiffness, damping, strict=True):
            servo = int(self.position[dof] if self.position[dof] >= 0 else self.velocity[dof])
            if servo < 0:
                continue
            kp, kd = kp / self.gear[servo] ** 2, kd / self.gear[servo] ** 2
            model.actuator_gainprm[servo, 0] = kp if self.position[dof] >= 0 else kd
            model.actuator_biasprm[servo, 1:3] = -kp, -kd

    def effort_limits(self, model: Any, dofs: np.ndarray) -> np.ndarray:
        """Largest effort at the joint of the position servo; inf where it has none, or there is no servo."""
        limits = np.full(len(dofs), np.inf)
        for column, servo in enumerate(self.position[dofs]):
            if servo >= 0 and model.actuator_forcelimited[servo]:
                limits[column] = model.actuator_forcerange[servo, 1] * abs(self.gear[servo])
        return limits

    def set_effort_limits(self, model: Any, dofs: np.ndarray, limits: np.ndarray) -> None:
        """Set what `effort_limits` returns; inf takes the limit off. DOFs without a servo are passed over."""
        for servo, limit in zip(self.position[dofs], limits, strict=True):
            if servo >= 0:
                model.actuator_forcelimited[servo] = np.isfinite(limit)
                force = limit / abs(self.gear[servo]) if np.isfinite(limit) else 0.0
                model.actuator_forcerange[servo] = -force, force

    def ids(self, dofs: np.ndarray) -> list[int]:
        """Actuators on the joints of these DOFs."""
        return [i for dof in dofs for i in self.on.get(int(dof), [])]

    def keep(self, model: Any, ids: list[int]) -> list[np.ndarray]:
        """What `put_back` needs to restore actuators."""
        return [getattr(model, field)[ids].copy() for field in FIELDS]

    def put_back(self, model: Any, ids: list[int], values: list[np.ndarray]) -> None:
        """Restore actuators."""
        for field, value in zip(FIELDS, values, strict=True):
            getattr(model, field)[ids] = value

    def silence(self, model: Any, ids: list[int]) -> None:
        """Make actuators push no more."""
        model.actuator_gaintype[ids] = int(self._mujoco.mjtGain.mjGAIN_FIXED)
        model.actuator_biastype[ids] = int(self._mujoco.mjtBias.mjBIAS_AFFINE)
        model.actuator_gainprm[ids] = 0.0
        model.actuator_biasprm[ids] = 0.0

    def silent(self, model: Any, data: Any, dofs: np.ndarray) -> np.ndarray:
        """Whether no actuator pushes on a DOF, neither on its joint nor through a tendon or site."""
        pushed = np.zeros(model.nv, dtype=bool)
        for dof, ids in self.on.items():
            pushed[dof] = any(self._is_loud(model, i) for i in ids)
        far = [i for i in self.elsewhere if self._is_loud(model, i)]
        if far:
            moment = np.zeros((model.nu, model.nv))
            self._mujoco.mju_sparse2dense(
                moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
            )
            pushed |= moment[far].any(axis=0)
        return ~pushed[dofs]

    @staticmethod
    def _is_loud(model: Any, i: int) -> bool:
        return bool(model.actuator_gainprm[i].any() or model.actuator_biasprm[i].any())
