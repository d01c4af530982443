# SPDX-License-Identifier: Apache-2.0
"""What an ``actuon.yaml`` says about each of its entries, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon.declare.config import Config
from actuon.errors import ActuonError
from actuon.robot_files.bounded_yaml import read_yaml
from actuon.robot_files.registry import by_config
from actuon.robot_files.usd.attributes import AUTHORED
from actuon.robot_files.usd.report import Part, Value
from actuon.robot_files.yaml_files import ActuatorEntry, load_actuators

DEFAULT = "default"


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
        parts = []
        for config, given in _configs(entry, groups[entry.name]):
            try:
                parts.append(_part(config, given))
            except (ActuonError, ImportError) as error:
                problems.append(f"actuators.{entry.name}: {error}")
        reports.append(EntryReport(entry.name, entry.joints, entry.one_prim, tuple(parts)))
    return YamlReport(reports, problems)


def _bad_patterns(entry: ActuatorEntry) -> list[str]:
    problems = []
    for pattern in entry.joints:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            problems.append(f"actuators.{entry.name}.joints: '{pattern}' is not a valid regular expression: {error}")
    return problems


def _configs(entry: ActuatorEntry, group: Mapping[str, Any]) -> list[tuple[Config, Mapping[str, Any]]]:
    """The parts of an entry, in the order of the signal, each with what the file says about it."""
    delay = [group["delay"]] if entry.actuator.delay is not None else []
    given = [group["controller"], *(group.get("clamping") or ()), *delay]
    pairs = list(zip(entry.actuator.parts(), given, strict=True))
    return [*pairs[len(pairs) - len(delay) :], *pairs[: len(pairs) - len(delay)]]


def _part(config: Config, given: Mapping[str, Any]) -> Part:
    registered = by_config(config)
    values = {name: getattr(config, name) for name in config.declared()}
    shown = tuple(
        Value(name, values[name], declared.unit, AUTHORED if given.get(name) is not None else DEFAULT)
        for name, declared in config.declared().items()
    )
    return Part(registered.resolve_class(values).__name__, registered.kind.value, shown)
