# SPDX-License-Identifier: Apache-2.0
"""`SingleEnv`: one robot as a plain Gymnasium environment, for libraries without vector environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from ..errors import ParameterError
from ..typing import ArrayLike
from .robot_env import RENDER_MODES, RobotEnv


class SingleEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Plain environment of a `RobotEnv` with one robot.

    Args:
        envs: An environment with ``num_envs=1`` and ``autoreset_mode="Disabled"``. It stays accessible as
            ``env.envs``.

    Examples:
        >>> import gymnasium
        >>> import actuon.gym  # registers the environments
        >>> env = gymnasium.make("actuon/Quadruped-v0", motors="servo")
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, *ends, info = env.step(np.zeros(12, np.float32))
        >>> env.close()
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(self, envs: RobotEnv):
        if envs.num_envs != 1 or envs.autoreset_mode is not AutoresetMode.DISABLED:
            raise ParameterError(
                f"envs: got num_envs={envs.num_envs} and autoreset_mode={envs.autoreset_mode.value!r}; must be 1 and "
                "'Disabled'"
            )
        self.envs = envs
        self.render_mode = envs.render_mode
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": envs.metadata["render_fps"]}
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode. See `RobotEnv.reset`."""
        super().reset(seed=seed)
        observations, infos = self.envs.reset(seed=seed, options=options or None)
        (self._np_random,) = self.envs.np_random
        return observations[0], infos

    def step(self, action: ArrayLike) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step the environment. See `RobotEnv.step`."""
        observations, rewards, failed, late, infos = self.envs.step(np.asarray(action)[None])
        return observations[0], float(rewards[0]), bool(failed[0]), bool(late[0]), infos

    def render(self) -> np.ndarray | None:
        """Return an image. See `RobotEnv.render`."""
        pictures = self.envs.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Close the environment."""
        self.envs.close()
