# SPDX-License-Identifier: Apache-2.0
"""Conversion of fit results to a `Fleet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ParameterError
from ..robot_files.fleet import FEWEST, Fleet, FleetJoint, FleetParameter
from .model import Model, Parameter, place_of, value_at
from .units import at_joint

if TYPE_CHECKING:
    from .result import FitResult, FittedJoint


def fleet_of(results: Mapping[str, FitResult], files: Sequence[str]) -> Fleet:
    """Return the results of several fits as a fleet.

    Args:
        results: Results by name of the robot, all with the same joints and models.
        files: The ``actuon.yaml`` of each robot.
    """
    if len(results) < FEWEST:
        raise ParameterError(f"a fleet: got {len(results)} robots; must be at least {FEWEST}")
    names = [tuple(joint.name for joint in result.joints) for result in results.values()]
    if len(set(names)) > 1:
        raise ParameterError(f"a fleet: got robots with the joints {names[0]} and others; all must have the same ones")
    return Fleet(tuple(results), tuple(files), tuple(joint_of(name, list(results.values())) for name in names[0]))


def joint_of(name: str, results: Sequence[FitResult]) -> FleetJoint:
    """Return one joint of a fleet from the results of several fits."""
    unit = results[0].unit_of(name)
    own = [next(joint for joint in result.joints if joint.name == name) for result in results]
    first = own[0].model
    searched: dict[str, list[tuple[Parameter, float]]] = {}
    for joint in own:
        factors = _factors(joint, first)
        for parameter in joint.model.parameters:
            searched.setdefault(parameter.path, []).append((parameter, factors.get(parameter.path, 1.0)))
    parameters = tuple(
        FleetParameter(
            path,
            at_joint(place_of(first.actuator, path).declared.unit, path, unit),
            every[-1][0].scale,
            every[-1][0].also,
            every[-1][0].added_to,
            min(p.low * factor for p, factor in every),
            max(p.high * factor for p, factor in every),
        )
        for path, every in searched.items()
    )
    errors = [np.mean([run.error for run in result.runs if run.joint == name]) for result in results]
    return FleetJoint(
        name,
        first.name,
        parameters,
        np.array([_values(joint, parameters, first) for joint in own]),
        np.array([_covariance(joint, parameters) for joint in own]),
        np.array(errors),
        dict(first.scaled_by),
        dict(first.settings),
        unit,
    )


def _values(joint: FittedJoint, parameters: Sequence[FleetParameter], first: Model) -> np.ndarray:
    """Return the fitted and known values of a robot, at the settings of the first robot."""
    found = dict(zip(joint.model.paths, joint.values, strict=True))
    factors = _factors(joint, first)
    values = []
    for p in parameters:
        known = found[p.path] if p.path in found else value_at(joint.model.actuator, p.path) or 0.0
        below = value_at(joint.actuator, p.above) or 0.0 if p.above and p.path not in found else 0.0
        values.append((known - below) * factors.get(p.path, 1.0))
    return np.array(values)


def _factors(joint: FittedJoint, first: Model) -> dict[str, float]:
    """Return the factors that convert values from a robot's settings to those of the first robot, by path."""
    return joint.model.factors(first.settings) if joint.model.scaled_by else {}


def _covariance(joint: FittedJoint, parameters: Sequence[FleetParameter]) -> np.ndarray:
    """Return the covariance of a robot's values on their scales, with 0 for known values."""
    widths = np.array([p.width for p in joint.model.parameters])
    found = joint.covariance * np.outer(widths, widths)
    at = [joint.model.paths.index(p.path) if p.path in joint.model.paths else -1 for p in parameters]
    padded = np.pad(found, (0, 1))
    return padded[np.ix_(at, at)]
