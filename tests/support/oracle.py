# SPDX-License-Identifier: Apache-2.0
"""An independent reference: each equation in NumPy float64, written from its definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np


def pd(q, qd, target_q, target_qd, feedforward, kp, kd, const_effort=0.0):
    return const_effort + feedforward + kp * (target_q - q) + kd * (target_qd - qd)


def max_effort(effort, q, qd, max_effort):
    return np.clip(effort, -max_effort, max_effort)


def dc_motor(effort, q, qd, saturation_effort, velocity_limit, max_motor_effort):
    """The definition with its corner velocity; infinities taken as limits, no-load speeds as at least 1e-12 rad/s."""
    stall, no_load, most = saturation_effort, np.maximum(velocity_limit, 1e-12), max_motor_effort
    with np.errstate(all="ignore"):
        corner = no_load * (1.0 + most / stall)
        v = np.clip(qd, -corner, corner)
        high, low = np.minimum(stall * (1.0 - v / no_load), most), np.maximum(stall * (-1.0 - v / no_load), -most)
    flat = np.minimum(stall, most)
    high = np.where(np.isinf(no_load), flat, np.where(stall == 0.0, 0.0, high))
    low = np.where(np.isinf(no_load), -flat, np.where(stall == 0.0, 0.0, low))
    return np.minimum(np.maximum(effort, low), high)


def position_based(effort, q, qd, lookup_positions, lookup_efforts):
    largest = np.interp(q, lookup_positions, lookup_efforts)
    return np.clip(effort, -largest, largest)


def torque_speed(effort, q, qd, speeds, efforts):
    """Corners with rising speed are one side, those with falling speed the other; each is interpolated by itself."""
    speeds, efforts = np.asarray(speeds, float), np.asarray(efforts, float)
    first, last = np.argmin(speeds), np.argmax(speeds)
    n = len(speeds)
    sides = [[(i % n) for i in range(a, b + n * (b < a) + 1)] for a, b in ((first, last), (last, first))]
    rising, falling = ((speeds[side], efforts[side]) for side in (sides[0], sides[1][::-1]))
    bounds = np.array([np.interp(qd, *rising), np.interp(qd, *falling)])
    return np.clip(effort, bounds.min(axis=0), bounds.max(axis=0))


def friction_budget(
    effort, load, qd, *, dynamic, static=None, stribeck_velocity=0.0, stribeck_exponent=2.0, load_motor=0.0,
    load_external=0.0, load_motor_stribeck=0.0, load_external_stribeck=0.0, load_motor_quadratic=0.0,
    load_external_quadratic=0.0,
):  # fmt: skip
    """The most that dry friction can hold: models M1 to M6 of Duclusaud et al. (2025)."""
    more = 0.0 if static is None else static - dynamic
    more = more + np.abs(load_external_stribeck * load - load_motor_stribeck * effort)
    weaker = np.where(np.abs(load) < np.abs(effort), load_external_quadratic * load**2, 0.0)
    stronger = np.where(np.abs(load) > np.abs(effort), load_motor_quadratic * effort**2, 0.0)
    more = more + np.where(load * effort < 0.0, weaker + stronger, 0.0)
    fall = np.exp(-(np.abs(qd / np.maximum(stribeck_velocity, 1e-9)) ** stribeck_exponent))
    return dynamic + np.abs(load_external * load - load_motor * effort) + fall * more


def friction(effort, load, qd, dt, *, inertia, viscous, **values):
    """The effort that is left, by the velocity after an implicit step: at rest, or sliding against the budget."""
    budget = friction_budget(effort, load, qd, **values)
    push = effort + load + inertia * qd / dt
    sliding = np.sign(push) * np.maximum(np.abs(push) - budget, 0.0)
    after = sliding / (inertia / dt + viscous)
    return inertia * (after - qd) / dt - load


CLAMPS = {
    "ClampingMaxEffort": max_effort,
    "ClampingDCMotor": dc_motor,
    "ClampingPositionBased": position_based,
    "ClampingTorqueSpeed": torque_speed,
}


@dataclass
class Oracle:
    """A chain that keeps every command it has seen."""

    laws: ClassVar = CLAMPS
    n: int
    controller: str
    gains: dict[str, Any]
    clamps: list[tuple[str, dict[str, Any]]]
    lags: np.ndarray | None = None
    depth: int = 0
    past: list[list[tuple[float, float, float]]] = field(init=False)
    integral: np.ndarray = field(init=False)

    def __post_init__(self):
        self.reset(np.ones(self.n, bool), first=True)

    def reset(self, mask, first=False):
        if first:
            self.past = [[] for _ in range(self.n)]
            self.integral = np.zeros(self.n)
        for i in np.flatnonzero(mask):
            self.past[i].clear()
            self.integral[i] = 0.0

    def step(self, q, qd, target_q, target_qd, feedforward, dt):
        """Return effort before clamping and after, each of shape (N,)."""
        q, qd, target_q, target_qd, feedforward = (
            np.asarray(x, np.float64) for x in (q, qd, target_q, target_qd, feedforward)
        )
        computed = effort = self.control(q, qd, *self.late(target_q, target_qd, feedforward), dt)
        for name, values in self.clamps:
            effort = self.laws[name](effort, q, qd, **values)
        return computed, effort

    def late(self, *command):
        """Return the delayed target positions, target velocities and feedforward, each of shape (N,)."""
        late = np.stack(command)
        if self.lags is not None:
            for i in range(self.n):
                kept = self.past[i][-self.depth :]
                lag = min(int(self.lags[i]), len(kept))
                if lag:
                    late[:, i] = kept[-lag]
                self.past[i].append(tuple(part[i] for part in command))
        return late

    def control(self, q, qd, target_q, target_qd, feedforward, dt):
        """The controller's effort, shape (N,)."""
        gains = self.gains
        effort = pd(q, qd, target_q, target_qd, feedforward, gains["kp"], gains["kd"], gains.get("const_effort", 0.0))
        if self.controller == "ControllerPID":
            bound = gains["integral_max"]
            self.integral = np.clip(self.integral + (target_q - q) * dt, -bound, bound)
            effort = effort + gains["ki"] * self.integral
        return effort


def gear(motor_velocity, motor_effort, efficiency, backdrive_efficiency, smoothing_velocity):
    """Share of the ideal effort that a gear gives the joint: friction by the load, in full from a speed on."""
    driving = np.sign(motor_velocity) * np.sign(motor_effort) > 0
    friction = np.where(driving, 1.0 - efficiency, 1.0 / backdrive_efficiency - 1.0)
    friction = friction * np.clip(np.abs(motor_velocity) / smoothing_velocity, 0.0, 1.0)
    return np.where(driving, 1.0 - friction, 1.0 + friction)


def gear_friction(effort, load, efficiency, backdrive_efficiency):
    """Friction of a gear against a motion, for the motor's effort and the load along it, both at the joint."""
    driving = (1.0 - efficiency) * effort
    by_effort = np.where(backdrive_efficiency < 0.5, 1.0, 1.0 / np.maximum(backdrive_efficiency, 0.5) - 1.0)
    driven = np.maximum(1.0 - 2.0 * backdrive_efficiency, 0.0) * load - by_effort * effort
    return np.maximum(np.maximum(driving, driven), 0.0)


def braked_gear(effort, load, qd, inertia, dt, efficiency, backdrive_efficiency):
    """Effort at the joint in a step in which friction of the gear stops the inertia, but never moves it."""
    beside = load + inertia * qd / dt
    least = effort - gear_friction(effort, load, efficiency, backdrive_efficiency)
    most = effort + gear_friction(-effort, -load, efficiency, backdrive_efficiency)
    return np.clip(-beside, least, most)


def linkage(q, joint_positions, motor_positions):
    """Motor position and its derivative: a cubic between entries, with harmonic means of the slopes at them."""
    width, slope = np.diff(joint_positions), np.diff(motor_positions) / np.diff(joint_positions)
    inner = 2.0 / (1.0 / slope[1:] + 1.0 / slope[:-1])
    ends = np.concatenate([slope[:1], inner, slope[-1:]])
    motor, ratio = np.empty_like(q), np.empty_like(q)
    for i, x in enumerate(q):
        if x <= joint_positions[0] or x >= joint_positions[-1]:
            at = 0 if x <= joint_positions[0] else -1
            motor[i], ratio[i] = motor_positions[at] + ends[at] * (x - joint_positions[at]), ends[at]
            continue
        k = np.searchsorted(joint_positions, x) - 1
        h = width[k]
        rows = [[1, 0, 0, 0], [1, h, h**2, h**3], [0, 1, 0, 0], [0, 1, 2 * h, 3 * h**2]]
        c = np.linalg.solve(rows, [motor_positions[k], motor_positions[k + 1], ends[k], ends[k + 1]])
        d = x - joint_positions[k]
        motor[i], ratio[i] = c @ [1, d, d**2, d**3], c @ [0, 1, 2 * d, 3 * d**2]
    return motor, ratio
