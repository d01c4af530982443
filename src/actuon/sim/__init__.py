# SPDX-License-Identifier: Apache-2.0
"""Simulations of robots in physics engines."""

from typing import TYPE_CHECKING

from .articulation import Articulation as Articulation
from .events import Event as Event, Subscription as Subscription
from .robots import Robot as Robot
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

if TYPE_CHECKING:
    from .mujoco.simulation import MujocoSimulation as MujocoSimulation
    from .newton.simulation import NewtonSimulation as NewtonSimulation
else:

    def __getattr__(name):
        import importlib

        from ..errors import MissingExtraError

        engines = {"MujocoSimulation": "mujoco", "NewtonSimulation": "newton"}
        if name not in engines:
            raise AttributeError(f"module 'actuon.sim' has no attribute {name!r}")
        try:
            module = importlib.import_module(f".{engines[name]}.simulation", __name__)
        except ModuleNotFoundError as error:
            if error.name != "mujoco":
                raise
            raise MissingExtraError("mujoco", engines[name], "simulating with MuJoCo or Newton") from error
        return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
