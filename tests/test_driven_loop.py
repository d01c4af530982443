# SPDX-License-Identifier: Apache-2.0
"""Steps that MuJoCo takes with motors in its own loop are those that it takes one by one, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from paths import ASSETS, ROBOTS, public_robot

from actuon import (
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    BatteryClampingConfig,
    DCMotorClampingConfig,
    DelayConfig,
    Event,
    FrictionEffectConfig,
    GearTransmissionConfig,
    MaxEffortClampingConfig,
    MujocoSimulation,
    NoiseEffectConfig,
    PDControlConfig,
    PIDControlConfig,
    SimulationError,
    TimeDelayConfig,
    VoltageClampingConfig,
)
from actuon.kernel.types import CELL
from actuon.sim.mujoco import batch as batches, workers

mujoco = pytest.importorskip("mujoco")
QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
FEW, SOME = batches.FEW + 3, CELL // 12 + 50
"""Robots in one group, and, with 12 joints, in a whole one and a part of another."""
PD = PDControlConfig(60.0, 1.5)
LIMIT = MaxEffortClampingConfig(20.0)
LATE = ActuatorConfig(PD, [DCMotorClampingConfig(23.7, 30.1, 23.7), LIMIT], DelayConfig(3))


class Pair:
    """The same robots twice: those whose steps may be taken together, and those of which somebody hears each step."""

    def __init__(self, robots, config=LATE, path=QUADRUPED, joints=slice(None), listen=Event.POST_STEP, dt=0.004):
        self.simulations = [MujocoSimulation(path, robots, dt) for _ in range(2)]
        self.robots = [Articulation([each.path for each in one.robots], one) for one in self.simulations]
        self.actuators = []
        for robots, simulation in zip(self.robots, self.simulations, strict=True):
            pairs = [(config, name) for name in robots.dof_names[joints]]
            made = ArticulationActuators.from_actuators(robots.paths, pairs, simulation=simulation)
            self.actuators.append(made)
        self.simulations[1].subscribe(listen, lambda simulation, dt: None)
        self.together = 0
        advance = self.simulations[0]._advance_with

        def counted(motors, n):
            taken = advance(motors, n)
            self.together += taken
            return taken

        self.simulations[0]._advance_with = counted

    def each(self, do):
        for actuators, robots, simulation in zip(self.actuators, self.robots, self.simulations, strict=True):
            do(actuators, robots, simulation)

    def command(self, rng, spread=0.3):
        robots = self.robots[0]
        offsets = rng.uniform(-spread, spread, (len(robots), robots.num_dofs)).astype(np.float32)
        self.each(lambda _, robots, __: robots.set_dof_position_targets(robots.get_dof_positions().numpy() + offsets))

    def step(self, n):
        self.each(lambda _, __, simulation: simulation.step(n))

    def check_alike(self):
        ours, theirs = self.simulations
        assert ours.time == theirs.time
        np.testing.assert_array_equal(ours._batch.states, theirs._batch.states)
        for kind, rows in ours._rows.items():
            np.testing.assert_array_equal(rows, theirs._rows[kind], err_msg=kind)
        told, other = (actuators.telemetry() for actuators in self.actuators)
        for name in ("velocity", "computed_effort", "applied_effort", "clipped", "limited_by"):
            np.testing.assert_array_equal(getattr(told, name), getattr(other, name), err_msg=name)
        for name, values in told.signals.items():
            np.testing.assert_array_equal(values, other.signals[name], err_msg=name)
        for mine, its in zip(*(actuators._states for actuators in self.actuators), strict=True):
            if mine is not None:
                for name, values in mine.contents().items():
                    np.testing.assert_array_equal(values, its.contents()[name], err_msg=name)


@pytest.mark.parametrize(
    ("config", "robots"),
    [
        (ActuatorConfig(PD), FEW),
        (LATE, SOME),
        (ActuatorConfig(PD, [LIMIT], TimeDelayConfig(0.006, jitter=0.003), effects=[NoiseEffectConfig(0.3)]), SOME),
        (ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), transmission=GearTransmissionConfig(6.0, 0.9)), FEW),
        (ActuatorConfig(PD, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)]), SOME),
    ],
    ids=["stateless", "late and limited", "noise and jitter", "gear and integral", "friction"],
)
def test_bits_of_steps_one_by_one(config, robots, rng):
    """Physics, efforts, signals and what actuators remember, in groups that are whole and not."""
    pair = Pair(robots, config)
    pair.step(1)
    for n in (5, 1, 4, 20):
        pair.command(rng)
        pair.step(n)
        pair.check_alike()
    assert pair.together == 29


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads, rng, monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", str(threads))
    monkeypatch.setattr(workers, "_WORTH_SHARING", 0.0)
    pair = Pair(SOME)
    for _ in range(4):
        pair.command(rng)
        pair.step(7)
    pair.check_alike()
    assert pair.together > 20


@pytest.mark.parametrize("name", ROBOTS)
def test_bits_on_public_robots(name, rng):
    """Some have bounds at their joints, or DOFs that nothing drives."""
    pair = Pair(FEW, ActuatorConfig(PDControlConfig(5.0, 0.2), delay=DelayConfig(1)), public_robot(name), dt=0.001)
    for _ in range(3):
        pair.command(rng, 0.05)
        pair.step(6)
        pair.check_alike()
    assert pair.together > 10


def test_bounds_of_joints_are_kept_to(rng):
    """What the engine does not clip of efforts from outside."""
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    for joint in spec.joints[1:]:
        joint.actfrclimited, joint.actfrcrange = True, (-2.0, 1.5)
    pair = Pair(FEW, path=spec)
    for _ in range(3):
        pair.command(rng)
        pair.step(5)
        pair.check_alike()
    assert pair.together > 10
    efforts = pair.actuators[0].telemetry().applied_effort
    assert efforts.min() == np.float32(-2.0)
    assert efforts.max() == np.float32(1.5)


def test_joints_that_the_engine_drives(rng):
    """They keep their servos."""
    pair = Pair(FEW, joints=slice(2, 9, 3))
    for _ in range(3):
        pair.command(rng)
        pair.step(5)
        pair.check_alike()
    assert pair.together > 10


def test_environments_whose_models_differ(rng):
    pair = Pair(FEW)
    armatures = rng.uniform(0.01, 0.03, (FEW, 12)).astype(np.float32)
    for i in range(3):
        pair.each(lambda _, robots, __, i=i: robots.set_dof_armatures(armatures + 0.001 * i))
        pair.command(rng)
        pair.step(5)
        pair.check_alike()
    assert pair.together > 10


def test_what_is_set_between_steps_counts(rng):
    """Parameters, feedforward, resets of some, and going back to a saved state."""
    pair = Pair(SOME)
    pair.command(rng)
    pair.step(6)
    gains = rng.uniform(20.0, 80.0, SOME * 12).astype(np.float32)

    def change(actuators, robots, simulation):
        actuators.actuators[0].controller.kp = gains
        actuators.set_dof_feedforward_effort_targets(np.full((SOME, 12), 0.5, np.float32))
        simulation.reset([0, 5])

    pair.each(change)
    pair.step(5)
    pair.check_alike()
    saved = [simulation.save_state() for simulation in pair.simulations]
    pair.step(5)
    after = pair.simulations[0]._batch.states.copy()
    for simulation, state in zip(pair.simulations, saved, strict=True):
        simulation.load_state(state)
    pair.step(5)
    pair.check_alike()
    np.testing.assert_array_equal(pair.simulations[0]._batch.states, after)
    assert pair.together >= 20


@pytest.mark.parametrize("delay", [0, 3])
def test_a_target_of_nan_leaves_what_single_steps_leave(delay, rng):
    """It shows after the delay. The same error, the same state, and both go on when it is mended."""
    pair = Pair(SOME, ActuatorConfig(PD, delay=DelayConfig(delay) if delay else None))
    pair.command(rng)
    pair.step(6)
    together, told = pair.together, []
    for simulation in pair.simulations:
        simulation.arrays.joint_target_q.numpy()[-8] = np.nan
        with pytest.raises(SimulationError, match="is nan") as error:
            simulation.step(6)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert pair.together == together
    np.testing.assert_array_equal(pair.simulations[0]._batch.states, pair.simulations[1]._batch.states)
    assert pair.simulations[0].time == pair.simulations[1].time == pytest.approx(0.004 * (6 + delay))

    def mend(actuators, robots, simulation):
        robots.set_dof_position_targets(np.zeros((SOME, 12), np.float32))
        simulation.reset([SOME - 1])

    pair.each(mend)
    pair.step(6)
    pair.check_alike()
    assert pair.together > together


def test_robots_that_diverge_leave_what_single_steps_leave(rng):
    pair = Pair(FEW, ActuatorConfig(PDControlConfig(1e7, 0.0)))
    pair.command(rng)
    told = []
    for simulation in pair.simulations:
        with pytest.raises(SimulationError) as error:
            simulation.step(200)
        told.append(str(error.value))
    assert told[0] == told[1]
    np.testing.assert_array_equal(pair.simulations[0]._batch.states, pair.simulations[1]._batch.states)
    assert pair.simulations[0].time == pair.simulations[1].time


def test_an_interrupt_between_two_threads_leaves_all_as_before(rng, monkeypatch):
    pair = Pair(FEW)
    pair.command(rng)
    pair.step(6)

    def interrupted(tasks):
        for task in tasks:
            task()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers, "run_together", interrupted)
        patch.setattr(pair.simulations[0]._batch.workers, "_work", 1.0)
        with pytest.raises(KeyboardInterrupt):
            pair.simulations[0].step(5)
    pair.check_alike()
    pair.step(5)
    pair.check_alike()


@pytest.mark.parametrize(
    "config",
    [
        ActuatorConfig(PD, control_every=2),
        ActuatorConfig(PD, [LIMIT], effort_mode="tangent"),
        ActuatorConfig(PD, [BatteryClampingConfig(24.0), VoltageClampingConfig(0.1, 1.2)]),
        ActuatorConfig(PD, effects=[FrictionEffectConfig(0.2, load_external=0.1)]),
    ],
    ids=["control_every", "tangent", "battery", "friction of load"],
)
def test_chains_that_need_more_are_stepped_one_by_one(config, rng):
    pair = Pair(FEW, config)
    pair.command(rng)
    pair.step(6)
    pair.check_alike()
    assert pair.together == 0


def test_what_is_heard_at_each_step(rng):
    """A callback, and an ``MjData`` that somebody looks at, are brought up to date at each step."""
    pair = Pair(FEW)
    times = []
    subscription = pair.simulations[0].subscribe(Event.PRE_STEP, lambda simulation, dt: times.append(simulation.time))
    pair.step(5)
    assert len(times) == 5
    assert pair.together == 0
    subscription.cancel()
    pair.step(5)
    assert pair.together == 5
    data = pair.simulations[0].data[2]
    pair.step(5)
    assert pair.together == 5
    assert data.time == pytest.approx(0.06)
    pair.check_alike()


def test_actuators_that_are_closed_or_stepped_by_hand(rng):
    pair = Pair(FEW)
    pair.step(6)
    pair.each(lambda actuators, _, __: actuators.disable_auto_step_pre_physics())
    together = pair.together
    pair.step(5)
    assert pair.together == together
    pair.check_alike()
    pair.each(lambda actuators, _, __: actuators.enable_auto_step_pre_physics())
    pair.step(5)
    assert pair.together == together + 5
    pair.check_alike()
    pair.each(lambda actuators, _, __: actuators.close())
    pair.step(5)
    assert pair.together == together + 5
    np.testing.assert_array_equal(pair.simulations[0]._batch.states, pair.simulations[1]._batch.states)
