# SPDX-License-Identifier: Apache-2.0
"""Tangents of efforts, written into the states of environments as lines, in compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...kernel.launch import Shard
from ...kernel.types import Flavour, module_options
from ..engine_drives import Tangent
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
        *((name, _ADDRESS) for name in (*_GIVEN, *_PLACES, *_OWN)),
        *((name, _ADDRESS) for name in ("table", "states", "lower", "upper", "shown")),
    )


_WRITE = """
    struct Line { long long dof, coordinate, by_velocity, by_position; };
    struct Writing {
        long long robots, dofs, given_width, width, nv, num_lines, by_position;
        long long at_position, at_velocity, at_control, at_effort;
        double steepest;
        const float *effort, *slope_q, *slope_qd, *lowest, *highest;
        const long long *envs, *columns, *lines;
        double* const *own_controls;
        double* const *own_efforts;
        const Line* table;
        double *states, *lower, *upper;
        float* shown;
    };

    const Writing& w = *(const Writing*)writing;
    for (long long robot = 0; robot < w.robots; ++robot) {
        const long long env = w.envs[robot];
        double* const row = w.states + env * w.width;
        double* const own_control = w.own_controls[env];
        double* const own_effort = w.own_efforts[env];
        for (long long i = 0; i < w.dofs; ++i) {
            const long long from = robot * w.given_width + w.columns[i];
            const Line& line = w.table[w.lines[i]];
            const float effort = w.effort[from];
            double slope = w.slope_qd[from];
            slope = slope < 0.0 ? (slope > w.steepest ? slope : w.steepest) : 0.0;
            double constant = effort - slope * row[w.at_velocity + line.dof];
            row[w.at_control + line.by_velocity] = slope;
            if (own_control) own_control[line.by_velocity] = slope;
            if (w.by_position) {
                slope = w.slope_q[from];
                slope = slope < 0.0 ? (slope > w.steepest ? slope : w.steepest) : 0.0;
                constant -= slope * row[w.at_position + line.coordinate];
                row[w.at_control + line.by_position] = slope;
                if (own_control) own_control[line.by_position] = slope;
            }
            row[w.at_effort + line.dof] = constant;
            if (own_effort) own_effort[line.dof] = constant;
            w.shown[env * w.nv + line.dof] = effort;
            const long long at = env * w.num_lines + w.lines[i];
            w.lower[at] = effort > w.lowest[from] ? (double)w.lowest[from] : -__builtin_inf();
            w.upper[at] = effort < w.highest[from] ? (double)w.highest[from] : __builtin_inf();
        }
    }
"""


@wp.func_native(_WRITE)
def _write(writing: wp.uint64): ...  # type: ignore[no-untyped-def]


@wp.kernel
def _run(writing: wp.uint64) -> None:
    _write(writing)


class LineWriter:
    """Writes a tangent into states as lines, at each call. An effort at its bound follows its slope, which is that of
    the bound; slopes above zero, and what is not a number, count as zero.

    Args:
        batch: The environments, whose model has lines for these DOFs.
        shown: Gets the efforts [N·m or N], float32 of shape (N, nv).
        tangent: The tangent, each of shape (n, D).
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
        envs: Sequence[int],
        dofs: np.ndarray,
        columns: np.ndarray,
        by_position: bool,
    ):
        self._batch, self._shown, self._by_position = batch, shown, by_position
        self._given = [array.numpy() for array in tangent]
        self._dofs = dofs
        self._envs, self._columns = (np.array(numbers, dtype=np.int64) for numbers in (envs, columns))
        self._version = -1
        self._run: Callable[[], Any]

    def __call__(self) -> None:
        if self._version != self._batch.version:
            self._bind()
        self._run()

    def _bind(self) -> None:
        batch = self._batch
        self._lines = batch.line_of[self._dofs].astype(np.int64)
        addresses = {name: array.ctypes.data for name, array in zip(_GIVEN, self._given, strict=True)}
        places = (self._envs, self._columns, self._lines)
        addresses |= {name: array.ctypes.data for name, array in zip(_PLACES, places, strict=True)}
        writing = Writing(
            robots=len(self._envs),
            dofs=len(self._dofs),
            given_width=self._given[0].shape[1],
            nv=self._shown.shape[1],
            by_position=self._by_position,
            steepest=STEEPEST,
            shown=self._shown.ctypes.data,
            **addresses,
            **batch.places_of_lines(),
        )
        self._writing = writing
        self._run = Shard(wp.launch(_run, 1, [ctypes.addressof(writing)], device="cpu", record_cmd=True)).run
        self._version = batch.version
