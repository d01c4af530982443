# SPDX-License-Identifier: Apache-2.0
"""Group models with a `compute` of their own, as users of Isaac Lab write them, on robots."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import actuon
from actuon.lab import (
    ActuatorGroups,
    ArticulationActions,
    DCMotorCfg,
    DelayedPDActuator,
    DelayedPDActuatorCfg,
    IdealPDActuator,
    IdealPDActuatorCfg,
    ImplicitActuator,
    ImplicitActuatorCfg,
)

GAINS = {"stiffness": 300.0, "damping": 20.0, "effort_limit": 25.0}


class OwnPD(IdealPDActuator):
    """The PD of Isaac Lab's own class, as it is written there."""

    def compute(self, control_action, joint_pos, joint_vel):
        error_pos = control_action.joint_positions - joint_pos
        error_vel = control_action.joint_velocities - joint_vel
        feedforward = control_action.joint_efforts
        self.computed_effort = self.stiffness * error_pos + self.damping * error_vel + feedforward
        self.applied_effort = self._clip_effort(self.computed_effort)
        control_action.joint_efforts = self.applied_effort
        control_action.joint_positions = None
        control_action.joint_velocities = None
        return control_action


class Weaker(DelayedPDActuator):
    """A built-in motor, with less effort the longer it runs."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.share = torch.ones(self._num_envs, self.num_joints, device=self._device)

    def compute(self, control_action, joint_pos, joint_vel):
        action = super().compute(control_action, joint_pos, joint_vel)
        action.joint_efforts = self.share * action.joint_efforts
        self.share *= 0.5
        return action


def run(cfg, steps=20, num_envs=2):
    """Return positions, and efforts of the model before and after limits, of each step."""
    found = []
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=num_envs) as simulation:
        robots = actuon.Articulation("link0")
        groups = ActuatorGroups(robots, {"arm": cfg})
        for step in range(steps):
            robots.set_dof_position_targets(0.2 * np.sin(0.3 * step + np.arange(num_envs))[:, None])
            simulation.step()
            model = groups["arm"]
            efforts = model.computed_effort.numpy().copy(), model.applied_effort.numpy().copy()
            found.append((robots.get_dof_positions().numpy().copy(), *efforts))
        telemetry = groups.telemetry()
    return [np.array(series) for series in zip(*found, strict=True)], telemetry


def test_a_model_with_its_own_compute_drives_robots():
    """Bit for bit as the same equation among the built-in ones."""
    own, plain = (
        IdealPDActuatorCfg(["joint[1-3]"], **GAINS, **({"class_type": OwnPD} if is_own else {})) for is_own in (1, 0)
    )
    (got, telemetry), (expected, _) = run(own), run(plain)
    for series, reference in zip(got, expected, strict=True):
        np.testing.assert_allclose(series, reference, rtol=1e-4, atol=1e-4)
    assert (np.abs(got[1]) > 25.0).any()
    np.testing.assert_allclose(np.abs(got[2]).max(), 25.0)
    assert "0 of them clipped" not in repr(telemetry) or telemetry is not None


def test_a_model_may_use_the_compute_and_the_memory_that_it_extends():
    cfg = {"stiffness": 300.0, "damping": 20.0, "min_delay": 2, "max_delay": 2, "seed": 0}
    (_, _, applied), _ = run(DelayedPDActuatorCfg(["joint1"], Weaker, **cfg), steps=6, num_envs=1)
    (_, _, plain), _ = run(DelayedPDActuatorCfg(["joint1"], **cfg), steps=6, num_envs=1)
    np.testing.assert_allclose(applied[0], plain[0], rtol=1e-5)
    np.testing.assert_allclose(applied[1], 0.5 * plain[1], rtol=0.05)


def test_a_reset_reaches_the_model():
    resets = []

    class Counting(OwnPD):
        def reset(self, env_ids=None):
            resets.append(np.array(env_ids).tolist())
            super().reset(env_ids)

    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=3) as simulation:
        cfg = IdealPDActuatorCfg([".*"], Counting, **GAINS)
        with ActuatorGroups(actuon.Articulation("link0"), {"arm": cfg}):
            simulation.reset([1])
    assert [1] in resets


def test_two_groups_and_one_call_each_per_step():
    calls = []

    class Counting(OwnPD):
        def compute(self, control_action, joint_pos, joint_vel):
            calls.append(tuple(joint_pos.shape))
            return super().compute(control_action, joint_pos, joint_vel)

    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
        groups = {
            "own": IdealPDActuatorCfg(["joint[1-4]"], Counting, **GAINS),
            "motor": DCMotorCfg(["joint[5-7]"], **GAINS, saturation_effort=30.0, velocity_limit=20.0),
        }
        with ActuatorGroups(actuon.Articulation("link0"), groups):
            simulation.step(5)
    assert calls == [(2, 4)] * 5


def test_what_compute_returns_is_checked():
    class Silent(OwnPD):
        def compute(self, control_action, joint_pos, joint_vel):
            return ArticulationActions(joint_positions=joint_pos)

    class Narrow(OwnPD):
        def compute(self, control_action, joint_pos, joint_vel):
            return ArticulationActions(joint_efforts=joint_pos[:, :1])

    class Engine(ImplicitActuator):
        def compute(self, control_action, joint_pos, joint_vel):
            return control_action

    for cls, message in ((Silent, "returned no joint_efforts"), (Narrow, r"returned joint_efforts of shape \(1, 1\)")):
        with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            groups = ActuatorGroups(actuon.Articulation("link0"), {"arm": IdealPDActuatorCfg([".*"], cls, **GAINS)})
            assert not groups.is_closed if hasattr(groups, "is_closed") else groups
            with pytest.raises(actuon.StructureError, match=rf"{cls.__name__}\.compute\(\): {message}; must return"):
                simulation.step()
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
        cfg = ImplicitActuatorCfg([".*"], Engine, stiffness=1.0, damping=1.0)
        with pytest.raises(
            actuon.StructureError, match=r"group 'arm': Engine overrides compute\(\), which is not called"
        ):
            ActuatorGroups(actuon.Articulation("link0"), {"arm": cfg})
        cfg = IdealPDActuatorCfg([".*"], OwnPD, **GAINS, effort_mode="implicit")
        with pytest.raises(actuon.StructureError, match="ControllerOfModel"):
            ActuatorGroups(actuon.Articulation("link0"), {"arm": cfg})
