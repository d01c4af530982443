# SPDX-License-Identifier: Apache-2.0
r"""A servo whose firmware converts the position error into a PWM duty, with its motor.

.. math::
    d &= \mathrm{clamp}(k_p\,e + k_i \int e\,dt + k_d\,\dot e,\; \pm d_{max}), \qquad e = q^* - q \\
    u &= d\,U, \qquad i = (u - k_t\,\dot q)/R, \qquad \tau = k_t\,i

with zero error within the dead band, and an integral that is bounded by the largest duty. Gains are in duty: 1 is 100
%. :math:`k_t` and :math:`R` are those at the output shaft, as in Duclusaud et al., "Extended Friction Models for the
Physics Simulation of Servo Actuators" (2025).
"""

from __future__ import annotations

import math
from typing import Self

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ...errors import ParameterError
from ..kinds import Controller
from ..math import SHORTEST, integrated, limit

COUNTS_PER_RADIAN = 4096 / (2.0 * math.pi)
LEAST_GAIN = wp.constant(1e-9)


class ServoPWM(Parameters):
    kp: Number = param("1/rad", "Duty per position error.", minimum=0.0)
    torque_constant: Number = param("N·m/A", "Effort per current, which is also back-EMF per speed.", minimum=1e-6)
    resistance: Number = param("Ω", "Resistance of the winding.", minimum=1e-6)
    bus_voltage: Number = param("V", "Supply voltage, if the motor has no battery stage.", minimum=0.0)
    ki: Number = param("1/(rad·s)", "Duty per integrated position error.", default=0.0, minimum=0.0)
    kd: Number = param("s/rad", "Duty per change of the position error.", default=0.0, minimum=0.0)
    max_duty: Number = param("1", "Largest duty.", default=1.0, minimum=0.0, maximum=1.0)
    dead_band: Number = param("rad", "Dead band: smaller position errors count as zero.", default=0.0, minimum=0.0)


def _check_register(where: str, value: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ParameterError(
            f"{where}: got {value!r}; must be a whole number ≥ 0 and ≤ {most}, the value of the register"
        )


@wp.func
def servo_pwm_law(
    q: float,
    qd: float,
    target_q: float,
    supply_voltage: float,
    dt: float,
    integral: float,
    last_error: float,
    is_running: float,
    integral_rest: float,
    kp: float,
    torque_constant: float,
    resistance: float,
    bus_voltage: float,
    ki: float,
    kd: float,
    max_duty: float,
    dead_band: float,
):
    error = target_q - q
    error = wp.where(wp.abs(error) > dead_band, error, 0.0)
    most = max_duty / wp.max(ki, LEAST_GAIN)
    accumulated, rest = integrated(integral, error * dt, integral_rest, most)
    change = wp.where(is_running > 0.0, (error - last_error) / wp.max(dt, SHORTEST), 0.0)
    duty = limit(kp * error + ki * accumulated + kd * change, -max_duty, max_duty)
    voltage = duty * wp.where(supply_voltage < 0.0, bus_voltage, supply_voltage)
    current = (voltage - torque_constant * qd) / resistance
    return torque_constant * current, duty, current, voltage, accumulated, error, 1.0, rest


class ServoPWMControlConfig(ServoPWM, Config):
    """Servo: gains of its firmware in SI units, and its motor.

    Examples:
        >>> controller = actuon.ServoPWMControlConfig(
        ...     kp=4.0, torque_constant=1.6, resistance=4.0, bus_voltage=12.0
        ... )
    """

    schema = "ActuonServoPWMControlAPI"

    @classmethod
    def from_dynamixel(
        cls,
        position_p_gain: int,
        position_i_gain: int = 0,
        position_d_gain: int = 0,
        *,
        torque_constant: float,
        resistance: float,
        bus_voltage: float,
        pwm_limit: int = 885,
        period: float = 0.001,
    ) -> Self:
        """Return the config of a Dynamixel X in position mode, from the values in its control table.

        By the e-manual of ROBOTIS (XL430, "Position PID Gain"), the gains are the registers divided by 128, 65 536 and
        16; the error is in counts of 1/4096 turn, and 885 is a duty of 100 %.

        Args:
            position_p_gain: Register 84, 0 to 16 383.
            position_i_gain: Register 82, 0 to 16 383.
            position_d_gain: Register 80, 0 to 16 383.
            torque_constant: Effort per current at the output shaft [N·m/A].
            resistance: Resistance of the winding [Ω].
            bus_voltage: Voltage of the supply [V].
            pwm_limit: Register 36, 0 to 885.
            period: Period of the firmware's loop [s], for its integral and derivative. The manual does not state it.

        Examples:
            >>> motor = {"torque_constant": 1.0, "resistance": 5.0, "bus_voltage": 12.0}
            >>> servo = actuon.ServoPWMControlConfig.from_dynamixel(800, **motor)
            >>> round(servo.kp, 2)  # duty per rad
            4.6
        """
        registers = {
            "position_p_gain": position_p_gain,
            "position_i_gain": position_i_gain,
            "position_d_gain": position_d_gain,
        }
        for name, value in registers.items():
            _check_register(f"from_dynamixel: {name}", value, 16383)
        _check_register("from_dynamixel: pwm_limit", pwm_limit, 885)
        if not 0.0 < period < math.inf:
            raise ParameterError(f"from_dynamixel: period: got {period}; must be finite and > 0 [s]")
        duty = COUNTS_PER_RADIAN / 885.0
        return cls(
            kp=duty * position_p_gain / 128.0,
            ki=duty * position_i_gain / 65536.0 / period,
            kd=duty * position_d_gain / 16.0 * period,
            torque_constant=torque_constant,
            resistance=resistance,
            bus_voltage=bus_voltage,
            max_duty=pwm_limit / 885.0,
        )

    @classmethod
    def from_feetech(
        cls,
        p_coefficient: int,
        *,
        torque_constant: float,
        resistance: float,
        bus_voltage: float,
        dead_zone: int = 0,
    ) -> Self:
        """Return the config of a Feetech STS in position mode, from the values in its memory table.

        Feetech does not document the meaning of its coefficients. Duclusaud et al. (2025) measured a duty of 0.166 per
        radian and unit of the P coefficient of an STS3215, and a largest duty of 0.97. The effect of the I and D
        coefficients is not published; this config is for servos in which they are zero.

        Args:
            p_coefficient: Address 21, 0 to 254.
            torque_constant: Effort per current at the output shaft [N·m/A].
            resistance: Resistance of the winding [Ω].
            bus_voltage: Voltage of the supply [V].
            dead_zone: Addresses 26 and 27, in counts of 1/4096 turn, 0 to 32.

        Examples:
            >>> motor = {"torque_constant": 1.0, "resistance": 2.0, "bus_voltage": 7.4}
            >>> servo = actuon.ServoPWMControlConfig.from_feetech(32, **motor)
            >>> round(servo.kp, 2)  # duty per rad
            5.31
        """
        _check_register("from_feetech: p_coefficient", p_coefficient, 254)
        _check_register("from_feetech: dead_zone", dead_zone, 32)
        return cls(
            kp=0.166 * p_coefficient,
            torque_constant=torque_constant,
            resistance=resistance,
            bus_voltage=bus_voltage,
            max_duty=0.97,
            dead_band=dead_zone / COUNTS_PER_RADIAN,
        )


class ControllerServoPWM(ServoPWM, Controller):
    """Servo with a P, PI or PID loop to a PWM duty. Follows target positions only.

    Offers ``duty``, ``current`` [A] and ``voltage`` [V]. An earlier `ClampingBattery` is its supply.

    Examples:
        >>> controller = actuon.ControllerServoPWM(
        ...     kp=4.0, torque_constant=1.6, resistance=4.0, bus_voltage=12.0
        ... )
    """

    config = ServoPWMControlConfig
    law = servo_pwm_law
    STATES = ("integral", "last_error", "is_running", "integral_rest")
    OUTPUTS = ("duty", "current", "voltage")
    OPTIONAL_SIGNALS = {"supply_voltage": -1.0}  # noqa: RUF012
