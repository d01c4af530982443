# SPDX-License-Identifier: Apache-2.0
"""The quadruped as a Gymnasium vector environment: it is told a velocity, and paid to walk at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .. import assets
from ..arrays import numbers
from ..attach.articulation_actuators import ArticulationActuators
from ..attach.telemetry import Telemetry
from ..errors import ArrayError, ArrayTypeError, ParameterError, SimulationError, listed, shown
from ..sim import Articulation, MujocoSimulation
from ..sim.ids import ids_to_reset
from ..typing import ArrayLike
from .motors import MotorsLike, motors_of
from .rewards import Motion, checked_weights, reward_terms

DT = 0.004
"""Time step of physics and motors [s]."""
SUBSTEPS = 5
"""Of these in a step of the environment: 50 a second."""
ACTION_SCALE = 0.5
"""How far an action of 1 moves the target of a joint [rad]."""
COMMANDS = ((-1.0, 1.0), (-0.4, 0.4), (-1.0, 1.0))
"""Ranges of forward and sideways velocity [m/s] and yaw rate [rad/s]."""

_COMMAND_SECONDS = 5.0
"""How long a command holds [s]."""
_CLOCK = 2.0
"""Rate at which robots trot [Hz]."""
_LIFT = np.array([0.0, 0.17, -0.34], np.float32)
"""How far hip, thigh and calf turn to lift a foot by 6 cm [rad]."""
_TROT = np.array([1.0, -1.0, -1.0, 1.0], np.float32)
"""Which feet swing while the sine of the clock is positive: front left and rear right, then the others."""
_LOWEST = 0.15
"""Height of the base below which a robot fell [m]."""
_STEEPEST = -0.5
"""Share of gravity along the base's own axis above which a robot fell: tilted by 60°."""
_START_POSITION, _START_VELOCITY = 0.1, 0.3
"""How far joints [rad] and the velocity of the base [m/s] may be from home at the start."""
_SCALES = {"linear": 2.0, "angular": 0.25, "joint_velocity": 0.05}
"""Of observations, to be about 1."""


class QuadrupedEnv(VectorEnv):
    """Quadrupeds that are told how fast to walk, with ideal or real motors.

    A step lasts 20 ms. Without actions, robots trot on the spot, to a clock of 2 Hz. An action says, for each of 12
    joints, how far its target is from that, from -1 to 1, for ±0.5 rad; what is beyond is clipped. An observation has
    50 numbers, in the frame of the base: linear velocity [0.5 m/s],
    angular velocity [4 rad/s], the direction of gravity, the command in the units of the velocities, positions of
    joints from home [rad], their velocities [20 rad/s], the last action, and sine and cosine of the
    clock. An episode ends where a robot falls, and is cut after ``episode_seconds``. Commands change every 5 s.

    Each environment draws random numbers from a generator of its own: whatever happens to the others, it goes on the
    same, to the last bit.

    Args:
        num_envs: Number of robots.
        motors: ``"real"``, those of the quadruped's YAML: a delay, a PD controller, a torque-speed line. ``"ideal"``:
            the same controllers, without delay and limits. ``"servo"``: MuJoCo's own position servos. The path of
            another YAML, the name of a motor in the catalogue, or one `ActuatorConfig` for all joints.
        episode_seconds: Length of an episode [s].
        commands: Ranges of forward and sideways velocity [m/s] and yaw rate [rad/s].
        rewards: Weights of rewards other than those of `REWARDS`, by name.
        autoreset_mode: When an environment that ended starts again: at the next step, in the same one, or not without
            a `reset`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        motors: MotorsLike = "real",
        *,
        episode_seconds: float = 20.0,
        commands: Sequence[tuple[float, float]] = COMMANDS,
        rewards: Mapping[str, float] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ):
        self.autoreset_mode = _checked_mode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_fps": round(1.0 / (DT * SUBSTEPS))}
        self.weights = checked_weights(rewards)
        self._ranges = _checked_ranges(commands)
        self.max_episode_steps = _checked_steps(episode_seconds)
        self.simulation = MujocoSimulation(assets.quadruped_mjcf, num_envs, DT)
        self.robots = Articulation("base", self.simulation)
        pairs = motors_of(motors, self.robots.dof_names)
        self.actuators = (
            ArticulationActuators.from_actuators("base", pairs, simulation=self.simulation) if pairs else None
        )
        """The motors; None for MuJoCo's own servos."""
        self.num_envs = num_envs
        dofs = self.robots.num_dofs
        self._home = self.robots.get_dof_positions().numpy()[0]
        self._gains = [gain.numpy()[0] for gain in self.robots.get_dof_gains()]
        self._most = self.robots.get_dof_max_efforts().numpy()[0]
        self.single_observation_space = Box(-np.inf, np.inf, (14 + 3 * dofs,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (dofs,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        arrays = self.simulation.arrays
        self._q = arrays.joint_q.numpy().reshape(num_envs, -1)
        self._qd = arrays.joint_qd.numpy().reshape(num_envs, -1)
        self._efforts = arrays.joint_f.numpy().reshape(num_envs, -1)[:, -dofs:]
        self._generators = [np.random.default_rng() for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=bool)
        self._actions = np.zeros((num_envs, dofs), np.float32)
        self.commands = np.zeros((num_envs, 3), np.float32)
        """What the robots are told: forward and sideways velocity [m/s] and yaw rate [rad/s], shape (N, 3)."""
        self.reward_terms: dict[str, np.ndarray] = {}
        """What each term added to the last reward, shape (N,)."""
        self._is_ready = False

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:
        """The generator of each environment."""
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:
        """The seed of each environment; None where none was given."""
        return tuple(self._seeds)

    @property
    def velocities(self) -> np.ndarray:
        """How robots move, as `commands` say it, shape (N, 3)."""
        motion = self._motion()
        return np.column_stack([motion.linear_velocity[:, :2], motion.angular_velocity[:, 2]])

    def telemetry(self) -> Telemetry | None:
        """What the motors did in the last step of physics. None for MuJoCo's own servos."""
        return None if self.actuators is None else self.actuators.telemetry()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes, in all environments or some. What their motors remember is forgotten too.

        Args:
            seed: Environment i starts from ``seed + i``; or one seed for each. Default: generators go on.
            options: ``{"reset_mask": ...}``, a mask of booleans, or ``{"env_ids": ...}``, numbers: which environments.
                The others go on unchanged. Default: all.

        Returns:
            Observations of all environments, shape (N, 50), and no more information.
        """
        ids, seeds = self._chosen(options), self._checked_seeds(seed)
        if not self._is_ready and len(ids) < self.num_envs:
            raise SimulationError("reset: the first one must be of all environments")
        for i in ids:
            if seeds[i] is not None:
                self._seeds[i], self._generators[i] = seeds[i], np.random.default_rng(seeds[i])
        self._start(ids)
        self._is_ready = True
        return self._observe(self._motion()), {}

    def step(self, actions: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Let all robots act for 20 ms.

        Args:
            actions: From -1 to 1, shape (N, 12).

        Returns:
            Observations of shape (N, 50), rewards, terminations and truncations of shape (N,), and ``final_obs`` of
            those that ended and started again in this step.

        Raises:
            ArrayError: Actions have another shape, or one is NaN or infinite. Nothing has moved.
            SimulationError: There was no `reset`; or a robot diverged, see `MujocoSimulation.step`.
        """
        given = self._checked_actions(actions)
        starting = np.flatnonzero(self._ended)
        targets = self._targets(given)
        self.robots.set_dof_position_targets(self._home + targets)
        self.simulation.step(SUBSTEPS)
        self._steps += 1
        motion = self._motion()
        fell = (motion.height < _LOWEST) | (motion.gravity[:, 2] > _STEEPEST)
        rewards = self._pay(motion, targets, given, fell)
        self._actions = given
        late = ~fell & (self._steps >= self.max_episode_steps)
        due = np.flatnonzero(self._steps % round(_COMMAND_SECONDS / (DT * SUBSTEPS)) == 0)
        if due.size:
            self._command(due)
        infos: dict[str, Any] = {}
        observations = self._observe(motion)
        self._ended = fell | late
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            starting = np.flatnonzero(self._ended)
            infos = self._final(observations, starting)
        elif starting.size:
            rewards[starting], fell[starting], late[starting] = 0.0, False, False
        if starting.size:
            self._start(starting)
            observations[starting] = self._observe(self._motion())[starting]
        return observations, rewards, fell, late, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of the simulation."""
        self.simulation.close()

    def _start(self, ids: np.ndarray) -> None:
        """Bring environments to the start of an episode."""
        if not ids.size:
            return
        self.simulation.reset(ids)
        dofs = self.robots.num_dofs
        drawn = np.stack([self._generators[i].uniform(-1.0, 1.0, dofs + 3) for i in ids]).astype(np.float32)
        velocities = np.zeros((len(ids), 6), np.float32)
        velocities[:, [0, 1, 5]] = _START_VELOCITY * drawn[:, dofs:]
        self.robots.set_dof_positions(self._home + _START_POSITION * drawn[:, :dofs], ids)
        self.robots.set_root_velocities(velocities, ids)
        self._steps[ids], self._ended[ids], self._actions[ids] = 0, False, 0.0
        self._command(ids)

    def _command(self, ids: np.ndarray) -> None:
        """Draw commands."""
        low, high = self._ranges
        for i in ids:
            self.commands[i] = self._generators[i].uniform(low, high)

    def _motion(self) -> Motion:
        q, qd = self._q, self._qd
        w, x, y, z = q[:, 3:7].T
        turned = np.empty((self.num_envs, 3, 3), np.float32)
        """Axes of the base in the world, as columns."""
        turned[:, 0, 0] = 1.0 - 2.0 * (y * y + z * z)
        turned[:, 0, 1] = 2.0 * (x * y - w * z)
        turned[:, 0, 2] = 2.0 * (x * z + w * y)
        turned[:, 1, 0] = 2.0 * (x * y + w * z)
        turned[:, 1, 1] = 1.0 - 2.0 * (x * x + z * z)
        turned[:, 1, 2] = 2.0 * (y * z - w * x)
        turned[:, 2, 0] = 2.0 * (x * z - w * y)
        turned[:, 2, 1] = 2.0 * (y * z + w * x)
        turned[:, 2, 2] = 1.0 - 2.0 * (x * x + y * y)
        linear = np.einsum("nij,ni->nj", turned, qd[:, :3])
        return Motion(linear, qd[:, 3:6], -turned[:, 2], q[:, 2], q[:, 7:] - self._home, qd[:, 6:])

    def _phase(self) -> np.ndarray:
        """Of the clock [rad], shape (N, 1)."""
        return 2.0 * np.pi * _CLOCK * DT * SUBSTEPS * self._steps[:, None]

    def _targets(self, actions: np.ndarray) -> np.ndarray:
        """Where joints are told to go, from home [rad], shape (N, D)."""
        swing = np.maximum(np.sin(self._phase()) * _TROT, 0.0)
        trot = swing[:, :, None] * _LIFT
        return ACTION_SCALE * actions + trot.reshape(actions.shape).astype(np.float32)

    def _observe(self, motion: Motion) -> np.ndarray:
        linear, angular, phase = _SCALES["linear"], _SCALES["angular"], self._phase()
        parts = [
            motion.linear_velocity * linear,
            motion.angular_velocity * angular,
            motion.gravity,
            self.commands * (linear, linear, angular),
            motion.position,
            motion.velocity * _SCALES["joint_velocity"],
            self._actions,
            np.sin(phase),
            np.cos(phase),
        ]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _pay(self, motion: Motion, targets: np.ndarray, actions: np.ndarray, fell: np.ndarray) -> np.ndarray:
        """Rewards, shape (N,)."""
        effort = self._efforts
        if self.actuators is None:
            stiffness, damping = self._gains
            wanted = stiffness * (targets - motion.position) - damping * motion.velocity
            effort = np.clip(wanted, -self._most, self._most)
        terms = reward_terms(motion, self.commands, effort, actions - self._actions, fell)
        for name, term in terms.items():
            term *= self.weights[name] * (1.0 if name == "fall" else DT * SUBSTEPS)
        self.reward_terms = terms
        return np.asarray(np.sum(list(terms.values()), axis=0, dtype=np.float32))

    def _final(self, observations: np.ndarray, ids: np.ndarray) -> dict[str, Any]:
        """What Gymnasium wants to know of environments that end and start again in one step."""
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
            raise ArrayTypeError(f"actions: got {shown(actions)}; must be numbers of shape {self._actions.shape}")
        if given.shape != self._actions.shape:
            raise ArrayError(f"actions: got shape {given.shape}; must be {self._actions.shape}, a row for each robot")
        if not np.isfinite(given).all():
            env, joint = np.argwhere(~np.isfinite(given))[0]
            name = self.robots.dof_names[joint]
            raise ArrayError(f"actions: got {given[env, joint]} for '{name}' of environment {env}; must be finite")
        return np.clip(given, -1.0, 1.0).astype(np.float32, copy=False)

    def _chosen(self, options: dict[str, Any] | None) -> np.ndarray:
        """The environments that options name."""
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
        """One for each environment."""
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


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _checked_ranges(commands: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest commands, each of shape (3,)."""
    try:
        ranges = np.array(commands, dtype=np.float64)
    except (TypeError, ValueError):
        ranges = np.zeros(0)
    if ranges.shape != (3, 2) or not np.isfinite(ranges).all() or (ranges[:, 0] > ranges[:, 1]).any():
        raise ParameterError(
            f"commands: got {shown(commands)}; must be lowest and highest forward velocity [m/s], sideways velocity "
            "[m/s] and yaw rate [rad/s]"
        )
    return ranges[:, 0], ranges[:, 1]


def _checked_mode(mode: Any) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ParameterError(f"autoreset_mode: got {shown(mode)}; must be an AutoresetMode, or {known}") from error


def _checked_steps(seconds: Any) -> int:
    is_number = isinstance(seconds, (int, float, np.number)) and not isinstance(seconds, bool)
    if not is_number or not DT * SUBSTEPS <= seconds < 1e9:
        raise ParameterError(f"episode_seconds: got {shown(seconds)}; must be a number from {DT * SUBSTEPS} on [s]")
    return round(seconds / (DT * SUBSTEPS))
