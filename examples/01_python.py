# SPDX-License-Identifier: Apache-2.0
"""Motors on an arm from Python: a PD controller lets a weight sag, and feedforward holds it.

Run with ``python examples/01_python.py``. The page: docs/tutorials/python.md.
"""

from __future__ import annotations

import numpy as np

import actuon


def motor(kp: float, kd: float, limit: float) -> actuon.ActuatorConfig:
    """Return a motor from gains [N·m/rad], [N·m·s/rad] and the largest effort [N·m], with a delay of one step."""
    return actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=kp, kd=kd),
        clamping=[actuon.MaxEffortClampingConfig(limit)],
        delay=actuon.DelayConfig(delay_steps=1),
    )


def main() -> None:
    actuon.quiet()  # no messages of Warp
    motors = [(motor(200.0, 30.0, 87.0), f"joint{i}") for i in (1, 2, 3, 4)]
    motors += [(motor(50.0, 8.0, 12.0), f"joint{i}") for i in (5, 6, 7)]

    # Two arms in one simulation, with the same motors.
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
        actuators = actuon.ArticulationActuators.from_actuators("link0", motors)
        arms = actuators.articulation
        home = arms.get_dof_positions().numpy()[0]
        arms.set_dof_position_targets(home)

        with actuon.Recorder(actuators) as recorder:
            for _ in range(1000):
                # Only the second arm gets the efforts of gravity and motion as feedforward.
                feedforward = np.stack([np.zeros(7), simulation.data[1].qfrc_bias])
                actuators.set_dof_feedforward_effort_targets(feedforward)
                simulation.step()
        recorder.save("arms.npz")  # `actuon plot arms.npz` draws it

        sag = arms.get_dof_positions().numpy() - home
        for joint, without, helped in zip(arms.dof_names, *sag, strict=True):
            print(f"{joint}: error {1000 * without:7.1f} mrad, {1000 * helped:6.1f} with feedforward")

    assert np.isclose(sag[0, 3], -0.094, atol=0.002)  # [rad]: a PD controller needs an error to hold a weight
    assert np.abs(sag[1]).max() < 0.01


if __name__ == "__main__":
    main()
