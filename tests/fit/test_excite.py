# SPDX-License-Identifier: Apache-2.0
"""Motions to record: within the limits, better than a usual one, and as telling as they were said to be."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

import actuon
from actuon.fit import JointLog, KnownLoadPlant, Log, SearchOptions, fit_logs
from actuon.fit.excite import ExcitationOptions, Experiment, Limits, Trajectories, excite, motion_of
from actuon.fit.model import from_unit, to_unit
from actuon.fit.refine import covariance, refine
from actuon.logs import save_log
from tests.fit.test_search import DT, MODEL, made_log, truth
from tests.support.command_line import command
from tests.support.pendulums import simulate

VALUES = truth(0)
START = np.array([VALUES[path] for path in MODEL.paths])
LIMITS = Limits(-1.2, 1.0, speed=6.0, effort=2.0)
SETTINGS = {"mass": 0.5, "length": 0.1}
SHORT = ExcitationOptions(seconds=4.0, generations=8)


def law(target, q, v):
    return VALUES["controller.kp"] * (target - q) - VALUES["controller.kd"] * v


def moved(time, motion, dt=0.0025):
    """The joint in NumPy, as the encoder shows it."""
    return simulate(
        time, motion, np.ones(len(time), bool), (0.0, 0.0), dt=dt, mass=0.5, length=0.1, law=law,
        friction={"dynamic": VALUES["friction.dynamic"]}, viscous=VALUES["friction.viscous"],
        armature=VALUES["transmission.reflected_inertia"], bias=VALUES["encoder.bias"], delay=VALUES["delay.delay"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return excite("knee", MODEL, START, LIMITS, SETTINGS, SHORT)


def test_any_numbers_make_a_motion_within_its_range_from_rest_to_rest():
    shapes = Trajectories(-0.5, 1.5, 0.0, 8.0, 100.0, 5)
    for seed in range(20):
        path = shapes.command(np.random.default_rng(seed).uniform(-0.2, 1.2, shapes.dimension))
        assert path.shape == shapes.time.shape == (801,)
        assert path.min() >= -0.5
        assert path.max() <= 1.5
        assert (path[:20] == 0.0).all()
        assert (path[-20:] == 0.0).all()
    rest = shapes.command(np.tile([0.25, 1.0, 0.5, 0.2, 0.5, 0.5], 5))
    np.testing.assert_allclose(rest, 0.0, atol=1e-12)


def test_a_motion_stays_within_the_limits_of_the_joint(found):
    position = moved(found.time, found.command)
    assert np.abs(position - found.position).max() < 0.02  # another step than the plant's
    assert position.min() >= LIMITS.low
    assert position.max() <= LIMITS.high
    assert np.abs(np.diff(position) / np.diff(found.time)).max() <= LIMITS.speed
    assert np.abs(found.effort).max() <= LIMITS.effort
    assert found.motion.speed <= LIMITS.speed
    assert found.effort[100] == pytest.approx(
        law(*(x[100] for x in (found.command, found.position, found.velocity))), abs=0.3
    )


def test_a_motion_tells_more_than_a_usual_one_and_the_same_with_the_same_seed(found):
    shapes = Trajectories(LIMITS.low, LIMITS.high, 0.0, SHORT.seconds, SHORT.rate, 3)
    experiment = Experiment("knee", MODEL, START, LIMITS, SETTINGS, shapes, None, SHORT.seed)
    usual, excess = experiment.within(shapes.command(shapes.usual())[None])
    assert excess[0] <= 0.0
    best, before = experiment.costs(np.stack([found.command, usual[0]]))
    assert best < before - 0.1
    again = excite("knee", MODEL, START, LIMITS, SETTINGS, SHORT)
    np.testing.assert_array_equal(again.command, found.command)


def test_a_motion_tells_what_it_was_said_to_tell(found):
    """Intervals of a fit to the motion, recorded with noise, are as wide as predicted, within a factor.

    Predictions do not contain the bias by the time step.
    """
    position = moved(found.time, found.command) + 2e-3 * np.random.default_rng(0).standard_normal(len(found.time))
    position[0] = 0.0
    joint = JointLog("knee", position, found.command, velocity=np.zeros(len(found.time)))
    plant = KnownLoadPlant([Log("recorded", found.time, (joint,), SETTINGS)], dt=0.0025)
    local = refine(plant, [MODEL], [START], 0, steps=0)
    share = to_unit(MODEL.parameters, local.values)
    width = 1.96 * np.sqrt(np.diag(covariance(local.jacobian, local.noise)))
    lows, highs = (from_unit(MODEL.parameters, np.clip(share + side * width, 0.0, 1.0)) for side in (-1.0, 1.0))
    pair = ("controller.kd", "friction.viscous")  # which look alike unless the motor is switched off
    assert any(pair[1] in sentence for sentence in found.open), found.open
    for one, low, high in zip(found.parameters, lows, highs, strict=True):
        wider = (high - low) / (one.after[1] - one.after[0])
        assert 0.3 < wider < (3.0 if one.path not in pair else 10.0), one
        assert one.before[0] <= one.after[0] < one.value < one.after[1] <= one.before[1]
        assert one.narrower < (0.5 if one.path not in pair else 1.0)


def test_with_logs_a_motion_adds_to_what_they_tell():
    plant = KnownLoadPlant([made_log(VALUES, 0)], dt=DT)
    local = refine(plant, [MODEL], [START], 0, steps=0)
    more = excite("joint", MODEL, START, LIMITS, SETTINGS, SHORT, local=local)
    for one, low, high in zip(more.parameters, local.low, local.high, strict=True):
        assert low <= 1.01 * one.before[0] + 1e-3  # a range is known too
        assert one.before[1] <= 1.01 * high + 1e-3
        assert one.narrower < 1.0
    assert more.narrower < 0.9
    assert len(more.told) == sum(one.narrower < 0.7 for one in more.parameters)


def test_a_motion_is_described():
    time = np.linspace(0.0, 10.0, 2001)
    found = motion_of(Log("wave", time, (JointLog("joint", 0.8 * np.sin(np.pi * time)),)), "joint")
    assert found.speed == pytest.approx(0.8 * np.pi, rel=0.01)
    assert found.reversals == 10
    assert found.slow < 0.05
    assert "up to 2.5 rad/s" in found.sentence()


def test_the_command_writes_a_motion_for_a_joint_that_was_never_recorded(tmp_path):
    path = tmp_path / "first.csv"
    options = ["--model", "pd_coulomb", "--load", "mass=0.5", "--load", "length=0.1", "--seconds", "3"]
    options += ["--limit", "position=-1:1.2", "--limit", "speed=5", "--generations", "4"]
    printed = command("fit", "excite", path, *options)
    assert "controller.kp" in printed
    assert "motion: from" in printed
    with path.open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["t", "cmd_joint"]
    time, motion = np.array(rows[1:], float).T
    assert time[-1] == pytest.approx(3.0)
    assert -1.0 <= motion.min() < motion.max() <= 1.2
    assert (tmp_path / "first.png").stat().st_size > 1000


def test_the_command_takes_up_what_logs_and_an_actuator_file_tell(tmp_path, complaint):
    plant = KnownLoadPlant([made_log(VALUES, 0)], dt=DT)
    save_log(tmp_path / "run.csv", plant.runs[0])
    quick = SearchOptions(starts=1, population=16, generations=5)
    fit_logs(model="pd_coulomb", plant=plant, options=quick).save(tmp_path / "joint.yaml")
    common = ["--seconds", "2", "--generations", "3", "--json"]
    found = command(
        "fit", "excite", tmp_path / "next.csv", tmp_path / "run.csv", "--actuators", tmp_path / "joint.yaml", *common
    )
    (entry,) = actuon.load_actuators(tmp_path / "joint.yaml")
    said = json.loads(found)["parameters"]
    assert said["controller.kp"]["value"] == pytest.approx(entry.actuator.controller.kp)
    assert said["controller.kp"]["narrower"] < 1.0
    found = command("fit", "excite", tmp_path / "fitted.csv", tmp_path / "run.csv", "--model", "pd", *common)
    assert list(json.loads(found)["parameters"]) == ["controller.kp", "controller.kd", *list(said)[2:5]]
    assert "fitted.csv' already exists" in complaint("fit", "excite", tmp_path / "fitted.csv")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--limit: a motion needs the range of the joint: --limit position=LOW:HIGH"),
        (["--limit", "position=1:-1"], "--limit position: got 1:-1; must be LOW:HIGH, with LOW < HIGH"),
        (["--limit", "position=1"], "--limit: got 'position=1'; must be position=LOW:HIGH, speed=MOST or effort=MOST"),
        (["--limit", "position=-1:1", "--limit", "speed=0"], "--limit speed: got 0; must be finite and > 0"),
        (["--limit", "position=-1:1"], "inertia [kg·m²], in the file or by --load"),
        (["--limit", "position=-1:1", "--load", "inertia=1", "--seconds", "0"], "--seconds: got 0; must be from 2 to"),
        (["--limit", "position=-1:1", "--load", "inertia=1", "--model", "servo_m1"], "a servo model needs commanded"),
    ],
)
def test_what_a_motion_cannot_be_made_of_is_refused(tmp_path, complaint, arguments, said):
    assert re.search(re.escape(said), complaint("fit", "excite", tmp_path / "x.csv", *arguments))
    assert "must be .csv" in complaint("fit", "excite", tmp_path / "x.txt")


def test_limits_that_nothing_keeps_are_said():
    with pytest.raises(actuon.ParameterError, match="found no motion within the limits"):
        excite(
            "knee", MODEL, START, Limits(0.5, 1.0, speed=0.01), SETTINGS, ExcitationOptions(seconds=2.0, generations=1)
        )
    with pytest.raises(actuon.ParameterError, match="has no free parameter"):
        excite("knee", actuon.fit.Model("none", MODEL.actuator, ()), np.zeros(0), LIMITS, SETTINGS, SHORT)
