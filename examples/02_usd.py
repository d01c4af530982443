# SPDX-License-Identifier: Apache-2.0
"""Motors in a robot's USD file: author them, read them back, export them to YAML, and drive the robot with them.

Run with ``python examples/02_usd.py``. The page: docs/tutorials/usd.md.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from pxr import Usd

import actuon


def main(folder: Path) -> None:
    actuon.quiet()  # no messages of Warp
    # The arm that comes with Actuon, without its motors.
    file = Path(shutil.copy(actuon.assets.arm_usd, folder / "arm.usda"))
    stage = Usd.Stage.Open(str(file))
    stage.RemovePrim("/Arm/Actuators")

    # One prim for each motor, below /Arm/Actuators.
    for i in range(1, 8):
        is_shoulder = i <= 4
        actuon.add_actuator(
            "/Arm",
            f"joint{i}",
            f"joint{i}",  # name of the prim
            actuon.PDControlConfig(*((600.0, 50.0) if is_shoulder else (150.0, 25.0))),  # [N·m/rad], [N·m·s/rad]
            clamping=[actuon.MaxEffortClampingConfig(87.0 if is_shoulder else 12.0)],  # [N·m]
            delay=actuon.DelayConfig(delay_steps=1),
            stage=stage,
        )
    stage.Save()

    # The values in the file, with units.
    report = actuon.inspect_actuators(file)
    assert report.problems == []
    for joint in (report.joints[0], report.joints[6]):
        values = [f"{v.name} = {v.value:g} {v.unit}" for part in joint.chain for v in part.values]
        print(f"{joint.name}: {', '.join(values)}")

    # To YAML: equal joints become one entry. MuJoCo does not read USD; it finds arm.actuon.yaml next to arm.xml.
    entries = actuon.export_actuators(file)
    actuon.save_actuators(folder / "arm.actuon.yaml", entries)
    print((folder / "arm.actuon.yaml").read_text())
    assert [len(entry.joints) for entry in entries] == [4, 3]

    robot = shutil.copy(actuon.assets.arm_mjcf, folder)
    with actuon.MujocoSimulation(robot) as simulation:
        actuators = actuon.ArticulationActuators("link0")
        arm = actuators.articulation
        target = arm.get_dof_positions().numpy()[0]
        target[6] += 0.5  # [rad]
        arm.set_dof_position_targets(target)
        simulation.step(1000)  # 2 s
        error = arm.get_dof_positions().numpy()[0] - target
    print("errors [mrad]:", np.round(1000 * error, 1))
    assert abs(error[6]) < 0.01


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
