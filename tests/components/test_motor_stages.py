# SPDX-License-Identifier: Apache-2.0
"""Stages of motors against the oracle, on every path, backwards, and in robot files."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import motor_oracle
from tests.support.chains import SIGNALS
from tests.support.robot_files import add, robot

DT = 0.01

CHAINS = {
    "drive": (
        "SensorEncoder",
        "SensorDifferentiated",
        "ControllerPD",
        "ClampingHeat",
        "ClampingBattery",
        "ClampingVoltage",
        "EffectCurrentLoop",
        "EffectRipple",
    ),
    "servo": ("SensorLowPass", "ClampingBattery", "ControllerServoPWM", "ClampingHeat"),
    "between": ("DelayLowPass", "ControllerPD", "TransmissionSeriesElastic", "TransmissionBacklash"),
    "one volt": ("ControllerServoPWM", "ClampingVoltage"),
}
CHAINS |= motor_oracle.chains_of_others(CHAINS.values())
EVERY = pytest.mark.parametrize("name", CHAINS)


class Chain:
    def __init__(self, name, rng, n, smooth=False):
        self.name, self.n, oracles = name, n, motor_oracle.oracles()
        self.values = [
            {p: rng.uniform(*ends, n).astype(np.float32) for p, ends in oracles[kind].ranges.items()}
            for kind in CHAINS[name]
        ]
        if smooth and name == "drive":
            self.values[0]["resolution"][:] = 0.0

    def actuator(self, staged=False, **options):
        parts = [
            getattr(actuon, kind)(**{p: wp.array(array) for p, array in values.items()})
            for kind, values in zip(CHAINS[self.name], self.values, strict=True)
        ]
        return actuon.Actuator(range(self.n), stages=parts, fused=not staged, **options)

    def oracle(self):
        return [
            getattr(motor_oracle, kind)(self.n, **{p: np.asarray(a, np.float64) for p, a in values.items()})
            for kind, values in zip(CHAINS[self.name], self.values, strict=True)
        ]


def moving(n, rng, count):
    """Smooth random motion and commands: the signals of each step."""
    phase, speed = rng.uniform(-3, 3, (5, n, 1)), rng.uniform(1, 8, (5, n, 1))
    scale = np.array([0.5, 2.0, 0.8, 1.0, 3.0])[:, None, None]
    values = (scale * np.sin(speed * DT * np.arange(count) * 3 + phase)).astype(np.float32)
    return [{name: values[k, :, t] for k, name in enumerate(SIGNALS)} for t in range(count)]


def simulation(actuator, signals, requires_grad=False):
    sim = {name: wp.array(array, requires_grad=requires_grad) for name, array in signals.items()}
    for name in ("joint_f", *actuator.control_signal_attrs.values()):
        sim[name] = wp.full(actuator.num_actuators, 0.0 if name == "joint_f" else np.nan, dtype=wp.float32)
        sim[name].requires_grad = requires_grad
    return sim


def run(actuator, steps, masks=None):
    """All efforts, and all signals by name, each of shape (T, N)."""
    current, other = actuator.state(), actuator.state()
    found = []
    for t, signals in enumerate(steps):
        if masks and t in masks and current is not None:
            current.reset(wp.array(masks[t]))
        sim = simulation(actuator, signals)
        actuator.step(sim, sim, current, other, dt=DT)
        found.append({name: sim[name].numpy() for name in ("joint_f", *actuator.control_signal_attrs.values())})
        current, other = other, current
    return {name: np.array([step[name] for step in found]) for name in found[0]}


@EVERY
def test_a_chain_equals_the_oracle_on_every_path(name, rng):
    n = 70
    chain, steps, masks = Chain(name, rng, n), moving(n, rng, 30), {17: rng.random(n) < 0.4}
    actuator = chain.actuator(control_signal_attrs=lambda signal: signal)
    assert actuator.is_fused()
    found = run(actuator, steps, masks)
    oracle, expected = chain.oracle(), []
    for t, signals in enumerate(steps):
        if t in masks:
            for stage in oracle:
                stage.reset(masks[t])
        expected.append(motor_oracle.step(oracle, signals, DT))
    np.testing.assert_allclose(found["joint_f"], [s["effort"] for s in expected], rtol=5e-4, atol=5e-3)
    for signal in actuator.signals:
        if signal in expected[0]:
            values = [s[signal] for s in expected]
            np.testing.assert_allclose(found[signal], values, rtol=2e-4, atol=2e-3, err_msg=signal)
    for other in (chain.actuator(staged=True), chain.actuator(requires_grad=True)):
        np.testing.assert_array_equal(run(other, steps, masks)["joint_f"], found["joint_f"])


@EVERY
def test_gradients_of_a_chain(name, rng):
    """Of parameters and signals, through three steps, against central differences of the oracle."""
    chain, steps = Chain(name, rng, 3, smooth=True), moving(3, rng, 3)
    weights = [rng.standard_normal(3).astype(np.float32) for _ in steps]
    actuator = chain.actuator(requires_grad=True)
    states = [actuator.state() for _ in range(4)]
    sims = [simulation(actuator, signals, requires_grad=True) for signals in steps]
    with wp.Tape() as tape:
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weights, strict=True)})

    exact, signals = Chain(name, rng, 3, smooth=True), [{k: np.float64(a) for k, a in s.items()} for s in steps]
    exact.values = [{p: np.float64(array) for p, array in values.items()} for values in chain.values]
    for kind, values in zip(CHAINS[name], exact.values, strict=True):
        if kind == "ClampingHeat":
            values["ambient_start"] = values["ambient"].copy()  # a state starts off the tape

    def objective():
        oracle = exact.oracle()
        return sum(float(w @ motor_oracle.step(oracle, s, DT)["effort"]) for w, s in zip(weights, signals, strict=True))

    def difference(array, i):
        kept, sides = array[i], []
        for h in (1e-6, -1e-6):
            array[i] = kept + h
            sides.append(objective())
        array[i] = kept
        return (sides[0] - sides[1]) / 2e-6

    def compare(gradient, array, label):
        expected = [difference(array, i) for i in range(3)]
        np.testing.assert_allclose(gradient, expected, rtol=1e-2, atol=1e-2, err_msg=label)

    for kind, part, values in zip(CHAINS[name], actuator.stages, exact.values, strict=True):
        for parameter, array in part.parameters().items():
            if parameter != "resolution":
                compare(array.grad.numpy(), values[parameter], f"{kind}.{parameter}")
    for t, sim in enumerate(sims):
        for signal in SIGNALS:
            compare(sim[signal].grad.numpy(), signals[t][signal], f"{t} {signal}")


ENDS = {
    "drive": [
        {
            "bus_voltage": np.inf,
            "max_current": np.inf,
            "capacity": np.inf,
            "max_slope": np.inf,
            "inner_resistance": 0.0,
        },
        {"torque_constant": 1e-6, "resistance": 1e-6, "time_constant": 0.0, "max_current": 0.0},
        {"full_voltage": 0.0, "empty_voltage": 0.0, "max_effort": 0.0, "derated_effort": 0.0},
        {"derating_start": 80.0, "derating_end": 80.0, "trip_temperature": np.inf, "winding_time_constant": 1e-12},
    ],
    "servo": [{"ki": 0.0, "max_duty": 0.0, "time_constant": 0.0, "full_voltage": 0.0, "empty_voltage": 0.0}],
    "one volt": [{"max_current": np.inf, "dead_band": 0.0}],
    "between": [
        {"stiffness": 1e8, "damping": 0.0, "time_constant": 0.0},
        {"stiffness": 1e-6, "damping": 1e6, "gap": 0.0},
    ],
}


def ends_of(name):
    """Values at both ends of what a component allows, where `ENDS` has none."""
    declared = getattr(actuon, name).declared()
    lowest = {p: field.minimum for p, field in declared.items() if field.minimum is not None}
    lowest |= {p: field.above + 1e-6 for p, field in declared.items() if field.above is not None}
    highest = {p: np.inf for p, field in declared.items() if not field.finite}
    highest |= {p: field.maximum for p, field in declared.items() if field.maximum is not None}
    return [lowest, highest]


@pytest.mark.parametrize("dt", [0.0, DT, 1e4])
@pytest.mark.parametrize("name", CHAINS)
def test_efforts_and_gradients_stay_finite_at_the_ends(name, dt, rng):
    for ends in ENDS.get(name) or ends_of(name):
        chain = Chain(name, rng, 3)
        for values in chain.values:
            values |= {p: np.full(3, value, np.float32) for p, value in ends.items() if p in values}
        if name == "one volt":
            chain.values[1]["bus_voltage"][:] = np.inf
        actuator = chain.actuator(requires_grad=True)
        states = [actuator.state() for _ in range(3)]
        sims = [simulation(actuator, signals, requires_grad=True) for signals in moving(3, rng, 2)]
        with wp.Tape() as tape:
            for t, sim in enumerate(sims):
                actuator.step(sim, sim, states[t], states[t + 1], dt=dt)
        tape.backward(grads={sim["joint_f"]: wp.array(np.ones(3, np.float32)) for sim in sims})
        found = {
            f"{type(c).__name__}.{p}": a.grad for c in actuator.stages for p, a in c.parameters().items() if a.grad
        }
        found |= {f"{t} {signal}": sim[signal].grad for t, sim in enumerate(sims) for signal in SIGNALS}
        found |= {f"{t} effort": sim["joint_f"] for t, sim in enumerate(sims)}
        assert {label for label, array in found.items() if not np.isfinite(array.numpy()).all()} == set(), ends


CONFIGS = {
    "drive": actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        [
            actuon.HeatClampingConfig(1.0, 2.0, 10.0, 100.0, 0.5, max_effort=20.0, trip_temperature=150.0),
            actuon.BatteryClampingConfig(48.0, 0.05, 54000.0, 40.0),
            actuon.VoltageClampingConfig(0.1, 0.5, max_current=20.0),
        ],
        effects=[
            actuon.CurrentLoopEffectConfig(0.002),
            actuon.RippleEffectConfig(0.1),
            actuon.NoiseEffectConfig(0.1, 0.2, seed=3),
        ],
        sensors=[actuon.EncoderSensorConfig(0.001, 0.01), actuon.DifferentiatedSensorConfig(0.01)],
    ),
    "servo": actuon.ActuatorConfig(
        actuon.ServoPWMControlConfig(1.0, 0.8, 2.0, 7.4, dead_band=0.01),
        sensors=[actuon.LowPassSensorConfig(0.01)],
        transmission=actuon.SeriesElasticTransmissionConfig(300.0, 0.02, 1.0),
    ),
    "backlash": actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        delay=actuon.LowPassDelayConfig(0.05),
        transmission=actuon.BacklashTransmissionConfig(0.01, 1e4, 0.02),
    ),
    "lossy gear": actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        transmission=actuon.GearTransmissionConfig(40.0, 0.4, -0.5, compensates_losses=True, inertia=0.05),
    ),
    "late and filtered": actuon.ActuatorConfig(
        stages=[actuon.TimeDelayConfig(0.01), actuon.LowPassDelayConfig(0.05), actuon.PDControlConfig(40.0, 1.0)]
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_motors_travel_in_yaml_and_usd(name, tmp_path):
    entry = actuon.ActuatorEntry("knee", "knee", CONFIGS[name])
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    stage = robot()
    parsed = actuon.parse_actuator_prim(add(stage, CONFIGS[name]))
    assert parsed.config == CONFIGS[name]
    assert parsed.delay_steps is None
