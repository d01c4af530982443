# SPDX-License-Identifier: Apache-2.0
"""Reports on the joints and actuators of any file: USD, a robot with a YAML next to it, a YAML alone, own drives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actuon.actuator.config import ActuatorConfig
from actuon.actuator.trials import Conditions, at_rest, is_coupled
from actuon.components.controllers.pd import PDControlConfig
from actuon.declare.registry import class_of
from actuon.errors import ActuonError, RobotFileError, located
from actuon.files import read_yaml
from actuon.patterns import compile_pattern
from actuon.robot_files.parsed import file_stages
from actuon.robot_files.problem import Problem
from actuon.robot_files.usd.attributes import AUTHORED
from actuon.robot_files.usd.read import export_actuators
from actuon.robot_files.usd.report import JointReport, Part, Report, Value, inspect_actuators, part_of, with_settings
from actuon.robot_files.usd.stage import find_prim, open_stage
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, match_joints, written_stages
from actuon.robot_source import ROOT, RobotSource

from .own_drives import OwnDrives, OwnJoint, read_own_drives, source_of
from .starting_yaml import grouped, why_no_entries

DEFAULT = "default"
MOTOR = "motor"
"""Source of parameters that follow from the values of a motor."""


@dataclass(frozen=True)
class EntryReport:
    """An entry, and the stages of its joints."""

    name: str
    joints: tuple[str, ...]
    """Names, or regular expressions."""
    one_prim: bool
    chain: tuple[Part, ...]


@dataclass(frozen=True)
class YamlReport:
    """Report on an ``actuon.yaml``, with its problems."""

    entries: list[EntryReport]
    problems: list[str]


@dataclass
class RobotReport(Report):
    """Report on a robot's file and the YAML next to it, with their problems."""

    actuators_from: str = ""
    """The YAML file; empty if there is none, and the stages are those that ``actuon init`` would write."""
    suggested: dict[str, dict[str, float]] = field(default_factory=dict)
    """Gains to start from, by joint."""


@dataclass(frozen=True)
class Actuators:
    """The actuators of a file."""

    entries: list[ActuatorEntry]
    joints: list[OwnJoint]
    """Joints of the robot; empty for a YAML alone."""
    origin: str
    """Source of the actuators; empty if it is the file itself."""


def inspect_file(source: RobotSource) -> Report | YamlReport:
    """Return a report on the joints and actuators of a file, with its problems.

    Raises:
        RobotFileError: The file cannot be read.
    """
    if source.path is None:
        return inspect_yaml(source.file, source.allow_torch)
    if source.is_usd:
        _stage, place = open_usd(source.path, source.root)
        report = inspect_actuators(place, source.allow_torch)
        if source.yaml is None or report.problems:
            return report
        if source.actuators is None and any(joint.actuators for joint in report.joints):
            return report
    found = read_own_drives(source.path, source.root)
    return _as_init(found) if source.yaml is None else _with_yaml(found, source.yaml, source.allow_torch)


def actuators_of(source: RobotSource) -> Actuators:
    """Return the actuators in a file, in a YAML or in the catalogue, or else the engine's own drives as actuators.

    Raises:
        RobotFileError: The file cannot be read, or has no actuators.
    """
    if source.path is None:
        return Actuators(source.entries(), [], "")
    if source.is_usd and source.actuators is None:
        _stage, place = open_usd(source.path, source.root)
        entries = export_actuators(place, source.allow_torch)
        if entries:
            return Actuators(entries, read_own_drives(source.path, source.root).joints, "")
    found = read_own_drives(source.path, source.root)
    if source.yaml is not None:
        entries = source.entries()
        with located(source.yaml, RobotFileError):
            match_joints(entries, [joint.name for joint in found.joints])
        return Actuators(entries, found.joints, f"from {source.yaml.name}")
    found.check_names(source.path)
    entries = [group.entry for group in grouped(found)]
    if not entries:
        raise RobotFileError(why_no_entries(source.path, found))
    if not found.has_drives:
        raise RobotFileError(
            f"'{source.path}' has no actuators, and its joints no drives;  actuon init  writes a start"
        )
    return Actuators(entries, found.joints, "from its own drives, as  actuon init  writes them: it has no actuators")


def open_usd(path: Path, root: str | None) -> tuple[Any, Any]:
    """Open a USD file. Return its stage, which must be kept, and the prim that --root names, or the stage."""
    stage = open_stage(path)
    if root is None:
        return stage, stage
    with located(ROOT, RobotFileError):
        return stage, find_prim(stage, root)


def inspect_yaml(path: Path, allow_torch: bool = False) -> YamlReport:
    """Return a report on every entry of a file.

    Raises:
        RobotFileError: The file cannot be read, or is invalid.
    """
    entries = load_actuators(path, allow_torch)
    groups = read_yaml(path)["actuators"]
    problems = [problem for entry in entries for problem in _bad_patterns(entry)]
    reports = []
    for entry in entries:
        chain, bad = chain_of(entry, groups[entry.name])
        problems += bad
        reports.append(EntryReport(entry.name, entry.joints, entry.one_prim, chain))
    return YamlReport(reports, problems)


def chain_of(entry: ActuatorEntry, group: Any, linear: bool = False) -> tuple[tuple[Part, ...], list[Problem]]:
    """Return the stages of an entry, in the units of joints that turn or slide, and their problems.

    Args:
        entry: The entry.
        group: The YAML of the entry.
        linear: Whether its joints slide.
    """
    parts, problems = [], []
    written = written_stages(entry.name, group)
    for (config, _), (place, _, given) in zip(file_stages(entry.actuator), written, strict=True):
        declared = config.declared()
        authored = MOTOR if "motor" in place.split(".") else AUTHORED
        sources = {name: authored if given.get(name) is not None else DEFAULT for name in declared}
        try:
            parts.append(part_of(config, class_of(config), sources, linear))
        except (ActuonError, ImportError) as error:
            problems.append(Problem.of(error, f"actuators.{entry.name}: "))
    return with_settings(parts, entry.actuator), problems


def _bad_patterns(entry: ActuatorEntry) -> list[str]:
    problems = []
    for pattern in entry.joints:
        try:
            compile_pattern(pattern)
        except re.error as error:
            problems.append(f"actuators.{entry.name}.joints: '{pattern}' is not a valid regular expression: {error}")
    return problems


def _with_yaml(found: OwnDrives, beside: Path, allow_torch: bool) -> RobotReport:
    """Return a report on joints with the actuators of a YAML."""
    groups = read_yaml(beside)
    joints = {joint.path: _joint(joint) for joint in found.joints}
    names = [joint.name for joint in found.joints]
    problems: list[str] = []
    without_gear = []
    limits: dict[str, float | None] = {}
    for entry in load_actuators(beside, allow_torch):
        try:
            ((_, matched),) = match_joints([entry], names)
        except ActuonError as error:
            problems.append(Problem.of(error, f"{beside.name}: "))
            continue
        limits |= dict.fromkeys(matched, _limit_without_gains(entry.actuator))
        for own in (joint for joint in found.joints if joint.name in matched):
            joint = joints[own.path]
            joint.actuators.append(f"{beside.name}: {entry.name}")
            if len(joint.actuators) > 1:
                problems.append(f"{joint.name}: is driven by {' and '.join(joint.actuators)}; must be driven by one")
                continue
            joint.chain, bad = chain_of(entry, groups["actuators"][entry.name], own.slides)
            problems += [f"{beside.name}: {text}" for text in bad if f"{beside.name}: {text}" not in problems]
            without_gear += [own.name] if entry.actuator.transmission is None else []
    geared = found.geared(without_gear)
    notes = [geared] if geared else []
    return RobotReport(list(joints.values()), problems, notes, str(beside), _suggested(found, limits))


def _limit_without_gains(config: ActuatorConfig) -> float | None:
    """Return the largest effort at rest of a motor whose gains are 0; None for others, or without a limit."""
    pd = config.controller
    if not isinstance(pd, PDControlConfig) or pd.kp or pd.kd or is_coupled(config):
        return None
    return at_rest(config, Conditions())


def _suggested(found: OwnDrives, limits: Mapping[str, float | None]) -> dict[str, dict[str, float]]:
    gains = {joint.name: joint.suggested_gains(found.dt, limits.get(joint.name)) for joint in found.joints}
    return {name: own for name, own in gains.items() if own is not None}


def _as_init(found: OwnDrives) -> RobotReport:
    """Return a report on joints with the actuators that ``actuon init`` would write."""
    joints = {own.path: _joint(own) for own in found.joints}
    for group in grouped(found):
        sources = group.sources()
        for own in group.joints:
            stages = [(part, class_of(part)) for part in group.drives[0].config.stages]  # type: ignore[arg-type]
            joints[own.path].chain = tuple(part_of(part, cls, sources, own.slides) for part, cls in stages)  # type: ignore[arg-type]
    return RobotReport(list(joints.values()), [], found.all_notes(), suggested=_suggested(found, {}))


def problems_of(report: Report | YamlReport) -> list[str]:
    """Return all problems, controllers without gains included."""
    return [*report.problems, *without_gains(report)]


def without_gains(report: Report | YamlReport) -> list[str]:
    """Return a problem that names the controllers without gains, with suggestions; empty if all have gains."""
    named = (
        [(entry.name, entry.chain) for entry in report.entries]
        if isinstance(report, YamlReport)
        else [(joint.name, joint.chain) for joint in report.joints]
    )
    idle = []
    for name, chain in named:
        for part in chain:
            efforts = [value.value for value in part.values if value.name in ("kp", "kd", "const_effort")]
            if part.name == "ControllerPD" and not any(efforts):
                idle.append(name)
    if not idle:
        return []
    suggested = report.suggested if isinstance(report, RobotReport) else {}
    alike: dict[str, list[str]] = {}
    for name in idle:
        gains = suggested.get(name)
        if gains is not None:
            alike.setdefault(f"kp {gains['kp']:g}, kd {gains['kd']:g}", []).append(name)
    hints = [f"\n- {gains}: {', '.join(names)}" for gains, names in alike.items()]
    start = f". Gains to start from, by inertia and limits:{''.join(hints)}" if hints else ""
    return [f"kp and kd are 0: these joints will not track targets: {', '.join(idle)}{start}"]


def of_entry(entry: ActuatorEntry, joints: Sequence[OwnJoint]) -> list[OwnJoint]:
    """Return the joints of an entry; empty for a YAML alone."""
    if not joints:
        return []
    ((_, names),) = match_joints([entry], [joint.name for joint in joints])
    return [joint for joint in joints if joint.name in names]


def _joint(own: OwnJoint) -> JointReport:
    """Return the report on a joint without an actuator."""
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
