# SPDX-License-Identifier: Apache-2.0
"""One quadruped in MuJoCo and in Newton: what a step takes beyond the engine's own, for the same motion."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mujoco
import numpy as np

import actuon
from actuon import assets

from .gate import Gate, require_agreement
from .robots import attach
from .runner import Table, best_steps, micro, progress

ENGINES: dict[str, tuple[Callable[..., Any], Any]] = {
    "MuJoCo": (actuon.MujocoSimulation, assets.quadruped_mjcf),
    "Newton": (actuon.NewtonSimulation, assets.quadruped_mjcf),
}
"""The simulation of each engine, and the file that it reads."""
DRIVES = ("servos", "actuators", "groups")
STEPS = {"MuJoCo": 200, "Newton": 50}
"""Steps from a reset on, of which the first tenth is not timed."""


class Robot:
    """A robot that is told the same targets at all times.

    Args:
        engine: Its engine.
        drives: What drives it.
    """

    def __init__(self, engine: str, drives: str):
        self.label = f"{engine}, {drives}"
        make, path = ENGINES[engine]
        self.simulation = make(path)
        self.robots = actuon.Articulation("base", self.simulation)
        self._attached = attach(drives, self.robots)
        home = self.robots.get_dof_positions().numpy()
        self.targets = (home + np.random.default_rng(0).normal(0.0, 0.05, home.shape)).astype(np.float32)

    def prepare(self, at: int) -> None:
        if at == 0:
            self.simulation.reset()
            self.robots.set_dof_position_targets(self.targets)

    def positions(self) -> np.ndarray:
        return self.simulation.arrays.joint_q.numpy().copy()


class Loop(Robot):
    """The loop of a user: set targets, step, get positions, velocities and root poses."""

    def step(self) -> None:
        robots = self.robots
        robots.set_dof_position_targets(self.targets)
        self.simulation.step()
        robots.get_dof_positions()
        robots.get_dof_velocities()
        robots.get_root_poses()


class StepAlone(Robot):
    """Only the step of the simulation."""

    def __init__(self, engine: str, drives: str):
        super().__init__(engine, drives)
        self.label += ", step() alone"
        self.step = self.simulation.step

    def record(self, steps: int) -> list[np.ndarray]:
        """Return the efforts that the engine is given in each step, each of shape (nv,)."""
        efforts = []
        for at in range(steps):
            self.prepare(at)
            self.step()
            efforts.append(self.simulation.arrays.joint_f.numpy().copy())
        return efforts


class MujocoGiven(Robot):
    """``mj_step`` with efforts given."""

    def __init__(self, drives: str, efforts: list[np.ndarray]):
        super().__init__("MuJoCo", drives)
        super().prepare(0)
        self.label += ", given"
        self._model = self.simulation.models[0]
        self._data, self._kind = mujoco.MjData(self._model), int(mujoco.mjtState.mjSTATE_INTEGRATION)
        self._start = self.simulation.save_state().engine[0, : mujoco.mj_stateSize(self._model, self._kind)]
        self._step, self._applied = mujoco.mj_step, self._data.qfrc_applied
        self._efforts = efforts

    def prepare(self, at: int) -> None:
        if at == 0:
            mujoco.mj_setState(self._model, self._data, self._start, self._kind)
        self._effort = self._efforts[at]

    def step(self) -> None:
        self._applied[:] = self._effort
        self._step(self._model, self._data)

    def positions(self) -> np.ndarray:
        return self._data.qpos.astype(np.float32)


class NewtonGiven(Robot):
    """The step of Newton's solver with efforts given."""

    def __init__(self, drives: str, efforts: list[np.ndarray]):
        super().__init__("Newton", drives)
        self.label += ", given"
        simulation = self.simulation
        self._state, self._control, self._dt = simulation.state, simulation.control, simulation.dt
        self._step, self._applied = simulation.solver.step, simulation.control.joint_f.numpy()
        self._efforts = efforts

    def prepare(self, at: int) -> None:
        super().prepare(at)
        self._effort = self._efforts[at]

    def step(self) -> None:
        self._applied[:] = self._effort
        self._step(self._state, self._state, self._control, None, self._dt)


GIVEN: dict[str, Callable[[str, list[np.ndarray]], Any]] = {"MuJoCo": MujocoGiven, "Newton": NewtonGiven}


ROWS = tuple(product(ENGINES, DRIVES))


def contenders(row: tuple[str, str], steps: int) -> list[Any]:
    """Build a robot with efforts given, one that only steps, and the loop of a user, which must move alike, to the
    last bit."""
    engine, drives = row
    alone = StepAlone(engine, drives)
    everyone = [GIVEN[engine](drives, alone.record(steps)), alone, Loop(engine, drives)]
    for contender in everyone:
        for at in range(steps):
            contender.prepare(at)
            contender.step()
    where = f"one_robot, {engine}, {drives}, positions after {steps} steps"
    require_agreement(where, {contender.label: contender.positions() for contender in everyone})
    return everyone


GATE = Gate(ROWS, contenders, smallest=10)


def measure_one_robot(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for engine in ENGINES:
        progress(f"one robot in {engine}")
        steps = STEPS[engine]
        everyone = [each for drives in DRIVES for each in contenders((engine, drives), steps)]
        times = best_steps(everyone, steps, seconds)[:, steps // 10 :, 0].mean(axis=1)
        for drives, (given, alone, loop) in zip(DRIVES, times.reshape(-1, 3), strict=True):
            beyond = micro(alone - given), f"{100.0 * (1.0 - given / alone):.1f}", micro(loop - given)
            rows.append((engine, drives, micro(given), micro(alone), *beyond))
        for each in everyone:
            each.simulation.close()
    header = ("engine", "drives", "engine's step, µs", "step(), µs", "beyond, µs", "of step(), %", "loop, beyond, µs")
    title = (
        "One quadruped: the engine's own step with efforts given, step() alone, and the loop of a user, who sets "
        "targets, steps,\nand gets positions, velocities and root poses; the same motion, the best of each step."
    )
    return [Table(title, header, rows)]
