# SPDX-License-Identifier: Apache-2.0
"""Newton's solvers and their options, root bodies, links, stops and saved states."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from pxr import UsdPhysics

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.sim import Articulation
from actuon.sim.robots import DofSet
from tests.support.robot_files import robot, solid

newton = pytest.importorskip("newton")

ASSETS = actuon.assets.FOLDER
NEWTON = Path(newton.__file__).parent / "examples" / "assets"
ONE = np.array([0])


PD = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 1.0))


class Unknown(newton.solvers.SolverBase):
    pass


def dofs_of(simulation, robots=ONE, dofs=None):
    return DofSet(simulation.robots, robots, dofs)


def limits_of(simulation, robots):
    at = dofs_of(simulation, robots)
    return [simulation.engine.properties.get(name, at) for name in ("lower_limit", "upper_limit")]


def set_limits(simulation, robots, dofs, lower, upper):
    simulation.engine.properties.set(dofs_of(simulation, robots, dofs), lower_limit=lower, upper_limit=upper)


def only_the_first(model):
    return newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, separate_worlds=True)


@pytest.fixture(autouse=True)
def _engine_without_log(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    mujoco.set_mju_user_warning(lambda message: None)
    yield
    mujoco.set_mju_user_warning(None)


def drive(simulation, config=PD):
    names = simulation.robots[0].dof_names
    paths = [robot.path for robot in simulation.robots]
    return ArticulationActuators.from_actuators(paths, [(config, name) for name in names])


@pytest.mark.parametrize(
    "solver", ["mujoco", lambda model: newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, integrator="euler")]
)
def test_an_engine_that_would_start_over_is_stopped(solver):
    asked = {"integrator": "euler"} if solver == "mujoco" else {}
    with NewtonSimulation(NEWTON / "ant.usda", dt=0.01, solver=solver, **asked) as simulation:
        drive(simulation)
        with pytest.raises(
            actuon.SimulationError, match=r"t = 0\.\d+ s: the \w+ of joint '\w+_(leg|foot)' of '/ant' is"
        ):
            simulation.step(80)
        assert simulation.solver.mj_data.time == pytest.approx(simulation.time)
        simulation.reset()
        simulation.step(2)


def test_one_of_many_worlds_that_diverges_is_stopped():
    with NewtonSimulation(ASSETS / "arm.usda", num_envs=3) as simulation:
        arms = Articulation("Arm")
        arms.set_dof_efforts(1e13, indices=[1], dof_indices=[2])
        with pytest.raises(
            actuon.SimulationError, match=r"t = 0\.\d+ s: the \w+ of joint 'joint\d' of '.*/env_1/Arm' is"
        ):
            simulation.step(10)
        simulation.reset([1])
        simulation.step(2)


@pytest.mark.parametrize("solver", ["mujoco", "featherstone", "semi_implicit", "xpbd", newton.solvers.SolverXPBD])
def test_actuators_with_each_solver(solver):
    """A pendulum whose motor carries it to where it is told, and whose drive in the stage is silent meanwhile."""
    stage = solid(robot(joints=("hip",)))
    hip = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/hip"), "angular")
    hip.CreateStiffnessAttr(1.0)
    hip.CreateDampingAttr(0.1)
    with NewtonSimulation(stage, dt=0.001, solver=solver) as simulation:
        robots = Articulation("/Robot")
        before = [values.numpy() for values in robots.get_dof_gains()]
        assert not simulation.engine.drives.are_silent(dofs_of(simulation, ONE)).any()
        motor = actuon.ActuatorConfig(actuon.PDControlConfig(100.0, 12.0))
        with ArticulationActuators.from_actuators("/Robot", [(motor, "hip")]) as actuators:
            assert simulation.engine.drives.are_silent(dofs_of(simulation, ONE)).all()
            robots.set_dof_position_targets(0.5)
            simulation.step(400)
            position = robots.get_dof_positions().numpy()[0, 0]
            effort = actuators.telemetry().applied_effort[0, 0]
            assert 0.3 < position < 0.6
            assert effort == pytest.approx(
                100.0 * (0.5 - position) - 12.0 * simulation.state.joint_qd.numpy()[-1], abs=2
            )
        for now, then in zip(robots.get_dof_gains(), before, strict=True):
            np.testing.assert_array_equal(now.numpy(), then)
        simulation.reset()
        assert robots.get_dof_positions().numpy()[0, 0] == pytest.approx(0.0, abs=1e-6)
        simulation.step()
        assert abs(robots.get_dof_positions().numpy()[0, 0]) < 0.01


def test_contacts_with_a_solver_that_does_not_find_its_own():
    with NewtonSimulation(ASSETS / "quadruped.usda", solver="featherstone", dt=0.0005) as simulation:
        robots = Articulation("/Quadruped")
        drive(simulation, actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5)))
        robots.set_dof_position_targets(robots.get_dof_positions())
        simulation.step(400)
        assert robots.get_root_poses().numpy()[0, 2] > 0.2  # 0.2 s without a floor are 0.2 m


def test_what_a_solver_makes_no_use_of():
    with NewtonSimulation(robot(), solver="xpbd") as simulation:
        assert simulation.engine.properties.get("armature", dofs_of(simulation, ONE)) is None
        with pytest.raises(actuon.SimulationError, match="SolverXPBD does not use the armature of joints"):
            simulation.engine.properties.set(dofs_of(simulation, ONE, ONE), armature=np.ones((1, 1)))
    with NewtonSimulation(robot()) as simulation:
        simulation.engine.properties.set(dofs_of(simulation, ONE, ONE), armature=np.full((1, 1), 0.5))
        assert simulation.engine.properties.get("armature", dofs_of(simulation, ONE))[0, 0] == 0.5
        assert simulation.solver.mj_model.dof_armature[0] == 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"solver": "bullet"}, "solver: got 'bullet'; must be one of 'mujoco', .*SolverXPBD"),
        ({"solver": 3}, "solver: got int; must be one of .*already belongs to another model"),
        ({"solver": newton.solvers.SolverImplicitMPM}, "solver: SolverImplicitMPM does not step robots here; must be"),
        ({"solver": lambda model: Unknown(model)}, "solver: Unknown does not step robots here"),
        (
            {"solver": only_the_first, "num_envs": 2},
            "use_mujoco_cpu steps one environment only; leave it off for several",
        ),
        ({"solver": lambda model: 1}, "its function returned int; must return a solver of Newton"),
        ({"integrator": "heun"}, "integrator: got 'heun'; must be one of euler, implicitfast, rk4"),
        ({"integrator": "euler", "solver": "xpbd"}, "integrator: only for solver='mujoco'"),
        ({"njmax": 10, "solver": newton.solvers.SolverMuJoCo}, "njmax: only for solver='mujoco'"),
        ({"njmax": 0}, "njmax: got 0; must be a whole number ≥ 1"),
        ({"nconmax": 1.5}, "nconmax: got 1.5; must be a whole number ≥ 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "options",
)
def test_solvers_and_options_that_cannot_be(options, said):
    with pytest.raises(actuon.SimulationError, match=said):
        NewtonSimulation(robot(), **options)


def test_options_of_the_solver_reach_it():
    kinds = mujoco.mjtIntegrator
    with NewtonSimulation(ASSETS / "arm.usda") as simulation:
        assert simulation.solver.mj_model.opt.integrator == kinds.mjINT_IMPLICITFAST
    with NewtonSimulation(ASSETS / "arm.xml") as simulation:  # which asks for Euler
        assert simulation.solver.mj_model.opt.integrator == kinds.mjINT_EULER
    with NewtonSimulation(ASSETS / "arm.xml", integrator="rk4") as simulation:
        assert simulation.solver.mj_model.opt.integrator == kinds.mjINT_RK4
    with NewtonSimulation(ASSETS / "arm.usda", 2, njmax=77, nconmax=33) as simulation:
        assert (simulation.solver.mjw_data.njmax, simulation.solver.mjw_data.naconmax) == (77, 66)


@pytest.mark.parametrize("num_envs", [1, 2])
def test_root_poses_and_velocities(num_envs):
    with NewtonSimulation(ASSETS / "quadruped.usda", num_envs, integrator="euler") as simulation:
        everyone = np.arange(num_envs)
        poses = np.zeros((num_envs, 7), np.float32)
        poses[:, :3] = np.array([1.0, -2.0, 5.0]) + everyone[:, None]
        poses[:, 3:] = np.array([1.0, 2.0, 0.5, 3.0])  # of any length
        velocities = np.tile(np.float32([0.5, -1.0, 2.0, 1.0, -0.5, 3.0]), (num_envs, 1)) + everyone[:, None]
        bodies, at = simulation.engine.bodies, dofs_of(simulation, everyone)
        bodies.set_velocities(at, velocities)
        bodies.set_poses(at, poses)
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        np.testing.assert_allclose(bodies.poses(at), poses, atol=1e-5)
        np.testing.assert_allclose(bodies.velocities(at), velocities, atol=1e-4)
        if num_envs == 2:
            bodies.set_poses(dofs_of(simulation, np.array([1])), poses[:1])
            np.testing.assert_allclose(bodies.poses(at), poses[[0, 0]], atol=1e-5)
            return
        before, dt = bodies.poses(at).astype(np.float64), simulation.dt
        simulation.step()
        after, now = bodies.poses(at), bodies.velocities(at)
        np.testing.assert_allclose((after[:, :3] - before[:, :3]) / dt, (velocities[:, :3] + now[:, :3]) / 2, atol=0.05)
        np.testing.assert_allclose(now[:, 2], velocities[:, 2] - 9.81 * dt, atol=0.08)
        joints = Articulation([robot.path for robot in simulation.robots]).get_dof_positions().numpy()
        np.testing.assert_allclose(joints[:, :3], [[0.0, 0.9, -1.8]] * num_envs, atol=0.02)
        with pytest.raises(actuon.SimulationError, match="orientation of length zero"):
            bodies.set_poses(at, np.zeros((num_envs, 7)))


def test_a_thrown_robot_flies_alike_in_both_engines():
    ends = []
    for made in (
        MujocoSimulation(ASSETS / "quadruped.xml"),
        NewtonSimulation(ASSETS / "quadruped.usda", integrator="euler"),
    ):
        with made as simulation:
            robots = Articulation([robot.path for robot in simulation.robots])
            robots.set_root_poses([[1.0, -2.0, 5.0, 0.2, 0.4, 0.1, 0.8]])
            robots.set_root_velocities([[0.5, -1.0, 2.0, 3.0, -2.0, 4.0]])
            simulation.step(100)
            found = robots.get_root_poses(), robots.get_root_velocities(), robots.get_dof_positions()
            ends.append(np.concatenate([values.numpy()[0] for values in found]))
    np.testing.assert_allclose(ends[0], ends[1], atol=5e-4)


def test_a_fixed_base_is_not_moved():
    with NewtonSimulation(ASSETS / "arm.usda") as simulation:
        assert not simulation.engine.bodies.velocities(dofs_of(simulation, ONE)).any()
        bodies = simulation.engine.bodies
        for put, width in ((bodies.set_poses, 7), (bodies.set_velocities, 6)):
            with pytest.raises(actuon.SimulationError, match="'/Arm' has a fixed base: its root cannot be moved"):
                put(dofs_of(simulation), np.ones((1, width)))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_masses_of_links(num_envs):
    with NewtonSimulation(ASSETS / "arm.usda", num_envs) as simulation:
        names = list(simulation.robots[0].link_names)
        assert names[0] == "link0"
        assert len(names) == 8
        everyone = np.arange(num_envs)
        before = simulation.engine.bodies.masses(dofs_of(simulation, everyone))
        assert before.shape == (num_envs, 8)
        last = num_envs - 1
        simulation.engine.bodies.set_masses(dofs_of(simulation, np.array([last])), np.array([7]), np.array([[4.0]]))
        expected = before.copy()
        expected[last, 7] = 4.0
        np.testing.assert_array_equal(simulation.engine.bodies.masses(dofs_of(simulation, everyone)), expected)
        held = (
            simulation.solver.mj_model.body_mass[None]
            if num_envs == 1
            else simulation.solver.mjw_model.body_mass.numpy()
        )
        np.testing.assert_allclose(held[:, 1:], expected, rtol=1e-6)
        with pytest.raises(actuon.SimulationError, match=r"masses: got 0; must be > 0 \[kg\]"):
            simulation.engine.bodies.set_masses(dofs_of(simulation, ONE), ONE, np.zeros((1, 1)))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_stops_of_joints_are_set_where_the_engine_holds_them(num_envs):
    with NewtonSimulation(ASSETS / "arm.usda", num_envs) as simulation:
        everyone, dofs = np.arange(num_envs), np.array([1])
        arms = Articulation([robot.path for robot in simulation.robots])
        set_limits(simulation, everyone, dofs, np.full((num_envs, 1), -0.1), np.full((num_envs, 1), 0.2))
        lower, upper = limits_of(simulation, everyone)
        np.testing.assert_allclose(lower[:, 1], -0.1)
        np.testing.assert_allclose(upper[:, 1], 0.2)
        arms.set_dof_position_targets(1.0, dof_indices=dofs)
        simulation.step(150)
        assert (arms.get_dof_positions(dof_indices=dofs).numpy() < 0.25).all()
        set_limits(simulation, everyone, dofs, np.full((num_envs, 1), -np.inf), np.full((num_envs, 1), np.inf))
        assert np.isinf(limits_of(simulation, everyone)[1][:, 1]).all()
        simulation.step(150)
        assert (arms.get_dof_positions(dof_indices=dofs).numpy() > 0.4).all()
        with pytest.raises(actuon.SimulationError, match="'joint2' of '.*Arm' gets a lower stop above its upper one"):
            set_limits(simulation, everyone, dofs, np.ones((num_envs, 1)), np.zeros((num_envs, 1)))


def test_stops_that_the_engine_cannot_add():
    with NewtonSimulation(robot()) as simulation:
        with pytest.raises(actuon.SimulationError, match="joint 'hip' of '/Robot' has no stops in its file"):
            set_limits(simulation, ONE, ONE, np.zeros((1, 1)), np.ones((1, 1)))
        assert np.isinf(limits_of(simulation, ONE)[0]).all()


@pytest.mark.parametrize(
    ("num_envs", "solver"), [(1, "mujoco"), (2, "mujoco"), (1, "xpbd")], ids=["MuJoCo", "MuJoCo Warp", "XPBD"]
)
def test_a_state_is_saved_and_loaded_bit_for_bit(num_envs, solver):
    with NewtonSimulation(ASSETS / "arm.usda", num_envs, solver=solver) as simulation:
        arms = Articulation([robot.path for robot in simulation.robots])
        arms.set_dof_position_targets(arms.get_dof_positions().numpy() + 0.2)
        simulation.step(5)
        saved, log = simulation.save_state(), []
        for _ in range(2):
            simulation.step(5)
            arms.set_dof_position_targets(0.1)
            simulation.step(5)
            log.append(simulation.state.joint_q.numpy().copy())
            simulation.load_state(saved)
        np.testing.assert_array_equal(*log)
        assert simulation.time == pytest.approx(5 * simulation.dt)
        simulation.step(5)
        if num_envs == 2:
            before = arms.get_dof_positions().numpy()
            simulation.load_state(saved, [1])
            now = arms.get_dof_positions().numpy()
            np.testing.assert_array_equal(now[0], before[0])
            assert (now[1] != before[1]).any()


def test_steps_end_where_one_diverges():
    with NewtonSimulation(ASSETS / "arm.usda") as simulation:
        Articulation("/Arm").set_dof_efforts(1e13, dof_indices=[2])
        with pytest.raises(actuon.SimulationError, match="t = 0.002 s: the velocity of joint 'joint3' of '/Arm' is"):
            simulation.step(50)


@pytest.mark.parametrize("option", ['gravity="0.5 0 -1.62"', 'gravity="0 0 0"', ""])
@pytest.mark.parametrize("flag", ["", '<flag gravity="disable"/>'])
@pytest.mark.parametrize("num_envs", [1, 2])
def test_gravity_of_an_mjcf_file_pulls(tmp_path, option, flag, num_envs):
    path = tmp_path / "lift.xml"
    path.write_text(f"""
<mujoco>
  <option timestep="0.01" {option}>{flag}</option>
  <worldbody>
    <body name="lift"><joint name="up" type="slide" axis="0 0 1"/><geom size="0.1" mass="2"/></body>
  </worldbody>
</mujoco>""")
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=5)
    with NewtonSimulation(path, num_envs=num_envs) as simulation:
        simulation.step(5)
        velocities = Articulation([robot.path for robot in simulation.robots]).get_dof_velocities().numpy()
    np.testing.assert_allclose(velocities, data.qvel[0], rtol=1e-4, atol=1e-6)
