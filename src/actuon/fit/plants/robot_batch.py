# SPDX-License-Identifier: Apache-2.0
"""Candidates × runs of a robot, as environments of one simulation."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from ...actuator_config import ActuatorConfig
from ...attach.articulation_actuators import ArticulationActuators
from ...attach.engine_inertia import inertia_at_joints
from ...components.delay_time import InterpolatedDelayConfig
from ...components.sensors.encoder import SensorEncoder
from ...sim import Articulation
from ...sim.mujoco.batch import FEW
from ...sim.mujoco.warnings import without_prints_of_mujoco
from ..link import is_of_link
from ..models import Model
from ..parameters import place_of
from .robot_model import RobotModel
from .robot_runs import BEFORE, RobotRun, packed

DELAY = "delay.delay"

_FAST = 1e4
"""Speed [rad/s or m/s] from which on a trial counts as diverged."""


@dataclass(frozen=True)
class _Writer:
    """Where the numbers of one joint at one path go."""

    joint: int
    path: str
    array: wp.array
    places: np.ndarray
    """In the array, shape (N,)."""
    envs: np.ndarray
    """Environment of each."""

    def write(self, values: np.ndarray) -> None:
        """Put in the values of all environments, shape (N,)."""
        numbers = self.array.numpy()
        numbers[self.places] = values[self.envs]
        self.array.assign(numbers)


class _AllDivergedError(Exception):
    """No trial is left that does not diverge."""


class RobotBatch:
    """Trials of one model for each joint. Candidates of all joints with the same number make one robot.

    Short runs follow one another in the same environments: a *slot* is a row of runs, and environment
    ``s * C + c`` is candidate c in slot s.

    Args:
        robot: What moves.
        models: One for each joint.
        candidates: How many there are at once, C.
        runs: The runs, R.
        dt: Time step [s].
    """

    def __init__(
        self, robot: RobotModel, models: Sequence[Model], candidates: int, runs: Sequence[RobotRun], dt: float
    ):
        from ...sim.mujoco.simulation import MujocoSimulation

        self._robot, self._models, self._candidates, self._runs, self._dt = robot, models, candidates, runs, dt
        self._slots = packed([run.steps for run in runs])
        self._trials = candidates * len(self._slots)
        configs, self._delays = [], []
        for model in models:
            config, delay = split_delay(model.config(model.start))
            configs.append(config)
            self._delays.append(delay)
        self._simulation = MujocoSimulation(robot.model, max(self._trials, FEW + 1), dt)
        self._simulation.hide()
        name = self._simulation.robots[0].name
        with _silent("actuon.actuators"):
            self._actuators = ArticulationActuators.from_actuators(
                name, list(zip(configs, robot.joints, strict=True)), simulation=self._simulation
            )
        self._articulation: Articulation = self._actuators.articulation
        self._columns = self._articulation.dof_columns(list(robot.joints))
        self._order = np.argsort(self._columns)
        self._writers = self._find_writers(configs)
        self._bias = np.zeros((candidates, len(models)))
        self._zeros = np.zeros((candidates, len(runs), len(models)))
        self._zero = np.zeros((len(self._slots), candidates, len(models)))
        self._plan()

    def _plan(self) -> None:
        """Say for each step and slot which run is on, and which row of the inputs is the one of this step."""
        runs, slots = self._runs, self._slots
        steps = max(sum(runs[r].steps for r in own) for own in slots)
        joints = len(self._columns)
        self._of = np.full((steps, len(slots)), -1)
        self._rows = np.zeros((steps, len(slots)), np.int64)
        self._weights = np.zeros((steps, len(slots)))
        self._measured = np.zeros((steps, len(slots), joints), np.float32)
        self._begins: dict[int, list[tuple[int, int]]] = {}
        self._ends: dict[int, list[tuple[int, int]]] = {}
        first = np.cumsum([0, *(len(run.command) for run in runs)])
        for slot, own in enumerate(slots):
            at = 0
            for r in own:
                run = runs[r]
                part = slice(at, at + run.steps)
                self._of[part, slot] = r
                self._rows[part, slot] = first[r] + run.past + np.arange(run.steps)
                self._weights[part, slot] = run.weight
                self._measured[part, slot] = run.position
                self._begins.setdefault(at, []).append((slot, r))
                at += run.steps
                self._ends.setdefault(at - 1, []).append((slot, r))
            self._rows[at:, slot] = self._rows[at - 1, slot]
        self._command = np.concatenate([run.command for run in runs])
        self._effort = np.concatenate([run.effort_command for run in runs])

    def _find_writers(self, configs: Sequence[ActuatorConfig]) -> list[_Writer]:
        width = self._articulation.num_dofs
        found = []
        for actuator in self._actuators.actuators:
            at = actuator.effort_indices.numpy()
            for joint, (model, config) in enumerate(zip(self._models, configs, strict=True)):
                places = np.flatnonzero(at % width == self._columns[joint])
                for path in model.written(model.start[None]) if places.size else ():
                    if is_of_link(path) or (path == DELAY and self._delays[joint] is not None):
                        continue
                    place = place_of(config, path)
                    array = getattr(actuator.stages[place.stage], place.name)
                    found.append(_Writer(joint, path, array, places, at[places] // width))
        return found

    def run(self, candidates: Sequence[np.ndarray], zeros: np.ndarray) -> np.ndarray:
        """Mean absolute error of the position [rad or m], shape (C, R, J); inf where a trial diverged.

        Args:
            candidates: Values for each joint, shape (C, P).
            zeros: What encoders show more than the position in each run [rad or m], shape (C, R, J) or one that
                broadcasts to it.
        """
        errors = np.zeros((len(self._slots), self._candidates, len(self._columns)))
        found = np.full((self._candidates, len(self._runs), len(self._columns)), np.inf)

        def look(step: int, shown: np.ndarray) -> None:
            weights = self._weights[step]
            if weights.any():
                errors[...] += weights[:, None, None] * np.abs(shown - self._measured[step][:, None])

        def end(slot: int, run: int, is_dead: np.ndarray) -> None:
            found[:, run] = np.where(is_dead[:, None], np.inf, errors[slot])
            errors[slot] = 0.0

        with contextlib.suppress(_AllDivergedError), without_prints_of_mujoco():
            self._play(candidates, zeros, look, end)
        return found

    def trace(self, candidates: Sequence[np.ndarray], zeros: np.ndarray) -> list[np.ndarray]:
        """Positions as encoders show them [rad or m], from the start on: R arrays of shape (C, steps + 1, J).

        Args:
            candidates: As for `run`.
            zeros: As for `run`.
        """
        paths = [np.empty((self._candidates, run.steps + 1, len(self._columns)), np.float32) for run in self._runs]
        for path, run in zip(paths, self._runs, strict=True):
            path[:, 0] = run.start[0]
        since = [0] * len(self._slots)

        def look(step: int, shown: np.ndarray) -> None:
            for slot, run in enumerate(self._of[step]):
                if run >= 0:
                    since[slot] += 1
                    paths[run][:, since[slot]] = shown[slot]

        def end(slot: int, run: int, is_dead: np.ndarray) -> None:
            paths[run][is_dead] = np.nan
            since[slot] = 0

        try:
            with without_prints_of_mujoco():
                self._play(candidates, zeros, look, end)
        except _AllDivergedError:
            return [np.full_like(path, np.nan) for path in paths]
        return paths

    def _play(
        self,
        candidates: Sequence[np.ndarray],
        zeros: np.ndarray,
        look: Callable[[int, np.ndarray], None],
        end: Callable[[int, int, np.ndarray], None],
    ) -> None:
        """Run all trials.

        Args:
            candidates: Values for each joint, shape (C, P).
            zeros: What encoders show more than the position, shape (C, R, J).
            look: Gets a step, and the positions that encoders show after it, shape (S, C, J).
            end: Gets a slot, its run that is over, and which candidates diverged in it, shape (C,).
        """
        self._write(candidates)
        self._zeros = np.broadcast_to(zeros, self._zeros.shape)
        robots = self._articulation
        shape = (len(self._slots), self._candidates, len(self._columns))
        is_dead = np.zeros(shape[:2], bool)
        is_commanded, is_pushed = self._command.any(), self._effort.any()
        for step in range(len(self._weights)):
            for slot, run in self._begins.get(step, ()):
                self._begin(slot, run)
                is_dead[slot] = False
            if is_commanded:
                robots.set_dof_position_targets(self._inputs(self._command, step, self._zero))
            if is_pushed:
                self._actuators.set_dof_feedforward_effort_targets(self._inputs(self._effort, step))
            self._simulation.step()
            self._stop_diverged(is_dead)
            position = robots.values("joint_q")[: self._trials]
            look(step, position[:, self._columns].reshape(shape) + self._bias + self._zero)
            for slot, run in self._ends.get(step, ()):
                end(slot, run, is_dead[slot])

    def _inputs(self, table: np.ndarray, step: int, less: np.ndarray | float = 0.0) -> np.ndarray:
        """What goes in at a step, delayed as in each trial, in the order of the robot's DOFs, shape (N, D)."""
        near = self._rows[step][:, None, None] - self._late
        values = table[near, self._joint] + self._share * (table[near - 1, self._joint] - table[near, self._joint])
        rows = (values - less).reshape(self._trials, -1)[:, self._order]
        spare = self._simulation.num_envs - self._trials
        return np.concatenate([rows, np.repeat(rows[-1:], spare, axis=0)]) if spare else rows

    def _write(self, candidates: Sequence[np.ndarray]) -> None:
        """Put the numbers of all trials into actuators and engine."""
        values = [model.written(np.asarray(own, float)) for model, own in zip(self._models, candidates, strict=True)]
        of = np.arange(self._simulation.num_envs) % self._candidates
        for writer in self._writers:
            writer.write(values[writer.joint][writer.path][of])
        late = np.zeros((1, self._candidates, len(self._models)))
        for joint, delay in enumerate(self._delays):
            if delay is not None:
                late[..., joint] = np.minimum(values[joint].get(DELAY, delay), BEFORE - self._dt)
        steps = late / self._dt
        self._late = np.floor(steps).astype(np.int64)
        self._share = (steps - self._late).astype(np.float32)
        self._joint = np.arange(len(self._models))
        self._write_inertia()
        self._links = [{path: own[path][of] for path in own if is_of_link(path)} for own in values]
        self._write_links()
        self._bias = self._biases()
        self._actuators.reset()

    def _write_inertia(self) -> None:
        wanted = np.zeros((self._simulation.num_envs, self._articulation.num_dofs), np.float32)
        for actuator in self._actuators.actuators:
            wanted.ravel()[actuator.effort_indices.numpy()] = inertia_at_joints(actuator)
        columns = np.flatnonzero(wanted.any(axis=0))
        if columns.size:
            robots = self._articulation.robot_ids
            self._simulation.set_dof_property("armature", robots, columns, wanted[:, columns])

    def _write_links(self) -> None:
        """Put in what trials say of the links that joints move."""
        for link, own in zip(self._robot.links, self._links, strict=True):
            if own:
                named = {path.partition(".")[2]: numbers for path, numbers in own.items()}
                self._simulation.set_link_inertials(self._articulation.robot_ids, link, named)

    def _biases(self) -> np.ndarray:
        """What encoders show more than the position [rad], shape (C, J)."""
        shown = np.zeros((self._simulation.num_envs, self._articulation.num_dofs))
        for actuator in self._actuators.actuators:
            for stage in actuator.stages:
                if isinstance(stage, SensorEncoder):
                    shown.ravel()[actuator.effort_indices.numpy()] += stage.bias.numpy()
        return shown[: self._candidates, self._columns]

    def _begin(self, slot: int, run: int) -> None:
        """Put a slot at the start of a run."""
        envs = np.arange(slot * self._candidates, (slot + 1) * self._candidates)
        if slot == len(self._slots) - 1:
            envs = np.arange(envs[0], self._simulation.num_envs)
        of = np.arange(len(envs)) % self._candidates
        position, velocity = self._runs[run].start
        self._zero[slot] = self._zeros[:, run]
        first = position - self._bias - self._zero[slot]
        self._simulation.reset(envs)
        self._articulation.set_dof_positions(first[of][:, self._order], indices=envs)
        self._articulation.set_dof_velocities(np.repeat(velocity[None, self._order], len(envs), 0), indices=envs)

    def _stop_diverged(self, is_dead: np.ndarray) -> None:
        """Let trials that diverge go on as one that does not, and remember them."""
        speed = np.abs(self._articulation.values("joint_qd")).max(axis=1)
        bad = ~(speed < _FAST)
        if not bad.any():
            return
        is_dead.ravel()[bad[: self._trials]] = True
        good = np.flatnonzero(~bad & ~self._padded(is_dead))
        if not good.size:
            raise _AllDivergedError
        for writer in self._writers:
            numbers = writer.array.numpy()
            numbers[writer.places[bad[writer.envs]]] = numbers[writer.places[writer.envs == good[0]]]
            writer.array.assign(numbers)
        self._write_inertia()
        self._links = [
            {path: np.where(bad, numbers[good[0]], numbers) for path, numbers in own.items()} for own in self._links
        ]
        self._write_links()
        self._simulation.reset(np.flatnonzero(bad))

    def _padded(self, is_dead: np.ndarray) -> np.ndarray:
        spare = self._simulation.num_envs - self._trials
        return np.concatenate([is_dead.ravel(), np.zeros(spare, bool)])


def split_delay(config: ActuatorConfig) -> tuple[ActuatorConfig, float | None]:
    """A chain without its delay [s], where that is one that inputs can be looked up for; else as it is, and None."""
    for part in config.stages:
        if isinstance(part, InterpolatedDelayConfig) and part == InterpolatedDelayConfig(part.delay):
            others = [other for other in config.stages if other is not part]
            return ActuatorConfig(stages=others, control_every=config.control_every), part.delay
    return config, None


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Without the warnings of a logger: that a fit replaces what the robot's file says is its purpose."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
