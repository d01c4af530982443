# SPDX-License-Identifier: Apache-2.0
"""Environments that fail in MuJoCo's loop: each stops and is named, and the others take all their steps."""

from __future__ import annotations

import os
import signal
import threading
import time

import mujoco
import numpy as np
import pytest

from actuon import (
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    DelayConfig,
    Event,
    MaxEffortClampingConfig,
    MujocoSimulation,
    PDControlConfig,
    SimulationError,
)
from actuon.sim.mujoco import batch as batches
from tests.support.paths import ASSETS
from tests.support.staged import staged
from tests.support.states import states_of

QUADRUPED, ARM = ASSETS / "quadruped.xml", ASSETS / "arm.xml"
MANY, DT = 9, 0.004
LATE = ActuatorConfig(PDControlConfig(60.0, 1.5), [MaxEffortClampingConfig(20.0)], DelayConfig(3))
IMPLICIT = ActuatorConfig(PDControlConfig(60.0, 1.5), [MaxEffortClampingConfig(20.0)], effort_mode="implicit")
LONG = 2 * batches.STEPS_PER_CALL + 10
"""Steps of more than two calls of compiled code."""


class Robots:
    """Quadrupeds with motors, in a simulation of their own.

    Args:
        config: The actuator of each joint.
        own: Environments with an ``MjData`` of their own.
        differ: Whether their models differ.
    """

    def __init__(self, config=LATE, own=(), differ=False):
        self.simulation = MujocoSimulation(QUADRUPED, MANY, DT)
        self.actuators = ArticulationActuators.from_actuators(
            "base", [(config, name) for name in Articulation("base").dof_names], simulation=self.simulation
        )
        self.robots = self.actuators.articulation
        self.data = [self.simulation.data[env] for env in own]
        if differ:
            self.robots.set_dof_armatures(np.linspace(0.01, 0.03, MANY)[:, None])
        targets = self.robots.get_dof_positions().numpy()
        self.targets = targets + np.random.default_rng(3).uniform(-0.2, 0.2, targets.shape).astype(np.float32)
        self.robots.set_dof_position_targets(self.targets)
        self.simulation.step(6)

    @property
    def kp(self):
        """Position gain of each joint, to write into."""
        return self.actuators.actuators[0].controller.kp.numpy().reshape(MANY, 12)

    def command_nan(self, robot, column):
        """Command what no setter lets through."""
        place = self.robots.at.flat("joint_target_q")[robot, column]
        self.simulation.arrays.joint_target_q.numpy()[place] = np.nan

    def mend(self, robot):
        self.kp[:] = 60.0
        self.robots.set_dof_position_targets(self.targets)
        self.simulation.reset([robot])


def check_others(failed, sound, envs):
    """All environments but these are as in a simulation in which nothing failed."""
    others = np.setdiff1d(np.arange(MANY), envs)
    np.testing.assert_array_equal(states_of(failed.simulation)[others], states_of(sound.simulation)[others])
    ours, theirs = failed.actuators.telemetry(), sound.actuators.telemetry()
    np.testing.assert_array_equal(ours.applied_effort[others], theirs.applied_effort[others])
    assert failed.simulation.time == sound.simulation.time


@pytest.mark.parametrize("config", [LATE, IMPLICIT], ids=["explicit", "implicit"])
@pytest.mark.parametrize("own", [(), (2,), range(MANY)], ids=["no data", "data of another", "data of all"])
@pytest.mark.parametrize("steps", [1, 5, LONG])
def test_an_effort_that_is_not_finite(config, own, steps):
    failed, sound = Robots(config, own), Robots(config, own)
    before = states_of(failed.simulation)[4]
    failed.kp[4, 5] = np.nan
    told = r"t = 0.024 s: the effort of joint 'FR_calf_joint' of '/World/envs/env_4/base' is nan; check its target"
    with pytest.raises(SimulationError, match=told):
        failed.simulation.step(steps)
    sound.simulation.step(steps)
    check_others(failed, sound, [4])
    is_position = slice(1, 1 + failed.simulation.models[0].nq + failed.simulation.models[0].nv)
    np.testing.assert_array_equal(states_of(failed.simulation)[4][is_position], before[is_position])
    assert np.isnan(failed.actuators.telemetry().computed_effort[4, 5])
    with pytest.raises(SimulationError, match="joint 'FR_calf_joint' of '/World/envs/env_4/base' is nan"):
        failed.simulation.step(steps)
    sound.simulation.step(steps)
    check_others(failed, sound, [4])
    failed.mend(4)
    sound.mend(4)
    failed.simulation.step(steps)
    sound.simulation.step(steps)
    check_others(failed, sound, [])


@pytest.mark.parametrize("steps", [6, LONG])
def test_a_target_of_nan_shows_after_its_delay(steps):
    """Commands up to then count."""
    failed, sound = Robots(), Robots()
    failed.command_nan(8, 11)
    with pytest.raises(SimulationError, match=r"t = 0.036 s: the effort of joint 'RR_calf_joint' of .*env_8/base'"):
        failed.simulation.step(steps)
    sound.simulation.step(3)
    np.testing.assert_array_equal(states_of(failed.simulation)[8, :20], states_of(sound.simulation)[8, :20])
    sound.simulation.step(steps - 3)
    check_others(failed, sound, [8])


def test_the_earliest_of_several_is_named():
    """Of those that are not finite, and of those that diverge."""
    failed = Robots()
    failed.kp[7, 0] = np.nan
    failed.command_nan(3, 1)
    with pytest.raises(SimulationError, match=r"t = 0.024 s: .*'FL_hip_joint' of '/World/envs/env_7/base'"):
        failed.simulation.step(10)
    times = states_of(failed.simulation)[:, 0] / DT
    assert np.rint(times).tolist() == [16.0] * 3 + [9.0] + [16.0] * 3 + [6.0] + [16.0]
    diverging = Robots(ActuatorConfig(PDControlConfig(60.0, 1.5)))
    saved, told = diverging.simulation.save_state(), []
    for gains in ({1: 5_000.0}, {6: 20_000.0}, {1: 5_000.0, 6: 20_000.0}):
        diverging.simulation.load_state(saved)
        diverging.kp[:] = 60.0
        for env, kp in gains.items():
            diverging.kp[env] = kp
        with pytest.raises(SimulationError, match=f"/World/envs/env_{max(gains)}/base") as error:
            diverging.simulation.step(LONG)
        told.append(str(error.value))
    assert told[2] == told[1]
    assert time_of(told[1]) < time_of(told[0])


def time_of(message):
    """Time that an error tells [s]."""
    return float(message.split()[2])


@pytest.mark.parametrize("differ", [False, True])
@pytest.mark.parametrize("own", [(), (5,)])
def test_a_robot_that_diverges(own, differ):
    """It stays as it was found, the joint that did it is named, and the others go on."""
    stiff = ActuatorConfig(PDControlConfig(60.0, 1.5))
    failed, sound = Robots(stiff, own, differ), Robots(stiff, own, differ)
    failed.kp[5, 4] = 30_000.0
    with pytest.raises(SimulationError, match="joint 'FR_thigh_joint' of '/World/envs/env_5/base'") as error:
        failed.simulation.step(LONG)
    sound.simulation.step(LONG)
    check_others(failed, sound, [5])
    stopped = states_of(failed.simulation)[5]
    assert time_of(str(error.value)) == pytest.approx(stopped[0])
    assert stopped[0] < failed.simulation.time - 10 * DT
    assert not (np.abs(stopped[1:38]) < 1e10).all()
    with pytest.raises(SimulationError, match="joint 'FR_thigh_joint' of '/World/envs/env_5/base'"):
        failed.simulation.step(3)
    np.testing.assert_array_equal(states_of(failed.simulation)[5], stopped)
    for each in (failed, sound):
        each.mend(5)
        each.simulation.step(LONG)
    check_others(failed, sound, [])


@pytest.mark.parametrize("own", [(), (5,)])
def test_a_robot_that_diverged_is_set_right_by_hand(own):
    """Positions and velocities that are sound again are enough."""
    robots = Robots(ActuatorConfig(PDControlConfig(60.0, 1.5)), own)
    poses, positions = robots.robots.get_root_poses().numpy(), robots.robots.get_dof_positions().numpy()
    robots.kp[5, 4] = 30_000.0
    with pytest.raises(SimulationError, match="env_5"):
        robots.simulation.step(LONG)
    robots.kp[:] = 60.0
    robots.robots.set_root_poses(poses[[5]], indices=[5])
    robots.robots.set_root_velocities(0.0, indices=[5])
    robots.robots.set_dof_velocities(0.0, indices=[5])
    robots.robots.set_dof_positions(positions[[5]], indices=[5])
    before = states_of(robots.simulation)[:, 0]
    robots.simulation.step(10)
    np.testing.assert_allclose(states_of(robots.simulation)[:, 0] - before, 10 * DT)


@pytest.mark.parametrize("config", [LATE, IMPLICIT], ids=["explicit", "implicit"])
@pytest.mark.parametrize("own", [(), (2, 4, 6)])
def test_motors_that_are_stepped_by_hand(config, own):
    """All others get their efforts."""
    failed, sound = Robots(config, own), Robots(config, own)
    for each in (failed, sound):
        each.actuators.disable_auto_step_pre_physics()
        each.robots.set_dof_position_targets(each.targets[::-1].copy())
    failed.kp[4, 5] = np.nan
    with pytest.raises(
        SimulationError, match=r"t = 0.024 s: the effort of joint 'FR_calf_joint' of .*env_4/base' is nan"
    ):
        failed.actuators.step_actuators(DT)
    sound.actuators.step_actuators(DT)
    for each in (failed, sound):
        each.simulation.step()
    check_others(failed, sound, [4])
    assert np.isfinite(states_of(failed.simulation)).all()


def test_motors_whose_clocks_differ_afterwards(tmp_path):
    """Where controllers do not run at every step, one that failed is behind the others, and what is saved knows it."""
    held = ActuatorConfig(PDControlConfig(60.0, 1.5), [MaxEffortClampingConfig(20.0)], control_every=4)
    robots = Robots(held)
    robots.kp[4, 5] = np.nan
    with pytest.raises(SimulationError, match=r"t = 0.032 s: .*env_4"):  # when the controller runs again
        robots.simulation.step(5)
    robots.mend(4)
    robots.simulation.step(3)
    saved = robots.simulation.save_state()
    robots.simulation.save(tmp_path / "simulation.npz")
    robots.actuators.save_state(tmp_path / "actuators.npz")

    def go_on():
        robots.simulation.step(7)
        return states_of(robots.simulation)

    after = go_on()
    robots.simulation.load_state(saved)
    np.testing.assert_array_equal(go_on(), after)
    robots.simulation.load(tmp_path / "simulation.npz")
    np.testing.assert_array_equal(go_on(), after)
    robots.simulation.load_state(saved)
    robots.actuators.reset()
    robots.actuators.load_state(tmp_path / "actuators.npz")
    np.testing.assert_array_equal(go_on(), after)


BOXES = "".join(
    f"<body pos='{i % 5} {i // 5} 1'><freejoint/><geom type='box' size='.1 .1 .1'/></body>" for i in range(25)
)
LITTLE_MEMORY = f"""<mujoco><size memory='24K'/><worldbody><geom type='plane' size='5 5 .1'/>{BOXES}
<body name='r' pos='0 0 9'><joint name='h'/><geom size='.1'/></body></worldbody></mujoco>"""
"""Boxes that all land in the same step, with no contact before. MuJoCo 3 runs out of memory then; MuJoCo 4 drops
contacts."""


def runs_out():
    model = mujoco.MjModel.from_xml_string(LITTLE_MEMORY)
    try:
        mujoco.mj_step(model, mujoco.MjData(model), 300)
    except mujoco.FatalError:
        return True
    return False


@pytest.mark.parametrize("differ", [False, True])
@pytest.mark.parametrize("own", [(), (2, 3)])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_mujoco(own, differ, threads, monkeypatch):
    """It is raised with its environment, which stays where the last step took it; the others take all steps."""
    if not runs_out():
        pytest.skip("this MuJoCo drops contacts")
    monkeypatch.setattr(batches, "WORTH_SHARING", 0.0)
    monkeypatch.setenv("ACTUON_NUM_THREADS", str(threads))
    model = mujoco.MjModel.from_xml_string(LITTLE_MEMORY)
    with MujocoSimulation(model, num_envs=5) as simulation:
        if differ:
            Articulation("r").set_dof_armatures(np.linspace(0.1, 0.2, 5)[:, None])
        data = [simulation.data[env] for env in own]
        first = simulation.save_state()
        low = simulation.save_state()
        low.engine[2, 1 : 1 + model.nq].reshape(-1)[: 25 * 7].reshape(25, 7)[:, 2] = 0.2
        for _ in range(3):
            simulation.load_state(low)
            for steps in (50, LONG - 50):
                with pytest.raises(mujoco.FatalError, match="environment 2: .*out of memory"):
                    simulation.step(steps)
            times = states_of(simulation)[:, 0]
            np.testing.assert_allclose(times[[0, 1, 3, 4]], LONG * simulation.dt)
            assert 0.0 < times[2] < 50 * simulation.dt
            assert simulation.time == pytest.approx(LONG * simulation.dt)
        simulation.reset([2])
        simulation.step(50)
        simulation.load_state(first)
        simulation.step(150)
        times = states_of(simulation)
        np.testing.assert_allclose(times[:, 0], 150 * simulation.dt)
        assert all(own.time == pytest.approx(150 * simulation.dt) for own in data)
        with pytest.raises(mujoco.FatalError, match="environment 0: .*out of memory"):
            simulation.step(150)


def test_an_interrupt_ends_a_run_between_two_calls_of_compiled_code():
    """Steps up to then are kept and counted."""
    robots, others = Robots(), Robots()
    begin, steps = robots.simulation.time, 100_000
    positions = robots.simulation.arrays.joint_q.numpy()
    before = positions.copy()

    def interrupt():
        while (positions == before).all():  # until the run has begun
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        robots.simulation.step(steps)
    thread.join()
    taken = round((robots.simulation.time - begin) / DT)
    assert 0 < taken < steps
    assert taken % batches.STEPS_PER_CALL == 0
    np.testing.assert_allclose(states_of(robots.simulation)[:, 0], robots.simulation.time)
    others.simulation.step(taken)
    for each in (robots, others):
        each.simulation.step(5)
    check_others(robots, others, [])


def test_motors_that_python_steps_end_the_run_at_their_step():
    """As compiled ones do: the others take that step."""
    failed, sound = Robots(staged(LATE)), Robots(LATE)
    before = states_of(failed.simulation)[4, :37]
    failed.kp[4, 5] = np.nan
    with pytest.raises(
        SimulationError, match=r"t = 0.024 s: the effort of joint 'FR_calf_joint' of .*env_4/base' is nan"
    ):
        failed.simulation.step(5)
    sound.simulation.step()
    check_others(failed, sound, [4])
    np.testing.assert_array_equal(states_of(failed.simulation)[4, :37], before)
    failed.mend(4)
    failed.simulation.step(5)


@pytest.mark.parametrize("num_envs", [1, MANY])
def test_who_hears_of_steps_hears_of_those_that_some_took(num_envs):
    """Of one in which all environments failed to get their efforts, only that it was about to begin."""
    with MujocoSimulation(QUADRUPED, num_envs, DT) as simulation:
        config = ActuatorConfig(PDControlConfig(60.0, 1.5))
        pairs = [(config, name) for name in Articulation("base").dof_names]
        with ArticulationActuators.from_actuators("base", pairs) as actuators:
            kp = actuators.actuators[0].controller.kp.numpy().reshape(num_envs, 12)
            times = {event: [] for event in (Event.PRE_STEP, Event.POST_STEP)}
            for event, seen in times.items():
                simulation.subscribe(event, lambda *_, seen=seen: seen.append(round(simulation.time / DT)))
            simulation.step(2)
            kp[0, 3] = np.nan
            with pytest.raises(SimulationError, match="is nan"):
                simulation.step(2)
            others = [] if num_envs == 1 else [3]
            assert times == {Event.PRE_STEP: [0, 1, 2], Event.POST_STEP: [1, 2, *others]}
            kp[0, 3] = 1e9
            with pytest.raises(SimulationError, match="diverged"):
                simulation.step(100)
            last = round(simulation.time / DT)
            assert times[Event.POST_STEP] == list(range(1, last + 1))
            assert times[Event.PRE_STEP] == [0, 1, *([] if others else [2]), *range(2, last)]
