# SPDX-License-Identifier: Apache-2.0
"""Steps that MuJoCo takes with motors in its own loop are those that it takes one by one, to the last bit."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import warp as wp

from actuon import (
    Actuator,
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    BatteryClampingConfig,
    DCMotorClampingConfig,
    DelayConfig,
    Event,
    FrictionEffectConfig,
    GearTransmissionConfig,
    HeatClampingConfig,
    LowPassDelayConfig,
    MaxEffortClampingConfig,
    MujocoSimulation,
    NoiseEffectConfig,
    PDControlConfig,
    PIDControlConfig,
    SimulationError,
    TimeDelayConfig,
    VoltageClampingConfig,
)
from actuon.kernel.types import DENSE
from actuon.sim.mujoco import batch as batches, workers
from tests.support.paths import ASSETS, ROBOTS, public_robot
from tests.support.remembered import remembered

mujoco = pytest.importorskip("mujoco")
from tests.support.states import model_bytes, states_of  # noqa: E402 - needs MuJoCo

QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
FEW, SOME = batches.FEW + 3, DENSE.size // 12 + 50
"""Robots in one group, and, with 12 joints, in a whole one and a part of another."""
PD = PDControlConfig(60.0, 1.5)
LIMIT = MaxEffortClampingConfig(20.0)
LATE = ActuatorConfig(PD, [DCMotorClampingConfig(23.7, 30.1, 23.7), LIMIT], DelayConfig(3))


class Pair:
    """The same robots twice: those whose steps may be taken together, and those of which somebody hears each step."""

    def __init__(self, robots, config=LATE, path=QUADRUPED, joints=slice(None), dt=0.004):
        self.simulations = [MujocoSimulation(path, robots, dt) for _ in range(2)]
        self.robots = [Articulation([each.path for each in one.robots], one) for one in self.simulations]
        self.actuators = []
        for robots, simulation in zip(self.robots, self.simulations, strict=True):
            configs = config if isinstance(config, list) else [config]
            chosen = enumerate(robots.dof_names[joints])
            pairs = [(configs[i % len(configs)], name) for i, name in chosen]
            made = ArticulationActuators.from_actuators(robots.paths, pairs, simulation=simulation)
            self.actuators.append(made)
        self.simulations[1].subscribe(Event.POST_STEP, lambda simulation, dt: None)
        self.together, self._single = 0, 0
        """Steps of the first that were taken without a step of its actuators in Python, and with one."""
        self._count_single(self.actuators[0].actuators[0])
        self._count_together(self.simulations[0])

    def _count_single(self, actuator):
        step = actuator.step

        def counted(*arguments):
            self._single += 1
            step(*arguments)

        actuator.step = counted

    def _count_together(self, simulation):
        step = simulation.step

        def counted(n=1):
            start, single = simulation.time, self._single
            try:
                step(n)
            finally:
                taken = round((simulation.time - start) / simulation.dt)
                self.together += max(0, taken - (self._single - single))  # one that failed took no time

        simulation.step = counted

    def each(self, do):
        for actuators, robots, simulation in zip(self.actuators, self.robots, self.simulations, strict=True):
            do(actuators, robots, simulation)

    def command(self, rng, spread=0.3):
        robots = self.robots[0]
        offsets = rng.uniform(-spread, spread, (len(robots), robots.num_dofs)).astype(np.float32)
        self.each(lambda _, robots, __: robots.set_dof_position_targets(robots.get_dof_positions().numpy() + offsets))

    def step(self, n):
        self.each(lambda _, __, simulation: simulation.step(n))

    def move(self, rng, spread=0.3, steps=5):
        """Command and step three times, and check each."""
        for _ in range(3):
            self.command(rng, spread)
            self.step(steps)
            self.check_alike()

    def check_alike(self, remembers=True):
        ours, theirs = self.simulations
        assert ours.time == theirs.time
        for kind, array in vars(ours.arrays).items():
            np.testing.assert_array_equal(array.numpy(), getattr(theirs.arrays, kind).numpy(), err_msg=kind)
        np.testing.assert_array_equal(states_of(ours), states_of(theirs))
        assert model_bytes(ours) == model_bytes(theirs)
        told, other = (actuators.telemetry() for actuators in self.actuators)
        for name in ("velocity", "computed_effort", "applied_effort", "clipped", "limited_by"):
            np.testing.assert_array_equal(getattr(told, name), getattr(other, name), err_msg=name)
        for name, values in told.signals.items():
            np.testing.assert_array_equal(values, other.signals[name], err_msg=name)
        mine, its = (remembered(actuators) if remembers else {} for actuators in self.actuators)
        assert mine.keys() == its.keys()
        for name, values in mine.items():
            np.testing.assert_array_equal(values, its[name], err_msg=name)


@pytest.mark.parametrize(
    ("config", "robots"),
    [
        (ActuatorConfig(PD), FEW),
        (LATE, SOME),
        (ActuatorConfig(PD, [LIMIT], TimeDelayConfig(0.006, jitter=0.003), effects=[NoiseEffectConfig(0.3)]), SOME),
        (ActuatorConfig(stages=[TimeDelayConfig(0.006), LowPassDelayConfig(0.01), PD, LIMIT]), FEW),
        (ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), transmission=GearTransmissionConfig(6.0, 0.9)), FEW),
        (ActuatorConfig(PD, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)]), SOME),
        (ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), [LIMIT], DelayConfig(1), control_every=3), SOME),
        ([LATE, ActuatorConfig(PD), LATE, ActuatorConfig(PD, [LIMIT], DelayConfig(1))], SOME),
    ],
    ids=[
        "stateless",
        "late and limited",
        "noise and jitter",
        "late and filtered",
        "gear and integral",
        "friction",
        "held control",
        "of several kinds",
    ],
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
    monkeypatch.setattr(workers, "WORTH_SHARING", 0.0)
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
    pair.move(rng, 0.05, 6)
    assert pair.together > 10


def with_limits(low, high):
    """A quadruped whose joints let no other efforts through [N·m]."""
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    for joint in spec.joints[1:]:
        joint.actfrclimited, joint.actfrcrange = True, (low, high)
    return spec


def test_bounds_of_joints_are_kept_to(rng):
    """What the engine does not clip of efforts from outside."""
    pair = Pair(FEW, path=with_limits(-2.0, 1.5))
    pair.move(rng)
    assert pair.together > 10
    efforts = pair.actuators[0].telemetry().applied_effort
    assert efforts.min() == np.float32(-2.0)
    assert efforts.max() == np.float32(1.5)


def test_joints_that_the_engine_drives(rng):
    """They keep their servos."""
    pair = Pair(FEW, joints=slice(2, 9, 3))
    pair.move(rng)
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
    after = states_of(pair.simulations[0])
    for simulation, state in zip(pair.simulations, saved, strict=True):
        simulation.load_state(state)
    pair.step(5)
    pair.check_alike()
    np.testing.assert_array_equal(states_of(pair.simulations[0]), after)
    assert pair.together >= 20


@pytest.mark.parametrize(
    ("delay", "effects"), [(0, []), (3, []), (3, [FrictionEffectConfig(0.4, 0.1, 0.6, 0.1), NoiseEffectConfig(0.3)])]
)
def test_a_target_of_nan_leaves_what_single_steps_leave(delay, effects, rng):
    """It shows after the delay. The same error, the same state, and both go on when it is mended."""
    pair = Pair(SOME, ActuatorConfig(PD, delay=DelayConfig(delay) if delay else None, effects=effects))
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
    pair.check_alike(remembers=False)  # NaN is not saved
    assert pair.simulations[0].time == pytest.approx(0.004 * (6 + delay))

    def mend(actuators, robots, simulation):
        robots.set_dof_position_targets(np.zeros((SOME, 12), np.float32))
        simulation.reset([SOME - 1])

    pair.each(mend)
    pair.check_alike()
    pair.step(6)
    pair.check_alike()
    assert pair.together > together


def test_robots_that_diverge_leave_what_single_steps_leave(rng):
    pair = Pair(FEW, ActuatorConfig(PDControlConfig(2500.0, 0.0)))
    pair.command(rng)
    pair.step(6)
    together, told = pair.together, []
    assert together
    for simulation in pair.simulations:
        with pytest.raises(SimulationError) as error:
            simulation.step(500)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert pair.together > together
    pair.check_alike()


def test_motors_that_trip_say_what_they_say_in_single_steps(rng, caplog):
    hot = HeatClampingConfig(
        winding_thermal_resistance=2.0,
        housing_thermal_resistance=1.0,
        winding_time_constant=2.0,
        housing_time_constant=10.0,
        motor_constant=1.0,
        max_effort=30.0,
        derated_effort=30.0,
        derating_start=30.0,
        derating_end=40.0,
        trip_temperature=40.0,
    )
    pair = Pair(FEW, ActuatorConfig(PD, [hot]))
    pair.command(rng)
    told = []
    for simulation in pair.simulations:
        caplog.clear()
        for _ in range(8):
            simulation.step(7)
        told.append([record.getMessage() for record in caplog.records])
    assert told[0] == told[1]
    assert "has tripped at 4" in told[0][0]
    assert len(told[0]) > 5
    assert pair.together > 10
    pair.check_alike()


def test_an_interrupt_between_two_threads_leaves_all_as_before(rng, monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "2")
    pair = Pair(FEW, ActuatorConfig(PD, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)]))
    pair.command(rng)
    pair.step(6)

    def interrupted(tasks):
        for task in tasks:
            task()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers, "run_together", interrupted)
        patch.setattr(workers, "WORTH_SHARING", -1.0)
        with pytest.raises(KeyboardInterrupt):
            pair.simulations[0].step(5)
    pair.check_alike()
    pair.step(5)
    pair.check_alike()


@pytest.mark.parametrize(
    "config",
    [
        ActuatorConfig(PD, [LIMIT], effort_mode="implicit"),
        ActuatorConfig(PD, [BatteryClampingConfig(24.0), VoltageClampingConfig(0.1, 1.2)]),
        ActuatorConfig(PD, effects=[FrictionEffectConfig(0.2, load_external=0.1)]),
    ],
    ids=["implicit", "battery", "friction of load"],
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


def count_arrays(*shape):
    """How many Warp arrays of a shape, such as efforts of robots, are held by anybody."""
    gc.collect()
    return sum(type(each) is wp.array and each.shape == shape for each in gc.get_objects())


def test_one_of_two_sets_of_actuators_is_closed(rng):
    """The other is stepped in the loop then, and what was closed is let go."""
    arrays = count_arrays(FEW, 12)
    pair = Pair(FEW, joints=slice(0, 6))
    others = [
        ArticulationActuators.from_actuators(
            robots.paths, [(LATE, name) for name in robots.dof_names[6:]], simulation=one
        )
        for robots, one in zip(pair.robots, pair.simulations, strict=True)
    ]
    pair.step(6)
    assert pair.together == 0
    for other in others:
        other.close()
    pair.step(5)
    assert pair.together == 5
    pair.check_alike()
    del other, others
    held = weakref.ref(pair.actuators[0]), weakref.ref(pair.actuators[0].actuators[0])
    assert count_arrays(FEW, 12) > arrays
    pair.each(lambda actuators, _, __: actuators.close())
    pair.actuators.clear()
    assert count_arrays(FEW, 12) == arrays
    assert [reference() for reference in held] == [None, None]


def test_limits_that_are_changed_between_steps(rng):
    pair = Pair(FEW, path=with_limits(-9.0, 9.0))
    pair.command(rng)
    pair.step(6)
    for limit in (3.0, 1.0):
        pair.each(lambda _, robots, __, limit=limit: robots.set_dof_max_efforts(limit))
        pair.step(5)
        pair.check_alike()
        assert np.abs(pair.actuators[0].telemetry().applied_effort).max() == np.float32(limit)
    assert pair.together > 10


def test_another_thread_steps_the_same_actuator_on_arrays_of_its_own(rng):
    """Which the loop is not touched by."""
    pair = Pair(SOME, ActuatorConfig(PD))
    pair.command(rng)
    pair.step(2)
    (actuator,) = pair.actuators[0].actuators
    state = {name: wp.zeros(SOME * 19, dtype=wp.float32) for name in ("joint_q", "joint_qd")}
    names = [actuator.control_target_pos_attr, actuator.control_target_vel_attr, actuator.control_feedforward_attr]
    names += [actuator.control_output_attr, actuator.control_computed_output_attr]
    names += actuator.control_signal_attrs.values()
    control = {name: wp.zeros(SOME * 19, dtype=wp.float32) for name in names}
    ended = threading.Event()

    def step_too():
        while not ended.is_set():
            Actuator.step(actuator, state, control, dt=0.004)  # not the one that is counted

    thread = threading.Thread(target=step_too)
    thread.start()
    pair.simulations[0].step(64)
    ended.set()
    thread.join()
    pair.simulations[1].step(64)
    pair.check_alike()
    assert pair.together >= 64


def test_actuators_that_are_closed_or_stepped_by_hand(rng):
    pair = Pair(FEW)
    pair.step(6)
    pair.each(lambda actuators, _, __: actuators.disable_auto_step_pre_physics())
    before, efforts = remembered(pair.actuators[0]), pair.actuators[0].telemetry().applied_effort
    pair.step(5)
    pair.check_alike()
    for name, values in remembered(pair.actuators[0]).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    np.testing.assert_array_equal(pair.actuators[0].telemetry().applied_effort, efforts)
    pair.each(lambda actuators, _, __: actuators.enable_auto_step_pre_physics())
    together = pair.together
    pair.command(rng)
    pair.step(5)
    assert pair.together == together + 5
    assert any((values != before[name]).any() for name, values in remembered(pair.actuators[0]).items())
    pair.check_alike()
    pair.each(lambda actuators, _, __: actuators.close())
    pair.step(5)
    assert not pair.robots[0].get_dof_efforts().numpy().any()
    np.testing.assert_array_equal(*(states_of(simulation) for simulation in pair.simulations))


def test_a_state_that_is_huge_is_refused_before_damping_makes_it_less(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(
        '<mujoco><option integrator="implicitfast" gravity="0 0 0"/><worldbody><body name="base"><joint name="j" '
        'damping="1"/><geom size="0.1" mass="0.01"/></body></worldbody></mujoco>'
    )
    pair = Pair(FEW, ActuatorConfig(PDControlConfig(1.0, 0.1)), path, dt=0.002)
    pair.step(6)
    told = []
    for robots, simulation in zip(pair.robots, pair.simulations, strict=True):
        robots.set_dof_velocities(1.05e10, indices=[3])
        with pytest.raises(SimulationError, match=r"1\.05e\+10; it diverged") as error:
            simulation.step(5)
        told.append(str(error.value))
    assert told[0] == told[1]
    pair.check_alike()
