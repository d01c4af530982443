# SPDX-License-Identifier: Apache-2.0
"""Built-in chains, with random values, as an actuator and as an oracle."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import warp as wp

import actuon
from tests.support.oracle import Oracle

CONTROLLERS = {
    "pd": ("ControllerPD", ("kp", "kd")),
    "pd_const": ("ControllerPD", ("kp", "kd", "const_effort")),
    "pid": ("ControllerPID", ("kp", "ki", "kd", "integral_max", "const_effort")),
}
CLAMPINGS = {
    "free": (),
    "max": ("ClampingMaxEffort",),
    "dc": ("ClampingDCMotor",),
    "table": ("ClampingPositionBased",),
    "dc_max": ("ClampingDCMotor", "ClampingMaxEffort"),
    "table_dc_max": ("ClampingPositionBased", "ClampingDCMotor", "ClampingMaxEffort"),
}
NAMES = [
    f"{controller}-{clamping}-{('now', 'late')[(i + k) % 2]}"
    for (i, controller), (k, clamping) in itertools.product(enumerate(CONTROLLERS), enumerate(CLAMPINGS))
]
"""Each controller with each clamping, and both of them with and without a delay. Each name is a kernel to compile."""
CLAMPINGS["polygon"] = ("ClampingTorqueSpeed",)
NAMES.append("pd-polygon-late")

RANGES = {
    "kp": (0, 100),
    "ki": (0, 300),
    "kd": (0, 5),
    "integral_max": (0.001, 0.05),
    "const_effort": (-3, 3),
    "max_effort": (5, 60),
    "saturation_effort": (10, 80),
    "velocity_limit": (2, 20),
    "max_motor_effort": (5, 60),
}


@dataclass
class Values:
    """The random parameters of one chain, as float32 arrays."""

    name: str
    n: int
    controller: str
    gains: dict
    clamps: list
    lags: np.ndarray | None
    depth: int

    @staticmethod
    def random(name, n, rng, depth=4):
        kind, clamping, timing = name.split("-")

        def draw(parameter):
            return rng.uniform(*RANGES[parameter], n).astype(np.float32)

        controller, parameters = CONTROLLERS[kind]
        clamps = []
        for clamp in CLAMPINGS[clamping]:
            if clamp == "ClampingPositionBased":
                table = {
                    "lookup_positions": np.sort(rng.uniform(-2, 2, 6)).astype(np.float32),
                    "lookup_efforts": rng.uniform(1, 60, 6).astype(np.float32),
                }
                clamps.append((clamp, table))
            elif clamp == "ClampingTorqueSpeed":
                around = np.sort(rng.uniform(0, 2 * np.pi, 9))
                speeds, efforts = 10 * np.cos(around), 40 * np.sin(around)
                clamps.append((clamp, {"speeds": speeds.astype(np.float32), "efforts": efforts.astype(np.float32)}))
            else:
                declared = getattr(actuon, clamp).config.declared()
                clamps.append((clamp, {parameter: draw(parameter) for parameter in declared}))
        lags = rng.integers(0, depth + 1, n).astype(np.int32) if timing == "late" else None
        return Values(name, n, controller, {p: draw(p) for p in parameters}, clamps, lags, depth)

    def oracle(self):
        return Oracle(self.n, self.controller, self.gains, self.clamps, self.lags, self.depth)

    def actuator(self, indices=None, staged=False, **options):
        def build(name, values):
            return getattr(actuon, name)(**{parameter: wp.array(array) for parameter, array in values.items()})

        return actuon.Actuator(
            np.arange(self.n) if indices is None else indices,
            build(self.controller, self.gains),
            delay=None if self.lags is None else actuon.Delay(wp.array(self.lags), self.depth),
            clamping=[build(*clamp) for clamp in self.clamps],
            fused=not staged,
            **options,
        )


NAMED: dict[str, tuple] = {
    "pd": (("ControllerPD", {"kp": 40.0, "kd": 1.0}),),
    "pd_limit": (("ControllerPD", {"kp": 40.0, "kd": 1.0}), ("ClampingMaxEffort", {"max_effort": 20.0})),
    "pid": (("ControllerPID", {"kp": 40.0, "ki": 5.0, "kd": 1.0, "integral_max": 0.1}),),
    "late_pd": (("Delay", {"delay_steps": 2, "max_delay": 4}), ("ControllerPD", {"kp": 40.0, "kd": 1.0})),
    "motor": (
        ("ControllerPD", {"kp": 40.0, "kd": 1.0}),
        ("ClampingDCMotor", {"saturation_effort": 30.0, "velocity_limit": 12.0, "max_motor_effort": 20.0}),
    ),
    "late_motor": (
        ("Delay", {"delay_steps": 2, "max_delay": 4}),
        ("ControllerPD", {"kp": 40.0, "kd": 1.0}),
        ("ClampingDCMotor", {"saturation_effort": 30.0, "velocity_limit": 12.0, "max_motor_effort": 20.0}),
        ("ClampingMaxEffort", {"max_effort": 18.0}),
    ),
    "friction": (
        ("ControllerPD", {"kp": 40.0, "kd": 1.0}),
        ("EffectFriction", {"dynamic": 0.3, "viscous": 0.05, "static": 0.5, "stribeck_velocity": 0.2, "inertia": 0.02}),
    ),
    "geared": (
        ("ControllerPD", {"kp": 40.0, "kd": 1.0}),
        ("TransmissionGear", {"ratio": 6.0, "efficiency": 0.9, "backdrive_efficiency": 0.8}),
        ("ClampingDCMotor", {"saturation_effort": 5.0, "velocity_limit": 70.0, "max_motor_effort": 3.0}),
    ),
    "whole_motor": (
        ("SensorEncoder", {"resolution": 1e-3}),
        ("Delay", {"delay_steps": 2, "max_delay": 4}),
        ("ControllerPD", {"kp": 40.0, "kd": 1.0}),
        ("TransmissionGear", {"ratio": 6.0, "efficiency": 0.9, "backdrive_efficiency": 0.8}),
        ("ClampingDCMotor", {"saturation_effort": 5.0, "velocity_limit": 70.0, "max_motor_effort": 3.0}),
        ("EffectCurrentLoop", {"time_constant": 0.002}),
        ("EffectFriction", {"dynamic": 0.3, "viscous": 0.05, "static": 0.5, "stribeck_velocity": 0.2, "inertia": 0.02}),
    ),
    "servo": (
        (
            "ControllerServoPWM",
            {"kp": 0.8, "torque_constant": 1.2, "resistance": 2.5, "bus_voltage": 12.0, "kd": 0.005, "dead_band": 0.01},
        ),
    ),
}
"""Ten chains that tests share, each a structure that is compiled once: (class, parameters) of each stage, in order.
Ask for one with `named` before making another."""


def named(name):
    """Return new stages of a chain of `NAMED`."""
    return [getattr(actuon, kind)(**values) for kind, values in NAMED[name]]


SIGNALS = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act")


def random_signals(n, rng):
    """One step's positions, velocities, targets and feedforward, float32 of shape (n,) each."""
    scales = (1.5, 6.0, 1.5, 2.0, 5.0)
    return {
        name: (rng.standard_normal(n) * scale).astype(np.float32) for name, scale in zip(SIGNALS, scales, strict=True)
    }


def simulation(signals, **extra):
    """A simulation's state and control over Warp copies of the signals, the output NaN-free zeros."""
    arrays = {name: wp.array(value, requires_grad=extra.get("requires_grad", False)) for name, value in signals.items()}
    outputs = extra.get("outputs", len(signals["joint_qd"]))
    arrays["joint_f"] = wp.zeros(outputs, dtype=wp.float32, requires_grad=extra.get("requires_grad", False))
    both = SimpleNamespace(**arrays)
    return both


def rollout(actuator, steps, dt=0.01, stepping="two", masks=None):
    """Efforts of each step, shape (T, N). ``stepping``: two states swapped, one in place, or fresh ones."""
    current = actuator.state()
    other = actuator.state()
    efforts = []
    for t, signals in enumerate(steps):
        if masks is not None and current is not None and t in masks:
            current.reset(wp.array(masks[t]))
        sim = simulation(signals)
        following = {"two": other, "one": current, "fresh": actuator.state()}[stepping]
        actuator.step(sim, sim, current, following, dt=dt)
        efforts.append(sim.joint_f.numpy()[actuator.effort_indices.numpy()])
        current, other = following, current
    return np.array(efforts)


def oracle_rollout(oracle, steps, dt=0.01, masks=None):
    efforts = []
    for t, signals in enumerate(steps):
        if masks is not None and t in masks:
            oracle.reset(masks[t])
        efforts.append(oracle.step(*(signals[name] for name in SIGNALS), dt)[1])
    return np.array(efforts)
