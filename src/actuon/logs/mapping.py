# SPDX-License-Identifier: Apache-2.0
"""`ColumnMapping`: what the columns of a log mean, where their names do not say it, as a YAML file or in Python.

::

    columns:                              # only these are read; without it, columns go by their usual names
      time: time
      pos_meas1: {quantity: position, joint: shoulder, unit: deg, sign: -1, scale: 1.0, offset: 0.0}
      "tau_con{joint}": effort_command    # one line for all joints
    joints: {"2": elbow}                  # other names for joints
    units: {position: deg}                # of columns whose own line says none
    rate: 500                             # [Hz], where there is no column of time
    settings: {mass: 0.49, length: 0.1}   # as if they stood in the log
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import LogError, listed, shown
from ..files import read_yaml
from ..typing import PathLike
from .columns import Column, recognise
from .log import UNNAMED
from .table import Table
from .units import NEEDED, QUANTITIES, SHARED, checked

_KEYS = ("columns", "joints", "units", "rate", "settings")
_COLUMN_KEYS = ("quantity", "joint", "unit", "sign", "scale", "offset")
_JOINT = "{joint}"


@dataclass(frozen=True)
class ColumnMapping:
    """What the columns of logs mean.

    Args:
        columns: By their names, in which ``{joint}`` stands for the name of any joint. Empty: by usual names.
        joints: Other names for joints, by the names in the log.
        units: By quantity, of columns that do not say theirs.
        rate: Of logs without a column of time [Hz].
        settings: Added to those of the log.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    joints: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    settings: Mapping[str, float | str] = field(default_factory=dict)

    @classmethod
    def of(cls, said: ColumnMapping | Mapping[str, Any] | PathLike | None) -> ColumnMapping:
        """The mapping that a file, or a plain mapping with the same contents, describes.

        Raises:
            LogError: A key or value is not allowed; says which.
        """
        if said is None:
            return cls()
        if isinstance(said, ColumnMapping):
            return said
        where = "mapping"
        if isinstance(said, (str, os.PathLike)):
            where, said = str(said), read_yaml(Path(said))
        values = _mapping(where, said, _KEYS)
        columns = _mapping(f"{where}: columns", values.get("columns") or {})
        units = _mapping(f"{where}: units", values.get("units") or {}, QUANTITIES)
        return cls(
            {name: _column(f"{where}: columns.{name}", name, column) for name, column in columns.items()},
            {old: _text(f"{where}: joints.{old}", new) for old, new in _names(where, values).items()},
            {quantity: _unit(f"{where}: units", quantity, unit) for quantity, unit in units.items()},
            _rate(f"{where}: rate", values.get("rate")),
            _settings(f"{where}: settings", values.get("settings") or {}),
        )

    def meanings(self, table: Table, findings: list[str]) -> list[Column]:
        """The columns of a log that mean something.

        Args:
            table: The log as it stands in its file.
            findings: Gets what is not read because another column means the same.

        Raises:
            LogError: The log lacks a column, or two that are needed mean the same.
        """
        if self.columns:
            found = _stated(self.columns, table, findings)
        else:
            found = [column for name in table.columns if (column := recognise(name))]
        meant: dict[tuple[str, str], Column] = {}
        for column in found:
            column = self._completed(column)
            other = meant.setdefault((column.quantity, column.joint), column)
            if other is column:
                continue
            of = f" of '{column.joint}'" if column.joint else ""
            both = f"'{other.name}' and '{column.name}' are both the {column.quantity}{of}"
            if column.quantity in NEEDED or self.columns:
                raise LogError(f"'{table.path}': the columns {both}; state in a mapping which one to read")
            findings.append(f"{both}; the first is read")
        return list(meant.values())

    def _completed(self, column: Column) -> Column:
        """The column with the joint's other name, and the unit of its quantity."""
        joint = column.joint
        if joint or column.quantity not in SHARED:
            joint = self.joints.get(joint or UNNAMED, joint)
        return dataclasses.replace(column, joint=joint, unit=column.unit or self.units.get(column.quantity))


def _stated(columns: Mapping[str, Column], table: Table, findings: list[str]) -> list[Column]:
    """The columns of the log that the names of a mapping mean, in their order.

    A column that several names mean belongs to the one that says most of its name: ``knee_des_deg`` to
    ``{joint}_des_deg``, not to ``{joint}_deg``.
    """
    found = {name: _found(name, column, table) for name, column in columns.items()}
    owner = {own.name: name for name in sorted(columns, key=_specificity) for own in found[name]}
    kept = []
    for name, own in found.items():
        joints = {column.joint for column in own}
        for column in own:
            other = recognise(column.joint) if _JOINT in name else None
            if owner[column.name] != name:
                continue
            if other and other.joint in joints - {"", column.joint}:
                findings.append(
                    f"{column.name} is left out of '{name}': by its name it is the {other.quantity} of "
                    f"'{other.joint}'; give it a line of its own in the mapping"
                )
                continue
            kept.append(column)
    return kept


def _specificity(name: str) -> tuple[bool, int]:
    """Sorts names of a mapping: patterns before names of one column, long ones last."""
    return _JOINT not in name, len(name)


def _found(name: str, column: Column, table: Table) -> list[Column]:
    """The columns of the log that a name of the mapping can mean."""
    if _JOINT not in name:
        if name not in table.columns:
            raise LogError(f"'{table.path}' has no column '{name}'; {listed(name, table.columns, 'columns')}")
        return [column]
    pattern = re.compile("(.+)".join(re.escape(part) for part in name.split(_JOINT)))
    matches = [match for each in table.columns if (match := pattern.fullmatch(each))]
    if not matches:
        raise LogError(f"'{table.path}' has no column like '{name}'; {listed(name, table.columns, 'columns')}")
    return [dataclasses.replace(column, name=match[0], joint=match[1]) for match in matches]


def _column(where: str, name: str, said: Any) -> Column:
    values = {"quantity": said} if isinstance(said, str) else _mapping(where, said, _COLUMN_KEYS)
    quantity = values.get("quantity")
    if quantity not in QUANTITIES:
        got = "needs 'quantity'" if quantity is None else f"got the quantity {shown(quantity)}"
        raise LogError(f"{where}: {got}; {listed(str(quantity), QUANTITIES, 'quantities')}")
    if name.count(_JOINT) > 1 or (_JOINT in name and "joint" in values):
        raise LogError(f"{where}: says the joint twice; must say it once")
    sign = values.get("sign", 1)
    if sign not in (1, -1) or isinstance(sign, bool):
        raise LogError(f"{where}: sign: got {shown(sign)}; must be 1 or -1")
    return Column(
        name,
        quantity,
        _text(f"{where}: joint", values.get("joint", ""), empty=True),
        None if values.get("unit") is None else _unit(where, quantity, values["unit"]),
        int(sign),
        _number(f"{where}: scale", values.get("scale", 1.0), zero=False),
        _number(f"{where}: offset", values.get("offset", 0.0)),
    )


def _unit(where: str, quantity: str, unit: Any) -> str:
    return checked(where, quantity, _text(f"{where}: unit", unit))


def _names(where: str, values: dict[str, Any]) -> dict[str, Any]:
    """Joints by their names in the log, which YAML may read as whole numbers."""
    joints = values.get("joints") or {}
    if isinstance(joints, Mapping):
        joints = {str(old) if type(old) is int else old: new for old, new in joints.items()}
    return _mapping(f"{where}: joints", joints)


def _rate(where: str, rate: Any) -> float | None:
    if rate is None:
        return None
    value = _number(where, rate)
    if value <= 0.0:
        raise LogError(f"{where}: got {shown(rate)}; must be greater than 0")
    return value


def _settings(where: str, settings: Any) -> dict[str, float | str]:
    found = _mapping(where, settings)
    for name, value in found.items():
        if not isinstance(value, str):
            _number(f"{where}.{name}", value)
    return found


def _text(where: str, value: Any, empty: bool = False) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not (empty or str(value)):
        raise LogError(f"{where}: got {shown(value)}; must be text")
    return str(value)


def _number(where: str, value: Any, zero: bool = True) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise LogError(f"{where}: got {shown(value)}; must be a finite number")
    if value == 0 and not zero:
        raise LogError(f"{where}: got 0; must be another number")
    return float(value)


def _mapping(where: str, value: Any, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise LogError(f"{where}: got {shown(value)}; must be a mapping of names to values")
    for key in value:
        if not isinstance(key, str):
            raise LogError(f"{where}: got the key {shown(key)}; must be text, so put it in quotes")
        if keys is not None and key not in keys:
            raise LogError(f"{where}: unknown key '{key}'; {listed(key, keys, 'keys')}")
    return dict(value)
