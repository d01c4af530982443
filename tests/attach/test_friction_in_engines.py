# SPDX-License-Identifier: Apache-2.0
"""Friction in engines that solve it: handed over at each step, with the engine's loads; beside the engine's own."""

from __future__ import annotations

import logging

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.lab import ActuatorGroups, IdealPDActuator, IdealPDActuatorCfg
from actuon.sim import Articulation
from tests.support import oracle

DT = 0.005
WEIGHT = 9.81 * 0.15
"""Of a rod of 1 kg and 0.3 m, held out level [N·m]."""
LIMP = actuon.PDControlConfig(0.0, 0.0)
PENDULUM = """
<mujoco>
  <option timestep="0.005" integrator="{integrator}"><flag contact="disable"/></option>
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" {joint}/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""
FIRM = f'solreffriction="-1 {-1 / DT}" solimpfriction="0.9999 0.9999 0.001 0.5 2"'
ENGINES = pytest.mark.parametrize(
    ("engine", "num_envs"),
    [(MujocoSimulation, 1), (MujocoSimulation, 12), (NewtonSimulation, 1), (NewtonSimulation, 3)],
)


def pendulum(tmp_path, joint='frictionloss="0.05" damping="0.02"', integrator="Euler"):
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM.format(joint=joint, integrator=integrator))
    return path


def attach(simulation, *effects, controller=LIMP):
    config = actuon.ActuatorConfig(controller, effects=effects)
    paths = [robot.path for robot in simulation.robots]
    return ArticulationActuators.from_actuators(paths, [(config, "hinge")], simulation=simulation)


def held(simulation):
    """Return the engine's own friction, of its first environment."""
    if isinstance(simulation, MujocoSimulation):
        model = simulation.models[0]
    elif simulation.solver.use_mujoco_cpu:
        model = simulation.solver.mj_model
    else:
        model = simulation.solver.mjw_model
    found = {}
    for name in ("dof_frictionloss", "dof_damping", "dof_solref", "dof_solimp", "dof_armature"):
        value = getattr(model, name)
        found[name] = value.numpy()[0].copy() if hasattr(value, "numpy") else np.array(value)
    return found


@ENGINES
def test_a_joint_holds_under_gravity_and_the_engine_gets_its_own_back(engine, num_envs, tmp_path, caplog):
    """Each environment has friction of its own: below the threshold it stands, above it falls."""
    share = np.linspace(0.9, 1.11, num_envs) if num_envs > 1 else np.array([1.1])
    with engine(pendulum(tmp_path), num_envs=num_envs) as simulation:
        before = held(simulation)
        with caplog.at_level(logging.WARNING, "actuon.actuators"):
            actuators = attach(simulation, actuon.EffectFriction(dynamic=(WEIGHT * share).astype(np.float32)))
        assert "the asset's own friction is replaced" in caplog.text
        assert "hinge (0.05 N·m and 0.02 N·m·s/rad)" in caplog.text
        simulation.step(400)
        velocity = simulation.arrays.joint_qd.numpy()
        position = simulation.arrays.joint_q.numpy()
        stands = share > 1.0
        assert (np.abs(velocity[stands]) < 1e-4).all()
        assert (np.abs(position[stands]) < 5e-4).all()
        assert (position[~stands] > 0.1).all()
        assert held(simulation)["dof_frictionloss"][0] == np.float32(WEIGHT * share)[0]
        assert held(simulation)["dof_damping"][0] == 0.0
        actuators.close()
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)


@ENGINES
def test_the_budget_follows_the_load_that_the_engine_tells(engine, num_envs, tmp_path):
    """Gravity and the motor load the joint; its own dry friction is no load."""
    values = {
        "dynamic": 0.1, "static": 0.2, "stribeck_velocity": 0.2, "load_motor": 0.05, "load_external": 0.1,
        "load_external_stribeck": 0.3, "load_external_quadratic": 0.02,
    }  # fmt: skip
    with engine(pendulum(tmp_path), num_envs=num_envs) as simulation:
        controller = actuon.PDControlConfig(kp=1.0, kd=0.1, const_effort=-0.4)
        actuators = attach(simulation, actuon.FrictionEffectConfig(**values, viscous=0.02), controller=controller)
        simulation.step(1)
        for _ in range(40):
            position = simulation.arrays.joint_q.numpy().astype(float)
            velocity = simulation.arrays.joint_qd.numpy().astype(float)
            simulation.step(1)
            told = actuators.telemetry()
            load = WEIGHT * np.cos(position)
            expected = oracle.friction_budget(told.applied_effort[:, 0].astype(float), load, velocity, **values)
            np.testing.assert_allclose(told.signals["dry_friction"][:, 0], expected, rtol=0.01)
        assert (np.abs(velocity) > 0.05).all()


def test_loads_come_from_contacts_and_stops_too(tmp_path):
    """A rod that lies on its stop, pushed onto it by gravity: outside pushes cancel."""
    path = pendulum(tmp_path, 'range="-60 0" limited="true"')
    with MujocoSimulation(path) as simulation:
        actuators = attach(simulation, actuon.FrictionEffectConfig(load_external=0.5))
        simulation.step(600)
        assert actuators.telemetry().signals["dry_friction"][0, 0] < 0.01 * WEIGHT


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_as_the_engines_own_friction(integrator, tmp_path):
    """Where the models are the same, dry friction and damping from a file and from here give the same bits."""
    own = pendulum(tmp_path, f'frictionloss="0.25" damping="0.125" {FIRM}', integrator)
    model = mujoco.MjModel.from_xml_path(str(own))
    data = mujoco.MjData(model)
    data.qvel[0] = 4.0
    with MujocoSimulation(pendulum(tmp_path, "", integrator)) as simulation:
        actuators = attach(simulation, actuon.FrictionEffectConfig(dynamic=0.25, viscous=0.125))
        simulation.data[0].qvel[0] = 4.0
        for _ in range(600):
            mujoco.mj_step(model, data)
            simulation.step(1)
            assert simulation.data[0].qpos[0] == data.qpos[0]
            assert simulation.data[0].qvel[0] == data.qvel[0]
        actuators.close()


def test_bare_arrays_are_as_the_engine(tmp_path):
    """The implicit step of the law, integrated here, follows the engine's solve: sliding, stopping, holding."""
    dynamic, viscous = 0.5, 0.05
    model = mujoco.MjModel.from_xml_path(
        str(pendulum(tmp_path, f'frictionloss="{dynamic}" damping="{viscous}" {FIRM}', "implicitfast"))
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mass = np.zeros((1, 1))
    mujoco.mj_fullM(model, data, mass)
    friction = actuon.EffectFriction(dynamic, viscous, inertia=mass[0, 0])
    actuator = actuon.Actuator([0], actuon.ControllerPD(0.0, 0.0), effects=[friction])
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f", "joint_load")
    sim = {name: np.zeros(1, np.float32) for name in names}
    q, qd = 0.0, 3.0
    data.qvel[0] = qd
    error = 0.0
    for _ in range(800):
        mujoco.mj_step(model, data)
        load = WEIGHT * np.cos(q)
        sim["joint_qd"][:], sim["joint_load"][:], sim["joint_f"][:] = qd, load, 0.0
        actuator.step(sim, sim, dt=DT)
        qd += DT * (load + float(sim["joint_f"][0])) / mass[0, 0]
        q += DT * qd
        error = max(error, abs(q - data.qpos[0]))
    assert error < 2e-3
    assert abs(qd) < 1e-6
    assert abs(data.qvel[0]) < 1e-4


def test_the_default_friction_of_the_engine_creeps(tmp_path):
    """MuJoCo's friction gives way by default, and hardly with these settings, as the page on friction states."""
    drift = {}
    for name, solver in (("default", ""), ("firm", FIRM)):
        model = mujoco.MjModel.from_xml_path(str(pendulum(tmp_path, f'frictionloss="{WEIGHT / 0.9}" {solver}')))
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 2000)
        drift[name] = data.qpos[0]
    assert drift["default"] > 0.4
    assert drift["firm"] < 3e-4


class RubbingPD(IdealPDActuator):
    """Explicit PD with friction."""

    def make_stages(self):
        return [*super().make_stages(), actuon.EffectFriction(dynamic=WEIGHT * 1.1, viscous=0.1)]


def test_groups_hand_friction_over_too(tmp_path):
    with MujocoSimulation(pendulum(tmp_path), num_envs=3) as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        cfg = IdealPDActuatorCfg(["hinge"], stiffness=0.0, damping=0.0)
        cfg.class_type = RubbingPD
        groups = ActuatorGroups(robots, {"all": cfg})
        simulation.step(400)
        assert np.abs(simulation.arrays.joint_q.numpy()).max() < 5e-4
        np.testing.assert_allclose(simulation.models[2].dof_damping, 0.1, rtol=1e-6)
        groups.close()
        assert simulation.models[2].dof_damping[0] == 0.02
        assert simulation.models[2].dof_solimp[0, 0] == 0.9


def test_friction_keeps_to_its_own_joints(tmp_path):
    """Other joints keep the asset's friction, and its softness."""
    xml = PENDULUM.format(joint='damping="0.02"', integrator="Euler").replace(
        "</body>", '<body name="tip" pos="0.3 0 0"><joint name="wrist" axis="0 1 0" frictionloss="0.3"/>'
        '<geom size="0.02"/></body></body>', 1,
    )  # fmt: skip
    path = tmp_path / "two.xml"
    path.write_text(xml)
    with MujocoSimulation(path, num_envs=2) as simulation:
        actuators = attach(simulation, actuon.FrictionEffectConfig(dynamic=0.5))
        simulation.step(2)
        model = simulation.models[1]
        np.testing.assert_allclose(model.dof_frictionloss, [0.5, 0.3])
        np.testing.assert_array_equal(model.dof_solimp[:, 0], [0.9999, 0.9])
        np.testing.assert_array_equal(model.dof_damping, [0.0, 0.0])
        actuators.close()


def test_an_engine_that_solves_no_friction_needs_the_inertia(tmp_path):
    with NewtonSimulation(pendulum(tmp_path), dt=0.002, solver="featherstone") as simulation:
        with pytest.raises(actuon.StructureError, match="needs inertia"):
            attach(simulation, actuon.FrictionEffectConfig(dynamic=2.0))
        held_back = simulation.model.joint_damping.numpy().copy()
        actuators = attach(
            simulation,
            actuon.FrictionEffectConfig(dynamic=2.0, inertia=0.03),
            controller=actuon.PDControlConfig(0.0, 0.0, const_effort=1.8),
        )
        assert (simulation.model.joint_damping.numpy() == 0.0).all(), "the asset's own is off"
        simulation.step(1)
        assert abs(actuators.telemetry().applied_effort[0, 0]) < 1e-6
        actuators.close()
        np.testing.assert_array_equal(simulation.model.joint_damping.numpy(), held_back)
