# SPDX-License-Identifier: Apache-2.0
"""Several steps of all environments with their motors, compiled: before each step of physics, the kernel of the motors.

Threads take environments from one counter, all of them for the first step, then all for the second. Motors are stepped
in groups of environments: by the thread that brings the last of a group to the end of a step. By the time that a thread
comes to the group again, that is long done, so that threads seldom wait for each other.

Where anything is not finite, all environments go back to where they were, and nothing has happened.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...kernel.types import Flavour, module_options
from ..divergence import HUGE
from ..driver import Motors
from .loop import FUNCTIONS, Worker, make_run

if TYPE_CHECKING:
    from .batch import Batch

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

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
        *(
            (name, _ADDRESS)
            for name in ("motors", "pushes", "changes", "efforts", "lower", "upper", "seen", "ready", "done")
        ),
    )


_LOOP = """
    struct Field { const char* rows; long long bytes; };
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
        const Motor* motors;
        const Push* pushes;
        const Change* changes;
        float* efforts;
        const float *lower, *upper;
        float* seen;
        long long *ready, *done;
    };
    struct Worker { const void* model; void* data; char** into; const double* bias; };

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
        for (long long k = 0; k < p.num_changes; ++k) {
            const Change& change = p.changes[k];
            change.rows[env * p.nv + change.dof] = (double)change.values[env * p.num_columns + change.column];
        }
        if (sound) {
            for (long long k = 0; k < p.num_fields; ++k)
                __builtin_memcpy(w.into[k], p.fields[k].rows + env * p.fields[k].bytes, p.fields[k].bytes);
            p.set_state(w.model, w.data, row, signature);
            p.step(w.model, w.data);
            p.get_state(w.model, w.data, row, signature);
            for (long long i = 0; i < p.nq; ++i) sound &= __builtin_fabs(row[p.at_position + i]) <= p.huge;
            for (long long i = 0; i < p.nv; ++i) sound &= __builtin_fabs(row[p.at_velocity + i]) <= p.huge;
        }
        if (!sound) {
            __atomic_fetch_add(&p.failures, 1, __ATOMIC_RELAXED);
            return;
        }
        for (long long i = 0; i < p.nq; ++i) p.position[env * p.nq + i] = (float)(row[p.at_position + i]);
        for (long long i = 0; i < p.nv; ++i) p.velocity[env * p.nv + i] = (float)(row[p.at_velocity + i]);

        const long long left = p.count - group * p.group_size;
        const long long size = left < p.group_size ? left : p.group_size;
        const long long done = __atomic_add_fetch(&p.done[group], 1, __ATOMIC_ACQ_REL);
        if (done == size * (step + 1) && step + 1 < p.steps) step_motors(group, step + 1);
    }
"""


@wp.func_native(_LOOP)
def _loop(plan: wp.uint64, worker: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.kernel
def _run(plan: wp.uint64, worker: wp.uint64) -> None:
    _loop(plan, worker)


@functools.cache
def _give_way() -> int | None:
    """Address of what lets another thread of the system run; None where there is none of this kind."""
    try:
        return ctypes.cast(ctypes.CDLL(None).sched_yield, _ADDRESS).value
    except (OSError, TypeError, AttributeError):
        return None


class DrivenLoop:
    """Runs environments with motors.

    Args:
        batch: The environments.
        functions: Addresses of MuJoCo's functions.
    """

    def __init__(self, batch: Batch, functions: dict[str, int]):
        self._batch = weakref.proxy(batch)
        self._plan = _Plan(**functions, give_way=_give_way(), huge=HUGE)
        self._motors: Motors | None = None
        self._workers: Sequence[Worker] = ()

    def run(self, motors: Motors, steps: int) -> bool:
        """Take steps. False where they cannot all be taken: nothing has moved then."""
        plan, batch = self._plan, self._batch
        threads = batch.workers.count_for(steps)
        workers = batch.workers.take(threads)
        if motors is not self._motors or workers is not self._workers:
            self._bind(motors, workers)
        self._ready[:] = self._done[:] = 0
        self._has_begun[:] = False
        plan.next, plan.next_group, plan.failures, plan.steps = 0, 0, 0, steps
        try:
            batch.workers.run(self._runs[:threads], steps)
        except BaseException:
            self._go_back()
            raise
        if plan.failures:
            self._go_back()
        return not plan.failures

    def _bind(self, motors: Motors, workers: Sequence[Worker]) -> None:
        """Tell the plan what stays the same."""
        plan, batch, groups = self._plan, self._batch, motors.launches
        batch.fill(plan)
        self._before = np.empty_like(batch.states)
        self._has_begun = np.zeros(batch.num_envs, dtype=bool)
        self._ready, self._done = np.zeros((2, len(groups)), np.int64)
        launches = [_Motor(*launch) for group in groups for launch in group]
        pushes = [_Push(column, motors.dofs[column]) for column in motors.columns]
        changes = [
            _Change(values.ctypes.data, column, batch.property_rows(name).ctypes.data, motors.dofs[column])
            for name, (values, columns) in motors.properties.items()
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
        self._motors, self._workers = motors, workers
        self._runs = [make_run(_run, plan, worker) for worker in workers]

    def _go_back(self) -> None:
        moved = np.flatnonzero(self._has_begun)
        self._batch.states[moved] = self._before[moved]
        self._batch.show_motion(moved)
