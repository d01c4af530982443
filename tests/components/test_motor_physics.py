# SPDX-License-Identifier: Apache-2.0
"""Physics that cannot cheat: energy, heat and time of motors, over random motion and at any step."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import motor_oracle

FREE = actuon.PDControlConfig(0.0, 0.0)
"""Gives the feedforward as the effort."""


class Bench:
    """Runs a chain on NumPy arrays; efforts come from the feedforward."""

    def __init__(self, n, *stages):
        self.actuator = actuon.Actuator(range(n), stages=stages, control_signal_attrs=lambda signal: signal)
        self.state = self.actuator.state()
        names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f")
        self.sim = {name: np.zeros(n, np.float32) for name in (*names, *self.actuator.control_signal_attrs.values())}

    def step(self, dt, **signals):
        self.sim["joint_f"][:] = 0.0
        for name, values in signals.items():
            self.sim[name][:] = values
        self.actuator.step(self.sim, self.sim, self.state, self.state, dt=dt)
        return self.sim["joint_f"].astype(np.float64)


HEAT = {
    "winding_thermal_resistance": 1.2,
    "housing_thermal_resistance": 3.5,
    "winding_time_constant": 15.0,
    "housing_time_constant": 900.0,
    "motor_constant": 0.25,
    "max_effort": 100.0,
}


@pytest.mark.parametrize("dt", [0.001, 0.05, 40.0])
def test_a_locked_joint_warms_as_the_two_exponentials_say(dt):
    """A constant loss, from ambient. At 1 ms each increment is far below the last digit of a temperature."""
    loss = 20.0
    effort = HEAT["motor_constant"] * np.sqrt(loss)
    heat = actuon.ClampingHeat(**HEAT, derating_start=500.0, derating_end=600.0, temperature_coefficient=0.0)
    bench = Bench(1, FREE, heat)
    steps = min(int(2000.0 / dt), 20000)
    for _ in range(steps + 1):
        bench.step(dt, joint_act=effort)
    inside, outside = 1.2, 3.5
    a, c = 1 / 15.0, 1 / 900.0
    b = c * outside / inside
    rates, vectors = np.linalg.eig(np.array([[-a, a], [b, -b - c]]))
    settled = np.array([loss * (inside + outside), loss * outside])
    rise = settled - (vectors * np.exp(rates * steps * dt)) @ np.linalg.solve(vectors, settled)
    found = np.array([bench.sim["temperature"][0], bench.sim["housing_temperature"][0]], np.float64) - 25.0
    np.testing.assert_allclose(found, rise, rtol=2e-5, atol=2e-5)


def test_power_in_is_power_out_and_losses(rng):
    """Voltage or current may limit, while hot; the counted energy is the sum of these losses."""
    n, dt = 64, 0.0005
    heat = actuon.ClampingHeat(**HEAT | {"winding_time_constant": 1.0}, derating_start=900.0, derating_end=1000.0)
    motor = actuon.ClampingVoltage(
        rng.uniform(0.05, 0.3, n), rng.uniform(0.1, 1.0, n), bus_voltage=24.0, max_current=rng.uniform(10, 40, n)
    )
    bench = Bench(n, FREE, heat, motor)
    total = np.zeros(n)
    for _ in range(4000):
        qd = rng.normal(0, 60, n).astype(np.float32)
        effort = bench.step(dt, joint_qd=qd, joint_act=rng.normal(0, 4, n))
        sim = {name: array.astype(np.float64) for name, array in bench.sim.items()}
        power_in = sim["voltage"] * sim["current"]
        power_out, losses = effort * qd, sim["copper_loss"]
        np.testing.assert_allclose(power_in, power_out + losses, rtol=1e-5, atol=1e-3)
        total += power_in * dt
    assert (sim["temperature"] > 30.0).all()
    np.testing.assert_allclose(sim["energy"], total, rtol=1e-5)


def test_a_motor_behind_spring_and_gear_sees_its_own_speed(rng):
    """A locked joint, while the motor winds up the spring: electrical power goes into copper, rotor and spring."""
    ratio, kt, resistance, stiffness, inertia, dt = 9.0, 0.05, 0.4, 200.0, 0.3, 0.001
    bench = Bench(
        1,
        FREE,
        actuon.TransmissionSeriesElastic(stiffness, inertia),
        actuon.TransmissionGear(ratio),
        actuon.ClampingVoltage(kt, resistance, 24.0),
    )
    drawn = lost = worked = before = 0.0
    for _ in range(300):
        bench.step(dt, joint_act=rng.normal(20.0, 5.0))
        state = bench.state.stages[1]
        position, speed = (float(a.numpy()[0]) for a in (state.motor_position, state.motor_speed))
        sim = {name: float(array[0]) for name, array in bench.sim.items()}
        np.testing.assert_allclose(sim["voltage"], resistance * sim["current"] + kt * sim["motor_velocity"], atol=1e-4)
        worked += ratio * kt * sim["current"] * (position - before)
        drawn, lost, before = drawn + sim["voltage"] * sim["current"] * dt, lost + sim["copper_loss"] * dt, position
    assert abs(sim["motor_velocity"]) > 1.0
    held = 0.5 * inertia * speed**2 + 0.5 * stiffness * position**2
    np.testing.assert_allclose(worked, held, rtol=1e-4)
    np.testing.assert_allclose(drawn, lost + held, rtol=0.02)  # the speed at the start of a step stands for it


def test_the_electrical_limit_is_the_envelope_of_a_dc_motor(rng):
    n = 500
    motor = actuon.ClampingVoltage(0.1, 0.5, bus_voltage=24.0, max_current=30.0)
    envelope = actuon.ClampingDCMotor(0.1 * 24.0 / 0.5, 24.0 / 0.1, 0.1 * 30.0)
    qd, effort = rng.normal(0, 300, n), rng.normal(0, 6, n)
    found = Bench(n, FREE, motor).step(0.001, joint_qd=qd, joint_act=effort)
    np.testing.assert_allclose(found, Bench(n, FREE, envelope).step(0.001, joint_qd=qd, joint_act=effort), atol=1e-5)


@pytest.mark.parametrize("slope", [np.inf, 900.0])
def test_a_current_loop_does_not_depend_on_the_step(slope):
    """Many steps end where one does."""
    fine, coarse = (Bench(1, FREE, actuon.EffectCurrentLoop(0.004, slope)) for _ in range(2))
    for effort in (5.0, -3.0, 0.5):
        for _ in range(50):
            reached = fine.step(0.0002, joint_act=effort)
        np.testing.assert_allclose(reached, coarse.step(0.01, joint_act=effort), rtol=1e-5, atol=1e-5)


def motion(rng, n, steps, dt):
    """Velocities, and positions that fit them as in a step with constant velocity."""
    qd = np.cumsum(rng.normal(0, 0.4, (steps, n)), axis=0).astype(np.float32)
    qd -= np.float32(qd.mean(axis=0))
    return np.concatenate([np.zeros((1, n)), np.cumsum(qd[:-1] * dt, axis=0)]), qd


@pytest.mark.parametrize("dt", [0.0005, 0.02])
def test_a_spring_returns_what_it_took(dt, rng):
    """Work of the motor = work on the joint + what motor and spring hold + what the damper took, which may be none."""
    n, steps = 32, 400
    stiffness, inertia = rng.uniform(50, 500, n), rng.uniform(0.01, 0.1, n)
    damping = np.where(np.arange(n) < 16, 0.0, 1.0)
    bench = Bench(n, FREE, actuon.TransmissionSeriesElastic(stiffness, inertia, damping))
    q, qd = motion(rng, n, steps, dt)
    held, received, given = [], np.zeros(n), np.zeros(n)
    for t in range(steps):
        effort = rng.normal(0, 5, n).astype(np.float32)
        before = bench.state.stages[1].motor_position.numpy().astype(np.float64) if t else q[0]
        force = bench.step(dt, joint_q=q[t], joint_qd=qd[t], joint_act=effort)
        after = bench.state.stages[1].motor_position.numpy().astype(np.float64)
        received += force * qd[t] * dt
        given += effort * (after - before)
        speed = bench.state.stages[1].motor_speed.numpy().astype(np.float64)
        deflection = after - (q[t] + qd[t].astype(np.float64) * dt)
        held.append(0.5 * inertia * speed**2 + 0.5 * stiffness * deflection**2)
    start = 0.5 * inertia * qd[0].astype(np.float64) ** 2
    lost = given - received - (held[-1] - start)
    scale = np.abs(given) + np.abs(received) + np.max(held, axis=0)
    assert (np.abs(lost[:16]) < 2e-4 * scale[:16]).all()
    assert (lost[16:] > 1e-3).all()


@pytest.mark.parametrize("stiffness", [1e8, 1e-3])
def test_a_spring_is_stable_at_any_stiffness_and_step(stiffness):
    for damping in (0.0, 3.0, 1e5):
        bench = Bench(1, FREE, actuon.TransmissionSeriesElastic(stiffness, 0.01, damping))
        efforts = [abs(bench.step(0.01, joint_act=1.0)[0]) for _ in range(300)]
        assert np.isfinite(efforts).all()
        assert max(efforts) < 50.0


def test_backlash_creates_no_energy(rng):
    """The joint gets at most the motor's work, less the energy in motor and teeth. It crosses gaps."""
    n, steps, dt = 48, 600, 0.001
    gap, stiffness, inertia = rng.uniform(0, 0.02, n), 10 ** rng.uniform(2, 6, n), rng.uniform(0.005, 0.05, n)
    bench = Bench(n, FREE, actuon.TransmissionBacklash(gap, stiffness, inertia, rng.uniform(0, 5, n)))
    q, qd = motion(rng, n, steps, dt)
    start, received, given, sides = 0.5 * inertia * np.float64(qd[0]) ** 2, 0.0, 0.0, []
    for t in range(steps):
        effort = (8.0 * np.sin(0.05 * t + np.arange(n))).astype(np.float32)
        force = bench.step(dt, joint_q=q[t], joint_qd=qd[t], joint_act=effort)
        state = bench.state.stages[1]
        speed, position = (a.numpy().astype(np.float64) for a in (state.motor_speed, state.motor_position))
        received += force * qd[t] * dt
        given += effort * speed * dt
        depth = np.maximum(np.abs(position - (q[t] + np.float64(qd[t]) * dt)) - gap / 2, 0.0)
        holding = 0.5 * inertia * speed**2 + 0.5 * stiffness * depth**2
        made = received + holding - start - given
        assert (made < 1e-3 * (1.0 + np.abs(given) + np.abs(received)) + stiffness * 1e-6 * depth).all()
        sides.append(np.sign(force))
    assert (np.min(sides, axis=0) == -1).all()
    assert (np.max(sides, axis=0) == 1).all()
    assert (np.array(sides) == 0).any()


def test_a_quantised_encoder_is_unbiased(rng):
    """Of positions at random, the mean error is that of so many draws; no error is above half a step."""
    n, resolution = 40000, 2 * np.pi / 1000
    bench = Bench(n, actuon.SensorEncoder(resolution), actuon.ControllerPD(1.0, 0.0))
    q = rng.uniform(-3, 3, n).astype(np.float32)
    error = -bench.step(0.001, joint_q=q) - q
    assert np.abs(error).max() < resolution / 2 + 1e-6
    assert abs(error.mean()) < 4 * resolution / np.sqrt(12 * n)
    np.testing.assert_allclose(error.std(), resolution / np.sqrt(12), rtol=0.02)


def test_steps_of_an_encoder_too_fine_for_32_bits_change_nothing():
    q = np.array([0.3, 1.7, -2.0, 3e4], np.float32)
    for resolution in (1e-30, 1e-13, 1e-12, 1e-9):
        bench = Bench(4, actuon.SensorEncoder(resolution), actuon.ControllerPD(1.0, 0.0))
        np.testing.assert_allclose(-bench.step(0.001, joint_q=q), q, rtol=1e-6)


def test_a_broken_state_is_not_hidden_in_a_gap():
    bench = Bench(2, FREE, actuon.TransmissionBacklash(0.1, 100.0, 0.01))
    bench.step(0.001)
    assert np.isnan(bench.step(0.001, joint_q=[np.nan, 0.0])).tolist() == [True, False]
    assert np.isnan(bench.step(0.001, joint_q=0.0)).tolist() == [True, False]


def test_what_a_limit_offers_must_stand_before_who_uses_it():
    motor = actuon.VoltageClampingConfig(0.1, 0.2)
    servo = actuon.ServoPWMControlConfig(1.0, 1.0, 1.0, 12.0)
    battery = actuon.BatteryClampingConfig(24.0)
    with pytest.raises(actuon.StructureError, match="ClampingBattery is after ClampingVoltage.*supply_voltage"):
        Bench(1, FREE, motor, battery)
    with pytest.raises(actuon.StructureError, match="ClampingHeat is after ClampingVoltage.*its signal 'temperature'"):
        Bench(1, FREE, motor, actuon.HeatClampingConfig(**HEAT))
    with pytest.raises(actuon.StructureError, match="ClampingBattery is after ControllerServoPWM"):
        actuon.Actuator([0], servo, clamping=[battery])
    Bench(1, battery, servo)


def test_noise_is_the_same_again_and_of_its_own_for_each_dof():
    n, steps = 300, 40
    bench = Bench(n, FREE, actuon.EffectNoise(noise=0.5, bias=0.2, seed=11))
    first = np.array([bench.step(0.001) for _ in range(steps)])
    bench.state.reset()
    np.testing.assert_array_equal(first, [bench.step(0.001) for _ in range(steps)])
    other = Bench(n, FREE, actuon.EffectNoise(noise=0.5, bias=0.2, seed=12))
    assert abs(np.corrcoef(first.ravel(), [x for _ in range(steps) for x in other.step(0.001)])[0, 1]) < 0.05
    assert abs(np.corrcoef(first[:, :-1].ravel(), first[:, 1:].ravel())[0, 1]) < 0.05
    assert abs(first.std() - np.hypot(0.5, 0.2)) < 0.03
    half = np.arange(n) < 150
    bench.state.reset(wp.array(half))
    again = bench.step(0.001)
    np.testing.assert_array_equal(again[half], first[0][half])
    assert (again[~half] != first[0][~half]).all()


def test_a_battery_settles_at_its_resistance_and_runs_empty():
    """Two motors at stall are a resistance; then it is drawn until there is nothing left."""
    battery = actuon.ClampingBattery(24.0, 0.2, capacity=3.0, empty_voltage=20.0)
    bench = Bench(1, FREE, battery, actuon.ClampingVoltage(0.1, 0.3))
    for _ in range(20):
        bench.step(1e-6, joint_act=100.0)
    np.testing.assert_allclose(bench.sim["supply_voltage"], 24.0 * 0.3 / 0.5, rtol=1e-4)
    for _ in range(200):
        bench.step(0.001, joint_act=100.0)
    assert bench.sim["supply_voltage"] == 0.0
    assert bench.sim["joint_f"] == 0.0
    oracle = motor_oracle.ClampingBattery(1, full_voltage=24.0, inner_resistance=0.2, capacity=3.0, empty_voltage=20.0)
    oracle.charge = np.array([1.5])
    signals = {}
    oracle.law(signals, 0.001)
    assert signals["supply_voltage"] == 22.0


@pytest.mark.parametrize("resistance", [0.0, 0.2])
def test_a_battery_is_not_charged_beyond_full(resistance):
    """A motor draws 1 C, then brakes for longer than it takes to give it back, then draws again."""
    figures = {"full_voltage": 24.0, "inner_resistance": resistance, "capacity": 20.0, "empty_voltage": 18.0}
    bench = Bench(1, FREE, actuon.ClampingBattery(**figures), actuon.ClampingVoltage(0.1, 0.3))
    battery = motor_oracle.ClampingBattery(1, **figures)
    motor = motor_oracle.ClampingVoltage(
        1, torque_constant=0.1, resistance=0.3, bus_voltage=np.inf, max_current=np.inf, temperature_coefficient=0.0
    )
    charges = []
    for step in range(3000):
        effort, speed = (2.0, 0.0) if step < 200 or step > 2500 else (-2.0, 100.0)
        bench.step(0.001, joint_act=effort, joint_qd=speed)
        signals = {"effort": np.array([effort]), "qd": np.array([speed])}
        for stage in (battery, motor):
            stage.law(signals, 0.001)
        battery.closing(signals, 0.001)
        for name in ("supply_voltage", "charge"):
            np.testing.assert_allclose(bench.sim[name], signals[name], rtol=1e-4, atol=1e-4)
        assert 18.0 <= bench.sim["supply_voltage"] <= 24.0
        charges.append(bench.sim["charge"][0])
    assert charges[200] > 0.9
    assert charges[2500] < (1e-6 if resistance == 0.0 else 0.2)  # the last of it flows in ever more slowly
    assert charges[-1] > charges[2500] + 2.0


REFUSED = [
    (lambda: actuon.ClampingHeat(**HEAT | {"winding_time_constant": 0.0}), "winding_time_constant: got 0.0; .* > 0"),
    (lambda: actuon.ClampingHeat(**HEAT | {"housing_time_constant": -1.0}), "housing_time_constant: got -1.0; .* > 0"),
    (lambda: actuon.ClampingHeat(**HEAT | {"winding_thermal_resistance": 0.0}), "winding_thermal_resistance: got 0"),
    (lambda: actuon.HeatClampingConfig(**HEAT | {"housing_thermal_resistance": -2.0}), "housing_thermal_resistance"),
    (
        lambda: actuon.ClampingHeat(**HEAT, derating_start=130.0),
        "derating_start is 130 and derating_end 120; derating_",
    ),
    (lambda: actuon.ClampingHeat(**HEAT, trip_temperature=[130.0, 90.0]), "derating_end is 120 .*90 at index 1"),
    (
        lambda: actuon.ClampingHeat(**HEAT, ambient=200.0),
        "ambient is 200 and derating_start 100; ambient must",
    ),
    (lambda: actuon.ClampingHeat(**HEAT, derated_effort=101.0), "derated_effort is 101 and max_effort 100"),
    (lambda: actuon.ClampingVoltage(0.0, 1.0), "torque_constant: got 0.0; must be finite and ≥ 1e-06"),
    (lambda: actuon.ClampingVoltage(0.1, -1.0), "resistance: got -1.0; must be finite and ≥ 1e-06"),
    (lambda: actuon.ClampingVoltage(0.1, 1.0, -24.0), "bus_voltage: got -24.0; must be ≥ 0"),
    (lambda: actuon.BatteryClampingConfig(20.0, empty_voltage=24.0), "empty_voltage is above full_voltage"),
    (lambda: actuon.ClampingBattery([24.0, 12.0], empty_voltage=18.0), "above full_voltage at index 1"),
    (lambda: actuon.ClampingBattery(24.0, capacity=0.0), "capacity: got 0.0; must be > 0"),
    (lambda: actuon.EffectCurrentLoop(0.01, 0.0), "max_slope: got 0.0; must be > 0"),
    (lambda: actuon.TransmissionSeriesElastic(0.0, 0.1), "stiffness: got 0.0; must be finite and > 0"),
    (lambda: actuon.TransmissionBacklash(-0.1, 1e4, 0.1), "gap: got -0.1; must be finite and ≥ 0"),
    (lambda: actuon.TransmissionBacklash(0.1, 1e4, 0.0), "motor_inertia: got 0.0; must be finite and > 0"),
    (lambda: actuon.EffectRipple(ripple=1.5), "ripple: got 1.5; must be finite and ≥ 0 and ≤ 1"),
    (lambda: actuon.EffectNoise(noise=-1.0), "noise: got -1.0; must be finite and ≥ 0"),
    (lambda: actuon.SensorEncoder(resolution=-0.1), "resolution: got -0.1"),
    (lambda: actuon.ControllerServoPWM(1.0, 1.0, 1.0, 12.0, max_duty=1.2), "max_duty: got 1.2; .* ≤ 1"),
    (lambda: dynamixel(position_p_gain=20000), "position_p_gain: got 20000; must be a whole number ≥ 0 and ≤ 16383"),
    (lambda: dynamixel(position_p_gain=0.5), "position_p_gain: got 0.5; must be a whole number"),
    (lambda: dynamixel(position_p_gain=800, pwm_limit=886), "pwm_limit: got 886; .*≤ 885"),
    (lambda: dynamixel(position_p_gain=800, period=0.0), "period: got 0.0; must be finite and > 0"),
    (lambda: feetech(300), "p_coefficient: got 300; must be a whole number ≥ 0 and ≤ 254"),
]


def dynamixel(**registers):
    return actuon.ServoPWMControlConfig.from_dynamixel(
        **registers, torque_constant=1.5, resistance=3.0, bus_voltage=12.0
    )


def feetech(p_coefficient, **registers):
    return actuon.ServoPWMControlConfig.from_feetech(
        p_coefficient, **registers, torque_constant=0.8, resistance=2.0, bus_voltage=7.4
    )


@pytest.mark.parametrize(("make", "match"), REFUSED, ids=[match[:30] for _, match in REFUSED])
def test_motors_that_cannot_be(make, match):
    with pytest.raises(actuon.ParameterError, match=match):
        make()


def test_servos_from_their_registers():
    """By the definitions: at 885 of PWM for one count of error, P is 128·885; the same in rad and duty is ours."""
    counts = 4096 / (2 * np.pi)
    servo = dynamixel(position_p_gain=1280, position_i_gain=655, position_d_gain=16, pwm_limit=443, period=0.002)
    np.testing.assert_allclose(servo.kp * 885, 10 * counts, rtol=1e-6)
    np.testing.assert_allclose(servo.ki * 0.002 * 885, 655 / 65536 * counts, rtol=1e-6)
    np.testing.assert_allclose(servo.kd / 0.002 * 885, counts, rtol=1e-6)
    np.testing.assert_allclose(servo.max_duty, 443 / 885, rtol=1e-6)
    np.testing.assert_allclose(feetech(32).kp, 0.166 * 32, rtol=1e-6)
    np.testing.assert_allclose(feetech(32, dead_zone=2).dead_band, 2 / counts, rtol=1e-6)
