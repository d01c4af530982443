# SPDX-License-Identifier: Apache-2.0
"""Motors in any MuJoCo loop: a C function behind ``mjcb_control`` that steps the motors of known models.

A model is recognised by the name of a text element, which its copies, pickles and files keep. The memory of its motors
is in ``act``, like MuJoCo's own activations, so that resets, keyframes, copies and rollouts include it:

- the number of the trajectory, 0 for a new one; -k for one that starts with the number k - 1;
- a clock of steps: the activation of a filter without a control, which the callback sets to 1 and a step takes to 0.
  ``data.time`` is none, as users set it;
- the memory of chains before the last step, and after it. If MuJoCo evaluates the callback again before the next, as
  ``mj_forward``, stages of Runge and Kutta and finite differences do, chains start from *before* again;
- past signals of delays, once: a step writes only the newest row, again if it is repeated.

Kernels work on spare cells. Each call claims one, so that MuJoCo's threads are independent. Kernels that Warp compiles
without optimisation keep a pointer to the stack of the last thread: they get one cell of a model, and run one after the
other.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

import mujoco
import warp as wp

from ...errors import SimulationError
from ...kernel.launch import Launch
from ...kernel.types import Flavour, module_options
from .c_code import CALL, RUN, Structs, address_of, data_offsets, library, many, model_offsets, option_offset

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

CELLS = 64
"""Number of spare cells: calls that can run at the same time."""
MODELS = 256
"""Largest number of loaded models."""

_structs = Structs()

Call = _structs.add("Call", **CALL)
"""Kernel that steps the motors on a cell."""

Draw = _structs.add("Draw", own="const char*", other="char*", **many("long long", "stride count is_last"))
"""Loads of motors on a battery: their own, and those of the others, ``stride`` bytes from one cell to the next. The
last of a battery is marked."""

Words = _structs.add("Words", base="char*", **many("long long", "stride count is_int is_twice numbered"))
"""Part of the memory of chains: ``count`` numbers of a cell, ``stride`` bytes from one cell to the next.

It starts at its initial value plus ``numbered`` times the number of the trajectory.
"""

Control = _structs.add("Control", place="long long", **many("double", "scale offset"))
"""A signal that is a control, (control - offset) / scale, of the control within its range in the model; -1 for none."""

Joint = _structs.add(
    "Joint",
    **many("long long", "position velocity force by_velocity by_position"),
    **many("Control", "target target_velocity feedforward"),
    damping="double",
    number="long long",
)
"""A joint: its places in ``qpos``, ``qvel`` and ``act``, -1 for none, its controls, its damping and its number in the
model."""

Robot = _structs.add(
    "Robot",
    mark="const char*",
    **many("long long", "nq nv nu na dofs num_calls num_words num_draws half is_random taken next_number clock"),
    dt="double",
    calls="const Call*",
    words="const Words*",
    joints="const Joint*",
    draws="const Draw*",
    **many("float*", "q qd target target_qd feedforward load"),
    **many("const float*", "effort derivative_q derivative_qd dry viscous"),
    **many("const wp::int32*", "word_at column_of"),
    initial="const double*",
    **many("long long", "bad_joint wrong_size wrong_dt"),
    bad_time="double",
)
"""The motors of a model: of one robot, or of several. ``column_of`` is the joint of each DOF of the model, or -1."""

Offsets = _structs.add(
    "Offsets",
    **many("long long", "nefc type id loss island_type island_id island_loss passive bias friction"),
    **many("long long", "compensation timestep flags limited range joint_limited joint_range not_clamped"),
)
"""Offsets of fields in an ``MjData`` [bytes], the type of a row that is dry friction of a DOF, offsets of options and
of ranges of controls and joints in an ``MjModel``, and the flag without which controls are kept within theirs."""

Table = _structs.add(
    "Table",
    previous="void (*)(const void*, void*)",
    name2id="wp::int32 (*)(const void*, int, const char*)",
    state_size="wp::int32 (*)(const void*, int)",
    get_state="void (*)(const void*, const void*, double*, int)",
    set_state="void (*)(const void*, void*, const double*, int)",
    warn="void (*)(void*, int, int)",
    offsets="const Offsets*",
    **many("long long", "text bad_control count"),
    robots="Robot**",
)
"""Data of the callback. There is one table, which is never freed."""

_CODE = """
enum { TIME = 1, QPOS = 2, QVEL = 4, ACT = 8, CTRL = 64, ALL = TIME | QPOS | QVEL | ACT | CTRL };
struct Door {
    static Table*& table() { static Table* found = nullptr; return found; }

    static bool is_finite(float value) { return __builtin_fabsf(value) <= __FLT_MAX__; }
    // The ranges of controls in a model, which its user may change.
    struct Ranges {
        const bool* limited;
        const double* range;
        explicit Ranges(const void* model) {
            const Offsets& at = *table()->offsets;
            const char* const m = (const char*)model;
            const bool clamps = !(*(const wp::int32*)(m + at.flags) & at.not_clamped);
            limited = clamps ? *(const bool* const*)(m + at.limited) : nullptr;
            range = *(const double* const*)(m + at.range);
        }
        float signal(const Control& c, const double* ctrl) const {
            double value = ctrl[c.place];
            if (limited && limited[c.place]) {
                const double low = range[2 * c.place], high = range[2 * c.place + 1];
                value = value < low ? low : (value > high ? high : value);
            }
            return (float)((value - c.offset) / c.scale);
        }
    };
    static double braking(float derivative) {
        return derivative < 0.0f ? (derivative > -1e9f ? (double)derivative : -1e9) : 0.0;
    }

    static long long claim(Robot& r) {
        for (;;) {
            const unsigned long long taken = (unsigned long long)__atomic_load_n(&r.taken, __ATOMIC_RELAXED);
            const unsigned long long bit = ~taken & -(~taken);
            if (bit && !(__atomic_fetch_or(&r.taken, (long long)bit, __ATOMIC_ACQUIRE) & (long long)bit))
                return __builtin_ctzll(bit);
        }
    }
    static void release(Robot& r, long long cell) {
        __atomic_fetch_and(&r.taken, ~(1LL << cell), __ATOMIC_RELEASE);
    }

    // Move what chains remember between a cell and activations.
    static void move(const Robot& r, double* act, long long cell, const wp::int32* twice, const wp::int32* once,
                     bool out) {
        for (long long k = 0; k < r.num_words; ++k) {
            const Words& w = r.words[k];
            const wp::int32*& at = w.is_twice ? twice : once;
            char* const place = w.base + cell * w.stride;
            for (long long i = 0; i < w.count; ++i, ++at) {
                if (out) act[*at] = w.is_int ? (double)((wp::int32*)place)[i] : (double)((float*)place)[i];
                else if (w.is_int) ((wp::int32*)place)[i] = (wp::int32)act[*at];
                else ((float*)place)[i] = (float)act[*at];
            }
        }
    }

    // Begin a trajectory: with the number that it was given, or the next one where motors have random numbers.
    static void begin(Robot& r, double* act, const wp::int32* before, bool counts) {
        double& number = act[r.word_at[0]];
        if (number < 0.0) number = -number;
        else if (!r.is_random) number = 1.0;
        else number = (double)(__atomic_fetch_add(&r.next_number, (long long)counts, __ATOMIC_RELAXED) + 1);
        const double counted = number - 1.0;
        for (long long k = 0, i = 0; k < r.num_words; ++k) {
            const Words& w = r.words[k];
            for (long long j = 0; w.is_twice && j < w.count; ++j, ++i) {
                double value = r.initial[i] + counted * w.numbered;
                if (w.numbered) value -= 16777216.0 * __builtin_floor(value / 16777216.0);  // as floats count
                act[before[i]] = value;
            }
        }
    }

    // Let a cell see the state: TIME | QPOS | QVEL | ACT | CTRL, and the loads that follow from it: gravity and motion.
    // Returns a joint for which it is not finite, or -1.
    static long long show(const Robot& r, const Ranges& of, const void* data, const double* s, long long cell) {
        const double *q = s + 1, *v = q + r.nq, *ctrl = v + r.nv + r.na;
        const double* const bias = *(const double* const*)((const char*)data + table()->offsets->bias);
        const long long first = cell * r.dofs;
        long long bad = -1;
        for (long long i = 0; i < r.dofs; ++i) {
            const Joint& j = r.joints[i];
            const float position = r.q[first + i] = (float)q[j.position];
            const float velocity = r.qd[first + i] = (float)v[j.velocity];
            if (r.load) r.load[first + i] = -(float)bias[j.velocity];
            float sum = position - position + (velocity - velocity);  // zero, or NaN
            const float target = r.target[first + i] = of.signal(j.target, ctrl);
            sum += target - target;
            if (j.target_velocity.place >= 0) {
                const float wanted = r.target_qd[first + i] = of.signal(j.target_velocity, ctrl);
                sum += wanted - wanted;
            }
            if (j.feedforward.place >= 0) {
                const float given = r.feedforward[first + i] = of.signal(j.feedforward, ctrl);
                sum += given - given;
            }
            if (sum != 0.0f) bad = i;
        }
        return bad;
    }

    // Step the motors on a cell.
    static void drive(const Robot& r, long long cell) {
        #pragma clang fp contract(off)
        for (long long k = 0; k < r.num_calls; ++k) Kernels::run_cell(r.calls[k], cell);
        float total = 0.0f;
        for (long long k = 0, start = 0; k < r.num_draws; ++k) {
            const float* const drawn = (const float*)(r.draws[k].own + cell * r.draws[k].stride);
            for (long long i = 0; i < r.draws[k].count; ++i) total += drawn[i];
            if (!r.draws[k].is_last) continue;
            for (; start <= k; ++start) {
                const float* const own = (const float*)(r.draws[start].own + cell * r.draws[start].stride);
                float* const other = (float*)(r.draws[start].other + cell * r.draws[start].stride);
                for (long long i = 0; i < r.draws[start].count; ++i) other[i] = total - own[i];
            }
            total = 0.0f;
        }
    }

    static void write_losses(const Robot& r, const char* d, long long types, long long ids, long long losses,
                             long long first) {
        const Offsets& at = *table()->offsets;
        const wp::int32* const type = *(const wp::int32* const*)(d + types);
        const wp::int32* const id = *(const wp::int32* const*)(d + ids);
        double* const loss = *(double* const*)(d + losses);
        if (!type || !id || !loss) return;  // without constraints, or without islands
        const wp::int32 rows = *(const wp::int32*)(d + at.nefc);
        for (wp::int32 k = 0; k < rows; ++k) {
            const wp::int32 column = type[k] == at.friction ? r.column_of[id[k]] : -1;
            if (column >= 0 && is_finite(r.dry[first + column])) loss[k] = (double)r.dry[first + column];
        }
    }

    // Whether MuJoCo clips an effort with the gravity compensation of its joint.
    static bool is_clipped(const Joint& j, const void* model, const void* data, double effort) {
        const Offsets& at = *table()->offsets;
        const char* const m = (const char*)model;
        if (!(*(const bool* const*)(m + at.joint_limited))[j.number]) return false;
        const double* const range = *(const double* const*)(m + at.joint_range) + 2 * j.number;
        const double sum = effort + (*(const double* const*)((const char*)data + at.compensation))[j.velocity];
        return sum <= range[0] || sum >= range[1];
    }

    // Put what the motors gave into activations. Friction goes to the rows that MuJoCo has made before it asked.
    static void hand_over(const Robot& r, const void* model, void* data, double* s, long long cell) {
        #pragma clang fp contract(off)
        const Table& t = *table();
        const double *q = s + 1, *v = q + r.nq;
        double* const act = s + 1 + r.nq + r.nv;
        const long long first = cell * r.dofs;
        for (long long i = 0; i < r.dofs; ++i) {
            const Joint& j = r.joints[i];
            double force = (double)r.effort[first + i];
            const bool varies = j.by_velocity >= 0 && !is_clipped(j, model, data, force);
            if (j.by_velocity >= 0) {
                const double derivative = act[j.by_velocity] = varies ? braking(r.derivative_qd[first + i]) : 0.0;
                force -= derivative * v[j.velocity];
            }
            if (j.by_position >= 0) {
                const double derivative = act[j.by_position] = varies ? braking(r.derivative_q[first + i]) : 0.0;
                force -= derivative * q[j.position];
            }
            act[j.force] = force;
        }
        const char* const d = (const char*)data;
        if (r.dry) {
            write_losses(r, d, t.offsets->type, t.offsets->id, t.offsets->loss, first);
            write_losses(r, d, t.offsets->island_type, t.offsets->island_id, t.offsets->island_loss, first);
        }
        double* const passive = *(double* const*)(d + t.offsets->passive);
        for (long long i = 0; r.viscous && i < r.dofs; ++i) {
            const double beyond = (double)r.viscous[first + i] - r.joints[i].damping;
            if (is_finite(r.viscous[first + i]) && beyond != 0.0)
                passive[r.joints[i].velocity] -= beyond * v[r.joints[i].velocity];
        }
    }

    static long long bad_effort(const Robot& r, long long cell) {
        for (long long i = 0; i < r.dofs; ++i)
            if (!is_finite(r.effort[cell * r.dofs + i])) return i;
        return -1;
    }

    // Where something is not finite, all efforts are zero, and what was remembered stays.
    static void switch_off(Robot& r, double* s, long long bad) {
        double* const act = s + 1 + r.nq + r.nv;
        long long none = 0;
        if (__atomic_compare_exchange_n(&r.bad_joint, &none, bad + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            r.bad_time = s[0];
        for (long long i = 0; i < r.dofs; ++i) {
            const Joint& j = r.joints[i];
            act[j.force] = 0.0;
            if (j.by_velocity >= 0) act[j.by_velocity] = 0.0;
            if (j.by_position >= 0) act[j.by_position] = 0.0;
        }
        const wp::int32 *before = r.word_at + 1, *after = before + r.half;
        for (long long i = 0; i < r.half; ++i) act[after[i]] = act[before[i]];
    }

    static long long size(const Robot& r) { return 1 + r.nq + r.nv + r.na + r.nu; }

    // Let the memory advance, if MuJoCo has taken a step since the last call.
    static void advance(Robot& r, const void* model, double* s, bool counts) {
        double* const act = s + 1 + r.nq + r.nv;
        const wp::int32 *before = r.word_at + 1, *after = before + r.half;
        const double dt = *(const double*)((const char*)model + table()->offsets->timestep);
        if (dt != r.dt) __atomic_store_n(&r.wrong_dt, 1, __ATOMIC_RELAXED);
        // A step takes the clock from 1 to 0. A stage of Runge and Kutta subtracts its share, 0.5 or 1, of what the
        // clock was in the stage before: 0.5, 0.375 and 0.5625 here, and 0.745 after all of them.
        const double gone = (1.0 - act[r.clock]) * r.dt / dt;
        const bool is_stage = gone > 0.1 && gone < 0.65;
        act[r.clock] = is_stage ? 1.5 * gone : 1.0;
        if (!(act[r.word_at[0]] > 0.0)) begin(r, act, before, counts);
        else if (gone >= 0.65) for (long long i = 0; i < r.half; ++i) act[before[i]] = act[after[i]];
    }

    static Robot* find(const void* model) {
        const Table& t = *table();
        const long long count = __atomic_load_n(&t.count, __ATOMIC_ACQUIRE);
        for (long long k = 0; k < count; ++k) {
            Robot* const r = t.robots[k];
            if (r && t.name2id(model, (int)t.text, r->mark) >= 0) return r;
        }
        return nullptr;
    }

    // Whether a model has the sizes of the one that was loaded.
    static bool fits(Robot& r, const void* model) {
        if (table()->state_size(model, ALL) == size(r)) return true;
        __atomic_store_n(&r.wrong_size, 1, __ATOMIC_RELAXED);
        return false;
    }

    static void control(const void* model, void* data) {
        const Table& t = *table();
        if (t.previous) t.previous(model, data);
        Robot* const found = find(model);
        if (!found) return;
        Robot& r = *found;
        if (!fits(r, model)) {
            t.warn(data, (int)t.bad_control, 0);
            return;
        }
        const long long cell = claim(r);
        double* const s = (double*)__builtin_alloca(size(r) * sizeof(double));
        double* const act = s + 1 + r.nq + r.nv;
        t.get_state(model, data, s, ALL);
        advance(r, model, s, true);
        const wp::int32 *before = r.word_at + 1, *after = before + r.half, *once = after + r.half;
        long long bad = show(r, Ranges(model), data, s, cell);
        if (bad < 0) {
            move(r, act, cell, before, once, false);
            drive(r, cell);
            bad = bad_effort(r, cell);
        }
        if (bad < 0) {
            hand_over(r, model, data, s, cell);
            move(r, act, cell, after, once, true);
        }
        else switch_off(r, s, bad);
        t.set_state(model, data, act, ACT);
        release(r, cell);
        if (bad >= 0) t.warn(data, (int)t.bad_control, (int)r.joints[bad].target.place);
    }

    // What the motors give at the present state, without a trace. Returns a cell that has it, to be released, or -1.
    static int look(const void* model, const void* data) {
        Robot& r = *find(model);
        if (!fits(r, model)) return -1;
        const long long cell = claim(r);
        double* const s = (double*)__builtin_alloca(size(r) * sizeof(double));
        table()->get_state(model, data, s, ALL);
        advance(r, model, s, false);
        const wp::int32 *before = r.word_at + 1, *once = before + 2 * r.half;
        move(r, s + 1 + r.nq + r.nv, cell, before, once, false);
        show(r, Ranges(model), data, s, cell);
        drive(r, cell);
        return (int)cell;
    }
    static void end_look(void* robot, int cell) { release(*(Robot*)robot, cell); }
};
Door::table() = (Table*)address;
"""

_NAMES = ("control", "look", "end_look")
_TEXT = "\n".join(
    (
        _structs.text,
        RUN,
        _CODE,
        *(f"out.data[{i}] = (wp::uint64)(void*)&Door::{name};" for i, name in enumerate(_NAMES)),
    )
)


@wp.func_native(_TEXT)
def _addresses(address: wp.uint64, out: wp.array(dtype=wp.uint64)): ...  # type: ignore[no-untyped-def, valid-type]


@wp.kernel
def _find_addresses(address: wp.uint64, out: wp.array(dtype=wp.uint64)) -> None:  # type: ignore[valid-type]
    _addresses(address, out)


class Door:
    """The callback, with its motors.

    An earlier callback is kept and called first. A later one replaces this one.
    """

    def __init__(self) -> None:
        self._robots = (ctypes.c_void_p * MODELS)()
        names = ("nefc", "efc_type", "efc_id", "efc_frictionloss", "iefc_type", "iefc_id", "iefc_frictionloss")
        friction = int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
        not_clamped = int(mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
        names_in_model = ("actuator_ctrllimited", "actuator_ctrlrange", "jnt_actfrclimited", "jnt_actfrcrange")
        in_model = model_offsets(*names_in_model)
        options = option_offset("timestep", 0.0012345, 0.0054321), option_offset("disableflags", 5, 37)
        in_data = data_offsets(*names, "qfrc_passive", "qfrc_bias")
        compensation = data_offsets("qfrc_gravcomp")
        self._offsets = Offsets(*in_data, friction, *compensation, *options, *in_model, not_clamped)
        self._table = Table(
            name2id=address_of("mj_name2id"),
            state_size=address_of("mj_stateSize"),
            get_state=address_of("mj_getState"),
            set_state=address_of("mj_setState"),
            warn=address_of("mj_warning"),
            offsets=ctypes.addressof(self._offsets),
            text=int(mujoco.mjtObj.mjOBJ_TEXT),
            bad_control=int(mujoco.mjtWarning.mjWARN_BADCTRL),
            robots=ctypes.addressof(self._robots),
        )
        found = wp.zeros(len(_NAMES), dtype=wp.uint64, device="cpu")
        self._launch = Launch(_find_addresses, 1, "cpu", [ctypes.addressof(self._table), found])
        self._launch.run()
        control, look, end_look = found.numpy().tolist()
        self._control = int(control)
        self._look = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(look)
        self._end_look = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(end_look)

    @property
    def is_installed(self) -> bool:
        """Whether MuJoCo calls the callback."""
        return bool(_slot().value == self._control)

    def add(self, robot: Any) -> int:
        """Add the motors of a robot. Returns its place."""
        place = next((i for i in range(MODELS) if not self._robots[i]), None)
        if place is None:
            raise SimulationError(f"{MODELS} models are loaded; unload() those that are no longer needed")
        self._robots[place] = ctypes.addressof(robot)
        self._table.count = max(self._table.count, place + 1)
        if not self.is_installed:
            self._table.previous = _slot().value
            _slot().value = self._control
        return place

    def remove(self, place: int) -> None:
        """Remove the motors at a place. After the last one, the earlier callback is restored."""
        self._robots[place] = None
        if not any(self._robots) and self.is_installed:
            _slot().value = self._table.previous
            self._table.previous = None

    @contextlib.contextmanager
    def look(self, model: Any, data: Any, robot: Any) -> Iterator[int]:
        """Evaluate motors at the present state. The returned cell is valid within the context; -1 if the sizes of the
        model differ from those of the loaded one."""
        cell = self._look(model._address, data._address)
        try:
            yield cell
        finally:
            if cell >= 0:
                self._end_look(ctypes.addressof(robot), cell)


@functools.cache
def door() -> Door:
    """Return the only instance, which lives as long as the process."""
    with no_callback():
        return Door()


@contextlib.contextmanager
def no_callback() -> Iterator[None]:
    """Disable callbacks in Python in this context, such as while MuJoCo compiles a model.

    The compiler tries a step, and such a callback fails on a model that Python does not know yet.
    """
    if mujoco.get_mjcb_control() is None:
        yield
        return
    slot = _slot()
    kept, slot.value = slot.value, None
    try:
        yield
    finally:
        slot.value = kept


def _slot() -> Any:
    """Return the address of MuJoCo's pointer to the callback."""
    return ctypes.c_void_p.in_dll(library(), "mjcb_control")
