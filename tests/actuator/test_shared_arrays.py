# SPDX-License-Identifier: Apache-2.0
"""Arrays that an actuator shares with the components that it gets, on every way to make one."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon

N = 2
NAMES = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")


def effort(actuator):
    sim = {name: np.zeros(actuator.num_actuators, np.float32) for name in NAMES}
    sim["joint_target_q"] += 1.0
    actuator.step(sim, sim)
    return sim["joint_f"]


def by_itself(pd):
    """Return the efforts of an actuator, as a function."""
    actuator = actuon.Actuator(range(N), pd)
    return lambda: effort(actuator)


def by_config(pd):
    actuator = actuon.Actuator(range(N), stages=actuon.ActuatorConfig(pd).stages)
    return lambda: effort(actuator)


def by_robots(pd):
    simulation = actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=N)
    actuators = actuon.ArticulationActuators.from_actuators(
        "link0", [(actuon.ActuatorConfig(pd), "joint1")], simulation=simulation
    )
    articulation = actuators.articulation

    def efforts():
        simulation.reset()
        targets = np.array(articulation.get_dof_positions().numpy())
        targets[:, 0] += 1.0
        articulation.set_dof_position_targets(targets)
        simulation.step()
        return actuators.telemetry().applied_effort[:, 0].copy()

    return efforts


EVERY_WAY = pytest.mark.parametrize("way", [by_itself, by_config, by_robots])


@EVERY_WAY
def test_a_warp_array_is_shared_and_all_else_is_copied(way):
    kp, kd = wp.full(N, 3.0, dtype=wp.float32), np.zeros(N, np.float32)
    efforts = way(actuon.ControllerPD(kp=kp, kd=kd))
    np.testing.assert_allclose(efforts(), 3.0, rtol=1e-5)
    kp.fill_(7.0)
    kd[:] = 9.0
    np.testing.assert_allclose(efforts(), 7.0, rtol=1e-5)


@EVERY_WAY
def test_a_component_that_was_passed_cannot_change(way):
    pd = actuon.ControllerPD(kp=[3.0, 3.0], kd=0.0)
    efforts = way(pd)
    with pytest.raises(
        actuon.StructureError, match=r"ControllerPD\.kp: cannot be changed here, .* actuator.controller.kp"
    ):
        pd.kp = 4.0
    with pytest.raises(ValueError, match="read-only"):
        pd.kp[:] = 4.0
    np.testing.assert_allclose(efforts(), 3.0, rtol=1e-5)


def test_components_of_an_actuator_can_change_and_are_not_those_of_another():
    pd = actuon.ControllerPD(kp=3.0, kd=0.0)
    first, second = actuon.Actuator(range(N), pd), actuon.Actuator(range(N), pd)
    third = actuon.Actuator(range(N), first.controller)
    first.controller.kp = 5.0
    first.controller.kd.fill_(1.0)
    assert [actuator.controller.kp.numpy()[0] for actuator in (first, second, third)] == [5.0, 3.0, 3.0]
    assert [actuator.controller.kd.numpy()[0] for actuator in (first, second, third)] == [1.0, 0.0, 0.0]


def test_attributes_of_a_class_with_its_own_kernels_cannot_change_unseen():
    class Scaled(actuon.ClampingMaxEffort):
        scale = 1.0

        def modify_forces(self, *arguments):
            super().modify_forces(*arguments)
            arguments[1].assign(self.scale * arguments[1].numpy())

    clamp = Scaled(2.0)
    clamp.scale = 0.5
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(3.0, 0.0), clamping=[clamp])
    np.testing.assert_allclose(effort(actuator), 1.0)
    with pytest.raises(actuon.StructureError, match=r"Scaled\.scale: cannot be changed here"):
        clamp.scale = 0.25
    actuator.clamping[0].scale = 0.25
    np.testing.assert_allclose(effort(actuator), 0.5)


def test_what_can_share_no_arrays_takes_configs_only():
    motor = actuon.ActuatorConfig(actuon.ControllerPD(kp=3.0, kd=0.0))
    with pytest.raises(actuon.StructureError, match="got ControllerPD, which holds arrays; .* configs of numbers"):
        actuon.Motors(motor, ["knee"], num_envs=N)
    with pytest.raises(actuon.StructureError, match="got ControllerPD, which holds arrays; .* configs of numbers"):
        actuon.ActuatorBuilder().add(motor, 0)
