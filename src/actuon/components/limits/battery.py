# SPDX-License-Identifier: Apache-2.0
r"""A battery that sags under its load and runs down.

.. math::
    U_0 &= U_{full} + (U_{empty} - U_{full})\,Q/C, \qquad 0 \text{ from } Q = C \text{ on} \\
    U &= U_0/(1 + R\,G), \qquad \dot Q = G\,U, \qquad G = \sum_k u_k i_k/U^2

with the charge drawn :math:`Q`, the capacity :math:`C`, and the load :math:`G` that the drives of the motors :math:`k`
were to the battery in the last step: a drive is taken as a converter without losses, which draws :math:`u_k i_k/U` when
its motor has the current :math:`i_k` at the voltage :math:`u_k`. This is :math:`U = U_0 - R\,I`; with the load as a
conductance it settles at any load that the battery can carry. A motor that brakes charges it, up to :math:`Q = 0` and
with no more than :math:`U = U_{full}`, as its management holds it: a brake resistor takes the rest.

Alone, each DOF has a battery of its own. `SharedBattery` lets DOFs hang on one; on robots, all motors of a robot do.
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
"""A supply [V] below this is taken as this where something is divided by it."""
LEAST_DIVISOR = wp.constant(0.5)
"""Motors that brake would raise the voltage to the double at most, if nothing held it."""
LEAST_RESISTANCE = wp.constant(1e-9)
"""A resistance [Ω] below this is taken as this where something is divided by it."""


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
            f"{where}: empty_voltage is above full_voltage{{at}}; a battery falls as it runs down",
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
    """A battery, or any supply with an inner resistance."""

    schema = "ActuonBatteryClampingAPI"


class ClampingBattery(Battery, Clamping):
    """A battery before the electrical limit: offers ``supply_voltage`` [V], which sags, and ``charge`` drawn [C].

    Takes the current and voltage of an electrical limit or servo in the chain.

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
