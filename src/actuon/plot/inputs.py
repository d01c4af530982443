# SPDX-License-Identifier: Apache-2.0
"""Inputs of ``actuon plot``: robots, ``actuon.yaml`` files, motors by name, and recordings of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actuon.inspect.own_drives import OwnJoint
from actuon.inspect.report import actuators_of, of_entry
from actuon.logs.records import FORMATS as RECORDS, Record, read_record
from actuon.motors.catalogue import find_motor
from actuon.robot_files.yaml import ActuatorEntry
from actuon.robot_source import find_source

from .kinds import Subject


@dataclass
class Inputs:
    """Actuators and recordings to draw."""

    subjects: list[Subject] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes on the source of actuators, if it is not the file itself, and on actuators that are left out."""


def read_inputs(
    given: Sequence[Path], root: str | None = None, allow_torch: bool = False, actuators: Sequence[Path] = ()
) -> Inputs:
    """Read robots, ``actuon.yaml`` files, names of motors in the catalogue, and recordings.

    Args:
        given: Files and names.
        root: Path of the robot's root prim, in USD.
        allow_torch: Trust PyTorch files that a robot's file names.
        actuators: YAML files with motors for each robot, instead of its own; several are compared.

    Raises:
        RobotFileError: An input is none of these, or cannot be read.
    """
    inputs = Inputs()
    for path, title in zip(given, _titles(given), strict=True):
        if path.suffix.lower() in RECORDS:
            inputs.records.append(dataclasses.replace(read_record(path), title=title))
            continue
        for yaml, name in zip(actuators, _titles(actuators), strict=True) if actuators else ((None, ""),):
            source = find_source(path, allow_torch, yaml, root)
            found = actuators_of(source)
            named = source.title if source.motor else title if len(actuators) < 2 else name
            inputs.notes += [f"{named}: motors {found.origin}"] if found.origin and source.yaml is None else []
            for entry in found.entries:
                own = of_entry(entry, found.joints)
                slides = bool(own) and all(joint.slides for joint in own)
                joints = () if source.motor else tuple(entry.joints)
                sheet = find_motor(source.motor).datasheet if source.motor else None
                load, damping = _load(entry, own)
                subject = Subject(named, entry.name, entry.actuator, slides, joints, load, damping, sheet)
                inputs.subjects.append(subject)
    return inputs


def _load(entry: ActuatorEntry, joints: Sequence[OwnJoint]) -> tuple[float | None, float]:
    """Return the smallest inertia that a motor of the entry moves, and the smallest damping of its joints.

    Rotor inertia and friction of the motor replace the file's armature and damping.
    """
    brings_rotor = any(getattr(part, "rotor_inertia", None) for part in entry.actuator.stages)
    loads = [joint.load + (0.0 if brings_rotor else joint.armature) for joint in joints if joint.load is not None]
    damping = 0.0 if entry.actuator.gives_friction else min((joint.damping for joint in joints), default=0.0)
    return min(loads, default=None), damping


def _titles(paths: Sequence[Path]) -> list[str]:
    """Return the names of files; whole paths if several have the same name."""
    names = [path.name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]
