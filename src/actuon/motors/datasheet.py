# SPDX-License-Identifier: Apache-2.0
"""`MotorDatasheet`: the printed values of a motor, and the stages that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Unpack

from ..actuator.config import ActuatorConfig, Part
from ..components.limits.torque_speed import TorqueSpeedClampingConfig, rising_curve
from ..declare.config import Config
from ..errors import ParameterError, listed, located, shown
from .building import ValueUse, build
from .quantities import QUANTITIES, SIDES, SPELLINGS, SheetValues, Side, spelling
from .relations import check_relations

TOLERANCE = 0.1
"""Largest relative difference between a value and the one that others imply, by default."""
_BY_VOLTAGE = ("stall_torque", "no_load_speed", "stall_current", "driving_curve", "braking_curve")
"""Values that depend on the supply voltage."""


@dataclass(frozen=True)
class _PrintedValue:
    """A value in the unit of the data sheet."""

    name: str
    value: object
    si: Any
    side: Side | None

    def __str__(self) -> str:
        at = f" at the {self.side}" if self.side is not None else ""
        value = shown(self.value) if isinstance(self.value, (list, tuple)) else f"{self.value:g}"
        return f"{self.name} {value} {SPELLINGS[self.name].unit}{at}"


class MotorDatasheet:
    """Values of a motor as its vendor prints them. They must not contradict each other.

    Values are in SI units, or in the unit that their name ends with: ``no_load_speed_rpm``, ``stall_torque_kgcm``.
    All are optional; if one is required, the error names the alternatives.

    Args:
        at: Side of the gear for which torques, speeds and their constants are printed: ``"joint"`` (output) or
            ``"motor"`` (input); or a mapping from name to side.
        tolerance: Largest relative difference between a value and the one that others imply.
        values: The values by name.

    Raises:
        ParameterError: A value is unknown, out of range, passed twice or contradicts others; or its side is missing.

    Examples:
        >>> sheet = actuon.MotorDatasheet(at="joint", stall_torque=4.1, no_load_speed_rpm=46)
        >>> round(sheet.at_joint["no_load_speed"], 3)
        4.817
    """

    def __init__(
        self,
        at: Side | Mapping[str, Side] | None = None,
        *,
        tolerance: float = TOLERANCE,
        **values: Unpack[SheetValues],
    ):
        if not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < 1.0:
            raise ParameterError(f"MotorDatasheet.tolerance: got {tolerance!r}; must be ≥ 0 and < 1")
        self.tolerance = float(tolerance)
        if at is None:
            raise ParameterError(
                "MotorDatasheet: needs at, the side of the gear that the values are printed for: 'joint' (output) or "
                "'motor' (input), or the side of each value"
            )
        _check_at(at)
        self._at: Side | Mapping[str, Side] = at if isinstance(at, str) else MappingProxyType(dict(at))
        self._given: dict[str, _PrintedValue] = {}
        for name, value in values.items():
            if value is not None:
                self._add(name, value)
        self._check_sides()
        check_relations(self.at_motor, {name: str(given) for name, given in self._given.items()}, self.tolerance)
        self._stages, self._table = build(self.at_motor, self._units(), self.tolerance)

    def _add(self, name: str, value: Any) -> None:
        meant = spelling("MotorDatasheet", name)
        where = f"MotorDatasheet.{name}"
        quantity = QUANTITIES[meant.quantity]
        quantity.check(where, value)
        if meant.quantity in self._given:
            raise ParameterError(
                f"{where}: {meant.quantity} is also given as {self._given[meant.quantity].name}; must be given once"
            )
        value = _checked_curve(where, value) if quantity.is_curve else float(value)
        si = value if quantity.is_curve else meant.to_si(value)
        self._given[meant.quantity] = _PrintedValue(
            name, value, si, self._side(name, meant.quantity) if quantity.kind else None
        )

    def _side(self, name: str, quantity: str) -> Side:
        side = self._at if isinstance(self._at, str) else self._at.get(name, self._at.get(quantity))
        if side is None:
            raise ParameterError(
                f"MotorDatasheet.at: the side of {name} is missing; must be 'joint' or 'motor' for each torque and "
                "speed, and their constants"
            )
        if side not in SIDES:
            raise ParameterError(
                f"MotorDatasheet.at: got {side!r}; must be 'joint' (output of the gear) or 'motor' (input)"
            )
        return side

    def _check_sides(self) -> None:
        if not isinstance(self._at, str):
            for name in map(str, self._at):
                if name not in SPELLINGS:
                    known = [given.name for given in self._given.values() if given.side is not None]
                    raise ParameterError(f"MotorDatasheet.at: unknown value '{name}'; {listed(name, known, 'values')}")
                if not QUANTITIES[SPELLINGS[name].quantity].kind:
                    raise ParameterError(
                        f"MotorDatasheet.at: got {name}, which is not a torque, a speed or a motor constant: "
                        f"{QUANTITIES[SPELLINGS[name].quantity].doc}"
                    )
        if "gear_ratio" in self._given:
            return
        needing = [given.name for given in self._given.values() if given.side == "motor"]
        needing += [name for name in ("rotor_inertia", "gear_efficiency") if name in self._given]
        if needing:
            raise ParameterError(f"MotorDatasheet: {needing[0]} needs gear_ratio, which is 1 for a direct drive")

    def _units(self) -> dict[str, tuple[str, Any, str, str]]:
        """Return name, value, unit and side of each value, in the units of the data sheet."""
        return {f: (g.name, g.value, SPELLINGS[g.name].unit, g.side or "") for f, g in self._given.items()}

    @property
    def values(self) -> dict[str, Any]:
        """Values in the units of the data sheet, by name."""
        return {given.name: given.value for given in self._given.values()}

    @property
    def at(self) -> dict[str, Side]:
        """Side of the gear of each torque, speed and motor constant."""
        return {given.name: given.side for given in self._given.values() if given.side is not None}

    @property
    def at_motor(self) -> dict[str, Any]:
        """Values in SI units on the motor side, by their names in SI units; on the joint side without a gear ratio.

        A torque on the joint side is reduced by the losses of the gear.
        """
        return {name: self._value_at("motor", name, given) for name, given in self._given.items()}

    @property
    def at_joint(self) -> dict[str, Any]:
        """Values in SI units on the joint side, by their names in SI units."""
        return {name: self._value_at("joint", name, given) for name, given in self._given.items()}

    def _value_at(self, side: Side, name: str, given: _PrintedValue) -> Any:
        if given.side is None or given.side == side:
            return given.si
        ratio = self._given["gear_ratio"].si if "gear_ratio" in self._given else 1.0
        efficiency = self._given["gear_efficiency"].si if "gear_efficiency" in self._given else 1.0
        faster, stronger = ratio, 1.0 / (ratio * efficiency)
        if side == "joint":
            faster, stronger = 1.0 / faster, 1.0 / stronger
        kind = QUANTITIES[name].kind
        if kind == "curve":
            return tuple((speed * faster, torque * stronger) for speed, torque in given.si)
        return given.si * (faster if "speed" in kind else stronger)

    def stages(self) -> list[Config]:
        """Return the stages that follow the controller, in order: gear, limits, effects.

        Examples:
            >>> sheet = actuon.MotorDatasheet(at="joint", stall_torque=4.1, no_load_speed=4.8)
            >>> sheet.stages()
            [DCMotorClampingConfig(saturation_effort=4.1, velocity_limit=4.8, max_motor_effort=4.1)]
        """
        return list(self._stages)

    def table(self) -> tuple[ValueUse, ...]:
        """Return the use of each value.

        Examples:
            >>> sheet = actuon.MotorDatasheet(at="joint", stall_torque=4.1, no_load_speed_rpm=46)
            >>> for use in sheet.table():
            ...     print(use.name, use.value, use.unit, "→", use.became)
            stall_torque 4.1 N·m → dc_motor.saturation_effort
            no_load_speed_rpm 46.0 rpm → dc_motor.velocity_limit
        """
        return self._table

    def actuator(self, controller: Part, *, delay: Part | None = None, sensors: Sequence[Part] = ()) -> ActuatorConfig:
        """Return an actuator with this motor.

        Args:
            controller: Controller at the joint.
            delay: Delay of the commands.
            sensors: Sensors of the joint, in this order.

        Examples:
            >>> sheet = actuon.MotorDatasheet(at="joint", stall_torque=4.1, no_load_speed=4.8)
            >>> sheet.actuator(actuon.PDControlConfig(kp=20.0, kd=0.2)).clamping[0]
            DCMotorClampingConfig(saturation_effort=4.1, velocity_limit=4.8, max_motor_effort=4.1)
        """
        before = [*sensors, *([] if delay is None else [delay]), controller]
        return ActuatorConfig(stages=[*before, *self.stages()])

    def replaced(self, at: Side | Mapping[str, Side] | None = None, **values: Unpack[SheetValues]) -> MotorDatasheet:
        """Return a data sheet with other values; None removes one. Kept values stay on their side of the gear.

        Args:
            at: Side of the gear of the new values.
            values: The new values, in any unit.

        Raises:
            ParameterError: As for a new one; or the supply voltage changes, and values that depend on it are kept.

        Examples:
            >>> sheet = actuon.MotorDatasheet(at="joint", stall_torque=4.1, no_load_speed=4.8)
            >>> sheet.replaced(stall_torque=3.5).values
            {'no_load_speed': 4.8, 'stall_torque': 3.5}
        """
        if at is not None:
            _check_at(at)
        self._check_voltage(values)
        kept, sides = dict(self.values), dict(self.at)
        for name, value in values.items():
            quantity = spelling("MotorDatasheet", name).quantity
            before = self._given.get(quantity)
            if before is not None:
                kept.pop(before.name, None)
                side = sides.pop(before.name, None)
                if side is not None:
                    sides[name] = side
            kept[name] = value
            if isinstance(at, str) and QUANTITIES[quantity].kind:
                sides[name] = at
        if at is not None and not isinstance(at, str):
            sides |= at
        return MotorDatasheet(sides, tolerance=self.tolerance, **kept)

    def _check_voltage(self, values: Mapping[str, object]) -> None:
        before, after = self._given.get("supply_voltage"), values.get("supply_voltage")
        if before is None or after is None or after == before.value:
            return
        new = {spelling("MotorDatasheet", name).quantity for name in values}
        kept = [given.name for name, given in self._given.items() if name in _BY_VOLTAGE and name not in new]
        if kept:
            raise ParameterError(
                f"MotorDatasheet: {kept[0]} is for a supply_voltage of {before.value:g} V, and would be kept at "
                f"{shown(after)} V; pass its value at that voltage, or None"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MotorDatasheet) and (self.values, self.at) == (other.values, other.at)

    def __hash__(self) -> int:
        return hash(tuple(self.values.items()))

    def __repr__(self) -> str:
        sides = set(self.at.values())
        at = repr(sides.pop()) if len(sides) == 1 else repr(self.at)
        values = "".join(f", {name}={value!r}" for name, value in self.values.items())
        tolerance = "" if self.tolerance == TOLERANCE else f", tolerance={self.tolerance!r}"
        return f"MotorDatasheet(at={at}{tolerance}{values})"


def _check_at(at: object) -> None:
    if not isinstance(at, Mapping) and at not in SIDES:
        raise ParameterError(
            f"MotorDatasheet.at: got {shown(at)}; must be 'joint' (output of the gear) or 'motor' (input), or a mapping"
        )


def _checked_curve(where: str, curve: Any) -> tuple[tuple[float, float], ...]:
    pairs = list(curve) if isinstance(curve, Iterable) else curve
    rising_curve(where, pairs)
    with located(where):
        TorqueSpeedClampingConfig.symmetric(pairs)
    return tuple((float(speed), float(torque)) for speed, torque in pairs)
