# SPDX-License-Identifier: Apache-2.0
"""A run on the steps of a simulation: what goes in at each step, what is measured after it, and where it starts."""

from __future__ import annotations

import math

import numpy as np

from ...logs import Log
from .load_stage import COLUMNS

_WINDOW = 0.025
"""Time [s] after the start over which the first velocity is found where none is logged."""


def run_table(log: Log, dt: float) -> np.ndarray:
    """`COLUMNS` of one joint's run at each step of ``dt`` [s], shape (steps, columns).

    Commands are held from one sample to the next, as a bus does; measured positions are interpolated. Each sample but
    the first, from which a run starts, counts once, in the weight of the step nearest to it.
    """
    joint = log.joints[0]
    steps = max(1, math.ceil((log.time[-1] - log.time[0]) / dt - 1e-6))
    before = log.time[0] + dt * np.arange(steps)
    after = before + dt
    held = np.clip(np.searchsorted(log.time, before + 1e-9, side="right") - 1, 0, len(log.time) - 1)
    table = np.zeros((steps, len(COLUMNS)), np.float32)
    columns = dict(zip(COLUMNS, table.T, strict=True))
    if joint.command is not None:
        columns["command"][:] = joint.command[held]
    if joint.effort_command is not None:
        columns["effort_command"][:] = joint.effort_command[held]
    columns["enabled"][:] = 1.0 if joint.enabled is None else joint.enabled[held]
    columns["position"][:] = np.interp(after, log.time, joint.position)
    nearest = np.clip(np.rint((log.time[1:] - log.time[0]) / dt).astype(int) - 1, 0, steps - 1)
    columns["weight"][:] = np.bincount(nearest, minlength=steps) / len(log.time)
    return table


def start_of(log: Log) -> tuple[float, float]:
    """Position [rad] and velocity [rad/s] of one joint at the first sample."""
    joint = log.joints[0]
    if joint.velocity is not None:
        return float(joint.position[0]), float(joint.velocity[0])
    rows = max(3, int(np.searchsorted(log.time, log.time[0] + _WINDOW)))
    time = log.time[:rows] - log.time[0]
    fit = np.polynomial.Polynomial.fit(time, joint.position[:rows], 1) if rows <= len(log.time) else None
    return float(joint.position[0]), 0.0 if fit is None else float(fit.deriv()(0.0))
