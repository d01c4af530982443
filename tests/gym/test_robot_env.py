# SPDX-License-Identifier: Apache-2.0
"""A robot of one's own as a Gymnasium environment, and one robot as a plain environment."""

from __future__ import annotations

import runpy
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import actuon
import actuon.gym
from actuon.gym import QuadrupedEnv, RobotEnv, SingleEnv
from tests.support.paths import ROOT

PENDULUM = """
<mujoco><worldbody><body name="base" pos="0 0 1">
  <joint name="hip" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass="1"/>
  <body pos="0 0 -.3"><joint name="knee" axis="0 1 0" damping=".02"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".2"/></body>
</body></worldbody>{servos}</mujoco>
"""
SERVOS = '<actuator><position joint="hip" kp="30" kv="2"/></actuator>'
PD = actuon.ActuatorConfig(actuon.PDControlConfig(30.0, 2.0))


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM.format(servos=""))
    return path


def nothing(env):
    return np.zeros(env.num_envs)


@pytest.fixture
def make(robot):
    """Make environments that are closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(RobotEnv(options.pop("robot", robot), *arguments, **{"reward": nothing, **options}))
        return made[-1]

    yield make
    for env in made:
        env.close()


def test_joints_without_a_motor_are_passive(make):
    env = make(3, {"hip": PD})
    assert env.joints == ["hip"]
    assert env.single_action_space.shape == (1,)
    observations, infos = env.reset(seed=0)
    assert observations.shape == (3, 5)  # two positions, two velocities, one action
    assert infos == {}
    for _ in range(150):
        observations, *_ = env.step(np.array([[-1.0], [0.0], [0.5]]))
    np.testing.assert_allclose(env.position.sum(axis=1), 0.0, atol=0.05)  # the knee hangs
    assert np.all(np.sign(np.round(env.position[:, 0], 3)) == [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(observations[:, 4], [-1.0, 0.0, 0.5])
    assert env.telemetry().applied_effort.shape == (3, 2)


def test_time_step_and_length_of_a_step_by_default(tmp_path, robot):
    for dt, substeps in ((0.002, 10), (0.03, 1)):
        path = tmp_path / "robot.xml"
        path.write_text(robot.read_text().replace("<worldbody>", f'<option timestep="{dt}"/><worldbody>', 1))
        env = RobotEnv(path, 1, PD, reward=lambda env: np.zeros(1))
        assert (env.simulation.dt, env.substeps) == (dt, substeps)
        env.close()


def test_a_step_is_that_of_the_same_motor_in_a_loop(robot, make):
    """To the last bit: the environment adds nothing to simulation and motors."""
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2, 2)).astype(np.float32)
    env = make(2, PD, action_scale=0.8, dt=0.002, substeps=7)
    env.reset()
    for action in actions:
        env.step(action)
    with actuon.MujocoSimulation(robot, 2, 0.002) as simulation:
        joints = [(PD, "hip"), (PD, "knee")]
        actuators = actuon.ArticulationActuators.from_actuators("base", joints, simulation=simulation)
        for action in actions:
            actuators.articulation.set_dof_position_targets(np.float32(0.8) * action)
            simulation.step(7)
        np.testing.assert_array_equal(env.position, actuators.articulation.get_dof_positions().numpy())
        np.testing.assert_array_equal(env.velocity, actuators.articulation.get_dof_velocities().numpy())


def test_motors_from_a_file_and_servos_of_the_model(make, robot, tmp_path):
    path = tmp_path / "motors.yaml"
    actuon.save_actuators(path, [actuon.ActuatorEntry("hips", "hip", PD)])
    assert make(motors=path).joints == make(motors=str(path)).joints == ["hip"]
    robot.write_text(PENDULUM.format(servos=SERVOS))
    env = make()
    assert env.joints == ["hip"]
    assert env.actuators is env.telemetry() is None
    env.reset()
    for _ in range(100):
        env.step(np.ones((1, 1)))
    assert env.position[0, 0] > 0.3


def test_functions_see_the_environment(make):
    seen = []

    def reward(env):
        seen.append((env.action.copy(), env.last_action.copy(), env.episode_time.copy()))
        return env.position[:, 0] + 10.0 * env.action[:, 0]

    def start(env, ids):
        env.robots.set_dof_positions([[0.1 * env.np_random[i].random(), 0.0] for i in ids], ids)

    env = make(
        2,
        {"hip": PD},
        reward=reward,
        observation=lambda env: env.position,
        terminated=lambda env: env.episode_time > 0.05,
        start=start,
        autoreset_mode="SameStep",
    )
    first, _ = env.reset(seed=[4, 5])
    expected = [0.1 * np.random.default_rng(seed).random() for seed in (4, 5)]
    np.testing.assert_allclose(first[:, 0], expected, rtol=1e-6)
    for step in range(1, 4):
        observations, rewards, failed, late, infos = env.step(np.full((2, 1), 0.1 * step))
        last = np.stack(infos["final_obs"]) if step == 3 else observations
        np.testing.assert_allclose(rewards, last[:, 0] + step, rtol=1e-6)
        assert failed.tolist() == [step == 3] * 2
        assert not late.any()
    assert [time.tolist() for _, _, time in seen] == [[0.02] * 2, [0.04] * 2, [pytest.approx(0.06)] * 2]
    actions = [(now[0, 0], before[0, 0]) for now, before, _ in seen]
    np.testing.assert_allclose(actions, [(0.1, 0.0), (0.2, 0.1), (0.3, 0.2)], rtol=1e-6)
    second = [0.1 * np.random.default_rng(seed).random(2)[1] for seed in (4, 5)]
    np.testing.assert_allclose(observations[:, 0], second, rtol=1e-6)


def test_actions_may_mean_something_else(make):
    def push(env, actions):
        env.robots.set_dof_velocity_targets(10.0 * actions, dof_indices=[0])

    damped = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.5))
    env = make(1, {"hip": damped}, act=push)
    env.reset()
    for _ in range(10):
        env.step(np.array([[1.0]]))
    assert env.velocity[0, 0] > 0.5


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"reward": None}, "reward: is missing; must be a function"),
        ({"reward": 3}, "reward: got 3; must be a function of the environment"),
        ({"observation": "position"}, "observation: got 'position'; must be a function"),
        ({"motors": None}, "has no servos, and no motors are given"),
        ({"motors": 3}, "motors: got 3; must be the path of a YAML file"),
        ({"motors": "ak80-9"}, "motors: 'ak80-9' is a motor without a controller; pass actuon.find_motor"),
        ({"motors": {"hipp": PD}}, "motors: there is no joint 'hipp'; joints: hip, knee. Did you mean 'hip'"),
        ({"motors": {"hip": 3}}, "motors: hip: got 3; must be an ActuatorConfig"),
        ({"motors": "none.yaml"}, "none.yaml"),
        ({"motors": "ak80-99"}, "motors: 'ak80-99' is neither a file .* nor a motor; .*Did you mean 'ak80-9'"),
        ({"robot": 3}, "robot: got 3; must be the path of an MJCF or URDF file"),
        ({"action_scale": "x"}, "action_scale: got 'x'; must be a finite number"),
        ({"action_scale": np.nan}, "action_scale: got nan; must be a finite number"),
        ({"width": "x"}, "width: got 'x'; must be a whole number ≥ 1"),
        ({"substeps": 0}, "substeps: got 0; must be a whole number ≥ 1"),
        ({"width": None}, "width: got None; must be a whole number ≥ 1"),
        ({"episode_seconds": 0.001}, "episode_seconds: got 0.001; must be a number from 0.02 on"),
        ({"render_mode": "human"}, "render_mode: got 'human'; must be None or 'rgb_array'"),
        ({"observation": lambda env: env.position[:, 0]}, r"observation: .* of shape \(1,\); must be numbers of shape"),
    ],
)
def test_what_cannot_be_an_environment(make, options, match):
    with pytest.raises(actuon.ActuonError, match=match):
        make(**{"motors": PD, **options})


def test_what_functions_return_is_checked(make):
    env = make(2, PD, reward=lambda env: env.position)
    env.reset()
    with pytest.raises(actuon.ArrayError, match=r"reward: the function returned float32 of shape \(2, 2\); .*\(2,\)"):
        env.step(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"reward": lambda env: np.array([1.0, np.nan])},
            "reward: got nan for environment 1, 0.02 s after .* must be finite",
        ),
        ({"reward": lambda env: np.array([-np.inf, np.nan])}, "reward: got -inf for environment 0, 0.02 s after"),
        ({"reward": lambda env: np.array([0.0, 1e39])}, "reward: got inf for environment 1, .*also as float32"),
        (
            {"observation": lambda env: np.where(env.episode_time[:, None] > 0.0, np.nan, env.position)},
            "observation: got nan for environment 0, column 0, 0.02 s after",
        ),
        (
            {"terminated": lambda env: np.array([np.nan, 0.0])},
            r"terminated: the function returned float64 .*; must be booleans of shape \(2,\)",
        ),
        ({"reward": lambda env: [[1.0], [1.0, 2.0]]}, "reward: got list, which is not an array of numbers"),
    ],
)
def test_functions_must_return_finite_numbers_and_masks(make, options, match):
    env = make(2, PD, **options)
    env.reset()
    with pytest.raises(actuon.ActuonError, match=match):
        env.step(np.zeros((2, 2)))


def test_the_first_observation_must_be_finite(make):
    env = make(2, PD, observation=lambda env: np.array([[0.0], [np.inf]]))
    with pytest.raises(actuon.ArrayError, match="observation: got inf for environment 1, column 0, 0 s after"):
        env.reset()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_environments_that_ended_may_have_any_values_until_they_start_again(make, mode):
    """With NextStep they move on for one more step, whose reward and observation are not used."""

    def infinite_late(env):
        return np.where(env.episode_time > 0.05, np.nan, 1.0)

    env = make(
        2,
        PD,
        reward=infinite_late,
        observation=lambda env: infinite_late(env)[:, None],
        terminated=lambda env: env.episode_time > 0.03,
        autoreset_mode=mode,
    )
    env.reset()
    for _ in range(7):
        observations, rewards, *_ = env.step(np.zeros((2, 2)))
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()


def test_joints_without_gains_are_named(make, caplog):
    said = "kp and kd are 0: these joints will not track targets: knee"
    motors = {"hip": PD, "knee": actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0))}
    make(1, motors, act=lambda env, actions: None)
    assert said not in caplog.text
    make(1, motors)
    assert caplog.text.count(said) == 1


def test_a_file_with_two_robots_is_refused(tmp_path):
    path = tmp_path / "two.xml"
    bodies = "".join(f'<body name="{name}"><joint name="{name}_j"/><geom size=".1"/></body>' for name in "ab")
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    with pytest.raises(actuon.ParameterError, match="must hold one robot; it holds: a, b"):
        RobotEnv(path, motors=PD, reward=nothing)


@pytest.mark.parametrize("motors", ["ideal", "servo"])
def test_the_quadruped_is_made_by_its_name(motors):
    env = gymnasium.make("actuon/Quadruped-v0", motors=motors)
    many = gymnasium.make_vec("actuon/Quadruped-v0", num_envs=3, motors=motors)
    assert isinstance(env.unwrapped, SingleEnv)
    assert isinstance(many.unwrapped, QuadrupedEnv)
    one, _ = env.reset(seed=1)
    three, _ = many.reset(seed=0)
    np.testing.assert_array_equal(one, three[1])
    for _ in range(5):
        one, reward, terminated, truncated, infos = env.step(np.full(12, 0.1, np.float32))
        three, rewards, *_ = many.step(np.full((3, 12), 0.1, np.float32))
        np.testing.assert_array_equal(one, three[1])
        assert reward == pytest.approx(rewards[1], rel=1e-5)
        assert (type(reward), terminated, truncated, infos) == (float, False, False, {})
    env.close()
    many.close()
    assert env.unwrapped.envs.simulation.is_closed


def test_gymnasium_has_nothing_to_complain_of(robot):
    own = SingleEnv(RobotEnv(robot, 1, PD, reward=nothing, autoreset_mode="Disabled"))
    quadruped = gymnasium.make("actuon/Quadruped-v0", disable_env_checker=True).unwrapped
    for env in (own, quadruped):
        check(env, skip_render_check=True)
        env.close()


def check(env, **options):
    """Check with warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, **options)


def test_one_robot_must_be_one(robot):
    with RobotEnv(robot, 2, PD, reward=nothing).simulation:
        pass
    for options in ({"num_envs": 2, "autoreset_mode": "Disabled"}, {"num_envs": 1}):
        env = RobotEnv(robot, motors=PD, reward=nothing, **options)
        with pytest.raises(actuon.ParameterError, match="must be 1 and 'Disabled'"):
            SingleEnv(env)
        env.close()


def test_pictures(make, robot):
    try:
        env = make(2, PD, render_mode="rgb_array", width=64, height=48)
        env.reset()
        before = env.render()
    except actuon.SimulationError as error:
        pytest.skip(str(error))
    assert [(picture.shape, picture.dtype) for picture in before] == [((48, 64, 3), np.uint8)] * 2
    np.testing.assert_array_equal(*before)
    calm = make(2, PD)
    calm.reset()
    for _ in range(30):
        action = np.array([[1.0, 1.0], [0.0, 0.0]])
        assert_same = env.step(action)[0], calm.step(action)[0]
        after = env.render()
    np.testing.assert_array_equal(*assert_same)  # drawing changes nothing
    assert (after[0] != before[0]).any()
    np.testing.assert_array_equal(after[1], before[1])
    single = gymnasium.make("actuon/Quadruped-v0", render_mode="rgb_array")
    single.reset(seed=0)
    assert single.render().shape == (360, 480, 3)
    check(single.unwrapped)
    single.close()
    too_wide = make(1, PD, render_mode="rgb_array", width=5000)
    with pytest.raises(actuon.ParameterError, match=r"got \(5000, 360\); must be from 1 to"):
        too_wide.render()


def test_without_a_render_mode_there_is_no_picture(make):
    env = make(1, PD)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_the_example_balances_a_pole(capsys):
    runpy.run_path(str(ROOT / "examples" / "own_robot_env.py"), run_name="__main__")
    assert "without delay: 100%; with a delay of 120 ms: 0%" in capsys.readouterr().out


def test_motors_are_drawn_at_each_reset_by_the_generator_of_each_environment(make):
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(30.0, 2.0), effects=[actuon.FrictionEffectConfig(0.1)])
    ranges = {
        "controller.kp": actuon.lab.Uniform(0.5, 1.5),
        "friction.dynamic": actuon.lab.LogUniform(0.5, 2.0),
    }

    def gains(env):
        (actuator,) = env.actuators.actuators
        return np.stack([actuator.controller.kp.numpy(), actuator.effects[0].dynamic.numpy()])

    env = make(3, {"hip": chain}, randomize=ranges)
    env.reset(seed=5)
    first = gains(env)
    assert len(np.unique(first)) == 6
    env.reset(options={"env_ids": [1]})
    second = gains(env)
    np.testing.assert_array_equal(second[:, [0, 2]], first[:, [0, 2]])
    assert (second[:, 1] != first[:, 1]).all()
    env.reset(seed=5)
    np.testing.assert_array_equal(gains(env), first)
    alone = make(1, {"hip": chain}, randomize=ranges)
    alone.reset(seed=7)  # the seed of the third environment
    np.testing.assert_array_equal(gains(alone)[:, 0], first[:, 2])


@pytest.mark.parametrize(
    ("randomize", "said"),
    [
        (actuon.lab.Uniform(0.8, 1.2), "randomize: parameters: got Uniform.*; must be a mapping"),
        ({"controller.kp": (0.8, 1.2)}, "randomize: controller.kp: got .*; must be a distribution"),
        ({"controller.kq": actuon.lab.Uniform(0.8, 1.2)}, "randomize: controller.kq: there is no parameter 'kq'"),
    ],
)
def test_distributions_are_checked_at_the_start(make, randomize, said):
    with pytest.raises(actuon.ParameterError, match=said):
        make(2, PD, randomize=randomize)


def test_a_draw_that_is_not_allowed_resets_nothing(make):
    def is_allowed(seed):
        return all(np.random.default_rng(each).uniform(-0.5, 1.0, 2).min() > 0.0 for each in (seed, seed + 1))

    env = make(2, PD, randomize={"controller.kp": actuon.lab.Uniform(-0.5, 1.0)})
    env.reset(seed=next(seed for seed in range(100) if is_allowed(seed)))
    env.step(np.ones((2, 2)))
    position, time = env.position.copy(), env.episode_time
    with pytest.raises(actuon.ParameterError, match="joint '.*' of robot .*: controller.kp: got -"):
        env.reset(seed=next(seed for seed in range(100) if not is_allowed(seed)))
    np.testing.assert_array_equal(env.position, position)
    np.testing.assert_array_equal(env.episode_time, time)


def test_servos_of_mujoco_have_nothing_to_draw(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM.format(servos=SERVOS))
    with pytest.raises(actuon.ParameterError, match="randomize: needs motors"):
        RobotEnv(path, reward=nothing, randomize={"controller.kp": actuon.lab.Uniform(0.8, 1.2)})


def test_a_robot_that_diverges_ends_its_episode_alone():
    """Divergence by a push that no gain holds."""
    bad = 2

    def push(envs, actions):
        envs.robots.set_dof_position_targets(envs.home + 0.1 * actions)
        if envs.episode_time[bad] > 0.05:
            envs.robots.set_dof_velocities(1e9, indices=[bad], dof_indices=[3])

    options = dict(num_envs=4, reward=lambda envs: 1.0 + envs.position[:, 0], act=push, autoreset_mode="NextStep")
    raising = actuon.gym.RobotEnv(actuon.assets.arm_mjcf, **options)
    raising.reset(seed=0)
    actions = np.zeros((4, 7))
    with pytest.raises(actuon.SimulationError, match="env_2") as caught:
        [raising.step(actions) for _ in range(10)]
    joint = caught.value.joint
    assert joint in raising.joints
    assert caught.value.diverged == {bad: joint}
    raising.close()

    envs = actuon.gym.RobotEnv(actuon.assets.arm_mjcf, on_divergence="terminate", **options)
    envs.reset(seed=0)
    ends = []
    for _ in range(12):
        observations, rewards, failed, late, infos = envs.step(np.zeros((4, 7)))
        assert np.isfinite(observations).all()
        assert not late.any()
        if failed.any():
            ends.append(np.flatnonzero(failed).tolist())
            assert infos["diverged"].tolist() == [None, None, joint, None]
            assert infos["_diverged"].tolist() == [False, False, True, False]
            assert rewards[bad] == 0.0
            assert rewards[0] > 0.9
        else:
            assert "diverged" not in infos
    assert ends == [[bad]] * len(ends)
    assert len(ends) >= 2
    envs.close()
    with pytest.raises(actuon.ParameterError, match="on_divergence: got 'ignore'; must be 'raise' or 'terminate'"):
        actuon.gym.RobotEnv(actuon.assets.arm_mjcf, on_divergence="ignore", **options)
