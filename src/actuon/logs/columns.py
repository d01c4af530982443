# SPDX-License-Identifier: Apache-2.0
"""Meanings of columns: by usual names, or by a mapping in a YAML file or in Python.

::

    columns:                              # only these are read; without it, columns with usual names
      time: time
      pos_meas1: {quantity: position, joint: shoulder, unit: deg, sign: -1, scale: 1.0, offset: 0.0}
      "tau_con{joint}": effort_command    # one line for all joints
    joints: {"2": elbow}                  # other names for joints
    units: {position: deg}                # of columns whose line states none
    rate: 500                             # [Hz], if no column holds the time
    settings: {mass: 0.49, length: 0.1}   # added to those of the log
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..declare.documents import Check, entries, mapping, number, one_of, text
from ..errors import LogError, ParameterError, listed, shown
from ..files import read_yaml
from ..typing import PathLike
from .log import UNNAMED, Finding
from .units import CLOCKS, NEEDED, QUANTITIES, SHARED, checked, factor, spelled


@dataclass(frozen=True)
class Column:
    """Meaning of a column of a file: ``sign · (scale · unit · number) + offset``, in SI units.

    Args:
        name: Name in the file.
        quantity: One of `units.QUANTITIES`.
        joint: Name of the joint; empty if the column names none.
        unit: Unit; None if it is unknown.
        sign: 1 or −1.
        scale: Factor by which the numbers become numbers in ``unit``.
        offset: Value that is added last [SI].
    """

    name: str
    quantity: str
    joint: str = ""
    unit: str | None = None
    sign: int = 1
    scale: float = 1.0
    offset: float = 0.0

    def changes(self) -> str:
        """Return scale, sign and offset in words; empty if they change nothing."""
        changes = [f"scale {self.scale:g}"] if self.scale != 1.0 else []
        changes += ["sign -1"] if self.sign < 0 else []
        changes += [f"offset {self.offset:g}"] if self.offset else []
        return ", ".join(changes)


@dataclass(frozen=True, eq=False)
class Signal:
    """Numbers of a column at the rows of the log, shape (T,): scaled, in the unit of the column."""

    column: Column
    values: np.ndarray

    @property
    def unit(self) -> str | None:
        """Unit; None if it is unknown."""
        return self.column.unit

    def with_unit(self, unit: str) -> Signal:
        """Return the signal with a unit."""
        return dataclasses.replace(self, column=dataclasses.replace(self.column, unit=unit))

    def with_values(self, values: np.ndarray) -> Signal:
        """Return the signal with other numbers."""
        return dataclasses.replace(self, values=values)

    def si(self) -> np.ndarray:
        """Return the values in SI units, with sign and offset."""
        assert self.unit is not None
        return self.column.sign * factor(self.column.quantity, self.unit) * self.values + self.column.offset


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
    "duty": ["duty", "load", "pwm", "present load", "present pwm"],
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
    """Return the meaning of a name: a quantity before or after a joint, and optionally a unit at the end; or None."""
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
    """Return the meaning of a name without a unit. A slash separates the quantity from the joint, whatever its name."""
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


_JOINT = "{joint}"


def _setting(where: str, value: Any) -> float | str:
    return value if isinstance(value, str) else number()(where, value)


_COLUMN = entries(
    quantity=text(),
    joint=text(empty=True),
    unit=text(),
    sign=one_of(1, -1),
    scale=number(nonzero=True),
    offset=number(),
)
MAPPING_KEYS: dict[str, Check[Any]] = {
    "columns": mapping(lambda where, value: {"quantity": value} if isinstance(value, str) else _COLUMN(where, value)),
    "joints": mapping(text()),
    "units": mapping(text(), keys=QUANTITIES),
    "rate": number(above=0.0),
    "settings": mapping(_setting),
}
"""Keys of a mapping of columns, in files that also hold others."""
_FILE = entries(**MAPPING_KEYS)


@dataclass(frozen=True)
class ColumnMapping:
    """Meanings of the columns of logs.

    Args:
        columns: Columns by name, in which ``{joint}`` stands for any joint. Empty: columns with usual names.
        joints: New names of joints, by the name in the log.
        units: Units by quantity, for columns that state none.
        rate: Sample rate of logs without a column of time [Hz].
        settings: Settings that are added to those of the log.

    Examples:
        >>> mapping = actuon.logs.ColumnMapping(units={"position": "deg"}, rate=500.0)
        >>> mapping.units, mapping.rate
        ({'position': 'deg'}, 500.0)
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    joints: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    settings: Mapping[str, float | str] = field(default_factory=dict)

    @classmethod
    def of(cls, said: ColumnMapping | Mapping[str, Any] | PathLike | None) -> ColumnMapping:
        """Return the mapping that a YAML file, or a dictionary with the same contents, describes.

        Raises:
            LogError: A key or value is not allowed; the message names it.

        Examples:
            >>> position = {"quantity": "position", "unit": "deg"}
            >>> columns = {"t": "time", "q{joint}": position, "goal{joint}": "command"}
            >>> mapping = actuon.logs.ColumnMapping.of({"columns": columns, "joints": {"2": "elbow"}})
            >>> mapping.columns["q{joint}"].unit
            'deg'
        """
        if said is None:
            return cls()
        if isinstance(said, ColumnMapping):
            return said
        where = "mapping"
        if isinstance(said, (str, os.PathLike)):
            where, said = str(said), read_yaml(Path(said))
        try:
            values = _FILE(where, said)
        except ParameterError as error:
            raise LogError(str(error)) from error
        columns = values.pop("columns", {})
        units = values.pop("units", {})
        return cls(
            {name: _column(f"{where}: columns.{name}", name, own) for name, own in columns.items()},
            units={quantity: checked(f"{where}: units", quantity, unit) for quantity, unit in units.items()},
            **values,
        )

    def meanings(self, path: str, names: Iterable[str]) -> tuple[list[Column], list[Finding]]:
        """Return the columns of a log with a meaning, and findings on those that mean the same as another one.

        Args:
            path: Path of the log.
            names: Names of its columns.

        Raises:
            LogError: A column is missing, or two that are needed mean the same.
        """
        names = list(names)
        findings: list[Finding] = []
        if self.columns:
            found, findings = _stated(self.columns, path, names)
        else:
            found = [column for name in names if (column := recognise(name))]
        meant: dict[tuple[str, str], Column] = {}
        for column in found:
            column = self._completed(column)
            other = meant.setdefault((column.quantity, column.joint), column)
            if other is column:
                continue
            of = f" of '{column.joint}'" if column.joint else ""
            both = f"'{other.name}' and '{column.name}' are both the {column.quantity}{of}"
            if column.quantity in NEEDED or self.columns:
                raise LogError(f"'{path}': the columns {both}; state in a mapping which one to read")
            findings.append(Finding(f"{both}; the first is read", "unused", column.name, "warning"))
        return list(meant.values()), findings

    def _completed(self, column: Column) -> Column:
        """Return the column with the new name of its joint, and the unit of its quantity."""
        joint = column.joint
        if joint or column.quantity not in SHARED:
            joint = self.joints.get(joint or UNNAMED, joint)
        return dataclasses.replace(column, joint=joint, unit=column.unit or self.units.get(column.quantity))


def _stated(columns: Mapping[str, Column], path: str, names: list[str]) -> tuple[list[Column], list[Finding]]:
    """Return the columns of the log that the names of a mapping match, in their order, and findings on them.

    A column that several names match belongs to the longest: ``knee_des_deg`` to ``{joint}_des_deg``, not to
    ``{joint}_deg``.
    """
    found = {name: _matching(name, column, path, names) for name, column in columns.items()}
    owner = {own.name: name for name in sorted(columns, key=_specificity) for own in found[name]}
    kept: list[Column] = []
    findings: list[Finding] = []
    for name, own in found.items():
        joints = {column.joint for column in own}
        for column in own:
            other = recognise(column.joint) if _JOINT in name else None
            if owner[column.name] != name:
                continue
            if other and other.joint in joints - {"", column.joint}:
                said = (
                    f"{column.name} is left out of '{name}': by its name it is the {other.quantity} of "
                    f"'{other.joint}'; add a line for it to the mapping"
                )
                findings.append(Finding(said, "left out", column.name, "warning"))
                continue
            kept.append(column)
    return kept, findings


def _specificity(name: str) -> tuple[bool, int]:
    """Return a key that sorts names of a mapping: patterns before names of one column, longer ones last."""
    return _JOINT not in name, len(name)


def _matching(name: str, column: Column, path: str, names: list[str]) -> list[Column]:
    """Return the columns of the log that a name of the mapping matches."""
    if _JOINT not in name:
        if name not in names:
            raise LogError(f"'{path}' has no column '{name}'; {listed(name, names, 'columns')}")
        return [column]
    pattern = re.compile("(.+)".join(re.escape(part) for part in name.split(_JOINT)))
    matches = [match for each in names if (match := pattern.fullmatch(each))]
    if not matches:
        raise LogError(f"'{path}' has no column like '{name}'; {listed(name, names, 'columns')}")
    return [dataclasses.replace(column, name=match[0], joint=match[1]) for match in matches]


def _column(where: str, name: str, said: dict[str, Any]) -> Column:
    quantity: Any = said.get("quantity")
    if quantity not in QUANTITIES:
        got = "needs 'quantity'" if quantity is None else f"got the quantity {shown(quantity)}"
        raise LogError(f"{where}: {got}; {listed(str(quantity), QUANTITIES, 'quantities')}")
    if name.count(_JOINT) > 1 or (_JOINT in name and "joint" in said):
        raise LogError(f"{where}: names the joint twice; must name it once")
    unit = checked(where, quantity, said["unit"]) if "unit" in said else None
    return Column(name, **{**said, "quantity": quantity, "unit": unit})
