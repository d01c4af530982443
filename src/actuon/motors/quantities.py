# SPDX-License-Identifier: Apache-2.0
"""Quantities of data sheets: names, units, ranges, and their conversion through a gear."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from ..declare.parameters import Field
from ..errors import ParameterError, listed

Side: TypeAlias = Literal["joint", "motor"]
"""Side of the gear that a value is for: output (joint) or input (motor)."""
SIDES: tuple[Side, Side] = ("joint", "motor")


@dataclass(frozen=True)
class Quantity:
    """A quantity in data sheets."""

    unit: str
    """SI unit."""
    doc: str
    kind: str = ""
    """Kind, if a gear changes it: ``torque``, ``speed``, ``torque constant``, ``speed constant``, ``curve``."""
    maximum: float | None = None
    is_curve: bool = False

    def check(self, where: str, value: object) -> None:
        """Raise an error if ``value`` is not one finite number > 0. Curves are checked elsewhere."""
        if not self.is_curve:
            Field(unit=self.unit, doc=self.doc, above=0.0, maximum=self.maximum).check(where, value)
            if not isinstance(value, numbers.Real):
                raise ParameterError(f"{where}: got {value!r}; must be one number [{self.unit}]")


QUANTITIES: dict[str, Quantity] = {
    "stall_torque": Quantity(
        "N·m", "Torque at rest, by the supply voltage alone: the start of the falling line.", "torque"
    ),
    "peak_torque": Quantity("N·m", "Largest torque that motor controller or gear allow, for a short time.", "torque"),
    "rated_torque": Quantity("N·m", "Torque that the motor delivers indefinitely: continuous, nominal.", "torque"),
    "no_load_speed": Quantity(
        "rad/s", "Speed without load at the supply voltage: the end of the falling line.", "speed"
    ),
    "rated_speed": Quantity("rad/s", "Speed at the rated torque.", "speed"),
    "max_speed": Quantity("rad/s", "Largest speed allowed, whatever the load.", "speed"),
    "driving_curve": Quantity("rad/s, N·m", "Largest torque over speed, along the motion.", "curve", is_curve=True),
    "braking_curve": Quantity("rad/s, N·m", "Largest torque over speed, against the motion.", "curve", is_curve=True),
    "stall_current": Quantity("A", "Current at rest at the supply voltage."),
    "peak_current": Quantity("A", "Largest current that the motor controller allows."),
    "rated_current": Quantity("A", "Current at the rated torque."),
    "kt": Quantity("N·m/A", "Torque constant.", "torque constant"),
    "kv": Quantity("rad/s/V", "Speed constant: speed without load per volt.", "speed constant"),
    "resistance": Quantity("Ω", "Resistance of the winding between two terminals, at 25 °C."),
    "supply_voltage": Quantity("V", "Supply voltage, for which the other values hold."),
    "rotor_inertia": Quantity("kg·m²", "Inertia of the rotor, at the motor."),
    "reflected_inertia": Quantity("kg·m²", "Inertia of rotor and gear, at the joint: the armature."),
    "gear_ratio": Quantity("1", "Turns of the motor for one of the joint; 1 for a direct drive."),
    "gear_efficiency": Quantity("1", "Fraction of the motor's power that reaches the joint.", maximum=1.0),
    "winding_thermal_resistance": Quantity("K/W", "From winding to housing."),
    "housing_thermal_resistance": Quantity("K/W", "From housing to ambient."),
    "winding_time_constant": Quantity("s", "Thermal time constant of the winding."),
    "housing_time_constant": Quantity("s", "Thermal time constant of the housing, or motor."),
    "max_winding_temperature": Quantity("°C", "Largest temperature of the winding."),
    "current_bandwidth": Quantity("Hz", "Bandwidth of the motor controller's current loop."),
}
"""Quantities of data sheets, by the names of their values in SI units."""

_RPM = 2.0 * math.pi / 60.0
_SCALES: dict[str, dict[str, float]] = {
    "N·m": {"mnm": 1e-3, "kgcm": 0.0980665, "ozin": 0.00706155181},
    "rad/s": {"rpm": _RPM, "deg_per_s": math.pi / 180.0},
    "A": {"ma": 1e-3},
    "N·m/A": {"mnm_per_a": 1e-3},
    "rad/s/V": {"rpm_per_volt": _RPM},
    "Ω": {"mohm": 1e-3},
    "kg·m²": {"gcm2": 1e-7, "kgcm2": 1e-4},
}
"""Factors of other units, by the ending of the name: ``no_load_speed_rpm``."""


@dataclass(frozen=True)
class Spelling:
    """Name of a value in one of its units."""

    quantity: str
    unit: str
    to_si: Callable[[float], float]


def _spellings() -> dict[str, Spelling]:
    found = {}
    for name, quantity in QUANTITIES.items():
        found[name] = Spelling(name, quantity.unit, lambda value: value)
        for ending, factor in _SCALES.get(quantity.unit, {}).items():
            unit = _UNITS[ending]
            found[f"{name}_{ending}"] = Spelling(name, unit, lambda value, factor=factor: value * factor)  # type: ignore[misc]
    servo = Spelling("no_load_speed", "s/60°", lambda seconds: math.pi / 3.0 / seconds)
    return found | {"no_load_speed_s_per_60deg": servo}


_UNITS = {
    "mnm": "mN·m",
    "kgcm": "kg·cm",
    "ozin": "oz·in",
    "rpm": "rpm",
    "deg_per_s": "°/s",
    "ma": "mA",
    "mnm_per_a": "mN·m/A",
    "rpm_per_volt": "rpm/V",
    "mohm": "mΩ",
    "gcm2": "g·cm²",
    "kgcm2": "kg·cm²",
}
SPELLINGS = _spellings()
"""Names of values; those in other units than SI end with the unit."""


def spelling(where: str, name: str) -> Spelling:
    """Return the value and unit of a name.

    Raises:
        ParameterError: The name is unknown, or ambiguous, such as ``torque`` or ``speed``.
    """
    if name in SPELLINGS:
        return SPELLINGS[name]
    alike = [known for known in QUANTITIES if known.endswith(f"_{name}")]
    if alike:
        raise ParameterError(f"{where}: '{name}' is ambiguous; use one of {', '.join(alike)}")
    raise ParameterError(f"{where}: unknown value '{name}'; {listed(name, SPELLINGS, 'values')}")


Curve: TypeAlias = Sequence[Sequence[float]]


class SheetValues(TypedDict, total=False):
    """Keyword arguments of `MotorDatasheet`: each quantity in each of its units."""

    stall_torque: float | None
    stall_torque_mnm: float | None
    stall_torque_kgcm: float | None
    stall_torque_ozin: float | None
    peak_torque: float | None
    peak_torque_mnm: float | None
    peak_torque_kgcm: float | None
    peak_torque_ozin: float | None
    rated_torque: float | None
    rated_torque_mnm: float | None
    rated_torque_kgcm: float | None
    rated_torque_ozin: float | None
    no_load_speed: float | None
    no_load_speed_rpm: float | None
    no_load_speed_deg_per_s: float | None
    no_load_speed_s_per_60deg: float | None
    rated_speed: float | None
    rated_speed_rpm: float | None
    rated_speed_deg_per_s: float | None
    max_speed: float | None
    max_speed_rpm: float | None
    max_speed_deg_per_s: float | None
    driving_curve: Curve | None
    braking_curve: Curve | None
    stall_current: float | None
    stall_current_ma: float | None
    peak_current: float | None
    peak_current_ma: float | None
    rated_current: float | None
    rated_current_ma: float | None
    kt: float | None
    kt_mnm_per_a: float | None
    kv: float | None
    kv_rpm_per_volt: float | None
    resistance: float | None
    resistance_mohm: float | None
    supply_voltage: float | None
    rotor_inertia: float | None
    rotor_inertia_gcm2: float | None
    rotor_inertia_kgcm2: float | None
    reflected_inertia: float | None
    reflected_inertia_gcm2: float | None
    reflected_inertia_kgcm2: float | None
    gear_ratio: float | None
    gear_efficiency: float | None
    winding_thermal_resistance: float | None
    housing_thermal_resistance: float | None
    winding_time_constant: float | None
    housing_time_constant: float | None
    max_winding_temperature: float | None
    current_bandwidth: float | None
