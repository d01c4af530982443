# SPDX-License-Identifier: Apache-2.0
"""How long it takes to attach motors to robots in MuJoCo, and to take them off again."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np

import actuon
from actuon import assets

from .gate import Gate, require_agreement
from .robots import attach
from .runner import Table, grouped, progress

SIZES = (1, 1024)
DRIVES = ("actuators", "groups")
_GATE = 10
"""Steps over which the first of many robots must move as one alone."""


class Attaching:
    """Makes a simulation, attaches motors to its robots, and takes them off.

    Args:
        drives: What drives them.
        num_envs: Number of robots.
    """

    def __init__(self, drives: str, num_envs: int):
        self.label, self.drives, self.num_envs = f"{drives} of {num_envs} robots", drives, num_envs
        self.times = np.zeros(3)
        """Last times of making the simulation, adding motors and closing [s]."""

    def _make(self) -> actuon.Articulation:
        return actuon.Articulation("base", actuon.MujocoSimulation(assets.quadruped_mjcf, self.num_envs))

    def step(self) -> None:
        clock = [time.perf_counter()]
        robots = self._make()
        clock.append(time.perf_counter())
        attached = attach(self.drives, robots)
        clock.append(time.perf_counter())
        attached.close()
        clock.append(time.perf_counter())
        robots.simulation.close()
        self.times = np.diff(clock)

    def motion(self) -> np.ndarray:
        """Return positions of the first robot while it has motors, and after they are taken off, shape (2, nq)."""
        robots = self._make()
        attached = attach(self.drives, robots)
        first = self._positions(robots.simulation)
        attached.close()
        return np.stack([first, self._positions(robots.simulation)])

    def _positions(self, simulation: Any) -> np.ndarray:
        simulation.reset()
        simulation.step(_GATE)
        return simulation.arrays.joint_q.numpy().reshape(self.num_envs, -1)[0].copy()


def contenders(drives: str, num_envs: int) -> list[Attaching]:
    """Build one robot and many, of which the first must move as the one does, with motors and after."""
    made = [Attaching(drives, 1), Attaching(drives, num_envs)]
    where = f"attaching, {drives}, positions after {_GATE} steps"
    require_agreement(where, {each.label: each.motion() for each in made})
    return made


GATE = Gate(DRIVES, contenders, smallest=12)


def measure_attaching(seconds: float) -> list[Table]:
    everyone: list[Attaching] = []
    for drives, num_envs in product(DRIVES, SIZES):
        progress(f"attaching {drives} to {num_envs} robots")
        everyone.append(contenders(drives, num_envs)[-1])
    best = np.full((len(everyone), 3), np.inf)
    end = time.perf_counter() + seconds
    while not np.isfinite(best).all() or time.perf_counter() < end:
        for each, times in zip(everyone, best, strict=True):
            each.step()
            np.minimum(times, each.times, out=times)
    rows = [
        (grouped(each.num_envs), each.drives, *(f"{1e3 * taken:.1f}" for taken in times))
        for each, times in zip(everyone, best, strict=True)
    ]
    header = ("robots", "drives", "making the simulation, ms", "attaching, ms", "closing, ms")
    title = "Attaching motors to quadrupeds in a new MuJoCo simulation, and taking them off; the best."
    return [Table(title, header, rows)]
