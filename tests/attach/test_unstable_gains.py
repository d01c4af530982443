# SPDX-License-Identifier: Apache-2.0
"""Motors that are put on a robot with unstable gains are reported, with fixes, by every door."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import actuon
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg

mujoco = pytest.importorskip("mujoco")
PENDULUM = """<mujoco><option timestep="0.005"/><worldbody><body name="base"><body>
<joint name="hip" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".2"/></body></body>
</worldbody></mujoco>"""
GAINS = {"stable": (5.0, 0.1), "unstable": (50.0, 5.0)}


def pairs(gains, **options):
    return [(actuon.ActuatorConfig(actuon.PDControlConfig(*GAINS[gains]), **options), "hip")]


def attached(robot, gains):
    with actuon.MujocoSimulation(robot):
        actuon.ArticulationActuators.from_actuators("base", pairs(gains))


def in_groups(robot, gains):
    kp, kd = GAINS[gains]
    with actuon.MujocoSimulation(robot):
        ActuatorGroups(
            actuon.Articulation("base"), {"all": IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=kp, damping=kd)}
        )


def loaded(robot, gains):
    actuon.mujoco.load(robot, pairs(gains)[0][0])


def gymnasium(robot, gains):
    pytest.importorskip("gymnasium")
    config = pairs(gains)[0][0]
    actuon.gym.RobotEnv(robot, motors=config, num_envs=3, reward=lambda envs: np.zeros(3)).close()


def in_newton(robot, gains):
    pytest.importorskip("newton")
    with actuon.NewtonSimulation(robot):
        actuon.ArticulationActuators.from_actuators("base", pairs(gains))


DOORS = (attached, in_groups, loaded, gymnasium, in_newton)


@pytest.mark.parametrize("gains", GAINS)
@pytest.mark.parametrize("door", DOORS)
def test_unstable_gains_are_reported(door, gains, tmp_path, caplog):
    robot = tmp_path / "robot.xml"
    robot.write_text(PENDULUM)
    with caplog.at_level(logging.WARNING, logger="actuon"):
        door(robot, gains)
    said = [record.getMessage() for record in caplog.records if record.name == "actuon.stability"]
    assert len(said) == (gains == "unstable")
    for text in said:
        assert "unstable at dt = 5 ms (" in text
        assert "- lower gains: hip kp " in text
        assert "- effort_mode: implicit" in text


@pytest.mark.parametrize("mode", ["implicit", "auto"])
def test_implicit_efforts_are_not_reported(mode, tmp_path, caplog):
    robot = tmp_path / "robot.xml"
    robot.write_text(PENDULUM)
    with caplog.at_level(logging.WARNING, logger="actuon"), actuon.MujocoSimulation(robot):
        actuon.ArticulationActuators.from_actuators("base", pairs("unstable", effort_mode=mode))
        kp, kd = GAINS["unstable"]
    with actuon.MujocoSimulation(robot):
        ActuatorGroups(
            actuon.Articulation("base"), {"all": ImplicitActuatorCfg(joint_names_expr=[".*"], stiffness=kp, damping=kd)}
        )
    assert not [record for record in caplog.records if record.name == "actuon.stability"]


def test_check_reports_by_itself(tmp_path, caplog):
    robot = tmp_path / "robot.xml"
    robot.write_text(PENDULUM)
    with caplog.at_level(logging.WARNING, logger="actuon"):
        assert not actuon.check(robot, actuators=pairs("unstable")).stable
    assert not [record for record in caplog.records if record.name == "actuon.stability"]
