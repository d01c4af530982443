# SPDX-License-Identifier: Apache-2.0
"""Places of the robots of a file in the arrays of many environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..robots import Robot, RobotKind
from .reading import RobotFile

_BY_COORDINATE = ("joint_q", "joint_target_q")
_BY_DOF = ("joint_qd", "joint_target_qd", "joint_f")


def place_robots(newton: Any, file: RobotFile, num_envs: int) -> list[Robot]:
    """Return all robots, environment by environment."""
    builder = file.builder
    ends = [robot.root.rsplit("/", 1)[-1] for robot in file.robots]
    kinds = []
    for robot, end in zip(file.robots, ends, strict=True):
        coordinates, dofs = (
            np.array([starts[dof.joint] + dof.axis for dof in robot.dofs], dtype=np.int64)
            for starts in (builder.joint_q_start, builder.joint_qd_start)
        )
        kinds.append(
            RobotKind(
                name=end,
                source_path=robot.root,
                dof_names=tuple(dof.name for dof in robot.dofs),
                joint_paths=tuple(dof.path.removeprefix(robot.root) for dof in robot.dofs),
                columns=dict.fromkeys(_BY_COORDINATE, coordinates) | dict.fromkeys(_BY_DOF, dofs),
                widths=dict.fromkeys(_BY_COORDINATE, builder.joint_coord_count)
                | dict.fromkeys(_BY_DOF, builder.joint_dof_count),
                links=np.array(robot.links),
                link_names=tuple(robot.link_names),
                num_bodies=builder.body_count,
                slides=tuple(_slides(builder, dof.joint, dof.axis) for dof in robot.dofs),
                is_fixed_base=builder.joint_type[robot.base] != newton.JointType.FREE,
            )
        )
    placed = []
    for env in range(num_envs):
        for kind, robot in zip(kinds, file.robots, strict=True):
            name = kind.name if ends.count(kind.name) == 1 else robot.root[1:]
            path = robot.root if num_envs == 1 else f"/World/envs/env_{env}/{name}"
            placed.append(Robot(kind, env, path, (robot.label,) if num_envs == 1 else ()))
    return placed


def _slides(builder: Any, joint: int, axis: int) -> bool:
    """Return whether an axis is linear; linear axes of a joint come first."""
    return axis < builder.joint_dof_dim[joint][0]
