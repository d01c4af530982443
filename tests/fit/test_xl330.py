# SPDX-License-Identifier: Apache-2.0
"""Logs of a real servo on a pendulum: a fit predicts runs at a gain that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, Model, SearchOptions, read_logs
from actuon.fit.replay import apply_models
from actuon.fit.terms import JointFacts, build_model, duty_gain
from tests.support.paths import DATA, public_logs
from tests.support.trials import errors_of, search


@pytest.fixture(scope="module")
def plant():
    return KnownLoadPlant(read_logs(public_logs("xl330/*.json.gz")))


def test_the_gain_of_its_firmware_is_half_of_that_of_larger_servos(plant):
    """Of the duty that `from_dynamixel` gives for an XL430, by its manual."""
    larger = actuon.ServoPWMControlConfig.from_dynamixel(100, torque_constant=1.0, resistance=1.0, bus_voltage=1.0)
    assert 100 * duty_gain(plant.runs, "joint", "kp") == pytest.approx(0.5 * larger.kp, rel=0.005)


def test_published_parameters_are_off_by_as_much_as_their_source_finds(plant):
    """Their source gives 73.5 mrad for M3 at a gain between 200 and 800, of which we have no log."""
    motor = actuon.load_bam(DATA / "motors" / "xl330_m3.json")
    chain = actuon.ActuatorConfig(
        actuon.ServoPWMControlConfig(0.57548, motor.torque_constant, motor.resistance, 7.4),
        transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=motor.armature),
        effects=[motor.friction],
        sensors=[actuon.EncoderSensorConfig(bias=-motor.q_offset)],
    )
    model = Model("m3", chain, (), {"controller.kp": "kp"}, {"kp": 200.0})
    errors = apply_models(plant, [model], [model.start]).errors[:, 0]
    gains = np.array([run.settings["kp"] for run in plant.runs])
    assert errors[gains == 200].mean() < 0.0735 < errors[gains == 800].mean()


def test_a_gain_between_those_fitted_is_predicted_better_than_by_hand(plant):
    """The reference tool reaches 43 mrad at a gain that it has not seen, and a careful fit by hand 35."""
    gains = np.array([run.settings["kp"] for run in plant.runs])
    model = build_model("servo_m2q", JointFacts(plant.scales()[0], plant.runs, "joint"))
    fitted = plant.subset(np.flatnonzero(gains != 200).tolist())
    found = search(fitted, [model], SearchOptions(starts=1, generations=130))
    errors = errors_of(plant, [model], [found.values[0][None]])[0, :, 0]
    assert errors[gains == 200].mean() < 0.033
