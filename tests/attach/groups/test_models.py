# SPDX-License-Identifier: Apache-2.0
"""Models of actuator groups beside the same maths in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.lab import (
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    ArticulationActions,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    RemotizedPDActuatorCfg,
    Uniform,
)
from tests.support.group_models import COMMON, KP, LOOKUP, E, J, act, build, dc_clip, signals

torch = pytest.importorskip("torch")


def test_ideal_pd_clips_at_its_effort_limit():
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


def test_dc_motor_clips_by_speed():
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
def test_delayed_pd_takes_the_late_command_of_each_environment(saturation):
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


def test_remotised_joints_honour_the_gear_and_refuse_what_they_do_not_use():
    cfg = RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=[[0.0, 2.0, 99.0]], effort_limit=5.0, gear_ratio=3.0)
    zeros = torch.zeros(E, J)
    assert (build(cfg).compute(ArticulationActions(zeros + 9.0), zeros, zeros).joint_efforts == 30.0).all()
    with pytest.raises(ValueError, match="limited by its table"):
        build(cfg.replace(saturation_effort=8.0, velocity_limit=3.0))


def test_a_network_gets_its_history_in_the_order_and_scales_of_its_config(tmp_path):
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


def test_the_config_of_a_group_shares_its_tensors():
    model = build(
        DCMotorCfg(**COMMON, saturation_effort=40.0, velocity_limit=10.0, effort_limit=30.0, effort_mode="auto")
    )
    config = model.config()
    assert [type(stage).__name__ for stage in config.stages] == ["ControllerPD", "ClampingDCMotor"]
    assert config.effort_mode == "auto"
    n, ones = E * J, np.ones(E * J, np.float32)
    actuator = actuon.Actuator(range(n), stages=config.stages)
    sim = dict.fromkeys(("joint_q", "joint_qd", "joint_target_qd"), 0.0 * ones) | {"joint_target_q": 0.01 * ones}
    for gain in (40.0, 20.0):
        model.stiffness[:] = gain
        sim["joint_f"] = 0.0 * ones
        actuator.step(sim, sim)
        np.testing.assert_allclose(sim["joint_f"], 0.01 * gain, rtol=1e-6)
