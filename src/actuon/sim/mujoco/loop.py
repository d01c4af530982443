# SPDX-License-Identifier: Apache-2.0
"""The loop over environments, compiled: for each, its state into an ``MjData``, ``mj_step``, and its state out again.

MuJoCo's C functions are called by their addresses from a kernel, so that a thread takes as many environments as it can
without the interpreter. Threads take environments from one counter. An ``MjData`` serves all environments of a thread:
what ``mj_step`` reads is the integration state (positions, velocities, activations, warm start, controls, forces), so
that the result is that of ``mj_step`` on an ``MjData`` of its own, to the last bit.

An effort may be a line, of which MuJoCo's integrator takes the slopes into its solve. The states before a step are kept
then, so that it can be taken again with other lines.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import warp as wp

from ...kernel.launch import Launch
from ...kernel.types import Flavour, module_options
from ..divergence import HUGE
from ..engine_drives import NEAR

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

_LIBRARIES = ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll")
FUNCTIONS = ("mj_setState", "mj_getState", "mj_step")
_WHOLE = ctypes.c_longlong
_ADDRESS = ctypes.c_void_p


class Field(ctypes.Structure):
    """A field of the model that differs between environments."""

    _fields_ = (("rows", _ADDRESS), ("bytes", _WHOLE))


class Target(ctypes.Structure):
    """A target that is the control of a servo: which value of a row of targets, and which control.

    The target is (control - offset) / scale, of the control that is kept from ``low`` to ``high``.
    """

    _fields_ = (
        ("rows", _ADDRESS),
        ("width", _WHOLE),
        ("dof", _WHOLE),
        ("control", _WHOLE),
        ("scale", ctypes.c_double),
        ("offset", ctypes.c_double),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
    )


class Line(ctypes.Structure):
    """An effort that is a line: ``qfrc_applied`` of a DOF, and the products of two controls with its velocity and
    position. Without the second control, which is -1 then, it is one of the velocity alone."""

    _fields_ = tuple((name, _WHOLE) for name in ("dof", "coordinate", "by_velocity", "by_position"))


class Plan(ctypes.Structure):
    """What to do in one run, for all threads."""

    _fields_ = (
        *((name, _ADDRESS) for name in FUNCTIONS),
        ("next", _WHOLE),
        ("failures", _WHOLE),
        ("signature", _WHOLE),
        ("width", _WHOLE),
        ("count", _WHOLE),
        ("chunk", _WHOLE),
        ("steps", _WHOLE),
        ("again", _WHOLE),
        ("huge", ctypes.c_double),
        ("near_share", ctypes.c_double),
        *((name, _WHOLE) for name in ("nq", "nv", "at_position", "at_velocity", "at_control", "at_effort")),
        *((name, _WHOLE) for name in ("num_fields", "num_targets", "num_lines")),
        *((name, _ADDRESS) for name in ("states", "own", "position", "velocity", "effort", "fields", "targets")),
        *((name, _ADDRESS) for name in ("lines", "lower", "upper", "before", "is_near", "to_redo", "loads")),
    )


class Worker(ctypes.Structure):
    """What a thread works with: a model, an ``MjData``, where each field that differs lies in the model, and what the
    ``MjData`` holds of gravity, Coriolis and centrifugal forces."""

    _fields_ = (("model", _ADDRESS), ("data", _ADDRESS), ("into", ctypes.POINTER(_ADDRESS)), ("bias", _ADDRESS))


STRUCTS = """
    struct Field { const char* rows; long long bytes; };
    struct Worker { const void* model; void* data; char** into; const double* bias; };
"""
"""`Field` and `Worker` in the language of loops."""

_LOOP = (
    STRUCTS
    + """
    struct Target { float* rows; long long width, dof, control; double scale, offset, low, high; };
    struct Line { long long dof, coordinate, by_velocity, by_position; };
    struct Plan {
        void (*set_state)(const void*, void*, const double*, int);
        void (*get_state)(const void*, const void*, double*, int);
        void (*step)(const void*, void*);
        long long next, failures, signature, width, count, chunk, steps, again;
        double huge, near_share;
        long long nq, nv, at_position, at_velocity, at_control, at_effort, num_fields, num_targets, num_lines;
        double* states;
        void* const* own;
        float *position, *velocity, *effort;
        const Field* fields;
        const Target* targets;
        const Line* lines;
        const double *lower, *upper;
        double* before;
        char* is_near;
        const char* to_redo;
        float* loads;
    };

    Plan& p = *(Plan*)plan;
    const Worker& w = *(const Worker*)worker;
    const int signature = (int)p.signature;

    auto effort_of = [&p](const double* row, const Line& line) -> double {
        #pragma clang fp contract(off)
        double effort = row[p.at_effort + line.dof];
        effort += row[p.at_control + line.by_velocity] * row[p.at_velocity + line.dof];
        if (line.by_position >= 0)
            effort += row[p.at_control + line.by_position] * row[p.at_position + line.coordinate];
        return effort;
    };
    for (;;) {
        const long long first = __atomic_fetch_add(&p.next, p.chunk, __ATOMIC_RELAXED);
        if (first >= p.count) return;
        const long long end = first + p.chunk < p.count ? first + p.chunk : p.count;
        for (long long env = first; env < end; ++env) {
            void* const own = p.own[env];
            if (!own && !p.steps) continue;
            if (p.again && !p.to_redo[env]) continue;
            void* const data = own ? own : w.data;
            double* const row = p.states + env * p.width;
            double* const before = p.before + env * p.width;
            for (long long k = 0; p.steps && k < p.num_fields; ++k)
                __builtin_memcpy(w.into[k], p.fields[k].rows + env * p.fields[k].bytes, p.fields[k].bytes);
            if (p.again) {
                __builtin_memcpy(row, before, p.width * sizeof(double));
                p.set_state(w.model, data, row, signature);
            }
            else if (own) p.get_state(w.model, data, row, signature);
            else p.set_state(w.model, data, row, signature);

            bool sound = true;
            for (long long k = 0; sound && k <= p.steps; ++k) {
                if (k) {
                    if (p.num_lines) __builtin_memcpy(before, row, p.width * sizeof(double));
                    p.step(w.model, data);
                    p.get_state(w.model, data, row, signature);
                }
                for (long long i = 0; i < p.nq; ++i) sound &= __builtin_fabs(row[p.at_position + i]) <= p.huge;
                for (long long i = 0; i < p.nv; ++i) sound &= __builtin_fabs(row[p.at_velocity + i]) <= p.huge;
            }
            if (!sound) __atomic_fetch_add(&p.failures, 1, __ATOMIC_RELAXED);
            if (p.loads && !own)
                for (long long i = 0; i < p.nv; ++i) p.loads[env * p.nv + i] = (float)(-w.bias[i]);

            for (long long i = 0; i < p.nq; ++i) p.position[env * p.nq + i] = (float)(row[p.at_position + i]);
            for (long long i = 0; i < p.nv; ++i) p.velocity[env * p.nv + i] = (float)(row[p.at_velocity + i]);
            if (own) {
                for (long long i = 0; i < p.nv; ++i) p.effort[env * p.nv + i] = (float)(row[p.at_effort + i]);
                for (long long k = 0; k < p.num_targets; ++k) {
                    const Target& t = p.targets[k];
                    double control = row[p.at_control + t.control];
                    control = control < t.low ? t.low : (control > t.high ? t.high : control);
                    t.rows[env * t.width + t.dof] = (float)((control - t.offset) / t.scale);
                }
            }
            bool is_near = false;
            for (long long k = 0; k < p.num_lines; ++k) {
                const double effort = effort_of(row, p.lines[k]);
                const double lower = p.lower[env * p.num_lines + k], upper = p.upper[env * p.num_lines + k];
                is_near |= lower < upper
                    && (effort > upper - (1.0 - p.near_share) * __builtin_fabs(upper)
                        || effort < lower + (1.0 - p.near_share) * __builtin_fabs(lower));
                p.effort[env * p.nv + p.lines[k].dof] = (float)effort;
            }
            p.is_near[env] = is_near;
        }
    }
"""
)


@wp.func_native(_LOOP)
def _loop(plan: wp.uint64, worker: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.kernel
def run_plan(plan: wp.uint64, worker: wp.uint64) -> None:
    _loop(plan, worker)


def make_plan(functions: dict[str, int]) -> Plan:
    """A plan for MuJoCo's functions at these addresses."""
    return Plan(**functions, huge=HUGE, near_share=NEAR)


def make_run(kernel: wp.Kernel, plan: ctypes.Structure, worker: Worker) -> Any:
    """Return what runs a plan with a worker at each call. Both must be kept alive."""
    addresses = [ctypes.addressof(plan), ctypes.addressof(worker)]
    return Launch(kernel, 1, "cpu", addresses).run


@functools.cache
def mujoco_functions() -> dict[str, int] | None:
    """Addresses of the functions of MuJoCo that the loop calls; None where they are not found, or not of this kind."""
    import mujoco

    if getattr(mujoco, "MJTNUM_BYTES", 8) != 8 or not hasattr(mujoco.MjData, "_address"):
        return None
    folder = Path(mujoco.__file__).parent
    for path in (path for pattern in _LIBRARIES for path in sorted(folder.glob(pattern))):
        try:
            library = ctypes.CDLL(str(path))
            return {name: ctypes.cast(getattr(library, name), _ADDRESS).value or 0 for name in FUNCTIONS}
        except (OSError, AttributeError):
            continue
    return None
