# SPDX-License-Identifier: Apache-2.0
"""Robots with motors move the same, to the last bit, whichever way they are stepped.

In long runs, one by one or by hand; alone or among many; on one thread or several; with an ``MjData`` of their own or
without; with callbacks in Python or without. Implicit efforts above all, which have no other path to compare with:
where they pass a limit, a step is taken again.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import actuon
from actuon import (
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    BatteryClampingConfig,
    DCMotorClampingConfig,
    DelayConfig,
    Event,
    FrictionEffectConfig,
    MaxEffortClampingConfig,
    MujocoSimulation,
    NeuralControlConfig,
    PDControlConfig,
    PIDControlConfig,
    VoltageClampingConfig,
)
from actuon.lab import ActuatorGroups, DCMotorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from actuon.sim.mujoco import batch as batches
from tests.support.paths import ASSETS
from tests.support.remembered import remembered

mujoco = pytest.importorskip("mujoco")
from tests.support.states import states_of  # noqa: E402 - needs MuJoCo

MANY, DT = 7, 0.01
BURSTS = (1, 4, 7, 70)
"""Steps between two commands; the last are more than one call of compiled code."""
PD = PDControlConfig(60.0, 3.0)
MOTOR = DCMotorClampingConfig(23.7, 12.0, 23.7)
SUPPLY = [BatteryClampingConfig(24.0, 0.1, 20.0, 18.0), VoltageClampingConfig(0.8, 0.6)]
LEGS = DCMotorCfg(
    [".*_hip_joint", ".*_thigh_joint"], stiffness=60.0, damping=3.0, effort_limit=20.0, saturation_effort=23.7,
    velocity_limit=12.0, effort_limit_sim=15.0, effort_mode="implicit", seed=1,
)  # fmt: skip


def chain(*limits, **options):
    return ActuatorConfig(PD, list(limits), **options)


CHAINS = {
    "implicit": [chain(MOTOR, MaxEffortClampingConfig(15.0), effort_mode="implicit")],
    "implicit, late": [chain(MOTOR, delay=DelayConfig(2), effort_mode="implicit")],
    "implicit, held": [
        ActuatorConfig(PIDControlConfig(60.0, 4.0, 3.0), [MOTOR], control_every=3, effort_mode="implicit")
    ],
    "implicit with a battery": [chain(*SUPPLY, effort_mode="implicit")],
    "implicit with friction": [
        chain(MOTOR, effects=[FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)], effort_mode="implicit")
    ],
    "implicit beside explicit": [
        chain(MOTOR, effort_mode="implicit"),
        chain(MOTOR, effects=[FrictionEffectConfig(0.2, load_external=0.1)]),
        chain(*SUPPLY),
    ],
}


def with_chains(name):
    def attach(robots, files):
        configs = CHAINS[name]
        pairs = [(configs[i % len(configs)], joint) for i, joint in enumerate(robots.dof_names)]
        return ArticulationActuators.from_actuators(robots.paths, pairs, simulation=robots.simulation)

    return attach


def with_network(robots, files):
    network = ActuatorConfig(NeuralControlConfig(str(files["network"]), effort_scale=20.0), [MOTOR])
    pairs = [(network, joint) for joint in robots.dof_names]
    return ArticulationActuators.from_actuators(robots.paths, pairs, simulation=robots.simulation)


def with_groups(robots, files):
    calves = IdealPDActuatorCfg([".*_calf_joint"], stiffness=60.0, damping=3.0, effort_limit=25.0, seed=2)
    return ActuatorGroups(robots, {"legs": LEGS, "calves": calves})


def with_drives(robots, files):
    calves = ImplicitActuatorCfg([".*_calf_joint"], stiffness=60.0, damping=3.0, effort_limit_sim=25.0, seed=2)
    return ActuatorGroups(robots, {"legs": LEGS, "calves": calves})


ATTACH = {name: with_chains(name) for name in CHAINS} | {
    "network": with_network,
    "implicit group": with_groups,
    "implicit group beside the engine's drives": with_drives,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Network files by name."""
    pytest.importorskip("torch")
    from tests.support.torch_networks import mlp

    path = tmp_path_factory.mktemp("networks") / "network.safetensors"
    actuon.save_network(mlp(), path, input_idx=[0, 1, 2])
    return {"network": path}


TARGETS = np.tile([0.0, 0.9, -1.8], 4) + np.random.default_rng(5).uniform(-0.4, 0.4, (len(BURSTS), MANY, 12))
ARMATURES = np.linspace(0.01, 0.03, MANY)[:, None]


def robot(integrator, file="quadruped.xml"):
    """A model whose integrator takes derivatives: to choose another takes seconds."""
    spec = mujoco.MjSpec.from_file(str(ASSETS / file))
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    return spec


def one_by_one(simulation, actuators, steps):
    for _ in range(steps):
        simulation.step()


def at_once(simulation, actuators, steps):
    simulation.step(steps)


def by_hand(simulation, actuators, steps):
    actuators.disable_auto_step_pre_physics()
    for _ in range(steps):
        actuators.step_actuators(DT)
        simulation.step()


def by_hand_and_not(simulation, actuators, steps):
    """Some steps by hand, and the others with physics."""
    by_hand(simulation, actuators, steps // 2)
    actuators.enable_auto_step_pre_physics()
    simulation.step(steps - steps // 2)


def moved(attach, files, step=at_once, envs=range(MANY), own=(), differ=False, heard=False, integrator="implicitfast"):
    """States, efforts and what motors remember, after each burst of steps of these environments.

    Args:
        attach: What puts motors on robots.
        files: Network files.
        step: What takes steps.
        envs: Which of the environments there are.
        own: Those with an ``MjData`` of their own.
        differ: Whether their models do.
        heard: Whether somebody hears of each step.
        integrator: Of the model.
    """
    envs, found = list(envs), []
    with MujocoSimulation(robot(integrator), len(envs), DT) as simulation:
        robots = Articulation("base")
        if differ:
            robots.set_dof_armatures(ARMATURES[envs])
        actuators = attach(robots, files)
        data = [simulation.data[env] for env in own]
        simulation.start()
        if heard:
            simulation.subscribe(Event.POST_STEP, lambda *_: None)
        for targets, steps in zip(TARGETS, BURSTS, strict=True):
            robots.set_dof_position_targets(targets[envs])
            step(simulation, actuators, steps)
            told = actuators.telemetry()
            found.append(
                {
                    "state": states_of(simulation),
                    "shown": robots.get_dof_efforts().numpy(),
                    "velocity": told.velocity,
                    "computed": told.computed_effort,
                    "applied": told.applied_effort,
                    "clipped": told.clipped,
                    **told.signals,
                }
            )
        memory = {name: values for name, values in remembered(actuators).items() if values.dtype.kind in "fiu"}
        for env, each in zip(own, data, strict=True):
            assert each.time == pytest.approx(simulation.time)
            np.testing.assert_array_equal(each.qpos, found[-1]["state"][env, 1 : 1 + len(each.qpos)])
        actuators.close()
    return found, memory


def check_same(ours, theirs, rows=slice(None)):
    """Check that the motion equals that of the other's environments."""
    for mine, its in zip(ours[0], theirs[0], strict=True):
        assert mine.keys() == its.keys()
        for name, values in mine.items():
            np.testing.assert_array_equal(values, its[name][rows], err_msg=name)
    if rows == slice(None):
        for name, values in ours[1].items():
            np.testing.assert_array_equal(values, theirs[1][name], err_msg=name)


@contextlib.contextmanager
def python_callback():
    """A callback in Python that changes nothing."""
    mujoco.set_mjcb_time(lambda: 0.0)
    try:
        yield
    finally:
        mujoco.set_mjcb_time(None)


@pytest.mark.parametrize("name", ATTACH)
def test_motors(name, files, monkeypatch):
    """Steps one by one, of many robots on one thread without an ``MjData``, are what the others are compared with."""
    attach = ATTACH[name]
    monkeypatch.setattr(batches, "WORTH_SHARING", 0.0)
    monkeypatch.setenv("ACTUON_NUM_THREADS", "1")
    expected = moved(attach, files, one_by_one)
    assert any(burst["clipped"].any() for burst in expected[0])
    check_same(moved(attach, files), expected)
    check_same(moved(attach, files, heard=True), expected)
    for env in (0, MANY - 1):
        check_same(moved(attach, files, envs=[env]), expected, [env])
    check_same(moved(attach, files, envs=[0], own=[0]), expected, [0])
    for own in ([3], range(MANY)):
        check_same(moved(attach, files, own=own), expected)
    with python_callback():
        check_same(moved(attach, files), expected)
        check_same(moved(attach, files, own=[1, 4]), expected)
    for threads in (2, 5):
        monkeypatch.setenv("ACTUON_NUM_THREADS", str(threads))
        check_same(moved(attach, files), expected)
        check_same(moved(attach, files, own=[1, 4]), expected)


@pytest.mark.parametrize("name", [name for name in ATTACH if "group" not in name])
@pytest.mark.parametrize("own", [[], [0, 5]], ids=["no data", "data"])
def test_motors_that_are_stepped_by_hand(name, own, files):
    expected = moved(ATTACH[name], files, own=own)
    check_same(moved(ATTACH[name], files, by_hand, own=own), expected)
    check_same(moved(ATTACH[name], files, by_hand_and_not, own=own), expected)


@pytest.mark.parametrize("name", ["implicit", "implicit beside explicit"])
def test_robots_that_differ(name, files, monkeypatch):
    attach = ATTACH[name]
    monkeypatch.setattr(batches, "WORTH_SHARING", 0.0)
    monkeypatch.setenv("ACTUON_NUM_THREADS", "1")
    expected = moved(attach, files, one_by_one, differ=True)
    check_same(moved(attach, files, differ=True, own=[3]), expected)
    for env in (0, MANY - 1):
        check_same(moved(attach, files, envs=[env], differ=True), expected, [env])
    with python_callback():
        check_same(moved(attach, files, differ=True, own=[1, 4]), expected)
    for threads in (2, 5):
        monkeypatch.setenv("ACTUON_NUM_THREADS", str(threads))
        check_same(moved(attach, files, differ=True), expected)


@pytest.mark.parametrize("integrator", ["implicit", "discrete"])
def test_other_integrators(integrator, files):
    """One has derivatives of Coriolis forces, the other derivatives by position."""
    options = {"attach": ATTACH["implicit beside explicit"], "files": files, "integrator": integrator}
    expected = moved(step=one_by_one, **options)
    check_same(moved(**options, own=[3]), expected)
    check_same(moved(**options, envs=[2]), expected, [2])
    check_same(moved(**options, step=by_hand), expected)
    with python_callback():
        check_same(moved(**options, own=[1, 4]), expected)


@pytest.mark.parametrize("name", [name for name in ATTACH if "implicit" in name])
def test_steps_are_taken_again_where_limits_bind(name, files, monkeypatch):
    """Else the tests above would compare less than they say."""
    expected = moved(ATTACH[name], files)
    monkeypatch.setattr(batches, "CORRECTIONS", 0)
    once = moved(ATTACH[name], files)
    assert np.isfinite(once[0][-1]["state"]).all()
    assert (once[0][-1]["state"] != expected[0][-1]["state"]).any()


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_the_first_of_many_environments_move_as_few_do(mode):
    """1, 8, 64 and 1 024 robots, in one call or step by step: with equal bits."""
    most, steps = 1024, 6
    config = chain(MOTOR, delay=DelayConfig(1), effort_mode=mode)
    targets = np.random.default_rng(7).uniform(-0.5, 0.5, (most, 7)).astype(np.float32)
    found = {}
    for count in (1, 8, 64, most):
        for way in (at_once, one_by_one) if count < most else (at_once,):
            with MujocoSimulation(robot("implicitfast", "arm.xml"), count) as simulation:
                arms = Articulation("link0")
                pairs = [(config, joint) for joint in arms.dof_names]
                with ArticulationActuators.from_actuators(arms.paths, pairs) as actuators:
                    arms.set_dof_position_targets(targets[:count])
                    way(simulation, actuators, steps)
                    efforts = actuators.telemetry().applied_effort
                found[count, way] = np.hstack([states_of(simulation), efforts])
    everyone = found[most, at_once]
    assert len(np.unique(everyone, axis=0)) == most
    for (count, way), rows in found.items():
        np.testing.assert_array_equal(rows, everyone[:count], f"{count} robots, {way.__name__}")
