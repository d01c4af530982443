# SPDX-License-Identifier: Apache-2.0
"""Gravity compensation by actuators, which MuJoCo leaves out in a model without actuators of its own."""

from __future__ import annotations

import numpy as np
import pytest

import actuon

mujoco = pytest.importorskip("mujoco")
from tests.support.states import model_bytes  # noqa: E402 - needs MuJoCo

LINK = '<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>'
OTHER = '<body pos="0 2 0"><joint name="other" axis="1 0 0"/><geom size="0.1"/></body>'
MJCF = """<mujoco><worldbody><body name="arm" gravcomp="1">
<joint name="a" axis="0 1 0" actuatorgravcomp="true" {range} armature="0.01"/>{link}
<body pos="0.3 0 0" gravcomp="1"><joint name="b" axis="0 1 0" actuatorgravcomp="true"/>{link}</body></body>{other}
</worldbody><actuator>{actuators}</actuator></mujoco>"""
MOTOR = '<motor name="m" joint="other"/>'
PD = actuon.PDControlConfig(20.0, 2.0)


def mjcf(actuators="", limited=False):
    limit = 'actuatorfrcrange="-6 5"' if limited else ""
    return MJCF.format(range=limit, link=LINK, other=OTHER, actuators=actuators)


def attach(robots, mode="explicit"):
    pairs = [(actuon.ActuatorConfig(PD, effort_mode=mode), name) for name in robots.dof_names]
    return actuon.ArticulationActuators.from_actuators(robots.paths, pairs, simulation=robots.simulation)


def moved(actuators, limited, num_envs):
    """Positions and speeds of an arm that follows targets, and its efforts."""
    spec = mujoco.MjSpec.from_string(mjcf(actuators, limited))
    with actuon.MujocoSimulation(spec, num_envs) as simulation:
        arm = actuon.Articulation("arm")
        motors = attach(arm)
        arm.set_dof_position_targets(np.linspace(0.0, 0.6, num_envs)[:, None] * [1.0, -1.0])
        simulation.step(150)
        efforts = motors.telemetry().applied_effort
        return np.hstack([arm.get_dof_positions().numpy(), arm.get_dof_velocities().numpy(), efforts])


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("limited", [False, True])
def test_a_model_without_actuators_is_compensated_as_one_with_a_motor_elsewhere(limited, num_envs):
    found = moved("", limited, num_envs)
    np.testing.assert_array_equal(found, moved(MOTOR, limited, num_envs))
    np.testing.assert_allclose(found[0, :4], 0.0, atol=1e-6)  # it does not sag


def test_the_model_is_as_before_when_the_last_motors_are_closed():
    """Whether implicit ones are closed first or last."""
    for first in (0, 1):
        spec = mujoco.MjSpec.from_string(mjcf())
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        with actuon.MujocoSimulation(spec) as simulation:
            before, arm = model_bytes(simulation), actuon.Articulation("arm")
            pairs = [
                (actuon.ActuatorConfig(PD, effort_mode=mode), "ab"[i])
                for i, mode in enumerate(("explicit", "implicit"))
            ]
            motors = [actuon.ArticulationActuators.from_actuators("arm", [pair]) for pair in pairs]
            simulation.step(5)
            motors[first].close()
            assert simulation.models[0].nactuator
            motors[1 - first].close()
            assert model_bytes(simulation) == before
            assert not simulation.models[0].nactuator
            simulation.step(100)
            assert np.abs(arm.get_dof_positions().numpy()).max() > 0.01  # as in MuJoCo


def test_a_compiled_model_is_said_to_sag(caplog):
    with actuon.MujocoSimulation(mujoco.MjModel.from_xml_string(mjcf())) as simulation:
        attach(actuon.Articulation("arm"))
        simulation.step(100)
    assert "has actuatorgravcomp and no actuators" in caplog.text
