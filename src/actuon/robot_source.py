# SPDX-License-Identifier: Apache-2.0
"""Robots and motors by name: a robot file, an actuon.yaml, or a motor of the catalogue.

Python, the commands and the studio all use `find_source`. A `RobotSource` knows the file of the robot, the file of its
motors, and the engine that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actuon.actuator.config import ActuatorConfig
from actuon.actuator.trials import Conditions, at_rest
from actuon.attach.articulation_actuators import read_actuators, without_actuators
from actuon.attach.motors import actuator_with
from actuon.components.controllers.pd import PDControlConfig
from actuon.errors import Option, RobotFileError, require
from actuon.files import check_readable
from actuon.motor_source import configs_of, named_motor
from actuon.motors.catalogue import find_motor
from actuon.robot_files.formats import MUJOCO_FORMATS, USD_FORMATS, YAML_FORMATS
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, yaml_beside
from actuon.sim import Articulation, Simulation
from actuon.typing import PathLike

ROBOT_FORMATS = (*USD_FORMATS, *MUJOCO_FORMATS)
FORMATS = (*ROBOT_FORMATS, *YAML_FORMATS)
ENGINES = {"mujoco": MUJOCO_FORMATS, "newton": (*USD_FORMATS, ".xml")}
"""Engines, and the formats that they read."""
ROOT = Option("root", "--root")
_ENGINE, _ACTUATORS = Option("engine", "--engine"), Option("actuators", "--actuators")
_GRAVITY = 9.81
_LENGTH = 0.25
"""Length of the pendulum that a motor moves [m]."""
_SHARE = 0.3
"""Share of the motor's effort at rest that holds the pendulum horizontally."""


@dataclass(frozen=True)
class RobotSource:
    """A robot with motors, an ``actuon.yaml`` alone, or a motor of the catalogue."""

    title: str
    """Name of the file, or of the motor."""
    path: Path | None
    """File of the robot; None for a motor, or for a YAML alone."""
    allow_torch: bool = False
    """Whether to load ``.pt`` and ``.pt2`` networks named by a file, which can execute code."""
    motor: str = ""
    """Name of a motor in the catalogue; empty for files."""
    actuators: Path | None = None
    """YAML with the motors, if named; it replaces those in or next to the robot's file."""
    root: str | None = None
    """Path of the robot's root prim, in USD."""

    @property
    def file(self) -> Path:
        """The file that was named.

        Raises:
            RobotFileError: A motor was named.
        """
        found = self.path or self.actuators
        if found is None:
            raise RobotFileError(f"'{self.title}' is a motor of the catalogue; must be a robot's file")
        return found

    @property
    def is_usd(self) -> bool:
        """Whether the robot's file is a USD stage."""
        return self.path is not None and self.path.suffix.lower() in USD_FORMATS

    @property
    def yaml(self) -> Path | None:
        """The YAML with the motors: the one named, or the one next to the robot's file."""
        return self.actuators or yaml_beside(self.path)

    def has_prims(self) -> bool:
        """Return whether the motors are prims in the robot's file."""
        if not self.is_usd or self.actuators is not None:
            return False
        from actuon.robot_files.usd.attributes import ACTUATOR
        from actuon.robot_files.usd.stage import open_stage

        stage = open_stage(self.file)
        return any(prim.GetTypeName() == ACTUATOR for prim in stage.Traverse())

    def motors_from(self) -> str:
        """Return the source of the motors as text, for the first line of a command."""
        if self.motor:
            return f"motor {self.motor} of the catalogue"
        if self.has_prims():
            return f"motors from {self.title}"
        if self.yaml is None:
            return f"no motors in or next to {self.title}"
        return f"motors from {self.yaml.name if self.yaml.parent == self.file.parent else self.yaml}"

    def with_robot(self) -> RobotSource:
        """Return the source with the robot file next to a YAML.

        Raises:
            RobotFileError: No robot file is next to it, or several are.
        """
        from actuon.stability.report import robot_file

        return self if self.path is not None else replace(self, path=robot_file(self.file))

    def in_engine(self, engine: str | None = None) -> tuple[str, RobotSource]:
        """Return the name of the engine, and the source with a robot file that it reads.

        Args:
            engine: One of `ENGINES`. Default: the one that reads the file. Another one reads a file of the same name
                next to it, in its format.

        Raises:
            RobotFileError: The engine is unknown, or the file does not exist.
        """
        if engine is not None and engine not in ENGINES:
            raise RobotFileError(f"got '{engine}'; must be one of {', '.join(ENGINES)}", option=_ENGINE)
        if self.path is None:
            if engine not in (None, "mujoco"):
                raise RobotFileError(f"got '{engine}'; must be mujoco for '{self.title}'", option=_ENGINE)
            return "mujoco", self if self.motor else self.with_robot()
        suffix = self.path.suffix.lower()
        engine = engine or next(name for name, formats in ENGINES.items() if suffix in formats)
        formats = ENGINES[engine]
        candidates = [self.path] if suffix in formats else [self.path.with_suffix(ending) for ending in formats]
        for path in candidates:
            if path.is_file():
                return engine, replace(self, path=path, title=path.name)
        raise RobotFileError(f"{engine} cannot read '{self.path}', and {candidates[0].name} does not exist next to it")

    def make(self, num_envs: int = 1, engine: str | None = None) -> Simulation:
        """Simulate the robot, or the motor on a pendulum: in MuJoCo, or in Newton with MuJoCo inside for USD."""
        from actuon.sim import MujocoSimulation, NewtonSimulation  # which need MuJoCo

        if self.motor:
            return MujocoSimulation(_pendulum(self.motor), num_envs)
        name, source = self.in_engine(engine)
        if name == "mujoco":
            return MujocoSimulation(source.file, num_envs)
        from actuon.sim.newton.adjoints import leave_out_adjoints

        leave_out_adjoints()
        return NewtonSimulation(source.file, num_envs)

    def configs(self, articulation: Articulation) -> dict[str, ActuatorConfig]:
        """Return the actuators of the robot in its engine, by name of the DOF.

        Raises:
            RobotFileError: The robot has none, or they cannot be read.
        """
        names = articulation.dof_names
        if self.motor:
            return {names[0]: motor_actuator(self.motor)}
        if self.actuators is not None:
            return matched_configs(self.actuators, names, self.allow_torch)
        found = read_actuators(articulation, self.allow_torch)
        if not found:
            raise without_actuators(articulation)
        return {names[column]: found[column] for column in sorted(found)}

    def entries(self) -> list[ActuatorEntry]:
        """Return the entries of its YAML, or the motor as an entry for any joint."""
        if self.motor:
            bare = find_motor(self.motor).datasheet.actuator(PDControlConfig(0.0, 0.0))
            return [ActuatorEntry(self.motor, (".*",), bare)]
        return [] if self.yaml is None else load_actuators(self.yaml, self.allow_torch)

    def pendulum(self) -> dict[str, float]:
        """Return ``mass`` [kg] and ``length`` [m] of the pendulum that a motor moves."""
        return {"mass": _mass(_at_rest(self.motor)), "length": _LENGTH}


def find_source(
    robot: PathLike, allow_torch: bool = False, actuators: PathLike | None = None, root: str | None = None
) -> RobotSource:
    """Find a robot file, an ``actuon.yaml``, or a motor of the catalogue.

    Args:
        robot: Path of a file, or name of a motor.
        allow_torch: Load ``.pt`` and ``.pt2`` networks named by a file, which can execute code.
        actuators: YAML with the robot's motors, instead of those in or next to its file.
        root: Path of the robot's root prim, in USD. Default: the file's default prim.

    Raises:
        RobotFileError: It is none of these, or cannot be read.
    """
    path = Path(robot)
    suffix, motor = path.suffix.lower(), named_motor(robot)
    if motor is not None:
        if actuators is not None:
            raise RobotFileError(
                f"got '{actuators}' for the motor '{motor.name}'; name a robot file instead of the motor",
                option=_ACTUATORS,
            )
        return RobotSource(motor.name, None, allow_torch, motor.name)
    check_readable(path, FORMATS)
    if root is not None and suffix not in USD_FORMATS:
        raise RobotFileError(f"got a prim of a USD file, but '{path}' is not one", option=ROOT)
    if suffix in YAML_FORMATS:
        if actuators is not None:
            raise RobotFileError(
                f"got '{actuators}' for the motors in '{path}'; name a robot file instead of '{path}'",
                option=_ACTUATORS,
            )
        return RobotSource(path.name, None, allow_torch, actuators=path)
    if actuators is not None:
        check_readable(Path(actuators), YAML_FORMATS)
    return RobotSource(path.name, path, allow_torch, "", None if actuators is None else Path(actuators), root)


def matched_configs(yaml: Path, joints: Sequence[str], allow_torch: bool = False) -> dict[str, ActuatorConfig]:
    """Return the actuators of joints in a YAML, by name of the joint."""
    return configs_of(yaml, load_actuators(yaml, allow_torch), joints)


def motor_actuator(name: str) -> ActuatorConfig:
    """Return a motor of the catalogue with a PD controller that suits its pendulum."""
    return actuator_with(find_motor(name).datasheet)


def _at_rest(name: str) -> float:
    """Return the largest effort of a motor at rest [N·m]."""
    return at_rest(find_motor(name).datasheet.actuator(PDControlConfig(0.0, 0.0)), Conditions()) or 1.0


def _mass(effort: float) -> float:
    return _SHARE * effort / (_GRAVITY * _LENGTH)


def _pendulum(name: str) -> Any:
    mujoco = require("mujoco", "mujoco", "a motor on a pendulum")
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


__all__ = ["RobotSource", "find_source"]


def __dir__() -> list[str]:
    return __all__
