# SPDX-License-Identifier: Apache-2.0
"""The quantities that a log can hold, and the units they can be in."""

from __future__ import annotations

import math
import re

from ...errors import LogError, listed

_ANGLE = {"rad": 1.0, "mrad": 1e-3, "deg": math.pi / 180.0, "turn": math.tau, "m": 1.0, "mm": 1e-3}
_SPEED = {
    "rad/s": 1.0,
    "deg/s": math.pi / 180.0,
    "rpm": math.tau / 60.0,
    "turn/s": math.tau,
    "m/s": 1.0,
    "mm/s": 1e-3,
}
_EFFORT = {"N·m": 1.0, "mN·m": 1e-3, "N": 1.0}
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
UNITS: dict[str, dict[str, float]] = {
    "time": _TIME,
    "command_time": _TIME,
    "position": _ANGLE,
    "command": _ANGLE,
    "velocity": _SPEED,
    "velocity_command": _SPEED,
    "effort": _EFFORT,
    "effort_command": _EFFORT,
    "current": {"A": 1.0, "mA": 1e-3},
    "supply": {"V": 1.0, "mV": 1e-3},
    "voltage": {"V": 1.0, "mV": 1e-3},
    "temperature": {"°C": 1.0},
    "load": {"1": 1.0, "%": 0.01},
    "enabled": {},
}
"""Units of each quantity, SI first, and what one of them is in SI."""
QUANTITIES = tuple(UNITS)
CLOCKS = ("time", "command_time")
SHARED = ("supply", "voltage", "temperature", "enabled")
"""Quantities that may be logged once for all joints."""
AS_LOGGED = "as logged"
_COUNTS = re.compile(r"counts?/(\d+)(/s)?")
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
    "rev/s": "turn/s",
    "nm": "N·m",
    "n m": "N·m",
    "n*m": "N·m",
    "n·m": "N·m",
    "mnm": "mN·m",
    "sec": "s",
    "seconds": "s",
    "msec": "ms",
    "µs": "us",
    "μs": "us",
    "usec": "us",
    "nsec": "ns",
    "c": "°C",
    "ma": "mA",
    "a": "A",
    "v": "V",
    "mv": "mV",
    "n": "N",
    "percent": "%",
}


def factor(where: str, quantity: str, unit: str) -> tuple[str, float]:
    """The usual spelling of a unit, and what one of it is in SI.

    Args:
        where: Start of the message of an error.
        quantity: One of `QUANTITIES`.
        unit: Such as ``"deg"``, or ``"count/4096"`` for counts of which 4096 are a turn.

    Raises:
        LogError: The quantity has no such unit.
    """
    known = UNITS[quantity]
    name = unit.strip()
    name = name if name in known else _OTHER_SPELLINGS.get(name.lower(), name)
    if name in known:
        return name, known[name]
    counts = _COUNTS.fullmatch(name)
    if counts and int(counts[1]) > 0 and known is (_SPEED if counts[2] else _ANGLE):
        return name, math.tau / int(counts[1])
    allowed = [*known, *({"rad": ["count/4096"], "rad/s": ["count/4096/s"]}.get(next(iter(known), ""), []))]
    raise LogError(f"{where}: {quantity} has no unit '{unit}'; {listed(unit, allowed, 'units')}")


def si(quantity: str) -> str:
    """The unit in which a `Log` holds a quantity."""
    return next(iter(UNITS[quantity]), "")
