# SPDX-License-Identifier: Apache-2.0
"""Motors of the quadruped: by keyword, by name in the catalogue, from a file, or as a config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from .. import assets
from ..actuator.config import ActuatorConfig
from ..errors import ParameterError, RobotFileError, listed, shown
from ..motor_source import configs_of, named_motor, read_entries
from ..motors.catalogue import motor_names

MotorsLike: TypeAlias = str | Path | ActuatorConfig

REAL, IDEAL, SERVO = "real", "ideal", "servo"


def motors_of(motors: MotorsLike, joints: Sequence[str]) -> list[tuple[ActuatorConfig, str]]:
    """Return the actuator of each joint; empty for the engine's own servos.

    Args:
        motors: ``"real"``, the YAML of the quadruped; ``"ideal"``, its controllers alone; ``"servo"``, MuJoCo's own
            servos; the path of another file with actuators; the name of a motor in the catalogue, behind the
            controllers and delays of the quadruped's YAML; or one config for all joints.
        joints: Names of the joints.

    Raises:
        ParameterError: ``motors`` is none of these.
        RobotFileError: A file cannot be read, or has no actuator for a joint.
    """
    if isinstance(motors, ActuatorConfig):
        return [(motors, joint) for joint in joints]
    if not isinstance(motors, (str, os.PathLike)):
        raise ParameterError(f"motors: got {shown(motors)}; must be {_ALLOWED}")
    if motors == SERVO:
        return []
    try:
        motor = None if motors in (REAL, IDEAL) else named_motor(motors)
    except RobotFileError as error:
        known = listed(str(motors).lower(), (REAL, IDEAL, SERVO, *motor_names()), "names")
        raise ParameterError(f"motors: got {shown(motors)}; must be {_ALLOWED}; {known}") from error
    if motors not in (REAL, IDEAL) and motor is None:
        return _from_file(Path(motors), joints)
    own = _from_file(assets.quadruped_yaml, joints)
    if motors == REAL:
        return own
    controllers = [(part, config.delay, joint) for config, joint in own if (part := config.controller) is not None]
    if motor is None:
        return [(ActuatorConfig(controller), joint) for controller, _, joint in controllers]
    return [(motor.datasheet.actuator(controller, delay=delay), joint) for controller, delay, joint in controllers]


_ALLOWED = (
    f"'{REAL}', '{IDEAL}', '{SERVO}', the name of a motor in the catalogue, the path of a file with actuators, or an "
    "ActuatorConfig"
)


def _from_file(path: Path, joints: Sequence[str]) -> list[tuple[ActuatorConfig, str]]:
    found = configs_of(path, read_entries(path), joints)
    missing = [joint for joint in joints if joint not in found]
    if missing:
        raise RobotFileError(f"{path}: there is no actuator for {', '.join(missing)}; each joint needs one")
    return [(found[joint], joint) for joint in joints]
