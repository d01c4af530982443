# SPDX-License-Identifier: Apache-2.0
r"""A joint with a known load as a stage of its motor model, so one kernel steps both.

.. math::
    J\,\frac{v' - v}{h} = \tau + \tau_e - f - b\,v', \qquad q' = q + h\,v', \qquad
    \tau_e = -m g l \sin q

with the effort :math:`\tau` of the motor, viscous friction :math:`b`, and Coulomb friction :math:`f` of at most
:math:`F`, as friction stages pass them to an engine. The joint is at rest after the step if
:math:`|\tau + \tau_e + J v/h| \le F`. :math:`J` is the inertia of load and motor.

This is the first stage. Its law reads the commands of the step from a table of all runs, and computes the external
load for load-dependent friction. Its closing law runs last, with the effort at the joint. The table also holds past
commands, so delays need no buffer.
"""

from __future__ import annotations

import dataclasses
import math
from types import MappingProxyType
from typing import Any

import numpy as np
import warp as wp

from ...components.component import Component
from ...components.math import JOINT_LOAD, SHORTEST, limit
from ...declare.config import Config
from ...declare.parameters import Number, Parameters, Whole, param
from ...kernel.chain import Law, Stage, custom_signal
from ...kernel.types import Floats
from ...typing import ArrayLike, DeviceLike

COLUMNS = ("command", "effort_command", "enabled", "position", "weight", "load", "push", "inertia")
"""Columns of the table, by step. ``position`` is measured after the step; ``weight`` is the weight of its error. For a
joint of a robot, ``load`` and ``inertia`` are added to those of the pendulum, and ``push`` is the effort of the other
joints' accelerations, which load-dependent friction ignores, as in engines."""

MOTOR_ENABLED = "motor_enabled"
"""Input of `MotorSwitch`, 1 while the motor is switched on, else 0."""

WIDTH = wp.constant(len(COLUMNS))
PI = wp.constant(math.pi)


class Pendulum(Parameters):
    """Pendulum or inertia, and the rows of its run in the table."""

    inertia: Number = param("kg·m²", "Inertia of load and motor, at the joint.", above=0.0)
    gravity: Number = param("N·m", "Mass times gravity times length.", default=0.0)
    bias: Number = param("rad", "Offset of the encoder.", default=0.0)
    delay: Number = param("s", "Delay of commands.", default=0.0, minimum=0.0)
    first_row: Whole = param("1", "Row of the table at which the run begins.", default=0, minimum=0, integer=True)
    last_row: Whole = param("1", "Last row of the run, counted from the first.", default=0, minimum=0, integer=True)


@wp.func
def sine(x: float):
    """Return ``sin(x)`` within 1e-6 for a few turns. Unlike the library's, it vectorises."""
    half_turns = wp.floor(x * (1.0 / PI) + 0.5)
    r = x - half_turns * PI
    rr = r * r
    p = rr * (-1.0 / 39916800.0) + 1.0 / 362880.0
    p = p * rr - 1.0 / 5040.0
    p = p * rr + 1.0 / 120.0
    p = p * rr - 1.0 / 6.0
    is_odd = half_turns - 2.0 * wp.floor(0.5 * half_turns)
    return (r + r * rr * p) * (1.0 - 2.0 * is_odd)


@wp.func
def load_law(
    q: float, dt: float, row: float, gravity: float, delay: float, first_row: int, last_row: int, table: Floats
):
    at = int(row)
    steps = delay / wp.max(dt, SHORTEST)
    whole = wp.floor(steps)
    share = steps - whole
    late = at - int(whole)
    near = (first_row + wp.clamp(late, 0, last_row)) * WIDTH
    far = (first_row + wp.clamp(late - 1, 0, last_row)) * WIDTH
    now = (first_row + wp.min(at, last_row)) * WIDTH
    return (
        table[near] + share * (table[far] - table[near]),
        table[near + 1] + share * (table[far + 1] - table[near + 1]),
        table[now + 2],
        table[now + 3],
        wp.where(at > last_row, 0.0, table[now + 4]),
        table[now + 5] - gravity * sine(q),
        table[now + 6],
        table[now + 7],
        row + 1.0,
    )


@wp.func
def load_closing_law(
    q: float,
    qd: float,
    effort: float,
    dt: float,
    custom_joint_load: float,
    dry_friction: float,
    viscous_friction: float,
    measured: float,
    weight: float,
    push: float,
    moving_inertia: float,
    inertia: float,
    bias: float,
    error: float,
):
    step = wp.max(dt, SHORTEST)
    total = inertia + moving_inertia
    drive = effort + custom_joint_load + push + total * qd / step
    moving = drive - limit(drive, -dry_friction, dry_friction)
    speed = moving * step / (total + viscous_friction * step)
    position = q + speed * step
    return effort, position, speed, error + weight * wp.abs(position + bias - measured)


class KnownLoad(Pendulum, Component):
    """Joint with a known load.

    Outputs position and velocity after the step, ``next_q`` and ``next_qd``, and accumulates the position error.

    Args:
        table: `COLUMNS` of all steps of all runs, shape (rows, columns), or as one row.
        inertia: Inertia of load and motor [kg·m²], shape (N,).
        gravity: Mass times gravity times length [N·m], shape (N,).
        bias: Offset of the encoder [rad], shape (N,).
        delay: Delay of commands [s], shape (N,), interpolated like `DelayInterpolated`.
        first_row: First row of each DOF's run, int32 of shape (N,).
        last_row: Last row, counted from the first, int32 of shape (N,). It is held afterwards.
    """

    law = load_law
    closing_law = load_closing_law
    STATES = ("row", "error")
    CLOSING_STATES = ("error",)
    OUTPUTS = (custom_signal(MOTOR_ENABLED), "measured", "weight", custom_signal(JOINT_LOAD), "push", "moving_inertia")
    CLOSING_OUTPUTS = ("next_q", "next_qd")
    OPTIONAL_SIGNALS = MappingProxyType({"dry_friction": 0.0, "viscous_friction": 0.0})
    _returns = ("target_q", "feedforward")

    def __init__(
        self,
        table: np.ndarray,
        inertia: ArrayLike,
        gravity: ArrayLike = 0.0,
        bias: ArrayLike = 0.0,
        delay: ArrayLike = 0.0,
        first_row: ArrayLike = 0,
        last_row: ArrayLike = 0,
    ):
        super().__init__(inertia, gravity, bias, delay, first_row, last_row)
        self._rows = np.ascontiguousarray(table, np.float32).ravel()

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Copy parameters and the table to ``device``. Called by `Actuator`."""
        super().finalize(device, num_actuators)
        self._table = wp.array(self._rows, dtype=wp.float32, device=device)

    @classmethod
    def _stage_with(cls, laws: tuple[Law, ...]) -> Stage:
        return dataclasses.replace(super()._stage_with(laws), tables=("table",))

    def arguments(self) -> dict[str, Any]:
        """Return the inputs of a kernel, by name."""
        return super().arguments() | {"table": self._table}


class MotorSwitchConfig(Config):
    """Switch of a motor by the log."""


@wp.func
def switch_law(effort: float, custom_motor_enabled: float):
    return effort * custom_motor_enabled


class MotorSwitch(Component):
    """Switch that sets the effort to 0 while the motor is off, as its winding is open."""

    config = MotorSwitchConfig
    law = switch_law
    OPTIONAL_INPUTS = (MOTOR_ENABLED,)
