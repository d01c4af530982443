# SPDX-License-Identifier: Apache-2.0
"""Tangents of efforts, written into the states of environments as lines, in compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...kernel.launch import Launch
from ...kernel.types import Flavour, module_options
from ..engine_drives import AGREED, TOLERANCE, Tangent
from .batch import Batch

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

STEEPEST = -1.0e9
"""Steepest slope that is handed over: MuJoCo takes no control beyond 1e10."""

_WHOLE = ctypes.c_longlong
_ADDRESS = ctypes.c_void_p
_GIVEN = ("effort", "slope_q", "slope_qd", "lowest", "highest")
_PLACES = ("envs", "columns", "lines")
_OWN = ("own_controls", "own_efforts")


class Writing(ctypes.Structure):
    """What is written where."""

    _fields_ = (
        *((name, _WHOLE) for name in ("robots", "dofs", "given_width", "width", "nv", "num_lines", "by_position")),
        *((name, _WHOLE) for name in ("at_position", "at_velocity", "at_control", "at_effort")),
        ("steepest", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("share", ctypes.c_double),
        ("is_first", _WHOLE),
        ("redone", _WHOLE),
        *((name, _ADDRESS) for name in (*_GIVEN, "begun", "last", *_PLACES, *_OWN)),
        *((name, _ADDRESS) for name in ("table", "states", "before", "is_near", "to_redo", "lower", "upper", "shown")),
    )


_STRUCTURES = """
    struct Line { long long dof, coordinate, by_velocity, by_position; };
    struct Points { double speed, effort, other_speed, other_effort; long long is_corrected, was_fast; };
    struct Writing {
        long long robots, dofs, given_width, width, nv, num_lines, by_position;
        long long at_position, at_velocity, at_control, at_effort;
        double steepest, tolerance, share;
        long long is_first, redone;
        const float *effort, *slope_q, *slope_qd, *lowest, *highest, *begun;
        Points* last;
        const long long *envs, *columns, *lines;
        double* const *own_controls;
        double* const *own_efforts;
        const Line* table;
        double *states, *before;
        const char* is_near;
        char* to_redo;
        double *lower, *upper;
        float* shown;
    };
    Writing& w = *(Writing*)writing;
    auto braking = [&w](float slope) -> double {
        return slope < 0.0f ? (slope > w.steepest ? (double)slope : w.steepest) : 0.0;
    };
    auto most_of = [](double lowest, double highest) -> double {
        const double low = __builtin_fabs(lowest), high = __builtin_fabs(highest);
        const double larger = low > high ? low : high;
        return larger < __builtin_inf() ? larger : (low < high ? low : high);
    };
"""

_WRITE = """
    for (long long robot = 0; robot < w.robots; ++robot) {
        const long long env = w.envs[robot];
        double* const row = w.states + env * w.width;
        double* const own_control = w.own_controls[env];
        double* const own_effort = w.own_efforts[env];
        for (long long i = 0; i < w.dofs; ++i) {
            const long long from = robot * w.given_width + w.columns[i];
            const Line& line = w.table[w.lines[i]];
            double slope = braking(w.slope_qd[from]);
            double constant = w.effort[from] - slope * row[w.at_velocity + line.dof];
            row[w.at_control + line.by_velocity] = slope;
            if (own_control) own_control[line.by_velocity] = slope;
            if (w.by_position) {
                slope = braking(w.slope_q[from]);
                constant -= slope * row[w.at_position + line.coordinate];
                row[w.at_control + line.by_position] = slope;
                if (own_control) own_control[line.by_position] = slope;
            }
            row[w.at_effort + line.dof] = constant;
            if (own_effort) own_effort[line.dof] = constant;
            w.shown[env * w.nv + line.dof] = w.effort[from];
            w.lower[env * w.num_lines + w.lines[i]] = w.lowest[from];
            w.upper[env * w.num_lines + w.lines[i]] = w.highest[from];
        }
    }
"""

_CORRECT = """
    w.redone = 0;
    for (long long robot = 0; robot < w.robots; ++robot) {
        const long long env = w.envs[robot];
        if (!w.is_near[env]) continue;
        const double* const row = w.states + env * w.width;
        double* const before = w.before + env * w.width;
        for (long long i = 0; i < w.dofs; ++i) {
            const long long from = robot * w.given_width + w.columns[i];
            const Line& line = w.table[w.lines[i]];
            Points& last = w.last[robot * w.dofs + i];
            const double begun = w.begun[from];
            if (w.is_first) last = {0.0, 0.0, before[w.at_velocity + line.dof], begun, false, false};
            const long long at = env * w.num_lines + w.lines[i];
            if (!(w.lower[at] < w.upper[at])) continue;
            const float lowest = w.lowest[from], highest = w.highest[from];
            const double applied = w.shown[env * w.nv + line.dof], given = w.effort[from];
            const double slack = w.tolerance * most_of(lowest, highest), most = most_of(w.lower[at], w.upper[at]);
            const bool above = applied > highest + slack;
            const bool beyond = above || applied < lowest - slack;
            const double edge = w.tolerance * most, off = __builtin_fabs(applied - given);
            const bool was_clipped = begun > w.upper[at] - edge || begun < w.lower[at] + edge;
            if (!beyond && !((last.is_corrected || was_clipped) && off > w.share * most)) continue;
            const bool at_bound = above ? given >= highest : given <= lowest;
            const bool along = beyond && at_bound && !last.is_corrected && !(off > most);
            const double speed = row[w.at_velocity + line.dof];
            const bool is_fast = applied > given;
            if (last.is_corrected && is_fast != (bool)last.was_fast) {
                last.other_speed = last.speed;
                last.other_effort = last.effort;
            }
            const double secant = (given - last.other_effort) / (speed - last.other_speed);
            double slope = braking(along ? w.slope_qd[from] : (float)secant);
            double constant = given - slope * speed;
            last = {speed, given, last.other_speed, last.other_effort, true, is_fast};
            before[w.at_control + line.by_velocity] = slope;
            if (w.by_position) {
                slope = along ? braking(w.slope_q[from]) : 0.0;
                constant -= slope * row[w.at_position + line.coordinate];
                before[w.at_control + line.by_position] = slope;
            }
            before[w.at_effort + line.dof] = constant;
            w.to_redo[env] = 1;
            ++w.redone;
        }
    }
"""


@wp.func_native(_STRUCTURES + _WRITE)
def _write(writing: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.func_native(_STRUCTURES + _CORRECT)
def _correct(writing: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.kernel
def _run_write(writing: wp.uint64) -> None:
    _write(writing)


@wp.kernel
def _run_correct(writing: wp.uint64) -> None:
    _correct(writing)


class LineWriter:
    """Writes a tangent into states as lines. Slopes above zero, and what is not a number, count as zero.

    Args:
        batch: The environments, whose model has lines for these DOFs.
        shown: Gets the efforts [N·m or N], float32 of shape (N, nv).
        tangent: The tangent, each of shape (n, D).
        begun: Efforts where the step begins [N·m or N], shape (n, D).
        envs: The environment of each of the n robots.
        dofs: DOFs of the model, shape (d,).
        columns: Where they are in the tangent, shape (d,).
        by_position: Whether slopes by position are written too.
    """

    def __init__(
        self,
        batch: Batch,
        shown: np.ndarray,
        tangent: Tangent,
        begun: wp.array,
        envs: Sequence[int],
        dofs: np.ndarray,
        columns: np.ndarray,
        by_position: bool,
    ):
        self._batch, self._shown, self._by_position = batch, shown, by_position
        self._given, self._begun = [array.numpy() for array in tangent], begun.numpy()
        self._last = np.zeros((len(envs), len(dofs), 6))
        self._dofs = dofs
        self._envs, self._columns = (np.array(numbers, dtype=np.int64) for numbers in (envs, columns))
        self._version = -1

    def write(self) -> None:
        """Let the efforts of the next step be lines through what the tangent holds now."""
        if self._version != self._batch.version:
            self._bind()
        self._run_write()

    def correct(self, is_first: bool) -> bool:
        """Look at efforts of the last step with the tangent of the chain where it ended.

        Those beyond what limits let through there become lines along the bound, where the chain is at it; where that
        has been tried, or the chain is elsewhere, or an effort that was clipped ended far from it, secants of its
        efforts at a speed that is too low and one that is too high. They are written into the states before the step,
        which is to be redone. DOFs whose limits leave no choice where the step begins, as those of a motor that has
        tripped, are left alone.

        Args:
            is_first: Whether the step was taken once so far.

        Returns:
            Whether there are any.
        """
        if self._version != self._batch.version:
            self._bind()
        self._writing.is_first = is_first
        self._run_correct()
        return bool(self._writing.redone)

    def _bind(self) -> None:
        batch = self._batch
        self._lines = batch.line_of[self._dofs].astype(np.int64)
        addresses = {name: array.ctypes.data for name, array in zip(_GIVEN, self._given, strict=True)}
        places = (self._envs, self._columns, self._lines)
        addresses |= {name: array.ctypes.data for name, array in zip(_PLACES, places, strict=True)}
        self._writing = Writing(
            robots=len(self._envs),
            dofs=len(self._dofs),
            given_width=self._given[0].shape[1],
            nv=self._shown.shape[1],
            by_position=self._by_position,
            steepest=STEEPEST,
            tolerance=TOLERANCE,
            share=AGREED,
            shown=self._shown.ctypes.data,
            begun=self._begun.ctypes.data,
            last=self._last.ctypes.data,
            **addresses,
            **batch.places_of_lines(),
        )
        self._run_write, self._run_correct = (self._runner(kernel) for kernel in (_run_write, _run_correct))
        self._version = batch.version

    def _runner(self, kernel: Any) -> Callable[[], object]:
        address = ctypes.addressof(self._writing)
        run: Callable[[], object] = Launch(kernel, 1, "cpu", [address]).run
        return run
