# SPDX-License-Identifier: Apache-2.0
"""Transmissions on robots in real engines: inertia of rotors, limits of motors, coupled joints."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import actuon
from actuon import Articulation, ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.lab import ActuatorGroups, IdealPDActuator, IdealPDActuatorCfg

GEAR = actuon.GearTransmissionConfig(50.0, 0.8, rotor_inertia=2e-4)
"""At the joint: 0.5 kg·m²."""
LINKAGE = actuon.LinkageTransmissionConfig((-1.0, 1.0), (-2.0, 2.0))

WHEELS = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><body name="robot">
  <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
  <body name="link1"><joint name="first" axis="0 0 1" armature="0.2"/>
    <inertial pos="0 0 0" mass="1" diaginertia="0.3 0.3 0.3"/></body>
  <body name="link2"><joint name="second" axis="0 0 1"/>
    <inertial pos="0 0 0" mass="1" diaginertia="0.3 0.3 0.3"/></body>
</body></worldbody></mujoco>"""


def wheels(tmp_path, engine, num_envs=2):
    """Two wheels of 0.3 kg·m² side by side; the first has an armature of its own."""
    path = tmp_path / "wheels.xml"
    path.write_text(WHEELS)
    return (MujocoSimulation if engine == "mujoco" else NewtonSimulation)(path, num_envs=num_envs)


def chain(*stages):
    return actuon.ActuatorConfig(stages=[actuon.PDControlConfig(0.0, 0.0), *stages])


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_the_inertia_of_a_rotor_is_the_joints_armature_once(engine, tmp_path, caplog):
    """In place of the asset's, which is said; physics has it; it is given back."""
    with wheels(tmp_path, engine) as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        held = robots.get_dof_armatures().numpy().copy()
        np.testing.assert_allclose(held, [[0.2, 0.0]] * 2, rtol=1e-6)
        given = [(chain(GEAR, actuon.MaxEffortClampingConfig(0.03)), name) for name in ("first", "second")]
        with caplog.at_level(logging.WARNING, "actuon.actuators"):
            owner = ArticulationActuators.from_actuators(robots.paths, given)
        (said,) = caplog.messages
        assert "joint 'first': the asset's armature of 0.2 kg·m² is replaced by 0.5 kg·m²" in said
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), 0.5, rtol=1e-6)
        owner.set_dof_feedforward_effort_targets(np.full((2, 2), 100.0))
        simulation.step()
        motor = 0.03  # at rest nothing is lost
        speed = motor * 50.0 / (0.3 + 0.5) * 0.001
        np.testing.assert_allclose(robots.get_dof_velocities().numpy(), speed, rtol=2e-3)
        told = owner.telemetry()
        np.testing.assert_allclose(told.signals["motor_effort"], motor, rtol=1e-6)
        np.testing.assert_allclose(told.signals["gear_ratio"], 50.0)
        simulation.step(40)
        told, speeds = owner.telemetry(), robots.get_dof_velocities().numpy()
        assert (speeds * 50.0 > 1.0).all()
        np.testing.assert_allclose(told.applied_effort, motor * 50.0 * 0.8, rtol=1e-5)
        owner.close()
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), held)


def test_gears_without_inertia_leave_the_assets_armature(tmp_path, caplog):
    with wheels(tmp_path, "mujoco") as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        held = robots.get_dof_armatures().numpy().copy()
        given = [(chain(actuon.GearTransmissionConfig(50.0)), "first"), (chain(GEAR), "second")]
        with ArticulationActuators.from_actuators(robots.paths, given):
            np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.5]] * 2, rtol=1e-6)
        assert not caplog.messages
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), held)
        assert [model.dof_armature[0] for model in simulation.models] == [0.2, 0.2]


def test_gears_behind_gears_and_behind_linkages(tmp_path, caplog):
    two = chain(actuon.GearTransmissionConfig(-2.0), actuon.GearTransmissionConfig(5.0, reflected_inertia=0.1))
    with wheels(tmp_path, "mujoco") as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        with ArticulationActuators.from_actuators(robots.paths, [(chain(LINKAGE, GEAR), "first"), (two, "second")]):
            np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.4]] * 2, rtol=1e-6)
    (said,) = caplog.messages
    assert "the inertia of TransmissionGear is left out: behind TransmissionLinkage it is not the same" in said


def test_one_inertia_for_each_robot(tmp_path):
    gear = actuon.TransmissionGear(10.0, rotor_inertia=np.array([1e-3, 2e-3]))
    with wheels(tmp_path, "mujoco") as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        with ArticulationActuators.from_actuators(robots.paths, [(chain(gear), "second")]):
            np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.1], [0.2, 0.2]], rtol=1e-6)
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.0]] * 2, rtol=1e-6)


class GearedPD(IdealPDActuator):
    def make_stages(self):
        controller, *others = super().make_stages()
        return [controller, actuon.TransmissionGear(50.0, rotor_inertia=2e-4), *others]


def test_groups_hand_it_over_too(tmp_path, caplog):
    with wheels(tmp_path, "mujoco") as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        cfg = IdealPDActuatorCfg([".*"], GearedPD, stiffness=0.0, damping=0.0, effort_limit=1.0)
        with caplog.at_level(logging.WARNING, "actuon.actuators"), ActuatorGroups(robots, {"both": cfg}):
            np.testing.assert_allclose(robots.get_dof_armatures().numpy(), 0.5, rtol=1e-6)
        assert "0.2 kg·m² is replaced by 0.5 kg·m²" in caplog.text
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.0]] * 2, rtol=1e-6)
