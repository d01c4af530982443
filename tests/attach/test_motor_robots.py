# SPDX-License-Identifier: Apache-2.0
"""Motors of robots: one battery for each robot, and trips that are said."""

from __future__ import annotations

import logging

import mujoco
import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import motor_oracle

MJCF = """<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body name="robot">
  <joint name="hip" axis="0 1 0"/><geom size="0.1" mass="1"/>
  <body name="shank" pos="0 0 -0.3"><joint name="knee" axis="0 1 0"/><geom size="0.05" mass="0.5"/></body>
</body></worldbody></mujoco>"""
BATTERY = {"full_voltage": 24.0, "inner_resistance": 0.08, "capacity": 4.0, "empty_voltage": 18.0}
MOTOR = {"torque_constant": 0.4, "resistance": 0.6, "bus_voltage": 1.0, "max_current": 30.0}
MOTOR["temperature_coefficient"] = 0.0
STEPS, ENVS = 40, 3


def on_battery(*effects, **battery):
    clamps = [actuon.BatteryClampingConfig(**BATTERY | battery), actuon.VoltageClampingConfig(**MOTOR)]
    return actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 0.0), clamps, effects=effects)


@pytest.fixture
def simulation(tmp_path):
    (tmp_path / "robot.xml").write_text(MJCF)
    with actuon.MujocoSimulation(tmp_path / "robot.xml", num_envs=ENVS) as simulation:
        yield simulation


def test_all_motors_of_a_robot_hang_on_one_battery(simulation, tmp_path):
    """Two actuators may share it; robots do not; a reset of one and a saved state keep the others."""
    pairs = [(on_battery(), "hip"), (on_battery(actuon.RippleEffectConfig()), "knee")]
    actuators = actuon.ArticulationActuators.from_actuators("robot", pairs)
    assert len(actuators.actuators) == 2
    robots, path = actuators.articulation, tmp_path / "state.npz"
    targets = np.array([[0.5, -0.4], [3.0, 2.0], [0.0, 3.0]])
    robots.set_dof_position_targets(targets)

    kinds = ((motor_oracle.ClampingBattery, BATTERY), (motor_oracle.ClampingVoltage, MOTOR))
    oracles = [[kind(2, **values) for kind, values in kinds] for _ in range(ENVS)]
    for battery, _ in oracles:
        battery.shared = True
    seen = []
    for t in range(STEPS):
        if t == 20:
            actuators.save_state(path)
            saved = simulation.save_state()
            actuators.reset([1])
            for stage in oracles[1]:
                stage.reset(np.ones(2, bool))
        q, qd = robots.get_dof_positions(), robots.get_dof_velocities()
        simulation.step()
        signals = actuators.telemetry().signals
        found = {name: signals[name] for name in ("supply_voltage", "charge", "current", "energy")}
        for env, (battery, motor) in enumerate(oracles):
            s = {"effort": 60.0 * (targets[env] - q[env]), "qd": np.float64(qd[env])}
            battery.law(s, simulation.dt)
            motor.law(s, simulation.dt)
            battery.closing(s, simulation.dt)
            for name in found:
                np.testing.assert_allclose(found[name][env], s[name], rtol=2e-4, atol=2e-4, err_msg=f"{t} {env} {name}")
        seen.append(found["supply_voltage"])
    lowest = np.min(seen, axis=(0, 2))
    assert (lowest < 23.0).all()
    assert len(set(lowest)) == ENVS

    simulation.load_state(saved)
    simulation.step()
    np.testing.assert_array_equal(actuators.telemetry().signals["supply_voltage"][[0, 2]], seen[20][[0, 2]])
    simulation.load_state(saved)
    actuators.load_state(path)
    simulation.step()
    np.testing.assert_array_equal(actuators.telemetry().signals["supply_voltage"][[0, 2]], seen[20][[0, 2]])


class OnBattery(actuon.lab.IdealPDActuator):
    def make_stages(self):
        clamps = [actuon.ClampingBattery(**BATTERY), actuon.ClampingVoltage(**MOTOR)]
        return [*super().make_stages()[:1], *clamps]


@pytest.mark.parametrize("engine", [actuon.MujocoSimulation, actuon.NewtonSimulation])
def test_a_second_set_of_actuators_on_a_battery_is_refused(engine, tmp_path):
    """Before anything has changed; after the first is closed, another may have the battery."""
    if engine is actuon.NewtonSimulation:
        pytest.importorskip("newton")
    (tmp_path / "robot.xml").write_text(MJCF)
    cfg = actuon.lab.IdealPDActuatorCfg(["knee"], stiffness=60.0, damping=0.0, class_type=OnBattery)
    with engine(tmp_path / "robot.xml", num_envs=ENVS):
        robots = actuon.Articulation("robot")
        hips = actuon.ArticulationActuators.from_actuators("robot", [(on_battery(), "hip")])
        before = robots.get_dof_armatures().numpy()
        told = "joint 'knee' of '.*robot.*' has a battery, and so has joint 'hip', which other actuators drive"
        with pytest.raises(actuon.SimulationError, match=told):
            actuon.ArticulationActuators.from_actuators("robot", [(on_battery(), "knee")])
        with pytest.raises(actuon.SimulationError, match=told):
            actuon.lab.ActuatorGroups(robots, {"knees": cfg})
        np.testing.assert_array_equal(robots.get_dof_armatures().numpy(), before)
        pd = actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 0.0))
        actuon.ArticulationActuators.from_actuators("robot", [(pd, "knee")]).close()
        hips.close()
        actuon.lab.ActuatorGroups(robots, {"knees": cfg}).close()


def test_a_reset_charges_the_battery_of_a_robot(simulation):
    pairs = [(on_battery(), "hip"), (on_battery(), "knee")]
    actuators = actuon.ArticulationActuators.from_actuators("robot", pairs)
    actuators.articulation.set_dof_position_targets(3.0)
    simulation.step(30)
    actuators.reset([2])
    simulation.step()
    charge = actuators.telemetry().signals["charge"]
    np.testing.assert_array_equal(charge[:, 1], charge[:, 0])
    assert charge[2, 0] < 0.1 * charge[0, 0]


def test_motors_that_do_not_agree_on_their_battery(simulation):
    other = on_battery(full_voltage=25.0)
    with pytest.raises(actuon.ParameterError, match="battery 0: full_voltage is 24 at one of its motors and 25"):
        actuon.ArticulationActuators.from_actuators("robot", [(on_battery(), "hip"), (other, "knee")])


def test_a_battery_is_shared_in_graphs_and_on_tapes():
    """∂effort/∂target of another DOF on the same battery, against differences; replays equal steps."""
    n = 4

    def chain(**options):
        clamps = [actuon.ClampingBattery(**BATTERY), actuon.ClampingVoltage(**MOTOR | {"max_current": 60.0})]
        actuator = actuon.Actuator(range(n), actuon.ControllerPD(60.0, 0.0), clamping=clamps, **options)
        return actuator, actuon.SharedBattery([actuator], [[0, 1, 0, 1]])

    def arrays(targets, requires_grad=False):
        given = {"joint_q": [0.0] * n, "joint_qd": [0.0, 5.0, -3.0, 1.0], "joint_target_q": targets}
        given |= dict.fromkeys(("joint_target_qd", "joint_f"), [0.0] * n)
        return {name: wp.array(v, dtype=wp.float32, requires_grad=requires_grad) for name, v in given.items()}

    targets = [0.1, 0.05, 5.0, 0.0]  # the third asks for more than there is

    def second_efforts(targets):
        actuator, battery = chain()
        state = actuator.state()
        for _ in range(2):
            sim = arrays(targets)
            actuator.step(sim, sim, state, state, dt=0.01)
            battery.share(state)
        return sim["joint_f"].numpy()

    actuator, battery = chain(requires_grad=True)
    states, sims = [actuator.state() for _ in range(3)], [arrays(targets, requires_grad=True) for _ in range(2)]
    with wp.Tape() as tape:
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=0.01)
            battery.share(states[t + 1])
    np.testing.assert_allclose(sims[1]["joint_f"].numpy(), second_efforts(targets), rtol=1e-6)
    tape.backward(grads={sims[1]["joint_f"]: wp.array([0.0, 0.0, 1.0, 0.0], dtype=wp.float32)})
    h = 0.01
    first = sims[0]["joint_target_q"].grad.numpy()
    expected = (second_efforts([0.1 + h, *targets[1:]])[2] - second_efforts([0.1 - h, *targets[1:]])[2]) / (2 * h)
    np.testing.assert_allclose(first[0], expected, rtol=0.02)
    assert first[0] < 0.0
    assert first[1] == first[3] == 0.0

    actuator, battery = chain()
    state, sim = actuator.state(), arrays(targets)
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, state, state, dt=0.01)
        battery.share(state)
    state.reset()
    for _ in range(2):
        wp.capture_launch(captured.graph)
    np.testing.assert_array_equal(sim["joint_f"].numpy(), second_efforts(targets))


def test_a_shared_battery_refuses_what_has_none():
    plain = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0))
    clamps = [actuon.ClampingBattery(**BATTERY), actuon.ClampingVoltage(**MOTOR)]
    actuator = actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 0.0), clamping=clamps)
    with pytest.raises(actuon.StructureError, match="has 0 batteries; must have one ClampingBattery"):
        actuon.SharedBattery([plain])
    with pytest.raises(actuon.StructureError, match="got no actuators"):
        actuon.SharedBattery([])
    with pytest.raises(actuon.ArrayError, match=r"batteries\[0\]"):
        actuon.SharedBattery([actuator], [[0]])
    with pytest.raises(actuon.StructureError, match="batteries: got 2; must be"):
        actuon.SharedBattery([actuator], [[0, 0], [1, 1]])
    battery = actuon.SharedBattery([actuator])
    with pytest.raises(actuon.StateError, match="got 0 states"):
        battery.share()
    with pytest.raises(actuon.StateError, match="share: got a state of another actuator"):
        battery.share(plain.state())
    with pytest.raises(actuon.StructureError, match="closing function of ClampingBattery needs 'current'"):
        actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), clamping=[actuon.ClampingBattery(24.0)])


def test_every_joint_of_every_robot_has_noise_of_its_own(simulation):
    """Two actuators may have equal seeds."""
    noise, ripple = actuon.NoiseEffectConfig(bias=1.0), actuon.RippleEffectConfig()
    chains = [actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0), effects=e) for e in ([noise], [noise, ripple])]
    robots = actuon.ArticulationActuators.from_actuators("robot", [(chains[0], "hip"), (chains[1], "knee")])
    assert len(robots.actuators) == 2
    simulation.step()
    first = robots.telemetry().applied_effort.copy()
    assert len(np.unique(first)) == first.size
    robots.reset()
    simulation.step()
    np.testing.assert_array_equal(robots.telemetry().applied_effort, first)


PAIR = """<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody>
  <body name="left"><joint name="joint" axis="0 1 0"/><geom size="0.1" mass="1"/></body>
  <body name="right" pos="0 3 0"><joint name="other" axis="0 1 0"/><geom size="0.1" mass="1"/></body>
</worldbody></mujoco>"""


@pytest.fixture
def pair():
    """Two robots in each environment."""
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PAIR), num_envs=ENVS) as simulation:
        yield simulation


def noisy_efforts(simulation, paths, chain):
    """Efforts of attachments side by side, one for each path, over some steps, each of shape (steps, N)."""
    joints = {"left": "joint", "right": "other"}
    simulation.start()
    simulation.reset()
    attached = [
        actuon.ArticulationActuators.from_actuators(
            path, [(chain, joints[path.rpartition("/")[2]])], simulation=simulation
        )
        for path in paths
    ]
    seen = []
    for step in range(20):
        for actuators in attached:
            actuators.articulation.set_dof_position_targets(0.01 * step)
        simulation.step()
        seen.append([actuators.telemetry().applied_effort[:, 0].copy() for actuators in attached])
    for actuators in attached:
        actuators.close()
    return [np.array(efforts) for efforts in zip(*seen, strict=True)]


LATE = {"delay": 0.002, "spread": 0.02, "jitter": 0.01, "dropout": 0.1, "shortest_dt": 0.002}


@pytest.mark.parametrize(
    "chain",
    [
        actuon.ActuatorConfig(
            actuon.PDControlConfig(0.0, 0.0), effects=[actuon.NoiseEffectConfig(noise=0.3, bias=1.0)]
        ),
        actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0), delay=actuon.TimeDelayConfig(**LATE, seed=5)),
    ],
    ids=["noise", "lags"],
)
def test_robots_of_several_attachments_have_random_numbers_of_their_own(pair, chain):
    """Random numbers repeat, and do not change if another robot gets actuators."""
    left, right = noisy_efforts(pair, ["left", "right"], chain)
    everyone = np.hstack([left, right])
    assert len(np.unique(everyone.T, axis=0)) == 2 * ENVS
    for path, expected in (("left", left), ("right", right)):
        np.testing.assert_array_equal(noisy_efforts(pair, [path], chain)[0], expected)
    one_by_one = noisy_efforts(pair, [f"/World/envs/env_{env}/left" for env in range(ENVS)], chain)
    np.testing.assert_array_equal(np.hstack(one_by_one), left)
    alone = PAIR[: PAIR.index('<body name="right"')] + "</worldbody></mujoco>"
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(alone), num_envs=ENVS) as simulation:
        np.testing.assert_array_equal(noisy_efforts(simulation, ["left"], chain)[0], left)


def test_groups_of_several_robots_draw_from_one_seed_what_differs(pair):
    cfg = actuon.lab.DelayedPDActuatorCfg([".*"], stiffness=10.0, damping=0.0, effort_limit=9.0, max_delay=1000, seed=4)
    groups = [actuon.lab.ActuatorGroups(actuon.Articulation(name), {"all": cfg}) for name in ("left", "right")]
    models = [group["all"] for group in groups]
    assert [model.cfg.seed for model in models] == [4, 4]
    for model in models:
        model.randomize("stiffness", actuon.lab.Uniform(0.5, 1.5))
    drawn = [np.hstack([np.ravel(model.time_lags), np.ravel(model.stiffness)]) for model in models]
    assert (drawn[0] != drawn[1]).all()
    rng = np.random.default_rng(4)  # the first robot draws as it does alone
    np.testing.assert_array_equal(drawn[0][:ENVS], rng.integers(0, 1001, (ENVS, 1)).ravel())
    for group in groups:
        group.close()


HEAT = actuon.HeatClampingConfig(
    winding_thermal_resistance=1.0,
    housing_thermal_resistance=2.0,
    winding_time_constant=0.05,
    housing_time_constant=1.0,
    motor_constant=0.5,
    max_effort=10.0,
    derating_start=50.0,
    derating_end=60.0,
    derated_effort=9.0,
    trip_temperature=60.0,
)


def test_a_trip_is_said_once_with_joint_and_time(simulation, caplog):
    hot = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0), [HEAT])
    robots = actuon.ArticulationActuators.from_actuators("robot", [(hot, "hip"), (hot, "knee")])
    efforts = np.zeros((ENVS, 2))
    efforts[1:, 1] = 5.0
    robots.set_dof_feedforward_effort_targets(efforts)
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        for _ in range(60):
            simulation.step()
    (record,) = caplog.records
    assert record.name == "actuon.actuators"
    said = record.getMessage()
    path = robots.articulation.paths[1]
    assert f"the motor of joint 'knee' of '{path}', and of 1 more has tripped at 6" in said
    assert said.startswith("t = 0.0")
    assert said.endswith("it delivers no effort until it is reset")
    now = robots.telemetry()
    np.testing.assert_array_equal(now.signals["tripped"], [[0, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(now.applied_effort, np.zeros((ENVS, 2)))
    assert now.limited_by[1, 1] == "ClampingHeat"
    robots.reset([1])
    simulation.step()
    np.testing.assert_array_equal(robots.telemetry().applied_effort[:, 1], [0.0, 5.0, 0.0])
    caplog.clear()
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        simulation.step(60)
    assert [record.getMessage().count(path) for record in caplog.records] == [1]  # again, and it alone


def test_noise_and_lags_are_not_limits(simulation):
    """Noise and delays change efforts and clip none; the limit next to them clips and is named."""
    clamps = [actuon.MaxEffortClampingConfig(5.0)]
    effects = [actuon.NoiseEffectConfig(noise=0.1), actuon.CurrentLoopEffectConfig(0.01)]
    free = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 0.0), effects=effects)
    limited = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 0.0), clamps, effects=effects)
    robots = actuon.ArticulationActuators.from_actuators("robot", [(free, "hip"), (limited, "knee")])
    robots.articulation.set_dof_position_targets(np.array([[0.3, 0.3], [0.3, 0.3], [0.3, 3.0]]))
    simulation.step()
    told = robots.telemetry()
    assert (told.computed_effort != told.applied_effort).all()
    assert told.clipped.tolist() == [[False, False], [False, False], [False, True]]
    assert told.limited_by[2].tolist() == ["", "ClampingMaxEffort"]
