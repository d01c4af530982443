# SPDX-License-Identifier: Apache-2.0
"""Properties of joints as MuJoCo's model holds them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping

import mujoco
import numpy as np
import warp as wp

from ...errors import SimulationError
from ..engine import Undo
from ..robots import DofSet
from .actuators import GAIN_FIELDS
from .added import MujocoModel
from .friction import SEARCHES, SOFTNESS, switched_off
from .limits import ACTUATOR_FIELDS, CONTROL_FIELDS, JOINT_FIELDS, LIMIT_FIELDS
from .model import PROPERTIES, are_alike, field

_GAINS = ("actuator_gainprm", "actuator_biasprm")
_STOPS = ("jnt_limited", "jnt_range")


class MujocoProperties:
    """Reads and writes the model. Environments that are given other values than the rest get rows of their own.

    Args:
        model: The model.
    """

    no_limit = math.inf

    def __init__(self, model: MujocoModel):
        self._model, self._fields = model, model.fields
        self._stiffened: list[DofSet] = []
        self._fields.on_timestep = weakref.WeakMethod(self._stiffen_again)

    @property
    def limits_version(self) -> int:
        """Another number whenever limits of efforts have changed."""
        return self._model.limits_version

    def contents(self) -> dict[str, np.ndarray]:
        """Return what the model holds and may be changed, by name, not copied."""
        assert self._fields.dt  # which follows the options
        return self._fields.values()

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Refuse contents of a file that do not fit. Returns what takes them over."""
        self._fields.check(where, found)

        def take() -> None:
            self._fields.gather_options()
            self._fields.take(found)
            self._model.limits_version += 1

        return take

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, float32 of shape (n, d); None for what MuJoCo makes no use of."""
        if name == "velocity_limit" or self._switched_off(name):
            return None
        if name in ("stiffness", "damping"):
            return self._fields.each(at, _GAINS, self._model.actuators.gains)[name == "damping"]
        if name in ("lower_limit", "upper_limit"):
            return self._stops(at)[..., int(name == "upper_limit")]
        if name == "effort_limit":
            lower, upper = self._fields.each(at, LIMIT_FIELDS, lambda *own: self._model.limits.effort_range(*own)[:2])
            return np.maximum(np.abs(lower), np.abs(upper)).astype(np.float32)
        place, columns = PROPERTIES[name], at.columns("joint_qd")
        values = place.part(self._fields.read(place.of_dof, at, columns))
        if self._actuators_add(name):
            (added,) = self._fields.each(at, [place.of_actuator], lambda *own: [self._added(name, *own)])
            values = values + added
        return values.astype(np.float32)

    def _added(self, name: str, model: mujoco.MjModel, dofs: np.ndarray) -> np.ndarray:
        """Return what actuators add to a property of these DOFs, shape (d,)."""
        place = PROPERTIES[name]
        return self._model.actuators.at_joints(model, place.part(field(model, place.of_actuator)), dofs)

    def _stops(self, at: DofSet) -> np.ndarray:
        """Return lowest and highest positions [rad or m], shape (n, d, 2)."""
        joints = self._fields.model.dof_jntid[at.columns("joint_qd")]
        limited, stops = (self._fields.read(name, at, joints) for name in _STOPS)
        has_stop = limited.astype(bool)[..., None] & (np.abs(stops) < mujoco.mjMAXVAL)
        return np.where(has_stop, stops, (-np.inf, np.inf))

    def _switched_off(self, name: str) -> str:
        return switched_off(self._fields.model, name)

    def _check_switched_on(self, name: str) -> None:
        flag = self._switched_off(name)
        if flag:
            raise SimulationError(
                f"{self._fields.where} has {flag} switched off in its <option>, so MuJoCo makes no use of the {name} "
                "of joints; switch it on"
            )

    def _actuators_add(self, name: str) -> bool:
        """Return whether an actuator of the model adds to a property of joints."""
        own, fields = PROPERTIES[name].of_actuator, self._fields
        return bool(own) and bool(np.any(fields.rows[own] if own in fields.rows else field(fields.model, own)))

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or both stops or gains, for values of shape (n, d)."""
        if "stiffness" in values:
            self._set_gains(at, values["stiffness"], values["damping"])
        elif "lower_limit" in values:
            self._set_stops(at, values["lower_limit"], values["upper_limit"])
        else:
            ((name, numbers),) = values.items()
            self._set(name, at, numbers)

    def _set(self, name: str, at: DofSet, values: np.ndarray) -> None:
        if name == "velocity_limit":
            raise SimulationError("MuJoCo holds no limit of the speed of a joint; give it to an actuator")
        if np.any(values):  # none is what a property that is switched off comes to
            self._check_switched_on(name)
        columns = at.columns("joint_qd")
        if name == "effort_limit":
            self._model.limits_version += 1
            for row, model in self._fields.change(LIMIT_FIELDS, at, are_alike(values)):
                self._model.limits.set_effort_limits(model, columns, values[row])
            return
        place = PROPERTIES[name]
        adds = self._actuators_add(name)
        if adds:
            self._check_not_shared(name, at)
        self._write(place.of_dof, place.term, at, columns, values)
        if adds:
            self._write(place.of_actuator, place.term, at, np.array(self._model.actuators.ids(columns), np.int64), 0.0)
        if name == "armature":
            self._fields.recompute_constants(at.envs.tolist())

    def _write(self, name: str, term: int | None, at: DofSet, columns: np.ndarray, values: np.ndarray | float) -> None:
        """Write a field of DOFs or actuators, or one of its terms."""
        now = self._fields.read(name, at, columns).copy()
        now[... if term is None else (..., term)] = values
        self._fields.write(name, at, columns, now)

    def _check_not_shared(self, name: str, at: DofSet) -> None:
        """Refuse to set what an actuator adds to a property of these DOFs and of others."""
        place, actuators, columns = PROPERTIES[name], self._model.actuators, at.columns("joint_qd")
        others = np.setdiff1d(np.flatnonzero(actuators.moves[:, columns].any(axis=1)), actuators.ids(columns))
        adds = place.part(self._fields.read(place.of_actuator, at, others)) != 0.0
        if adds.any():
            row, column = np.argwhere(adds)[0]
            why = actuators.what_moves(self._fields.model, int(others[column]), "set")
            raise SimulationError(f"'{at.robots[row].path}': {name} of joints cannot be set: {why}")

    def _set_stops(self, at: DofSet, lower: np.ndarray, upper: np.ndarray) -> None:
        joints = self._fields.model.dof_jntid[at.columns("joint_qd")]
        stops = np.stack([lower, upper], axis=-1)
        values = np.isfinite(stops).any(axis=-1), np.clip(stops, -mujoco.mjMAXVAL, mujoco.mjMAXVAL)
        for name, numbers in zip(_STOPS, values, strict=True):
            self._fields.write(name, at, joints, numbers)

    def _set_gains(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> None:
        actuators, columns = self._model.actuators, at.columns("joint_qd")
        wanted = (stiffness != 0.0) | (damping != 0.0)
        for column in np.flatnonzero(wanted.any(axis=0)).tolist():
            row = int((stiffness[:, column] if stiffness[:, column].any() else wanted[:, column]).argmax())
            why = actuators.gain_error(int(columns[column]), float(stiffness[row, column]))
            if why:
                raise SimulationError(f"{at.joint(row, column)} {why}")
        alike = are_alike(stiffness) and are_alike(damping)
        for row, model in self._fields.change(_GAINS, at, alike):
            actuators.set_gains(model, columns, stiffness[row], damping[row])

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return what writes ``values``, float32 of shape (n, D), at each call, for these DOFs only."""
        of_dof = PROPERTIES[name].of_dof
        if self._fields.num_envs > 1:
            self._fields.make_rows([of_dof])
        given, index = values.numpy(), at.index("joint_qd")

        def write() -> None:
            self._fields.all_rows(of_dof)[index] = given[:, at.dofs]

        return write

    def keep(self, at: DofSet) -> Undo:
        """Return what gives these DOFs their properties back as they are now, to the last bit."""
        model, columns = self._fields.model, at.columns("joint_qd")
        ids = np.array(self._model.actuators.ids(columns), np.int64)
        armature = {PROPERTIES["armature"].of_dof, PROPERTIES["armature"].of_actuator}
        undo = self._fields.snapshot(
            {place.of_dof: columns for place in PROPERTIES.values()}
            | {place.of_actuator: ids for place in PROPERTIES.values() if place.of_actuator}
            | dict.fromkeys((*ACTUATOR_FIELDS, *GAIN_FIELDS), ids)
            | dict.fromkeys(JOINT_FIELDS, model.dof_jntid[columns])
            | dict.fromkeys(CONTROL_FIELDS, model.actuator_ctrladr[ids][model.actuator_ctrlnum[ids] > 0]),
            at,
        )

        def give_back() -> None:
            self._model.limits_version += 1
            if undo() & armature:
                self._fields.recompute_constants(at.envs.tolist())

        return give_back

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Let dry friction of these DOFs hold as firmly as MuJoCo can, and refuse options that switch friction off."""
        option = self._fields.model.opt
        before_search, option.ls_iterations = option.ls_iterations, max(option.ls_iterations, SEARCHES)
        undo = self._fields.snapshot(dict.fromkeys(SOFTNESS, at.columns("joint_qd")), at)
        self._stiffen(at)
        self._stiffened.append(at)

        def check() -> None:
            for name in ("friction", "viscous_friction"):
                self._check_switched_on(name)

        release = self._fields.rely_on(check)

        def give_back() -> None:
            release()
            self._stiffened.remove(at)
            undo()
            self._fields.model.opt.ls_iterations = before_search

        return give_back

    def _stiffen(self, at: DofSet) -> None:
        columns = at.columns("joint_qd")
        for name, firm in SOFTNESS.items():
            values = np.array(firm(self._fields.dt))
            self._fields.write(name, at, columns, np.broadcast_to(values, (*at.shape, len(values))))

    def _stiffen_again(self) -> None:
        """Make dry friction as firm as it can be with another time step."""
        for at in self._stiffened:
            self._stiffen(at)
