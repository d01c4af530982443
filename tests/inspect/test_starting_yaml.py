# SPDX-License-Identifier: Apache-2.0
"""``actuon init``: a first YAML from a robot's own drives, that drives it as they did."""

from __future__ import annotations

import json
import math
import re
import shutil

import mujoco
import numpy as np
import pytest
from pxr import Sdf, Usd, UsdGeom, UsdPhysics

import actuon
from actuon.inspect.own_drives import read_own_drives
from actuon.inspect.starting_yaml import patterns_for
from actuon.sim.robots import DofSet
from tests.support.command_line import command
from tests.support.paths import public_robot
from tests.support.robot_files import EXAMPLES, add, robot, save_robot, solid

ASSETS = actuon.assets.FOLDER

MIXED = """
<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="Euler"/><worldbody>
  <body name="base"><geom size=".1" mass="5"/>
    <body name="a" pos="0 0 .2"><joint name="lift" axis="0 1 0"/><geom size=".05" mass="1" pos="0 0 .2"/>
      <body name="b" pos="0 0 .3"><joint name="turn" axis="0 0 1" armature=".1" actuatorfrcrange="-7 7"/>
        <geom size=".05" mass="1" pos=".1 0 0"/>
        <body name="c" pos="0 0 .3"><joint name="slide" type="slide" axis="0 0 1"/><geom size=".05" mass=".5"/></body>
        <body name="d" pos="0 0 .1"><joint name="swing" axis="0 1 0"/><geom size=".05" mass=".5" pos="0 0 .1"/></body>
        <body name="e" pos="0 .1 .1"><joint name="left" axis="0 1 0"/><geom size=".02" mass=".1" pos="0 0 .1"/></body>
        <body name="f" pos="0 .2 .1"><joint name="right" axis="0 1 0"/><geom size=".02" mass=".1" pos="0 0 .1"/></body>
      </body></body></body>
</worldbody>
<tendon><fixed name="both"><joint joint="left" coef="1"/><joint joint="right" coef="1"/></fixed></tendon>
<actuator>
  <position name="lifter" joint="lift" kp="20" kv="2" gear="3" forcerange="-5 5"/>
  <velocity name="turner" joint="turn" kv="4"/>
  <motor name="pusher" joint="slide" gear="2" ctrlrange="-10 10"/>
  <position name="gripper" tendon="both" kp="1"/>
</actuator></mujoco>
"""
RUB = actuon.FrictionEffectConfig(viscous=3000.0)
LINK = (
    '<link name="{}"><inertial><mass value="1"/>'
    '<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><axis xyz="0 1 0"/>'
    '<limit lower="-1" upper="1" effort="{}" velocity="{}"/>{}</joint>'
)
URDF = "".join(
    (
        '<robot name="arm">',
        *(LINK.format(name) for name in ("base", "l1", "l2", "l3")),
        JOINT.format("shoulder", "revolute", "base", "l1", 20, 3, ""),
        JOINT.format("elbow", "continuous", "l1", "l2", 0, 2.5, ""),
        JOINT.format("finger", "prismatic", "l2", "l3", 5, 1, '<mimic joint="elbow" multiplier="2"/>'),
        "</robot>",
    )
)


def written(path):
    """The file that ``actuon init`` writes for a robot, as text, and its entries by name."""
    command("init", path)
    yaml = path.with_name(f"{path.stem}.actuon.yaml")
    return yaml.read_text(), {entry.name: entry for entry in actuon.load_actuators(yaml)}


def copied(path, folder):
    shutil.copy(path, folder)
    return folder / path.name


def positions_after(path, steps, with_yaml):
    """Joint positions after steps under Euler towards targets nearby, and the columns that actuators drive."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
    with actuon.MujocoSimulation(model) as simulation:
        simulation.source = path
        name = simulation.robots[0].path
        columns = None
        if with_yaml:
            columns = actuon.ArticulationActuators(name, simulation=simulation).actuated_dof_indices
        robots = actuon.Articulation(name, simulation)
        lower, upper = (side.numpy() for side in robots.get_dof_limits())
        start = np.clip(robots.get_dof_positions().numpy(), lower, upper)
        if columns is None:
            columns = np.flatnonzero(simulation.engine.properties.get("stiffness", robots.at)[0])
        robots.set_dof_position_targets(np.clip(start + 0.02, lower, upper)[:, columns], dof_indices=columns)
        simulation.step(steps)
        return robots.get_dof_positions().numpy()


@pytest.mark.parametrize("name", ["quadruped", "arm"])
def test_a_shipped_robot_moves_as_with_its_own_servos(name, tmp_path):
    path = copied(ASSETS / f"{name}.xml", tmp_path)
    written(path)
    np.testing.assert_allclose(positions_after(path, 20, True), positions_after(path, 20, False), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["franka_emika_panda", "kinova_gen3", "shadow_hand", "universal_robots_ur5e", "unitree_g1"]
)
def test_a_public_robot_moves_as_with_its_own_servos(name, tmp_path):
    path = copied(public_robot(name), tmp_path)
    written(path)
    np.testing.assert_allclose(positions_after(path, 10, True), positions_after(path, 10, False), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["unitree_g1", "unitree_h1", "agility_cassie", "universal_robots_ur5e"])
def test_limits_of_a_public_robot_are_those_that_the_simulation_reads(name, tmp_path):
    path = copied(public_robot(name), tmp_path)
    _, entries = written(path)
    with actuon.MujocoSimulation(path) as simulation:
        names = simulation.robots[0].dof_names
        held = simulation.engine.properties.get("effort_limit", DofSet(simulation.robots, np.array([0])))
        limits = dict(zip(names, held[0], strict=True))
    for entry, joints in actuon.match_joints(entries.values(), names):
        (limit,) = entry.actuator.clamping or [actuon.MaxEffortClampingConfig(math.inf)]
        assert [limit.max_effort] * len(joints) == pytest.approx([limits[joint] for joint in joints])


@pytest.mark.parametrize(
    ("name", "driven", "joints"), [("unitree_h1", 19, 19), ("unitree_go2", 12, 12), ("agility_cassie", 10, 20)]
)
def test_a_robot_with_motors_only_is_to_be_given_gains(name, driven, joints, tmp_path):
    path = copied(public_robot(name), tmp_path)
    out = command("init", path)
    assert f"for {driven} of {joints} joints" in out
    assert "to be set: kp and kd of " in out
    entries = actuon.load_actuators(tmp_path / f"{name}.actuon.yaml")
    assert all(entry.actuator.controller == actuon.PDControlConfig(0.0, 0.0) for entry in entries)
    with actuon.MujocoSimulation(path) as simulation:
        actuators = actuon.ArticulationActuators(simulation.robots[0].path)
        assert len(actuators.actuated_dof_indices) == driven
        simulation.step(2)
        assert not actuators.telemetry().applied_effort.any()
    assert "kp and kd are 0" in command("check", path, code=1)
    inspected = command("inspect", path)
    assert "! kp and kd are 0" in inspected
    assert "✓ no other problems found" in inspected


def test_a_robot_that_only_a_tendon_moves_is_refused(tmp_path, complaint):
    path = copied(public_robot("robotiq_2f85"), tmp_path)
    pictures = ("-o", tmp_path / "out.png")
    for line in (
        ("init", path),
        ("export", path, "-o", tmp_path / "out.yaml"),
        ("plot", path, *pictures),
        ("run", path),
    ):
        error = complaint(*line)
        assert "has no joint for an actuator: moved by 'fingers_actuator' through a tendon" in error
        assert "Articulation.set_tendon_targets() moves it unchanged" in error
        assert "actuon init" not in error
    assert "actuon init" not in command("inspect", path)


def test_each_value_says_where_it_comes_from(tmp_path):
    path = tmp_path / "mixed.xml"
    path.write_text(MIXED)
    text, entries = written(path)
    assert list(entries) == ["lift", "turn", "slide"]
    assert entries["lift"].actuator == actuon.ActuatorConfig(
        actuon.PDControlConfig(180.0, 18.0), [actuon.MaxEffortClampingConfig(15.0)]
    )
    assert "kp: 180.0  # position servo 'lifter', times gear 3 squared" in text
    assert "kd: 18.0  # the same" in text
    assert "max_effort: 15.0  # forcerange × gear 3 of the position servo of 'lift'" in text
    assert entries["turn"].actuator.controller == actuon.PDControlConfig(0.0, 4.0)
    assert "kp: 0.0  # no position servo, only 'turner'" in text
    assert "kd: 4.0  # velocity servo 'turner'" in text
    assert "max_effort: 7.0  # actuatorfrcrange of joint 'turn'" in text
    assert entries["slide"].actuator == actuon.ActuatorConfig(
        actuon.PDControlConfig(0.0, 0.0), [actuon.MaxEffortClampingConfig(20.0)]
    )
    assert "max_effort: 20.0  # ctrlrange × gear 2 of the motor of 'slide'" in text
    assert "kp: 0.0  # to be set: no gains in the motor 'pusher'" in text
    assert "kd: 0.0  # also to be set" in text
    assert "# slides: N and m" in text
    assert "# To be set: kp and kd of slide." in text
    assert "# Left out, not driven in the model: swing." in text
    assert "# Left out, moved by 'gripper' through a tendon, which the model keeps: left, right." in text


def test_a_pair_of_servos_and_bounds_that_differ(tmp_path):
    path = tmp_path / "pair.xml"
    pair = '<position name="pos" joint="lift" kp="20"/><velocity name="vel" joint="lift" kv="2"/>'
    servo = '<position name="lifter" joint="lift" kp="20" kv="2" gear="3" forcerange="-5 5"/>'
    path.write_text(MIXED.replace(servo, pair).replace('"-7 7"', '"-7 3"'))
    text, entries = written(path)
    assert entries["lift"].actuator == actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 2.0))
    assert "kp: 20.0  # position servo 'pos'" in text
    assert "kd: 2.0  # velocity servo 'vel'" in text
    assert "# no limit of the effort in the model: add  clamping: " in text
    assert "max_effort: 7.0  # actuatorfrcrange of joint 'turn', which is -7 to 3: max_effort has one bound" in text


HINGE = """
<mujoco><option timestep="DT" integrator="Euler" gravity="0 0 0"/><worldbody><body name="base">
  <geom size=".05" mass="1"/>
  <body name="link"><joint name="hinge" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".5" contype="0" conaffinity="0"/></body>
</body></worldbody><actuator>SERVO</actuator></mujoco>
"""


def hinge(path, servo, dt=0.002):
    path.write_text(HINGE.replace("SERVO", servo).replace("DT", str(dt)))
    return path


def stepped_by_mujoco(path, controls):
    """Positions under plain ``mj_step``."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data, moved = mujoco.MjData(model), []
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        moved.append(data.qpos[0])
    return moved


def moved_by_actuators(path, targets):
    """Positions under the actuators beside a robot."""
    moved = []
    with actuon.MujocoSimulation(path) as simulation, actuon.ArticulationActuators("base") as actuators:
        for target in targets:
            actuators.articulation.set_dof_position_targets([[target]])
            simulation.step()
            moved.append(actuators.articulation.get_dof_positions().numpy()[0, 0])
    return moved


TARGETS = np.where(np.arange(200) < 50, 0.0, np.where(np.arange(200) < 120, 0.5, -0.3))
POSITION = '<position name="servo" joint="hinge" kp="20" kv=".5" {}/>'
GENERAL = '<general name="servo" joint="hinge" gear="2" gainprm="5" biastype="affine" biasprm="0 -5 -.1" {}/>'
SCALED = '<general name="servo" joint="hinge" gainprm="10" biastype="affine" biasprm="0 -20 -.5" {}/>'


@pytest.mark.parametrize(
    ("late", "dt", "atol"),
    [
        ('delay=".02" nsample="20"', 0.002, 1e-6),
        ('delay=".005" nsample="20"', 0.002, 1e-6),
        ('delay=".005" nsample="20" interp="linear"', 0.002, 1e-6),
        ('delay=".02" nsample="4"', 0.002, 1e-6),
        ('delay=".005" nsample="20" interp="linear"', 0.0004, 1e-6),
        ('delay=".005" nsample="20" interp="cubic"', 0.002, 1e-3),
    ],
)
def test_a_late_servo_moves_as_late_with_actuators(late, dt, atol, tmp_path):
    path = hinge(tmp_path / "late.xml", POSITION.format(late), dt)
    text, _ = written(path)
    assert "# delay of the position servo 'servo'" in text
    np.testing.assert_allclose(moved_by_actuators(path, TARGETS), stepped_by_mujoco(path, TARGETS), rtol=0, atol=atol)
    assert "delay" in command("inspect", path)


@pytest.mark.parametrize(
    ("servo", "dt", "scale", "time_constant", "said"),
    [
        (POSITION.format('timeconst=".05"'), 0.002, 1.0, 0.05, "position servo 'servo'"),
        (POSITION.format('timeconst=".001"'), 0.002, 1.0, 0.001, "position servo 'servo'"),
        (GENERAL.format('dyntype="filterexact" dynprm=".05"'), 0.002, 2.0, 0.05, "position servo 'servo'"),
        (SCALED.format('dyntype="filterexact" dynprm=".05"'), 0.002, 2.0, 0.05, "actuator 'servo'"),
        (
            GENERAL.format('dyntype="filter" dynprm=".02"'),
            0.005,
            2.0,
            -0.005 / math.log(0.75),
            "position servo 'servo', 0.02 s by Euler's method at steps of 0.005 s",
        ),
    ],
)
def test_a_servo_that_filters_its_target_moves_as_late_with_actuators(servo, dt, scale, time_constant, said, tmp_path):
    path = hinge(tmp_path / "late.xml", servo, dt)
    text, entries = written(path)
    assert "    delay:\n      type: low_pass_delay\n      time_constant: " in text
    assert f"  # time constant of the {said}" in text
    assert "left out" not in text.lower()
    assert entries["hinge"].actuator.delay.time_constant == pytest.approx(time_constant, rel=1e-6)
    np.testing.assert_allclose(
        moved_by_actuators(path, TARGETS), stepped_by_mujoco(path, scale * TARGETS), rtol=0, atol=1e-6
    )
    inspected = command("inspect", path)
    assert "time_constant" in inspected


def test_a_velocity_servo_that_filters_its_target(tmp_path):
    servo = '<general name="s" joint="hinge" gainprm="2" biastype="affine" biasprm="0 0 -2" {}/>'
    path = hinge(tmp_path / "late.xml", servo.format('dyntype="filterexact" dynprm=".05"'))
    text, _ = written(path)
    assert "time_constant: 0.05  # time constant of the velocity servo 's'" in text
    moved = []
    with actuon.MujocoSimulation(path) as simulation, actuon.ArticulationActuators("base") as actuators:
        for target in TARGETS:
            actuators.articulation.set_dof_velocity_targets([[target]])
            simulation.step()
            moved.append(actuators.articulation.get_dof_positions().numpy()[0, 0])
    np.testing.assert_allclose(moved, stepped_by_mujoco(path, TARGETS), rtol=0, atol=1e-6)


def test_a_servo_with_a_delay_and_a_filter_has_both_as_stages(tmp_path):
    path = hinge(tmp_path / "late.xml", POSITION.format('timeconst=".05" delay=".02" nsample="20" forcerange="-3 3"'))
    text, entries = written(path)
    assert entries["hinge"].actuator == actuon.ActuatorConfig(
        stages=[
            actuon.TimeDelayConfig(0.02),
            actuon.LowPassDelayConfig(0.05),
            actuon.PDControlConfig(20.0, 0.5),
            actuon.MaxEffortClampingConfig(3.0),
        ]
    )
    assert "      - delay:\n          type: time_delay\n          delay: 0.02  # delay of the position" in text
    assert "      - delay:\n          type: low_pass_delay\n          time_constant: 0.05  # time constant" in text
    np.testing.assert_allclose(moved_by_actuators(path, TARGETS), stepped_by_mujoco(path, TARGETS), rtol=0, atol=1e-6)
    assert "✓ no problems found" in command("check", path)


def test_a_filter_that_acts_early_acts_a_step_later_here(tmp_path):
    path = hinge(tmp_path / "late.xml", GENERAL.format('dyntype="filterexact" dynprm=".05" actearly="true"'))
    text, _ = written(path)
    assert "# Left out: the actearly of the position servo 'servo': a low-pass follows its target a step later." in text
    late = [TARGETS[0], *TARGETS[:-1]]
    np.testing.assert_allclose(
        moved_by_actuators(path, TARGETS), stepped_by_mujoco(path, 2.0 * np.array(late)), rtol=0, atol=1e-6
    )


def test_an_activation_range_is_named_where_targets_may_pass_it(tmp_path):
    bounds = 'dyntype="filterexact" dynprm=".05" actrange="-1 1" ctrlrange="{0} {1}"'
    path = hinge(tmp_path / "late.xml", GENERAL.format(bounds.format(-1, 1)))
    text, _ = written(path)
    assert "actrange" not in text
    hinge(path, GENERAL.format(bounds.format(-1, 2)))
    command("init", path, "--force")
    said = "Left out: the actrange of -1 to 1 of the position servo 'servo': no stage has one."
    assert f"# {said}" in path.with_name("late.actuon.yaml").read_text()


@pytest.mark.parametrize(
    ("dynamics", "time_constant"), [("filterexact", 0.05), ("filter", -0.002 / math.log(1.0 - 0.002 / 0.05))]
)
def test_a_motor_that_lags_gives_its_effort_as_late(dynamics, time_constant, tmp_path):
    """But for a step: MuJoCo filters the control of the step before."""
    motor = f'<general name="motor" joint="hinge" gainprm="1" dyntype="{dynamics}" dynprm=".05"/>'
    path = hinge(tmp_path / "late.xml", motor)
    text, entries = written(path)
    assert "  # time constant of the motor 'motor'" in text
    (lag,) = entries["hinge"].actuator.effects
    assert lag.time_constant == pytest.approx(time_constant, rel=1e-6)
    efforts = np.where(np.arange(200) < 50, 0.0, 0.1)
    moved = []
    with actuon.MujocoSimulation(path) as simulation, actuon.ArticulationActuators("base") as actuators:
        for effort in efforts:
            moved.append(actuators.articulation.get_dof_positions().numpy()[0, 0])
            actuators.set_dof_feedforward_effort_targets([[effort]])
            simulation.step()
    np.testing.assert_allclose(moved, stepped_by_mujoco(path, efforts), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("servo", "said"),
    [
        (
            '<position name="s" joint="hinge" kp="20" timeconst=".05"/><velocity joint="hinge" kv="1"/>',
            "the time constant of 0.05 s of the position servo 's': other actuators of its joint have another one",
        ),
        (
            '<general name="s" joint="hinge" gainprm="20" biastype="affine" biasprm="0 -20 -1" dyntype="filter" '
            'dynprm=".002"/>',
            "the time constant of 0.002 s of the position servo 's': steps of 0.002 s are too long for it",
        ),
        (
            '<position name="s" joint="hinge" kp="20" delay=".01" nsample="9"/><velocity joint="hinge" kv="1"/>',
            "the delay of 0.01 s of the position servo 's': other actuators of its joint have another one",
        ),
        (
            '<position name="s" joint="hinge" kp="20" delay="30" nsample="20000"/>',
            "the delay of 30 s of the position servo 's': no stage is so long",
        ),
        (
            '<motor name="s" joint="hinge" delay=".01" nsample="9"/>',
            "the delay of 0.01 s of the motor 's': stages delay targets, and not efforts",
        ),
        (
            '<pid name="s" joint="hinge" kp="20" ki="3" slewmax="2"/>',
            "the integral gain of 3 and the slew limit of 2 of the PID 's'",
        ),
        (
            '<cylinder name="s" joint="hinge" timeconst=".1" area="1"/>',
            "the time constant of 0.1 s of the actuator 's': its effort is not read",
        ),
    ],
)
def test_what_is_left_out_of_a_late_servo_is_said(servo, said, tmp_path):
    path = hinge(tmp_path / "late.xml", servo)
    assert f"! left out: {said}" in command("inspect", path)
    assert f"note: left out: {said}" in command("init", path)
    assert f"# Left out: {said}." in path.with_name("late.actuon.yaml").read_text()


def test_a_servo_of_an_integrated_velocity_is_to_be_set(tmp_path):
    path = hinge(
        tmp_path / "late.xml", '<intvelocity name="s" joint="hinge" kp="20" kv=".5" gear="2" actrange="-1 1"/>'
    )
    text, _ = written(path)
    assert "kp: 0.0  # to be set: 's' is an integrated velocity servo (kp 80, kd 2); no controller of Actuon" in text


def test_joints_with_the_same_drive_are_one_entry(tmp_path):
    text, entries = written(copied(ASSETS / "quadruped.xml", tmp_path))
    assert {name: entry.joints for name, entry in entries.items()} == {
        "hip_thigh": (".*_hip_joint", ".*_thigh_joint"),
        "calf": (".*_calf_joint",),
    }
    assert "kp: 60.0  # position servo 'FL_calf_joint', 'FR_calf_joint', 'RL_calf_joint' and 1 more" in text


@pytest.mark.parametrize(
    ("chosen", "others", "patterns"),
    [
        (["a"], ["b"], ["a"]),
        (["l_hip", "r_hip"], ["l_knee", "r_knee"], [".*_hip"]),
        (["l_hip", "r_hip"], ["x_l_hip"], ["l_hip", "r_hip"]),
        (["l_hip", "l_knee"], ["r_hip", "r_knee"], ["l_.*"]),
        (["l_hip", "r_hip", "torso"], ["l_knee"], [".*_hip", "torso"]),
        (["a.b_c", "a.d_c"], ["e_c"], ["a.b_c", "a.d_c"]),
        (["l/hip_1", "r/hip_1"], [], ["l/hip_1", "r/hip_1"]),
    ],
)
def test_patterns_match_what_was_chosen_and_nothing_else(chosen, others, patterns):
    names = [*others, *chosen]
    assert patterns_for(chosen, names) == patterns
    entry = actuon.ActuatorEntry("a", tuple(patterns), EXAMPLES["pd"])
    ((_, found),) = actuon.match_joints([entry], names)
    assert sorted(found) == sorted(chosen)


def test_names_of_any_kind_come_through(tmp_path):
    """Names may be special in YAML or in a regular expression, or end a comment."""
    names = ["1", "true", "a: b", "(", "# x", "é", "two&#10;lines", "{}"]
    xml = "".join(
        f'<body name="b{i}"><joint name="{name}" axis="0 1 0"/><geom size=".1" mass="1"/></body>'
        for i, name in enumerate(names)
    )
    path = tmp_path / "odd.xml"
    path.write_text(f'<mujoco><worldbody><body name="base">{xml}<geom size=".1"/></body></worldbody></mujoco>')
    _, entries = written(path)
    joints = [joint.name for joint in read_own_drives(path).joints]
    assert len(joints) == len(names)
    assert [joint for entry in entries.values() for joint in entry.joints] == joints


def test_urdf_gives_limits_and_no_gains(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    text, entries = written(path)
    assert list(entries) == ["shoulder", "elbow"]
    assert "kp: 0.0  # to be set: no gains in URDF" in text
    assert "max_effort: 20.0  # URDF <limit effort> of 'shoulder'" in text
    assert "# Left out, follows 'elbow': finger." in text
    assert "# Speed limit 3 rad/s, URDF <limit velocity> of 'shoulder': no part limits speed alone." in text
    assert "velocity_limit: 2.5, max_motor_effort: …}" in text
    with actuon.MujocoSimulation(path) as simulation:
        actuators = actuon.ArticulationActuators("base")
        simulation.step()
        assert len(actuators.actuated_dof_indices) == 2


@pytest.mark.parametrize(
    ("before", "after", "encoding"),
    [
        ('\n<?xml version="1.0"?>\n', "", "utf-8"),
        ('<?xml version="1.0"?>\n', "", "utf-8-sig"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><!-- \xe9 -->', "", "iso-8859-1"),
        ("", "<xacro:undeclared/>", "utf-8"),
    ],
    ids=["newline first", "byte order mark", "latin-1", "prefix"],
)
def test_a_urdf_that_mujoco_reads_is_read(before, after, encoding, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_bytes((before + URDF.replace("</robot>", f"{after}</robot>")).encode(encoding))
    text, _ = written(path)
    assert "velocity_limit: 2.5, max_motor_effort: …}" in text
    command("inspect", path)


def test_what_cannot_be_read_of_a_urdf_is_said(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF.replace("</robot>", "&undefined;</robot>"))
    note = "speed limits and transmissions are not read: the file is not well-formed XML: undefined entity"
    assert f"note: {note}" in command("init", path)
    assert note.capitalize()[:40] in path.with_name("arm.actuon.yaml").read_text()


SIMPLE = (
    '<transmission name="first"><type>transmission_interface/SimpleTransmission</type>'
    '<joint name="shoulder"><hardwareInterface>EffortJointInterface</hardwareInterface></joint>'
    '<actuator name="motor"><mechanicalReduction>9</mechanicalReduction></actuator></transmission>'
)
ROS2 = (
    '<ros2_control name="arm" type="system"><joint name="shoulder"><command_interface name="effort"/></joint>'
    '<transmission name="first"><plugin>transmission_interface/SimpleTransmission</plugin>'
    '<actuator name="motor" role="actuator1"/><joint name="shoulder" role="joint1">'
    "<mechanical_reduction>9</mechanical_reduction><offset>0.1</offset></joint></transmission></ros2_control>"
)
TWICE = ROS2.replace(
    '<actuator name="motor" role="actuator1"/>',
    '<actuator name="motor"><mechanical_reduction>9</mechanical_reduction></actuator>',
)
ATTRIBUTE = (
    '<ros2_control name="arm" type="system"><transmission name="first">'
    '<actuator name="motor"/><joint name="shoulder" mechanical_reduction="9"/></transmission></ros2_control>'
)


@pytest.mark.parametrize(
    "form", [SIMPLE, ROS2, TWICE, ATTRIBUTE], ids=["transmission_interface", "ros2_control", "twice", "attribute"]
)
def test_a_reduction_in_a_urdf_is_said(form, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF.replace("</robot>", f"{form}</robot>"))
    said = "reductions between motor and joint, but no values of the motors: shoulder 9 (transmission 'first')"
    assert f"! the file has {said}" in command("inspect", path)
    assert f"note: the file has {said}" in command("init", path)
    text = path.with_name("arm.actuon.yaml").read_text()
    assert "# Reduction 9, transmission 'first': gains and limits here are on the joint side." in text
    assert "transmission: {type: gear, ratio: 9, rotor_inertia: …}" in text
    assert "max_effort: 20.0  # URDF <limit effort> of 'shoulder'" in text
    assert f"! the file has {said}" in command("inspect", path)  # with the YAML, which has no gear
    geared = text.replace("    clamping:", "    transmission: {type: gear, ratio: 9}\n    clamping:", 1)
    path.with_name("arm.actuon.yaml").write_text(geared)
    assert "reductions" not in command("inspect", path)
    path.write_text(URDF.replace("</robot>", form.replace("9", "1") + "</robot>"))
    assert "reductions" not in command("init", path, "--force")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (
            SIMPLE.replace("</transmission>", '<joint name="elbow"/></transmission>'),
            "transmission 'first' (transmission_interface/SimpleTransmission) of shoulder, elbow with reductions 9, ",
        ),
        (
            SIMPLE.replace(">9<", ">nine<"),
            "transmission 'first' of shoulder, whose reduction is nine; must be a number",
        ),
        (SIMPLE.replace(">9<", ">0<"), "transmission 'first' of shoulder, whose reduction is 0; must be a number"),
        (
            TWICE.replace(">9<", ">3<", 1),
            "transmission 'first' of shoulder, which has several reductions: 9, 3",
        ),
    ],
    ids=["two joints", "text", "zero", "two reductions"],
)
def test_a_transmission_that_is_not_a_gear_is_said(form, said, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF.replace("</robot>", f"{form}</robot>"))
    assert f"note: left out: {said}" in command("init", path)


def two_robots(path, stiffness=(1.0, 1.0)):
    """Two robots of the same names in one file, whose hips have drives."""
    stage = Usd.Stage.CreateNew(str(path))
    stage.SetDefaultPrim(stage.DefinePrim("/World", "Xform"))
    for name, value in zip("AB", stiffness, strict=True):
        solid(robot(stage, f"/World/{name}", ("hip",)))
        drive = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath(f"/World/{name}/joints/hip"), "angular")
        drive.CreateStiffnessAttr(value)
        drive.CreateDampingAttr(0.1)
    stage.GetRootLayer().Save()
    return path


def test_two_copies_of_a_robot_get_a_yaml_that_drives_both(tmp_path):
    path = two_robots(tmp_path / "two.usda")
    out = command("inspect", path)
    assert "/World/A/joints/hip" in out
    assert "/World/B/joints/hip" in out
    _, entries = written(path)
    assert [entry.joints for entry in entries.values()] == [("hip",)]
    assert "2 joints, 2 with an actuator" in command("inspect", path)
    with actuon.NewtonSimulation(path) as simulation:
        names = [other.path for other in simulation.robots]
        assert names == ["/World/A", "/World/B"]
        for name in names:
            with actuon.ArticulationActuators(name) as actuators:
                assert actuators.configs["hip"].controller.kp == pytest.approx(57.29578)
    assert "✓ no problems found" in command("check", path)
    path.with_name("two.actuon.yaml").unlink()
    assert "✓ /World/B: hip uses" in command("check", path)


def test_robots_that_a_yaml_cannot_tell_apart_are_refused(tmp_path, complaint):
    path = two_robots(tmp_path / "two.usda", (1.0, 2.0))
    for line in (("init", path), ("export", path, "-o", tmp_path / "out.yaml"), ("plot", path)):
        error = complaint(*line)
        assert "/World/A/joints/hip and /World/B/joints/hip have the same name, 'hip', and different drives" in error
        assert "Name one robot with --root" in error
    note = "a YAML next to the file also drives joints of the same names in other robots: /World/B/joints/hip"
    assert f"note: {note}" in command("init", path, "--root", "/World/A")
    assert "kp: 57.29578" in path.with_name("two.actuon.yaml").read_text()


def test_usd_drives_are_converted_to_radians(tmp_path):
    path = tmp_path / "robot.usda"
    stage = robot(Usd.Stage.CreateNew(str(path)))
    hip = stage.GetPrimAtPath("/Robot/joints/hip")
    drive = UsdPhysics.DriveAPI.Apply(hip, "angular")
    drive.CreateStiffnessAttr(1.0)
    drive.CreateMaxForceAttr(30.0)
    hip.CreateAttribute("newton:velocityLimit", Sdf.ValueTypeNames.Float).Set(180.0)
    drive = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/slide"), "linear")
    drive.CreateStiffnessAttr(5.0)
    drive.CreateTypeAttr("acceleration")
    stage.GetRootLayer().Save()
    text, entries = written(path)
    assert entries["hip"].actuator == actuon.ActuatorConfig(
        actuon.PDControlConfig(57.29578, 0.0), [actuon.MaxEffortClampingConfig(30.0)]
    )
    assert "kp: 57.29578  # drive:angular:physics:stiffness, per degree in the file, of 'hip'" in text
    assert "kd: 0.0  # schema default of drive:angular:physics:damping of 'hip'" in text
    assert "Speed limit 3.14159 rad/s, newton:velocityLimit of 'hip'" in text
    assert "kp: 0.0  # to be set: an acceleration drive at 'slide', stiffness 5 1/s² and damping 0 1/s, each " in text
    assert "Left out, no PhysicsDriveAPI, which others have: knee." in text


@pytest.mark.parametrize(("length", "mass"), [(1.0, 1.0), (0.01, 1.0), (1.0, 0.001), (0.0254, 0.45359237)], ids=str)
def test_usd_drives_are_converted_to_metres_and_kilograms(length, mass, tmp_path):
    """Equal drives in other units: 20 N·m/rad, 1 N·m·s/rad and 30 N·m; 5 N/m, 0.5 N·s/m, 7 N and 3 m/s."""
    path = tmp_path / "robot.usda"
    stage = robot(Usd.Stage.CreateNew(str(path)))
    UsdGeom.SetStageMetersPerUnit(stage, length)
    UsdPhysics.SetStageKilogramsPerUnit(stage, mass)
    torque, force = mass * length**2, mass * length
    hip, slide, knee = (stage.GetPrimAtPath(f"/Robot/joints/{name}") for name in ("hip", "slide", "knee"))
    for prim, axis, values in (
        (hip, "angular", (math.radians(20.0) / torque, math.radians(1.0) / torque, 30.0 / torque)),
        (slide, "linear", (5.0 / mass, 0.5 / mass, 7.0 / force)),
        (knee, "angular", (math.radians(20.0), math.radians(1.0), 30.0 / torque)),
    ):
        drive = UsdPhysics.DriveAPI.Apply(prim, axis)
        for create, value in zip(("Stiffness", "Damping", "MaxForce"), values, strict=True):
            getattr(drive, f"Create{create}Attr")(value)
    UsdPhysics.DriveAPI(knee, "angular").CreateTypeAttr("acceleration")
    slide.CreateAttribute("newton:velocityLimit", Sdf.ValueTypeNames.Float).Set(3.0 / length)
    stage.GetRootLayer().Save()

    found = {joint["name"]: joint["drive"] for joint in json.loads(command("inspect", path, "--json"))["joints"]}
    for name, kind, expected in (
        ("hip", "engine drive", [(20.0, "N·m/rad"), (1.0, "N·m·s/rad"), (30.0, "N·m")]),
        ("slide", "engine drive", [(5.0, "N/m"), (0.5, "N·s/m"), (7.0, "N")]),
        ("knee", "acceleration drive", [(20.0, "1/s²"), (1.0, "1/s"), (30.0, "N·m")]),
    ):
        assert found[name]["name"] == kind
        assert [value["unit"] for value in found[name]["values"]] == [unit for _, unit in expected]
        numbers = [value["value"] for value in found[name]["values"]]
        np.testing.assert_allclose(numbers, [number for number, _ in expected], rtol=1e-6)
    text, entries = written(path)
    for name, gains, effort in (("hip", (20.0, 1.0), 30.0), ("slide", (5.0, 0.5), 7.0), ("knee", (0.0, 0.0), 30.0)):
        config = entries[name].actuator
        np.testing.assert_allclose((config.controller.kp, config.controller.kd), gains, rtol=1e-6)
        np.testing.assert_allclose(config.clamping[0].max_effort, effort, rtol=1e-6)
    assert "Speed limit 3 m/s, newton:velocityLimit" in text
    assert "stiffness 20 1/s² and damping 1 1/s, each times the inertia that it moves" in text
    said = f"converted to SI: the file has metersPerUnit {length:g}, kilogramsPerUnit {mass:g}"
    assert (said in text) == (said in command("inspect", path.rename(tmp_path / "alone.usda"))) == (torque != 1.0)
    if torque != 1.0:
        with pytest.raises(actuon.RobotFileError, match=f"metersPerUnit {length:g}, .* both must be 1"):
            actuon.NewtonSimulation(tmp_path / "alone.usda")


def test_a_usd_robot_moves_with_what_was_written_for_it(tmp_path):
    """Its own actuators taken away: otherwise they, and not the YAML beside it, drive it."""
    path = copied(ASSETS / "arm.usda", tmp_path)
    assert "the file contains actuators, which take precedence over a YAML next to it" in command("init", path)
    stage = Usd.Stage.Open(str(path))
    stage.RemovePrim(stage.GetDefaultPrim().GetPath().AppendChild("Actuators"))
    stage.GetRootLayer().Save()
    moved = []
    for with_yaml in (True, False):
        with actuon.NewtonSimulation(path) as simulation:
            name = simulation.robots[0].path
            if with_yaml:
                actuon.ArticulationActuators(name)
            robots = actuon.Articulation(name)
            robots.set_dof_position_targets(robots.get_dof_positions().numpy() + 0.01)
            simulation.step(5)
            moved.append(robots.get_dof_positions().numpy())
    np.testing.assert_allclose(*moved, rtol=0, atol=1e-5)


def unstable_without_auto(path):
    """Joints that are unstable if all efforts of the file of ``init`` are explicit."""
    written = path.with_suffix(".actuon.yaml")
    explicit = path.with_name("explicit.yaml")
    explicit.write_text(re.sub(r" +effort_mode: auto\n", "", written.read_text()))
    checked = json.loads(command("check", path, "--actuators", explicit, "--json", code=None))
    return {joint["name"] for robot in checked["robots"] for joint in robot["joints"] if joint["usage"] >= 1.0}


def test_init_makes_unstable_joints_implicit(tmp_path):
    path = tmp_path / "stiff.xml"
    path.write_text(MIXED.replace('kv="4"', 'kv="4000"'))
    (named,) = re.findall("note: effort_mode: auto written for (.*), whose gains are", command("init", path))
    assert set(named.split(", ")) == unstable_without_auto(path)
    assert "unstable at dt" not in command("check", path, code=None)
    path.write_text(MIXED)
    assert "effort_mode" not in command("init", path, "--force")


@pytest.mark.parametrize("name", ["universal_robots_ur5e", "franka_emika_panda", "kinova_gen3"])
def test_init_and_check_name_the_same_joints(name, tmp_path):
    path = copied(public_robot(name), tmp_path)
    (named,) = re.findall("note: effort_mode: auto written for (.*), whose", " ".join(command("init", path).split()))
    assert unstable_without_auto(path) == set(named.split(", "))
    assert actuon.check(path).stable


def test_a_file_is_replaced_only_when_told_to(tmp_path, complaint):
    path = copied(ASSETS / "arm.xml", tmp_path)
    (tmp_path / "arm.actuon.yaml").write_text("mine")
    assert complaint("init", "arm.xml") == "actuon: 'arm.actuon.yaml' already exists; --force replaces it"
    assert (tmp_path / "arm.actuon.yaml").read_text() == "mine"
    command("init", path, "-o", tmp_path / "other.yaml")
    command("init", path, "--force")
    first, second = (actuon.load_actuators(tmp_path / name) for name in ("other.yaml", "arm.actuon.yaml"))
    assert first == second
    usd = save_robot(tmp_path / "robot.usda")
    shutil.copy(usd, tmp_path / "taken.usda")
    actuon.save_actuators("a.yaml", [actuon.ActuatorEntry("a", "knee", EXAMPLES["pd"])])
    before = (tmp_path / "taken.usda").read_text()
    text = complaint("author", "robot.usda", "a.yaml", "-o", "taken.usda")
    assert text == "actuon: 'taken.usda' already exists; --force replaces it"
    assert (tmp_path / "taken.usda").read_text() == before
    command("author", usd, tmp_path / "a.yaml", "-o", tmp_path / "taken.usda", "--force")
    assert len(actuon.parse_actuators(tmp_path / "taken.usda")) == 1


DRONE = '<mujoco><worldbody><body name="drone"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
NO_MESH = """<mujoco><asset><mesh name="m" file="lost.stl"/></asset><worldbody><body name="b"><joint name="j"/>
<geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("name", ["init", "inspect", "check", "plot", "export"])
@pytest.mark.parametrize(
    ("file", "match"),
    [
        ("none.xml", "'none.xml' does not exist"),
        ("robot.txt", "'robot.txt' has the format '.txt'; must be one of .usda"),
        ("broken.xml", "Line number=3"),
        ("empty.xml", "'empty.xml' is empty; must be a valid .xml file"),
        ("page.xml", "'page.xml' cannot be read"),
        ("drone.xml", "'drone.xml' holds no robot"),
        ("mesh.xml", "lost.stl"),
    ],
)
def test_what_is_no_robot_is_called_what_it_is(name, file, match, tmp_path, complaint):
    for each, text in {
        "robot.txt": "robot",
        "broken.xml": "<mujoco>\n<worldbody>\n<body></mujoco>",
        "empty.xml": "",
        "page.xml": "<html></html>",
        "drone.xml": DRONE,
        "mesh.xml": NO_MESH,
    }.items():
        (tmp_path / each).write_text(text)
    options = ("-o", "out.png") if name == "plot" else ("-o", "out.yaml") if name in ("init", "export") else ()
    assert match in complaint(name, file, *options)


@pytest.mark.parametrize("folder", [".", ".."])
def test_a_folder_is_no_robot(folder, complaint):
    assert complaint("init", folder) == f"actuon: '{folder}' is a directory; must be a file"


def test_a_usd_file_without_joints_is_refused(tmp_path, complaint):
    stage = Usd.Stage.CreateNew(str(tmp_path / "cup.usda"))
    stage.SetDefaultPrim(stage.DefinePrim("/Cup", "Xform"))
    stage.GetRootLayer().Save()
    assert "'cup.usda' holds no robot: '/Cup' has no joint that can be driven" in complaint("init", "cup.usda")
    assert "format '.txt'; must be .yaml or .yml" in complaint("init", "cup.usda", "-o", "x.txt")
    assert "--root: there is no prim '/Mug'" in complaint("init", "cup.usda", "--root", "/Mug")
    (tmp_path / "mixed.xml").write_text(MIXED)
    assert "--root: got a prim of a USD file" in complaint("init", "mixed.xml", "--root", "/base")


def test_a_usd_robot_with_actuators_says_so(tmp_path):
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    add(stage, EXAMPLES["pd"])
    stage.GetRootLayer().Save()
    out = command("init", tmp_path / "robot.usda")
    assert "`actuon export` writes them to a YAML" in out
    assert "to be set: kp and kd of hip_knee, slide" in out
