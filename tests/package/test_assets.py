# SPDX-License-Identifier: Apache-2.0
"""The robots of actuon.assets: both files say the same, MuJoCo and Newton read the same, and the robots stand."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdLux, UsdPhysics

import actuon
from scripts import robots
from scripts.robots.description import AXES, TIME_STEP, Shape

mujoco = pytest.importorskip("mujoco")

ASSETS = actuon.assets.FOLDER
ROBOTS = {"quadruped": robots.quadruped(), "arm": robots.arm()}
JOINTS = {
    "quadruped": [f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")],
    "arm": [f"joint{i}" for i in range(1, 8)],
}
DEGREE = np.pi / 180

each_robot = pytest.mark.parametrize("name", ROBOTS)


def mujoco_model(name, *, driven=True):
    model = mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))
    if not driven:
        model.actuator_gainprm[:] = 0.0
        model.actuator_biasprm[:] = 0.0
    return model


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    return data


@functools.cache
def usd_stage(name):
    return Usd.Stage.Open(str(ASSETS / f"{name}.usda"))


def usd_prims(name, kind):
    return [prim for prim in usd_stage(name).Traverse() if prim.IsA(kind) or prim.HasAPI(kind)]


def groups(name):
    """Gains and effort limits of the YAML file, spread over the joints; each of shape (N,)."""
    kp, kd, limit = np.full((3, len(JOINTS[name])), np.nan)
    for entry, joints in actuon.match_joints(actuon.load_actuators(ASSETS / f"{name}.actuon.yaml"), JOINTS[name]):
        members = [JOINTS[name].index(joint) for joint in joints]
        kp[members], kd[members] = entry.actuator.controller.kp, entry.actuator.controller.kd
        limit[members] = entry.actuator.clamping[-1].max_effort
    assert not np.isnan(kp).any()
    return kp, kd, limit


def hold(model, data, seconds, kp, kd, limit):
    """PD to the home angles, as efforts from outside the engine."""
    n, home = model.nu, model.key_ctrl[0]
    for _ in range(round(seconds / model.opt.timestep)):
        effort = kp * (home - data.qpos[-n:]) - kd * data.qvel[-n:]
        data.qfrc_applied[-n:] = np.clip(effort, -limit, limit)
        mujoco.mj_step(model, data)
        yield


def test_files_are_what_the_generator_writes(tmp_path):
    for path in ASSETS.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    robots.write_all(tmp_path)
    assert len(list(tmp_path.iterdir())) == 6
    for path in tmp_path.iterdir():
        written = path.read_text(encoding="utf-8")
        assert (ASSETS / path.name).read_text(encoding="utf-8") == written, f"{path.name}: python -m scripts.robots"


def test_every_robot_file_has_a_name():
    named = {path for path in vars(actuon.assets).values() if isinstance(path, Path)} - {ASSETS}
    assert named == {path for path in ASSETS.iterdir() if path.suffix in (".xml", ".usda", ".yaml")}


@each_robot
def test_every_figure_has_a_source(name):
    robot = ROBOTS[name]
    for note in (robot.link_note, robot.joint_note, *(link.note for link in robot.links)):
        for source in re.findall(r": ([A-Z]\w+)", note):
            assert source in robot.sources
    links = usd_prims(name, UsdPhysics.RigidBodyAPI)
    joints = usd_prims(name, UsdPhysics.RevoluteJoint)
    assert len(links) == len(robot.links)
    assert len(joints) == len(JOINTS[name])
    assert all(prim.GetDocumentation() for prim in links + joints)


@each_robot
def test_both_files_say_the_same(name):
    model = mujoco_model(name)
    joints = usd_prims(name, UsdPhysics.RevoluteJoint)
    assert usd_stage(name).GetDefaultPrim().GetName() == name.capitalize()
    assert [prim.GetName() for prim in joints] == JOINTS[name]
    assert [model.actuator(i).name for i in range(model.nu)] == JOINTS[name]
    first = model.njnt - model.nu
    assert [model.joint(first + i).name for i in range(model.nu)] == JOINTS[name]

    def usd(attribute):
        return np.array([prim.GetAttribute(attribute).Get() for prim in joints])

    lower, upper = model.jnt_range[first:].T
    near = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(usd("physics:lowerLimit") * DEGREE, lower, **near)
    np.testing.assert_allclose(usd("physics:upperLimit") * DEGREE, upper, **near)
    assert [AXES[axis] for axis in usd("physics:axis")] == [tuple(axis) for axis in model.jnt_axis[first:]]
    np.testing.assert_allclose(usd("newton:armature"), model.dof_armature[-model.nu :], **near)
    np.testing.assert_allclose(usd("newton:friction"), model.dof_frictionloss[-model.nu :], **near)
    np.testing.assert_allclose(usd("newton:damping") / DEGREE, model.dof_damping[-model.nu :], **near)
    np.testing.assert_allclose(usd("drive:angular:physics:maxForce"), model.actuator_forcerange[:, 1], **near)
    np.testing.assert_allclose(usd("drive:angular:physics:stiffness") / DEGREE, model.actuator_gainprm[:, 0], **near)
    np.testing.assert_allclose(usd("drive:angular:physics:damping") / DEGREE, -model.actuator_biasprm[:, 2], **near)
    np.testing.assert_allclose(usd("drive:angular:physics:targetPosition") * DEGREE, model.key_ctrl[0], **near)

    links = usd_prims(name, UsdPhysics.RigidBodyAPI)
    for prim in links:
        body = model.body(prim.GetName())
        np.testing.assert_allclose(prim.GetAttribute("physics:mass").Get(), body.mass[0], **near)
        np.testing.assert_allclose(prim.GetAttribute("physics:centerOfMass").Get(), body.ipos, **near)
        np.testing.assert_allclose(prim.GetAttribute("physics:diagonalInertia").Get(), body.inertia, **near)


@each_robot
def test_links_in_usd_stand_at_the_home_of_mujoco(name):
    model = mujoco_model(name)
    data = at_home(model)
    mujoco.mj_forward(model, data)
    links = usd_prims(name, UsdPhysics.RigidBodyAPI)
    for prim in links:
        body = data.body(prim.GetName())
        turn = prim.GetAttribute("xformOp:orient").Get()
        np.testing.assert_allclose(prim.GetAttribute("xformOp:translate").Get(), body.xpos, atol=1e-6)
        assert abs(np.dot([turn.real, *turn.imaginary], body.xquat)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("name", "total"), [("quadruped", 15.019), ("arm", 17.891401026)])
def test_total_mass_is_the_sum_that_the_maker_publishes(name, total):
    """The sum over all links of the maker's description, heads and feet included [kg]."""
    assert mujoco_model(name).body_mass.sum() == pytest.approx(total, abs=1e-6)


def without_looks(name):
    """The robot as MJCF, without all that is only drawn."""
    spec = mujoco.MjSpec.from_file(str(ASSETS / f"{name}.xml"))
    drawn = [geom for geom in spec.geoms if geom.contype == geom.conaffinity == 0]
    for element in [*drawn, *spec.lights]:
        spec.delete(element)
    return spec.compile(), len(drawn)


@each_robot
def test_what_is_drawn_changes_nothing_in_mujoco(name):
    model = mujoco_model(name)
    bare, drawn = without_looks(name)
    assert model.ngeom == bare.ngeom + drawn
    assert drawn > model.nbody
    for field in ("body_mass", "body_ipos", "body_iquat", "body_inertia", "dof_M0"):
        np.testing.assert_array_equal(getattr(model, field), getattr(bare, field))
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    for field in ("geom_type", "geom_size", "geom_pos", "geom_contype", "geom_conaffinity", "geom_friction"):
        np.testing.assert_array_equal(getattr(model, field)[collides], getattr(bare, field))
    moved = []
    for each in (model, bare):
        data = at_home(each)
        data.qvel[-each.nu :] = np.linspace(-3.0, 3.0, each.nu)
        contacts = 0
        for _ in range(round(1.0 / each.opt.timestep)):
            mujoco.mj_step(each, data)
            contacts += data.ncon
        moved.append((contacts, *data.qpos, *data.qvel))
    assert moved[0] == moved[1]


@each_robot
def test_what_is_drawn_changes_nothing_in_newton(name, tmp_path):
    bare = shutil.copy(ASSETS / f"{name}.usda", tmp_path)
    stage = Usd.Stage.Open(str(bare))
    drawn = [p for p in stage.Traverse() if p.IsA(UsdGeom.Gprim) and not p.HasAPI(UsdPhysics.CollisionAPI)]
    drawn += [prim for prim in stage.Traverse() if prim.HasAPI(UsdLux.LightAPI)]
    for path in [prim.GetPath() for prim in drawn]:
        stage.RemovePrim(path)
    stage.Save()
    moved = []
    for path in (ASSETS / f"{name}.usda", bare):
        newton, model = newton_model(path)
        collides = (model.shape_flags.numpy() & newton.ShapeFlags.COLLIDE_SHAPES) != 0
        assert collides.sum() == (6 if name == "quadruped" else 8)
        solver = newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, integrator="euler")
        assert solver.mj_model.ngeom == collides.sum()
        state, following, control = model.state(), model.state(), model.control()
        newton.eval_ik(model, state, state.joint_q, state.joint_qd)
        for _ in range(500):
            solver.step(state, following, control, None, TIME_STEP)
            state, following = following, state
        figures = (model.body_mass, model.body_com, model.body_inertia, state.joint_q, state.joint_qd)
        moved.append(np.concatenate([figure.numpy().ravel() for figure in figures]))
    np.testing.assert_array_equal(*moved)


def extent_in_usd(prim):
    """Kind, size as MuJoCo has it [m], and axis of a shape."""
    kind = prim.GetTypeName()
    if kind == "Cube":
        return "BOX", np.array(prim.GetAttribute("xformOp:scale").Get()) / 2, "Z"
    radius = prim.GetAttribute("radius").Get()
    if kind == "Sphere":
        return "SPHERE", [radius], "Z"
    return kind.upper(), [radius, prim.GetAttribute("height").Get() / 2], prim.GetAttribute("axis").Get()


@each_robot
def test_both_files_draw_the_same(name):
    """Each link has the same shapes in the same colours. What collides is drawn only where it is a foot."""
    model = mujoco_model(name)
    for link in ROBOTS[name].links:
        prim = usd_stage(name).GetDefaultPrim().GetChild(link.name)
        in_usd = [UsdGeom.Gprim(child) for child in prim.GetChildren()]
        in_mujoco = np.flatnonzero(model.geom_bodyid == model.body(link.name).id)
        drawn = 0
        for shape, geom in zip(in_usd, in_mujoco, strict=True):
            np.testing.assert_allclose(shape.GetPrim().GetAttribute("xformOp:translate").Get(), model.geom_pos[geom])
            assert shape.GetPrim().HasAPI(UsdPhysics.CollisionAPI) == bool(model.geom_contype[geom])
            kind, size, axis = extent_in_usd(shape.GetPrim())
            assert model.geom_type[geom] == getattr(mujoco.mjtGeom, f"mjGEOM_{kind}")
            np.testing.assert_allclose(model.geom_size[geom][: len(size)], size, rtol=1e-6)
            along = np.zeros(3)
            mujoco.mju_rotVecQuat(along, np.array([0.0, 0.0, 1.0]), model.geom_quat[geom])
            np.testing.assert_allclose(np.abs(along), AXES[axis], atol=1e-9)
            is_drawn = shape.ComputePurpose() == UsdGeom.Tokens.default_
            assert is_drawn == (model.geom_group[geom] <= 2)
            if is_drawn:
                drawn += 1
                colour = model.mat_rgba[model.geom_matid[geom], :3]
                np.testing.assert_allclose(colour, shape.GetDisplayColorAttr().Get()[0])
        assert drawn == len(link.shapes) >= 2
    assert model.nlight == 1
    assert len([prim for prim in usd_stage(name).Traverse() if prim.HasAPI(UsdLux.LightAPI)]) == 2
    assert usd_stage(name).GetPrimAtPath("/Grid").IsA(UsdGeom.BasisCurves)


@pytest.mark.parametrize("kind", ["box", "cylinder", "capsule"])
def test_inertia_is_that_of_the_shape(kind):
    shape = Shape(kind, (0.3, 0.5, 0.2) if kind == "box" else (0.1, 0.4), (0.0, 0.0, 0.0), "Z")
    size = " ".join(map(str, [0.15, 0.25, 0.1] if kind == "box" else [0.1, 0.2]))
    xml = f'<mujoco><worldbody><body><geom type="{kind}" size="{size}" mass="2"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    np.testing.assert_allclose(sorted(shape.inertia(2.0)), sorted(model.body_inertia[1]), rtol=1e-5)


def test_quadruped_stands():
    model = mujoco_model("quadruped", driven=False)
    data = at_home(model)
    start = data.qpos[2]
    for _ in hold(model, data, 1.0, *groups("quadruped")):
        upright = data.xmat[1].reshape(3, 3)[2, 2] if data.time > model.opt.timestep else 1.0
        assert data.qpos[2] > start - 0.03
        assert upright > 0.995
    assert data.ncon == 4
    assert np.abs(data.qvel).max() < 0.05


def test_arm_holds_up_to_the_sag_of_a_spring_under_gravity():
    model = mujoco_model("arm", driven=False)
    data = at_home(model)
    kp, kd, limit = groups("arm")
    for _ in hold(model, data, 1.0, kp, kd, limit):
        pass
    sag = -data.qfrc_bias / kp
    np.testing.assert_allclose(data.qpos - model.key_qpos[0], sag, atol=0.003)
    assert np.abs(sag).max() < 0.05


@each_robot
def test_the_usd_carries_the_actuators_of_the_yaml(name):
    path = ASSETS / f"{name}.actuon.yaml"
    parsed = {p.target_path.rpartition("/")[2]: p.config for p in actuon.parse_actuators(usd_stage(name))}
    assert set(parsed) == set(JOINTS[name])
    for entry, joints in actuon.match_joints(actuon.load_actuators(path), JOINTS[name]):
        assert all(parsed[joint] == entry.actuator for joint in joints)
    assert actuon.inspect_actuators(usd_stage(name)).problems == []


@each_robot
def test_yaml_limits_are_those_of_the_joints(name):
    np.testing.assert_allclose(groups(name)[2], mujoco_model(name).actuator_forcerange[:, 1])


def newton_model(path):
    newton = pytest.importorskip("newton")
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    result = builder.add_usd(str(path))
    assert result["physics_dt"] == pytest.approx(TIME_STEP)
    for gains in (builder.joint_target_ke, builder.joint_target_kd):
        gains[:] = [0.0] * len(gains)
    return newton, builder.finalize(device="cpu")


@each_robot
def test_newton_reads_what_mujoco_reads(name):
    _, model = newton_model(ASSETS / f"{name}.usda")
    reference = mujoco_model(name)
    n = reference.nu
    assert model.joint_count == n + 1
    assert [label.rsplit("/", 1)[-1] for label in model.joint_label][1:] == JOINTS[name]
    assert [label.rsplit("/", 1)[-1] for label in model.body_label] == [
        reference.body(i).name for i in range(1, reference.nbody)
    ]
    near = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(model.body_mass.numpy(), reference.body_mass[1:], **near)
    np.testing.assert_allclose(model.body_com.numpy(), reference.body_ipos[1:], **near)
    inertia = np.diagonal(model.body_inertia.numpy(), axis1=1, axis2=2)
    np.testing.assert_allclose(inertia, reference.body_inertia[1:], **near)
    for ours, theirs in (
        (model.joint_armature, reference.dof_armature),
        (model.joint_friction, reference.dof_frictionloss),
        (model.joint_damping, reference.dof_damping),
    ):
        np.testing.assert_allclose(ours.numpy()[-n:], theirs[-n:], **near)
    np.testing.assert_allclose(model.joint_limit_lower.numpy()[-n:], reference.jnt_range[-n:, 0], **near)
    np.testing.assert_allclose(model.joint_limit_upper.numpy()[-n:], reference.jnt_range[-n:, 1], **near)
    np.testing.assert_allclose(model.joint_effort_limit.numpy()[-n:], reference.actuator_forcerange[:, 1], **near)
    speeds = [link.joint.speed for link in ROBOTS[name].links if link.joint]
    np.testing.assert_allclose(model.joint_velocity_limit.numpy()[-n:], speeds, **near)


@each_robot
def test_newton_moves_as_mujoco_does(name):
    """Falling limp from home for 0.2 s, the quadruped onto the ground. Newton stores joint state in 32 bits."""
    newton, model = newton_model(ASSETS / f"{name}.usda")
    solver = newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, integrator="euler")
    state, following, control = model.state(), model.state(), model.control()
    newton.eval_ik(model, state, state.joint_q, state.joint_qd)
    reference = mujoco_model(name, driven=False)
    data, n = at_home(reference), reference.nu
    np.testing.assert_allclose(state.joint_q.numpy()[-n:], data.qpos[-n:], atol=2e-6)
    for _ in range(100):
        mujoco.mj_step(reference, data)
        solver.step(state, following, control, None, TIME_STEP)
        state, following = following, state
        np.testing.assert_allclose(state.joint_q.numpy()[-n:], data.qpos[-n:], atol=2e-5)
    assert np.abs(data.qpos - reference.key_qpos[0]).max() > 0.2
