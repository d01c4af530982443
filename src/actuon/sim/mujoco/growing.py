# SPDX-License-Identifier: Apache-2.0
"""Actuators that are added to a model as long as someone needs them: drives for joints that have none, and others."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import SimulationError
from .added_drives import NewActuator, copy_values, limited_range, new_drive, with_actuators
from .drives import Drives
from .limits import ACTUATOR_FIELDS
from .properties import LIMITS, ModelProperties
from .servos import GAIN_FIELDS, is_active, read_lags

_GROUPS = 31
"""Groups of actuators that can be switched off."""

_log = logging.getLogger("actuon.sim")


class GrowingModel(ModelProperties):
    """The part of a MuJoCo simulation that adds actuators to its model, and takes them away."""

    _spec: Callable[[], Any] | None
    """What reads the `MjSpec` that the model was compiled from; None where there is none."""
    _bare: tuple[Any, Drives] | None = None
    """The model without added actuators, and its drives, while there are some."""
    _added: Sequence[NewActuator] = ()
    """What was added, in order."""
    _users: int = 0
    """How many need something that was added."""

    @abc.abstractmethod
    def _take_model(self, model: Any, drives: Drives) -> None:
        """Go on with another model, of the same parts but for actuators at the end."""

    def add_drives(
        self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
    ) -> Callable[[], None]:
        wanted = self._with_gains(robots, dofs, stiffness, damping)
        needed = self._needed(robots, dofs, stiffness, damping)
        self._check_drives(wanted, self._servos_of(set(wanted) - set(needed)))
        take_away = self._add_drives(robots, needed) if needed else lambda: None
        servos = self._servos_of(wanted)
        release = self._rely_on(lambda: self._check_drives(wanted, servos))

        def give_back() -> None:
            release()
            take_away()

        return give_back

    def _add_drives(self, robots: np.ndarray, needed: dict[int, str]) -> Callable[[], None]:
        """Add drives for these DOFs of the model where they have none yet, and silence what else drives them.

        Returns:
            What takes them away.
        """
        path, lacking = self.robots[robots[0]].path, sorted(set(needed) - set(self._drives.added_dofs))
        late = {dof: " that follows gains alone" for dof in lacking if self._is_late(dof)}
        if lacking and self._spec is None:
            first = lacking[0]
            why = " that follows gains alone, without filter, delay or integral," if first in late else " for it"
            raise SimulationError(
                f"joint '{needed[first]}' of '{path}' has no drive{why} in the model, and one can be added only to a "
                "model from an .xml or .urdf file or an MjSpec"
            )
        if lacking:
            names = ", ".join(f"{needed[dof]}{late.get(dof, '')}" for dof in lacking)
            self._grow_drives(lacking)
            _log.warning("%s: no drive in the model for %s; one is added, until close()", self._where, names)
        self._users += 1
        try:
            give_back = self._silence_beside(robots, np.array(sorted(needed)))
        except SimulationError:
            self._shrink()
            raise

        def take_away() -> None:
            give_back()
            self._shrink()

        return take_away

    def _with_gains(
        self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
    ) -> dict[int, str]:
        """DOFs of the model that are to have gains other than zero, with the names of their joints."""
        has = (stiffness != 0.0) | (damping != 0.0)
        found: dict[int, str] = {}
        for row, (_, robot, own) in enumerate(self._with_models(robots)):
            found |= {int(own[dof]): robot.dof_names[dof] for dof in dofs[has[row]].tolist()}
        return found

    def _servos_of(self, dofs: Iterable[int]) -> list[int]:
        """Actuators of the model that follow targets of these of its DOFs."""
        return [servo.actuator for dof in dofs for servo in self._drives.servos.get(dof, [])]

    def _check_drives(self, dofs: dict[int, str], actuators: Sequence[int]) -> None:
        """Refuse drives that options of the model switch off.

        Args:
            dofs: DOFs of the model that have them, with the names of their joints.
            actuators: Those that are there already.
        """
        why = self._why_ignored(actuators) if dofs else ""
        if why:
            joints = ", ".join(dofs.values())
            raise SimulationError(
                f"{self._where} {why}, so MuJoCo ignores its own drives; switch it on, or drive {joints} with explicit "
                "models"
            )

    def _why_ignored(self, actuators: Iterable[int] = ()) -> str:
        """Return why MuJoCo ignores one of these actuators, or any; empty where it does not."""
        model, option = self._fields.model, self._fields.model.opt
        if option.disableflags & int(self._mujoco.mjtDisableBit.mjDSBL_ACTUATION):
            return "has actuation switched off in its <option>"
        off = int(option.disableactuator)
        if off == 2**_GROUPS - 1:
            return "has all groups of actuators switched off"
        for i in actuators if off else ():
            group = int(model.actuator_group[i])
            if 0 <= group < _GROUPS and off >> group & 1:
                name = model.actuator(i).name or i
                return f"has group {group} of actuators switched off in its <option>, that of '{name}'"
        return ""

    def _free_group(self) -> int:
        """Return a group of actuators that is not switched off. There is one."""
        off = int(self._fields.model.opt.disableactuator)
        return next(group for group in range(_GROUPS) if not off >> group & 1)

    def _needed(
        self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
    ) -> dict[int, str]:
        """DOFs of the model that need an added drive for these gains, with the names of their joints."""
        found: dict[int, str] = {}
        added = set(self._drives.added_dofs)
        for row, (_, robot, own) in enumerate(self._with_models(robots)):
            for column, dof in enumerate(dofs.tolist()):
                kp, kd = float(stiffness[row, column]), float(damping[row, column])
                at = int(own[dof])
                if (kp or kd) and (at in added or self._drives.why_not(at, kp) or self._is_late(at)):
                    found[at] = robot.dof_names[dof]
        return found

    def _is_late(self, dof: int) -> bool:
        """Whether a servo of a DOF does more than to follow its gains: a filter, a delay, an integral."""
        lags = (read_lags(self._mujoco, self._fields.model, i) for i in self._servos_of([dof]))
        return any(own.delay or own.time_constant or own.integral or own.slew for own in lags)

    def _grow_drives(self, dofs: list[int]) -> None:
        model = self._fields.model
        envs = range(self.num_envs if any(name in self._fields.rows for name in LIMITS) else 0)
        own = [self._limits.effort_range(self._fields.view(env), np.array(dofs)) for env in envs]
        lower, upper, _ = self._limits.effort_range(model, np.array(dofs))
        targets = [self._limits.target_range(model, kind, np.array(dofs)) for kind in ("position", "velocity")]
        group = self._free_group()
        self._grow(
            [
                new_drive(self._mujoco, dof, lower[i], upper[i], group, [(low[i], high[i]) for low, high in targets])
                for i, dof in enumerate(dofs)
            ]
        )
        if own:
            self._limit_each(self._fields.model.nactuator - len(dofs), own)

    def _grow(self, new: Sequence[NewActuator]) -> None:
        """Go on with a model that has these actuators too, last. What was there keeps its place and its values."""
        assert self._spec is not None
        self._fields.gather_options()
        model, drives = self._fields.model, self._drives
        bare, _ = self._bare or (model, drives)
        try:
            spec = self._spec()
        except ValueError as error:
            raise SimulationError(
                f"no drive can be added: {self._where} cannot be read again: {' '.join(str(error).split())}"
            ) from error
        grown, its_drives = with_actuators(self._mujoco, spec, bare, [*self._added, *new])
        copy_values(model, grown)
        self._bare, self._added = self._bare or (model, drives), [*self._added, *new]
        self._take_model(grown, its_drives)

    def _limit_each(self, first: int, ranges: Sequence[Sequence[Any]]) -> None:
        """Give actuators from ``first`` on lowest and highest efforts [N·m or N], for each environment."""
        for env, model in self._fields.to_change(ACTUATOR_FIELDS, range(self.num_envs), alike=False):
            for i, place in enumerate(zip(*ranges[env][:2], strict=True), start=first):
                model.actuator_forcelimited[i], model.actuator_forcerange[i] = limited_range(*place)

    def _shrink(self) -> None:
        """Take added actuators away, once nobody needs any."""
        self._users -= 1
        if self._users or self._bare is None:
            return
        self._fields.gather_options()
        model, drives = self._bare
        self._bare, self._added = None, ()
        copy_values(self._fields.model, model)
        self._take_model(model, drives)

    def _silence_beside(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Make all but the added drives of these DOFs of the model push no more. Returns what gives them back."""
        others = [i for i in self._drives.ids(dofs) if i not in self._drives.added]
        envs = sorted({self.robots[i].env for i in robots})
        kept = [(env, self._drives.keep(self._fields.view(env), others)) for env in envs]
        for _, model in self._fields.to_change(GAIN_FIELDS, envs, alike=True):
            self._drives.silence(model, others)
        self._fields.version += 1

        def give_back() -> None:
            for env, values in kept:
                self._drives.put_back(self._fields.view(env), others, values)
            self._fields.version += 1

        model = self._fields.view(envs[0])
        for i in np.flatnonzero(self._drives.moves[:, dofs].any(axis=1)).tolist():
            if i not in self._drives.added and is_active(model, i):
                give_back()
                raise SimulationError(f"a drive cannot be added beside another: {self._drives.what_moves(model, i)}")
        return give_back
