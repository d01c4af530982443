# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012  (nothing changes the ranges)
"""Stages of motors in NumPy float64, each written from its equation. States are attributes, starting anew per run.

A class has the name of the component that it is the oracle of, and the ranges that its parameters are drawn from. What
is here is tested on every path, through tapes, as derivatives, in robot files, in the fuzzers and by the golden chains.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

BEFORE_THE_CONTROLLER = ("Sensor", "Delay")


def exponential(matrices):
    """Exponential of matrices of shape (N, K, K), by a series of a small part of them, squared again and again."""
    size = np.abs(matrices).sum(axis=(1, 2)).max()
    halvings = max(0, int(np.ceil(np.log2(max(size, 1e-30)))) + 4)
    small = matrices / 2.0**halvings
    result = term = np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape)
    for order in range(1, 19):
        term = term @ small / order
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return result


def linear_step(matrix, constant, state, dt):
    """State after ``dt`` of x' = A x + b, and its mean: shapes (N, K, K), (N, K), (N, K)."""
    n, k = state.shape
    wide = np.zeros((n, 2 * k + 1, 2 * k + 1))
    wide[:, :k, :k], wide[:, :k, 2 * k] = matrix, constant
    wide[:, k : 2 * k, :k] = np.eye(k)
    start = np.concatenate([state, np.zeros((n, k)), np.ones((n, 1))], axis=1)
    end = (exponential(wide * dt) @ start[:, :, None])[:, :, 0]
    return end[:, :k], end[:, k : 2 * k] / dt


class Stage:
    ranges: ClassVar[dict[str, tuple[float, float]]] = {}
    """Smallest and largest value of each parameter that tests draw: values of an ordinary motor."""

    def __init__(self, n, **values):
        self.n = n
        self.v = values
        self.reset(np.ones(n, bool))

    def reset(self, mask):
        for name, first in self.first().items():
            value = np.broadcast_to(np.asarray(first, np.float64), self.n)
            setattr(self, name, np.where(mask, value, getattr(self, name, value)))

    def first(self):
        return {}

    def law(self, s, dt):
        """Change the signals."""

    def closing(self, s, dt):
        """Change the signals, after the last stage."""


class ControllerPD(Stage):
    ranges = {"kp": (10, 60), "kd": (0, 0.2)}

    def law(self, s, dt):
        s["effort"] = s["feedforward"] + self.v["kp"] * (s["target_q"] - s["seen_q"])
        s["effort"] = s["effort"] + self.v["kd"] * (s["target_qd"] - s["seen_qd"])


class ControllerServoPWM(Stage):
    ranges = {
        "kp": (0.1, 2.0),
        "torque_constant": (0.5, 2.0),
        "resistance": (1.0, 4.0),
        "bus_voltage": (6.0, 14.0),
        "ki": (0.1, 5.0),
        "kd": (0.0, 0.01),
        "max_duty": (0.5, 1.0),
        "dead_band": (0.0, 0.1),
    }

    def first(self):
        return {"integral": 0.0, "last": np.nan}

    def law(self, s, dt):
        v = self.v
        error = s["target_q"] - s["seen_q"]
        error = np.where(np.abs(error) <= v["dead_band"], 0.0, error)
        self.integral = np.clip(self.integral + error * dt, -v["max_duty"] / v["ki"], v["max_duty"] / v["ki"])
        change = np.where(np.isnan(self.last), 0.0, (error - self.last) / dt)
        self.last = error
        duty = np.clip(v["kp"] * error + v["ki"] * self.integral + v["kd"] * change, -v["max_duty"], v["max_duty"])
        s["voltage"] = duty * s.get("supply_voltage", v["bus_voltage"])
        s["current"] = (s["voltage"] - v["torque_constant"] * s["seen_qd"]) / v["resistance"]
        s["effort"] = v["torque_constant"] * s["current"]


class ClampingVoltage(Stage):
    ranges = {
        "torque_constant": (0.5, 1.5),
        "resistance": (0.2, 1.0),
        "bus_voltage": (20.0, 30.0),
        "max_current": (10.0, 50.0),
        "temperature_coefficient": (0.0, 0.005),
    }

    def first(self):
        return {"energy": 0.0}

    def law(self, s, dt):
        v = self.v
        hot = v["resistance"] * (1 + v["temperature_coefficient"] * (s.get("temperature", 25.0) - 25.0))
        supply = s.get("supply_voltage", v["bus_voltage"])
        stall, no_load = v["torque_constant"] * supply / hot, supply / v["torque_constant"]
        most = v["torque_constant"] * v["max_current"]
        effort = np.clip(s["effort"], stall * (-1 - s["qd"] / no_load), stall * (1 - s["qd"] / no_load))
        s["effort"] = np.clip(effort, -most, most)
        s["current"] = s["effort"] / v["torque_constant"]
        s["copper_loss"] = hot * s["current"] ** 2
        s["voltage"] = hot * s["current"] + v["torque_constant"] * s["qd"]
        self.energy = self.energy + s["voltage"] * s["current"] * dt
        s["energy"] = self.energy


class ClampingHeat(Stage):
    ranges = {
        "winding_thermal_resistance": (1.0, 4.0),
        "housing_thermal_resistance": (2.0, 8.0),
        "winding_time_constant": (0.5, 3.0),
        "housing_time_constant": (1.0, 9.0),
        "motor_constant": (0.5, 1.5),
        "max_effort": (40.0, 80.0),
        "derated_effort": (1.0, 4.0),
        "derating_start": (30.0, 50.0),
        "derating_end": (120.0, 150.0),
        "trip_temperature": (160.0, 400.0),
        "ambient": (10.0, 30.0),
        "temperature_coefficient": (0.0, 0.005),
    }

    def first(self):
        return {"winding": self.v.get("ambient_start", self.v["ambient"]),
                "housing": self.v.get("ambient_start", self.v["ambient"]), "trip": 0.0}  # fmt: skip

    def law(self, s, dt):
        v = self.v
        self.trip = np.where(self.winding > v["trip_temperature"], 1.0, self.trip)
        share = np.clip((self.winding - v["derating_start"]) / (v["derating_end"] - v["derating_start"]), 0, 1)
        most = ((1 - share) * v["max_effort"] + share * v["derated_effort"]) * (self.trip == 0)
        s["effort"] = np.clip(s["effort"], -most, most)
        s["temperature"], s["housing_temperature"], s["tripped"] = self.winding, self.housing, self.trip

    def closing(self, s, dt):
        v = self.v
        own = (s["effort"] / v["motor_constant"]) ** 2
        own = own * (1 + v["temperature_coefficient"] * (self.winding - 25.0))
        loss = s.get("copper_loss", own)
        inside, outside = v["winding_thermal_resistance"], v["housing_thermal_resistance"]
        heat_winding, heat_housing = v["winding_time_constant"] / inside, v["housing_time_constant"] / outside
        zero = np.zeros(self.n)
        matrix = np.array(
            [
                [-1 / (heat_winding * inside) + zero, 1 / (heat_winding * inside) + zero],
                [1 / (heat_housing * inside) + zero, -(1 / inside + 1 / outside) / heat_housing + zero],
            ]
        ).transpose(2, 0, 1)
        constant = np.stack([loss / heat_winding, v["ambient"] / (heat_housing * outside) + zero], axis=1)
        after, _ = linear_step(matrix, constant, np.stack([self.winding, self.housing], axis=1), dt)
        self.winding, self.housing = after.T


class ClampingBattery(Stage):
    """One battery for all DOFs where ``shared``."""

    ranges = {
        "full_voltage": (20.0, 30.0),
        "inner_resistance": (0.01, 0.2),
        "capacity": (5.0, 40.0),
        "empty_voltage": (5.0, 18.0),
    }

    shared = False

    def first(self):
        return {"load": 0.0, "charge": 0.0}

    def law(self, s, dt):
        v = self.v
        unloaded = v["full_voltage"] - (v["full_voltage"] - v["empty_voltage"]) * self.charge / v["capacity"]
        unloaded = np.where(self.charge >= v["capacity"], 0.0, unloaded)
        voltage = unloaded / (1 + v["inner_resistance"] * self.load)
        current = self.load * voltage
        held = voltage > v["full_voltage"]  # by a brake resistor; the battery takes what this voltage drives into it
        resistance = np.maximum(v["inner_resistance"], 1e-300)
        current = np.where(held, (unloaded - v["full_voltage"]) / resistance, current)
        s["supply_voltage"] = np.where(held, v["full_voltage"], voltage)
        self.charge = np.maximum(self.charge + current * dt, 0.0)
        s["charge"] = self.charge

    def closing(self, s, dt):
        load = s["current"] * s["voltage"] / s["supply_voltage"] ** 2
        self.load = np.full(self.n, load.sum()) if self.shared else load


class EffectCurrentLoop(Stage):
    """Time by time: at the slope until the lag is slower, then the lag."""

    ranges = {"time_constant": (0.001, 0.02), "max_slope": (200.0, 2000.0)}

    def first(self):
        return {"reached": 0.0}

    def law(self, s, dt):
        result = np.empty(self.n)
        for i in range(self.n):
            lag, slope = (np.broadcast_to(self.v[name], self.n)[i] for name in ("time_constant", "max_slope"))
            error, left = s["effort"][i] - self.reached[i], dt
            if abs(error) > slope * lag:
                spent = min(left, abs(error) / slope - lag)
                error, left = error - np.sign(error) * slope * spent, left - spent
            result[i] = s["effort"][i] - error * np.exp(-left / lag)
        s["effort"] = self.reached = result


class EffectRipple(Stage):
    ranges = {
        "cogging": (0.0, 1.0),
        "cogging_periods": (2.0, 8.0),
        "ripple": (0.0, 0.2),
        "ripple_periods": (2.0, 8.0),
        "phase": (-3.0, 3.0),
    }

    def law(self, s, dt):
        v = self.v
        s["effort"] = s["effort"] * (1 + v["ripple"] * np.sin(v["ripple_periods"] * s["q"] + v["phase"]))
        s["effort"] = s["effort"] + v["cogging"] * np.sin(v["cogging_periods"] * s["q"] + v["phase"])


class SensorEncoder(Stage):
    ranges = {"resolution": (0.001, 0.005), "bias": (-0.1, 0.1)}

    def law(self, s, dt):
        q, step = s["seen_q"] + self.v["bias"], self.v["resolution"]
        s["seen_q"] = np.where(step > 0, step * np.round(q / np.where(step > 0, step, 1.0)), q)


class SensorDifferentiated(Stage):
    ranges = {"time_constant": (0.01, 0.05)}

    def first(self):
        return {"last": np.nan, "shown": 0.0}

    def law(self, s, dt):
        difference = np.where(np.isnan(self.last), 0.0, (s["seen_q"] - self.last) / dt)
        weight = 1 - np.exp(-dt / self.v["time_constant"])
        self.last, self.shown = s["seen_q"], self.shown + weight * (difference - self.shown)
        s["seen_qd"] = self.shown


class SensorLowPass(Stage):
    ranges = {"time_constant": (0.005, 0.05)}

    def first(self):
        return {"shown": np.nan}

    def law(self, s, dt):
        before = np.where(np.isnan(self.shown), s["seen_qd"], self.shown)
        self.shown = before + (1 - np.exp(-dt / self.v["time_constant"])) * (s["seen_qd"] - before)
        s["seen_qd"] = self.shown


class DelayLowPass(Stage):
    ranges = {"time_constant": (0.005, 0.05)}

    def first(self):
        return dict.fromkeys(("target_q", "target_qd", "feedforward"), np.nan)

    def law(self, s, dt):
        share = 1 - np.exp(-dt / np.maximum(self.v["time_constant"], 1e-300))
        for name in self.first():
            command, shown = s[name], getattr(self, name)
            shown = np.where(np.isnan(shown) | (self.v["time_constant"] == 0.0), command, shown)
            setattr(self, name, shown + share * (command - shown))
            s[name] = shown


class Between(Stage):
    """A motor with an inertia of its own between the joint and the stages after."""

    def first(self):
        return {"position": np.nan, "speed": np.nan}

    def law(self, s, dt):
        self.q, self.qd = s["q"], s["qd"]
        self.position = np.where(np.isnan(self.position), s["q"], self.position)
        self.speed = np.where(np.isnan(self.speed), s["qd"], self.speed)
        s["q"], s["qd"] = self.position, self.speed
        s["motor_velocity"] = self.speed


class TransmissionSeriesElastic(Between):
    ranges = {"stiffness": (50.0, 2000.0), "motor_inertia": (0.02, 0.2), "damping": (0.0, 60.0)}

    def closing(self, s, dt):
        k, d, j = (self.v[name] + np.zeros(self.n) for name in ("stiffness", "damping", "motor_inertia"))
        zero, one = np.zeros(self.n), np.ones(self.n)
        matrix = np.array([[zero, one], [-k / j, -d / j]]).transpose(2, 0, 1)
        constant = np.stack([zero, s["effort"] / j], axis=1)
        state = np.stack([self.position - self.q, self.speed - self.qd], axis=1)
        (deflection, relative), (mean, mean_relative) = (x.T for x in linear_step(matrix, constant, state, dt))
        s["effort"] = k * mean + d * mean_relative
        self.position, self.speed = self.q + self.qd * dt + deflection, self.qd + relative


class TransmissionBacklash(Between):
    """Backward Euler, solved by cases: free, or touching on one side."""

    ranges = {"gap": (0.0, 0.1), "stiffness": (20.0, 200.0), "motor_inertia": (0.02, 0.2), "damping": (0.0, 2.0)}

    def closing(self, s, dt):
        force = np.zeros(self.n)
        for i in range(self.n):
            gap, k, j, d = (
                np.broadcast_to(self.v[name], self.n)[i] for name in ("gap", "stiffness", "motor_inertia", "damping")
            )
            before = self.position[i] - self.q[i]
            for side in (-1.0, 1.0):
                # j (w - w0)/dt = effort - F, F = k (x - side gap/2) + d (x - x0)/dt, x = x0 + (w - qd) dt
                a = j / dt + k * dt + d
                b = j / dt * self.speed[i] + s["effort"][i] - k * (before - self.qd[i] * dt - side * gap / 2)
                w = (b + d * self.qd[i]) / a
                x = before + (w - self.qd[i]) * dt
                touching = k * (x - side * gap / 2) + d * (w - self.qd[i])
                free = before + (self.speed[i] + s["effort"][i] * dt / j - self.qd[i]) * dt
                if side * free > gap / 2 and side * touching > 0:
                    force[i] = touching
        inertia = self.v["motor_inertia"]
        self.speed = self.speed + (s["effort"] - force) * dt / inertia
        self.position = self.position + self.speed * dt
        s["effort"] = force


def step(stages, signals, dt):
    """All signals after one step of a chain."""
    names = {"joint_q": "q", "joint_qd": "qd", "joint_target_q": "target_q", "joint_target_qd": "target_qd"}
    s = {new: np.asarray(signals[name], np.float64) for name, new in (names | {"joint_act": "feedforward"}).items()}
    s |= {"seen_q": s["q"], "seen_qd": s["qd"]}
    for stage in stages:
        stage.law(s, dt)
    for stage in reversed(stages):
        stage.closing(s, dt)
    return s


def oracles():
    """Return the oracles by the name of their component."""
    own = {name: made for name, made in globals().items() if isinstance(made, type) and "ranges" in vars(made)}
    return {name: made for name, made in own.items() if made is not Stage}


def shortest_chain(name):
    """Return the names of a component and of what it cannot do without: a controller."""
    if name.startswith("Controller"):
        return (name,)
    return (name, "ControllerPD") if name.startswith(BEFORE_THE_CONTROLLER) else ("ControllerPD", name)


def chains_of_others(chains):
    """Return the shortest chain of each component that has an oracle and is in none of ``chains`` of names."""
    seen = {name for chain in chains for name in chain}
    return {name: shortest_chain(name) for name in oracles() if name not in seen}


def middle(name):
    """Return a value of each parameter of a component, from the middle of its range."""
    return {parameter: 0.5 * (low + high) for parameter, (low, high) in oracles()[name].ranges.items()}
