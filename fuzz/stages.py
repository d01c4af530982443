# SPDX-License-Identifier: Apache-2.0
"""Every stage once more in NumPy, in float64: what it does to the signals, and how large the terms are that it adds.

A law gets the signals of all DOFs by name and changes them, its values, its memory and the time step. A size does the
same with the sizes of the signals' terms: rounding errors are a share of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support import oracle

Law = Callable[[dict, dict, dict, float], None]


@dataclass(frozen=True)
class Stage:
    """Equation and declared properties of a component, stated independently of it.

    Args:
        law: Its equation.
        size: The sizes of its terms.
        parameters: Names of its parameters; alternatives where some may be left out.
        memory: What it remembers, and what that is after a reset: zero, or a parameter.
    """

    law: Law
    size: Law
    parameters: tuple[tuple[str, ...], ...]
    memory: tuple[tuple[str, str], ...] = ()


def finite(*terms: Any) -> list[np.ndarray]:
    """The terms, 0 where they are infinite or NaN: 32 bits are as exact there as 64."""
    return [np.nan_to_num(term, nan=0.0, posinf=0.0, neginf=0.0) for term in terms]


def _pd(s, v, m, dt):
    command = (s["target_q"], s["target_qd"], s["feedforward"])
    s["effort"] = oracle.pd(s["seen_q"], s["seen_qd"], *command, v["kp"], v["kd"], v.get("const_effort", 0.0))


def _pd_size(s, v, m, dt):
    const = np.abs(v.get("const_effort", 0.0))
    s["effort"] = sum(finite(s["feedforward"], v["kp"] * s["error"], v["kd"] * s["rate"], const))


def _pid(s, v, m, dt):
    _pd(s, v, m, dt)
    bound = v["integral_max"]
    m["integral"] = np.clip(m["integral"] + (s["target_q"] - s["seen_q"]) * dt, -bound, bound)
    s["effort"] = s["effort"] + v["ki"] * m["integral"]


def _pid_size(s, v, m, dt):
    _pd_size(s, v, m, dt)
    (bound,) = finite(v["integral_max"])
    step = s["error"] * dt
    m["integral"] = np.where(np.isinf(step), bound, m["integral"] + step)
    s["effort"] = s["effort"] + finite(v["ki"] * m["integral"])[0]


def _filtered(s, v, m, dt):
    share = dt / (v["time_constant"] + dt)
    m["error"] = m["error"] + (s["target_q"] - s["seen_q"] - m["error"]) * share
    m["rate"] = m["rate"] + (s["target_qd"] - s["seen_qd"] - m["rate"]) * share
    s["effort"] = s["feedforward"] + v["kp"] * m["error"] + v["kd"] * m["rate"]


def _low_pass_size(m, name, now, share):
    """Each step rounds what it takes a share of, and forgets as much of the errors before."""
    (now,) = finite(now)
    rounded = m[name] + (now + m[name]) * share
    m[name] = m[name] * (1.0 - share) + now * share
    m[f"{name} rounded"] = m[f"{name} rounded"] * (1.0 - share) + rounded
    return m[f"{name} rounded"]


def _filtered_size(s, v, m, dt):
    share = dt / (v["time_constant"] + dt)
    error = _low_pass_size(m, "error", s["error"], share)
    rate = _low_pass_size(m, "rate", s["rate"], share)
    s["effort"] = sum(finite(s["feedforward"], v["kp"] * error, v["kd"] * rate))


def _limit(law: Callable[..., np.ndarray]) -> Law:
    def apply(s, v, m, dt):
        s["effort"] = law(s["effort"], s["q"], s["qd"], **v)

    return apply


def _soft_limit(effort, q, qd, max_effort):
    return max_effort * np.tanh(effort / max_effort)


def _repeated(effort, q, qd, count, gain):
    return effort * count * gain


def _stop(effort, q, qd, slope, reach, drag):
    largest = np.maximum(slope * (reach - np.abs(q)) - drag * np.abs(qd), 0.0)
    return np.clip(effort, -largest, largest)


def _same_size(s, v, m, dt):
    pass


def _dc_motor_size(s, v, m, dt):
    speed = s["qd"] / v["velocity_limit"]
    usual = (speed < 1e12) & (v["velocity_limit"] > 1e-12)
    line = np.where(usual, v["saturation_effort"] * (1.0 + speed), 1e38)
    s["effort"] = s["effort"] + np.where(np.isinf(v["velocity_limit"]), 0.0, line)


def _table_size(s, v, m, dt):
    """Behind a gear the position is not exact, and the steepest slope times its error adds to that of the limit."""
    s["effort"] = s["effort"] + 4.0 * np.max(v["lookup_efforts"])
    if "closing" in s:
        slopes = np.abs(np.diff(v["lookup_efforts"])) / np.diff(v["lookup_positions"])
        s["effort"] = s["effort"] + s["q"] * np.max(slopes, initial=0.0)


def _repeated_size(s, v, m, dt):
    s["effort"] = s["effort"] * (1.0 + np.abs(v["count"] * v["gain"]))


def _stop_size(s, v, m, dt):
    s["effort"] = s["effort"] + v["slope"] * (v["reach"] + s["q"]) + v["drag"] * s["qd"]


def _late_sensor(s, v, m, dt):
    m["seen"] = m["seen"] + v["share"] * (s["seen_qd"] - m["seen"])
    s["seen_q"], s["seen_qd"] = s["seen_q"] + v["bias"], m["seen"]


def _late_sensor_size(s, v, m, dt):
    s["seen_q"] = s["seen_q rounded"] = s["seen_q"] + np.abs(v["bias"])
    s["seen_qd"] = s["seen_qd rounded"] = _low_pass_size(m, "seen", s["seen_qd"], v["share"])


def _gear(s, v, m, dt):
    s["q"], s["qd"], s["effort"] = s["q"] * v["ratio"], s["qd"] * v["ratio"], s["effort"] / v["ratio"]
    s["motor_speed"] = s["qd"]
    s["closing"] = v["ratio"] * v["efficiency"]


def _lag(s, v, m, dt):
    m["held"] = m["held"] + v["share"] * (s["effort"] - m["held"])
    s["effort"] = m["held"]


def _lag_size(s, v, m, dt):
    s["effort"] = _low_pass_size(m, "held", s["effort"], v["share"])


def _drag(signal: str, sign: float) -> Law:
    def apply(s, v, m, dt):
        s["effort"] = s["effort"] + sign * v["drag"] * s[signal]

    return apply


STAGES = {
    "ControllerPD": Stage(_pd, _pd_size, (("kp", "kd"), ("kp", "kd", "const_effort"))),
    "ControllerPID": Stage(
        _pid,
        _pid_size,
        (("kp", "ki", "kd", "integral_max"), ("kp", "ki", "kd", "integral_max", "const_effort")),
        (("integral", ""),),
    ),
    "ControllerFiltered": Stage(
        _filtered, _filtered_size, (("kp", "kd", "time_constant"),), (("error", ""), ("rate", ""))
    ),
    "ClampingMaxEffort": Stage(_limit(oracle.max_effort), _same_size, (("max_effort",),)),
    "ClampingDCMotor": Stage(
        _limit(oracle.dc_motor), _dc_motor_size, (("saturation_effort", "velocity_limit", "max_motor_effort"),)
    ),
    "ClampingPositionBased": Stage(
        _limit(oracle.position_based), _table_size, (("lookup_positions", "lookup_efforts"),)
    ),
    "ClampingSoftLimit": Stage(_limit(_soft_limit), _same_size, (("max_effort",),)),
    "ClampingRepeated": Stage(_limit(_repeated), _repeated_size, (("count", "gain"),)),
    "ClampingStop": Stage(_limit(_stop), _stop_size, (("slope", "reach", "drag"),)),
    "SensorLate": Stage(_late_sensor, _late_sensor_size, (("bias", "share"),), (("seen", ""),)),
    "TransmissionGear": Stage(_gear, _gear, (("ratio", "efficiency"),)),
    "EffectLag": Stage(_lag, _lag_size, (("share", "start"),), (("held", "start"),)),
    "EffectMotorDrag": Stage(_drag("motor_speed", -1.0), _drag("motor_speed", 1.0), (("drag",),)),
    "EffectDrag": Stage(_drag("qd", -1.0), _drag("qd", 1.0), (("drag",),)),
}
