# SPDX-License-Identifier: Apache-2.0
"""``actuon fit --author``: the actuators of a fit into the USD file of the robot that was logged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actuon.actuator.config import ActuatorConfig
from actuon.components.controllers.pd import PDControlConfig
from actuon.errors import RobotFileError, listed, located
from actuon.robot_files.formats import USD_WRITTEN
from actuon.robot_files.yaml import ActuatorEntry


def check_file(robot: Path) -> None:
    """Check that a file is a stage of USD. Call before the logs are read.

    Raises:
        RobotFileError: It has another format, or cannot be read.
        MissingExtraError: USD is not installed.
    """
    from actuon.robot_files.usd.stage import open_stage

    if robot.suffix.lower() not in USD_WRITTEN:
        raise RobotFileError(
            f"--author: '{robot}' has the format '{robot.suffix}'; must be one of {', '.join(USD_WRITTEN)}"
        )
    open_stage(robot)


def check_robot(robot: Path, joints: Sequence[str], force: bool) -> None:
    """Check that actuators of these joints can be written into a robot. Call before the fit.

    Args:
        robot: A USD file.
        joints: Names of the joints in the logs.
        force: Replace actuators of the same names.

    Raises:
        RobotFileError: A joint is missing, or has another actuator already.
    """
    from actuon.robot_files.usd.author import author_actuators
    from actuon.robot_files.usd.stage import default_root, joint_paths, open_stage

    stage = open_stage(robot)
    root = default_root(stage)
    known = joint_paths(root)
    for joint in joints:
        if joint not in known:
            raise RobotFileError(
                f"--author: '{robot}' has no joint '{joint}', as the logs call it; {listed(joint, known, 'joints')}. "
                "--columns with 'joints' gives those of the logs other names"
            )
    stage.SetEditTarget(stage.GetSessionLayer())
    trial = ActuatorConfig(PDControlConfig(1.0, 0.0))
    entries = [ActuatorEntry(joint, (joint,), trial) for joint in joints]
    with located(f"--author: '{robot}'", RobotFileError):
        written = {
            str(prim.GetPath()) for prim in author_actuators(root, entries, overwrite_existing=force, stage=stage)
        }
    _check_alone(robot, {known[joint] for joint in joints}, written)


def _check_alone(robot: Path, joints: set[str], written: set[str]) -> None:
    """Raise an error if another actuator of the robot drives one of these joints."""
    from actuon.robot_files.usd.read import parse_actuators

    for actuator in parse_actuators(robot):
        if actuator.prim_path not in written and actuator.target_path in joints:
            raise RobotFileError(
                f"--author: '{robot}': {actuator.prim_path} drives {actuator.target_path} already; remove it first"
            )


def write_robot(robot: Path, entries: Sequence[ActuatorEntry]) -> list[str]:
    """Write actuators into a robot that was checked; returns the paths of their prims."""
    from actuon.robot_files.usd.author import author_file

    return author_file(robot, entries, robot, overwrite_existing=True)
