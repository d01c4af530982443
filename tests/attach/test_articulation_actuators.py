# SPDX-License-Identifier: Apache-2.0
"""Actuators on robots in real engines: right, alone on their joints, and the same for one or many."""

from __future__ import annotations

import functools
import gc
import shutil
import tracemalloc

import mujoco
import numpy as np
import pytest
import warp as wp
from pxr import Usd

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation, Recorder
from actuon.lab import ActuatorGroups, DelayedPDActuatorCfg
from actuon.sim import Articulation, Event
from tests.support.oracle import Oracle
from tests.support.remembered import remembered

ASSETS = actuon.assets.FOLDER
QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
ARM_JOINTS = [f"joint{i}" for i in range(1, 8)]


def pd(kp=200.0, kd=20.0, **parts):
    return actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd), **parts)


def attached(kind, lag=0):
    """Put one delayed PD on the arm's first joint, as `ArticulationActuators` or as `ActuatorGroups`."""
    if kind == "actuators":
        return ArticulationActuators.from_actuators("link0", [(pd(delay=actuon.DelayConfig(lag)), "joint1")])
    cfg = DelayedPDActuatorCfg(["joint1"], stiffness=200.0, damping=20.0, min_delay=lag, max_delay=lag)
    return ActuatorGroups(Articulation("link0"), {"first": cfg})


def swing(time, home):
    return home + 0.3 * np.sin(2 * np.pi * 0.7 * time + np.arange(len(home)))


def test_explicit_pd_equals_mujocos_own_servo():
    """`<position kp kv>` under Euler, 1000 steps of the arm, within 1e-4 rad."""
    model = mujoco.MjModel.from_xml_path(str(ARM))
    model.actuator_forcerange[:] = [-1e6, 1e6]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    home = data.qpos.copy()
    kp, kd = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    with MujocoSimulation(ARM) as simulation:
        pairs = [(pd(kp[i], kd[i]), name) for i, name in enumerate(ARM_JOINTS)]
        actuators = ArticulationActuators.from_actuators("/link0", pairs)
        robots = actuators.articulation
        worst = 0.0
        for _ in range(1000):
            targets = swing(data.time, home)
            data.ctrl[:] = targets
            robots.set_dof_position_targets(targets)
            mujoco.mj_step(model, data)
            simulation.step()
            worst = max(worst, np.abs(simulation.data[0].qpos - data.qpos).max())
    assert np.abs(data.qpos - home).max() > 0.1
    assert worst < 1e-4


@pytest.mark.parametrize(("name", "path"), [("arm", "/Arm"), ("quadruped", "/Quadruped")])
def test_newton_and_mujoco_agree_with_the_same_actuators(name, path):
    """The shipped robots with the actuators of their files, 500 steps: within 1e-4 rad."""
    logs = []
    newton = NewtonSimulation(ASSETS / f"{name}.usda", integrator="euler")
    for simulation in (MujocoSimulation(ASSETS / f"{name}.xml"), newton):
        with simulation:
            actuators = ArticulationActuators([robot.path for robot in simulation.robots])
            robots = actuators.articulation
            home = robots.get_dof_position_targets().numpy()[0]
            log = []
            for _ in range(500):
                robots.set_dof_position_targets(swing(simulation.time, home))
                simulation.step()
                log.append(robots.get_dof_positions().numpy()[0])
            logs.append(np.array(log))
            assert actuators.telemetry().applied_effort.any()
    assert np.abs(logs[0] - logs[0][0]).max() > 0.2
    np.testing.assert_allclose(logs[0], logs[1], atol=1e-4)


def rollout(num_envs, steps=60, reset_at=None, offsets=None):
    with MujocoSimulation(QUADRUPED, num_envs=num_envs) as simulation:
        actuators = ArticulationActuators("base")
        robots = actuators.articulation
        home = robots.get_dof_positions().numpy()[0]
        offsets = np.linspace(-0.2, 0.2, 64) if offsets is None else offsets
        log = []
        for step in range(steps):
            robots.set_dof_position_targets(swing(simulation.time, home)[None] + offsets[:num_envs, None])
            if step == reset_at:
                simulation.reset([5])
            simulation.step()
            log.append([data.qpos.copy() for data in simulation.data])
        return np.array(log)


def test_64_robots_equal_64_simulations_of_one():
    many = rollout(64)
    offsets = np.linspace(-0.2, 0.2, 64)
    for i in (0, 1, 31, 63):
        np.testing.assert_array_equal(many[:, i], rollout(1, offsets=offsets[i : i + 1])[:, 0])


def test_resetting_one_leaves_63_bit_identical():
    plain, with_reset = rollout(64), rollout(64, reset_at=30)
    others = np.arange(64) != 5
    np.testing.assert_array_equal(plain[:, others], with_reset[:, others])
    assert (plain[31:, 5] != with_reset[31:, 5]).any()
    fresh = rollout(64, steps=1)[0, 5]
    np.testing.assert_allclose(with_reset[30, 5][:7], fresh[:7], atol=2e-2)


def test_a_reset_robot_has_forgotten_its_commands():
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        late = pd(delay=actuon.DelayConfig(3))
        actuators = ArticulationActuators.from_actuators("link0", [(late, "joint1")])
        robots = actuators.articulation
        robots.set_dof_position_targets(0.5)
        simulation.step(5)
        robots.set_dof_position_targets(-0.5)
        actuators.reset([1])
        simulation.engine.state.refresh()
        actuators.step_actuators(simulation.dt)
        assert repr(actuators.telemetry()) == "<Telemetry of 2 × 7 efforts, 0 of them clipped>"
        wanted = actuators.telemetry().computed_effort[:, 0]
        assert wanted[0] > 0.0  # still the old command
        assert wanted[1] < 0.0  # nothing to remember: the new one


@pytest.mark.parametrize("kind", ["actuators", "groups"])
@pytest.mark.parametrize("ids", [[1, 1], np.array([False, True]), slice(1, None), wp.array([1, 1], dtype=wp.int32)])
def test_resetting_one_twice_leaves_the_other(kind, ids):
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        actuators = attached(kind, lag=3)
        actuators.articulation.set_dof_position_targets(0.5, dof_indices=[0])
        simulation.step(5)
        actuators.reset(ids)
        assert actuators.telemetry().applied_effort[0].any()
        assert not actuators.telemetry().applied_effort[1].any()
        actuators.articulation.set_dof_position_targets(-0.5, dof_indices=[0])
        simulation.step()
        other, again = actuators.telemetry().computed_effort[:, 0]
        assert other > 0.0  # still the old command
        assert again < 0.0  # nothing to remember: the new one
        for wrong in ([-1], [2], [True], [0.5]):
            with pytest.raises(ValueError, match="env_ids"):
                actuators.reset(wrong)


@pytest.mark.parametrize("kind", ["actuators", "groups"])
def test_feedforward_is_not_given_twice(kind):
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        actuators = attached(kind)
        with pytest.raises(ValueError, match="dof_indices: got 0 more than once"):
            actuators.set_dof_feedforward_effort_targets([[1.0, 2.0]], dof_indices=[0, 0])
        with pytest.raises(ValueError, match="indices: got 1 more than once"):
            actuators.set_dof_feedforward_effort_targets(1.0, indices=[1, 1])
        actuators.set_dof_feedforward_effort_targets(3.0, indices=[1], dof_indices=[0])
        simulation.step()
        np.testing.assert_allclose(np.diff(actuators.telemetry().computed_effort[:, 0]), 3.0, rtol=1e-5)


CHAINS = {
    "pd": actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5, 0.4)),
    "pid": actuon.ActuatorConfig(actuon.PIDControlConfig(60.0, 40.0, 1.5, 0.02, -0.3)),
    "max_effort": actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5), [actuon.MaxEffortClampingConfig(4.0)]),
    "dc_motor": actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5), [actuon.DCMotorClampingConfig(8.0, 3.0, 6.0)]),
    "table": actuon.ActuatorConfig(
        actuon.PDControlConfig(60.0, 1.5), [actuon.PositionBasedClampingConfig((-2.0, 0.0, 1.0), (2.0, 9.0, 3.0))]
    ),
    "late": actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5), delay=actuon.DelayConfig(4)),
    "everything": actuon.ActuatorConfig(
        actuon.PIDControlConfig(60.0, 40.0, 1.5, 0.02),
        [
            actuon.PositionBasedClampingConfig((-2.0, 1.0), (5.0, 9.0)),
            actuon.DCMotorClampingConfig(8.0, 3.0, 6.0),
            actuon.MaxEffortClampingConfig(4.0),
        ],
        actuon.DelayConfig(3),
    ),
}


def oracle_for(config, n):
    def columns(part):
        values = {name: getattr(part, name) for name in part.declared()}
        return {k: np.array(v) if isinstance(v, tuple) else np.full(n, v) for k, v in values.items()}

    clamps = [(type(part).component.__name__, columns(part)) for part in config.clamping]
    lags = None if config.delay is None else np.full(n, config.delay.delay_steps)
    depth = 0 if lags is None else max(1, int(lags[0]))
    return Oracle(n, type(config.controller).component.__name__, columns(config.controller), clamps, lags, depth)


@pytest.mark.parametrize("name", CHAINS)
def test_the_chain_in_the_engine_equals_the_oracle_fed_with_the_log(name):
    config = CHAINS[name]
    with MujocoSimulation(QUADRUPED, num_envs=2) as simulation:
        joints = Articulation("base").dof_names
        actuators = ArticulationActuators.from_actuators("base", [(config, joint) for joint in reversed(joints)])
        robots = actuators.articulation
        home = robots.get_dof_positions().numpy()
        feedforward = np.linspace(-1, 1, 24).reshape(2, 12)
        actuators.set_dof_feedforward_effort_targets(feedforward)
        with Recorder(actuators) as recorder:
            for _ in range(80):
                robots.set_dof_position_targets(swing(simulation.time, home.ravel()).reshape(2, 12))
                robots.set_dof_velocity_targets(0.3)
                simulation.step()
    data, oracle = recorder.data, oracle_for(config, 24)
    clipped = 0
    for t in range(80):
        signals = [data[k][t].ravel() for k in ("position", "velocity", "position_target", "velocity_target")]
        computed, applied = oracle.step(*signals, feedforward.ravel(), simulation.dt)
        np.testing.assert_allclose(data["computed_effort"][t].ravel(), computed, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(data["applied_effort"][t].ravel(), applied, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(data["clipped"][t].ravel(), np.abs(computed - applied) > 1e-4)
        clipped += data["clipped"][t].sum()
    assert (clipped > 0) == bool(config.clamping)
    np.testing.assert_allclose(data["time"], np.arange(80) * simulation.dt, atol=1e-12)


def test_a_network_in_the_engine_equals_the_actuator_alone(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    actuon.save_network(module, tmp_path / "net.safetensors", effort_scale=20.0)
    config = actuon.ActuatorConfig(actuon.NeuralControlConfig(tmp_path / "net.safetensors"))
    with MujocoSimulation(QUADRUPED) as simulation:
        joints = Articulation("/base").dof_names
        actuators = ArticulationActuators.from_actuators("/base", [(config, joint) for joint in joints])
        actuators.articulation.set_dof_position_targets(0.2)
        with Recorder(actuators) as recorder:
            simulation.step(30)
    alone = actuon.Actuator(range(12), config.controller.build())
    state = alone.state()
    for t in range(30):
        signals = {k: recorder.data[k][t, 0] for k in ("position", "velocity", "position_target", "velocity_target")}
        sim = dict(zip(("joint_q", "joint_qd", "joint_target_q", "joint_target_qd"), signals.values(), strict=True))
        sim["joint_f"] = np.zeros(12, np.float32)
        alone.step(sim, sim, state, state, dt=simulation.dt)
        np.testing.assert_allclose(recorder.data["applied_effort"][t, 0], sim["joint_f"], rtol=1e-5, atol=1e-5)


def test_custom_inputs_of_a_network_reach_it_in_the_engine(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path, input_columns=["load", "velocity"], custom_inputs=["load"])
    config = actuon.ActuatorConfig(actuon.NeuralControlConfig(path))
    with MujocoSimulation(QUADRUPED, 2) as simulation:
        robots = Articulation("base")
        actuators = ArticulationActuators.from_actuators("base", [(config, joint) for joint in robots.dof_names])
        load = np.linspace(-1.0, 1.0, 24, dtype=np.float32).reshape(2, 12)
        actuators.set_dof_custom_inputs("load", load)
        actuators.save_state(tmp_path / "state.npz")
        velocities = robots.get_dof_velocities().numpy()
        simulation.step()
        with torch.no_grad():
            expected = module(torch.from_numpy(np.stack([load, velocities], axis=2)))[..., 0].numpy()
        np.testing.assert_allclose(actuators.telemetry().applied_effort, expected, rtol=1e-5, atol=1e-6)
        actuators.set_dof_custom_inputs("load", 9.0, indices=[1], dof_indices=[3])
        with pytest.raises(ValueError, match="no actuator takes an input 'lode'; custom inputs: load. Did you mean"):
            actuators.set_dof_custom_inputs("lode", 1.0)
        actuators.load_state(tmp_path / "state.npz")
        np.testing.assert_array_equal(remembered(actuators)["custom_inputs/load"], load)


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_one_owner_per_joint(engine):
    """The engine's drive is off where an actuator is on, and untouched to the last bit elsewhere."""
    make = {
        "mujoco": lambda: MujocoSimulation(QUADRUPED),
        "newton": lambda: NewtonSimulation(ASSETS / "quadruped.usda"),
    }
    with make[engine]() as simulation:
        path = simulation.robots[0].path
        robots = Articulation(path)
        before = [gains.numpy() for gains in robots.get_dof_gains()]
        driven = ["FL_calf_joint", "RR_hip_joint"]
        actuators = ArticulationActuators.from_actuators(path, [(pd(), name) for name in driven])
        at = robots.get_dof_indices(driven).numpy()
        assert actuators.actuated_dof_indices == sorted(at.tolist())
        silent = simulation.engine.drives.are_silent(robots.at)[0]
        assert silent[at].all()
        assert silent.sum() == 2
        after = [gains.numpy() for gains in robots.get_dof_gains()]
        others = np.setdiff1d(np.arange(12), at)
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old[:, others], new[:, others])
            assert not new[:, at].any()
        actuators.set_dof_feedforward_effort_targets(3.0)
        robots.set_dof_efforts(0.125)
        simulation.step(3)
        efforts = robots.get_dof_efforts().numpy()[0]
        assert (efforts[others] == 0.125).all()  # what the user set; feedforward has no effect there
        np.testing.assert_array_equal(efforts[at], actuators.telemetry().applied_effort[0, at])
        actuators.close()
        actuators.close()
        for old, new in zip(before, robots.get_dof_gains(), strict=True):
            np.testing.assert_array_equal(old, new.numpy())
        assert not robots.get_dof_efforts().numpy()[0, at].any()
        with pytest.raises(ValueError, match="closed"):
            actuators.step_actuators(0.002)


def test_joints_without_an_actuator_move_as_in_plain_mujoco():
    """Bit for bit, with the actuator's own joint held out of the comparison by giving it the same law."""
    with MujocoSimulation(ARM) as simulation:
        actuators = ArticulationActuators.from_actuators("/link0", [(pd(0.0, 0.0), "joint7")])
        simulation.step(200)
        mine = simulation.data[0].qpos.copy()
        actuators.close()
    model = mujoco.MjModel.from_xml_path(str(ARM))
    model.actuator_gainprm[6] = model.actuator_biasprm[6] = 0.0
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    for _ in range(200):
        mujoco.mj_step(model, data)
    np.testing.assert_array_equal(mine, data.qpos)


def test_an_engine_that_keeps_its_drive_is_found_out(monkeypatch):
    with MujocoSimulation(ARM) as simulation:
        monkeypatch.setattr(simulation.engine.drives, "silence", lambda at: lambda: None)
        with pytest.raises(ValueError, match="^joint 'joint2' of '/link0' is still driven by the engine: "):
            ArticulationActuators.from_actuators("/link0", [(pd(), "joint2")])


def test_order_does_not_matter_and_names_decide():
    results = []
    for names in (ARM_JOINTS, ARM_JOINTS[::-1]):
        with MujocoSimulation(ARM) as simulation:
            pairs = [(pd(100.0 + 10 * int(name[-1]), 10.0), name) for name in names]
            actuators = ArticulationActuators.from_actuators("/link0", pairs)
            assert len(actuators.actuators) == 1
            assert actuators.actuators[0].controller.kp.numpy().tolist() == [100.0 + 10 * i for i in range(1, 8)]
            simulation.step(50)
            results.append(simulation.data[0].qpos.copy())
    np.testing.assert_array_equal(*results)


def test_components_with_a_value_for_each_robot():
    with MujocoSimulation(ARM, num_envs=4) as simulation:
        first = actuon.ActuatorConfig(
            actuon.ControllerPD([100.0, 200.0, 300.0, 400.0], 10.0),
            [actuon.ClampingMaxEffort([5.0, 6.0, 7.0, 8.0])],
            actuon.Delay([0, 1, 2, 3], max_delay=3),
        )
        second = pd(50.0, 5.0, clamping=[actuon.MaxEffortClampingConfig(9.0)], delay=actuon.DelayConfig(1))
        actuators = ArticulationActuators.from_actuators("link0", [(first, "joint2"), (second, "joint1")])
        (actuator,) = actuators.actuators
        assert actuator.controller.kp.numpy().tolist() == [50, 100, 50, 200, 50, 300, 50, 400]
        assert actuator.clamping[0].max_effort.numpy().tolist() == [9, 5, 9, 6, 9, 7, 9, 8]
        assert actuator.delay.delay_steps.numpy().tolist() == [1, 0, 1, 1, 1, 2, 1, 3]
        actuators.articulation.set_dof_position_targets(3.0)
        simulation.step(4)
        assert actuators.telemetry().applied_effort[:, 1].tolist() == [5, 6, 7, 8]
        bad = actuon.ActuatorConfig(actuon.ControllerPD([1.0, 2.0, 3.0], 0.0))
        with pytest.raises(ValueError, match="joint3.*3 values; must have 4"):
            ArticulationActuators.from_actuators("link0", [(bad, "joint3")])


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([(pd(), "joint9")], "no DOF 'joint9'.*Did you mean"),
        ([(pd(), "joint1"), (pd(), "joint1")], "'joint1' is given two actuators"),
        ([pd()], "must be pairs"),
        ([("joint1", pd())], "must be pairs"),
    ],
)
def test_bad_pairs_are_refused_and_the_engine_keeps_its_drives(pairs, match):
    with MujocoSimulation(ARM) as simulation:
        before = simulation.models[0].actuator_gainprm.copy()
        with pytest.raises(ValueError, match=match):
            ArticulationActuators.from_actuators("/link0", pairs)
        np.testing.assert_array_equal(simulation.models[0].actuator_gainprm, before)


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_an_empty_set_does_nothing(engine):
    make = {
        "mujoco": lambda: MujocoSimulation(ASSETS / "quadruped.xml", 2),
        "newton": lambda: NewtonSimulation(ASSETS / "quadruped.usda", 2),
    }
    with make[engine]() as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        simulation.step(20)
        expected = robots.get_dof_positions().numpy()
    with make[engine]() as simulation:
        actuators = ArticulationActuators.from_actuators([robot.path for robot in simulation.robots], [])
        assert actuators.actuators == []
        assert actuators.actuated_dof_indices == []
        assert actuators.configs == {}
        actuators.set_dof_feedforward_effort_targets(50.0)
        simulation.step(10)
        actuators.reset([0])
        actuators.step_actuators(simulation.dt)
        simulation.step(10)
        np.testing.assert_array_equal(actuators.articulation.get_dof_positions().numpy(), expected)
        assert not actuators.telemetry().applied_effort.any()
        actuators.close()


def test_a_robot_without_actuators_gets_an_empty_set_and_the_log_says_so(tmp_path, caplog):
    with MujocoSimulation(mujoco.MjModel.from_xml_path(str(ARM))):
        assert ArticulationActuators("/link0").actuated_dof_indices == []
    assert caplog.messages[-1].startswith(
        "no actuators found for '/link0': neither NewtonActuator prims nor an actuon.yaml next to its model. Create"
    )
    shutil.copy(ARM, tmp_path)
    with MujocoSimulation(tmp_path / "arm.xml"):
        assert ArticulationActuators("/link0").actuators == []
    said = f"nor 'arm.actuon.yaml' or 'actuon.yaml' next to '{tmp_path / 'arm.xml'}'. Create a YAML with 'actuon init'"
    assert said in caplog.messages[-1]
    assert len(caplog.messages) == 2


def test_the_log_names_joints_without_gains(tmp_path, caplog):
    """If a file says so, such as one that `actuon init` wrote; a config from Python is not mentioned."""
    shutil.copy(ARM, tmp_path)
    entries = [actuon.ActuatorEntry(name, name, pd(kp, 0.0)) for name, kp in (("joint1", 5.0), ("joint2", 0.0))]
    actuon.save_actuators(tmp_path / "arm.actuon.yaml", entries)
    with MujocoSimulation(tmp_path / "arm.xml"):
        ArticulationActuators("link0").close()
        assert caplog.messages[-1].startswith("kp and kd are 0: these joints will not track targets: joint2; ")
        caplog.clear()
        ArticulationActuators.from_actuators("link0", [(pd(0.0, 0.0), "joint2")])
        assert caplog.messages == []


def test_files_that_cannot_be(tmp_path):
    shutil.copy(ARM, tmp_path)
    with MujocoSimulation(tmp_path / "arm.xml"):
        (tmp_path / "actuon.yaml").write_text("actuators: {a: {joints: elbow, controller: {type: pd, kp: 1, kd: 1}}}")
        with pytest.raises(ValueError, match=r"actuon\.yaml: a: joints: 'elbow' matches no joint"):
            ArticulationActuators("/link0")
        shutil.copy(ASSETS / "arm.actuon.yaml", tmp_path)
        assert len(ArticulationActuators("/link0").actuated_dof_indices) == 7
        with pytest.raises(ValueError, match="no robot at '/arm'"):
            ArticulationActuators("/arm")
        with pytest.raises(ValueError, match="device"):
            ArticulationActuators("/link0", device="cuda:0" if wp.is_cuda_available() else "cpu:1")


def test_prims_that_cannot_be(tmp_path):
    shutil.copy(ASSETS / "arm.usda", tmp_path)
    stage = Usd.Stage.Open(str(tmp_path / "arm.usda"))
    actuon.add_actuator("/Arm", "joint1", "second", actuon.PDControlConfig(1.0, 0.0), stage=stage)
    with NewtonSimulation(stage):
        with pytest.raises(ValueError, match="'/Arm/joints/joint1' is driven by /Arm/Actuators/joint1 and by"):
            ArticulationActuators("/Arm")
        stage.RemovePrim("/Arm/Actuators/second")
        stage.DefinePrim("/Else/joint", "PhysicsRevoluteJoint")
        prim = stage.GetPrimAtPath("/Arm/Actuators/joint1")
        prim.GetRelationship("newton:targets").SetTargets(["/Else/joint"])
        with pytest.raises(ValueError, match="its target '/Else/joint' is not a DOF of '/Arm'"):
            ArticulationActuators("/Arm")


def test_newton_with_many_worlds():
    with NewtonSimulation(ASSETS / "arm.usda", num_envs=3) as simulation:
        actuators = ArticulationActuators("/World/envs/env_.*/Arm")
        assert len(actuators.articulation) == 3
        assert len(actuators.actuators) == 1
        robots = actuators.articulation
        targets = robots.get_dof_position_targets().numpy() + np.array([[0.0], [0.1], [0.2]])
        robots.set_dof_position_targets(targets)
        simulation.step(100)
        reached = robots.get_dof_positions().numpy()
        assert (np.diff(reached[:, 0]) > 0.05).all()
        simulation.reset([1])
        np.testing.assert_array_equal(robots.get_dof_positions().numpy()[[0, 2]], reached[[0, 2]])
        assert abs(robots.get_dof_positions().numpy()[1, 0]) < 1e-4
        actuators.close()
    with NewtonSimulation(ASSETS / "arm.usda") as simulation:
        ArticulationActuators("/Arm").articulation.set_dof_position_targets(targets[:1])
        simulation.step(100)
        alone = Articulation("/Arm").get_dof_positions().numpy()
    # Several worlds are stepped by MuJoCo Warp in 32 bits, one by MuJoCo itself; dry friction shows the difference.
    np.testing.assert_allclose(reached[0], alone[0], atol=1e-3)


def test_stepping_by_hand_equals_stepping_by_itself():
    ends = []
    for auto in (True, False):
        with MujocoSimulation(QUADRUPED) as simulation:
            actuators = ArticulationActuators("/base", auto_step_pre_physics=auto)
            for _ in range(50):
                if not auto:
                    actuators.step_actuators(simulation.dt, context=None)
                simulation.step()
            ends.append(simulation.data[0].qpos.copy())
    np.testing.assert_array_equal(*ends)


def test_the_switch_outlives_a_stop():
    with MujocoSimulation(QUADRUPED) as simulation:
        actuators = ArticulationActuators("/base")
        actuators.disable_auto_step_pre_physics()
        simulation.step()
        assert not actuators.telemetry().computed_effort.any()
        simulation.stop()
        simulation.step(5)
        assert not actuators.telemetry().computed_effort.any()
        actuators.enable_auto_step_pre_physics()
        simulation.stop()
        simulation.step(5)
        assert actuators.telemetry().computed_effort.any()


def test_a_second_run_equals_the_first():
    """After a stop and start, and after a reset, delay lines and integrals are empty again."""
    with MujocoSimulation(QUADRUPED) as simulation:
        actuators = ArticulationActuators("/base")
        ends = []
        for again in (None, simulation.stop, simulation.reset):
            if again:
                again()
            simulation.start()
            actuators.articulation.set_dof_position_targets(0.3)
            simulation.step(3)
            actuators.articulation.set_dof_position_targets(0.0)
            simulation.step(20)
            ends.append(simulation.data[0].qpos.copy())
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_it_goes_away_with_its_last_reference():
    """Its callbacks are no longer called, and the engine is restored."""
    called = []

    def subscribe(simulation, event, callback):
        def heard(*arguments):
            called.append(event)
            callback(*arguments)

        return MujocoSimulation.subscribe(simulation, event, heard)

    with MujocoSimulation(ARM) as simulation:
        simulation.subscribe = functools.partial(subscribe, simulation)
        before = simulation.models[0].actuator_gainprm.copy()
        actuators = ArticulationActuators("/link0")
        assert simulation.motors == [actuators]
        assert not simulation.models[0].actuator_gainprm.any()
        simulation.step(3)
        assert called == [Event.PHYSICS_READY]
        del actuators
        gc.collect()
        assert simulation.motors == []
        np.testing.assert_array_equal(simulation.models[0].actuator_gainprm, before)
        called.clear()
        simulation.step(3)
        simulation.reset()
        assert called == []


@pytest.mark.parametrize("kind", ["actuators", "groups"])
def test_nothing_is_allocated_after_the_first_step(kind, monkeypatch):
    arrays, make_array = [], wp.array.__init__

    def counted(self, *arguments, **options):
        arrays.append(type(self))
        make_array(self, *arguments, **options)

    with MujocoSimulation(ARM, num_envs=8) as simulation:
        actuators = attached(kind, lag=2)
        simulation.step(5)
        monkeypatch.setattr(wp.array, "__init__", counted)
        tracemalloc.start()
        simulation.step(20)
        held = [tracemalloc.get_traced_memory()[0]]
        for _ in range(3):
            simulation.step(200)
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert not arrays
        assert actuators.telemetry().applied_effort.any()
    assert min(np.diff(held)) < 2000, "what steps keep, they keep in each round; other threads allocate once"


@pytest.mark.parametrize("num_envs", [1, 16])
def test_steps_of_one_robot_or_many_call_no_step_of_actuators(num_envs, monkeypatch):
    """MuJoCo's loop steps them, also one step at a time."""
    calls, step = [], actuon.Actuator.step
    monkeypatch.setattr(actuon.Actuator, "step", lambda self, *given: calls.append(self) or step(self, *given))
    with MujocoSimulation(QUADRUPED, num_envs=num_envs) as simulation:
        actuators = ArticulationActuators("base")
        assert len(actuators.actuators) == 1
        calls.clear()
        for steps in (1, 1, 10):
            simulation.step(steps)
        assert calls == []
        assert actuators.telemetry().applied_effort.all(axis=None)


def test_recordings(tmp_path):
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        actuators = ArticulationActuators("link0")
        with Recorder(actuators) as recorder:
            with pytest.raises(ValueError, match="nothing to write yet"):
                recorder.save(tmp_path / "run.npz")
            simulation.step(7)
        simulation.step()
        assert len(recorder) == 7
        recorder.save(tmp_path / "new" / "run.npz")
        recorder.save(tmp_path / "run.csv")
        with pytest.raises(ValueError, match=r"must be one of \.npz, \.csv"):
            recorder.save(tmp_path / "run.txt")
    with np.load(tmp_path / "new" / "run.npz") as saved:
        assert saved["dof_names"].tolist() == ARM_JOINTS
        assert saved["paths"].tolist() == ["/World/envs/env_0/link0", "/World/envs/env_1/link0"]
        assert saved["position"].shape == (7, 2, 7)
        table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True, deletechars="")
        np.testing.assert_allclose(table["time"], saved["time"])
        np.testing.assert_allclose(table["applied_effort/1/joint3"], saved["applied_effort"][:, 1, 2], rtol=1e-6)


def test_feedforward_goes_through_delay_and_limits_of_its_own_joint():
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        config = pd(0.0, 0.0, clamping=[actuon.MaxEffortClampingConfig(2.0)], delay=actuon.DelayConfig(2))
        actuators = ArticulationActuators.from_actuators("link0", [(config, "joint2")])
        simulation.step(3)
        actuators.set_dof_feedforward_effort_targets(target_feedforward_efforts=[[5.0]], indices=[1], dof_indices=[1])
        applied = []
        for _ in range(4):
            simulation.step()
            applied.append(actuators.telemetry().applied_effort[:, 1].tolist())
        assert applied == [[0, 0], [0, 0], [0, 2], [0, 2]]
        assert actuators.telemetry().clipped[:, 1].tolist() == [False, True]
        with pytest.raises(ValueError, match="target_feedforward_efforts: got NaN"):
            actuators.set_dof_feedforward_effort_targets(np.nan)


def test_a_joint_has_one_owner_at_a_time():
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        before = simulation.models[0].actuator_gainprm.copy()
        first = ArticulationActuators.from_actuators("link0", [(pd(), "joint1"), (pd(), "joint2")])
        with pytest.raises(
            ValueError, match="joint 'joint2' of '/World/envs/env_1/link0' is driven by other actuators"
        ):
            ArticulationActuators.from_actuators("/World/envs/env_1/link0", [(pd(), "joint2"), (pd(), "joint3")])
        second = ArticulationActuators.from_actuators("link0", [(pd(), "joint3")])
        first.close()
        third = ArticulationActuators.from_actuators("link0", [(pd(), "joint2")])
        assert not third.articulation.get_dof_gains()[0].numpy()[:, 1:3].any()
        third.close()
        second.close()
        np.testing.assert_array_equal(simulation.models[0].actuator_gainprm, before)
        for names in (["joint1", "joint2"], 3, None):
            with pytest.raises(ValueError, match="must be one name"):
                ArticulationActuators.from_actuators("link0", [(pd(), names)])


@wp.kernel
def _spring(
    q: wp.array(dtype=float),
    target: wp.array(dtype=float),
    q_at: wp.array(dtype=wp.uint32),
    target_at: wp.array(dtype=wp.uint32),
    stiffness: wp.array(dtype=float),
    forces: wp.array(dtype=float),
):
    i = wp.tid()
    forces[i] = stiffness[i] * (target[target_at[i]] - q[q_at[i]])


class ControllerSpring(actuon.Controller):
    """No config: what it is made of is its own affair."""

    def __init__(self, stiffness):
        self.stiffness = stiffness

    def compute(self, positions, velocities, target_pos, target_vel, feedforward, *rest):
        pos_at, _, target_at, _, forces, _, _, device = rest
        inputs = [positions, target_pos, pos_at, target_at, self.stiffness]
        wp.launch(_spring, len(forces), inputs, [forces], device=device)


class ClampingHalf(actuon.Clamping):
    def modify_forces(self, src_forces, dst_forces, *rest):
        dst_forces.assign(0.5 * src_forces.numpy())


class DelayOfRadio(actuon.Delay):
    """Has the config of its base, which says nothing of what it is made with."""

    def __init__(self, channel):
        super().__init__([2, 0], 2)
        self.channel = channel


def test_components_without_a_config():
    """Components are used unchanged, each for all robots, next to parts with a config; the motor model is staged."""
    stiffness = np.array([100.0, 300.0], np.float32)

    def efforts(*configs):
        with MujocoSimulation(ARM, num_envs=2) as simulation:
            pairs = list(zip(configs, ("joint4", "joint2"), strict=True))
            actuators = ArticulationActuators.from_actuators("link0", pairs)
            robots = actuators.articulation
            robots.set_dof_position_targets(robots.get_dof_positions().numpy() + 0.1)
            simulation.step(3)
            robots.set_dof_position_targets(robots.get_dof_positions().numpy() - 0.2)
            simulation.step(2)
            kept = [[type(stage) for stage in actuator.stages] for actuator in actuators.actuators]
            return kept, actuators.telemetry().applied_effort

    def own(clamp):
        return actuon.ActuatorConfig(ControllerSpring(wp.array(stiffness)), [clamp, ClampingHalf()], DelayOfRadio("a"))

    def usual(most):
        pd = actuon.ControllerPD(stiffness / 2.0, 0.0)
        return actuon.ActuatorConfig(pd, [actuon.MaxEffortClampingConfig(most)], actuon.Delay([2, 0], 2))

    kept, got = efforts(own(actuon.MaxEffortClampingConfig(20.0)), own(actuon.ClampingMaxEffort([30.0, 30.0])))
    assert kept == [[DelayOfRadio, ControllerSpring, actuon.ClampingMaxEffort, ClampingHalf]] * 2
    _, expected = efforts(usual(10.0), usual(15.0))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)
    assert np.abs(expected).max() == 15.0
    shared = actuon.ActuatorConfig(ControllerSpring(wp.array(stiffness)))
    np.testing.assert_array_equal(
        efforts(shared, shared)[1], efforts(shared, actuon.ActuatorConfig(ControllerSpring(wp.array(stiffness))))[1]
    )
    with pytest.raises(ValueError, match=r"DOF 'joint2': ControllerSpring\.stiffness: got 3 values; must have 2, one"):
        efforts(shared, actuon.ActuatorConfig(ControllerSpring(wp.zeros(3))))
    with pytest.raises(ValueError, match=r"DOF 'joint2': ClampingMaxEffort\.max_effort: got 3 values; must have 2"):
        efforts(shared, own(actuon.ClampingMaxEffort([1.0, 2.0, 3.0])))


@pytest.mark.parametrize("kind", ["actuators", "groups"])
def test_the_list_of_actuators_is_a_copy(kind):
    with MujocoSimulation(ARM) as simulation:
        actuators = attached(kind)
        first = actuators.actuators[0]
        actuators.actuators.clear()
        assert actuators.actuators == [first]
        actuators.articulation.set_dof_position_targets(np.full((1, 7), 0.5))
        simulation.step()
        assert np.abs(actuators.telemetry().applied_effort[0, 0]) > 1.0


def test_a_recorder_of_closed_actuators_leaves_steps_together(monkeypatch):
    with MujocoSimulation(QUADRUPED) as simulation:
        taken, step = [], simulation.engine.step
        monkeypatch.setattr(simulation.engine, "step", lambda n, motors: taken.append(n) or step(n, motors))
        first = ArticulationActuators("base")
        with Recorder(first) as recorder:
            simulation.step(2)
            first.close()
            simulation.step(20)
            simulation.step(20)
            assert taken == [1, 1, 1, 19, 20]
            assert len(recorder) == 2
            with ArticulationActuators("base") as second:
                recorder.continue_with(second)
                simulation.step(2)
            assert len(recorder) == 4
