# SPDX-License-Identifier: Apache-2.0
"""Gears, linkages and coupled joints: their equations on all paths, and no energy out of nothing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, random_signals
from tests.support.oracle import braked_gear, gear, linkage
from tests.support.robot_files import add, robot

N = 70
TABLE = {
    "joint_positions": (-2.0, -0.7, 0.1, 0.9, 2.5),
    "motor_positions": (-9.0, -4.0, -2.5, 1.0, 11.0),
}


def gear_values(rng, n=N, backdrive=True, compensates=False):
    values = {
        "ratio": rng.uniform(3, 30, n) * rng.choice([-1, 1], n),
        "efficiency": rng.uniform(0.5, 1.0, n),
        "smoothing_velocity": rng.uniform(0.5, 40.0, n),
    }
    if backdrive:
        values["backdrive_efficiency"] = rng.uniform(0.3, 1.0, n)
    if compensates:
        values["compensates_losses"] = rng.integers(0, 2, n)
    return {name: array.astype(np.float32) for name, array in values.items()}


class Geared:
    """PD → linkage → gear → DC motor, with random values; and the same in NumPy. The linkage only where asked for."""

    def __init__(self, rng, n=N, with_linkage=False, backdrive=True, compensates=False):
        self.n = n
        self.values = {
            "kp": rng.uniform(1, 50, n),
            "kd": rng.uniform(0, 2, n),
            **gear_values(rng, n, backdrive, compensates),
            "saturation_effort": rng.uniform(0.5, 4, n),
            "velocity_limit": rng.uniform(50, 400, n),
            "max_motor_effort": rng.uniform(0.5, 3, n),
        }
        self.values = {name: array.astype(np.float32) for name, array in self.values.items()}
        if with_linkage:
            self.values |= {name: np.float32(column) for name, column in TABLE.items()}

    def stages(self):
        v = {name: wp.array(array) for name, array in self.values.items()}

        def built(kind):
            return kind(**{name: v[name] for name in kind.config.declared() if name in v})

        linkage = [built(actuon.TransmissionLinkage)] if "joint_positions" in v else []
        pd, motor = built(actuon.ControllerPD), built(actuon.ClampingDCMotor)
        return [pd, *linkage, built(actuon.TransmissionGear), motor]

    def actuator(self, staged=False, **options):
        return actuon.Actuator(range(self.n), stages=self.stages(), fused=not staged, **options)

    def oracle(self, signals):
        """Effort at the joint, and signals, each of shape (N,), in float64."""
        v = {name: array.astype(np.float64) for name, array in self.values.items()}
        q, qd, target_q, target_qd, feedforward = (signals[name].astype(np.float64) for name in SIGNALS)
        wanted = feedforward + v["kp"] * (target_q - q) + v["kd"] * (target_qd - qd)
        outer = np.ones(self.n)
        if "joint_positions" in v:
            _, outer = linkage(q, v["joint_positions"], v["motor_positions"])
        losses = [v["efficiency"], v.get("backdrive_efficiency", v["efficiency"]), v["smoothing_velocity"]]
        velocity = qd * outer * v["ratio"]
        motor_effort = wanted / outer / v["ratio"]
        knows = v.get("compensates_losses", np.zeros(self.n)) > 0
        motor_effort = np.where(knows, motor_effort / gear(velocity, motor_effort, *losses), motor_effort)
        most, stall, share = v["max_motor_effort"], v["saturation_effort"], velocity / v["velocity_limit"]
        low, high = (np.clip(stall * (side - share), -most, most) for side in (-1, 1))
        motor_effort = np.clip(motor_effort, low, high)
        effort = motor_effort * v["ratio"] * outer * gear(velocity, motor_effort, *losses)
        ratio = outer * v["ratio"]
        return effort, {"motor_velocity": velocity, "gear_ratio": ratio, "motor_effort": motor_effort}


def simulation(signals, requires_grad=False, extra=()):
    n = len(signals["joint_q"])
    sim = {name: wp.array(array, dtype=wp.float32, requires_grad=requires_grad) for name, array in signals.items()}
    return sim | {name: wp.zeros(n, dtype=wp.float32, requires_grad=requires_grad) for name in ("joint_f", *extra)}


def stepped(actuator, signals):
    """Effort and signals of one step."""
    sim = simulation(signals, extra=actuator.control_signal_attrs.values())
    for name in actuator.control_signal_attrs.values():
        sim[name].fill_(np.nan)
    actuator.step(sim, sim)
    return sim["joint_f"].numpy(), {name: sim[attr].numpy() for name, attr in actuator.control_signal_attrs.items()}


@pytest.fixture
def steps(rng):
    return [random_signals(N, rng) for _ in range(4)]


CHAINS = pytest.mark.parametrize("with_linkage", [False, True], ids=["gear", "linkage and gear"])


@CHAINS
def test_efforts_and_signals_equal_the_oracle_on_all_paths(with_linkage, rng, steps):
    chain = Geared(rng, with_linkage=with_linkage, compensates=with_linkage)
    offers = ("motor_velocity", "gear_ratio", "motor_effort")
    fused = chain.actuator(control_signal_attrs={name: f"the_{name}" for name in offers})
    assert fused.is_fused()
    others = [chain.actuator(staged, requires_grad=not staged) for staged in (True, False)]
    for signals in steps:
        effort, expected = chain.oracle(signals)
        found, offered = stepped(fused, signals)
        np.testing.assert_allclose(found, effort, rtol=2e-5, atol=2e-4)
        for name, values in expected.items():
            np.testing.assert_allclose(offered[name], values, rtol=2e-5, atol=2e-4, err_msg=name)
        for other in others:
            np.testing.assert_array_equal(stepped(other, signals)[0], found)


def test_without_a_figure_gears_are_driven_back_as_well_as_forwards(rng, steps):
    chain = Geared(rng, backdrive=False)
    actuator = chain.actuator()
    for signals in steps:
        np.testing.assert_allclose(stepped(actuator, signals)[0], chain.oracle(signals)[0], rtol=2e-5, atol=2e-4)


@CHAINS
def test_gradients_equal_differences_of_the_oracle(with_linkage, rng):
    n = 4
    chain = Geared(rng, n, with_linkage)
    signals = random_signals(n, rng)
    weights = rng.standard_normal(n).astype(np.float32)
    actuator = chain.actuator(requires_grad=True)
    sim = simulation(signals, requires_grad=True)
    tape = wp.Tape()
    with tape:
        actuator.step(sim, sim)
    tape.backward(grads={sim["joint_f"]: wp.array(weights)})
    exact = copy.deepcopy(chain)
    exact.values = {name: array.astype(np.float64) for name, array in chain.values.items()}
    double = {name: array.astype(np.float64) for name, array in signals.items()}

    def difference(array, i, h=1e-6):
        kept, found = array[i], []
        for sign in (1, -1):
            array[i] = kept + sign * h
            found.append(float(weights @ exact.oracle(double)[0]))
        array[i] = kept
        return (found[0] - found[1]) / (2 * h)

    parameters = {
        name: a for stage in actuator.stages for name, a in stage.parameters().items() if name in exact.values
    }
    assert parameters.keys() == exact.values.keys()
    pairs = {**{n: (a, exact.values[n]) for n, a in parameters.items()}, **{n: (sim[n], double[n]) for n in SIGNALS}}
    for name, (array, numbers) in pairs.items():
        expected = [difference(numbers, i) for i in range(len(numbers))]
        np.testing.assert_allclose(array.grad.numpy(), expected, rtol=5e-3, atol=5e-3, err_msg=name)


@CHAINS
def test_a_drive_that_compensates_losses_passes_on_what_is_wanted(with_linkage, rng, steps):
    chain = Geared(rng, with_linkage=with_linkage)
    chain.values["compensates_losses"] = np.ones(N, np.float32)
    actuator = actuon.Actuator(range(N), stages=chain.stages()[:-1])
    plain = actuon.Actuator(range(N), stages=chain.stages()[:1])
    for signals in steps:
        np.testing.assert_allclose(stepped(actuator, signals)[0], stepped(plain, signals)[0], rtol=1e-6)


def test_a_drive_does_not_know_the_losses(rng):
    """It divides by the ratio alone; the joint gets η of that when driving, 1/η_b of it when driven."""
    n = 200
    values = gear_values(rng, n) | {"smoothing_velocity": np.full(n, 0.01, np.float32)}
    gears = [
        actuon.TransmissionGear(**{name: wp.array(array) for name, array in values.items()}, **more)
        for more in ({}, {"compensates_losses": True})
    ]
    signals = {name: np.zeros(n, np.float32) for name in SIGNALS}
    signals["joint_qd"] = rng.choice([-1, 1], n).astype(np.float32)
    asked = signals["joint_act"] = rng.uniform(-30, 30, n).astype(np.float32)
    plain, compensated = (
        stepped(
            actuon.Actuator(range(n), stages=[actuon.ControllerPD(0, 0), g], control_signal_attrs=lambda s: s), signals
        )
        for g in gears
    )
    share = np.where(asked * signals["joint_qd"] > 0, values["efficiency"], 1 / values["backdrive_efficiency"])
    np.testing.assert_allclose(plain[0], asked * share, rtol=1e-5)
    np.testing.assert_allclose(plain[1]["motor_effort"], asked / values["ratio"], rtol=1e-6)
    np.testing.assert_allclose(compensated[0], asked, rtol=1e-5)
    np.testing.assert_allclose(compensated[1]["motor_effort"], asked / values["ratio"] / share, rtol=1e-5)


@pytest.mark.parametrize("behind", ["the joint", "a linkage"])
def test_losses_with_an_inertia_are_friction(behind, rng):
    """Fused and staged, on a tape; the load is the joint's, the inertia that at the gear."""
    n, dt = N, 0.004
    values = {
        "ratio": rng.uniform(3, 30, n) * rng.choice([-1, 1], n),
        "efficiency": rng.uniform(0.3, 1.0, n),
        "backdrive_efficiency": rng.choice([-1, 1, 1, 1], n) * rng.uniform(0.05, 1.0, n),
        "inertia": rng.uniform(0.01, 0.3, n),
    }
    values = {name: array.astype(np.float32) for name, array in values.items()}
    before = [actuon.TransmissionLinkage(**TABLE)] if behind == "a linkage" else []
    gear_stage = actuon.TransmissionGear(**{name: wp.array(array) for name, array in values.items()})
    stages = [actuon.ControllerPD(0, 0), *before, gear_stage, actuon.ClampingMaxEffort(2.0)]
    actuators = [
        actuon.Actuator(range(n), stages=stages, fused=fused, requires_grad=grad)
        for fused, grad in ((True, False), (False, False), (True, True))
    ]
    signals = random_signals(n, rng)
    signals["joint_qd"] *= np.exp(rng.uniform(-6, 0, n)).astype(np.float32)
    signals["joint_load"] = rng.uniform(-30, 30, n).astype(np.float32)
    v = {name: array.astype(np.float64) for name, array in values.items()}
    outer = np.ones(n)
    if before:
        _, outer = linkage(signals["joint_q"].astype(np.float64), *map(np.float64, TABLE.values()))
    asked = signals["joint_act"].astype(np.float64)
    motor = v["ratio"] * np.clip(asked / outer / v["ratio"], -2, 2)
    losses = v["efficiency"], v["backdrive_efficiency"]
    speed = outer * signals["joint_qd"].astype(np.float64)
    at_gear = braked_gear(motor, signals["joint_load"] / outer, speed, v["inertia"], dt, *losses)
    for actuator in actuators:
        sim = simulation(signals, requires_grad=actuator.requires_grad)
        actuator.step(sim, sim, dt=dt)
        np.testing.assert_allclose(sim["joint_f"].numpy(), outer * at_gear, rtol=3e-5, atol=3e-4)
    stuck = at_gear == -(signals["joint_load"] / outer + v["inertia"] * speed / dt)
    assert 5 < stuck.sum() < n - 5
    after = speed + dt / v["inertia"] * (at_gear + signals["joint_load"] / outer)
    assert (at_gear * after <= motor * after + 1e-6).all()  # no power out of nothing


@pytest.mark.parametrize("efficiency", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("back", [0.02, 0.3, 0.5, 0.8, 1.0])
def test_at_constant_speed_losses_are_the_efficiencies(efficiency, back):
    """A load that the motor lifts gets η of its effort; one that drives the motor holds 1/η_b of it; in between, the
    joint stands."""
    effort = 12.0
    loads = np.array([efficiency, efficiency, 1 / back, 1 / back, 0.5 * (efficiency + 1 / back)]) * -effort
    speeds = np.array([3.0, 0.01, -0.01, -3.0, 0.0])
    gear_stage = actuon.TransmissionGear(9.0, efficiency, back, inertia=0.05)
    actuator = actuon.Actuator(range(5), stages=[actuon.ControllerPD(0, 0), gear_stage])
    for sign in (1, -1):
        signals = {name: np.zeros(5, np.float32) for name in SIGNALS}
        signals["joint_qd"], signals["joint_load"] = np.float32(sign * speeds), np.float32(sign * loads)
        signals["joint_act"][:] = sign * effort
        sim = simulation(signals)
        actuator.step(sim, sim, dt=0.001)
        np.testing.assert_allclose(sim["joint_f"].numpy(), -signals["joint_load"], rtol=1e-5)


def test_what_cannot_describe_a_gear_is_refused():
    lossy = actuon.GearTransmissionConfig(9.0, efficiency=0.8)
    loaded = actuon.FrictionEffectConfig(0.1, load_motor=0.1, inertia=0.05)
    pd = actuon.PDControlConfig(10.0, 1.0)
    twice = actuon.ActuatorConfig(pd, transmission=lossy, effects=[loaded])
    for make in (
        lambda: actuon.Motors(twice, joints=["a"]),
        lambda: actuon.Actuator([0], stages=twice.stages),
        lambda: actuon.ActuatorBuilder().add(twice, 0),
    ):
        with pytest.raises(actuon.StructureError, match="the gear has an efficiency, and friction depends on the load"):
            make()
    actuon.Motors(actuon.ActuatorConfig(pd, transmission=actuon.GearTransmissionConfig(9.0), effects=[loaded]), ["a"])
    worm = actuon.GearTransmissionConfig(40.0, 0.4, -0.5)
    with pytest.raises(actuon.StructureError, match="a self-locking gear needs inertia"):
        actuon.Motors(actuon.ActuatorConfig(pd, transmission=worm), joints=["a"])
    motors = actuon.Motors(actuon.ActuatorConfig(pd, transmission=worm), joints=["a"], inertia=0.05)
    with pytest.raises(actuon.MissingArrayError, match="TransmissionGear needs an input 'joint_load'"):
        motors.step(np.zeros(1), np.zeros(1), np.zeros(1), 0.002)
    two = actuon.ActuatorConfig(stages=[pd, lossy, lossy])
    assert actuon.Motors(two, joints=["a"]).step(np.zeros(1), np.ones(1), np.ones(1))[0] < 10.0
    with pytest.raises(actuon.StructureError, match="got 2 gears with losses.* list one gear with the products"):
        actuon.Motors(two, joints=["a"], inertia=0.05)


@pytest.mark.parametrize("dt", [0.002, 0.005])
@pytest.mark.parametrize(("efficiency", "back"), [(0.7, None), (0.4, 0.05), (0.4, -0.5)])
def test_a_held_load_stands_still_on_arrays_with_an_inertia(dt, efficiency, back):
    """20 N·m on 0.05 kg·m², which chatters by 15 N·m at 2 ms if losses are smoothed."""
    gear_config = actuon.GearTransmissionConfig(9.0, efficiency, back)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(200.0, 2.0), transmission=gear_config)
    motors = actuon.Motors(motor, joints=["a"], inertia=0.05)
    q, qd, kept = np.zeros(1), np.zeros(1), []
    for _ in range(int(2 / dt)):
        effort = motors.step(q, qd, target=0.0, dt=dt, joint_load=-20.0)
        qd = qd + dt * (effort - 20.0) / 0.05
        q = q + dt * qd
        kept.append([q[0], effort[0]])
    assert np.ptp(kept[len(kept) // 2 :], axis=0).max() < 1e-5
    assert -20.0 / 200.0 / efficiency < q[0] <= 0.0


def test_no_gear_gives_more_power_than_it_gets(rng):
    """In all four quadrants; and it is continuous where the power changes its sign."""
    n = 4000
    values = gear_values(rng, n)
    signals = {name: np.zeros(n, np.float32) for name in SIGNALS}
    signals["joint_qd"] = (rng.standard_normal(n) * np.exp(rng.uniform(-8, 3, n))).astype(np.float32)
    signals["joint_act"] = (rng.standard_normal(n) * np.exp(rng.uniform(-8, 5, n))).astype(np.float32)
    stages = [
        actuon.ControllerPD(0.0, 0.0),
        actuon.TransmissionGear(**{name: wp.array(array) for name, array in values.items()}),
        actuon.ClampingMaxEffort(0.7),
    ]
    actuator = actuon.Actuator(range(n), stages=stages, control_signal_attrs=lambda name: name)
    effort, offered = stepped(actuator, signals)
    joint = effort.astype(np.float64) * signals["joint_qd"]
    motor = offered["motor_effort"].astype(np.float64) * offered["motor_velocity"]
    quadrants = np.unique(np.stack([np.sign(effort), np.sign(signals["joint_qd"])]), axis=1)
    assert quadrants.shape[1] == 4
    assert (joint <= motor + 1e-6 * np.abs(motor)).all()
    assert (joint[motor > 0] > 0).all()
    loss = 1.0 - np.where(motor > 0, joint / motor, motor / joint)
    fast = np.abs(offered["motor_velocity"]) >= values["smoothing_velocity"]
    full = 1.0 - np.where(motor > 0, values["efficiency"], values["backdrive_efficiency"])
    np.testing.assert_allclose(loss[fast], full[fast], atol=1e-5)
    assert (loss[~fast] <= full[~fast] + 1e-5).all()


def test_the_effort_is_continuous_where_the_motion_turns_round():
    speeds = np.linspace(-0.3, 0.3, 601).astype(np.float32)
    n = len(speeds)
    signals = {name: np.zeros(n, np.float32) for name in SIGNALS}
    signals["joint_qd"], signals["joint_act"] = speeds, np.full(n, 100.0, np.float32)
    stages = [actuon.ControllerPD(0.0, 0.0), actuon.TransmissionGear(10.0, 0.8, 0.5), actuon.ClampingMaxEffort(2.0)]
    effort, _ = stepped(actuon.Actuator(range(n), stages=stages), signals)
    assert effort[n // 2] == 20.0
    np.testing.assert_allclose(effort[[0, -1]], [2.0 * 10.0 / 0.5, 2.0 * 10.0 * 0.8], rtol=1e-6)
    assert (np.diff(effort) <= 0).all()
    assert np.abs(np.diff(effort)).max() < 0.3


def test_no_geared_arm_gains_energy(rng):
    """An arm at a motor that random efforts drive and that the arm drives: work on it is at most work of the motor."""
    n, dt, inertia = 200, 0.002, 0.3
    stages = [
        actuon.ControllerPD(0.0, 0.0),
        actuon.TransmissionGear(rng.uniform(5, 50, n), rng.uniform(0.3, 1, n), rng.uniform(0.3, 1, n)),
        actuon.ClampingMaxEffort(0.5),
    ]
    actuator = actuon.Actuator(range(n), stages=stages, control_signal_attrs=lambda name: name)
    speed, work = np.zeros(n), np.zeros(n)
    for _ in range(300):
        signals = {name: np.zeros(n, np.float32) for name in SIGNALS}
        signals["joint_act"] = (rng.standard_normal(n) * 30).astype(np.float32)
        signals["joint_qd"] = speed.astype(np.float32)
        effort, offered = stepped(actuator, signals)
        work += offered["motor_effort"].astype(np.float64) * offered["motor_velocity"] * dt
        before, speed = speed, speed + effort / inertia * dt
        work += effort * (speed - before) * dt / 2  # the effort is held over the step
        # at each moment: kinetic energy of the arm against what the motor has given
        assert (0.5 * inertia * speed**2 <= work + 1e-4 * (1 + np.abs(work))).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ratio": 0.0}, r"ratio: got 0; must have a magnitude"),
        ({"ratio": [3.0, 1e-9]}, r"ratio: got 1e-09 at index 1; must have a magnitude of at least 1e-06"),
        ({"ratio": np.nan}, "ratio: got nan; must be finite"),
        ({"ratio": 3.0, "efficiency": 0.0}, "efficiency: got 0.0; must be finite and > 0 and ≤ 1"),
        ({"ratio": 3.0, "efficiency": 1.01}, "efficiency: got 1.01; must be finite and > 0 and ≤ 1"),
        ({"ratio": 3.0, "backdrive_efficiency": 1.1}, "got 1.1; must be finite and ≥ -10 and ≤ 1"),
        ({"ratio": 3.0, "backdrive_efficiency": 0.0}, "got 0; must be > 0, or < 0 for a self-locking"),
        ({"ratio": 3.0, "compensates_losses": 2.0}, "compensates_losses: got 2.0; must be true or false"),
        ({"ratio": 3.0, "inertia": 0.0}, "inertia: got 0.0; must be finite and > 0"),
        ({"ratio": 3.0, "rotor_inertia": -1.0}, "rotor_inertia: got -1.0; must be finite and ≥ 0"),
        ({"ratio": 3.0, "rotor_inertia": 1.0, "reflected_inertia": 9.0}, "set only one of them"),
        ({"ratio": 3.0, "smoothing_velocity": 0.0}, "smoothing_velocity: got 0.0; must be finite and > 0"),
    ],
)
def test_gears_that_cannot_be(values, message):
    for kind in (actuon.TransmissionGear, actuon.GearTransmissionConfig):
        if kind is actuon.TransmissionGear or np.ndim(values["ratio"]) == 0:
            with pytest.raises(actuon.ParameterError, match=message):
                kind(**values)


def test_a_ratio_of_zero_is_refused_later_too():
    given = actuon.TransmissionGear(3.0)
    gear = actuon.Actuator(range(2), actuon.ControllerPD(1.0, 0.0), transmission=given).transmission
    with pytest.raises(actuon.ParameterError, match="ratio: got 0 at index 1; must have a magnitude"):
        gear.ratio = [3.0, 0.0]
    assert gear.ratio.numpy().tolist() == [3.0, 3.0]


def test_joints_with_and_without_a_figure_for_back_driving_stand_side_by_side(rng):
    builder = actuon.ActuatorBuilder()
    gears = [actuon.GearTransmissionConfig(5.0, 0.8), actuon.GearTransmissionConfig(5.0, 0.8, 0.5)]
    for i, config in enumerate([*gears, *gears]):
        chain = actuon.ActuatorConfig(
            actuon.PDControlConfig(0.0, 0.0), [actuon.MaxEffortClampingConfig(2.0)], transmission=config
        )
        builder.add(chain, i)
    signals = {name: np.zeros(4, np.float32) for name in SIGNALS}
    signals["joint_act"][:], signals["joint_qd"][:] = 100.0, -1.0
    sim = simulation(signals)
    for actuator in builder.finalize():
        actuator.step(sim, sim)
    np.testing.assert_allclose(sim["joint_f"].numpy(), [12.5, 20.0, 12.5, 20.0], rtol=1e-6)


def test_a_linkage_is_smooth_and_its_effort_the_derivative_of_its_position(rng):
    """Over the whole table and beyond its ends: power in is power out, to rounding."""
    q = np.linspace(-3, 3.5, 3001).astype(np.float32)
    n = len(q)
    signals = {name: np.zeros(n, np.float32) for name in SIGNALS}
    signals["joint_q"], signals["joint_qd"] = q, rng.standard_normal(n).astype(np.float32)
    signals["joint_act"] = rng.standard_normal(n).astype(np.float32)
    for sign in (1, -1):
        table = actuon.TransmissionLinkage(TABLE["joint_positions"], sign * np.array(TABLE["motor_positions"]))
        stages = [actuon.ControllerPD(0.0, 0.0), table, EffectKeepsPosition(), actuon.ClampingMaxEffort(0.1)]
        actuator = actuon.Actuator(range(n), stages=stages, control_signal_attrs=lambda name: name)
        effort, offered = stepped(actuator, signals)
        motor, ratio = linkage(
            q.astype(np.float64), *(np.array(c) * s for c, s in zip(TABLE.values(), (1, sign), strict=True))
        )
        np.testing.assert_allclose(offered["motor_position"], motor, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(offered["gear_ratio"], ratio, rtol=1e-5)
        np.testing.assert_allclose(offered["motor_velocity"], ratio * signals["joint_qd"], rtol=1e-5)
        np.testing.assert_allclose(
            effort * signals["joint_qd"], offered["motor_effort"] * offered["motor_velocity"], rtol=1e-5, atol=1e-6
        )
        steps = np.diff(offered["motor_position"].astype(np.float64)) / np.diff(q.astype(np.float64))
        np.testing.assert_allclose(steps, (ratio[1:] + ratio[:-1]) / 2, rtol=5e-3)
        assert (sign * np.diff(offered["motor_position"]) > 0).all()


@wp.func
def keep_position(q: float, effort: float):
    return effort, q


class EffectKeepsPosition(actuon.Effect):
    law = keep_position
    OUTPUTS = ("motor_position",)


@pytest.mark.parametrize(
    ("joint", "motor", "message"),
    [
        ((0.0,), (1.0,), "joint_positions: got .*; must be a list of at least two numbers"),
        ((0.0, 1.0), (1.0, 2.0, 3.0), "got 2 joint_positions and 3 motor_positions; must have the same length"),
        ((0.0, 1.0, 1.0), (1.0, 2.0, 3.0), "1 at index 2 follows 1; positions must be in rising order"),
        ((0.0, 1.0, 2.0), (1.0, 2.0, 2.0), "2 at index 2 follows 2, a ratio of 0; the ratio must keep its sign"),
        ((0.0, 1.0, 2.0), (1.0, 2.0, 1.5), "1.5 at index 2 follows 2, a ratio of -0.5; .* a dead centre"),
        ((0.0, np.inf), (1.0, 2.0), "joint_positions: got inf at index 1; must be finite"),
    ],
)
def test_linkages_that_cannot_be(joint, motor, message):
    for kind in (actuon.TransmissionLinkage, actuon.LinkageTransmissionConfig):
        with pytest.raises(actuon.ParameterError, match=message):
            kind(joint, motor)


GEAR = actuon.GearTransmissionConfig(9.0, 0.85, 0.7, rotor_inertia=2e-5)
PLAIN_GEAR = actuon.GearTransmissionConfig(-12.0, 0.9)
LINKAGE = actuon.LinkageTransmissionConfig(**TABLE)


@pytest.mark.parametrize("config", [GEAR, PLAIN_GEAR, LINKAGE], ids=["gear", "plain gear", "linkage"])
def test_in_robot_files(config, tmp_path):
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0), [actuon.MaxEffortClampingConfig(2.0)], transmission=config
    )
    entry = actuon.ActuatorEntry("knee", "knee", chain)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    assert f"type: {'linkage' if config is LINKAGE else 'gear'}" in (tmp_path / "actuon.yaml").read_text()
    stage = robot()
    prim = add(stage, chain)
    assert actuon.parse_actuator_prim(prim).config == chain
    assert actuon.export_actuators(stage) == [entry]
    assert not actuon.inspect_actuators(stage).problems


def test_a_linkage_before_a_gear_in_robot_files(tmp_path):
    chain = actuon.ActuatorConfig(stages=[actuon.PDControlConfig(40.0, 1.0), LINKAGE, GEAR])
    entry = actuon.ActuatorEntry("knee", "knee", chain)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    assert actuon.parse_actuator_prim(add(robot(), chain)).config == chain


def test_files_that_name_gears_that_cannot_be(tmp_path):
    path = tmp_path / "actuon.yaml"
    start = "actuators: {knee: {joints: knee, controller: {type: pd, kp: 1, kd: 1}, transmission: "
    for written, message in (
        ("{type: gear}", "transmission: needs 'ratio'"),
        ("{type: gear, ratio: 0}", "ratio: got 0; must have a magnitude"),
        ("{type: gear, ratio: 3, efficiency: 1.5}", "efficiency: got 1.5; must be finite and > 0 and ≤ 1"),
        ("{type: gears, ratio: 3}", "Did you mean 'gear'"),
    ):
        path.write_text(f"{start}{written}}}}}")
        with pytest.raises(actuon.RobotFileError, match=message):
            actuon.load_actuators(path)
    stage = robot()
    prim = add(stage, actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), transmission=GEAR))
    prim.GetAttribute("actuonGearTransmission:ratio").Set(0.0)
    with pytest.raises(actuon.RobotFileError, match="ratio: got 0; must have a magnitude"):
        actuon.parse_actuator_prim(prim)


def test_the_way_back_sees_the_side_of_its_stage_across_stages_that_work_on_blocks(rng, steps):
    """A delay of commands behind the controller changes nothing, but ends the loop over lanes."""
    chain = Geared(rng, with_linkage=True)
    plain, late = chain.actuator(), actuon.Actuator(range(N), stages=[*chain.stages(), actuon.Delay(1, 2)])
    state = late.state()
    for signals in steps:
        sim = simulation(signals)
        late.step(sim, sim, state, state)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), stepped(plain, signals)[0])


@wp.func
def power_closing(effort: float, qd: float):
    return effort, effort * qd


@wp.func
def unchanged(effort: float):
    return effort


class EffectJointPower(actuon.Effect):
    law = unchanged
    closing_law = power_closing
    CLOSING_OUTPUTS = ("joint_power",)


def test_a_stage_before_the_transmission_closes_at_the_joint(rng, steps):
    chain = Geared(rng)
    controller, *others = chain.stages()
    stages = [controller, EffectJointPower(), *others]
    for staged in (False, True):
        offered = {"joint_power": "joint_power"}
        actuator = actuon.Actuator(range(N), stages=stages, control_signal_attrs=offered, fused=not staged)
        for signals in steps:
            effort, offered = stepped(actuator, signals)
            np.testing.assert_array_equal(offered["joint_power"], effort * signals["joint_qd"])
