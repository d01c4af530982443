# SPDX-License-Identifier: Apache-2.0
"""Implicit efforts in mjlab: derivatives that MuJoCo Warp takes into its solve. `make test-mjlab` runs this."""

from __future__ import annotations

import pytest

pytest.importorskip("mjlab", reason="mjlab pins another MuJoCo; run make test-mjlab")

import mujoco
import mujoco_warp
import numpy as np
import torch
from mjlab.actuator import BuiltinPdActuatorCfg
from mjlab.actuator.actuator import TransmissionType
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnv
from mjlab.scene import Scene, SceneCfg
from mjlab.sim import MujocoCfg, Simulation, SimulationCfg

import actuon
from tests.attach.mjlab.test_mjlab import KNEES, LEGS, TENDON, entity, go1_cfg, made, ours, scaling, trot
from tests.support.servo_arm import bare_arm, servo_motion, wave
from tests.support.staged import staged

DT = 0.005
STIFF = actuon.ActuatorConfig(actuon.PDControlConfig(1000.0, 40.0))
PD = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.5), effort_mode="implicit")
EVERY = (".*",)


class Run:
    """An entity that is stepped by itself."""

    def __init__(self, spec_fn, *actuators, num_envs=2, dt=DT, integrator="implicitfast", **options):
        articulation = EntityArticulationInfoCfg(actuators=actuators)
        cfg = EntityCfg(spec_fn=spec_fn, articulation=articulation, **options)
        self.scene = Scene(SceneCfg(num_envs=num_envs, entities={"robot": cfg}), "cpu")
        sim = SimulationCfg(mujoco=MujocoCfg(timestep=dt, integrator=integrator))
        self.simulation = Simulation(num_envs, sim, self.scene.compile(), "cpu")
        self.scene.initialize(self.simulation.mj_model, self.simulation.model, self.simulation.data)
        self.robot, self.dt = self.scene["robot"], dt

    def step(self, target):
        """Step towards target positions, from controls that are returned."""
        data = self.robot.data
        self.robot.set_joint_position_target(torch.as_tensor(target).expand(data.joint_pos.shape).contiguous())
        self.simulation.data.ctrl[:] = torch.nan
        self.scene.write_data_to_sim()
        given = self.simulation.data.ctrl[:].clone()
        self.simulation.step()
        self.scene.update(self.dt)
        return given


def arm(mode, config=STIFF, **options):
    return Run(bare_arm, ours(config, EVERY, effort_mode=mode), **options)


def moved(run, steps):
    """Positions and velocities after each step, each of shape (steps, environments, joints)."""
    found = []
    for step in range(steps):
        run.step(wave(step, run.dt))
        found.append((run.robot.data.joint_pos.clone(), run.robot.data.joint_vel.clone()))
    return tuple(torch.stack(each) for each in zip(*found, strict=True))


@pytest.mark.parametrize("is_tendon", [False, True])
def test_mujoco_warp_takes_derivatives_in_as_mujoco_does(is_tendon):
    """One step from random states. Efforts without derivatives lead elsewhere."""
    spec, rng = bare_arm(), np.random.default_rng(0)
    spec.option.timestep = DT
    targets, kind = [joint.name for joint in spec.joints], mujoco.mjtTrn.mjTRN_JOINT
    if is_tendon:
        tendon = spec.add_tendon(name="three")
        for joint, coefficient in zip(spec.joints, (1.0, -2.0, 0.5), strict=False):
            tendon.wrap_joint(joint.name, coefficient)
        targets, kind = ["three"], mujoco.mjtTrn.mjTRN_TENDON
    for target in targets:
        derivative = spec.add_actuator(name=target, target=target, trntype=kind, gaintype=mujoco.mjtGain.mjGAIN_AFFINE)
        derivative.gainprm[:3] = 0.0, 0.0, 1.0
    model = spec.compile()
    on_warp = mujoco_warp.put_model(model)
    off = []
    for _ in range(10):
        data, explicit = mujoco.MjData(model), mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = 0.5 * rng.normal(size=model.nq), rng.normal(size=model.nv)
        data.ctrl[:] = -40.0 * np.abs(rng.normal(size=model.nu))
        found = mujoco_warp.put_data(model, data)
        mujoco.mj_forward(model, data)
        explicit.qpos[:], explicit.qvel[:], explicit.qfrc_applied[:] = data.qpos, data.qvel, data.qfrc_actuator
        mujoco_warp.step(on_warp, found)
        mujoco.mj_step(model, data)
        mujoco.mj_step(model, explicit)
        np.testing.assert_allclose(found.qvel.numpy()[0], data.qvel, rtol=1e-5, atol=2e-5)
        off.append(np.abs(explicit.qvel - data.qvel).max())
    assert np.median(off) > 0.1


@pytest.mark.parametrize(("kp", "kd"), [(1000.0, 40.0), (4000.0, 200.0)])
def test_a_stiff_pd_holds_where_an_explicit_one_diverges(kp, kd):
    """And moves as MuJoCo's own servo does, as in `MujocoSimulation`: see ``test_effort_mode.py``."""
    config = actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd))
    expected = servo_motion(kp, kd, DT, 200)
    for found, own in zip(moved(arm("implicit", config), 200), expected, strict=True):
        for env in range(2):
            np.testing.assert_allclose(found[:, env], own, rtol=2e-6, atol=5e-6)
    positions, velocities = moved(arm("explicit", config), 200)
    assert not positions.isfinite().all() or velocities.abs().max() > 1e4


def test_controls_are_constants_and_derivatives():
    """The controls add up to the explicit effort at the velocity before the step. Runners step in inference mode."""
    run = arm("implicit")
    moved(run, 5)
    q, qd = run.robot.data.joint_pos.clone(), run.robot.data.joint_vel.clone()
    assert qd.abs().min() > 1e-3
    (actuator,) = run.robot.actuators
    with torch.inference_mode():
        effort, derivative = run.step(0.1)[:, actuator.global_ctrl_ids].split(7, dim=1)
    assert torch.equal(derivative, torch.full((2, 7), -40.0))
    torch.testing.assert_close(effort, 1000.0 * (0.1 - q), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(effort + derivative * qd, 1000.0 * (0.1 - q) - 40.0 * qd, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(actuator.motors.signals["effort_derivative_qd"], derivative)
    names = [f"joint{i}" for i in range(1, 8)]
    assert run.robot.actuator_names == (*names, *(f"{name}_derivative_qd" for name in names))


def test_derivatives_are_those_of_the_whole_chain():
    """Behind a limit that is reached there is none."""
    cfgs = []
    for name, most in (("joint1", 1e6), ("joint2", 1e-3)):
        config = actuon.ActuatorConfig(STIFF.controller, actuon.MaxEffortClampingConfig(most))
        cfgs.append(ours(config, (name,), effort_mode="implicit"))
    run = Run(bare_arm, *cfgs)
    given = run.step(0.1)
    for actuator, expected in zip(run.robot.actuators, ((100.0, -40.0), (1e-3, 0.0)), strict=True):
        torch.testing.assert_close(given[:, actuator.global_ctrl_ids], torch.tensor([expected] * 2))


def test_modes_of_a_yaml_file(tmp_path):
    """Joints of both modes are in one config, which may say otherwise for all."""
    text = "{joints: [%s], controller: {type: pd, kp: 30, kd: 2}, effort_mode: %s}"
    entries = {"a": text % ("joint1, joint3", "implicit"), "b": text % ("joint2", "explicit")}
    (tmp_path / "arm.yaml").write_text("actuators:\n" + "".join(f"  {k}: {v}\n" for k, v in entries.items()))
    joints = ("joint1", "joint2", "joint3")
    for mode, derivatives in ((None, ("joint1", "joint3")), ("implicit", joints), ("explicit", ())):
        run = Run(bare_arm, ours(tmp_path / "arm.yaml", joints, effort_mode=mode))
        assert run.robot.actuator_names == (*joints, *(f"{name}_derivative_qd" for name in derivatives))
        run.step(0.1)
        qd = run.robot.data.joint_vel[:, :3]
        q = run.robot.data.joint_pos[:, :3].clone()
        expected = 30.0 * (0.2 - q) - 2.0 * qd
        given = run.step(0.2)
        named = dict(zip(run.robot.actuator_names, given.T, strict=True))
        for column, name in enumerate(joints):
            added = named.get(f"{name}_derivative_qd", torch.zeros(2)) * qd[:, column]
            torch.testing.assert_close(named[name] + added, expected[:, column], rtol=1e-5, atol=1e-4)


def test_go1_moves_as_with_mjlabs_own_implicit_pd():
    """For half a second on its feet. Observations and actions are as many as with explicit efforts."""
    theirs = [
        BuiltinPdActuatorCfg(target_names_expr=targets, stiffness=kp, damping=kd, armature=0.005)
        for targets, kp, kd in ((LEGS, 60.0, 6.0), (KNEES, 80.0, 8.0))
    ]
    own = [
        ours(actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd)), targets, effort_mode="implicit", armature=0.005)
        for targets, kp, kd in ((LEGS, 60.0, 6.0), (KNEES, 80.0, 8.0))
    ]
    env = made(own)
    expected, found = (trot(each, 25) for each in (made(theirs), env))
    assert found[:, :, :12].std(dim=0).mean() > 0.05
    assert (found - expected)[:, :, :12].abs().max() < 1e-3
    plain = made([ours(actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.5)))])
    assert env.action_manager.total_action_dim == plain.action_manager.total_action_dim == 12
    assert env.observation_manager.group_obs_dim == plain.observation_manager.group_obs_dim


def test_actuators_in_the_order_of_joints():
    """The entity then adds motors and derivatives joint by joint, of both configs in turn."""
    cfgs = [ours(PD, LEGS), ours(PD, KNEES)]
    cfg = go1_cfg(cfgs)
    cfg.scene.entities["robot"].sort_actuators = True
    env = ManagerBasedRlEnv(cfg, device="cpu")
    env.reset(seed=1)
    env.scene["robot"].reset()
    names = env.scene["robot"].actuator_names
    assert names[:4] == ("FR_hip_joint", "FR_hip_joint_derivative_qd", "FR_thigh_joint", "FR_thigh_joint_derivative_qd")
    assert torch.equal(trot(env, 5), trot(made(cfgs), 5))


def test_randomised_gains_are_in_the_derivatives():
    env = made([ours(PD)], num_envs=4, gains=scaling("controller.kd", 0.5, 1.5), more=scaling("pd.kp", 0.5, 1.5))
    trot(env, 2)
    (actuator,) = env.scene["robot"].actuators
    kd = actuator.motors.parameter("controller.kd")
    assert kd.unique().numel() == 48
    derivatives = env.sim.data.ctrl[:, actuator.global_ctrl_ids][:, 12:]
    assert torch.equal(derivatives, -kd)


def test_a_tendon():
    cfg = ours(PD, ("both",), transmission_type=TransmissionType.TENDON)
    run = Run(lambda: mujoco.MjSpec.from_string(TENDON), cfg)
    run.robot.set_tendon_len_target(torch.tensor([[0.1], [1.0]]))
    run.scene.write_data_to_sim()
    torch.testing.assert_close(run.simulation.data.ctrl[:], torch.tensor([[2.0, -0.5], [20.0, -0.5]]))
    run.simulation.step()
    mass = np.zeros((2, 2))
    data = mujoco.MjData(run.simulation.mj_model)
    mujoco.mj_forward(run.simulation.mj_model, data)
    mujoco.mj_fullM(run.simulation.mj_model, data, mass)
    ratio = np.array([1.0, 2.0])
    implicit = np.linalg.solve(mass + 0.5 * DT * np.outer(ratio, ratio), DT * ratio * 2.0)
    np.testing.assert_allclose(run.simulation.data.qvel[0], implicit, rtol=1e-3)


DEFAULTS = """
<mujoco><default><general gear="5" gainprm="7 8 9" ctrlrange="-1 1" armature="0.3" damping="2"/></default><worldbody>
  <body><freejoint/><geom size="0.1"/><body><joint name="a" axis="0 1 0"/><geom size="0.1"/></body></body>
</worldbody></mujoco>
"""


def test_defaults_of_an_asset_do_not_reach_motors_and_derivatives():
    """Inertia and damping of its actuators are there once."""
    model = Run(lambda: mujoco.MjSpec.from_string(DEFAULTS), ours(PD, ("a",))).simulation.mj_model
    assert (model.actuator_gear == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).all()
    assert model.actuator_gainprm[:, :4].tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    assert not model.actuator_ctrllimited.any()
    assert model.actuator_armature.tolist() == [0.3, 0.0]
    assert model.actuator_damping.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("cfg", "error", "match"),
    [
        (ours(PD, effort_mode="sometimes"), actuon.ParameterError, "effort_mode: got 'sometimes'"),
        (ours(PD, effort_mode="auto"), actuon.StructureError, "joint 'FR_hip_joint': effort_mode: got 'auto'"),
        (ours(actuon.ActuatorConfig(PD.controller, effort_mode="auto")), actuon.StructureError, "got 'auto'"),
        (
            ours(staged(PD)),
            actuon.StructureError,
            "'FR_hip_joint': .* needs derivatives .* ClampingNothing brings its own kernels",
        ),
    ],
)
def test_modes_that_cannot_be(cfg, error, match):
    with pytest.raises(error, match=match):
        entity(cfg)


def test_an_integrator_without_derivatives_is_refused():
    with pytest.raises(actuon.StructureError, match="joint 'joint1': .* needs the integrator implicitfast, got euler"):
        arm("implicit", integrator="euler")
    moved(arm("explicit", integrator="euler"), 1)


ROBOTS = {
    "arm": (1000.0, 40.0, 3.0 * np.array([87.0] * 4 + [12.0] * 3), np.full(7, 30.0)),
    "quadruped": (60.0, 3.0, np.array([23.7, 23.7, 35.55] * 4), np.array([30.1, 30.1, 20.07] * 4)),
}
"""Gains, stall efforts and no-load speeds of the motors, as in ``test_implicit_accuracy.py``."""

EXCESS = {
    ("arm", "limit"): 0.0,
    ("arm", "envelope"): 0.045,
    ("quadruped", "limit"): 0.28,
    ("quadruped", "envelope"): 0.31,
}
"""By how much efforts pass a constant limit, or leave the envelope of a DC motor, where steps of 5 ms end, as measured:
shares of the stall effort. No step is taken again in mjlab."""


def largest_excess(name, kind):
    """Joints jump to and fro, with motors of which half is left."""
    kp, kd, stall, speed = ROBOTS[name]
    stall = 0.5 * stall

    def spec():
        made = mujoco.MjSpec.from_file(str(getattr(actuon.assets, f"{name}_mjcf")))
        for actuator in list(made.actuators):
            made.delete(actuator)
        for key in made.keys:
            key.ctrl = []
        return made

    joints = [joint.name for joint in spec().joints if joint.type == mujoco.mjtJoint.mjJNT_HINGE]
    cfgs = []
    for i, joint in enumerate(joints):
        motor = actuon.DCMotorClampingConfig(stall[i], speed[i], stall[i])
        limit = actuon.MaxEffortClampingConfig(stall[i]) if kind == "limit" else motor
        config = actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd), limit)
        cfgs.append(ours(config, (joint,), effort_mode="implicit"))
    state = EntityCfg.InitialStateCfg(joint_pos=None)
    run = Run(spec, *cfgs, num_envs=1, init_state=state)
    run.simulation.data.qpos[:] = torch.as_tensor(run.simulation.mj_model.key_qpos[0], dtype=torch.float32)
    start, excess = run.robot.data.joint_pos.clone(), []
    ids = torch.stack([actuator.global_ctrl_ids for actuator in run.robot.actuators], dim=1)
    for step in range(round(1.2 / DT)):
        constant, derivative = run.step(start + (0.5 if step * DT % 0.6 < 0.3 else -0.5))[0, ids].double().numpy()
        v = run.robot.data.joint_vel[0].double().numpy()
        effort, slow = constant + derivative * v, v / speed if kind == "envelope" else 0.0
        highest, lowest = np.minimum(stall * (1.0 - slow), stall), np.maximum(stall * (-1.0 - slow), -stall)
        excess.append(np.maximum(effort - highest, lowest - effort) / stall)
    return np.max(excess)


@pytest.mark.parametrize(("name", "kind"), EXCESS)
def test_efforts_pass_limits_by_as_much_as_measured(name, kind):
    expected = EXCESS[name, kind]
    assert 0.5 * expected - 1e-5 < largest_excess(name, kind) < 1.5 * expected + 1e-5
