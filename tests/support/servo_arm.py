# SPDX-License-Identifier: Apache-2.0
"""The arm with MuJoCo's own PD servos under ``implicitfast``: what implicit efforts of a PD controller must move as."""

from __future__ import annotations

import mujoco
import numpy as np

import actuon


def bare_arm():
    """Return the spec of the arm without its actuators and keyframes, which integrates with ``implicitfast``."""
    spec = mujoco.MjSpec.from_file(str(actuon.assets.arm_mjcf))
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for element in [*spec.actuators, *spec.keys]:
        spec.delete(element)
    return spec


def wave(step, dt):
    """Return the target position of all joints [rad]."""
    return float(np.float32(0.3 * np.sin(2.0 * np.pi * step * dt)))


def servo_motion(kp, kd, dt, steps):
    """Return positions and velocities of the joints after each step, each of shape (steps, 7)."""
    spec = bare_arm()
    for joint in spec.joints:
        servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=kp, kv=kd)
    model = spec.compile()
    model.opt.timestep = dt
    data, found = mujoco.MjData(model), []
    for step in range(steps):
        data.ctrl[:] = wave(step, dt)
        mujoco.mj_step(model, data)
        found.append((data.qpos.copy(), data.qvel.copy()))
    return tuple(np.array(each) for each in zip(*found, strict=True))
