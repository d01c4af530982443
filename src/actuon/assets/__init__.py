# SPDX-License-Identifier: Apache-2.0
"""Paths of the robots that come with Actuon: a quadruped and an arm, as MJCF and USD, and their actuators as YAML.

README.md in this folder lists the sources of their values.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Folder of the files. Copy a robot to change it."""

quadruped_mjcf = FOLDER / "quadruped.xml"
"""Twelve joints on a free base, for MuJoCo."""
quadruped_usd = FOLDER / "quadruped.usda"
"""USD file of that robot for Newton, with its actuators."""
quadruped_yaml = FOLDER / "quadruped.actuon.yaml"
"""The actuators of the quadruped."""
quadruped_graph_usd = FOLDER / "quadruped_graph.usda"
"""The quadruped with an action graph that drives it."""

arm_mjcf = FOLDER / "arm.xml"
"""Seven joints on a fixed base, for MuJoCo."""
arm_usd = FOLDER / "arm.usda"
"""USD file of that robot for Newton, with its actuators."""
arm_yaml = FOLDER / "arm.actuon.yaml"
"""The actuators of the arm."""

__all__ = [
    "FOLDER",
    "arm_mjcf",
    "arm_usd",
    "arm_yaml",
    "quadruped_graph_usd",
    "quadruped_mjcf",
    "quadruped_usd",
    "quadruped_yaml",
]


def __dir__() -> list[str]:
    return __all__
