# SPDX-License-Identifier: Apache-2.0
"""Names of columns that people use, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .units import CLOCKS, spelled


@dataclass(frozen=True)
class Column:
    """What a column of a file means: ``sign · (scale · unit · number) + offset``, the last in SI.

    Args:
        name: In the file.
        quantity: One of `units.QUANTITIES`.
        joint: "" where the name says none.
        unit: None where nothing says it.
        sign: 1 or −1.
        scale: By which the numbers are multiplied to be in ``unit``.
        offset: [SI], added last.
    """

    name: str
    quantity: str
    joint: str = ""
    unit: str | None = None
    sign: int = 1
    scale: float = 1.0
    offset: float = 0.0


def _both_orders(first: Iterable[str], second: Iterable[str]) -> list[str]:
    second = list(second)
    return [f"{a} {b}" for a in first for b in second] + [f"{b} {a}" for a in first for b in second]


_POSITION = ("position", "positions", "pos", "q", "qpos", "angle", "theta")
_VELOCITY = ("velocity", "velocities", "vel", "speed", "qd", "dq", "qvel", "omega")
_EFFORT = ("effort", "efforts", "torque", "torques", "tau")
_COMMANDED = ("cmd", "command", "commanded", "target", "goal", "des", "desired", "ref", "reference", "setpoint")
_MEASURED = ("meas", "measured", "actual", "act", "present", "state", "feedback", "fb", "est", "estimated")
_OF_WHAT = ("joint", "dof", "motor", "servo", "actuator")
_CLOCK = ("time", "t", "timestamp", "timestamps", "stamp", "time stamp")

_NAMES: dict[str, list[str]] = {
    "time": [*_CLOCK, *_both_orders(_CLOCK, [*_MEASURED, *_POSITION])],
    "command_time": ["command time", *_both_orders(_CLOCK, _COMMANDED)],
    "position": [*_POSITION, *_both_orders(_MEASURED, _POSITION), *(f"current {word}" for word in _POSITION)],
    "command": [*_COMMANDED, *_both_orders(_COMMANDED, _POSITION)],
    "velocity": [*_VELOCITY, *_both_orders(_MEASURED, _VELOCITY), *(f"current {word}" for word in _VELOCITY)],
    "velocity_command": _both_orders(_COMMANDED, _VELOCITY),
    "effort": [*_EFFORT, *_both_orders((*_MEASURED, "applied"), _EFFORT)],
    "effort_command": _both_orders((*_COMMANDED, "con", "control"), _EFFORT),
    "current": ["current", "currents", "cur", "amps", "iq", *_both_orders(_MEASURED, ["current", "cur"])],
    "supply": [
        *("supply", "vin", "vbus", "volts", "supply voltage", "input volts", "input voltage"),
        *("present input voltage", "bus voltage", "battery voltage", "vbat"),
    ],
    "voltage": ["voltage", "motor voltage"],
    "load": ["load", "duty", "pwm", "present load", "present pwm"],
    "temperature": ["temp", "temperature", "temperatures", "present temperature"],
    "enabled": ["enabled", "enable", "torque enable", "torque enabled"],
}
_MEANING = {tuple(name.split()): quantity for quantity, names in _NAMES.items() for name in names}
_MEANING |= {(of, *words): q for of in _OF_WHAT for words, q in list(_MEANING.items()) if q not in CLOCKS}
_LONGEST = max(map(len, _MEANING))
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BRACKETED_UNIT = re.compile(r"\s*[\[(]\s*([^\[\]()]+?)\s*[\])]\s*$")
_TRAILING_UNIT = re.compile(
    r"[_ .](deg|degrees?|m?rad|radians?|mm|ms|us|ns|s|sec|seconds?|rpm|dps|rad_?ps|rad_s|deg_s|mm?_s|nm|ma|mv|"
    r"counts?/\d+)$",
    re.IGNORECASE,
)
_BETWEEN = "_/.-: []"


def recognise(name: str) -> Column | None:
    """What a column means by its name: a quantity before or after a joint, and perhaps a unit at its end."""
    for pattern in (_BRACKETED_UNIT, _TRAILING_UNIT):
        found = pattern.search(name)
        if found:
            column = _without_unit(name[: found.start()])
            unit = spelled(column.quantity, found[1]) if column else None
            if column and unit and (found[1].lower() != "s" or column.quantity in CLOCKS or pattern is _BRACKETED_UNIT):
                return Column(name, column.quantity, column.joint, unit)
    column = _without_unit(name)
    return Column(name, column.quantity, column.joint) if column else None


def _without_unit(name: str) -> Column | None:
    """What a name means that says no unit. A slash parts the quantity from the joint, whatever that is called."""
    kind, slash, joint = name.partition("/")
    quantity = _MEANING.get(tuple(token[0].lower() for token in _TOKEN.finditer(kind)))
    if slash and quantity and quantity not in CLOCKS:
        return Column(name, quantity, joint)
    tokens = list(_TOKEN.finditer(name))
    words = [token[0].lower() for token in tokens]
    for count in range(min(_LONGEST, len(words)), 0, -1):
        before = _MEANING.get(tuple(words[:count])), name[tokens[count - 1].end() :]
        after = _MEANING.get(tuple(words[-count:])), name[: tokens[-count].start()]
        for quantity, rest in (before, after):
            joint = rest.strip(_BETWEEN)
            if quantity and not (joint and quantity in CLOCKS):
                return Column(name, quantity, joint)
    return None
