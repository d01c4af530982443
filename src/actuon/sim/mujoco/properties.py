# SPDX-License-Identifier: Apache-2.0
"""Properties of joints in MuJoCo's model."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping

import numpy as np
import warp as wp

from ...errors import SimulationError
from ..engine import Undo
from ..robots import DofSet
from .added import MujocoModel
from .friction import SEARCHES, SOFTNESS
from .rows import PROPERTIES, Row


class MujocoProperties:
    """Properties of joints in the model. Environments with different values get their own rows.

    Args:
        model: The model.
    """

    no_limit = math.inf

    def __init__(self, model: MujocoModel):
        self._model, self._fields = model, model.fields
        self._stiffened: list[DofSet] = []
        self._fields.on_timestep = weakref.WeakMethod(self._stiffen_again)

    @property
    def limits_version(self) -> int | None:
        """Number that changes with the effort limits. None: they follow the pose."""
        return None if self._model.compensates else self._model.limits_version

    def contents(self) -> dict[str, np.ndarray]:
        """Return the values of the model that may change, by name, not copied."""
        assert self._fields.dt  # which follows the options
        return self._fields.values()

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Raise an error for contents of a file that do not fit. Returns a function that loads them."""
        self._fields.check(where, found)

        def take() -> None:
            self._fields.gather_options()
            self._fields.take(found)
            self._model.limits_version += 1

        return take

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, float32 of shape (n, d); None if MuJoCo does not use it."""
        row = PROPERTIES[name]
        if row.get is None or row.switched_off(self._fields.model):
            return None
        return row.get(self._model, row, at)

    def _check_switched_on(self, row: Row) -> None:
        flag = row.switched_off(self._fields.model)
        if flag:
            raise SimulationError(
                f"{self._fields.where} has {flag} switched off in its <option>, so MuJoCo ignores the "
                f"{row.name} of joints; switch it on"
            )

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or both stops or gains, for values of shape (n, d)."""
        row = PROPERTIES[next(iter(values))]
        if any(np.any(numbers) for numbers in values.values()):  # a disabled property is zero
            self._check_switched_on(row)
        row.set(self._model, row, at, *values.values())

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return a function that writes ``values``, float32 of shape (n, D), of these DOFs."""
        of_dof = PROPERTIES[name].of_dof
        if self._fields.num_envs > 1:
            self._fields.make_rows([of_dof])
        given, index = values.numpy(), at.index("joint_qd")

        def write() -> None:
            self._fields.all_rows(of_dof)[index] = given[:, at.dofs]

        return write

    def keep(self, at: DofSet) -> Undo:
        """Return a function that restores the present properties of these DOFs, to the last bit."""
        model, columns = self._fields.model, at.columns("joint_qd")
        ids = np.array(self._model.actuators.ids(columns), np.int64)
        controls = model.actuator_ctrladr[ids][model.actuator_ctrlnum[ids] > 0]
        kept: dict[str, np.ndarray] = {}
        for row in PROPERTIES.values():
            kept |= dict.fromkeys(filter(None, [row.of_dof]), columns)
            kept |= dict.fromkeys(filter(None, [row.of_actuator, *row.actuator_fields]), ids)
            kept |= dict.fromkeys(row.joint_fields, model.dof_jntid[columns])
            kept |= dict.fromkeys(row.control_fields, controls)
        rows = [row for row in PROPERTIES.values() if row.moves_constants]
        constants = {name for row in rows for name in (row.of_dof, row.of_actuator)}
        undo = self._fields.snapshot(kept, at)

        def give_back() -> None:
            self._model.limits_version += 1
            if undo() & constants:
                self._fields.recompute_constants(at.envs.tolist())

        return give_back

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Make dry friction of these DOFs as stiff as MuJoCo can; raise an error for options that disable friction."""
        option = self._fields.model.opt
        before_search, option.ls_iterations = option.ls_iterations, max(option.ls_iterations, SEARCHES)
        undo = self._fields.snapshot(dict.fromkeys(SOFTNESS, at.columns("joint_qd")), at)
        self._stiffen(at)
        self._stiffened.append(at)

        def check() -> None:
            for name in ("friction", "viscous_friction"):
                self._check_switched_on(PROPERTIES[name])

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
        """Make dry friction as stiff as possible with a changed time step."""
        for at in self._stiffened:
            self._stiffen(at)
