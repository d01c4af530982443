# SPDX-License-Identifier: Apache-2.0
"""Limits of efforts and targets in a model.

The tightest one counts: ``actuatorfrcrange`` of the joint (which has the ``effort`` of a URDF), ``forcerange`` of a
servo or motor, and ``ctrlrange`` of a motor, times gain and gear. Both bounds are kept, as they may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from .actuators import Actuators, fixed_coefficients
from .rows import ACTUATOR_FIELDS, JOINT_FIELDS


@dataclass(frozen=True)
class Efforts:
    """A range of efforts [N·m or N], and its source in the model."""

    lower: float = -np.inf
    upper: float = np.inf
    source: str = ""

    @classmethod
    def of(cls, bounds: np.ndarray, source: str) -> Efforts:
        """Return the range of a model's field, shape (2,)."""
        return cls(float(bounds[0]), float(bounds[1]), source)

    def times(self, factor: float) -> Efforts:
        """Return the range after a gear."""
        lower, upper = sorted((_product(self.lower, factor), _product(self.upper, factor)))
        return Efforts(lower, upper, self.source)

    def within(self, other: Efforts) -> Efforts:
        """Return the intersection of both ranges, with the tighter one's source."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        sources = [
            one.source for one, two in ((self, other), (other, self)) if one.lower > two.lower or one.upper < two.upper
        ] or [self.source]
        return Efforts(lower, upper, " and ".join(dict.fromkeys(filter(None, sources))))


class Limits:
    """Limits of efforts and targets of a model's joints of one DOF.

    Args:
        actuators: The model's actuators.
        lifted: DOFs at whose joints MuJoCo clips nothing, with counts above zero. Their limits are the ranges in the
            model that are not zero. Default: none.
    """

    def __init__(self, actuators: Actuators, lifted: Mapping[int, int] | None = None):
        self._actuators = actuators
        self._lifted = {} if lifted is None else lifted

    def effort_range(self, model: Any, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Return lowest and highest effort [N·m or N] of the model's own drives at the joint, each of shape (d,), and
        the sources in the model, "" for no limit.

        Actuators on one joint add up. If a joint has servos, they count; otherwise motors; otherwise a tendon.
        """
        ranges = [self._effort_range(model, int(dof)) for dof in dofs]
        lower, upper = (np.array([getattr(one, side) for one in ranges]) for side in ("lower", "upper"))
        return lower, upper, [one.source for one in ranges]

    def effort_limits(self, model: Any, dofs: np.ndarray) -> np.ndarray:
        """Return the largest effort in either direction [N·m or N], shape (d,); inf without a limit."""
        lower, upper, _ = self.effort_range(model, dofs)
        return np.maximum(np.abs(lower), np.abs(upper))

    def joint_range(self, model: Any, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lowest and highest effort [N·m or N] that joints accept from all actuators, each of shape (d,).

        MuJoCo clips the efforts of its own actuators to this range, but not external efforts.
        """
        ranges = [self._joint_range(model, int(dof)) for dof in dofs]
        return np.array([one.lower for one in ranges]), np.array([one.upper for one in ranges])

    def _effort_range(self, model: Any, dof: int) -> Efforts:
        own = self._deciding(dof)
        if own:
            ranges = [self._actuator_range(model, i) for i in own]
            sources = dict.fromkeys(filter(None, (one.source for one in ranges)))
            lower, upper = sum(one.lower for one in ranges), sum(one.upper for one in ranges)
            actuators = Efforts(lower, upper, " and ".join(sources) if np.isfinite([lower, upper]).any() else "")
        else:
            actuators = self._tendon_range(model, dof)
        return actuators.within(self._joint_range(model, dof))

    def _deciding(self, dof: int) -> list[int]:
        """Return actuators whose limits are those of the joint."""
        servos = self._actuators.servos.get(dof)
        return [servo.actuator for servo in servos] if servos else self._actuators.on.get(dof, [])

    def _has_joint_limit(self, model: Any, dof: int) -> bool:
        joint = int(model.dof_jntid[dof])
        is_lifted = self._lifted.get(dof, 0) > 0 and model.jnt_actfrcrange[joint].any()
        return bool(model.jnt_actfrclimited[joint] or is_lifted)

    def _joint_range(self, model: Any, dof: int) -> Efforts:
        joint = int(model.dof_jntid[dof])
        if not self._has_joint_limit(model, dof):
            return Efforts()
        return Efforts.of(model.jnt_actfrcrange[joint], f"actuatorfrcrange of joint '{model.joint(joint).name}'")

    def _actuator_range(self, model: Any, actuator: int) -> Efforts:
        """Return the efforts of an actuator after its gear."""
        name = model.actuator(actuator).name or actuator
        force = Efforts()
        if model.actuator_forcelimited[actuator]:
            force = Efforts.of(model.actuator_forcerange[actuator], f"forcerange of actuator '{name}'")
        gain, place = self._actuators.motor_gain.get(actuator), int(model.actuator_ctrladr[actuator])
        if gain is not None and self._clips(model, place):
            control = Efforts.of(model.actuator_ctrlrange[place], f"ctrlrange of motor '{name}'")
            force = control.times(gain).within(force)
        return force.times(float(model.actuator_gear[actuator, 0]))

    def _clips(self, model: Any, place: int) -> bool:
        off = model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
        return bool(model.actuator_ctrllimited[place]) and not off

    def _tendon_range(self, model: Any, dof: int) -> Efforts:
        """Return the efforts at a joint that only a fixed tendon moves."""
        through = [tendon for tendon in self._actuators.tendons if dof in tendon.dofs]
        if len(through) != 1 or through[0].coefficients is None:
            return Efforts()
        tendon = through[0]
        force = self._actuator_range(model, tendon.servo.actuator)
        if model.tendon_actfrclimited[tendon.tendon]:
            bounds = model.tendon_actfrcrange[tendon.tendon]
            force = Efforts.of(bounds, f"actuatorfrcrange of tendon '{tendon.name}'").within(force)
        coefficients = fixed_coefficients(model, tendon.tendon)
        assert coefficients is not None
        return force.times(float(coefficients[dof]))

    def set_effort_limits(self, model: Any, dofs: np.ndarray, limits: np.ndarray) -> None:
        """Set the limits of `effort_limits`, in both directions; inf removes them.

        An equal limit keeps both bounds unchanged. The limit of a single actuator is its ``forcerange``; that of
        several, or of none, belongs to the joint.
        """
        for dof, limit, held in zip(dofs.tolist(), limits, self.effort_limits(model, dofs), strict=True):
            if np.float32(limit) != np.float32(held):
                self._set_effort_limit(model, dof, float(limit))

    def _set_effort_limit(self, model: Any, dof: int, limit: float) -> None:
        has_limit, actuators = bool(np.isfinite(limit)), self._deciding(dof)
        single = len(actuators) == 1
        joint = int(model.dof_jntid[dof])
        if self._has_joint_limit(model, dof) or not single:
            _write(model, JOINT_FIELDS, joint, has_limit, limit)
            model.jnt_actfrclimited[joint] = has_limit and not self._lifted.get(dof, 0)
        for i in actuators:
            force = limit / abs(float(model.actuator_gear[i, 0])) if has_limit else limit
            _write(model, ACTUATOR_FIELDS, i, has_limit and single, force)
            gain, place = self._actuators.motor_gain.get(i), int(model.actuator_ctrladr[i])
            if gain is not None and np.abs(model.actuator_ctrlrange[place] * gain).max() < force:
                model.actuator_ctrllimited[place] = False

    def target_range(self, model: Any, kind: str, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lowest and highest target of servos [rad or m, or per second], each of shape (d,); ±inf without a
        ``ctrlrange``.

        Args:
            model: The model.
            kind: ``"position"`` or ``"velocity"``.
            dofs: DOFs of the model, shape (d,).
        """
        places = (self._actuators.position if kind == "position" else self._actuators.velocity)[dofs]
        lower, upper = np.full(len(dofs), -np.inf), np.full(len(dofs), np.inf)
        for column, place in enumerate(places.tolist()):
            if place >= 0:
                bounds = self._actuators.targets(np.array(self.control_range(model, place)), np.array([place, place]))
                lower[column], upper[column] = bounds.min(), bounds.max()
        return lower, upper

    def control_range(self, model: Any, place: int) -> tuple[float, float]:
        """Return lowest and highest ``ctrl`` at a place; ±inf if MuJoCo does not clip it."""
        if not self._clips(model, place):
            return -np.inf, np.inf
        lower, upper = model.actuator_ctrlrange[place].tolist()
        return lower, upper


def _write(model: Any, fields: tuple[str, str], at: int, has_limit: bool, limit: float) -> None:
    getattr(model, fields[0])[at] = has_limit
    getattr(model, fields[1])[at] = (-limit, limit) if has_limit else (0.0, 0.0)


def _product(bound: float, factor: float) -> float:
    """Return a product in which infinity times zero is zero."""
    return bound * factor if factor else 0.0
