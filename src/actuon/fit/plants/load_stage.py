# SPDX-License-Identifier: Apache-2.0
r"""A joint with a known load as a stage of the chain that drives it: so a step of both is one kernel.

.. math::
    J\,\frac{v' - v}{h} = \tau + \tau_e - f - b\,v', \qquad q' = q + h\,v', \qquad
    \tau_e = -m g l \sin q

with the effort :math:`\tau` of the chain, its viscous friction :math:`b`, and a dry friction :math:`f` of at most
:math:`F`, both as its friction stages offer them to an engine. The joint stands still after the step where
:math:`|\tau + \tau_e + J v/h| \le F`. :math:`J` is the inertia of the load and the motor.

The stage is the first of the chain. Its law gives the commands of this step, out of a table of all runs, and the load
that load-dependent friction asks for. Its closing law is the last of all laws: it gets the effort at the joint.
Since the table holds past commands too, a delay of theirs needs no ring.
"""

from __future__ import annotations

import dataclasses
import math
from types import MappingProxyType
from typing import Any

import numpy as np
import warp as wp

from ...components.component import Component
from ...components.effects.friction import JOINT_LOAD
from ...components.math import SHORTEST, limit
from ...declare.config import Config
from ...declare.parameters import Number, Parameters, Whole, param
from ...kernel.chain import Law, Stage, custom_signal
from ...kernel.types import Floats
from ...typing import ArrayLike, DeviceLike

COLUMNS = ("command", "effort_command", "enabled", "position", "weight", "load", "push", "inertia")
"""Of the table, by step. ``position`` is the one measured after the step, ``weight`` that of its error in the mean.
``load`` and ``inertia`` come on top of those of the pendulum, for a joint of a robot whose other joints move, and
``push`` is what they do to it by their acceleration, of which friction knows nothing, as in engines."""

MOTOR_ENABLED = "motor_enabled"
"""Input of `MotorSwitch`: 1 while the motor is switched on, else 0."""

WIDTH = wp.constant(len(COLUMNS))
PI = wp.constant(math.pi)


class Pendulum(Parameters):
    """A pendulum, or an inertia alone, and where its run is in the table."""

    inertia: Number = param("kg·m²", "Inertia of load and motor, at the joint.", above=0.0)
    gravity: Number = param("N·m", "Mass times gravity times length.", default=0.0)
    bias: Number = param("rad", "Offset of the encoder.", default=0.0)
    delay: Number = param("s", "Delay of commands.", default=0.0, minimum=0.0)
    first_row: Whole = param("1", "Row of the table at which the run begins.", default=0, minimum=0, integer=True)
    last_row: Whole = param("1", "Row at which it ends, counted from there.", default=0, minimum=0, integer=True)


@wp.func
def sine(x: float):
    """``sin(x)`` within 1e-6 for an angle of a few turns: unlike the library's, a loop over lanes is vectorised."""
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
    """The joint that a chain drives, with a known load. Gives its position and velocity after the step as ``next_q``
    and ``next_qd``, and sums up the error of the position.

    Args:
        table: `COLUMNS` of all steps of all runs, shape (rows, columns), or as one row.
        inertia: Of load and motor [kg·m²], shape (N,).
        gravity: Mass times gravity times length [N·m], shape (N,).
        bias: What the encoder shows more than the position [rad], shape (N,).
        delay: Delay of commands [s], shape (N,), interpolated as `DelayInterpolated` does.
        first_row: Where the run of each DOF begins in the table, int32 of shape (N,).
        last_row: Its last row, counted from there, int32 of shape (N,). What it says is held afterwards.
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
        """Bring parameters and the table onto ``device``. Called by `Actuator`."""
        super().finalize(device, num_actuators)
        self._table = wp.array(self._rows, dtype=wp.float32, device=device)

    @classmethod
    def _stage_with(cls, laws: tuple[Law, ...]) -> Stage:
        return dataclasses.replace(super()._stage_with(laws), tables=("table",))

    def arguments(self) -> dict[str, Any]:
        """Return the inputs of a kernel, by name."""
        return super().arguments() | {"table": self._table}


class MotorSwitchConfig(Config):
    """A motor that the log switches on and off."""


@wp.func
def switch_law(effort: float, custom_motor_enabled: float):
    return effort * custom_motor_enabled


class MotorSwitch(Component):
    """No effort while the log says that the motor is switched off: its winding is open."""

    config = MotorSwitchConfig
    law = switch_law
    OPTIONAL_INPUTS = (MOTOR_ENABLED,)
