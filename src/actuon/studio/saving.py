# SPDX-License-Identifier: Apache-2.0
"""Writes the actuators of the robot, as they are now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..actuator.config import ActuatorConfig
from ..errors import RobotFileError
from ..robot_files.yaml import ActuatorEntry, save_actuators
from .source import USD_FORMATS, Source

YAML_FORMATS = (".yaml", ".yml")
USD_WRITTEN = (".usda", ".usd", ".usdc")


def entries_of(configs: Mapping[str, ActuatorConfig]) -> list[ActuatorEntry]:
    """Joints with the same actuator together, named after what their names have in common."""
    groups: list[tuple[ActuatorConfig, list[str]]] = []
    for joint, config in configs.items():
        for known, joints in groups:
            if known == config:
                joints.append(joint)
                break
        else:
            groups.append((config, [joint]))
    entries: list[ActuatorEntry] = []
    for config, joints in groups:
        name = _common(joints)
        taken = [entry.name for entry in entries]
        name = next(each for each in (name, *(f"{name}_{i}" for i in range(2, 10_000))) if each not in taken)
        entries.append(ActuatorEntry(name, tuple(joints), config))
    return entries


def _common(joints: list[str]) -> str:
    if len(joints) == 1:
        return joints[0]
    first = os.path.commonprefix(joints).strip("_ ")
    last = os.path.commonprefix([name[::-1] for name in joints])[::-1].strip("_ ")
    return max((last, first), key=len) or "motors"


def save_yaml(path: Path, configs: Mapping[str, ActuatorConfig]) -> None:
    """Write an ``actuon.yaml``."""
    save_actuators(path, entries_of(configs))


def usd_of(source: Source) -> Path | None:
    """The USD file of a robot: its own, or the one of the same name beside it; None where there is none."""
    if source.path is None:
        return None
    if source.path.suffix.lower() in USD_FORMATS:
        return source.path
    return next((path for ending in USD_FORMATS if (path := source.path.with_suffix(ending)).is_file()), None)


def save_usd(path: Path, source: Source, configs: Mapping[str, ActuatorConfig]) -> None:
    """Write the robot's USD file with these actuators.

    Raises:
        RobotFileError: There is no such file.
    """
    robot = usd_of(source)
    if robot is None:
        raise RobotFileError(f"{source.title} has no USD file: save the values as YAML")
    from ..robot_files.usd.author import author_file

    author_file(robot, entries_of(configs), path, overwrite_existing=True)
