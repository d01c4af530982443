# SPDX-License-Identifier: Apache-2.0
"""Candidates × runs of a robot as environments of one simulation."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from ...actuator.config import EXPLICIT, ActuatorConfig, part_kind
from ...attach.articulation_actuators import ArticulationActuators
from ...attach.solved_by_engine import at_joints
from ...components.delay_time import InterpolatedDelayConfig
from ...declare.registry import ComponentKind
from ...sim import Articulation
from ...sim.mujoco import mute_mujoco_warnings
from ..model import ENCODER_OFFSET, Model, is_of_link, is_outside, place_of
from .load_stage import MOTOR_ENABLED, MotorSwitchConfig
from .plant import Signal, Trials
from .robot_model import RobotModel
from .runs import BEFORE, Run

DELAY = "delay.delay"

_FAST = 1e4
"""Speed [rad/s or m/s] above which a trial counts as diverged."""


@dataclass(frozen=True)
class _Writer:
    """Destination of the values of one joint at one path."""

    joint: int
    path: str
    array: wp.array
    places: np.ndarray
    """Indices in the array, shape (N,)."""
    envs: np.ndarray
    """Environment of each index, shape (N,)."""

    def write(self, values: np.ndarray) -> None:
        """Write the values of all environments, shape (N,)."""
        numbers = self.array.numpy()
        numbers[self.places] = values[self.envs]
        self.array.assign(numbers)


@dataclass(frozen=True)
class _Inputs:
    """Values of trials."""

    values: Sequence[Mapping[str, np.ndarray]]
    """Values of each joint by path, shape (C, R)."""
    biases: np.ndarray
    """Biases of the encoder stages [rad or m], shape (C, R, J)."""
    encoder_offsets: np.ndarray
    """Encoder offsets of the logs [rad or m], shape (C, R, J)."""


class _AllDivergedError(Exception):
    """All trials have diverged."""


class RobotBatch:
    """Trials of one model for each joint. The i-th candidates of all joints form one robot.

    Short runs share environments one after another: a *slot* is a sequence of runs, and environment ``s * C + c`` is
    candidate c in slot s.

    Args:
        robot: Robot without drives.
        models: One for each joint.
        candidates: Number of candidates in a batch, C.
        runs: The R runs.
    """

    def __init__(self, robot: RobotModel, models: Sequence[Model], candidates: int, runs: Sequence[Run]):
        from ...sim.mujoco.simulation import MujocoSimulation

        self.models, self.candidates = models, candidates
        self._robot, self._runs, self._dt = robot, runs, runs[0].dt
        self._slots = _packed([run.steps for run in runs])
        self._trials = candidates * len(self._slots)
        self._is_switched = any((run.enabled == 0.0).any() for run in runs)
        configs, self._delays = [], []
        for model in models:
            config, delay = split_delay(model.config(model.start))
            configs.append(_switched(config) if self._is_switched else config)
            self._delays.append(delay)
        is_explicit = all(config.effort_mode == EXPLICIT for config in configs)
        model = robot.model if is_explicit else robot.spec()
        self._simulation = MujocoSimulation(model, self._trials, self._dt)
        self._simulation.hide()
        name = self._simulation.robots[0].name
        with _silent("actuon.actuators"), _silent("actuon.sim"):
            self._actuators = ArticulationActuators.from_actuators(
                name, list(zip(configs, robot.joints, strict=True)), simulation=self._simulation
            )
        self._articulation: Articulation = self._actuators.articulation
        self._columns = self._articulation.dof_columns(list(robot.joints))
        self._order = np.argsort(self._columns)
        self._writers = self._find_writers(configs)
        self._table = [
            {path: np.full(self._simulation.num_envs, np.nan) for path in model.written_paths if path != ENCODER_OFFSET}
            for model in models
        ]
        """Present values of each joint in the actuators and the engine, by path, shape (N,)."""
        self._joint = np.arange(len(models))
        shape = (len(self._slots), candidates, len(models))
        self._late, self._share = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        self._bias, self._encoder_offset = np.zeros(shape), np.zeros(shape)
        self._plan()

    def _plan(self) -> None:
        """Set the run and its row of the inputs for each step and slot."""
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
        self._enabled = np.concatenate([run.enabled for run in runs])

    def _find_writers(self, configs: Sequence[ActuatorConfig]) -> list[_Writer]:
        width = self._articulation.num_dofs
        found = []
        for actuator in self._actuators.actuators:
            at = actuator.effort_indices.numpy()
            for joint, (model, config) in enumerate(zip(self.models, configs, strict=True)):
                places = np.flatnonzero(at % width == self._columns[joint])
                for path in model.written_paths if places.size else ():
                    if is_outside(path) or (path == DELAY and self._delays[joint] is not None):
                        continue
                    place = place_of(config, path)
                    array = getattr(actuator.stages[place.stage], place.name)
                    found.append(_Writer(joint, path, array, places, at[places] // width))
        return found

    def errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of the position [rad or m], shape (C, R, J); inf if a trial diverged."""
        errors = np.zeros((len(self._slots), self.candidates, len(self._columns)))
        found = np.full((self.candidates, len(self._runs), len(self._columns)), np.inf)

        def look(step: int, shown: np.ndarray) -> None:
            weights = self._weights[step]
            if weights.any():
                errors[...] += weights[:, None, None] * np.abs(shown - self._measured[step][:, None])

        def end(slot: int, run: int, is_dead: np.ndarray) -> None:
            found[:, run] = np.where(is_dead[:, None], np.inf, errors[slot])
            errors[slot] = 0.0

        with contextlib.suppress(_AllDivergedError), mute_mujoco_warnings():
            self._play(trials, "position", look, end)
        return found

    def trace(self, trials: Trials, signal: Signal) -> list[np.ndarray]:
        """Return a signal of each trial from its start: R arrays of shape (C, steps + 1, J).

        Positions [rad or m] are those of the encoders. Efforts [N·m or N] are those of the motors in each step; the
        first is 0.
        """
        paths = [np.empty((self.candidates, run.steps + 1, len(self._columns)), np.float32) for run in self._runs]
        for path, run in zip(paths, self._runs, strict=True):
            path[:, 0] = run.start[0] if signal == "position" else 0.0
        since = [0] * len(self._slots)
        ended: set[int] = set()

        def look(step: int, shown: np.ndarray) -> None:
            for slot, run in enumerate(self._of[step]):
                if run >= 0:
                    since[slot] += 1
                    paths[run][:, since[slot]] = shown[slot]

        def end(slot: int, run: int, is_dead: np.ndarray) -> None:
            paths[run][is_dead] = np.nan
            since[slot] = 0
            ended.add(run)

        with contextlib.suppress(_AllDivergedError), mute_mujoco_warnings():
            self._play(trials, signal, look, end)
        return [path if r in ended else np.full_like(path, np.nan) for r, path in enumerate(paths)]

    def _play(
        self,
        trials: Trials,
        signal: Signal,
        look: Callable[[int, np.ndarray], None],
        end: Callable[[int, int, np.ndarray], None],
    ) -> None:
        """Simulate all trials.

        Args:
            trials: The trials.
            signal: Signal for ``look``.
            look: Callback after each step, with the step and the signal, shape (S, C, J).
            end: Callback at the end of a run, with the slot, the run and a mask of diverged candidates, shape (C,).
        """
        inputs = _Inputs(trials.values, trials.biases.astype(float), trials.encoder_offsets)
        robots = self._articulation
        shape = (len(self._slots), self.candidates, len(self._columns))
        is_dead = np.zeros(self._simulation.num_envs, bool)
        is_commanded, is_pushed = self._command.any(), self._effort.any()
        switches = np.zeros(0)
        for step in range(len(self._weights)):
            if step in self._begins:
                self._begin(self._begins[step], inputs, is_dead)
            if is_commanded:
                robots.set_dof_position_targets(self._inputs(self._command, step, self._encoder_offset))
            if is_pushed:
                self._actuators.set_dof_feedforward_effort_targets(self._inputs(self._effort, step))
            if self._is_switched:
                now = self._enabled[self._rows[step]]
                if not np.array_equal(now, switches):
                    switches = now
                    self._actuators.set_dof_custom_inputs(
                        MOTOR_ENABLED, self._by_env(np.broadcast_to(now[:, None], shape))
                    )
            self._simulation.step()
            self._stop_diverged(is_dead, is_last=step >= max(self._begins))
            if signal == "position":
                position = robots.values("joint_q")[: self._trials]
                look(step, position[:, self._columns].reshape(shape) + self._bias + self._encoder_offset)
            else:
                effort = robots.get_dof_efforts().numpy()[: self._trials]
                look(step, effort[:, self._columns].reshape(shape))
            for slot, run in self._ends.get(step, ()):
                end(slot, run, is_dead[: self._trials].reshape(shape[:2])[slot])

    def _inputs(self, table: np.ndarray, step: int, less: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the inputs of a step with the delay of each trial, in the order of the robot's DOFs, shape (N, D)."""
        near = self._rows[step][:, None, None] - self._late
        values = table[near, self._joint] + self._share * (table[near - 1, self._joint] - table[near, self._joint])
        return self._by_env(values - less)

    def _by_env(self, values: np.ndarray) -> np.ndarray:
        """Convert values of shape (S, C, J) to all environments in the order of the robot's DOFs, shape (N, D)."""
        rows = values.reshape(self._trials, -1)[:, self._order]
        spare = self._simulation.num_envs - self._trials
        return np.concatenate([rows, np.repeat(rows[-1:], spare, axis=0)]) if spare else rows

    def _envs(self, slot: int) -> np.ndarray:
        """Return the environments of a slot; those of the last slot include the spare ones."""
        is_last = slot == len(self._slots) - 1
        end = self._simulation.num_envs if is_last else (slot + 1) * self.candidates
        return np.arange(slot * self.candidates, end)

    def _set_values(self, slot: int, run: int, values: Sequence[Mapping[str, np.ndarray]]) -> bool:
        """Set the values of a run in a slot. Returns whether any value has changed."""
        envs = self._envs(slot)
        of = np.arange(len(envs)) % self.candidates
        is_changed = False
        for table, own in zip(self._table, values, strict=True):
            for path, numbers in table.items():
                wanted = own[path][of, run]
                is_changed |= not np.array_equal(numbers[envs], wanted)
                numbers[envs] = wanted
        for joint, delay in enumerate(self._delays):
            if delay is not None:
                own = values[joint]
                late = np.minimum(own[DELAY][:, run] if DELAY in own else delay, BEFORE - self._dt) / self._dt
                self._late[slot, :, joint] = np.floor(late)
                self._share[slot, :, joint] = late - np.floor(late)
        return is_changed

    def _write(self) -> None:
        """Write the present values to actuators and engine."""
        for writer in self._writers:
            writer.write(self._table[writer.joint][writer.path])
        self._write_inertia()
        self._write_links()

    def _write_inertia(self) -> None:
        wanted = np.zeros((self._simulation.num_envs, self._articulation.num_dofs), np.float32)
        for actuator in self._actuators.actuators:
            wanted.ravel()[actuator.effort_indices.numpy()] = at_joints(actuator).inertia
        columns = np.flatnonzero(wanted.any(axis=0))
        if columns.size:
            at = self._articulation.at.of_dofs(columns)
            self._simulation.engine.properties.set(at, armature=wanted[:, columns])

    def _write_links(self) -> None:
        """Write the values of links to the engine."""
        for link, own in zip(self._robot.links, self._table, strict=True):
            named = {path.partition(".")[2]: numbers for path, numbers in own.items() if is_of_link(path)}
            if named:
                self._simulation.engine.bodies.set_inertials(self._articulation.at, link, named)

    def _begin(self, begins: Sequence[tuple[int, int]], inputs: _Inputs, is_dead: np.ndarray) -> None:
        """Reset slots to the start of runs, with the values of their trials."""
        is_changed = [self._set_values(slot, run, inputs.values) for slot, run in begins]
        if any(is_changed):
            self._write()
        for slot, run in begins:
            envs = self._envs(slot)
            of = np.arange(len(envs)) % self.candidates
            position, velocity = self._runs[run].start
            self._bias[slot], self._encoder_offset[slot] = inputs.biases[:, run], inputs.encoder_offsets[:, run]
            first = position - self._bias[slot] - self._encoder_offset[slot]
            self._simulation.reset(envs)
            self._articulation.set_dof_positions(first[of][:, self._order], indices=envs)
            self._articulation.set_dof_velocities(np.repeat(velocity[None, self._order], len(envs), 0), indices=envs)
            is_dead[envs] = False

    def _stop_diverged(self, is_dead: np.ndarray, is_last: bool) -> None:
        """Replace diverged trials by copies of a stable one until the next run of their slot.

        Args:
            is_dead: Mask of diverged environments, shape (N,), which is updated.
            is_last: Whether no run begins later.
        """
        speed = np.abs(self._articulation.values("joint_qd")).max(axis=1)
        bad = ~(speed < _FAST)
        if not bad.any():
            return
        is_dead |= bad
        good = np.flatnonzero(~is_dead)
        if good.size:
            for own in self._table:
                for numbers in own.values():
                    numbers[bad] = numbers[good[0]]
            self._write()
        elif is_last:
            raise _AllDivergedError
        self._simulation.reset(np.flatnonzero(bad))


def _packed(lengths: Sequence[int]) -> list[list[int]]:
    """Pack runs into slots no longer than the longest run, with few idle steps."""
    slots: list[list[int]] = []
    room: list[int] = []
    for run in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fitting = [slot for slot, left in enumerate(room) if left >= lengths[run]]
        if fitting:
            best = min(fitting, key=lambda slot: room[slot])
            slots[best].append(run)
            room[best] -= lengths[run]
        else:
            slots.append([run])
            room.append(max(lengths) - lengths[run])
    return slots


def split_delay(config: ActuatorConfig) -> tuple[ActuatorConfig, float | None]:
    """Return a model without its delay, and the delay [s]; unchanged, and None, if inputs cannot be delayed."""
    for part in config.stages:
        if isinstance(part, InterpolatedDelayConfig) and part == InterpolatedDelayConfig(part.delay):
            others = [other for other in config.stages if other is not part]
            return config.with_stages(others), part.delay
    return config, None


def _switched(config: ActuatorConfig) -> ActuatorConfig:
    """Return a model whose effort is 0 while the motor is switched off."""
    at = next((i + 1 for i, part in enumerate(config.stages) if part_kind(part) is ComponentKind.CONTROLLER), 0)
    return config.with_stages([*config.stages[:at], MotorSwitchConfig(), *config.stages[at:]])


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Silence a logger, as a fit replaces values of the robot's file on purpose."""
    logger = logging.getLogger(name)
    refuse = logging.Filter()
    refuse.filter = lambda record: False  # type: ignore[method-assign]
    logger.addFilter(refuse)  # thread-safe, unlike a change of the level
    try:
        yield
    finally:
        logger.removeFilter(refuse)
