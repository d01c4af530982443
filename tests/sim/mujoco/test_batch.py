# SPDX-License-Identifier: Apache-2.0
"""Many environments in MuJoCo: one loop over all of them gives what plain `mj_step` gives, to the last bit."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import resource
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest
import warp as wp

from actuon import Articulation, ArticulationActuators, Event, MujocoSimulation, Recorder, SimulationError
from actuon.sim.mujoco import batch as batches, c_code
from tests.support.paths import ASSETS, ROBOTS, public_robot

mujoco = pytest.importorskip("mujoco")
from tests.support.states import plain_data, state_of, states_of  # noqa: E402 - needs MuJoCo

QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
MANY = 19


@contextlib.contextmanager
def traced_memory():
    """Gives a list that holds by how much arrays and Python objects have grown [bytes] after the block."""
    grown = []
    gc.collect()
    tracemalloc.start()
    try:
        yield grown
        gc.collect()
        grown.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def shaken(simulation, rng):
    """Environments that differ, and a plain ``MjData`` in the state of each."""
    saved, plain = simulation.save_state(), plain_data(simulation)
    for env, data in enumerate(plain):
        data.qvel[:] = rng.normal(0.0, 0.5, data.qvel.shape)
        data.ctrl[:] += rng.normal(0.0, 0.2, data.ctrl.shape)
        state = state_of(simulation.models[env], data)
        saved.engine[env, : len(state)] = state
    simulation.load_state(saved)
    return plain


def check_states(simulation, plain):
    """Check the state that actuators read after the last step, and all that the next step starts from."""
    shown = {"joint_q": "qpos", "joint_qd": "qvel", "joint_f": "qfrc_applied"}
    for kind, name in shown.items():
        rows = getattr(simulation.arrays, kind).numpy().reshape(len(plain), -1)
        np.testing.assert_array_equal(rows, np.float32([getattr(data, name) for data in plain]), err_msg=kind)
    states = states_of(simulation)
    for env, data in enumerate(plain):
        np.testing.assert_array_equal(state_of(simulation.models[env], data), states[env], err_msg=f"env {env}")


def check_plain(simulation, plain, steps):
    for env, data in enumerate(plain):
        model = simulation.models[env]
        for _ in range(steps):
            mujoco.mj_step(model, data)
    check_states(simulation, plain)


@pytest.mark.parametrize("name", ["quadruped", "arm", *ROBOTS])
def test_bits_of_plain_mj_step(name, rng):
    """Warm starts, contacts and activations included, on shipped and public robots."""
    path = public_robot(name) if name in ROBOTS else ASSETS / f"{name}.xml"
    with MujocoSimulation(path, num_envs=MANY) as simulation:
        plain = shaken(simulation, rng)
        for _ in range(10):
            simulation.step()
        simulation.step(15)
        check_plain(simulation, plain, 25)


@contextlib.contextmanager
def python_callback():
    """A callback in Python that changes nothing: MuJoCo's bindings, and not the compiled loop, call its steps."""
    mujoco.set_mjcb_time(lambda: 0.0)
    try:
        yield
    finally:
        mujoco.set_mjcb_time(None)


@pytest.mark.parametrize("differ", [False, True])
@pytest.mark.parametrize("asked", [[], [4], [0, 3, 7], range(MANY)], ids=["none", "one", "some", "all"])
@pytest.mark.parametrize("how", ["one thread", "threads", "callback"])
def test_all_ways_give_the_same_bits(how, asked, differ, rng, monkeypatch):
    """Threads, callbacks in Python, environments with an ``MjData`` of their own, and models that differ."""
    monkeypatch.setattr(batches, "WORTH_SHARING", 0.0)
    monkeypatch.setenv("ACTUON_NUM_THREADS", "3" if how == "threads" else "1")
    single, mj_step = [], mujoco.mj_step
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        if differ:
            Articulation("base").set_dof_armatures(rng.uniform(0.01, 0.03, (MANY, 12)))
        plain = shaken(simulation, rng)
        data = [simulation.data[env] for env in asked]
        with monkeypatch.context() as patch, python_callback() if how == "callback" else contextlib.nullcontext():
            patch.setattr(mujoco, "mj_step", lambda *given: single.append(1) or mj_step(*given))
            for steps in (4, 1, 5):
                simulation.step(steps)
        assert len(single) == (10 * MANY if how == "callback" else 0)
        check_plain(simulation, plain, 10)
        for env, own in zip(asked, data, strict=True):
            np.testing.assert_array_equal(own.sensordata, plain[env].sensordata)
            np.testing.assert_array_equal(own.qacc, plain[env].qacc)


def test_an_environment_that_is_asked_for_keeps_its_data(rng):
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        plain = shaken(simulation, rng)
        simulation.step(5)
        before = states_of(simulation)[4]
        data = simulation.data[4]
        assert data is simulation.data[4]
        assert simulation.data[-1] is simulation.data[MANY - 1]
        assert len(simulation.data) == len(simulation.models) == MANY
        np.testing.assert_array_equal(state_of(simulation.models[4], data), before)
        assert data.ncon > 0 or data.xpos[1, 2] > 0.0
        simulation.step(5)
        check_plain(simulation, plain, 10)
        np.testing.assert_array_equal(data.qpos, plain[4].qpos)
        np.testing.assert_array_equal(data.sensordata, plain[4].sensordata)
        np.testing.assert_array_equal(data.qfrc_actuator, plain[4].qfrc_actuator)
        with pytest.raises(IndexError):
            simulation.data[MANY]


def test_what_is_written_into_data_counts(rng):
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        robots = Articulation("base")
        data = simulation.data[2]
        data.qpos[7] = 0.3
        data.ctrl[0] = 0.125
        data.qfrc_applied[6] = 2.0
        assert robots.get_dof_positions().numpy()[2, 0] == np.float32(0.3)
        assert robots.get_dof_position_targets().numpy()[2, 0] == 0.125
        assert robots.get_dof_efforts().numpy()[2, 0] == 2.0
        robots.set_dof_positions(0.25, indices=[2, 3], dof_indices=[1, 4])
        assert data.qpos[[7, 8, 11]].tolist() == [0.3, 0.25, 0.25]
        robots.set_dof_efforts(0.5, indices=[2], dof_indices=[1])
        assert data.qfrc_applied[[6, 7]].tolist() == [2.0, 0.5]


@pytest.mark.parametrize("robot", ["quadruped", "unitree_g1"])
def test_environments_that_differ_are_those_of_models_of_their_own(robot, rng):
    path = QUADRUPED if robot == "quadruped" else public_robot(robot)
    with MujocoSimulation(path, num_envs=MANY) as simulation:
        shared = copy.copy(simulation.models[0])
        robots = Articulation([found.path for found in simulation.robots])
        engine, at = simulation.engine, robots.at
        before = engine.properties.get("armature", at)
        factors = rng.uniform(0.5, 2.0, before.shape)
        engine.properties.set(at, armature=before * factors)
        engine.properties.set(at, friction=rng.uniform(0.0, 0.3, before.shape))
        robots.set_link_masses(robots.get_link_masses([0, 1, 2], [0]).numpy() * 1.5, [0, 1, 2], [0])
        np.testing.assert_allclose(engine.properties.get("armature", at), before * factors, rtol=1e-6)
        plain = shaken(simulation, rng)
        for env in (0, 1, MANY - 1):  # as if each had been compiled so
            model, own = simulation.models[env], copy.copy(shared)
            for name in ("dof_armature", "dof_frictionloss", "body_mass"):
                getattr(own, name)[:] = getattr(model, name)
            mujoco.mj_setConst(own, mujoco.MjData(own))
            names = [name for name in dir(model) if not name.startswith(("_", "cam_", "light_"))]
            for name in (name for name in names if isinstance(getattr(model, name), np.ndarray)):
                np.testing.assert_array_equal(getattr(model, name), getattr(own, name), err_msg=name)
            assert model.stat.meaninertia == own.stat.meaninertia
        simulation.step(20)
        check_plain(simulation, plain, 20)


@pytest.mark.parametrize("robot", ["quadruped", "unitree_g1"])
def test_environments_that_differ_take_little_memory(robot):
    """Rows of what differs, not a model each."""
    path = QUADRUPED if robot == "quadruped" else public_robot(robot)
    with MujocoSimulation(path, num_envs=64) as simulation:
        robots = Articulation([found.path for found in simulation.robots])
        values = np.random.default_rng(0).uniform(0.01, 0.02, (64, robots.num_dofs))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with traced_memory() as grown_arrays:
            simulation.engine.properties.set(robots.at, armature=values)
        simulation.step(2)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert 64 * robots.num_dofs * 8 < grown_arrays[0] < 64 * 20_000
        assert grown < 64 * 1_000_000


def test_a_thousand_robots_take_little_memory():
    code = f"""
        import resource
        from actuon import MujocoSimulation
        MujocoSimulation({str(QUADRUPED)!r}, num_envs=20).step(2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        simulation = MujocoSimulation({str(QUADRUPED)!r}, num_envs=1000)
        simulation.step(2)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) * 1024 < 1000 * 60_000


def test_rewinding_all_or_some(rng):
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        robots = Articulation("base")
        actuators = ArticulationActuators("base")
        robots.set_dof_velocities(rng.normal(0.0, 1.0, (MANY, 12)))
        simulation.step(7)
        saved = simulation.save_state()
        targets = robots.get_dof_position_targets().numpy()
        trace = []
        for _ in range(2):
            robots.set_dof_position_targets(targets + 0.1)
            simulation.step(9)
            trace.append(states_of(simulation))
            simulation.load_state(saved)
        np.testing.assert_array_equal(*trace)
        np.testing.assert_array_equal(robots.get_dof_position_targets().numpy(), targets)

        robots.set_dof_position_targets(targets + 0.1)
        simulation.step(4)
        now = states_of(simulation)
        simulation.load_state(saved, env_ids=[1, 5])
        others = np.setdiff1d(np.arange(MANY), [1, 5])
        np.testing.assert_array_equal(states_of(simulation)[others], now[others])
        robots.set_dof_position_targets(targets + 0.1)
        simulation.step(9)
        np.testing.assert_array_equal(states_of(simulation)[[1, 5]], trace[0][[1, 5]])
        assert actuators.telemetry().applied_effort.any()


def test_live_arrays_are_those_of_the_simulation():
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        robots = Articulation("base")
        live, before = robots.live("joint_q"), robots.get_dof_positions()
        assert live.ptr == robots.live("joint_q").ptr
        np.testing.assert_array_equal(live.numpy(), before.numpy())
        kept = before.numpy().copy()
        robots.set_dof_position_targets(robots.get_dof_position_targets().numpy() + 0.2)
        simulation.step(5)
        np.testing.assert_array_equal(live.numpy(), robots.get_dof_positions().numpy())
        np.testing.assert_array_equal(before.numpy(), kept)
        assert (live.numpy() != kept).any()


def test_friction_as_isaac_sim_has_it():
    with MujocoSimulation(ARM, num_envs=2):
        robots = Articulation("link0")
        robots.set_dof_friction_properties(0.5, viscous_frictions=0.25, dof_indices=[1])
        static, dynamic, viscous = (values.numpy() for values in robots.get_dof_friction_properties())
        assert static[:, 1].tolist() == dynamic[:, 1].tolist() == [0.5, 0.5]
        assert viscous[:, 1].tolist() == [0.25, 0.25]
        with pytest.raises(SimulationError, match="one dry friction"):
            robots.set_dof_friction_properties(0.5, 0.4)


def calls_in(function, *arguments):
    """How many functions in Python are called."""
    calls = []
    gc.collect()
    gc.disable()  # what it finds may call functions of its own
    sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(calls)


def test_nobody_is_called_between_steps_that_need_nobody(monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "1")
    with MujocoSimulation(ARM, num_envs=MANY) as simulation:
        for _ in range(3):  # it times the first ones
            simulation.step(2)
        calls = [calls_in(simulation.step, steps) for steps in (12, 10, 8)]  # so many that it asks for threads
        assert calls[0] == calls[1] == calls[2]
        heard = []
        simulation.subscribe(Event.PRE_STEP, lambda *_: heard.append(simulation.time))
        assert calls_in(simulation.step, 6) > calls_in(simulation.step, 2) + 4
        assert len(heard) == 8
        assert simulation.time == pytest.approx(44 * simulation.dt)


def test_a_recorder_that_went_away_is_not_waited_for(monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "1")
    with MujocoSimulation(ARM, num_envs=MANY) as simulation:
        actuators = ArticulationActuators("link0")
        recorder = Recorder(actuators)
        simulation.step(4)
        assert calls_in(simulation.step, 6) > calls_in(simulation.step, 2) + 4
        del recorder
        gc.collect()
        simulation.step(4)
        assert calls_in(simulation.step, 6) == calls_in(simulation.step, 2)


def test_divergence_between_steps_is_told_at_its_time():
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        simulation.step(3)
        Articulation("base").set_dof_velocities(1e9, indices=[4], dof_indices=[2])
        with pytest.raises(SimulationError, match=r"env_4/base") as error:
            simulation.step(500)
        assert float(str(error.value).split()[2]) < 100 * simulation.dt


def test_too_little_memory_is_an_error_not_the_end_of_the_process():
    boxes = "".join(f"<body pos='{i * 0.05} 0 .09'><freejoint/><geom size='.1'/></body>" for i in range(12))
    hinge = "<body name='r' pos='0 0 3'><joint name='h'/><geom size='.1'/></body>"
    xml = f"<mujoco><size memory='9K'/><worldbody><geom type='plane' size='5 5 .1'/>{boxes}{hinge}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(xml)
    with MujocoSimulation(model, num_envs=MANY) as simulation, pytest.raises(mujoco.FatalError, match="out of memory"):
        simulation.step()


def test_memory_that_runs_out_later_does_as_in_mj_step(capfd):
    """All boxes land in the same step, with no contact before. MuJoCo 3 ends in an error, MuJoCo 4 drops contacts."""
    boxes = "".join(
        f"<body pos='{i % 5} {i // 5} 1'><freejoint/><geom type='box' size='.1 .1 .1'/></body>" for i in range(25)
    )
    hinge = "<body name='r' pos='0 0 9'><joint name='h'/><geom size='.1'/></body>"
    xml = (
        f"<mujoco><size memory='24K'/><worldbody><geom type='plane' size='5 5 .1'/>{boxes}{hinge}</worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    runs_out = False
    try:
        mujoco.mj_step(model, data, 300)
    except mujoco.FatalError:
        runs_out = True
    capfd.readouterr()
    with MujocoSimulation(model, num_envs=MANY) as simulation:
        simulation.step(50)
        if runs_out:
            with pytest.raises(mujoco.FatalError, match="out of memory"):
                simulation.step(250)
            assert 0.3 < simulation.time < 0.5
            np.testing.assert_allclose(states_of(simulation)[:, 0], simulation.time)
        else:
            simulation.step(250)
            for env in (0, MANY - 1):
                np.testing.assert_array_equal(simulation.data[env].qpos, data.qpos)
            assert "Insufficient arena memory" in capfd.readouterr().err
        simulation.reset()
        simulation.step(50)


def test_callbacks_of_mujoco_may_raise_many_times():
    """Environments keep no memory of the step, with an own ``MjData`` or without."""

    def refuse(model, data, first, second):
        raise KeyError("mine")

    with MujocoSimulation(QUADRUPED, num_envs=2) as simulation:
        simulation.step(200)  # on its feet
        for data in (None, simulation.data[0]):
            mujoco.set_mjcb_contactfilter(refuse)
            try:
                for _ in range(20):
                    with pytest.raises(KeyError, match="mine"):
                        simulation.step(3)
            finally:
                mujoco.set_mjcb_contactfilter(None)
            assert data is None or data.pstack == 0
            simulation.step(2)


def test_a_callback_of_mujoco_may_raise():
    def push(model, data):
        if data.time > 0.05:
            raise KeyError("mine")
        data.qfrc_applied[0] = 1.0

    with MujocoSimulation(ARM, num_envs=MANY) as simulation:
        simulation.step(2)
        mujoco.set_mjcb_control(push)
        try:
            simulation.step(2)
            assert all(data.qfrc_applied[0] == 1.0 for data in plain_data(simulation))
            with pytest.raises(KeyError, match="mine"):
                simulation.step(1000)
        finally:
            mujoco.set_mjcb_control(None)
        simulation.step(2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_steps_a_simulation_that_was_made_before_the_fork(tmp_path):
    """Threads do not survive a fork: they are made anew."""
    code = f"""
        import os
        import numpy as np
        from actuon import Articulation, ArticulationActuators, MujocoSimulation
        from actuon.sim.mujoco import batch
        batch.WORTH_SHARING = 0.0
        simulation = MujocoSimulation({str(QUADRUPED)!r}, num_envs={MANY})
        actuators = ArticulationActuators("base")
        actuators.articulation.set_dof_armatures(np.linspace(0.01, 0.03, {MANY})[:, None])
        simulation.step(5)
        child = os.fork()
        simulation.step(5)
        np.save("child.npy" if child == 0 else "parent.npy", simulation.save_state().engine)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        simulation.step(5)
    """
    environment = {**os.environ, "ACTUON_NUM_THREADS": "3"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, timeout=300)
    np.testing.assert_array_equal(np.load(tmp_path / "child.npy"), np.load(tmp_path / "parent.npy"))


@pytest.mark.parametrize("num_envs", [3, MANY])
def test_trees_that_sleep(num_envs, rng):
    """MuJoCo keeps who sleeps in an ``MjData``, and not in its state."""
    xml = """<mujoco><option sleep_tolerance="0.01"><flag sleep="enable"/></option><worldbody>
    <geom type="plane" size="5 5 .1"/><body name="r" pos="0 0 .2"><freejoint/><geom size=".1"/><body pos=".2 0 0">
    <joint axis="0 1 0" damping="1"/><geom size=".05"/></body></body><body pos="1 0 .3"><freejoint/>
    <geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>"""
    with MujocoSimulation(mujoco.MjSpec.from_string(xml), num_envs=num_envs) as simulation:
        plain = shaken(simulation, rng)
        simulation.step(700)
        check_plain(simulation, plain, 700)
        assert any((data.tree_asleep >= 0).any() for data in plain)
        simulation.reset()
        assert all((simulation.data[env].tree_asleep < 0).all() for env in range(num_envs))


def test_places_are_told_apart_and_forgotten(rng):
    """Whatever way arrays are printed, and however many subsets are asked for."""
    with np.printoptions(threshold=2, edgeitems=1), MujocoSimulation(ARM, num_envs=MANY) as simulation:
        robots = Articulation("link0")
        for columns in ([0, 2, 3, 5], [0, 1, 4, 5]):
            targets = robots.get_dof_positions(dof_indices=columns).numpy() + 0.01
            robots.set_dof_position_targets(targets, dof_indices=columns)
            chosen = robots.get_dof_position_targets(dof_indices=columns).numpy()
            np.testing.assert_allclose([data.ctrl[columns] for data in plain_data(simulation)], chosen)
        subsets = [rng.choice(MANY, 5, replace=False) for _ in range(1300)]
        for subset in subsets[:300]:
            robots.get_root_poses(subset)
        with traced_memory() as grown:
            for subset in subsets[300:]:
                robots.get_root_poses(subset)
        assert grown[0] < 100_000


def test_a_stop_on_one_side(rng):
    with MujocoSimulation(ARM, num_envs=MANY):
        robots = Articulation("link0")
        upper = rng.uniform(1.0, 2.0, (MANY, 7)).astype(np.float32)
        robots.set_dof_limits(-np.inf, upper)
        lower, found = (limits.numpy() for limits in robots.get_dof_limits())
        assert (lower == -np.inf).all()
        np.testing.assert_array_equal(found, upper)


@pytest.mark.parametrize("given", ["", 'meaninertia="0.3" extent="2" center="1 2 3"', 'meanmass="7" meansize="0.5"'])
@pytest.mark.parametrize("num_envs", [1, MANY])
@pytest.mark.filterwarnings("ignore:statistic attribute .* is deprecated:UserWarning")
def test_statistics_stay_where_masses_change(num_envs, given, rng):
    """These fields place the camera and scale the viewer's drawing; MuJoCo's physics does not read them."""
    xml = f"""<mujoco><statistic {given}/><worldbody><body name="r"><joint armature=".1"/><geom size=".1"/></body>
    </worldbody></mujoco>"""

    def statistics(model):
        return [np.array(getattr(model.stat, name)).tolist() for name in dir(model.stat) if not name.startswith("_")]

    with MujocoSimulation(mujoco.MjSpec.from_string(xml), num_envs=num_envs) as simulation:
        robots, before = Articulation("r"), statistics(simulation.models[0])
        robots.set_dof_armatures(rng.uniform(1.0, 2.0, (num_envs, 1)))
        robots.set_link_masses(rng.uniform(1.0, 2.0, (num_envs, 1)))
        assert len(before) == 5
        for model in (simulation.models[0], simulation.models[num_envs - 1]):
            assert statistics(model) == before


def test_environments_are_asked_for_by_whole_numbers():
    with MujocoSimulation(ARM, num_envs=MANY) as simulation:
        assert simulation.data[-1] is simulation.data[np.int64(MANY - 1)]
        for wrong, error in ((1.5, TypeError), ("0", TypeError), (MANY, IndexError), (-MANY - 1, IndexError)):
            with pytest.raises(error):
                simulation.data[wrong]


def test_a_missing_library_of_mujoco_is_said(tmp_path, monkeypatch):
    """Where its package was taken apart."""
    monkeypatch.setattr(mujoco, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(SimulationError, match=rf"MuJoCo's library is not in '{tmp_path}'; install the package"):
        c_code.library.__wrapped__()


def test_roots(rng):
    """Poses and velocities, set and got, are those that MuJoCo computes."""
    with MujocoSimulation(QUADRUPED, num_envs=MANY) as simulation:
        robots = Articulation("base")
        poses = rng.normal(0.0, 1.0, (MANY, 7)).astype(np.float32)
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        velocities = rng.normal(0.0, 1.0, (MANY, 6)).astype(np.float32)
        robots.set_root_poses(poses)
        robots.set_root_velocities(velocities)
        np.testing.assert_allclose(robots.get_root_poses().numpy(), poses, atol=1e-6)
        np.testing.assert_allclose(robots.get_root_velocities(indices=[3]).numpy(), velocities[[3]], atol=1e-6)
        data, found = simulation.data[3], np.zeros(6)
        np.testing.assert_allclose(data.xpos[1], poses[3, :3], atol=1e-6)
        mujoco.mj_objectVelocity(simulation.models[3], data, mujoco.mjtObj.mjOBJ_XBODY, 1, found, 0)
        np.testing.assert_allclose(np.hstack([found[3:], found[:3]]), velocities[3], atol=1e-5)
        positions, orientations = robots.get_world_poses()
        np.testing.assert_array_equal(orientations.numpy()[:, [1, 2, 3, 0]], robots.get_root_poses().numpy()[:, 3:])
        robots.set_world_poses(positions=positions.numpy()[2] + 1.0, indices=[2])
        np.testing.assert_allclose(robots.get_root_poses().numpy()[2, 3:], poses[2, 3:], atol=1e-6)
        np.testing.assert_allclose(robots.get_root_poses().numpy()[2, :3], poses[2, :3] + 1.0, atol=1e-6)
        robots.set_velocities(angular_velocities=[0.0, 0.0, 2.0])
        linear, angular = robots.get_velocities()
        np.testing.assert_allclose(angular.numpy(), np.tile([0.0, 0.0, 2.0], (MANY, 1)), atol=1e-5)
        np.testing.assert_allclose(linear.numpy(), velocities[:, :3], atol=1e-5)
    with MujocoSimulation(ARM, num_envs=2) as simulation:
        robots = Articulation("link0")
        assert robots.get_root_poses().numpy().shape == (2, 7)
        assert not robots.get_root_velocities().numpy().any()
        with pytest.raises(SimulationError, match="no free base"):
            robots.set_root_poses([0, 0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("num_envs", [1, MANY])
def test_properties_that_change_at_every_step(num_envs, rng):
    """Dry friction for each robot and step is that of a model which was made so."""
    with MujocoSimulation(ARM, num_envs=num_envs) as simulation:
        robots = Articulation("link0")
        values = wp.zeros((num_envs, robots.num_dofs), dtype=wp.float32)
        dofs = np.array([1, 3])
        write = simulation.engine.properties.writer("friction", robots.at.of_dofs(dofs), values)
        plain = shaken(simulation, rng)
        for _ in range(5):
            values.numpy()[:] = rng.uniform(0.0, 20.0, values.shape)
            write()
            for env, data in enumerate(plain):
                model = simulation.models[env]
                assert model.dof_frictionloss[dofs].tolist() == values.numpy()[env, dofs].tolist()
                mujoco.mj_step(model, data)
            simulation.step()
        check_states(simulation, plain)


def test_arrays_are_given_away_again_only_when_nobody_holds_them():
    with MujocoSimulation(QUADRUPED, num_envs=2) as simulation:
        robots = Articulation("base")
        robots.set_dof_velocities(1.0)
        held = [robots.get_dof_positions() for _ in range(12)]
        assert len({array.ptr for array in held}) == 12
        numbers, before = held[0].numpy()[0], held[0].numpy().copy()
        held.clear()
        simulation.step(3)
        for _ in range(20):
            robots.get_dof_positions()
        np.testing.assert_array_equal(numbers, before[0])  # a view of a view is enough to hold it
        torch = pytest.importorskip("torch")
        tensor = wp.to_torch(robots.get_dof_positions())[1]
        kept = tensor.clone()
        simulation.step(3)
        for _ in range(20):
            robots.get_dof_positions()
        assert torch.equal(tensor, kept)


def test_errors_say_what_was_meant_and_what_was_got():
    with MujocoSimulation(QUADRUPED, num_envs=MANY):
        with pytest.raises(SimulationError, match="Did you mean 'base'"):
            Articulation("bas")
        robots = Articulation("base")
        with pytest.raises(SimulationError, match="has no tendon"):
            robots.set_tendon_targets(0.1)
        with pytest.raises(SimulationError, match=rf"got shape \(3, 5\); must fit the shape \({MANY}, 12\)"):
            robots.set_dof_position_targets(np.zeros((3, 5)))
