# SPDX-License-Identifier: Apache-2.0
"""All environments of a model: their state in rows, stepped by all cores with one ``MjData`` for each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..divergence import HUGE
from ..driver import Motors
from ..engine_drives import NEAR
from .driven_loop import UNLOOKED, DrivenLoop
from .fields import PROPERTIES, ModelFields
from .loop import Line, Target, Worker, make_plan, make_run, mujoco_functions, run_plan
from .places import grid
from .state_blocks import find_blocks
from .workers import Workers

FEW = 8
"""So few environments have an ``MjData`` each from the start."""

_AMPLE = 2**20
"""Memory [bytes] that must be left in an ``MjData``, beside four times what was ever used, for steps not guarded."""

_CALLBACKS = ("passive", "control", "contactfilter", "sensor", "act_dyn", "act_gain", "act_bias", "time")


class Batch:
    """The state of N environments, and what advances it.

    An environment that is asked for its ``MjData`` has one of its own from then on, which then holds its state: what is
    written into it takes effect. The others share one for each thread. Where trees may sleep, which is not part of
    MuJoCo's state, each environment has its own.

    Args:
        mujoco: The module.
        fields: The models.
        rows: What actuators see, float32: ``joint_q`` of shape (N, nq), and ``joint_qd``, ``joint_target_q``,
            ``joint_target_qd`` and ``joint_f`` of shape (N, nv).
        targets: Targets that are controls of servos.
    """

    def __init__(self, mujoco: Any, fields: ModelFields, rows: dict[str, np.ndarray], targets: list[Target]):
        self._mujoco = mujoco
        self._fields = fields
        self._rows = rows
        self.num_envs = fields.num_envs
        model = fields.model
        self._signature = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        self.states = np.zeros((self.num_envs, mujoco.mj_stateSize(model, self._signature)))
        """Integration state of each environment, as ``mj_getState`` gives it, shape (N, W)."""
        self._starts = find_blocks(mujoco, model, self._signature)
        self.own: dict[int, Any] = {}
        """The ``MjData`` of environments that have one."""
        self._targets = (Target * len(targets))(*targets)
        self._take_lines([])
        self._own_addresses, self._own_controls, self._own_efforts = np.zeros((3, self.num_envs), np.uint64)
        self.version = 0
        """Counts changes of the model."""
        self.workers = Workers(mujoco, fields)
        """What threads step environments with."""
        self._runs: list[Any] = []
        self._runs_of: Sequence[Worker] = ()
        self._is_tried = False
        self.loads: np.ndarray | None = None  # what `tell_loads` gives
        self.failures = 0
        """How many environments were not finite, or huge, when last looked at."""
        self._is_near = np.zeros(self.num_envs, dtype=bool)
        self.to_redo = np.zeros(self.num_envs, dtype=bool)
        """Environments whose last step `again` takes again, from `before`."""
        functions = mujoco_functions()
        self._is_compiled = functions is not None
        self._callbacks = [getattr(mujoco, f"get_mjcb_{name}", None) for name in _CALLBACKS]
        self._may_sleep = bool(model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_SLEEP))
        self._plan = make_plan(functions or {})
        self._driven = DrivenLoop(functions or {})
        self._fill()
        for env in range(self.num_envs if self.num_envs <= FEW or self._may_sleep else 0):
            self.data(env)

    def _take_lines(self, lines: list[Line]) -> None:
        self._lines = (Line * len(lines))(*lines)
        self._line_places = tuple(
            np.array([getattr(line, field[0]) for line in lines], dtype=np.int64) for field in Line._fields_
        )
        self.lower = np.full((self.num_envs, len(lines)), -np.inf)
        """Lowest effort of each line, in each environment [N·m or N], shape (N, L)."""
        self.upper = np.full((self.num_envs, len(lines)), np.inf)
        """Highest one."""
        self.line_of = np.full(self._fields.model.nv, -1)
        """Which line is the effort of each DOF, or -1, shape (nv,)."""
        self.line_of[self._line_places[0]] = np.arange(len(lines))
        self.before = np.zeros((self.num_envs if lines else 0, self.states.shape[1]))
        """States before the last step, where there are lines, shape (N, W)."""

    def change(self, targets: list[Target], lines: list[Line]) -> None:
        """Go on with the model that the fields share now, of the same parts but for actuators at the end.

        What anyone wrote into an ``MjData`` must have been read by `refresh` before.
        """
        model, before = self._fields.model, {name: self.block(name).copy() for name in self._starts}
        self.states = np.zeros((self.num_envs, self._mujoco.mj_stateSize(model, self._signature)))
        self._starts = find_blocks(self._mujoco, model, self._signature)
        for name, values in before.items():
            block = self.block(name)
            width = min(block.shape[1], values.shape[1])
            block[:, :width] = values[:, :width]
        self._targets = (Target * len(targets))(*targets)
        self._take_lines(lines)
        self.workers.renew()
        self._is_tried = False
        self._fill()
        self._own_controls[:] = self._own_efforts[:] = 0
        self.version += 1
        owners, self.own = list(self.own), {}
        for env in owners:
            self.data(env)

    def block(self, name: str) -> np.ndarray:
        """A part of the state of all environments, such as ``"qpos"``, as a view of shape (N, n)."""
        return self.part(self.states, name)

    def part(self, states: np.ndarray, name: str) -> np.ndarray:
        """That part of any states, of shape (..., W)."""
        return states[..., self._starts[name]]

    def fill(self, plan: Any) -> None:
        """Tell a plan where the states and what actuators see lie, and the fields in which environments differ."""
        starts = self._starts
        plan.signature, plan.width, plan.count = self._signature, self.states.shape[1], self.num_envs
        plan.nq, plan.nv = self._fields.model.nq, self._fields.model.nv
        plan.at_position, plan.at_velocity = starts["qpos"].start, starts["qvel"].start
        plan.at_effort, plan.states = starts["qfrc_applied"].start, self.states.ctypes.data
        plan.position, plan.velocity, plan.effort = (
            self._rows[kind].ctypes.data for kind in ("joint_q", "joint_qd", "joint_f")
        )
        table = self.workers.field_table
        plan.num_fields, plan.fields = len(table), ctypes.addressof(table)

    def _fill(self) -> None:
        """Tell the plan what stays the same."""
        plan = self._plan
        self.fill(plan)
        plan.at_control, plan.own = self._starts["ctrl"].start, self._own_addresses.ctypes.data
        plan.num_targets, plan.targets = len(self._targets), ctypes.addressof(self._targets)
        plan.num_lines, plan.lines = len(self._lines), ctypes.addressof(self._lines)
        plan.lower, plan.upper = self.lower.ctypes.data, self.upper.ctypes.data
        plan.before, plan.is_near = self.before.ctypes.data, self._is_near.ctypes.data
        plan.to_redo = self.to_redo.ctypes.data
        plan.loads = None if self.loads is None else self.loads.ctypes.data

    @property
    def has_near_lines(self) -> bool:
        """Whether an effort that is a line ended near its bounds."""
        return bool(np.count_nonzero(self._is_near))

    def places_of_lines(self) -> dict[str, int]:
        """Sizes and addresses that writing lines takes."""
        plan = self._plan
        names = ["at_position", "at_velocity", "at_control", "at_effort", "width", "num_lines"]
        names += ["states", "lower", "upper", "before", "is_near", "to_redo"]
        own = {"own_controls": self._own_controls.ctypes.data, "own_efforts": self._own_efforts.ctypes.data}
        return {"table": plan.lines, **{name: getattr(plan, name) for name in names}, **own}

    def data(self, env: int) -> Any:
        """The ``MjData`` of an environment, which it has for itself from now on."""
        if env not in self.own:
            data = self._mujoco.MjData(self._fields.model)
            self._mujoco.mj_setState(self._fields.model, data, self.states[env], self._signature)
            self.own[env] = data
            self._own_addresses[env] = getattr(data, "_address", 1)
            self._own_controls[env], self._own_efforts[env] = data.ctrl.ctypes.data, data.qfrc_applied.ctypes.data
            self.forward([env])
        return self.own[env]

    def borrow(self, env: int) -> tuple[Any, Any]:
        """Model and ``MjData`` with the state of an environment, to compute something and forget it."""
        model, data = self.workers.ready(1)[0]
        self._fields.load(env, model)
        if env in self.own:
            return model, self.own[env]
        self._mujoco.mj_setState(model, data, self.states[env], self._signature)
        return model, data

    def put(self, name: str, envs: Any, columns: Any, values: np.ndarray) -> None:
        """Write into a part of the state.

        Args:
            name: Such as ``"qpos"``.
            envs: Which environments, as a slice or indices of shape (n,).
            columns: Which values of the part, as a slice or indices of shape (d,).
            values: Shape (n, d).
        """
        self.block(name)[grid(envs, columns)] = values
        if self.own:
            for row, env in enumerate(self.numbers(envs)):
                if env in self.own:
                    getattr(self.own[env], name).reshape(-1)[columns] = values[row]

    def numbers(self, envs: Any) -> Iterable[int]:
        """Environments, given as a slice or indices, one by one."""
        return range(*envs.indices(self.num_envs)) if isinstance(envs, slice) else envs.tolist()

    def take(self, envs: np.ndarray, states: np.ndarray) -> None:
        """Put environments into a state, of shape (n, W), with all trees awake, and show it."""
        self.states[envs] = states
        for env in envs:
            if env in self.own:
                if self._may_sleep:
                    self._mujoco.mj_resetData(self._fields.model, self.own[env])
                self._mujoco.mj_setState(self._fields.model, self.own[env], self.states[env], self._signature)
        self.forward(envs)
        self.show(envs)

    def forward(self, envs: Iterable[int]) -> None:
        """Bring what an ``MjData`` shows, and loads, up to date with positions and velocities that were written."""
        for env in envs:
            if env in self.own:
                self._mujoco.mj_forward(*self.borrow(env))
            elif self.loads is not None:
                model, data = self.borrow(env)
                self._mujoco.mj_forward(model, data)
                self.loads[env] = -data.qfrc_bias

    def tell_loads(self) -> np.ndarray:
        """What gravity and motion push on DOFs [N·m or N], shape (N, nv), of environments without an ``MjData``."""
        if self.loads is None:
            self.loads = np.zeros((self.num_envs, self._fields.model.nv), np.float32)
            self._plan.loads = self.loads.ctypes.data
            self.forward(range(self.num_envs))
        return self.loads

    def compensation(self, envs: Iterable[int]) -> dict[int, np.ndarray]:
        """Return the gravity compensation that MuJoCo counts among the efforts of actuators, in the present state.

        A model without actuators, or with actuation switched off, does none there.

        Returns:
            [N·m or N], by environment, each of shape (nv,).
        """
        shared = self._fields.model
        if not shared.nu or shared.opt.disableflags & int(self._mujoco.mjtDisableBit.mjDSBL_ACTUATION):
            return {env: np.zeros(shared.nv) for env in envs}
        found = {}
        for env in envs:
            model, data = self.workers.ready(1)[0]
            self._fields.load(env, model)
            self._mujoco.mj_setState(model, data, self.states[env], self._signature)
            for compute in (self._mujoco.mj_kinematics, self._mujoco.mj_comPos, self._mujoco.mj_passive):
                compute(model, data)
            found[env] = np.where(model.jnt_actgravcomp[model.dof_jntid], data.qfrc_gravcomp, 0.0)
        return found

    def refresh(self) -> None:
        """Read environments that have an ``MjData``, which anyone may have written into."""
        if not self.own:
            return
        if not self._is_compiled:
            for env, data in self.own.items():
                self._mujoco.mj_getState(self._fields.model, data, self.states[env], self._signature)
            self.show()
        else:
            self._run(0)

    def show(self, envs: Any = slice(None)) -> None:
        """Let actuators see state, efforts and targets of environments, and look at the state of all."""
        self.show_motion(envs)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self._lines):
                dofs, _, _, _ = self._line_places
                efforts = self._line_efforts(self.states[envs])
                self._rows["joint_f"][grid(envs, dofs)] = efforts
                lower, upper = self.lower[envs], self.upper[envs]
                is_near = efforts > upper - (1.0 - NEAR) * np.abs(upper)
                is_near |= efforts < lower + (1.0 - NEAR) * np.abs(lower)
                self._is_near[envs] = (is_near & (lower < upper)).any(axis=1)
        controls = self.block("ctrl")
        by_address = {rows.ctypes.data: rows for rows in self._rows.values()}
        for target in self._targets:
            clipped = np.clip(controls[envs, target.control], target.low, target.high)
            by_address[target.rows][envs, target.dof] = (clipped - target.offset) / target.scale
        moving = self.states[:, self._starts["qpos"].start : self._starts["qvel"].stop]
        self.failures = int(np.count_nonzero(~(np.abs(moving) <= HUGE).all(axis=1)))

    def show_motion(self, envs: Any) -> None:
        """Let actuators see positions, velocities and efforts of environments."""
        with np.errstate(over="ignore", invalid="ignore"):  # too large for 32 bits is infinite, and told by a check
            for kind, name in (("joint_q", "qpos"), ("joint_qd", "qvel"), ("joint_f", "qfrc_applied")):
                self._rows[kind][envs] = self.block(name)[envs]

    def _line_efforts(self, states: np.ndarray) -> np.ndarray:
        """Efforts of lines in states of shape (..., W) [N·m or N], shape (..., L)."""
        dofs, coordinates, by_velocity, by_position = self._line_places
        controls = self.part(states, "ctrl")
        efforts = self.part(states, "qfrc_applied")[..., dofs]
        efforts = efforts + controls[..., by_velocity] * self.part(states, "qvel")[..., dofs]
        has = by_position >= 0
        if has.any():
            held = controls[..., by_position[has]] * self.part(states, "qpos")[..., coordinates[has]]
            efforts[..., has] += held
        return efforts

    def _step(self, env: int, model: Any, data: Any) -> None:
        """Take a step through calls that raise MuJoCo's errors."""
        if len(self._lines):
            self._mujoco.mj_getState(model, data, self.before[env], self._signature)
        self._mujoco.mj_step(model, data)

    def again(self) -> None:
        """Take the last step again, from ``before``, in the environments that are ``to_redo``. They count as near."""
        try:
            if self.num_envs > 1 and not self._may_sleep and not self._needs_guard():
                self._run(1, again=True)
            else:
                self._each_again()
        finally:
            self._is_near |= self.to_redo

    def _each_again(self) -> None:
        try:
            for env in np.flatnonzero(self.to_redo).tolist():
                model, data = self.borrow(env)
                if self._may_sleep:
                    self._mujoco.mj_resetData(model, data)
                self._mujoco.mj_setState(model, data, self.before[env], self._signature)
                self._mujoco.mj_step(model, data)
                self._mujoco.mj_getState(model, data, self.states[env], self._signature)
        finally:
            self.show()

    def advance(self, steps: int) -> None:
        """Advance all environments. One that is not finite, or huge, after a step goes no further."""
        if self.num_envs == 1:
            model, data = self._fields.model, self.data(0)
            for _ in range(steps):
                self._step(0, model, data)
                self.refresh()
                if self.failures:
                    return
            return
        if self._is_compiled and not self._is_tried:
            self._advance_guarded(1)
            self._is_tried = True
            steps -= 1
        while steps and not self.failures:
            some = min(steps, UNLOOKED)
            (self._advance_guarded if self._needs_guard() else self._run)(some)
            steps -= some

    def _needs_guard(self) -> bool:
        """Whether an error of MuJoCo may come up in a step, with which it ends the process, except in a guarded call.

        It has one where its memory ends, and where a callback in Python raises.
        """
        if not self._is_compiled or any(get is not None and get() is not None for get in self._callbacks):
            return True
        datas = [*(data for _, data in self.workers.pairs), *self.own.values()]
        return any(4 * data.maxuse_arena + _AMPLE > data.narena for data in datas)

    def _advance_guarded(self, steps: int) -> None:
        """Advance through calls that raise MuJoCo's errors."""
        try:
            for env, row in enumerate(self.states):
                model, data = self.borrow(env)
                for _ in range(steps):
                    self._step(env, model, data)
                    self._mujoco.mj_getState(model, data, row, self._signature)
                    if not (np.abs(row[self._starts["qpos"].start : self._starts["qvel"].stop]) <= HUGE).all():
                        break
                if self.loads is not None:
                    self.loads[env] = -data.qfrc_bias
        finally:
            self.show()

    def begin_loop(self) -> bool:
        """Make ready to step motors in the loop over environments. False where that cannot be now: an environment has
        an ``MjData``, efforts are lines, loads are told, or a step may raise errors of MuJoCo."""
        is_plain = not self.own and not self._lines and self.loads is None
        if not is_plain or not self._is_tried or self.failures or self._needs_guard():
            return False
        self._driven.begin()
        return True

    def advance_with(self, motors: Motors, steps: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Advance all environments by some of these steps, motors included. Returns velocities and efforts after each,
        of shape (steps, N·nv); None where one of them fails, and `undo_loop` is needed."""
        return self._driven.run(self, motors, min(steps, UNLOOKED))

    def undo_loop(self) -> None:
        """Bring all environments back to where they were at `begin_loop`."""
        self._driven.undo(self)

    def property_rows(self, name: str) -> np.ndarray:
        """A property of all DOFs in which environments differ, shape (N, nv)."""
        return self._fields.all_rows(PROPERTIES[name].of_dof)

    def _run(self, steps: int, again: bool = False) -> None:
        """Run the compiled loop: with no steps, read what is in the ``MjData`` of environments that have one."""
        plan, threads = self._plan, self.workers.count_for(steps)
        workers = self.workers.take(threads)
        if workers is not self._runs_of:
            self._fill()
            self._runs, self._runs_of = [make_run(run_plan, plan, worker) for worker in workers], workers
        plan.next, plan.failures, plan.steps, plan.again = 0, 0, steps, again
        plan.chunk = max(1, self.num_envs // (256 * threads))
        self.workers.run(self._runs[:threads], 0 if again else steps)
        self.failures = plan.failures
