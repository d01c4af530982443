# SPDX-License-Identifier: Apache-2.0
"""Models by name: presets are terms, and terms can be added to them."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.fit import PRESETS, KnownLoadPlant
from actuon.fit.terms import SELECTED, TERMS, JointFacts, build_model, usual_models
from tests.support.pendulums import pendulum_log, uneven_time

JOINT = ["transmission.reflected_inertia", "delay.delay", "encoder.bias"]
FRICTION = ["friction.dynamic", "friction.viscous"]
AT_REST = ["friction.static", "friction.stribeck_velocity", "friction.stribeck_exponent"]
SIDES = ["motor", "external", "motor_stribeck", "external_stribeck"]
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
    "pd+delay+coulomb": [*PD[:5], "friction.dynamic"],
    "kp+viscous": ["controller.kp", "friction.viscous"],
}
"""Free parameters by model, in order."""


def facts(**settings):
    time = uneven_time(1.0)
    position = 0.3 * np.sin(4.0 * time)
    plant = KnownLoadPlant([pendulum_log("a", time, position, position + 0.02, **settings)])
    return JointFacts(plant.scales()[0], plant.runs, plant.joints[0])


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


def test_what_a_model_needs_is_said():
    with pytest.raises(actuon.ParameterError, match=r"servo_m1: a servo model needs .* the supply \[V\]"):
        build_model("servo_m1", facts())
    with pytest.raises(actuon.ParameterError, match=r"'\+limt'; terms: .* Did you mean 'limit'"):
        build_model("m5+limt", facts())
    with pytest.raises(actuon.ParameterError, match=r"'servo_m'; models: pd, .* Did you mean 'servo_m"):
        build_model("servo_m", facts())
    assert usual_models([facts(vin=7.4)]) == SELECTED["servo"]
    assert usual_models([facts(vin=7.4), facts()]) == SELECTED["pd"]
