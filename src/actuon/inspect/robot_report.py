# SPDX-License-Identifier: Apache-2.0
"""The actuators of any file: in a USD file, in the YAML beside a robot's file, in a YAML alone, or the engine's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon.components.controllers.pd import PDControlConfig
from actuon.declare.registry import class_of
from actuon.errors import ActuonError, RobotFileError, located
from actuon.files import check_readable, read_yaml
from actuon.robot_files.usd.read import export_actuators
from actuon.robot_files.usd.report import JointReport, Part, Report, Value, inspect_actuators, part_of
from actuon.robot_files.usd.stage import find_prim, open_stage
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, match_joints, yaml_beside

from .own_drives import ROBOT_FORMATS, USD_FORMATS, OwnDrives, OwnJoint, check_no_root, read_own_drives, source_of
from .starting_yaml import grouped, why_no_entries
from .yaml_report import YamlReport, chain_of, inspect_yaml

YAML = (".yaml", ".yml")
FORMATS = (*ROBOT_FORMATS, *YAML)


@dataclass
class RobotReport(Report):
    """What a robot's file and the YAML beside it say, and what is wrong with them."""

    actuators_from: str = ""
    """The YAML file; empty where there is none, and the chains are what ``actuon init`` would write."""


@dataclass(frozen=True)
class Actuators:
    """The actuators of a file."""

    entries: list[ActuatorEntry]
    joints: list[OwnJoint]
    """Those of the robot; none of a YAML alone."""
    origin: str
    """Where they come from, where that is not the file itself."""


def inspect_file(path: Path, root: str | None, allow_torch: bool) -> Report | YamlReport:
    """What a file says about its joints and actuators, and what is wrong.

    Args:
        path: USD, MJCF, URDF or ``actuon.yaml``.
        root: Path of the prim to look at, in USD. Default: all of it.
        allow_torch: Trust PyTorch files that it names.

    Raises:
        RobotFileError: It cannot be read.
    """
    check_readable(path, FORMATS)
    if path.suffix.lower() in YAML:
        check_no_root(path, root)
        return inspect_yaml(path, allow_torch)
    beside = yaml_beside(path)
    if path.suffix.lower() in USD_FORMATS:
        _stage, place = open_usd(path, root)
        report = inspect_actuators(place, allow_torch)
        if beside is None or report.problems or any(joint.actuators for joint in report.joints):
            return report
    found = read_own_drives(path, root)
    return _with_yaml(found, beside, allow_torch) if beside is not None else _as_init(found)


def actuators_of(path: Path, root: str | None, allow_torch: bool) -> Actuators:
    """The actuators of a file: in it, or beside it, or else the engine's own drives.

    Raises:
        RobotFileError: It cannot be read, or there are none.
    """
    check_readable(path, FORMATS)
    if path.suffix.lower() in YAML:
        check_no_root(path, root)
        return Actuators(load_actuators(path, allow_torch), [], "")
    if path.suffix.lower() in USD_FORMATS:
        _stage, place = open_usd(path, root)
        entries = export_actuators(place, allow_torch)
        if entries:
            return Actuators(entries, read_own_drives(path, root).joints, "")
    found = read_own_drives(path, root)
    beside = yaml_beside(path)
    if beside is not None:
        entries = load_actuators(beside, allow_torch)
        with located(beside, RobotFileError):
            match_joints(entries, [joint.name for joint in found.joints])
        return Actuators(entries, found.joints, f"from {beside.name} beside it")
    found.check_names(path)
    entries = [group.entry for group in grouped(found)]
    if not entries:
        raise RobotFileError(why_no_entries(path, found))
    if not found.has_drives:
        raise RobotFileError(f"'{path}' has no actuators, and its joints no drives;  actuon init  writes a start")
    return Actuators(entries, found.joints, "from its own drives, as  actuon init  writes them: it has no actuators")


def open_usd(path: Path, root: str | None) -> tuple[Any, Any]:
    """The stage of a USD file, which must be kept, and what to look at: the prim that --root names, or all of it."""
    stage = open_stage(path)
    if root is None:
        return stage, stage
    with located("--root", RobotFileError):
        return stage, find_prim(stage, root)


def _with_yaml(found: OwnDrives, beside: Path, allow_torch: bool) -> RobotReport:
    """Each joint with the actuator that the YAML gives it."""
    groups = read_yaml(beside)
    joints = {joint.path: _joint(joint) for joint in found.joints}
    names = [joint.name for joint in found.joints]
    problems: list[str] = []
    gains = {}
    without_gear = []
    for entry in load_actuators(beside, allow_torch):
        try:
            ((_, matched),) = match_joints([entry], names)
        except ActuonError as error:
            problems.append(f"{beside.name}: {error}")
            continue
        for own in (joint for joint in found.joints if joint.name in matched):
            joint = joints[own.path]
            joint.actuators.append(f"{beside.name}: {entry.name}")
            if len(joint.actuators) > 1:
                problems.append(f"{joint.name}: is driven by {' and '.join(joint.actuators)}; must be driven by one")
                continue
            joint.chain, bad = chain_of(entry, groups["actuators"][entry.name], own.slides)
            problems += [f"{beside.name}: {text}" for text in bad if f"{beside.name}: {text}" not in problems]
            without_gear += [own.name] if entry.actuator.transmission is None else []
            controller = entry.actuator.controller
            if isinstance(controller, PDControlConfig) and not entry.actuator.gives_friction:
                gains[own.name] = (controller.kp, controller.kd)
    notes = [found.too_stiff(gains), found.geared(without_gear)]
    return RobotReport(list(joints.values()), problems, [note for note in notes if note], str(beside))


def _as_init(found: OwnDrives) -> RobotReport:
    """Each joint with the actuator that ``actuon init`` would write for it."""
    joints = {own.path: _joint(own) for own in found.joints}
    for group in grouped(found):
        sources = group.sources()
        for own in group.joints:
            stages = [(part, class_of(part)) for part in group.drives[0].config.stages]  # type: ignore[arg-type]
            joints[own.path].chain = tuple(part_of(part, cls, sources, own.slides) for part, cls in stages)  # type: ignore[arg-type]
    return RobotReport(list(joints.values()), [], found.all_notes())


def problems_of(report: Report | YamlReport) -> list[str]:
    """What is wrong, and controllers that were left without gains."""
    return [*report.problems, *without_gains(report)]


def without_gains(report: Report | YamlReport) -> list[str]:
    """Controllers that were left without gains, in one sentence; empty where there are none."""
    named = (
        [(entry.name, entry.chain) for entry in report.entries]
        if isinstance(report, YamlReport)
        else [(joint.name, joint.chain) for joint in report.joints]
    )
    idle = []
    for name, chain in named:
        for part in chain:
            gains = [value.value for value in part.values if value.name in ("kp", "kd", "const_effort")]
            if part.name == "ControllerPD" and not any(gains):
                idle.append(name)
    return [f"kp and kd are 0, so that no target is followed: {', '.join(idle)}"] if idle else []


def sliding(entry: ActuatorEntry, joints: list[OwnJoint]) -> bool:
    """Whether all joints of an entry slide. Those of a YAML alone are taken to turn."""
    if not joints:
        return False
    ((_, names),) = match_joints([entry], [joint.name for joint in joints])
    return all(joint.slides for joint in joints if joint.name in names)


def _joint(own: OwnJoint) -> JointReport:
    """A joint without an actuator."""
    drive = None
    if own.drive is not None and own.drive.is_complete:
        units = ("N/m", "N·s/m", "N") if own.slides else ("N·m/rad", "N·m·s/rad", "N·m")
        given = (own.drive.kp, own.drive.kd, own.drive.effort)
        named = zip(("stiffness", "damping", "maxForce"), given, units, strict=True)
        values = tuple(Value(name, x.value, unit, source_of([x])) for name, x, unit in named if x is not None)
        drive = Part("engine drive", "drive", values)
    elif own.why_not:
        drive = Part(own.why_not, "drive", ())
    return JointReport(own.name, own.path, "slide" if own.slides else "hinge", drive=drive)
