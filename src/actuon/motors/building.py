# SPDX-License-Identifier: Apache-2.0
"""Build stages from the values of a data sheet, and record the use of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..components.effects.current_loop import CurrentLoopEffectConfig
from ..components.limits.dc_motor import DCMotorClampingConfig
from ..components.limits.heat import HeatClampingConfig
from ..components.limits.max_effort import MaxEffortClampingConfig
from ..components.limits.torque_speed import TorqueSpeedClampingConfig
from ..components.limits.voltage import VoltageClampingConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..declare.config import Config
from ..errors import ParameterError
from .quantities import QUANTITIES
from .relations import compared

_TORQUES = (
    "peak_torque, stall_torque, driving_curve, kt with peak_current, or kt or kv with resistance and supply_voltage"
)
_THERMAL = (
    "winding_thermal_resistance",
    "housing_thermal_resistance",
    "winding_time_constant",
    "housing_time_constant",
    "max_winding_temperature",
)
_THROUGH_GEAR = {
    "torque": "; at the motor ÷ (gear_ratio·gear_efficiency)",
    "torque constant": "; at the motor ÷ (gear_ratio·gear_efficiency)",
    "speed": "; at the motor × gear_ratio",
    "speed constant": "; at the motor × gear_ratio",
    "curve": "; at the motor speeds × and torques ÷ gear_ratio",
}
_TORQUE_FIGURES = ("peak_torque", "stall_torque", "rated_torque", "driving_curve", "braking_curve")
_UNUSED = "not used"
_CHECKED = "cross-check only"


@dataclass(frozen=True)
class ValueUse:
    """Use of one value of a data sheet."""

    name: str
    """Name of the value, in the unit of the data sheet."""
    value: float | tuple[tuple[float, float], ...]
    """A number, or a curve of pairs."""
    unit: str
    at: str
    """``"joint"``, ``"motor"``, or empty for values that are the same on both sides."""
    became: str
    """Parameter that it became, such as ``"dc_motor.saturation_effort"``; or "cross-check only", or "not used"."""
    how: str
    """Value of the parameter, and its formula; or the reason why it is not used, if there is a particular one."""
    is_used: bool
    """Whether it became a parameter of a stage. Tables show the others last."""


@dataclass
class _Build:
    """Stages so far, and the use of each value."""

    values: Mapping[str, Any]
    sides: Mapping[str, str]
    """Side of the gear that each torque, speed and constant is printed for."""
    tolerance: float
    stages: list[Config] = field(default_factory=list)
    uses: dict[str, tuple[str, str, bool]] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return all(name in self.values for name in names)

    def use(self, name: str, became: str, how: str, is_used: bool = True) -> None:
        self.uses.setdefault(name, (became, how, is_used))

    def gear(self) -> None:
        v = self.values
        if not self.has("gear_ratio"):
            if self.has("reflected_inertia"):
                self.stages.append(GearTransmissionConfig(ratio=1.0, reflected_inertia=v["reflected_inertia"]))
                self.use("reflected_inertia", "gear.reflected_inertia", "the engine's armature; the ratio is 1")
            return
        losses = {"efficiency": v.get("gear_efficiency", 1.0)}
        if self.is_calibrated_at_joint:
            losses["compensates_losses"] = True
        inertia = {"reflected_inertia": v["reflected_inertia"]} if self.has("reflected_inertia") else {}
        if not inertia and self.has("rotor_inertia"):
            inertia = {"rotor_inertia": v["rotor_inertia"]}
        self.stages.append(GearTransmissionConfig(ratio=v["gear_ratio"], **losses, **inertia))
        self.use("gear_ratio", "gear.ratio", "limits after it are on the motor side")
        drive = "; the drive compensates losses, as its torque is for the joint" if len(losses) > 1 else ""
        self.use("gear_efficiency", "gear.efficiency", f"both ways{drive}")
        for name, value in inertia.items():
            armature = value * v["gear_ratio"] ** 2 if name == "rotor_inertia" else value
            self.use(name, f"gear.{name}", f"the engine's armature is {armature:.4g} kg·m²")
        self.use("rotor_inertia", _UNUSED, "reflected_inertia includes it", is_used=False)

    @property
    def is_calibrated_at_joint(self) -> bool:
        """Whether the gear has losses, and the drive's torque is that of the joint: its torque constant, or all torques
        if there is no constant, are for the joint."""
        named = [name for name in ("kt", "kv") if name in self.sides]
        named = named or [name for name in _TORQUE_FIGURES if name in self.sides]
        lossy = self.values.get("gear_efficiency", 1.0) < 1.0
        return lossy and bool(named) and all(self.sides[name] == "joint" for name in named)

    @property
    def constant(self) -> str:
        """Name of the value that determines the torque constant."""
        return "kt" if self.has("kt") else "kv"

    def printed_constant(self) -> float | None:
        if self.has("kt"):
            return float(self.values["kt"])
        return 1.0 / self.values["kv"] if self.has("kv") else None

    def is_electrical(self) -> bool:
        """Return True if the limit is one of voltage and current."""
        known = self.printed_constant() is not None and self.has("resistance", "supply_voltage")
        return known and not self.has("driving_curve") and not self.is_slowed()

    def torque_constant(self) -> float | None:
        """Return the torque per current; None if it is unknown.

        A printed no-load speed takes precedence over a printed constant: it is the end of the falling line itself.
        """
        if self.is_electrical() and self.has("no_load_speed"):
            return float(self.values["supply_voltage"] / self.values["no_load_speed"])
        return self.printed_constant()

    def resistance(self) -> float:
        """Return the resistance of the winding. A printed stall torque takes precedence: it starts the falling line."""
        v, kt = self.values, self.torque_constant()
        if kt is not None and self.is_electrical() and self.has("stall_torque"):
            return float(kt * v["supply_voltage"] / v["stall_torque"])
        return float(v["resistance"])

    def peak(self) -> float | None:
        """Return the largest torque that the motor controller allows; None if it is unknown."""
        kt = self.torque_constant()
        if self.has("peak_torque"):
            return float(self.values["peak_torque"])
        return kt * self.values["peak_current"] if kt is not None and self.has("peak_current") else None

    def limits(self) -> None:
        kt, peak = self.torque_constant(), self.peak()
        if self.has("braking_curve") and not self.has("driving_curve"):
            raise ParameterError("MotorDatasheet: braking_curve needs driving_curve")
        if self.has("driving_curve"):
            self.curve()
        elif kt is not None and self.is_electrical():
            self.voltage(kt, peak)
        elif self.stall() is not None and (self.has("no_load_speed") or (kt and self.has("supply_voltage"))):
            self.line(kt, peak)
        elif self.has("no_load_speed"):
            raise ParameterError(
                "MotorDatasheet: no_load_speed alone does not define a torque-speed line; also give stall_torque, or "
                "resistance and supply_voltage with kt or kv. If it is a speed limit, use max_speed"
            )
        else:
            self.flat(peak)
        if self.has("max_speed"):
            self.speed(self.most())

    def most(self) -> float:
        """Return the largest torque at any speed."""
        v, peak = self.values, self.peak()
        if peak is not None:
            return peak
        if self.has("driving_curve"):
            return max(torque for curve in ("driving_curve", "braking_curve") for _, torque in v.get(curve, ()))
        stall = self.stall()
        if stall is None:
            raise ParameterError(f"MotorDatasheet: the largest torque is unknown; needs {_TORQUES}")
        return stall

    def stall(self) -> float | None:
        """Return the torque at which the falling line begins; None if it is unknown."""
        v, kt = self.values, self.torque_constant()
        if self.has("stall_torque"):
            return float(v["stall_torque"])
        if kt is None or not self.has("resistance", "supply_voltage"):
            return None
        return float(kt * v["supply_voltage"] / v["resistance"])

    def is_slowed(self) -> bool:
        """Return True if losses slow the motor below its constant: a line through both ends is closer then."""
        ideal = self.values["supply_voltage"] / self.printed_constant()
        return bool(self.values.get("no_load_speed", ideal) < ideal * (1.0 - self.tolerance))

    def curve(self) -> None:
        said = [n for n in ("stall_torque", "peak_torque", "no_load_speed", "max_speed") if self.has(n)]
        if said:
            raise ParameterError(
                f"MotorDatasheet: got driving_curve and {said[0]}, which the curve contains; leave out {said[0]}"
            )
        driving, braking = self.values["driving_curve"], self.values.get("braking_curve")
        self.stages.append(TorqueSpeedClampingConfig.symmetric(driving, braking))
        self.use("driving_curve", "torque_speed.speeds, efforts", "along the motion, both directions")
        self.use("braking_curve", "torque_speed.speeds, efforts", "against the motion, both directions")

    def voltage(self, kt: float, peak: float | None) -> None:
        v = self.values
        current = {} if peak is None else {"max_current": peak / kt}
        resistance = self.resistance()
        self.stages.append(
            VoltageClampingConfig(torque_constant=kt, resistance=resistance, bus_voltage=v["supply_voltage"], **current)
        )
        if self.has("no_load_speed"):
            self.use(self.constant, _CHECKED, "the torque constant follows from no_load_speed", is_used=False)
            self.use("no_load_speed", "voltage.torque_constant", f"{kt:.4g} N·m/A, supply_voltage/no_load_speed")
        if self.has("stall_torque"):
            self.use("resistance", _CHECKED, "the resistance follows from stall_torque", is_used=False)
            how = "torque_constant·supply_voltage/stall_torque"
            self.use("stall_torque", "voltage.resistance", f"{resistance:.4g} Ω, {how}")
        self.use(self.constant, "voltage.torque_constant", f"{kt:.4g} N·m/A{'' if self.has('kt') else ', 1/kv'}")
        self.use("resistance", "voltage.resistance", f"{resistance:.4g} Ω")
        self.use("supply_voltage", "voltage.bus_voltage", f"{v['supply_voltage']:.4g} V")
        self.use_peak(peak, "voltage.max_current", lambda torque: f"{torque / kt:.4g} A, torque/kt")

    def line(self, kt: float | None, peak: float | None) -> None:
        v, stall = self.values, self.stall()
        assert stall is not None
        no_load = v["no_load_speed"] if self.has("no_load_speed") else v["supply_voltage"] / kt
        self.stages.append(DCMotorClampingConfig(stall, no_load, stall if peak is None else peak))
        self.use("stall_torque", "dc_motor.saturation_effort", f"{stall:.4g} N·m")
        if not self.has("stall_torque"):
            for name in (self.constant, "resistance", "supply_voltage"):
                self.use(name, "dc_motor.saturation_effort", f"{stall:.4g} N·m, kt·supply_voltage/resistance")
        self.use("no_load_speed", "dc_motor.velocity_limit", f"{no_load:.4g} rad/s")
        if not self.has("no_load_speed"):
            for name in (self.constant, "supply_voltage"):
                self.use(name, "dc_motor.velocity_limit", f"{no_load:.4g} rad/s, supply_voltage/kt")
        self.use_peak(peak, "dc_motor.max_motor_effort", lambda torque: f"{torque:.4g} N·m")

    def flat(self, peak: float | None) -> None:
        """Limit the effort to one value, up to the largest speed if there is one."""
        most = self.most()
        became = "torque_speed.efforts" if self.has("max_speed") else "max_effort.max_effort"
        if not self.has("max_speed"):
            self.stages.append(MaxEffortClampingConfig(most))
        self.use_peak(peak, became, lambda torque: f"{torque:.4g} N·m")
        is_peak = peak is None
        self.use("stall_torque", became if is_peak else _CHECKED, f"{most:.4g} N·m" if is_peak else "", is_peak)

    def speed(self, most: float) -> None:
        fastest, no_load = self.values["max_speed"], self.values.get("no_load_speed", math.inf)
        if fastest >= no_load:
            self.use("max_speed", _UNUSED, "the no-load speed is not above it", is_used=False)
            return
        self.stages.append(TorqueSpeedClampingConfig.symmetric([(0.0, most), (fastest, most), (fastest, 0.0)]))
        self.use("max_speed", "torque_speed.speeds", f"{fastest:.4g} rad/s; beyond it the motor only brakes")

    def use_peak(self, peak: float | None, became: str, said: Callable[[float], str]) -> None:
        if peak is None:
            return
        self.use("peak_torque", became, said(peak))
        if not self.has("peak_torque"):
            for name in ("peak_current", self.constant):
                self.use(name, became, f"{said(peak)}; the torque is kt·peak_current")

    def heat(self) -> None:
        v, kt = self.values, self.torque_constant()
        given = [name for name in _THERMAL if self.has(name)]
        if not given:
            return
        missing = [name for name in (*_THERMAL, "resistance", "rated_torque") if not self.has(name)]
        missing += ["kt or kv"] if kt is None else []
        if missing:
            raise ParameterError(
                f"MotorDatasheet: {given[0]} is for the heat of the motor, which also needs {missing[0]}"
            )
        hottest = v["max_winding_temperature"]
        config = HeatClampingConfig(
            **{name: v[name] for name in _THERMAL[:-1]},
            motor_constant=kt / math.sqrt(self.resistance()),  # type: ignore[operator]
            max_effort=self.most(),
            derated_effort=v["rated_torque"],
            derating_start=hottest,
            derating_end=hottest,
        )
        for name in _THERMAL[:-1]:
            self.use(name, f"heat.{name}", f"{v[name]:.4g}")
        self.use("max_winding_temperature", "heat.derating_start, derating_end", f"{hottest:.4g} °C")
        self.use("rated_torque", "heat.derated_effort", f"{v['rated_torque']:.4g} N·m, from that temperature on")
        self.stages.append(config)

    def current_loop(self) -> None:
        if self.has("current_bandwidth"):
            lag = 1.0 / (2.0 * math.pi * self.values["current_bandwidth"])
            self.stages.append(CurrentLoopEffectConfig(lag))
            self.use("current_bandwidth", "current_loop.time_constant", f"{lag:.4g} s, 1/(2π·bandwidth)")


def build(
    values: Mapping[str, Any], given: Mapping[str, tuple[str, Any, str, str]], tolerance: float
) -> tuple[tuple[Config, ...], tuple[ValueUse, ...]]:
    """Return the stages of a motor, and the use of each of its values.

    Args:
        values: Values in SI units, on the motor side; on the joint side if there is no gear.
        given: Name, value, unit and side of each, in the units of the data sheet.
        tolerance: Largest relative difference between a value and the one that others imply.

    Raises:
        ParameterError: A required value is missing.
    """
    made = _Build(values, {name: side for name, (_, _, _, side) in given.items() if side}, tolerance)
    made.gear()
    made.heat()
    made.limits()
    made.current_loop()
    known = compared(values)
    table = []
    for quantity, (name, value, unit, side) in given.items():
        why = "the heat stage uses it if thermal values are given" if quantity == "rated_torque" else ""
        became, how, is_used = made.uses.get(quantity, (_CHECKED if quantity in known else _UNUSED, why, False))
        if side == "joint" and "gear_ratio" in values and is_used:
            how += _THROUGH_GEAR[QUANTITIES[quantity].kind]
        table.append(ValueUse(name, value, unit, side, became, how, is_used))
    return tuple(made.stages), tuple(table)
