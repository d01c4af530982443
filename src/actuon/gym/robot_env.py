# SPDX-License-Identifier: Apache-2.0
"""`RobotEnv`: any robot with its motors, as a Gymnasium vector environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import logger
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..actuator.config import ActuatorConfig
from ..arrays import numbers
from ..attach.articulation_actuators import ArticulationActuators, idle_warning
from ..attach.groups.randomisation import Distribution
from ..attach.telemetry import Telemetry
from ..errors import ArrayError, ArrayTypeError, ParameterError, RobotFileError, SimulationError, listed, located, shown
from ..motor_source import configs_of, named_motor, read_entries
from ..sim import Articulation, MujocoSimulation
from ..sim.ids import ids_to_reset
from ..typing import ArrayLike, PathLike
from .camera import Camera

RobotMotors: TypeAlias = PathLike | ActuatorConfig | Mapping[str, ActuatorConfig] | None
RENDER_MODES = ("rgb_array",)

_STEP = 0.02
"""Length of a step by default [s]."""
_LARGEST = np.finfo(np.float32).max
"""Largest finite observation."""

_log = logging.getLogger("actuon.actuators")


class RobotEnv(VectorEnv):
    """Copies of a robot, stepped together, with functions for observations and rewards.

    A step sets the targets of the joints that have motors to home plus ``action_scale`` times the action, from -1 to 1,
    and takes ``substeps`` steps of physics and motors. Functions receive the environment, with `position`, `velocity`,
    `action`, `last_action`, `episode_time`, `telemetry()`, `robots` and `simulation`, and return arrays with a row for
    each robot.

    Each environment has its own random generator in `np_random`, so its results do not depend on the others.

    Args:
        robot: MJCF or URDF file with one robot.
        num_envs: Number of robots.
        motors: A YAML file with actuators, one `ActuatorConfig` for all joints, or configs by the names of joints.
            Joints without one are passive. None: MuJoCo's own servos.
        reward: Returns the rewards of a step, finite numbers of shape (N,).
        observation: Returns observations, finite numbers of shape (N, O). Default: positions of all joints from home,
            their velocities, and the last action.
        terminated: Returns a mask of robots that failed, booleans of shape (N,). Default: none.
        start: Called with the environment and the indices of robots that start an episode, which are at home; may move
            them.
        act: Called with the environment and the actions, shape (N, A), instead of setting position targets.
        randomize: Distributions of motor parameters by path, drawn at the start of each episode by the generators of
            the environments. See `ArticulationActuators.randomize`.
        action_scale: Change of a joint's target by an action of 1 [rad or m].
        dt: Time step of physics and motors [s]. Default: that of the robot's file.
        substeps: Time steps per step of the environment. Default: those of 20 ms.
        episode_seconds: Length of an episode [s].
        on_divergence: If a robot diverges, ``"raise"`` a `SimulationError`, or ``"terminate"`` the episode of its
            environment: it returns to the start with reward 0, the others continue, and ``infos["diverged"]`` holds
            the name of the joint that caused it, None for others, with the mask ``infos["_diverged"]``.
        autoreset_mode: When an environment that ended is reset: in the next step, in the same step, or by `reset` only.
        render_mode: ``"rgb_array"`` if `render` is used.
        width: Width of images [px].
        height: Height of images [px].

    Examples:
        >>> def reward(envs):
        ...     return -np.abs(envs.position - 0.3).sum(axis=1)
        >>> envs = actuon.gym.RobotEnv(actuon.assets.arm_mjcf, num_envs=2, reward=reward)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations, rewards, *ends, infos = envs.step(np.zeros((2, 7)))
        >>> envs.close()
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self,
        robot: PathLike,
        num_envs: int = 1,
        motors: RobotMotors = None,
        *,
        reward: Callable[[RobotEnv], np.ndarray] | None = None,
        observation: Callable[[RobotEnv], np.ndarray] | None = None,
        terminated: Callable[[RobotEnv], np.ndarray] | None = None,
        start: Callable[[RobotEnv, np.ndarray], object] | None = None,
        act: Callable[[RobotEnv, np.ndarray], object] | None = None,
        randomize: Mapping[str, Distribution] | None = None,
        action_scale: float = 0.5,
        dt: float | None = None,
        substeps: int | None = None,
        episode_seconds: float = 20.0,
        on_divergence: Literal["raise", "terminate"] = "raise",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ):
        for name, function in {
            "reward": reward,
            "observation": observation,
            "terminated": terminated,
            "start": start,
            "act": act,
        }.items():
            if function is not None and not callable(function):
                raise ParameterError(f"{name}: got {shown(function)}; must be a function of the environment")
        if reward is None and type(self)._rewards is RobotEnv._rewards:
            raise ParameterError("reward: is missing; must be a function of the environment that returns shape (N,)")
        if render_mode not in (None, *RENDER_MODES):
            raise ParameterError(f"render_mode: got {shown(render_mode)}; must be None or 'rgb_array'")
        if not isinstance(robot, (str, os.PathLike)):
            raise ParameterError(f"robot: got {shown(robot)}; must be the path of an MJCF or URDF file")
        counts = {"width": width, "height": height} | ({} if substeps is None else {"substeps": substeps})
        for name, count in counts.items():
            if not _is_whole(count) or count < 1:
                raise ParameterError(f"{name}: got {shown(count)}; must be a whole number ≥ 1")
        if not _is_number(action_scale) or not np.isfinite(action_scale):
            raise ParameterError(f"action_scale: got {shown(action_scale)}; must be a finite number [rad or m]")
        if on_divergence not in ("raise", "terminate"):
            raise ParameterError(f"on_divergence: got {shown(on_divergence)}; must be 'raise' or 'terminate'")
        self.on_divergence = on_divergence
        self.autoreset_mode = _checked_mode(autoreset_mode)
        self.render_mode = render_mode
        self._reward, self._observation, self._terminated = reward, observation, terminated
        self._start_function, self._act = start, act
        self.action_scale = float(action_scale)
        self.simulation = MujocoSimulation(Path(robot), num_envs, dt)
        self.substeps = max(1, round(_STEP / self.simulation.dt)) if substeps is None else int(substeps)
        self.step_seconds = self.simulation.dt * self.substeps
        """Length of a step [s]."""
        self.metadata = {
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1.0 / self.step_seconds),
            "autoreset_mode": self.autoreset_mode,
        }
        self.max_episode_steps = _checked_steps(episode_seconds, self.step_seconds)
        if len(self.simulation.robots) != num_envs:
            names = ", ".join(robot.name for robot in self.simulation.robots if robot.env == 0)
            raise ParameterError(f"'{robot}' must hold one robot; it holds: {names or 'none'}")
        self.robots = Articulation(self.simulation.robots[0].name, self.simulation)
        configs = _configs(motors, self.robots.dof_names)
        if act is None and (said := idle_warning(configs)):
            _log.warning("%s", said)
        self.actuators = (
            ArticulationActuators.from_actuators(
                self.simulation.robots[0].name,
                [(config, joint) for joint, config in configs.items()],
                simulation=self.simulation,
            )
            if configs
            else None
        )
        """The motors; None for MuJoCo's own servos."""
        self._randomize = randomize
        if randomize is not None:
            if self.actuators is None:
                raise ParameterError("randomize: needs motors; MuJoCo's own servos have no such parameters")
            with located("randomize", ParameterError):
                self.actuators.randomize(randomize, env_ids=[])
        self.num_envs = num_envs
        stiffness = self.robots.get_dof_gains()[0].numpy()[0]
        driven = [name in configs if configs else stiffness[i] > 0.0 for i, name in enumerate(self.robots.dof_names)]
        self._driven = np.flatnonzero(driven)
        self.joints = [self.robots.dof_names[i] for i in self._driven]
        """Names of the joints that actions move."""
        if not self.joints:
            raise ParameterError(f"'{robot}' has no servos, and no motors are given; pass motors=")
        self.home = self.robots.get_dof_positions().numpy()[0]
        """Positions of all joints at the start [rad or m], shape (D,)."""
        self._generators = [np.random.default_rng() for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=bool)
        self._camera: Camera | None = None
        self._size = (width, height)
        self._is_ready = False
        self.action = np.zeros((num_envs, len(self.joints)), np.float32)
        """Actions of the last step, shape (N, A); 0 at the start of an episode."""
        self.last_action = self.action.copy()
        """Actions of the step before, shape (N, A)."""
        self.single_action_space = Box(-1.0, 1.0, (len(self.joints),), np.float32)
        self.single_observation_space = Box(-_LARGEST, _LARGEST, (self._observation_size(),), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def position(self) -> np.ndarray:
        """Positions of all hinge and slide joints, passive ones included [rad or m], shape (N, D)."""
        return self.robots.values("joint_q")

    @property
    def velocity(self) -> np.ndarray:
        """Velocities of all hinge and slide joints [rad/s or m/s], shape (N, D)."""
        return self.robots.values("joint_qd")

    @property
    def episode_time(self) -> np.ndarray:
        """Time since the start of each episode [s], shape (N,)."""
        return self.step_seconds * self._steps

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:
        """The generator of each environment."""
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:
        """The seed of each environment; None without one."""
        return tuple(self._seeds)

    def telemetry(self) -> Telemetry | None:
        """Return the telemetry of the motors in the last step of physics; None for MuJoCo's own servos.

        Examples:
            >>> envs = actuon.gym.QuadrupedEnv(num_envs=2)
            >>> _ = envs.reset(seed=0)
            >>> _ = envs.step(np.zeros((2, 12)))
            >>> envs.telemetry().applied_effort.shape
            (2, 12)
            >>> envs.close()
        """
        return None if self.actuators is None else self.actuators.telemetry()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes in all environments or some, and reset the state of their motors.

        Args:
            seed: Environment i is seeded with ``seed + i``; or one seed for each. Default: generators continue.
            options: ``{"reset_mask": ...}``, a mask of booleans, or ``{"env_ids": ...}``, indices of environments.
                The others are not changed. Default: all.

        Returns:
            Observations of all environments, shape (N, O), and an empty dict.

        Raises:
            ArrayError: An observation is NaN or infinite.

        Examples:
            >>> envs = actuon.gym.QuadrupedEnv(num_envs=4)
            >>> observations, _ = envs.reset(seed=0)
            >>> again, _ = envs.reset(options={"env_ids": [2]})  # the others continue
            >>> (again == observations).all(axis=1)
            array([ True,  True, False,  True])
            >>> envs.close()
        """
        ids, seeds = self._chosen(options), self._checked_seeds(seed)
        if not self._is_ready and len(ids) < self.num_envs:
            raise SimulationError("reset: the first reset must include all environments")
        for i in ids:
            if seeds[i] is not None:
                self._seeds[i], self._generators[i] = seeds[i], np.random.default_rng(seeds[i])
        self._start(ids)
        self._is_ready = True
        return self._checked("observation", self._observations()), {}

    def step(self, actions: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments.

        Args:
            actions: From -1 to 1, shape (N, A); larger ones are clipped.

        Returns:
            Observations of shape (N, O), rewards, terminations and truncations of shape (N,), and ``final_obs`` of
            environments that were reset in this step.

        Raises:
            ArrayError: Actions have another shape, or one is NaN or infinite; the state is unchanged.
            ArrayError: A reward or an observation is NaN or infinite.
            SimulationError: `reset` was not called; or a robot diverged, see `MujocoSimulation.step`, unless
                ``on_divergence`` is ``"terminate"``.

        Examples:
            >>> envs = actuon.gym.QuadrupedEnv(num_envs=2)
            >>> observations, infos = envs.reset(seed=0)
            >>> actions = np.zeros((2, 12), np.float32)
            >>> observations, rewards, failed, late, infos = envs.step(actions)
            >>> failed, late
            (array([False, False]), array([False, False]))
            >>> envs.close()
        """
        given = self._checked_actions(actions)
        starting = np.flatnonzero(self._ended)
        self._command(given)
        diverged = self._step_physics()
        self._steps += 1
        self.last_action, self.action = self.action, given
        self._moved()
        failed = self._terminations()
        rewards = self._rewards()
        failed[list(diverged)], rewards[list(diverged)] = True, 0.0
        late = ~failed & (self._steps >= self.max_episode_steps)
        self._advance()
        infos = self._divergence_infos(diverged)
        observations = self._observations()
        for unused in (rewards, failed, late, observations):  # of environments that ended before this step
            unused[starting] = 0
        self._checked("reward", rewards)
        self._checked("observation", observations)
        self._ended = failed | late
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            starting = np.flatnonzero(self._ended)
            infos |= self._final(observations, starting)
        if starting.size:
            self._start(starting)
            observations[starting] = self._checked("observation", self._observations(), starting)
        return observations, rewards, failed, late, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return an image of each environment, shape (height, width, 3), 8 bits, from a camera that follows the robot.

        Raises:
            SimulationError: MuJoCo finds no OpenGL library.
        """
        if self.render_mode is None:
            logger.warn('render() without a render mode: make the environment with render_mode="rgb_array"')
            return None
        if self._camera is None:
            robot = self.robots.robots[0]
            self._camera = Camera(self.simulation.models[0], robot.root_body, *self._size)
        return tuple(self._camera.draw(data) for data in self.simulation.data)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulation and the camera."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None
        self.simulation.close()

    def _step_physics(self) -> Mapping[int, str | None]:
        """Step, and return the environments that diverged, which are at the start again, with the joint."""
        try:
            self.simulation.step(self.substeps)
        except SimulationError as error:
            if self.on_divergence == "raise" or not error.diverged:
                raise
            self.simulation.reset(np.array(list(error.diverged)))
            return {env: joint for env, joint in error.diverged.items() if not self._ended[env]}
        return {}

    def _divergence_infos(self, diverged: Mapping[int, str | None]) -> dict[str, Any]:
        """Return the infos of environments that diverged, in the form of Gymnasium's vector environments."""
        if not diverged:
            return {}
        joints, mask = np.full(self.num_envs, None, dtype=object), np.zeros(self.num_envs, dtype=bool)
        for env, joint in diverged.items():
            joints[env], mask[env] = joint, True
        return {"diverged": joints, "_diverged": mask}

    # Hooks of subclasses

    def _command(self, actions: np.ndarray) -> None:
        """Apply actions to the motors."""
        if self._act is not None:
            self._act(self, actions)
            return
        targets = self.home[self._driven] + self.action_scale * actions
        self.robots.set_dof_position_targets(targets, dof_indices=self._driven)

    def _moved(self) -> None:
        """Update caches after robots have moved: after steps and at the start of episodes."""

    def _terminations(self) -> np.ndarray:
        if self._terminated is None:
            return np.zeros(self.num_envs, dtype=bool)
        return self._rows("terminated", self._terminated(self), (self.num_envs,), "b")

    def _rewards(self) -> np.ndarray:
        assert self._reward is not None
        return _as_float32(self._rows("reward", self._reward(self), (self.num_envs,)))

    def _advance(self) -> None:
        """Advance commands, after rewards and before observations."""

    def _observation_size(self) -> int:
        if self._observation is None:
            return 2 * self.robots.num_dofs + len(self.joints)
        return int(self._rows("observation", self._observation(self), (self.num_envs, None)).shape[1])

    def _observations(self) -> np.ndarray:
        if self._observation is None:
            return np.concatenate([self.position - self.home, self.velocity, self.action], axis=1, dtype=np.float32)
        shape = (self.num_envs, self.single_observation_space.shape[0])
        return _as_float32(self._rows("observation", self._observation(self), shape))

    def _start_state(self, ids: np.ndarray) -> None:
        """Move robots from home to the start of their episodes."""
        if self._start_function is not None:
            self._start_function(self, ids)

    # Shared

    def _rows(self, name: str, values: Any, shape: tuple[int | None, ...], kinds: str = "fiub") -> np.ndarray:
        """Return a copy of the result of a user's function, after a check of its shape and type."""
        array = np.array(numbers(values, name))
        fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        if not fits or array.dtype.kind not in kinds:
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise ArrayError(
                f"{name}: the function returned {array.dtype} of shape {array.shape}; must be "
                f"{'booleans' if kinds == 'b' else 'numbers'} of shape ({wanted}{',' if len(shape) == 1 else ''})"
            )
        return array

    def _checked(self, name: str, values: np.ndarray, ids: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        """Return the rows of some environments, after a check that they are finite."""
        rows: np.ndarray = values[ids]
        if not np.isfinite(rows).all():
            row, *column = np.argwhere(~np.isfinite(rows))[0]
            env = np.arange(self.num_envs)[ids][row]
            raise ArrayError(
                f"{name}: got {rows[row, *column]} for environment {env}{f', column {column[0]}' if column else ''}, "
                f"{self.episode_time[env]:g} s after the start of its episode; must be finite, also as float32. Check "
                "divisions, roots and logarithms in its function"
            )
        return rows

    def _start(self, ids: np.ndarray) -> None:
        """Move environments to the start of an episode."""
        if not ids.size:
            return
        if self._randomize is not None and self.actuators is not None:
            generators = [self._generators[i] for i in ids]
            self.actuators.randomize(self._randomize, env_ids=ids, seed=generators)
        self.simulation.reset(ids)
        self._steps[ids], self._ended[ids] = 0, False
        self.action, self.last_action = self.action.copy(), self.last_action.copy()
        self.action[ids], self.last_action[ids] = 0.0, 0.0
        self._start_state(ids)
        self._moved()

    def _final(self, observations: np.ndarray, ids: np.ndarray) -> dict[str, Any]:
        """Return the infos of environments that end and are reset in one step, as Gymnasium defines them."""
        last = np.full(self.num_envs, None, dtype=object)
        for i in ids:
            last[i] = observations[i].copy()
        return {
            "final_obs": last,
            "_final_obs": self._ended.copy(),
            "final_info": {},
            "_final_info": self._ended.copy(),
        }

    def _checked_actions(self, actions: Any) -> np.ndarray:
        if not self._is_ready:
            raise SimulationError("step: call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ids = ", ".join(map(str, np.flatnonzero(self._ended)[:10]))
            raise SimulationError(f"step: environments that ended must be reset first: {ids}")
        given = numbers(actions, "actions")
        if given.dtype.kind not in "fiub":
            raise ArrayTypeError(f"actions: got {shown(actions)}; must be numbers of shape {self.action.shape}")
        if given.shape != self.action.shape:
            raise ArrayError(f"actions: got shape {given.shape}; must be {self.action.shape}, a row for each robot")
        if not np.isfinite(given).all():
            env, joint = np.argwhere(~np.isfinite(given))[0]
            name = self.joints[joint]
            raise ArrayError(f"actions: got {given[env, joint]} for '{name}' of environment {env}; must be finite")
        return np.clip(given, -1.0, 1.0).astype(np.float32, copy=False)

    def _chosen(self, options: dict[str, Any] | None) -> np.ndarray:
        """Return the environments that options name."""
        if options is not None and not isinstance(options, Mapping):
            raise ParameterError(f"options: got {shown(options)}; must be a dict with reset_mask or env_ids")
        given = dict(options or {})
        unknown = [key for key in given if key not in ("reset_mask", "env_ids")]
        if unknown:
            known = listed(str(unknown[0]), ("reset_mask", "env_ids"), "keys")
            raise ParameterError(f"options: unknown key {shown(unknown[0])}; {known}")
        if len(given) > 1:
            raise ParameterError("options: got reset_mask and env_ids; give one of them")
        for name, ids in given.items():
            if name == "reset_mask" and numbers(ids, name).dtype != bool:
                raise ParameterError(f"reset_mask: got {shown(ids)}; must be a mask of {self.num_envs} booleans")
            return ids_to_reset(name, ids, self.num_envs)
        return np.arange(self.num_envs)

    def _checked_seeds(self, seed: Any) -> list[int | None]:
        """Return one seed for each environment."""
        if seed is None:
            return [None] * self.num_envs
        if _is_whole(seed):
            seeds: list[Any] = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed) if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, bytes) else []
        is_right = all(each is None or (_is_whole(each) and each >= 0) for each in seeds)
        if len(seeds) != self.num_envs or not is_right:
            raise ParameterError(f"seed: got {shown(seed)}; must be a whole number ≥ 0, or {self.num_envs} of them")
        return seeds


def _configs(motors: Any, joints: Sequence[str]) -> dict[str, ActuatorConfig]:
    """Return the actuators of joints, by name, in the order of joints; empty for MuJoCo's own servos."""
    if motors is None:
        return {}
    if isinstance(motors, ActuatorConfig):
        return dict.fromkeys(joints, motors)
    if isinstance(motors, Mapping):
        for name, config in motors.items():
            if name not in joints:
                raise ParameterError(f"motors: there is no joint {shown(name)}; {listed(str(name), joints, 'joints')}")
            if not isinstance(config, ActuatorConfig):
                raise ParameterError(f"motors: {name}: got {shown(config)}; must be an ActuatorConfig")
        found = dict(motors)
    elif isinstance(motors, (str, Path)):
        with located("motors", RobotFileError):
            motor = named_motor(motors)
        if motor is not None:
            raise ParameterError(
                f"motors: '{motors}' is a motor without a controller; pass "
                f"actuon.find_motor('{motors}').datasheet.actuator(actuon.PDControlConfig(kp, kd)), or a YAML file "
                "with both"
            )
        found = configs_of(Path(motors), read_entries(Path(motors)), joints)
    else:
        raise ParameterError(
            f"motors: got {shown(motors)}; must be the path of a YAML file, an ActuatorConfig, or ActuatorConfigs by "
            "the names of joints"
        )
    return {name: found[name] for name in joints if name in found}


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _as_float32(rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # becomes infinite, which is an error later
        return rows.astype(np.float32)


def _checked_mode(mode: Any) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ParameterError(f"autoreset_mode: got {shown(mode)}; must be an AutoresetMode, or {known}") from error


def _checked_steps(seconds: Any, step: float) -> int:
    if not _is_number(seconds) or not step <= seconds < 1e9:
        raise ParameterError(f"episode_seconds: got {shown(seconds)}; must be a number from {step:g} on [s]")
    return round(seconds / step)
