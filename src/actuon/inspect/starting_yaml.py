# SPDX-License-Identifier: Apache-2.0
"""A first ``actuon.yaml`` for a robot: values of its file with sources, and placeholders for missing ones."""

from __future__ import annotations

import dataclasses
import io
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon.declare.config import Config
from actuon.declare.registry import by_config
from actuon.errors import RobotFileError
from actuon.files import LONGEST_TEXT, plain_yaml, replacing
from actuon.robot_files.paths import unique_name
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, match_joints

from .own_drives import OwnDrive, OwnDrives, OwnJoint, SourcedValue, source_of

_PLAIN = re.compile(r"\w+", re.ASCII)
"""Names without special characters of regular expressions."""
_WIDTH = 118
_MOST_STEMS = 3


@dataclass(frozen=True)
class Group:
    """Joints with the same drive, and the entry for them."""

    entry: ActuatorEntry
    joints: list[OwnJoint]

    @property
    def drives(self) -> list[OwnDrive]:
        """Drives of its joints."""
        return [joint.drive for joint in self.joints if joint.drive is not None]

    def sources(self) -> dict[str, str]:
        """Return the source of each parameter of its actuator, by name."""
        alike = {
            "kp": [drive.kp for drive in self.drives],
            "kd": [drive.kd for drive in self.drives],
            "max_effort": [drive.effort for drive in self.drives if drive.effort is not None],
            "delay": [drive.delay for drive in self.drives if drive.delay is not None],
            "shortest_dt": [drive.shortest_dt for drive in self.drives if drive.shortest_dt is not None],
            "time_constant": [lag for drive in self.drives for lag in (drive.low_pass, drive.lag) if lag is not None],
        }
        return {name: source_of(given) for name, given in alike.items() if given}


def grouped(found: OwnDrives) -> list[Group]:
    """Group joints with equal drives, in the order of the robot."""
    alike: dict[Any, list[OwnJoint]] = {}
    for joint in found.joints:
        if joint.drive is not None:
            alike.setdefault(joint.alike, []).append(joint)
    names = list(dict.fromkeys(joint.name for joint in found.joints))
    taken: set[str] = set()
    groups = []
    for joints in alike.values():
        patterns = patterns_for(list(dict.fromkeys(joint.name for joint in joints)), names)
        name = unique_name(_called(patterns), taken)
        taken.add(name)
        drive = joints[0].drive
        assert drive is not None
        groups.append(Group(ActuatorEntry(name, tuple(patterns), drive.config), joints))
    return groups


def patterns_for(chosen: list[str], names: list[str]) -> list[str]:
    """Return the fewest patterns, such as ``.*_knee``, and names that match the ``chosen`` of ``names``."""
    if not all(_PLAIN.fullmatch(name) for name in names):
        return chosen
    left = dict.fromkeys(chosen)
    patterns = []
    while left:
        best, covered = "", [next(iter(left))]
        for name in left:
            for pattern in _endings_and_beginnings(name):
                matched = [other for other in names if re.fullmatch(pattern, other)]
                if len(matched) > len(covered) and all(other in left for other in matched):
                    best, covered = pattern, matched
        patterns.append(best or covered[0])
        for name in covered:
            del left[name]
    return patterns


def _endings_and_beginnings(name: str) -> Iterator[str]:
    """Yield patterns for ``a_b_c``: ``.*_b_c``, ``.*_c``, ``a_b_.*``, ``a_.*``."""
    words = name.split("_")
    yield from (".*_" + "_".join(words[i:]) for i in range(1, len(words)))
    yield from ("_".join(words[:i]) + "_.*" for i in range(len(words) - 1, 0, -1))


def _called(patterns: list[str]) -> str:
    """Return a name for joints, from their patterns or names without ``joint``."""
    stems = [pattern.replace(".*", "").strip("_") for pattern in patterns]
    short = ["joints" if stem == "joint" else stem.removesuffix("_joint") for stem in stems]
    if len(short) <= _MOST_STEMS:
        return "_".join(short)
    return f"{short[0]}_to_{short[-1]}"


def save_starting_yaml(
    robot: Path, found: OwnDrives, path: Path, unstable: Mapping[str, str] | None = None
) -> list[Group]:
    """Write the drives of a robot as an ``actuon.yaml``, which is read back before the file appears.

    Args:
        robot: The robot's file.
        found: Its drives.
        path: The output file.
        unstable: Joints whose gains are unstable as explicit efforts, with a comment. Their entries get
            ``effort_mode: auto``.

    Returns:
        The entries.
    """
    found.check_names(robot)
    groups = grouped(found)
    if not groups:
        raise RobotFileError(why_no_entries(robot, found))
    with replacing(path) as partial:
        partial.write_text(_text(robot, found, groups, unstable or {}), encoding="utf-8", newline="\n")
        match_joints(load_actuators(partial), [joint.name for joint in found.joints])
    return groups


def why_no_entries(robot: Path, found: OwnDrives) -> str:
    """Return the message for a robot without a joint that an entry could be written for."""
    reasons = "; ".join(dict.fromkeys(joint.why_not for joint in found.joints))
    advice = (
        ". Articulation.set_tendon_targets() moves it unchanged; to replace it by actuators, write an actuon.yaml for "
        "all joints of the tendon"
    )
    has_tendon = any(joint.through_tendon for joint in found.joints)
    return f"'{robot}' has no joint for an actuator: {reasons}{advice if has_tendon else ''}"


def _text(robot: Path, found: OwnDrives, groups: list[Group], unstable: Mapping[str, str]) -> str:
    lines = [
        *_comment(
            f"Actuators of {robot.name}, from its own drives and limits. Comments state the source of each value."
        ),
        *_comment("'joints' are names or regular expressions, matched whole. SI units, radians."),
    ]
    to_set = [group.entry.name for group in groups if not group.drives[0].is_complete]
    if to_set:
        text = (
            f"To be set: kp and kd of {', '.join(to_set)}. The model defines none; with 0, joints do not track targets."
        )
        lines += ["#", *_comment(text)]
        for group in groups:
            gains = group.joints[0].suggested_gains(found.dt) if group.entry.name in to_set else None
            if gains is not None:
                start = f"{group.entry.name}: by inertia and limits, kp {gains['kp']:g} and kd {gains['kd']:g}"
                lines += _comment(f"To start from, {start}.")
    for note in found.all_notes():
        lines += ["#", *_comment(note[0].upper() + note[1:] + ".")]
    left_out: dict[str, list[str]] = {}
    for joint in found.joints:
        if joint.drive is None:
            left_out.setdefault(joint.why_not, []).append(joint.name)
    for why_not, names in left_out.items():
        lines += ["#", *_comment(f"Left out, {why_not}: {', '.join(names)}.")]
    lines += ["version: 1", "actuators:"]
    for group in groups:
        lines += _entry(group, next((unstable[joint.name] for joint in group.joints if joint.name in unstable), ""))
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    options: dict[str, Any] = dict(break_long_words=False, break_on_hyphens=False)
    return textwrap.wrap(_printable(text), _WIDTH, initial_indent="# ", subsequent_indent="# ", **options)


def _printable(text: str) -> str:
    """Return text on one line without unprintable characters, as a comment must be."""
    return " ".join("".join(letter if letter.isprintable() else "?" for letter in text).split())


def _entry(group: Group, unstable: str) -> list[str]:
    drive, entry = group.drives[0], group.entry
    slides = group.joints[0].slides
    names = list(dict.fromkeys(joint.name for joint in group.joints))
    lines = [f"  {_yaml(entry.name)}:", *_joints(entry.joints)]
    if list(entry.joints) != names:
        lines += [f"    {line}" for line in _comment(", ".join(names))]
    if slides:
        lines += ["    # slides: N and m"]
    if unstable:
        lines += [f"    {line}" for line in _comment(unstable)]
        lines += ["    effort_mode: auto"]
    sources = group.sources()
    if sources["kd"] == sources["kp"]:
        sources["kd"] = "the same" if drive.is_complete else "also to be set"
    in_order = entry.actuator.by_kind() is None
    if in_order:
        lines += ["    stages:"]
    for part in entry.actuator.stages:
        lines += _stage(part, sources, in_order)  # type: ignore[arg-type]
        if drive.effort is None and part is entry.actuator.controller:
            limit = "{type: max_effort, max_effort: …}"
            limit = f"- clamping: {limit}" if in_order else f"clamping: [{limit}]"
            lines += [f"    # no limit of the effort in the model: add  {limit}"]
    if drive.reduction is not None:
        lines += _reduction([each.reduction for each in group.drives if each.reduction is not None])
    if drive.speed is not None:
        lines += _speed([each.speed for each in group.drives if each.speed is not None], slides)
    return lines


def _stage(config: Config, sources: Mapping[str, str], in_order: bool) -> list[str]:
    """Return a stage as YAML: in a list of stages, or under the key of its kind."""
    registered = by_config(config)
    kind = registered.kind
    lines = [f"type: {registered.type_name}"]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value != field.default:
            lines.append(_value(f"{field.name}: ", value, sources[field.name]))
    if in_order:
        return [f"      - {kind.value}:", *(f"          {line}" for line in lines)]
    if not kind.several:
        return [f"    {kind.key}:", *(f"      {line}" for line in lines)]
    return [f"    {kind.key}:", f"      - {lines[0]}", *(f"        {line}" for line in lines[1:])]


def _speed(alike: list[SourcedValue], slides: bool) -> list[str]:
    speed, unit = f"{alike[0].value:g}", "m/s" if slides else "rad/s"
    text = (
        f"Speed limit {speed} {unit}, {source_of(alike)}: no part limits speed alone. With the stall effort of the "
        f"motor, {{type: dc_motor, saturation_effort: …, velocity_limit: {speed}, max_motor_effort: …}} does."
    )
    return [f"    {line}" for line in _comment(text)]


def _reduction(alike: list[SourcedValue]) -> list[str]:
    ratio = f"{alike[0].value:g}"
    text = (
        f"Reduction {ratio}, {source_of(alike)}: gains and limits here are on the joint side. With values of the "
        f"motor, use transmission: {{type: gear, ratio: {ratio}, rotor_inertia: …}}; limits are then on the motor side."
    )
    return [f"    {line}" for line in _comment(text)]


def _value(start: str, value: float, source: str) -> str:
    return f"{start}{value!r}  # {_printable(source)}"


def _joints(names: tuple[str, ...]) -> list[str]:
    """Return a list of names as YAML, in one or several lines."""
    lines = ["    joints: ["]
    for i, name in enumerate(names):
        text = _yaml(name) + ("]" if i == len(names) - 1 else ", ")
        if i and len(lines[-1]) + len(text) > _WIDTH:
            lines.append("      ")
        lines[-1] += text
    return [line.rstrip() for line in lines]


def _yaml(name: str) -> str:
    """Return a name as YAML."""
    yaml, stream = plain_yaml(), io.StringIO()
    yaml.width = 2 * LONGEST_TEXT
    yaml.dump(name, stream)
    return stream.getvalue().removesuffix("...\n").strip()
