# SPDX-License-Identifier: Apache-2.0
"""The compiled loop: for each environment its motors, ``mj_step``, and checks of limits after a step.

``mjb_apply`` of MuJoCo's batches calls `ADVANCE` for one environment, on any of its threads, without the interpreter.
An ``MjData`` serves all environments of a thread: ``mj_step`` reads only the integration state (positions, velocities,
activations, warm start, controls, forces), so the result equals that with a separate ``MjData``, to the last bit. Each
step is

- `BEGIN`: kernels of the motors of each robot, for which a robot is a cell; batteries; then efforts, friction and
  derivatives are written to MuJoCo;
- ``mj_step``;
- `END`: update of the arrays of actuators. If an implicit effort ended beyond its limits, the environment returns to
  the start of the step, with another line, and the step is repeated.

If a callback in Python is installed in MuJoCo, `BEGIN` and `END` are called from Python: only MuJoCo's bindings can
take such a step.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import mujoco
import warp as wp

from ...kernel.launch import Launch
from ...kernel.types import Flavour, module_options
from .c_code import CALL, RUN, Structs, data_offsets, many

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

_structs = Structs()
_struct = _structs.add

Field = _struct("Field", rows="const char*", size="long long")
"""Field of the model in which environments differ, with ``size`` bytes for each."""

Worker = _struct("Worker", model="void*", into="char**")
"""Model of a thread, for environments that differ, and the addresses of its fields."""

Target = _struct(
    "Target", rows="float*", **many("long long", "width dof control"), **many("double", "scale offset low high")
)
"""Target that is the control of a servo, (control - offset) / scale, of the control kept from ``low`` to ``high``."""

Line = _struct("Line", **many("long long", "dof coordinate by_velocity by_position"))
"""Effort that is a line: ``qfrc_applied`` of a DOF, and the products of two controls with its velocity and position.

Without the second control, which is -1 then, it is a line of the velocity alone.
"""

Call = _struct("Call", **CALL)
"""Kernel that steps one robot. See `CALL`."""

Block = _struct(
    "Block", memory="const char*", **many("char*", "before at_end"), size="long long", cells="const long long*"
)
"""Memory of a chain, ``size`` bytes for each robot; copies of it before the last step, and for its end."""

Place = _struct("Place", **many("long long", "column to"))
"""Column of an effort, and the DOF or the line that it goes to."""

Change = _struct("Change", values="const float*", column="long long", rows="double*", **many("long long", "dof field"))
"""Property of a DOF that motors change at each step, its rows, and the indices of its fields; -1 for none."""

Points = _struct(
    "Points", **many("double", "speed effort other_speed other_effort"), **many("long long", "is_corrected was_fast")
)
"""End of a step with a corrected effort, and the last one on the other side of the chain's effort."""

ImplicitEffort = _struct("ImplicitEffort", **many("const float*", "effort derivative_q derivative_qd lower upper"))
"""Efforts of robots with their derivatives and bounds, each of shape (n, D)."""

Motor = _struct(
    "Motor",
    **many("long long", "is_driven retakes width by_position"),
    **many("long long", "num_calls num_end_calls num_blocks num_pushes num_lines num_changes"),
    **many("const long long*", "starts robots"),
    **many("const Call*", "calls end_calls"),
    blocks="const Block*",
    **many("const Place*", "pushes lines"),
    changes="const Change*",
    **many("const float*", "checked tripped temperature"),
    **many("float*", "seen load tripped_temperature"),
    **many("long long*", "said tripped_at"),
    **many("ImplicitEffort", "now at_end"),
    points="Points*",
)
"""Actuators on robots: those of environment e are ``robots[starts[e]:starts[e + 1]]``."""

Draw = _struct("Draw", own="const float*", other="float*", **many("long long", "count is_last"))
"""Loads of motors on a battery: their own, and those of the others. The last of a battery is marked."""

Note = _struct("Note", **many("long long", "status steps motor column robot"))
"""Status of an environment, one of the words below, and its number of steps in the run."""

_STATUS = ("RUNS", "NOT_FINITE", "DIVERGED", "FAILED")
RUNS, NOT_FINITE, DIVERGED, FAILED = range(len(_STATUS))

Layout = _struct("Layout", **many("long long", "bias constraint nefc efc_type efc_id efc_force friction"))
"""Offsets of fields in an ``MjData`` [bytes], and the type of a row that is dry friction of a DOF."""

Plan = _struct(
    "Plan",
    set_state="void (*)(const void*, void*, const double*, int)",
    get_state="void (*)(const void*, const void*, double*, int)",
    step="void (*)(const void*, void*)",
    reset="void (*)(const void*, void*)",
    model="const void*",
    **many("long long", "first_step steps count width nq nv signature control_signature may_sleep corrections"),
    **many("long long", "at_position at_velocity at_control at_effort"),
    **many("long long", "num_fields num_workers num_targets num_lines num_motors"),
    **many("long long", "history_first history_steps retaken num_noted argument_bytes"),
    **many("double", "huge near steepest tolerance agreed"),
    **many("double*", "states before lower upper"),
    own="void* const*",
    **many("float*", "position velocity effort loads history_velocity history_effort"),
    fields="const Field*",
    workers="const Worker*",
    owners="unsigned long long*",
    targets="const Target*",
    lines="const Line*",
    motors="const Motor*",
    draws="const Draw*",
    draw_starts="const long long*",
    layout="const Layout*",
    notes="Note*",
)
"""A run of all environments, from ``first_step`` up to ``steps``."""

_FUNCTIONS = """
struct Own {
    static void note(Plan& p, long long env, const Note& told) {
        p.notes[env] = told;
        __atomic_fetch_add(&p.num_noted, 1, __ATOMIC_RELAXED);
    }
    static double effort_of(const Plan& p, const double* row, const Line& line) {
        #pragma clang fp contract(off)
        double effort = row[p.at_effort + line.dof];
        effort += row[p.at_control + line.by_velocity] * row[p.at_velocity + line.dof];
        if (line.by_position >= 0)
            effort += row[p.at_control + line.by_position] * row[p.at_position + line.coordinate];
        return effort;
    }
    static double braking(const Plan& p, float derivative) {
        return derivative < 0.0f ? (derivative > p.steepest ? (double)derivative : p.steepest) : 0.0;
    }
    static double most_of(double lowest, double highest) {
        const double low = __builtin_fabs(lowest), high = __builtin_fabs(highest);
        const double larger = low > high ? low : high;
        return larger < __builtin_inf() ? larger : (low < high ? low : high);
    }
    // Copy the arguments of all kernels to an address, from the next multiple of 64 on, which is returned.
    static char* copy_arguments(const Plan& p, void* to) {
        char* const arguments = (char*)(((unsigned long long)to + 63) & ~63ULL);
        for (long long k = 0; k < p.num_motors; ++k) {
            Kernels::copy(p.motors[k].calls, p.motors[k].num_calls, arguments);
            Kernels::copy(p.motors[k].end_calls, p.motors[k].num_end_calls, arguments);
        }
        return arguments;
    }
    // Step the actuators of a robot.
    static void drive(const Plan& p, const Motor& m, long long env, long long robot, char* arguments) {
        __builtin_memcpy(m.seen + env * p.nv, p.velocity + env * p.nv, p.nv * sizeof(float));
        if (m.load) __builtin_memcpy(m.load + env * p.nv, p.loads + env * p.nv, p.nv * sizeof(float));
        for (long long k = 0; k < m.num_blocks; ++k) {
            const Block& block = m.blocks[k];
            const long long at = block.cells[robot] * block.size;
            if (at >= 0) __builtin_memcpy(block.before + at, block.memory + at, block.size);
        }
        Kernels::run(m.calls, m.num_calls, robot, arguments);
    }

    // Tell the motors on each battery what the others drew.
    static void share(const Plan& p, long long env) {
        #pragma clang fp contract(off)
        float total = 0.0f;
        for (long long k = p.draw_starts[env], first = k; k < p.draw_starts[env + 1]; ++k) {
            for (long long i = 0; i < p.draws[k].count; ++i) total += p.draws[k].own[i];
            if (!p.draws[k].is_last) continue;
            for (; first <= k; ++first)
                for (long long i = 0; i < p.draws[first].count; ++i)
                    p.draws[first].other[i] = total - p.draws[first].own[i];
            total = 0.0f;
        }
    }

    // Put what the actuators of a robot gave into the state of its environment. False where it is not finite.
    static bool hand_over(Plan& p, const Motor& m, const Worker* w, long long at, long long env, long long robot,
                          long long step) {
        #pragma clang fp contract(off)
        double* const row = p.states + env * p.width;
        const long long first = robot * m.width;
        for (long long i = 0; i < m.width; ++i)
            if (!(__builtin_fabsf(m.checked[first + i]) <= __FLT_MAX__)) {
                note(p, env, {NOT_FINITE, step, at, i, robot});
                return false;
            }
        for (long long i = 0; m.tripped && i < m.width; ++i) {
            const bool has_tripped = m.tripped[first + i] > 0.0f;
            if (has_tripped && !m.said[first + i]) {
                m.tripped_at[first + i] = step;
                if (m.temperature) m.tripped_temperature[first + i] = m.temperature[first + i];
            }
            m.said[first + i] = has_tripped;
        }
        for (long long k = 0; k < m.num_pushes; ++k) {
            const float effort = m.now.effort[first + m.pushes[k].column];
            row[p.at_effort + m.pushes[k].to] = (double)effort;
            p.effort[env * p.nv + m.pushes[k].to] = effort;
        }
        for (long long k = 0; k < m.num_lines; ++k) {
            const long long from = first + m.lines[k].column, to = m.lines[k].to;
            const Line& line = p.lines[to];
            double derivative = braking(p, m.now.derivative_qd[from]);
            double constant = m.now.effort[from] - derivative * row[p.at_velocity + line.dof];
            row[p.at_control + line.by_velocity] = derivative;
            if (m.by_position) {
                derivative = braking(p, m.now.derivative_q[from]);
                constant -= derivative * row[p.at_position + line.coordinate];
                row[p.at_control + line.by_position] = derivative;
            }
            row[p.at_effort + line.dof] = constant;
            p.effort[env * p.nv + line.dof] = m.now.effort[from];
            p.lower[env * p.num_lines + to] = m.now.lower[from];
            p.upper[env * p.num_lines + to] = m.now.upper[from];
        }
        for (long long k = 0; k < m.num_changes; ++k) {
            const Change& change = m.changes[k];
            const double value = (double)change.values[first + change.column];
            change.rows[env * p.nv + change.dof] = value;
            if (w && change.field >= 0) ((double*)w->into[change.field])[change.dof] = value;
        }
        return true;
    }

    static bool begin(Plan& p, const Worker* w, const void* model, void* data, long long env, long long step,
                      char* arguments) {
        double* const row = p.states + env * p.width;
        bool is_driven = false;
        for (long long k = 0; k < p.num_motors; ++k) {
            const Motor& m = p.motors[k];
            if (!m.is_driven) continue;
            is_driven = true;
            for (long long i = m.starts[env]; i < m.starts[env + 1]; ++i) drive(p, m, env, m.robots[i], arguments);
        }
        if (is_driven) {
            if (p.draw_starts) share(p, env);
            for (long long k = 0; k < p.num_motors; ++k) {
                const Motor& m = p.motors[k];
                for (long long i = m.starts[env]; m.is_driven && i < m.starts[env + 1]; ++i)
                    if (!hand_over(p, m, w, k, env, m.robots[i], step)) return false;
            }
            p.set_state(model, data, row + p.at_control, (int)p.control_signature);
        }
        if (p.num_lines) __builtin_memcpy(p.before + env * p.width, row, p.width * sizeof(double));
        return true;
    }

    // Correct lines of a step that was taken, in the state before it. False where all are within their limits.
    static bool correct(const Plan& p, const Motor& m, long long env, long long robot, bool is_first, char* arguments) {
        #pragma clang fp contract(off)
        const double* const row = p.states + env * p.width;
        double* const before = p.before + env * p.width;
        bool is_redone = false;
        for (long long k = 0; k < m.num_blocks; ++k) {
            const Block& block = m.blocks[k];
            const long long at = block.cells[robot] * block.size;
            if (at >= 0) __builtin_memcpy(block.at_end + at, block.before + at, block.size);
        }
        Kernels::run(m.end_calls, m.num_end_calls, robot, arguments);
        for (long long k = 0; k < m.num_lines; ++k) {
            const long long from = robot * m.width + m.lines[k].column, at = env * p.num_lines + m.lines[k].to;
            const Line& line = p.lines[m.lines[k].to];
            Points& last = m.points[robot * m.num_lines + k];
            const double begun = m.now.effort[from];
            if (is_first) last = {0.0, 0.0, before[p.at_velocity + line.dof], begun, false, false};
            if (!(p.lower[at] < p.upper[at])) continue;
            const float lowest = m.at_end.lower[from], highest = m.at_end.upper[from];
            const double applied = p.effort[env * p.nv + line.dof], given = m.at_end.effort[from];
            const double slack = p.tolerance * most_of(lowest, highest), most = most_of(p.lower[at], p.upper[at]);
            const bool above = applied > highest + slack;
            const bool beyond = above || applied < lowest - slack;
            const double edge = p.tolerance * most, off = __builtin_fabs(applied - given);
            const bool was_clipped = begun > p.upper[at] - edge || begun < p.lower[at] + edge;
            if (!beyond && !((last.is_corrected || was_clipped) && off > p.agreed * most)) continue;
            const bool at_bound = above ? given >= highest : given <= lowest;
            const bool along = beyond && at_bound && !last.is_corrected && !(off > most);
            const double speed = row[p.at_velocity + line.dof];
            const bool is_fast = applied > given;
            if (last.is_corrected && is_fast != (bool)last.was_fast) {
                last.other_speed = last.speed;
                last.other_effort = last.effort;
            }
            const double secant = (given - last.other_effort) / (speed - last.other_speed);
            double derivative = braking(p, along ? m.at_end.derivative_qd[from] : (float)secant);
            double constant = given - derivative * speed;
            last = {speed, given, last.other_speed, last.other_effort, true, is_fast};
            before[p.at_control + line.by_velocity] = derivative;
            if (m.by_position) {
                derivative = along ? braking(p, m.at_end.derivative_q[from]) : 0.0;
                constant -= derivative * row[p.at_position + line.coordinate];
                before[p.at_control + line.by_position] = derivative;
            }
            before[p.at_effort + line.dof] = constant;
            is_redone = true;
        }
        return is_redone;
    }

    static void read_loads(const Plan& p, const void* data, long long env) {
        const Layout& at = *p.layout;
        const char* const d = (const char*)data;
        float* const loads = p.loads + env * p.nv;
        const double* const bias = *(const double* const*)(d + at.bias);
        if (at.constraint < 0) {
            for (long long i = 0; i < p.nv; ++i) loads[i] = (float)(-bias[i]);
            return;
        }
        double* const sums = (double*)__builtin_alloca(p.nv * sizeof(double));
        const double* const constraint = *(const double* const*)(d + at.constraint);
        for (long long i = 0; i < p.nv; ++i) sums[i] = constraint[i] - bias[i];
        const wp::int32 rows = *(const wp::int32*)(d + at.nefc);
        const wp::int32* const types = *(const wp::int32* const*)(d + at.efc_type);
        const wp::int32* const ids = *(const wp::int32* const*)(d + at.efc_id);
        const double* const forces = *(const double* const*)(d + at.efc_force);
        for (wp::int32 k = 0; k < rows; ++k)
            if (types[k] == at.friction) sums[ids[k]] -= forces[k];
        for (long long i = 0; i < p.nv; ++i) loads[i] = (float)sums[i];
    }

    // Let actuators see the state of an environment. False where it is not finite, or huge.
    static bool show(const Plan& p, long long env) {
        const double* const row = p.states + env * p.width;
        bool sound = true;
        for (long long i = 0; i < p.nq; ++i) sound &= __builtin_fabs(row[p.at_position + i]) <= p.huge;
        for (long long i = 0; i < p.nv; ++i) sound &= __builtin_fabs(row[p.at_velocity + i]) <= p.huge;
        for (long long i = 0; i < p.nq; ++i) p.position[env * p.nq + i] = (float)(row[p.at_position + i]);
        for (long long i = 0; i < p.nv; ++i) p.velocity[env * p.nv + i] = (float)(row[p.at_velocity + i]);
        for (long long k = 0; k < p.num_lines; ++k)
            p.effort[env * p.nv + p.lines[k].dof] = (float)effort_of(p, row, p.lines[k]);
        return sound;
    }
    static bool is_near(const Plan& p, long long env) {
        const double* const row = p.states + env * p.width;
        for (long long k = 0; k < p.num_lines; ++k) {
            const double lower = p.lower[env * p.num_lines + k], upper = p.upper[env * p.num_lines + k];
            const double effort = effort_of(p, row, p.lines[k]);
            if (lower < upper && (effort > upper - (1.0 - p.near) * __builtin_fabs(upper)
                                  || effort < lower + (1.0 - p.near) * __builtin_fabs(lower))) return true;
        }
        return false;
    }

    static long long end(Plan& p, const void* model, void* data, long long env, long long step, long long taken,
                         char* arguments) {
        double* const row = p.states + env * p.width;
        p.get_state(model, data, row, (int)p.signature);
        const bool sound = show(p, env);
        if (p.loads) read_loads(p, data, env);
        if (!sound) {
            note(p, env, {DIVERGED, step + 1, 0, 0, 0});
            return 0;
        }
        if (taken < p.corrections && (taken || is_near(p, env))) {
            bool is_redone = false;
            for (long long k = 0; k < p.num_motors; ++k) {
                const Motor& m = p.motors[k];
                for (long long i = m.starts[env]; m.retakes > step && i < m.starts[env + 1]; ++i)
                    is_redone |= correct(p, m, env, m.robots[i], !taken, arguments);
            }
            if (is_redone) {
                if (!taken) __atomic_fetch_add(&p.retaken, 1, __ATOMIC_RELAXED);
                __builtin_memcpy(row, p.before + env * p.width, p.width * sizeof(double));
                if (p.may_sleep) p.reset(model, data);
                p.set_state(model, data, row, (int)p.signature);
                return 1;
            }
        }
        if (p.history_steps) {
            const long long at = ((p.history_first + step) % p.history_steps) * p.count + env;
            __builtin_memcpy(p.history_velocity + at * p.nv, p.velocity + env * p.nv, p.nv * sizeof(float));
            __builtin_memcpy(p.history_effort + at * p.nv, p.effort + env * p.nv, p.nv * sizeof(float));
        }
        p.notes[env].steps = step + 1;
        return 0;
    }

    // Read an MjData that anybody may have written into.
    static void refresh(Plan& p, const void* data, long long env) {
        double* const row = p.states + env * p.width;
        p.get_state(p.model, data, row, (int)p.signature);
        for (long long i = 0; i < p.nv; ++i) p.effort[env * p.nv + i] = (float)(row[p.at_effort + i]);
        if (!show(p, env)) note(p, env, {DIVERGED, 0, 0, 0, 0});
        for (long long k = 0; k < p.num_targets; ++k) {
            const Target& t = p.targets[k];
            double control = row[p.at_control + t.control];
            control = control < t.low ? t.low : (control > t.high ? t.high : control);
            t.rows[env * t.width + t.dof] = (float)((control - t.offset) / t.scale);
        }
    }

    // The model of a thread, which has an MjData of its own. After an error, a thread never comes back to where it was.
    static const Worker* worker_of(const Plan& p, const void* data) {
        if (p.num_workers == 1) return p.workers;
        const unsigned long long here = (unsigned long long)data;
        for (long long k = 0; k < p.num_workers; ++k) {
            unsigned long long owner = 0;
            __atomic_compare_exchange_n(p.owners + k, &owner, here, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            if (owner == 0 || owner == here) return p.workers + k;
        }
        return nullptr;
    }

    static void advance(const void* model, void* data, int env, void* plan) {
        Plan& p = *(Plan*)plan;
        void* const own = p.own[env];
        const Worker* const w = p.num_fields ? worker_of(p, data) : nullptr;
        if (w) model = w->model;
        for (long long k = 0; k < p.num_fields; ++k)
            __builtin_memcpy(w->into[k], p.fields[k].rows + env * p.fields[k].size, p.fields[k].size);
        if (!p.first_step) p.notes[env].steps = 0;
        if (own) data = own;
        else p.set_state(model, data, p.states + env * p.width, (int)p.signature);
        char* const arguments = copy_arguments(p, __builtin_alloca(p.argument_bytes));
        for (long long step = p.first_step; step < p.steps && p.notes[env].status == RUNS; ++step) {
            if (!begin(p, w, model, data, env, step, arguments)) break;
            long long taken = 0;
            do p.step(model, data);
            while (end(p, model, data, env, step, taken++, arguments));
        }
    }

    // Step the actuators of a motor in all environments, without physics.
    static void drive_all(void* plan, const void* motor) {
        Plan& p = *(Plan*)plan;
        const Motor& m = *(const Motor*)motor;
        char* const arguments = copy_arguments(p, __builtin_alloca(p.argument_bytes));
        for (long long env = 0; env < p.count; ++env)
            for (long long i = m.starts[env]; i < m.starts[env + 1]; ++i) {
                drive(p, m, env, m.robots[i], arguments);
                if (p.draw_starts) share(p, env);
                if (hand_over(p, m, nullptr, 0, env, m.robots[i], 0) && p.own[env])
                    p.set_state(p.model, p.own[env], p.states + env * p.width + p.at_control, (int)p.control_signature);
            }
    }
    static int begin_step(void* plan, const void* worker, const void* model, void* data, int env, int step) {
        Plan& p = *(Plan*)plan;
        char* const arguments = copy_arguments(p, __builtin_alloca(p.argument_bytes));
        return begin(p, (const Worker*)worker, model, data, env, step, arguments);
    }
    static int end_step(void* plan, const void* model, void* data, int env, int step, int taken) {
        Plan& p = *(Plan*)plan;
        char* const arguments = copy_arguments(p, __builtin_alloca(p.argument_bytes));
        return (int)end(p, model, data, env, step, taken, arguments);
    }
    // Whether callbacks of MuJoCo were set since the last call.
    static int callbacks_changed(void* slots, void* known, int count) {
        int changed = 0;
        for (int i = 0; i < count; ++i) {
            void* const now = *((void***)slots)[i];
            changed |= now != ((void**)known)[i];
            ((void**)known)[i] = now;
        }
        return changed;
    }
    static void refresh_all(void* plan) {
        Plan& p = *(Plan*)plan;
        for (long long env = 0; env < p.count; ++env)
            if (p.own[env]) refresh(p, p.own[env], env);
    }
};
"""

_NAMES = ("advance", "drive_all", "begin_step", "end_step", "refresh_all", "callbacks_changed")
_CODE = "\n".join(
    (
        f"enum {{ {', '.join(_STATUS)} }};",
        _structs.text,
        RUN,
        _FUNCTIONS,
        *(f"out.data[{i}] = (wp::uint64)(void*)&Own::{name};" for i, name in enumerate(_NAMES)),
    )
)


@wp.func_native(_CODE)
def _addresses(out: wp.array(dtype=wp.uint64)): ...  # type: ignore[no-untyped-def, valid-type]


@wp.kernel
def _find_addresses(out: wp.array(dtype=wp.uint64)) -> None:  # type: ignore[valid-type]
    _addresses(out)


class Functions:
    """The compiled functions, for calls from Python."""

    def __init__(self) -> None:
        found = wp.zeros(len(_NAMES), dtype=wp.uint64, device="cpu")
        self._launch = Launch(_find_addresses, 1, "cpu", [found])  # keeps the compiled code
        self._launch.run()
        address, place, number = dict(zip(_NAMES, found.numpy().tolist(), strict=True)), ctypes.c_void_p, ctypes.c_int
        self.advance = address["advance"]
        """Address of the function that ``mjb_apply`` calls."""
        self.drive_all = ctypes.CFUNCTYPE(None, place, place)(address["drive_all"])
        self.begin_step = ctypes.CFUNCTYPE(number, *[place] * 4, number, number)(address["begin_step"])
        self.end_step = ctypes.CFUNCTYPE(number, *[place] * 3, *[number] * 3)(address["end_step"])
        self.callbacks_changed = ctypes.PYFUNCTYPE(number, place, place, number)(address["callbacks_changed"])
        self.refresh_all = ctypes.PYFUNCTYPE(None, place)(address["refresh_all"])


@functools.cache
def functions() -> Functions:
    """Return the compiled functions, compiled at the first call."""
    return Functions()


@functools.cache
def load_layout(is_free: bool) -> Any:
    """Return the offsets in an ``MjData`` of the fields for loads of joints.

    Args:
        is_free: Whether only dry friction ever constrains the model, so that loads are the bias forces.
    """
    names = ("qfrc_bias", "qfrc_constraint", "nefc", "efc_type", "efc_id", "efc_force")
    offsets = (*data_offsets("qfrc_bias"), *[-1] * 5) if is_free else data_offsets(*names)
    return Layout(*offsets, int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF))
