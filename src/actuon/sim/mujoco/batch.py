# SPDX-License-Identifier: Apache-2.0
"""All environments of a model, with their states in rows, stepped by MuJoCo's own batches."""

from __future__ import annotations

import copy
import ctypes
import operator
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from ...errors import SimulationError
from ...threads import available_threads
from ..divergence import HUGE, StateWatch
from ..engine import AGREED, CORRECTIONS, NEAR, TOLERANCE
from ..motor import MotorProgram
from ..robots import Robot, grid
from .c_code import address_of, library
from .friction import external_loads, is_free
from .loop import DIVERGED, FAILED, RUNS, Field, Line, Plan, Target, Worker, functions, load_layout
from .model import ModelFields, field
from .motor_table import MotorTable

WORTH_SHARING = 2.0e-4
"""Shortest run [s] that is shared with other threads: waking one takes about 50 µs."""

STEPS_PER_CALL = 64
"""Most steps of a call of compiled code: signals, such as that of Ctrl+C, are handled between calls."""

MOST_THREADS = 64
"""Most threads of a run."""

STEEPEST = -1.0e9
"""Largest derivative that is written to a control: MuJoCo accepts none beyond 1e10."""

_CALLBACKS = ("passive", "control", "contactfilter", "sensor", "act_dyn", "act_gain", "act_bias", "time")


class Batch:
    """N environments, with their states and steps.

    After the first access to its ``MjData``, an environment has its own, which is kept in sync and may be written to.
    The others share one for each thread. If trees may sleep, which is not part of MuJoCo's state, each environment has
    its own.

    Args:
        fields: The models.
        rows: Arrays of actuators, float32: ``joint_q`` of shape (N, nq), and ``joint_qd``, ``joint_target_q``,
            ``joint_target_qd`` and ``joint_f`` of shape (N, nv).
        targets: Targets that are controls of servos.
    """

    def __init__(self, fields: ModelFields, rows: dict[str, np.ndarray], targets: list[Any]):
        self._fields = fields
        self._rows = rows
        self.num_envs = fields.num_envs
        model = fields.model
        kinds = mujoco.mjtState
        self._signature = int(kinds.mjSTATE_INTEGRATION)
        self.states = np.zeros((self.num_envs, mujoco.mj_stateSize(model, self._signature)))
        """Integration state of each environment, as of ``mj_getState``, shape (N, W)."""
        self._starts = self._find_blocks()
        self.own: dict[int, Any] = {}
        """The ``MjData`` of environments that have one."""
        self._own_addresses = np.zeros(self.num_envs, np.uint64)
        self.loads: np.ndarray | None = None
        """External loads of the last step [N·m or N], shape (N, nv), once `tell_loads` was called."""
        self.notes = np.zeros((self.num_envs, 5), np.int64)
        """Status of each environment, steps of the last run, and efforts that were not finite. See `loop.Note`."""
        self._owners = np.zeros(MOST_THREADS, np.uint64)
        self._motors: MotorTable | None = None
        self._workers: list[tuple[Any, Any]] = []
        self._workers_version = -1
        self._handles: dict[int, _Handle] = {}
        self._watch: StateWatch | None = None
        self._filled: tuple[int, int, int] | None = None
        self._work = self._last = 0.0
        self._callbacks = [getattr(mujoco, f"get_mjcb_{name}", None) for name in _CALLBACKS]
        slots = [ctypes.addressof(ctypes.c_void_p.in_dll(library(), f"mjcb_{name}")) for name in _CALLBACKS]
        self._slots, self._set = ((ctypes.c_void_p * len(slots))(*given) for given in (slots, [1] * len(slots)))
        self._slots_at, self._set_at = ctypes.addressof(self._slots), ctypes.addressof(self._set)
        self._calls_python = False
        self._may_sleep = bool(model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_SLEEP))
        self._functions, self._apply = functions(), library().mjb_apply
        self._plan = Plan(
            set_state=address_of("mj_setState"),
            get_state=address_of("mj_getState"),
            step=address_of("mj_step"),
            reset=address_of("mj_resetData"),
            signature=self._signature,
            control_signature=int(kinds.mjSTATE_CTRL) | int(kinds.mjSTATE_QFRC_APPLIED),
            may_sleep=self._may_sleep,
            corrections=CORRECTIONS,
            count=self.num_envs,
            huge=HUGE,
            near=NEAR,
            steepest=STEEPEST,
            tolerance=TOLERANCE,
            agreed=AGREED,
        )
        self._plan_at = ctypes.addressof(self._plan)
        self._take_lines([])
        self._take_targets(targets)
        self._fill()
        for env in range(self.num_envs if self._may_sleep else 0):
            self.data(env)

    def _find_blocks(self) -> dict[str, slice]:
        """Return the place of each part of a state of ``mj_getState``, such as ``"qpos"``."""
        kinds, model = mujoco.mjtState, self._fields.model
        names = {int(getattr(kinds, name)): name for name in dir(kinds) if name.startswith("mjSTATE_")}
        blocks, at, bit = {}, 0, 1
        while bit <= self._signature:
            if self._signature & bit:
                size = mujoco.mj_stateSize(model, bit)
                blocks[names[bit].removeprefix("mjSTATE_").lower()] = slice(at, at + size)
                at += size
            bit <<= 1
        return blocks

    def _take_targets(self, targets: list[Any]) -> None:
        self._targets = (Target * len(targets))(*targets)
        self._plan.num_targets, self._plan.targets = len(targets), ctypes.addressof(self._targets)

    def _take_lines(self, lines: list[Any]) -> None:
        self._lines = (Line * len(lines))(*lines)
        self._lower = np.full((self.num_envs, len(lines)), -np.inf)
        self._upper = np.full((self.num_envs, len(lines)), np.inf)
        self.line_of = np.full(self._fields.model.nv, -1)
        """Index of the line for the effort of each DOF, or -1, shape (nv,)."""
        self.line_of[[line.dof for line in lines]] = np.arange(len(lines))
        self._before = np.zeros((self.num_envs if lines else 0, self.states.shape[1]))
        plan = self._plan
        plan.num_lines, plan.lines = len(lines), ctypes.addressof(self._lines)
        plan.lower, plan.upper, plan.before = (x.ctypes.data for x in (self._lower, self._upper, self._before))

    def change(self, targets: list[Any], lines: list[Any]) -> None:
        """Continue with the present model of the fields, which differs only in actuators at the end.

        Call `refresh` before, to read values that users wrote into an ``MjData``.
        """
        before = {name: self.block(name).copy() for name in self._starts}
        self.states = np.zeros((self.num_envs, mujoco.mj_stateSize(self._fields.model, self._signature)))
        self._starts = self._find_blocks()
        for name, values in before.items():
            block = self.block(name)
            width = min(block.shape[1], values.shape[1])
            block[:, :width] = values[:, :width]
        self._take_lines(lines)
        self._take_targets(targets)
        self._motors = None
        self._workers, self._workers_version, self._handles, self._filled = [], -1, {}, None
        self._fill()
        owners, self.own = list(self.own), {}
        for env in owners:
            self.data(env)

    def _fill(self) -> None:
        """Write the addresses of states and arrays into the plan."""
        plan, starts = self._plan, self._starts
        plan.model = self._fields.model._address
        plan.width, plan.nq, plan.nv = self.states.shape[1], self._fields.model.nq, self._fields.model.nv
        plan.at_position, plan.at_velocity = starts["qpos"].start, starts["qvel"].start
        plan.at_control, plan.at_effort = starts["ctrl"].start, starts["qfrc_applied"].start
        kinds = ("joint_q", "joint_qd", "joint_f")
        plan.position, plan.velocity, plan.effort = (self._rows[kind].ctypes.data for kind in kinds)
        plan.states, plan.own = self.states.ctypes.data, self._own_addresses.ctypes.data
        plan.notes, plan.owners = self.notes.ctypes.data, self._owners.ctypes.data

    def block(self, name: str) -> np.ndarray:
        """Return a part of the state of all environments, such as ``"qpos"``, as a view of shape (N, n)."""
        return self.part(self.states, name)

    def part(self, states: np.ndarray, name: str) -> np.ndarray:
        """Return a part of states of shape (..., W)."""
        return states[..., self._starts[name]]

    @property
    def is_noted(self) -> bool:
        """Return whether the status of an environment is not `RUNS`."""
        return bool(self._plan.num_noted)

    @property
    def is_sound(self) -> bool:
        """Whether all states were finite and not huge at the last check."""
        return not self._plan.num_noted or not (self.notes[:, 0] == DIVERGED).any()

    def forget_notes(self) -> None:
        """Clear the status of environments whose efforts were not finite, so that they run again."""
        if self._plan.num_noted:
            self.notes[self.notes[:, 0] != DIVERGED, 0] = RUNS
            self._count_notes()

    def _count_notes(self) -> None:
        self._plan.num_noted = int(np.count_nonzero(self.notes[:, 0]))

    def data(self, env: int) -> Any:
        """Return the environment's own ``MjData``."""
        if env not in self.own:
            data = mujoco.MjData(self._fields.model)
            mujoco.mj_setState(self._fields.model, data, self.states[env], self._signature)
            self.own[env] = data
            self._own_addresses[env] = data._address
            self.forward([env])
        return self.own[env]

    def scratch_data(self, env: int) -> tuple[Any, Any]:
        """Return model and ``MjData`` with the state of an environment, for temporary computations."""
        model, data = self._worker_pairs(1)[0]
        self._fields.load(env, model)
        if env in self.own:
            return model, self.own[env]
        mujoco.mj_setState(model, data, self.states[env], self._signature)
        return model, data

    def write(self, name: str, envs: Any, columns: Any, values: np.ndarray) -> None:
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
        """Return environments, given as a slice or indices, one by one."""
        return range(*envs.indices(self.num_envs)) if isinstance(envs, slice) else envs.tolist()

    def set_states(self, envs: np.ndarray, states: np.ndarray) -> None:
        """Set the states of environments, shape (n, W), with all trees awake, and update arrays."""
        self.states[envs] = states
        for env in envs:
            if env in self.own:
                if self._may_sleep:
                    mujoco.mj_resetData(self._fields.model, self.own[env])
                mujoco.mj_setState(self._fields.model, self.own[env], self.states[env], self._signature)
        self.forward(envs)
        self.update_arrays(envs)

    def forward(self, envs: Iterable[int]) -> None:
        """Update an ``MjData`` and loads after positions or velocities were written."""
        for env in envs:
            if env in self.own or self.loads is not None:
                model, data = self.scratch_data(env)
                mujoco.mj_forward(model, data)
                if self.loads is not None:
                    self.loads[env] = external_loads(data, self._is_free)

    def tell_loads(self) -> np.ndarray:
        """Return the external loads of DOFs [N·m or N], shape (N, nv), an array that each step updates."""
        if self.loads is None:
            self._is_free = is_free(self._fields.model)
            self._layout = load_layout(self._is_free)
            self.loads = np.zeros((self.num_envs, self._fields.model.nv), np.float32)
            self._plan.loads, self._plan.layout = self.loads.ctypes.data, ctypes.addressof(self._layout)
            self.forward(range(self.num_envs))
        return self.loads

    def compensation(self, envs: Iterable[int]) -> dict[int, np.ndarray]:
        """Return the gravity compensation that MuJoCo includes in actuator efforts, at the present state.

        It is zero without actuators, or with actuation disabled.

        Returns:
            Efforts [N·m or N], by environment, each of shape (nv,).
        """
        shared = self._fields.model
        if not shared.nu or shared.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION):
            return {env: np.zeros(shared.nv) for env in envs}
        found = {}
        for env in envs:
            model, data = self._worker_pairs(1)[0]
            self._fields.load(env, model)
            mujoco.mj_setState(model, data, self.states[env], self._signature)
            for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_passive):
                compute(model, data)
            found[env] = np.where(model.jnt_actgravcomp[model.dof_jntid], data.qfrc_gravcomp, 0.0)
        return found

    def refresh(self) -> None:
        """Read environments with their own ``MjData``, which users may have written to."""
        if self.own:
            if self._plan.num_noted:
                self.notes[list(self.own), 0] = RUNS
                self._count_notes()
            self._functions.refresh_all(self._plan_at)

    def update_arrays(self, envs: Any = slice(None)) -> None:
        """Update the arrays of actuators from environments, and check their states."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity in 32 bits is reported by a check
            for kind, name in (("joint_q", "qpos"), ("joint_qd", "qvel"), ("joint_f", "qfrc_applied")):
                self._rows[kind][envs] = self.block(name)[envs]
            for line in self._lines:
                controls, efforts = self.block("ctrl")[envs], self.block("qfrc_applied")[envs, line.dof]
                efforts = efforts + controls[:, line.by_velocity] * self.block("qvel")[envs, line.dof]
                if line.by_position >= 0:
                    efforts = efforts + controls[:, line.by_position] * self.block("qpos")[envs, line.coordinate]
                self._rows["joint_f"][envs, line.dof] = efforts
        controls = self.block("ctrl")
        by_address = {rows.ctypes.data: rows for rows in self._rows.values()}
        for target in self._targets:
            clipped = np.clip(controls[envs, target.control], target.low, target.high)
            by_address[target.rows][envs, target.dof] = (clipped - target.offset) / target.scale
        self.look(envs)

    def look(self, envs: Any) -> None:
        """Check whether written positions and velocities of environments are finite and not huge."""
        moving = self.states[envs, self._starts["qpos"].start : self._starts["qvel"].stop]
        self.notes[envs, 0] = np.where((np.abs(moving) <= HUGE).all(axis=-1), RUNS, DIVERGED)
        self._count_notes()

    def _worker_pairs(self, count: int) -> list[tuple[Any, Any]]:
        """Return at least ``count`` models, each with an ``MjData``. If environments differ, they are copies."""
        shared = self._fields.model
        if not self._workers or self._workers_version != self._fields.version:
            kept = [data for _, data in self._workers]
            self._workers, self._workers_version = [], self._fields.version
            for data in kept:
                self._workers.append((copy.copy(shared) if self._fields.rows else shared, data))
        while len(self._workers) < count:
            model = copy.copy(shared) if self._fields.rows else shared
            self._workers.append((model, mujoco.MjData(model)))
        return self._workers

    def bind(
        self, programs: Sequence[MotorProgram], robots: Sequence[Robot], by_position: Callable[[], bool]
    ) -> MotorTable:
        """Return motors for the loop, the same object while programs and fields stay the same."""
        known, fields = self._motors, [*self._fields.rows]
        if (
            known is None
            or len(programs) != len(known.programs)
            or not all(map(operator.is_, programs, known.programs))
            or known.field_names != fields
        ):
            known = self._motors = MotorTable(programs, robots, self._fields, self.line_of, by_position())
            plan = self._plan
            plan.num_motors, plan.motors = len(programs), ctypes.addressof(known.motors)
            plan.argument_bytes = known.argument_bytes
            plan.draws = None if known.draws is None else ctypes.addressof(known.draws)
            plan.draw_starts = None if known.draw_starts is None else known.draw_starts.ctypes.data
        return known

    def drive(self, motor: Any) -> None:
        """Step a motor of a table in all environments, without physics."""
        self._functions.drive_all(self._plan_at, ctypes.addressof(motor))

    def run(self, steps: int, watch: StateWatch | None) -> None:
        """Advance all environments and their motors. An environment that is not finite, or huge, stops.

        Args:
            steps: Number of steps.
            watch: Receives velocities and efforts after each step.

        Raises:
            mujoco.FatalError: MuJoCo raised an error in an environment, which stays at its last step. The others took
                all steps.
        """
        plan = self._plan
        self.forget_notes()
        if watch is not None:
            if watch is not self._watch:
                self._watch, (rows, velocities, efforts) = watch, watch.ring
                plan.history_steps = rows
                plan.history_velocity, plan.history_effort = velocities.ctypes.data, efforts.ctypes.data
            plan.history_first = watch.length
        if self._functions.callbacks_changed(self._slots_at, self._set_at, len(_CALLBACKS)):
            self._calls_python = any(get is not None and get() is not None for get in self._callbacks)
        if self._calls_python:
            self._run_in_python(steps)
            return
        error = ""
        for first in range(0, steps, STEPS_PER_CALL):
            plan.first_step, plan.steps = first, min(first + STEPS_PER_CALL, steps)
            told = self._run_compiled(plan.steps - first)
            error = error or told
        if error:
            raise mujoco.FatalError(error)

    def _run_compiled(self, steps: int) -> str:
        """Take steps of the plan. Returns MuJoCo's error in the first environment with one, or an empty text."""
        work = steps * self._work
        threads = 1 if work <= WORTH_SHARING else min(available_threads(), self.num_envs, MOST_THREADS)
        if self._may_sleep and self._fields.rows:
            threads = 1  # threads are told apart by MjData, and each environment has one
        if self._plan.num_motors and wp.config.optimization_level == 0:
            threads = 1  # an unoptimised kernel keeps a pointer to the stack of the last thread
        if self._filled != (self._fields.version, threads, len(self._fields.rows)):
            self._fill_fields(threads)
        if self._plan.num_workers > 1:
            self._owners.fill(0)
        handle = self._handle(threads)
        start = time.perf_counter()
        failed = self._apply(handle.address, None, 0, self._functions.advance, self._plan_at, 0)
        if threads == 1:  # a run that the machine delayed is not a measurement
            taken = (time.perf_counter() - start) / steps
            self._work, self._last = min(taken, self._last), taken
        if not failed:
            return ""
        errors = handle.errors()
        self.notes[list(errors), 0] = FAILED
        self._count_notes()
        for env in errors.keys() & self.own.keys():
            _free_stack(self.own[env])
        env, text = min(errors.items())
        return text if self.num_envs == 1 else f"environment {env}: {text}"

    def _run_in_python(self, steps: int) -> None:
        """Advance through MuJoCo's bindings, which call callbacks in Python, and raise their exceptions."""
        plan, worker = self._plan_at, None
        for env in range(self.num_envs):
            model, data = self.scratch_data(env)
            if self._fields.rows:
                self._fill_fields(1)
                worker = ctypes.addressof(self._worker_table)
            for step in range(steps):
                if self.notes[env, 0] != RUNS:
                    break
                if not self._functions.begin_step(plan, worker, model._address, data._address, env, step):
                    break
                taken, again = 0, 1
                while again:
                    try:
                        mujoco.mj_step(model, data)
                    except BaseException:
                        _free_stack(data)
                        raise
                    again = self._functions.end_step(plan, model._address, data._address, env, step, taken)
                    taken += 1

    def _fill_fields(self, threads: int) -> None:
        """Write the fields in which environments differ into the plan, and create a model for each thread."""
        rows, plan = self._fields.rows, self._plan
        self._field_table = (Field * len(rows))(
            *(Field(r.ctypes.data, r.nbytes // self.num_envs) for r in rows.values())
        )
        plan.num_fields, plan.fields = len(rows), ctypes.addressof(self._field_table)
        self._into = []
        workers = []
        for model, _ in self._worker_pairs(threads) if rows else ():
            into = (ctypes.c_void_p * len(rows))(*(field(model, name).ctypes.data for name in rows))
            self._into.append(into)
            workers.append(Worker(model._address, ctypes.addressof(into)))
        self._worker_table = (Worker * len(workers))(*workers)
        plan.num_workers, plan.workers = len(workers), ctypes.addressof(self._worker_table)
        self._filled = self._fields.version, threads, len(rows)

    def _handle(self, threads: int) -> _Handle:
        known = self._handles.get(threads)
        if known is None or known.process != os.getpid():  # threads do not survive a fork
            known = self._handles[threads] = _Handle(self._fields.model, self.num_envs, threads, self._may_sleep)
        return known


class _Handle:
    """A batch of MuJoCo, which runs the loop on threads and catches errors."""

    def __init__(self, model: Any, num_envs: int, threads: int, may_sleep: bool):
        config = _Config(threads, may_sleep)  # MuJoCo requires it, although each environment has its own MjData
        error = ctypes.create_string_buffer(256)
        self._model, self._num_envs, self.process = model, num_envs, os.getpid()
        self.address = library().mjb_makeBatch(model._address, num_envs, ctypes.byref(config), error, len(error))
        if not self.address:
            raise SimulationError(f"MuJoCo cannot make {num_envs} environments: {error.value.decode()}")
        self._models = (ctypes.c_void_p * num_envs)(*[model._address] * num_envs)
        library().mjb_setModels(self.address, self._models)
        weakref.finalize(self, _delete, self.address, self.process)

    def errors(self) -> dict[int, str]:
        """Return MuJoCo's errors in the last run, by environment."""
        status = library().mjb_status(self.address)
        return {env: library().mjb_error(self.address, env).decode() for env in range(self._num_envs) if status[env]}


def _free_stack(data: Any) -> None:
    """Free the memory of a step that ended in an error."""
    data.pstack = data.pbase = 0


def _delete(address: int, process: int) -> None:
    if process == os.getpid():
        library().mjb_deleteBatch(address)


class _Config(ctypes.Structure):
    """``mjBatchConfig``."""

    _fields_ = (("nthread", ctypes.c_int), ("persistent", ctypes.c_ubyte))
