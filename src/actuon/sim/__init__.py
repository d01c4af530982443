# SPDX-License-Identifier: Apache-2.0
"""Robots in physics engines: simulations, and articulations in them."""

from .articulation import Articulation as Articulation
from .events import Event as Event, Subscription as Subscription
from .mujoco.simulation import MujocoSimulation as MujocoSimulation
from .newton.simulation import NewtonSimulation as NewtonSimulation
from .robot import Robot as Robot
from .simulation import Simulation as Simulation, current_simulation as current_simulation

__all__ = [
    "Articulation",
    "Event",
    "MujocoSimulation",
    "NewtonSimulation",
    "Robot",
    "Simulation",
    "Subscription",
    "current_simulation",
]


def __dir__() -> list[str]:
    return __all__
