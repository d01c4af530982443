# SPDX-License-Identifier: Apache-2.0
"""Implicit efforts in MuJoCo: derivatives of efforts for its implicit integrators.

An effort τ ≈ τ₀ + a·(q′ − q) + b·(q̇′ − q̇) is written as a line: two actuators per joint, whose ``ctrl`` are a and b,
have the efforts ctrl·q and ctrl·q̇, and ``qfrc_applied`` is the rest, τ₀ − a·q − b·q̇. All of these are state, so
environments that share a model have different derivatives. ``implicitfast`` and ``implicit`` use b only, which is more
exact; ``discrete`` uses both (backward Euler), which is more damped, and stable at longer steps and with any a.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import mujoco
import numpy as np

from ...errors import SimulationError
from ..engine import EndOfStep, HeldImplicitEffort, ImplicitEffort, ImplicitRefusedError, Undo
from ..robots import DofSet
from .actuators import Derivative
from .added import MujocoModel, new_derivative
from .drives import MujocoDrives
from .state import MujocoState

LONGEST_FAST = 0.010
"""Longest time step [s] for ``implicitfast``; longer ones need ``discrete``."""

MOST_FAST = 0.9
"""Largest stability usage [1] for ``implicitfast``, which ignores stiffness and diverges beyond
kp·dt²/4 = I + kd·dt/2. Only some poses are examined, so this is below 1."""

INTEGRATOR_CHANGED = "%s: %s ignores derivatives of efforts; it is %s until close()"
"""Message when implicit efforts need another integrator than the model's."""

NOT_CHOSEN = (
    "%s: implicit efforts of further joints use %.0f %% of the stability limit with %s, the integrator of the earlier "
    'ones; create all actuators together, or set integrator="discrete" in the model'
)
"""Warning when another integrator is needed while other actuators need the present one."""

_log = logging.getLogger("actuon.sim")


class MujocoImplicitEfforts:
    """Efforts with derivatives for implicit integrators.

    Args:
        model: The model.
        state: The states of all environments.
        drives: The model's own drives.
    """

    def __init__(self, model: MujocoModel, state: MujocoState, drives: MujocoDrives):
        self._model, self._fields, self._state, self._drives = model, model.fields, state, drives
        self._holders = 0
        """Number of holders of derivatives."""
        self._instead_of: int | None = None
        """The model's integrator, if it was replaced."""

    @property
    def integrator(self) -> str:
        """Integrator of MuJoCo, such as ``"implicitfast"``."""
        return _integrator_name(int(self._fields.model.opt.integrator))

    @property
    def integrator_changed(self) -> str:
        """The model's integrator, if another one replaces it while derivatives are held; else empty."""
        return "" if self._instead_of is None else _integrator_name(self._instead_of)

    @property
    def derivatives(self) -> tuple[Derivative, ...]:
        """Derivatives that the integrator uses."""
        is_discrete = int(self._fields.model.opt.integrator) == int(mujoco.mjtIntegrator.mjINT_DISCRETE)
        return (Derivative.BY_VELOCITY, Derivative.BY_POSITION) if is_discrete else (Derivative.BY_VELOCITY,)

    def hold(
        self,
        at: DofSet,
        implicit: ImplicitEffort,
        ending: EndOfStep | None = None,
        usage: Callable[[], float] | None = None,
    ) -> HeldImplicitEffort:
        """Prepare for derivatives of efforts, which motors in the compiled loop write at each step."""
        let_go = self._hold_derivatives(at, usage)
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

        return HeldImplicitEffort(None, lambda: self._state.efforts(at), release)

    def _hold_derivatives(self, at: DofSet, usage: Callable[[], float] | None) -> Undo:
        model, where = self._model, self._fields.where
        why = model.why_ignored()
        if why:
            raise ImplicitRefusedError(
                f"effort_mode: {where} {why}, so MuJoCo ignores derivatives of efforts; switch it on, or use 'explicit'"
            )
        dofs = np.unique(at.columns("joint_qd"))
        try:
            self._choose_integrator(usage)
            lacking = [
                new_derivative(dof, derivative, model.free_group())
                for derivative in self.derivatives
                for dof in dofs.tolist()
                if model.actuators.derivatives[derivative][dof] < 0
            ]
            if lacking:
                if not model.can_grow:
                    raise ImplicitRefusedError(
                        f"effort_mode: {where} has no actuators for derivatives of efforts, which can be added only "
                        "to a model from an .xml or .urdf file or an MjSpec"
                    )
                model.add(lacking)
            model.use()
            give_limits_back = self._drives.lift_all_limits(at)
        except BaseException:
            self._give_integrator_back()
            raise
        inputs = np.concatenate([places[dofs] for places in model.actuators.derivatives.values()])
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
            self._state.clear_derivatives(at)
            give_limits_back()
            self._give_integrator_back()
            model.let_go()

        return let_go

    def _uses_derivatives(self) -> bool:
        kinds = mujoco.mjtIntegrator
        implicit = (kinds.mjINT_IMPLICIT, kinds.mjINT_IMPLICITFAST, kinds.mjINT_DISCRETE)
        return int(self._fields.model.opt.integrator) in map(int, implicit)

    def _choose_integrator(self, usage: Callable[[], float] | None) -> None:
        """Choose an integrator that uses derivatives."""
        kinds, options = mujoco.mjtIntegrator, self._fields.model.opt
        self._holders += 1
        if self._uses_derivatives():
            used = usage() if self._instead_of is not None and usage is not None else 0.0
            if used > MOST_FAST:
                _log.warning(NOT_CHOSEN, self._fields.where, 100.0 * used, self.integrator)
            return
        self._instead_of, dt = int(options.integrator), self._fields.dt
        options.integrator = int(kinds.mjINT_IMPLICITFAST if dt <= LONGEST_FAST else kinds.mjINT_DISCRETE)
        if usage is not None and dt <= LONGEST_FAST:
            used = usage()
            if used > MOST_FAST:
                options.integrator = int(kinds.mjINT_DISCRETE)
                if usage() >= used:  # late efforts have no derivatives that an integrator could use
                    options.integrator = int(kinds.mjINT_IMPLICITFAST)
        self._fields.version += 1
        _log.warning(INTEGRATOR_CHANGED, self._fields.where, self.integrator_changed, self.integrator)

    def _give_integrator_back(self) -> None:
        self._holders -= 1
        if self._holders or self._instead_of is None:
            return
        if self._uses_derivatives():
            self._fields.model.opt.integrator = self._instead_of
            self._fields.version += 1
        self._instead_of = None


def _integrator_name(kind: int) -> str:
    name: str = mujoco.mjtIntegrator(kind).name.removeprefix("mjINT_")
    return name.capitalize() if name == "EULER" else name if name == "RK4" else name.lower()
