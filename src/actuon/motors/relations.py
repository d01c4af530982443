# SPDX-License-Identifier: Apache-2.0
"""Consistency checks between the values of one motor."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from ..errors import ParameterError
from .quantities import QUANTITIES


@dataclass(frozen=True)
class Relation:
    """Formula of a value, or of its bound, from others; in SI units on the motor side."""

    quantity: str
    needs: tuple[str, ...]
    formula: str
    value: Callable[[Mapping[str, float]], float]
    is_bound: bool = False
    """True if the value may be smaller, by losses or limits of the motor controller."""
    hint: str = ""


RELATIONS = (
    Relation("kt", ("kv",), "1/kv", lambda v: 1.0 / v["kv"]),
    Relation(
        "stall_torque",
        ("kt", "supply_voltage", "resistance"),
        "kt·supply_voltage/resistance",
        lambda v: v["kt"] * v["supply_voltage"] / v["resistance"],
        hint="if the motor controller limits it, use peak_torque",
    ),
    Relation("stall_torque", ("kt", "stall_current"), "kt·stall_current", lambda v: v["kt"] * v["stall_current"]),
    Relation(
        "stall_current",
        ("supply_voltage", "resistance"),
        "supply_voltage/resistance",
        lambda v: v["supply_voltage"] / v["resistance"],
        hint="if the motor controller limits it, use peak_current",
    ),
    Relation("no_load_speed", ("kv", "supply_voltage"), "kv·supply_voltage", lambda v: v["kv"] * v["supply_voltage"]),
    Relation(
        "no_load_speed", ("kt", "supply_voltage"), "supply_voltage/kt", lambda v: v["supply_voltage"] / v["kt"], True
    ),
    Relation("peak_torque", ("kt", "peak_current"), "kt·peak_current", lambda v: v["kt"] * v["peak_current"], True),
    Relation("rated_torque", ("kt", "rated_current"), "kt·rated_current", lambda v: v["kt"] * v["rated_current"], True),
    Relation("peak_torque", ("stall_torque",), "stall_torque", lambda v: v["stall_torque"], True),
    Relation("rated_torque", ("stall_torque",), "stall_torque", lambda v: v["stall_torque"], True),
    Relation("rated_torque", ("peak_torque",), "peak_torque", lambda v: v["peak_torque"], True),
    Relation("rated_speed", ("no_load_speed",), "no_load_speed", lambda v: v["no_load_speed"], True),
    Relation("rated_speed", ("max_speed",), "max_speed", lambda v: v["max_speed"], True),
    Relation("rated_current", ("peak_current",), "peak_current", lambda v: v["peak_current"], True),
    Relation("rated_current", ("stall_current",), "stall_current", lambda v: v["stall_current"], True),
    Relation(
        "rated_torque",
        ("stall_torque", "rated_speed", "no_load_speed"),
        "stall_torque·(1 − rated_speed/no_load_speed)",
        lambda v: v["stall_torque"] * (1.0 - v["rated_speed"] / v["no_load_speed"]),
        True,
    ),
    Relation(
        "rotor_inertia",
        ("reflected_inertia", "gear_ratio"),
        "reflected_inertia/gear_ratio²",
        lambda v: v["reflected_inertia"] / v["gear_ratio"] ** 2,
        True,
    ),
)


def _known(values: Container[str]) -> list[Relation]:
    return [relation for relation in RELATIONS if all(name in values for name in (relation.quantity, *relation.needs))]


def compared(values: Container[str]) -> set[str]:
    """Return the values that take part in a relation with others."""
    names = {name for name in ("kt", *QUANTITIES) if name in values or (name == "kt" and "kv" in values)}
    found = {name for relation in _known(names) for name in (relation.quantity, *relation.needs)}
    return found | ({"kv"} if "kt" in found and "kt" not in values else set())


def check_relations(values: Mapping[str, float], shown: Mapping[str, str], tolerance: float) -> None:
    """Raise an error if values contradict each other.

    Args:
        values: Values in SI units, on the motor side.
        shown: Text of each value, in the unit of the data sheet.
        tolerance: Largest difference, relative to the larger value.

    Raises:
        ParameterError: With both values and the tolerance.
    """
    side = " at the motor" if "gear_ratio" in values else ""
    if "kv" in values and "kt" not in values:
        values, shown = {**values, "kt": 1.0 / values["kv"]}, {**shown, "kt": shown["kv"]}
    for relation in _known(values):
        got, expected = values[relation.quantity], relation.value(values)
        difference = (got - expected) / max(got, abs(expected))
        if difference <= tolerance and (relation.is_bound or difference >= -tolerance):
            continue
        unit = QUANTITIES[relation.quantity].unit
        rule = "must not be above" if relation.is_bound else "must be"
        given = ", ".join(dict.fromkeys(shown[name] for name in (relation.quantity, *relation.needs)))
        raise ParameterError(
            f"MotorDatasheet: {relation.quantity} is {got:.4g} {unit}{side}, and {rule} {relation.formula}, "
            f"{expected:.4g} {unit}: they differ by {abs(difference):.0%}; at most {tolerance:.0%} is allowed. "
            f"Given: {given}. Correct one of them, or leave one out{relation.hint and '; '}{relation.hint}"
        )
