# SPDX-License-Identifier: Apache-2.0
"""Quantities of logs, and their units."""

from __future__ import annotations

import math
import re

from ..errors import LogError, listed

RAW = "raw"
"""Unit of numbers that are kept as logged."""
_DEGREE = math.pi / 180.0
_ANGLE = {
    "rad": (1.0, "rad"),
    "mrad": (1e-3, "rad"),
    "deg": (_DEGREE, "rad"),
    "turn": (math.tau, "rad"),
    "m": (1.0, "m"),
    "mm": (1e-3, "m"),
}
_SPEED = {
    "rad/s": (1.0, "rad/s"),
    "mrad/s": (1e-3, "rad/s"),
    "deg/s": (_DEGREE, "rad/s"),
    "rpm": (math.tau / 60.0, "rad/s"),
    "turn/s": (math.tau, "rad/s"),
    "m/s": (1.0, "m/s"),
    "mm/s": (1e-3, "m/s"),
}
_EFFORT = {"N·m": (1.0, "N·m"), "mN·m": (1e-3, "N·m"), "N": (1.0, "N")}
_TIME = {"s": (1.0, "s"), "ms": (1e-3, "s"), "us": (1e-6, "s"), "ns": (1e-9, "s")}
_VOLTAGE = {"V": (1.0, "V"), "mV": (1e-3, "V")}
_RAW = {RAW: (1.0, RAW)}
UNITS: dict[str, dict[str, tuple[float, str]]] = {
    "time": _TIME,
    "command_time": _TIME,
    "position": _ANGLE,
    "command": _ANGLE,
    "velocity": _SPEED,
    "velocity_command": _SPEED,
    "effort": _EFFORT,
    "effort_command": _EFFORT,
    "enabled": {"bool": (1.0, "bool")},
    "supply": _VOLTAGE,
    "voltage": _RAW | _VOLTAGE,
    "current": _RAW | {"A": (1.0, "A"), "mA": (1e-3, "A")},
    "temperature": _RAW | {"°C": (1.0, "°C")},
    "duty": _RAW | {"fraction": (1.0, "fraction"), "%": (0.01, "fraction")},
}
"""Units of each quantity, with their size in an SI unit and that unit. The first is the default."""
QUANTITIES = tuple(UNITS)
CLOCKS = ("time", "command_time")
ANGLES = ("position", "command")
NEEDED = (*CLOCKS, *ANGLES, "velocity", "effort_command", "enabled")
"""Quantities of which every cell must be a number. Others are left out if one is not."""
SHARED = ("supply", "voltage", "temperature", "enabled")
"""Quantities that a log may hold once for all joints."""
_COUNTS = re.compile(r"counts?/([1-9]\d{0,9})(/s)?")
_OTHER_SPELLINGS = {
    "degree": "deg",
    "degrees": "deg",
    "°": "deg",
    "radian": "rad",
    "radians": "rad",
    "rads": "rad",
    "rev": "turn",
    "turns": "turn",
    "°/s": "deg/s",
    "dps": "deg/s",
    "radps": "rad/s",
    "rad_ps": "rad/s",
    "rad_s": "rad/s",
    "deg_s": "deg/s",
    "m_s": "m/s",
    "mm_s": "mm/s",
    "rev/s": "turn/s",
    "nm": "N·m",
    "n m": "N·m",
    "n*m": "N·m",
    "n·m": "N·m",
    "n.m": "N·m",
    "mnm": "mN·m",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "µs": "us",
    "μs": "us",
    "usec": "us",
    "nsec": "ns",
    "c": "°C",
    "degc": "°C",
    "ma": "mA",
    "a": "A",
    "v": "V",
    "mv": "mV",
    "n": "N",
    "percent": "%",
}


def spelled(quantity: str, unit: str) -> str | None:
    """Return a unit as `UNITS` spells it; None if the quantity has no such unit."""
    known = UNITS[quantity]
    name = unit.strip()
    name = name if name in known else _OTHER_SPELLINGS.get(name.lower(), name)
    counts = _COUNTS.fullmatch(name)
    is_counts = counts is not None and known is (_SPEED if counts[2] else _ANGLE)
    return name if name in known or is_counts else None


def checked(where: str, quantity: str, unit: str) -> str:
    """Return a unit as `UNITS` spells it.

    Args:
        where: Beginning of the error message.
        quantity: One of `QUANTITIES`.
        unit: Unit, such as ``"deg"``, or ``"count/4096"`` for 4096 counts per turn.

    Raises:
        LogError: The quantity has no such unit.
    """
    name = spelled(quantity, unit)
    if name is None:
        counts = {"rad": ["count/4096"], "rad/s": ["count/4096/s"]}.get(default(quantity), [])
        known = [*UNITS[quantity], *counts]
        raise LogError(f"{where}: {quantity} has no unit '{unit}'; {listed(unit, known, 'units')}")
    return name


def factor(quantity: str, unit: str) -> float:
    """Return the size of a unit in SI units."""
    counts = _COUNTS.fullmatch(unit)
    return math.tau / int(counts[1]) if counts else UNITS[quantity][unit][0]


def is_counts(unit: str) -> bool:
    """Return whether a unit is a count, such as ``"count/4096"``."""
    return _COUNTS.fullmatch(unit) is not None


def default(quantity: str) -> str:
    """Return the default unit of a quantity."""
    return next(iter(UNITS[quantity]))


def held_in(quantity: str, unit: str) -> str:
    """Return the unit of a quantity in a `Log`, from its unit in the file."""
    return UNITS[quantity][default(quantity) if is_counts(unit) else unit][1]
