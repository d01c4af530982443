# SPDX-License-Identifier: Apache-2.0
r"""A battery that sags under its load and runs down.

.. math::
    U_0 &= U_{full} + (U_{empty} - U_{full})\,Q/C, \qquad 0 \text{ from } Q = C \text{ on} \\
    U &= U_0/(1 + R\,G), \qquad \dot Q = G\,U, \qquad G = \sum_k u_k i_k/U^2

with the charge drawn :math:`Q`, the capacity :math:`C`, and the conductance :math:`G` of the load by the motors
:math:`k` in the last step: a motor controller is a converter without losses, which draws :math:`u_k i_k/U` if its motor
has the current :math:`i_k` at the voltage :math:`u_k`. This is :math:`U = U_0 - R\,I`; with the load as a conductance
it is stable at any load that the battery can carry. A braking motor charges the battery, up to :math:`Q = 0` and
:math:`U = U_{full}`, as battery management does; a brake resistor takes the rest.

By default each DOF has a separate battery. `SharedBattery` connects several DOFs to one; on robots, all motors of a
robot share one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, ParameterValue, param
from ...errors import refuse_where
from ..kinds import Clamping
from ..math import limit

LEAST_VOLTAGE = wp.constant(1e-3)
"""Smallest divisor [V]: replaces lower voltages in quotients."""
LEAST_DIVISOR = wp.constant(0.5)
"""Smallest divisor [1]: before the clamp, braking motors raise the voltage at most to its double."""
LEAST_RESISTANCE = wp.constant(1e-9)
"""Smallest divisor [Ω]: replaces lower resistances in quotients."""


class Battery(Parameters):
    full_voltage: Number = param("V", "Voltage without load, when full.", minimum=0.0)
    inner_resistance: Number = param("Ω", "Resistance of battery and leads.", default=0.0, minimum=0.0)
    capacity: Number = param(
        "C", "Charge from full to empty; 3600 C are 1 A·h.", default=math.inf, above=0.0, finite=False
    )
    empty_voltage: Number = param("V", "Voltage without load, just before it is empty.", default=0.0, minimum=0.0)

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        refuse_where(
            np.asarray(values["empty_voltage"], np.float32) > np.asarray(values["full_voltage"], np.float32),
            f"{where}: empty_voltage is above full_voltage{{at}}; must be at most full_voltage",
        )


@wp.func
def battery_law(
    dt: float,
    own_load: float,
    other_load: float,
    charge_drawn: float,
    charge_rest: float,
    full_voltage: float,
    inner_resistance: float,
    capacity: float,
    empty_voltage: float,
):
    load = own_load + other_load
    open_voltage = full_voltage + (empty_voltage - full_voltage) * limit(charge_drawn / capacity, 0.0, 1.0)
    open_voltage = wp.where(charge_drawn < capacity, open_voltage, 0.0)
    unheld = open_voltage / wp.max(1.0 + inner_resistance * load, LEAST_DIVISOR)
    supply = wp.where(unheld > full_voltage, full_voltage, unheld)
    most_back = (open_voltage - full_voltage) / wp.max(inner_resistance, LEAST_RESISTANCE)
    current = load * unheld
    added = wp.where(current < most_back, most_back, current) * dt + charge_rest
    grown = charge_drawn + added
    charge = wp.where(grown < 0.0, 0.0, grown)
    rest = wp.where(grown < 0.0, 0.0, added - (grown - charge_drawn))
    return supply, charge, 0.0, charge, rest


@wp.func
def battery_closing_law(effort: float, current: float, voltage: float, supply_voltage: float):
    supply = wp.max(supply_voltage, LEAST_VOLTAGE)
    return effort, current * voltage / (supply * supply)


class BatteryClampingConfig(Battery, Config):
    """Battery, or any supply with an inner resistance.

    Examples:
        >>> limit = actuon.BatteryClampingConfig(full_voltage=25.2, inner_resistance=0.05)
    """

    schema = "ActuonBatteryClampingAPI"


class ClampingBattery(Battery, Clamping):
    """Battery whose voltage sags under load. Must be before the electrical limit.

    Offers ``supply_voltage`` [V] and ``charge`` drawn [C]. Uses the current and voltage of a `ClampingVoltage` or
    `ControllerServoPWM`.

    Examples:
        >>> limit = actuon.ClampingBattery(
        ...     full_voltage=25.2, inner_resistance=0.05, capacity=18000.0, empty_voltage=21.0
        ... )
    """

    config = BatteryClampingConfig
    law = battery_law
    closing_law = battery_closing_law
    STATES = ("own_load", "other_load", "charge_drawn", "charge_rest")
    CLOSING_STATES = ("own_load",)
    OUTPUTS = ("supply_voltage", "charge")
    _returns: ClassVar[tuple[str, ...]] = ()
