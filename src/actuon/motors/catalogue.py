# SPDX-License-Identifier: Apache-2.0
"""Catalogue of motors, read from ``catalogue.toml`` in this folder."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ParameterError, listed, shown
from .datasheet import TOLERANCE, MotorDatasheet

CATALOGUE = Path(__file__).with_name("catalogue.toml")


@dataclass(frozen=True)
class CatalogueMotor:
    """Motor of the catalogue."""

    name: str
    aliases: tuple[str, ...]
    """Names on the motor or in its data sheet."""
    vendor: str
    robots: tuple[str, ...]
    """Robots that have it."""
    datasheet: MotorDatasheet
    sources: Mapping[str, str]
    """Source of each value, by name."""
    notes: tuple[str, ...]
    """Further statements of the sources, and values that were left out."""


@functools.cache
def _catalogue() -> dict[str, CatalogueMotor]:
    entries = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["motors"]
    return {name: _motor(name, entry) for name, entry in entries.items()}


def _motor(name: str, entry: Mapping[str, Any]) -> CatalogueMotor:
    values = entry["values"]
    sheet = MotorDatasheet(
        {key: said["at"] for key, said in values.items() if "at" in said},
        tolerance=entry.get("tolerance", TOLERANCE),
        **{key: said["value"] for key, said in values.items()},
    )
    sources = {key: entry["sources"][said["source"]] for key, said in values.items()}
    aliases, robots, notes = (tuple(entry.get(key, ())) for key in ("aliases", "robots", "notes"))
    return CatalogueMotor(name, aliases, entry["vendor"], robots, sheet, sources, notes)


@functools.cache
def _by_plain_name() -> dict[str, CatalogueMotor]:
    return {_plain(name): motor for motor in _catalogue().values() for name in (motor.name, *motor.aliases)}


def motor_names() -> tuple[str, ...]:
    """Return the names of all motors in the catalogue.

    Examples:
        >>> "ak80-9" in actuon.motor_names()
        True
    """
    return tuple(_catalogue())


def find_motor(name: str) -> CatalogueMotor:
    """Return the motor of a name or alias. Case, spaces, ``-``, ``_`` and ``.`` are ignored.

    Raises:
        ParameterError: The name is unknown; the message lists similar ones.

    Examples:
        >>> motor = actuon.find_motor("AK80 9")
        >>> motor.name, motor.vendor
        ('ak80-9', 'CubeMars')
        >>> actuon.find_motor("XL330-M288-T").name
        'xl330-m288'
    """
    if not isinstance(name, str):
        raise ParameterError(f"got {shown(name)}; must be the name of a motor")
    found = _by_plain_name().get(_plain(name))
    if found is None:
        raise ParameterError(f"unknown motor '{name}'; {listed(name.lower(), _catalogue(), 'motors')}")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()


def motor_of(motor: object) -> MotorDatasheet:
    """Return the data sheet for ``motor:`` in a file.

    Args:
        motor: A name; or a mapping with a ``name`` and values that replace those of the catalogue; or a mapping with
            ``at`` and values.

    Raises:
        ParameterError: There is no such motor, or its values are wrong.
    """
    if not isinstance(motor, Mapping):
        return find_motor(motor).datasheet  # type: ignore[arg-type]  # refuses what is not a name
    given = dict(motor)
    name, at = given.pop("name", None), given.pop("at", None)
    wrong = [key for key in given if not isinstance(key, str)]
    if wrong:
        raise ParameterError(f"got the key {shown(wrong[0])}; must be the name of a value")
    if name is not None:
        return find_motor(name).datasheet.replaced(at, **given)
    if not isinstance(at, (str, Mapping)):
        raise ParameterError("needs the 'name' of a motor, or 'at' (joint or motor) and values")
    return MotorDatasheet(at, **given)  # type: ignore[arg-type]
