# SPDX-License-Identifier: Apache-2.0
"""Several steps of all environments with their motors, compiled: before each step of physics, the kernel of the motors.

Threads take environments from one counter, all of them for the first step, then all for the second. Motors are stepped
in groups of environments: by the thread that brings the last of a group to the end of a step. Where there are several
groups, that is long done by the time that a thread comes to the group again; with one, all wait for it at each step.

Where anything is not finite, threads stop, and all environments can be brought back to where they were.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...kernel.types import Flavour, module_options
from ..divergence import HUGE
from ..driver import Motors
from .loop import FUNCTIONS, STRUCTS, Worker, make_run

if TYPE_CHECKING:
    from .batch import Batch

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

UNLOOKED = 16
"""How many steps are taken without a look at the memory that is left."""

_WHOLE = ctypes.c_longlong
_ADDRESS = ctypes.c_void_p


class _Motor(ctypes.Structure):
    _fields_ = tuple((name, _ADDRESS) for name in ("run", "bounds", "arguments"))


class _Push(ctypes.Structure):
    """An effort of the motors, and the DOF that it pushes."""

    _fields_ = (("column", _WHOLE), ("dof", _WHOLE))


class _Change(ctypes.Structure):
    """A property of a DOF that motors change, and where it lies in a field of the model."""

    _fields_ = (("values", _ADDRESS), ("column", _WHOLE), ("rows", _ADDRESS), ("dof", _WHOLE))


class _Plan(ctypes.Structure):
    """What to do in one run, for all threads."""

    _fields_ = (
        *((name, _ADDRESS) for name in (*FUNCTIONS, "give_way")),
        *((name, _WHOLE) for name in ("next", "next_group", "failures")),
        *((name, _WHOLE) for name in ("steps", "count", "group_size", "num_groups", "num_motors")),
        *((name, _WHOLE) for name in ("signature", "width", "nq", "nv", "at_position", "at_velocity", "at_effort")),
        *((name, _WHOLE) for name in ("num_fields", "num_pushes", "num_changes", "num_columns")),
        ("huge", ctypes.c_double),
        *((name, _ADDRESS) for name in ("states", "before", "has_begun", "position", "velocity", "effort", "fields")),
        *((name, _ADDRESS) for name in ("velocities", "efforts_after", "motors", "pushes", "changes", "efforts")),
        *((name, _ADDRESS) for name in ("lower", "upper", "seen", "ready", "done")),
    )


_LOOP = (
    STRUCTS
    + """
    struct Motor { void (*run)(void*, void*); void *bounds, *arguments; };
    struct Push { long long column, dof; };
    struct Change { const float* values; long long column; double* rows; long long dof; };
    struct Plan {
        void (*set_state)(const void*, void*, const double*, int);
        void (*get_state)(const void*, const void*, double*, int);
        void (*step)(const void*, void*);
        void (*give_way)();
        long long next, next_group, failures;
        long long steps, count, group_size, num_groups, num_motors;
        long long signature, width, nq, nv, at_position, at_velocity, at_effort;
        long long num_fields, num_pushes, num_changes, num_columns;
        double huge;
        double *states, *before;
        char* has_begun;
        float *position, *velocity, *effort;
        const Field* fields;
        float *velocities, *efforts_after;
        const Motor* motors;
        const Push* pushes;
        const Change* changes;
        float* efforts;
        const float *lower, *upper;
        float* seen;
        long long *ready, *done;
    };

    Plan& p = *(Plan*)plan;
    const Worker& w = *(const Worker*)worker;
    const int signature = (int)p.signature;
    auto has_failed = [&p]() -> bool { return __atomic_load_n(&p.failures, __ATOMIC_RELAXED) != 0; };
    auto step_motors = [&p](long long group, long long step) {
        const long long first = group * p.group_size;
        const long long end = first + p.group_size < p.count ? first + p.group_size : p.count;
        if (step == p.steps - 1)
            __builtin_memcpy(p.seen + first * p.nv, p.velocity + first * p.nv, (end - first) * p.nv * sizeof(float));
        for (long long k = group * p.num_motors; k < (group + 1) * p.num_motors; ++k)
            p.motors[k].run(p.motors[k].bounds, p.motors[k].arguments);
        __atomic_store_n(&p.ready[group], step + 1, __ATOMIC_RELEASE);
    };

    for (;;) {
        const long long group = __atomic_fetch_add(&p.next_group, 1, __ATOMIC_RELAXED);
        if (group >= p.num_groups) break;
        step_motors(group, 0);
    }
    for (;;) {
        const long long item = __atomic_fetch_add(&p.next, 1, __ATOMIC_RELAXED);
        if (item >= p.count * p.steps) return;
        const long long step = item / p.count, env = item % p.count, group = env / p.group_size;
        for (long long looks = 0; __atomic_load_n(&p.ready[group], __ATOMIC_ACQUIRE) <= step; ++looks) {
            if (has_failed()) return;
            if (p.give_way && looks % 256 == 255) p.give_way();
        }
        if (has_failed()) return;

        double* const row = p.states + env * p.width;
        if (!step) {
            __builtin_memcpy(p.before + env * p.width, row, p.width * sizeof(double));
            p.has_begun[env] = 1;
        }
        bool sound = true;
        auto look = [&p, row, &sound]() {
            for (long long i = 0; i < p.nq; ++i) sound &= __builtin_fabs(row[p.at_position + i]) <= p.huge;
            for (long long i = 0; i < p.nv; ++i) sound &= __builtin_fabs(row[p.at_velocity + i]) <= p.huge;
        };
        if (!step) look();
        for (long long k = 0; k < p.num_pushes; ++k) {
            const long long at = env * p.num_columns + p.pushes[k].column;
            float effort = p.efforts[at];
            sound &= __builtin_fabsf(effort) <= __FLT_MAX__;
            if (p.lower) {
                effort = effort < p.lower[at] ? p.lower[at] : effort;
                effort = effort > p.upper[at] ? p.upper[at] : effort;
                p.efforts[at] = effort;
            }
            row[p.at_effort + p.pushes[k].dof] = (double)effort;
            p.effort[env * p.nv + p.pushes[k].dof] = effort;
        }
        if (sound) {
            for (long long k = 0; k < p.num_changes; ++k) {
                const Change& change = p.changes[k];
                change.rows[env * p.nv + change.dof] = (double)change.values[env * p.num_columns + change.column];
            }
            for (long long k = 0; k < p.num_fields; ++k)
                __builtin_memcpy(w.into[k], p.fields[k].rows + env * p.fields[k].bytes, p.fields[k].bytes);
            p.set_state(w.model, w.data, row, signature);
            p.step(w.model, w.data);
            p.get_state(w.model, w.data, row, signature);
            look();
        }
        if (!sound) {
            __atomic_fetch_add(&p.failures, 1, __ATOMIC_RELAXED);
            return;
        }
        for (long long i = 0; i < p.nq; ++i) p.position[env * p.nq + i] = (float)(row[p.at_position + i]);
        for (long long i = 0; i < p.nv; ++i) p.velocity[env * p.nv + i] = (float)(row[p.at_velocity + i]);
        __builtin_memcpy(p.velocities + item * p.nv, p.velocity + env * p.nv, p.nv * sizeof(float));
        __builtin_memcpy(p.efforts_after + item * p.nv, p.effort + env * p.nv, p.nv * sizeof(float));

        const long long left = p.count - group * p.group_size;
        const long long size = left < p.group_size ? left : p.group_size;
        const long long done = __atomic_add_fetch(&p.done[group], 1, __ATOMIC_ACQ_REL);
        if (done == size * (step + 1) && step + 1 < p.steps) step_motors(group, step + 1);
    }
"""
)


@wp.func_native(_LOOP)
def _loop(plan: wp.uint64, worker: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.kernel
def _run(plan: wp.uint64, worker: wp.uint64) -> None:
    _loop(plan, worker)


@functools.cache
def _give_way() -> int | None:
    """Address of what lets another thread of the system run; None where there is none of this kind."""
    try:
        if os.name == "nt":
            return ctypes.cast(ctypes.CDLL("kernel32").SwitchToThread, _ADDRESS).value
        return ctypes.cast(ctypes.CDLL(None).sched_yield, _ADDRESS).value
    except (OSError, AttributeError):
        return None


class DrivenLoop:
    """Runs environments with motors.

    Args:
        functions: Addresses of MuJoCo's functions.
    """

    def __init__(self, functions: dict[str, int]):
        self._plan = _Plan(**functions, give_way=_give_way(), huge=HUGE)
        self._motors: weakref.ref[Motors] | None = None
        self._workers: Sequence[Worker] = ()
        self._has_begun = np.zeros(0, dtype=bool)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []

    def begin(self) -> None:
        """Make ready for a run: `undo` goes back to now."""
        self._has_begun[:] = False
        self._kept = []

    def run(self, batch: Batch, motors: Motors, steps: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Take steps, at most `UNLOOKED`. Returns velocities and efforts after each, of shape (steps, N·nv); None where
        one fails: environments are then where threads left them, and `undo` is needed."""
        plan = self._plan
        threads = batch.workers.count_for(steps)
        workers = batch.workers.take(threads)
        if self._motors is None or self._motors() is not motors or workers is not self._workers:
            self._bind(batch, motors, workers)
        self._kept = [(rows, rows.copy()) for rows in self._changed]
        self._ready[:] = self._done[:] = 0
        plan.next, plan.next_group, plan.failures, plan.steps = 0, 0, 0, steps
        batch.workers.run(self._runs[:threads], steps)
        velocities, efforts = self._after
        return None if plan.failures else (velocities[:steps], efforts[:steps])

    def undo(self, batch: Batch) -> None:
        """Bring all environments back to where they were at `begin`."""
        for rows, kept in self._kept:
            rows[:] = kept
        moved = np.flatnonzero(self._has_begun)
        if moved.size:
            batch.states[moved] = self._before[moved]
            batch.show_motion(moved)

    def _bind(self, batch: Batch, motors: Motors, workers: Sequence[Worker]) -> None:
        """Tell the plan what stays the same."""
        plan, groups = self._plan, motors.launches
        self._motors = None  # until all is told
        batch.fill(plan)
        self._before = np.empty_like(batch.states)
        self._has_begun = np.zeros(batch.num_envs, dtype=bool)
        self._after = np.empty((2, UNLOOKED, batch.num_envs * plan.nv), np.float32)
        plan.velocities, plan.efforts_after = (values.ctypes.data for values in self._after)
        self._ready, self._done = np.zeros((2, len(groups)), np.int64)
        launches = [_Motor(*launch) for group in groups for launch in group]
        pushes = [_Push(column, motors.dofs[column]) for column in motors.columns]
        self._changed = [batch.property_rows(name) for name in motors.properties]
        changes = [
            _Change(values.ctypes.data, column, rows.ctypes.data, motors.dofs[column])
            for rows, (values, columns) in zip(self._changed, motors.properties.values(), strict=True)
            for column in columns
        ]
        self._tables: list[Any] = [(_Motor * len(launches))(*launches), (_Push * len(pushes))(*pushes)]
        self._tables.append((_Change * len(changes))(*changes))
        plan.motors, plan.pushes, plan.changes = (ctypes.addressof(table) for table in self._tables)
        plan.group_size, plan.num_groups, plan.num_motors = motors.group_size, len(groups), len(groups[0])
        plan.num_pushes, plan.num_changes, plan.num_columns = len(pushes), len(changes), motors.efforts.shape[1]
        plan.before, plan.has_begun = self._before.ctypes.data, self._has_begun.ctypes.data
        plan.efforts, plan.seen = motors.efforts.ctypes.data, motors.velocities.ctypes.data
        plan.lower, plan.upper = (values.ctypes.data for values in motors.bounds) if motors.bounds else (None, None)
        plan.ready, plan.done = self._ready.ctypes.data, self._done.ctypes.data
        self._runs = [make_run(_run, plan, worker) for worker in workers]
        self._motors, self._workers = weakref.ref(motors), workers
