# SPDX-License-Identifier: Apache-2.0
"""Actuators in a robot's USD file, with the schemas of Newton. Importing this module loads `pxr`."""

from .robot_files.usd.author import add_actuator as add_actuator, author_actuators as author_actuators
from .robot_files.usd.read import (
    export_actuators as export_actuators,
    parse_actuator_prim as parse_actuator_prim,
    parse_actuators as parse_actuators,
)
from .robot_files.usd.report import Report as Report, inspect_actuators as inspect_actuators
from .robot_files.usd.stage import current_stage as current_stage, open_stage as open_stage, use_stage as use_stage

__all__ = [
    "Report",
    "add_actuator",
    "author_actuators",
    "current_stage",
    "export_actuators",
    "inspect_actuators",
    "open_stage",
    "parse_actuator_prim",
    "parse_actuators",
    "use_stage",
]
