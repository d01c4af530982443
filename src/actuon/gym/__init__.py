# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments: any robot with its motors, and the quadruped of Actuon."""

from ..errors import MissingExtraError

try:
    import gymnasium
except ImportError as error:
    raise MissingExtraError("gymnasium", "gym", "actuon.gym") from error

from .motors import MotorsLike as MotorsLike
from .quadruped import QuadrupedEnv as QuadrupedEnv
from .rewards import REWARDS as REWARDS
from .robot_env import RobotEnv as RobotEnv
from .single_env import SingleEnv as SingleEnv

gymnasium.register(
    "actuon/Quadruped-v0",
    entry_point="actuon.gym.quadruped:make_quadruped",
    vector_entry_point="actuon.gym.quadruped:QuadrupedEnv",
)

__all__ = [
    "REWARDS",
    "MotorsLike",
    "QuadrupedEnv",
    "RobotEnv",
    "SingleEnv",
]


def __dir__() -> list[str]:
    return __all__
