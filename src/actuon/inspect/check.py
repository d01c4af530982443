# SPDX-License-Identifier: Apache-2.0
"""Stability of the robot of a file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from actuon.errors import ActuonError, RobotFileError
from actuon.robot_files.formats import MUJOCO_FORMATS
from actuon.robot_files.problem import Problem
from actuon.robot_files.usd.report import Report
from actuon.robot_files.yaml import match_actuators
from actuon.robot_source import RobotSource, matched_configs
from actuon.sim.mujoco import mute_mujoco_warnings
from actuon.sim.newton.adjoints import leave_out_adjoints
from actuon.stability.report import CheckResult, check, robot_file

from .own_drives import read_own_drives
from .report import YamlReport, actuators_of


@dataclass(frozen=True)
class Stability:
    """Stability of a file's robot, with problems and notes."""

    result: CheckResult | None
    """None if it could not be computed."""
    problems: list[str]
    """Fixes for each unstable robot."""
    notes: list[str]
    """Warnings, and reasons why stability was not checked."""


def check_stability(source: RobotSource, dt: float | None, report: Report | YamlReport) -> Stability:
    """Compute the stability of a robot. Nothing is simulated.

    Args:
        source: The robot, or its YAML.
        dt: Time step [s]. Default: that of the file.
        report: Report on the file, without problems.
    """
    notes = list(getattr(report, "notes", []))
    own = None
    try:
        robot = robot_file(source.file)
        if source.path is not None and source.actuators is not None:
            names = [joint.name for joint in read_own_drives(source.path, source.root).joints]
            configs = matched_configs(source.actuators, names, source.allow_torch)
            own = [(config, name) for name, config in configs.items()]
        elif not isinstance(report, YamlReport) and not any(joint.actuators for joint in report.joints):
            found = actuators_of(source)
            matched = match_actuators(found.entries, [joint.name for joint in found.joints])
            own = [(actuator, name) for _, joints in matched for name, actuator in joints.items()]
    except RobotFileError as error:
        return Stability(None, [], [*notes, Problem.of(error, "stability not checked: ")])
    try:
        with mute_mujoco_warnings():
            if robot.suffix.lower() not in MUJOCO_FORMATS:
                leave_out_adjoints()
            result = check(robot, dt, actuators=own, allow_unsafe_torch_checkpoints=source.allow_torch)
    except (ActuonError, ImportError) as error:
        return Stability(None, [], [*notes, Problem.of(error, "stability not checked: ")])
    if source.root is not None:
        chosen = [each for each in result.robots if f"{each.path}/".startswith(f"{source.root.rstrip('/')}/")]
        result = CheckResult(chosen or result.robots, result.warnings)
    result = dataclasses.replace(result, suggested=getattr(report, "suggested", {}))
    notes += result.warnings
    if own is None or source.actuators is not None:
        return Stability(result, result.problems, notes)
    notes.append("stability is that of the engine's own drives as explicit actuators, as  actuon init  writes them")
    return Stability(result, [], [*notes, *result.problems])
