# SPDX-License-Identifier: Apache-2.0
"""Actuator groups on robots in MuJoCo and Newton."""

from __future__ import annotations

import math
import runpy

import mujoco
import numpy as np
import pytest

import actuon
from actuon import MujocoSimulation, NewtonSimulation
from actuon.attach.groups.tensors import to_numpy
from actuon.lab import (
    ActuatorGroups,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    Uniform,
)
from actuon.sim import Articulation
from actuon.sim.robots import DofSet
from tests.support.paths import ROOT

torch = pytest.importorskip("torch")
ASSETS = actuon.assets.FOLDER
LEGS = DCMotorCfg(
    joint_names_expr=[".*_thigh_joint", ".*_hip_joint"], stiffness=60.0, damping=1.5, armature=0.02,
    effort_limit=23.7, saturation_effort=23.7, velocity_limit=30.1,
)  # fmt: skip
CALVES = ImplicitActuatorCfg(
    joint_names_expr=[".*_calf_joint"], stiffness=100.0, damping=2.0, effort_limit_sim=30.0, friction=0.3
)


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_implicit_and_explicit_groups_move_one_robot(engine):
    make = {
        "mujoco": lambda: MujocoSimulation(ASSETS / "quadruped.xml", 2),
        "newton": lambda: NewtonSimulation(ASSETS / "quadruped.usda"),
    }
    with make[engine]() as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        held = {
            name: simulation.engine.properties.get(name, robots.at) for name in ("armature", "friction", "effort_limit")
        }
        gains = [values.numpy() for values in robots.get_dof_gains()]
        groups = ActuatorGroups(robots, {"legs": LEGS, "calves": CALVES})
        assert groups["legs"].joint_names[:3] == ["FL_hip_joint", "FL_thigh_joint", "FR_hip_joint"]
        calves = robots.get_dof_indices(groups["calves"].joint_names).numpy()
        legs = robots.get_dof_indices(groups["legs"].joint_names).numpy()
        assert groups.unassigned == []
        stiffness, damping = (values.numpy() for values in robots.get_dof_gains())
        assert not stiffness[:, legs].any()
        np.testing.assert_allclose(stiffness[:, calves], 100.0, rtol=1e-5)
        np.testing.assert_allclose(damping[:, calves], 2.0, rtol=1e-5)
        properties = simulation.engine.properties
        np.testing.assert_allclose(properties.get("armature", robots.at)[:, legs], 0.02, rtol=1e-5)
        np.testing.assert_allclose(properties.get("friction", robots.at)[:, calves], 0.3, rtol=1e-5)
        np.testing.assert_allclose(properties.get("effort_limit", robots.at)[:, calves], 30.0, rtol=1e-5)
        simulation.step(300)
        assert np.abs(robots.get_dof_positions().numpy() - np.tile([0.0, 0.9, -1.8], 4)).max() < 0.15
        efforts = robots.get_dof_efforts().numpy()
        np.testing.assert_allclose(efforts[:, legs], groups["legs"].applied_effort, rtol=1e-6)
        assert not efforts[:, calves].any()
        assert groups["calves"].applied_effort.abs().max() > 3.0
        with pytest.raises(ValueError, match="is driven by other actuators"):
            ActuatorGroups(robots, {"legs": LEGS})
        groups.close()
        groups.close()
        for name, values in held.items():
            np.testing.assert_allclose(
                simulation.engine.properties.get(name, robots.at), values, rtol=1e-6, err_msg=name
            )
        for before, after in zip(gains, robots.get_dof_gains(), strict=True):
            np.testing.assert_allclose(after.numpy(), before, rtol=1e-6)


def test_explicit_groups_equal_articulation_actuators():
    """One motor, described in two ways, gives equal motion to the last bit."""
    ends = []
    for way in ("groups", "actuators"):
        with MujocoSimulation(ASSETS / "arm.xml", 2) as simulation:
            robots = Articulation("link0")
            if way == "groups":
                cfg = IdealPDActuatorCfg(joint_names_expr=["joint.*"], stiffness=600.0, damping=50.0, effort_limit=87.0)
                owner = ActuatorGroups(robots, {"arm": cfg})
            else:
                pd = actuon.ActuatorConfig(actuon.PDControlConfig(600.0, 50.0), [actuon.MaxEffortClampingConfig(87.0)])
                owner = actuon.ArticulationActuators.from_actuators("link0", [(pd, name) for name in robots.dof_names])
            robots.set_dof_position_targets(0.4)
            owner.set_dof_feedforward_effort_targets(1.5)
            simulation.step(200)
            ends.append([data.qpos.copy() for data in simulation.data])
            owner.close()
    np.testing.assert_array_equal(*ends)


def test_a_network_on_robots_that_step_at_another_rate_says_so(tmp_path):
    actuon.save_network(torch.nn.Linear(2, 1), tmp_path / "net.safetensors", sample_dt=0.02)
    cfg = ActuatorNetMLPCfg(
        ["joint.*"], network_file=str(tmp_path / "net.safetensors"), input_idx=[0], pos_scale=1.0, vel_scale=1.0,
        torque_scale=1.0, input_order="pos_vel", effort_limit=9.0, saturation_effort=12.0, velocity_limit=8.0,
    )  # fmt: skip
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        groups = ActuatorGroups(Articulation("link0"), {"arm": cfg})
        with pytest.warns(UserWarning, match=rf"dt = {simulation.dt} s.*trained at sample_dt = 0.02 s"):
            simulation.step()
        simulation.step(3)
        groups.close()


def test_recordings_of_groups_equal_those_of_articulation_actuators(tmp_path):
    """One motor, described in two ways, gives equal telemetry and equal files."""
    files, series = [], []
    for way in ("groups", "actuators"):
        with MujocoSimulation(ASSETS / "arm.xml", 2) as simulation:
            robots = Articulation("link0")
            if way == "groups":
                cfg = IdealPDActuatorCfg(["joint[1-4]"], stiffness=600.0, damping=50.0, effort_limit=30.0)
                owner = ActuatorGroups(robots, {"arm": cfg})
            else:
                pd = actuon.ActuatorConfig(actuon.PDControlConfig(600.0, 50.0), [actuon.MaxEffortClampingConfig(30.0)])
                names = robots.dof_names[:4]
                owner = actuon.ArticulationActuators.from_actuators("link0", [(pd, name) for name in names])
            robots.set_dof_position_targets(0.4)
            with actuon.Recorder(owner) as recorder:
                simulation.step(20)
            telemetry = owner.telemetry()
            assert telemetry.dof_names == robots.dof_names
            np.testing.assert_array_equal(telemetry.applied_effort, recorder.data["applied_effort"][-1])
            recorder.save(tmp_path / f"{way}.csv")
            files.append((tmp_path / f"{way}.csv").read_text())
            series.append(recorder.data)
            owner.reset([1, 1])
            after = owner.telemetry()
            assert after.computed_effort[0].any()
            assert not any(values[1].any() for values in (after.computed_effort, after.applied_effort, after.clipped))
            owner.close()
            simulation.step()
            assert len(recorder) == 20
    assert files[0] == files[1]
    assert series[0].keys() == series[1].keys()
    for name, values in series[0].items():
        np.testing.assert_array_equal(values, series[1][name], err_msg=name)
    assert series[0]["clipped"].any()
    assert not series[0]["computed_effort"][..., 4:].any()
    with pytest.raises(TypeError, match="must be ArticulationActuators or lab.ActuatorGroups"):
        actuon.Recorder(robots)


def test_telemetry_of_implicit_groups_is_what_the_engine_applied():
    """The drive up to its limit, and the feedforward beside it, in MuJoCo under Euler."""
    with MujocoSimulation(ASSETS / "arm.xml", 2) as simulation:
        robots = Articulation("link0")
        drive = {"stiffness": 300.0, "damping": 20.0}
        groups = ActuatorGroups(
            robots,
            {
                "shoulder": ImplicitActuatorCfg(["joint[1-3]"], **drive, effort_limit_sim=5.0),
                "wrist": ImplicitActuatorCfg(["joint[5-7]"], **drive, effort_limit_sim=1000.0),
            },
        )
        robots.set_dof_position_targets(0.4, indices=[1])
        groups.set_dof_feedforward_effort_targets(100.0, dof_indices=[0, 4])
        data = list(simulation.data)  # before the steps, to see what acts in the last
        with actuon.Recorder(groups) as recorder:
            simulation.step(3)
        applied = [own.qfrc_actuator + own.qfrc_applied for own in data]
        told = groups.telemetry()
        mine = np.array([0, 1, 2, 4, 5, 6])
        np.testing.assert_allclose(told.applied_effort[:, mine], np.array(applied)[:, mine], rtol=1e-4, atol=1e-3)
        assert told.clipped[1, :3].all()
        assert not told.clipped[:, 3:].any()
        wanted = np.concatenate([to_numpy(groups[name].computed_effort) for name in ("shoulder", "wrist")], axis=1)
        np.testing.assert_array_equal(told.computed_effort[:, mine], wanted)
        assert not told.applied_effort[:, 3].any()  # in no group
        np.testing.assert_array_equal(recorder.data["applied_effort"][-1], told.applied_effort)


def test_implicit_groups_move_as_plain_mujoco():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        robots = Articulation("/link0")
        cfg = ImplicitActuatorCfg(joint_names_expr=["joint.*"], stiffness=300.0, damping=20.0, armature=0.3)
        groups = ActuatorGroups(robots, {"arm": cfg})
        simulation.step(200)
        mine, telemetry = simulation.data[0].qpos.copy(), groups["arm"].applied_effort.numpy().copy()
        forces = simulation.data[0].qfrc_actuator.copy()
    np.testing.assert_allclose(telemetry[0], forces, rtol=1e-4, atol=1e-3)
    model = mujoco.MjModel.from_xml_path(str(ASSETS / "arm.xml"))
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = 300.0, -300.0, -20.0
    model.dof_armature[:] = np.float32(0.3)
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(200):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(mine, data.qpos, atol=1e-9)


def test_what_is_randomised_reaches_the_engine_per_robot():
    with MujocoSimulation(ASSETS / "arm.xml", 3) as simulation:
        robots = Articulation("link0")
        cfg = ImplicitActuatorCfg(joint_names_expr=["joint.*"], stiffness=300.0, damping=20.0, seed=1)
        groups = ActuatorGroups(robots, {"arm": cfg})
        for name in ("armature", "stiffness", "friction"):
            groups["arm"].randomize(name, Uniform(0.5, 1.5), env_ids=[1])
        armature = simulation.engine.properties.get("armature", robots.at)
        np.testing.assert_allclose(armature, groups["arm"].armature, rtol=1e-6)
        assert (armature[0] == armature[2]).all()
        assert (armature[0] != armature[1]).all()
        np.testing.assert_allclose(robots.get_dof_gains()[0].numpy(), groups["arm"].stiffness, rtol=1e-6)


def test_groups_that_cannot_be_built_change_nothing():
    def groups(**cfgs):
        return ActuatorGroups(Articulation("/link0"), cfgs)

    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        before = simulation.models[0].actuator_gainprm.copy()
        ideal = IdealPDActuatorCfg(joint_names_expr=["joint[12]"], stiffness=1.0, damping=1.0)
        for cfgs, match in (
            ({"a": IdealPDActuatorCfg(joint_names_expr=["elbow"])}, "group 'a': 'elbow' matches no joint"),
            ({"a": ideal, "b": ideal}, "joint 'joint1' is in the groups 'a' and 'b'"),
            ({"a": IdealPDActuatorCfg()}, "joint_names_expr is empty"),
            ({"a": ideal, "b": DCMotorCfg(joint_names_expr=["joint3"])}, "group 'b': DCMotor: saturation_effort"),
            ({}, "no groups"),
        ):
            with pytest.raises(ValueError, match=match):
                groups(**cfgs)
            np.testing.assert_array_equal(simulation.models[0].actuator_gainprm, before)
        made = groups(a=ideal)
        assert made.unassigned == ["joint3", "joint4", "joint5", "joint6", "joint7"]
        assert "in no group: joint3" in made.resolution_table()
        with pytest.raises(ValueError, match="no group 'c'"):
            made["c"]


def test_the_example_of_groups_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "quadruped_with_arm.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "legs: DCMotor" in out
    assert "arm: ImplicitActuator" in out


def served(actuators="", joints=("a", "b")):
    bodies = "".join(f'<body pos="{i} 0 0"><joint name="{n}"/><geom size=".1"/></body>' for i, n in enumerate(joints))
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body name="r"><geom size=".1"/>{bodies}</body></worldbody>'
        f"<actuator>{actuators}</actuator></mujoco>"
    )


@pytest.mark.parametrize(
    "actuators",
    [
        "",
        '<motor joint="a"/><motor joint="b"/>',
        '<velocity joint="a" kv="2"/>',
        '<position joint="a" kp="5"/><position joint="b" kp="5" forcerange="-5 20"/>',
    ],
)
def test_explicit_groups_on_robots_with_any_drives(actuators):
    with MujocoSimulation(served(actuators), 2) as simulation:
        fields = (
            "actuator_gainprm",
            "actuator_biasprm",
            "actuator_forcerange",
            "actuator_forcelimited",
            "dof_armature",
        )
        fields += ("dof_invweight0", "body_invweight0")
        before = [[getattr(m, f).copy() for f in fields] for m in simulation.models]
        cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=30.0, damping=3.0, armature=0.123)
        groups = ActuatorGroups(Articulation("r"), {"all": cfg})
        Articulation("r").set_dof_position_targets(0.3)
        groups["all"].randomize("armature", Uniform(0.5, 1.5), env_ids=[1])
        simulation.step(20)
        assert groups["all"].applied_effort.abs().max() > 1.0
        groups.close()
        for model, values in zip(simulation.models, before, strict=True):
            for field, value in zip(fields, values, strict=True):
                np.testing.assert_array_equal(getattr(model, field), value, err_msg=field)
        with pytest.raises(ValueError, match="closed"):
            groups.step()


def test_implicit_limits_reach_the_engine_as_they_are():
    gears = '<position joint="a" kp="5" gear="3" forcerange="-2 2"/><position joint="b" kp="5"/>'
    with MujocoSimulation(served(gears)) as simulation:
        robots = Articulation("/r")
        asset = simulation.engine.properties.get("effort_limit", robots.at)
        assert asset.tolist() == [[6.0, math.inf]]
        cfg = ImplicitActuatorCfg(
            joint_names_expr=[".*"], stiffness=50.0, damping=5.0, effort_limit_sim={"a": math.inf, "b": 9.0}
        )
        groups = ActuatorGroups(robots, {"all": cfg})
        assert simulation.engine.properties.get("effort_limit", robots.at).tolist() == [[math.inf, 9.0]]
        for name in ("effort_limit", "effort_limit_sim"):
            groups["all"].randomize(name, Uniform(2.0, 2.0), relative_to="current")
        assert groups["all"].effort_limit.tolist() == groups["all"].effort_limit_sim.tolist() == [[math.inf, 36.0]]
        assert simulation.engine.properties.get("effort_limit", robots.at).tolist() == [[math.inf, 36.0]]
        groups.close()
        assert simulation.engine.properties.get("effort_limit", robots.at).tolist() == asset.tolist()
        assert simulation.models[0].actuator_forcerange[0].tolist() == [-2.0, 2.0]


def test_effort_limit_sim_of_an_explicit_group_clips_what_the_engine_gets():
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        cfg = IdealPDActuatorCfg(
            joint_names_expr=["joint1"], stiffness=600.0, damping=0.0, effort_limit=50.0, effort_limit_sim=5.0
        )
        groups = ActuatorGroups(Articulation("/link0"), {"a": cfg})
        Articulation("/link0").set_dof_position_targets(1.0, dof_indices=[0])
        simulation.step()
        assert simulation.data[0].qfrc_applied[0] == 5.0
        assert groups["a"].applied_effort[0, 0] == 50.0
        told = groups.telemetry()
        assert told.applied_effort[0, 0] == 5.0
        assert told.computed_effort[0, 0] == pytest.approx(600.0)
        assert told.clipped[0].tolist() == [True] + [False] * 6
        del groups
        simulation.owners.check_free(DofSet(simulation.robots, np.arange(len(simulation.robots))))
        ActuatorGroups(Articulation("/link0"), {"a": cfg}).close()


def test_randomising_is_all_or_nothing(monkeypatch):
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        cfg = ImplicitActuatorCfg(joint_names_expr=["joint.*"], stiffness=300.0, damping=20.0, seed=3)
        model = ActuatorGroups(Articulation("/link0"), {"arm": cfg})
        twin = cfg.class_type(cfg, model["arm"].joint_names, list(range(7)), 1, "cpu")
        before = model["arm"].armature.clone()
        with monkeypatch.context() as patch:
            patch.setattr(simulation.engine.properties, "set", lambda *_, **values: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model["arm"].randomize("armature", Uniform(0.5, 1.5))
        assert torch.equal(model["arm"].armature, before)
        model["arm"].randomize("stiffness", Uniform(0.5, 1.5))
        twin.randomize("stiffness", Uniform(0.5, 1.5))
        assert torch.equal(model["arm"].stiffness, twin.stiffness)


def limited(joint="", actuator='<motor joint="a" ctrlrange="-3 2" gear="2"/>'):
    text = (
        '<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body name="r"><geom size="0.1"/><body>'
        f'<joint name="a" axis="0 1 0" armature="1" {joint}/><geom size="0.1"/></body></body></worldbody>'
        f"<actuator>{actuator}</actuator></mujoco>"
    )
    return mujoco.MjModel.from_xml_string(text)


@pytest.mark.parametrize(
    ("given", "joint", "expected"),
    [
        ({}, "", (-6.0, 4.0)),
        ({}, 'actuatorfrcrange="-1 9"', (-1.0, 4.0)),
        ({"effort_limit": 50.0}, 'actuatorfrcrange="-1 9"', (-1.0, 9.0)),
        ({"effort_limit": 50.0, "effort_limit_sim": 20.0}, 'actuatorfrcrange="-1 9"', (-20.0, 20.0)),
        ({"effort_limit": 50.0}, "", (-50.0, 50.0)),
    ],
)
def test_explicit_groups_keep_to_what_the_engine_would_clip(given, joint, expected):
    with MujocoSimulation(limited(joint)) as simulation:
        robots = Articulation("/r")
        cfg = IdealPDActuatorCfg(joint_names_expr=["a"], stiffness=1000.0, damping=0.0, **given)
        groups = ActuatorGroups(robots, {"all": cfg})
        for target, most in zip((-1.0, 1.0), expected, strict=True):
            robots.set_dof_position_targets(target)
            simulation.reset()
            robots.set_dof_position_targets(target)
            simulation.step()
            assert simulation.data[0].qfrc_applied[0] == most
            told = groups.telemetry()
            assert told.applied_effort[0, 0] == most
            assert told.computed_effort[0, 0] == 1000.0 * target
            assert told.clipped[0, 0]


def test_a_servo_without_a_target_velocity_refuses_one_in_an_implicit_group_too():
    with MujocoSimulation(limited(actuator='<position joint="a" kp="9" kv="1"/>')):
        robots = Articulation("/r")
        cfg = ImplicitActuatorCfg(joint_names_expr=["a"], stiffness=None, damping=None)
        with ActuatorGroups(robots, {"all": cfg}):
            robots.set_dof_velocity_targets(0.0)
            with pytest.raises(ValueError, match="no servo or actuator follows a target velocity of a of '/r'"):
                robots.set_dof_velocity_targets(1.0)
        with ActuatorGroups(robots, {"all": IdealPDActuatorCfg(joint_names_expr=["a"], stiffness=1.0, damping=1.0)}):
            robots.set_dof_velocity_targets(1.0)


def test_the_table_says_where_in_the_model_a_limit_stands():
    with MujocoSimulation(limited('actuatorfrcrange="-1 9"')):
        cfg = IdealPDActuatorCfg(joint_names_expr=["a"], stiffness=1000.0, damping=0.0)
        text = ActuatorGroups(Articulation("/r"), {"all": cfg}).resolution_table()
        assert "asset: ctrlrange of motor '0' and actuatorfrcrange of joint 'a'" in text
        assert "a effort_limit 4 – 4 N·m asset" in " ".join(text.split())


def test_a_limit_that_is_drawn_anew_has_one_number_for_both_directions():
    with MujocoSimulation(limited()) as simulation:
        robots = Articulation("/r")
        groups = ActuatorGroups(
            robots, {"all": IdealPDActuatorCfg(joint_names_expr=["a"], stiffness=1000.0, damping=0.0)}
        )
        groups["all"].randomize("effort_limit", Uniform(2.0, 2.0))
        robots.set_dof_position_targets(1.0)
        simulation.step()
        assert simulation.data[0].qfrc_applied[0] == 12.0


def test_telemetry_of_an_implicit_group_knows_both_bounds_of_the_drive():
    servo = '<position joint="a" kp="1000" forcerange="-3 2"/>'
    with MujocoSimulation(limited('actuatorfrcrange="-1 9"', servo)) as simulation:
        robots = Articulation("/r")
        groups = ActuatorGroups(
            robots, {"all": ImplicitActuatorCfg(joint_names_expr=["a"], stiffness=None, damping=None)}
        )
        for target, most in ((-1.0, -1.0), (1.0, 2.0)):
            simulation.reset()
            robots.set_dof_position_targets(target)
            simulation.step()
            assert simulation.data[0].qfrc_actuator[0] == groups.telemetry().applied_effort[0, 0] == most


def test_actuators_keep_to_what_the_engine_would_clip_as_it_is_now():
    with MujocoSimulation(limited('actuatorfrcrange="-1 9"')) as simulation:
        pd = actuon.ActuatorConfig(actuon.PDControlConfig(1000.0, 0.0))
        actuators = actuon.ArticulationActuators.from_actuators("/r", [(pd, "a")])
        robots = actuators.articulation
        robots.set_dof_position_targets(1.0)
        simulation.step()
        assert simulation.data[0].qfrc_applied[0] == actuators.telemetry().applied_effort[0, 0] == 9.0
        assert actuators.telemetry().clipped[0, 0]
        simulation.engine.properties.set(robots.at.of_dofs(np.array([0])), effort_limit=np.array([[5.0]]))
        simulation.step()
        assert simulation.data[0].qfrc_applied[0] == 5.0


@pytest.mark.parametrize("num_envs", [1, 6, 10])
def test_rewinding_all_or_some_robots_with_groups(num_envs, rng):
    """Lags are drawn at a reset, so that they and the generator are part of the state."""
    late = DelayedPDActuatorCfg(
        joint_names_expr=[".*_hip_joint"], stiffness=30.0, damping=1.0, effort_limit=20.0, max_delay=4, seed=0
    )
    with MujocoSimulation(ASSETS / "quadruped.xml", num_envs) as simulation:
        robots = Articulation("base" if num_envs > 1 else "/base")
        with ActuatorGroups(robots, {"hips": late, "calves": CALVES}) as groups:
            targets = robots.get_dof_position_targets().numpy() + rng.normal(0.0, 0.2, (30, num_envs, 12))
            hips = groups["hips"]

            def run(first, last):
                for i in range(first, last):
                    robots.set_dof_position_targets(targets[i])
                    simulation.step()
                return simulation.save_state().engine

            run(0, 10)
            saved, lags = simulation.save_state(), to_numpy(hips.time_lags)
            end = run(10, 20)
            simulation.reset()
            drawn = to_numpy(hips.time_lags)
            run(0, 5)
            simulation.load_state(saved)
            np.testing.assert_array_equal(to_numpy(hips.time_lags), lags)
            np.testing.assert_array_equal(run(10, 20), end)
            simulation.reset()
            np.testing.assert_array_equal(to_numpy(hips.time_lags), drawn)

            some = np.arange(num_envs) % 2 == 0
            run(0, 5)
            others = simulation.save_state().engine[~some]
            simulation.load_state(saved, env_ids=some)
            np.testing.assert_array_equal(to_numpy(hips.time_lags), np.where(some, lags, drawn))
            np.testing.assert_array_equal(simulation.save_state().engine[~some], others)
            np.testing.assert_array_equal(run(10, 20)[some], end[some])
