# SPDX-License-Identifier: Apache-2.0
r"""A torque-speed envelope of any shape: a closed polygon in the plane of speed and effort.

.. math:: \tau \leftarrow \mathrm{clamp}(\tau,\; \tau_{min}(v),\; \tau_{max}(v))

with the upper and the lower side of the polygon, :math:`\tau_{max}` and :math:`\tau_{min}`, at the speed :math:`v`:
linear between corners, and constant beyond the slowest and the fastest one. At a jump, the wider bound applies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Parameters, ParameterValue, Table, param, table_columns
from ...errors import ParameterError, shown
from ...kernel.types import Floats
from ...typing import ArrayLike
from ..kinds import Clamping
from ..math import limit

NARROWEST = wp.constant(1e-12)
"""Largest distance of two corners [rad/s] that counts as a jump, so that the gradient is finite."""
FARTHEST = wp.constant(3.0e38)

Curve = Iterable[Sequence[float]]
"""Pairs of speed [rad/s or m/s] and effort [N·m or N]."""


class TorqueSpeed(Parameters):
    speeds: Table = param("rad/s", "Speeds of the corners, in order around the polygon.", shared=True)
    efforts: Table = param("N·m", "Efforts of the corners, in the same order.", shared=True)

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        speeds, efforts = table_columns(where, cls.declared(), values, fewest=0)
        _check_polygon(where, speeds.astype(np.float64), efforts.astype(np.float64))


def _columns(where: str, points: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    pairs = list(points) if isinstance(points, Iterable) else None
    if pairs is None or not all(_is_pair(pair) for pair in pairs):
        raise ParameterError(f"{where}: got {shown(points)}; must be pairs of a speed and an effort")
    speeds, efforts = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    if len(pairs) > 3 and (speeds[0], efforts[0]) == (speeds[-1], efforts[-1]):
        speeds, efforts = speeds[:-1], efforts[:-1]
    return speeds, efforts


def _is_pair(pair: object) -> bool:
    return isinstance(pair, (list, tuple, np.ndarray)) and len(pair) == 2 and all(np.isscalar(part) for part in pair)


def rising_curve(where: str, curve: Curve) -> np.ndarray:
    """Return a curve of largest efforts over speed, checked, shape (K, 2)."""
    columns = _columns(where, curve)
    for declared, column in zip(TorqueSpeedClampingConfig.declared().values(), columns, strict=True):
        declared.check(where, column)
    found = np.array(columns, dtype=np.float64).T
    if len(found) == 0 or (found < 0.0).any() or (np.diff(found[:, 0]) < 0.0).any():
        raise ParameterError(
            f"{where}: got {shown(curve)}; must be pairs of a speed and a largest effort, both ≥ 0; speeds must not "
            "decrease"
        )
    return found


def _check_polygon(where: str, speeds: np.ndarray, efforts: np.ndarray) -> None:
    """Raise if corners do not enclose one interval of efforts at each speed."""
    count = len(speeds)
    if count < 3:
        raise ParameterError(f"{where}: got {count} corners; must be at least 3")
    width = speeds.max() - speeds.min()
    if not NARROWEST < width < FARTHEST:
        raise ParameterError(
            f"{where}.speeds: got {speeds.min():g} to {speeds.max():g}; their difference must be > 0 and finite"
        )
    steps = np.sign(np.roll(speeds, -1) - speeds)
    rises = np.sign(np.roll(efforts, -1) - efforts)
    upright = (steps == 0.0) & (np.roll(steps, -1) == 0.0)
    back = upright & (rises * np.roll(rises, -1) < 0.0)
    if back.any():
        _refuse(where, speeds, efforts, (int(np.argmax(back)) + 1) % count, "the polygon reverses its direction here")
    moving = np.flatnonzero(steps)
    turns = moving[steps[moving] != np.roll(steps[moving], 1)]
    if len(turns) != 2:
        text = "speeds must rise once and fall once around the polygon, for one interval of efforts at each speed"
        _refuse(where, speeds, efforts, int(turns[2]), text)
    stations = np.unique(speeds)
    gaps = []
    for left, right in itertools.pairwise(stations):
        up, down = (_edge_over(speeds, steps, (left + right) / 2.0, sign) for sign in (1.0, -1.0))
        gaps += [(at, _value(speeds, efforts, up, at) - _value(speeds, efforts, down, at)) for at in (left, right)]
    apart = [(at, gap) for at, gap in gaps if gap != 0.0]
    if not apart:
        raise ParameterError(f"{where}: all corners are on one line; must enclose an area")
    crossed = [at for at, gap in apart if gap * apart[0][1] < 0.0]
    if crossed:
        raise ParameterError(
            f"{where}: its upper and lower sides have crossed at a speed of {crossed[0]:g}; "
            "pass the corners in order around a polygon that does not cross itself"
        )


def _refuse(where: str, speeds: np.ndarray, efforts: np.ndarray, at: int, rule: str) -> None:
    raise ParameterError(f"{where}: corner {at}, ({speeds[at]:g}, {efforts[at]:g}): {rule}")


def _edge_over(speeds: np.ndarray, steps: np.ndarray, speed: float, sign: float) -> int:
    """Return the index of the edge in the direction ``sign`` over a speed between two corners."""
    after = np.roll(speeds, -1)
    return int(np.argmax((steps == sign) & (np.minimum(speeds, after) < speed) & (speed < np.maximum(speeds, after))))


def _value(speeds: np.ndarray, efforts: np.ndarray, edge: int, speed: float) -> float:
    other = (edge + 1) % len(speeds)
    along = (speed - speeds[edge]) / (speeds[other] - speeds[edge])
    return float(efforts[edge] + along * (efforts[other] - efforts[edge]))


@wp.func
def edge_value(v: float, edge: int, speeds: Floats, efforts: Floats):
    """Return the effort at ``v`` on the edge that starts at a corner; constant beyond its ends."""
    other = wp.where(edge + 1 < speeds.shape[0], edge + 1, 0)
    start = speeds[edge]
    end = speeds[other]
    width = end - start
    along = limit(v, wp.min(start, end), wp.max(start, end)) - start
    return efforts[edge] + along / wp.where(wp.abs(width) > NARROWEST, width, 1.0) * (efforts[other] - efforts[edge])


@wp.func
def edges_at(v: float, speeds: Floats, efforts: Floats):
    """Return the edges above and below ``v``. Separate, since Warp cannot replay loops in reverse."""
    slowest = float(FARTHEST)
    fastest = float(-FARTHEST)
    for i in range(speeds.shape[0]):
        slowest = wp.min(slowest, speeds[i])
        fastest = wp.max(fastest, speeds[i])
    at = limit(v, slowest, fastest)
    top = int(0)
    bottom = int(0)
    highest = float(-FARTHEST)
    lowest = float(FARTHEST)
    for i in range(speeds.shape[0]):
        other = wp.where(i + 1 < speeds.shape[0], i + 1, 0)
        near = wp.min(speeds[i], speeds[other])
        far = wp.max(speeds[i], speeds[other])
        value = edge_value(at, i, speeds, efforts)
        passes = near <= at and at <= far and far - near > NARROWEST
        if passes and value > highest:
            highest = value
            top = i
        if passes and value < lowest:
            lowest = value
            bottom = i
    return top, bottom


@wp.func
def torque_speed_law(effort: float, qd: float, speeds: Floats, efforts: Floats):
    top, bottom = edges_at(qd, speeds, efforts)
    lowest = edge_value(qd, bottom, speeds, efforts)
    highest = edge_value(qd, top, speeds, efforts)
    return limit(effort, lowest, highest)


class TorqueSpeedClampingConfig(TorqueSpeed, Config):
    """Torque-speed envelope as a polygon: its corners, in order around it.

    Examples:
        >>> limit = actuon.TorqueSpeedClampingConfig(
        ...     speeds=(-30.0, 10.0, 30.0, -10.0), efforts=(10.0, 10.0, -10.0, -10.0)
        ... )
    """

    schema = "ActuonTorqueSpeedClampingAPI"

    @classmethod
    def from_points(cls, points: Curve) -> Self:
        """Return the polygon with these corners, each a speed and an effort, in order around it.

        Examples:
            >>> corners = [(-30.0, 10.0), (10.0, 10.0), (30.0, -10.0), (-10.0, -10.0)]
            >>> limit = actuon.TorqueSpeedClampingConfig.from_points(corners)
        """
        return cls(*_columns("points", points))

    @classmethod
    def symmetric(cls, driving: Curve, braking: Curve | None = None) -> Self:
        """Return the polygon for both directions, from the largest efforts over speed.

        Args:
            driving: Speeds ≥ 0 [rad/s or m/s], rising, and the largest effort [N·m or N] in the direction of motion.
                Two entries with equal speed are a jump. The first and the last effort also apply beyond their speeds.
            braking: Like ``driving``, against the motion. Default: the largest effort of ``driving`` at any speed.

        Examples:
            >>> driving = [(0.0, 18.0), (15.0, 18.0), (30.0, 0.0)]
            >>> limit = actuon.TorqueSpeedClampingConfig.symmetric(driving)
        """
        drive = rising_curve("driving", driving)
        brake = rising_curve("braking", [(0.0, drive[:, 1].max())] if braking is None else braking)
        end = max(drive[-1, 0], brake[-1, 0])
        if any(len(curve) > 1 and curve[-2, 0] == end for curve in (drive, brake)) or end == 0.0:
            end = (
                2.0 * end if end > 0.0 else 1.0
            )  # room for the constant effort after a jump, or if nothing depends on speed
        drive, brake = (np.vstack([(0.0, c[0, 1]), c, (end, c[-1, 1])]) for c in (drive, brake))
        forward = [*((v, e) for v, e in drive), *((v, -e) for v, e in brake[::-1])]
        corners = np.array([*forward, *((-v, -e) for v, e in forward)]) + 0.0
        again = (corners == np.roll(corners, 1, axis=0)).all(axis=1)
        return cls.from_points(corners[~again])


class ClampingTorqueSpeed(TorqueSpeed, Clamping):
    """Clamps the effort to a polygon over speed. All DOFs share the polygon.

    Args:
        points: Corners in order around the polygon, each a speed [rad/s or m/s] and an effort [N·m or N], shape (K, 2).
        speeds: Their speeds, shape (K,), instead of ``points``.
        efforts: Their efforts, shape (K,), with ``speeds``.

    Examples:
        >>> speeds = [-20.0, 8.0, 20.0, 20.0, -8.0, -20.0]
        >>> efforts = [10.0, 10.0, 0.0, -10.0, -10.0, 0.0]
        >>> limit = actuon.ClampingTorqueSpeed(speeds=speeds, efforts=efforts)
    """

    config = TorqueSpeedClampingConfig
    law = torque_speed_law

    def __init__(
        self, points: Curve | None = None, *, speeds: ArrayLike | None = None, efforts: ArrayLike | None = None
    ):
        if (points is None) != (speeds is not None and efforts is not None):
            raise ParameterError("ClampingTorqueSpeed: pass either points, or speeds and efforts")
        if points is not None:
            speeds, efforts = _columns("ClampingTorqueSpeed.points", points)
        super().__init__(speeds=speeds, efforts=efforts)
