# SPDX-License-Identifier: Apache-2.0
"""Fits of robots in USD, which Newton reads and MuJoCo moves."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.fit import JointLog, Log, Model, RobotPlant
from tests.support.trials import residuals_of

pytest.importorskip("mujoco")
pytest.importorskip("newton")


def test_a_robot_in_usd_is_the_same_as_in_mjcf() -> None:
    time = np.arange(0.0, 0.4, 0.01)
    wave = 0.2 * np.sin(6.0 * time)
    at = {"joint2": 0.3, "joint4": -1.5}
    joints = tuple(JointLog(name, where + wave, where + wave) for name, where in at.items())
    log = Log("arm.csv", time, joints)
    config = actuon.ActuatorConfig(actuon.PDControlConfig(400.0, 20.0))
    models = [Model("pd", config, ()) for _ in joints]
    found = []
    for robot in (actuon.assets.arm_mjcf, actuon.assets.arm_usd):
        plant = RobotPlant(robot, [log])
        assert any("stand still" in finding for finding in plant.findings)
        found.append(residuals_of(plant, models, [np.zeros((1, 0))] * 2)[0])
    assert np.abs(found[0]).max() > 0.01
    np.testing.assert_allclose(*found, atol=2e-3)
