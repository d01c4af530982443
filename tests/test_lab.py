# SPDX-License-Identifier: Apache-2.0
"""Actuator groups beside the same maths in PyTorch, and on robots."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

import actuon
from actuon import MujocoSimulation, NewtonSimulation
from actuon.attach.groups.tensors import to_numpy
from actuon.lab import (
    ActuatorGroups,
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    ArticulationActions,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    LogUniform,
    Normal,
    RemotizedPDActuatorCfg,
    Uniform,
)
from actuon.sim import Articulation

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[1]
ASSETS = actuon.assets.FOLDER
JOINTS = ["left_hip", "left_knee", "right_hip", "right_knee"]
E, J = 5, len(JOINTS)
LOOKUP = [[-2.0, 4.0, 10.0], [-1.0, 6.0, 20.0], [0.5, 3.0, 5.0]]


def build(cfg, **asset):
    return cfg.class_type(cfg, JOINTS, slice(None), E, "cpu", **asset)


def signals(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(E, J, generator=generator) * scale for scale in (1.0, 6.0, 1.0, 2.0, 3.0)]


def act(model, q, qd, target, target_vel, feedforward):
    return model.compute(ArticulationActions(target.clone(), target_vel.clone(), feedforward.clone()), q, qd)


def dc_clip(effort, qd, saturation, velocity, limit):
    corner = velocity * (1 + limit / saturation)
    v = torch.clip(qd, -corner, corner)
    high = torch.clip(saturation * (1.0 - v / velocity), max=limit)
    low = torch.clip(saturation * (-1.0 - v / velocity), min=-limit)
    return torch.clip(effort, min=low, max=high)


COMMON = {"joint_names_expr": [".*"], "stiffness": {".*_hip": 40.0, ".*_knee": 60.0}, "damping": 1.5}
KP = torch.tensor([40.0, 60.0, 40.0, 60.0])


def test_ideal_pd():
    model = build(IdealPDActuatorCfg(**COMMON, effort_limit={"left.*": 20.0, "right.*": 30.0}))
    q, qd, target, target_vel, feedforward = signals()
    action = act(model, q, qd, target, target_vel, feedforward)
    wanted = KP * (target - q) + 1.5 * (target_vel - qd) + feedforward
    limit = torch.tensor([20.0, 20.0, 30.0, 30.0])
    torch.testing.assert_close(model.computed_effort, wanted)
    torch.testing.assert_close(action.joint_efforts, torch.clip(wanted, -limit, limit))
    torch.testing.assert_close(model.applied_effort, action.joint_efforts)
    assert action.joint_positions is None
    assert action.joint_velocities is None
    assert (model.applied_effort != model.computed_effort).any()


def test_dc_motor():
    model = build(DCMotorCfg(**COMMON, effort_limit=25.0, saturation_effort=35.0, velocity_limit=9.0))
    q, qd, target, target_vel, feedforward = signals()
    action = act(model, q, qd, target, target_vel, feedforward)
    wanted = KP * (target - q) + 1.5 * (target_vel - qd) + feedforward
    torch.testing.assert_close(action.joint_efforts, dc_clip(wanted, qd, 35.0, 9.0, 25.0))


def test_the_corner_speed_follows_the_parameters():
    model = build(DCMotorCfg(**COMMON, effort_limit=25.0, saturation_effort=35.0, velocity_limit=9.0))
    model.randomize("saturation_effort", Uniform(0.7, 1.4), seed=3)
    model.effort_limit[:, 1] = 12.0
    q, qd, target, target_vel, feedforward = signals()
    wanted = KP * (target - q) + 1.5 * (target_vel - qd) + feedforward
    action = act(model, q, qd, target, target_vel, feedforward)
    expected = dc_clip(wanted, qd, model.saturation_effort, model.velocity_limit, model.effort_limit)
    torch.testing.assert_close(action.joint_efforts, expected)


@pytest.mark.parametrize("saturation", [None, 35.0])
def test_delayed_pd(saturation):
    cfg = DelayedPDActuatorCfg(
        **COMMON, effort_limit=25.0, velocity_limit=9.0, min_delay=1, max_delay=4, saturation_effort=saturation, seed=2
    )
    model = build(cfg)
    lags = model.time_lags.clone()
    assert lags.shape == (E,)
    assert ((lags >= 1) & (lags <= 4)).all()
    past = [[] for _ in range(E)]
    for step in range(12):
        q, qd, *commands = signals(step)
        if step == 6:
            model.reset(torch.tensor([1, 3]))
            assert (model.time_lags[[0, 2, 4]] == lags[[0, 2, 4]]).all()
            lags = model.time_lags.clone()
            past[1].clear()
            past[3].clear()
        late = [torch.empty(E, J) for _ in commands]
        for env in range(E):
            past[env].append([command[env] for command in commands])
            entry = past[env][max(0, len(past[env]) - 1 - int(lags[env]))]
            for tensor, value in zip(late, entry, strict=True):
                tensor[env] = value
        wanted = KP * (late[0] - q) + 1.5 * (late[1] - qd) + late[2]
        expected = torch.clip(wanted, -25.0, 25.0) if saturation is None else dc_clip(wanted, qd, 35.0, 9.0, 25.0)
        action = act(model, q, qd, *commands)
        torch.testing.assert_close(action.joint_efforts, expected, msg=lambda m, s=step: f"step {s}: {m}")


def test_lags_are_drawn_again_at_reset_from_the_whole_range():
    model = build(DelayedPDActuatorCfg(**COMMON, min_delay=0, max_delay=3, seed=0))
    seen = set()
    for _ in range(40):
        model.reset()
        seen |= set(model.time_lags.tolist())
    assert seen == {0, 1, 2, 3}
    other = build(DelayedPDActuatorCfg(**COMMON, min_delay=0, max_delay=3, seed=0))
    again = build(DelayedPDActuatorCfg(**COMMON, min_delay=0, max_delay=3, seed=0))
    assert other.time_lags.tolist() == again.time_lags.tolist()


@pytest.mark.parametrize("motor_limit", [None, 3.0])
def test_remotized_pd_uses_torque_and_ratio(motor_limit):
    cfg = RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=LOOKUP, effort_limit=motor_limit)
    model = build(cfg, effort_limit=1.0)
    q, qd, target, target_vel, feedforward = signals()
    angles, ratios, torques = np.array(LOOKUP).T
    most = np.interp(q, angles, torques)
    if motor_limit is not None:
        most = np.minimum(most, np.interp(q, angles, ratios) * motor_limit)
    wanted = KP * (target - q) + 1.5 * (target_vel - qd) + feedforward
    limit = torch.from_numpy(most.astype(np.float32))
    action = act(model, q, qd, target, target_vel, feedforward)
    torch.testing.assert_close(action.joint_efforts, torch.clip(wanted, -limit, limit))
    np.testing.assert_allclose(model.transmission_ratio(q), np.interp(q, angles, ratios), rtol=1e-6)


def test_actuator_nets(tmp_path):
    mlp = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Softsign(), torch.nn.Linear(8, 1))
    actuon.save_network(mlp, tmp_path / "net.pt")
    motor = {"joint_names_expr": [".*"], "effort_limit": 9.0, "saturation_effort": 12.0, "velocity_limit": 8.0}
    cfg = ActuatorNetMLPCfg(
        **motor, network_file=str(tmp_path / "net.pt"), pos_scale=-1.5, vel_scale=0.4, torque_scale=30.0,
        input_order="vel_pos", input_idx=[0, 2, 4],
    )  # fmt: skip
    model = build(cfg)
    errors, speeds = [torch.zeros(E, J)] * 5, [torch.zeros(E, J)] * 5
    for step in range(8):
        q, qd, target, *_ = signals(step)
        errors, speeds = [target - q, *errors[:4]], [qd, *speeds[:4]]
        columns = [0.4 * speeds[i] for i in (0, 2, 4)] + [-1.5 * errors[i] for i in (0, 2, 4)]
        with torch.inference_mode():
            wanted = 30.0 * mlp(torch.stack(columns, dim=-1)).squeeze(-1)
        action = model.compute(ArticulationActions(target, None, None), q, qd)
        torch.testing.assert_close(model.computed_effort, wanted.clone(), rtol=1e-4, atol=1e-4)
        expected = dc_clip(wanted.clone(), qd, 12.0, 8.0, 9.0)
        torch.testing.assert_close(action.joint_efforts, expected, rtol=1e-4, atol=1e-4)
    assert (model.applied_effort != model.computed_effort).any()


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lstm = torch.nn.LSTM(2, 8, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        y, state = self.lstm(x, state)
        return 40.0 * self.head(y[:, -1]), state


def test_the_lstm_is_clipped_at_the_real_velocity(tmp_path):
    network = Lstm()
    actuon.save_network(network, tmp_path / "lstm.pt")
    cfg = ActuatorNetLSTMCfg(
        joint_names_expr=[".*"], effort_limit=9.0, saturation_effort=12.0, velocity_limit=8.0,
        network_file=str(tmp_path / "lstm.pt"),
    )  # fmt: skip
    model = build(cfg)
    state = tuple(torch.zeros(2, E * J, 8) for _ in range(2))
    clipped = False
    for step in range(6):
        q, qd, target, *_ = signals(step)
        if step == 3:
            model.reset([2])
            for part in state:
                part.view(2, E, J, 8)[:, 2] = 0.0
        with torch.inference_mode():
            x = torch.stack([(target - q).view(-1), qd.view(-1)], dim=-1)[:, None]
            effort, state = network(x, state)
        state = tuple(part.clone() for part in state)
        wanted = effort.view(E, J).clone()
        action = model.compute(ArticulationActions(target, None, None), q, qd)
        expected = dc_clip(wanted, qd, 12.0, 8.0, 9.0)
        torch.testing.assert_close(action.joint_efforts, expected, rtol=1e-4, atol=1e-4)
        clipped |= bool((expected != wanted).any())
    assert clipped


def test_implicit_passes_commands_through_and_tells_what_the_engine_does():
    model = build(ImplicitActuatorCfg(**COMMON, effort_limit_sim=20.0))
    assert model.is_implicit_model
    q, qd, target, target_vel, feedforward = signals()
    action = ArticulationActions(target, target_vel, feedforward, [1, 2])
    assert model.compute(action, q, qd) is action
    assert action.joint_positions is target
    assert action.joint_efforts is feedforward
    wanted = KP * (target - q) + 1.5 * (target_vel - qd) + feedforward
    torch.testing.assert_close(model.computed_effort, wanted)
    torch.testing.assert_close(model.applied_effort, torch.clip(wanted, -20.0, 20.0))


def test_limits_of_implicit_models_are_one():
    assert (build(ImplicitActuatorCfg(**COMMON, effort_limit_sim=20.0)).effort_limit == 20.0).all()
    assert (build(ImplicitActuatorCfg(**COMMON), effort_limit=7.0).effort_limit_sim == 7.0).all()
    assert (build(ImplicitActuatorCfg(**COMMON, effort_limit=9.0, effort_limit_sim=9.0)).effort_limit == 9.0).all()
    for name in ("effort_limit", "velocity_limit"):
        with pytest.raises(ValueError, match=f"{name} and {name}_sim differ"):
            build(ImplicitActuatorCfg(**COMMON, **{name: 1.0, f"{name}_sim": {"left.*": 1.0, "right.*": 2.0}}))
    with pytest.warns(UserWarning, match="effort_limit is used as effort_limit_sim"):
        model = build(ImplicitActuatorCfg(**COMMON, effort_limit=11.0), effort_limit=7.0)
    assert (model.effort_limit_sim == 11.0).all()
    with pytest.warns(UserWarning, match="velocity_limit is not used"):
        model = build(ImplicitActuatorCfg(**COMMON, velocity_limit=11.0), velocity_limit=7.0)
    assert (model.velocity_limit_sim == 7.0).all()
    assert (model.velocity_limit == 7.0).all()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, {}),
        ({"effort_limit_sim": 9.0}, {"effort_limit": 9.0, "effort_limit_sim": 9.0}),
        ({"effort_limit": 9.0}, {"effort_limit": 9.0, "effort_limit_sim": 9.0}),
        ({"effort_limit": 9.0, "effort_limit_sim": 9.0}, {"effort_limit": 9.0, "effort_limit_sim": 9.0}),
        ({"velocity_limit_sim": 9.0}, {"velocity_limit": 9.0, "velocity_limit_sim": 9.0}),
        ({"velocity_limit": 9.0}, {}),
        ({"velocity_limit": 9.0, "velocity_limit_sim": 9.0}, {"velocity_limit": 9.0, "velocity_limit_sim": 9.0}),
        ({"effort_limit_sim": {".*": 9.0}}, {"effort_limit": {".*": 9.0}, "effort_limit_sim": {".*": 9.0}}),
    ],
)
@pytest.mark.filterwarnings("ignore:ImplicitActuator")
def test_the_cfg_of_an_implicit_model_shows_its_limits(given, shown):
    cfg = ImplicitActuatorCfg(**COMMON, **given)
    before = cfg.copy()
    model = build(cfg, effort_limit=7.0, velocity_limit=3.0)
    assert cfg == before
    assert model.cfg == ImplicitActuatorCfg(**COMMON, **shown)
    assert build(cfg, effort_limit=7.0, velocity_limit=3.0).cfg == model.cfg  # which the first did not change


def test_a_config_that_changes_later_changes_no_model():
    cfg = DelayedPDActuatorCfg(**COMMON, max_delay=2)
    model = build(cfg)
    cfg.min_delay, cfg.max_delay = 98, 99
    model.reset()
    assert model.time_lags.max() <= 2
    assert (model.cfg.min_delay, model.cfg.max_delay) == (0, 2)


def test_limits_of_explicit_models():
    model = build(IdealPDActuatorCfg(**COMMON), effort_limit=7.0, velocity_limit=3.0)
    assert (model.effort_limit == 7.0).all()
    assert (model.effort_limit_sim == 1e9).all()
    assert (model.velocity_limit == 3.0).all()
    model = build(IdealPDActuatorCfg(**COMMON, velocity_limit_sim=5.0, effort_limit_sim=50.0), velocity_limit=3.0)
    assert (model.velocity_limit == 5.0).all()
    assert (model.velocity_limit_sim == 5.0).all()
    assert (model.effort_limit_sim == 50.0).all()
    assert torch.isinf(model.effort_limit).all()


def test_the_assets_values_may_be_tensors():
    asset = torch.arange(E * J, dtype=torch.float32).view(E, J)
    model = build(IdealPDActuatorCfg(joint_names_expr=[".*"], damping=1.0), stiffness=asset, friction=asset.numpy())
    torch.testing.assert_close(model.stiffness, asset)
    torch.testing.assert_close(model.friction, asset)
    for name in ("armature", "dynamic_friction", "viscous_friction", "damping", "velocity_limit_sim"):
        assert getattr(model, name).shape == (E, J)
    with pytest.raises(ValueError, match="armature"):
        build(IdealPDActuatorCfg(joint_names_expr=[".*"]), armature=torch.zeros(3))
    with pytest.raises(AttributeError, match="stifness"):
        _ = model.stifness


def test_gear_ratio_puts_limits_on_the_motors_side():
    model = build(
        DCMotorCfg(**COMMON, effort_limit=2.0, saturation_effort=3.0, velocity_limit=90.0, gear_ratio=9.0),
        effort_limit=7.0,
    )
    assert (model.effort_limit == 18.0).all()
    assert (model.saturation_effort == 27.0).all()
    assert (model.velocity_limit == 10.0).all()
    assert (build(IdealPDActuatorCfg(**COMMON, gear_ratio=9.0), effort_limit=7.0).effort_limit == 7.0).all()
    assert "motor side" in model._table_text()
    for ratio in (0.0, -1.0, True, "x", math.nan):
        with pytest.raises(ValueError, match="gear_ratio"):
            IdealPDActuatorCfg(**COMMON, gear_ratio=ratio)


@pytest.mark.parametrize(
    ("cfg", "match"),
    [
        (DCMotorCfg(**COMMON, velocity_limit=1.0), "saturation_effort is not given"),
        (DCMotorCfg(**COMMON, saturation_effort=1.0), "velocity_limit is not given"),
        (DelayedPDActuatorCfg(**COMMON, saturation_effort=1.0), "needs a velocity_limit"),
        (DelayedPDActuatorCfg(**COMMON, min_delay=3, max_delay=2), "min_delay 3 is above max_delay 2"),
        (DelayedPDActuatorCfg(**COMMON, max_delay=2.5), "whole number"),
        (RemotizedPDActuatorCfg(**COMMON), "joint_parameter_lookup"),
        (RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=[[1, 2]]), "joint_parameter_lookup"),
        (RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=[[1, 2, 3], [0, 2, 3]]), "must not fall"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*_hip": 1.0}), "joint 'left_knee' has no value"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": 1.0, "left.*": 2.0}), "matches '.*' and 'left"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": 1.0, "elbow": 2.0}), "'elbow' matches no joint"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={"(": 1.0}), "no regex"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=-1.0), "stiffness: got -1"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": math.nan}), "got nan"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=[1.0, 2.0]), "must be a number"),
        (ActuatorNetMLPCfg(**COMMON, saturation_effort=1.0, velocity_limit=1.0, network_file="none.pt"), "none.pt"),
    ],
)
def test_bad_configs(cfg, match):
    with pytest.raises(ValueError, match=match):
        build(cfg)


def test_bad_inputs():
    model = build(IdealPDActuatorCfg(**COMMON))
    q = torch.zeros(E, J)
    with pytest.raises(ValueError, match=r"joint_pos: got \(5, 3\); must have the shape \(5, 4\)"):
        model.compute(ArticulationActions(q), q[:, :3], q)
    with pytest.raises(ValueError, match="joint_positions"):
        model.compute(ArticulationActions(q[0]), q, q)
    for ids in ([5], [-1], [0.5]):
        with pytest.raises(ValueError, match="env_ids"):
            model.reset(ids)
    with pytest.raises(ValueError, match="no parameter 'stifness'.*Did you mean 'stiffness'"):
        model.randomize("stifness", Uniform(0.5, 1.5))
    with pytest.raises(ValueError, match="must be a Uniform"):
        model.randomize("stiffness", (0.5, 1.5))
    with pytest.raises(ValueError, match="relative_to"):
        model.randomize("stiffness", Uniform(0.5, 1.5), relative_to="last")


SIGNALS = ("joint_pos", "joint_vel", "joint_positions", "joint_velocities", "joint_efforts")


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("cfg", [IdealPDActuatorCfg(**COMMON), ImplicitActuatorCfg(**COMMON)])
def test_a_tensor_that_requires_grad_is_refused(cfg, name):
    model = build(cfg)
    tensors = {key: torch.zeros(E, J) for key in SIGNALS}

    def compute():
        action = ArticulationActions(tensors["joint_positions"], tensors["joint_velocities"], tensors["joint_efforts"])
        model.compute(action, tensors["joint_pos"], tensors["joint_vel"])

    compute()
    tensors[name].requires_grad_(True)  # the same tensor as before, which is remembered
    refused = f"{name}: got a PyTorch tensor that requires grad.*pass tensor.detach\\(\\)"
    with pytest.raises(actuon.ArrayError, match=refused):
        compute()
    tensors[name] = tensors[name] * 2.0  # what a policy gives
    with pytest.raises(actuon.ArrayError, match=refused):
        compute()
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            compute()
            assert not model.applied_effort.requires_grad
    tensors[name] = tensors[name].detach()
    compute()


def test_a_parameter_that_requires_grad_is_refused():
    gain = torch.ones(E, J, requires_grad=True)
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], damping=1.0)
    with pytest.raises(actuon.ArrayError, match="stiffness: got a PyTorch tensor that requires grad"):
        build(cfg, stiffness=gain)
    with torch.no_grad():
        torch.testing.assert_close(build(cfg, stiffness=gain).stiffness, gain)
    for given in (gain[0, 0], {".*": gain[0, 0]}):
        with pytest.raises(actuon.ArrayError, match="stiffness.*: got a PyTorch tensor that requires grad"):
            build(IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=given))
    remotized = build(RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=LOOKUP))
    with pytest.raises(actuon.ArrayError, match="joint_pos: got a PyTorch tensor that requires grad"):
        remotized.transmission_ratio(gain)


def test_configs_are_copied_and_changed():
    cfg = DCMotorCfg(**COMMON, saturation_effort={".*": 3.0})
    other = cfg.replace(damping=9.0)
    assert (other.damping, cfg.damping) == (9.0, 1.5)
    twin = cfg.copy()
    twin.stiffness[".*_hip"] = 0.0
    assert cfg.stiffness[".*_hip"] == 40.0
    assert cfg.to_dict()["saturation_effort"] == {".*": 3.0}
    with pytest.raises(ValueError, match="device: got 'tpu'; there are: cpu"):
        cfg.class_type(cfg, JOINTS, slice(None), 1, "tpu", velocity_limit=1.0)


def test_numpy_and_strided_tensors_are_taken():
    model = build(IdealPDActuatorCfg(**COMMON))
    q, qd, target, target_vel, feedforward = signals()
    expected = act(model, q, qd, target, target_vel, feedforward).joint_efforts
    arrays = [tensor.numpy() for tensor in (q, qd, target, target_vel, feedforward)]
    efforts = model.compute(ArticulationActions(*arrays[2:]), *arrays[:2]).joint_efforts
    assert isinstance(efforts, np.ndarray)
    np.testing.assert_array_equal(efforts, expected.numpy())
    wide = torch.randn(E, 2 * J)
    wide[:, ::2] = q
    strided = act(model, wide[:, ::2], qd, target.double(), target_vel, feedforward).joint_efforts
    torch.testing.assert_close(strided, expected)
    assert expected.data_ptr() != strided.data_ptr()  # an old result is not overwritten


def test_without_pytorch_it_is_numpy():
    code = """
import sys, numpy as np
from actuon.lab import ArticulationActions, DCMotorCfg, Uniform
motor = dict(effort_limit=5.0, saturation_effort=9.0, velocity_limit=8.0)
cfg = DCMotorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=1.0, **motor)
model = cfg.class_type(cfg, ["a", "b"], [0, 1], 3, "cpu")
assert isinstance(model.stiffness, np.ndarray) and model.stiffness.shape == (3, 2)
model.stiffness[1] = 0.0
zeros = np.zeros((3, 2), np.float32)
action = model.compute(ArticulationActions(zeros + 0.3), zeros, zeros)
print(action.joint_efforts.tolist())
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[[3.0, 3.0], [0.0, 0.0], [3.0, 3.0]]"


def test_parameters_are_live():
    model = build(IdealPDActuatorCfg(**COMMON))
    q, qd, target, target_vel, feedforward = signals()
    with pytest.raises(ValueError, match="write into it"):
        model.stiffness = torch.zeros(E, J)
    model.stiffness[2, 1] = 0.0
    model.damping.mul_(2.0)
    wanted = model.stiffness * (target - q) + 3.0 * (target_vel - qd) + feedforward
    torch.testing.assert_close(act(model, q, qd, target, target_vel, feedforward).joint_efforts, wanted)


@pytest.mark.parametrize(
    "name", ["stiffness", "damping", "effort_limit", "velocity_limit", "saturation_effort", "armature"]
)
def test_randomising_by_nothing_changes_nothing(name):
    model = build(DCMotorCfg(**COMMON, effort_limit=25.1, saturation_effort=35.3, velocity_limit=9.7), armature=0.0123)
    before = getattr(model, name).clone()
    for nothing in (
        Uniform(1.0, 1.0), LogUniform(1.0, 1.0), Normal(1.0, 0.0), Uniform(0.0, 0.0, "add"), Normal(0.0, 0.0, "add")
    ):  # fmt: skip
        model.randomize(name, nothing)
        assert torch.equal(getattr(model, name), before)
    model.randomize(name, Uniform(0.5, 1.5))
    assert not torch.equal(getattr(model, name), before)
    model.randomize(name, Uniform(1.0, 1.0))  # relative to the baseline, which stayed
    assert torch.equal(getattr(model, name), before)


def test_randomising_per_environment_and_seeded():
    def drawn(**options):
        model = build(IdealPDActuatorCfg(**COMMON, seed=7))
        model.randomize("stiffness", Uniform(0.5, 2.0, **options), env_ids=[1, 4])
        return model.stiffness.clone()

    first = drawn()
    assert torch.equal(first, drawn())
    assert (first[[0, 2, 3]] == KP).all()
    ratio = first[[1, 4]] / KP
    assert ((ratio >= 0.5) & (ratio <= 2.0)).all()
    assert len(ratio.unique()) == 8
    per_env = drawn(per_joint=False)[[1, 4]] / KP
    torch.testing.assert_close(per_env, per_env[:, :1].expand(-1, J))
    model = build(IdealPDActuatorCfg(**COMMON))
    model.randomize("stiffness", Uniform(2.0, 2.0), relative_to="current")
    model.randomize("stiffness", Uniform(2.0, 2.0), relative_to="current")
    torch.testing.assert_close(model.stiffness, (4.0 * KP).expand(E, J))
    model.randomize("damping", Uniform(3.0, 3.0, "set"))
    assert (model.damping == 3.0).all()
    before = model.damping.clone()
    with pytest.raises(ValueError, match="damping"):
        model.randomize("damping", Uniform(-9.0, -5.0, "add"))
    assert torch.equal(model.damping, before)
    for bad in (
        lambda: Uniform(2.0, 1.0), lambda: LogUniform(0.0, 1.0), lambda: Normal(0.0, -1.0),
        lambda: Uniform(0.0, math.inf), lambda: Uniform(0.0, 1.0, "multiply"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be"):
            bad()


def test_the_table_says_where_each_value_comes_from(capsys):
    model = build(
        DCMotorCfg(**COMMON, saturation_effort=35.0, velocity_limit_sim=9.0), effort_limit=25.0, armature=0.01
    )
    model.resolution_table()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["left_hip", "stiffness", "0", "40", "40", "N·m/rad", "config"] in rows
    assert ["right_knee", "armature", "0.01", "–", "0.01", "kg·m²", "asset"] in rows
    assert ["left_knee", "velocity_limit", "inf", "9", "9", "rad/s", "velocity_limit_sim"] in rows
    assert ["left_knee", "effort_limit", "25", "–", "25", "N·m", "asset"] in rows
    table = model.joint_property_resolution_table
    assert table["stiffness"][1] == ["left_knee", 1, 0.0, 60.0, 60.0]
    assert table["saturation_effort"][0] == ["left_hip", 0, None, 35.0, 35.0]


LEGS = DCMotorCfg(
    joint_names_expr=[".*_thigh_joint", ".*_hip_joint"], stiffness=60.0, damping=1.5, armature=0.02,
    effort_limit=23.7, saturation_effort=23.7, velocity_limit=30.1,
)  # fmt: skip
CALVES = ImplicitActuatorCfg(
    joint_names_expr=[".*_calf_joint"], stiffness=100.0, damping=2.0, effort_limit_sim=30.0, friction=0.3
)


@pytest.mark.parametrize("engine", ["mujoco", "newton"])
def test_groups_on_a_robot(engine):
    make = {
        "mujoco": lambda: MujocoSimulation(ASSETS / "quadruped.xml", 2),
        "newton": lambda: NewtonSimulation(ASSETS / "quadruped.usda"),
    }
    with make[engine]() as simulation:
        robots = Articulation([robot.path for robot in simulation.robots])
        held = {
            name: simulation.dof_property(name, robots.robot_ids) for name in ("armature", "friction", "effort_limit")
        }
        gains = [values.numpy() for values in robots.get_dof_gains()]
        groups = ActuatorGroups(robots, {"legs": LEGS, "calves": CALVES})
        assert groups["legs"].joint_names[:3] == ["FL_hip_joint", "FL_thigh_joint", "FR_hip_joint"]
        calves = robots.get_dof_indices(groups["calves"].joint_names)
        legs = robots.get_dof_indices(groups["legs"].joint_names)
        assert groups.unassigned == []
        stiffness, damping = (values.numpy() for values in robots.get_dof_gains())
        assert not stiffness[:, legs].any()
        np.testing.assert_allclose(stiffness[:, calves], 100.0, rtol=1e-5)
        np.testing.assert_allclose(damping[:, calves], 2.0, rtol=1e-5)
        ids = robots.robot_ids
        np.testing.assert_allclose(simulation.dof_property("armature", ids)[:, legs], 0.02, rtol=1e-5)
        np.testing.assert_allclose(simulation.dof_property("friction", ids)[:, calves], 0.3, rtol=1e-5)
        np.testing.assert_allclose(simulation.dof_property("effort_limit", ids)[:, calves], 30.0, rtol=1e-5)
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
            np.testing.assert_allclose(simulation.dof_property(name, ids), values, rtol=1e-6, err_msg=name)
        for before, after in zip(gains, robots.get_dof_gains(), strict=True):
            np.testing.assert_allclose(after.numpy(), before, rtol=1e-6)


def test_explicit_groups_equal_articulation_actuators():
    """The same motor, said in two ways: bit for bit the same motion."""
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


def test_recordings_of_groups_equal_those_of_articulation_actuators(tmp_path):
    """The same motor, said in two ways: the same telemetry and the same files."""
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
        with actuon.Recorder(groups) as recorder:
            simulation.step(3)
        applied = [data.qfrc_actuator + data.qfrc_applied for data in simulation.data]
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
        armature = simulation.dof_property("armature", robots.robot_ids)
        np.testing.assert_allclose(armature, groups["arm"].armature, rtol=1e-6)
        assert (armature[0] == armature[2]).all()
        assert (armature[0] != armature[1]).all()
        np.testing.assert_allclose(robots.get_dof_gains()[0].numpy(), groups["arm"].stiffness, rtol=1e-6)


def test_groups_that_cannot_be():
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


def test_the_example_runs(capsys):
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
        asset = simulation.dof_property("effort_limit", robots.robot_ids)
        assert asset.tolist() == [[6.0, math.inf]]
        cfg = ImplicitActuatorCfg(
            joint_names_expr=[".*"], stiffness=50.0, damping=5.0, effort_limit_sim={"a": math.inf, "b": 9.0}
        )
        groups = ActuatorGroups(robots, {"all": cfg})
        assert simulation.dof_property("effort_limit", robots.robot_ids).tolist() == [[math.inf, 9.0]]
        for name in ("effort_limit", "effort_limit_sim"):
            groups["all"].randomize(name, Uniform(2.0, 2.0), relative_to="current")
        assert groups["all"].effort_limit.tolist() == groups["all"].effort_limit_sim.tolist() == [[math.inf, 36.0]]
        assert simulation.dof_property("effort_limit", robots.robot_ids).tolist() == [[math.inf, 36.0]]
        groups.close()
        assert simulation.dof_property("effort_limit", robots.robot_ids).tolist() == asset.tolist()
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
        assert not any(simulation._claims)


def test_randomising_is_all_or_nothing(monkeypatch):
    with MujocoSimulation(ASSETS / "arm.xml") as simulation:
        cfg = ImplicitActuatorCfg(joint_names_expr=["joint.*"], stiffness=300.0, damping=20.0, seed=3)
        model = ActuatorGroups(Articulation("/link0"), {"arm": cfg})
        twin = cfg.class_type(cfg, model["arm"].joint_names, list(range(7)), 1, "cpu")
        before = model["arm"].armature.clone()
        monkeypatch.setattr(simulation, "set_dof_property", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model["arm"].randomize("armature", Uniform(0.5, 1.5))
        assert torch.equal(model["arm"].armature, before)
        model["arm"].randomize("stiffness", Uniform(0.5, 1.5))
        twin.randomize("stiffness", Uniform(0.5, 1.5))
        assert torch.equal(model["arm"].stiffness, twin.stiffness)


def test_tensors_that_change_under_ones_hands():
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=1.0, damping=0.0)
    model = cfg.class_type(cfg, JOINTS, slice(None), J, "cpu")
    model.applied_effort.fill_(5.0)
    model.computed_effort.fill_(7.0)
    zeros, square = torch.zeros(J, J), torch.arange(float(J * J)).view(J, J)
    for _ in range(2):
        assert not model.compute(ArticulationActions(None), zeros, zeros).joint_efforts.any()
        torch.testing.assert_close(model.compute(ArticulationActions(square), zeros, zeros).joint_efforts, square)
        square.t_()
    square.resize_(2, J)
    with pytest.raises(ValueError, match="joint_positions"):
        model.compute(ArticulationActions(square), zeros, zeros)
    delayed = build(DelayedPDActuatorCfg(**COMMON, min_delay=1, max_delay=3))
    delayed.time_lags[:] = 9
    assert delayed.time_lags.max() <= 3
    torch.set_default_dtype(torch.float64)
    try:
        assert model.compute(ArticulationActions(None), zeros, zeros).joint_efforts.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_joint_ids_in_every_form():
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"])
    for ids, expected in (
        (slice(None), [0, 1, 2, 3]), (slice(2, 6), [2, 3, 4, 5]), (slice(4, 0, -1), [4, 3, 2, 1]),
        ([7, 1, 2, 3], [7, 1, 2, 3]), (torch.tensor([1, 2, 3, 4]), [1, 2, 3, 4]),
    ):  # fmt: skip
        table = cfg.class_type(cfg, JOINTS, ids, 1, "cpu").joint_property_resolution_table
        assert [row[1] for row in table["stiffness"]] == expected
    with pytest.raises(ValueError, match="joint_ids"):
        cfg.class_type(cfg, JOINTS, [1, 2], 1, "cpu")


def test_remotised_joints_honour_the_gear_and_refuse_what_they_do_not_use():
    cfg = RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=[[0.0, 2.0, 99.0]], effort_limit=5.0, gear_ratio=3.0)
    zeros = torch.zeros(E, J)
    assert (build(cfg).compute(ArticulationActions(zeros + 9.0), zeros, zeros).joint_efforts == 30.0).all()
    with pytest.raises(ValueError, match="limited by its table"):
        build(cfg.replace(saturation_effort=8.0, velocity_limit=3.0))
