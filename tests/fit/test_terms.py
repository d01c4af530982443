# SPDX-License-Identifier: Apache-2.0
"""Models by name: presets are terms, and terms can be added to them."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.fit import PRESETS, KnownLoadPlant, SearchOptions, fit_logs
from actuon.fit.terms import SELECTED, TERMS, JointFacts, build_model, usual_models
from tests.support.pendulums import pendulum_log, uneven_time

JOINT = ["transmission.reflected_inertia", "delay.delay", "encoder.bias"]
FRICTION = ["friction.dynamic", "friction.viscous"]
AT_REST = ["friction.static", "friction.stribeck_velocity", "friction.stribeck_exponent"]
SIDES = ["motor", "external", "motor_stribeck", "external_stribeck"]
SPRING = ["motor_inertia", "stiffness", "damping"]
PD = ["controller.kp", "controller.kd", *JOINT, *FRICTION]
PATHS = {
    "pd": PD[:5],
    "pd_viscous": [*PD[:5], "friction.viscous"],
    "m1": PD,
    "m2": [*PD, *AT_REST],
    "m3": [*PD, "friction.load_motor"],
    "m4": [*PD, *AT_REST, "friction.load_motor", "friction.load_motor_stribeck"],
    "m5": [*PD, *AT_REST, *(f"friction.load_{name}" for name in SIDES)],
    "m2q": [*PD, *AT_REST, "friction.load_motor_quadratic", "friction.load_external_quadratic"],
    "servo_m1": ["controller.kp", "controller.torque_constant", "controller.resistance", *JOINT, *FRICTION],
    "m1+limit": [*PD, "max_effort.max_effort"],
    "m1+backlash": [*PD[:2], *JOINT[1:], *FRICTION, "transmission.motor_inertia", "transmission.gap"],
    "m1+spring": [*PD[:2], *JOINT[1:], *FRICTION, *(f"transmission.{name}" for name in SPRING)],
    "pd+delay+coulomb": [*PD[:5], "friction.dynamic"],
    "kp+viscous": ["controller.kp", "friction.viscous"],
}
"""Free parameters by model, in order."""


def facts(**settings):
    time = uneven_time(1.0)
    position = 0.3 * np.sin(4.0 * time)
    plant = KnownLoadPlant([pendulum_log("a", time, position, position + 0.02, **settings)])
    return JointFacts(plant.scales()[0], plant.runs, plant.joints[0])


@pytest.mark.parametrize("rows", [[100], [50, 120, 121], [30, 31, 32, 150]])
def test_spikes_do_not_set_ranges(rows):
    time = np.arange(0.0, 4.0, 0.005)
    position = np.round(0.6 * np.sin(4.0 * time) * 4096 / (2 * np.pi)) * 2 * np.pi / 4096
    spiked = position.copy()
    spiked[rows] += np.resize([30.0, -12.0], len(rows))
    ranges = []
    for shown in (position, spiked):
        log = pendulum_log("a", time, shown, position + 0.02, vin=7.4)
        plant = KnownLoadPlant([log])
        model = build_model("servo_m6", JointFacts(plant.scales()[0], plant.runs, "joint"))
        ranges.append([end for p in model.parameters for end in (p.low, p.high)])
    np.testing.assert_allclose(ranges[1], ranges[0], rtol=0.05)


@pytest.mark.parametrize("name", PATHS)
def test_a_name_says_what_is_free(name):
    model = build_model(name, facts(vin=7.4))
    assert (model.name, model.paths) == (name, PATHS[name])


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_its_terms_and_the_order_of_terms_does_not_matter(name):
    joint = facts(vin=7.4, kp=200.0)
    preset, reverse = build_model(name, joint), build_model("+".join(reversed(PRESETS[name])), joint)
    assert preset.parameters == reverse.parameters
    assert preset.actuator == reverse.actuator
    assert preset.scaled_by == {"controller.kp": "kp"}


@pytest.mark.parametrize("term", TERMS)
def test_each_term_begins_within_its_ranges(term):
    base = "m4" if term in ("kp", "kd") else "servo_m4"
    model = build_model(f"{base}+{term}", facts(vin=7.4))
    model.config(model.start)


@pytest.mark.parametrize("term", ["load_stribeck", "asymmetry", "quadratic", "dead_band", "supply"])
def test_a_term_that_means_nothing_to_a_model_is_refused(term):
    with pytest.raises(actuon.ParameterError, match=f"pd.{term}: {TERMS[term].needs}"):
        build_model(f"pd+{term}", facts(vin=7.4))


def test_the_stiffness_of_a_spring_is_found():
    """A motor behind a spring, and a pendulum whose position is logged and controlled, in steps of 0.1 ms."""
    dt, inertia, weight = 1e-4, 0.5 * 0.1**2, 0.5 * 9.81 * 0.1
    kp, kd, motor_inertia, stiffness, damping = 3.0, 0.06, 0.003, 20.0, 0.02
    time = np.arange(0.0, 4.0, 0.004)
    command = np.sin(2.0 * time) + 0.5 * np.sin(7.0 * time) + 0.4 * np.sign(np.sin(4.0 * time))
    enabled = time < 3.2
    angle = spin = q = qd = 0.0
    positions = []
    for target, on in zip(command, enabled, strict=True):
        positions.append(q)
        for _ in range(40):
            force = stiffness * (angle - q) + damping * (spin - qd)
            spin += dt * (on * (kp * (target - q) - kd * qd) - force) / motor_inertia
            qd += dt * (force - weight * np.sin(q)) / inertia
            angle, q = angle + dt * spin, q + dt * qd
    shown = np.array(positions) + 2e-4 * np.random.default_rng(0).standard_normal(len(time))
    plant = KnownLoadPlant([pendulum_log("a", time, shown, command, enabled)], dt=0.001)
    options = SearchOptions(starts=1, population=40, generations=80)
    result = fit_logs(model="pd+spring", plant=plant, options=options)
    found = {parameter.path: parameter for parameter in result.joints[0].parameters}
    for name, value in (("stiffness", stiffness), ("motor_inertia", motor_inertia)):
        own = found[f"transmission.{name}"]
        assert own.value == pytest.approx(value, rel=0.03)
        assert own.low < value < own.high
    assert result.error < 1e-3


def test_spring_and_backlash_exclude_each_other():
    with pytest.raises(actuon.ParameterError, match="spring also needs the term 'armature', without 'backlash'"):
        build_model("pd+backlash+spring", facts())


def test_what_a_model_needs_is_said():
    with pytest.raises(actuon.ParameterError, match=r"servo_m1: a servo model needs .* the supply \[V\]"):
        build_model("servo_m1", facts())
    with pytest.raises(actuon.ParameterError, match=r"'\+limt'; terms: .* Did you mean 'limit'"):
        build_model("m5+limt", facts())
    with pytest.raises(actuon.ParameterError, match=r"'servo_m'; models: pd, .* Did you mean 'servo_m"):
        build_model("servo_m", facts())
    assert usual_models([facts(vin=7.4)]) == SELECTED["servo"]
    assert usual_models([facts(vin=7.4), facts()]) == SELECTED["pd"]
