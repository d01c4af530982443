# SPDX-License-Identifier: Apache-2.0
"""Your own robot as a Gymnasium environment: a cart balances a pole with a fast motor, and not with a delayed one.

Run with ``pip install 'actuon[gym]'`` and ``python examples/own_robot_env.py``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import actuon
from actuon.gym import RobotEnv

CART_POLE = """
<mujoco>
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" range="-1 1"/>
      <geom type="box" size="0.1 0.05 0.05" mass="1"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.02" mass="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
KP, KD, SCALE = 200.0, 20.0, 1.0
GAINS = np.array([4.0, 40.0, 6.0, 8.0])  # of the cart's position, the pole's angle, and their velocities


def motor(max_force: float, delay: int) -> dict[str, actuon.ActuatorConfig]:
    """Return a motor for the rail. The hinge has none: it is passive, and no action moves it."""
    config = actuon.ActuatorConfig(
        actuon.PDControlConfig(KP, KD),
        delay=actuon.DelayConfig(delay_steps=delay),
        clamping=[actuon.MaxEffortClampingConfig(max_force)],
    )
    return {"rail": config}


def reward(env: RobotEnv) -> np.ndarray:
    """Pay for an upright pole and a cart in the middle."""
    rail, hinge = env.position.T
    return np.cos(hinge) - 0.1 * np.abs(rail)


def observation(env: RobotEnv) -> np.ndarray:
    """Return positions and velocities."""
    return np.concatenate([env.position, env.velocity], axis=1)


def fell(env: RobotEnv) -> np.ndarray:
    """Return the environments whose pole is more than 0.5 rad from upright."""
    return np.abs(env.position[:, 1]) > 0.5


def start(env: RobotEnv, ids: np.ndarray) -> None:
    """Tilt each pole by a random angle from the generator of its environment."""
    tilts = [[0.0, env.np_random[i].uniform(-0.1, 0.1)] for i in ids]
    env.robots.set_dof_positions(tilts, ids)


def policy(observations: np.ndarray) -> np.ndarray:
    """Return the targets at which the motor's PD controller requests the force of a linear state feedback."""
    rail, _, rail_velocity, _ = observations.T
    force = observations @ GAINS
    return ((rail + (force + KD * rail_velocity) / KP) / SCALE)[:, None]


def balanced(robot: Path, **limits: float) -> float:
    """Return the share of 16 carts that balance their poles for five seconds."""
    functions = {"reward": reward, "observation": observation, "terminated": fell, "start": start}
    envs = RobotEnv(robot, 16, motor(**limits), **functions, action_scale=SCALE, dt=0.002, autoreset_mode="SameStep")
    observations, _ = envs.reset(seed=0)
    has_fallen = np.zeros(16, dtype=bool)
    for _ in range(500):
        observations, _, failed, _, _ = envs.step(policy(observations))
        has_fallen |= failed
    envs.close()
    return 1.0 - float(has_fallen.mean())


with TemporaryDirectory() as folder:
    robot = Path(folder, "cart_pole.xml")
    robot.write_text(CART_POLE)
    good = balanced(robot, max_force=20.0, delay=0)
    late = balanced(robot, max_force=20.0, delay=60)
print(f"balanced without delay: {good:.0%}; with a delay of 120 ms: {late:.0%}")
assert good == 1.0
assert late == 0.0
