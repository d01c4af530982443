# SPDX-License-Identifier: Apache-2.0
"""Motors by name: a file with actuators, or a motor of the catalogue.

`Motors`, environments, commands and the studio use it; for whole robots, see `robot_source`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .actuator.config import ActuatorConfig
from .errors import ActuonError, Fix, RobotFileError, listed, located
from .files import check_readable
from .motors.catalogue import CatalogueMotor, find_motor, motor_names
from .robot_files.formats import MUJOCO_FORMATS, USD_FORMATS, YAML_FORMATS
from .robot_files.yaml import ActuatorEntry, load_actuators, match_actuators, yaml_beside
from .typing import PathLike

FILES = (*USD_FORMATS, *MUJOCO_FORMATS, ".mjcf", *YAML_FORMATS)
"""Endings of files with motors in them, or in a YAML next to them."""


def named_motor(name: PathLike) -> CatalogueMotor | None:
    """Return the motor of the catalogue with this name; None if the name is that of a file.

    A file has one of the endings of `FILES`, a folder in its path, or exists.

    Raises:
        RobotFileError: It is neither. The message names similar motors.
    """
    path = Path(name)
    if path.suffix.lower() in FILES or len(path.parts) != 1:
        return None
    try:
        return find_motor(os.fspath(name))
    except ActuonError as error:
        if os.path.exists(path):
            return None
        known = listed(os.fspath(name).lower(), motor_names(), "motors")
        raise RobotFileError(f"'{name}' is neither a file ({', '.join(FILES)}) nor a motor; {known}") from error


def read_entries(path: Path, allow_torch: bool = False) -> list[ActuatorEntry]:
    """Return the actuators in a USD file, in a YAML, or in the YAML next to a robot's file.

    Args:
        path: The file.
        allow_torch: Load ``.pt`` and ``.pt2`` networks named by the file, which can execute code.

    Raises:
        RobotFileError: It cannot be read, or has no motors.
    """
    suffix = path.suffix.lower()
    if suffix in USD_FORMATS:
        from .robot_files.usd.read import export_actuators

        return export_actuators(path, allow_torch)
    if suffix in YAML_FORMATS:
        return load_actuators(path, allow_torch)
    check_readable(path, FILES)
    yaml = yaml_beside(path)
    if yaml is None:
        raise RobotFileError(
            f"{path}: has no actuon.yaml next to it",
            fix=Fix("; write one with 'actuon init', or pass its path", ";  actuon init  writes one"),
        )
    return load_actuators(yaml, allow_torch)


def configs_of(
    path: Path, entries: Iterable[ActuatorEntry], joints: Iterable[str], *, partial: bool = False
) -> dict[str, ActuatorConfig]:
    """Return the actuators of joints, by name and in the order of the joints.

    Args:
        path: File of the entries, for errors.
        entries: Entries from `read_entries`.
        joints: Names of the joints.
        partial: Whether these are only some of the robot's joints: an entry may match none of them.

    Raises:
        RobotFileError: See `match_actuators`.
    """
    joints = list(joints)
    with located(path, RobotFileError):
        matched = match_actuators(entries, joints, partial=partial)
    found = {name: actuator for _, own in matched for name, actuator in own.items()}
    return {name: found[name] for name in joints if name in found}
