# SPDX-License-Identifier: Apache-2.0
"""Motor models as actuators of mjlab's entities: on PyTorch tensors, reset and randomised per environment."""

from importlib.util import find_spec as _find_spec

from .errors import MissingExtraError as _MissingExtraError

if _find_spec("mjlab") is None:
    raise _MissingExtraError("mjlab~=1.6.0", None, "actuon.mjlab")

from .attach.mjlab.actuator import ActuonActuator as ActuonActuator, ActuonActuatorCfg as ActuonActuatorCfg
from .attach.mjlab.chains import EnvironmentMotors as EnvironmentMotors
from .attach.mjlab.events import (
    randomize as randomize,
    randomize_motors as randomize_motors,
    solve_friction as solve_friction,
)

__all__ = [
    "ActuonActuator",
    "ActuonActuatorCfg",
    "EnvironmentMotors",
    "randomize",
    "randomize_motors",
    "solve_friction",
]
