# SPDX-License-Identifier: Apache-2.0
"""A Gymnasium vector environment: the quadruped that comes with Actuon, with the motors of your choice."""

from ..errors import MissingExtraError

try:
    import gymnasium
except ImportError as error:
    raise MissingExtraError("gymnasium", "gym", "actuon.gym") from error

from .motors import MotorsLike as MotorsLike
from .quadruped import QuadrupedEnv as QuadrupedEnv
from .rewards import REWARDS as REWARDS

gymnasium.register("actuon/Quadruped-v0", vector_entry_point="actuon.gym:QuadrupedEnv")

__all__ = [
    "REWARDS",
    "MotorsLike",
    "QuadrupedEnv",
]


def __dir__() -> list[str]:
    return __all__
