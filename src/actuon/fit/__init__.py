# SPDX-License-Identifier: Apache-2.0
"""Estimation of motor parameters from logs of real joints and robots."""

from ..errors import check_installed

check_installed(("cmaes", "mujoco", "ruamel.yaml", "scipy"), "fit", "actuon.fit")

from ..logs import JointLog as JointLog, Log as Log, read_log as read_log, read_logs as read_logs
from ..robot_files.fleet import (
    Fleet as Fleet,
    FleetJoint as FleetJoint,
    FleetParameter as FleetParameter,
    load_fleet as load_fleet,
    save_fleet as save_fleet,
)
from .fitting import fit_logs as fit_logs
from .fleet_fitting import fit_fleet as fit_fleet
from .model import Model as Model, Parameter as Parameter
from .plants.known_load import KnownLoadPlant as KnownLoadPlant
from .plants.plant import Plant as Plant, Scales as Scales, Trials as Trials
from .plants.plant_file import load_plant as load_plant
from .plants.robot import RobotPlant as RobotPlant
from .replay import Applied as Applied, apply as apply, replay_step as replay_step
from .result import FitResult as FitResult
from .search import SearchOptions as SearchOptions
from .terms import PRESETS as PRESETS
from .verdict import Verdict as Verdict

__all__ = [
    "PRESETS",
    "Applied",
    "FitResult",
    "Fleet",
    "FleetJoint",
    "FleetParameter",
    "JointLog",
    "KnownLoadPlant",
    "Log",
    "Model",
    "Parameter",
    "Plant",
    "RobotPlant",
    "Scales",
    "SearchOptions",
    "Trials",
    "Verdict",
    "apply",
    "fit_fleet",
    "fit_logs",
    "load_fleet",
    "load_plant",
    "read_log",
    "read_logs",
    "replay_step",
    "save_fleet",
]


def __dir__() -> list[str]:
    return __all__
