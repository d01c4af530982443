# SPDX-License-Identifier: Apache-2.0
"""Radians or degrees, where a log does not say it: found by its numbers, or asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from ..errors import LogError
from .signals import Signal
from .units import ANGLES, factor

Joint = dict[str, Signal]
"""Signals of a joint by quantity."""

_LARGE = 4.0 * math.pi
"""Positions beyond this are two turns [rad], or degrees."""
_LARGEST = 720.0
"""Positions beyond this are not degrees of a joint that follows positions."""
_FAST = 30.0
"""Joints that follow a position are not faster [rad/s]."""
_FAR = 2.0
"""Joints that slide do not go further [m]; beyond, they are in mm."""
_SLIDING = re.compile(
    r"(?<![A-Za-z])(?i:slid|prismatic|linear|carriage|rail)|(?<=[a-z])(?:Slid|Prismatic|Linear|Carriage|Rail)"
)
"""Words in the names of joints that slide: ``left_rail``, ``baseSlider``, not ``trailer``."""
_GRIDS = (2**8, 2**10, 2**12, 2**12 - 1, 360 / 0.088, 2**13, 2**14, 2**15, 2**16, 1024 * 360 / 300, 360 / 0.29)
"""Counts per turn of encoders and servos, and of what their manuals make of 4096 and of 1024 in 300°."""
_DEGREES = math.degrees(1.0)
_SPEEDS = {1.0: "rad/s", _DEGREES: "deg/s", 60.0 / math.tau: "rpm", 1.0 / math.tau: "turn/s"}
"""Units of a velocity by what 1 rad/s is in them."""


def find_angles(path: str, time: np.ndarray, joints: Mapping[str, Joint], findings: list[str]) -> None:
    """Give every position, command and velocity in ``joints`` a unit, and say what was found.

    Args:
        path: Of the log.
        time: Of the samples [s], shape (T,).
        joints: By name. Their signals are replaced.
        findings: Added to.

    Raises:
        LogError: It is ambiguous; says what to state.
    """
    _refuse_sliding(path, joints)
    reasons = {unit: _reason(joints, time, unit) for unit in ("deg", "rad")}
    unknown = [joint for joint in joints.values() if joint["position"].unit is None]
    if unknown and reasons["deg"] and reasons["rad"]:
        raise LogError(
            f"'{path}': {reasons['deg']}, which means degrees, and {reasons['rad']}, which means radians; "
            "state the unit of each in a mapping"
        )
    if unknown and not any(reasons.values()):
        _refuse_large(path, joints)
    unit = "deg" if reasons["deg"] else "rad"
    for joint in unknown:
        joint["position"] = joint["position"].with_unit(unit)
    same = _find_commands(joints, findings)
    if unknown and reasons["deg"]:
        what = "positions and commands" if same else "positions"
        findings.append(f"{what} are in degrees ({reasons['deg']}), and are turned to radians")
    for quantity in ("velocity", "velocity_command"):
        _find_velocities(time, joints, quantity, findings)


def _reason(joints: Mapping[str, Joint], time: np.ndarray, unit: str) -> str:
    """What shows that positions of unknown unit are in ``unit``, in words; empty where nothing does."""
    turn, steps = (360.0, "360") if unit == "deg" else (math.tau, "2π")
    for joint in joints.values():
        for quantity in ANGLES:
            signal = joint.get(quantity)
            counts = None if signal is None or signal.unit else _grid(signal.values, turn)
            if signal and counts:
                return f"'{signal.column.name}' has steps of {steps}/{counts:.5g}"
    for joint in joints.values():
        position, velocity = joint["position"], joint.get("velocity")
        if position.unit or velocity is None or velocity.unit is None:
            continue
        slope = abs(_slope(time, position.values, factor("velocity", velocity.unit) * velocity.values))
        if _is_close(slope, factor("position", unit)):
            return f"'{position.column.name}' changes so by '{velocity.column.name}', which is in {velocity.unit}"
    if unit == "rad":
        return ""
    for joint in joints.values():
        position, command = joint["position"], joint.get("command")
        if position.unit or command is None:
            continue
        if command.unit is None and _is_close(_ratio(command.values, position.values), 1.0 / _DEGREES):
            return f"'{position.column.name}' moves 57 times as far as '{command.column.name}'"
        speed = _speed(time, position.values)
        is_fast = _LARGE < _largest(joint) <= _LARGEST and speed > _FAST
        if is_fast and np.any(position.values % 1.0) and not _has_own_speed(time, joint):
            return f"'{position.column.name}' reaches {_largest(joint):.3g}, at up to {speed:.3g} per second"
    for joint in joints.values():
        position, velocity = joint["position"], joint.get("velocity")
        if position.unit or velocity is None or velocity.unit:
            continue
        if _is_close(abs(_slope(time, position.values, velocity.values)), 1.0 / _DEGREES):
            return f"'{position.column.name}' changes 57 times as fast as '{velocity.column.name}'"
    return ""


def _has_own_speed(time: np.ndarray, joint: Joint) -> bool:
    """Whether a velocity speaks for the position: in a stated unit, or in that of the position, whichever that is."""
    velocity = joint.get("velocity")
    slope = math.nan if velocity is None else abs(_slope(time, joint["position"].values, velocity.values))
    return velocity is not None and (math.isfinite(slope) if velocity.unit else _is_close(slope, 1.0))


def _refuse_sliding(path: str, joints: Mapping[str, Joint]) -> None:
    for name, joint in joints.items():
        signal = joint["position"]
        if signal.unit is None and _SLIDING.search(name) and _largest(joint) > _FAR:
            raise LogError(
                f"'{path}', column '{signal.column.name}': positions of '{name}', which slides by its name, reach "
                f"{_largest(joint):.3g}; state their unit, with 'units: {{position: mm, command: mm}}' in a mapping or "
                f"a name such as '{signal.column.name} [mm]'"
            )


def _refuse_large(path: str, joints: Mapping[str, Joint]) -> None:
    for name, joint in joints.items():
        signal = joint["position"]
        if signal.unit:
            continue
        of = f"'{path}', column '{signal.column.name}': positions of '{name}'"
        if not np.any(signal.values % 1.0) and len(np.unique(signal.values)) > 10:
            raise LogError(
                f"{of} are whole numbers up to {_largest(joint):g}; state their unit, such as 'units: {{position: "
                "count/4096, command: count/4096}' in a mapping, for 4096 counts per turn"
            )
        if _largest(joint) > _LARGE:
            raise LogError(
                f"{of} reach {_largest(joint):.3g}, which may be degrees, or radians of many turns; say which, with "
                f"'units: {{position: deg, command: deg}}' in a mapping or a name such as '{signal.column.name} [deg]'"
            )


def _find_commands(joints: Mapping[str, Joint], findings: list[str]) -> bool:
    """Commands are in the unit of positions, unless they are in another. Whether some took that of positions."""
    other: str | None = None
    unknown = [joint for joint in joints.values() if "command" in joint and joint["command"].unit is None]
    for joint in unknown:
        command, position = joint["command"], joint["position"]
        ratio = _ratio(command.values, position.values)
        if position.unit == "rad" and _is_close(ratio, _DEGREES):
            other = "deg"
            findings.append(
                f"commands are in degrees ('{command.column.name}' moves 57 times as far as '{position.column.name}'), "
                "and are turned to radians"
            )
            break
        if position.unit == "deg" and _is_close(ratio, 1.0 / _DEGREES):
            other = "rad"
            findings.append("commands are in radians")
            break
    for joint in unknown:
        joint["command"] = joint["command"].with_unit(other or joint["position"].unit or "rad")
    return bool(unknown) and other is None


def _find_velocities(time: np.ndarray, joints: Mapping[str, Joint], quantity: str, findings: list[str]) -> None:
    """Velocities are in the unit in which they are the change of positions."""
    slopes = []
    for joint in joints.values():
        signal, position = joint.get(quantity), joint["position"]
        if signal is not None and signal.unit is None:
            slope = abs(_slope(time, factor("position", position.unit or "rad") * position.values, signal.values))
            slopes += [slope] if math.isfinite(slope) else []
    slope = float(np.median(slopes)) if slopes else math.nan
    unit = next((unit for ratio, unit in _SPEEDS.items() if _is_close(slope, ratio)), None)
    for joint in joints.values():
        signal = joint.get(quantity)
        if signal is None or signal.unit is not None:
            continue
        of_position = {"deg": "deg/s", "m": "m/s", "mm": "mm/s"}.get(joint["position"].unit or "", "rad/s")
        is_sliding = of_position in ("m/s", "mm/s")
        joint[quantity] = signal.with_unit(of_position if unit is None or is_sliding else unit)
    known = {joint[quantity].unit for joint in joints.values() if quantity in joint}
    if slopes and unit is None:
        findings.append(f"{quantity}: is {slope:.2g} times the change of position; state its unit")
    elif slopes and unit != "rad/s":
        findings.append(f"{quantity}: is in {unit}, by the change of position, and is turned to rad/s")
    elif "deg/s" in known and not slopes:
        findings.append(
            f"{quantity}: does not follow the change of position; taken as deg/s, as positions are in degrees"
        )


def _grid(values: np.ndarray, turn: float) -> float | None:
    """The counts per turn of the encoder on whose grid the values stand, where there is one."""
    places = np.unique(np.round((values - values[0]) / turn, 9))
    if len(places) < 20 or not np.any(values % 1.0):
        return None
    smallest = float(np.diff(places).min())
    for counts in _GRIDS:
        off = np.abs(places * counts - np.round(places * counts))
        if 0.7 < smallest * counts < 200.0 and np.quantile(off, 0.98) < 0.15:
            return counts
    return None


def _largest(joint: Joint) -> float:
    return max(float(np.abs(joint[quantity].values).max()) for quantity in ANGLES if quantity in joint)


def _speed(time: np.ndarray, position: np.ndarray) -> float:
    return float(np.quantile(np.abs(np.diff(position) / np.diff(time)), 0.98))


def _ratio(first: np.ndarray, second: np.ndarray) -> float:
    """By how much the first moves more than the second, where they move alike; NaN otherwise."""
    one, two = float(first.std()), float(second.std())
    if min(one, two) <= 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300):
        return math.nan
    return one / two if abs(np.corrcoef(first, second)[0, 1]) > 0.8 else math.nan


def _slope(time: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> float:
    """Velocity over the change of position, where the two go together; NaN otherwise."""
    if len(time) < 20:
        return math.nan
    change = _smoothed(np.gradient(position, time))
    velocity = _smoothed(velocity)
    if not (change.std() > 0.0 and velocity.std() > 0.0):
        return math.nan
    alike = float(np.corrcoef(change, velocity)[0, 1])
    return math.copysign(float(velocity.std() / change.std()), alike) if abs(alike) > 0.8 else math.nan


def _smoothed(values: np.ndarray) -> np.ndarray:
    return np.convolve(values, np.full(9, 1.0 / 9.0), mode="valid")


def _is_close(ratio: float, expected: float) -> bool:
    return 0.8 < ratio / expected < 1.25
