# SPDX-License-Identifier: Apache-2.0
"""Where the robots of a file lie in the arrays of many environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..robot import Robot
from .reading import RobotFile


def place_robots(newton: Any, file: RobotFile, num_envs: int) -> list[Robot]:
    """All robots, environment by environment."""
    builder = file.builder
    ends = [robot.root.rsplit("/", 1)[-1] for robot in file.robots]
    placed = []
    for env in range(num_envs):
        for robot, end in zip(file.robots, ends, strict=True):
            name = end if ends.count(end) == 1 else robot.root[1:]
            path = robot.root if num_envs == 1 else f"/World/envs/env_{env}/{name}"
            q = env * builder.joint_coord_count + _starts(builder.joint_q_start, robot.dofs)
            qd = env * builder.joint_dof_count + _starts(builder.joint_qd_start, robot.dofs)
            placed.append(
                Robot(
                    path,
                    env,
                    robot.root,
                    tuple(dof.name for dof in robot.dofs),
                    tuple(path + dof.path.removeprefix(robot.root) for dof in robot.dofs),
                    q,
                    qd,
                    q,
                    env * builder.body_count + robot.links[0],
                    (robot.label,) if num_envs == 1 else (),
                    tuple(_slides(builder, dof.joint, dof.axis) for dof in robot.dofs),
                    builder.joint_type[robot.base] != newton.JointType.FREE,
                )
            )
    return placed


def indices_of(robots: list[Robot], kind: str) -> np.ndarray:
    """Where the values of ``kind`` lie, a row for each robot, shape (robots, most DOFs); -1 behind a robot's last."""
    table = np.full((len(robots), max(len(robot.dofs) for robot in robots)), -1)
    for row, robot in zip(table, robots, strict=True):
        row[: len(robot.dofs)] = robot.indices(kind)
    return table


def _starts(starts: Any, dofs: Any) -> np.ndarray:
    return np.array([starts[dof.joint] + dof.axis for dof in dofs])


def _slides(builder: Any, joint: int, axis: int) -> bool:
    """Whether an axis is linear; those of a joint come before the ones that it turns around."""
    return axis < builder.joint_dof_dim[joint][0]
