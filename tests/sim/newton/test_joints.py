# SPDX-License-Identifier: Apache-2.0
"""Robots that Newton reads: joints of several axes, MJCF and meshes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pxr import Gf, UsdGeom, UsdPhysics

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg
from actuon.sim import Articulation
from actuon.sim.robots import DofSet
from tests.support.command_line import command
from tests.support.robot_files import robot, solid

newton = pytest.importorskip("newton")

ASSETS = actuon.assets.FOLDER
NEWTON = Path(newton.__file__).parent / "examples" / "assets"
ONE = np.array([0])


PD = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 1.0))
MOTORS = """
<mujoco model="two"><option timestep="0.004"/><worldbody>
  <geom type="plane" size="1 1 .1"/>
  <body name="cart" pos="0 0 1"><joint name="turn" axis="0 0 1"/><joint name="along" type="slide" axis="1 0 0"/>
    <geom size=".1"/>
    <body name="pole" pos="0 0 .3"><joint name="swing" axis="0 1 0"/><geom size=".05"/></body></body>
</worldbody><actuator>
  <motor name="m" joint="turn"/>
  <general name="g" joint="swing" gainprm="3" biastype="affine" biasprm="0 -3 -.1"/>
  <position name="p" joint="along" kp="7"/>
</actuator></mujoco>
"""


@pytest.fixture
def motors(tmp_path):
    (tmp_path / "two.xml").write_text(MOTORS)
    return tmp_path / "two.xml"


def dofs_of(simulation, robots=ONE, dofs=None):
    return DofSet(simulation.robots, robots, dofs)


def two_axes(free=("rotY", "transX", "rotX")):
    """A link that a PhysicsJoint holds to another, free along these axes."""
    stage = robot(joints=("hip",))
    ball = UsdGeom.Cube.Define(stage, "/Robot/head")
    ball.CreateSizeAttr(0.2)
    ball.AddTranslateOp().Set(Gf.Vec3d(1.0, 0.0, 1.0))
    UsdPhysics.RigidBodyAPI.Apply(ball.GetPrim())
    UsdPhysics.MassAPI.Apply(ball.GetPrim()).CreateMassAttr(1.0)
    joint = UsdPhysics.Joint.Define(stage, "/Robot/joints/neck")
    joint.CreateBody0Rel().SetTargets(["/Robot/link1"])
    joint.CreateBody1Rel().SetTargets(["/Robot/head"])
    joint.CreateLocalPos0Attr(Gf.Vec3f(0.25, 0, 0))
    joint.CreateLocalPos1Attr(Gf.Vec3f(-0.25, 0, 0))
    for axis in ("transX", "transY", "transZ", "rotX", "rotY", "rotZ"):
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(-30.0 if axis in free else 1.0)
        limit.CreateHighAttr(30.0 if axis in free else -1.0)
    return solid(stage)


def test_every_axis_of_a_joint_is_a_dof():
    with NewtonSimulation(NEWTON / "humanoid.usda") as simulation:
        humanoid = Articulation("/nv_humanoid")
        assert humanoid.num_dofs == 21
        assert len(set(humanoid.dof_names)) == 21
        assert {"lower_waist:0", "lower_waist:1", "abdomen_x", "left_thigh:2"} <= set(humanoid.dof_names)
        legs = IdealPDActuatorCfg([".*_thigh:[012]"], stiffness=100.0, damping=5.0)
        with ActuatorGroups(humanoid, {"legs": legs}):
            at = humanoid.get_dof_indices(["left_thigh:1"])
            silent = simulation.engine.drives.are_silent(humanoid.at)[0]
            assert silent[humanoid.get_dof_indices(["left_thigh:0", "right_thigh:2"])].all()
            assert not silent[humanoid.get_dof_indices("left_foot:0")].any()
            humanoid.set_dof_position_targets(0.3, dof_indices=at)
            simulation.step(300)
            assert humanoid.get_dof_positions(dof_indices=at).numpy()[0, 0] > 0.15
        newtons_own = newton.selection.ArticulationView(simulation.model, "*", exclude_joint_types=[4])
        assert humanoid.dof_names == [name.rsplit("/", 1)[-1] for name in newtons_own.joint_dof_names]


def test_axes_in_a_stage_are_those_of_the_engine(tmp_path):
    """Written by name, read back, and driven: each on its own axis."""
    stage = two_axes()
    names = {"neck:0": "transX", "neck:1": "rotX", "neck:2": "rotY"}
    for i, (name, axis) in enumerate(names.items()):
        prim = actuon.add_actuator("/Robot", name, f"n{i}", actuon.PDControlConfig(200.0 + i, 20.0), stage=stage)
        assert [str(t) for t in prim.GetRelationship("newton:targets").GetTargets()] == [
            f"/Robot/joints/neck.drive:{axis}"
        ]
    entries = actuon.export_actuators(stage)
    assert [entry.joints for entry in entries] == [(name,) for name in names]
    report = actuon.inspect_actuators(stage)
    assert not report.problems
    assert [joint.name for joint in report.joints] == ["hip", *names]
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", entries)
    stage.Export(str(tmp_path / "with.usda"))
    stage.RemovePrim("/Robot/Actuators")
    stage.Export(str(tmp_path / "robot.usda"))
    for file in ("with.usda", "robot.usda"):
        with NewtonSimulation(tmp_path / file) as simulation:
            actuators = ArticulationActuators([robot.path for robot in simulation.robots])
            assert list(actuators.configs) == list(names)
            assert actuators.configs["neck:2"].controller.kp == 202.0
            assert simulation.robots[0].slides == (False, True, False, False)
            targets = np.array([0.0, 0.4, -0.3, 0.45])
            actuators.articulation.set_dof_position_targets(targets)
            simulation.step(300)
            reached = actuators.articulation.get_dof_positions().numpy()
            np.testing.assert_allclose(reached[:, 1:], np.tile(targets[1:], (len(reached), 1)), atol=0.15)


def test_all_axes_by_one_entry():
    stage = two_axes()
    entries = [actuon.ActuatorEntry("neck", ("neck:.*",), PD)]
    prims = actuon.author_actuators("/Robot", entries, stage=stage)
    assert [prim.GetName() for prim in prims] == ["neck_0", "neck_1", "neck_2"]


def test_a_first_file_for_a_robot_with_several_axes(tmp_path):
    """The file that init writes drives the robot, and can be written into the stage."""
    stage = two_axes()
    drive = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/neck"), "rotY")
    drive.CreateStiffnessAttr(2.0)
    drive.CreateDampingAttr(0.1)
    stage.Export(str(tmp_path / "robot.usda"))
    command("init", tmp_path / "robot.usda")
    (entry,) = actuon.load_actuators(tmp_path / "robot.actuon.yaml")
    assert entry.joints == ("neck:2",)
    (prim,) = actuon.author_actuators("/Robot", [entry], stage=stage)
    assert prim.GetName() == "neck_2"
    with NewtonSimulation(tmp_path / "robot.usda") as simulation:
        held = [simulation.engine.properties.get(name, dofs_of(simulation))[0, 3] for name in ("stiffness", "damping")]
        assert (entry.actuator.controller.kp, entry.actuator.controller.kd) == pytest.approx(held)
        assert list(ArticulationActuators("/Robot").configs) == ["neck:2"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/Robot/joints/neck", "is not a DOF; those of this joint: /Robot/joints/neck.drive:transX, "),
        ("/Robot/joints/neck.drive:rotZ", "is not a DOF; those of this joint: /Robot/joints/neck.drive:transX, "),
        ("/Robot/joints/neck.drive:angular", "does not exist"),
        ("/Robot/joints/hip.drive:rotX", "is not a DOF; those of this joint: /Robot/joints/hip"),
    ],
)
def test_targets_that_are_no_axis(target, said):
    stage = two_axes()
    prim = actuon.add_actuator("/Robot", "neck:0", "n", actuon.PDControlConfig(1.0, 0.0), stage=stage)
    prim.GetRelationship("newton:targets").SetTargets([target])
    with pytest.raises(actuon.RobotFileError, match=f"its target '{target}' {said}"):
        actuon.parse_actuators(stage)


def test_joints_between_the_same_links_keep_their_names():
    """Newton merges them into one of several axes."""
    stage = solid(robot(joints=("hip",)))
    second = UsdPhysics.RevoluteJoint.Define(stage, "/Robot/joints/roll")
    second.CreateAxisAttr("X")
    for name in ("body0", "body1"):
        of_first = stage.GetPrimAtPath("/Robot/joints/hip").GetRelationship(f"physics:{name}").GetTargets()
        second.GetPrim().GetRelationship(f"physics:{name}").SetTargets(of_first)
    second.CreateLocalPos0Attr(Gf.Vec3f(0.25, 0, 0))
    second.CreateLocalPos1Attr(Gf.Vec3f(-0.25, 0, 0))
    for i, name in enumerate(("hip", "roll")):
        actuon.add_actuator("/Robot", name, name, actuon.PDControlConfig(100.0 + i, 10.0), stage=stage)
    with NewtonSimulation(stage) as simulation:
        assert simulation.robots[0].dof_names == ("hip", "roll")
        actuators = ArticulationActuators("/Robot")
        actuators.articulation.set_dof_position_targets([[0.0, 0.4]])
        simulation.step(200)
        assert actuators.articulation.get_dof_positions().numpy()[0, 1] == pytest.approx(0.4, abs=0.05)
    builder = actuon.newton.ModelBuilder()
    with pytest.raises(actuon.RobotFileError, match="several joints between two links, which Newton merges; call"):
        builder.add_usd(stage)
    builder = actuon.newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_usd(stage)
    (made,) = builder.finalize(device="cpu").actuators
    assert dict(zip(made.controller.kp.numpy().tolist(), made.indices.numpy().tolist(), strict=True)) == {
        100.0: 0,
        101.0: 1,
    }


@pytest.mark.parametrize("name", ["arm", "quadruped"])
def test_an_mjcf_robot_is_the_same_in_both_engines(name):
    """Names, start, limits and motion."""
    logs, limits = [], []
    for make in (MujocoSimulation, NewtonSimulation):
        with make(ASSETS / f"{name}.xml") as simulation:
            actuators = ArticulationActuators([robot.path for robot in simulation.robots])
            robots = actuators.articulation
            assert simulation.dt == pytest.approx(0.002)
            home = robots.get_dof_position_targets().numpy()
            log = [robots.get_root_poses().numpy()[0], robots.get_dof_positions().numpy()[0], home[0]]
            for step in range(200):
                robots.set_dof_position_targets(home + 0.2 * np.sin(0.02 * step))
                simulation.step()
            logs.append(np.concatenate([*log, robots.get_dof_positions().numpy()[0]]))
            limits.append((robots.paths, robots.dof_names, robots.get_dof_limits()[0].numpy().round(4).tolist()))
    assert limits[0] == limits[1]
    np.testing.assert_allclose(logs[0], logs[1], atol=2e-4)


def test_limits_of_motors_and_servos_in_mjcf(tmp_path):
    text = MOTORS.replace('joint="turn"', 'joint="turn" gear="2" ctrlrange="-3 2"')
    text = text.replace('joint="swing"', 'joint="swing" forcerange="-5 5"')
    (tmp_path / "limited.xml").write_text(text)
    with NewtonSimulation(tmp_path / "limited.xml"):
        assert Articulation("/cart").get_dof_max_efforts().numpy()[0, 1:].tolist() == [6.0, 5.0]


def test_joints_of_one_body_in_mjcf(motors):
    """Newton makes one joint of them, those that slide first."""
    with NewtonSimulation(motors, num_envs=2) as simulation:
        carts = Articulation("cart")
        assert carts.paths == ["/World/envs/env_0/cart", "/World/envs/env_1/cart"]
        assert carts.dof_names == ["along", "turn", "swing"]
        assert simulation.robots[1].slides == (True, False, False)
        assert list(simulation.robots[1].link_names) == ["cart", "pole"]
        assert simulation.dt == pytest.approx(0.004)
    with NewtonSimulation(NEWTON / "nv_humanoid.xml") as simulation:
        assert len(simulation.robots[0].dof_names) == 21
        assert {"abdomen_z", "right_hip_y", "left_shoulder2"} <= set(simulation.robots[0].dof_names)


@pytest.mark.parametrize("num_envs", [1, 2])
def test_motors_of_an_mjcf_file_are_silenced_too(motors, num_envs):
    with NewtonSimulation(motors, num_envs) as simulation:
        everyone = np.arange(num_envs)
        assert not simulation.engine.drives.are_silent(dofs_of(simulation, everyone)).any()
        give_back = simulation.engine.drives.silence(dofs_of(simulation, everyone, np.array([1, 2])))
        np.testing.assert_array_equal(
            simulation.engine.drives.are_silent(dofs_of(simulation, everyone)), [[False, True, True]] * num_envs
        )
        give_back()
        assert not simulation.engine.drives.are_silent(dofs_of(simulation, everyone)).any()


def test_mjcf_files_that_cannot_be(tmp_path):
    (tmp_path / "bad.xml").write_text("<mujoco><worldbody><body></worldbody></mujoco>")
    with pytest.raises(actuon.RobotFileError, match=r"bad\.xml' cannot be read"):
        NewtonSimulation(tmp_path / "bad.xml")
    (tmp_path / "none.xml").write_text('<mujoco><worldbody><body><geom size=".1"/></body></worldbody></mujoco>')
    with pytest.raises(actuon.RobotFileError, match=r"none\.xml' holds no robot"):
        NewtonSimulation(tmp_path / "none.xml")


TETRAHEDRON = "v 0 0 0\nv .2 0 0\nv 0 .2 0\nv 0 0 .2\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def test_meshes_of_an_mjcf_file(tmp_path):
    (tmp_path / "mesh.obj").write_text(TETRAHEDRON)
    (tmp_path / "robot.xml").write_text(
        """<mujoco><asset><mesh name="m" file="mesh.obj"/></asset><worldbody><body name="b"><joint name="j"/>
        <geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    )
    with NewtonSimulation(tmp_path / "robot.xml") as simulation:
        simulation.step(2)
        masses = simulation.engine.bodies.masses(dofs_of(simulation))
        assert masses[0, 0] == pytest.approx(1000 * 0.2**3 / 6, rel=1e-3)


@pytest.mark.parametrize("shape", ["convexHull", "convexDecomposition", "boundingCube"])
def test_meshes_of_a_stage(shape):
    stage = robot(joints=("hip",))
    mesh = UsdGeom.Mesh.Define(stage, "/Robot/link1/mesh")
    rows = [line.split() for line in TETRAHEDRON.splitlines()]
    mesh.CreatePointsAttr([Gf.Vec3f(*map(float, row)) for kind, *row in rows if kind == "v"])
    mesh.CreateFaceVertexIndicesAttr([int(i) - 1 for kind, *row in rows if kind == "f" for i in row])
    mesh.CreateFaceVertexCountsAttr([3] * 4)
    UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
    UsdPhysics.MeshCollisionAPI.Apply(mesh.GetPrim()).CreateApproximationAttr(shape)
    with NewtonSimulation(stage) as simulation:
        simulation.step(2)
        assert simulation.model.shape_count > 0


@pytest.mark.filterwarnings("ignore:Skipping collider")
def test_a_mesh_that_the_solver_cannot_take_is_told():
    stage = robot(joints=("hip",))
    mesh = UsdGeom.Mesh.Define(stage, "/Robot/link1/flat")
    mesh.CreatePointsAttr([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 1, 3, 2])
    mesh.CreateFaceVertexCountsAttr([3, 3])
    UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
    with pytest.raises(actuon.SimulationError, match="SolverMuJoCo cannot step this robot: .*planar mesh"):
        NewtonSimulation(stage)
