# SPDX-License-Identifier: Apache-2.0
"""Where parameters of actuator groups come from, and how they change."""

from __future__ import annotations

import math

import pytest

from actuon.lab import (
    ActuatorNetMLPCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    LogUniform,
    Normal,
    RemotizedPDActuatorCfg,
    Uniform,
)
from tests.support.group_models import COMMON, JOINTS, KP, E, J, act, build, signals

torch = pytest.importorskip("torch")


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


NEWER = {
    "effort_limit": "actuator_effort_limit",
    "effort_limit_sim": "joint_effort_limit",
    "velocity_limit": "actuator_velocity_limit",
    "velocity_limit_sim": "joint_velocity_limit",
}
LIMITS = {
    "effort_limit": {"left.*": 9.0, "right.*": 8.0},
    "effort_limit_sim": 30.0,
    "velocity_limit": 7.0,
    "velocity_limit_sim": 20.0,
}


def test_limits_have_the_names_of_isaac_lab_3_too():
    motor = {**COMMON, "saturation_effort": 12.0, "gear_ratio": 2.0}
    old = build(DCMotorCfg(**motor, **LIMITS))
    new = build(DCMotorCfg(**motor, **{NEWER[name]: value for name, value in LIMITS.items()}))
    for name in LIMITS:
        assert torch.equal(getattr(new, name), getattr(old, name)), name
    assert new.cfg.effort_limit == LIMITS["effort_limit"]
    both = build(DCMotorCfg(**motor, **LIMITS, actuator_velocity_limit={".*": 7.0}))
    assert torch.equal(both.velocity_limit, old.velocity_limit)
    assert (build(IdealPDActuatorCfg(**COMMON, actuator_effort_limit=3.0)).effort_limit == 3.0).all()
    for name, newer in NEWER.items():
        with pytest.raises(ValueError, match=rf"DCMotor: {newer} and {name} differ"):
            build(DCMotorCfg(**motor, **LIMITS, **{newer: {"left.*": 7.0, "right.*": 19.0}}))
        with pytest.raises(ValueError, match=rf"DCMotor: {newer}: got -1.0"):
            build(DCMotorCfg(**motor, **{newer: -1.0}))


def test_an_implicit_model_takes_the_joints_limits_of_isaac_lab_3():
    model = build(ImplicitActuatorCfg(**COMMON, joint_effort_limit=20.0, joint_velocity_limit=5.0))
    assert (model.effort_limit == 20.0).all()
    assert (model.effort_limit_sim == 20.0).all()
    assert (model.velocity_limit == 5.0).all()
    with pytest.raises(
        ValueError, match="actuator_effort_limit: the engine drive has one limit; pass joint_effort_limit"
    ):
        build(ImplicitActuatorCfg(**COMMON, actuator_effort_limit=20.0))
    with pytest.raises(ValueError, match="effort_limit and joint_effort_limit differ"):
        build(ImplicitActuatorCfg(**COMMON, effort_limit=21.0, joint_effort_limit=20.0))
    apart = build(ImplicitActuatorCfg(**COMMON, actuator_velocity_limit=4.0, joint_velocity_limit=50.0))
    assert (apart.velocity_limit == 4.0).all()
    assert (apart.velocity_limit_sim == 50.0).all()


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
    assert "motor side" in model.resolution_table()
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
        (RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=[[1, 2, 3], [0, 2, 3]]), "must not decrease"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*_hip": 1.0}), "joint 'left_knee' has no value"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": 1.0, "left.*": 2.0}), "matches '.*' and 'left"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": 1.0, "elbow": 2.0}), "'elbow' matches no joint"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={"(": 1.0}), "not a valid regex"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=-1.0), "stiffness: got -1"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness={".*": math.nan}), "got nan"),
        (IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=[1.0, 2.0]), "must be a number"),
        (ActuatorNetMLPCfg(**COMMON, saturation_effort=1.0, velocity_limit=1.0, network_file="none.pt"), "none.pt"),
    ],
)
def test_bad_configs_are_refused(cfg, match):
    with pytest.raises(ValueError, match=match):
        build(cfg)


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
    with pytest.raises(ValueError, match="joint 'left_hip' of environment 3: .*damping: got -"):
        model.randomize("damping", Uniform(-9.0, -5.0, "add"), env_ids=[3, 4])
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
    rows = [line.split() for line in model.resolution_table().splitlines()]
    assert not capsys.readouterr().out
    assert ["left_hip", "stiffness", "0", "40", "40", "N·m/rad", "config"] in rows
    assert ["right_knee", "armature", "0.01", "–", "0.01", "kg·m²", "asset"] in rows
    assert ["left_knee", "velocity_limit", "inf", "9", "9", "rad/s", "velocity_limit_sim"] in rows
    assert ["left_knee", "effort_limit", "25", "–", "25", "N·m", "asset"] in rows
    table = model.joint_property_resolution_table
    assert table["stiffness"][1] == ["left_knee", 1, 0.0, 60.0, 60.0]
    assert table["saturation_effort"][0] == ["left_hip", 0, None, 35.0, 35.0]


def test_parameters_are_declared_for_type_checkers():
    from actuon.attach.groups.group_model import ActuatorBase
    from actuon.attach.groups.models import DCMotor
    from actuon.attach.groups.resolution import PARAMETERS

    declared = ActuatorBase.__annotations__ | DCMotor.__annotations__
    assert {name for name, kind in declared.items() if kind == "Tensor"} == set(PARAMETERS)
    with pytest.raises(AttributeError):
        build(IdealPDActuatorCfg(**COMMON)).saturation_effort  # noqa: B018
