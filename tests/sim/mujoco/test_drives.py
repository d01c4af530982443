# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own actuators: which targets they follow, how strong they are, what limits them, and adding more."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from actuon.sim import MujocoSimulation
from actuon.sim.mujoco.actuators import Actuators, Lags, read_lags
from actuon.sim.mujoco.added import copy_values, new_drive, with_actuators
from actuon.sim.mujoco.limits import Limits
from actuon.sim.mujoco.model import find_keyframe, joint_name, why_no_robot
from actuon.sim.robots import DofSet

ALL = np.array([0])


def xml(actuators="", joints=("j",), attributes="", extra=""):
    bodies = "".join(
        f'<body name="b_{name}" pos="{i} 0 0"><joint name="{name}" axis="0 1 0" {attributes}/><geom size="0.1"/>'
        f'<site name="s_{name}" pos="0.1 0 0.2"/></body>'
        for i, name in enumerate(joints)
    )
    return (
        '<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body name="r"><site name="s_root"/>'
        f"{bodies}<geom size='0.1'/></body></worldbody>{extra}<actuator>{actuators}</actuator></mujoco>"
    )


def read(actuators="", **where):
    model = mujoco.MjModel.from_xml_string(xml(actuators, **where))
    return model, Actuators(model)


def effort(model, *, control=(), q=0.0, qd=0.0):
    """Return the effort of the actuators at the first joint, at a state."""
    data = mujoco.MjData(model)
    data.ctrl[: len(control)] = control
    data.qpos[0], data.qvel[0] = q, qd
    mujoco.mj_forward(model, data)
    return data.qfrc_actuator[0]


SERVOS = {
    "position": ('<position joint="j" kp="7" kv="2"/>', 7, 2, True, False),
    "geared": ('<position joint="j" kp="7" kv="2" gear="-3"/>', 63, 18, True, False),
    "damped": ('<general joint="j" biastype="affine" gainprm="7" biasprm="0 -7 -2"/>', 7, 2, True, False),
    "0 to 255": (
        '<general joint="j" biastype="affine" gainprm="0.1" biasprm="0.3 -7 -2" gear="2"/>',
        28,
        8,
        True,
        False,
    ),
    "velocity": ('<velocity joint="j" kv="3" gear="2"/>', 0, 12, False, True),
    "velocity in other units": (
        '<general joint="j" biastype="affine" gainprm="2" biasprm="0.5 0 -3"/>',
        0,
        3,
        False,
        True,
    ),
    "both": ('<position joint="j" kp="7" kv="2"/><velocity joint="j" kv="3"/>', 7, 5, True, True),
    "pid": ('<pid joint="j" kp="7" kv="2" gear="2"/>', 28, 8, True, True),
    "motor beside": ('<motor joint="j" gear="9"/><position joint="j" kp="7" kv="2"/>', 7, 2, True, False),
    "pid beside others": ('<pid joint="k" kp="1"/><pid joint="j" kp="7" kv="2"/>', 7, 2, True, True),
}


@pytest.mark.parametrize("name", SERVOS)
def test_a_servo_pulls_by_its_gains_to_its_targets(name):
    text, kp, kd, has_position, has_velocity = SERVOS[name]
    model, drives = read(text, joints=("j", "k"))
    gains = drives.gains(model, ALL)
    assert [values[0] for values in gains] == [kp, kd]
    assert [drives.follows(0, kind) for kind in ("position", "velocity")] == [has_position, has_velocity]
    assert (drives.position[0] >= 0, drives.velocity[0] >= 0) == (has_position, has_velocity)
    control = np.zeros(model.nu)
    braking = kd
    for places, target in ((drives.position, 0.4), (drives.velocity, 1.5)):
        if places[0] >= 0:
            control[places[0]] = drives.controls(target, places[0])
            assert drives.targets(control[places[0]], places[0]) == pytest.approx(target)
    follows_speed = 3.0 if name == "both" else kd * has_velocity  # a position servo brakes towards standstill
    expected = kp * (0.4 - 0.1) + follows_speed * 1.5 - braking * 0.2
    assert effort(model, control=control, q=0.1, qd=0.2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SERVOS)
def test_gains_are_set_and_keep_the_meaning_of_ctrl(name):
    text, _, _, has_position, has_velocity = SERVOS[name]
    model, drives = read(text, joints=("j", "k"))
    before = [getattr(model, field).copy() for field in ("actuator_gainprm", "actuator_biasprm")]
    drives.set_gains(model, ALL, *drives.gains(model, ALL))
    for field, values in zip(("actuator_gainprm", "actuator_biasprm"), before, strict=True):
        np.testing.assert_allclose(getattr(model, field), values, rtol=1e-7, err_msg=field)
    wanted = 50.0 if has_position else 0.0
    drives.set_gains(model, ALL, np.array([wanted]), np.array([6.0]))
    assert [values[0] for values in drives.gains(model, ALL)] == pytest.approx([wanted, 6.0])
    control = np.zeros(model.nu)
    for places, target in ((drives.position, 0.4), (drives.velocity, 1.5)):
        if places[0] >= 0:
            control[places[0]] = drives.controls(target, places[0])
    expected = wanted * 0.3 + 6.0 * (1.5 * has_velocity - 0.2)
    assert effort(model, control=control, q=0.1, qd=0.2) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<motor joint="j"/>', "has no servo in the model"),
        ('<intvelocity joint="j" kp="5"/>', "has no servo"),
        ('<damper joint="j" kv="5" ctrlrange="0 1"/>', "has no servo"),
        ('<muscle joint="j" lengthrange="-1 1"/>', "has no servo"),
        ('<general joint="j" gainprm="3" biastype="none" biasprm="1 -3 0"/>', "has no servo"),
        ('<general joint="j" gainprm="3" biastype="affine" biasprm="0 3 0"/>', "has no servo"),
        ('<position joint="j" kp="7"/><position joint="j" kp="8"/>', "several servos"),
        ('<pid joint="j" kp="7"/><velocity joint="j" kv="8"/>', "several servos"),
        ('<velocity joint="j" kv="8"/>', "velocity servo alone"),
        ("", "has no servo"),
    ],
)
def test_what_cannot_be_given_stiffness_says_why_and_is_silenced_all_the_same(text, why):
    model, drives = read(text)
    assert why in drives.gain_error(0, 5.0)
    with MujocoSimulation(model) as simulation:
        own, at = simulation.models[0], DofSet(simulation.robots, ALL)
        assert simulation.engine.drives.are_silent(at)[0, 0] == (not text)
        give_back = simulation.engine.drives.silence(at)
        assert simulation.engine.drives.are_silent(at)[0, 0]
        assert effort(own, control=np.full(own.nu, 0.7), q=0.3, qd=0.5) == 0.0
        give_back()
        for name in ("actuator_gainprm", "actuator_biasprm", "actuator_gaintype"):
            assert (getattr(own, name) == getattr(model, name)).all()


def test_what_makes_a_servo_late_is_read():
    texts = {
        '<position joint="j" kp="7"/>': Lags(0.0, 0, 0.0, False, 0.0, 0.0),
        '<position joint="j" kp="7" timeconst="0.1"/>': Lags(0.0, 0, 0.1, False, 0.0, 0.0),
        '<general joint="j" gainprm="7" biasprm="0 -7 0" biastype="affine" dyntype="filter" dynprm="0.1"/>': Lags(
            0.0, 0, 0.1, True, 0.0, 0.0
        ),
        '<position joint="j" kp="7" delay="0.01" nsample="8"/>': Lags(0.01, 0, 0.0, False, 0.0, 0.0),
        '<position joint="j" kp="7" delay="0.03" nsample="8" interp="linear"/>': Lags(0.016, 1, 0.0, False, 0.0, 0.0),
        '<pid joint="j" kp="7" ki="1" slewmax="2"/>': Lags(0.0, 0, 0.0, False, 1.0, 2.0),
    }
    for text, expected in texts.items():
        model, drives = read(text)
        assert model.opt.timestep == 0.002
        assert drives.follows(0, "position")
        assert read_lags(model, 0) == expected


def test_damping_ratio_and_inherited_range_are_read_as_they_are_compiled():
    model, drives = read('<position joint="j" kp="7" dampratio="1" inheritrange="1"/>', attributes='range="-30 60"')
    assert drives.gains(model, ALL)[1][0] == pytest.approx(-model.actuator_biasprm[0, 2])
    assert drives.gains(model, ALL)[1][0] > 0.1
    lower, upper = Limits(drives).target_range(model, "position", ALL)
    assert (lower[0], upper[0]) == pytest.approx((-math.pi / 6, math.pi / 3))


LIMITS = {
    "none": ('<position joint="j" kp="100"/>', "", -math.inf, math.inf, ""),
    "forcerange": (
        '<position joint="j" kp="100" name="p" forcerange="-2 3"/>',
        "",
        -2,
        3,
        "forcerange of actuator 'p'",
    ),
    "gear": ('<position joint="j" kp="100" gear="-2" forcerange="-2 3"/>', "", -6, 4, "forcerange"),
    "joint": ('<position joint="j" kp="100"/>', 'actuatorfrcrange="-4 5"', -4, 5, "actuatorfrcrange of joint 'j'"),
    "motor": ('<motor joint="j" name="m" gear="3" ctrlrange="-2 1"/>', "", -6, 3, "ctrlrange of motor 'm'"),
    "gain": ('<general joint="j" gainprm="5" gear="3" ctrlrange="-2 1"/>', "", -30, 15, "ctrlrange of motor"),
    "tightest": (
        '<motor joint="j" name="m" gear="3" ctrlrange="-2 2" forcerange="-1 9"/>',
        'actuatorfrcrange="-9 4"',
        -3,
        4,
        "forcerange of actuator 'm' and actuatorfrcrange of joint 'j'",
    ),
    "two servos": (
        '<position joint="j" kp="100" forcerange="-1 1"/><velocity joint="j" kv="1" forcerange="-2 2"/>',
        "",
        -3,
        3,
        "forcerange",
    ),
    "one of two": (
        '<position joint="j" kp="9" forcerange="-1 1"/><velocity joint="j" kv="1"/>',
        "",
        -math.inf,
        math.inf,
        "",
    ),
    "no actuator": ("", 'actuatorfrcrange="-4 5"', -4, 5, "actuatorfrcrange of joint 'j'"),
    "target": ('<position joint="j" kp="100" ctrlrange="-1 1"/>', "", -math.inf, math.inf, ""),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_found_where_models_have_them(name):
    text, attributes, lower, upper, source = LIMITS[name]
    model, drives = read(text, attributes=attributes)
    limits = Limits(drives)
    found = limits.effort_range(model, ALL)
    assert [found[0][0], found[1][0]] == [lower, upper]
    assert source in found[2][0]
    assert bool(found[2][0]) == bool(source)
    assert limits.effort_limits(model, ALL)[0] == max(-lower, upper)
    if math.isfinite(upper) and model.nu:
        high = [effort(model, control=np.full(model.nu, value)) for value in (-1e6, 1e6)]
        assert [min(high), max(high)] == pytest.approx([lower, upper])


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("limit", [0.5, 50.0, math.inf])
def test_limits_are_set_wherever_the_model_has_them(name, limit):
    text, attributes, lower, upper, _ = LIMITS[name]
    model, drives = read(text, attributes=attributes)
    limits = Limits(drives)
    limits.set_effort_limits(model, ALL, limits.effort_limits(model, ALL))
    assert [values[0] for values in limits.effort_range(model, ALL)[:2]] == [lower, upper]
    limits.set_effort_limits(model, ALL, np.array([limit]))
    assert limits.effort_limits(model, ALL)[0] == pytest.approx(limit)
    assert [values[0] for values in limits.effort_range(model, ALL)[:2]] == pytest.approx([-limit, limit])
    if model.nu and math.isfinite(limit):
        assert abs(effort(model, control=np.full(model.nu, 1e6))) == pytest.approx(limit)


def test_a_silenced_motor_still_has_its_limit():
    model, drives = read('<motor joint="j" gear="3" ctrlrange="-2 1"/>')
    limits = Limits(drives)
    model.actuator_gainprm[0] = 0.0
    assert [values[0] for values in limits.effort_range(model, ALL)[:2]] == [-6.0, 3.0]


def test_what_the_joint_takes_from_outside_is_its_own_range_alone():
    model, drives = read('<motor joint="j" ctrlrange="-2 1"/>', attributes='actuatorfrcrange="-4 5"')
    limits = Limits(drives)
    assert [values[0] for values in limits.joint_range(model, ALL)] == [-4.0, 5.0]
    assert [values[0] for values in limits.effort_range(model, ALL)[:2]] == [-2.0, 1.0]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ('<position joint="j" kp="9"/>', "position", (-math.inf, math.inf)),
        ('<position joint="j" kp="9" ctrlrange="-1 2"/>', "position", (-1, 2)),
        ('<position joint="j" kp="9" gear="-2" ctrlrange="-1 2"/>', "position", (-1, 0.5)),
        (
            '<general joint="j" biastype="affine" gainprm="0.1" biasprm="0 -10 0" ctrlrange="0 255"/>',
            "position",
            (0, 2.55),
        ),
        ('<velocity joint="j" kv="9" ctrlrange="-1 2"/>', "velocity", (-1, 2)),
        ('<velocity joint="j" kv="9" ctrlrange="-1 2"/>', "position", (-math.inf, math.inf)),
        ('<motor joint="j" ctrlrange="-1 2"/>', "position", (-math.inf, math.inf)),
    ],
)
def test_ctrlrange_of_a_servo_is_a_range_of_targets(text, kind, expected):
    model, drives = read(text)
    limits = Limits(drives)
    found = limits.target_range(model, kind, ALL)
    assert (found[0][0], found[1][0]) == pytest.approx(expected)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
    assert [values[0] for values in limits.target_range(model, kind, ALL)] == [-math.inf, math.inf]


GRIPPER = (
    '<tendon><fixed name="split"><joint joint="a" coef="0.5"/><joint joint="b" coef="-2"/></fixed>'
    '<spatial name="cable"><site site="s_root"/><site site="s_c"/></spatial></tendon>'
)


def test_tendon_drives_are_named_and_know_the_joints_they_couple():
    text = (
        '<position tendon="split" kp="10" ctrlrange="0 1" forcerange="-8 8"/><position tendon="cable" kp="10"/>'
        '<position joint="d" kp="3"/>'
    )
    model, drives = read(text, joints=("a", "b", "c", "d"), extra=GRIPPER)
    assert [drive.name for drive in drives.tendons] == ["split", "cable"]
    split, cable = drives.tendons
    assert split.dofs.tolist() == [0, 1]
    assert cable.dofs.tolist() == [2]
    assert split.length(np.array([[0.2, 0.1], [1.0, 0.0]])) == pytest.approx([-0.1, 0.5])
    assert [drives.follows(dof, "position") for dof in range(4)] == [True, True, False, True]
    assert not drives.follows(0, "velocity")
    data = mujoco.MjData(model)
    data.qpos[:2] = 0.2, 0.1
    mujoco.mj_forward(model, data)
    assert split.length(data.qpos[:2]) == pytest.approx(data.ten_length[0])
    lower, upper, source = Limits(drives).effort_range(model, np.arange(4))
    assert upper.tolist() == [4.0, 16.0, math.inf, math.inf]
    assert (-lower).tolist() == upper.tolist()
    assert source[0].startswith("forcerange")


def test_a_tendon_beside_a_servo_follows_no_joint_targets():
    text = '<position tendon="split" kp="10"/><position joint="b" kp="3"/>'
    _, drives = read(text, joints=("a", "b", "c"), extra=GRIPPER)
    assert drives.tendons[0].coupled == frozenset()
    assert [drives.follows(dof, "position") for dof in range(3)] == [False, True, False]


def test_a_tendon_is_silenced_with_all_of_its_joints_or_not():
    model, drives = read('<position tendon="split" kp="10"/>', joints=("a", "b", "c"), extra=GRIPPER)
    assert drives.ids(np.array([0])) == []
    assert drives.ids(np.array([0, 1, 2])) == [0]
    assert "moves a, b together" in drives.why_active(model, 0)
    with MujocoSimulation(model) as simulation:
        at = DofSet(simulation.robots, np.array([0]))
        drives = simulation.engine.drives
        assert drives.are_silent(at).tolist() == [[False, False, True]]
        drives.silence(at.of_dofs(np.array([0])))
        assert drives.are_silent(at).tolist() == [[False, False, True]]
        drives.silence(at)
        assert drives.are_silent(at).all()


def test_a_push_at_a_site_is_no_drive_of_a_joint():
    _, drives = read('<motor site="s_j" gear="0 0 1 0 0 0"/><general site="s_j" refsite="s_root"/>')
    assert drives.moves.tolist() == [[False], [True]]


MOTORS = xml(
    '<motor name="m" joint="a" gear="3" ctrlrange="-2 2"/><position joint="b" kp="9" kv="1"/>',
    joints=("a", "b"),
    extra='<keyframe><key name="far" qpos="1 2" ctrl="0.5 2"/><key qpos="0.1 0.2"/></keyframe>'
    '<sensor><actuatorfrc actuator="m"/></sensor>',
)


def grown(limit=math.inf):
    spec = mujoco.MjSpec.from_string(MOTORS)
    model = mujoco.MjModel.from_xml_string(MOTORS)
    model.opt.timestep = 0.001
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    model.dof_armature[:] = 0.3
    model.actuator_biasprm[1, 1] = model.actuator_gainprm[1, 0] = 0.0
    more, drives = with_actuators(spec, model, [new_drive(0, -limit, limit)])
    return model, more, drives


def test_an_added_drive_leaves_everything_else_as_it_is():
    model, more, drives = grown()
    assert drives.added == {2}
    assert drives.added_dofs == [0]
    assert [more.actuator(i).name for i in range(3)] == ["m", "", "a_drive"]
    assert more.nu == model.nu + 2
    assert more.opt.timestep == 0.001
    assert more.opt.disableflags == model.opt.disableflags
    assert more.key_ctrl.tolist() == [[0.5, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    for field in ("dof_armature", "dof_invweight0", "key_qpos", "jnt_actfrcrange", "body_mass"):
        np.testing.assert_array_equal(getattr(more, field), getattr(model, field), err_msg=field)
    for field in ("actuator_gainprm", "actuator_biasprm", "actuator_acc0"):
        np.testing.assert_array_equal(getattr(more, field)[:2], getattr(model, field), err_msg=field)
    before, after = mujoco.MjData(model), mujoco.MjData(more)
    for each, data in ((model, before), (more, after)):
        mujoco.mj_resetDataKeyframe(each, data, 0)
        data.qvel[:], data.qfrc_applied[:] = (0.5, -0.5), (0.1, 0.2)
        for _ in range(50):
            mujoco.mj_step(each, data)
    assert (before.qpos == after.qpos).all()
    assert after.ctrl.tolist() == [0.5, 2.0, 0.0, 0.0]
    more.dof_armature[1] = 0.7
    copy_values(more, model)
    assert model.dof_armature.tolist() == [0.3, 0.7]


def test_an_added_drive_follows_position_and_velocity_up_to_its_limit():
    _, more, drives = grown(limit=20.0)
    assert [drives.follows(0, kind) for kind in ("position", "velocity")] == [True, True]
    assert drives.position.tolist() == [2, 1]
    assert drives.velocity.tolist() == [3, -1]
    drives.set_gains(more, ALL, np.array([30.0]), np.array([4.0]))
    assert [values[0] for values in drives.gains(more, ALL)] == [30.0, 4.0]
    assert effort(more, control=[0, 0, 0.5, 1.5], q=0.1, qd=0.2) == pytest.approx(30 * 0.4 + 4 * 1.3)
    assert effort(more, control=[0, 0, 5.0, 0.0]) == 20.0
    drives.set_gains(more, ALL, np.array([0.0]), np.array([4.0]))
    assert effort(more, control=[0, 0, 0.5, 1.5], q=0.1, qd=0.2) == pytest.approx(4 * 1.3)
    assert Limits(drives).effort_range(more, ALL)[2] == ["forcerange of actuator 'a_drive'"]


def test_what_was_silenced_is_still_known_after_drives_were_added():
    _, _, drives = grown()
    assert drives.gain_error(1, 5.0) is None  # its gains are zero by now, and it is a servo still
    assert drives.motor_gain == {0: 1.0}


def test_joints_without_names_and_specs_that_changed():
    nameless = xml(joints=("a",)).replace('name="a"', "")
    model, spec = mujoco.MjModel.from_xml_string(nameless), mujoco.MjSpec.from_string(nameless)
    more, _ = with_actuators(spec, model, [new_drive(0)])
    assert joint_name(more, 0) == joint_name(model, 0) == "joint0"
    spec.worldbody.add_body().add_joint(type=mujoco.mjtJoint.mjJNT_HINGE)
    spec.bodies[-1].add_geom(size=[0.1, 0, 0])
    with pytest.raises(ValueError, match="its source has changed"):
        with_actuators(spec, model, [new_drive(0)])


def test_keyframes_are_found_by_name_and_number():
    model = mujoco.MjModel.from_xml_string(MOTORS)
    assert find_keyframe(model, None, "it") == -1
    assert find_keyframe(model, "far", "it") == find_keyframe(model, 0, "it") == 0
    assert find_keyframe(model, np.int64(1), "it") == 1
    for wrong in ("fare", 2, -1, True, 1.5, ""):
        with pytest.raises(ValueError, match="keyframe: got .* from 0 to 1; keyframes: far"):
            find_keyframe(model, wrong, "'m.xml'")
    with pytest.raises(ValueError, match="'m.xml' has no keyframes"):
        find_keyframe(mujoco.MjModel.from_xml_string(xml()), 0, "'m.xml'")


def test_a_robot_without_joints_says_why():
    body = '<body><freejoint/><geom size="0.1"/><site name="s"/></body>'
    drone = f'<mujoco><worldbody>{body}</worldbody><actuator><motor site="s" gear="0 0 1 0 0 0"/></actuator></mujoco>'
    assert "joints are free, and none is a hinge or slide; its actuators push at sites" in why_no_robot(
        mujoco.MjModel.from_xml_string(drone)
    )
    still = '<mujoco><worldbody><geom size="0.1"/></worldbody></mujoco>'
    assert "no joints" in why_no_robot(mujoco.MjModel.from_xml_string(still))
