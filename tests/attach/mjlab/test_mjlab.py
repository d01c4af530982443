# SPDX-License-Identifier: Apache-2.0
"""Chains as actuators of mjlab's Go1, beside mjlab's own. `make test-mjlab` runs this, in an environment with mjlab."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest

pytest.importorskip("mjlab", reason="mjlab pins another MuJoCo; run make test-mjlab")

import mjlab
import mujoco
import mujoco_warp
import numpy as np
import torch
import tyro
from mjlab.actuator import BuiltinPositionActuatorCfg, DcMotorActuatorCfg
from mjlab.actuator.actuator import ActuatorCmd, TransmissionType
from mjlab.asset_zoo.robots import get_go1_robot_cfg
from mjlab.asset_zoo.robots.unitree_go1 import go1_constants as go1
from mjlab.entity import Entity, EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnv
from mjlab.managers.event_manager import EventTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.scene import Scene, SceneCfg
from mjlab.scripts.train import TrainConfig, run_train
from mjlab.sim import Simulation, SimulationCfg
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg
from mjlab.tasks.velocity.config.go1.rl_cfg import unitree_go1_ppo_runner_cfg

import actuon
from actuon.mjlab import ActuonActuatorCfg, randomize, randomize_motors, solve_friction
from actuon.robot_files.fleet import Fleet, FleetJoint, FleetParameter, save_fleet
from actuon.sim.mujoco.friction import external_loads

LEGS = (".*_hip_joint", ".*_thigh_joint")
KNEES = (".*_calf_joint",)
ALL = (".*_joint",)
MOTORS = (
    (LEGS, go1.HIP_ACTUATOR, go1.STIFFNESS_HIP, go1.DAMPING_HIP),
    (KNEES, go1.KNEE_ACTUATOR, go1.STIFFNESS_KNEE, go1.DAMPING_KNEE),
)
MOST, STALL = 0.4, 0.5
"""Largest effort and stall effort, as shares of the robot's, so that the limits are reached."""
PD = actuon.PDControlConfig(20.0, 0.5)


def of_mjlab(lag):
    return tuple(
        DcMotorActuatorCfg(
            target_names_expr=targets,
            stiffness=kp,
            damping=kd,
            effort_limit=MOST * motor.effort_limit,
            saturation_effort=STALL * motor.effort_limit,
            velocity_limit=motor.velocity_limit,
            armature=motor.reflected_inertia,
            delay_min_lag=lag,
            delay_max_lag=lag,
        )
        for targets, motor, kp, kd in MOTORS
    )


def of_ours(lag):
    return tuple(
        ActuonActuatorCfg(
            target_names_expr=targets,
            actuator=actuon.ActuatorConfig(
                actuon.PDControlConfig(kp, kd),
                actuon.DCMotorClampingConfig(
                    STALL * motor.effort_limit, motor.velocity_limit, MOST * motor.effort_limit
                ),
                actuon.DelayConfig(lag),
            ),
            armature=motor.reflected_inertia,
        )
        for targets, motor, kp, kd in MOTORS
    )


def go1_cfg(actuators, num_envs=2, **events):
    """The velocity task on flat ground, without what only makes runs differ: pushes, and episodes that end."""
    cfg = unitree_go1_flat_env_cfg()
    cfg.scene.num_envs = num_envs
    cfg.scene.entities["robot"].articulation = EntityArticulationInfoCfg(actuators=tuple(actuators))
    cfg.seed = 1
    del cfg.events["push_robot"]
    cfg.events |= events
    cfg.terminations = {}
    return cfg


def made(actuators, num_envs=2, **events):
    env = ManagerBasedRlEnv(go1_cfg(actuators, num_envs, **events), device="cpu")
    env.reset(seed=1)
    env.scene["robot"].reset()  # mjlab's delay has heard zeros from the reset, which are not a command
    return env


def trot(env, steps, between=lambda step: None):
    """Joint positions [rad] and velocities [rad/s] of a trot on the spot, shape (steps, environments, 24)."""
    phase = torch.tensor([0.0, math.pi, math.pi, 0.0]).repeat_interleave(3)
    swing = torch.tensor([0.2, 1.0, 1.0] * 4)
    found = []
    for step in range(steps):
        between(step)
        action = swing * torch.sin(2.0 * math.pi * 1.5 * step * env.step_dt + phase)
        env.step(action.repeat(env.num_envs, 1))
        data = env.scene["robot"].data
        found.append(torch.cat([data.joint_pos, data.joint_vel], dim=1))
    return torch.stack(found)


def entity(*actuators):
    cfg = get_go1_robot_cfg()
    cfg.articulation = EntityArticulationInfoCfg(actuators=actuators)
    return Entity(cfg)


def ours(actuator, targets=ALL, **options):
    return ActuonActuatorCfg(target_names_expr=targets, actuator=actuator, **options)


def test_go1_moves_as_with_mjlabs_own_motor():
    """For two seconds, with contacts; with another lag it does not."""
    with_theirs, with_ours = (trot(made(actuators(2)), 100) for actuators in (of_mjlab, of_ours))
    assert with_ours[:, :, :12].std(dim=0).mean() > 0.05
    assert (with_ours - with_theirs)[:, :, :12].abs().max() < 1e-4
    later = trot(made(of_ours(6)), 25)
    assert (later - with_theirs[:25])[:, :, :12].abs().max() > 0.02


HOT = actuon.HeatClampingConfig(
    winding_thermal_resistance=0.5,
    housing_thermal_resistance=2.0,
    winding_time_constant=1.0,
    housing_time_constant=100.0,
    motor_constant=0.2,
    max_effort=30.0,
    derated_effort=5.0,
    derating_start=26.0,
    derating_end=60.0,
)


def test_a_reset_in_the_middle_of_a_rollout_is_of_its_environment_alone():
    late = actuon.ActuatorConfig(PD, HOT, actuon.DelayConfig(3), effects=[actuon.CurrentLoopEffectConfig(0.01)])
    runs, temperatures = [], []
    for with_reset in (False, True):
        env = made([ours(late, armature=0.005)], num_envs=3)

        def reset_one(step, env=env, with_reset=with_reset):
            if step == 10 and with_reset:
                env.reset(env_ids=torch.tensor([1]))

        runs.append(trot(env, 20, reset_one))
        temperatures.append(env.scene["robot"].actuators[0].motors.signals["temperature"].clone())
    (plain, reset), (hot, cooled) = runs, temperatures
    assert torch.equal(plain[:, [0, 2]], reset[:, [0, 2]])
    assert not torch.equal(plain[10:, 1], reset[10:, 1])
    assert torch.equal(hot[[0, 2]], cooled[[0, 2]])
    assert cooled[1].mean() < hot[1].mean()


def test_beside_mjlabs_own_on_one_robot():
    knees = BuiltinPositionActuatorCfg(
        target_names_expr=KNEES, stiffness=40.0, damping=1.0, effort_limit=30.0, armature=0.005
    )
    env = made([knees, ours(actuon.ActuatorConfig(PD), LEGS)])
    robot = env.scene["robot"]
    assert robot.actuators[1].target_names == [name for name in robot.joint_names if "calf" not in name]
    trot(env, 2)
    wanted = PD.kp * (robot.data.joint_pos_target - robot.data.joint_pos) - PD.kd * robot.data.joint_vel
    robot.write_data_to_sim()
    given = robot.data.data.ctrl[:, robot.indexing.ctrl_ids]
    hips = robot.actuators[1]
    torch.testing.assert_close(given[:, hips.ctrl_ids], wanted[:, hips.target_ids])


def test_actuators_in_the_order_of_joints():
    """The entity then adds motors one by one, of both configs in turn."""
    cfg = go1_cfg(of_ours(2))
    cfg.scene.entities["robot"].sort_actuators = True
    env = ManagerBasedRlEnv(cfg, device="cpu")
    env.reset(seed=1)
    env.scene["robot"].reset()
    assert torch.equal(trot(env, 5), trot(made(of_ours(2)), 5))


TENDON = """
<mujoco><worldbody>
  <body><joint name="a" axis="0 1 0"/><joint name="b" axis="1 0 0"/><geom size="0.1"/></body>
</worldbody>
<tendon><fixed name="both"><joint joint="a" coef="1"/><joint joint="b" coef="2"/></fixed></tendon></mujoco>
"""


def on_battery(targets, full_voltage=24.0):
    """Motors that the battery cannot feed all at once."""
    limits = [
        actuon.BatteryClampingConfig(full_voltage=full_voltage, inner_resistance=0.1),
        actuon.VoltageClampingConfig(torque_constant=0.1, resistance=1.2),
    ]
    return ours(actuon.ActuatorConfig(PD, limits, transmission=actuon.GearTransmissionConfig(6.0)), targets)


def test_a_second_config_on_the_battery_of_a_robot_is_refused():
    """All joints of one config share it: they do not move as with separate batteries."""
    one = made([on_battery(ALL)])
    trot(one, 15)
    (every,) = (own.motors.signals["supply_voltage"] for own in one.scene["robot"].actuators)
    assert (every < 23.5).all()
    assert torch.equal(every[:, :1].expand(-1, 12), every)
    with pytest.raises(actuon.StructureError, match="has a battery, and so has joint .* of another ActuonActuatorCfg"):
        made([on_battery(LEGS), on_battery(KNEES)])


def test_a_tendon():
    """Its length and speed are what the chain sees."""
    config = actuon.ActuatorConfig(PD, actuon.MaxEffortClampingConfig(6.0))
    cfg = ours(config, ("both",), transmission_type=TransmissionType.TENDON)
    robot_cfg = EntityCfg(
        spec_fn=lambda: mujoco.MjSpec.from_string(TENDON), articulation=EntityArticulationInfoCfg(actuators=(cfg,))
    )
    scene = Scene(SceneCfg(num_envs=2, entities={"robot": robot_cfg}), "cpu")
    simulation = Simulation(2, SimulationCfg(), scene.compile(), "cpu")
    scene.initialize(simulation.mj_model, simulation.model, simulation.data)
    robot = scene["robot"]
    robot.set_tendon_len_target(torch.tensor([[0.1], [1.0]]))
    scene.write_data_to_sim()
    torch.testing.assert_close(simulation.data.ctrl[:], torch.tensor([[2.0], [6.0]]))


def test_a_model_gets_what_the_engine_holds_of_a_chain():
    friction = actuon.FrictionEffectConfig(dynamic=0.02, viscous=0.001)
    gear = actuon.GearTransmissionConfig(6.0, rotor_inertia=1e-4)
    geared = actuon.ActuatorConfig(PD, transmission=gear, effects=[friction])
    asset = go1.get_spec().joint("FR_calf_joint")
    for options, expected in (
        ({}, (3.6e-3, 0.12, 0.036)),
        ({"armature": 0.5, "frictionloss": 0.3, "viscous_damping": 0.7}, (0.5, 0.3, 0.7)),
        (None, (asset.armature, asset.frictionloss, asset.damping[0])),
    ):
        config = actuon.ActuatorConfig(PD) if options is None else geared
        model = entity(ours(config, **(options or {}))).spec.compile()
        joint = model.joint("FR_calf_joint")
        found = (joint.armature[0], joint.frictionloss[0], joint.damping[0])
        assert found == pytest.approx(expected)
        assert not model.actuator_forcelimited.any()
        assert not model.actuator_ctrllimited.any()


STRIBECK = actuon.FrictionEffectConfig(dynamic=0.2, static=0.5, stribeck_velocity=0.5, viscous=0.02)
LOADED = actuon.FrictionEffectConfig(dynamic=0.1, load_motor=0.05, load_external=0.1)


def test_friction_that_changes_with_speed_and_load_is_solved_by_mujoco():
    """The engine gets the friction of this step in each environment, and tells the load of the last."""
    actuators = [
        ours(actuon.ActuatorConfig(PD, effects=[STRIBECK]), LEGS),
        ours(actuon.ActuatorConfig(PD, effects=[LOADED]), KNEES),
    ]
    env = made(
        actuators,
        friction=EventTermCfg(func=solve_friction, mode="startup"),
        viscous=scaling("effect.viscous", 0.5, 1.5),
    )
    trot(env, 5)
    robot, model = env.scene["robot"], env.sim.model
    for actuator, friction in zip(robot.actuators, (STRIBECK, LOADED), strict=True):
        robot.write_data_to_sim()
        dofs = robot.indexing.joint_v_adr[actuator.target_ids].long()
        speed = robot.data.joint_vel[:, actuator.target_ids]
        if friction is STRIBECK:
            expected = 0.2 + 0.3 * torch.exp(-((speed / 0.5) ** 2))
        else:
            effort = actuator.compute(actuator.get_command(robot.data))
            loads = []
            for world in range(2):
                data = mujoco.MjData(env.sim.mj_model)
                mujoco_warp.get_data_into(data, env.sim.mj_model, env.sim.wp_data, world_id=world)
                loads.append(torch.as_tensor(external_loads(data)[dofs.numpy()], dtype=torch.float32))
            assert max(load.abs().max() for load in loads) > 0.5
            torch.testing.assert_close(actuator.motors.inputs["joint_load"], torch.stack(loads), atol=1e-4, rtol=1e-4)
            expected = 0.1 + (0.1 * torch.stack(loads) - 0.05 * effort).abs()
        torch.testing.assert_close(model.dof_frictionloss[:, dofs], expected, atol=1e-5, rtol=1e-4)
        viscous = actuator.motors.parameter("effect.viscous")
        assert viscous.unique().numel() == (16 if friction is STRIBECK else 1)
        torch.testing.assert_close(model.dof_damping[:, dofs], viscous)
        assert (model.dof_solimp[:, dofs, 0] == torch.tensor(0.9999)).all()


def test_friction_that_changes_needs_the_event():
    with pytest.raises(actuon.StructureError, match="joint 'FR_hip_joint': its friction changes .*solve_friction"):
        made([ours(actuon.ActuatorConfig(PD, effects=[STRIBECK]))])


YAML = """
actuators:
  hips: {joints: ".*_hip_joint", controller: {type: pd, kp: 10, kd: 1}}
  legs: {joints: [".*_thigh_joint", ".*_calf_joint"], controller: {type: pd, kp: 20, kd: 2}, delay: {delay_steps: 2}}
"""


def test_actuators_of_a_yaml_file(tmp_path):
    """Each joint has that of its entry; entries for other joints of the robot are left alone."""
    (tmp_path / "go1.yaml").write_text(YAML)
    for path in (tmp_path / "go1.yaml", str(tmp_path / "go1.yaml")):
        actuator = entity(ours(path, targets=(".*_calf_joint", ".*_hip_joint"))).actuators[0]
        gains = {name: config.controller.kp for name, config in actuator.configs.items()}
        assert gains == {name: 10.0 if "hip" in name else 20.0 for name in actuator.target_names}


def test_targets_as_one_expression():
    actuator = entity(ours(actuon.ActuatorConfig(PD), targets=".*_calf_joint")).actuators[0]
    assert [config.controller for config in actuator.configs.values()] == [PD] * 4


def test_the_motor_of_a_name():
    actuator = entity(ours("Unitree Go M8010 6", stiffness=30.0, damping=0.6)).actuators[0]
    (config,) = {id(config): config for config in actuator.configs.values()}.values()
    assert config.controller == actuon.PDControlConfig(30.0, 0.6)
    assert len(config.stages) > 1


@pytest.mark.parametrize(
    ("cfg", "error", "match"),
    [
        (ours(actuon.ActuatorConfig(PD), targets=("knee",)), ValueError, "No joints matched expressions"),
        (ours("unitree-go3", stiffness=1.0, damping=1.0), actuon.ParameterError, "unknown motor 'unitree-go3'; "),
        (ours("unitree-go2"), actuon.ParameterError, "has no controller; pass stiffness .* and damping"),
        (ours("none.yaml"), actuon.RobotFileError, "none.yaml"),
        (ours(actuon.ActuatorConfig(PD), stiffness=1.0), actuon.ParameterError, "stiffness: is for the name of a"),
        (ours(3.0), actuon.ParameterError, "actuator: got 3.0; must be an ActuatorConfig, the path of a YAML file, or"),
        (
            ours(actuon.ActuatorConfig(PD), ("FR",), transmission_type=TransmissionType.SITE),
            actuon.StructureError,
            "got SITE, which has no position",
        ),
    ],
)
def test_configs_that_cannot_be(cfg, error, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=match):
        entity(cfg)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("actuators: {a: {joints: knee, controller: {type: pd, kp: 1, kd: 1}}}", "a: joints: 'knee' matches no joint"),
        ("actuators: {a: {joints: .*_hip_joint, controller: {type: pd, kp: 1, kd: 1}}}", "no actuator for 'FR_thigh"),
        ("actuators: {a: {joints: .*_joint, controller: {type: pd, kp: -1, kd: 1}}}", "kp: got -1"),
        ("actuators: [", "is not a valid YAML file"),
    ],
)
def test_yaml_files_that_cannot_be(text, match, tmp_path):
    (tmp_path / "go1.yaml").write_text(text)
    with pytest.raises(actuon.RobotFileError, match=f"go1.yaml.*{match}"):
        entity(ours(tmp_path / "go1.yaml"))


def scaling(parameter, low, high, mode="startup", **options):
    params = {"parameter": parameter, "ranges": (low, high), **options}
    return EventTermCfg(func=randomize, mode=mode, params=params)


def test_parameters_are_randomised_per_environment():
    config = actuon.ActuatorConfig(PD, actuon.MaxEffortClampingConfig(20.0), actuon.DelayConfig(3))
    knees = SceneEntityCfg("robot", joint_names=KNEES)
    env = made(
        [ours(config)],
        num_envs=4,
        gains=scaling("controller.kp", 0.5, 1.5, asset_cfg=knees),
        lags=scaling("delay.delay_steps", 0, 3, mode="reset", operation="abs"),
        limits=scaling("clamping.max_effort", 1.0, 2.0, operation="add", distribution="log_uniform"),
    )
    robot = env.scene["robot"]
    chains = robot.actuators[0].motors
    kp, lags, limits = (chains.parameter(n) for n in ("controller.kp", "delay.delay_steps", "clamping.max_effort"))
    is_knee = torch.tensor(["calf" in name for name in robot.actuators[0].target_names])
    assert (kp[:, ~is_knee] == 20.0).all()
    assert ((kp >= 10.0) & (kp <= 30.0)).all()
    assert kp[:, is_knee].unique().numel() == 16
    assert set(lags.unique().tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert ((limits >= 21.0) & (limits <= 22.0)).all()
    env.reset(env_ids=torch.tensor([2]))
    assert torch.equal(chains.parameter("delay.delay_steps")[[0, 1, 3]], lags[[0, 1, 3]])
    assert not torch.equal(chains.parameter("delay.delay_steps")[2], lags[2])
    assert torch.equal(chains.parameter("controller.kp"), kp)
    assert trot(env, 2).isfinite().all()
    for options, error, match in (
        ({"parameter": "controller.ki"}, actuon.ParameterError, "entity 'robot': no parameter 'controller.ki'"),
        ({"ranges": (-2.0, -1.0)}, actuon.ParameterError, "entity 'robot': joint .*: controller.kp: got -"),
        ({"distribution": "even"}, actuon.ParameterError, "distribution: got 'even'; distributions: uniform"),
        ({"operation": "times"}, actuon.ParameterError, "operation: got 'times'; operations: scale"),
        ({"env_ids": torch.tensor([4])}, actuon.SimulationError, "env_ids: got .*; must be whole numbers from 0 to 3"),
    ):
        given = {"env_ids": None, "parameter": "controller.kp", "ranges": (0.9, 1.1)} | options
        with pytest.raises(error, match=match):
            randomize(env, given.pop("env_ids"), **given)
    assert torch.equal(chains.parameter("controller.kp"), kp)


def test_motors_are_drawn_from_fitted_ones(tmp_path):
    """Drawn values that the model holds are written to it, for the environments that got motors."""
    parameters = (
        FleetParameter("controller.kp", "N·m/rad", "log"),
        FleetParameter("transmission.reflected_inertia", "kg·m²", "log"),
        FleetParameter("friction.dynamic", "N·m", "log"),
    )
    values = np.array([[20.0, 0.010, 0.05], [30.0, 0.012, 0.08]])
    covariances = np.tile(np.diag([0.01, 0.02, 0.03]), (2, 1, 1))
    leg = FleetJoint("leg", "m1", parameters, values, covariances, np.full(2, 0.001), {}, {})
    save_fleet(tmp_path / "fleet.yaml", Fleet(("a", "b"), ("a.yaml", "b.yaml"), (leg,)))
    gear = actuon.GearTransmissionConfig(1.0, reflected_inertia=0.005)
    chain = actuon.ActuatorConfig(PD, transmission=gear, effects=[actuon.FrictionEffectConfig(0.1, 0.01)])
    params = {"from_fit": tmp_path / "fleet.yaml", "joints": {".*_(hip|thigh)_joint": "leg"}}
    motors = EventTermCfg(func=randomize_motors, mode="startup", params=params)
    env = made([ours(actuon.ActuatorConfig(PD), KNEES), ours(chain, LEGS)], num_envs=3, motors=motors)
    robot = env.scene["robot"]
    legs = robot.actuators[1]
    dofs = robot.indexing.joint_v_adr[legs.target_ids].long()

    def held():
        return {field: getattr(env.sim.model, field)[:, dofs].clone() for field in ("dof_armature", "dof_frictionloss")}

    def check():
        for field, name in (
            ("dof_armature", "transmission.reflected_inertia"),
            ("dof_frictionloss", "effect.dynamic"),
        ):
            torch.testing.assert_close(held()[field], legs.motors.parameter(name))
            assert held()[field].unique().numel() == 24

    check()
    before, gains = held(), legs.motors.parameter("controller.kp")
    assert gains.unique().numel() == 24
    randomize_motors(env, torch.tensor([1]), **params)
    check()
    for field, values in held().items():
        assert torch.equal(values[[0, 2]], before[field][[0, 2]])
        assert not torch.equal(values[1], before[field][1])
    assert trot(env, 2).isfinite().all()
    with pytest.raises(actuon.RobotFileError, match="fleet.yaml"):
        randomize_motors(env, None, tmp_path / "fleet.yaml", {".*_thigh_joint": "arm"})
    with pytest.raises(actuon.ParameterError, match="joints: 'thigh' matches no joint"):
        randomize_motors(env, None, tmp_path / "fleet.yaml", {"thigh": "leg"})
    with pytest.raises(actuon.SimulationError, match="env_ids: got .*; must be whole numbers from 0 to 2"):
        randomize_motors(env, torch.tensor([3]), **params)


def test_commands_and_environments_that_cannot_be():
    env = made([ours(actuon.ActuatorConfig(PD))])
    actuator = env.scene["robot"].actuators[0]
    command = actuator.get_command(env.scene["robot"].data)
    elsewhere = dataclasses.replace(command, pos=torch.zeros(2, 12, device="meta"))
    with pytest.raises(actuon.ArrayError, match="pos: got a tensor on 'meta'; the actuator runs on 'cpu'"):
        actuator.compute(elsewhere)
    with pytest.raises(actuon.SimulationError, match="env_ids: got .*; must be whole numbers from 0 to 1"):
        actuator.reset(torch.tensor([2]))
    assert isinstance(command, ActuatorCmd)
    assert actuator.compute(command).shape == (2, 12)


def test_a_config_is_data():
    cfg = ours(actuon.ActuatorConfig(PD, delay=actuon.DelayConfig(2)))
    assert copy.deepcopy(cfg) == cfg
    assert dataclasses.asdict(cfg)["actuator"]["stages"][1]["kp"] == 20.0


def test_a_policy_is_trained_for_two_iterations(tmp_path, monkeypatch):
    """By mjlab's own script, which reads its arguments from configs and writes configs down."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    env = go1_cfg(of_ours(2), gains=scaling("controller.kp", 0.8, 1.2, mode="reset"))
    env.terminations = unitree_go1_flat_env_cfg().terminations
    agent = dataclasses.replace(unitree_go1_ppo_runner_cfg(), logger="tensorboard", upload_model=False)
    arguments = ["--env.scene.num-envs", "4", "--agent.max-iterations", "2", "--agent.num-steps-per-env", "6"]
    cfg = tyro.cli(TrainConfig, args=arguments, default=TrainConfig(env=env, agent=agent), config=mjlab.TYRO_FLAGS)
    assert cfg.env.scene.entities["robot"].articulation.actuators == of_ours(2)
    run_train("Mjlab-Velocity-Flat-Unitree-Go1", cfg, tmp_path / "run")
    assert (tmp_path / "run" / "model_1.pt").exists()
    assert "delay_steps: 2" in (tmp_path / "run" / "params" / "env.yaml").read_text()
