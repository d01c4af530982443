# SPDX-License-Identifier: Apache-2.0
"""A simulation that diverges: it is stopped, and the joint that did it is named."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import actuon
from actuon.sim import Articulation, Event, MujocoSimulation, NewtonSimulation
from actuon.sim.divergence import HUGE
from tests.support.paths import public_robot

ASSETS = actuon.assets.FOLDER
ARM = """
<mujoco><option timestep="0.002"/><worldbody><body name="base">
  <body name="a"><joint name="shoulder" axis="0 1 0" armature="0.01"/>
    <geom type="capsule" fromto="0 0 0 0 0 .3" size=".03" mass="1" contype="0"/>
    <body name="b" pos="0 0 .3"><joint name="elbow" axis="0 1 0" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 .3" size=".03" mass=".5" contype="0"/>
      <body name="c" pos="0 0 .3"><joint name="wrist" axis="1 0 0" armature="0.001"/>
        <geom type="capsule" fromto="0 0 0 0 0 .1" size=".02" mass=".05" contype="0"/></body></body></body>
</body></worldbody></mujoco>
"""


@pytest.fixture(autouse=True)
def _engine_without_log(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    mujoco.set_mju_user_warning(lambda message: None)
    yield
    mujoco.set_mju_user_warning(None)


def named_by(simulation, gains, steps=3000):
    """Let PD controllers with (kp, kd) per joint swing the robots, until one diverges."""
    paths = [robot.path for robot in simulation.robots]
    pairs = [(actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd)), name) for name, (kp, kd) in gains.items()]
    robots = Articulation(paths)
    home = robots.get_dof_positions().numpy()

    def swing(simulation, _):
        robots.set_dof_position_targets(home + 0.2 * np.sin(6.0 * simulation.time + np.arange(home.shape[1])))

    simulation.subscribe(Event.PRE_STEP, swing)
    with actuon.ArticulationActuators.from_actuators(paths, pairs), pytest.raises(actuon.SimulationError) as caught:
        simulation.step(steps)
    assert f"joint '{caught.value.joint}'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("joint", ["shoulder", "elbow", "wrist"])
@pytest.mark.parametrize("gain", ["kp", "kd"])
def test_the_joint_that_is_unstable_is_named_not_the_one_it_throws_about(joint, gain):
    gains = {"shoulder": (20.0, 1.0), "elbow": (10.0, 0.3), "wrist": (1.0, 0.02)}
    kp, kd = gains[joint]
    gains[joint] = (kp, 400.0 * kd) if gain == "kd" else (3e5 * kp, 0.0)
    with MujocoSimulation(mujoco.MjModel.from_xml_string(ARM)) as simulation:
        assert f"of joint '{joint}' of '/base' is " in named_by(simulation, gains)


@pytest.mark.parametrize("joint", ["shoulder_pan_joint", "wrist_3_joint"])
def test_the_joint_that_started_it_is_named_long_after(joint):
    """One that is little beyond its limit throws the others about for hundreds of steps, before anything is huge."""
    model = mujoco.MjModel.from_xml_path(str(public_robot("universal_robots_ur5e")))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    with MujocoSimulation(model) as simulation:
        names = simulation.robots[0].dof_names
        start = Articulation("base").get_dof_positions().numpy()[0]
        inertia = simulation.engine.step_maps(simulation.robots[0], simulation.dt).at(start).inertia
        gains = {name: (500.0 * i, 30.0 * i) for name, i in zip(names, inertia, strict=True)}
        own = inertia[names.index(joint)]
        gains[joint] = (gains[joint][0], 1.3 * 2.0 * own / simulation.dt)
        assert f"of joint '{joint}' of '/base' is " in named_by(simulation, gains)


@pytest.mark.parametrize("joint", ["joint2", "joint6"])
def test_newton_is_stopped_too(joint):
    """MuJoCo inside Newton would go on from the first state."""
    gains = {f"joint{i}": (100.0, 5.0) for i in range(1, 8)} | {joint: (100.0, 5000.0)}
    with NewtonSimulation(ASSETS / "arm.usda") as simulation:
        assert f"of joint '{joint}' of '/Arm' is " in named_by(simulation, gains)


def test_the_environment_is_named():
    """It stops, and the others go on, and the time with them."""
    with MujocoSimulation(mujoco.MjModel.from_xml_string(ARM), num_envs=3) as simulation:
        robots = Articulation("base")
        simulation.step(2)
        robots.set_dof_efforts(1e13, indices=[1], dof_indices=[1])
        told = r"t = 0.006 s: the velocity of joint 'elbow' of '/World/envs/env_1/base'.*it diverged"
        with pytest.raises(actuon.SimulationError, match=told):
            simulation.step(5)
        assert simulation.time == pytest.approx(7 * simulation.dt)
        robots.set_dof_efforts(0.0)
        simulation.reset([1])
        simulation.step(5)


def test_what_is_too_large_for_32_bits_is_told_without_a_warning():
    with MujocoSimulation(mujoco.MjModel.from_xml_string(ARM)) as simulation:
        for value in (1e300, 1e25, 2 * HUGE):
            for field, what in (("qvel", "velocity"), ("qpos", "position")):
                simulation.reset()
                getattr(simulation.data[0], field)[2] = -value
                told = f"the {what} of joint 'wrist' of '/base' is -(inf|[12]e)"
                with pytest.raises(actuon.SimulationError, match=told):
                    simulation.step()
                read = Articulation("/base")
                values = read.get_dof_velocities() if field == "qvel" else read.get_dof_positions()
                assert values.numpy()[0, 2] <= -HUGE
