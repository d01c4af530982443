# SPDX-License-Identifier: Apache-2.0
"""`Provenance`: sources of fitted actuators, the section ``fit`` of an ``actuon.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..errors import RobotFileError, located, shown
from ..files import read_yaml
from ..typing import PathLike
from .fleet import (
    FLEET,
    LARGEST_FILE,
    MILLI,
    MOST_VALUES,
    Fleet,
    FleetJoint,
    as_mapping,
    as_number,
    as_text,
    fleet_of_document,
    found_as_plain,
    found_of_plain,
)
from .yaml import FIT

T = TypeVar("T")
_FOUND = "found"
_MILLI = {"rad": "mrad", "m": "mm"}
"""Unit in which errors are written, by that of the position."""


@dataclass(frozen=True)
class Scaled:
    """Numbers of a joint that grow with a setting of the log.

    Args:
        times: Name of the setting, by the path of the number.
        settings: Settings that the values in the file hold for.
    """

    times: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Origin of the actuators in an ``actuon.yaml``.

    Args:
        models: Name of the model, by joint.
        error: Mean absolute errors of the positions of joints that turn [rad] and slide [m], by this unit.
        held_out: Mean absolute errors in runs that were held out [rad or m], by this unit; empty if none were.
        logs: Names of the logs.
        seed: Seed of the random numbers.
        dt: Time step of the simulation that the values were fitted in [s].
        found: Fitted values with their uncertainty, by joint.
        scaled: Numbers that grow with settings of logs, by joint.
        links: Numbers of the link that a joint moves, by joint and path.
        encoder_offsets: Offsets of encoders [rad or m], by log and joint.
        verdict: Level and text of the verdict, by joint.
        warnings: Limits of use of the actuators.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, float] = field(default_factory=dict)
    held_out: Mapping[str, float] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    seed: int | None = None
    dt: float | None = None
    found: Mapping[str, FleetJoint] = field(default_factory=dict)
    scaled: Mapping[str, Scaled] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    encoder_offsets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    verdict: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_yaml(self) -> dict[str, Any]:
        """Return the section for `save_actuators`, without empty entries."""
        section = {
            "models": dict(self.models),
            **{f"error_{key}": _milli(self.error.get(unit)) for unit, key in _MILLI.items()},
            **{f"held_out_{key}": _milli(self.held_out.get(unit)) for unit, key in _MILLI.items()},
            "verdict": {name: dict(own) for name, own in self.verdict.items()},
            "logs": list(self.logs),
            "seed": self.seed,
            "dt": self.dt,
            _FOUND: {name: found_as_plain(joint, 0) for name, joint in self.found.items()},
            "scaled": {
                name: {"times": dict(own.times), "settings": dict(own.settings)} for name, own in self.scaled.items()
            },
            "links": {name: dict(own) for name, own in self.links.items()},
            "encoder_offsets": {log: dict(own) for log, own in self.encoder_offsets.items()},
            "warnings": list(self.warnings),
        }
        return {key: value for key, value in section.items() if value not in (None, {}, [])}

    @classmethod
    def from_yaml(cls, path: PathLike) -> Provenance:
        """Read the section of a file; without one, all is empty.

        Raises:
            RobotFileError: The file cannot be read, or a value in the section is not allowed; the message names it.
        """
        path = Path(path)
        return cls._of(path, read_yaml(path, LARGEST_FILE, MOST_VALUES))

    @classmethod
    def _of(cls, path: Path, document: object) -> Provenance:
        section = document.get(FIT) if isinstance(document, dict) else None
        if not isinstance(section, dict):
            return cls()

        def each(key: str, of: Callable[[str, Any, str], T]) -> dict[str, T]:
            where = f"{FIT}.{key}"
            given = as_mapping(section.get(key), where)
            return {str(name): of(str(name), own, f"{where}.{name}") for name, own in given.items()}

        def found(name: str, own: object, where: str) -> FleetJoint:
            model = as_text(models.get(name), f"{FIT}.models.{name}")
            known = scaled.get(name, Scaled())
            return found_of_plain(name, model, own, known.times, known.settings, where)

        with located(f"'{path}'", RobotFileError):
            models, scaled = each("models", _text), each("scaled", _scaled)
            return cls(
                models=models,
                error=_of_milli(section, "error"),
                held_out=_of_milli(section, "held_out"),
                logs=_list(section.get("logs"), f"{FIT}.logs"),
                seed=_whole(section.get("seed"), f"{FIT}.seed"),
                dt=None if section.get("dt") is None else as_number(section["dt"], f"{FIT}.dt"),
                found=each(_FOUND, found),
                scaled=scaled,
                links=each("links", _links),
                encoder_offsets=each("encoder_offsets", _numbers),
                verdict=each("verdict", _texts),
                warnings=_list(section.get("warnings"), f"{FIT}.warnings"),
            )


def load_motors(path: PathLike) -> Fleet:
    """Read fitted motors from a ``fleet.yaml``, or those of one robot from the file of its fit.

    Raises:
        RobotFileError: It cannot be read, is neither, or a value is missing or not allowed; the message names it.
    """
    path = Path(path)
    document = read_yaml(path, LARGEST_FILE, MOST_VALUES)
    if isinstance(document, dict) and FLEET in document:
        return fleet_of_document(path, document)
    found = Provenance._of(path, document).found
    if not found:
        raise RobotFileError(
            f"'{path}': has no motors that were fitted: must have '{FLEET}', as 'actuon fit fleet FOLDER -o "
            f"fleet.yaml' writes it, or '{FIT}.{_FOUND}', as 'actuon fit LOGS -o motor.yaml' does"
        )
    return Fleet((path.stem,), (path.name,), tuple(found.values()))


def _milli(error: float | None) -> float | None:
    return None if error is None else round(MILLI * error, 3)


def _of_milli(section: Mapping[Any, Any], name: str) -> dict[str, float]:
    """Return errors by unit, from the keys that end with the unit in which they are written."""
    keys = {unit: f"{name}_{milli}" for unit, milli in _MILLI.items()}
    given = {unit: key for unit, key in keys.items() if section.get(key) is not None}
    return {unit: as_number(section[key], f"{FIT}.{key}") / MILLI for unit, key in given.items()}


def _list(given: object, where: str) -> tuple[str, ...]:
    """Return the texts of a list; None is an empty one."""
    if given is not None and not isinstance(given, list):
        raise RobotFileError(f"{where}: got {shown(given)}; must be a list")
    return tuple(map(str, given or ()))


def _whole(given: object, where: str) -> int | None:
    if given is not None and type(given) is not int:
        raise RobotFileError(f"{where}: got {shown(given)}; must be a whole number")
    return given


def _text(name: str, own: object, where: str) -> str:
    return as_text(own, where)


def _scaled(name: str, own: Any, where: str) -> Scaled:
    try:
        times = {str(place): str(setting) for place, setting in own["times"].items()}
        return Scaled(times, {str(setting): float(value) for setting, value in own["settings"].items()})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise RobotFileError(
            f"{where}: got {shown(own)}; must have 'times', paths and names of settings, and 'settings', names and "
            "numbers"
        ) from error


def _links(name: str, own: Any, where: str) -> dict[str, float]:
    try:
        return {str(place): float(value) for place, value in own.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise RobotFileError(f"{where}: got {shown(own)}; must be paths, such as link.mass, and numbers") from error


def _numbers(name: str, own: object, where: str) -> dict[str, float]:
    return {str(key): as_number(value, f"{where}.{key}") for key, value in as_mapping(own, where).items()}


def _texts(name: str, own: object, where: str) -> dict[str, str]:
    return {str(key): as_text(value, f"{where}.{key}") for key, value in as_mapping(own, where).items()}
