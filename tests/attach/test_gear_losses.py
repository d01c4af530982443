# SPDX-License-Identifier: Apache-2.0
"""Losses of gears on robots: dry friction that the engine solves, beside the joint's own."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.stability.limits import usages_of

LIMP = actuon.PDControlConfig(0.0, 0.0)
ENGINES = pytest.mark.parametrize("engine", [MujocoSimulation, NewtonSimulation])
LIFT = """
<mujoco><option timestep="{dt}" gravity="0 0 {gravity}"/><worldbody><body name="lift">
  <joint name="lift" type="slide" axis="0 0 1" {joint}/><inertial pos="0 0 0" mass="0.05" diaginertia="1 1 1"/>
</body></worldbody></mujoco>
"""
WEIGHT = 20.0
"""Load of the lift under a gravity of 400 m/s² [N], on 0.05 kg."""


def lift(tmp_path, dt=0.002, gravity=-400.0, joint=""):
    path = tmp_path / "lift.xml"
    path.write_text(LIFT.format(dt=dt, gravity=gravity, joint=joint))
    return path


def geared(controller, *gear, **more):
    return actuon.ActuatorConfig(controller, transmission=actuon.GearTransmissionConfig(9.0, *gear, **more))


def attach(motor):
    return ArticulationActuators.from_actuators("/lift", [(motor, "lift")])


def state():
    robot = actuon.Articulation("/lift")
    return robot.get_dof_positions().numpy()[0, 0], robot.get_dof_velocities().numpy()[0, 0]


def follow(target):
    actuon.Articulation("/lift").set_dof_position_targets(np.array([[target]], np.float32))


@ENGINES
@pytest.mark.parametrize(("speed", "share"), [(0.0, 0.5), (2.0, 0.5), (-8.0, 1 / 0.8)])
def test_a_joint_gets_what_the_efficiency_leaves(engine, speed, share, tmp_path):
    """From rest and at speed, driving; and braking. Telemetry shows the motor's effort, and the losses."""
    with engine(lift(tmp_path, gravity=0.0)) as simulation:
        actuators = attach(geared(LIMP, 0.5, 0.8))
        actuon.Articulation("/lift").set_dof_velocities(np.array([[speed]], np.float32))
        actuators.set_dof_feedforward_effort_targets(WEIGHT)
        simulation.step(5)
        assert state()[1] - speed == pytest.approx(share * WEIGHT / 0.05 * 0.01, rel=1e-3)
        telemetry = actuators.telemetry()
        assert telemetry.computed_effort[0, 0] == telemetry.applied_effort[0, 0] == WEIGHT
        assert telemetry.signals["dry_friction"][0, 0] == pytest.approx(abs(1 - share) * WEIGHT, rel=1e-5)
        actuators.close()


@ENGINES
@pytest.mark.parametrize("dt", [0.002, 0.005])
@pytest.mark.parametrize(("gear", "kp"), [((0.7,), 200.0), ((0.4, 0.05), 200.0), ((0.4, -0.5), 0.0)])
def test_a_held_load_does_not_chatter_and_a_worm_gear_holds(engine, dt, gear, kp, tmp_path):
    with engine(lift(tmp_path, dt)) as simulation:
        actuators = attach(geared(actuon.PDControlConfig(kp, 2.0 if kp else 0.0), *gear))
        simulation.step(int(1 / dt))
        kept = []
        for _ in range(100):
            simulation.step()
            kept.append([*state(), actuators.telemetry().applied_effort[0, 0]])
        position, velocity, effort = np.array(kept).T
        assert np.abs(velocity).max() < 5e-4  # of the engine's soft constraints
        assert np.ptp(effort) < 0.1
        assert -WEIGHT / (gear[0] * max(kp, 1.0)) < position[-1] <= 0.0
        assert gear[-1] > 0.0 or position[-1] > -1e-3
        actuators.close()


@pytest.mark.parametrize("gear", [(0.7,), (0.4, 0.05), (0.4, -0.5)])
def test_a_load_that_is_lowered_does_not_chatter(gear, tmp_path):
    with MujocoSimulation(lift(tmp_path, 0.005)) as simulation:
        actuators = attach(geared(actuon.PDControlConfig(400.0, 4.0), *gear))
        kept = []
        for k in range(400):
            follow(-0.5 * 0.005 * k)
            simulation.step()
            kept.append([state()[1], actuators.telemetry().applied_effort[0, 0]])
        velocity, effort = np.array(kept[200:]).T
        np.testing.assert_allclose(velocity, -0.5, atol=0.01)
        assert np.ptp(effort) < 0.05
        if gear[-1] > 0.0:
            assert effort.mean() == pytest.approx(gear[-1] * WEIGHT, rel=0.02)
        else:
            assert effort.mean() == pytest.approx(gear[-1] * WEIGHT, rel=0.02)  # it has to be pushed down


def test_losses_add_to_the_friction_of_the_asset(tmp_path):
    own = 'frictionloss="3" damping="0.5"'
    with MujocoSimulation(lift(tmp_path, gravity=0.0, joint=own)) as simulation:
        actuators = attach(geared(LIMP, 0.5))
        actuators.set_dof_feedforward_effort_targets(WEIGHT)
        simulation.step()
        model = simulation.models[0]
        assert (model.dof_frictionloss[0], model.dof_damping[0]) == (13.0, 0.5)
        assert state()[1] == pytest.approx(0.002 * (WEIGHT - 13.0) / 0.05, rel=0.03)
        actuators.close()
        assert (model.dof_frictionloss[0], model.dof_damping[0]) == (3.0, 0.5)
        rubbing = geared(LIMP, 0.5)
        rubbing.effects = [actuon.FrictionEffectConfig(dynamic=0.1)]
        actuators = attach(rubbing)
        actuators.set_dof_feedforward_effort_targets(WEIGHT)
        simulation.step()
        assert model.dof_frictionloss[0] == pytest.approx(10.0 + 9.0 * 0.1)
        assert model.dof_damping[0] == 0.0


def test_a_gear_without_losses_leaves_the_engines_friction_alone(tmp_path):
    with MujocoSimulation(lift(tmp_path, joint='frictionloss="3"')) as simulation:
        actuators = attach(geared(LIMP))
        simulation.step()
        model = simulation.models[0]
        assert model.dof_frictionloss[0] == 3.0
        assert model.dof_solimp[0, 0] == 0.9
        assert "dry_friction" not in actuators.telemetry().signals


@pytest.mark.parametrize("motion", ["held", "pushed"])
def test_a_loaded_model_moves_as_the_simulation(motion, tmp_path):
    """With `actuon.mujoco.load`, in steps one by one and together."""
    motor = geared(actuon.PDControlConfig(200.0 if motion == "held" else 0.0, 2.0), 0.7, 0.6)
    path = lift(tmp_path, joint='frictionloss="0.5"')
    found = []
    for count in (1, 100):
        with MujocoSimulation(path) as simulation:
            actuators = attach(motor)
            if motion == "pushed":
                actuators.set_dof_feedforward_effort_targets(1.2 * WEIGHT)
            for _ in range(200 // count):
                simulation.step(count)
            found.append(state())
    assert found[0] == found[1]
    model = actuon.mujoco.load(path, {"lift": motor}, inputs=["feedforward"])
    data = mujoco.MjData(model)
    if motion == "pushed":
        data.ctrl[-1] = 1.2 * WEIGHT
    mujoco.mj_step(model, data, 200)
    actuon.mujoco.unload(model)
    np.testing.assert_array_equal(np.float32([data.qpos[0], data.qvel[0]]), np.float32(found[0]))


def test_losses_that_a_gear_gets_later_act_too(tmp_path):
    """As on arrays, they fade to zero at rest."""
    with MujocoSimulation(lift(tmp_path, gravity=0.0)) as simulation:
        actuators = attach(geared(LIMP))
        actuators.actuators[0].transmission.efficiency = 0.5
        actuon.Articulation("/lift").set_dof_velocities(np.array([[2.0]], np.float32))
        actuators.set_dof_feedforward_effort_targets(WEIGHT)
        simulation.step(5)
        assert state()[1] - 2.0 == pytest.approx(0.5 * WEIGHT / 0.05 * 0.01, rel=1e-3)


def test_implicit_motors_have_losses(tmp_path):
    """A stiff drive holds the load, and lifts it: at rest, the motor's effort is within what the gear holds."""
    with MujocoSimulation(lift(tmp_path, 0.005)) as simulation:
        motor = geared(actuon.PDControlConfig(20000.0, 200.0), 0.7)
        motor.effort_mode = "implicit"
        actuators = attach(motor)
        for target, low, high in ((0.0, 0.7, 1 / 0.7), (0.1, 1 / 0.7 - 0.02, 1 / 0.7 + 0.1)):
            kept = []
            for k in range(300):
                follow(target * k / 300)
                simulation.step()
                kept.append(actuators.telemetry().applied_effort[0, 0])
            assert low * WEIGHT <= np.mean(kept[200:]) <= high * WEIGHT
            assert np.ptp(kept[200:]) < 0.5


def test_friction_of_a_gear_leaves_the_stability_limit_alone(tmp_path):
    """It never drives the joint."""
    found = []
    for efficiency in (1.0, 0.5):
        with MujocoSimulation(lift(tmp_path)):
            actuators = attach(geared(actuon.PDControlConfig(200.0, 5.0), efficiency))
            found.append(usages_of(actuators.articulation, actuators.actuators, [0])[0])
    assert found[0] == found[1] > 0.0
