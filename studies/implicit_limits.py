# SPDX-License-Identifier: Apache-2.0
"""How far implicit efforts end beyond their limits in a plain MuJoCo loop, where no step is taken again.

``python -m studies.implicit_limits`` prints the table of ``docs/measured/implicit_motors.md``: the quadruped with the
motors of its file and ``effort_mode="implicit"``, in a loop around ``mj_step`` and in a
`MujocoSimulation`, which takes a step again where an effort ends beyond its limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

import actuon
import actuon.mujoco
from actuon import assets

SECONDS = 2.0
TIME_STEPS = (0.002, 0.005, 0.010)
Motion = Callable[[np.ndarray, float], np.ndarray]
"""From the home position of the joints [rad] and a time [s] to their targets [rad]."""


def jumps(size: float) -> Motion:
    """Targets that jump by up to ``size`` [rad] every 50 ms."""

    def targets(home: np.ndarray, time: float) -> np.ndarray:
        rng = np.random.default_rng(round(time // 0.05))
        return home + rng.uniform(-size, size, home.size)

    return targets


def trot(home: np.ndarray, time: float) -> np.ndarray:
    """Diagonal legs that swing in turn, at 2 Hz. A leg has three joints: hip, thigh, calf."""
    phases = 4.0 * np.pi * time + np.array([0.0, np.pi, np.pi, 0.0])
    offsets = np.zeros((4, 3))
    offsets[:, 1] = 0.25 * np.cos(phases)
    offsets[:, 2] = -0.5 * np.maximum(0.0, np.sin(phases))
    return home + offsets.ravel()


MOTIONS: dict[str, Motion] = {"trot at 2 Hz": trot} | {
    f"jumps of up to {size:g} rad every 50 ms": jumps(size) for size in (0.25, 0.4)
}


class Quadruped:
    """The quadruped, twice.

    Args:
        dt: Time step [s].
    """

    def __init__(self, dt: float):
        spec = mujoco.MjSpec.from_file(str(assets.quadruped_mjcf))
        spec.option.timestep = dt
        self.joints = [joint.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_HINGE]
        matched = actuon.match_joints(actuon.load_actuators(assets.quadruped_yaml), self.joints)
        configs = {name: entry.actuator_of(name) for entry, names in matched for name in names}
        for config in configs.values():
            config.effort_mode = "implicit"
        motors = [configs[name].clamping[0] for name in self.joints]
        self.most, self.fastest = (
            np.array([getattr(motor, name) for motor in motors]) for name in ("saturation_effort", "velocity_limit")
        )
        self.model = actuon.mujoco.load(spec, configs)
        self.data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        self.simulation = actuon.MujocoSimulation(spec)
        pairs = [(config, name) for name, config in configs.items()]
        self.actuators = actuon.ArticulationActuators.from_actuators("base", pairs, simulation=self.simulation)

    def beyond(self, efforts: np.ndarray, speeds: np.ndarray) -> np.ndarray:
        """Return how far efforts are beyond what the motors give at these speeds [N·m], shape (12,)."""
        upper = np.minimum(self.most, self.most * (1.0 - speeds / self.fastest))
        lower = np.maximum(-self.most, -self.most * (1.0 + speeds / self.fastest))
        return np.maximum(0.0, np.maximum(efforts - upper, lower - efforts))

    def _activations(self, suffix: str) -> np.ndarray:
        model, numbers = self.model, []
        for name in self.joints:
            joint = model.joint(name).id
            own = [i for i in range(model.nu) if model.actuator_trnid[i, 0] == joint]
            actuator = next(i for i in own if model.actuator(i).name.endswith(suffix))
            numbers.append(self.data.act[model.actuator_actadr[actuator] + model.actuator_actnum[actuator] - 1])
        return np.array(numbers)

    def run(self, motion: Motion) -> tuple[np.ndarray, np.ndarray]:
        """Return how far efforts were beyond their limits in each step, in both loops, each of shape (steps, 12)."""
        model, data, simulation = self.model, self.data, self.simulation
        home = np.array([data.joint(name).qpos[0] for name in self.joints])
        order = [self.joints.index(model.joint(int(i)).name) for i in model.actuator_trnid[:12, 0]]
        dofs = [int(model.joint(name).dofadr[0]) for name in self.joints]
        columns = [self.actuators.articulation.dof_names.index(name) for name in self.joints]
        plain, retaken = [], []
        for step in range(round(SECONDS / simulation.dt)):
            targets = motion(home, step * simulation.dt + 1e-9).astype(np.float32)[order]
            data.ctrl[:12] = simulation.data[0].ctrl[:12] = targets
            mujoco.mj_step(model, data)
            simulation.step()
            speeds = data.qvel[dofs]
            plain.append(
                self.beyond(self._activations("_joint") + self._activations("_derivative_qd") * speeds, speeds)
            )
            applied = self.actuators.telemetry().applied_effort[0, columns]
            retaken.append(self.beyond(applied, simulation.data[0].qvel[dofs]))
        return np.array(plain), np.array(retaken)

    def close(self) -> None:
        self.simulation.close()
        actuon.mujoco.unload(self.model)


def row(name: str, motion: Motion, dt: float) -> tuple[Any, ...]:
    """Return a row of the table."""
    robot = Quadruped(dt)
    plain, retaken = robot.run(motion)
    robot.close()
    return name, 1e3 * dt, plain.max(), 100.0 * (plain > 0.1).mean(), retaken.max()


def main() -> None:
    logging.getLogger("actuon").setLevel(logging.ERROR)
    print(
        "| motion | time step, ms | beyond the limit, N·m | joints and steps beyond by 0.1 N·m, % "
        "| in a simulation, N·m |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, motion in MOTIONS.items():
        for dt in TIME_STEPS:
            print("| {} | {:g} | {:.1f} | {:.2f} | {:.1f} |".format(*row(name, motion, dt)))


if __name__ == "__main__":
    main()
