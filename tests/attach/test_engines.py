# SPDX-License-Identifier: Apache-2.0
"""Engines under stress: odd drives, odd stages, odd orders of events."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import mujoco
import numpy as np
import pytest
from pxr import Sdf, Usd, UsdPhysics

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation, Recorder
from actuon.attach.graph_node.OgnArticulationActuators import ActuatorsState
from actuon.graph import GraphRunner
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg
from actuon.sim import Articulation, Event
from actuon.sim.simulation import live_simulations
from tests.support.robot_files import robot

ASSETS = actuon.assets.FOLDER
PD = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 1.0))


def model(actuators, joints=("j",), extra=""):
    bodies = "".join(
        f'<body name="b_{name}" pos="{i} 0 0"><joint name="{name}" axis="0 1 0"/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
        for i, name in enumerate(joints)
    )
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body name="r">{bodies}'
        f'<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>{extra}'
        f"<actuator>{actuators}</actuator></mujoco>"
    )


def test_gear_is_honoured_both_ways():
    with MujocoSimulation(model('<position joint="j" kp="100" kv="10" gear="2"/>')) as simulation:
        robots = Articulation("/r")
        stiffness, damping = (gains.numpy()[0, 0] for gains in robots.get_dof_gains())
        assert (stiffness, damping) == (400.0, 40.0)
        robots.set_dof_position_targets(0.5)
        assert simulation.data[0].ctrl[0] == 1.0
        assert robots.get_dof_position_targets().numpy()[0, 0] == 0.5
        simulation.step(3000)
        assert robots.get_dof_positions().numpy()[0, 0] == pytest.approx(0.5, abs=1e-3)
        robots.set_dof_gains(200.0, 20.0)
        assert [gains.numpy()[0, 0] for gains in robots.get_dof_gains()] == [200.0, 20.0]
        assert simulation.models[0].actuator_gainprm[0, 0] == 50.0


@pytest.mark.parametrize(
    ("actuator", "gains", "is_told"),
    [
        ('<position joint="j" kp="7" kv="2"/>', (7, 2), True),
        ('<velocity joint="j" kv="3"/>', (0, 3), False),
        ('<motor joint="j"/>', (0, 0), False),
        ('<intvelocity joint="j" kp="5"/>', (0, 0), False),
        ('<damper joint="j" kv="5" ctrlrange="0 1"/>', (0, 0), False),
        ('<muscle joint="j" lengthrange="-1 1"/>', (0, 0), False),
        ('<general joint="j" gainprm="3" biastype="none" biasprm="1 -3 0"/>', (0, 0), False),
        ('<general joint="j" gainprm="3" biastype="affine" biasprm="0 -7 0"/>', (7, 0), True),
        ('<general joint="j" gainprm="3" biastype="affine" biasprm="1 -3 0"/>', (3, 0), True),
        ('<general joint="j" gainprm="3" biastype="affine" biasprm="0 3 0"/>', (0, 0), False),
        ('<position joint="j" kp="7"/><position joint="j" kp="8"/>', (0, 0), False),
        ('<position joint="j" kp="7" kv="1"/><velocity joint="j" kv="5"/>', (7, 6), True),
    ],
)
def test_only_servos_are_told_targets_and_all_drives_are_silenced(actuator, gains, is_told):
    with MujocoSimulation(model(actuator)) as simulation:
        robots = Articulation("/r")
        assert tuple(g.numpy()[0, 0] for g in robots.get_dof_gains()) == gains
        robots.set_dof_gains(*robots.get_dof_gains())
        assert tuple(g.numpy()[0, 0] for g in robots.get_dof_gains()) == gains
        before = simulation.data[0].ctrl.copy()
        if is_told:
            robots.set_dof_position_targets(0.5)
            assert (simulation.data[0].ctrl != before).any()
            assert robots.get_dof_position_targets().numpy()[0, 0] == pytest.approx(0.5)
        else:
            robots.set_dof_position_targets(robots.get_dof_position_targets())
            with pytest.raises(
                ValueError, match="no servo or actuator follows a target position of j of '/r'; create actuators"
            ):
                robots.set_dof_position_targets(0.5)
            assert robots.get_dof_position_targets().numpy()[0, 0] == 0.0
        if gains == (7, 6):
            robots.set_dof_gains(stiffnesses=50.0)
            assert [g.numpy()[0, 0] for g in robots.get_dof_gains()] == [50.0, 6.0]
        elif not is_told:
            with pytest.raises(ValueError, match="joint 'j' of '/r' has"):
                robots.set_dof_gains(5.0, 1.0)
        with ArticulationActuators.from_actuators("/r", [(PD, "j")]):
            robots.set_dof_position_targets(0.5)
            robots.set_dof_velocity_targets(0.5)
            simulation.data[0].ctrl[:] = 0.3
            simulation.step(5)
            assert not simulation.data[0].qfrc_actuator.any()


def test_a_drive_through_a_tendon_is_found():
    tendon = '<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="c" coef="1"/></fixed></tendon>'
    both = model('<position tendon="t" kp="100"/>', ("a", "b", "c"), tendon)
    with MujocoSimulation(both) as simulation:
        with pytest.raises(ValueError, match="joint 'a'.*still driven.*moves a, c together: drive all or none"):
            ArticulationActuators.from_actuators("/r", [(PD, "a")])
        ArticulationActuators.from_actuators("/r", [(PD, "b")]).close()
        with ArticulationActuators.from_actuators("/r", [(PD, "a"), (PD, "c")]):
            assert not simulation.models[0].actuator_gainprm.any()
        assert simulation.models[0].actuator_gainprm[0, 0] == 100.0


def test_drives_come_back_in_models_that_were_split_meanwhile():
    servo = '<position joint="a" kp="100"/><position joint="b" kp="100"/>'
    with MujocoSimulation(model(servo, ("a", "b")), num_envs=3) as simulation:
        actuators = ArticulationActuators.from_actuators("r", [(PD, "a")])
        robots = Articulation("r")
        robots.set_dof_gains(5.0, 1.0, indices=[0], dof_indices=[1])
        assert len({id(m) for m in simulation.models}) == 2
        actuators.close()
        assert robots.get_dof_gains()[0].numpy().tolist() == [[100, 5], [100, 100], [100, 100]]


@pytest.mark.parametrize(
    ("engine", "file", "name"),
    [
        (MujocoSimulation, "arm.xml", "link0"),
        (NewtonSimulation, "arm.xml", "link0"),
        (NewtonSimulation, "arm.usda", "Arm"),
    ],
)
def test_robots_have_the_name_of_their_root(engine, file, name):
    with engine(ASSETS / file) as simulation:
        assert [robot.name for robot in simulation.robots] == [name]


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_the_engines_gains_of_an_actuated_joint_are_not_to_be_set(engine):
    make = {
        "mujoco": lambda: MujocoSimulation(ASSETS / "arm.xml"),
        "newton": lambda: NewtonSimulation(ASSETS / "arm.usda"),
    }
    with make[engine]() as simulation:
        path = simulation.robots[0].path
        actuators = ArticulationActuators.from_actuators(path, [(PD, "joint1")])
        with pytest.raises(ValueError, match="'joint1'.*is driven by actuators"):
            actuators.articulation.set_dof_gains(50.0, 1.0)
        actuators.articulation.set_dof_gains(50.0, 1.0, dof_indices=[1])
        assert simulation.engine.drives.are_silent(actuators.articulation.at)[0, 0]


def test_callbacks_may_stop_and_close_and_may_not_step():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        count = []
        simulation.subscribe(Event.POST_STEP, lambda sim, _: (count.append(1), sim.stop() if len(count) == 3 else None))
        simulation.step(10)
        assert len(count) == 3
        assert not simulation.is_running
        nested = simulation.subscribe(Event.PRE_STEP, lambda sim, _: sim.step())
        with pytest.raises(ValueError, match="cannot step the simulation"):
            simulation.step()
        nested.cancel()
        simulation.subscribe(Event.PRE_STEP, lambda sim, _: sim.close())
        simulation.step(5)
        assert simulation.is_closed
        for use in (
            lambda: Articulation("/link0", simulation).get_dof_positions(),
            lambda: Articulation("/link0", simulation).set_dof_positions(0.0),
            lambda: simulation.subscribe(Event.STOP, print),
        ):
            with pytest.raises(ValueError, match="closed"):
                use()


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_a_command_of_a_callback_counts_in_the_same_step(engine, is_late):
    """Whether it subscribed before or after the actuators were attached."""
    make = {
        "mujoco": lambda: MujocoSimulation(ASSETS / "arm.xml", 2),
        "newton": lambda: NewtonSimulation(ASSETS / "arm.usda", 2),
    }
    with make[engine]() as simulation:
        robots = Articulation([each.path for each in simulation.robots])
        start = robots.get_dof_positions().numpy()[:, 0]
        simulation.start()

        def command(_, dt):
            robots.set_dof_position_targets(0.5)

        if not is_late:
            simulation.subscribe(Event.PRE_STEP, command)
        actuators = ArticulationActuators.from_actuators(robots.paths, [(PD, robots.dof_names[0])])
        if is_late:
            simulation.subscribe(Event.PRE_STEP, command)
        simulation.step()
        np.testing.assert_allclose(actuators.telemetry().computed_effort[:, 0], 10.0 * (0.5 - start), rtol=1e-5)


def test_a_failing_start_can_be_repeated():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        bad = simulation.subscribe(Event.PHYSICS_READY, lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            simulation.step()
        assert not simulation.is_running
        bad.cancel()
        simulation.step()
        assert simulation.time == simulation.dt
        for wrong in (-1, 1.5, True, None):
            with pytest.raises(ValueError, match="n: got"):
                simulation.step(wrong)
        with pytest.raises(AttributeError):
            simulation.dt = 0.01


def test_nan_in_the_last_step_of_a_call_is_told():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        simulation.subscribe(Event.POST_STEP, lambda sim, _: sim.data[0].qvel.__setitem__(2, math.nan))
        with pytest.raises(ValueError, match="velocity of joint 'joint3'"):
            simulation.step()


def test_nan_in_a_command_does_not_reach_the_engine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        actuators = ArticulationActuators("/link0")
        simulation.step()
        simulation.data[0].ctrl[3] = math.nan
        simulation.step()  # the command is one step late
        before = simulation.data[0].qfrc_applied.copy()
        assert np.isfinite(before).all()
        with pytest.raises(ValueError, match="the effort of joint 'joint4' of '/link0' is nan"):
            simulation.step()
        np.testing.assert_array_equal(simulation.data[0].qfrc_applied, before)
        actuators.close()


EXPLICIT = IdealPDActuatorCfg(["joint.*"], stiffness=60.0, damping=5.0, effort_limit=math.inf)
IMPLICIT = ImplicitActuatorCfg(["joint.*"], stiffness=60.0, damping=5.0, effort_limit_sim=20.0)
OWNERS = {
    "actuators": lambda robots: ArticulationActuators.from_actuators(
        robots.paths, [(PD, name) for name in robots.dof_names]
    ),
    "explicit": lambda robots: ActuatorGroups(robots, {"arm": EXPLICIT}),
    "implicit": lambda robots: ActuatorGroups(robots, {"arm": IMPLICIT}),
    "unlimited": lambda robots: ActuatorGroups(robots, {"arm": IMPLICIT.replace(effort_limit_sim=math.inf)}),
}


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("kind", OWNERS)
@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_no_owner_hands_nan_or_infinity_to_the_engine(engine, kind, value):
    made = MujocoSimulation(ASSETS / "arm.xml") if engine == "mujoco" else NewtonSimulation(ASSETS / "arm.usda")
    with made as simulation:
        robots = Articulation(simulation.robots[0].path)
        owner = OWNERS[kind](robots)
        simulation.step(5)
        before, positions = robots.get_dof_efforts().numpy(), robots.get_dof_positions().numpy()
        targets = simulation.data[0].ctrl if engine == "mujoco" else simulation.control.joint_target_q.numpy()
        targets[3:5] = value, -value
        said = rf"t = 0\.01 s: the effort of joint 'joint4' of '{robots.paths[0]}' is {value}; check its target"
        for _ in range(2):
            with pytest.raises(actuon.SimulationError, match=said):
                simulation.step()
        np.testing.assert_array_equal(robots.get_dof_efforts().numpy(), before)
        np.testing.assert_array_equal(robots.get_dof_positions().numpy(), positions)
        owner.telemetry()
        targets[3:5] = 0.0
        simulation.step()
        owner.close()


@pytest.mark.parametrize("cfg", [EXPLICIT, IMPLICIT])
def test_nan_in_a_parameter_of_a_group_does_not_reach_the_engine(cfg):
    with MujocoSimulation(ASSETS / "arm.xml", 2) as simulation:
        groups = ActuatorGroups(Articulation("link0"), {"arm": cfg})
        simulation.step()
        groups["arm"].damping[1, 2] = math.nan
        said = "the effort of joint 'joint3' of '/World/envs/env_1/link0' is nan; check its target and parameters"
        with pytest.raises(actuon.SimulationError, match=said):
            simulation.step()
        assert np.isfinite([data.qfrc_applied for data in simulation.data]).all()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_owners_are_not_copied(copied):
    """A copy that is collected would end the original."""
    with NewtonSimulation(ASSETS / "quadruped_graph.usda") as simulation:
        robots = Articulation("/Quadruped")
        calves = IdealPDActuatorCfg([".*_calf_joint"], stiffness=60.0, damping=1.5)
        groups = ActuatorGroups(robots, {"calves": calves})
        actuators = ArticulationActuators.from_actuators("/Quadruped", [(PD, "FL_hip_joint")])
        things = [simulation, groups, actuators, Recorder(actuators), GraphRunner(simulation.stage), ActuatorsState()]
        things.append(simulation.subscribe(Event.PRE_STEP, lambda *_: None))
        gains = robots.get_dof_gains()[0].numpy()
        for thing in things:
            with pytest.raises(TypeError, match=f"{type(thing).__name__} cannot be copied or pickled"):
                copied(thing)
        gc.collect()
        assert not any(thing.is_closed for thing in (simulation, groups, actuators))
        np.testing.assert_array_equal(robots.get_dof_gains()[0].numpy(), gains)
        assert copy.copy(robots).dof_names == robots.dof_names


def test_what_could_not_be_made_gives_back_nothing():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        robots = Articulation("/link0")
        actuators = ArticulationActuators.from_actuators("/link0", [(PD, "joint1")])
        for wrong in (
            lambda: ArticulationActuators.from_actuators("/link0", [(PD, "joint1"), (PD, "joint2")]),
            lambda: ActuatorGroups(robots, {"arm": EXPLICIT}),
        ):
            with pytest.raises(ValueError, match="is driven by other actuators already"):
                wrong()
            gc.collect()
            assert robots.get_dof_gains()[0].numpy()[0, 0] == 0.0
            simulation.step()
        actuators.close()


def test_a_forgotten_simulation_is_freed():
    simulation = MujocoSimulation(ASSETS / "arm.xml")
    assert live_simulations() == [simulation]
    weak = weakref.ref(simulation)
    del simulation
    gc.collect()
    assert weak() is None
    assert live_simulations() == []


CYCLE = """
import gc, sys
import actuon

class Environment:
    def __init__(self):
        self.simulation = getattr(actuon, sys.argv[1])(actuon.assets.quadruped_mjcf)
        self.actuators = actuon.ArticulationActuators("base", simulation=self.simulation)
        self.simulation.owner = self.actuators.owner = self
        self.simulation.step(3)

for _ in range(3):
    environment = Environment()
    if sys.argv[2] == "collected":
        del environment
        gc.collect()
        assert not actuon.sim.simulation.live_simulations()
print("done")
"""


@pytest.mark.parametrize("end", ["collected", "exit"])
@pytest.mark.parametrize("engine", [MujocoSimulation, NewtonSimulation])
def test_a_cycle_of_simulation_and_actuators_is_freed(engine, end):
    """The simulation's arrays may be freed before the actuators: these must not give back anything then."""
    if engine is NewtonSimulation:
        pytest.importorskip("newton")
    command = [sys.executable, "-X", "faulthandler", "-c", CYCLE, engine.__name__, end]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["done"]), done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("kind", ["actuators", "groups"])
@pytest.mark.parametrize("engine", [MujocoSimulation, NewtonSimulation])
def test_actuators_in_a_cycle_give_joints_back(engine, kind):
    with engine(ASSETS / "quadruped.xml") as simulation:
        robots = Articulation("base")
        robots.set_dof_gains(55.0, 2.0)
        if kind == "groups":
            attached = ActuatorGroups(robots, {"legs": IdealPDActuatorCfg([".*"], stiffness=60.0, damping=1.5)})
        else:
            attached = ArticulationActuators("base")
        attached.owner = attached
        robots.set_dof_position_targets(robots.get_dof_positions().numpy() + 0.1)
        simulation.step(2)
        assert simulation.arrays.joint_f.numpy().any()
        assert not robots.get_dof_gains()[0].numpy().any()
        del attached
        gc.collect()
        np.testing.assert_array_equal(robots.get_dof_gains()[0].numpy(), 55.0)
        assert not simulation.arrays.joint_f.numpy().any()
        simulation.step(2)
        actuators = ArticulationActuators("base")
        simulation.close()
        actuators.close()
        assert actuators.is_closed


def test_paths_of_one_environment_and_of_odd_names():
    with MujocoSimulation(ASSETS / "arm.xml"):
        assert len(Articulation("/World/envs/env_.*/link0")) == 1
        for wrong in (None, 3, Path("/link0"), ["/link0", 3]):
            with pytest.raises(ValueError, match="paths: got"):
                Articulation(wrong)
    text = "".join(
        f'<body name="{name}"><joint name="{name}_j"/><geom size=".1"/></body>' for name in ("r.1", "r_1", "arm(")
    )
    odd = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    with MujocoSimulation(odd):
        assert Articulation("/r.1").dof_names == ["r.1_j"]
        assert Articulation("arm(").dof_names == ["arm(_j"]
    unnamed = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint/><geom size=".1"/></body>'
        '<body name="body1"><joint name="joint0"/><geom size=".1"/></body></worldbody></mujoco>'
    )
    with MujocoSimulation(unnamed) as simulation:
        assert [r.path for r in simulation.robots] == ["/body1_", "/body1"]
        assert [r.dof_names for r in simulation.robots] == [("joint0_",), ("joint0",)]
    with pytest.raises(ValueError, match="must be the path of a model"):
        MujocoSimulation(None)
    with pytest.raises(ValueError, match="open Usd.Stage"):
        NewtonSimulation(None)


def test_two_robots_share_a_yaml(tmp_path):
    text = "".join(
        f'<body name="{name}"><joint name="{name}_j"/><geom size=".1"/></body>' for name in ("left", "right")
    )
    (tmp_path / "two.xml").write_text(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    actuon.save_actuators(
        tmp_path / "two.actuon.yaml", [actuon.ActuatorEntry(n, f"{n}_j", PD) for n in ("left", "right")]
    )
    with MujocoSimulation(tmp_path / "two.xml"):
        left, right = ArticulationActuators("/left"), ArticulationActuators("/right")
        assert [list(a.configs) for a in (left, right)] == [["left_j"], ["right_j"]]


def test_the_recorder_is_right_whoever_steps_the_actuators():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        actuators = ArticulationActuators("/link0", auto_step_pre_physics=False)
        recorder = Recorder(actuators)
        stepping = simulation.subscribe(Event.PRE_STEP, lambda _, dt: actuators.step_actuators(dt))
        actuators.articulation.set_dof_position_targets(0.1)
        given = []
        simulation.subscribe(Event.POST_STEP, lambda *_: given.append(actuators.telemetry().applied_effort))
        simulation.step(4)
        np.testing.assert_array_equal(recorder.data["applied_effort"], given)
        simulation.reset()
        assert not actuators.telemetry().applied_effort.any()
        stepping.cancel()
        actuators.close()
        simulation.step(2)
        assert len(recorder) == 4


def test_the_articulation_root_may_be_on_a_link():
    text = (ASSETS / "quadruped.usda").read_text()
    text = text.replace('prepend apiSchemas = ["PhysicsArticulationRootAPI", "NewtonArticulationRootAPI"]', "", 1)
    text = text.replace('["PhysicsRigidBodyAPI"', '["PhysicsArticulationRootAPI", "PhysicsRigidBodyAPI"', 1)
    layer = Sdf.Layer.CreateAnonymous(".usda")
    assert layer.ImportFromString(text)
    with NewtonSimulation(Usd.Stage.Open(layer)) as simulation:
        assert [r.path for r in simulation.robots] == ["/Quadruped"]
        assert simulation.robots[0].dof_paths[0] == "/Quadruped/joints/FL_hip_joint"
        assert Articulation("/Quadruped/base").num_dofs == 12
        assert len(ArticulationActuators("/Quadruped").actuated_dof_indices) == 12


@pytest.mark.filterwarnings("ignore:SolverMuJoCo is converting 1 joint:UserWarning")
def test_joints_outside_robots_are_nobodys():
    stage = robot()
    door = stage.DefinePrim("/Door", "Xform")
    UsdPhysics.RigidBodyAPI.Apply(door)
    UsdPhysics.MassAPI.Apply(door).CreateMassAttr(1.0)
    hinge = UsdPhysics.RevoluteJoint.Define(stage, "/Door/hinge")
    hinge.CreateBody1Rel().SetTargets(["/Door"])
    for num_envs in (1, 2):
        with NewtonSimulation(stage, num_envs=num_envs) as simulation:
            assert {robot.dof_names for robot in simulation.robots} == {("hip", "knee", "slide")}


def test_joints_of_the_same_name_are_told_apart_in_newton():
    stage = robot(joints=("left/hip", "right/hip"))
    with NewtonSimulation(stage) as simulation:
        robots = Articulation("/Robot")
        assert robots.dof_names == ["left/hip", "right/hip"]
        with pytest.raises(ValueError, match="has no drive in its file"):
            robots.set_dof_gains(50.0, 5.0)
        actuators = ArticulationActuators.from_actuators("/Robot", [(PD, "left/hip"), (PD, "right/hip")])
        assert len(actuators.configs) == 2
        simulation.step()
        actuators.close()
        ArticulationActuators.from_actuators("/Robot", [])
        simulation.step()


def test_newton_builders_arguments(tmp_path):
    stage = robot()
    prim = actuon.add_actuator("/Robot", "knee", "knee", actuon.PDControlConfig(1.0, 0.0), stage=stage)
    stage.GetRootLayer().Export(str(tmp_path / "robot.usda"))
    builder = actuon.newton.ModelBuilder()
    builder.add_usd(tmp_path / "robot.usda")
    assert len(builder.finalize(device="cpu").actuators) == 1
    builder = actuon.newton.ModelBuilder()
    assert builder.add_usd(stage, ignore_paths=[str(prim.GetPath())])["actuator_count"] == 0
    for name in ("drive_class", "controller_class"):
        builder = actuon.newton.ModelBuilder()
        builder.add_usd(stage, ignore_paths=["/Robot/Actuators"])
        builder.add_actuator(**{name: actuon.ControllerPD}, index=0, kp=3.0)
        assert builder.finalize(device="cpu").actuators[0].controller.kp.numpy().tolist() == [3.0]
    stage.DefinePrim("/Robot/bad", "NewtonActuator")
    empty = actuon.newton.ModelBuilder()
    with pytest.raises(ValueError, match="/Robot/bad: has no target"):
        empty.add_usd(stage)
    assert empty.joint_count == 0
    with pytest.raises(ValueError, match="got drive_class and controller_class; pass only one"):
        builder.add_actuator(actuon.ControllerPD, index=0, controller_class=actuon.ControllerPD)
    builder.add_actuator(actuon.ControllerPD, index=10**6, kp=1.0)
    with pytest.raises(ValueError, match="DOF 1000000: the model has 3 DOFs"):
        builder.finalize(device="cpu")


def test_joints_without_a_limit_have_none_in_newton():
    with NewtonSimulation(actuon.assets.quadruped_mjcf):
        robots = Articulation("base")
        robots.set_dof_max_efforts(np.inf, dof_indices=[0])
        assert np.isinf(robots.get_dof_max_efforts().numpy()[0, 0])
        assert np.isinf(robots.get_dof_max_velocities().numpy()).all()
        with pytest.raises(actuon.SimulationError, match="gains: got -1.0; must be ≥ 0"):
            robots.set_dof_gains(-1.0)
