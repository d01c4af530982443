# SPDX-License-Identifier: Apache-2.0
"""The quadruped as a Gymnasium vector environment that follows velocity commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from .. import assets
from ..attach.groups.randomisation import Distribution
from ..errors import ParameterError, shown
from .motors import MotorsLike, motors_of
from .rewards import Motion, checked_weights, reward_terms
from .robot_env import RobotEnv
from .single_env import SingleEnv

DT = 0.004
"""Time step of physics and motors [s]."""
SUBSTEPS = 5
"""Time steps per step of the environment, at 50 Hz."""
ACTION_SCALE = 0.5
"""Change of a joint's target by an action of 1 [rad]."""
JOINTS = tuple(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf"))
"""Names of the joints, in their order."""
COMMANDS = ((-1.0, 1.0), (-0.4, 0.4), (-1.0, 1.0))
"""Ranges of forward and sideways velocity [m/s] and yaw rate [rad/s]."""

_COMMAND_SECONDS = 5.0
"""Duration of a command [s]."""
_CLOCK = 2.0
"""Frequency of the trot [Hz]."""
_LIFT = np.array([0.0, 0.17, -0.34], np.float32)
"""Change of hip, thigh and calf that lifts a foot by 6 cm [rad]."""
_TROT = np.array([1.0, -1.0, -1.0, 1.0], np.float32)
"""Sign per foot: front left and rear right swing while the sine of the clock is positive, then the others."""
_LOWEST = 0.15
"""Height of the base below which a robot has fallen [m]."""
_STEEPEST = -0.5
"""Component of gravity along the axis of the base above which a robot has fallen: tilted by 60°."""
_START_POSITION, _START_VELOCITY = 0.1, 0.3
"""Largest deviation of joints [rad] and of the base velocity [m/s] from home at the start."""
_SCALES = {"linear": 2.0, "angular": 0.25, "joint_velocity": 0.05}
"""Factors that bring observations to about 1."""


class QuadrupedEnv(RobotEnv):
    """Quadrupeds that follow velocity commands, with ideal or real motors.

    A step lasts 20 ms. Without actions, robots trot on the spot at 2 Hz. An action, from -1 to 1 for each of 12 joints,
    moves its target from there by up to 0.5 rad; larger ones are clipped. An observation has 50 numbers, in the frame
    of the base: linear velocity [0.5 m/s], angular velocity [4 rad/s], direction of gravity, the command in the units
    of the velocities, positions of joints relative to home [rad], their velocities [20 rad/s], the last action, and
    sine and cosine of the trot. An episode terminates if a robot falls, and is truncated after ``episode_seconds``.
    Commands change every 5 s.

    Each environment has its own random generator, so its results do not depend on the others.

    Args:
        num_envs: Number of robots.
        motors: ``"real"``: motors of the quadruped's YAML, with delay, PD controller and torque-speed line.
            ``"ideal"``: the same controllers without delay and limits. ``"servo"``: MuJoCo's own position servos. Or
            the path of another YAML, the name of a motor in the catalogue, or one `ActuatorConfig` for all joints.
        episode_seconds: Length of an episode [s].
        commands: Ranges of forward and sideways velocity [m/s] and yaw rate [rad/s].
        rewards: Weights of rewards by name that replace those of `REWARDS`.
        randomize: Distributions of motor parameters by path, drawn at the start of each episode. See `RobotEnv`.
        autoreset_mode: When an environment that ended is reset: in the next step, in the same step, or by `reset` only.
        render_mode: ``"rgb_array"`` if `render` is used.

    Examples:
        >>> envs = actuon.gym.QuadrupedEnv(num_envs=2)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations, rewards, *ends, infos = envs.step(np.zeros((2, 12)))
        >>> observations.shape, rewards.shape
        ((2, 50), (2,))
        >>> envs.close()
    """

    def __init__(
        self,
        num_envs: int = 1,
        motors: MotorsLike = "real",
        *,
        episode_seconds: float = 20.0,
        commands: Sequence[tuple[float, float]] = COMMANDS,
        rewards: Mapping[str, float] | None = None,
        randomize: Mapping[str, Distribution] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ):
        self.weights = checked_weights(rewards)
        self._ranges = _checked_ranges(commands)
        pairs = motors_of(motors, JOINTS)
        super().__init__(
            assets.quadruped_mjcf,
            num_envs,
            {joint: config for config, joint in pairs} or None,
            randomize=randomize,
            action_scale=ACTION_SCALE,
            dt=DT,
            substeps=SUBSTEPS,
            episode_seconds=episode_seconds,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        self._gains = [gain.numpy()[0] for gain in self.robots.get_dof_gains()]
        self._most = self.robots.get_dof_max_efforts().numpy()[0]
        arrays = self.simulation.arrays
        self._q = arrays.joint_q.numpy().reshape(num_envs, -1)
        self._qd = arrays.joint_qd.numpy().reshape(num_envs, -1)
        self._efforts = arrays.joint_f.numpy().reshape(num_envs, -1)[:, -self.robots.num_dofs :]
        self.commands = np.zeros((num_envs, 3), np.float32)
        """Commanded forward and sideways velocity [m/s] and yaw rate [rad/s], shape (N, 3)."""
        self.reward_terms: dict[str, np.ndarray] = {}
        """Contribution of each term to the last reward, shape (N,)."""
        self._motion = self._measured()
        self._targets = np.zeros_like(self.action)

    @property
    def velocities(self) -> np.ndarray:
        """Measured velocities, in the order of `commands`, shape (N, 3)."""
        motion = self._measured()
        return np.column_stack([motion.linear_velocity[:, :2], motion.angular_velocity[:, 2]])

    def _command(self, actions: np.ndarray) -> None:
        """Set the targets of a trot on the spot, plus the actions."""
        swing = np.maximum(np.sin(self._phase()) * _TROT, 0.0)
        trot = swing[:, :, None] * _LIFT
        self._targets = self.action_scale * actions + trot.reshape(actions.shape).astype(np.float32)
        self.robots.set_dof_position_targets(self.home + self._targets)

    def _moved(self) -> None:
        self._motion = self._measured()

    def _terminations(self) -> np.ndarray:
        fell: np.ndarray = (self._motion.height < _LOWEST) | (self._motion.gravity[:, 2] > _STEEPEST)
        return fell

    def _rewards(self) -> np.ndarray:
        motion, effort = self._motion, self._efforts
        if self.actuators is None:
            stiffness, damping = self._gains
            wanted = stiffness * (self._targets - motion.position) - damping * motion.velocity
            effort = np.clip(wanted, -self._most, self._most)
        terms = reward_terms(motion, self.commands, effort, self.action - self.last_action, self._terminations())
        for name, term in terms.items():
            term *= self.weights[name] * (1.0 if name == "fall" else DT * SUBSTEPS)
        self.reward_terms = terms
        return np.asarray(np.sum(list(terms.values()), axis=0, dtype=np.float32))

    def _advance(self) -> None:
        """Draw new commands at the end of their duration."""
        due = np.flatnonzero(self._steps % round(_COMMAND_SECONDS / (DT * SUBSTEPS)) == 0)
        if due.size:
            self._draw_commands(due)

    def _observation_size(self) -> int:
        return 14 + 3 * self.robots.num_dofs

    def _observations(self) -> np.ndarray:
        motion = self._motion
        linear, angular, phase = _SCALES["linear"], _SCALES["angular"], self._phase()
        parts = [
            motion.linear_velocity * linear,
            motion.angular_velocity * angular,
            motion.gravity,
            self.commands * (linear, linear, angular),
            motion.position,
            motion.velocity * _SCALES["joint_velocity"],
            self.action,
            np.sin(phase),
            np.cos(phase),
        ]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _start_state(self, ids: np.ndarray) -> None:
        """Move joints and base slightly at random, and draw commands."""
        dofs = self.robots.num_dofs
        drawn = np.stack([self._generators[i].uniform(-1.0, 1.0, dofs + 3) for i in ids]).astype(np.float32)
        velocities = np.zeros((len(ids), 6), np.float32)
        velocities[:, [0, 1, 5]] = _START_VELOCITY * drawn[:, dofs:]
        self.robots.set_dof_positions(self.home + _START_POSITION * drawn[:, :dofs], ids)
        self.robots.set_root_velocities(velocities, ids)
        self._draw_commands(ids)

    def _draw_commands(self, ids: np.ndarray) -> None:
        low, high = self._ranges
        for i in ids:
            self.commands[i] = self._generators[i].uniform(low, high)

    def _measured(self) -> Motion:
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
        return Motion(linear, qd[:, 3:6], -turned[:, 2], q[:, 2], q[:, 7:] - self.home, qd[:, 6:])

    def _phase(self) -> np.ndarray:
        """Return the phase of the clock [rad], shape (N, 1)."""
        return 2.0 * np.pi * _CLOCK * DT * SUBSTEPS * self._steps[:, None]


def make_quadruped(**options: Any) -> SingleEnv:
    """Return one quadruped as a plain environment, with the options of `QuadrupedEnv`."""
    return SingleEnv(QuadrupedEnv(1, autoreset_mode=AutoresetMode.DISABLED, **options))


def _checked_ranges(commands: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest commands, each of shape (3,)."""
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
