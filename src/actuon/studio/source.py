# SPDX-License-Identifier: Apache-2.0
"""What the studio opens: a robot's file, or a motor by name on a pendulum."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..actuator.config import ActuatorConfig
from ..actuator.trials import Conditions, at_rest
from ..attach.articulation_actuators import read_actuators, without_actuators
from ..attach.motors import actuator_with
from ..components.controllers.pd import PDControlConfig
from ..errors import ActuonError, MissingExtraError, RobotFileError, listed
from ..files import check_readable
from ..motors.catalogue import find_motor, motor_names
from ..sim import Articulation, MujocoSimulation, NewtonSimulation, Simulation
from ..sim.mujoco import FORMATS as MUJOCO_FORMATS
from ..typing import PathLike

USD_FORMATS = (".usda", ".usd", ".usdc", ".usdz")
FORMATS = (*MUJOCO_FORMATS, *USD_FORMATS)
_GRAVITY = 9.81
_LENGTH = 0.25
"""Of the pendulum that a motor moves [m]."""
_SHARE = 0.3
"""Of the motor's effort at rest that the pendulum needs to be held out level."""


@dataclass(frozen=True)
class Source:
    """A robot that can be put into an engine, any number of times."""

    title: str
    path: Path | None
    """Its file; None for a motor by name."""
    allow_torch: bool = False
    motor: str = ""

    def make(self) -> Simulation:
        """The robot in its engine: MuJoCo, or Newton with MuJoCo inside for USD."""
        if self.path is None:
            return MujocoSimulation(_pendulum(self.motor))
        if self.path.suffix.lower() in USD_FORMATS:
            return NewtonSimulation(self.path)
        return MujocoSimulation(self.path)

    def pendulum(self) -> dict[str, float]:
        """What a motor by name moves: ``mass`` [kg] at ``length`` [m]."""
        return {"mass": _mass(_at_rest(self.motor)), "length": _LENGTH}

    def configs(self, articulation: Articulation) -> dict[str, ActuatorConfig]:
        """The actuators of its file, by name of the DOF.

        Raises:
            RobotFileError: There are none, or they cannot be read.
        """
        if self.path is None:
            return {articulation.dof_names[0]: motor_actuator(self.motor)}
        found = read_actuators(articulation, self.allow_torch)
        if not found:
            raise RobotFileError(without_actuators(articulation))
        return {articulation.dof_names[column]: found[column] for column in sorted(found)}


def find_source(robot: PathLike, allow_torch: bool = False) -> Source:
    """A robot's file, or a motor of the catalogue.

    Raises:
        RobotFileError: It is neither.
    """
    path = Path(robot)
    if path.suffix.lower() not in FORMATS and len(path.parts) == 1:
        try:
            motor = find_motor(str(robot))
            return Source(motor.name, None, allow_torch, motor.name)
        except ActuonError as error:
            if not os.path.exists(path):
                known = listed(str(robot).lower(), motor_names(), "motors")
                formats = f"a robot's file ({', '.join(FORMATS)})"
                raise RobotFileError(f"'{robot}' is neither {formats} nor a motor; {known}") from error
    check_readable(path, FORMATS)
    return Source(path.name, path, allow_torch)


def motor_actuator(name: str) -> ActuatorConfig:
    """A motor of the catalogue behind a PD controller that suits its pendulum."""
    return actuator_with(find_motor(name).datasheet)


def _at_rest(name: str) -> float:
    """The largest effort that a motor gives at rest [N·m]."""
    return at_rest(find_motor(name).datasheet.actuator(PDControlConfig(0.0, 0.0)), Conditions()) or 1.0


def _mass(effort: float) -> float:
    return _SHARE * effort / (_GRAVITY * _LENGTH)


def _pendulum(name: str) -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("mujoco", "mujoco", "a motor on a pendulum") from error
    mass = _mass(_at_rest(name))
    radius = min(0.08, 0.03 * max(mass, 0.05) ** (1.0 / 3.0) + 0.01)
    height = _LENGTH + radius + 0.06
    return mujoco.MjSpec.from_string(f"""
<mujoco model="{name}">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="Euler" gravity="0 0 -{_GRAVITY}"/>
  <worldbody>
    <geom type="plane" size="2 2 0.1" contype="0" conaffinity="0"/>
    <geom type="box" size="0.03 0.03 {height / 2}" pos="0 0.08 {height / 2}" rgba="0.35 0.38 0.42 1" contype="0"
          conaffinity="0"/>
    <geom type="cylinder" size="0.05 0.03" pos="0 0.03 {height}" quat="1 1 0 0" rgba="0.16 0.18 0.22 1" contype="0"
          conaffinity="0"/>
    <body name="pendulum" pos="0 0 {height}">
      <joint name="motor" type="hinge" axis="0 1 0"/>
      <geom type="cylinder" size="0.03 0.012" pos="0 -0.012 0" quat="1 1 0 0" rgba="0.75 0.77 0.8 1" mass="0"
            contype="0" conaffinity="0"/>
      <geom type="capsule" fromto="0 -0.015 0 0 -0.015 -{_LENGTH}" size="0.012" rgba="0.9 0.55 0.15 1" mass="0"
            contype="0" conaffinity="0"/>
      <geom type="sphere" size="{radius}" pos="0 -0.015 -{_LENGTH}" rgba="0.2 0.45 0.75 1" mass="{mass}" contype="0"
            conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
""")
