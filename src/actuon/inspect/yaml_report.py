# SPDX-License-Identifier: Apache-2.0
"""What an ``actuon.yaml`` says about each of its entries, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon.declare.registry import class_of
from actuon.errors import ActuonError
from actuon.files import read_yaml
from actuon.patterns import compile_pattern
from actuon.robot_files.parsed import file_stages
from actuon.robot_files.usd.attributes import AUTHORED
from actuon.robot_files.usd.report import Part, part_of, with_settings
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, written_stages

DEFAULT = "default"
MOTOR = "motor"
"""Source of what follows from the figures of a motor."""


@dataclass(frozen=True)
class EntryReport:
    """An entry and the chain that each of its joints gets."""

    name: str
    joints: tuple[str, ...]
    """Names, or regular expressions."""
    one_prim: bool
    chain: tuple[Part, ...]


@dataclass(frozen=True)
class YamlReport:
    """What a file says, and what is wrong with it."""

    entries: list[EntryReport]
    problems: list[str]


def inspect_yaml(path: Path, allow_torch: bool = False) -> YamlReport:
    """Look at every entry of a file.

    Raises:
        RobotFileError: The file cannot be read, or says what cannot be.
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


def chain_of(entry: ActuatorEntry, group: Any, linear: bool = False) -> tuple[tuple[Part, ...], list[str]]:
    """The chain of an entry, in the units of joints that turn or slide, and what is wrong with it.

    Args:
        entry: The entry.
        group: What the file writes for it.
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
            problems.append(f"actuators.{entry.name}: {error}")
    return with_settings(parts, entry.actuator), problems


def _bad_patterns(entry: ActuatorEntry) -> list[str]:
    problems = []
    for pattern in entry.joints:
        try:
            compile_pattern(pattern)
        except re.error as error:
            problems.append(f"actuators.{entry.name}.joints: '{pattern}' is not a valid regular expression: {error}")
    return problems
