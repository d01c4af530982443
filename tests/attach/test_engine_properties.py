# SPDX-License-Identifier: Apache-2.0
"""Joint properties that the engine solves next to motors: inertia, friction, gravity compensation, flags."""

from __future__ import annotations

import dataclasses
import logging

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg
from actuon.sim import Articulation, engine
from actuon.sim.mujoco import rows as rows_of_mujoco
from actuon.sim.newton import rows as rows_of_newton

DT = 0.002
MODEL = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast" gravity="0 0 {gravity}" {option}>
    <flag contact="disable" {flags}/>
  </option>
  <worldbody>
    <body name="arm" {body}>
      <joint name="hinge" type="hinge" axis="0 1 0" {joint}/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/>
      <body name="tip" pos="0.3 0 0" {body}>
        <joint name="wrist" type="hinge" axis="0 1 0" armature="0.01"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 0" size="0.02" mass="0.1"/>
      </body>
    </body>
  </worldbody>
  {tendon}
  <actuator>{actuator}</actuator>
</mujoco>
"""
FIELDS = (
    "dof_armature",
    "dof_damping",
    "dof_dampingpoly",
    "actuator_armature",
    "actuator_damping",
    "actuator_dampingpoly",
)
MOTOR = '<motor name="drive" joint="hinge" gear="2" armature="0.0125" damping="0.25 0.1 0.05"/>'
TENDON = '<tendon><fixed name="both"><joint joint="hinge" coef="2"/><joint joint="wrist" coef="1"/></fixed></tendon>'
LIMP = actuon.PDControlConfig(0.0, 0.0)
ENGINES = [(MujocoSimulation, 1), (MujocoSimulation, 3), (NewtonSimulation, 1)]


@pytest.fixture
def robot(tmp_path):
    """Write the robot with attributes of its own."""

    def write(actuator="", gravity=-9.81, **parts):
        given = dict.fromkeys(("option", "flags", "body", "joint", "tendon"), "") | parts
        path = tmp_path / "robot.xml"
        path.write_text(MODEL.format(actuator=actuator, gravity=gravity, **given))
        return path

    return write


def everyone(simulation):
    return [robot.path for robot in simulation.robots]


def attach(simulation, config, joints=("hinge",)):
    pairs = [(config, name) for name in joints]
    return ArticulationActuators.from_actuators(everyone(simulation), pairs, simulation=simulation)


def held(simulation):
    """Return the engine's own value, of its last environment."""
    model = simulation.models[-1] if isinstance(simulation, MujocoSimulation) else simulation.solver.mj_model
    return {name: np.array(getattr(model, name)) for name in FIELDS}


def rolled(path, steps, speed=0.0, effort=0.0, **fields):
    """Velocities after plain steps of MuJoCo, with other values in fields of the first DOF and without actuators'."""
    model = mujoco.MjModel.from_xml_path(str(path))
    for name in ("actuator_armature", "actuator_damping", "actuator_dampingpoly"):
        getattr(model, name)[:] = 0.0
    for name, value in fields.items():
        getattr(model, name)[0] = value
    data = mujoco.MjData(model)
    data.qvel[0], data.qfrc_applied[0] = speed, effort
    mujoco.mj_step(model, data, steps)
    return data.qvel.copy()


def test_the_reference_knows_what_an_actuator_adds(robot):
    """MuJoCo adds gear² times armature and damping of an actuator at its joint."""
    path = robot(MOTOR)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qvel[0], data.qfrc_applied[0] = 4.0, 0.3
    mujoco.mj_step(model, data, 50)
    same = rolled(path, 50, 4.0, 0.3, dof_armature=0.05, dof_damping=1.0, dof_dampingpoly=(0.4, 0.2))
    np.testing.assert_allclose(data.qvel, same, rtol=1e-9)


@pytest.mark.parametrize(("engine", "num_envs"), ENGINES)
def test_inertia_of_a_rotor_replaces_that_of_the_robots_actuator(engine, num_envs, robot, caplog):
    path = robot('<motor name="drive" joint="hinge" gear="2" armature="0.0125"/>')
    gear = actuon.GearTransmissionConfig(5.0, rotor_inertia=0.004)
    config = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0, const_effort=0.3), transmission=gear)
    with engine(path, num_envs=num_envs) as simulation:
        before, robots = held(simulation), Articulation(everyone(simulation))
        np.testing.assert_allclose(robots.get_dof_armatures().numpy()[:, 0], 0.05, rtol=1e-6)
        with caplog.at_level(logging.WARNING, "actuon.actuators"):
            actuators = attach(simulation, config)
        assert "armature of 0.05 kg·m² is replaced by 0.1 kg·m²" in caplog.text
        np.testing.assert_allclose(robots.get_dof_armatures().numpy()[:, 0], 0.1, rtol=1e-6)
        simulation.step(20)
        expected = rolled(path, 20, effort=0.3, dof_armature=0.1)
        np.testing.assert_allclose(robots.get_dof_velocities().numpy()[:, 0], expected[0], rtol=1e-4)
        actuators.close()
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)
        np.testing.assert_allclose(robots.get_dof_armatures().numpy()[:, 0], 0.05, rtol=1e-6)


@pytest.mark.parametrize(
    ("engine", "num_envs", "of"),
    [*((*engine, "actuator") for engine in ENGINES), *((*engine, "joint") for engine in ENGINES[:2])],
)
def test_friction_of_a_chain_replaces_all_damping_of_the_robot(engine, num_envs, of, robot, caplog):
    """Damping with the square and the cube of the speed is replaced as well. Newton reads neither of a joint."""
    if of == "joint":
        path = robot('<motor joint="hinge"/>', joint='damping="1 0.4 0.2"')
    else:
        path = robot(MOTOR.replace('armature="0.0125"', ""))
    config = actuon.ActuatorConfig(LIMP, effects=[actuon.FrictionEffectConfig(viscous=0.02)])
    with engine(path, num_envs=num_envs) as simulation:
        before, robots = held(simulation), Articulation(everyone(simulation))
        np.testing.assert_allclose(robots.get_dof_friction()[1].numpy()[:, 0], 1.0, rtol=1e-6)
        with caplog.at_level(logging.WARNING, "actuon.actuators"):
            actuators = attach(simulation, config)
        assert "hinge (1 N·m·s/rad and 0.4 N·m·s²/rad² and 0.2 N·m·s³/rad³)" in caplog.text
        robots.set_dof_velocities(np.tile(np.float32([4.0, 0.0]), (num_envs, 1)))
        simulation.step(250)
        expected = rolled(path, 250, 4.0, dof_damping=0.02, dof_dampingpoly=(0.0, 0.0))
        np.testing.assert_allclose(robots.get_dof_velocities().numpy()[:, 0], expected[0], rtol=1e-3)
        actuators.close()
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_a_randomised_share_of_what_actuators_add_is_a_share_of_all(robot):
    """Getter and setter speak of the same: reading and writing back, times a factor, is that factor in the motion."""
    path = robot(MOTOR)
    with MujocoSimulation(path, num_envs=2) as simulation:
        robots = Articulation(everyone(simulation))
        factors = np.float32([[1.0, 1.0], [1.5, 1.0]])
        robots.set_dof_armatures(robots.get_dof_armatures().numpy() * factors)
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.05, 0.01], [0.075, 0.01]], rtol=1e-6)
        robots.set_dof_friction(viscous=robots.get_dof_friction()[1].numpy() * factors)
        np.testing.assert_allclose(robots.get_dof_friction()[1].numpy(), [[1.0, 0.0], [1.5, 0.0]], rtol=1e-6)
        robots.set_dof_velocities(np.tile(np.float32([4.0, 0.0]), (2, 1)))
        simulation.step(20)
        for row, factor in enumerate((1.0, 1.5)):
            own = {"dof_armature": 0.05 * factor, "dof_damping": factor, "dof_dampingpoly": (0.4, 0.2)}
            np.testing.assert_allclose(
                robots.get_dof_velocities().numpy()[row], rolled(path, 20, 4.0, **own), rtol=1e-4
            )


def test_what_an_actuator_adds_through_a_tendon_goes_with_all_of_its_joints(robot):
    path = robot('<motor name="drive" tendon="both" gear="2" armature="0.0125" damping="0.25"/>', tendon=TENDON)
    gear = actuon.GearTransmissionConfig(5.0, rotor_inertia=0.004)
    config = actuon.ActuatorConfig(LIMP, transmission=gear, effects=[actuon.FrictionEffectConfig(viscous=0.02)])
    with MujocoSimulation(path) as simulation:
        before, robots = held(simulation), Articulation(everyone(simulation))
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.2, 0.06]], rtol=1e-6)
        with pytest.raises(
            actuon.SimulationError, match="actuator 'drive' moves hinge, wrist together: set all or none"
        ):
            robots.set_dof_armatures([[0.1]], dof_indices=[0])
        assert all((held(simulation)[name] == before[name]).all() for name in FIELDS)
        actuators = attach(simulation, config, ("hinge", "wrist"))
        assert not held(simulation)["actuator_armature"].any()
        assert not held(simulation)["actuator_damping"].any()
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.1, 0.1]], rtol=1e-6)
        actuators.close()
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_several_environments_of_newton_refuse_what_they_cannot_replace(robot):
    """MuJoCo Warp folds damping of actuators into that of joints."""
    config = actuon.ActuatorConfig(LIMP, effects=[actuon.FrictionEffectConfig(viscous=0.02)])
    with NewtonSimulation(robot(MOTOR.replace('armature="0.0125"', "")), num_envs=2) as simulation:
        np.testing.assert_allclose(Articulation(everyone(simulation)).get_dof_friction()[1].numpy()[:, 0], 1.0)
        before = simulation.solver.mjw_model.dof_damping.numpy().copy()
        with pytest.raises(actuon.SimulationError, match=r"own actuators add 1 to it, which MuJoCo Warp cannot drop"):
            attach(simulation, config)
        with pytest.raises(actuon.SimulationError, match="adds damping of the robot's actuators"):
            attach(simulation, actuon.ActuatorConfig(LIMP, effort_mode="implicit"))
        np.testing.assert_array_equal(simulation.solver.mjw_model.dof_damping.numpy(), before)


@pytest.mark.parametrize(
    ("solver", "armature", "viscous"), [("xpbd", 0.0, 0.0), ("semi_implicit", 0.0, 0.2), ("featherstone", 0.1, 0.2)]
)
def test_what_a_solver_of_newton_makes_no_use_of_is_zero(solver, armature, viscous, robot):
    path = robot(joint='armature="0.1" damping="0.2" frictionloss="0.3"')
    with NewtonSimulation(path, solver=solver) as simulation:
        robots = Articulation(everyone(simulation))
        dry, damping = (values.numpy()[0, 0] for values in robots.get_dof_friction())
        np.testing.assert_allclose([robots.get_dof_armatures().numpy()[0, 0], dry, damping], [armature, 0.0, viscous])
        assert np.isinf(robots.get_dof_max_efforts().numpy()).all()


def test_an_armature_has_no_upper_limit(robot):
    with NewtonSimulation(robot()) as simulation:
        robots = Articulation(everyone(simulation))
        robots.set_dof_armatures([2.0e6, 1.0])
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), [[2.0e6, 1.0]])


@pytest.mark.parametrize(("engine", "num_envs"), ENGINES)
@pytest.mark.parametrize("flag", ["frictionloss", "constraint", "damper"])
def test_friction_that_the_engine_leaves_out_is_done_by_the_chain_or_refused(flag, engine, num_envs, robot):
    """The weight of the arm is held by dry friction, whatever the model switches off."""
    path = robot(flags=f'{flag}="disable"')
    friction = {"dynamic": 5.0, "viscous": 0.1}
    with engine(path, num_envs=num_envs) as simulation:
        before = held(simulation)
        with pytest.raises(actuon.StructureError, match="needs inertia"):
            attach(simulation, actuon.ActuatorConfig(LIMP, effects=[actuon.FrictionEffectConfig(**friction)]))
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)
        config = actuon.ActuatorConfig(LIMP, effects=[actuon.FrictionEffectConfig(**friction, inertia=0.03)])
        with attach(simulation, config):
            simulation.step(200)
            assert np.abs(Articulation(everyone(simulation)).get_dof_positions().numpy()[:, 0]).max() < 0.02


@pytest.mark.parametrize(("engine", "num_envs"), ENGINES)
@pytest.mark.parametrize("flag", ["frictionloss", "damper"])
def test_none_of_a_friction_that_is_switched_off_can_be_set(flag, engine, num_envs, robot, caplog):
    """The result of the getter can be written back, and a group without friction reports none."""
    path = robot(joint='damping="0.2" frictionloss="0.3"', flags=f'{flag}="disable"')
    cfg = IdealPDActuatorCfg(["hinge"], stiffness=0.0, damping=0.0, friction=0.0, viscous_friction=0.0)
    with engine(path, num_envs=num_envs) as simulation:
        robots = Articulation(everyone(simulation))
        robots.set_dof_friction(*robots.get_dof_friction())
        with pytest.raises(actuon.SimulationError, match="(ignores|does not use) the .*friction of joints"):
            robots.set_dof_friction(0.1, 0.1)
        with caplog.at_level(logging.WARNING, "actuon.lab"):
            ActuatorGroups(robots, {"all": cfg}).close()
        assert ": not set" not in caplog.text
        with caplog.at_level(logging.WARNING, "actuon.lab"):
            ActuatorGroups(robots, {"all": dataclasses.replace(cfg, friction=0.1, viscous_friction=0.1)}).close()
        assert ": not set" in caplog.text


def test_flags_that_are_switched_off_under_friction_are_refused_at_the_next_step(robot):
    flag = int(mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS)
    with MujocoSimulation(robot()) as simulation:
        config = actuon.ActuatorConfig(LIMP, effects=[actuon.FrictionEffectConfig(dynamic=5.0)])
        with attach(simulation, config):
            simulation.step(10)
            simulation.models[0].opt.disableflags |= flag
            with pytest.raises(actuon.SimulationError, match="has frictionloss switched off in its <option>"):
                simulation.step(1)
            assert simulation.time == pytest.approx(10 * DT)
            simulation.models[0].opt.disableflags &= ~flag
            simulation.step(1)
        simulation.models[0].opt.disableflags |= flag
        simulation.step(1)


def implicit(simulation, **gains):
    robots = Articulation(everyone(simulation))
    given = {"stiffness": 40.0, "damping": 2.0} | gains
    return ActuatorGroups(robots, {"all": ImplicitActuatorCfg(["hinge"], **given)})


SERVO = '<position name="servo" joint="hinge" kp="30" kv="1" group="2"/>'
ALL_GROUPS = " ".join(map(str, range(31)))
OFF = {
    "all": ({"flags": 'actuation="disable"'}, "has actuation switched off in its (<option>|options)"),
    "group": ({"option": 'actuatorgroupdisable="2"'}, "has group 2 of actuators switched off .* that of 'servo'"),
}


@pytest.mark.parametrize(
    ("engine", "num_envs", "off"), [*((*engine, "all") for engine in ENGINES), (MujocoSimulation, 1, "group")]
)
def test_an_implicit_group_whose_drive_is_switched_off_is_refused(engine, num_envs, off, robot):
    parts, message = OFF[off]
    with engine(robot(SERVO, **parts), num_envs=num_envs) as simulation:
        robots = Articulation(everyone(simulation))
        gains = [values.numpy() for values in robots.get_dof_gains()]
        with pytest.raises(actuon.SimulationError, match=message):
            implicit(simulation)
        for values, before in zip(robots.get_dof_gains(), gains, strict=True):
            np.testing.assert_array_equal(values.numpy(), before)
        with implicit(simulation, stiffness=0.0, damping=0.0):
            simulation.step(1)


@pytest.mark.parametrize(
    "parts", [{"flags": 'actuation="disable"'}, {"option": f'actuatorgroupdisable="{ALL_GROUPS}"'}]
)
def test_no_drive_is_added_to_a_model_that_switches_all_of_them_off(parts, robot):
    with MujocoSimulation(robot(**parts)) as simulation:
        with pytest.raises(actuon.SimulationError, match="switched off.* drive hinge with explicit"):
            implicit(simulation)
        assert simulation.models[0].nactuator == 0


def test_an_added_drive_is_in_a_group_that_is_switched_on(robot):
    """The model's default class may have its actuators in another group."""
    path = robot('<motor joint="wrist"/>', option='actuatorgroupdisable="0"')
    path.write_text(path.read_text().replace("<worldbody>", '<default><general group="0"/></default><worldbody>', 1))
    with MujocoSimulation(path) as simulation, implicit(simulation, stiffness=400.0, damping=20.0):
        simulation.step(500)
        assert abs(simulation.data[0].qpos[0]) < 0.01
        model = simulation.models[0]
        assert model.actuator_group[model.actuator("hinge_drive").id] == 1


@pytest.mark.parametrize("kind", ["implicit group", "implicit effort"])
@pytest.mark.parametrize("off", ["flag", "group"])
def test_actuators_that_are_switched_off_while_they_are_counted_on_are_refused(off, kind, robot):
    with MujocoSimulation(robot(SERVO)) as simulation:
        pairs = [(actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 2.0), effort_mode="implicit"), "hinge")]
        made = (
            implicit(simulation)
            if kind == "implicit group"
            else ArticulationActuators.from_actuators("/arm", pairs, simulation=simulation)
        )
        with made:
            simulation.step(2)
            option = simulation.models[0].opt
            field, value = ("disableflags", int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)), ("disableactuator", 5)
            name, bits = field if off == "flag" else value
            setattr(option, name, getattr(option, name) | bits)
            with pytest.raises(actuon.SimulationError, match="switched off"):
                simulation.step(1)
            setattr(option, name, getattr(option, name) & ~bits)
            simulation.step(1)
        simulation.models[0].opt.disableactuator = 5
        simulation.step(1)


GAIN = 60.0
COMPENSATED = 'actuatorgravcomp="true" actuatorfrcrange="-4 4" damping="0.1"'


def own_servo(path, target, steps):
    """Positions of the robot with its own servo, stepped by MuJoCo alone."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.ctrl[0] = target
    seen = []
    for _ in range(steps):
        mujoco.mj_step(model, data)
        seen.append(data.qpos[0])
    return np.array(seen)


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
@pytest.mark.parametrize("gravcomp", [2, 3])
def test_compensation_and_motor_are_limited_together(gravcomp, mode, robot):
    """MuJoCo clips the sum of what an actuator and gravity compensation push: also where the latter is beyond it."""
    path = robot(f'<position joint="hinge" kp="{GAIN}"/>', joint=COMPENSATED, body=f'gravcomp="{gravcomp}"')
    targets = np.float32([-0.5, 0.5, 0.02])
    config = actuon.ActuatorConfig(actuon.PDControlConfig(GAIN, 0.0), effort_mode=mode)
    with MujocoSimulation(path, num_envs=3) as simulation:
        robots = Articulation(everyone(simulation))
        before = simulation.models[0].jnt_actfrclimited.copy()
        with attach(simulation, config):
            robots.set_dof_position_targets(targets[:, None], dof_indices=[0])
            seen = []
            for _ in range(150):
                simulation.step(1)
                seen.append(robots.get_dof_positions().numpy()[:, 0])
        expected = np.stack([own_servo(path, target, 150) for target in targets], axis=1)
        np.testing.assert_allclose(seen, expected, atol=2e-4)
        np.testing.assert_array_equal(simulation.models[0].jnt_actfrclimited, before)


def test_compensation_that_mujoco_leaves_out_takes_nothing_off_the_limit(robot):
    """MuJoCo leaves it out if actuation is disabled."""
    actuator = f'<position joint="hinge" kp="{GAIN}"/>'
    path = robot(actuator, joint=COMPENSATED, body='gravcomp="2"', flags='actuation="disable"')
    model = mujoco.MjModel.from_xml_path(str(path))
    data, expected = mujoco.MjData(model), []
    for _ in range(20):
        data.qfrc_applied[0] = np.clip(GAIN * (-0.5 - data.qpos[0]), -4.0, 4.0)
        mujoco.mj_step(model, data)
        expected.append(data.qpos[0])
    assert data.qfrc_gravcomp[0] != 0.0
    with (
        MujocoSimulation(path) as simulation,
        attach(simulation, actuon.ActuatorConfig(actuon.PDControlConfig(GAIN, 0.0))) as actuators,
    ):
        actuators.articulation.set_dof_position_targets(-0.5, dof_indices=[0])
        seen, efforts = [], []
        for _ in range(20):
            simulation.step(1)
            seen.append(actuators.articulation.get_dof_positions().numpy()[0, 0])
            efforts.append(actuators.telemetry().applied_effort[0, 0])
    assert min(efforts) == -4.0
    np.testing.assert_allclose(seen, expected, atol=1e-5)


def test_groups_keep_motor_and_compensation_within_the_limit_of_the_joint(robot):
    path = robot(f'<position joint="hinge" kp="{GAIN}"/>', joint=COMPENSATED, body='gravcomp="2"')
    with MujocoSimulation(path) as simulation:
        robots = Articulation(everyone(simulation))
        cfg = IdealPDActuatorCfg(["hinge"], stiffness=GAIN, damping=0.0)
        with ActuatorGroups(robots, {"all": cfg}):
            robots.set_dof_position_targets([[-0.5]], dof_indices=[0])
            seen = []
            for _ in range(20):
                simulation.step(1)
                seen.append(robots.get_dof_positions().numpy()[0, 0])
                data = simulation.data[0]
                assert -4.0001 < data.qfrc_actuator[0] + data.qfrc_applied[0] < 4.0001
        np.testing.assert_allclose(seen, own_servo(path, -0.5, 20), atol=2e-4)


@pytest.mark.parametrize(("engine", "num_envs"), [*ENGINES, (MujocoSimulation, 12)])
def test_a_gear_that_is_assigned_live_changes_the_armature_of_the_engine(engine, num_envs, robot):
    """From the next step on; without inertia of its own, the joint has that of the asset again."""
    path = robot(joint='armature="0.03"')
    gear = actuon.GearTransmissionConfig(5.0, rotor_inertia=0.004)
    config = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0, const_effort=0.3), transmission=gear)
    with engine(path, num_envs=num_envs) as simulation:
        before, robots = held(simulation), Articulation(everyone(simulation))
        actuators = attach(simulation, config)
        (transmission,) = [stage for stage in actuators.actuators[0].stages if hasattr(stage, "ratio")]
        simulation.step(20)
        for change, armature in (
            ({"ratio": 10.0}, 0.4),
            ({"rotor_inertia": np.full(num_envs, 0.002, np.float32)}, 0.2),
            ({"rotor_inertia": 0.0}, 0.03),
            ({"reflected_inertia": 0.07}, 0.07),
        ):
            simulation.reset()
            for name, value in change.items():
                setattr(transmission, name, value)
            simulation.step(20)
            np.testing.assert_allclose(robots.get_dof_armatures().numpy()[:, 0], armature, rtol=1e-6)
            expected = rolled(path, 20, effort=0.3, dof_armature=armature)
            np.testing.assert_allclose(robots.get_dof_velocities().numpy()[:, 0], expected[0], rtol=1e-4)
        actuators.close()
        transmission.ratio = 20.0
        simulation.step(1)
        for name, values in held(simulation).items():
            np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_inertia_that_the_engine_refuses_is_refused_at_each_step(robot):
    """An actuator that brings inertia moves a joint too that has no gear."""
    path = robot('<motor name="drive" tendon="both" armature="0.0125"/>', tendon=TENDON)
    with MujocoSimulation(path) as simulation:
        geared = actuon.ActuatorConfig(LIMP, transmission=actuon.GearTransmissionConfig(5.0))
        pairs = [(geared, "hinge"), (actuon.ActuatorConfig(LIMP), "wrist")]
        with ArticulationActuators.from_actuators("/arm", pairs, simulation=simulation) as actuators:
            (gear,) = [stage for each in actuators.actuators for stage in each.stages if hasattr(stage, "ratio")]
            gear.rotor_inertia = 0.01
            for _ in range(2):
                with pytest.raises(actuon.SimulationError, match="moves hinge, wrist together: set all or none"):
                    simulation.step(1)
            gear.rotor_inertia = 0.0
            simulation.step(1)


def test_inertia_that_a_gear_gets_later_is_taken_off_again(robot):
    with MujocoSimulation(robot(joint='armature="0.03"'), num_envs=2) as simulation:
        config = actuon.ActuatorConfig(LIMP, transmission=actuon.GearTransmissionConfig(5.0))
        actuators = attach(simulation, config, ("hinge", "wrist"))
        (gear,) = [stage for stage in actuators.actuators[0].stages if hasattr(stage, "ratio")]
        gear.rotor_inertia = np.float32([0.01, 0.0, 0.0, 0.02])  # of hinge and wrist, robot by robot
        simulation.step(1)
        robots = Articulation(everyone(simulation))
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.25, 0.01], [0.03, 0.5]], rtol=1e-6)
        actuators.close()
        np.testing.assert_allclose(robots.get_dof_armatures().numpy(), [[0.03, 0.01]] * 2, rtol=1e-6)


def test_each_engine_has_a_row_for_each_property():
    for rows in (rows_of_mujoco.PROPERTIES, rows_of_newton.PROPERTIES):
        assert list(rows) == list(engine.PROPERTIES)
        assert all(row.name == name for name, row in rows.items())


def test_stops_may_be_below_zero_and_other_properties_not():
    spec = mujoco.MjSpec.from_string(
        MODEL.format(gravity=0, option="", flags="", body="", joint="", tendon="", actuator="")
    )
    with MujocoSimulation(spec) as simulation:
        robots = Articulation(simulation.robots[0].path, simulation)
        robots.set_dof_limits(-0.5, -0.25)
        lower, upper = robots.get_dof_limits()
        np.testing.assert_array_equal(lower.numpy(), [[-0.5, -0.5]])
        np.testing.assert_array_equal(upper.numpy(), [[-0.25, -0.25]])
        with pytest.raises(actuon.SimulationError, match="armature: got -1.0; must be ≥ 0"):
            robots.set_dof_armatures(-1.0)
