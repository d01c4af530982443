# SPDX-License-Identifier: Apache-2.0
"""The loop of a user: set targets, step physics, get positions, velocities and root poses, for one or many robots."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import actuon
from actuon import assets
from actuon.threads import available_threads

from .gate import Gate, require_agreement
from .runner import Stepper, Table, Times, grouped, measure, micro, progress

SIZES = (1, 64, 256, 1024)
ROBOTS = {"quadruped": assets.FOLDER / "quadruped.xml"}
_GATE = 25
"""Steps over which all must agree."""


class BareLoop:
    """``mj_step`` in a Python loop over an ``MjData`` for each robot, driven by the model's own servos."""

    label = "mj_step in a loop"

    def __init__(self, robot: Path, num_envs: int, targets: np.ndarray):
        import mujoco

        self._step = mujoco.mj_step
        self._model = mujoco.MjModel.from_xml_path(str(robot))
        self.data = [mujoco.MjData(self._model) for _ in range(num_envs)]
        self._targets = targets
        for data in self.data:
            mujoco.mj_resetDataKeyframe(self._model, data, 0)

    def step(self) -> None:
        step, model = self._step, self._model
        for data, target in zip(self.data, self._targets, strict=True):
            data.ctrl[:] = target
            step(model, data)

    def positions(self) -> np.ndarray:
        return np.array([data.qpos for data in self.data])


class Rollout:
    """MuJoCo's own pool of threads, one step at a time, with state out. It begins each step without a warm start."""

    label = "mujoco.rollout"

    def __init__(self, robot: Path, num_envs: int, targets: np.ndarray):
        import mujoco
        from mujoco.rollout import Rollout as Pool

        kinds = mujoco.mjtState
        self._model = mujoco.MjModel.from_xml_path(str(robot))
        self._threads = available_threads()
        self._pool = Pool(nthread=self._threads)
        self._data = [mujoco.MjData(self._model) for _ in range(self._threads)]
        mujoco.mj_resetDataKeyframe(self._model, self._data[0], 0)
        self._state = np.zeros((num_envs, mujoco.mj_stateSize(self._model, kinds.mjSTATE_FULLPHYSICS)))
        mujoco.mj_getState(self._model, self._data[0], self._state[0], kinds.mjSTATE_FULLPHYSICS)
        self._state[:] = self._state[0]
        self._spec = int(kinds.mjSTATE_CTRL) | int(kinds.mjSTATE_QFRC_APPLIED)
        self._control = np.zeros((num_envs, 1, self._model.nu + self._model.nv))
        self._targets = targets
        self._out = np.zeros((num_envs, 1, self._state.shape[1]))
        self._sensors = np.zeros((num_envs, 1, self._model.nsensordata))
        self._models = [self._model] * num_envs

    def step(self) -> None:
        self._control[:, 0, : self._model.nu] = self._targets
        self._pool.rollout(
            self._models,
            self._data,
            self._state,
            self._control,
            control_spec=self._spec,
            nstep=1,
            state=self._out,
            sensordata=self._sensors,
            skip_checks=True,
        )
        self._state[:] = self._out[:, 0]

    def positions(self) -> np.ndarray:
        return self._state[:, 1 : 1 + self._model.nq]


class Actuon:
    """A simulation with the model's own servos, with actuators or with groups."""

    def __init__(self, robot: Path, num_envs: int, targets: np.ndarray, drives: str):
        from actuon import Articulation, MujocoSimulation

        self.label = f"Actuon, {drives}"
        self.simulation = MujocoSimulation(robot, num_envs)
        self._robots = Articulation("base", simulation=self.simulation)
        self._targets = targets
        self._attached = attach(drives, self._robots)

    def step(self) -> None:
        robots = self._robots
        robots.set_dof_position_targets(self._targets)
        self.simulation.step()
        robots.get_dof_positions()
        robots.get_dof_velocities()
        robots.get_root_poses()

    def positions(self) -> np.ndarray:
        return self.simulation.save_state().engine[:, 1 : 1 + self.simulation.models[0].nq]


def attach(drives: str, robots: actuon.Articulation) -> Any:
    """Attach what drives robots: their actuators or a group; nothing to those that keep the servos of their file."""
    from actuon.lab import ActuatorGroups, DCMotorCfg

    if drives == "actuators":
        return actuon.ArticulationActuators("base", simulation=robots.simulation)
    if drives == "groups":
        motor = {"saturation_effort": 33.5, "effort_limit": 23.7, "velocity_limit": 30.1}
        cfg = DCMotorCfg([".*"], stiffness=60.0, damping=1.5, **motor)  # type: ignore[arg-type]
        return ActuatorGroups(robots, {"legs": cfg})
    return None


def contenders(name: str, num_envs: int) -> list[Stepper]:
    """Build all, of which those with the model's own servos must move alike: Actuon's and mj_step to the last bit."""
    import mujoco

    robot = ROBOTS[name]
    home = mujoco.MjModel.from_xml_path(str(robot)).key_ctrl[0]
    targets = (home + np.random.default_rng(0).normal(0.0, 0.05, (num_envs, len(home)))).astype(np.float32)
    bare, pool = BareLoop(robot, num_envs, targets), Rollout(robot, num_envs, targets)
    servos, *others = (Actuon(robot, num_envs, targets, drives) for drives in ("servos", "actuators", "groups"))
    for _ in range(_GATE):
        for stepper in (bare, pool, servos):
            stepper.step()
    where = f"robots, {name}, {num_envs} environments, positions after {_GATE} steps"
    require_agreement(where, {bare.label: bare.positions(), servos.label: servos.positions()})
    require_agreement(where, {bare.label: bare.positions(), pool.label: pool.positions()}, rtol=1e-5, atol=1e-6)
    return [bare, pool, servos, *others]


GATE = Gate(ROBOTS, contenders, smallest=1)


def measure_robots(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for robot, num_envs in product(ROBOTS, SIZES):
        progress(f"{num_envs} robots in MuJoCo")
        everyone = contenders(robot, num_envs)
        times = measure(everyone, 20_000 if num_envs > 1 else 100, 2 * seconds)
        for stepper, own in zip(everyone, times, strict=True):
            rows.append((grouped(num_envs), stepper.label, *_cells(own, *times[:2])))
    header = ("robots", "who", "median µs", "best µs", "÷ rollout, best", "µs beyond mj_step, best")
    title = "A quadruped in MuJoCo: set targets, step, get positions, velocities and root poses."
    return [Table(title, header, rows)]


def _cells(own: Times, bare: Times, pool: Times) -> tuple[str, ...]:
    ratio, more = own.back_to_back / pool.back_to_back, own.back_to_back - bare.back_to_back
    return micro(own.loop), micro(own.back_to_back), f"{ratio:.2f}", micro(more)
