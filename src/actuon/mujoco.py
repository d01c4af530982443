# SPDX-License-Identifier: Apache-2.0
"""Motors in any loop around MuJoCo's ``mj_step``: ``model = actuon.mujoco.load("robot.xml", "robot.yaml")``."""

from .attach.mujoco_loop import (
    load as load,
    seed as seed,
    spec as spec,
    telemetry as telemetry,
    unload as unload,
)

__all__ = ["load", "seed", "spec", "telemetry", "unload"]
