# SPDX-License-Identifier: Apache-2.0
"""Controllers that run at every k-th step: what they give is held in between, all other stages run at each."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.robot_files.usd.read import export_actuators
from tests.actuator.test_gradients import difference, in_double, tape_gradients, weights
from tests.support.chains import SIGNALS, Values, random_signals, rollout, simulation
from tests.support.oracle import Oracle
from tests.support.robot_files import robot

K = 3
N = 70
DT = 0.01


class HeldOracle(Oracle):
    """Commands are delayed and efforts limited at each step; the controller runs at steps 0, K, 2 K, …"""

    t = 0

    def reset(self, mask, first=False):
        super().reset(mask, first)
        self.held = np.zeros(self.n) if first else np.where(mask, 0.0, self.held)

    def step(self, q, qd, target_q, target_qd, feedforward, dt):
        command = self.late(*(np.asarray(x, np.float64) for x in (target_q, target_qd, feedforward)))
        if self.t % K == 0:
            self.held = self.control(q.astype(np.float64), qd, *command, K * dt)
        self.t += 1
        effort = self.held
        for name, values in self.clamps:
            effort = self.laws[name](effort, q, qd, **values)
        return self.held, effort


def oracle(values):
    return HeldOracle(values.n, values.controller, values.gains, values.clamps, values.lags, values.depth)


def oracle_efforts(values, steps, masks=None):
    reference, efforts = oracle(values), []
    for t, signals in enumerate(steps):
        if masks and t in masks:
            reference.reset(masks[t])
        efforts.append(reference.step(*(signals[name] for name in SIGNALS), DT)[1])
    return np.array(efforts)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ["pd-max-late", "pid-dc-late"])
def test_against_the_oracle(name, staged, rng):
    """Some DOFs are reset between two runs of the controller, others when it is about to run."""
    values = Values.random(name, N, rng)
    steps = [random_signals(N, rng) for _ in range(14)]
    masks = {5: rng.random(N) < 0.5, 9: rng.random(N) < 0.5}
    expected = oracle_efforts(values, steps, masks)
    in_place = rollout(values.actuator(staged=staged, control_every=K), steps, DT, "one", masks)
    np.testing.assert_allclose(in_place, expected, rtol=1e-5, atol=1e-4)
    for stepping in ("two", "fresh"):
        actuator = values.actuator(staged=staged, control_every=K)
        np.testing.assert_array_equal(rollout(actuator, steps, DT, stepping, masks), in_place)


@pytest.mark.parametrize("staged", [False, True])
def test_a_network_at_its_own_rate(staged, rng, tmp_path):
    torch_networks = pytest.importorskip("tests.support.torch_networks")
    module = torch_networks.LSTM(layers=2, hidden=5).eval()
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path, sample_dt=K * DT)
    steps = [random_signals(N, rng) for _ in range(11)]
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path), control_every=K, fused=not staged)
    assert actuator.is_fused() is not staged
    feeder = torch_networks.Feeder(module, N, "lstm", input_idx=(0,), rnn=(2, 5))
    expected = np.repeat(torch_networks.fed(feeder, steps[::K]), K, axis=0)[: len(steps)]
    for stepping in ("one", "two"):
        torch_networks.assert_close(rollout(actuator, steps, DT, stepping), expected)
    sim = simulation(steps[0])
    every_step = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path))
    state = every_step.state()
    with pytest.raises(actuon.StateError, match=r"dt = 0.01 s.*sample_dt = 0.03 s; step .*control_every"):
        every_step.step(sim, sim, state, state, dt=DT)


def test_newtons_own_controller(rng):
    newton_actuators = pytest.importorskip("newton.actuators")
    values = Values.random("pid-max-now", 3, rng)
    steps = [random_signals(3, rng) for _ in range(8)]
    drive = newton_actuators.DrivePID(**{name: wp.array(gain) for name, gain in values.gains.items()})
    limit = actuon.ClampingMaxEffort(values.clamps[0][1]["max_effort"])
    actuator = actuon.Actuator(range(3), drive, clamping=[limit], control_every=K)
    assert not actuator.is_fused()
    for stepping in ("one", "two"):
        efforts = rollout(actuator, steps, DT, stepping)
        np.testing.assert_allclose(efforts, oracle_efforts(values, steps), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("staged", [False, True])
def test_gradients_through_what_is_held(staged, rng, monkeypatch):
    """The integral of the first step acts in all others, through the steps in which it is only carried on."""
    monkeypatch.setattr("tests.actuator.test_gradients.STEPS", 5)
    values = Values.random("pid-max-now", 3, rng)
    values.gains["integral_max"][:] = 10.0
    values.clamps[0][1]["max_effort"][:] = 1e4
    steps, weighting = [random_signals(3, rng) for _ in range(5)], weights(3, rng)
    monkeypatch.setattr(Values, "oracle", oracle)
    plain = Values.actuator
    monkeypatch.setattr(Values, "actuator", lambda self, **options: plain(self, control_every=K, **options))
    signals, parameters = tape_gradients(values, steps, weighting, staged)
    exact, exact_steps = in_double(values, steps)
    for (t, name), got in signals.items():
        expected = [difference(exact, exact_steps, weighting, exact_steps[t][name], i) for i in range(3)]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-3)
    for name in ("kp", "ki", "kd"):
        expected = [difference(exact, exact_steps, weighting, exact.gains[name], i) for i in range(3)]
        np.testing.assert_allclose(parameters["controller", name], expected, rtol=2e-3, atol=1e-3)


def test_what_is_held_is_the_effort_of_the_controller(rng):
    """And not what a stage after it left of that, one DOF at a time as in lanes."""
    steps = [random_signals(N, rng) for _ in range(7)]

    def lagging(kp=20.0, **options):
        stages = [actuon.ControllerPD(kp, 1.0), actuon.EffectCurrentLoop(0.03)]
        return rollout(actuon.Actuator(range(N), stages=stages, control_every=K, **options), steps, DT)

    in_lanes = lagging()
    np.testing.assert_array_equal(lagging(requires_grad=True), in_lanes)
    scattered = wp.full(2 * N, 20.0, dtype=wp.float32)[::2]
    np.testing.assert_array_equal(lagging(scattered), in_lanes)


def test_gradients_of_two_steps_from_one_state_add_up(rng):
    """Both are steps in which the controller does not run, so that its integral is only carried on."""
    actuator = actuon.Actuator([0], actuon.ControllerPID(1.0, 2.0, 0.0), requires_grad=True, control_every=2)
    first, *others = (actuator.state() for _ in range(6))
    sims = [simulation(random_signals(1, rng), requires_grad=True) for _ in range(5)]
    with wp.Tape() as tape:
        actuator.step(sims[0], sims[0], first, others[0], dt=0.5)
        for a, b, sim in ((1, 2, sims[1:3]), (3, 4, sims[3:5])):
            actuator.step(sim[0], sim[0], others[0], others[a], dt=0.5)
            actuator.step(sim[1], sim[1], others[a], others[b], dt=0.5)
    one = wp.ones(1, dtype=wp.float32)
    tape.backward(grads={sims[2].joint_f: one, sims[4].joint_f: one})
    np.testing.assert_allclose(sims[0].joint_target_q.grad.numpy(), 2 * 2.0 * 2 * 0.5)


@wp.func
def counting_law(target_q: float, q: float, count: float):
    return target_q - q, count + 1.0, count + 1.0


class ControllerCounting(actuon.Controller):
    """Offers how often it ran."""

    law = counting_law
    STATES = ("count",)
    OUTPUTS = ("runs",)


@wp.func
def added_law(effort: float, runs: float):
    return effort + 100.0 * runs


class EffectAdded(actuon.Effect):
    law = added_law


@pytest.mark.parametrize("staged", [False, True])
def test_signals_of_the_controller_are_held_with_its_effort(staged):
    actuator = actuon.Actuator(
        range(2),
        ControllerCounting(),
        effects=[EffectAdded()],
        control_every=2,
        control_signal_attrs={"runs": "runs"},
        fused=not staged,
    )
    states = actuator.state(), actuator.state()
    for t in range(5):
        sim = {name: wp.zeros(2) for name in (*SIGNALS, "joint_f", "runs")}
        sim["joint_target_q"].fill_(float(t))
        actuator.step(sim, sim, *states)
        states = states[::-1]
        runs = t // 2 + 1
        assert sim["runs"].numpy().tolist() == [runs] * 2
        assert sim["joint_f"].numpy().tolist() == [t // 2 * 2 + 100 * runs] * 2


def test_a_reset_of_all_starts_with_the_controller_and_one_of_some_keeps_its_pace(rng):
    values = Values.random("pd-max-late", 2, rng)
    values.lags[:] = 0
    actuator = values.actuator(control_every=K)
    state = actuator.state()

    def effort():
        sim = simulation(random_signals(2, rng))
        actuator.step(sim, sim, state, state, dt=DT)
        return sim.joint_f.numpy()

    first = effort()
    assert (effort() == first).all()
    state.reset()
    second = effort()
    assert (second != first).all()
    state.reset(np.array([True, False]))
    assert effort().tolist() == [0.0, second[1]]
    assert effort().tolist() == [0.0, second[1]]
    assert (effort() != [0.0, second[1]]).all()


def test_the_clock_is_saved_copied_and_assigned(rng, tmp_path):
    values = Values.random("pid-dc-late", N, rng)
    steps = [random_signals(N, rng) for _ in range(9)]
    expected = rollout(values.actuator(control_every=K), steps, DT, "one")
    actuator = values.actuator(control_every=K)
    state = actuator.state()

    def run(state, steps):
        efforts = []
        for signals in steps:
            sim = simulation(signals)
            actuator.step(sim, sim, state, state, dt=DT)
            efforts.append(sim.joint_f.numpy())
        return efforts

    run(state, steps[:4])
    state.save(tmp_path / "state.npz")
    assigned = actuator.state()
    assigned.assign(state)
    for other in (copy.deepcopy(state), assigned, actuator.load_state(tmp_path / "state.npz"), state):
        np.testing.assert_array_equal(run(other, steps[4:]), expected[4:])
    with pytest.raises(actuon.StateError, match="control every 3 steps; this one has"):
        values.actuator(control_every=2).load_state(tmp_path / "state.npz")
    with pytest.raises(actuon.StateError, match="ControllerPID"):
        values.actuator().load_state(tmp_path / "state.npz")
    contents = state.to_arrays() | {"clock": np.array(K)}
    with pytest.raises(actuon.StateError, match="'clock' is 3; must be from 0 to 2"):
        state.from_arrays(contents)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_graphs_of_any_length_keep_the_pace(fused, length, rng):
    """A graph may begin between two runs of the controller, with steps outside of it in between."""
    values = Values.random("pid-dc-late", N, rng)
    actuator = values.actuator(control_every=K, staged=not fused)
    state = actuator.state()
    sim = simulation(random_signals(N, rng))

    def step():
        sim.joint_f.zero_()
        actuator.step(sim, sim, state, state, dt=DT)

    replays = [random_signals(N, rng) for _ in range(5)]
    given = [signals for signals in replays for _ in range(length + 1)]
    expected = rollout(values.actuator(control_every=K), given, DT)
    step()
    with wp.ScopedCapture(device="cpu") as captured:
        for _ in range(length):
            step()
    state.reset()
    for t, signals in enumerate(replays):
        for name, array in signals.items():
            getattr(sim, name).assign(array)
        step()
        np.testing.assert_array_equal(sim.joint_f.numpy(), expected[(length + 1) * t])
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim.joint_f.numpy(), expected[(length + 1) * t + length])


CONFIG = actuon.ActuatorConfig(
    actuon.PDControlConfig(40.0, 1.0), [actuon.MaxEffortClampingConfig(30.0)], control_every=4
)


def test_in_a_config():
    assert repr(CONFIG).endswith("clamping=[MaxEffortClampingConfig(max_effort=30.0)], control_every=4)")
    assert CONFIG.copy() == CONFIG
    faster = CONFIG.copy()
    faster.control_every = 1
    assert faster != CONFIG
    assert "control_every" not in repr(faster)
    assert repr(actuon.Actuator([0], stages=CONFIG.stages, control_every=4)).startswith(
        "<Actuator of 1 DOFs on cpu, fused, control every 4 steps: "
    )
    for bad in (0, -1, 2.0, True, None, "4", 10**7):
        with pytest.raises(actuon.ParameterError, match=r"control_every: got .*; must be a whole number of steps"):
            actuon.Actuator([0], actuon.PDControlConfig(1.0, 0.0), control_every=bad)
    faster.control_every = 0
    with pytest.raises(actuon.ParameterError, match=r"control_every: got 0; must"):
        actuon.ActuatorBuilder().add(faster, 0)


@wp.func
def doubling_law(effort: float):
    return 2.0 * effort


class ControllerClosing(ControllerCounting):
    closing_law = doubling_law


def test_chains_whose_controller_cannot_be_held():
    pd = actuon.PDControlConfig(1.0, 0.0)
    with pytest.raises(actuon.StructureError, match="control_every: got 2 for an actuator with 2 controllers"):
        actuon.Actuator([0], stages=[pd, pd], control_every=2)
    with pytest.raises(
        actuon.StructureError, match="control_every: got 2, but ControllerClosing has a closing function"
    ):
        actuon.Actuator([0], ControllerClosing(), control_every=2)


def test_in_the_builder():
    """Joints whose controllers run at different steps do not share an actuator."""
    builder = actuon.ActuatorBuilder()
    for i, every in enumerate((4, 1, 4)):
        config = CONFIG.copy()
        config.control_every = every
        builder.add(config, i)
    slow, fast = builder.finalize()
    assert (slow.control_every, slow.indices.numpy().tolist()) == (4, [0, 2])
    assert (fast.control_every, fast.indices.numpy().tolist()) == (1, [1])


def test_in_newtons_builder():
    newton = pytest.importorskip("newton")
    newton_layer = pytest.importorskip("actuon.newton")
    builder = newton_layer.ModelBuilder()
    link = builder.add_link(mass=1.0, inertia=np.eye(3))
    builder.add_articulation([builder.add_joint_revolute(-1, link, axis=newton.Axis.Y)])
    builder.add(CONFIG, 0)
    (actuator,) = builder.finalize().actuators
    assert actuator.control_every == 4


def test_in_yaml(tmp_path):
    tools = pytest.importorskip("actuon.inspect.report")
    path = tmp_path / "actuon.yaml"
    entry = actuon.ActuatorEntry("knee", "knee", CONFIG)
    actuon.save_actuators(path, [entry])
    assert "control_every: 4\n" in path.read_text()
    assert actuon.load_actuators(path) == [entry]
    ((report,), problems) = (tools.inspect_yaml(path).entries, tools.inspect_yaml(path).problems)
    assert not problems
    assert_reported(report.chain)
    path.write_text(path.read_text().replace("every: 4", "every: 0.5"))
    with pytest.raises(actuon.RobotFileError, match=r"actuators.knee: control_every: got 0.5; must be a whole number"):
        actuon.load_actuators(path)


def assert_reported(chain):
    (controller,) = (part for part in chain if part.kind == "controller")
    value = controller.values[-1]
    assert (value.name, value.value, value.unit, value.source) == ("control_every", 4, "steps", "authored")


def test_in_usd():
    stage = robot()
    entries = [actuon.ActuatorEntry("knee", "knee", CONFIG), actuon.ActuatorEntry("hip", "hip", CONFIG.copy())]
    entries[1].actuator.control_every = 1
    knee, hip = actuon.author_actuators("/Robot", entries, stage=stage)
    assert knee.GetAttribute("actuon:controlEvery").Get() == 4
    assert not hip.GetAttribute("actuon:controlEvery")
    assert actuon.parse_actuator_prim(knee).config == CONFIG
    assert actuon.parse_actuator_prim(hip).config.control_every == 1
    assert {entry.name: entry.actuator for entry in export_actuators(stage)} == {e.name: e.actuator for e in entries}
    reports = {joint.name: joint for joint in actuon.inspect_actuators(stage).joints}
    assert_reported(reports["knee"].chain)
    assert "control_every" not in str(reports["hip"].chain)
    options = {"stage": stage, "overwrite_existing": True}
    again = actuon.add_actuator("/Robot", "knee", "knee", stages=CONFIG.stages, **options)
    assert actuon.parse_actuator_prim(again).config.control_every == 1
    slow = actuon.add_actuator("/Robot", "knee", "knee", stages=CONFIG.stages, control_every=2, **options)
    assert actuon.parse_actuator_prim(slow).config.control_every == 2
    slow.GetAttribute("actuon:controlEvery").Set(0)
    with pytest.raises(actuon.RobotFileError, match=r"/Robot/Actuators/knee: control_every: got 0; must be a whole"):
        actuon.parse_actuator_prim(slow)


MJCF = """<mujoco><worldbody><body name="robot">
  <joint name="knee" type="hinge"/><geom size="0.1"/>
</body></worldbody></mujoco>"""


def test_on_robots(tmp_path):
    """From the YAML beside the robot; one of them is reset between two runs of the controller."""
    (tmp_path / "robot.xml").write_text(MJCF)
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("knee", "knee", CONFIG)])
    with actuon.MujocoSimulation(tmp_path / "robot.xml", num_envs=2) as simulation:
        robots = actuon.ArticulationActuators("robot")
        joints = robots.articulation
        joints.set_dof_position_targets([[0.1], [2.0]])
        held = np.zeros(2)
        for t in range(10):
            if t == 6:
                simulation.reset([1])
                joints.set_dof_position_targets([[0.1], [2.0]])
                held[1] = 0.0
            if t % 4 == 0:
                q, qd = joints.get_dof_positions().numpy()[:, 0], joints.get_dof_velocities().numpy()[:, 0]
                held = 40.0 * (np.array([0.1, 2.0]) - q) - qd
            simulation.step()
            told = robots.telemetry()
            np.testing.assert_allclose(told.computed_effort.ravel(), held, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(told.applied_effort.ravel(), np.clip(held, -30.0, 30.0), rtol=1e-5, atol=1e-5)


def test_components_with_a_value_for_each_robot(tmp_path):
    (tmp_path / "robot.xml").write_text(MJCF)
    config = actuon.ActuatorConfig(actuon.ControllerPD([1.0, 2.0], [0.0, 0.0]), control_every=4)
    with actuon.MujocoSimulation(tmp_path / "robot.xml", num_envs=2):
        (actuator,) = actuon.ArticulationActuators.from_actuators("robot", [(config, "knee")]).actuators
    assert actuator.control_every == 4
