# SPDX-License-Identifier: Apache-2.0
"""Robots in physics engines: simulations, and articulations in them."""

from .articulation import Articulation
from .events import Event, Subscription
from .mujoco_sim import MujocoSimulation
from .newton_sim import NewtonSimulation
from .simulation import Robot, Simulation, current_simulation
