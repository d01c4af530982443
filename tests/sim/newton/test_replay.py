# SPDX-License-Identifier: Apache-2.0
"""Steps of Newton that are captured and replayed: the same bits as steps from Python, whatever is changed between."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from collections import Counter

import mujoco
import numpy as np
import pytest
import warp as wp

import actuon
from actuon import ArticulationActuators, NewtonSimulation
from actuon.sim import Articulation, Event
from actuon.sim.newton import engine, replay
from tests.support.saved_runs import HOT
from tests.support.staged import staged

newton = pytest.importorskip("newton")

ARM = actuon.assets.FOLDER / "arm.usda"
PD = actuon.PDControlConfig(20.0, 1.0)
MOTOR = actuon.ActuatorConfig(
    PD, [actuon.DCMotorClampingConfig(8.0, 20.0, 6.0), actuon.MaxEffortClampingConfig(5.0)], actuon.DelayConfig(3)
)
CHAINS = {
    "delay, DC motor": MOTOR,
    "control every 3 steps": actuon.ActuatorConfig(PD, control_every=3),
    "noise": actuon.ActuatorConfig(PD, effects=actuon.NoiseEffectConfig(0.2)),
    "battery": actuon.ActuatorConfig(
        PD, [actuon.BatteryClampingConfig(24.0, 0.5, 20.0, 18.0), actuon.VoltageClampingConfig(0.5, 0.5, 24.0)]
    ),
    "friction": actuon.ActuatorConfig(PD, effects=actuon.FrictionEffectConfig(0.2, 0.05, load_external=0.1)),
    "implicit": actuon.ActuatorConfig(PD, actuon.MaxEffortClampingConfig(5.0), effort_mode="implicit"),
    "staged": staged(MOTOR),
    "heat": actuon.ActuatorConfig(
        PD, dataclasses.replace(HOT, derating_start=25.2, derating_end=25.5, trip_temperature=25.5)
    ),
}


def native(model):
    return newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True)


def in_warp(model):
    return newton.solvers.SolverMuJoCo(model)


SOLVERS = {
    "MuJoCo": native,
    "MuJoCo Warp": in_warp,
    "featherstone": "featherstone",
    "semi_implicit": "semi_implicit",
    "xpbd": "xpbd",
}


def attach(simulation, config=MOTOR):
    paths = [robot.path for robot in simulation.robots]
    return ArticulationActuators.from_actuators(
        paths, [(config, name) for name in simulation.robots[0].dof_names], simulation=simulation
    )


_open: list[NewtonSimulation] = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while _open:
        _open.pop().close()


class Run:
    """An arm with motors, and everything that was seen of it."""

    def __init__(self, graphs, solver="mujoco", config=MOTOR, num_envs=1):
        dt = 1e-5 if solver == "semi_implicit" else 0.001  # beyond which it diverges
        self.simulation = NewtonSimulation(ARM, num_envs, dt, solver=solver, graphs=graphs)
        _open.append(self.simulation)
        self.arms = Articulation("Arm", self.simulation)
        self.actuators = attach(self.simulation, config)
        self.arms.set_dof_position_targets(np.linspace(0.1, 0.8, self.arms.num_dofs))
        self.seen = []

    def step(self, n=1):
        self.simulation.step(n)
        arrays = self.simulation.arrays
        self.seen += [array.numpy().copy() for array in (arrays.joint_q, arrays.joint_qd, arrays.joint_f)]
        self.seen += [self.simulation.state.body_q.numpy().copy(), self.actuators.telemetry().applied_effort]


def check_alike(captured, eager):
    assert len(captured.seen) == len(eager.seen) > 0
    for a, b in zip(captured.seen, eager.seen, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(eager.seen[1]).max() > 0.0


@pytest.fixture
def calls(monkeypatch):
    """How often Python steps each solver."""
    counted = Counter()
    for name in ("SolverMuJoCo", "SolverFeatherstone", "SolverSemiImplicit", "SolverXPBD"):
        kind = getattr(newton.solvers, name)

        def step(self, *arguments, _own=kind.step, **options):
            counted["steps"] += 1
            return _own(self, *arguments, **options)

        monkeypatch.setattr(kind, "step", step)
    return counted


@pytest.mark.parametrize("solver", SOLVERS)
def test_captured_steps_are_those_of_each_solver(solver, calls):
    captured, eager = Run(None, SOLVERS[solver]), Run(False, SOLVERS[solver])
    captured.step(), captured.step(), captured.step(20)
    python_steps = calls["steps"]
    assert python_steps <= 3  # the first, the captured one, and one to compare with
    for _ in range(3):
        captured.step()
    assert calls["steps"] == python_steps
    eager.step(), eager.step(), eager.step(20)
    for _ in range(3):
        eager.step()
    assert calls["steps"] == python_steps + 25
    check_alike(captured, eager)


@pytest.mark.parametrize(("solver", "launches"), [(name, 31 if name == "MuJoCo" else 1) for name in SOLVERS])
def test_motors_and_solver_are_one_graph_of_all_steps(solver, launches, monkeypatch):
    replayed = Counter()
    launch = wp.capture_launch

    def counted(graph):
        replayed["graphs"] += 1
        launch(graph)

    monkeypatch.setattr(wp, "capture_launch", counted)
    run = Run(None, SOLVERS[solver], num_envs=1 if solver == "MuJoCo" else 2)
    run.step(2)
    replayed.clear()
    run.simulation.step(30)
    assert replayed["graphs"] == launches
    replayed.clear()
    run.simulation.step(600)
    assert replayed["graphs"] == (603 if solver == "MuJoCo" else 3)  # now and then, an interrupt is heard


@pytest.mark.parametrize("config", CHAINS)
def test_chains_are_captured_or_stepped_from_python(config):
    runs = [Run(graphs, config=CHAINS[config], num_envs=envs) for graphs, envs in ((None, 1), (False, 1))]
    for run in runs:
        for n in (1, 1, 1, 5, 1, 7, 20):
            run.step(n)
    check_alike(*runs)


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_steps_are_single_ones(solver):
    many, single = Run(None, SOLVERS[solver]), Run(None, SOLVERS[solver])
    many.simulation.step(29), many.step()
    for _ in range(29):
        single.simulation.step()
    single.step()
    check_alike(many, single)


def rebind(run):
    for actuator in run.actuators.actuators:
        actuator.controller.kp = 35.0


def write_in_place(run):
    for actuator in run.actuators.actuators:
        actuator.controller.kd.fill_(2.0)


def replace_motors(run):
    run.actuators.close()
    run.simulation.step(2)
    run.actuators = attach(run.simulation, actuon.ActuatorConfig(actuon.PDControlConfig(30.0, 2.0)))


def replace_array(run):
    model = run.simulation.model
    model.joint_armature = wp.full_like(model.joint_armature, 0.3)
    run.simulation.solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_PROPERTIES)


def turn_gravity(run):
    run.simulation.model.set_gravity((0.0, 1.0, -3.0))
    run.simulation.solver.notify_model_changed(newton.ModelFlags.MODEL_PROPERTIES)


def save_and_load(run):
    saved = run.simulation.save_state()
    run.step(4)
    run.simulation.load_state(saved)


CHANGES = {
    "targets": lambda run: run.arms.set_dof_position_targets(-0.4),
    "state": lambda run: run.arms.set_dof_positions(0.2),
    "assigned parameters": rebind,
    "written parameters": write_in_place,
    "armature": lambda run: run.arms.set_dof_armatures(0.3),
    "friction": lambda run: run.arms.set_dof_friction_properties(0.2, 0.2, 0.3),
    "masses": lambda run: run.arms.set_link_masses(2.0),
    "stops": lambda run: run.arms.set_dof_limits(-0.1, 0.1),
    "reset": lambda run: run.simulation.reset(),
    "saved state": save_and_load,
    "other motors": replace_motors,
    "no motors": lambda run: run.actuators.close(),
    "gravity": turn_gravity,
    "array of the model": replace_array,
}


@pytest.mark.parametrize("solver", ["MuJoCo", "MuJoCo Warp"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_takes_effect_at_the_next_step(change, solver):
    unchanged, captured, eager = (Run(graphs, SOLVERS[solver]) for graphs in (None, None, False))
    for run in (unchanged, captured, eager):
        run.step(5)
        if run is not unchanged:
            CHANGES[change](run)
        for n in (1, 1, 1, 5):
            run.step(n)
    check_alike(captured, eager)
    assert any((a != b).any() for a, b in zip(unchanged.seen[5:], captured.seen[5:], strict=False))


def test_options_of_a_solver_take_effect():
    runs = [Run(graphs, "xpbd") for graphs in (None, False)]
    for run in runs:
        run.step(5)
        run.simulation.solver.iterations = 7
        run.step(5)
    check_alike(*runs)


def test_environments_are_reset_on_their_own():
    runs = [Run(graphs, num_envs=3) for graphs in (None, False)]
    for run in runs:
        run.step(6)
        run.simulation.reset([1])
        run.step(), run.step(6)
    check_alike(*runs)


def test_a_subscriber_may_change_anything():
    runs = [Run(graphs) for graphs in (None, False)]

    def randomise(run):
        rebind(run) if run.simulation.time > 0.004 else write_in_place(run)
        run.arms.set_dof_armatures(0.01 + run.simulation.time)

    for run in runs:
        heard = run.simulation.subscribe(Event.PRE_STEP, lambda *_, run=run: randomise(run))
        run.step(9)
        heard.cancel()
        run.step(9)
    check_alike(*runs)


@pytest.mark.parametrize("graphs", [None, False])
def test_a_target_that_is_not_finite_is_named(graphs):
    run = Run(graphs, num_envs=2)
    run.step(5)
    run.simulation.arrays.joint_target_q.numpy()[run.arms.at.flat("joint_target_q")[1, 2]] = np.nan
    with pytest.raises(
        actuon.SimulationError, match=r"t = 0\.008 s: the effort of joint 'joint3' of '.*/env_1/Arm' is nan"
    ):  # the command is 3 steps late
        run.step(9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_effort_that_is_not_finite_reaches_no_solver(solver):
    runs = [Run(graphs, SOLVERS[solver], actuon.ActuatorConfig(PD)) for graphs in (None, False)]
    for run in runs:
        run.step(5)
        targets = run.simulation.arrays.joint_target_q.numpy()
        before, targets[2] = targets[2], np.nan
        with pytest.raises(actuon.SimulationError, match="effort of joint 'joint3' of '/Arm' is nan") as caught:
            run.simulation.step(20)
        run.seen += [np.array([run.simulation.time]), run.simulation.save_state().engine]
        assert str(caught.value).startswith(f"t = {run.simulation.time:.6g} s: ")
        targets[2] = before
        run.actuators.reset()
        run.step(), run.step(20)
    check_alike(*runs)
    assert np.isfinite(runs[0].seen[-1]).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_robot_that_diverges_is_named_at_its_time(solver):
    said, seen = [], []
    for graphs in (None, False):
        run = Run(graphs, SOLVERS[solver], actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.0)))
        run.simulation.step(5)
        for actuator in run.actuators.actuators:
            actuator.controller.kp.fill_(1e6)
        with pytest.raises(actuon.SimulationError) as caught:
            run.simulation.step(5000)
        said.append(str(caught.value))
        seen.append((run.simulation.time, *(array.numpy().copy() for array in vars(run.simulation.arrays).values())))
        assert said[-1].startswith(f"t = {run.simulation.time:.6g} s: the ")
    assert said[0] == said[1]
    for captured, eager in zip(*seen, strict=True):
        np.testing.assert_array_equal(captured, eager)


def test_motors_that_trip_say_so_at_their_time(caplog):
    told = []
    for graphs in (None, False):
        caplog.clear()
        run = Run(graphs, config=CHAINS["heat"], num_envs=2)
        run.arms.set_dof_position_targets(np.array([[0.1], [0.15]]) * np.arange(run.arms.num_dofs))
        run.step(3), run.step(300)
        told.append([record.getMessage() for record in caplog.records if "tripped" in record.getMessage()])
    assert told[0] == told[1]
    assert len(told[0]) > 2
    assert len({text.split("s:")[0] for text in told[0]}) > 1


def attach_two(simulation, configs):
    paths = [robot.path for robot in simulation.robots]
    names = simulation.robots[0].dof_names
    parts = names[:3], names[3:]
    return [
        ArticulationActuators.from_actuators(paths, [(config, name) for name in part], simulation=simulation)
        for config, part in zip(configs, parts, strict=True)
    ]


@pytest.mark.parametrize(
    "configs",
    [("delay, DC motor", "noise"), ("battery", "noise"), ("delay, DC motor", "friction"), ("noise", "implicit")],
)
def test_two_attachments_on_a_robot(configs):
    runs = [Run(graphs) for graphs in (None, False)]
    for run in runs:
        run.actuators.close()
        run.actuators, *rest = attach_two(run.simulation, [CHAINS[name] for name in configs])
        for n in (1, 1, 1, 5, 20):
            run.step(n)
        rest[0].close()
        for n in (1, 1, 5):
            run.step(n)
        run.actuators.disable_auto_step_pre_physics()
        run.step(5)
        run.actuators.enable_auto_step_pre_physics()
        run.step(5)
    check_alike(*runs)


@pytest.mark.parametrize("solver", ["MuJoCo Warp", "featherstone", "xpbd"])
def test_a_loop_that_looks_at_nothing_takes_the_same_steps(solver, monkeypatch):
    eager = Run(False, SOLVERS[solver], num_envs=2)
    monkeypatch.setattr(engine, "WatchedLoop", lambda arrays, watch: engine.StepLoop(arrays.joint_q.device))
    run = Run(None, SOLVERS[solver], num_envs=2)  # as on a GPU
    for n in (1, 1, 1, 5, 20):
        run.step(n), eager.step(n)
    check_alike(run, eager)


def test_steps_are_captured_by_somebody_else():
    run, eager = Run(False, "featherstone"), Run(False, "featherstone")
    run.simulation.step(3)
    with wp.ScopedCapture(force_module_load=False) as capture:
        run.simulation.step(2)
    for _ in range(5):
        wp.capture_launch(capture.graph)
    eager.simulation.step(13)
    run.step(), eager.step()
    check_alike(run, eager)


def test_an_interrupt_leaves_the_steps_that_were_taken(monkeypatch):
    captured, eager = Run(None), Run(False)
    captured.step(5), eager.step(5)
    captured.simulation.step(2), eager.simulation.step(2)
    left, step = [3], mujoco.mj_step

    def interrupted(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        step(*arguments)

    monkeypatch.setattr(mujoco, "mj_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        captured.simulation.step(20)
    monkeypatch.undo()
    eager.simulation.step(3)
    assert captured.simulation.time == eager.simulation.time
    for each in ("joint_q", "joint_qd"):
        a, b = (getattr(run.simulation.arrays, each).numpy() for run in (captured, eager))
        np.testing.assert_array_equal(a, b)


def test_simulations_in_turns():
    runs = [Run(None), Run(None, num_envs=2), Run(None, "featherstone"), Run(None, config=CHAINS["noise"])]
    alone = [Run(None), Run(None, num_envs=2), Run(None, "featherstone"), Run(None, config=CHAINS["noise"])]
    for n in (1, 1, 3, 7):
        for run in runs:
            run.step(n)
    for run in alone:
        for n in (1, 1, 3, 7):
            run.step(n)
    for run, other in zip(runs, alone, strict=True):
        check_alike(run, other)


def test_a_graph_keeps_neither_motors_nor_simulation():
    run = Run(None)
    run.step(9)
    motors, simulation = weakref.ref(run.actuators), weakref.ref(run.simulation)
    run.actuators = None
    assert motors() is None
    run.simulation.step(9)
    _open.clear()
    del run
    gc.collect()
    assert simulation() is None


def test_a_callback_may_close_a_simulation_that_was_captured():
    run = Run(None)
    run.step(9)
    run.simulation.subscribe(Event.POST_STEP, lambda simulation, _: simulation.close())
    run.simulation.step(9)
    assert run.simulation.is_closed
    assert run.simulation.time == pytest.approx(0.01)
    with pytest.raises(actuon.SimulationError, match="closed"):
        run.simulation.step()


def test_other_threads_keep_steps_in_python(calls):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        captured, eager = Run(True), Run(None)
        eager.step(9)
        assert calls["steps"] == 9
        captured.step(9)
        assert calls["steps"] < 9 + 9
    finally:
        done.set()
        thread.join()
    check_alike(captured, eager)
    eager.step(9)
    assert calls["steps"] < 9 + 9 + 9


def test_simulations_in_threads():
    runs = [Run(None) for _ in range(3)]
    threads = [threading.Thread(target=run.step, args=(60,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eager = Run(False)
    eager.step(60)
    for run in runs:
        check_alike(run, eager)


def test_solvers_of_users_are_stepped_from_python():
    class Counting(newton.solvers.SolverXPBD):
        steps = 0

        def step(self, *arguments, **options):
            self.steps += 1
            return super().step(*arguments, **options)

    run = Run(None, Counting)
    run.step(9)
    assert run.simulation.solver.steps == 9


@pytest.mark.parametrize("missing", ["_apply_mjc_control", "_update_newton_state"])
def test_a_newton_that_steps_otherwise_is_stepped_from_python(missing, monkeypatch, calls):
    eager = Run(False)
    eager.step(9)
    own = getattr(newton.solvers.SolverMuJoCo, missing)

    def refuse(self, model, state, *rest, **options):
        if any(hasattr(each, "nworld") for each in rest):
            raise AttributeError(missing)
        own(self, model, state, *rest, **options)

    monkeypatch.setattr(newton.solvers.SolverMuJoCo, missing, refuse)
    run = Run(None)
    run.step(9)
    assert calls["steps"] == 18
    check_alike(run, eager)


def test_a_captured_step_that_differs_is_not_used(monkeypatch, calls):
    eager = Run(False)
    eager.step(9)
    read = replay.NativeStep.read_mujoco

    def spoil(self):
        read(self)
        wp.copy(self._state.joint_q, wp.zeros_like(self._state.joint_q))

    monkeypatch.setattr(replay.NativeStep, "read_mujoco", spoil)
    run = Run(None)
    run.step(9)
    assert calls["steps"] == 9 + 9 + 1
    check_alike(run, eager)


@pytest.mark.parametrize("solver", ["MuJoCo", "MuJoCo Warp"])
def test_the_solver_is_captured_under_implicit_efforts(solver, calls):
    captured, eager = (Run(graphs, SOLVERS[solver], CHAINS["implicit"]) for graphs in (None, False))
    for _ in range(4):
        captured.step()
    python_steps = calls["steps"]
    captured.step(), captured.step(9)
    assert calls["steps"] == python_steps
    for n in (1, 1, 1, 1, 1, 9):
        eager.step(n)
    check_alike(captured, eager)
