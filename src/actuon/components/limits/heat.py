# SPDX-License-Identifier: Apache-2.0
r"""Temperatures of a motor's winding and housing; derating and trip.

.. math::
    \tau_w \dot T_w &= R_{wh} P - (T_w - T_h) \\
    \tau_h \dot T_h &= (R_{ha}/R_{wh})\,(T_w - T_h) - (T_h - T_a)

with the copper loss :math:`P`, the thermal resistances winding to housing :math:`R_{wh}` and housing to ambient
:math:`R_{ha}`, and the two time constants of data sheets, :math:`\tau_w = R_{wh} C_w` and :math:`\tau_h = R_{ha} C_h`.
For a loss that is constant over a step, the law is the exact solution: :math:`\Delta T = A^{-1}(e^{A\,\Delta t} -
1)\,g` with the rates of change :math:`g` at its start, from the two eigenvalues of :math:`A`, which are real and
negative.

The loss is that of an electrical limit of the motor; without one, :math:`(\tau/k_m)^2\,(1 + \alpha\,(T_w - 25\,°C))`
with the motor constant :math:`k_m = k_t/\sqrt{R}`. Source: thermal model of maxon's catalogue ("Key information",
2024).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, ParameterValue, param
from ...errors import refuse_where
from ..kinds import Clamping
from ..math import exponential_less_one, limit
from .voltage import hot_resistance

NARROWEST = wp.constant(1e-6)
"""Smallest width of the derating range [°C]."""


class Heat(Parameters):
    winding_thermal_resistance: Number = param("K/W", "From winding to housing.", above=0.0)
    housing_thermal_resistance: Number = param("K/W", "From housing to ambient.", above=0.0)
    winding_time_constant: Number = param("s", "Thermal time constant of the winding.", above=0.0)
    housing_time_constant: Number = param("s", "Thermal time constant of the housing, or motor.", above=0.0)
    motor_constant: Number = param(
        "N·m/√W", "Effort per root of the copper loss at 25 °C, for motors without an electrical limit.", above=0.0
    )
    max_effort: Number = param("N·m", "Largest effort below derating_start.", minimum=0.0)
    derated_effort: Number = param("N·m", "Largest effort above derating_end.", default=0.0, minimum=0.0)
    derating_start: Number = param("°C", "Winding temperature at which derating starts.", default=100.0)
    derating_end: Number = param("°C", "Winding temperature at which derating ends.", default=120.0)
    trip_temperature: Number = param(
        "°C", "Winding temperature at which the motor controller switches off until a reset.", default=math.inf,
        finite=False,
    )  # fmt: skip
    ambient: Number = param("°C", "Ambient temperature, and that of the motor after a reset.", default=25.0)
    temperature_coefficient: Number = param(
        "1/°C", "Rise of the resistance with the temperature of the winding.", default=0.00393, minimum=0.0
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        order = ("ambient", "derating_start", "derating_end", "trip_temperature")
        for low, high in itertools.pairwise(order):
            _check_order(where, values, low, high)
        _check_order(where, values, "derated_effort", "max_effort")


def _check_order(where: str, values: Mapping[str, ParameterValue], low: str, high: str) -> None:
    lows, highs = np.asarray(values[low], np.float32), np.asarray(values[high], np.float32)
    message = f"{where}: {low} is {{low:g}} and {high} {{high:g}}{{at}}; {low} must be at most {high}"
    refuse_where(lows > highs, message, low=lows, high=highs)


@wp.func
def heat_law(
    effort: float,
    winding: float,
    housing: float,
    trip: float,
    max_effort: float,
    derated_effort: float,
    derating_start: float,
    derating_end: float,
    trip_temperature: float,
):
    tripped = wp.where(winding > trip_temperature, 1.0, trip)
    share = limit((winding - derating_start) / wp.max(derating_end - derating_start, NARROWEST), 0.0, 1.0)
    allowed = (max_effort + (derated_effort - max_effort) * share) * (1.0 - tripped)
    return limit(effort, -allowed, allowed), winding, housing, tripped, tripped


@wp.func
def heat_closing_law(
    effort: float,
    copper_loss: float,
    dt: float,
    winding: float,
    housing: float,
    winding_rest: float,
    housing_rest: float,
    winding_thermal_resistance: float,
    housing_thermal_resistance: float,
    winding_time_constant: float,
    housing_time_constant: float,
    motor_constant: float,
    ambient: float,
    temperature_coefficient: float,
):
    root = effort / motor_constant
    own_loss = hot_resistance(root * root, winding, temperature_coefficient)
    loss = wp.where(copper_loss < 0.0, own_loss, copper_loss)
    a = 1.0 / winding_time_constant
    c = 1.0 / housing_time_constant
    b = c * housing_thermal_resistance / winding_thermal_resistance
    winding_rate = a * (winding_thermal_resistance * loss - (winding - housing))
    housing_rate = b * (winding - housing) - c * (housing - ambient)
    mean = 0.5 * (a + b + c)
    distance = wp.sqrt(0.25 * (a - b - c) * (a - b - c) + a * b)
    fast = -(mean + distance)
    slow = -a * c / (mean + distance)
    of_slow = exponential_less_one(slow * dt) / slow
    of_fast = exponential_less_one(fast * dt) / fast
    p = 0.5 * (of_slow - of_fast) / distance
    q = 0.5 * (slow * of_fast - fast * of_slow) / distance
    winding_added = (q - a * p) * winding_rate + a * p * housing_rate + winding_rest
    housing_added = b * p * winding_rate + (q - (b + c) * p) * housing_rate + housing_rest
    warmer_winding = winding + winding_added
    warmer_housing = housing + housing_added
    return (
        effort,
        warmer_winding,
        warmer_housing,
        winding_added - (warmer_winding - winding),
        housing_added - (warmer_housing - housing),
    )


class HeatClampingConfig(Heat, Config):
    """Thermal parameters of a motor, and derating by its motor controller.

    Examples:
        >>> limit = actuon.HeatClampingConfig(
        ...     winding_thermal_resistance=1.2,
        ...     housing_thermal_resistance=3.0,
        ...     winding_time_constant=8.0,
        ...     housing_time_constant=900.0,
        ...     motor_constant=0.24,
        ...     max_effort=2.0,
        ... )
    """

    schema = "ActuonHeatClampingAPI"


class ClampingHeat(Heat, Clamping):
    """Temperatures of winding and housing, derating of the effort between two temperatures, and a trip at a third.

    Must be before an electrical limit, whose resistance follows its ``temperature`` [°C] and whose copper loss it uses.
    Also offers ``housing_temperature`` [°C] and ``tripped`` (1 from the trip to the next reset).

    Examples:
        >>> limit = actuon.ClampingHeat(
        ...     winding_thermal_resistance=1.2,
        ...     housing_thermal_resistance=3.0,
        ...     winding_time_constant=8.0,
        ...     housing_time_constant=900.0,
        ...     motor_constant=0.24,
        ...     max_effort=2.0,
        ... )
    """

    config = HeatClampingConfig
    law = heat_law
    closing_law = heat_closing_law
    STATES = {  # noqa: RUF012
        "winding": "ambient",
        "housing": "ambient",
        "winding_rest": 0.0,
        "housing_rest": 0.0,
        "trip": 0.0,
    }
    CLOSING_STATES = ("winding", "housing", "winding_rest", "housing_rest")
    OUTPUTS = ("temperature", "housing_temperature", "tripped")
    OPTIONAL_SIGNALS = {"copper_loss": -1.0}  # noqa: RUF012
