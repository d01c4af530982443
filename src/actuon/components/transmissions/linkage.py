# SPDX-License-Identifier: Apache-2.0
r"""Linkage: a ratio that depends on the joint's position, from a table of the motor's position over the joint's.

.. math:: q_m = g(q), \qquad \dot q_m = g'(q)\, \dot q, \qquad \tau = g'(q)\, \tau_m

Between two entries of the table, :math:`g` is the cubic through both with the slope :math:`d_i` at each, the harmonic
mean of the slopes of the straight lines to its neighbours; at the ends, and beyond them, the slope of the last line
(Fritsch and Butland, 1984). So :math:`g` is monotonic like the table, and the ratio is continuous and never zero.
Effort and velocity follow from the same function, so no power is lost or gained.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Parameters, ParameterValue, Table, param, table_columns
from ...errors import ParameterError
from ...kernel.types import Floats
from ..kinds import SMALLEST_RATIO, Transmission
from ..limits.position_based import entry_before
from ..math import limit

LARGEST_RATIO = 1.0 / SMALLEST_RATIO


class Linkage(Parameters):
    joint_positions: Table = param("rad", "Positions of the joint, in rising order.", shared=True)
    motor_positions: Table = param(
        "rad", "Position of the motor at each entry, all rising or all falling.", shared=True
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        columns = table_columns(where, cls.declared(), values, fewest=2)
        joint, motor = (column.astype(np.float32).astype(np.float64) for column in columns)
        held = np.diff(joint) <= 0.0
        if held.any():
            at = int(np.argmax(held))
            raise ParameterError(
                f"{where}.joint_positions: {joint[at + 1]:g} at index {at + 1} follows {joint[at]:g}; positions must "
                "be in rising order"
            )
        ratios = np.diff(motor) / np.diff(joint)
        small = (np.abs(ratios) < SMALLEST_RATIO) | (np.abs(ratios) > LARGEST_RATIO) | (ratios * ratios[0] < 0.0)
        if small.any():
            at = int(np.argmax(small))
            raise ParameterError(
                f"{where}.motor_positions: {motor[at + 1]:g} at index {at + 1} follows {motor[at]:g}, a ratio of "
                f"{ratios[at]:g}; the ratio must keep its sign, with a magnitude from {SMALLEST_RATIO:g} to "
                f"{LARGEST_RATIO:g}: end the table before a dead centre"
            )


@wp.func
def slope_after(entry: int, joint_positions: Floats, motor_positions: Floats):
    """Return the slope of the line from an entry to the next; at the ends, of the last line."""
    last = joint_positions.shape[0] - 1
    left = wp.clamp(entry, 0, last - 1)
    return (motor_positions[left + 1] - motor_positions[left]) / (joint_positions[left + 1] - joint_positions[left])


@wp.func
def slope_at(entry: int, joint_positions: Floats, motor_positions: Floats):
    """Return the ratio at an entry: the harmonic mean of the slopes to both sides."""
    before = slope_after(entry - 1, joint_positions, motor_positions)
    after = slope_after(entry, joint_positions, motor_positions)
    return 2.0 * before * (after / (before + after))


@wp.func
def linkage_at(q: float, joint_positions: Floats, motor_positions: Floats):
    """Return the motor's position at the joint's position ``q``, and the ratio there."""
    left = wp.min(entry_before(q, joint_positions), joint_positions.shape[0] - 2)
    start = joint_positions[left]
    width = joint_positions[left + 1] - start
    slope = slope_after(left, joint_positions, motor_positions)
    first = slope_at(left, joint_positions, motor_positions)
    last = slope_at(left + 1, joint_positions, motor_positions)
    inside = limit(q - start, 0.0, width)
    beyond = q - start - inside
    t = inside / width
    bend = first + last - 2.0 * slope
    turn = 3.0 * slope - 2.0 * first - last
    ratio = first + t * (2.0 * turn + t * 3.0 * bend)
    return motor_positions[left] + inside * (first + t * (turn + t * bend)) + beyond * ratio, ratio


@wp.func
def linkage_law(
    q: float, qd: float, effort: float, gear_ratio: float, joint_positions: Floats, motor_positions: Floats
):
    position, ratio = linkage_at(q, joint_positions, motor_positions)
    velocity = ratio * qd
    return position, velocity, effort / ratio, velocity, gear_ratio * ratio


@wp.func
def linkage_closing_law(q: float, effort: float, joint_positions: Floats, motor_positions: Floats):
    _, ratio = linkage_at(q, joint_positions, motor_positions)
    return ratio * effort, effort


class LinkageTransmissionConfig(Linkage, Config):
    """Table of the motor's position over the joint's.

    Examples:
        >>> transmission = actuon.LinkageTransmissionConfig((-1.0, 0.0, 1.0), (-8.0, 0.0, 10.0))
    """

    schema = "ActuonLinkageTransmissionAPI"


class TransmissionLinkage(Linkage, Transmission):
    """Linkage whose ratio depends on the joint's position. All DOFs share the table.

    Examples:
        >>> transmission = actuon.TransmissionLinkage(
        ...     joint_positions=[-1.0, 0.0, 1.0], motor_positions=[-8.0, 0.0, 10.0]
        ... )
    """

    config = LinkageTransmissionConfig
    law = linkage_law
    closing_law = linkage_closing_law
    OUTPUTS = ("motor_velocity", "gear_ratio")
    CLOSING_OUTPUTS = ("motor_effort",)
    OPTIONAL_SIGNALS = MappingProxyType({"gear_ratio": 1.0})
