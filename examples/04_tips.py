# SPDX-License-Identifier: Apache-2.0
"""A light hinge with much damping shakes at a step of 4 ms: the frequency, and three remedies.

Run with ``python examples/04_tips.py``. The page: docs/tutorials/vibration.md.
"""

from __future__ import annotations

import mujoco
import numpy as np

import actuon

LINK = 0.006  # inertia [kg·m²]
ROTOR = 0.01  # a rotor of 1e-4 kg·m² behind a gear of 10, at the joint [kg·m²]
HINGE = """
<mujoco>
  <option gravity="0 0 0" integrator="Euler"/>
  <worldbody>
    <body name="leg">
      <inertial pos="0 0 0" mass="1" diaginertia="{link} {link} {link}"/>
      <joint name="knee" axis="0 1 0" armature="{armature}"/>
    </body>
  </worldbody>
</mujoco>
"""


def swing(kd: float, dt: float, armature: float) -> tuple[float, float, float]:
    """Follow a sine of 1 Hz with a motor of 60 N·m/rad and 23.7 N·m. Return the peak frequency of the effort [Hz], the
    share of steps at the limit, and the stability usage, both [1]."""
    kp = 60.0
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd), actuon.MaxEffortClampingConfig(23.7))
    model = mujoco.MjModel.from_xml_string(HINGE.format(link=LINK, armature=armature))
    with actuon.MujocoSimulation(model, dt=dt) as simulation:
        actuators = actuon.ArticulationActuators.from_actuators("leg", [(motor, "knee")])
        with actuon.Recorder(actuators) as recorder:
            for _ in range(round(2.0 / dt)):
                actuators.articulation.set_dof_position_targets(0.3 * np.sin(2 * np.pi * simulation.time))
                simulation.step()
    effort = recorder.data["applied_effort"][len(recorder) // 2 :].squeeze()
    spectrum = np.abs(np.fft.rfft(effort - effort.mean()))
    peak = float(np.fft.rfftfreq(len(effort), dt)[np.argmax(spectrum)])
    return peak, float(recorder.data["clipped"].mean()), (kd * dt + kp * dt**2 / 2) / (2 * (LINK + armature))


def main() -> None:
    actuon.quiet()  # no messages of Warp
    print("                          peak [Hz]   at its limit   stability usage")
    cases = {
        "unchanged": (4.0, 0.004, 0.0),
        "with the rotor's armature": (4.0, 0.004, ROTOR),
        "at a step of 1 ms": (4.0, 0.001, 0.0),
        "with kd of 1 N·m·s/rad": (1.0, 0.004, 0.0),
    }
    found = {name: swing(*case) for name, case in cases.items()}
    for name, (peak, clipped, usage) in found.items():
        print(f"{name:26s}{peak:8.0f}{clipped:14.0%}{usage:18.0%}")

    shaking, *calm = found.values()
    assert shaking[0] == 125.0  # half the physics rate: the integrator shakes
    assert shaking[2] > 1.0
    assert all(peak == 1.0 and clipped == 0.0 and usage < 1.0 for peak, clipped, usage in calm)


if __name__ == "__main__":
    main()
