# SPDX-License-Identifier: Apache-2.0
"""Whether the robot of a file is stable, as far as it can be simulated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actuon.errors import ActuonError, RobotFileError
from actuon.robot_files.usd.report import Report
from actuon.robot_files.yaml import match_actuators
from actuon.sim.mujoco import FORMATS as MUJOCO_FORMATS, mute_mujoco_warnings
from actuon.sim.newton.adjoints import leave_out_adjoints
from actuon.stability.report import CheckResult, check, robot_file

from .own_drives import TOO_STIFF
from .robot_report import YAML, actuators_of
from .yaml_report import YamlReport


@dataclass(frozen=True)
class Stability:
    """What was found about a file's robot."""

    result: CheckResult | None
    """None where it could not be looked at."""
    problems: list[str]
    """What is unstable."""
    notes: list[str]
    """What else to know."""


def look_at_stability(
    path: Path, root: str | None, dt: float | None, allow_torch: bool, report: Report | YamlReport
) -> Stability:
    """Simulate a robot's file as far as it takes to know how near its actuators are to diverging.

    Args:
        path: The robot, or its YAML.
        root: Path of the prim to look at, in USD.
        dt: Time step [s]. Default: that of the file.
        allow_torch: Trust PyTorch files that it names.
        report: What the file says, which is not wrong.
    """
    notes = [note for note in getattr(report, "notes", []) if TOO_STIFF not in note]
    own = None
    try:
        robot = robot_file(path)
        if path.suffix.lower() not in YAML and not any(joint.actuators for joint in report.joints):  # type: ignore[union-attr]
            found = actuators_of(path, root, allow_torch)
            names = [joint.name for joint in found.joints]
            matched = match_actuators(found.entries, names)
            own = [(actuator, name) for _, joints in matched for name, actuator in joints.items()]
    except RobotFileError as error:
        return Stability(None, [], [*notes, f"stability is not looked at: {error}"])
    try:
        with mute_mujoco_warnings():
            if robot.suffix.lower() not in MUJOCO_FORMATS:
                leave_out_adjoints()
            result = check(robot, dt, actuators=own, allow_unsafe_torch_checkpoints=allow_torch)
    except (ActuonError, ImportError) as error:
        return Stability(None, [], [*notes, f"stability is not looked at: {error}"])
    if root is not None:
        chosen = [each for each in result.robots if f"{each.path}/".startswith(f"{root.rstrip('/')}/")]
        result = CheckResult(chosen or result.robots, result.warnings)
    notes += result.warnings
    if own is None:
        return Stability(result, result.problems, notes)
    notes.append("stability is that of the engine's own drives as explicit actuators, as  actuon init  writes them")
    return Stability(result, [], [*notes, *result.problems])
