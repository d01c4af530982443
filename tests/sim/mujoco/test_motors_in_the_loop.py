# SPDX-License-Identifier: Apache-2.0
"""Motors that MuJoCo's compiled loop steps do what they do where Python steps them, to the last bit."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import warp as wp

import actuon
from actuon import (
    Actuator,
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    BatteryClampingConfig,
    DCMotorClampingConfig,
    DelayConfig,
    FrictionEffectConfig,
    GearTransmissionConfig,
    HeatClampingConfig,
    LowPassDelayConfig,
    MaxEffortClampingConfig,
    MujocoSimulation,
    NeuralControlConfig,
    NoiseEffectConfig,
    PDControlConfig,
    PIDControlConfig,
    TimeDelayConfig,
    VoltageClampingConfig,
)
from actuon.lab import ActuatorGroups, DCMotorCfg, DelayedPDActuatorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from actuon.sim.mujoco import batch as batches
from tests.support import built_in
from tests.support.paths import ASSETS, ROBOTS, public_robot
from tests.support.remembered import remembered
from tests.support.staged import staged, staged_group

mujoco = pytest.importorskip("mujoco")
from tests.support.states import model_bytes, states_of  # noqa: E402 - needs MuJoCo

QUADRUPED = ASSETS / "quadruped.xml"
FEW, SOME = 11, 71
PD = PDControlConfig(60.0, 1.5)
LIMIT = MaxEffortClampingConfig(20.0)
LATE = ActuatorConfig(PD, [DCMotorClampingConfig(23.7, 30.1, 23.7), LIMIT], DelayConfig(3))
SUPPLY = [BatteryClampingConfig(24.0), VoltageClampingConfig(0.1, 1.2)]


def motors(config=LATE, joints=slice(None), paths=".*"):
    """Function that puts actuators on some joints: one kind for all, or several in turn."""
    configs = config if isinstance(config, list) else [config]

    def attach(simulation, wrap):
        names = Articulation(paths, simulation).dof_names[joints]
        pairs = [(wrap(configs[i % len(configs)]), name) for i, name in enumerate(names)]
        return [ArticulationActuators.from_actuators(paths, pairs, simulation=simulation)]

    return attach


EVERYWHERE = motors()


class Pair:
    """Two equal simulations: motors in the compiled loop, and motors with a stage that only Python can step.

    Args:
        envs: Number of environments.
        attach: Makes attachments of a simulation, and of what to apply to each config.
        path: File, spec or model.
        dt: Time step [s].
    """

    def __init__(self, envs, attach=EVERYWHERE, path=QUADRUPED, dt=0.004):
        self.simulations = [MujocoSimulation(path, envs, dt) for _ in range(2)]
        ways = (lambda config: config), staged
        self.attached = [attach(simulation, wrap) for simulation, wrap in zip(self.simulations, ways, strict=True)]
        self.calls = [0, 0]
        """Steps of actuators that Python called, of each."""
        for side, attached in enumerate(self.attached):
            for actuator in (actuator for each in attached for actuator in each.actuators):
                actuator.step = self._counted(actuator.step, side)

    def _counted(self, step, side):
        def counted(*arguments):
            self.calls[side] += 1
            step(*arguments)

        return counted

    @property
    def actuators(self):
        """The first attachment of each."""
        return [attached[0] for attached in self.attached]

    def each(self, do):
        """Call with first attachment, its robots and simulation."""
        for attached, simulation in zip(self.attached, self.simulations, strict=True):
            do(attached[0], attached[0].articulation, simulation)

    def command(self, rng, spread=0.3):
        for pair in zip(*self.attached, strict=True):
            shape = pair[0].articulation.get_dof_positions().shape
            offsets = rng.uniform(-spread, spread, shape).astype(np.float32)
            for robots in (each.articulation for each in pair):
                robots.set_dof_position_targets(robots.get_dof_positions().numpy() + offsets)

    def step(self, n):
        self.each(lambda _, __, simulation: simulation.step(n))

    def move(self, rng, spread=0.3, steps=5):
        """Command and step three times, and check each."""
        for _ in range(3):
            self.command(rng, spread)
            self.step(steps)
            self.check_alike()

    def check_alike(self, is_compiled=True):
        ours, theirs = self.simulations
        assert (self.calls[0] == 0) == is_compiled
        assert self.calls[1] > 0
        assert ours.time == theirs.time
        for kind, array in vars(ours.arrays).items():
            np.testing.assert_array_equal(array.numpy(), getattr(theirs.arrays, kind).numpy(), err_msg=kind)
        np.testing.assert_array_equal(states_of(ours), states_of(theirs))
        assert model_bytes(ours) == model_bytes(theirs)
        for mine, its in zip(*self.attached, strict=True):
            told, other = mine.telemetry(), its.telemetry()
            for name in ("velocity", "computed_effort", "applied_effort", "clipped", "limited_by"):
                np.testing.assert_array_equal(getattr(told, name), getattr(other, name), err_msg=name)
            assert told.signals.keys() == other.signals.keys()
            for name, values in told.signals.items():
                np.testing.assert_array_equal(values, other.signals[name], err_msg=name)
            check_same_memory(mine, its)


def check_same_memory(mine, its):
    """Check that both have equal memory, except the stage that only the second one has."""
    ours, theirs = remembered(mine), remembered(its)
    assert ours.keys() <= theirs.keys()
    for name in (name for name in ours if not name.endswith("__structure__")):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize(
    ("config", "robots"),
    [
        (ActuatorConfig(PD), FEW),
        (LATE, SOME),
        (ActuatorConfig(PD, [LIMIT], TimeDelayConfig(0.006, jitter=0.003), effects=[NoiseEffectConfig(0.3)]), SOME),
        (ActuatorConfig(stages=[TimeDelayConfig(0.006), LowPassDelayConfig(0.01), PD, LIMIT]), FEW),
        (ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), transmission=GearTransmissionConfig(6.0, 0.9)), FEW),
        (ActuatorConfig(PD, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)]), SOME),
        (ActuatorConfig(PD, [LIMIT], effects=[FrictionEffectConfig(0.2, load_external=0.1)]), FEW),
        (ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), [LIMIT], DelayConfig(1), control_every=3), SOME),
        (ActuatorConfig(PD, SUPPLY), FEW),
        ([ActuatorConfig(PD, SUPPLY), LATE, ActuatorConfig(PD, [*SUPPLY, LIMIT], control_every=2)], FEW),
        ([LATE, ActuatorConfig(PD), LATE, ActuatorConfig(PD, [LIMIT], DelayConfig(1))], SOME),
    ],
    ids=[
        "stateless",
        "late and limited",
        "noise and jitter",
        "late and filtered",
        "gear and integral",
        "friction",
        "friction of load",
        "held control",
        "battery",
        "battery of several kinds",
        "of several kinds",
    ],
)
def test_chains(config, robots, rng):
    """Physics, efforts, signals and what actuators remember."""
    pair = Pair(robots, motors(config))
    pair.step(1)
    for n in (5, 1, 4, 20):
        pair.command(rng)
        pair.step(n)
        pair.check_alike()


@pytest.mark.parametrize(
    "names",
    [
        "SensorEncoder SensorDifferentiated DelayTime ControllerPD ClampingPositionBased ClampingTorqueSpeed "
        "EffectCurrentLoop EffectRipple TransmissionLinkage EffectFriction",
        "SensorLowPass Delay ControllerServoPWM ClampingRemotized ClampingHeat TransmissionBacklash EffectNoise",
        "SensorDelay DelayInterpolated ControllerPD ClampingVoltage ClampingMaxEffort TransmissionSeriesElastic",
    ],
)
def test_stages(names, rng):
    """Most that there are, in chains of many."""
    configs = [built_in.components()[name].config(**built_in.values(name)) for name in names.split()]
    pair = Pair(FEW, motors(ActuatorConfig(stages=configs)), dt=0.001)
    pair.each(lambda _, robots, __: robots.set_dof_armatures(0.2))
    pair.move(rng)


@pytest.mark.parametrize("kind", ["mlp", "lstm"])
@pytest.mark.parametrize("control_every", [1, 3])
def test_networks(kind, control_every, rng, tmp_path):
    """Stages round differently if they are compiled as separate kernels."""
    pytest.importorskip("torch")
    from tests.support.torch_networks import LSTM, mlp

    path = tmp_path / "network.safetensors"
    actuon.save_network(mlp() if kind == "mlp" else LSTM(), path, **({"input_idx": [0, 1, 2]} if kind == "mlp" else {}))
    network = NeuralControlConfig(str(path), effort_scale=20.0)
    pair = Pair(FEW, motors([ActuatorConfig(network, [LIMIT], control_every=control_every), LATE]))
    for _ in range(3):
        pair.command(rng)
        pair.step(7)
        for get in (states_of, lambda simulation: simulation.arrays.joint_f.numpy()):
            np.testing.assert_allclose(*map(get, pair.simulations), rtol=1e-4, atol=1e-4)
    assert pair.calls[0] == 0 < pair.calls[1]
    memories = [remembered(actuators) for actuators in pair.actuators]
    for name in (name for name in memories[0] if not name.endswith("__structure__")):
        np.testing.assert_allclose(*(memory[name] for memory in memories), rtol=1e-4, atol=1e-4, err_msg=name)


LEGS = DCMotorCfg(
    [".*_hip_joint"], stiffness=60.0, damping=1.5, effort_limit=23.7, saturation_effort=23.7, velocity_limit=30.1,
    armature=0.02, effort_limit_sim=15.0, seed=1,
)  # fmt: skip
THIGHS = DelayedPDActuatorCfg([".*_thigh_joint"], stiffness=60.0, damping=1.5, min_delay=0, max_delay=4, seed=3)
CALVES = ImplicitActuatorCfg(
    [".*_calf_joint"], stiffness=100.0, damping=2.0, effort_limit_sim=12.0, friction=0.3, seed=2
)


@pytest.mark.parametrize("calves", [CALVES, CALVES.replace(class_type=IdealPDActuatorCfg().class_type), None])
@pytest.mark.parametrize("limit", [None, 6.0])
def test_groups(calves, limit, rng):
    """Explicit ones, beside the engine's own drives and joints in no group; with limits of joints and without."""

    def attach(simulation, wrap):
        own = staged_group if wrap is staged else wrap
        groups = {"legs": own(LEGS), "thighs": own(THIGHS)} | ({} if calves is None else {"calves": calves})
        return [ActuatorGroups(Articulation("base", simulation), groups)]

    pair = Pair(FEW, attach, QUADRUPED if limit is None else with_limits(-limit, limit))
    pair.each(lambda groups, _, __: groups.set_dof_feedforward_effort_targets(0.4))
    pair.move(rng)
    for name, own in pair.actuators[0].groups.items():
        its = pair.actuators[1][name]
        np.testing.assert_array_equal(own.applied_effort, its.applied_effort)
        np.testing.assert_array_equal(own.computed_effort, its.computed_effort)
    pair.each(
        lambda groups, _, simulation: (
            simulation.reset([2, 4]),
            groups["legs"].parameters.arrays["stiffness"].fill_(30.0),
        )
    )
    pair.move(rng)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("differ", [False, True])
def test_any_number_of_threads(threads, differ, rng, monkeypatch):
    """Environments that differ have a model for each thread."""
    monkeypatch.setenv("ACTUON_NUM_THREADS", str(threads))
    monkeypatch.setattr(batches, "WORTH_SHARING", 0.0)
    pair = Pair(SOME, motors([LATE, ActuatorConfig(PD, SUPPLY)]))
    if differ:
        armatures = rng.uniform(0.01, 0.03, (SOME, 12)).astype(np.float32)
        pair.each(lambda _, robots, __: robots.set_dof_armatures(armatures))
    for _ in range(4):
        pair.command(rng)
        pair.step(7)
    pair.check_alike()


@pytest.mark.parametrize("name", ROBOTS)
def test_public_robots(name, rng):
    """Some have bounds at their joints, or DOFs that nothing drives."""
    late = ActuatorConfig(PDControlConfig(5.0, 0.2), delay=DelayConfig(1))
    pair = Pair(FEW, motors(late), public_robot(name), dt=0.001)
    pair.move(rng, 0.05, 6)


def with_limits(low, high):
    """A quadruped whose joints let no other efforts through [N·m]."""
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    for joint in spec.joints[1:]:
        joint.actfrclimited, joint.actfrcrange = True, (low, high)
    return spec


def test_bounds_of_joints_are_kept_to(rng):
    """The engine does not clip external efforts by itself."""
    pair = Pair(FEW, path=with_limits(-2.0, 1.5))
    pair.move(rng)
    efforts = pair.actuators[0].telemetry().applied_effort
    assert efforts.min() == np.float32(-2.0)
    assert efforts.max() == np.float32(1.5)


def test_limits_that_are_changed_between_steps(rng):
    pair = Pair(FEW, path=with_limits(-9.0, 9.0))
    pair.command(rng)
    pair.step(6)
    for limit in (3.0, 1.0):
        pair.each(lambda _, robots, __, limit=limit: robots.set_dof_max_efforts(limit))
        pair.step(5)
        pair.check_alike()
        assert np.abs(pair.actuators[0].telemetry().applied_effort).max() == np.float32(limit)


def test_bounds_that_gravity_compensation_changes_at_each_step(rng):
    """It counts among the efforts that a joint lets through, so that bounds come from Python."""
    spec = with_limits(-4.0, 3.0)
    for joint in spec.joints[1:]:
        joint.actgravcomp = True
    for body in spec.bodies[1:]:
        body.gravcomp = 0.8
    pair = Pair(FEW, path=spec)
    pair.move(rng)


def test_joints_that_the_engine_drives(rng):
    """The other joints keep their servos."""
    pair = Pair(FEW, motors(joints=slice(2, 9, 3)))
    pair.move(rng)


def test_environments_whose_models_differ(rng):
    """In what is set between steps, and in friction, which motors change at each."""
    pair = Pair(FEW, motors([LATE, ActuatorConfig(PD, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)])]))
    armatures = rng.uniform(0.01, 0.03, (FEW, 12)).astype(np.float32)
    for i in range(3):
        pair.each(lambda _, robots, __, i=i: robots.set_dof_armatures(armatures + 0.001 * i))
        pair.command(rng)
        pair.step(5)
        pair.check_alike()


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


def test_numbers_that_are_written_to_a_parameter_count_at_the_next_step(rng):
    """Into the array that the kernel reads, without an assignment."""
    pair = Pair(FEW, motors(ActuatorConfig(PIDControlConfig(60.0, 5.0, 1.5), [LIMIT])))
    pair.move(rng)
    for actuators in pair.actuators:
        for values in actuators.actuators[0].controller.parameters().values():
            values.fill_(0.0)
    assert pair.actuators[0].telemetry().computed_effort.any()
    pair.step(1)
    pair.check_alike()
    assert not pair.actuators[0].telemetry().computed_effort.any()


@pytest.mark.parametrize("asked", [[3], [0, 1, 5], range(FEW)])
def test_environments_with_data_of_their_own(asked, rng):
    """Asked for before or between steps, and written into."""
    pair = Pair(
        FEW, motors([LATE, ActuatorConfig(PD, [LIMIT], effects=[FrictionEffectConfig(0.2, load_external=0.1)])])
    )
    pair.step(2)
    data = [[simulation.data[env] for env in asked] for simulation in pair.simulations]
    pair.move(rng)
    for own in data:
        for each in own:
            each.qvel[6:] += 0.25
    pair.move(rng)
    for ours, theirs in zip(*data, strict=True):
        assert ours.time == pytest.approx(32 * 0.004)
        np.testing.assert_array_equal(ours.qfrc_applied, theirs.qfrc_applied)
        np.testing.assert_array_equal(ours.sensordata, theirs.sensordata)


def two_sets(simulation, wrap):
    """Attachments that share robots and the friction of joints. One has a battery."""
    late = ActuatorConfig(PD, [*SUPPLY, LIMIT], DelayConfig(2))
    rough = ActuatorConfig(PD, [LIMIT], effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)])
    return [
        *motors(late, slice(0, None, 2), "base")(simulation, wrap),
        *motors(rough, slice(1, None, 2), "base")(simulation, wrap),
    ]


def test_several_attachments_on_one_robot(rng):
    pair = Pair(FEW, two_sets)
    pair.move(rng)
    pair.each(lambda _, __, simulation: simulation.reset([1]))
    pair.move(rng)


def test_a_battery_of_motors_of_which_python_steps_some(rng):
    """The compiled loop steps the others, and all see what the others drew."""
    config = ActuatorConfig(PD, SUPPLY)

    def attach(simulation, wrap):
        names = Articulation(".*", simulation).dof_names
        pairs = [((wrap if i < 6 else staged)(config), name) for i, name in enumerate(names)]
        return [ArticulationActuators.from_actuators(".*", pairs, simulation=simulation)]

    pair = Pair(FEW, attach)
    for _ in range(3):
        pair.command(rng)
        pair.step(5)
        np.testing.assert_array_equal(*map(states_of, pair.simulations))
    assert pair.calls == [15, 15]  # the second has one actuator for all joints
    mine, its = (actuators.telemetry().signals for actuators in pair.actuators)
    np.testing.assert_array_equal(mine["supply_voltage"], its["supply_voltage"])
    assert (mine["supply_voltage"] == mine["supply_voltage"][:, :1]).all()


@pytest.mark.parametrize("first", [0, 6])
def test_motors_of_which_python_steps_some(first, rng):
    """Whichever were attached first, on the same robots: the others stay in the loop, one step at a time."""

    def attach(simulation, wrap):
        there, here = slice(first, first + 6), slice(6 - first, 12 - first)
        return [*motors(LATE, there)(simulation, wrap), *motors(LATE, here)(simulation, staged)]

    pair = Pair(FEW, attach)
    for _ in range(3):
        pair.command(rng)
        pair.step(5)
        pair.check_alike(is_compiled=False)
    assert pair.calls == [15, 30]


def test_one_of_two_sets_of_actuators_is_closed(rng):
    """The other goes on; and what was closed is let go, at the next step at the latest."""
    arrays = count_arrays(FEW, 12)
    pair = Pair(FEW, two_sets)
    pair.step(6)
    pair.check_alike()
    for attached in pair.attached:
        attached.pop().close()
    pair.move(rng)
    held = weakref.ref(pair.actuators[0]), weakref.ref(pair.actuators[0].actuators[0])
    assert count_arrays(FEW, 12) > arrays
    pair.each(lambda actuators, _, __: actuators.close())
    pair.attached.clear()
    del attached
    for simulation in pair.simulations:
        simulation.step()
    assert count_arrays(FEW, 12) == arrays
    assert [reference() for reference in held] == [None, None]


def count_arrays(*shape):
    """How many Warp arrays of a shape, such as efforts of robots, are held by anybody."""
    gc.collect()
    return sum(type(each) is wp.array and each.shape == shape for each in gc.get_objects())


def two_arms():
    """Two robots in one environment, with other joints between them in the model."""
    arm = """<body name="{0}" pos="{1} 0 1"><joint name="{0}_a" axis="0 1 0" armature="0.01"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="1"/><body pos="0.3 0 0">
    <joint name="{0}_b" axis="0 1 0" armature="0.01"/><geom size="0.05" mass="0.5"/></body></body>"""
    box = '<body name="box" pos="1 0 0.2"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>'
    return mujoco.MjSpec.from_string(
        f"""<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>{arm.format("left", 0)}{box}
        {arm.format("right", 2)}</worldbody></mujoco>"""
    )


@pytest.mark.parametrize("battery", [False, True])
def test_robots_in_any_order(battery, rng):
    """Several in one environment, not in all environments, and named in another order than that of the simulation."""
    weak = PDControlConfig(20.0, 0.5)
    config = ActuatorConfig(weak, [*SUPPLY, LIMIT] if battery else [LIMIT], DelayConfig(2))

    def attach(simulation, wrap):
        left, right = (
            [f"/World/envs/env_{env}/{name}" for env in envs]
            for name, envs in (("left", [*range(1, FEW, 2), *range(0, FEW, 2)]), ("right", [7, 0, 4]))
        )
        return [*motors(config, paths=left)(simulation, wrap), *motors(config, paths=right)(simulation, wrap)]

    pair = Pair(FEW, attach, two_arms(), dt=None)
    assert pair.actuators[0].articulation.paths != sorted(pair.actuators[0].articulation.paths)
    pair.move(rng, steps=12)
    efforts = pair.actuators[0].telemetry().applied_effort
    assert len(np.unique(efforts)) == efforts.size


def test_motors_that_trip_say_so_at_their_time(rng, caplog):
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
    pair = Pair(FEW, motors(ActuatorConfig(PD, [hot])))
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
    pair.check_alike()


def test_what_is_heard_at_each_step(rng):
    """A callback sees each step, before which motors have not run yet, so that what it commands counts at once."""
    pair = Pair(FEW)
    times = [[], []]
    targets = rng.uniform(-0.5, 0.5, (8, 12)).astype(np.float32)

    def listen(side, robots):
        def heard(simulation, dt):
            times[side].append(simulation.time)
            robots.set_dof_position_targets(targets[len(times[side]) % 8])

        return heard

    subscriptions = [
        simulation.subscribe(actuon.Event.PRE_STEP, listen(side, pair.actuators[side].articulation))
        for side, simulation in enumerate(pair.simulations)
    ]
    pair.step(5)
    pair.check_alike()
    assert times[0] == times[1] == pytest.approx([0.004 * i for i in range(5)])
    for subscription in subscriptions:
        subscription.cancel()
    pair.step(5)
    pair.check_alike()


def test_another_thread_steps_the_same_actuator_on_arrays_of_its_own(rng):
    """The loop does not change it."""
    pair = Pair(SOME, motors(ActuatorConfig(PD)))
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


def test_actuators_that_rest_or_are_closed(rng):
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
    pair.command(rng)
    pair.step(5)
    assert any((values != before[name]).any() for name, values in remembered(pair.actuators[0]).items())
    pair.check_alike()
    robots = pair.actuators[0].articulation
    pair.each(lambda actuators, _, __: actuators.close())
    pair.step(5)
    assert not robots.get_dof_efforts().numpy().any()
    np.testing.assert_array_equal(*(states_of(simulation) for simulation in pair.simulations))


@pytest.mark.parametrize("own_data", [False, True])
def test_motors_that_are_stepped_by_hand(own_data, rng):
    """At every second step of physics, between which efforts stay."""
    pair = Pair(FEW, motors([LATE, ActuatorConfig(PD, SUPPLY, effects=[FrictionEffectConfig(0.2, load_external=0.1)])]))
    if own_data:
        data = [[simulation.data[env] for env in (0, 4)] for simulation in pair.simulations]
    pair.each(lambda actuators, _, __: actuators.disable_auto_step_pre_physics())
    for _ in range(8):
        pair.command(rng)
        pair.each(lambda actuators, _, __: actuators.step_actuators(0.008))
        pair.check_alike()
        pair.step(2)
        pair.check_alike()
    if own_data:
        for ours, theirs in zip(*data, strict=True):
            np.testing.assert_array_equal(ours.qfrc_applied, theirs.qfrc_applied)
            assert ours.qfrc_applied.any()


def test_one_of_two_attachments_is_stepped_by_hand(rng):
    """The other goes on with physics."""
    pair = Pair(FEW, two_sets)
    pair.move(rng)
    for attached in pair.attached:
        attached[1].disable_auto_step_pre_physics()
    for _ in range(3):
        pair.command(rng)
        for attached in pair.attached:
            attached[1].step_actuators(0.004)
        pair.step(1)
        pair.check_alike()
