# SPDX-License-Identifier: Apache-2.0
"""Wheels turn for ever: at 10⁴ rad a position of 32 bits is in steps of 1 mrad, which must not become efforts."""

from __future__ import annotations

import numpy as np
import pytest

import actuon

DT, STEPS, SETTLED = 1e-3, 600, 100
FREE = actuon.PDControlConfig(0.0, 0.0)
CHAINS = {
    "backlash": ([FREE, actuon.BacklashTransmissionConfig(0.02, 2000.0, 0.01, 1.0)], 0.05),
    "spring": ([FREE, actuon.SeriesElasticTransmissionConfig(500.0, 0.01, 1.0)], 0.02),
    "differentiated": ([actuon.DifferentiatedSensorConfig(), actuon.PDControlConfig(0.0, 1.0)], 0.05),
    "low-pass of commands": ([actuon.LowPassDelayConfig(0.05), actuon.PDControlConfig(20.0, 0.0)], 0.05),
}
"""Stages, and how much their efforts may differ far from zero [N·m]; the first three differed by 2, 2 and 0.95."""


def wheel(far, mean, kind=np.float32):
    """Positions and velocities of a wheel whose speed swings, as an engine moves it: by the speed at the step's end."""
    speeds = mean + np.sin(12.0 * DT * np.arange(STEPS))
    return (far + DT * np.cumsum(speeds)).astype(kind), speeds.astype(kind)


def efforts(stages, positions, speeds, push=1.0):
    actuator = actuon.Actuator([0], stages=stages, accumulate=False)
    state, found = actuator.state(), []
    zero = np.zeros(1, positions.dtype)
    for k in range(STEPS):
        sim = {"joint_q": positions[k : k + 1], "joint_qd": speeds[k : k + 1], "joint_target_q": positions[k : k + 1]}
        sim |= {"joint_target_qd": zero, "joint_act": zero + push * np.sin(5.0 * DT * k), "joint_f": np.full(1, np.nan)}
        actuator.step(sim, sim, state, state, dt=DT)
        found.append(sim["joint_f"][0])
    return np.array(found)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [0.0, 10.0])
@pytest.mark.parametrize("name", CHAINS)
def test_efforts_far_from_zero_are_those_near_it(name, mean, kind):
    stages, most = CHAINS[name]
    near, far = (efforts(stages, *wheel(start, mean, kind)) for start in (0.0, 1e4))
    assert np.abs(near).max() > 0.5
    assert np.abs(far - near)[SETTLED:].max() < most


def test_a_velocity_that_is_not_the_positions_own_changes_nothing_but_the_last_digits():
    """Positions are what they are: velocities only fill in what rounding took from them."""
    stages, _ = CHAINS["differentiated"]
    positions, speeds = wheel(1.0, 1.0)
    exact = np.diff(positions.astype(np.float64)) / DT
    for given in (speeds, np.zeros_like(speeds), 7.0 * speeds):
        found = -efforts(stages, positions, given, push=0.0)[1:]
        np.testing.assert_allclose(found, exact, atol=2.0**-22 * np.abs(positions).max() / DT)


@pytest.mark.parametrize("name", ["backlash", "spring"])
def test_a_wheel_that_is_put_elsewhere_carries_its_motor_along_no_further_than_before(name):
    """After a jump of the joint the teeth or the spring hold as much as the jump says: positions stay absolute."""
    stages, _ = CHAINS[name]
    positions, speeds = np.full(STEPS, 1e4, np.float32), np.zeros(STEPS, np.float32)
    positions[STEPS - 1 :] += np.float32(0.125)
    jumped = efforts(stages, positions, speeds)
    stays = efforts(stages, np.full(STEPS, 1e4, np.float32), speeds)
    assert np.abs(jumped - stays)[:-1].max() == 0.0
    assert (jumped - stays)[-1] < -1.0


def test_a_wheel_of_mujoco_is_driven_far_away_as_near_by(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "wheel.xml"
    path.write_text("""<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body name="robot">
        <joint name="wheel" axis="0 1 0" armature="0.02"/><geom size="0.1" mass="1"/></body></worldbody></mujoco>""")
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 2.0), transmission=CHAINS["backlash"][0][1])

    def driven(far):
        found = []
        with actuon.MujocoSimulation(path) as simulation:
            attached = actuon.ArticulationActuators.from_actuators("robot", [(motor, "wheel")])
            attached.articulation.set_dof_positions(np.full((1, 1), far, np.float32))
            for k in range(400):
                speed = 10.0 + 5.0 * np.sin(0.02 * k)
                attached.articulation.set_dof_velocity_targets(np.full((1, 1), speed, np.float32))
                simulation.step()
                found.append(attached.telemetry().applied_effort[0, 0])
        return np.array(found)

    near, far = driven(0.0), driven(1e4)
    assert np.abs(near).max() > 5.0
    assert np.abs(far - near)[SETTLED:].max() < 0.05
