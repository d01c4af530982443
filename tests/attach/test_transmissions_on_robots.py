# SPDX-License-Identifier: Apache-2.0
"""Transmissions on robots in real engines: inertia of rotors, limits of motors, coupled joints."""

from __future__ import annotations

import logging

import mujoco
import numpy as np
import pytest

import actuon
import actuon.mujoco
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
        motor = 0.03
        speed = motor * 50.0 * 0.8 / (0.3 + 0.5) * 0.001
        np.testing.assert_allclose(robots.get_dof_velocities().numpy(), speed, rtol=2e-3)
        told = owner.telemetry()
        np.testing.assert_allclose(told.signals["motor_effort"], motor, rtol=1e-6)
        np.testing.assert_allclose(told.signals["gear_ratio"], 50.0)
        simulation.step(40)
        told, speeds = owner.telemetry(), robots.get_dof_velocities().numpy()
        assert (speeds * 50.0 > 1.0).all()
        np.testing.assert_allclose(told.applied_effort, motor * 50.0, rtol=1e-5)
        np.testing.assert_allclose(told.signals["dry_friction"], motor * 50.0 * 0.2, rtol=1e-5)
        np.testing.assert_allclose(speeds, 41 * speed, rtol=2e-3)
        owner.close()
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), held)


def test_joints_with_the_same_armature_are_named_in_one_warning(caplog):
    """A model loaded for a plain loop raises it as well."""
    spec = mujoco.MjSpec.from_string(WHEELS)
    spec.joint("second").armature = 0.2
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        actuon.mujoco.load(spec, chain(GEAR))
    assert caplog.messages == [
        "joints 'first', 'second': the asset's armature of 0.2 kg·m² is replaced by 0.5 kg·m², the inertia of the "
        "rotor at the joint"
    ]


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
        pairs = [(chain(LINKAGE, GEAR), "first"), (two, "second")]
        with (
            caplog.at_level(logging.WARNING, "actuon.actuators"),
            ArticulationActuators.from_actuators(robots.paths, pairs) as actuators,
        ):
            np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.4]] * 2, rtol=1e-6)
            for actuator in actuators.actuators:
                actuator.stages[-1].efficiency = 0.9
            simulation.step()
            simulation.step()
    (said,) = caplog.messages
    assert "the inertia of TransmissionGear is left out: behind TransmissionLinkage it depends" in said


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


WRIST = """<mujoco><option timestep="0.002"/><worldbody><body name="robot">
  <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
  <body name="yoke"><joint name="roll" axis="1 0 0" damping="0.1"/>
    <inertial pos="0 0 0" mass="0.3" diaginertia="0.01 0.01 0.01"/>
    <body name="hand"><joint name="pitch" axis="0 1 0" damping="0.1"/>
      <inertial pos="0.1 0 -0.2" mass="1" diaginertia="0.02 0.02 0.02"/></body></body>
</body></worldbody>{}</mujoco>"""
MOTORS = """<tendon>
  <fixed name="left"><joint joint="pitch" coef="2"/><joint joint="roll" coef="1.5"/></fixed>
  <fixed name="right"><joint joint="pitch" coef="2"/><joint joint="roll" coef="-1.5"/></fixed>
</tendon><actuator><motor name="left" tendon="left"/><motor name="right" tendon="right"/></actuator>"""
YAML = """actuators: {wrist: {
  joints: [pitch, roll],
  controller: {type: pd, kp: 30, kd: 1},
  transmission: {type: coupled, matrix: [[2, 1.5], [2, -1.5]]},
  clamping: [{type: max_effort, max_effort: 1.2}],
}}"""


def test_a_differential_moves_as_motors_at_mujocos_own_tendons(tmp_path):
    """Two motors that move pitch and roll of a wrist together, here and in the engine, with the same efforts."""
    (tmp_path / "wrist.xml").write_text(WRIST.format(""))
    (tmp_path / "wrist.actuon.yaml").write_text(YAML)
    model = mujoco.MjModel.from_xml_string(WRIST.format(MOTORS))
    data = mujoco.MjData(model)
    with MujocoSimulation(tmp_path / "wrist.xml", num_envs=3) as simulation:
        wrist = ArticulationActuators("robot")
        robots = wrist.articulation
        assert robots.dof_names == ["roll", "pitch"]
        assert wrist.actuators[0].transmission.row.numpy().tolist() == [1, 0] * 3
        rng = np.random.default_rng(0)
        limited = 0
        for t in range(300):
            if t % 50 == 0:
                robots.set_dof_position_targets(np.tile(rng.uniform(-0.8, 0.8, 2), (3, 1)))
            simulation.step()
            told = wrist.telemetry()
            right, left = told.signals["motor_effort"][0]  # in the place of roll, of row 1, is the second motor
            data.ctrl[:] = left, right
            mujoco.mj_step(model, data)
            np.testing.assert_allclose(data.actuator_velocity, data.ten_velocity)
            limited += np.count_nonzero(np.abs([left, right]) > 1.1999)
            np.testing.assert_allclose(robots.get_dof_positions().numpy(), [data.qpos] * 3, atol=1e-4)
        assert 50 < limited < 550
        np.testing.assert_allclose(told.applied_effort[0], [1.5 * (left - right), 2.0 * (left + right)], rtol=1e-5)
        wrist.reset([1])
        simulation.step()


def test_a_gear_behind_a_differential(tmp_path, caplog):
    """Limits are then those of the motors before their gears; their inertia cannot be an armature, which is said."""
    (tmp_path / "wrist.xml").write_text(WRIST.format(""))
    gear = actuon.GearTransmissionConfig(10.0, rotor_inertia=1e-4)
    stages = [
        actuon.PDControlConfig(30.0, 1.0),
        None,
        gear,
        actuon.MaxEffortClampingConfig(0.05),
    ]
    given = []
    for row, name in enumerate(("pitch", "roll")):
        stages[1] = actuon.CoupledTransmissionConfig([[2, 1.5], [2, -1.5]], row)
        given.append((actuon.ActuatorConfig(stages=stages), name))
    with MujocoSimulation(tmp_path / "wrist.xml") as simulation:
        wrist = ArticulationActuators.from_actuators("robot", given)
        wrist.articulation.set_dof_position_targets([[0.0, 3.0]])
        simulation.step()
        told = wrist.telemetry()
        np.testing.assert_allclose(told.signals["motor_effort"], 0.05, rtol=1e-6)
        np.testing.assert_allclose(told.applied_effort, [[0.0, 2.0 * 2 * 0.5]], atol=1e-6)
        assert (wrist.articulation.get_dof_armatures().numpy() == 0.0).all()
    assert "the inertia of TransmissionGear is left out: behind TransmissionCoupled" in caplog.text
