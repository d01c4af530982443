# SPDX-License-Identifier: Apache-2.0
"""`Fleet`: actuators that were identified on several robots, their spread, and ``fleet.yaml``, the file of them.

A parameter has a *scale*: linear, or logarithmic if its order of magnitude is searched. On a logarithmic scale means
are geometric, and a deviation of 0.1 is 10 %. The covariance over robots contains the uncertainty of each fit;
`FleetJoint.spread` does not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError, RobotFileError, listed, located, shown
from ..files import plain_yaml, read_yaml, replacing
from ..typing import PathLike

LINEAR, LOG = "linear", "log"
"""Scales of parameters."""
FEWEST = 2
"""Smallest number of robots in a fleet."""
FLEET = "fleet"
"""Key of the fleet in its file."""
_VERSION = 1
_DIGITS = 7
LARGEST_FILE = 32 * 2**20
MOST_VALUES = 2_000_000
MILLI = 1e3
_MILLI_OF = {"rad": "mrad", "m": "mm"}
_LARGEST = sys.float_info.max
_HEADER = """\
# The actuators of several robots, fitted by Actuon. 'values' are in the order of 'parameters', in their units.
# Covariances and deviations are of values on their scales: of logarithms where the scale is 'log'. Matrices are
# symmetric: rows end at the diagonal. 'across' follows from the robots' values.
"""


@dataclass(frozen=True)
class FleetParameter:
    """Parameter that was fitted on all robots.

    Args:
        path: Stage and name: ``friction.viscous``.
        unit: Unit of its values.
        scale: ``"linear"``, or ``"log"``.
        also: Paths of parameters with the same value.
        above: Path of the parameter that this one is added to.
        low: Smallest value that was searched.
        high: Largest value that was searched.
    """

    path: str
    unit: str
    scale: str
    also: tuple[str, ...] = ()
    above: str = ""
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, eq=False)
class FleetJoint:
    """A joint on R robots, with P parameters.

    Args:
        name: Name of the joint.
        model: Name of the model.
        parameters: Fitted parameters.
        values: Values of each robot, shape (R, P).
        covariances: Uncertainty of each robot's values on their scales, shape (R, P, P).
        errors: Mean absolute error of the position on each robot [rad or m], shape (R,).
        times: Name of the setting of the log that a number is proportional to, by the path of the number.
        settings: Settings that the values hold for.
        unit: Unit of the position, ``"rad"``, or ``"m"`` for a joint that slides.
    """

    name: str
    model: str
    parameters: tuple[FleetParameter, ...]
    values: np.ndarray
    covariances: np.ndarray
    errors: np.ndarray
    times: Mapping[str, str]
    settings: Mapping[str, float]
    unit: str = "rad"

    def __post_init__(self) -> None:
        robots, count = len(self.errors), len(self.parameters)
        shapes = {"values": (robots, count), "covariances": (robots, count, count)}
        for field, shape in shapes.items():
            got = getattr(self, field)
            if got.shape != shape or not np.isfinite(got).all():
                raise ParameterError(f"{self.name}: {field}: got shape {got.shape}; must be finite, {shape}")
        for i, parameter in enumerate(self.parameters):
            if parameter.scale == LOG and not (self.values[:, i] > 0.0).all():
                raise ParameterError(f"{self.name}: {parameter.path}: got {self.values[:, i].min():g}; must be > 0")

    @property
    def is_log(self) -> np.ndarray:
        """True for parameters with a logarithmic scale, shape (P,)."""
        return np.array([parameter.scale == LOG for parameter in self.parameters], dtype=bool)

    @property
    def on_scales(self) -> np.ndarray:
        """Values on their scales, shape (R, P)."""
        return np.where(self.is_log, np.log(np.where(self.is_log, self.values, 1.0)), self.values)

    @property
    def mean(self) -> np.ndarray:
        """Mean over the robots, geometric on a logarithmic scale, shape (P,)."""
        mean = self.on_scales.mean(axis=0)
        return np.where(self.is_log, np.exp(np.where(self.is_log, mean, 0.0)), mean)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance over the robots of the values on their scales, shape (P, P)."""
        away = self.on_scales - self.on_scales.mean(axis=0)
        return away.T @ away / (len(away) - 1)

    @property
    def std(self) -> np.ndarray:
        """Standard deviation over the robots of the values on their scales, shape (P,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self) -> np.ndarray:
        """Correlation over the robots, shape (P, P); 0 for parameters that do not vary."""
        std = np.where(self.std > 0.0, self.std, np.inf)
        return self.covariance / np.outer(std, std) + np.diag(np.where(np.isinf(std), 1.0, 0.0))

    @property
    def noise(self) -> np.ndarray:
        """Mean covariance of the fits of single robots, on the scales of the parameters, shape (P, P)."""
        return self.covariances.mean(axis=0)

    @property
    def spread(self) -> np.ndarray:
        """Covariance between robots without `noise`: the positive part of `covariance` - `noise`, shape (P, P)."""
        sizes, directions = np.linalg.eigh(self.covariance - self.noise)
        return (directions * np.maximum(sizes, 0.0)) @ directions.T


@dataclass(frozen=True, eq=False)
class Fleet:
    """Joints that several robots have in common.

    Args:
        robots: Names of the robots.
        files: The ``actuon.yaml`` of each robot.
        joints: Fitted values of each joint.
    """

    robots: tuple[str, ...]
    files: tuple[str, ...]
    joints: tuple[FleetJoint, ...]

    def joint(self, name: str) -> FleetJoint:
        """Return a joint by its name."""
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise ParameterError(f"the fleet: {listed(name, [joint.name for joint in self.joints], 'joints')}")


def save_fleet(path: PathLike, fleet: Fleet) -> None:
    """Write a ``fleet.yaml`` that `load_fleet` reads as the same. An existing file is replaced at once, or kept.

    Examples:
        >>> kp = actuon.fit.FleetParameter("controller.kp", "N·m/rad", "linear")
        >>> values, spread = np.array([[40.0], [43.0]]), np.full((2, 1, 1), 0.1)
        >>> joint = actuon.fit.FleetJoint("hip", "pd", (kp,), values, spread, np.zeros(2), {}, {})
        >>> fleet = actuon.fit.Fleet(("a", "b"), ("a.yaml", "b.yaml"), (joint,))
        >>> actuon.fit.save_fleet("fleet.yaml", fleet)
        >>> actuon.fit.load_fleet("fleet.yaml").joint("hip").mean
        array([41.5])
    """
    path = Path(path)
    document = {
        "version": _VERSION,
        FLEET: {
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
        "robots": {name: _robot_as_plain(joint, i) for i, name in enumerate(robots)},
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


def found_as_plain(joint: FleetJoint, robot: int) -> dict[str, Any]:
    """Return the fitted values of a joint of one robot, as the file of its fit holds them."""
    return {"parameters": {p.path: _parameter_as_plain(p) for p in joint.parameters}, **_robot_as_plain(joint, robot)}


def _robot_as_plain(joint: FleetJoint, robot: int) -> dict[str, Any]:
    return {
        f"error_{_MILLI_OF[joint.unit]}": _rounded(MILLI * joint.errors[robot]),
        "values": _rounded(joint.values[robot]),
        "std": _rounded(np.sqrt(np.diag(joint.covariances[robot]))),
        "covariance": _triangle(joint.covariances[robot]),
    }


def _parameter_as_plain(parameter: FleetParameter) -> dict[str, Any]:
    return {
        "unit": parameter.unit,
        "scale": parameter.scale,
        **({"also": list(parameter.also)} if parameter.also else {}),
        **({"above": parameter.above} if parameter.above else {}),
        **({"range": _rounded(ends)} if np.isfinite(ends := [parameter.low, parameter.high]).all() else {}),
    }


def _rounded(numbers: npt.ArrayLike) -> Any:
    values = np.asarray(numbers, float)
    return [_rounded(each) for each in values] if values.ndim else float(f"{values:.{_DIGITS}g}")


def _triangle(matrix: np.ndarray) -> list[list[float]]:
    return [_rounded(row[: i + 1]) for i, row in enumerate(matrix)]


def load_fleet(path: PathLike) -> Fleet:
    """Read a ``fleet.yaml``.

    Raises:
        RobotFileError: It cannot be read, or a value is missing or not allowed; the message names it.
    """
    path = Path(path)
    return fleet_of_document(path, read_yaml(path, LARGEST_FILE, MOST_VALUES))


def fleet_of_document(path: Path, document: object) -> Fleet:
    """Return the fleet in the document of a file. See `load_fleet`."""
    with located(f"'{path}'", RobotFileError):
        top = _part(document, "the file", {"version": int, FLEET: dict})
        if top["version"] != _VERSION:
            raise RobotFileError(f"version: got {shown(top['version'])}; this Actuon reads version {_VERSION}")
        fleet = _part(top[FLEET], "fleet", {"robots": dict, "joints": dict})
        robots = tuple(fleet["robots"])
        if len(robots) < FEWEST:
            raise RobotFileError(f"fleet.robots: got {len(robots)}; must be at least {FEWEST}")
        files = tuple(as_text(fleet["robots"][name], f"fleet.robots.{name}") for name in robots)
        joints = tuple(_joint(str(name), own, robots) for name, own in fleet["joints"].items())
        return Fleet(tuple(map(str, robots)), files, joints)


def _joint(name: str, given: object, robots: tuple[object, ...]) -> FleetJoint:
    where = f"fleet.joints.{name}"
    own = _part(given, where, {"model": str, "parameters": dict, "robots": dict})
    parameters = _parameters(own["parameters"], where)
    for robot in robots:
        if robot not in own["robots"]:
            raise RobotFileError(f"{where}.robots: has no '{robot}'")
    found = [_robot(own["robots"][robot], f"{where}.robots.{robot}", len(parameters)) for robot in robots]
    times = as_mapping(own.get("times"), f"{where}.times")
    settings = as_mapping(own.get("settings"), f"{where}.settings")
    return _joint_of(
        name,
        own["model"],
        parameters,
        found,
        {str(p): as_text(setting, f"{where}.times.{p}") for p, setting in times.items()},
        {str(s): as_number(value, f"{where}.settings.{s}") for s, value in settings.items()},
    )


def found_of_plain(
    name: str, model: str, given: object, times: Mapping[str, str], settings: Mapping[str, float], where: str
) -> FleetJoint:
    """Return a joint of one robot from the result of `found_as_plain`."""
    parameters = _parameters(_part(given, where, {"parameters": dict})["parameters"], where)
    return _joint_of(name, model, parameters, [_robot(given, where, len(parameters))], times, settings)


def _joint_of(
    name: str,
    model: str,
    parameters: tuple[FleetParameter, ...],
    robots: list[tuple[np.ndarray, np.ndarray, float, str]],
    times: Mapping[str, str],
    settings: Mapping[str, float],
) -> FleetJoint:
    *arrays, units = zip(*robots, strict=True)
    values, covariances, errors = (np.array(column) for column in arrays)
    return FleetJoint(name, model, parameters, values, covariances, errors, times, settings, units[0])


def _robot(given: object, where: str, count: int) -> tuple[np.ndarray, np.ndarray, float, str]:
    """Return values, covariance and error of one robot, and the unit of its position."""
    unit = "m" if isinstance(given, Mapping) and "error_mm" in given else "rad"
    key = f"error_{_MILLI_OF[unit]}"
    found = _part(given, where, {key: float, "values": list, "covariance": list})
    values = _numbers(found["values"], f"{where}.values", count)
    error = as_number(found[key], f"{where}.{key}")
    return values, _matrix(found["covariance"], f"{where}.covariance", count), error / MILLI, unit


def _parameters(given: Mapping[object, object], where: str) -> tuple[FleetParameter, ...]:
    return tuple(_parameter(path, own, f"{where}.parameters.{path}") for path, own in given.items())


def _parameter(path: object, given: object, where: str) -> FleetParameter:
    own = _part(given, where, {"unit": str, "scale": str})
    if own["scale"] not in (LINEAR, LOG):
        raise RobotFileError(f"{where}.scale: got {shown(own['scale'])}; must be {LINEAR} or {LOG}")
    also = own.get("also", [])
    if not isinstance(also, list):
        raise RobotFileError(f"{where}.also: got {shown(also)}; must be a list of paths")
    low, high = (-np.inf, np.inf) if own.get("range") is None else _numbers(own["range"], f"{where}.range", 2)
    if not low <= high:
        raise RobotFileError(f"{where}.range: got {shown(own['range'])}; must be the lowest value and the highest")
    return FleetParameter(
        as_text(path, where), own["unit"], own["scale"], tuple(as_text(each, f"{where}.also") for each in also),
        as_text(own.get("above", ""), f"{where}.above"), float(low), float(high),
    )  # fmt: skip


def _part(given: object, where: str, wanted: dict[str, type]) -> dict[str, Any]:
    """Return a mapping that must have these keys, with values of these types."""
    found = as_mapping(given, where)
    for key, kind in wanted.items():
        if key not in found:
            raise RobotFileError(f"{where}: has no '{key}'; must have {', '.join(wanted)}")
        value = found[key]
        is_right = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
        if not is_right or (kind in (int, float) and isinstance(value, bool)):
            names = {int: "a whole number", float: "a number", dict: "a mapping", list: "a list", str: "text"}
            raise RobotFileError(f"{where}.{key}: got {shown(value)}; must be {names[kind]}")
    return found


def as_mapping(given: object, where: str) -> dict[str, Any]:
    """Return a mapping of a file; None is an empty one."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise RobotFileError(f"{where}: got {shown(given)}; must be a mapping")
    return given


def as_text(given: object, where: str) -> str:
    """Return text of a file."""
    if not isinstance(given, str):
        raise RobotFileError(f"{where}: got {shown(given)}; must be text")
    return given


def as_number(given: object, where: str) -> float:
    """Return a finite number of a file."""
    return float(_numbers([given], where, 1)[0])


def _numbers(given: object, where: str, count: int) -> np.ndarray:
    values = given if isinstance(given, list) else []
    is_numbers = all(isinstance(x, (int, float)) and type(x) is not bool for x in values)
    if values is not given or not is_numbers or len(values) != count or not all(abs(x) <= _LARGEST for x in values):
        raise RobotFileError(f"{where}: got {shown(given)}; must be {count} finite number{'s' * (count != 1)}")
    return np.array(values, float)


def _matrix(given: list[object], where: str, count: int) -> np.ndarray:
    if len(given) != count:
        raise RobotFileError(f"{where}: got {len(given)} rows; must be {count}")
    matrix = np.zeros((count, count))
    for i, row in enumerate(given):
        matrix[i, : i + 1] = _numbers(row, f"{where}[{i}]", i + 1)
    matrix += np.tril(matrix, -1).T
    if count and np.linalg.eigvalsh(matrix)[0] < -1e-5 * max(np.abs(matrix).max(), 1e-300):
        raise RobotFileError(f"{where}: is not a covariance: it has a negative eigenvalue")
    return matrix
