# SPDX-License-Identifier: Apache-2.0
"""Slopes of efforts in MuJoCo, which its implicit integrators take into their solve.

An effort τ ≈ τ₀ + a·(q′ − q) + b·(q̇′ − q̇) goes to the engine as a line: two actuators per joint, whose ``ctrl`` are
a and b, push with ctrl·q and ctrl·q̇, and ``qfrc_applied`` is the rest, τ₀ − a·q − b·q̇. All of it is state: environments
that share a model have slopes of their own. ``implicitfast`` and ``implicit`` know b alone, which is the more exact;
with ``discrete`` both count (backward Euler), which is the more damped, and stable at longer steps and with any a.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import mujoco
import numpy as np

from ...errors import SimulationError
from ..engine import EndOfStep, HeldTangent, SlopesRefusedError, Tangent, Undo
from ..robots import DofSet
from .actuators import Slope
from .added import MujocoModel, new_slope
from .drives import MujocoDrives
from .state import MujocoState

LONGEST_FAST = 0.010
"""Longest time step [s] for which ``implicitfast`` is chosen; for longer ones it is ``discrete``."""

MOST_FAST = 0.9
"""Largest share of the stability limit that efforts may use under ``implicitfast``, which knows no stiffness: beyond
kp·dt²/4 = I + kd·dt/2 it diverges. Poses are looked at in part, so some of it is left."""

INTEGRATOR_CHANGED = "%s: %s ignores slopes of efforts; it is %s until close()"
"""Message where slopes need another integrator than the model's own."""

NOT_CHOSEN = (
    "%s: implicit efforts of further joints use %.3g of the stability limit with %s, which was chosen for others; "
    "attach all together, or let the model have the integrator discrete"
)
"""Warning that another integrator is needed while others count on the present one."""

_log = logging.getLogger("actuon.sim")


class MujocoTangents:
    """Efforts with slopes, which implicit integrators take in.

    Args:
        model: The model.
        state: The states of all environments.
        drives: The model's own drives.
    """

    def __init__(self, model: MujocoModel, state: MujocoState, drives: MujocoDrives):
        self._model, self._fields, self._state, self._drives = model, model.fields, state, drives
        self._holders = 0
        """How many have slopes held."""
        self._instead_of: int | None = None
        """The model's own integrator, where it was changed."""

    @property
    def integrator(self) -> str:
        """How MuJoCo integrates, such as ``"implicitfast"``."""
        return _integrator_name(int(self._fields.model.opt.integrator))

    @property
    def integrator_changed(self) -> str:
        """The model's own integrator, where another one is used as long as slopes are held; else empty."""
        return "" if self._instead_of is None else _integrator_name(self._instead_of)

    @property
    def slopes(self) -> tuple[Slope, ...]:
        """Slopes that the integrator takes in."""
        is_discrete = int(self._fields.model.opt.integrator) == int(mujoco.mjtIntegrator.mjINT_DISCRETE)
        return (Slope.BY_VELOCITY, Slope.BY_POSITION) if is_discrete else (Slope.BY_VELOCITY,)

    def hold(
        self, at: DofSet, tangent: Tangent, ending: EndOfStep | None = None, share: Callable[[], float] | None = None
    ) -> HeldTangent:
        """Make ready to take the slopes of efforts in, which motors in the compiled loop hand over at each step."""
        let_go = self._hold_slopes(at, share)
        expected = int(self._fields.model.opt.integrator)

        def check() -> None:
            if self._fields.model.opt.integrator != expected:
                raise SimulationError(
                    f"{self._fields.where}: the integrator was changed to {self.integrator}, while actuators with "
                    f"effort_mode 'implicit' count on {_integrator_name(expected)}; close() them first"
                )

        release_check = self._fields.rely_on(check)

        def release() -> None:
            release_check()
            let_go()

        return HeldTangent(lambda: None, lambda: self._state.efforts(at), release)

    def _hold_slopes(self, at: DofSet, share: Callable[[], float] | None) -> Undo:
        model, where = self._model, self._fields.where
        why = model.why_ignored()
        if why:
            raise SlopesRefusedError(
                f"effort_mode: {where} {why}, so MuJoCo ignores slopes of efforts; switch it on, or use 'explicit'"
            )
        dofs = np.unique(at.columns("joint_qd"))
        try:
            self._choose_integrator(share)
            lacking = [
                new_slope(dof, slope, model.free_group())
                for slope in self.slopes
                for dof in dofs.tolist()
                if model.actuators.slopes[slope][dof] < 0
            ]
            if lacking:
                if not model.can_grow:
                    raise SlopesRefusedError(
                        f"effort_mode: {where} holds no slopes of efforts, and actuators that do can be added only to "
                        "a model from an .xml or .urdf file or an MjSpec"
                    )
                model.add(lacking)
            model.use()
            give_limits_back = self._drives.lift_all_limits(at)
        except BaseException:
            self._give_integrator_back()
            raise
        inputs = np.concatenate([places[dofs] for places in model.actuators.slopes.values()])
        holders = np.flatnonzero(np.isin(self._fields.model.actuator_ctrladr, inputs)).tolist()

        def check() -> None:
            why = model.why_ignored(holders)
            if why:
                raise SimulationError(
                    f"{where} {why}, while actuators with effort_mode 'implicit' count on it; close() them first"
                )

        release = self._fields.rely_on(check)

        def let_go() -> None:
            release()
            self._state.clear_slopes(at)
            give_limits_back()
            self._give_integrator_back()
            model.let_go()

        return let_go

    def _takes_slopes(self) -> bool:
        kinds = mujoco.mjtIntegrator
        implicit = (kinds.mjINT_IMPLICIT, kinds.mjINT_IMPLICITFAST, kinds.mjINT_DISCRETE)
        return int(self._fields.model.opt.integrator) in map(int, implicit)

    def _choose_integrator(self, share: Callable[[], float] | None) -> None:
        """Let the integrator be one that takes slopes in."""
        kinds, options = mujoco.mjtIntegrator, self._fields.model.opt
        self._holders += 1
        if self._takes_slopes():
            used = share() if self._instead_of is not None and share is not None else 0.0
            if used > MOST_FAST:
                _log.warning(NOT_CHOSEN, self._fields.where, used, self.integrator)
            return
        self._instead_of, dt = int(options.integrator), self._fields.dt
        options.integrator = int(kinds.mjINT_IMPLICITFAST if dt <= LONGEST_FAST else kinds.mjINT_DISCRETE)
        if share is not None and dt <= LONGEST_FAST:
            used = share()
            if used > MOST_FAST:
                options.integrator = int(kinds.mjINT_DISCRETE)
                if share() >= used:  # what is late has no slopes that any integrator could take in
                    options.integrator = int(kinds.mjINT_IMPLICITFAST)
        self._fields.version += 1
        _log.warning(INTEGRATOR_CHANGED, self._fields.where, self.integrator_changed, self.integrator)

    def _give_integrator_back(self) -> None:
        self._holders -= 1
        if self._holders or self._instead_of is None:
            return
        if self._takes_slopes():
            self._fields.model.opt.integrator = self._instead_of
            self._fields.version += 1
        self._instead_of = None


def _integrator_name(kind: int) -> str:
    name: str = mujoco.mjtIntegrator(kind).name.removeprefix("mjINT_")
    return name.capitalize() if name == "EULER" else name if name == "RK4" else name.lower()
