# SPDX-License-Identifier: Apache-2.0
"""Torque-speed polygons: four quadrants, other when braking than when driving."""

from __future__ import annotations

import math

import numpy as np
import pytest

import actuon
from tests.components.test_components import clamp_alone
from tests.support import oracle
from tests.support.robot_files import add, robot

Config = actuon.TorqueSpeedClampingConfig
SPEEDS = np.array([0.0, 5.0, 13.5, 21.75, 30.0, 50.0, -5.0, -21.75, -50.0, math.inf, -math.inf])


def bounds(clamp, speeds=SPEEDS):
    """Lowest and highest effort at each speed."""
    return [clamp_alone(clamp, np.full(len(speeds), effort), speeds, speeds) for effort in (-1e6, 1e6)]


def test_driving_and_braking_have_limits_of_their_own():
    clamp = Config.symmetric([(0.0, 20.0), (13.5, 20.0), (30.0, 0.0)], [(0.0, 24.0), (30.0, 12.0)]).build()
    lowest, highest = bounds(clamp)
    driving = [24.0, 20.0, 20.0, 10.0, 0.0, 0.0]
    braking = [-24.0, -22.0, -18.6, -15.3, -12.0, -12.0]
    np.testing.assert_allclose(highest, [*driving, 22.0, 15.3, 12.0, 0.0, 12.0], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(lowest, [*braking, -20.0, -10.0, 0.0, -12.0, 0.0], rtol=1e-6, atol=1e-5)


def test_braking_is_by_default_with_the_largest_driving_effort():
    expected = Config.symmetric([(0.0, 20.0), (30.0, 0.0)], [(0.0, 20.0)])
    assert Config.symmetric([(0.0, 20.0), (30.0, 0.0)]) == expected


def test_an_effort_after_a_jump_is_held():
    clamp = Config.symmetric([(0.0, 20.0), (13.5, 20.0), (13.5, 0.0)]).build()
    lowest, highest = bounds(clamp)
    assert list(highest[:6]) == [20.0, 20.0, 20.0, 0.0, 0.0, 0.0]
    assert (lowest[:6] == -20.0).all()
    flat = Config.symmetric([(0.0, 7.0)]).build()
    assert (np.abs(bounds(flat)) == 7.0).all()


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("order", [1, -1])
def test_corners_may_start_anywhere_and_go_around_either_way(shift, order):
    corners = np.array([(-10.0, -1.0), (4.0, -8.0), (12.0, -3.0), (9.0, 5.0), (-6.0, 11.0)])
    given = np.roll(corners, shift, axis=0)[::order]
    speeds = np.linspace(-15.0, 15.0, 31)
    for effort in (-100.0, 0.5, 100.0):
        result = clamp_alone(actuon.ClampingTorqueSpeed(given), np.full(31, effort), speeds, speeds)
        expected = oracle.torque_speed(np.full(31, effort), None, speeds, *corners.T)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_the_envelope_of_a_dc_motor_as_a_polygon():
    stall, no_load, most = 20.0, 10.0, 15.0
    knee, corner = no_load * (1 - most / stall), no_load * (1 + most / stall)
    half = [(-knee, most), (knee, most), (corner, -most)]
    clamp = actuon.ClampingTorqueSpeed([*half, *((-v, -e) for v, e in half[1:]), (-corner, most)][:6])
    speeds = np.linspace(-20.0, 20.0, 41)
    dc_motor = actuon.ClampingDCMotor(stall, no_load, most)
    for effort in (-1e3, -12.0, 3.0, 1e3):
        efforts = np.full(41, effort)
        results = [clamp_alone(which, efforts, speeds, speeds) for which in (clamp, dc_motor)]
        np.testing.assert_allclose(*results, atol=1e-4)


def test_nan_passes():
    clamp = actuon.ClampingTorqueSpeed([(-1.0, -2.0), (1.0, -2.0), (1.0, 2.0), (-1.0, 2.0)])
    assert np.isnan(clamp_alone(clamp, [math.nan, math.nan], [0.0, 0.0], [0.0, 9.0])).all()


def test_corners_are_live():
    clamp = actuon.ClampingTorqueSpeed([(-10.0, -5.0), (10.0, -5.0), (10.0, 5.0), (-10.0, 5.0)])
    assert bounds(clamp, np.zeros(3))[1][0] == 5.0
    clamp.efforts = [-5.0, -5.0, 8.0, 8.0]
    assert bounds(clamp, np.zeros(3))[1][0] == 8.0
    with pytest.raises(actuon.ParameterError, match="crossed at a speed of"):
        clamp.efforts = [-5.0, 5.0, -5.0, 8.0]
    assert bounds(clamp, np.zeros(3))[1][0] == 8.0


def test_yaml_and_usd_carry_it(tmp_path):
    config = Config.symmetric([(0.0, 20.2), (13.5, 20.2), (30.0, 0.0)], [(0.0, 23.4), (13.5, 23.4), (30.0, 0.0)])
    actuator = actuon.ActuatorConfig(actuon.PDControlConfig(25.0, 0.5), [config])
    entry = actuon.ActuatorEntry("legs", (".*",), actuator)
    actuon.save_actuators(tmp_path / "legs.yaml", [entry])
    assert "type: torque_speed" in (tmp_path / "legs.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "legs.yaml") == [entry]
    stage = robot()
    assert actuon.parse_actuator_prim(add(stage, actuator)).config == actuator
    assert "ActuonTorqueSpeedClampingAPI" in stage.GetRootLayer().ExportToString()


@pytest.mark.parametrize(
    ("points", "rule"),
    [
        ([(0.0, 1.0), (1.0, 1.0)], "got 2 corners; must be at least 3"),
        ([], "got 0 corners"),
        ([(1.0, 0.0), (1.0, 1.0), (1.0, 2.0)], "their difference must be > 0"),
        ([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)], "all corners are on one line"),
        ([(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)], r"corner 2, \(0, 1\): speeds must rise once and fall once"),
        ([(0.0, 0.0), (4.0, 0.0), (4.0, 3.0), (2.0, -1.0), (0.0, 3.0)], "have crossed at a speed of 2"),
        ([(0.0, 0.0), (1.0, 5.0), (1.0, 7.0), (1.0, -5.0)], r"corner 2, \(1, 7\): the polygon reverses its direction"),
        ([(0.0, 0.0), (1.0, math.nan), (2.0, 1.0)], "efforts: got nan at index 1"),
        ([(0.0, 0.0), (math.inf, 1.0), (2.0, 1.0)], "speeds: got inf at index 1"),
        ([(-3e38, 0.0), (3e38, 0.0), (0.0, 1.0)], "> 0 and finite"),
        ([(0.0, 1.0, 2.0)], "must be pairs of a speed and an effort"),
        ([(0.0, (1.0, 2.0)), (1.0, 2.0), (3.0, 1.0)], "must be pairs of a speed and an effort"),
        (["ab", "cd", "ef"], "must be pairs of a speed and an effort"),
        (7.0, "must be pairs of a speed and an effort"),
    ],
)
def test_what_is_not_a_polygon_is_refused_with_the_rule(points, rule):
    with pytest.raises(actuon.ParameterError, match=rule):
        actuon.ClampingTorqueSpeed(points)
    with pytest.raises(actuon.ParameterError, match=rule):
        Config.from_points(points)


def test_what_is_not_a_curve_is_refused_with_the_rule():
    for curve in ([], [(5.0, 1.0), (3.0, 1.0)], [(-1.0, 1.0)], [(0.0, -1.0)]):
        with pytest.raises(actuon.ParameterError, match="driving: got .* both ≥ 0; speeds must not decrease"):
            Config.symmetric(curve)
    with pytest.raises(actuon.ParameterError, match="driving: got 7; must be pairs"):
        Config.symmetric(7)
    with pytest.raises(actuon.ParameterError, match="braking: got nan"):
        Config.symmetric([(0.0, 1.0)], [(0.0, math.nan)])
    with pytest.raises(actuon.ParameterError, match="pass either points, or speeds and efforts"):
        actuon.ClampingTorqueSpeed()
    with pytest.raises(actuon.ParameterError, match="got 2 speeds and 3 efforts"):
        actuon.ClampingTorqueSpeed(speeds=[0.0, 1.0], efforts=[0.0, 1.0, 2.0])
