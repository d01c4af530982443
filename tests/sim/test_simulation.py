# SPDX-License-Identifier: Apache-2.0
"""Simulations and articulations, on the real engines."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import warp as wp
from pxr import UsdPhysics

import actuon
from actuon.sim import Articulation, Event, MujocoSimulation, NewtonSimulation, current_simulation
from actuon.sim.ids import ids_to_reset, ids_to_write, read_ids
from tests.support.remembered import remembered
from tests.support.robot_files import robot

ASSETS = actuon.assets.FOLDER
QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
TWO_ROBOTS = """
<mujoco>
  <worldbody>
    <body name="left" pos="0 1 0"><joint name="hinge" axis="0 1 0"/><geom size=".1"/>
      <body name="tip" pos="0 0 .3"><joint name="slider" type="slide"/><geom size=".1"/></body></body>
    <body name="right" pos="0 -1 0"><freejoint/><geom size=".1"/>
      <body name="arm" pos="0 0 .3"><joint name="hinge2"/><geom size=".1"/>
        <body name="ball" pos="0 0 .3"><joint name="socket" type="ball"/><geom size=".1"/></body></body></body>
    <body name="box"><freejoint/><geom size=".1"/></body>
    <body name="wall"><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <motor name="m" joint="hinge" gear="2"/>
    <velocity name="v" joint="slider" kv="3"/>
    <position name="p" joint="hinge2" kp="7" kv="0.5"/>
  </actuator>
</mujoco>
"""


@pytest.fixture(params=["mujoco", "newton"])
def simulation(request):
    made = MujocoSimulation(QUADRUPED) if request.param == "mujoco" else NewtonSimulation(ASSETS / "quadruped.usda")
    with made:
        yield made


def robots_of(simulation):
    return Articulation([robot.path for robot in simulation.robots], simulation)


def test_time_and_steps(simulation):
    assert simulation.dt == pytest.approx(0.002)
    assert simulation.time == 0.0
    simulation.step(10)
    assert simulation.time == pytest.approx(0.02)
    simulation.reset()
    assert simulation.time == 0.0


def test_efforts_of_closed_actuators_do_not_come_back(simulation):
    robots = robots_of(simulation)
    names = [name for name in robots.dof_names if name.startswith("FL_")]
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0))
    actuators = actuon.ArticulationActuators.from_actuators(
        robots.paths, [(motor, name) for name in names], simulation=simulation
    )
    driven = robots.dof_columns(names)
    own = np.setdiff1d(np.arange(robots.num_dofs), driven)
    robots.set_dof_efforts(0.5, dof_indices=own)
    robots.set_dof_position_targets(robots.get_dof_positions().numpy() + 0.2)
    simulation.step(3)
    saved = simulation.save_state()
    assert (robots.get_dof_efforts(dof_indices=driven).numpy() != 0.0).all()
    actuators.close()
    robots.set_dof_efforts(0.0)
    simulation.load_state(saved)
    efforts = robots.get_dof_efforts().numpy()
    assert (efforts[:, driven] == 0.0).all()
    assert (efforts[:, own] == 0.5).all()


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("engine", [MujocoSimulation, NewtonSimulation])
def test_a_saved_state_goes_on_with_the_loads_that_friction_saw(engine, num_envs):
    """Friction that depends on the load reads what pushed on joints in the step before."""
    path = QUADRUPED if engine is MujocoSimulation else ASSETS / "quadruped.usda"
    friction = actuon.FrictionEffectConfig(0.2, load_motor=0.05, load_external=0.2)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5), effects=[friction])
    with engine(path, num_envs) as simulation:
        robots = robots_of(simulation)
        pairs = [(motor, joint) for joint in robots.dof_names]
        actuators = actuon.ArticulationActuators.from_actuators(robots.paths, pairs)
        targets = robots.get_dof_positions().numpy()
        robots.set_dof_position_targets(targets + 0.2)
        simulation.step(30)
        saved, ends = simulation.save_state(), []
        for _ in range(2):
            simulation.step(5)
            ends.append((simulation.save_state().engine, actuators.telemetry().signals["dry_friction"]))
            robots.set_dof_position_targets(targets - 0.2)
            simulation.step(7)
            simulation.load_state(saved)
        first = simulation.save_state()
    np.testing.assert_array_equal(first.loads, saved.loads)
    assert np.abs(saved.loads).max() > 1.0
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_from_before_one_of_the_actuators_changes_nothing():
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), delay=actuon.DelayConfig(3))
    with MujocoSimulation(QUADRUPED) as simulation:
        first, second = (name for name in Articulation("base").dof_names if name.startswith(("FL_hip", "FR_hip")))
        known = actuon.ArticulationActuators.from_actuators("base", [(motor, first)])
        simulation.step(2)
        saved = simulation.save_state()
        new = actuon.ArticulationActuators.from_actuators("base", [(motor, second)])
        simulation.step(2)
        known.set_dof_feedforward_effort_targets(1.5)
        before = remembered(known), simulation.save_state().engine
        with pytest.raises(actuon.SimulationError, match="before these actuators were attached"):
            simulation.load_state(saved)
        for name, values in remembered(known).items():
            np.testing.assert_array_equal(values, before[0][name], name)
        np.testing.assert_array_equal(simulation.save_state().engine, before[1])
        assert not new.is_closed


def test_names_and_indices(simulation):
    robots = robots_of(simulation)
    assert len(robots) == 1
    assert robots.num_dofs == 12
    assert robots.dof_names[:3] == ["FL_hip_joint", "FL_thigh_joint", "FL_calf_joint"]
    assert robots.dof_paths[0][1].endswith("FL_thigh_joint")
    ends = robots.get_dof_indices(["RR_calf_joint", "FL_hip_joint"])
    assert isinstance(ends, wp.array)
    assert ends.dtype is wp.int32
    assert ends.device == simulation.device
    assert ends.numpy().tolist() == [11, 0]
    assert robots.get_dof_indices("FL_thigh_joint").numpy().tolist() == [1]
    assert robots.get_dof_positions(dof_indices=ends).shape == (len(robots), 2)
    with pytest.raises(ValueError, match="no DOF 'FL_hip'.*Did you mean 'FL_hip_joint'"):
        robots.get_dof_indices("FL_hip")
    home = np.tile([0.0, 0.9, -1.8], 4)
    np.testing.assert_allclose(robots.get_dof_positions().numpy(), [home], atol=1e-5)


@pytest.mark.parametrize("kind", ["positions", "velocities", "position_targets", "velocity_targets", "efforts"])
def test_values_are_set_by_name_not_offset(simulation, kind):
    """The base has 7 coordinates and 6 velocities: each value must land on its own joint."""
    robots = robots_of(simulation)
    if kind == "velocity_targets":
        pd = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 1.0))
        kept = actuon.ArticulationActuators.from_actuators(robots.paths, [(pd, name) for name in robots.dof_names])  # noqa: F841
    get, put = getattr(robots, f"get_dof_{kind}"), getattr(robots, f"set_dof_{kind}")
    before = {k: getattr(robots, f"get_dof_{k}")().numpy() for k in ("positions", "velocities", "efforts")}
    values = np.linspace(-1, 1, 12, dtype=np.float32)[None]
    put(values)
    np.testing.assert_allclose(get().numpy(), values, rtol=1e-6)
    for other, value in before.items():
        if other != kind:
            np.testing.assert_array_equal(getattr(robots, f"get_dof_{other}")().numpy(), value)
    put(0.25, dof_indices=[3, 1])
    np.testing.assert_allclose(get(dof_indices=[1, 3]).numpy(), [[0.25, 0.25]], rtol=1e-6)
    np.testing.assert_allclose(get(dof_indices=[0]).numpy(), values[:, :1], rtol=1e-6)
    put([[1.0, 2.0]], indices=[0], dof_indices=wp.array([4, 5], dtype=wp.int32))
    np.testing.assert_allclose(get().numpy()[0, 4:6], [1.0, 2.0])
    put(wp.array(values, dtype=wp.float32))
    np.testing.assert_allclose(get().numpy(), values, rtol=1e-6)


def test_root_poses(simulation):
    robots = robots_of(simulation)
    np.testing.assert_allclose(robots.get_root_poses().numpy(), [[0, 0, 0.286806, 0, 0, 0, 1]], atol=1e-5)
    robots.push((0.0, 0.0, 400.0))
    simulation.step(50)
    assert robots.get_root_poses(indices=[0]).numpy()[0, 2] > 0.3
    robots.push(0.0)
    simulation.reset()
    simulation.step()
    assert robots.get_root_poses().numpy()[0, 2] < 0.29


def test_tensors_are_taken(simulation):
    torch = pytest.importorskip("torch")
    robots = robots_of(simulation)
    robots.set_dof_position_targets(torch.full((1, 12), 0.5, requires_grad=True))
    assert (robots.get_dof_position_targets().numpy() == 0.5).all()
    robots.set_dof_position_targets(torch.tensor(0.25), dof_indices=torch.tensor([2]))
    assert robots.get_dof_position_targets().numpy()[0, 2] == 0.25


def test_gains_are_those_of_the_engine(simulation):
    robots = robots_of(simulation)
    stiffness, damping = robots.get_dof_gains()
    np.testing.assert_allclose(stiffness.numpy(), np.full((1, 12), 60.0), rtol=1e-5)
    np.testing.assert_allclose(damping.numpy(), np.full((1, 12), 1.5), rtol=1e-5)
    robots.set_dof_gains(stiffnesses=10.0, dof_indices=[1])
    robots.set_dof_gains(dampings=0.25, dof_indices=[2])
    stiffness, damping = robots.get_dof_gains()
    np.testing.assert_allclose(stiffness.numpy()[0, :3], [60, 10, 60], rtol=1e-5)
    np.testing.assert_allclose(damping.numpy()[0, :3], [1.5, 1.5, 0.25], rtol=1e-5)
    before = robots.get_dof_positions().numpy()
    robots.set_dof_gains(0.0, 0.0)
    simulation.step(100)
    assert np.abs(robots.get_dof_positions().numpy() - before).max() > 0.05  # it goes limp


def test_limits_are_the_stops_of_the_joints(simulation):
    robots = robots_of(simulation)
    lower, upper = robots.get_dof_limits()
    np.testing.assert_allclose(lower.numpy()[0, :3], [-1.0472, -1.5708, -2.7227], rtol=1e-5)
    np.testing.assert_allclose(upper.numpy()[0, :3], [1.0472, 3.4907, -0.83776], rtol=1e-5)
    assert [side.numpy().shape for side in robots.get_dof_limits(dof_indices=[2, 0])] == [(1, 2)] * 2
    assert robots.get_dof_limits(dof_indices=[4])[0].numpy() == pytest.approx(-1.5708)
    assert not any(robots.robots[0].slides)
    assert not robots.robots[0].is_fixed_base


def test_a_joint_without_stops_and_a_slider():
    stage = robot()
    slide = UsdPhysics.PrismaticJoint(stage.GetPrimAtPath("/Robot/joints/slide"))
    slide.CreateLowerLimitAttr(0.0)
    slide.CreateUpperLimitAttr(0.04)
    xml = """<mujoco><worldbody><body name="r"><joint name="hip"/><geom size=".1"/><body><joint name="knee"/>
    <geom size=".1"/><body><joint name="slide" type="slide" range="0 .04" limited="true"/><geom size=".1"/>
    </body></body></body></worldbody></mujoco>"""
    for made in (NewtonSimulation(stage), MujocoSimulation(mujoco.MjModel.from_xml_string(xml), num_envs=2)):
        with made as simulation:
            lower, upper = (side.numpy() for side in robots_of(simulation).get_dof_limits())
            np.testing.assert_allclose(lower, [[-math.inf, -math.inf, 0.0]] * simulation.num_envs)
            np.testing.assert_allclose(upper, [[math.inf, math.inf, 0.04]] * simulation.num_envs)
            assert simulation.robots[0].slides == (False, False, True)
            assert simulation.robots[0].is_fixed_base


def test_bad_values_are_refused(simulation):
    robots = robots_of(simulation)
    for values in (np.zeros((2, 12)), np.zeros(5), "x", [[None]], math.nan, math.inf, 1e39, np.full(12, -1e39)):
        with pytest.raises(ValueError, match="joint_target_q"):
            robots.set_dof_position_targets(values)
    for ids in ([12], [-1], [0.5], ["a"], [[0]]):
        with pytest.raises(ValueError, match="dof_indices"):
            robots.get_dof_positions(dof_indices=ids)
    with pytest.raises(ValueError, match="indices"):
        robots.get_dof_positions(indices=[1])
    assert robots.get_dof_positions(indices=[]).shape == (0, 12)
    robots.set_dof_positions(1.0, dof_indices=[])


@pytest.mark.parametrize(
    "ids",
    [
        [0, 2], (0, 2), range(0, 3, 2), slice(None, None, 2), np.array([0, 2], np.uint8), [True, False, True],
        np.array([True, False, True]), wp.array([0, 2], dtype=wp.int32, device="cpu"),
        wp.array([True, False, True], dtype=wp.bool, device="cpu"),
    ],
    ids=str,
)  # fmt: skip
def test_ids_in_every_form(ids):
    for read in (read_ids, ids_to_reset, ids_to_write):
        assert read("ids", ids, 3).tolist() == [0, 2]
    torch = pytest.importorskip("torch")
    if not isinstance(ids, slice):
        given = ids.numpy() if isinstance(ids, wp.array) else np.asarray(ids)
        assert read_ids("ids", torch.from_numpy(given), 3).tolist() == [0, 2]


def test_ids_of_one_of_all_and_of_none():
    for read in (read_ids, ids_to_reset, ids_to_write):
        assert read("ids", None, 3).tolist() == [0, 1, 2]
        assert read("ids", 1, 3).tolist() == [1]
        for none in ([], (), np.zeros(0), [False] * 3, slice(0)):
            assert read("ids", none, 3).tolist() == []


def test_ids_that_are_repeated():
    assert read_ids("ids", [2, 0, 2], 3).tolist() == [2, 0, 2]
    assert ids_to_reset("ids", [2, 0, 2], 3).tolist() == [0, 2]
    with pytest.raises(actuon.SimulationError, match="ids: got 2 more than once"):
        ids_to_write("ids", [2, 0, 2], 3)


@pytest.mark.parametrize(
    "ids",
    [
        [3], [-1], [0.0], ["0"], [[0]], [[0], [1, 2]], [2**70], [True, False], [[True, False, True]], True, int,
        {0, 1}, slice("a"), slice(None, None, 0), np.zeros((0, 2), int), [None],
    ],
    ids=str,
)  # fmt: skip
def test_ids_that_cannot_be(ids):
    for read in (read_ids, ids_to_reset, ids_to_write):
        with pytest.raises(actuon.SimulationError, match="ids: got .*must be whole numbers from 0 to 2, a slice, or a"):
            read("ids", ids, 3)


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_resetting_one_twice_leaves_the_other(engine):
    made = MujocoSimulation(ARM, 2) if engine == "mujoco" else NewtonSimulation(ASSETS / "arm.usda", 2)
    with made as simulation:
        robots, told = robots_of(simulation), []
        simulation.subscribe(Event.RESET, lambda _, ids: told.append(ids.tolist()))
        home = robots.get_dof_positions().numpy()
        for ids, back in (([0, 0], 0), ([1, 1, 1], 1), ([False, True], 1), (slice(1), 0)):
            robots.set_dof_positions(0.5)
            simulation.reset(ids)
            positions = robots.get_dof_positions().numpy()
            np.testing.assert_array_equal(positions[back], home[back])
            assert (positions[1 - back] == 0.5).all()
        assert told == [[0], [1], [1], [0]]
        simulation.reset([])
        np.testing.assert_array_equal(robots.get_dof_positions().numpy(), positions)
        assert len(told) == 4
        for wrong in ([-1], [2], [True], 0.5):
            with pytest.raises(ValueError, match="env_ids"):
                simulation.reset(wrong)


def test_what_is_named_twice_is_read_twice_and_not_written(simulation):
    robots = robots_of(simulation)
    before = robots.get_dof_positions().numpy()
    np.testing.assert_array_equal(robots.get_dof_positions([0, 0], [3, 3]).numpy(), np.tile(before[:, [3, 3]], (2, 1)))
    assert robots.get_root_poses([0, 0]).shape == (2, 7)
    assert robots.get_dof_gains([0, 0], [1, 1])[0].shape == (2, 2)
    kinds = ("positions", "velocities", "position_targets", "velocity_targets", "efforts", "gains")
    for put in (getattr(robots, f"set_dof_{kind}") for kind in kinds):
        with pytest.raises(actuon.SimulationError, match="dof_indices: got 3 more than once"):
            put([[0.25, 0.75]], dof_indices=[3, 3])
        with pytest.raises(actuon.SimulationError, match="indices: got 0 more than once"):
            put([[0.25], [0.75]], indices=[0, 0], dof_indices=[3])
    with pytest.raises(actuon.SimulationError, match="indices: got 0 more than once"):
        robots.push(0.0, indices=[0, 0])
    np.testing.assert_array_equal(robots.get_dof_positions().numpy(), before)


def test_nothing_named_is_nothing_done(simulation):
    robots = robots_of(simulation)
    gains = [values.numpy() for values in robots.get_dof_gains()]
    for none in ({"indices": []}, {"dof_indices": [False] * 12}):
        robots.set_dof_gains(1.0, 1.0, **none)
        robots.set_dof_position_targets(1.0, **none)
    robots.push((0.0, 0.0, 1.0), indices=[])
    for before, after in zip(gains, robots.get_dof_gains(), strict=True):
        np.testing.assert_array_equal(after.numpy(), before)
    assert robots.get_dof_gains(indices=[])[0].shape == (0, 12)
    assert robots.get_root_poses(indices=[]).shape == (0, 7)


def test_paths_and_patterns():
    with MujocoSimulation(QUADRUPED, num_envs=3) as simulation:
        assert len(Articulation("/World/envs/env_.*/base")) == 3
        assert len(Articulation("base")) == 3
        assert Articulation(["/World/envs/env_2/base", "/World/envs/env_0/base"]).paths == [
            "/World/envs/env_0/base",
            "/World/envs/env_2/base",
        ]
        with pytest.raises(ValueError, match="no robot at '/World/envs/env_.*/Robot'.*/World/envs/env_0/base"):
            Articulation("/World/envs/env_.*/Robot")
        with pytest.raises(ValueError, match="nor a valid regex"):
            Articulation("(")
        with pytest.raises(ValueError, match="got none"):
            Articulation([])
        robots = Articulation("base")
        robots.set_dof_positions(0.5, indices=[1])
        assert (robots.get_dof_positions().numpy()[:, 0] == [0.0, 0.5, 0.0]).all()
        robots.set_dof_gains(stiffnesses=1.0, indices=[2])
        assert robots.get_dof_gains()[0].numpy()[:, 0].tolist() == [60.0, 60.0, 1.0]
        assert simulation.models[0] is simulation.models[1]
        assert simulation.models[2] is not simulation.models[1]


def test_several_robots_in_one_model():
    with MujocoSimulation(mujoco.MjModel.from_xml_string(TWO_ROBOTS)) as simulation:
        assert [robot.path for robot in simulation.robots] == ["/left", "/right"]
        assert Articulation("/left").dof_names == ["hinge", "slider"]
        assert Articulation("/right").dof_names == ["hinge2"]
        with pytest.raises(ValueError, match="robots of one kind"):
            Articulation(".*")
        assert Articulation("/right").get_dof_gains()[0].numpy().tolist() == [[7.0]]
        left = Articulation("/left")
        assert left.get_dof_gains()[1].numpy().tolist() == [[0.0, 3.0]]
        left.set_dof_velocity_targets([[0.0, 1.5]])
        assert simulation.data[0].ctrl[1] == 1.5
        with pytest.raises(ValueError, match="'hinge' of '/left' has no servo"):
            left.set_dof_gains(1.0)
        assert not simulation.engine.drives.are_silent(left.at).any()
        give_back = simulation.engine.drives.silence(left.at)
        assert simulation.engine.drives.are_silent(left.at).all()
        assert not simulation.engine.drives.are_silent(Articulation("/right").at).any()
        give_back()
        assert simulation.models[0].actuator_gainprm[0, 0] == 1.0


def test_urdf():
    urdf = """<robot name="r"><link name="base"/><link name="tip"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="elbow" type="revolute"><parent link="base"/><child link="tip"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/></joint></robot>"""

    def load(path):
        path.write_text(urdf)
        return MujocoSimulation(path)

    import tempfile

    with tempfile.TemporaryDirectory() as folder, load(Path(folder) / "r.urdf") as simulation:
        robots = robots_of(simulation)
        assert robots.dof_names == ["elbow"]
        pd = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 2.0))
        with actuon.ArticulationActuators.from_actuators(robots.paths, [(pd, "elbow")]):
            robots.set_dof_position_targets(0.4)
            simulation.step(3000)
            assert robots.get_dof_positions().numpy()[0, 0] == pytest.approx(0.4, abs=0.01)


def test_events_in_order():
    log = []
    with MujocoSimulation(ARM) as simulation:
        for event in Event:
            simulation.subscribe(event, lambda sim, *rest, event=event: log.append((event.name, sim.time, *rest)))
        once = simulation.subscribe(Event.PRE_STEP, lambda *_: once.cancel())
        simulation.step(2)
        simulation.reset([0])
        simulation.stop()
        simulation.stop()
        simulation.start()
    names = [entry[0] for entry in log]
    assert names == [
        "PHYSICS_READY", "PRE_STEP", "POST_STEP", "PRE_STEP", "POST_STEP", "RESET", "STOP", "PHYSICS_READY", "STOP"
    ]  # fmt: skip
    assert log[1][1:] == (0.0, 0.002)
    assert log[2][1:] == (0.002, 0.002)
    assert log[7][1] == 0.0


def test_the_current_simulation():
    with pytest.raises(ValueError, match="there is no simulation"):
        current_simulation()
    first = MujocoSimulation(ARM)
    second = MujocoSimulation(QUADRUPED)
    assert current_simulation() is second
    with first:
        assert current_simulation() is first
        assert Articulation("/link0").num_dofs == 7
    assert current_simulation() is second
    robots = Articulation("/base", second)
    second.close()
    second.close()
    for read in (robots.get_dof_limits, robots.get_dof_gains, robots.get_link_masses, robots.get_root_poses):
        with pytest.raises(ValueError, match="closed"):
            read()
    for write, *values in (
        (robots.set_dof_gains, 1.0), (robots.set_dof_limits, 0.0, 1.0), (robots.set_link_masses, 1.0),
        (robots.set_root_poses, [0, 0, 1, 0, 0, 0, 1]), (robots.push, [0, 0, 1]), (robots.set_dof_friction, 1.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="closed"):
            write(*values)
    for call in (second.step, second.reset, second.start):
        with pytest.raises(ValueError, match="closed"):
            call()
    with pytest.raises(ValueError, match="there is no simulation"):
        Articulation("/base")


def test_simulations_live_side_by_side():
    def end(count):
        with MujocoSimulation(QUADRUPED) as one:
            others = [MujocoSimulation(QUADRUPED) for _ in range(count)]
            for _ in range(50):
                one.step()
                for other in others:
                    other.step()
            for other in others:
                other.close()
            return one.data[0].qpos.copy()

    np.testing.assert_array_equal(end(0), end(2))


def test_files_that_cannot_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    for make in (MujocoSimulation, NewtonSimulation):
        ending = ".xml" if make is MujocoSimulation else ".usda"
        with pytest.raises(ValueError, match="does not exist"):
            make(tmp_path / f"none{ending}")
        (tmp_path / f"half{ending}").write_text("<mujoco><worldbody" if ending == ".xml" else '#usda 1.0\ndef "a" {')
        with pytest.raises(ValueError, match="half.*cannot be read"):
            make(tmp_path / f"half{ending}")
        with pytest.raises(ValueError, match="must be one of"):
            make(tmp_path / "robot.txt")
        for bad in (0, -1, 1.5, True, None):
            with pytest.raises(ValueError, match="num_envs"):
                make(tmp_path / f"none{ending}", num_envs=bad)
        for bad in (0.0, -1.0, math.nan, math.inf, "x"):
            with pytest.raises(ValueError, match="dt"):
                make(tmp_path / f"none{ending}", dt=bad)
    for step in ("nan", "inf", "0", "-0.002"):
        body = '<worldbody><body><joint/><geom size=".1"/></body></worldbody>'
        (tmp_path / "step.xml").write_text(f'<mujoco><option timestep="{step}"/>{body}</mujoco>')
        with pytest.raises(ValueError, match=r"step.xml': option timestep: got .*; must be finite and > 0 \[s\]"):
            MujocoSimulation(tmp_path / "step.xml")
        MujocoSimulation(tmp_path / "step.xml", dt=0.01).close()
    (tmp_path / "empty.usda").write_text('#usda 1.0\ndef Xform "World" {}\n')
    with pytest.raises(ValueError, match="empty.usda.*no articulation"):
        NewtonSimulation(tmp_path / "empty.usda")
    with pytest.raises(ValueError, match="there is no simulation"):
        current_simulation()


def test_nan_stops_with_joint_and_time():
    with MujocoSimulation(QUADRUPED, num_envs=2) as simulation:
        actuators = actuon.ArticulationActuators("base")
        simulation.step(5)
        before = simulation.data[1].qfrc_applied.copy()
        simulation.data[1].qpos[7 + 4] = math.nan
        state = simulation.data[0].qpos.copy()
        for _ in range(2):
            with pytest.raises(
                actuon.SimulationError,
                match=r"t = 0\.01 s: the position of joint 'FR_thigh_joint' of '/World/envs/env_1/base' is nan",
            ):
                simulation.step()
        np.testing.assert_array_equal(simulation.data[0].qpos, state)
        np.testing.assert_array_equal(simulation.data[1].qfrc_applied, before)
        simulation.reset([1])
        simulation.step(5)
        simulation.data[0].qvel[:2] = math.inf, -math.inf
        with pytest.raises(ValueError, match="free base"):
            simulation.step()
        actuators.close()


def test_a_diverging_robot_is_not_reset_behind_ones_back(tmp_path, monkeypatch):
    """MuJoCo by itself would go on from the first state. Here the step after says what happened."""
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    with MujocoSimulation(ARM) as simulation:
        robots = robots_of(simulation)
        pd = [(actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 1e7)), name) for name in robots.dof_names]
        with actuon.ArticulationActuators.from_actuators("/link0", pd):
            robots.set_dof_velocities(1.0)
            with pytest.raises(actuon.SimulationError, match="joint 'joint"):
                simulation.step(200)


def test_a_model_of_ones_own_is_not_changed():
    model = mujoco.MjModel.from_xml_path(str(ARM))
    flags, step, gains = model.opt.disableflags, model.opt.timestep, model.actuator_gainprm.copy()
    with MujocoSimulation(model, dt=0.001) as simulation:
        actuon.ArticulationActuators.from_actuators(
            "/link0", [(actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.1)), "joint1")]
        )
        simulation.step(3)
        assert simulation.dt == 0.001
    assert (model.opt.disableflags, model.opt.timestep) == (flags, step)
    np.testing.assert_array_equal(model.actuator_gainprm, gains)


def test_the_stage_of_the_simulation_is_the_current_one(tmp_path):
    shutil.copy(ASSETS / "arm.usda", tmp_path)
    with NewtonSimulation(tmp_path / "arm.usda") as simulation:
        prim = actuon.add_actuator("/Arm", "joint1", "again", actuon.PDControlConfig(1.0, 0.0))
        assert prim.GetStage() == simulation.stage
    with pytest.raises(ValueError, match="no current stage"):
        actuon.current_stage()


@pytest.mark.parametrize("envs", [1, 3, 2000])
def test_arrays_of_getters_are_never_used_again(envs, monkeypatch):
    """Whatever Python counts as references: from 3.14 on, those of a local variable are one fewer."""
    count = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda value: count(value) - 2)
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=envs) as simulation:
        arm = actuon.Articulation("link0")
        held = []
        for step in range(5):
            for get in (arm.get_dof_positions, arm.get_dof_velocities, arm.get_dof_position_targets):
                array = get()
                held.append((array, array.numpy().copy()))
            arm.set_dof_position_targets(0.1 * step)
            simulation.step()
        few = [arm.get_dof_positions() for _ in range(200 if envs < 10 else 3)]
    assert len({array.ptr for array, _ in held}) == len(held)
    for array, numbers in held:
        np.testing.assert_array_equal(array.numpy(), numbers)
        np.testing.assert_array_equal(wp.clone(array).numpy(), numbers)
    few[0].fill_(7.0)
    np.testing.assert_array_equal(few[1].numpy(), few[2].numpy())
    assert (few[0].numpy() == 7.0).all()
    assert not (few[1].numpy() == 7.0).any()
