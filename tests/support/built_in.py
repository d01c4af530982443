# SPDX-License-Identifier: Apache-2.0
"""Every component that comes with Actuon, found by its file, and a config of each."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from hypothesis import strategies as st

import actuon
from tests.support import motor_oracle

PACKAGE = "actuon.components"


@functools.cache
def components():
    """Return the classes with a config by name, whether or not `actuon` exports them."""
    for module in pkgutil.walk_packages(importlib.import_module(PACKAGE).__path__, f"{PACKAGE}."):
        importlib.import_module(module.name)
    own = (cls for cls in _below(actuon.Component) if cls.__module__.startswith(f"{PACKAGE}."))
    return {cls.__name__: cls for cls in own if cls.config is not None}


def _below(cls):
    return {found for sub in cls.__subclasses__() for found in (sub, *_below(sub))}


TABLE = {"lookup_positions": (-1.0, 0.0, 1.0), "lookup_efforts": (5.0, 20.0, 5.0)}
WITHOUT_RANGES = {
    "ControllerPID": {"kp": 40.0, "ki": 3.0, "kd": 1.5, "integral_max": 0.7, "const_effort": -0.5},
    "Delay": {"delay_steps": 3},
    "DelayTime": {"delay": 0.01, "jitter": 0.002},
    "DelayInterpolated": {"delay": 0.01, "spread": 0.002},
    "SensorDelay": {"delay": 0.01},
    "TransmissionGear": {"ratio": 6.0, "efficiency": 0.9},
    "TransmissionLinkage": {"joint_positions": (-1.0, 0.0, 2.0), "motor_positions": (-4.0, 0.0, 3.5)},
    "TransmissionCoupled": {"matrix": ((1.0, 1.0), (1.0, -1.0)), "row": 1},
    "ClampingMaxEffort": {"max_effort": 12.5},
    "ClampingDCMotor": {"saturation_effort": 33.5, "velocity_limit": 21.0, "max_motor_effort": 28.0},
    "ClampingPositionBased": TABLE,
    "ClampingRemotized": TABLE | {"lookup_ratios": (1.0, 1.5, 2.0), "motor_effort_limit": 4.0},
    "ClampingTorqueSpeed": {"speeds": (9.0, -9.0, -9.0, 9.0), "efforts": (5.0, 8.0, -5.0, -8.0)},
    "EffectFriction": {"dynamic": 0.3, "viscous": 0.05, "inertia": 0.02},
    "EffectNoise": {"noise": 0.1, "bias": 0.2, "seed": 3},
}
"""Values of components whose oracles are elsewhere, or that draw whole numbers and tables."""


def values(name):
    """Return a value of each parameter of a component; None where neither an oracle nor this file has any."""
    return motor_oracle.middle(name) if name in motor_oracle.oracles() else WITHOUT_RANGES.get(name)


OTHER_VALUES = {
    "TransmissionSeriesElastic": {"stiffness": 50.0, "motor_inertia": 0.05, "damping": 1.0},
    "ClampingBattery": {"full_voltage": 24.0, "inner_resistance": 0.5, "capacity": 20.0},
}
"""Values with which an arm does not diverge, and a battery that it empties."""


def stages(name):
    """Return the stages of a motor for an arm that has a component."""
    part, pd = components()[name].config(**OTHER_VALUES.get(name, values(name))), actuon.PDControlConfig(40.0, 1.0)
    kinds, kind = actuon.ComponentKind, part.component.kind
    if kind is kinds.CONTROLLER:
        return [actuon.DelayConfig(1), part]
    if kind in (kinds.SENSOR, kinds.DELAY):
        return [part, pd]
    if name == "ClampingBattery":
        return [pd, part, actuon.VoltageClampingConfig(0.5, 0.4)]
    return [actuon.DelayConfig(1), pd, part]


def drawn(kind):
    """Return a strategy for the configs of a kind, such as `actuon.Effect`, that have an oracle with ranges."""
    found = []
    for name, oracle in motor_oracle.oracles().items():
        if issubclass(getattr(actuon, name), kind):
            ranges = {key: st.floats(*map(float, ends)) for key, ends in oracle.ranges.items()}
            found.append(st.builds(getattr(actuon, name).config, **ranges))
    return st.one_of(found)
