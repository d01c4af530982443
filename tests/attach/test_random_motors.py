# SPDX-License-Identifier: Apache-2.0
"""Parameters of motors on robots, drawn from ranges: each joint of each robot, in MuJoCo and in Newton."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.lab import LogUniform, Normal, Uniform

ENVS = 4
MODEL = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body name="leg">
  <joint name="hip" type="hinge" axis="0 1 0" armature="0.002"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/>
  <body pos="0.2 0 0"><joint name="knee" type="hinge" axis="0 1 0"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/></body></body></worldbody></mujoco>"""
CHAIN = actuon.ActuatorConfig(
    actuon.PDControlConfig(20.0, 0.5, const_effort=0.1),
    [actuon.DCMotorClampingConfig(saturation_effort=4.0, velocity_limit=60.0, max_motor_effort=4.0)],
    actuon.DelayConfig(3),
    transmission=actuon.GearTransmissionConfig(2.0, rotor_inertia=1e-3),
    effects=[actuon.FrictionEffectConfig(dynamic=0.1, viscous=0.02, static=0.2, stribeck_velocity=0.1)],
    sensors=[actuon.EncoderSensorConfig(bias=0.01)],
)
EVERYTHING = {
    "encoder.resolution": Uniform(1e-5, 1e-4, operation="set"),
    "encoder.bias": Normal(0.0, 0.01, operation="add"),
    "delay.delay_steps": Uniform(0, 3, operation="set"),
    "controller.kp": Uniform(0.8, 1.2),
    "controller.kd": LogUniform(0.5, 2.0),
    "controller.const_effort": Uniform(-0.1, 0.1, operation="add"),
    "dc_motor.saturation_effort": Normal(1.0, 0.05),
    "dc_motor.velocity_limit": Uniform(0.9, 1.1),
    "dc_motor.max_motor_effort": Uniform(0.8, 1.0),
    "gear.ratio": Uniform(0.9, 1.1),
    "gear.efficiency": Uniform(0.8, 0.9),
    "gear.rotor_inertia": Uniform(0.9, 1.1),
    "friction.dynamic": LogUniform(0.5, 2.0),
    "friction.viscous": LogUniform(0.5, 2.0),
    "friction.static": Uniform(2.0, 3.0),
    "friction.stribeck_velocity": Uniform(0.5, 2.0),
}


@pytest.fixture(params=[MujocoSimulation, NewtonSimulation])
def legs(request, tmp_path):
    (tmp_path / "leg.xml").write_text(MODEL)
    with request.param(tmp_path / "leg.xml", ENVS) as simulation:
        yield simulation


@pytest.fixture
def mujoco_legs(tmp_path):
    (tmp_path / "leg.xml").write_text(MODEL)
    with MujocoSimulation(tmp_path / "leg.xml", ENVS) as simulation:
        yield simulation


def attach(simulation, *configs):
    pairs = zip(configs or (CHAIN, CHAIN), ("hip", "knee"), strict=False)
    return ArticulationActuators.from_actuators(simulation.robots[0].path.split("/")[-1], list(pairs))


def held(actuators):
    """All parameters by position of their stage, each of shape (robots, joints)."""
    (actuator,) = actuators.actuators
    found = {}
    for i, stage in enumerate(actuator.stages):
        for name, numbers in stage.numbers().items():
            if name != "reflected_inertia":  # the other way to give the rotor's
                values = np.empty(ENVS * 2)
                values[actuator.effort_indices.numpy()] = numbers
                found[f"{i}.{name}"] = values.reshape(ENVS, 2)
    return found


def in_engine(simulation):
    """Armature and dry friction of the engine's model, each of shape (robots, joints)."""
    names = ("dof_armature", "dof_frictionloss")
    if isinstance(simulation, MujocoSimulation):
        return [np.array([getattr(model, name) for model in simulation.models]) for name in names]
    return [getattr(simulation.solver.mjw_model, name).numpy().reshape(ENVS, 2).copy() for name in names]


def test_every_parameter_has_a_value_for_each_joint_of_each_robot(legs):
    with attach(legs) as actuators:
        before = held(actuators)
        assert actuators.randomize(EVERYTHING, seed=3) is None
        drawn = held(actuators)
        assert len(drawn) == len(EVERYTHING)
        for name, values in drawn.items():
            assert (values != before[name]).any(), name
            assert name == "1.delay_steps" or len(np.unique(values)) == ENVS * 2, name
        armature, _ = in_engine(legs)
        np.testing.assert_allclose(armature, drawn["3.ratio"] ** 2 * drawn["3.rotor_inertia"], rtol=1e-5)
        actuators.articulation.set_dof_position_targets(0.1)
        legs.step(6)
        requested = actuators.telemetry().computed_effort
        assert np.isfinite(requested).all()
        assert len(np.unique(requested)) == ENVS * 2
        _, friction = in_engine(legs)  # which changes with speed, so that each step hands it over
        assert len(np.unique(friction)) == ENVS * 2
        np.testing.assert_allclose(friction, actuators.telemetry().signals["dry_friction"], rtol=1e-5)


def test_a_seed_repeats_a_draw_and_other_robots_keep_their_values_at_a_reset(legs):
    with attach(legs) as actuators:
        actuators.randomize(EVERYTHING, seed=1)
        first, (armature, _) = held(actuators), in_engine(legs)
        legs.step(2)
        legs.reset([1, 3])
        actuators.randomize(EVERYTHING, env_ids=[1, 3], seed=2)
        second = held(actuators)
        for name, values in second.items():
            np.testing.assert_array_equal(values[[0, 2]], first[name][[0, 2]])
            assert name == "1.delay_steps" or (values[[1, 3]] != first[name][[1, 3]]).all(), name
        np.testing.assert_array_equal(in_engine(legs)[0][[0, 2]], armature[[0, 2]])
        assert (in_engine(legs)[0][[1, 3]] != armature[[1, 3]]).all()
        legs.step(2)
        actuators.randomize(EVERYTHING, seed=1)
        for name, values in held(actuators).items():  # a draw starts from the configs, not from the draw before
            np.testing.assert_array_equal(values, first[name])
        actuators.randomize(EVERYTHING)
        assert (held(actuators)["2.kp"] != first["2.kp"]).all()


def test_one_number_for_all_joints_of_a_robot_and_joints_by_regular_expressions(mujoco_legs):
    with attach(mujoco_legs) as actuators:
        actuators.randomize({"controller.kp": Uniform(0.8, 1.2, per_joint=False)}, seed=0)
        kp = held(actuators)["2.kp"]
        np.testing.assert_array_equal(kp[:, 0], kp[:, 1])
        assert len(np.unique(kp)) == ENVS
        actuators.randomize({"controller.kd": Uniform(2.0, 2.0)}, joints="k.*", env_ids=np.arange(ENVS) > 0)
        assert held(actuators)["2.kd"].tolist() == [[0.5, 0.5]] + [[0.5, 1.0]] * 3


def test_joints_without_the_parameter_stay_as_they_are(mujoco_legs):
    with attach(mujoco_legs, CHAIN, actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 0.1))) as actuators:
        actuators.randomize({"delay.delay_steps": Uniform(1, 1, operation="set"), "controller.kp": Uniform(2.0, 2.0)})
        gains = {a.controller.kp.numpy()[0]: a.delay for a in actuators.actuators}
        assert sorted(gains) == [20.0, 40.0]
        assert gains[40.0].delay_steps.numpy().tolist() == [1] * ENVS


def test_whole_numbers_are_equally_likely(mujoco_legs):
    counts = np.zeros(4)
    with attach(mujoco_legs) as actuators:
        for seed in range(100):
            actuators.randomize({"delay.delay_steps": Uniform(0, 3, operation="set")}, seed=seed)
            counts += np.bincount(held(actuators)["1.delay_steps"].astype(int).ravel(), minlength=4)
        actuators.randomize({"delay.delay_steps": Uniform(-1, 0, operation="add")}, seed=0)
        assert set(held(actuators)["1.delay_steps"].ravel()) == {2.0, 3.0}
        actuators.randomize({"delay.delay_steps": Uniform(0.3, 0.7)}, seed=0)
        assert set(held(actuators)["1.delay_steps"].ravel()) == {1.0, 2.0}
    np.testing.assert_allclose(counts / counts.sum(), 0.25, atol=0.05)


@pytest.mark.parametrize(("low", "high", "allowed"), [(2, 2.9, {2.0}), (0.4, 2.6, {1.0, 2.0}), (3, 3, {3.0})])
def test_whole_numbers_stay_in_their_range(mujoco_legs, low, high, allowed):
    with attach(mujoco_legs) as actuators:
        found = set()
        for seed in range(10):
            actuators.randomize({"delay.delay_steps": Uniform(low, high, "set")}, seed=seed)
            found |= set(held(actuators)["1.delay_steps"].ravel())
        assert found == allowed


def test_a_generator_for_each_robot_makes_its_values_independent_of_the_others(mujoco_legs):
    with attach(mujoco_legs) as actuators:
        actuators.randomize(EVERYTHING, seed=[np.random.default_rng(i) for i in range(ENVS)])
        first = held(actuators)
        actuators.randomize(EVERYTHING)
        actuators.randomize(EVERYTHING, env_ids=[2], seed=[np.random.default_rng(2)])
        for name, values in held(actuators).items():
            np.testing.assert_array_equal(values[2], first[name][2])
        with pytest.raises(
            actuon.ParameterError, match=r"seed: got .*; must be a generator for each of these 4 robots"
        ):
            actuators.randomize(EVERYTHING, seed=[np.random.default_rng(2)])


def test_generators_belong_to_robots_in_the_given_order(mujoco_legs):
    def generators(*seeds):
        return [np.random.default_rng(seed) for seed in seeds]

    with attach(mujoco_legs) as actuators:
        actuators.randomize(EVERYTHING, env_ids=[1, 3], seed=generators(1, 3))
        rising = held(actuators)
        actuators.randomize(EVERYTHING, seed=0)
        actuators.randomize(EVERYTHING, env_ids=[3, 1], seed=tuple(generators(3, 1)))
        for name, values in held(actuators).items():
            np.testing.assert_array_equal(values[[1, 3]], rising[name][[1, 3]])
        with pytest.raises(actuon.SimulationError, match="env_ids: got 3 more than once"):
            actuators.randomize(EVERYTHING, env_ids=[3, 3], seed=generators(0, 1))


@pytest.mark.parametrize("count", [ENVS - 1, ENVS])
def test_a_list_of_whole_numbers_is_one_seed(mujoco_legs, count):
    with attach(mujoco_legs) as actuators:
        actuators.randomize(EVERYTHING, seed=list(range(count)))
        first = held(actuators)
        actuators.randomize(EVERYTHING, seed=np.random.default_rng(list(range(count))))
        for name, values in held(actuators).items():
            np.testing.assert_array_equal(values, first[name])


def test_draws_start_from_the_built_values_after_an_assignment(mujoco_legs):
    with attach(mujoco_legs) as actuators:
        actuators.actuators[0].controller.kp = 99.0
        actuators.randomize({"controller.kp": Uniform(2.0, 2.0)})
        assert (held(actuators)["2.kp"] == 40.0).all()


def test_a_parameter_that_was_set_after_the_build_starts_from_its_first_values():
    rubbing = actuon.FrictionEffectConfig(dynamic=0.1, stribeck_velocity=0.1, inertia=0.1)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.1), effects=[rubbing])
    motors = actuon.Motors(motor, joints=["hip", "knee"])
    motors.actuators[0].effects[0].static = [0.2, 0.3]
    for _ in range(2):
        motors.randomize({"friction.static": Uniform(2.0, 2.0)})
        np.testing.assert_allclose(motors.actuators[0].effects[0].static.numpy(), [0.4, 0.6], rtol=1e-6)


def test_the_first_joint_whose_values_do_not_fit_together_is_named(mujoco_legs):
    with attach(mujoco_legs) as actuators:
        ranges = {"friction.static": Uniform(0.2, 0.2, "set"), "friction.dynamic": Uniform(0.0, 0.3, "set")}
        with pytest.raises(actuon.ParameterError) as caught:
            actuators.randomize(ranges, seed=1)
        drawn = np.random.default_rng(1)
        drawn.uniform(size=(ENVS, 2))  # of static
        robot, joint = np.argwhere(drawn.uniform(0.0, 0.3, (ENVS, 2)) > 0.2)[0]
        assert str(caught.value).startswith(
            f"joint '{('hip', 'knee')[joint]}' of robot {robot}: EffectFriction: static"
        )


def test_draws_after_loading_start_from_the_configs(mujoco_legs, tmp_path):
    with attach(mujoco_legs) as actuators:
        actuators.randomize({"controller.kp": Uniform(2.0, 2.0)})
        actuators.save_state(tmp_path / "state.npz")
    with attach(mujoco_legs) as actuators:
        actuators.load_state(tmp_path / "state.npz")
        assert (held(actuators)["2.kp"] == 40.0).all()
        actuators.randomize({"controller.kp": Uniform(1.0, 1.0)})
        assert (held(actuators)["2.kp"] == 20.0).all()


def test_the_table_names_the_distribution(mujoco_legs):
    with attach(mujoco_legs) as actuators:
        actuators.randomize({"controller.kp": Uniform(0.8, 1.2)}, joints=["knee"], env_ids=[1])
        assert "drawn" not in actuators.resolution_table()  # which shows the first robot
        actuators.randomize({"controller.kp": Uniform(0.8, 1.2)}, joints=["knee"])
        drawn = [line for line in actuators.resolution_table().splitlines() if "drawn" in line]
        assert [line.split()[:2] for line in drawn] == [["knee", "pd.kp"]]
        assert drawn[0].endswith("config, drawn: Uniform(low=0.8, high=1.2, operation='scale', per_joint=True)")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({}, actuon.ParameterError, "needs either parameters or from_fit"),
        ({"parameters": {}, "from_fit": "fleet.yaml"}, actuon.ParameterError, "needs either"),
        ({"parameters": Uniform(0.8, 1.2)}, actuon.ParameterError, "parameters: got Uniform.*; must be a mapping"),
        ({"parameters": {"controller.kq": Uniform(0.8, 1.2)}}, actuon.ParameterError, "no parameter 'kq'; .*kp, kd"),
        ({"parameters": {"battery.voltage": Uniform(0.8, 1.2)}}, actuon.ParameterError, "no stage 'battery'; .*pd"),
        ({"parameters": {"friction.load_motor": Uniform(0.8, 1.2)}}, actuon.ParameterError, "is unset in these"),
        (
            {"parameters": {"controller.kp": (0.8, 1.2)}},
            actuon.ParameterError,
            "controller.kp: .*must be a distribution",
        ),
        (
            {"parameters": {"controller.kp": Uniform(-2, -1)}, "joints": "knee", "env_ids": [2, 3]},
            actuon.ParameterError,
            r"joint 'knee' of robot 2: controller.kp: got -[0-9.]*; must be",
        ),
        (
            {"parameters": {"delay.delay_steps": Uniform(4, 9, "set")}},
            actuon.ParameterError,
            "joint 'hip' of robot 0: delay.delay_steps: drew .*; the delay has room for 3",
        ),
        (
            {"parameters": {"delay.delay_steps": Uniform(0.6, 0.9, "set")}},
            actuon.ParameterError,
            "delay.delay_steps: got a range from 0.6 to 0.9; must hold a whole number",
        ),
        (
            {"parameters": {"controller.kp": Uniform(2, 2), "friction.dynamic": Uniform(-2, -1)}},
            actuon.ParameterError,
            "joint 'hip' of robot 0: friction.dynamic: got -",
        ),
        ({"joints": "kne"}, actuon.ParameterError, "joints: 'kne' matches no joint"),
        ({"joints": []}, actuon.ParameterError, "joints: got none; must be regular expressions"),
        ({"joints": {"hip": "thigh"}}, actuon.ParameterError, "joints: got .*hip.*; must be regular expressions"),
        ({"env_ids": [ENVS]}, actuon.SimulationError, "env_ids: got .4.; must be whole numbers from 0 to 3"),
        ({"seed": "luck"}, actuon.ParameterError, "seed: got 'luck'; must be a whole number"),
    ],
)
def test_draws_that_are_not_allowed_change_nothing(mujoco_legs, arguments, error, said):
    if arguments and "parameters" not in arguments:
        arguments = {"parameters": {"controller.kp": Uniform(0.8, 1.2)}, **arguments}
    with attach(mujoco_legs) as actuators:
        before = held(actuators)
        with pytest.raises(error, match=said):
            actuators.randomize(**arguments)
        for name, values in held(actuators).items():
            np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize("path", ["max_effort.max_effort", "clamping.max_effort"])
def test_a_path_to_several_stages_is_refused(path):
    """It is one even if the name is clear for other joints."""
    limits = [actuon.MaxEffortClampingConfig(5.0), actuon.MaxEffortClampingConfig(9.0)]
    one, two = (actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.1), limits[:count]) for count in (1, 2))
    motors = actuon.Motors({"hip": one, "knee": two}, num_envs=2)
    with pytest.raises(
        actuon.ParameterError, match=r"must be one of max_effort_1\.max_effort, max_effort_2\.max_effort"
    ):
        motors.randomize({path: Uniform(0.5, 0.6)})
    motors.randomize({"max_effort_2.max_effort": Uniform(7.0, 7.0, operation="set")}, joints="knee")
    (knee,) = (actuator for actuator in motors.actuators if len(actuator.stages) == 3)
    assert [float(limit.max_effort.numpy()[0]) for limit in knee.stages[1:]] == [5.0, 7.0]
