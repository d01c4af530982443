# SPDX-License-Identifier: Apache-2.0
"""An independent reference of a joint with a known load, in NumPy float64, and logs made with it."""

from __future__ import annotations

import numpy as np

from actuon.logs import JointLog, Log
from tests.support import oracle

GRAVITY = 9.81


def simulate(
    time, command, enabled, start, *, dt, mass, length, law, friction, viscous=0.0, armature=0.0, bias=0.0, delay=0.0
):
    """Positions as the encoder shows them at ``time``: semi-implicit steps, and dry friction that holds where it can.

    Args:
        law: Effort from command, shown position and velocity.
        friction: What `oracle.friction_budget` takes, but the viscous part; or the budget as a function of effort, load
            and velocity.
    """
    inertia, weight = mass * length**2 + armature, mass * GRAVITY * length
    steps = int(np.ceil((time[-1] - time[0]) / dt - 1e-6))
    q, v = start[0] - bias, start[1]
    path = [q]
    grid = time[0] + dt * np.arange(steps + 1)
    held = np.clip(np.searchsorted(time, grid + 1e-9, side="right") - 1, 0, None)
    commands = np.interp(grid - delay, grid, command[held]) if delay else command[held]
    for k in range(steps):
        effort = law(commands[k], q + bias, v) * enabled[held[k]]
        load = -weight * np.sin(q)
        given = (np.array([x]) for x in (effort, load, v))
        if callable(friction):
            budget = friction(effort, load, v)
        else:
            budget = oracle.friction_budget(*given, **friction)[0] if friction else 0.0
        drive = effort + load + inertia * v / dt
        left = drive - np.clip(drive, -budget, budget)
        v = left / (inertia / dt + viscous)
        q = q + dt * v
        path.append(q)
    return np.interp(time, grid, np.array(path)) + bias


def uneven_time(seconds=2.0, seed=0):
    steps = np.random.default_rng(seed).uniform(0.003, 0.007, int(seconds / 0.005))
    return 0.01 + np.cumsum(steps)


def swinging_command(time, amplitude=1.2, seed=0):
    rng = np.random.default_rng(seed)
    t = time - time[0]
    waves = sum(rng.uniform(0.3, 1.0) * np.sin(w * t + rng.uniform(0, 6.0)) for w in (1.5, 4.0, 9.0))
    return amplitude * waves / 1.5


def pendulum_log(name, time, position, command, enabled=None, **settings):
    joint = JointLog("joint", position, command, enabled=enabled)
    return Log(name, time, (joint,), {"mass": 0.5, "length": 0.1, **settings})
