# SPDX-License-Identifier: Apache-2.0
"""Motors in anybody's loop: a C function behind ``mjcb_control`` that steps the motors of models that it knows.

A model is recognised by the name of a text element, which copies, pickles and files of it carry. What its motors
remember lies in ``act``, as MuJoCo's own activations do, so that resets, keyframes, copies and rollouts carry it:

- the number of the trajectory, 0 where it has just begun; -k for one that begins with the number k - 1;
- the time of the last step;
- what chains remember before that step, and after it: where MuJoCo asks again at the same time, as ``mj_forward`` and
  finite differences do, the chains begin from *before* again, and the memory advances once per step of time;
- past signals of delays, once: only the newest row is written in a step, and it is written again.

Kernels work on spare cells, of which a call claims one, so that MuJoCo's threads do not meet.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import warp as wp

from ...errors import SimulationError
from ...kernel.launch import Launch
from ...kernel.types import Flavour, module_options
from .c_code import CALL, RUN, Structs, address_of, data_offsets, library, many

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

CELLS = 64
"""Spare cells: calls that can be under way at the same time."""
MODELS = 256
"""Models that can be loaded at the same time."""

_structs = Structs()

Call = _structs.add("Call", **CALL)
"""Kernel that steps the motors on a cell."""

Draw = _structs.add("Draw", own="const char*", other="char*", **many("long long", "stride count"))
"""Loads of motors on a battery: their own, and what the others draw, ``stride`` bytes from one cell to the next."""

Words = _structs.add("Words", base="char*", **many("long long", "stride count is_int is_twice numbered"))
"""Part of the memory of chains: ``count`` numbers of a cell, ``stride`` bytes from one cell to the next.

``numbered`` is 0 for what begins with its initial value, 1 for the number of the trajectory, and more for what begins
with the initial value and so many times that number.
"""

Joint = _structs.add(
    "Joint",
    **many("long long", "position velocity target target_velocity feedforward force by_velocity by_position"),
    **many("double", "scale offset low high velocity_scale damping"),
)
"""A joint: its places in ``qpos``, ``qvel``, ``ctrl`` and ``act``, -1 for none, and the meaning of its controls."""

Robot = _structs.add(
    "Robot",
    mark="const char*",
    **many("long long", "nq nv nu na dofs num_calls num_words num_draws half is_rk4 taken next_number"),
    dt="double",
    calls="const Call*",
    words="const Words*",
    joints="const Joint*",
    draws="const Draw*",
    **many("float*", "q qd target target_qd feedforward"),
    **many("const float*", "effort slope_q slope_qd dry viscous"),
    word_at="const wp::int32*",
    initial="const double*",
    **many("long long", "bad_joint wrong_size wrong_dt"),
    bad_time="double",
)
"""The motors of a model."""

Offsets = _structs.add(
    "Offsets", **many("long long", "nefc type id loss island_type island_id island_loss passive friction")
)
"""Offsets of fields in an ``MjData`` [bytes], and the type of a row that is dry friction of a DOF."""

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
"""All that the callback knows. There is one, which is never freed."""

_CODE = """
enum { TIME = 1, QPOS = 2, QVEL = 4, ACT = 8, CTRL = 64, ALL = TIME | QPOS | QVEL | ACT | CTRL };
struct Door {
    static Table*& table() { static Table* found = nullptr; return found; }

    static double limited(double value, double low, double high) {
        return value < low ? low : (value > high ? high : value);
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
    static void begin(Robot& r, double* act, const wp::int32* before) {
        double& number = act[r.word_at[0]];
        if (number == 0.0) number = (double)(__atomic_fetch_add(&r.next_number, 1, __ATOMIC_RELAXED) + 1);
        else number = -number;
        const double counted = number - 1.0;
        for (long long k = 0, i = 0; k < r.num_words; ++k) {
            const Words& w = r.words[k];
            for (long long j = 0; w.is_twice && j < w.count; ++j, ++i) {
                double value = r.initial[i];
                if (w.numbered == 1) value = counted;
                else if (w.numbered > 1) {
                    value += counted * w.numbered;
                    value -= 16777216.0 * __builtin_floor(value / 16777216.0);
                }
                act[before[i]] = value;
            }
        }
    }

    // Step the motors of one robot on a cell. `s` is its state: TIME | QPOS | QVEL | ACT | CTRL.
    static void drive(const Robot& r, const double* s, long long cell) {
        const double *q = s + 1, *v = q + r.nq, *ctrl = v + r.nv + r.na;
        const long long first = cell * r.dofs;
        for (long long i = 0; i < r.dofs; ++i) {
            const Joint& j = r.joints[i];
            r.q[first + i] = (float)q[j.position];
            r.qd[first + i] = (float)v[j.velocity];
            r.target[first + i] = (float)((limited(ctrl[j.target], j.low, j.high) - j.offset) / j.scale);
            if (j.target_velocity >= 0) r.target_qd[first + i] = (float)(ctrl[j.target_velocity] / j.velocity_scale);
            if (j.feedforward >= 0) r.feedforward[first + i] = (float)ctrl[j.feedforward];
        }
        for (long long k = 0; k < r.num_calls; ++k) Kernels::run_cell(r.calls[k], cell);
        float total = 0.0f;
        for (long long k = 0; k < r.num_draws; ++k) {
            const float* const own = (const float*)(r.draws[k].own + cell * r.draws[k].stride);
            for (long long i = 0; i < r.draws[k].count; ++i) total += own[i];
        }
        for (long long k = 0; k < r.num_draws; ++k) {
            const float* const own = (const float*)(r.draws[k].own + cell * r.draws[k].stride);
            float* const other = (float*)(r.draws[k].other + cell * r.draws[k].stride);
            for (long long i = 0; i < r.draws[k].count; ++i) other[i] = total - own[i];
        }
    }

    static void write_losses(const Robot& r, const char* d, long long types, long long ids, long long losses,
                             long long first) {
        const Offsets& at = *table()->offsets;
        const wp::int32* const type = *(const wp::int32* const*)(d + types);
        const wp::int32* const id = *(const wp::int32* const*)(d + ids);
        double* const loss = *(double* const*)(d + losses);
        if (!type || !id || !loss) return;
        const wp::int32 rows = *(const wp::int32*)(d + at.nefc);
        for (wp::int32 k = 0; k < rows; ++k)
            for (long long i = 0; type[k] == at.friction && i < r.dofs; ++i)
                if (id[k] == r.joints[i].velocity) loss[k] = (double)r.dry[first + i];
    }

    // Put what the motors gave into activations. Friction goes to the rows that MuJoCo has made before it asked.
    static void hand_over(Robot& r, void* data, double* s, long long cell) {
        #pragma clang fp contract(off)
        const Table& t = *table();
        const double *q = s + 1, *v = q + r.nq;
        double* const act = s + 1 + r.nq + r.nv;
        const long long first = cell * r.dofs;
        for (long long i = 0; i < r.dofs; ++i) {
            const Joint& j = r.joints[i];
            const float effort = r.effort[first + i];
            if (!(__builtin_fabsf(effort) <= __FLT_MAX__)) {
                if (__atomic_exchange_n(&r.bad_joint, i + 1, __ATOMIC_RELAXED) == 0) r.bad_time = s[0];
                t.warn(data, (int)t.bad_control, (int)j.target);
                act[j.force] = 0.0;
                continue;
            }
            double force = (double)effort;
            if (j.by_velocity >= 0) {
                const double slope = r.slope_qd[first + i] < 0.0f ? limited(r.slope_qd[first + i], -1e9, 0.0) : 0.0;
                act[j.by_velocity] = slope;
                force -= slope * v[j.velocity];
            }
            if (j.by_position >= 0) {
                const double slope = r.slope_q[first + i] < 0.0f ? limited(r.slope_q[first + i], -1e9, 0.0) : 0.0;
                act[j.by_position] = slope;
                force -= slope * q[j.position];
            }
            act[j.force] = force;
        }
        const char* const d = (const char*)data;
        if (r.dry) {
            write_losses(r, d, t.offsets->type, t.offsets->id, t.offsets->loss, first);
            write_losses(r, d, t.offsets->island_type, t.offsets->island_id, t.offsets->island_loss, first);
        }
        if (r.viscous) {
            double* const passive = *(double* const*)(d + t.offsets->passive);
            for (long long i = 0; i < r.dofs; ++i) {
                const double beyond = (double)r.viscous[first + i] - r.joints[i].damping;
                if (beyond != 0.0) passive[r.joints[i].velocity] -= beyond * v[r.joints[i].velocity];
            }
        }
    }

    static long long size(const Robot& r) { return 1 + r.nq + r.nv + r.na + r.nu; }

    // Whether MuJoCo has asked at this time before. If not, the memory advances.
    static bool advance(Robot& r, double* s) {
        double* const act = s + 1 + r.nq + r.nv;
        const wp::int32 *before = r.word_at + 2, *after = before + r.half;
        double& stamp = act[r.word_at[1]];
        const bool has_begun = act[r.word_at[0]] > 0.0;
        const double since = s[0] - stamp;
        if (has_begun && since > -0.25 * r.dt && since < (r.is_rk4 ? 0.75 : 0.25) * r.dt) return true;
        if (has_begun) {
            for (long long i = 0; i < r.half; ++i) act[before[i]] = act[after[i]];
            if (since > 0.0 && __builtin_fabs(since - r.dt) > 0.01 * r.dt)
                __atomic_store_n(&r.wrong_dt, 1, __ATOMIC_RELAXED);
        }
        else begin(r, act, before);
        stamp = s[0];
        return false;
    }

    static Robot* find(const void* model) {
        const Table& t = *table();
        const long long count = __atomic_load_n(&t.count, __ATOMIC_ACQUIRE);
        for (long long k = 0; k < count; ++k) {
            Robot* const r = t.robots[k];
            if (r && r->mark && t.name2id(model, (int)t.text, r->mark) >= 0) return r;
        }
        return nullptr;
    }

    static void control(const void* model, void* data) {
        const Table& t = *table();
        if (t.previous) t.previous(model, data);
        Robot* const found = find(model);
        if (!found) return;
        Robot& r = *found;
        if (t.state_size(model, ALL) != size(r)) {
            __atomic_store_n(&r.wrong_size, 1, __ATOMIC_RELAXED);
            return;
        }
        const long long cell = claim(r);
        double* const s = (double*)__builtin_alloca(size(r) * sizeof(double));
        double* const act = s + 1 + r.nq + r.nv;
        t.get_state(model, data, s, ALL);
        advance(r, s);
        const wp::int32 *before = r.word_at + 2, *after = before + r.half, *once = after + r.half;
        move(r, act, cell, before, once, false);
        drive(r, s, cell);
        hand_over(r, data, s, cell);
        move(r, act, cell, after, once, true);
        t.set_state(model, data, act, ACT);
        release(r, cell);
    }

    // What the motors give at the present state, without a trace: the cell, to be released, has it.
    static int look(const void* model, const void* data) {
        Robot& r = *find(model);
        const long long cell = claim(r);
        double* const s = (double*)__builtin_alloca(size(r) * sizeof(double));
        table()->get_state(model, data, s, ALL);
        advance(r, s);
        const wp::int32 *before = r.word_at + 2, *once = before + 2 * r.half;
        move(r, s + 1 + r.nq + r.nv, cell, before, once, false);
        drive(r, s, cell);
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
    """The callback, and the motors that it knows.

    A callback that somebody else has set is kept, and called first. One that is set later replaces this one.
    """

    def __init__(self) -> None:
        import mujoco

        self._robots = (ctypes.c_void_p * MODELS)()
        names = ("nefc", "efc_type", "efc_id", "efc_frictionloss", "iefc_type", "iefc_id", "iefc_frictionloss")
        friction = int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
        self._offsets = Offsets(*data_offsets(*names, "qfrc_passive"), friction)
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
    def _slot(self) -> Any:
        return ctypes.c_void_p.in_dll(library(), "mjcb_control")

    def install(self) -> None:
        """Let MuJoCo call the callback. It may be there already."""
        slot = self._slot
        if slot.value != self._control:
            self._table.previous, slot.value = slot.value, self._control

    def add(self, robot: Any) -> int:
        """Step the motors of a robot from now on. Returns its place."""
        place = next((i for i in range(MODELS) if not self._robots[i]), None)
        if place is None:
            raise SimulationError(f"{MODELS} models are loaded; unload() those that are not needed any more")
        self._robots[place] = ctypes.addressof(robot)
        self._table.count = max(self._table.count, place + 1)
        self.install()
        return place

    def remove(self, place: int) -> None:
        """Step the motors at a place no more. After the last one, the callback of before is put back."""
        self._robots[place] = None
        if not any(self._robots) and self._slot.value == self._control:
            self._slot.value = self._table.previous
            self._table.previous = None

    def look(self, model: Any, data: Any, robot: Any) -> Look:
        """Compute what motors give at the present state, on a cell."""
        return Look(self, self._look(model._address, data._address), robot)

    def release(self, robot: Any, cell: int) -> None:
        """Give a cell back."""
        self._end_look(ctypes.addressof(robot), cell)


class Look:
    """A cell with what motors give at a state, until the end of a ``with`` block."""

    def __init__(self, door: Door, cell: int, robot: Any):
        self._door, self.cell, self._robot = door, cell, robot

    def __enter__(self) -> int:
        return self.cell

    def __exit__(self, *exception: object) -> None:
        self._door.release(self._robot, self.cell)


@functools.cache
def door() -> Door:
    """Return the only one, which stays as long as the process."""
    return Door()
