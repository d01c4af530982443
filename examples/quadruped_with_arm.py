# SPDX-License-Identifier: Apache-2.0
"""A quadruped with an arm on its back: legs with explicit DC motors, the arm with the engine's own drives.

Run with ``python examples/quadruped_with_arm.py``.
"""

from __future__ import annotations

import mujoco
import numpy as np

from actuon.assets import arm_mjcf, quadruped_mjcf
from actuon.lab import ActuatorGroups, DCMotorCfg, ImplicitActuatorCfg, Uniform
from actuon.sim import Articulation, MujocoSimulation

LIGHTER = 0.15
"""Factor on the masses and inertias of the arm, which weighs 18 kg, more than the quadruped."""


def quadruped_with_arm() -> mujoco.MjModel:
    """Return the two shipped robots as one model, with the arm on the trunk."""
    robot = mujoco.MjSpec.from_file(str(quadruped_mjcf))
    arm = mujoco.MjSpec.from_file(str(arm_mjcf))
    for body in arm.bodies:
        body.mass *= LIGHTER
        body.inertia *= LIGHTER
    for joint in arm.joints:
        joint.armature *= LIGHTER
        joint.frictionloss *= LIGHTER
    home, targets = [], []
    for spec in (robot, arm):
        (key,) = spec.keys
        home.append(np.array(key.qpos))
        targets.append(np.array(key.ctrl))
        spec.delete(key)
    mount = robot.body("base").add_frame(pos=[0.0, 0.0, 0.06])
    mount.attach_body(arm.body("link0"), "arm_", "")
    robot.add_key(name="home", qpos=np.concatenate(home), ctrl=np.concatenate(targets))
    return robot.compile()


GROUPS = {
    "legs": DCMotorCfg(
        joint_names_expr=[".*_hip_joint", ".*_thigh_joint", ".*_calf_joint"],
        stiffness={".*_hip_joint": 80.0, ".*_thigh_joint": 80.0, ".*_calf_joint": 120.0},
        damping=2.0,
        effort_limit={".*_(hip|thigh)_joint": 23.7, ".*_calf_joint": 35.55},
        saturation_effort={".*_(hip|thigh)_joint": 23.7, ".*_calf_joint": 35.55},
        velocity_limit={".*_(hip|thigh)_joint": 30.1, ".*_calf_joint": 20.07},
        seed=1,
    ),
    "arm": ImplicitActuatorCfg(
        joint_names_expr=["arm_joint[1-7]"],
        stiffness=100.0,
        damping=6.0,
        effort_limit_sim={"arm_joint[1-4]": 13.0, "arm_joint[5-7]": 2.0},
    ),
}


def main() -> None:
    with MujocoSimulation(quadruped_with_arm(), num_envs=4) as simulation:
        robots = Articulation("base")
        groups = ActuatorGroups(robots, GROUPS)
        print(groups.resolution_table())
        groups["legs"].randomize("stiffness", Uniform(0.9, 1.1))
        wave = robots.get_dof_indices("arm_joint1").numpy()
        home = robots.get_dof_position_targets().numpy()[0, wave]
        for _ in range(1000):
            robots.set_dof_position_targets(home + 0.5 * np.sin(2.0 * simulation.time), dof_indices=wave)
            simulation.step()
        heights = [float(data.qpos[2]) for data in simulation.data]
        legs = groups["legs"].numbers("stiffness")[:, 0]
        print(
            "\nheight of the trunk [m]:",
            np.round(heights, 4),
            " stiffness of FL_hip_joint [N·m/rad]:",
            np.round(legs, 1),
        )
        reached = robots.get_dof_positions().numpy()[:, wave[0]]
        assert min(heights) > 0.2
        assert np.abs(reached - (home + 0.5 * np.sin(2.0 * simulation.time))).max() < 0.15


if __name__ == "__main__":
    main()
