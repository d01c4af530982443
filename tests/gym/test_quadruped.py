# SPDX-License-Identifier: Apache-2.0
"""The quadruped as a Gymnasium vector environment."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import actuon
from actuon.gym import REWARDS, QuadrupedEnv
from tests.support.paths import ROOT

MODES = [mode.value for mode in AutoresetMode]


@pytest.fixture
def make():
    """Make environments that are closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(QuadrupedEnv(*arguments, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


def actions_of(steps, num_envs, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, num_envs, 12)).astype(np.float32)


def rollout(env, actions):
    """Observations, rewards, terminations and truncations of each step."""
    return [env.step(action)[:4] for action in actions]


def assert_same(ones, others, envs=slice(None), of=slice(None)):
    """To the last bit, in these environments of the first and those of the second."""
    for one, other in zip(ones, others, strict=True):
        for values, expected in zip(one, other, strict=True):
            np.testing.assert_array_equal(values[envs], expected[of])


def tip_over(env, ids):
    """Lay robots on their side."""
    poses = env.robots.get_root_poses().numpy()[ids]
    poses[:, 3:] = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]
    env.robots.set_root_poses(poses, ids)


def test_it_keeps_to_the_rules_of_gymnasium(make):
    env = gymnasium.make_vec("actuon.gym:actuon/Quadruped-v0", num_envs=3, motors="ideal")
    assert isinstance(env.unwrapped, QuadrupedEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert (env.num_envs, env.single_observation_space.shape, env.single_action_space.shape) == (3, (50,), (12,))
    observations, infos = env.reset(seed=1)
    assert observations in env.observation_space
    assert infos == {}
    assert env.np_random_seed == (1, 2, 3)
    observations, rewards, terminations, truncations, infos = env.step(env.action_space.sample())
    assert observations in env.observation_space
    assert [(a.shape, a.dtype) for a in (rewards, terminations, truncations)] == [
        ((3,), np.float32),
        ((3,), np.bool_),
        ((3,), np.bool_),
    ]
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    recorded.reset()
    recorded.step(env.action_space.sample())
    recorded.close()
    assert env.unwrapped.simulation.is_closed


def test_steps_are_reproducible_by_seed(make):
    actions = actions_of(15, 9)
    runs = []
    for seed in (4, 4, 5):
        env = make(9)
        first, _ = env.reset(seed=seed)
        runs.append([(first,), *rollout(env, actions)])
    assert_same(runs[0], runs[1])
    assert (runs[0][0][0] != runs[2][0][0]).any(axis=1).all()


def test_an_environment_is_the_same_alone_and_among_others(make):
    actions = actions_of(15, 12)
    many, alone = make(12), make(1)
    many.reset(seed=20)
    alone.reset(seed=27)
    ones, others = rollout(many, actions), rollout(alone, actions[:, 7:8])
    assert_same([one[::2] for one in ones], [other[::2] for other in others], slice(7, 8))
    rewards = [rewards[7] for _, rewards, _, _ in ones], [rewards[0] for _, rewards, _, _ in others]
    np.testing.assert_allclose(*rewards, rtol=1e-5)  # sums of another number of rows round in another way


@pytest.mark.parametrize("motors", ["real", "servo"])
@pytest.mark.parametrize("options", [{"env_ids": [1]}, {"reset_mask": np.arange(10) == 1}], ids=["ids", "mask"])
def test_a_reset_in_the_middle_of_a_rollout_leaves_the_others_alone(make, motors, options):
    """The one that is reset starts as a new one does: what its motors had been told is forgotten."""
    before, after = actions_of(6, 10), actions_of(8, 10, seed=1)
    disturbed, calm, fresh = make(10, motors), make(10, motors), make(10, motors)
    for env in (disturbed, calm):
        env.reset(seed=3)
        rollout(env, before)
    start, _ = fresh.reset(seed=90)
    observations, _ = disturbed.reset(seed=90, options=options)
    np.testing.assert_array_equal(observations[1], start[1])
    one, other, new = (rollout(env, after) for env in (disturbed, calm, fresh))
    others = np.arange(10) != 1
    assert_same(one, other, others, others)
    assert_same(one, new, 1, 1)


def test_without_a_seed_a_reset_goes_on_with_other_numbers(make):
    env = make(2, "servo")
    first, _ = env.reset(seed=0)
    second, _ = env.reset()
    assert (first != second).any()


@pytest.mark.parametrize("mode", MODES)
def test_who_fell_starts_again_and_the_others_go_on(make, mode):
    num_envs, fallen = 10, [2, 5]
    actions = 0.2 * actions_of(6, num_envs)
    env, calm = make(num_envs, autoreset_mode=mode), make(num_envs, autoreset_mode=mode)
    runs = []
    for each in (env, calm):
        each.reset(seed=3)
        rollout(each, actions[:2])
    tip_over(env, fallen)
    last, rewards, fell, late, infos = env.step(actions[2])
    assert np.flatnonzero(fell).tolist() == fallen
    assert not late.any()
    np.testing.assert_allclose(env.reward_terms["fall"], np.where(fell, REWARDS["fall"], 0.0))
    runs.append((last, rewards))
    if mode == "SameStep":
        assert np.flatnonzero(infos["_final_obs"]).tolist() == fallen
        assert all(abs(infos["final_obs"][i][7]) > 0.9 for i in fallen)
        assert infos["final_obs"][0] is None
        assert (last[fallen, 8] < -0.9).all()
        assert not last[fallen, 36:48].any()
    elif mode == "NextStep":
        assert infos == {}
        assert (np.abs(last[fallen, 7]) > 0.9).all()
        observations, rewards, fell, *_ = env.step(actions[3])
        assert (observations[fallen, 8] < -0.9).all()
        assert not rewards[fallen].any()
        assert not fell.any()
        assert not observations[fallen, 36:48].any()
        runs.append((observations, rewards))
    else:
        with pytest.raises(actuon.SimulationError, match="environments that ended must be reset first: 2, 5"):
            env.step(actions[3])
        env.reset(options={"env_ids": fallen})
    expected = [calm.step(action)[:2] for action in actions[2 : 2 + len(runs)]]
    others = ~np.isin(np.arange(num_envs), fallen)
    assert_same(runs, expected, others, others)
    rest = actions[2 + len(runs) :]
    assert_same(rollout(env, rest), rollout(calm, rest), others, others)


def test_an_episode_is_cut_after_its_time(make):
    env = make(3, "servo", episode_seconds=0.1, autoreset_mode="SameStep")
    env.reset(seed=0)
    cut = [env.step(np.zeros((3, 12)))[3].tolist() for _ in range(10)]
    assert cut == 2 * [*4 * [[False] * 3], [True] * 3]


def test_commands_are_drawn_from_their_ranges_and_change(make):
    ranges = ((0.5, 1.5), (-0.2, -0.1), (0.0, 0.0))
    env = make(10, "servo", commands=ranges)
    env.reset(seed=0)
    first = env.commands.copy()
    for column, (low, high) in enumerate(ranges):
        assert ((first[:, column] >= low) & (first[:, column] <= high)).all()
    for _ in range(249):
        env.step(np.zeros((10, 12)))
    np.testing.assert_array_equal(env.commands, first)
    observations, *_ = env.step(np.zeros((10, 12)))
    assert (env.commands[:, :2] != first[:, :2]).all()
    np.testing.assert_allclose(observations[:, 9:12], env.commands * (2.0, 2.0, 0.25))


@pytest.mark.parametrize("motors", ["real", "ideal", "servo"])
def test_observations_and_rewards_are_those_of_the_equations(make, motors):
    """Written anew in 64 bits, from what MuJoCo holds."""
    env = make(2, motors)
    env.reset(seed=5)
    first, second = actions_of(2, 2)
    env.step(first)
    observations, rewards, *_ = env.step(second)
    model = env.simulation.models[0]
    home = model.key_qpos[0][7:]
    for i, data in enumerate(env.simulation.data):
        back, linear, gravity = np.zeros(4), np.zeros(3), np.zeros(3)
        mujoco.mju_negQuat(back, data.qpos[3:7])
        mujoco.mju_rotVecQuat(linear, data.qvel[:3], back)
        mujoco.mju_rotVecQuat(gravity, np.array([0.0, 0.0, -1.0]), back)
        angular, q, qd, command = data.qvel[3:6], data.qpos[7:] - home, data.qvel[6:], env.commands[i].astype(float)
        parts = [2.0 * linear, 0.25 * angular, gravity, command * (2.0, 2.0, 0.25), q, 0.05 * qd, second[i]]
        parts.append([np.sin(4.0 * np.pi * 0.04), np.cos(4.0 * np.pi * 0.04)])  # after two steps
        np.testing.assert_allclose(observations[i], np.concatenate(parts), atol=2e-5)
        if motors == "servo":
            most = model.actuator_forcerange[:, 1]
            lifted = np.sin(4.0 * np.pi * 0.02) * np.array([0.0, 0.17, -0.34])  # by the first and last leg
            target = 0.5 * second[i] + np.concatenate([lifted, np.zeros(6), lifted])
            effort = np.clip(60.0 * (target - q) - 1.5 * qd, -most, most)
        else:
            effort = env.telemetry().applied_effort[i].astype(float)
        expected = 0.02 * (
            1.5 * np.exp(-np.sum((linear[:2] - command[:2]) ** 2) / 0.25)
            + 0.75 * np.exp(-((angular[2] - command[2]) ** 2) / 0.25)
            - 2.0 * linear[2] ** 2
            - 0.05 * np.sum(angular[:2] ** 2)
            - 2.5 * np.sum(gravity[:2] ** 2)
            - 0.1 * np.sum(q**2)
            - 2e-4 * np.sum(effort**2)
            - 5e-4 * np.sum(np.abs(effort * qd))
            - 0.1 * np.sum((second[i] - first[i]) ** 2)
        )
        assert rewards[i] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        np.testing.assert_allclose(env.velocities[i], [*linear[:2], angular[2]], atol=1e-5)


def test_weights_of_rewards_can_be_given(make):
    weights = dict.fromkeys(REWARDS, 0.0) | {"track_yaw_rate": 2.0}
    env = make(2, "servo", rewards=weights)
    env.reset(seed=0)
    _, rewards, *_ = env.step(np.zeros((2, 12)))
    error = env.velocities[:, 2] - env.commands[:, 2]
    np.testing.assert_allclose(rewards, 0.02 * 2.0 * np.exp(-(error**2) / 0.25), rtol=1e-5)


def kinds(env):
    return [type(stage).__name__ for stage in env.actuators.configs["FL_calf_joint"].stages]


def test_motors_are_chosen_by_one_argument(make, tmp_path):
    pd = actuon.PDControlConfig(50.0, 1.0)
    path = tmp_path / "mine.yaml"
    actuon.save_actuators(path, [actuon.ActuatorEntry("all", ".*", actuon.ActuatorConfig(pd))])
    real = ["DelayConfig", "PDControlConfig", "DCMotorClampingConfig", "MaxEffortClampingConfig"]
    assert kinds(make()) == real
    assert kinds(make(motors="real")) == real
    assert kinds(make(motors="ideal")) == ["PDControlConfig"]
    assert make(motors="ideal").actuators.configs["FL_calf_joint"].controller.kp == 100.0
    assert kinds(make(motors="Unitree Go2"))[:3] == ["DelayConfig", "PDControlConfig", "TorqueSpeedClampingConfig"]
    for motors in (path, str(path), actuon.ActuatorConfig(pd)):
        env = make(motors=motors)
        assert [config.stages for config in env.actuators.configs.values()] == [[pd]] * 12
    servo = make(motors="servo")
    assert servo.actuators is None
    assert servo.telemetry() is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"motors": "reel"}, "motors: got 'reel'; must be 'real', 'ideal', .* Did you mean 'real'?"),
        ({"motors": 3}, "motors: got 3; must be 'real'"),
        ({"motors": "none.yaml"}, "none.yaml"),
        ({"num_envs": 0}, "num_envs: got 0"),
        ({"episode_seconds": 0.0}, "episode_seconds: got 0.0; must be a number from 0.02 on"),
        ({"episode_seconds": "long"}, "episode_seconds: got 'long'"),
        ({"commands": (1.0, 0.0, 0.0)}, "commands: got .*; must be lowest and highest forward velocity"),
        ({"commands": ((1.0, 0.0), (0.0, 0.0), (0.0, 0.0))}, "commands: got"),
        ({"rewards": {"efforts": 1.0}}, "rewards: unknown term 'efforts'; .* Did you mean 'effort'?"),
        ({"rewards": ["effort"]}, r"rewards: got \['effort'\]; must be a dict of weights by name"),
        ({"rewards": {"effort": np.nan}}, "rewards: effort: got nan; must be a finite number"),
        ({"autoreset_mode": "never"}, "autoreset_mode: got 'never'; must be .*'NextStep', 'SameStep', 'Disabled'"),
    ],
)
def test_an_environment_that_cannot_be(options, match):
    with pytest.raises(actuon.ActuonError, match=match):
        QuadrupedEnv(**options)


def test_a_file_must_have_an_actuator_for_each_joint(tmp_path):
    path = tmp_path / "mine.yaml"
    entry = actuon.ActuatorEntry("hips", ".*_hip_joint", actuon.ActuatorConfig(actuon.PDControlConfig(50.0, 1.0)))
    actuon.save_actuators(path, [entry])
    with pytest.raises(actuon.RobotFileError, match=r"mine.yaml: there is no actuator for FL_thigh_joint, FL_calf"):
        QuadrupedEnv(motors=path)


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        (np.zeros((10, 11)), r"actions: got shape \(10, 11\); must be \(10, 12\)"),
        (np.zeros(12), r"actions: got shape \(12,\); must be \(10, 12\)"),
        (np.where(np.arange(12) == 2, np.nan, np.zeros((10, 12))), "got nan for 'FL_calf_joint' of environment 0"),
        (np.full((10, 12), np.inf), "got inf for 'FL_hip_joint' of environment 0; must be finite"),
        ("walk", "actions: got 'walk'; must be numbers"),
        ([["0.5"] * 12] * 10, "actions: got .*'0.5'.*; must be numbers"),
        (np.zeros((10, 12), complex), "(?s)actions: got .*; must be numbers"),
        ([[0.0] * 12, [0.0] * 11], "actions: got list, which is not an array of numbers"),
        (torch.zeros((10, 12), requires_grad=True), r"actions: got Tensor, .*requires grad. Use tensor.detach\(\)"),
    ],
)
def test_bad_actions_are_refused_and_move_nothing(make, actions, match):
    good = actions_of(4, 10)
    env, calm = make(10, "servo"), make(10, "servo")
    for each in (env, calm):
        each.reset(seed=0)
        rollout(each, good[:2])
    with pytest.raises(actuon.ArrayError, match=match):
        env.step(actions)
    assert_same(rollout(env, good[2:]), rollout(calm, good[2:]))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"options": {"env_ids": [10]}}, r"env_ids: got \[10\]; must be whole numbers from 0 to 9"),
        ({"options": {"env_ids": [-1]}}, r"env_ids: got \[-1\]"),
        ({"options": {"reset_mask": np.ones(9, bool)}}, "reset_mask: got .*; must be .* a mask of 10 booleans"),
        ({"options": {"reset_mask": [1, 2]}}, r"reset_mask: got \[1, 2\]; must be a mask of 10 booleans"),
        ({"options": {"reset_mask": [True, [False]]}}, "reset_mask: got list, which is not an array"),
        ({"options": [3]}, r"options: got \[3\]; must be a dict with reset_mask or env_ids"),
        ({"options": {"ids": [1]}}, "options: unknown key 'ids'; keys: reset_mask, env_ids"),
        ({"options": {"env_ids": [1], "reset_mask": np.ones(10, bool)}}, "give one of them"),
        ({"seed": -1}, "seed: got -1; must be a whole number ≥ 0"),
        ({"seed": [1, 2]}, r"seed: got \[1, 2\]; must be a whole number ≥ 0, or 10 of them"),
        ({"seed": 1.5}, "seed: got 1.5"),
        ({"seed": True}, "seed: got True"),
        ({"seed": b"0123456789"}, "seed: got b'0123456789'"),
    ],
)
def test_a_bad_reset_is_refused_and_changes_nothing(make, arguments, match):
    good = actions_of(4, 10)
    env, calm = make(10, "servo"), make(10, "servo")
    for each in (env, calm):
        each.reset(seed=0)
        rollout(each, good[:2])
    with pytest.raises(actuon.ActuonError, match=match):
        env.reset(**arguments)
    assert_same(rollout(env, good[2:]), rollout(calm, good[2:]))


@pytest.mark.parametrize("options", [{"env_ids": []}, {"reset_mask": np.zeros(3, bool)}], ids=["ids", "mask"])
def test_a_reset_of_no_environment_changes_nothing(make, options):
    """A loop that resets those that ended has steps in which none did."""
    good = actions_of(3, 3)
    env, calm = make(3, "servo"), make(3, "servo")
    for each in (env, calm):
        each.reset(seed=0)
    before, *_ = [each.step(good[0])[0] for each in (env, calm)]
    observations, _ = env.reset(seed=9, options=options)
    np.testing.assert_array_equal(observations, before)
    assert_same(rollout(env, good[1:]), rollout(calm, good[1:]))
    assert env.np_random_seed == (0, 1, 2)


def test_actions_of_any_size_are_clipped(make):
    env, other = make(2, "servo"), make(2, "servo")
    for each in (env, other):
        each.reset(seed=0)
    one, two = env.step(np.full((2, 12), 1e300)), other.step(torch.ones(2, 12))
    assert_same([one[:4]], [two[:4]])


def test_it_must_be_reset_before_the_first_step_and_not_used_when_closed(make):
    env = make(2, "servo")
    with pytest.raises(actuon.SimulationError, match=r"step: call reset\(\) first"):
        env.step(np.zeros((2, 12)))
    with pytest.raises(actuon.SimulationError, match="the first reset must include all environments"):
        env.reset(options={"env_ids": [0]})
    env.reset()
    env.close()
    env.close()
    with pytest.raises(actuon.SimulationError, match="closed"):
        env.step(np.zeros((2, 12)))


def test_the_example_trains_and_shows_what_came_of_it(tmp_path):
    example = ROOT / "examples" / "train_quadruped.py"
    short = ("--iterations", "1", "--envs", "8", "--robots", "3", "--seconds", "0.2", "--train", "ideal", "real")
    command = (sys.executable, str(example), *short, "--out", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for learned in ("ideal", "real"):
        assert f"{learned} motors: iteration 1, " in done.stdout
        for motors in ("ideal", "real"):
            assert f"| {learned} | {motors} | 0 | " in done.stdout
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["policy_ideal_0.pt", "policy_real_0.pt", "walking.png"]
