# SPDX-License-Identifier: Apache-2.0
"""Motors of simulated robots that are drawn from fitted ones: their distribution, where they go, and bad files."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation
from actuon.attach.fitted_motors import draw_motors
from actuon.fit import Fleet, FleetJoint, FleetParameter, save_fleet
from actuon.lab import ActuatorGroups, DCMotorCfg, IdealPDActuatorCfg, Uniform
from actuon.robot_files.fleet import found_as_plain

PARAMETERS = (
    FleetParameter("controller.kp", "N·m/rad", "log"),
    FleetParameter("transmission.reflected_inertia", "kg·m²", "log"),
    FleetParameter("friction.dynamic", "N·m", "log", low=1e-3, high=1.0),
    FleetParameter("friction.static", "N·m", "log", above="friction.dynamic"),
    FleetParameter("encoder.bias", "rad", "linear"),
)
PATHS = [parameter.path for parameter in PARAMETERS]
VALUES = np.array([[20.0, 0.010, 0.05, 0.02, 0.01], [30.0, 0.012, 0.08, 0.03, -0.02], [40.0, 0.015, 0.06, 0.01, 0.0]])
ROOT = np.array(
    [
        [0.10, 0.0, 0.0, 0.0, 0.0],
        [0.05, 0.05, 0.0, 0.0, 0.0],
        [-0.08, 0.0, 0.05, 0.0, 0.0],
        [0.0, 0.02, 0.0, 0.1, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.003],
    ]
)
COVARIANCES = np.array([factor * ROOT @ ROOT.T for factor in (1.0, 2.0, 0.5)])
MODEL = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body name="leg">
  <joint name="hip" type="hinge" axis="0 1 0" armature="0.002"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/>
  <body pos="0.2 0 0"><joint name="knee" type="hinge" axis="0 1 0"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/></body></body></worldbody></mujoco>"""
CHAIN = actuon.ActuatorConfig(
    actuon.PDControlConfig(10.0, 0.3),
    transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=0.005),
    effects=[actuon.FrictionEffectConfig(dynamic=0.01, viscous=0.002, static=0.02, stribeck_velocity=0.1)],
    sensors=[actuon.EncoderSensorConfig()],
)
ROBOTS = ("alpha", "beta", "gamma")


def fitted(name, parameters=PARAMETERS, values=VALUES, covariances=COVARIANCES):
    return FleetJoint(name, "m2", parameters, values, covariances, np.full(len(values), 0.001), {}, {})


@pytest.fixture
def fleet(tmp_path):
    """A file of three robots with a hip and a knee, whose gains are twice those of the hip."""
    knee = fitted("knee", values=VALUES * [2.0, 1.0, 1.0, 1.0, 1.0])
    save_fleet(tmp_path / "fleet.yaml", Fleet(ROBOTS, ("a.yaml", "b.yaml", "c.yaml"), (fitted("hip"), knee)))
    return tmp_path / "fleet.yaml"


@pytest.fixture
def legs(tmp_path):
    (tmp_path / "leg.xml").write_text(MODEL)
    with MujocoSimulation(tmp_path / "leg.xml", 4) as simulation:
        yield simulation


@pytest.fixture
def actuators(legs):
    with ArticulationActuators.from_actuators("leg", [(CHAIN, "hip"), (CHAIN, "knee")]) as actuators:
        yield actuators


def held(actuators, path):
    """A parameter of all robots and joints, shape (robots, joints)."""
    stage, name = path.split(".")
    (actuator,) = actuators.actuators
    kinds = {"controller": actuator.controller, "transmission": actuator.transmission, "friction": actuator.effects[0]}
    array = getattr(kinds.get(stage, actuator.stages[0]), name).numpy()
    found = np.full((len(actuators.articulation), 2), np.nan)
    found.ravel()[actuator.effort_indices.numpy()] = array
    return found


def test_draws_have_the_mean_and_covariance_of_the_motors_that_they_are_drawn_around():
    joint = fitted("hip")
    chosen, values = draw_motors(joint, np.random.default_rng(3), 60_000)
    scaled = np.where(joint.is_log, np.log(np.abs(values)), values)
    deviation = np.sqrt(np.diag(COVARIANCES[1]))
    for robot in range(3):
        own = scaled[chosen == robot]
        assert len(own) == pytest.approx(20_000, rel=0.03)
        np.testing.assert_allclose((own.mean(axis=0) - joint.on_scales[robot]) / deviation, 0.0, atol=0.03)
        scale = np.sqrt(np.outer(np.diag(COVARIANCES[robot]), np.diag(COVARIANCES[robot])))
        np.testing.assert_allclose(np.cov(own.T) / scale, COVARIANCES[robot] / scale, atol=0.04)
    between = np.cov(joint.on_scales.T, bias=True)
    whole = between + COVARIANCES.mean(axis=0)
    scale = np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    np.testing.assert_allclose(np.cov(scaled.T) / scale, whole / scale, atol=0.04)


def test_what_a_fit_was_sure_of_does_not_vary():
    known = COVARIANCES.copy()
    known[:, 0] = known[:, :, 0] = 0.0
    chosen, values = draw_motors(fitted("hip", covariances=known), np.random.default_rng(0), 50)
    np.testing.assert_allclose(values[:, 0], VALUES[chosen, 0], rtol=1e-12)
    assert len(np.unique(values[:, 1])) == 50


def test_each_joint_of_each_robot_gets_a_motor_of_its_own(actuators, fleet):
    drawn = actuators.randomize(from_fit=fleet, seed=5)
    assert drawn.motors.shape == (4, 2)
    assert not drawn.clipped
    assert drawn.left_out == ()
    kp, dynamic, static = (
        held(actuators, f"{path}") for path in ("controller.kp", "friction.dynamic", "friction.static")
    )
    assert len(np.unique(kp)) == 8
    centre = VALUES[drawn.motors, 0] * [1.0, 2.0]
    assert (np.abs(np.log(kp / centre)) < 5.0 * np.sqrt(COVARIANCES[drawn.motors, 0, 0])).all()
    assert (static > dynamic).all()  # of which the file has the difference
    assert (np.abs(np.log((static - dynamic) / VALUES[drawn.motors, 3])) < 1.0).all()
    np.testing.assert_array_equal(held(actuators, "friction.viscous"), np.float32(0.002))
    armature = actuators.articulation.get_dof_armatures().numpy()
    np.testing.assert_allclose(armature, held(actuators, "transmission.reflected_inertia"), rtol=1e-5)
    actuators.articulation.set_dof_position_targets(0.1)
    actuators.articulation.simulation.step()
    wanted = kp * (0.1 - held(actuators, "encoder.bias"))
    np.testing.assert_allclose(actuators.telemetry().computed_effort, wanted, rtol=1e-4)


def test_a_draw_can_be_repeated_and_leaves_other_robots_alone(actuators, fleet):
    actuators.randomize(from_fit=fleet, seed=1)
    first = {path: held(actuators, path) for path in PATHS}
    actuators.randomize(from_fit=fleet, seed=2, env_ids=[1, 3])
    for path, before in first.items():
        now = held(actuators, path)
        np.testing.assert_array_equal(now[[0, 2]], before[[0, 2]])
        assert (now[[1, 3]] != before[[1, 3]]).all()
    actuators.articulation.simulation.step()
    actuators.reset([1])
    again = actuators.randomize(from_fit=fleet, seed=1)
    assert again.env_ids.tolist() == [0, 1, 2, 3]
    for path, before in first.items():
        np.testing.assert_array_equal(held(actuators, path), before)
    actuators.randomize(from_fit=fleet)
    other = held(actuators, "controller.kp")
    actuators.randomize(from_fit=fleet)
    assert (held(actuators, "controller.kp") != other).all()


def test_the_engine_gets_its_armature_back(legs, fleet):
    gear = actuon.GearTransmissionConfig(1.0)
    plain = actuon.ActuatorConfig(CHAIN.controller, transmission=gear, effects=CHAIN.effects, sensors=CHAIN.sensors)
    robots = actuon.Articulation("leg")
    before = robots.get_dof_armatures().numpy()
    with ArticulationActuators.from_actuators("leg", [(plain, "hip"), (plain, "knee")]) as actuators:
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), before)
        actuators.randomize(from_fit=fleet, seed=0)
        assert (robots.get_dof_armatures().numpy() > 0.005).all()
    np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), before)


def test_the_table_says_which_motor_each_value_is_drawn_around(actuators, fleet, capsys):
    assert "fleet.yaml" not in actuators.resolution_table()
    actuators.randomize(from_fit=fleet, seed=0, env_ids=[1])
    assert "fleet.yaml" not in actuators.resolution_table()  # which shows the first robot
    drawn = actuators.randomize(from_fit=fleet, seed=0, joints={"k.*": "hip"})
    rows = [line.split() for line in actuators.resolution_table().splitlines()]
    kp = f"{held(actuators, 'controller.kp')[0, 1]:g}"
    around = ["fleet.yaml:", "around", "hip", "of", ROBOTS[drawn.motors[0, 0]]]
    assert ["knee", "pd.kp", "10", kp, "N·m/rad", *around] in rows
    assert ["hip", "pd.kp", "10", "10", "N·m/rad", "config"] in rows
    assert ["knee", "pd.kd", "0.3", "0.3", "N·m·s/rad", "config"] in rows
    assert not capsys.readouterr().out


def test_what_is_out_of_range_is_clipped_and_counted(actuators, tmp_path, caplog):
    parameters = (
        FleetParameter("friction.viscous", "N·m·s/rad", "linear"),
        FleetParameter("controller.kd", "N·m·s/rad", "log", low=0.2, high=0.4),
        FleetParameter("link.mass", "kg", "log"),
    )
    values = np.array([[0.0, 0.3, 1.0], [0.0, 0.3, 1.0]])
    joint = fitted("leg", parameters, values, np.array([np.diag([0.01, 1.0, 0.01])] * 2))
    save_fleet(tmp_path / "fleet.yaml", Fleet(("a", "b"), ("a", "b"), (joint,)))
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        drawn = actuators.randomize(from_fit=tmp_path / "fleet.yaml", seed=0, joints={".*": "leg"})
    viscous, kd = held(actuators, "friction.viscous"), held(actuators, "controller.kd")
    assert (viscous >= 0.0).all()
    assert ((kd >= np.float32(0.2)) & (kd <= np.float32(0.4))).all()
    at_ends = np.isin(kd, np.float32([0.2, 0.4])).sum()
    assert drawn.clipped == {"friction.viscous": (viscous == 0.0).sum(), "controller.kd": at_ends}
    assert 0 < drawn.clipped["friction.viscous"] < 8
    assert drawn.left_out == ("link.mass",)
    assert f"{at_ends} of 8 values of controller.kd are clipped" in caplog.text
    assert str(drawn).splitlines()[0] == "fleet.yaml: 8 motors, drawn from 2 fitted robots"
    assert f"clipped: controller.kd, {at_ends} of 8" in str(drawn)
    assert "left out: link.mass" in str(drawn)


def test_lags_stay_within_the_memory_of_their_delay(legs, tmp_path):
    parameters = (FleetParameter("delay.delay", "s", "linear"),)
    values, covariances = np.array([[0.004], [0.004]]), np.full((2, 1, 1), 0.01**2)
    save_fleet(
        tmp_path / "fleet.yaml", Fleet(("a", "b"), ("a", "b"), (fitted("hip", parameters, values, covariances),))
    )
    late = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 0.3), delay=actuon.InterpolatedDelayConfig(0.004))
    with ArticulationActuators.from_actuators("leg", [(late, "hip")]) as actuators:
        drawn = actuators.randomize(from_fit=tmp_path / "fleet.yaml", seed=0)
        lags = actuators.actuators[0].delay.delay.numpy()
        assert lags.max() == pytest.approx(0.008)  # 4 steps of 2 ms
        assert lags.min() == 0.0
        assert drawn.clipped["delay.delay"] >= 2
        legs.step(6)


def test_groups_draw_what_they_have_of_fitted_motors(legs, fleet):
    motor = {"effort_limit": 9.0, "saturation_effort": 9.0, "velocity_limit": 30.0}
    cfg = DCMotorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=0.3, seed=4, **motor)
    robots = actuon.Articulation("leg")

    def drawn(**options):
        with ActuatorGroups(robots, {"all": cfg}) as groups:
            model = groups["all"]
            told = model.randomize(from_fit=fleet, **options)
            numbers = {name: model.numbers(name).copy() for name in ("stiffness", "damping", "friction", "armature")}
            in_engine = robots.get_dof_armatures().numpy(), robots.get_dof_friction()[0].numpy()
            return told, numbers, in_engine, model.resolution_table(), model.joint_property_resolution_table

    told, numbers, (armature, friction), text, table = drawn(env_ids=[0, 2])
    assert told.left_out == ("encoder.bias",)
    assert (np.abs(np.log(numbers["stiffness"][[0, 2]] / (VALUES[told.motors, 0] * [1.0, 2.0]))) < 1.0).all()
    assert (numbers["stiffness"][[1, 3]] == 10.0).all()
    assert (numbers["damping"] == np.float32(0.3)).all()
    np.testing.assert_allclose(armature, numbers["armature"], rtol=1e-5)
    np.testing.assert_allclose(friction, numbers["friction"], rtol=1e-5)
    assert (numbers["friction"][[0, 2]] > 0.03).all()
    row = next(line.split() for line in text.splitlines() if line.startswith("knee") and "stiffness" in line)
    assert row[4:] == [f"{numbers['stiffness'][0, 1]:g}", "N·m/rad", "fleet.yaml:", "around", "knee", "of",
                       ROBOTS[told.motors[0, 1]]]  # fmt: skip
    assert table["stiffness"][1][4] == numbers["stiffness"][0, 1]
    again = drawn(env_ids=[0, 2])  # from the same seed of the config
    np.testing.assert_array_equal(again[1]["stiffness"], numbers["stiffness"])
    assert (drawn(env_ids=[0, 2], seed=11)[1]["stiffness"][[0, 2]] != numbers["stiffness"][[0, 2]]).all()


def test_the_table_of_a_group_says_what_was_drawn_from_a_range():
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=0.3, seed=0)
    model = cfg.class_type(cfg, ["hip", "knee"], slice(None), 2, "cpu")
    model.randomize("stiffness", Uniform(0.5, 1.5), env_ids=[1])
    assert "Uniform" not in model.resolution_table()
    model.randomize("stiffness", Uniform(0.5, 1.5))
    row = next(
        line for line in model.resolution_table().splitlines() if line.startswith("knee") and "stiffness" in line
    )
    assert row.split()[4] == f"{model.numbers('stiffness')[0, 1]:g}"
    assert "config, drawn: Uniform(low=0.5, high=1.5" in row


def test_dry_friction_without_more_at_rest_is_that_of_a_group_at_rest_too(tmp_path):
    parameters = (FleetParameter("friction.dynamic", "N·m", "log"), FleetParameter("controller.kp", "1/rad", "log"))
    joint = fitted("hip", parameters, np.array([[0.05, 3.0], [0.06, 4.0]]), np.zeros((2, 2, 2)))
    save_fleet(tmp_path / "fleet.yaml", Fleet(("a", "b"), ("a", "b"), (joint,)))
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=0.3)
    model = cfg.class_type(cfg, ["hip"], slice(None), 6, "cpu")
    drawn = model.randomize(from_fit=tmp_path / "fleet.yaml", seed=0)
    np.testing.assert_allclose(model.numbers("friction")[:, 0], np.array([0.05, 0.06])[drawn.motors[:, 0]], rtol=1e-6)
    np.testing.assert_array_equal(model.numbers("friction"), model.numbers("dynamic_friction"))
    assert (model.numbers("stiffness") == 10.0).all()
    assert drawn.left_out == ("controller.kp",)  # a servo's duty per angle is not a stiffness


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"joints": {"hip": "elbow"}}, actuon.RobotFileError, "fleet.yaml': has no joint 'elbow'; .*joints: hip, knee"),
        ({"joints": {"elbow": "hip"}}, actuon.ParameterError, "'elbow' matches no joint"),
        (
            {"joints": {"hip": "hip", "h.*": "knee"}},
            actuon.ParameterError,
            "'hip' is to be drawn from 'hip' and 'knee'",
        ),
        ({"joints": {}}, actuon.ParameterError, "joints: got none"),
        ({"joints": ["hip"]}, actuon.ParameterError, r"joints: got \['hip'\]; must be a dict: regexes, and a joint"),
        ({"joints": {"hip": ["hip"]}}, actuon.RobotFileError, "fleet.yaml': has no joint '.*'; .*joints: hip, knee"),
        ({"seed": -1}, actuon.ParameterError, "seed: got -1; must be a whole number ≥ 0, or None"),
        ({"seed": "luck"}, actuon.ParameterError, "seed: got 'luck'"),
        ({"env_ids": [4]}, actuon.SimulationError, "env_ids: got .4.; must be whole numbers from 0 to 3"),
        ({"env_ids": [-1]}, actuon.SimulationError, "env_ids: got .-1.; must be whole numbers from 0 to 3"),
    ],
)
def test_bad_choices_are_refused_and_change_nothing(actuators, fleet, options, error, said):
    with pytest.raises(error, match=said):
        actuators.randomize(from_fit=fleet, **{"seed": 0} | options)
    assert (held(actuators, "controller.kp") == 10.0).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hip:", "hip_2:", "has no joint 'hip'; .*joints={'hip': 'hip_2'}"),
        ("encoder.bias:", "encoder.offset:", "joint 'hip': encoder.offset: there is no parameter 'offset'; .*bias"),
        ("encoder.bias:", "battery.voltage:", "joint 'hip': battery.voltage: .*stages"),
        ('unit: "N·m/rad"', "unit: 1/rad", "joint 'hip': controller.kp: is in 1/rad in the file, and in N·m/rad here"),
        ("friction.dynamic:\n", "friction.load_motor:\n", "friction.load_motor: .*is unset in these motors"),
        ("error_mrad: 1.0", f"error_mrad: 1{'0' * 400}", "alpha.error_mrad: got .* must be 1 finite number"),
        ("- [0.01]", "- [-0.01]", "alpha.covariance: is not a covariance"),
        (
            "range: [0.001, 1.0]",
            "range: [1.0, 0.001]",
            "friction.dynamic.range: got .*the lowest value and the highest",
        ),
        ("range: [0.001, 1.0]", "range: wide", "friction.dynamic.range: got 'wide'; must be 2 finite numbers"),
    ],
)
def test_files_that_do_not_fit_are_refused_and_change_nothing(actuators, fleet, old, new, said):
    text = fleet.read_text()
    assert old in text
    fleet.write_text(text.replace(old, new, 1 if "covariance" in said or "hip'" in said else -1))
    with pytest.raises(actuon.ActuonError, match=said):
        actuators.randomize(from_fit=fleet, seed=0)
    for path, before in (
        ("controller.kp", 10.0),
        ("friction.dynamic", 0.01),
        ("transmission.reflected_inertia", 0.005),
    ):
        assert (held(actuators, path) == np.float32(before)).all()


def test_files_without_fitted_motors_are_refused(actuators, fleet, tmp_path):
    plain = tmp_path / "plain.yaml"
    actuon.save_actuators(plain, [actuon.ActuatorEntry("hip", "hip", CHAIN)])
    with pytest.raises(actuon.RobotFileError, match="plain.yaml': has no motors that were fitted: must have 'fleet'"):
        actuators.randomize(from_fit=plain)
    with pytest.raises(actuon.RobotFileError, match="none.yaml"):
        actuators.randomize(from_fit=tmp_path / "none.yaml")
    whole = fleet.read_bytes()
    for size in range(0, whole.rindex(b"across:"), 97):  # what follows is for people
        fleet.write_bytes(whole[:size])
        with pytest.raises(actuon.ActuonError, match="fleet.yaml"):
            actuators.randomize(from_fit=fleet, seed=0)
    assert (held(actuators, "controller.kp") == 10.0).all()


@pytest.fixture
def motor(tmp_path):
    """The file of a fit of one joint."""
    found = {"hip": found_as_plain(fitted("hip"), 1)}
    path = tmp_path / "motor.yaml"
    fit = {"models": {"hip": "m2"}, "found": found}
    actuon.save_actuators(path, [actuon.ActuatorEntry("hip", "hip", CHAIN)], fit=fit)
    return path


def test_the_file_of_one_fit_is_a_distribution_too(actuators, motor):
    assert actuon.load_actuators(motor)[0].actuator == CHAIN
    drawn = actuators.randomize(from_fit=motor, seed=0, joints={".*": "hip"})
    assert (drawn.motors == 0).all()
    assert drawn.source(0, "knee") == "motor.yaml: around hip of motor"
    kp = held(actuators, "controller.kp")
    assert len(np.unique(kp)) == 8
    assert (np.abs(np.log(kp / VALUES[1, 0])) < 5.0 * np.sqrt(COVARIANCES[1, 0, 0])).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- [0.02]", "- [-0.02]", "fit.found.hip.covariance: is not a covariance"),
        ("values: [30.0, ", "values: [", "fit.found.hip.values: got .*; must be 5 finite numbers"),
        ("    hip:\n      parameters", "    hop:\n      parameters", "fit.models.hop: got None; must be text"),
        ("models: {hip: m2}", "models: 3", "fit.models: got 3; must be a mapping"),
        ("found:", "sought:", "has no motors that were fitted"),
    ],
)
def test_a_damaged_file_of_one_fit_is_refused_with_its_place(actuators, motor, old, new, said):
    text = motor.read_text()
    assert old in text
    motor.write_text(text.replace(old, new, 1))
    with pytest.raises(actuon.RobotFileError, match=f"motor.yaml': {said}"):
        actuators.randomize(from_fit=motor, joints={".*": "hip"})
    assert (held(actuators, "controller.kp") == 10.0).all()


def test_groups_refuse_what_they_cannot_draw(fleet, tmp_path):
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=0.3, seed=0)
    model = cfg.class_type(cfg, ["hip", "knee"], slice(None), 2, "cpu")
    for options, said in (
        ({"name": "stiffness", "from_fit": fleet}, "from_fit and a name"),
        ({"name": "stiffness", "distribution": Uniform(1.0, 1.0), "joints": {}}, "joints: is for from_fit"),
        ({"env_ids": [2], "from_fit": fleet}, "env_ids"),
        ({}, "no parameter 'None'"),
        ({"seed": 0.5, "from_fit": fleet}, "seed: got 0.5; must be a whole number"),
        ({"seed": -1, "name": "stiffness", "distribution": Uniform(1.0, 1.0)}, "seed: got -1"),
    ):
        with pytest.raises(actuon.ActuonError, match=said):
            model.randomize(**options)
    bias = fitted("hip", PARAMETERS[-1:], VALUES[:, -1:], COVARIANCES[:, -1:, -1:])
    save_fleet(tmp_path / "bias.yaml", Fleet(ROBOTS, ROBOTS, (bias,)))
    with pytest.raises(actuon.ParameterError, match="none of the fitted parameters: encoder.bias"):
        model.randomize(from_fit=tmp_path / "bias.yaml", joints={".*": "hip"})
    assert (model.numbers("stiffness") == 10.0).all()
