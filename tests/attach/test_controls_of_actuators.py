# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's actuators have from none to three controls: each finds its own, wherever it stands."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import actuon
from actuon.lab import ActuatorGroups, ImplicitActuatorCfg
from tests.support.command_line import command

JOINTS = ("none", "one", "two", "three")
ROBOT = """
<mujoco><worldbody><body name="robot">
  <joint name="none" axis="0 0 1"/><geom size=".1" mass="1"/>
  <body pos=".3 0 0"><joint name="one" axis="0 0 1"/><geom size=".1" mass="1"/>
    <body pos=".3 0 0"><joint name="two" axis="0 0 1"/><geom size=".1" mass="1"/>
      <body pos=".3 0 0"><joint name="three" axis="0 0 1"/><geom size=".1" mass="1"/></body></body></body>
</body></worldbody><actuator>{}</actuator></mujoco>"""
ACTUATORS = {
    "one": '<general name="one" joint="one" gainprm="10" biastype="affine" biasprm="0 -10 -1" forcerange="-5 5"/>',
    "two": '<general name="two" joint="two" gaintype="pid" input="pos vel" gainprm="0" biastype="affine"'
    ' biasprm="0 -20 -2"/>',
    "none": '<dcmotor name="none" joint="none" motorconst="0.1 0.1" resistance="1" input="none"/>',
    "three": '<general name="three" joint="three" gaintype="pid" input="pos vel ff" gainprm="0" biastype="affine"'
    ' biasprm="0 -30 -3"/>',
}
ORDERS = [("one", "two", "three", "none"), ("none", "three", "two", "one"), ("three", "none", "one", "two")]
ORDER = pytest.mark.parametrize("order", ORDERS, ids="-".join)
NUM_ENVS = pytest.mark.parametrize("num_envs", [1, 3, 16])


def spec(order):
    return mujoco.MjSpec.from_string(ROBOT.format("".join(ACTUATORS[name] for name in order)))


@ORDER
@NUM_ENVS
def test_targets_reach_their_servos(order, num_envs):
    model = spec(order).compile()
    data, ctrl = mujoco.MjData(model), dict(zip(JOINTS, ((), (0.3,), (0.2, 0.1), (-0.1, 0.2, 0.0)), strict=True))
    for name in JOINTS:
        first = model.actuator_ctrladr[model.actuator(name).id]
        data.ctrl[first : first + len(ctrl[name])] = ctrl[name]
    with actuon.MujocoSimulation(spec(order), num_envs=num_envs) as simulation:
        robots = actuon.Articulation("robot")
        driven = robots.get_dof_indices(JOINTS[1:])
        np.testing.assert_array_equal(robots.get_dof_gains()[0].numpy()[-1], [0.0, 10.0, 20.0, 30.0])
        np.testing.assert_array_equal(robots.get_dof_max_efforts().numpy()[-1], [np.inf, 5.0, np.inf, np.inf])
        robots.set_dof_position_targets([[0.3, 0.2, -0.1]] * num_envs, dof_indices=driven)
        robots.set_dof_velocity_targets([[0.1, 0.2]] * num_envs, dof_indices=robots.get_dof_indices(["two", "three"]))
        simulation.step(50)
        mujoco.mj_step(model, data, 50)
        for found in robots.get_dof_positions().numpy():
            np.testing.assert_allclose(found, data.qpos, rtol=1e-6)


@ORDER
@NUM_ENVS
def test_actuators_replace_all_and_give_all_back(order, num_envs):
    with actuon.MujocoSimulation(spec(order), num_envs=num_envs) as simulation:
        before = simulation.models[0].actuator_biasprm.copy()
        motor = actuon.ActuatorConfig(
            actuon.PDControlConfig(40.0, 1.0), clamping=[actuon.MaxEffortClampingConfig(20.0)]
        )
        pairs = [(motor, name) for name in JOINTS]
        with actuon.ArticulationActuators.from_actuators("robot", pairs) as actuators:
            actuators.articulation.set_dof_position_targets(0.1)
            simulation.step(5)
            wanted = actuators.telemetry().computed_effort
            assert (np.abs(wanted) > 0.0).all()
        np.testing.assert_array_equal(simulation.models[0].actuator_biasprm, before)
        group = ImplicitActuatorCfg(joint_names_expr=[".*"], stiffness=20.0, damping=1.0, effort_limit_sim=9.0)
        with ActuatorGroups(actuon.Articulation("robot"), {"all": group}):
            simulation.step(5)
        np.testing.assert_array_equal(simulation.models[0].actuator_biasprm, before)
        simulation.step()


@ORDER
def test_commands_read_them(order, tmp_path):
    (tmp_path / "robot.xml").write_text(spec(order).to_xml())
    assert "robot" in command("inspect", tmp_path / "robot.xml")
    assert "to be set: kp and kd of none" in command("init", tmp_path / "robot.xml")
