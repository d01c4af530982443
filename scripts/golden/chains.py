# SPDX-License-Identifier: Apache-2.0
"""Chains of all built-in stages but networks: those that the tests run, on every path and in every layout of arrays."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

import actuon

from .case import Case, Scope, seeded
from .rollout import DT, Named, cases_of, random_steps

Draw = Callable[[np.random.Generator, int], Any]
"""Draws the values of a parameter for n DOFs."""


def uniform(low: float, high: float) -> Draw:
    """Draw a number for each DOF."""
    return lambda rng, n: rng.uniform(low, high, n).astype(np.float32)


def whole(low: int, high: int) -> Draw:
    """Draw a whole number for each DOF, ``high`` included."""
    return lambda rng, n: rng.integers(low, high + 1, n).astype(np.int32)


def fixed(value: Any) -> Draw:
    """Return the same for all DOFs."""
    return lambda rng, n: value


@dataclass(frozen=True)
class Stage:
    """A component of `actuon`, and how its parameters are drawn."""

    kind: str
    parameters: dict[str, Draw]

    def build(self, rng: np.random.Generator, n: int) -> actuon.Component:
        """Return the component for n DOFs."""
        values = {name: draw(rng, n) for name, draw in self.parameters.items()}
        given = {name: wp.array(v) if isinstance(v, np.ndarray) and v.ndim == 1 else v for name, v in values.items()}
        component: actuon.Component = getattr(actuon, self.kind)(**given)
        return component


@dataclass(frozen=True)
class Chain:
    """Stages in order, and options of `Actuator`."""

    stages: tuple[Stage, ...]
    options: dict[str, Any] = field(default_factory=dict)
    fusible: bool = True
    step: int = 1
    """Divisor of the number of DOFs."""

    def build(self, name: str, n: int, **options: Any) -> actuon.Actuator:
        """Return the actuator of n DOFs, with parameters that depend on the name of the chain."""
        rng = seeded(f"parameters of {name}", n)
        indices = options.pop("indices", range(n))
        return actuon.Actuator(indices, stages=[s.build(rng, n) for s in self.stages], **self.options, **options)


def _stage(kind: str, **parameters: Draw) -> Stage:
    return Stage(kind, parameters)


_KP, _KD = uniform(0, 100), uniform(0, 5)
_PD = _stage("ControllerPD", kp=uniform(10, 60), kd=uniform(0, 2))
_NO_PD = _stage("ControllerPD", kp=fixed(0.0), kd=fixed(0.0))
_MAX = _stage("ClampingMaxEffort", max_effort=uniform(5, 60))
_DC = _stage(
    "ClampingDCMotor", saturation_effort=uniform(10, 80), velocity_limit=uniform(2, 20), max_motor_effort=uniform(5, 60)
)
_LOW_DC = _stage(
    "ClampingDCMotor",
    saturation_effort=uniform(0.5, 4),
    velocity_limit=uniform(50, 400),
    max_motor_effort=uniform(0.5, 3),
)
_TABLE = _stage(
    "ClampingPositionBased",
    lookup_positions=fixed([-1.7, -0.9, -0.2, 0.4, 1.1, 1.8]),
    lookup_efforts=fixed([12.0, 40.0, 5.0, 22.0, 58.0, 9.0]),
)
_POLYGON = _stage(
    "ClampingTorqueSpeed",
    speeds=fixed([9.5, 4.0, -4.0, -9.0, -9.5, -4.0, 4.0, 9.0]),
    efforts=fixed([3.0, 35.0, 38.0, 14.0, -3.0, -35.0, -38.0, -14.0]),
)
_DELAY = _stage("Delay", delay_steps=whole(0, 4), max_delay=fixed(4))
_ENCODER = _stage("SensorEncoder", resolution=uniform(1e-3, 5e-3), bias=uniform(-0.1, 0.1))
_DIFFERENTIATED = _stage("SensorDifferentiated", time_constant=uniform(0.01, 0.05))
_LOW_PASS = _stage("SensorLowPass", time_constant=uniform(0.005, 0.05))
_LATE_SENSOR = _stage("SensorDelay", delay=uniform(0.0, 0.02))
_LATE = _stage("DelayTime", delay=uniform(0.0, 0.02))
_LATE_BETWEEN = _stage("DelayInterpolated", delay=uniform(0.0, 0.02))
_LOW_PASS_COMMANDS = _stage("DelayLowPass", time_constant=uniform(0.0, 0.05))
_SERVO = _stage(
    "ControllerServoPWM",
    kp=uniform(0.1, 2.0),
    torque_constant=uniform(0.5, 2.0),
    resistance=uniform(1.0, 4.0),
    bus_voltage=uniform(6.0, 14.0),
    ki=uniform(0.1, 5.0),
    kd=uniform(0.0, 0.01),
    max_duty=uniform(0.5, 1.0),
    dead_band=uniform(0.0, 0.1),
)
_HEAT = _stage(
    "ClampingHeat",
    winding_thermal_resistance=uniform(1.0, 4.0),
    housing_thermal_resistance=uniform(2.0, 8.0),
    winding_time_constant=uniform(0.5, 3.0),
    housing_time_constant=uniform(1.0, 9.0),
    motor_constant=uniform(0.5, 1.5),
    max_effort=uniform(40.0, 80.0),
    derated_effort=uniform(1.0, 4.0),
    derating_start=uniform(30.0, 50.0),
    derating_end=uniform(120.0, 150.0),
    trip_temperature=uniform(160.0, 400.0),
    ambient=uniform(10.0, 30.0),
    temperature_coefficient=uniform(0.0, 0.005),
)
_BATTERY = _stage(
    "ClampingBattery",
    full_voltage=uniform(20.0, 30.0),
    inner_resistance=uniform(0.01, 0.2),
    capacity=uniform(5.0, 40.0),
    empty_voltage=uniform(5.0, 18.0),
)
_VOLTAGE = _stage(
    "ClampingVoltage",
    torque_constant=uniform(0.5, 1.5),
    resistance=uniform(0.2, 1.0),
    bus_voltage=uniform(20.0, 30.0),
    max_current=uniform(10.0, 50.0),
    temperature_coefficient=uniform(0.0, 0.005),
)
_CURRENT_LOOP = _stage("EffectCurrentLoop", time_constant=uniform(0.001, 0.02), max_slope=uniform(200.0, 2000.0))
_RIPPLE = _stage(
    "EffectRipple",
    cogging=uniform(0.0, 1.0),
    cogging_periods=uniform(2.0, 8.0),
    ripple=uniform(0.0, 0.2),
    ripple_periods=uniform(2.0, 8.0),
    phase=uniform(-3.0, 3.0),
)
_NOISE = _stage("EffectNoise", noise=uniform(0.0, 0.3), bias=uniform(0.0, 0.2))
_SPRING = _stage(
    "TransmissionSeriesElastic",
    stiffness=uniform(50.0, 2000.0),
    motor_inertia=uniform(0.02, 0.2),
    damping=uniform(0, 60),
)
_BACKLASH = _stage(
    "TransmissionBacklash",
    gap=uniform(0.0, 0.1),
    stiffness=uniform(20.0, 200.0),
    motor_inertia=uniform(0.02, 0.2),
    damping=uniform(0.0, 2.0),
)
_RATIO = _stage("TransmissionGear", ratio=uniform(3, 30))
_PLAIN_GEAR = _stage(
    "TransmissionGear", ratio=uniform(3, 30), efficiency=uniform(0.5, 1.0), smoothing_velocity=uniform(0.5, 40.0)
)
_GEAR = _stage(
    "TransmissionGear",
    ratio=uniform(-30, -3),
    efficiency=uniform(0.5, 1.0),
    backdrive_efficiency=uniform(0.3, 1.0),
    smoothing_velocity=uniform(0.5, 40.0),
)
_BRAKED_GEAR = Stage("TransmissionGear", _GEAR.parameters | {"inertia": uniform(0.005, 0.5)})
_COMPENSATED_GEAR = Stage("TransmissionGear", _GEAR.parameters | {"compensates_losses": fixed(True)})
_LINKAGE = _stage(
    "TransmissionLinkage",
    joint_positions=fixed([-2.0, -0.7, 0.1, 0.9, 2.5]),
    motor_positions=fixed([-9.0, -4.0, -2.5, 1.0, 11.0]),
)
_COUPLED = _stage(
    "TransmissionCoupled",
    matrix=fixed([[1.2, 0.7], [0.9, -1.1]]),
    row=lambda rng, n: [row for _ in range(n // 2) for row in rng.permutation(2).tolist()],
)
_FRICTION = {
    "dynamic": uniform(0.1, 2.0),
    "viscous": uniform(0.0, 0.5),
    "static": uniform(2.0, 3.0),
    "stribeck_velocity": uniform(0.05, 2.0),
    "stribeck_exponent": uniform(0.7, 4.0),
    "load_motor": uniform(0.0, 0.3),
    "load_external": uniform(0.0, 0.3),
    "load_motor_stribeck": uniform(0.0, 0.3),
    "load_external_stribeck": uniform(0.0, 0.3),
    "load_motor_quadratic": uniform(0.0, 0.02),
    "load_external_quadratic": uniform(0.0, 0.02),
    "inertia": uniform(0.005, 0.5),
}


def _friction(*names: str) -> Stage:
    return Stage("EffectFriction", {name: _FRICTION[name] for name in names or _FRICTION})


_COULOMB = _friction("dynamic", "viscous", "inertia")


def _plain_chains() -> Iterator[tuple[str, Chain]]:
    """Return each controller with each limit, and both of them with and without a delay."""
    controllers = {
        "pd": _stage("ControllerPD", kp=_KP, kd=_KD),
        "pd_const": _stage("ControllerPD", kp=_KP, kd=_KD, const_effort=uniform(-3, 3)),
        "pid": _stage(
            "ControllerPID",
            kp=_KP,
            ki=uniform(0, 300),
            kd=_KD,
            integral_max=uniform(0.001, 0.05),
            const_effort=uniform(-3, 3),
        ),
    }
    limits: dict[str, tuple[Stage, ...]] = {
        "free": (),
        "max": (_MAX,),
        "dc": (_DC,),
        "table": (_TABLE,),
        "dc_max": (_DC, _MAX),
        "table_dc_max": (_TABLE, _DC, _MAX),
    }
    for (i, (controller, made)), (k, (limit, clamps)) in itertools.product(
        enumerate(controllers.items()), enumerate(limits.items())
    ):
        late = (i + k) % 2 == 1
        yield f"{controller}-{limit}-{'late' if late else 'now'}", Chain((*[_DELAY][:late], made, *clamps))
    yield "pd-polygon-late", Chain((_DELAY, controllers["pd"], _POLYGON))


def _named_chains() -> Iterator[tuple[str, Chain]]:
    """Return the chains that tests share."""
    shared: dict[str, Any] = importlib.import_module("tests.support.chains").NAMED
    for name, stages in shared.items():
        made = (Stage(kind, {key: fixed(value) for key, value in values.items()}) for kind, values in stages)
        yield f"named {name}", Chain(tuple(made))


def _other_chains(written: dict[str, Chain]) -> Iterator[tuple[str, Chain]]:
    """Return the shortest chain of each component that has an oracle and is in none of those written here."""
    oracle: Any = importlib.import_module("tests.support.motor_oracle")
    kinds = [[stage.kind for stage in chain.stages] for chain in written.values()]
    for name, parts in oracle.chains_of_others(kinds).items():
        ranges = ((part, oracle.oracles()[part].ranges) for part in parts)
        made = (Stage(part, {key: uniform(*ends) for key, ends in drawn.items()}) for part, drawn in ranges)
        yield name, Chain(tuple(made))


CHAINS: dict[str, Chain] = (
    dict(_plain_chains())
    | dict(_named_chains())
    | {
        "drive": Chain((_ENCODER, _DIFFERENTIATED, _PD, _HEAT, _BATTERY, _VOLTAGE, _CURRENT_LOOP, _RIPPLE)),
        "servo": Chain((_LOW_PASS, _BATTERY, _SERVO, _HEAT)),
        "between": Chain((_PD, _SPRING, _BACKLASH)),
        "one volt": Chain((_SERVO, _VOLTAGE)),
        "friction coulomb": Chain((_NO_PD, _COULOMB)),
        "friction stribeck": Chain((_NO_PD, _friction("dynamic", "viscous", "inertia", "static", "stribeck_velocity"))),
        "friction everything": Chain((_PD, _friction())),
        "friction in engine": Chain(
            (_PD, _friction(*(name for name in _FRICTION if name != "inertia"))), {"in_engine": True}
        ),
        "friction on both sides": Chain((_PD, _COULOMB, _RATIO, _friction())),
        "gear with friction": Chain((_PD, _BRAKED_GEAR, _LOW_DC)),
        "gear that compensates": Chain((_PD, _COMPENSATED_GEAR, _LOW_DC)),
        "friction behind a spring": Chain((_PD, _SPRING, _GEAR, _COULOMB)),
        "gear": Chain((_PD, _GEAR, _LOW_DC)),
        "gear without back-driving": Chain((_PD, _PLAIN_GEAR, _LOW_DC)),
        "linkage and gear": Chain((_PD, _LINKAGE, _GEAR, _LOW_DC)),
        "linkage, gear and late": Chain((_PD, _LINKAGE, _GEAR, _LOW_DC, _DELAY)),
        "coupled": Chain((_PD, _COUPLED, _MAX), fusible=False, step=2),
        "delay in seconds": Chain((_LATE, _PD)),
        "delay interpolated": Chain((_LATE_BETWEEN, _PD)),
        "delay by a low-pass": Chain((_LATE, _LOW_PASS_COMMANDS, _PD)),
        "delay of feedback": Chain((_LATE_SENSOR, _LATE, _PD)),
        "delay random": Chain(
            (
                _stage(
                    "DelayInterpolated",
                    delay=fixed(0.002),
                    spread=fixed(0.01),
                    jitter=fixed(0.003),
                    seed=fixed(5),
                    stream=whole(0, 6),
                ),
                _PD,
            )
        ),
        "delay with losses": Chain(
            (
                _stage(
                    "DelayTime",
                    delay=fixed(0.003),
                    spread=fixed(0.01),
                    jitter=fixed(0.002),
                    dropout=fixed(0.2),
                    stream=lambda rng, n: np.arange(n, dtype=np.int32),
                ),
                _PD,
            )
        ),
        "sensors": Chain((_ENCODER, _LOW_PASS, _LATE, _PD, _DC)),
        "late feedback": Chain((_LATE_SENSOR, _PD, _TABLE)),
        "late and differentiated": Chain((_LATE_SENSOR, _DIFFERENTIATED, _PD, _MAX)),
        "late servo": Chain((_LATE_BETWEEN, _SERVO, _MAX)),
        "remotised": Chain(
            (
                _PD,
                _stage(
                    "ClampingRemotized",
                    lookup_positions=fixed([-2.0, 0.0, 2.0]),
                    lookup_ratios=fixed([1.0, 1.5, 1.2]),
                    lookup_efforts=fixed([8.0, 20.0, 12.0]),
                    motor_effort_limit=fixed(11.0),
                ),
            )
        ),
        "voltage and battery": Chain((_PD, _GEAR, _BATTERY, _VOLTAGE, _CURRENT_LOOP)),
        "heat and friction": Chain((_PD, _HEAT, _friction())),
        "spring": Chain((_PD, _SPRING, _DC)),
        "backlash": Chain((_PD, _BACKLASH, _DC)),
        "linkage, ripple and noise": Chain((_PD, _LINKAGE, _RIPPLE, _NOISE)),
        "held": Chain((_LOW_PASS, _DELAY, _PD, _GEAR, _LOW_DC), {"control_every": 3}),
    }
)
CHAINS |= dict(_other_chains(CHAINS))
"""By name. The plain ones are those of the tests, under the same names."""

LAYOUTS = ("pid-table_dc_max-late", "drive", "friction on both sides", "held")
"""Chains that are run on arrays of other layouts too."""


def cases(scope: Scope) -> Iterator[Case]:
    """Return the cases of all chains."""
    for name, chain in CHAINS.items():
        dofs = tuple(dict.fromkeys(-(-n // chain.step) * chain.step for n in scope.dofs))
        build = functools.partial(chain.build, name)
        yield from cases_of(f"chains/{name}", build, dofs, fusible=chain.fusible)
    for name, kind in itertools.product(LAYOUTS, ("scattered", "strided", "double")):
        for n in scope.dofs:
            yield Case(f"layouts/{name}/{n}/{kind}", functools.partial(_laid_out, name, n, kind))


def _laid_out(name: str, n: int, kind: str) -> Named:
    """Step with arrays that are larger than the actuator and in another order, or strided, or float64."""
    rng = seeded(f"layout of {name}", n)
    places = {key: rng.permutation(n + 5)[:n] for key in ("indices", "pos_indices", "effort_indices")}
    chain = CHAINS[name]
    actuator = chain.build(name, n, control_computed_output_attr="wanted", **(places if kind == "scattered" else {}))
    length = n + 5 if kind == "scattered" else n
    state = actuator.state()
    seen: dict[str, list[np.ndarray]] = {"joint_f": [], "wanted": []}
    for signals in random_steps(f"layout of {name}", length, actuator.custom_inputs):
        signals |= {key: np.zeros(length, np.float32) for key in seen}
        sim = {key: _array(array, kind) for key, array in signals.items()}
        actuator.step(sim, sim, state, state, dt=DT)
        for key, values in seen.items():
            values.append(np.array(sim[key] if kind == "double" else sim[key].numpy()))
    for key, values in seen.items():
        yield key, np.array(values)


def _array(values: np.ndarray, kind: str) -> Any:
    if kind == "double":
        return values.astype(np.float64)
    if kind == "strided":
        return wp.array(np.repeat(values[:, None], 2, axis=1))[:, 0]
    return wp.array(values)
