# SPDX-License-Identifier: Apache-2.0
"""Inference of units, lost signs, counters and turns from the numbers of a log.

Functions return the changed numbers, and findings on the change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from ..errors import LogError
from .columns import Column, Signal
from .log import Finding, JointLog, Severity
from .table import Table
from .units import ANGLES, factor, is_counts

Joint = dict[str, Signal]
"""Signals of a joint by quantity."""

_SLOWEST, _FASTEST = 0.2, 2e-4
"""Longest and shortest step of a useful log [s]: a factor of 1000 apart, so only one unit fits."""
_SMALL = 0.5
"""Largest usual change from one sample to the next [rad] from which a jump can be distinguished."""
_LARGE = 4.0 * math.pi
"""Positions beyond this are more than two turns [rad], or degrees."""
_LARGEST = 720.0
"""Positions beyond this are not degrees of a joint that follows positions."""
_FAST = 30.0
"""Largest speed of a joint that tracks positions [rad/s]."""
_FAR = 2.0
"""Largest position of a joint that slides [m]; larger ones are in mm."""
_SLIDING = re.compile(
    r"(?<![A-Za-z])(?i:slid|prismatic|linear|carriage|rail)|(?<=[a-z])(?:Slid|Prismatic|Linear|Carriage|Rail)"
)
"""Words in the names of joints that slide: ``left_rail``, ``baseSlider``, not ``trailer``."""
_GRIDS = (2**8, 2**10, 2**12, 2**12 - 1, 360 / 0.088, 2**13, 2**14, 2**15, 2**16, 1024 * 360 / 300, 360 / 0.29)
"""Counts per turn of encoders and servos, also as rounded in manuals (0.088° for 4096, 0.29° for 1024 in 300°)."""
_DEGREES = math.degrees(1.0)
_SPEEDS = {1.0: "rad/s", _DEGREES: "deg/s", 60.0 / math.tau: "rpm", 1.0 / math.tau: "turn/s"}
"""Units of a velocity, by the number that 1 rad/s is in them."""


def signed(column: Column, values: np.ndarray) -> tuple[np.ndarray, list[Finding]]:
    """Restore whole numbers that were written without their sign: −1 as 65535 or 4294967295.

    This is certain if no number lies between a quarter and three quarters of the range. A counter that passes from one
    end to the other is unwrapped.
    """
    is_stated = column.unit is not None and not is_counts(column.unit)
    if is_stated or column.quantity == "enabled" or values.min() < 0.0 or np.any(values % 1.0):
        return values, []
    for bits in (16, 32):
        period = 2.0**bits
        if not period / 2 <= values.max() < period:
            continue
        if not np.any((values >= period / 4) & (values < 3 * period / 4)):
            text = f"{column.name}: numbers from {period / 2:.0f} on are negative ones of {bits} bits, read as such"
            values = np.where(values >= period / 2, values - period, values)
            return values, [Finding(text, "counter", column.name)]
        if np.any(np.abs(np.diff(values)) > 0.75 * period):
            text = f"{column.name}: a counter of {bits} bits that passes its end, unwrapped"
            return np.unwrap(values, period=period), [Finding(text, "counter", column.name)]
    return values, []


def unwrapped_time(name: str, time: np.ndarray) -> tuple[np.ndarray, list[Finding]]:
    """Unwrap counters of 16 or 32 bits, which start again from 0."""
    for bits in (16, 32):
        period = 2.0**bits
        steps = np.diff(time)
        falls = steps < 0.0
        usual = float(np.median(steps[~falls])) if not falls.all() else 0.0
        is_counter = falls.any() and time.min() >= 0.0 and time.max() < period and not np.any(time % 1.0)
        if is_counter and np.all(steps[falls] + period > 0.0) and np.median(steps[falls] + period) < 3.0 * usual:
            text = f"{name}: a counter of {bits} bits that starts again from 0, unwrapped"
            return time + period * np.concatenate([[0], np.cumsum(falls)]), [Finding(text, "counter", name)]
    return time, []


def time_unit(path: str, name: str, time: np.ndarray) -> tuple[str, list[Finding]]:
    """Return the unit in which the steps are as long as those of a log.

    Raises:
        LogError: Several units are possible, or none.
    """
    steps = np.diff(time)
    step = float(np.median(steps[steps > 0.0])) if np.any(steps > 0.0) else 0.0
    if step < _SLOWEST:
        return "s", []
    if step < 1.0:
        raise LogError(
            f"'{path}', column '{name}': steps of {step:.3g} may be seconds or milliseconds; state the "
            "unit, with 'units: {time: ms}' in a mapping or a name such as 'time_ms'"
        )
    for unit in ("ms", "us", "ns"):
        if _FASTEST <= step * factor("time", unit) < _SLOWEST:
            return unit, [Finding(f"{name}: steps of {step:.6g} are {unit}, converted to seconds", "unit", name)]
    raise LogError(f"'{path}', column '{name}': got steps of {step:.3g}; state their unit in a mapping")


def unwrapped_turns(
    joint: JointLog, time: np.ndarray, table: Table, rows: np.ndarray
) -> tuple[JointLog, list[Finding]]:
    """Return the joint with its position continued past the end of each turn, and its commands on the same turns."""
    position = joint.position
    jumps = _jumps(position, time)
    if not len(jumps):
        return joint, []
    text = (
        f"{joint.name}: the position jumps by a turn {_times(len(jumps))} (first: {table.row(rows[jumps[0] + 1])}), "
        "and is unwrapped"
    )
    findings = [Finding(text, "turns", joint.name)]
    unwrapped = _joined(position, jumps)
    if joint.command is None:
        return joint.replaced({"position": unwrapped}), findings
    command = _joined(joint.command, _jumps(joint.command, time))
    turns = float(np.median(np.round((unwrapped - command) / math.tau)))
    return joint.replaced({"position": unwrapped, "command": command + math.tau * turns}), findings


def _jumps(angle: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the samples after which an angle that stays within one turn jumps from one end of it to the other."""
    if not math.pi < np.ptp(angle) < 1.001 * math.tau:
        return np.array([], dtype=int)
    steps, change = np.diff(time), np.abs(np.diff(angle))
    if np.quantile(change, 0.75) > _SMALL:
        return np.array([], dtype=int)
    found: np.ndarray = np.flatnonzero((change > 0.75 * math.tau) & (steps < 5.0 * np.median(steps)))
    return found


def _joined(angle: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """Return the angle, shifted by a turn from each jump on."""
    turns = np.zeros(len(angle))
    turns[jumps + 1] = -np.sign(np.diff(angle)[jumps])
    joined: np.ndarray = angle + math.tau * np.cumsum(turns)
    return joined


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class AngleUnits:
    """Units of all positions, commands and velocities of a log: stated, or inferred from the numbers.

    Args:
        path: Path of the log.
        time: Times of the samples [s], shape (T,).
        joints: Signals by joint. `settle` replaces them.
    """

    def __init__(self, path: str, time: np.ndarray, joints: Mapping[str, Joint]):
        self.path, self.time, self.joints = path, time, joints
        self.findings: list[Finding] = []

    def settle(self) -> list[Finding]:
        """Give every signal a unit, and return findings.

        Raises:
            LogError: A unit is ambiguous; the message says how to state it.
        """
        self._refuse_sliding()
        reasons = {unit: self._reason(unit) for unit in ("deg", "rad")}
        unknown = [joint for joint in self.joints.values() if joint["position"].unit is None]
        if unknown and reasons["deg"] and reasons["rad"]:
            raise LogError(
                f"'{self.path}': {reasons['deg']}, which means degrees, and {reasons['rad']}, which means radians; "
                "state the unit of each in a mapping"
            )
        if unknown and not any(reasons.values()):
            self._refuse_large()
        unit = "deg" if reasons["deg"] else "rad"
        slides = [
            name for name, joint in self.joints.items() if joint["position"].unit is None and _SLIDING.search(name)
        ]
        for joint in unknown:
            joint["position"] = joint["position"].with_unit(unit)
        if unit != "deg":
            for name in slides:
                self.joints[name]["position"] = self.joints[name]["position"].with_unit("m")
        same = self._find_commands()
        if unknown and reasons["deg"]:
            what = "positions and commands" if same else "positions"
            self._note("position", f"{what} are in degrees ({reasons['deg']}), and are converted to radians")
        for quantity in ("velocity", "velocity_command"):
            self._find_velocities(quantity)
        return self.findings

    def _note(self, quantity: str, text: str, severity: Severity = "info") -> None:
        self.findings.append(Finding(text, "unit", quantity, severity))

    def _reason(self, unit: str) -> str:
        """Return the reason why positions of unknown unit are in ``unit``, in words; empty without one."""
        turn, steps = (360.0, "360") if unit == "deg" else (math.tau, "2π")
        for joint in self.joints.values():
            for quantity in ANGLES:
                signal = joint.get(quantity)
                counts = None if signal is None or signal.unit else _grid(signal.values, turn)
                if signal and counts:
                    return f"'{signal.column.name}' has steps of {steps}/{counts:.5g}"
        for joint in self.joints.values():
            position, velocity = joint["position"], joint.get("velocity")
            if position.unit or velocity is None or velocity.unit is None:
                continue
            ratio = abs(_speed_ratio(self.time, position.values, factor("velocity", velocity.unit) * velocity.values))
            if _is_close(ratio, factor("position", unit)):
                of_velocity = f"'{velocity.column.name}', which is in {velocity.unit}"
                return f"'{position.column.name}' changes at the rate of {of_velocity}"
        if unit == "rad":
            return ""
        for joint in self.joints.values():
            position, command = joint["position"], joint.get("command")
            if position.unit or command is None:
                continue
            if command.unit is None and _is_close(_ratio(command.values, position.values), 1.0 / _DEGREES):
                return f"'{position.column.name}' moves 57 times as far as '{command.column.name}'"
            speed = _speed(self.time, position.values)
            is_fast = _LARGE < _largest(joint) <= _LARGEST and speed > _FAST
            if is_fast and np.any(position.values % 1.0) and not _has_own_speed(self.time, joint):
                return f"'{position.column.name}' reaches {_largest(joint):.3g}, at up to {speed:.3g} per second"
        for joint in self.joints.values():
            position, velocity = joint["position"], joint.get("velocity")
            if position.unit or velocity is None or velocity.unit:
                continue
            if _is_close(abs(_speed_ratio(self.time, position.values, velocity.values)), 1.0 / _DEGREES):
                return f"'{position.column.name}' changes 57 times as fast as '{velocity.column.name}'"
        return ""

    def _refuse_sliding(self) -> None:
        for name, joint in self.joints.items():
            signal = joint["position"]
            if signal.unit is None and _SLIDING.search(name) and _largest(joint) > _FAR:
                raise LogError(
                    f"'{self.path}', column '{signal.column.name}': positions of '{name}', which slides by its name, "
                    f"reach {_largest(joint):.3g}; state their unit, with 'units: {{position: mm, command: mm}}' in a "
                    f"mapping or a name such as '{signal.column.name} [mm]'"
                )

    def _refuse_large(self) -> None:
        for name, joint in self.joints.items():
            signal = joint["position"]
            if signal.unit:
                continue
            of = f"'{self.path}', column '{signal.column.name}': positions of '{name}'"
            if not np.any(signal.values % 1.0) and len(np.unique(signal.values)) > 10:
                raise LogError(
                    f"{of} are whole numbers up to {_largest(joint):g}; state their unit, such as 'units: {{position: "
                    "count/4096, command: count/4096}' in a mapping, for 4096 counts per turn"
                )
            if _largest(joint) > _LARGE:
                raise LogError(
                    f"{of} reach {_largest(joint):.3g}, which may be degrees, or radians of many turns; state the "
                    f"unit, with 'units: {{position: deg, command: deg}}' in a mapping or a name such as "
                    f"'{signal.column.name} [deg]'"
                )

    def _find_commands(self) -> bool:
        """Give commands the unit of positions, unless they have another one. Return whether some took it."""
        other: str | None = None
        unknown = [joint for joint in self.joints.values() if "command" in joint and joint["command"].unit is None]
        for joint in unknown:
            command, position = joint["command"], joint["position"]
            ratio = _ratio(command.values, position.values)
            if position.unit == "rad" and _is_close(ratio, _DEGREES):
                other = "deg"
                self._note(
                    "command",
                    f"commands are in degrees ('{command.column.name}' moves 57 times as far as "
                    f"'{position.column.name}'), and are converted to radians",
                )
                break
            if position.unit == "deg" and _is_close(ratio, 1.0 / _DEGREES):
                other = "rad"
                self._note("command", "commands are in radians")
                break
        for joint in unknown:
            joint["command"] = joint["command"].with_unit(other or joint["position"].unit or "rad")
        return bool(unknown) and other is None

    def _find_velocities(self, quantity: str) -> None:
        """Give velocities the unit in which they are the change of positions."""
        ratios = []
        for joint in self.joints.values():
            signal, position = joint.get(quantity), joint["position"]
            if signal is not None and signal.unit is None:
                angle = factor("position", position.unit or "rad") * position.values
                ratio = abs(_speed_ratio(self.time, angle, signal.values))
                ratios += [ratio] if math.isfinite(ratio) else []
        ratio = float(np.median(ratios)) if ratios else math.nan
        unit = next((unit for expected, unit in _SPEEDS.items() if _is_close(ratio, expected)), None)
        for joint in self.joints.values():
            signal = joint.get(quantity)
            if signal is None or signal.unit is not None:
                continue
            of_position = {"deg": "deg/s", "m": "m/s", "mm": "mm/s"}.get(joint["position"].unit or "", "rad/s")
            is_sliding = of_position in ("m/s", "mm/s")
            joint[quantity] = signal.with_unit(of_position if unit is None or is_sliding else unit)
        known = {joint[quantity].unit for joint in self.joints.values() if quantity in joint}
        if ratios and unit is None:
            self._note(quantity, f"{quantity}: is {ratio:.2g} times the change of position; state its unit", "warning")
        elif ratios and unit != "rad/s":
            self._note(quantity, f"{quantity}: is in {unit}, by the change of position, and is converted to rad/s")
        elif "deg/s" in known and not ratios:
            self._note(
                quantity,
                f"{quantity}: does not follow the change of position; taken as deg/s, as positions are in degrees",
                "warning",
            )


def _has_own_speed(time: np.ndarray, joint: Joint) -> bool:
    """Return whether a velocity confirms the position: in a stated unit, or in that of the position."""
    velocity = joint.get("velocity")
    ratio = math.nan if velocity is None else abs(_speed_ratio(time, joint["position"].values, velocity.values))
    return velocity is not None and (math.isfinite(ratio) if velocity.unit else _is_close(ratio, 1.0))


def _grid(values: np.ndarray, turn: float) -> float | None:
    """Return the counts per turn of the encoder whose grid the values are on; None if they are on none."""
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
    """Return the ratio of the motion of the first to that of the second; NaN unless they are correlated."""
    one, two = float(first.std()), float(second.std())
    if min(one, two) <= 1e-9 * max(np.abs(first).max(), np.abs(second).max(), 1e-300):
        return math.nan
    return one / two if abs(np.corrcoef(first, second)[0, 1]) > 0.8 else math.nan


def _speed_ratio(time: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> float:
    """Return the ratio of velocity to change of position; NaN unless they are correlated."""
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
