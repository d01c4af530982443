# SPDX-License-Identifier: Apache-2.0
r"""Electrical limits of a motor: voltage, back-EMF, current.

.. math::
    R_T &= R\,(1 + \alpha\,(T - 25\,°C)) \\
    i &= \mathrm{clamp}(\tau/k_t,\; (-U - k_t\,\omega)/R_T,\; (U - k_t\,\omega)/R_T) \\
    i &\leftarrow \mathrm{clamp}(i, \pm i_{max}),\qquad u = R_T\,i + k_t\,\omega,\qquad \tau = k_t\,i

The envelope is that of a DC motor with stall effort :math:`k_t U/R`, no-load speed :math:`U/k_t` and largest effort
:math:`k_t i_{max}`. The power balance :math:`u\,i = \tau\,\omega + R_T\,i^2` holds in each step. In SI units the torque
constant is the back-EMF constant. Source: e.g. Hughes and Drury, Electric Motors and Drives, chapter 3.
"""

from __future__ import annotations

import math

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Clamping
from ..math import limit

REFERENCE_TEMPERATURE = wp.constant(25.0)
"""Temperature at which resistances are given [°C]."""
HIGHEST_VOLTAGE = wp.constant(1e12)
"""Largest supply voltage [V], so that quotients by a small resistance, and their gradients, are finite."""
LEAST_RESISTANCE = wp.constant(0.1)
"""Smallest resistance of a cold winding, as a share of that at 25 °C."""


class Voltage(Parameters):
    torque_constant: Number = param("N·m/A", "Effort per current, which is also back-EMF per speed.", minimum=1e-6)
    resistance: Number = param("Ω", "Resistance of the winding between the terminals, at 25 °C.", minimum=1e-6)
    bus_voltage: Number = param(
        "V", "Supply voltage, if the motor has no battery stage.", default=math.inf, minimum=0.0, finite=False
    )
    max_current: Number = param(
        "A", "Largest current that the motor controller allows.", default=math.inf, minimum=0.0, finite=False
    )
    temperature_coefficient: Number = param(
        "1/°C", "Rise of the resistance with the temperature of the winding.", default=0.00393, minimum=0.0
    )


@wp.func
def hot_resistance(resistance: float, temperature: float, temperature_coefficient: float):
    """Return the resistance of a winding at a temperature [Ω]."""
    share = 1.0 + temperature_coefficient * (temperature - REFERENCE_TEMPERATURE)
    return resistance * wp.max(share, LEAST_RESISTANCE)


@wp.func
def voltage_law(
    effort: float,
    qd: float,
    temperature: float,
    supply_voltage: float,
    dt: float,
    energy_drawn: float,
    energy_rest: float,
    torque_constant: float,
    resistance: float,
    bus_voltage: float,
    max_current: float,
    temperature_coefficient: float,
):
    hot = hot_resistance(resistance, temperature, temperature_coefficient)
    supply = wp.min(wp.where(supply_voltage < 0.0, bus_voltage, supply_voltage), HIGHEST_VOLTAGE)
    back_emf = torque_constant * qd
    wanted = limit(effort / torque_constant, (-supply - back_emf) / hot, (supply - back_emf) / hot)
    current = limit(wanted, -max_current, max_current)
    voltage = hot * current + back_emf
    added = voltage * current * dt + energy_rest
    energy = energy_drawn + added
    loss = hot * current * current
    return torque_constant * current, current, voltage, energy, loss, energy, added - (energy - energy_drawn)


class VoltageClampingConfig(Voltage, Config):
    """Electrical limits of a motor.

    Examples:
        >>> limit = actuon.VoltageClampingConfig(
        ...     torque_constant=0.1, resistance=0.17, bus_voltage=24.0, max_current=30.0
        ... )
    """

    schema = "ActuonVoltageClampingAPI"


class ClampingVoltage(Voltage, Clamping):
    """Limits of supply voltage, back-EMF and current.

    Offers ``current`` [A], terminal ``voltage`` [V], ``copper_loss`` [W] and the electrical ``energy`` drawn since the
    last reset [J]. The resistance follows the temperature of an earlier `ClampingHeat`, the supply voltage that of an
    earlier `ClampingBattery`.

    Examples:
        >>> limit = actuon.ClampingVoltage(
        ...     torque_constant=0.1, resistance=0.17, bus_voltage=24.0, max_current=30.0
        ... )
    """

    config = VoltageClampingConfig
    law = voltage_law
    STATES = ("energy_drawn", "energy_rest")
    OUTPUTS = ("current", "voltage", "energy", "copper_loss")
    OPTIONAL_SIGNALS = {"temperature": 25.0, "supply_voltage": -1.0}  # noqa: RUF012
