# SPDX-License-Identifier: Apache-2.0
"""Shares of the stability limit, beside the formulas and beside simulations that do and do not diverge."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import actuon
from actuon import (
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    MujocoSimulation,
    NewtonSimulation,
    PDControlConfig,
)
from actuon.stability.chain_response import MEMORY, measure
from actuon.stability.limits import stability_of
from tests.support.limits_found import CHAINS, driven, found_by_predicted, gains_of, model_of
from tests.support.paths import ASSETS, public_robot

DT = 0.002
INERTIA = 8e-4
TWO = f"""
<mujoco><compiler angle="radian"/><option timestep="{DT}" gravity="0 0 0"/><worldbody>
  <body name="base"><geom size=".01"/>
    <body name="a"><joint name="turn" axis="0 0 1" damping="DAMPING" range="-1 1"/>
      <inertial pos="0 0 0" mass="0.5" diaginertia="1 1 {INERTIA}"/></body>
    <body name="b"><joint name="lift" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="0.5" diaginertia="1 1 1"/></body>
  </body></worldbody></mujoco>
"""
"""A light link that turns and one that slides, side by side: nothing couples them."""


@pytest.fixture(autouse=True)
def _engine_without_log(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    mujoco.set_mju_user_warning(lambda message: None)
    yield
    mujoco.set_mju_user_warning(None)


def two(damping=0.0, integrator="Euler", dt=DT):
    model = mujoco.MjModel.from_xml_string(TWO.replace("DAMPING", str(damping)))
    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    model.opt.timestep = dt
    return model


def study(model, configs, **options):
    """The stability of actuators by joint, on a model."""
    with MujocoSimulation(model) as simulation:
        pairs = [(config, name) for name, config in configs.items()]
        with ArticulationActuators.from_actuators("base", pairs, simulation=simulation) as actuators:
            return stability_of(actuators.articulation, actuators.actuators, **options)


def answer(configs, dt=DT, **options):
    """Return the responses of motor models to small motions."""
    with MujocoSimulation(two(), **options) as simulation:
        pairs = [(config, name) for name, config in configs.items()]
        paths = [robot.path for robot in simulation.robots]
        with ArticulationActuators.from_actuators(paths, pairs, simulation=simulation) as actuators:
            return measure(actuators.articulation, actuators.actuators, dt)


def pd(kp, kd, **chain):
    return ActuatorConfig(PDControlConfig(kp, kd), **chain)


def largest_root(kp, kd, inertia, dt, delay=0):
    """Of z^d (z - 1)² + (kp·h²/I) z + (kd·h/I) (z - 1): by how much a motion grows in a step, at the most."""
    stiffness, damping = kp * dt * dt / inertia, kd * dt / inertia
    polynomial = np.zeros(3 + delay)
    polynomial[:3] = 1.0, -2.0, 1.0
    polynomial[-2:] += stiffness + damping, -damping
    return np.abs(np.roots(polynomial)).max()


@pytest.mark.parametrize(("kp", "kd"), [(100.0, 10.0), (800.0, 0.0), (0.0, 0.5), (300.0, 0.2)])
def test_a_joint_alone_has_the_share_of_the_formula(kp, kd):
    found = study(two(), {"turn": pd(kp, kd)}, poses=3)
    (joint,) = found.joints
    np.testing.assert_allclose(joint.inertia, INERTIA, rtol=1e-6)
    np.testing.assert_allclose(joint.stiffness_number, kp * DT**2 / INERTIA, rtol=1e-4)
    np.testing.assert_allclose(joint.damping_number, kd * DT / INERTIA, rtol=1e-4)
    np.testing.assert_allclose(joint.usage, (kd * DT + kp * DT**2 / 2) / INERTIA / 2, rtol=1e-4)
    assert found.usage == joint.usage == pytest.approx(joint.usage_alone)
    assert found.is_stable == (joint.usage < 1.0)
    for factor, is_stable in ((0.97, True), (1.03, False)):
        scale = factor / joint.usage
        assert (largest_root(scale * kp, scale * kd, INERTIA, DT) < 1.0 + 1e-9) == is_stable
        assert (largest_root(kp, kd, INERTIA, factor * found.largest_dt) < 1.0 + 1e-9) == is_stable
    lowered = np.array([kp, kd]) / max(joint.usage, 1.0)
    np.testing.assert_allclose([joint.stable_kp, joint.stable_kd], lowered, rtol=1e-5)
    for factor, is_stable in ((0.97, True), (1.03, False)):
        if joint.largest_kp:
            assert (largest_root(factor * joint.largest_kp, kd, INERTIA, DT) < 1.0 + 1e-9) == is_stable
        if joint.largest_kd:
            assert (largest_root(kp, factor * joint.largest_kd, INERTIA, DT) < 1.0 + 1e-9) == is_stable
    assert bool(joint.largest_kp) == (bool(kp) and kd * DT / INERTIA < 2.0)


def test_the_light_link_of_newtons_tests_needs_a_tenth_of_the_step():
    found = study(two(), {"turn": pd(100.0, 10.0)}, poses=0)
    assert found.usage == pytest.approx(12.6, rel=0.01)
    assert 1e3 * found.largest_dt == pytest.approx(0.16, abs=0.01)
    assert found.joints[0].delay_margin is None


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "discrete"])
def test_damping_of_the_joint_is_implicit_and_counts_as_half_of_itself(integrator):
    damping = 0.5
    found = study(two(damping, integrator), {"turn": pd(100.0, 0.3)}, poses=0)
    expected = (0.3 * DT + 100.0 * DT**2 / 2) / (INERTIA + damping * DT / 2) / 2
    np.testing.assert_allclose(found.usage, expected, rtol=1e-4)


@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_viscous_friction_of_a_stage_counts_as_damping_of_the_joint(ratio):
    """The engine receives it at the joint, instead of the model's own."""
    rub = actuon.FrictionEffectConfig(viscous=2.0 / ratio**2)
    chain = {"turn": pd(10.0, 0.1, transmission=actuon.GearTransmissionConfig(ratio=ratio), effects=[rub])}
    found, expected = study(two(0.1), chain, poses=0), study(two(2.0), {"turn": pd(10.0, 0.1)}, poses=0)
    np.testing.assert_allclose(found.usage, (0.1 * DT + 10.0 * DT**2 / 2) / (INERTIA + 2.0 * DT / 2) / 2, rtol=1e-4)
    np.testing.assert_allclose(found.usage, expected.usage, rtol=1e-6)
    np.testing.assert_allclose(found.largest_dt, expected.largest_dt, rtol=1e-6)


def test_under_runge_kutta_damping_must_keep_up_with_stiffness():
    """An effort that is held pushes at the end of the step as at its begin: kd > kp·h/2, or the motion grows."""
    kp = 100.0
    assert study(two(0.0, "RK4"), {"turn": pd(kp, 0.7 * kp * DT)}, poses=0).usage < 0.3
    assert study(two(0.0, "RK4"), {"turn": pd(kp, 0.3 * kp * DT)}, poses=0).usage > 1.0
    damped = study(two(0.0, "RK4"), {"turn": pd(1.0, 0.4)}, poses=0)
    assert damped.usage == pytest.approx(0.4 * DT / INERTIA / 2, rel=0.03)


@pytest.mark.parametrize("delay", [1, 2, 5])
def test_a_late_joint_has_the_share_of_the_roots(delay):
    kp, kd = 1.0, 0.04
    late = [actuon.DelaySensorConfig(delay=delay * DT)]
    found = study(two(), {"turn": pd(kp, kd, sensors=late)}, poses=0)
    for factor, is_stable in ((0.92, True), (1.05, False)):
        scale = factor / found.usage
        assert (largest_root(scale * kp, scale * kd, INERTIA, DT, delay) < 1.0) == is_stable
    margin = study(two(), {"turn": pd(kp, kd)}, poses=0).joints[0].delay_margin
    steps = round(margin / DT)
    assert largest_root(kp, kd, INERTIA, DT, steps) < 1.0 < largest_root(kp, kd, INERTIA, DT, steps + 2)


def test_joints_that_nothing_couples_have_shares_of_their_own():
    found = study(two(), {"turn": pd(100.0, 10.0), "lift": pd(100.0, 10.0)}, poses=4)
    turn, lift = found.joints
    assert turn.slides is False
    assert lift.slides is True
    assert found.usage == turn.usage > 10.0
    np.testing.assert_allclose(lift.usage, (10.0 * DT + 100.0 * DT**2 / 2) / 0.5 / 2, rtol=1e-4)
    assert lift.armature_needed == lift.armature == 0.0
    assert (lift.stable_kp, lift.stable_kd) == (pytest.approx(100.0), pytest.approx(10.0))
    alone = study(two(), {"lift": pd(100.0, 10.0)}, poses=4).joints[0]
    assert (lift.largest_kp, lift.largest_kd) == pytest.approx((alone.largest_kp, alone.largest_kd))


def test_what_makes_a_robot_stable_does():
    """The largest gains, the armature and the time step that are named put a robot to its limit."""
    model = model_of("arm", dt=0.01)
    with MujocoSimulation(model) as simulation:
        gains = gains_of(Articulation(simulation.robots[0].path))
        with driven(simulation, gains) as actuators:
            first = stability_of(actuators.articulation, actuators.actuators)
    assert first.usage > 1.3
    assert first.usage > first.usage_at_start
    lowered = {joint.name: (joint.stable_kp, joint.stable_kd) for joint in first.joints}
    assert any(lowered[name] == pytest.approx(own) for name, own in gains.items())
    usages = []
    for own, name, values in (
        (lowered, None, None),
        (gains, "armature", [joint.armature_needed for joint in first.joints]),
        (gains, "dt", first.largest_dt),
    ):
        with MujocoSimulation(model, dt=values if name == "dt" else None) as simulation:
            if name == "armature":
                Articulation(simulation.robots[0].path).set_dof_armatures(values)
            with driven(simulation, own) as actuators:
                usages.append(stability_of(actuators.articulation, actuators.actuators).usage)
    np.testing.assert_allclose(usages, 1.0, rtol=0.03)


@pytest.mark.parametrize("gain", ["kp", "kd"])
def test_raising_a_gain_to_its_largest_value_brings_the_robot_to_the_limit(gain):
    model = model_of("quadruped")
    with MujocoSimulation(model) as simulation:
        gains = gains_of(Articulation(simulation.robots[0].path))
        with driven(simulation, gains) as actuators:
            first = stability_of(actuators.articulation, actuators.actuators)
        joint = first.joints[2]
        kp, kd = gains[joint.name]
        changed = {joint.name: (joint.largest_kp, kd) if gain == "kp" else (kp, joint.largest_kd)}
        with driven(simulation, gains | changed) as actuators:
            raised = stability_of(actuators.articulation, actuators.actuators)
    assert first.usage < 0.3
    np.testing.assert_allclose(raised.usage, 1.0, rtol=1e-3)
    assert max(raised.joints, key=lambda each: each.usage).name == joint.name


@pytest.mark.parametrize("name", ["arm", "quadruped"])
def test_newton_and_mujoco_agree(name):
    found = []
    for make, ending in ((MujocoSimulation, "xml"), (NewtonSimulation, "usda")):
        with make(ASSETS / f"{name}.{ending}") as simulation:
            path = simulation.robots[0].path
            with ArticulationActuators(path, simulation=simulation) as actuators:
                found.append(stability_of(actuators.articulation, actuators.actuators, poses=4))
    assert found[0].usage == pytest.approx(max(joint.usage for joint in found[0].joints))
    ours, theirs = (np.array([(each.inertia, each.usage, each.kp, each.kd) for each in one.joints]) for one in found)
    np.testing.assert_allclose(ours, theirs, rtol=0.01)
    assert found[0].largest_dt == pytest.approx(found[1].largest_dt, rel=0.01)


def test_several_environments_count_with_their_stiffest_actuator():
    kp = actuon.ControllerPD(kp=[10.0, 30.0, 20.0], kd=[0.1, 0.1, 0.1])
    found = answer({"turn": ActuatorConfig(kp)}, num_envs=3)
    assert found.kp.tolist() == pytest.approx([30.0, 0.0], rel=1e-4)


def test_gains_are_those_of_the_whole_chain():
    gear = actuon.GearTransmissionConfig(ratio=10.0)
    limit = actuon.MaxEffortClampingConfig(0.3)
    found = answer({"turn": pd(50.0, 0.5, transmission=gear, clamping=[limit]), "lift": pd(2000.0, 3.0)})
    np.testing.assert_allclose(found.kp, [50.0, 2000.0], rtol=1e-3)
    np.testing.assert_allclose(found.kd, [0.5, 3.0], rtol=1e-3)
    np.testing.assert_allclose([found.lowest[0], found.highest[0]], [-3.0, 3.0], rtol=1e-5)
    assert found.highest[1] == np.inf
    assert found.instant.all()


def test_gains_are_found_below_a_tight_limit_and_beside_a_gap():
    tight = pd(1e5, 100.0, clamping=[actuon.MaxEffortClampingConfig(1.0)])
    gap = pd(50.0, 0.5, transmission=actuon.BacklashTransmissionConfig(0.004, stiffness=5e3, motor_inertia=1e-3))
    found = answer({"turn": tight, "lift": gap})
    np.testing.assert_allclose([found.kp[0], found.kd[0]], [1e5, 100.0], rtol=0.02)
    assert found.kp[1] > 25.0


def test_an_encoder_counts_as_if_it_did_not_round():
    found = answer({"turn": pd(50.0, 0.5, sensors=[actuon.EncoderSensorConfig(resolution=2 * np.pi / 4096)])})
    np.testing.assert_allclose(found.kp[0], 50.0, rtol=0.2)


def test_lateness_of_a_chain_is_found_step_by_step():
    late = pd(50.0, 0.5, sensors=[actuon.DelaySensorConfig(delay=3 * DT)])
    found = answer({"turn": late, "lift": pd(20.0, 1.0, delay=actuon.DelayConfig(4))})
    assert found.stiffness.shape == (1, 4, 2)
    np.testing.assert_allclose(found.stiffness[0, :, 0], [0.0, 0.0, 0.0, 50.0], atol=1e-2)
    np.testing.assert_allclose(
        found.damping[0, :, 1], [1.0, 0.0, 0.0, 0.0], atol=1e-3
    )  # a command is late, not its loop
    assert found.instant.tolist() == [False, True]
    lag = answer({"turn": pd(50.0, 0.5, sensors=[actuon.LowPassSensorConfig(time_constant=0.01)])})
    assert 4 < lag.stiffness.shape[1] <= MEMORY
    np.testing.assert_allclose(lag.kp[0], 50.0, rtol=0.05)


def test_a_controller_that_is_held_answers_in_its_own_phase_only():
    found = answer({"turn": pd(50.0, 0.5, control_every=3)})
    assert found.stiffness.shape == (3, 3, 2)
    np.testing.assert_allclose(found.stiffness[0, :, 0], 50.0, rtol=1e-3)
    assert not found.stiffness[1:].any()
    np.testing.assert_allclose(found.kp[0], 50.0, rtol=1e-3)


def test_an_integral_does_not_count_as_stiffness():
    found = answer({"turn": ActuatorConfig(actuon.PIDControlConfig(kp=50.0, ki=20.0, kd=0.5))})
    np.testing.assert_allclose([found.kp[0], found.kd[0]], [50.0, 0.5], rtol=0.01)


def test_a_gain_of_nan_is_refused_with_the_joint():
    pairs = [(pd(1.0, 0.1), "lift")]
    with MujocoSimulation(two()), ArticulationActuators.from_actuators("base", pairs) as actuators:
        actuators.actuators[0].controller.kp.fill_(float("nan"))
        with pytest.raises(actuon.SimulationError, match="efforts at rest are NaN or infinite at lift"):
            stability_of(actuators.articulation, actuators.actuators)


@pytest.mark.parametrize("chain", ["no delay", "1 step of delay", "every 4th step"])
@pytest.mark.parametrize("name", ["arm", "quadruped"])
def test_shipped_robots_diverge_where_it_is_predicted(name, chain):
    model = model_of(name)
    ratio, _ = found_by_predicted(model, CHAINS[chain](model))
    assert 0.9 < ratio < 1.1


@pytest.mark.parametrize("name", ["agility_cassie", "universal_robots_ur5e"])
def test_public_robots_diverge_where_it_is_predicted(name):
    """One with loops, and one whose worst pose is far from where it starts."""
    public_robot(name)
    ratio, _ = found_by_predicted(model_of(name, "IMPLICITFAST", "worst"), pose="worst", rounds=5)
    assert 0.9 < ratio < 1.1


@pytest.mark.parametrize(("integrator", "kp", "is_stable"), [
    ("implicitfast", 1200.0, True), ("implicitfast", 1400.0, False), ("discrete", 1e5, True)
])  # fmt: skip
def test_implicit_efforts_need_stiffness_below_what_their_damping_holds(integrator, kp, is_stable):
    """Under implicitfast, kp·h² < 4 I + 2 h kd; where derivatives by position are taken in too, anything is stable."""
    kd = 0.5
    spec = mujoco.MjSpec.from_string(TWO.replace("DAMPING", "0"))
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    with MujocoSimulation(spec) as simulation:
        made = ArticulationActuators.from_actuators("base", [(pd(kp, kd), "turn")], effort_mode="implicit")
        with made as actuators:
            found = actuon.check(actuators, poses=0)
            expected = kp * DT**2 / (4 * INERTIA + 2 * DT * kd) if integrator == "implicitfast" else 0.0
            assert found.rows[0].usage == pytest.approx(expected, rel=1e-4)
            assert found.stable == is_stable
            assert found.rows[0].is_implicit
            assert all("as MuJoCo's discrete" in problem for problem in found.problems)
            actuators.articulation.set_dof_position_targets(0.1, dof_indices=[0])
            try:
                simulation.step(1000)
                assert np.abs(actuators.articulation.get_dof_velocities().numpy()[0, 0]) < 1e-3
            except actuon.SimulationError:
                assert not is_stable


@pytest.mark.parametrize(("make", "ending"), [(MujocoSimulation, "xml"), (NewtonSimulation, "usda")])
def test_implicit_efforts_are_the_same_before_and_after_a_step(make, ending):
    with make(ASSETS / f"arm.{ending}") as simulation:
        path = simulation.robots[0].path
        with ArticulationActuators(path, simulation=simulation, effort_mode="implicit") as actuators:
            before = actuon.check(actuators, poses=0)
            simulation.step()
            after = actuon.check(actuators, poses=0)
    assert before.stable
    assert before.robots[0].usage < 0.01
    np.testing.assert_allclose([row.usage for row in before.rows], [row.usage for row in after.rows], rtol=0.01)
