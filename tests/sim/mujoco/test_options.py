# SPDX-License-Identifier: Apache-2.0
"""Options of a MuJoCo model that are written while it runs: the time step, gravity and others."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.lab import ActuatorGroups, ImplicitActuatorCfg
from actuon.sim import Articulation

mujoco = pytest.importorskip("mujoco")

PENDULUM = """<mujoco><option timestep="0.001" integrator="Euler"/><worldbody><body name="robot">
  <joint name="hinge" axis="0 1 0" armature="0.01"/><geom size="0.05" mass="1" pos="0.3 0 0"/></body>
</worldbody></mujoco>"""
PID = {"kp": 20.0, "ki": 8.0, "kd": 0.5}
TARGET = 0.3
MANY = 19
SEGMENTS = ((0.001, 30), (0.004, 25), (0.002, 40))
"""Time steps [s], and how many steps are taken with each."""


def plain_run(segments=SEGMENTS, armature=0.01, gravity=-9.81):
    """Positions after each segment, by `mj_step` and a PID controller in float64."""
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    model.dof_armature[:] = armature
    data, integral, positions = mujoco.MjData(model), 0.0, []
    for dt, steps in segments:
        model.opt.timestep = dt
        for _ in range(steps):
            error = TARGET - data.qpos[0]
            integral += error * dt
            data.qfrc_applied[0] = PID["kp"] * error + PID["ki"] * integral - PID["kd"] * data.qvel[0]
            mujoco.mj_step(model, data)
        model.opt.gravity[2] = gravity
        positions.append(data.qpos[0])
    return np.array(positions), data.time


def attached(simulation, *effects):
    chain = actuon.ActuatorConfig(actuon.PIDControlConfig(**PID), effects=effects)
    actuators = actuon.ArticulationActuators.from_actuators("robot", [(chain, "hinge")], simulation=simulation)
    actuators.articulation.set_dof_position_targets(TARGET)
    return actuators


@pytest.mark.parametrize("is_heard", [False, True])
@pytest.mark.parametrize("num_envs", [1, 2, MANY])
def test_actuators_and_time_follow_the_time_step(num_envs, is_heard):
    """In steps one by one, which somebody hears, and in those of long runs."""
    expected, time = plain_run()
    seen, told = [], []
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PENDULUM), num_envs) as simulation:
        actuators = attached(simulation)
        robots = actuators.articulation
        if is_heard:
            simulation.subscribe(actuon.Event.POST_STEP, lambda _, dt: told.append(dt))
        for dt, steps in SEGMENTS:
            simulation.models[0].opt.timestep = dt
            simulation.step(steps)
            assert simulation.dt == dt
            seen.append(robots.get_dof_positions().numpy()[:, 0])
        np.testing.assert_allclose(seen, np.repeat(expected[:, None], num_envs, 1), rtol=1e-4)
        assert np.isclose(simulation.time, time)
        assert np.isclose(simulation.data[0].time, time)
    assert told == ([dt for dt, steps in SEGMENTS for _ in range(steps)] if is_heard else [])


@pytest.mark.parametrize("num_envs", [1, MANY])
def test_time_without_actuators_follows_the_time_step(num_envs):
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    data = mujoco.MjData(model)
    with actuon.MujocoSimulation(model, num_envs) as simulation:
        for dt, steps in SEGMENTS:
            simulation.models[0].opt.timestep = model.opt.timestep = dt
            simulation.step(steps)
            mujoco.mj_step(model, data, steps)
        assert np.isclose(simulation.time, data.time)
        assert np.isclose(simulation.data[num_envs - 1].time, data.time)
        np.testing.assert_array_equal(simulation.data[num_envs - 1].qpos, data.qpos)


@pytest.mark.parametrize("reached", ["before", "copy", "data"])
def test_environments_that_differ_follow_options_too(reached):
    """Threads have copies of the model then, of which the user sees none; and `models` gives copies, too."""
    armatures, segments = np.linspace(0.01, 0.05, MANY), (SEGMENTS[0], *SEGMENTS[:2])
    expected = np.stack([plain_run(segments, armature, gravity=-3.0)[0] for armature in armatures], axis=1)
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PENDULUM), len(armatures)) as simulation:
        held = simulation.models[0] if reached == "before" else None
        model_of = {
            "before": lambda: held,
            "copy": lambda: simulation.models[-1],
            "data": lambda: simulation.data[0].model,
        }[reached]
        actuators = attached(simulation)
        robots = actuators.articulation
        robots.set_dof_armatures(armatures[:, None])
        for (dt, steps), wanted in zip(segments, expected, strict=True):
            model_of().opt.timestep = dt
            simulation.step(steps)
            model_of().opt.gravity[2] = -3.0
            np.testing.assert_allclose(robots.get_dof_positions().numpy()[:, 0], wanted, rtol=1e-4)


def test_options_of_a_model_that_has_grown_since_count():
    """Of one that was at hand before a drive was added to it; and they stay when that is taken away."""
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PENDULUM)) as simulation:
        model = simulation.models[0]
        group = ImplicitActuatorCfg(["hinge"], stiffness=20.0, damping=0.5)
        with ActuatorGroups(Articulation("robot"), {"all": group}):
            assert simulation.models[0] is not model
            simulation.step(2)
            model.opt.timestep = 0.004
            assert simulation.dt == 0.004
            simulation.step(2)
            assert np.isclose(simulation.time, 0.010)
            assert np.isclose(simulation.data[0].time, 0.010)
            grown = simulation.models[0]
            model.opt.gravity[2] = -3.0
        assert simulation.models[0] is model
        assert (model.opt.timestep, model.opt.gravity[2]) == (0.004, -3.0)
        grown.opt.timestep = 0.001
        simulation.step()
        assert np.isclose(simulation.time, 0.011)


def test_dry_friction_is_as_firm_as_the_time_step_allows():
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PENDULUM)) as simulation:
        model = simulation.models[0]
        before = model.dof_solref.copy()
        with attached(simulation, actuon.FrictionEffectConfig(static=5.0, dynamic=5.0)) as actuators:
            actuators.articulation.set_dof_position_targets(0.0)
            simulation.step(10)
            model.opt.timestep = 0.005
            simulation.step(200)
            np.testing.assert_array_equal(model.dof_solref, [[-1.0, -200.0]])
            assert abs(actuators.articulation.get_dof_positions().numpy()[0, 0]) < 1e-3  # 2.9 N·m pull: it holds
        np.testing.assert_array_equal(model.dof_solref, before)


@pytest.mark.parametrize("dt", [0.0, -0.001, np.nan, np.inf])
def test_a_time_step_that_cannot_be_is_refused_before_anything_moves(dt):
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(PENDULUM)) as simulation:
        actuators = attached(simulation)
        simulation.step(3)
        before, time = simulation.data[0].qpos.copy(), simulation.time
        simulation.models[0].opt.timestep = dt
        with pytest.raises(actuon.SimulationError, match=r"opt.timestep of the model: got .*; must be a finite number"):
            simulation.step()
        np.testing.assert_array_equal(simulation.data[0].qpos, before)
        assert simulation.time == time
        simulation.models[0].opt.timestep = 0.002
        simulation.step()
        assert actuators.telemetry().applied_effort[0, 0] > 0.0
