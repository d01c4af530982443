# SPDX-License-Identifier: Apache-2.0
"""The robots in the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from .look import Shape, poses_of, shapes_of
from .robot import StudioRobot

IDEAL_COLOUR = (140, 170, 210)
_IDEAL_OPACITY = 0.55
_IDEAL = "/world/ideal"
_GAP = 0.35
"""Between two robots [m]."""
_FOLLOW = 0.15
"""By which share of the way the floor follows a robot that walks off, in each picture."""


class Scene:
    """Robots of a session in a viser server, the ideal one beside the real one.

    Args:
        server: A ``viser.ViserServer``.
        robot: The real one.
    """

    def __init__(self, server: Any, robot: StudioRobot):
        self._server = server
        self._shapes = shapes_of(robot.simulation)
        poses = poses_of(robot.simulation)
        low, high = _bounds(self._shapes, poses)
        size = max(float(np.linalg.norm(high - low)), 0.2)
        middle = 0.5 * (low + high)
        self._beside = np.array([0.0, float(high[1] - low[1]) + _GAP, 0.0])
        self._frames: dict[bool, list[Any]] = {}
        self._shown: list[np.ndarray] | None = None
        scene = server.scene
        scene.world_axes.visible = False
        self._world = scene.add_frame("/world", show_axes=False)
        self._root = None if robot.is_fixed_base else robot.articulation.robots[0].root_body
        self._start = poses[self._root, :2] if self._root is not None else np.zeros(2)
        self._offset = np.zeros(2)
        scene.configure_environment_map("city", environment_intensity=0.35)
        scene.add_grid(
            "/world/floor",
            width=20.0,
            height=20.0,
            cell_size=0.1,
            section_size=0.5,
            cell_color=(225, 228, 232),
            section_color=(190, 196, 204),
            infinite_grid=True,
            fade_distance=12.0 * size,
        )
        server.initial_camera.position = tuple(middle + size * np.array([1.0, -1.15, 0.5]))
        server.initial_camera.look_at = tuple(middle)
        self._add(robot, np.zeros(3))

    def show(self, robots: list[StudioRobot], poses: list[np.ndarray]) -> None:
        """Bring the page up to date with the robots that are there."""
        for robot in robots:
            if robot.is_ideal not in self._frames:
                self._add(robot, self._beside)
        if len(robots) == 1 and True in self._frames:
            self._server.scene.remove_by_name(_IDEAL)
            del self._frames[True]
        if self._shown is poses:
            return
        self._shown = poses
        if self._root is not None:
            self._offset += _FOLLOW * (self._start - poses[0][self._root, :2] - self._offset)
        with self._server.atomic():
            self._world.position = (*self._offset, 0.0)
            for robot, rows in zip(robots, poses, strict=True):
                for frame, row in zip(self._frames[robot.is_ideal], rows, strict=True):
                    frame.position, frame.wxyz = row[:3], row[3:]

    def _add(self, robot: StudioRobot, offset: np.ndarray) -> None:
        scene, name = self._server.scene, _IDEAL if robot.is_ideal else "/world/real"
        scene.add_frame(name, show_axes=False, position=offset)
        poses = poses_of(robot.simulation)
        frames = [scene.add_frame(f"{name}/{i}", show_axes=False) for i in range(len(poses))]
        for i, shape in enumerate(self._shapes):
            where = f"{name}/{shape.body}/{i}" if shape.body >= 0 else f"{name}/still/{i}"
            scene.add_mesh_simple(
                where,
                shape.vertices.astype(np.float32),
                shape.faces.astype(np.uint32),
                color=IDEAL_COLOUR if robot.is_ideal else shape.colour,
                opacity=_IDEAL_OPACITY if robot.is_ideal else None if shape.opacity >= 1.0 else shape.opacity,
                flat_shading=not shape.is_smooth,
            )
        self._frames[robot.is_ideal] = frames


def _bounds(shapes: list[Shape], poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box around the robot: from the places of its bodies, and the sizes of its shapes."""
    points = []
    for shape in shapes:
        place = poses[shape.body, :3] if shape.body >= 0 else np.zeros(3)
        points += [place + shape.vertices.min(axis=0), place + shape.vertices.max(axis=0)]
    if not points:
        return np.full(3, -0.2), np.full(3, 0.2)
    return np.min(points, axis=0), np.max(points, axis=0)
