# SPDX-License-Identifier: Apache-2.0
"""Two robots of our own primitive shapes, with the published masses, limits and motor figures of real ones.

Each robot is one table of links and joints here, written twice: as MJCF for MuJoCo and as USD for Newton. Both say
beside each figure where it comes from; "chosen here" marks what nobody published. Inertia follows from the published
mass and a solid of even density that is centred on the published centre of mass; what is drawn has no mass.

Run with ``python -m scripts.robots [folder]``; without a folder it writes over those of `actuon.assets`. The files
do not depend on when or where they are written.
"""

from __future__ import annotations

from pathlib import Path

from actuon import author_actuators, load_actuators

from .arm import arm
from .mjcf import mjcf
from .quadruped import quadruped
from .usd import usd_stage


def write_all(folder: Path) -> None:
    """Write both robots as MJCF and USD, the latter with the actuators of the YAML files that are there."""
    for robot in (quadruped(), arm()):
        (folder / f"{robot.name}.xml").write_text(mjcf(robot), encoding="utf-8", newline="\n")
        stage = usd_stage(robot)
        actuators = folder / f"{robot.name}.actuon.yaml"
        author_actuators(stage.GetDefaultPrim(), load_actuators(actuators), stage=stage)
        scope = stage.GetDefaultPrim().GetChild("Actuators")
        scope.SetDocumentation(f"From {actuators.name}, which names the source of each figure.")
        text = stage.GetRootLayer().ExportToString()
        (folder / f"{robot.name}.usda").write_text(text, encoding="utf-8", newline="\n")
