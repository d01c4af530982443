# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own ``<dcmotor>`` beside our stages on the same joint: the same where the models are the same."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import actuon
from tests.support.states import model_bytes

KT, R = 0.3, 0.8
STEPS = 1500
BODY = """<mujoco><option gravity="0 0 0" timestep="0.001"/><worldbody><body name="wheel">
  <joint name="axle" axis="0 1 0" armature="0.002" damping="0.02"/><geom type="cylinder" size="0.05 0.02" mass="0.5"/>
</body></worldbody>{}</mujoco>"""


def target(t):
    return 3.0 * np.sign(np.sin(4.0 * t))


def in_mujoco(attributes, scale=1.0):
    """Positions, velocities, efforts and states of the motor of each step, as they are before it."""
    motor = f'<dcmotor joint="axle" motorconst="{KT} {KT}" resistance="{R}" {attributes}/>'
    model = mujoco.MjModel.from_xml_string(BODY.format(f"<actuator>{motor}</actuator>"))
    data = mujoco.MjData(model)
    found, states = [], []
    for _ in range(STEPS):
        data.ctrl[0] = scale * target(data.time)
        before, states = (data.qpos[0], data.qvel[0]), [*states, data.act.copy()]
        mujoco.mj_step(model, data)
        found.append((*before, data.actuator_force[0]))
    return np.array(found).T, states[-1]


def with_ours(tmp_path, clamping, effects=(), gains=(5.0, 0.1), push=0.0):
    """Do as `with_mujoco`, and return the signals of the last step as well."""
    (tmp_path / "wheel.xml").write_text(BODY.format(""))
    config = actuon.ActuatorConfig(actuon.PDControlConfig(*gains), clamping, effects=effects)
    found = []
    with actuon.MujocoSimulation(tmp_path / "wheel.xml") as simulation:
        robots = actuon.ArticulationActuators.from_actuators("wheel", [(config, "axle")])
        for _ in range(STEPS):
            robots.articulation.set_dof_position_targets([[target(simulation.time)]])
            robots.set_dof_feedforward_effort_targets([[push * target(simulation.time)]])
            now = robots.articulation.get_dof_positions(), robots.articulation.get_dof_velocities()
            before = [values.numpy()[0, 0] for values in now]
            simulation.step()
            telemetry = robots.telemetry()
            found.append((*before, telemetry.applied_effort[0, 0]))
        return np.array(found).T, {name: values[0, 0] for name, values in telemetry.signals.items()}


CASES = {
    "supply": ('controller="5 0 0.1 0 0 12"', [actuon.VoltageClampingConfig(KT, R, 12.0)], []),
    "current limit": (
        'controller="5 0 0.1 0 0 12" saturation="0 6 0"',
        [actuon.VoltageClampingConfig(KT, R, 12.0, max_current=6.0)],
        [],
    ),
    "inductance and cogging": (
        f'controller="5 0 0.1 0 0 12" inductance="{0.004 * R} 0" cogging="0.1 12 0.5"',
        [actuon.VoltageClampingConfig(KT, R, 12.0)],
        [actuon.CurrentLoopEffectConfig(0.004), actuon.RippleEffectConfig(0.1, 12.0, phase=0.5)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_motor_moves_as_in_mujoco(case, tmp_path):
    attributes, clamping, effects = CASES[case]
    (q, qd, effort), _ = in_mujoco(f'input="pos" {attributes}')
    (our_q, our_qd, our_effort), _ = with_ours(tmp_path, clamping, effects)
    assert np.abs(q).max() > 1.0
    assert np.abs(effort).max() > 1.0
    np.testing.assert_allclose(our_effort, effort, atol=2e-3)
    np.testing.assert_allclose(our_q, q, atol=2e-4)
    np.testing.assert_allclose(our_qd, qd, atol=5e-3)


def test_a_motor_warms_as_in_mujoco(tmp_path):
    """MuJoCo has one body, without a housing: ours with a housing that stays as cool as the air. At full voltage, to
    and fro: its controller would reckon with the resistance of a cold winding."""
    resistance, capacity, alpha, ambient = 4.0, 0.1, 0.0039, 30.0
    (q, _, effort), act = in_mujoco(
        f'input="voltage" thermal="{resistance} {capacity} 0 {alpha} 25 {ambient}"', scale=4.0
    )
    heat = actuon.HeatClampingConfig(
        resistance,
        1e-6,
        resistance * capacity,
        1.0,
        motor_constant=1.0,
        max_effort=100.0,
        derating_start=300.0,
        derating_end=300.0,
        ambient=ambient,
    )
    motor = actuon.VoltageClampingConfig(KT, R, 12.0, temperature_coefficient=alpha)
    (our_q, _, our_effort), signals = with_ours(tmp_path, [heat, motor], gains=(0.0, 0.0), push=1e3)
    assert act[0] > 5.0
    np.testing.assert_allclose(signals["temperature"], act[0] + ambient, rtol=2e-3)
    np.testing.assert_allclose(our_effort, effort, atol=0.02)
    np.testing.assert_allclose(our_q, q, atol=0.02)


@pytest.mark.parametrize("attributes", ['inductance="0.004 0"', 'thermal="1 10 25 0.004 25 20"', 'lugre="1 1 1 1 1"'])
def test_a_motor_with_a_state_is_silenced_and_given_back(attributes):
    robot = f'<dcmotor joint="axle" motorconst="{KT} {KT}" resistance="{R}" {attributes}/>'
    config = actuon.ActuatorConfig(actuon.PDControlConfig(5.0, 0.1))
    positions = []
    for motor in ("", robot):
        model = mujoco.MjSpec.from_string(BODY.format(f"<actuator>{motor}</actuator>"))
        with actuon.MujocoSimulation(model) as simulation:
            before = model_bytes(simulation)
            with actuon.ArticulationActuators.from_actuators("wheel", [(config, "axle")]) as actuators:
                actuators.articulation.set_dof_position_targets(0.5)
                simulation.step(50)
                positions.append(actuators.articulation.get_dof_positions().numpy()[0, 0])
            assert model_bytes(simulation) == before
            simulation.step(10)
    assert positions[1] == positions[0] > 0.1
