# SPDX-License-Identifier: Apache-2.0
"""Slopes of efforts in MuJoCo, which its implicit integrators take into their solve.

An effort τ ≈ τ₀ + a·(q′ − q) + b·(q̇′ − q̇) goes to the engine as a line: two actuators per joint, whose ``ctrl`` are
a and b, push with ctrl·q and ctrl·q̇, and ``qfrc_applied`` is the rest, τ₀ − a·q − b·q̇. All of it is state: environments
that share a model have slopes of their own. ``implicitfast`` and ``implicit`` know b alone, which is the more exact;
with ``discrete`` both count (backward Euler), which is the more damped, and stable at longer steps and with any a.
"""

from __future__ import annotations

import abc
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import SimulationError
from ..engine_drives import Ending, HeldTangent, SlopesRefusedError, Tangent
from .added_drives import new_slope
from .drives import Slope
from .growing import GrowingModel
from .limits import JOINT_FIELDS
from .loop import Line
from .places import grid

LONGEST_FAST = 0.010
"""Longest time step [s] for which ``implicitfast`` is chosen; for longer ones it is ``discrete``."""

MOST_FAST = 0.9
"""Largest share of the stability limit that efforts may use under ``implicitfast``, which knows no stiffness: beyond
kp·dt²/4 = I + kd·dt/2 it diverges. Poses are looked at in part, so some of it is left."""

_ORDER = (Slope.BY_VELOCITY, Slope.BY_POSITION)

INTEGRATOR_CHANGED = "%s: %s ignores slopes of efforts; it is %s until close()"
"""What is logged where slopes need another integrator than the model's own."""

NOT_CHOSEN = (
    "%s: implicit efforts of further joints use %.3g of the stability limit with %s, which was chosen for others; "
    "attach all together, or let the model have the integrator discrete"
)
"""Warning that another integrator is needed while others count on the present one."""

_log = logging.getLogger("actuon.sim")


class SlopeHolder(GrowingModel):
    """The part of a MuJoCo simulation that holds slopes of efforts."""

    _holders: int = 0
    """How many have slopes held."""
    _instead_of: int | None = None
    """The model's own integrator, where it was changed."""
    _rows: dict[str, np.ndarray]
    """What actuators see, by kind, each of shape (N, n)."""
    _lifted: Counter[int]
    """DOFs at whose joints MuJoCo clips nothing, whatever limits these have, and for how many."""

    @abc.abstractmethod
    def _at(self, kind: str, robots: np.ndarray, dofs: np.ndarray) -> tuple[Any, Any]:
        """Environments and columns of the values of ``kind``."""

    def hold_slopes(
        self, robots: np.ndarray, dofs: np.ndarray, share: Callable[[], float] | None = None
    ) -> Callable[[], None]:
        self._check_actuation()
        own = sorted({int(at[dof]) for _, _, at in self._with_models(robots) for dof in dofs})
        try:
            self._choose_integrator(share)
            lacking = [
                new_slope(self._mujoco, dof, slope, self._free_group())
                for slope in self._held_slopes()
                for dof in own
                if self._drives.slopes[slope][dof] < 0
            ]
            if lacking:
                if self._spec is None:
                    raise SlopesRefusedError(
                        f"effort_mode: {self._where} holds no slopes of efforts, and actuators that do can be added "
                        "only to a model from an .xml or .urdf file or an MjSpec"
                    )
                self._grow(lacking)
            self._users += 1
            give_limits_back = self._lift_limits(robots, dofs)
        except BaseException:
            self._give_integrator_back()
            raise

        inputs = np.concatenate([places[own] for places in self._drives.slopes.values()])
        holders = np.flatnonzero(np.isin(self._fields.model.actuator_ctrladr, inputs)).tolist()
        release = self._rely_on(lambda: self._check_holders(holders))

        def give_back() -> None:
            release()
            self._level(*self._at("joint_f", robots, dofs))
            give_limits_back()
            self._give_integrator_back()
            self._shrink()

        return give_back

    def _check_actuation(self) -> None:
        why = self._why_ignored()
        if why:
            raise SlopesRefusedError(
                f"effort_mode: {self._where} {why}, so MuJoCo ignores slopes of efforts; switch it on, or use "
                "'explicit'"
            )

    def _check_holders(self, actuators: list[int]) -> None:
        """Refuse to step where options of the model switch off actuators that hold slopes."""
        why = self._why_ignored(actuators)
        if why:
            raise SimulationError(
                f"{self._where} {why}, while actuators with effort_mode 'implicit' count on it; close() them first"
            )

    @property
    def integrator(self) -> str:
        """How MuJoCo integrates, such as ``"implicitfast"``."""
        return self._integrator_name(int(self._fields.model.opt.integrator))

    @property
    def integrator_changed(self) -> str:
        """The model's own integrator, where another one is used as long as slopes are held; else empty."""
        return "" if self._instead_of is None else self._integrator_name(self._instead_of)

    def _integrator_name(self, kind: int) -> str:
        name = self._mujoco.mjtIntegrator(kind).name.removeprefix("mjINT_")
        return name.capitalize() if name == "EULER" else name if name == "RK4" else name.lower()

    def _takes_slopes(self) -> bool:
        kinds = self._mujoco.mjtIntegrator
        implicit = (kinds.mjINT_IMPLICIT, kinds.mjINT_IMPLICITFAST, kinds.mjINT_DISCRETE)
        return int(self._fields.model.opt.integrator) in map(int, implicit)

    def _choose_integrator(self, share: Callable[[], float] | None) -> None:
        """Let the integrator be one that takes slopes in."""
        kinds, options = self._mujoco.mjtIntegrator, self._fields.model.opt
        self._holders += 1
        if self._takes_slopes():
            used = share() if self._instead_of is not None and share is not None else 0.0
            if used > MOST_FAST:
                _log.warning(NOT_CHOSEN, self._where, used, self.integrator)
            return
        self._instead_of = int(options.integrator)
        options.integrator = int(kinds.mjINT_IMPLICITFAST if self.dt <= LONGEST_FAST else kinds.mjINT_DISCRETE)
        if share is not None and self.dt <= LONGEST_FAST:
            used = share()
            if used > MOST_FAST:
                options.integrator = int(kinds.mjINT_DISCRETE)
                if share() >= used:  # what is late has no slopes that any integrator could take in
                    options.integrator = int(kinds.mjINT_IMPLICITFAST)
        self._fields.version += 1
        own, chosen = self.integrator_changed, self.integrator
        _log.warning(INTEGRATOR_CHANGED, self._where, own, chosen)

    def _give_integrator_back(self) -> None:
        self._holders -= 1
        if self._holders or self._instead_of is None:
            return
        if self._takes_slopes():
            self._fields.model.opt.integrator = self._instead_of
            self._fields.version += 1
        self._instead_of = None

    def _held_slopes(self) -> tuple[Slope, ...]:
        """What the integrator takes in."""
        is_discrete = int(self._fields.model.opt.integrator) == int(self._mujoco.mjtIntegrator.mjINT_DISCRETE)
        return (Slope.BY_VELOCITY, Slope.BY_POSITION) if is_discrete else (Slope.BY_VELOCITY,)

    def lift_limits(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Where a joint has ``actuatorgravcomp``, its compensation is the only part that MuJoCo would clip."""
        model = self._fields.model
        joints = model.dof_jntid[np.stack([own[dofs] for _, _, own in self._with_models(robots)])]
        compensated = dofs[model.jnt_actgravcomp[joints].any(axis=0)]
        return self._lift_limits(robots, compensated) if compensated.size else super().lift_limits(robots, dofs)

    def _lift_limits(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Let MuJoCo not clip what actuators push on joints, which is only a part of the effort; actuators are told
        these limits, and keep to them. Returns what makes it clip again."""
        places = {robot.env: own[dofs] for _, robot, own in self._with_models(robots)}
        joints = {env: self._fields.model.dof_jntid[at] for env, at in places.items()}
        kept = {
            env: [getattr(self._fields.view(env), name)[at].copy() for name in JOINT_FIELDS]
            for env, at in joints.items()
        }
        lifted = [int(dof) for at in places.values() for dof in at]
        self._lifted.update(lifted)
        if not any(values.any() for both in kept.values() for values in both):
            return lambda: self._lifted.subtract(lifted)
        envs = list(places)
        for row, model in self._fields.to_change(JOINT_FIELDS, envs, alike=True):
            at, (limited, bounds) = joints[envs[row]], kept[envs[row]]
            model.jnt_actfrclimited[at] = False
            model.jnt_actfrcrange[at] = np.where(limited[:, None], bounds, 0.0)

        def give_back() -> None:
            self._lifted.subtract(lifted)
            for env, (limited, bounds) in kept.items():
                model, at = self._fields.view(env), joints[env]
                now = model.jnt_actfrcrange[at]
                same = (now == np.where(limited[:, None].astype(bool), bounds, 0.0)).all(axis=1)
                model.jnt_actfrclimited[at] = np.where(same, limited, now.any(axis=1))
                model.jnt_actfrcrange[at] = np.where(same[:, None], bounds, now)
            self._fields.version += 1

        return give_back

    def _lines(self) -> list[Line]:
        """Efforts of the model that are lines."""
        model, by_velocity, by_position = self._fields.model, *(self._drives.slopes[s] for s in _ORDER)
        coordinates = model.jnt_qposadr[model.dof_jntid]
        dofs = np.flatnonzero(by_velocity >= 0).tolist()
        return [Line(dof, int(coordinates[dof]), int(by_velocity[dof]), int(by_position[dof])) for dof in dofs]

    def _level(self, envs: Any, columns: Any) -> None:
        """Let efforts of DOFs be constants."""
        for places in self._drives.slopes.values():
            at = places[columns]
            if (at >= 0).any():
                count = len(np.arange(self.num_envs)[envs])
                self._batch.put("ctrl", envs, at[at >= 0], np.zeros((count, int((at >= 0).sum()))))

    def hold_tangent(
        self, robots: np.ndarray, dofs: np.ndarray, tangent: Tangent, ending: Ending | None = None
    ) -> HeldTangent:
        shown, at = self._rows["joint_f"], grid(*self._at("joint_f", robots, dofs))
        expected = int(self._fields.model.opt.integrator)

        def check() -> None:
            if self._fields.model.opt.integrator != expected:
                self._refuse_integrator(expected)

        return HeldTangent(lambda: None, lambda: shown[at], self._rely_on(check))

    def _refuse_integrator(self, expected: int) -> None:
        raise SimulationError(
            f"{self._where}: the integrator was changed to {self.integrator}, while actuators with effort_mode "
            f"'implicit' count on {self._integrator_name(expected)}; close() them first"
        )
