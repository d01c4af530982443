# SPDX-License-Identifier: Apache-2.0
"""Parameter files of identified servos, as github.com/Rhoban/bam publishes them: JSON, SI units at the joint."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..actuator.config import ActuatorConfig
from ..components.effects.friction import FrictionEffectConfig
from ..components.limits.voltage import VoltageClampingConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..declare.config import Config
from ..errors import RobotFileError, listed, located, shown
from ..files import read_text
from ..typing import PathLike

_LARGEST = 1 << 20

_ALWAYS = {"friction_base": "dynamic", "friction_viscous": "viscous"}
_STRIBECK = {"dtheta_stribeck": "stribeck_velocity", "alpha": "stribeck_exponent"}
_DIRECTIONAL = {
    "load_friction_motor": "load_motor",
    "load_friction_external": "load_external",
    "load_friction_motor_stribeck": "load_motor_stribeck",
    "load_friction_external_stribeck": "load_external_stribeck",
}
_QUADRATIC = {
    "load_friction_motor_quad": "load_motor_quadratic",
    "load_friction_external_quad": "load_external_quadratic",
}
_MODELS = {
    "m1": (_ALWAYS, ()),
    "m2": (_ALWAYS | _STRIBECK, ("friction_stribeck",)),
    "m3": (_ALWAYS, ("load_friction_base",)),
    "m4": (_ALWAYS | _STRIBECK, ("friction_stribeck", "load_friction_base", "load_friction_stribeck")),
    "m5": (_ALWAYS | _STRIBECK | _DIRECTIONAL, ("friction_stribeck",)),
    "m6": (_ALWAYS | _STRIBECK | _DIRECTIONAL | _QUADRATIC, ("friction_stribeck",)),
}
"""Renamed parameters, and the other parameters of friction, by model."""

_REST = ("kt", "R", "armature", "q_offset", "command_delay")


@dataclass(frozen=True)
class BamMotor:
    """A servo that was identified with one of the friction models M1 to M6. All values are those at the joint."""

    actuator: str
    """Name of the servo."""
    model: str
    """``"m1"`` to ``"m6"``."""
    friction: FrictionEffectConfig
    """Friction, without an inertia, which also depends on the robot."""
    torque_constant: float
    """Torque constant [N·m/A]."""
    resistance: float | None
    """Resistance of the winding [Ω]; None if the file has none."""
    armature: float
    """Inertia of the rotor [kg·m²]."""
    q_offset: float
    """Offset of the test stand's angle sensor [rad]."""
    command_delay: float
    """Delay between a command and its effect [s]."""

    def config(self, controller: Config, bus_voltage: float = math.inf) -> ActuatorConfig:
        """Return an actuator with this motor: voltage limits, friction, and the rotor as the joint's armature.

        Args:
            controller: Such as a `ServoPWMControlConfig` with the same torque constant and resistance.
            bus_voltage: Supply voltage [V]. There is no limit if it is inf, or if the file has no resistance.

        Examples:
            >>> friction = actuon.FrictionEffectConfig(dynamic=0.02, viscous=0.01)
            >>> motor = actuon.BamMotor("xl330", "m1", friction, 0.6, 4.5, 0.001, 0.0, 0.0)
            >>> pd = actuon.PDControlConfig(kp=2.0, kd=0.02)
            >>> [type(stage).__name__ for stage in motor.config(pd, bus_voltage=5.0).stages[1:]]
            ['GearTransmissionConfig', 'VoltageClampingConfig', 'FrictionEffectConfig']
        """
        limits = []
        if self.resistance is not None:
            limits.append(VoltageClampingConfig(self.torque_constant, self.resistance, bus_voltage))
        rotor = GearTransmissionConfig(ratio=1.0, reflected_inertia=self.armature)
        return ActuatorConfig(controller, limits, transmission=rotor, effects=[self.friction])


def load_bam(path: PathLike) -> BamMotor:
    """Read a parameter file of the BAM project: friction as a config, and the other values of the motor.

    Args:
        path: A ``.json`` file with ``model``, ``actuator``, ``kt``, ``armature``, ``friction_base``, ….

    Raises:
        RobotFileError: The file is not valid; the message names the reason.

    Examples:
        >>> import json, pathlib
        >>> values = {"model": "m1", "actuator": "xl330", "kt": 0.6, "R": 4.5, "armature": 0.001}
        >>> values |= {"friction_base": 0.02, "friction_viscous": 0.01}
        >>> _ = pathlib.Path("xl330.json").write_text(json.dumps(values))
        >>> motor = actuon.load_bam("xl330.json")
        >>> motor.actuator, motor.friction.dynamic
        ('xl330', 0.02)
    """
    where = f"'{path}'"
    try:
        found = json.loads(read_text(Path(path), _LARGEST))
    except (json.JSONDecodeError, RecursionError) as error:
        raise RobotFileError(f"{where}: is not a JSON file: {error}") from error
    if not isinstance(found, dict):
        raise RobotFileError(f"{where}: got {type(found).__name__}; must be an object of parameters by name")
    model, actuator = found.pop("model", None), found.pop("actuator", None)
    if model not in tuple(_MODELS) or not isinstance(actuator, str):
        raise RobotFileError(
            f"{where}: got model {shown(model)} and actuator {shown(actuator)}; must be one of {', '.join(_MODELS)}, "
            "and a name"
        )
    same, others = _MODELS[model]
    needed = ("kt", "armature", *same, *others)
    for name in needed:
        if name not in found:
            raise RobotFileError(f"{where}: model {model} needs '{name}'")
    for name, value in found.items():
        if name not in (*needed, *_REST):
            raise RobotFileError(
                f"{where}: model {model} has no '{name}'; {listed(name, (*needed, *_REST), 'parameters')}"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RobotFileError(f"{where}: {name}: got {shown(value)}; must be a finite number")
    with located(where, RobotFileError):
        friction = FrictionEffectConfig(**{ours: found[name] for name, ours in same.items()}, **_combined(found))
    return BamMotor(
        actuator,
        model,
        friction,
        torque_constant=found["kt"],
        resistance=found.get("R"),
        armature=found["armature"],
        q_offset=found.get("q_offset", 0.0),
        command_delay=found.get("command_delay", 0.0),
    )


def _combined(found: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that combine several of the file."""
    values = {}
    if "friction_stribeck" in found:
        values["static"] = found["friction_base"] + found["friction_stribeck"]
    if "load_friction_base" in found:
        values |= dict.fromkeys(("load_motor", "load_external"), found["load_friction_base"])
    if "load_friction_stribeck" in found:
        values |= dict.fromkeys(("load_motor_stribeck", "load_external_stribeck"), found["load_friction_stribeck"])
    return values
