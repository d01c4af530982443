# SPDX-License-Identifier: Apache-2.0
"""Implicit groups on robots that have only motors: a drive is added to the model, and taken back."""

from __future__ import annotations

import logging

import mujoco
import numpy as np
import pytest

from actuon import Articulation, MujocoSimulation
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg, Uniform

pytest.importorskip("torch")

ARM = """<mujoco><option gravity="0 0 0" timestep="0.002" integrator="{integrator}"/><worldbody><body name="r">
<joint name="a" axis="0 1 0" armature="0.1"/><geom size="0.1"/><body pos="0.3 0 0"><joint name="b" axis="0 1 0"
armature="0.1"/><geom size="0.1"/><body pos="0.3 0 0"><joint name="c" axis="0 1 0" armature="0.1"/><geom size="0.1"/>
</body></body></body></worldbody>{tendon}<actuator>{actuators}</actuator>{keys}</mujoco>"""
MOTORS = '<motor name="m_a" joint="a" gear="2" ctrlrange="-3 2"/><position joint="b" kp="20" kv="2"/><motor joint="c"/>'
KEYS = '<keyframe><key name="home" qpos="0.1 0.2 0.3" ctrl="0.5 0.2 0"/><key name="bent" qpos="1 1 1"/></keyframe>'


@pytest.fixture
def arm(tmp_path):
    def write(actuators=MOTORS, keys=KEYS, tendon="", integrator="implicitfast"):
        path = tmp_path / "arm.xml"
        path.write_text(ARM.format(actuators=actuators, keys=keys, tendon=tendon, integrator=integrator))
        return path

    return write


def implicit(*names, stiffness=30.0, damping=3.0, **more):
    return ImplicitActuatorCfg(joint_names_expr=list(names), stiffness=stiffness, damping=damping, **more)


@pytest.mark.parametrize("num_envs", [1, 12])
def test_a_drive_is_added_follows_like_the_engines_own_and_goes_at_close(arm, num_envs, caplog):
    servo = '<motor name="m_a" joint="a" gear="2" ctrlrange="-3 2"/><position joint="b" kp="20" kv="2"/>'
    servo += '<motor joint="c"/><position joint="a" kp="30" kv="3" forcerange="-6 4"/>'
    reference = mujoco.MjModel.from_xml_string(
        ARM.format(actuators=servo, keys="", tendon="", integrator="implicitfast")
    )
    with MujocoSimulation(arm(), num_envs) as simulation:
        robots = Articulation("r")
        simulation.step(3)
        before = robots.get_dof_positions().numpy()
        nu = simulation.models[0].nu
        with caplog.at_level(logging.WARNING):
            groups = ActuatorGroups(robots, {"a": implicit("a"), "b": implicit("b", stiffness=None, damping=None)})
        assert "no drive in the model for a; one is added, until close()" in caplog.text
        assert (robots.get_dof_positions().numpy() == before).all()
        assert simulation.models[0].nu == nu + 2
        assert robots.get_dof_gains()[0].numpy()[0].tolist() == [30.0, 20.0, 0.0]
        assert robots.get_dof_max_efforts().numpy()[0, 0] == 6.0
        np.testing.assert_allclose(robots.get_dof_position_targets().numpy(), [[0.1, 0.2, 0.3]] * num_envs, rtol=1e-6)
        simulation.reset()
        robots.set_dof_position_targets([[0.6, -0.4]], dof_indices=[0, 1])
        data = mujoco.MjData(reference)
        data.qpos[:] = 0.1, 0.2, 0.3
        data.ctrl[:] = 0.0, np.float32(-0.4), 0.0, np.float32(0.6)
        for _ in range(100):
            simulation.step()
            mujoco.mj_step(reference, data)
        np.testing.assert_allclose(robots.get_dof_positions().numpy(), [data.qpos] * num_envs, atol=1e-6)
        assert groups.telemetry().applied_effort[0, 0] != 0.0
        groups.close()
        assert simulation.models[0].nu == nu
        assert simulation.models[0].actuator_gainprm[0, 0] == 1.0
        assert robots.get_dof_gains()[0].numpy()[0].tolist() == [0.0, 20.0, 0.0]
        with pytest.raises(ValueError, match="no servo or actuator follows a target position of a"):
            robots.set_dof_position_targets(0.5, dof_indices=[0])
        simulation.step()
        simulation.reset()
        assert simulation.data[0].ctrl.tolist() == [0.5, 0.2, 0.0]


def test_targets_of_velocity_alone_and_limits_of_the_group(arm):
    with MujocoSimulation(arm(), num_envs=2) as simulation:
        robots = Articulation("r")
        cfg = implicit("a", "c", stiffness=0.0, damping=5.0, effort_limit_sim=1.5)
        with ActuatorGroups(robots, {"wheels": cfg}) as groups:
            robots.set_dof_velocity_targets([[2.0, -2.0]], dof_indices=[0, 2])
            simulation.step()
            assert np.abs(groups.telemetry().applied_effort[:, [0, 2]]).max() <= 1.5
            assert simulation.data[1].qfrc_actuator[0] == 1.5
            simulation.step(3000)
            speeds = robots.get_dof_velocities().numpy()
            np.testing.assert_allclose(speeds[:, [0, 2]], [[2.0, -2.0]] * 2, atol=0.02)
            groups["wheels"].randomize("damping", Uniform(0.5, 1.5))
            assert len(np.unique(robots.get_dof_gains()[1].numpy()[:, 0])) == 2
            simulation.step()
        assert simulation.models[1].nu == 3


def test_an_added_drive_has_the_limits_of_its_environment(arm):
    with MujocoSimulation(arm(), num_envs=12) as simulation:
        robots = Articulation("r")
        limits = robots.get_dof_max_efforts().numpy() * np.linspace(0.5, 1.0, 12)[:, None]
        limits[3, 2] = 4.0
        robots.set_dof_max_efforts(limits)
        before = robots.get_dof_max_efforts().numpy()
        with ActuatorGroups(robots, {"all": implicit("a", "c")}):
            np.testing.assert_array_equal(robots.get_dof_max_efforts().numpy(), before)
            simulation.step()
        np.testing.assert_array_equal(robots.get_dof_max_efforts().numpy(), before)


def test_the_model_is_bare_again_when_the_last_one_closes(arm):
    with MujocoSimulation(arm()) as simulation:
        robots = Articulation("r")
        first = ActuatorGroups(robots, {"a": implicit("a")})
        second = ActuatorGroups(robots, {"c": implicit("c", stiffness=7.0)})
        assert robots.get_dof_gains()[0].numpy()[0].tolist() == [30.0, 20.0, 7.0]
        first.close()
        assert robots.get_dof_gains()[0].numpy()[0].tolist() == [0.0, 20.0, 7.0]
        robots.set_dof_position_targets(0.7, dof_indices=[2])
        simulation.step(5)
        third = ActuatorGroups(robots, {"a": implicit("a", stiffness=9.0)})
        assert robots.get_dof_gains()[0].numpy()[0].tolist() == [9.0, 20.0, 7.0]
        second.close()
        third.close()
        assert simulation.models[0].nu == 3


def test_what_others_changed_meanwhile_stays(arm):
    with MujocoSimulation(arm(), num_envs=3) as simulation:
        robots = Articulation("r")
        explicit = ActuatorGroups(
            robots, {"b": IdealPDActuatorCfg(joint_names_expr=["b"], stiffness=5.0, damping=1.0, armature=0.4)}
        )
        explicit["b"].randomize("armature", Uniform(0.5, 1.5))
        armature = robots.get_dof_armatures().numpy()
        with ActuatorGroups(robots, {"a": implicit("a", armature=0.7)}):
            assert (robots.get_dof_armatures().numpy()[:, 1] == armature[:, 1]).all()
            robots.set_dof_position_targets(0.3, dof_indices=[1])
            simulation.step(3)
            assert np.abs(explicit.telemetry().applied_effort[:, 1]).max() > 0.1
        assert (robots.get_dof_armatures().numpy() == armature).all()
        explicit.close()
        assert robots.get_dof_gains()[0].numpy()[:, 1].tolist() == [20.0] * 3


def test_a_tendon_gives_way_to_drives_on_all_of_its_joints(arm):
    tendon = '<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="c" coef="1"/></fixed></tendon>'
    path = arm('<position name="grip" tendon="t" kp="50"/>', keys="", tendon=tendon)
    with MujocoSimulation(path) as simulation:
        robots = Articulation("r")
        with pytest.raises(ValueError, match="actuator 'grip' moves a, c together: drive all or none"):
            ActuatorGroups(robots, {"a": implicit("a")})
        assert simulation.models[0].nu == 1
        assert simulation.models[0].actuator_gainprm[0, 0] == 50.0
        with ActuatorGroups(robots, {"both": implicit("a", "c")}):
            assert simulation.models[0].actuator_gainprm[0, 0] == 0.0
        assert simulation.models[0].actuator_gainprm[0, 0] == 50.0


def test_a_spec_will_do_and_a_compiled_model_is_refused(arm):
    spec = mujoco.MjSpec.from_file(str(arm()))
    with MujocoSimulation(spec) as simulation, ActuatorGroups(Articulation("/r"), {"a": implicit("a")}):
        simulation.step()
    with MujocoSimulation(spec.compile()), pytest.raises(ValueError, match="joint 'a' of '/r' has no drive.*MjSpec"):
        ActuatorGroups(Articulation("/r"), {"a": implicit("a")})


def test_keyframes_at_the_start_and_at_a_reset(arm):
    with MujocoSimulation(arm(), num_envs=2, keyframe="bent") as simulation:
        robots = Articulation("r")
        np.testing.assert_allclose(robots.get_dof_positions().numpy(), np.ones((2, 3)))
        simulation.reset([1], keyframe="home")
        np.testing.assert_allclose(robots.get_dof_positions().numpy(), [[1, 1, 1], [0.1, 0.2, 0.3]], rtol=1e-6)
        assert simulation.data[1].ctrl[0] == 0.5
        simulation.reset(keyframe=0)
        np.testing.assert_allclose(robots.get_dof_positions().numpy(), [[0.1, 0.2, 0.3]] * 2, rtol=1e-6)
        simulation.reset()
        np.testing.assert_allclose(robots.get_dof_positions().numpy(), np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"keyframe: got 'bend'.*arm.xml.*Did you mean 'bent'"):
            simulation.reset(keyframe="bend")
    with pytest.raises(ValueError, match="keyframe: got 2; must be the name of a keyframe"):
        MujocoSimulation(arm(), keyframe=2)


def test_a_drone_is_refused_by_name_and_reason(tmp_path):
    body = '<body name="d"><freejoint/><geom size="0.1"/><site name="s"/></body>'
    motors = '<actuator><motor site="s" gear="0 0 1 0 0 0"/></actuator>'
    (tmp_path / "drone.xml").write_text(f"<mujoco><worldbody>{body}</worldbody>{motors}</mujoco>")
    with pytest.raises(ValueError, match=r"drone.xml' holds no robot: its joints are free.*push at sites"):
        MujocoSimulation(tmp_path / "drone.xml")


GRIPPER = """<mujoco><option gravity="0 0 0"/><default><geom size="0.02" contype="0"/><joint armature="0.1"/></default>
<worldbody>
<body name="r"><joint name="wrist" axis="0 0 1"/><geom/>
<body><joint name="left" type="slide" axis="0 1 0" range="0 0.04" damping="1"/><geom/></body>
<body><joint name="right" type="slide" axis="0 -1 0" range="0 0.04" damping="1"/><geom/></body>
<body><joint name="loose" type="slide"/><geom/></body></body></worldbody>
<tendon><fixed name="split"><joint joint="left" coef="0.5"/><joint joint="right" coef="0.5"/></fixed></tendon>
<equality><joint joint1="left" joint2="right"/></equality>
<actuator><position joint="wrist" kp="10" kv="1"/><general name="grip" tendon="split" biastype="affine"
ctrlrange="0 255" forcerange="-100 100" gainprm="0.01568627451 0 0" biasprm="0 -100 -10"/></actuator></mujoco>"""


@pytest.mark.parametrize("num_envs", [1, 9])
def test_a_gripper_is_told_by_its_tendon_or_by_its_fingers(num_envs, tmp_path):
    (tmp_path / "gripper.xml").write_text(GRIPPER)
    with MujocoSimulation(tmp_path / "gripper.xml", num_envs) as simulation:
        robots = Articulation("r")
        assert robots.get_tendon_names() == ["split"]
        assert robots.get_tendon_targets(indices=[]).shape == (0, 1)
        robots.set_tendon_targets(0.02)
        np.testing.assert_allclose(robots.get_tendon_targets().numpy(), [[0.02]] * num_envs, rtol=1e-6)
        assert simulation.data[0].ctrl[1] == pytest.approx(127.5, rel=1e-6)
        np.testing.assert_allclose(robots.get_dof_position_targets().numpy()[:, 1:3], 0.02, rtol=1e-5)
        simulation.step(1000)
        np.testing.assert_allclose(robots.get_dof_positions().numpy()[:, 1:3], 0.02, atol=1e-4)
        robots.set_dof_position_targets([[0.3, 0.01, 0.01]], dof_indices=[0, 1, 2])
        np.testing.assert_allclose(
            robots.get_tendon_targets(tendon_indices="split").numpy(), [[0.01]] * num_envs, rtol=1e-5
        )
        robots.set_dof_position_targets(0.03, indices=[0], dof_indices=[1])
        np.testing.assert_allclose(robots.get_tendon_targets().numpy()[0], [0.02], rtol=1e-5)
        simulation.step(1000)
        assert robots.get_dof_positions().numpy()[0, 1] == pytest.approx(0.02, abs=1e-4)
        robots.set_tendon_targets([[9.0]], indices=[0], tendon_indices=["split"])
        assert robots.get_tendon_targets().numpy()[0, 0] == pytest.approx(0.04)
        simulation.reset()
        assert not robots.get_tendon_targets().numpy().any()
        for wrong, match in (
            (
                lambda: robots.set_tendon_targets(0.1, tendon_indices="splits"),
                "no tendon 'splits'.*Did you mean 'split'",
            ),
            (lambda: robots.set_tendon_targets(0.1, tendon_indices=[1]), "tendon_indices: got"),
            (
                lambda: robots.set_dof_position_targets(0.1, dof_indices=[3]),
                "no servo or actuator follows a target position of loose",
            ),
            (
                lambda: robots.set_dof_velocity_targets(0.1, dof_indices=[1]),
                "no servo or actuator follows a target velocity of left",
            ),
        ):
            with pytest.raises(ValueError, match=match):
                wrong()


def test_a_tendon_whose_joints_are_driven_otherwise_is_not_to_be_told():
    with MujocoSimulation(mujoco.MjModel.from_xml_string(GRIPPER)) as simulation:
        robots = Articulation("/r")
        cfg = IdealPDActuatorCfg(joint_names_expr=["left", "right"], stiffness=50.0, damping=1.0)
        with ActuatorGroups(robots, {"fingers": cfg}) as groups:
            assert groups["fingers"].effort_limit[0].tolist() == [50.0, 50.0]
            with pytest.raises(ValueError, match="joint 'left' of '/r' is driven by actuators"):
                robots.set_tendon_targets(0.02)
            robots.set_dof_position_targets(0.01, dof_indices=[1, 2])
            simulation.step()
            assert groups.telemetry().computed_effort[0, 1:3] == pytest.approx([0.5, 0.5])
        robots.set_tendon_targets(0.02)


def test_robots_with_prefixes_are_found_among_many_environments():
    text = ARM.format(actuators=MOTORS, keys="", tendon="", integrator="Euler").replace('gravity="0 0 0"', "")
    world = mujoco.MjSpec()
    for i, side in enumerate(("left/", "right/")):
        arm = mujoco.MjSpec.from_string(text)
        world.attach(arm, frame=world.worldbody.add_frame(pos=[0, i, 0]), prefix=side)
    for num_envs in (1, 3):
        with MujocoSimulation(world, num_envs):
            assert len(Articulation("left/r")) == num_envs
            assert Articulation("left/r").dof_names == ["left/a", "left/b", "left/c"]
            assert len(Articulation("left/.*")) == len(Articulation(".*right/r")) == num_envs
            assert len(Articulation("/World/envs/env_0/right/r")) == 1
            with pytest.raises(ValueError, match="there is no robot at 'leftr'"):
                Articulation("leftr")
            robots = Articulation("right/r")
            with ActuatorGroups(robots, {"a": implicit("right/a")}):
                robots.set_dof_position_targets(0.2, dof_indices=[0])


def test_a_urdf_has_its_limits_and_gets_drives(tmp_path):
    link = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    (tmp_path / "arm.urdf").write_text(
        f'<robot name="arm"><link name="base">{link}</link><link name="tip">{link}</link>'
        '<joint name="a" type="revolute"><parent link="base"/><child link="tip"/><axis xyz="0 1 0"/>'
        '<limit effort="7" velocity="3" lower="-1" upper="1"/></joint></robot>'
    )
    with MujocoSimulation(tmp_path / "arm.urdf", num_envs=2) as simulation:
        robots = Articulation("base")
        assert robots.get_dof_max_efforts().numpy().tolist() == [[7.0], [7.0]]
        with ActuatorGroups(robots, {"a": implicit("a", stiffness=500.0)}) as groups:
            robots.set_dof_position_targets(1.0)
            simulation.step()
            assert simulation.data[1].qfrc_actuator[0] == groups.telemetry().applied_effort[1, 0] == 7.0


def test_a_file_that_is_gone_is_told(arm):
    path = arm()
    with MujocoSimulation(path) as simulation:
        path.unlink()
        with pytest.raises(ValueError, match=r"no drive can be added: .*arm.xml' cannot be read again"):
            ActuatorGroups(Articulation("/r"), {"a": implicit("a")})
        simulation.step()


@pytest.mark.parametrize(
    ("before", "now", "what"),
    [
        ('name="c"', 'name="d"', "joint 'c' is 'd'"),
        ('<joint name="a" axis="0 1 0" armature="0.1"/>', "", "njnt"),
        ('<motor joint="b"/>', "", "nactuator"),
    ],
)
def test_a_file_that_has_changed_is_told(arm, before, now, what):
    path = arm(actuators='<motor joint="b"/>', keys="")
    with MujocoSimulation(path) as simulation:
        path.write_text(path.read_text().replace(before, now))
        with pytest.raises(ValueError, match=rf"no drive .* its source has changed \(.*{what}.*\); make"):
            ActuatorGroups(Articulation("/r"), {"c": implicit("c")})
        simulation.step()


@pytest.mark.parametrize("late", ['timeconst="0.1"', 'delay="0.02" nsample="10"'])
def test_a_servo_that_is_late_is_replaced_while_an_implicit_group_drives(arm, late, caplog):
    """The law of the group, and no filter or delay of the model, acts and is shown."""
    own = f'<position joint="a" kp="30" kv="3" {late}/>'
    with MujocoSimulation(arm(actuators=own, keys="")) as simulation:
        robots = Articulation("r")
        with caplog.at_level(logging.WARNING), ActuatorGroups(robots, {"a": implicit("a")}) as groups:
            assert "no drive in the model for a that follows gains alone; one is added" in caplog.text
            robots.set_dof_position_targets(0.5, dof_indices=[0])
            q, qd = (values.numpy()[0, 0] for values in (robots.get_dof_positions(), robots.get_dof_velocities()))
            data = simulation.data[0]  # before the step, to see what acts in it
            simulation.step()
            acted = data.qfrc_actuator[0]
            np.testing.assert_allclose(groups.telemetry().applied_effort[0, 0], acted, rtol=1e-5)
            np.testing.assert_allclose(acted, 30.0 * (0.5 - q) - 3.0 * qd, rtol=1e-5)
        assert simulation.models[0].nu == 1


def test_targets_stay_within_the_range_of_a_late_servo_that_is_replaced(arm):
    own = '<position joint="a" kp="30" kv="3" ctrlrange="-0.2 0.3" timeconst="0.1"/>'
    with MujocoSimulation(arm(actuators=own, keys="")) as simulation:
        robots = Articulation("r")
        for _ in range(2):
            with ActuatorGroups(robots, {"a": implicit("a")}):
                robots.set_dof_position_targets(0.5, dof_indices=[0])
                assert robots.get_dof_position_targets().numpy()[0, 0] == np.float32(0.3)
                simulation.step()
                assert simulation.data[0].qfrc_actuator[0] <= 30.0 * 0.3 + 1e-4
            robots.set_dof_position_targets(0.0, dof_indices=[0])


def test_a_late_servo_of_a_model_that_cannot_grow_is_named(arm):
    own = '<position joint="a" kp="30" kv="3" timeconst="0.1"/>'
    model = mujoco.MjModel.from_xml_path(str(arm(actuators=own, keys="")))
    with MujocoSimulation(model):
        robots = Articulation("r")
        with pytest.raises(
            ValueError, match=r"joint 'a' of '/r' has no drive that follows gains alone, without filter"
        ):
            ActuatorGroups(robots, {"a": implicit("a")})
