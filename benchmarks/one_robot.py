# SPDX-License-Identifier: Apache-2.0
"""One quadruped in MuJoCo and in Newton: what a step takes beyond the engine's own, for the same motion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import product
from typing import Any

import mujoco
import newton
import numpy as np
import warp as wp

import actuon
from actuon import assets
from actuon.sim.newton.replay import NativeStep

from .gate import Gate, require_agreement
from .robots import attach
from .runner import Table, best_steps, micro, progress


def _in_warp(model: newton.Model) -> newton.solvers.SolverBase:
    return newton.solvers.SolverMuJoCo(model)


ENGINES: dict[str, Callable[[], Any]] = {
    "MuJoCo": lambda: actuon.MujocoSimulation(assets.quadruped_mjcf),
    "Newton": lambda: actuon.NewtonSimulation(assets.quadruped_mjcf),
    "Newton, MuJoCo Warp": lambda: actuon.NewtonSimulation(assets.quadruped_mjcf, solver=_in_warp),
}
"""The simulation of each engine. Newton alone steps by MuJoCo itself."""
DRIVES = ("servos", "actuators", "groups")
STEPS = {engine: 200 if engine == "MuJoCo" else 50 for engine in ENGINES}
"""Steps from a reset on, of which the first tenth is not timed."""
AT_ONCE = 10
"""Steps of one call of `Simulation.step`."""


class Robot:
    """A robot that is told the same targets at all times.

    Args:
        engine: Its engine.
        drives: What drives it.
    """

    def __init__(self, engine: str, drives: str):
        self.label = f"{engine}, {drives}"
        self.simulation = ENGINES[engine]()
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


class ManySteps(Robot):
    """Steps of the simulation, several in one call."""

    def __init__(self, engine: str, drives: str):
        super().__init__(engine, drives)
        self.label += f", step({AT_ONCE})"

    def prepare(self, at: int) -> None:
        super().prepare(at)
        self._is_due = at % AT_ONCE == 0

    def step(self) -> None:
        if self._is_due:
            self.simulation.step(AT_ONCE)


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

    def __init__(self, engine: str, drives: str, efforts: list[np.ndarray]):
        super().__init__(engine, drives)
        self.label += ", given"
        self._applied = self.simulation.control.joint_f.numpy()
        self._efforts = efforts
        self._solve: Callable[[], None] = self._step_solver

    def prepare(self, at: int) -> None:
        super().prepare(at)
        self._effort = self._efforts[at]

    def step(self) -> None:
        self._applied[:] = self._effort
        self._solve()

    def _step_solver(self) -> None:
        state, simulation = self.simulation.state, self.simulation
        simulation.solver.step(state, state, simulation.control, None, simulation.dt)


class NewtonCaptured(NewtonGiven):
    """Newton's step, captured and replayed. MuJoCo itself is in no graph; then it is Newton's work around it."""

    def __init__(self, engine: str, drives: str, efforts: list[np.ndarray]):
        super().__init__(engine, drives, efforts)
        self.label += ", captured"
        simulation, solver = self.simulation, self.simulation.solver
        super().prepare(0)
        if solver.use_mujoco_cpu:
            self._solve = NativeStep(solver, simulation.state, simulation.control, simulation.dt).record()
            return
        self._step_solver()  # which compiles its kernels
        with wp.ScopedCapture(force_module_load=False) as capture:
            self._step_solver()
        self._solve = functools.partial(wp.capture_launch, capture.graph)


ROWS = tuple(product(ENGINES, DRIVES))


def given(engine: str, drives: str, efforts: list[np.ndarray]) -> list[Any]:
    """Build robots with efforts given, those of the engine's own step and, in Newton, of a captured one."""
    if engine == "MuJoCo":
        return [MujocoGiven(drives, efforts)]
    return [kind(engine, drives, efforts) for kind in (NewtonGiven, NewtonCaptured)]


def contenders(row: tuple[str, str], steps: int) -> list[Any]:
    """Build robots with efforts given, those that only step, and the loop of a user, which must move alike, to the
    last bit."""
    engine, drives = row
    alone = StepAlone(engine, drives)
    everyone = [*given(engine, drives, alone.record(steps)), alone, ManySteps(engine, drives), Loop(engine, drives)]
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
    for row in ROWS:
        engine, drives = row
        progress(f"one robot in {engine}, {drives}")
        steps = STEPS[engine]
        everyone = contenders(row, steps)
        times = best_steps(everyone, steps, seconds / len(DRIVES))[:, steps // 10 // AT_ONCE * AT_ONCE :, 0]
        own, *captured, alone, many, loop = times.mean(axis=1)
        peer = captured[0] if captured else own
        ratios = [f"{time / peer:.2f}" for time in (alone, many)]
        beyond = micro(alone - peer), f"{100.0 * (1.0 - peer / alone):.1f}", micro(loop - peer)
        held = micro(captured[0]) if captured else "–"
        rows.append((engine, drives, micro(own), held, micro(alone), micro(many), *ratios, *beyond))
        for each in everyone:
            each.simulation.close()
    header = (
        *("engine", "drives", "engine's step, µs", "captured, µs", "step(), µs", f"step({AT_ONCE}), µs each"),
        *("step() ÷", f"step({AT_ONCE}) ÷", "beyond, µs", "share, %", "loop, beyond, µs"),
    )
    title = (
        "One quadruped: the engine's own step with efforts given; in Newton, that captured in a graph too; step() "
        f"alone, {AT_ONCE} steps\nin one call, and the loop of a user, who sets targets, steps, and gets positions, "
        "velocities and root poses; the same\nmotion, the best of each step. ÷, beyond and share: compared with the "
        "captured step if there is one."
    )
    return [Table(title, header, rows)]
