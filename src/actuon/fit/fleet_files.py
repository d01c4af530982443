# SPDX-License-Identifier: Apache-2.0
"""``fleet.yaml``: what was found on several robots, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..bounded_yaml import plain_yaml, read_yaml
from ..errors import ActuonError, RobotFileError, shown
from ..files import replacing
from ..typing import PathLike
from .fleet import FEWEST, Fleet, FleetJoint, FleetParameter
from .parameters import LINEAR, LOG

_VERSION = 1
_DIGITS = 7
_LARGEST_FILE = 32 * 2**20
_MOST_VALUES = 2_000_000
_MILLI = 1e3
_LARGEST = np.finfo(float).max
_HEADER = """\
# The actuators of several robots, fitted by Actuon. 'values' are in the order of 'parameters', in their units.
# Covariances and deviations are of values on their scales: of logarithms where the scale is 'log'. Matrices are
# symmetric: rows end at the diagonal. 'across' follows from the robots' values.
"""


def save_fleet(path: PathLike, fleet: Fleet) -> None:
    """Write a ``fleet.yaml`` that `load_fleet` reads as the same. An existing file is replaced at once, or kept."""
    path = Path(path)
    document = {
        "version": _VERSION,
        "fleet": {
            "robots": dict(zip(fleet.robots, fleet.files, strict=True)),
            "joints": {joint.name: _joint_as_plain(joint, fleet.robots) for joint in fleet.joints},
        },
    }
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write(_HEADER)
        plain_yaml().dump(document, stream)


def _joint_as_plain(joint: FleetJoint, robots: tuple[str, ...]) -> dict[str, Any]:
    return {
        "model": joint.model,
        **({"times": dict(joint.times), "settings": dict(joint.settings)} if joint.times else {}),
        "parameters": {p.path: _parameter_as_plain(p) for p in joint.parameters},
        "robots": {
            name: {
                "error_mrad": _rounded(_MILLI * joint.errors[i]),
                "values": _rounded(joint.values[i]),
                "std": _rounded(np.sqrt(np.diag(joint.covariances[i]))),
                "covariance": _triangle(joint.covariances[i]),
            }
            for i, name in enumerate(robots)
        },
        "across": {
            "mean": _rounded(joint.mean),
            "std": _rounded(joint.std),
            "low": _rounded(joint.values.min(axis=0)),
            "high": _rounded(joint.values.max(axis=0)),
            "correlation": _triangle(joint.correlation),
            "covariance": _triangle(joint.covariance),
            "spread": _triangle(joint.spread),
        },
    }


def _parameter_as_plain(parameter: FleetParameter) -> dict[str, Any]:
    return {
        "unit": parameter.unit,
        "scale": parameter.scale,
        **({"also": list(parameter.also)} if parameter.also else {}),
        **({"above": parameter.above} if parameter.above else {}),
    }


def _rounded(numbers: Any) -> Any:
    values = np.asarray(numbers, float)
    return [_rounded(each) for each in values] if values.ndim else float(f"{values:.{_DIGITS}g}")


def _triangle(matrix: np.ndarray) -> list[list[float]]:
    return [_rounded(row[: i + 1]) for i, row in enumerate(matrix)]


def load_fleet(path: PathLike) -> Fleet:
    """Read a ``fleet.yaml``.

    Raises:
        RobotFileError: It cannot be read, or something in it is missing or not allowed; says where.
    """
    path = Path(path)
    document = read_yaml(path, _LARGEST_FILE, _MOST_VALUES)
    try:
        top = _part(document, "the file", {"version": int, "fleet": dict})
        if top["version"] != _VERSION:
            raise RobotFileError(f"version: got {shown(top['version'])}; this Actuon reads version {_VERSION}")
        fleet = _part(top["fleet"], "fleet", {"robots": dict, "joints": dict})
        robots = tuple(fleet["robots"])
        if len(robots) < FEWEST:
            raise RobotFileError(f"fleet.robots: got {len(robots)}; must be at least {FEWEST}")
        files = tuple(_text(fleet["robots"][name], f"fleet.robots.{name}") for name in robots)
        joints = tuple(_joint(str(name), own, robots) for name, own in fleet["joints"].items())
        return Fleet(tuple(map(str, robots)), files, joints)
    except ActuonError as error:
        raise RobotFileError(f"'{path}': {error}") from error


def _joint(name: str, given: Any, robots: tuple[Any, ...]) -> FleetJoint:
    where = f"fleet.joints.{name}"
    own = _part(given, where, {"model": str, "parameters": dict, "robots": dict})
    parameters = tuple(_parameter(path, p, f"{where}.parameters.{path}") for path, p in own["parameters"].items())
    values, covariances, errors = [], [], []
    for robot in robots:
        at = f"{where}.robots.{robot}"
        if robot not in own["robots"]:
            raise RobotFileError(f"{where}.robots: has no '{robot}'")
        found = _part(own["robots"][robot], at, {"error_mrad": float, "values": list, "covariance": list})
        values.append(_numbers(found["values"], f"{at}.values", len(parameters)))
        covariances.append(_matrix(found["covariance"], f"{at}.covariance", len(parameters)))
        errors.append(float(found["error_mrad"]) / _MILLI)
    times = {str(p): _text(s, f"{where}.times.{p}") for p, s in _mapping(own.get("times"), f"{where}.times").items()}
    stated = _mapping(own.get("settings"), f"{where}.settings")
    settings = {str(s): float(_numbers([v], f"{where}.settings.{s}", 1)[0]) for s, v in stated.items()}
    return FleetJoint(
        name, own["model"], parameters, np.array(values).reshape(len(robots), -1),
        np.array(covariances).reshape(len(robots), len(parameters), len(parameters)), np.array(errors), times, settings,
    )  # fmt: skip


def _parameter(path: Any, given: Any, where: str) -> FleetParameter:
    own = _part(given, where, {"unit": str, "scale": str})
    if own["scale"] not in (LINEAR, LOG):
        raise RobotFileError(f"{where}.scale: got {shown(own['scale'])}; must be {LINEAR} or {LOG}")
    also = own.get("also", [])
    if not isinstance(also, list):
        raise RobotFileError(f"{where}.also: got {shown(also)}; must be a list of paths")
    return FleetParameter(
        _text(path, where), own["unit"], own["scale"], tuple(_text(each, f"{where}.also") for each in also),
        _text(own.get("above", ""), f"{where}.above"),
    )  # fmt: skip


def _part(given: Any, where: str, wanted: dict[str, type]) -> dict[str, Any]:
    """A mapping that has these keys, with values of these types."""
    found = _mapping(given, where)
    for key, kind in wanted.items():
        if key not in found:
            raise RobotFileError(f"{where}: has no '{key}'; must have {', '.join(wanted)}")
        value = found[key]
        is_right = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
        if not is_right or (kind in (int, float) and isinstance(value, bool)):
            names = {int: "a whole number", float: "a number", dict: "a mapping", list: "a list", str: "text"}
            raise RobotFileError(f"{where}.{key}: got {shown(value)}; must be {names[kind]}")
    return found


def _mapping(given: Any, where: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise RobotFileError(f"{where}: got {shown(given)}; must be a mapping")
    return given


def _text(given: Any, where: str) -> str:
    if not isinstance(given, str):
        raise RobotFileError(f"{where}: got {shown(given)}; must be text")
    return given


def _numbers(given: Any, where: str, count: int) -> np.ndarray:
    is_numbers = isinstance(given, list) and all(isinstance(x, (int, float)) and type(x) is not bool for x in given)
    if not is_numbers or len(given) != count or not all(abs(x) <= _LARGEST for x in given):
        raise RobotFileError(f"{where}: got {shown(given)}; must be {count} finite number{'s' * (count != 1)}")
    return np.array(given, float)


def _matrix(given: list[Any], where: str, count: int) -> np.ndarray:
    if len(given) != count:
        raise RobotFileError(f"{where}: got {len(given)} rows; must be {count}")
    matrix = np.zeros((count, count))
    for i, row in enumerate(given):
        matrix[i, : i + 1] = _numbers(row, f"{where}[{i}]", i + 1)
    matrix += np.tril(matrix, -1).T
    if count and np.linalg.eigvalsh(matrix)[0] < -1e-5 * max(np.abs(matrix).max(), 1e-300):
        raise RobotFileError(f"{where}: is not a covariance: it has a negative eigenvalue")
    return matrix
