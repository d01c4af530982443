# SPDX-License-Identifier: Apache-2.0
"""Units of errors and parameters of joints that turn (rad) and slide (m). Errors of different units have no mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..declare.parameters import unit_at_joint
from ..errors import StateError
from ..logs.noise import motion_of

if TYPE_CHECKING:
    from .plants.plant import Plant

SHARE = ""
"""Unit of errors as shares of the motion of each joint, where joints have different units."""
_SHOWN = {"rad": (1e3, "mrad", "mrad"), "m": (1e3, "mm", "mm"), SHARE: (100.0, "% of the motion", "percent")}


def shown_unit(unit: str) -> str:
    """Return the unit in which errors are shown: mrad, mm, or a percentage of the motion."""
    return _SHOWN[unit][1]


def key_of(name: str, unit: str) -> str:
    """Return the key of an error in a document, which ends with its unit, such as ``error_mrad``."""
    return f"{name}_{_SHOWN[unit][2]}"


def to_shown(error: float, unit: str) -> float:
    """Convert an error [rad, m, or a share] to the unit in which it is shown."""
    return _SHOWN[unit][0] * error


def in_shown(error: float | None, unit: str) -> float | None:
    """Return an error in the unit in which it is shown; None if it is unknown or the simulation diverged."""
    return to_shown(error, unit) if error is not None and math.isfinite(error) else None


def error_text(error: float, unit: str, digits: int = 2) -> str:
    """Return an error with its unit."""
    return f"{to_shown(error, unit):.{digits}f} {shown_unit(unit)}"


def shown_means(means: Mapping[str, float], digits: int = 2) -> str:
    """Return mean errors by unit in words: ``1.27 mrad, 0.30 mm``."""
    return ", ".join(error_text(error, unit, digits) for unit, error in means.items())


def means_by_unit(errors: Iterable[float], units: Iterable[str]) -> dict[str, float]:
    """Return the mean of the errors of each unit, in the order in which units occur."""
    own: dict[str, list[float]] = {}
    for error, unit in zip(errors, units, strict=True):
        own.setdefault(unit, []).append(error)
    return {unit: float(np.mean(values)) for unit, values in own.items()}


def only_mean(means: Mapping[str, float], where: str) -> float:
    """Return the only mean of `means_by_unit`.

    Raises:
        StateError: There are several units.
    """
    if len(means) != 1:
        raise StateError(f"errors in {' and '.join(means) or 'no unit'} have no mean; read {where}, by unit")
    return next(iter(means.values()))


def at_joint(declared: str, path: str, unit: str) -> str:
    """Return the unit of a parameter at a joint: N/m for N·m/rad if it slides.

    Args:
        declared: Unit at a joint that turns.
        path: Path of the parameter; links have the same units at all joints.
        unit: Unit of the position of the joint.
    """
    return unit_at_joint(declared, unit == "m" and not path.startswith("link."))


def error_unit(plant: Plant) -> str:
    """Return the unit of errors that may be averaged over joints: that of all joints, or `SHARE`."""
    units = set(plant.units)
    return units.pop() if len(units) == 1 else SHARE


def error_scales(plant: Plant) -> np.ndarray:
    """Return the divisors that bring errors of the joints to `error_unit`, shape (J,)."""
    if error_unit(plant) != SHARE:
        return np.ones(len(plant.joints))
    motions = ([motion_of(run.joint(name).position) for run in plant.runs] for name in plant.joints)
    return np.array([max(float(np.mean(own)), 1e-9) for own in motions])
