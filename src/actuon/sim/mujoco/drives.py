# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own drives of robots: disabling, adding, and limits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import mujoco
import numpy as np

from ...errors import SimulationError
from ..engine import TARGETS, Undo
from ..robots import DofSet
from .actuators import is_active, read_lags
from .added import MujocoModel, limited_range, new_drive
from .batch import Batch
from .rows import ACTUATOR_FIELDS, GAIN_FIELDS, JOINT_FIELDS, LIMIT_FIELDS

_log = logging.getLogger("actuon.sim")


class MujocoDrives:
    """The model's actuators as drives of robots.

    Args:
        model: The model.
        batch: The states of all environments.
    """

    def __init__(self, model: MujocoModel, batch: Batch):
        self._model, self._fields, self._batch = model, model.fields, batch

    @property
    def version(self) -> int:
        """Number that changes when a DOF gets or loses a drive."""
        return self._model.version

    def follows(self, kind: str, at: DofSet) -> np.ndarray:
        """Return whether servos follow targets of DOFs, shape (d,)."""
        what = TARGETS[kind]
        return np.array([self._model.actuators.follows(dof, what) for dof in at.columns("joint_qd").tolist()], bool)

    def silence(self, at: DofSet) -> Undo:
        """Disable actuators that drive these DOFs and no others."""
        return self._silence(at, self._model.actuators.ids(at.columns("joint_qd")))

    def _silence(self, at: DofSet, actuators: Sequence[int]) -> Undo:
        """Disable actuators.

        The current and heat of a DC motor stay unchanged: their equations divide by its resistance, which is one of the
        gains.
        """
        fields, ids = self._fields, np.array(actuators, np.int64)
        undo = fields.snapshot(dict.fromkeys(GAIN_FIELDS, ids), at)
        fixed, pid = int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_PID)
        motor, plain = int(mujoco.mjtDyn.mjDYN_DCMOTOR), int(mujoco.mjtDyn.mjDYN_NONE)
        now = {name: fields.read(name, at, ids) for name in GAIN_FIELDS}
        gain, dynamics = now["actuator_gaintype"], now["actuator_dyntype"]
        values = {name: np.zeros_like(now[name]) for name in ("actuator_gainprm", "actuator_biasprm")}
        values["actuator_gaintype"] = np.where(np.isin(gain, [fixed, pid]), gain, fixed)
        values["actuator_dyntype"] = np.where(dynamics == motor, plain, dynamics)
        values["actuator_biastype"] = np.full_like(gain, int(mujoco.mjtBias.mjBIAS_AFFINE))
        for name, numbers in values.items():
            fields.write(name, at, ids, numbers)
        return undo

    def are_silent(self, at: DofSet) -> np.ndarray:
        """Return whether no actuator acts on a DOF, on its joint or through a tendon, shape (n, d)."""
        everyone = np.arange(self._fields.model.nactuator)
        active = np.zeros((len(at), len(everyone)), dtype=bool)
        for name in ("actuator_gainprm", "actuator_biasprm"):
            active |= self._fields.read(name, at, everyone).any(axis=-1)
        moves = self._model.actuators.moves[:, at.columns("joint_qd")]
        return np.asarray(active.astype(np.float32) @ moves.astype(np.float32) == 0.0)

    def describe(self, at: DofSet) -> str:
        """Describe the actuator that still acts on a single DOF."""
        model = self._fields.view(int(at.envs[0]))
        return self._model.actuators.why_active(model, int(at.columns("joint_qd")[0]))

    def effort_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray]:
        """Return lowest and highest effort [N·m or N] of the model's own drives, each of shape (n, d)."""
        lower, upper = self._fields.each(at, LIMIT_FIELDS, lambda *own: self._model.limits.effort_range(*own)[:2])
        return lower, upper

    def effort_sources(self, at: DofSet) -> list[str]:
        """Return the sources of the first robot's effort limits, d of them; "" for no limit."""
        model = self._fields.view(int(at.envs[0]))
        return self._model.limits.effort_range(model, at.columns("joint_qd"))[2]

    def joint_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray]:
        """Return lowest and highest effort [N·m or N] that joints accept from all actuators, each of shape (n, d).

        If a joint has ``actuatorgravcomp``, MuJoCo clips the sum of actuators and gravity compensation.
        """
        lower, upper = self._fields.each(at, LIMIT_FIELDS, self._model.limits.joint_range)
        if self._model.compensates and np.isfinite([lower, upper]).any():
            given = self._batch.compensation(at.envs.tolist())
            taken = np.array([given[env] for env in at.envs.tolist()])[:, at.columns("joint_qd")]
            lower, upper = lower - taken, upper - taken
        return lower, upper

    def lift_limits(self, at: DofSet) -> Undo:
        """Let MuJoCo add the gravity compensation of joints with ``actuatorgravcomp``, unclipped."""
        columns = at.columns("joint_qd")
        let_go = self._model.keep_compensation(int(columns[0]))
        model = self._fields.model
        compensated = np.flatnonzero(model.jnt_actgravcomp[model.dof_jntid[columns]])
        give_back = self.lift_all_limits(at.of_dofs(compensated)) if compensated.size else lambda: None

        def undo() -> None:
            give_back()
            let_go()

        return undo

    def lift_all_limits(self, at: DofSet) -> Undo:
        """Stop MuJoCo from clipping actuator efforts at joints, which are only a part of the effort.

        Actuators receive these limits, and enforce them.
        """
        columns, lifted = at.columns("joint_qd"), self._model.lifted
        counts = dict.fromkeys(columns.tolist(), len(at))
        lifted.update(counts)
        joints = self._fields.model.dof_jntid[columns]
        limited, bounds = (self._fields.read(name, at, joints).copy() for name in JOINT_FIELDS)
        if not limited.any() and not bounds.any():
            return lambda: lifted.subtract(counts)
        shown = np.where(limited[..., None].astype(bool), bounds, 0.0)
        self._write_joints(at, joints, np.zeros_like(limited), shown)

        def give_back() -> None:
            lifted.subtract(counts)
            now = self._fields.read(JOINT_FIELDS[1], at, joints)
            same = (now == shown).all(axis=-1)
            self._write_joints(
                at, joints, np.where(same, limited, now.any(axis=-1)), np.where(same[..., None], bounds, now)
            )

        return give_back

    def _write_joints(self, at: DofSet, joints: np.ndarray, limited: np.ndarray, bounds: np.ndarray) -> None:
        for name, values in zip(JOINT_FIELDS, (limited, bounds), strict=True):
            self._fields.write(name, at, joints, values)

    def add(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> Undo:
        """Add drives for these gains, each of shape (n, d), to DOFs without a suitable one.

        Raises:
            SimulationError: Options of the model switch the drives off, or it cannot grow.
        """
        has = ((stiffness != 0.0) | (damping != 0.0)).any(axis=0)
        columns, names = at.columns("joint_qd"), at.names
        wanted = {int(columns[i]): names[i] for i in np.flatnonzero(has).tolist()}
        stiff = dict(zip(columns.tolist(), np.abs(stiffness).max(axis=0, initial=0.0).tolist(), strict=True))
        needed = {dof: name for dof, name in wanted.items() if self._needs_drive(dof, stiff[dof])}
        self._check(wanted, self._servos_of(set(wanted) - set(needed)))
        take_away = self._add(at, needed) if needed else lambda: None
        servos = self._servos_of(wanted)
        release = self._fields.rely_on(lambda: self._check(wanted, servos))

        def give_back() -> None:
            release()
            take_away()

        return give_back

    def _needs_drive(self, dof: int, stiffness: float) -> bool:
        """Return whether a DOF of the model needs an added drive for gains."""
        actuators = self._model.actuators
        return dof in actuators.added_dofs or bool(actuators.gain_error(dof, stiffness)) or self._is_late(dof)

    def _is_late(self, dof: int) -> bool:
        """Return whether a servo of a DOF has a filter, a delay or an integral."""
        lags = (read_lags(self._fields.model, i) for i in self._servos_of([dof]))
        return any(own.delay or own.time_constant or own.integral or own.slew for own in lags)

    def _servos_of(self, dofs: Iterable[int]) -> list[int]:
        """Return actuators that follow targets of these DOFs of the model."""
        return [servo.actuator for dof in dofs for servo in self._model.actuators.servos.get(dof, [])]

    def _check(self, dofs: dict[int, str], actuators: Sequence[int]) -> None:
        """Raise an error for drives that options of the model disable.

        Args:
            dofs: DOFs of the model with drives, with the names of their joints.
            actuators: Their present actuators.
        """
        why = self._model.why_ignored(actuators) if dofs else ""
        if why:
            joints = ", ".join(dofs.values())
            raise SimulationError(
                f"{self._fields.where} {why}, so MuJoCo ignores its own drives; switch it on, or drive {joints} with "
                "explicit models"
            )

    def _add(self, at: DofSet, needed: dict[int, str]) -> Undo:
        """Add drives to these DOFs of the model if they have none, and disable their other actuators."""
        model, lacking = self._model, sorted(set(needed) - set(self._model.actuators.added_dofs))
        late = {dof: " that follows gains alone" for dof in lacking if self._is_late(dof)}
        if lacking and not model.can_grow:
            first = lacking[0]
            why = " that follows gains alone, without filter, delay or integral," if first in late else " for it"
            raise SimulationError(
                f"joint '{needed[first]}' of '{at.robots[0].path}' has no drive{why} in the model, and one can be "
                "added only to a model from an .xml or .urdf file or an MjSpec"
            )
        if lacking:
            names = ", ".join(f"{needed[dof]}{late.get(dof, '')}" for dof in lacking)
            self._add_to_model(np.array(lacking))
            _log.warning("%s: no drive in the model for %s; one is added, until close()", self._fields.where, names)
        model.use()
        try:
            give_back = self._silence_other_drives(at, np.array(sorted(needed)))
        except SimulationError:
            model.let_go()
            raise

        def take_away() -> None:
            give_back()
            model.let_go()

        return take_away

    def _add_to_model(self, dofs: np.ndarray) -> None:
        """Add a drive for each of these DOFs of the model, with the limits that its joint has in each environment."""
        fields, limits = self._fields, self._model.limits
        differ = any(name in fields.rows for name in LIMIT_FIELDS)
        own = [limits.effort_range(fields.view(env), dofs)[:2] for env in range(fields.num_envs if differ else 0)]
        lower, upper, _ = limits.effort_range(fields.model, dofs)
        targets = [limits.target_range(fields.model, kind, dofs) for kind in ("position", "velocity")]
        group = self._model.free_group()
        self._model.add(
            [
                new_drive(dof, lower[i], upper[i], group, [(low[i], high[i]) for low, high in targets])
                for i, dof in enumerate(dofs.tolist())
            ]
        )
        if differ:
            fields.make_rows(ACTUATOR_FIELDS)
            fields.version += 1
            limited, ranges = (fields.rows[name] for name in ACTUATOR_FIELDS)
            for env, bounds in enumerate(own):
                for i, pair in enumerate(zip(*bounds, strict=True), start=fields.model.nactuator - len(dofs)):
                    limited[env, i], ranges[env, i] = limited_range(*pair)

    def _silence_other_drives(self, at: DofSet, dofs: np.ndarray) -> Undo:
        """Disable all but the added drives of these DOFs of the model."""
        actuators = self._model.actuators
        give_back = self._silence(at, [i for i in actuators.ids(dofs) if i not in actuators.added])
        model = self._fields.view(int(at.envs[0]))
        for i in np.flatnonzero(actuators.moves[:, dofs].any(axis=1)).tolist():
            if i not in actuators.added and is_active(model, i):
                give_back()
                raise SimulationError(
                    f"a drive cannot be added to a joint that has one: {actuators.what_moves(model, i)}"
                )
        return give_back
