# SPDX-License-Identifier: Apache-2.0
"""Which motors: by one word, by the name of one in the catalogue, from a file, or as a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from .. import assets
from ..actuator.config import ActuatorConfig
from ..errors import ParameterError, RobotFileError, listed, shown
from ..motors.catalogue import find_motor, motor_names
from ..robot_files.yaml import load_actuators, match_actuators

MotorsLike: TypeAlias = str | Path | ActuatorConfig

REAL, IDEAL, SERVO = "real", "ideal", "servo"


def motors_of(motors: MotorsLike, joints: Sequence[str]) -> list[tuple[ActuatorConfig, str]]:
    """The actuator of each joint. None for the engine's own servos.

    Args:
        motors: ``"real"``, the YAML of the quadruped; ``"ideal"``, its controllers alone; ``"servo"``, MuJoCo's own
            servos; the path of another YAML; the name of a motor in the catalogue, behind the controllers and delays of
            the quadruped's YAML; or one config for all joints.
        joints: Their names.

    Raises:
        ParameterError: It is none of these.
        RobotFileError: A file cannot be read, or leaves a joint out.
    """
    if isinstance(motors, ActuatorConfig):
        return [(motors, joint) for joint in joints]
    if isinstance(motors, Path) or (isinstance(motors, str) and motors.endswith((".yaml", ".yml"))):
        return _from_file(Path(motors), joints)
    if not isinstance(motors, str):
        raise ParameterError(f"motors: got {shown(motors)}; must be {_ALLOWED}")
    if motors == SERVO:
        return []
    own = _from_file(assets.quadruped_yaml, joints)
    if motors == REAL:
        return own
    controllers = [(part, config.delay, joint) for config, joint in own if (part := config.controller) is not None]
    if motors == IDEAL:
        return [(ActuatorConfig(controller), joint) for controller, _, joint in controllers]
    try:
        sheet = find_motor(motors).datasheet
    except ParameterError as error:
        known = listed(motors.lower(), (REAL, IDEAL, SERVO, *motor_names()), "names")
        raise ParameterError(f"motors: got {shown(motors)}; must be {_ALLOWED}; {known}") from error
    return [(sheet.actuator(controller, delay=delay), joint) for controller, delay, joint in controllers]


_ALLOWED = (
    f"'{REAL}', '{IDEAL}', '{SERVO}', the name of a motor in the catalogue, the path of a YAML file, or an "
    "ActuatorConfig"
)


def _from_file(path: Path, joints: Sequence[str]) -> list[tuple[ActuatorConfig, str]]:
    found = {
        name: actuator for _, own in match_actuators(load_actuators(path), joints) for name, actuator in own.items()
    }
    missing = [joint for joint in joints if joint not in found]
    if missing:
        raise RobotFileError(f"{path}: there is no actuator for {', '.join(missing)}; each joint needs one")
    return [(found[joint], joint) for joint in joints]
