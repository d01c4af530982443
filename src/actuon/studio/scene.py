# SPDX-License-Identifier: Apache-2.0
"""Robots in the page: shapes of their models as triangles, and poses of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from ..sim import MujocoSimulation, NewtonSimulation, Simulation
from .robot import StudioRobot

_OPACITY = 0.55
"""Opacity of the robots next to the first."""
_GAP = 0.35
"""Distance between two robots [m]."""
_FOLLOW = 0.15
"""Fraction of the way by which the view follows a walking robot in each frame."""
_ROD = 0.012
"""Radius of a rod, relative to the size of the robot."""


class Scene:
    """Robots of a session in a viser server, side by side; those next to the first in the colours of their curves.

    Args:
        server: A ``viser.ViserServer``.
        robot: The first robot.
    """

    def __init__(self, server: Any, robot: StudioRobot):
        self._server = server
        self._shapes = shapes_of(robot.simulation)
        poses = poses_of(robot.simulation)
        low, high = _bounds(self._shapes, poses)
        size = max(float(np.linalg.norm(high - low)), 0.2)
        middle = 0.5 * (low + high)
        self._beside = np.array([0.0, float(high[1] - low[1]) + _GAP, 0.0])
        self._frames: list[list[Any]] = []
        self._shown: list[np.ndarray] | None = None
        scene = server.scene
        scene.world_axes.visible = False
        self._world = scene.add_frame("/world", show_axes=False)
        self._root = None if robot.is_fixed_base else robot.articulation.robots[0].root_body
        self._start = poses[self._root, :3] if self._root is not None else np.zeros(3)
        self._offset = np.zeros(2)
        self.fallen = 0.0
        """Distance by which the trunk of the first robot is below its start [m]."""
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
        self._add(robot)

    def show(self, robots: list[StudioRobot], poses: list[np.ndarray]) -> None:
        """Update the page with the present robots and their poses."""
        while len(self._frames) > len(robots):
            self._frames.pop()
            self._server.scene.remove_by_name(f"/world/robot{len(self._frames)}")
        for robot in robots[len(self._frames) :]:
            self._add(robot)
        if self._shown is poses:
            return
        self._shown = poses
        if self._root is not None:
            away = self._start - poses[0][self._root, :3]
            self._offset += _FOLLOW * (away[:2] - self._offset)
            self.fallen = float(away[2])
        with self._server.atomic():
            self._world.position = (*self._offset, 0.0)
            for frames, rows in zip(self._frames, poses, strict=True):
                for frame, row in zip(frames, rows, strict=True):
                    frame.position, frame.wxyz = row[:3], row[3:]

    def _add(self, robot: StudioRobot) -> None:
        scene, number = self._server.scene, len(self._frames)
        name, colour = f"/world/robot{number}", tuple(bytes.fromhex(robot.colour.removeprefix("#")))
        scene.add_frame(name, show_axes=False, position=number * self._beside)
        poses = poses_of(robot.simulation)
        frames = [scene.add_frame(f"{name}/{i}", show_axes=False) for i in range(len(poses))]
        for i, shape in enumerate(self._shapes):
            where = f"{name}/{shape.body}/{i}" if shape.body >= 0 else f"{name}/still/{i}"
            scene.add_mesh_simple(
                where,
                shape.vertices.astype(np.float32),
                shape.faces.astype(np.uint32),
                color=colour if number else shape.colour,
                opacity=_OPACITY if number else None if shape.opacity >= 1.0 else shape.opacity,
                flat_shading=not shape.is_smooth,
            )
        self._frames.append(frames)


def _bounds(shapes: list[Shape], poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a box around the robot."""
    points = []
    for shape in shapes:
        pose = poses[shape.body] if shape.body >= 0 else np.eye(7)[3]
        vertices = pose[:3] + shape.vertices @ _matrix(pose[3:]).T
        points += [vertices.min(axis=0), vertices.max(axis=0)]
    if not points:
        return np.full(3, -0.2), np.full(3, 0.2)
    return np.min(points, axis=0), np.max(points, axis=0)


@dataclass(frozen=True)
class Shape:
    """Triangles of one colour on a body."""

    body: int
    """Index of the body in `poses_of`; -1 for shapes that do not move."""
    vertices: np.ndarray
    """Vertices in the frame of the body [m], shape (V, 3)."""
    faces: np.ndarray
    """Shape (F, 3)."""
    colour: tuple[int, int, int]
    opacity: float
    is_smooth: bool


def shapes_of(simulation: Simulation) -> list[Shape]:
    """Return all visible shapes of the first environment except planes."""
    if isinstance(simulation, MujocoSimulation):
        return list(_mujoco_shapes(simulation.models[0]))
    if isinstance(simulation, NewtonSimulation):
        return list(_newton_shapes(simulation))
    return []


def poses_of(simulation: Simulation) -> np.ndarray:
    """Return position [m] and orientation (quaternion w, x, y, z) of the bodies, shape (B, 7)."""
    if isinstance(simulation, MujocoSimulation):
        data = simulation.data[0]
        return np.concatenate([data.xpos, data.xquat], axis=1)
    if isinstance(simulation, NewtonSimulation):
        return simulation.state.body_q.numpy()[:, [0, 1, 2, 6, 3, 4, 5]].astype(np.float64)
    return np.zeros((0, 7))


def _mujoco_shapes(model: Any) -> Iterator[Shape]:
    import mujoco

    from ..sim.mujoco.model import shown_groups

    kinds = mujoco.mjtGeom
    bodies = set()
    for i in np.flatnonzero(shown_groups(model)[model.geom_group]):
        kind, size = int(model.geom_type[i]), model.geom_size[i]
        material = int(model.geom_matid[i])
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[i]
        names = {
            kinds.mjGEOM_SPHERE: ("sphere", size[:1]),
            kinds.mjGEOM_CAPSULE: ("capsule", size[:2]),
            kinds.mjGEOM_ELLIPSOID: ("ellipsoid", size),
            kinds.mjGEOM_CYLINDER: ("cylinder", size[:2]),
            kinds.mjGEOM_BOX: ("box", size),
        }
        if kind == kinds.mjGEOM_MESH:
            mesh = int(model.geom_dataid[i])
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            vertices = model.mesh_vert[first : first + count].astype(np.float64)
            first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
            faces = model.mesh_face[first : first + count]
        elif kind in names:
            vertices, faces = _triangles(*names[kind])
        else:
            continue
        if rgba[3] > 0.0:
            body = int(model.geom_bodyid[i])
            bodies |= {body} - {0}  # without the world
            placed = vertices @ _matrix(model.geom_quat[i]).T + model.geom_pos[i]
            is_smooth = kind not in (kinds.mjGEOM_BOX, kinds.mjGEOM_MESH)
            yield Shape(body, placed, np.array(faces), _colour(rgba[:3]), float(rgba[3]), is_smooth)
    if 2 * len(bodies) < model.nbody - 1:
        yield from _mujoco_rods(model)


def _mujoco_rods(model: Any) -> Iterator[Shape]:
    """Return a rod from each body to its children, for a robot without meshes."""
    import mujoco

    for body, end in enumerate(model.body_pos):
        parent, length, turn = int(model.body_parentid[body]), float(np.linalg.norm(end)), np.zeros(4)
        if parent > 0 and length > 0.0:
            vertices, faces = _triangles("capsule", np.array([_ROD * model.stat.extent, 0.5 * length]))
            mujoco.mju_quatZ2Vec(turn, end)
            yield Shape(parent, vertices @ _matrix(turn).T + 0.5 * end, faces, (138, 148, 163), 1.0, True)


def _newton_shapes(simulation: NewtonSimulation) -> Iterator[Shape]:
    import newton

    model = simulation.model
    kinds, visible = newton.GeoType, int(newton.ShapeFlags.VISIBLE)
    names = {
        kinds.SPHERE: ("sphere", 1),
        kinds.CAPSULE: ("capsule", 2),
        kinds.ELLIPSOID: ("ellipsoid", 3),
        kinds.CYLINDER: ("cylinder", 2),
        kinds.BOX: ("box", 3),
    }
    columns = ("shape_type", "shape_body", "shape_scale", "shape_transform", "shape_flags", "shape_color")
    types, bodies, scales, places, flags, colours = (getattr(model, name).numpy() for name in columns)
    for i, kind in enumerate(types):
        if not flags[i] & visible:
            continue
        if kind in (kinds.MESH, kinds.CONVEX_MESH):
            source = model.shape_source[i]
            vertices = np.asarray(source.vertices, np.float64).reshape(-1, 3) * scales[i]
            faces = np.asarray(source.indices).reshape(-1, 3)
        elif kind in names:
            name, count = names[kind]
            vertices, faces = _triangles(name, scales[i][:count])
        else:
            continue
        x, y, z, w = places[i][3:]
        placed = vertices @ _matrix(np.array([w, x, y, z])).T + places[i][:3]
        is_smooth = kind not in (kinds.BOX, kinds.MESH, kinds.CONVEX_MESH)
        yield Shape(int(bodies[i]), placed, faces, _colour(colours[i]), 1.0, is_smooth)


def _triangles(name: str, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a shape along z, from half sizes as in MuJoCo."""
    creation = require("trimesh.creation", "studio", "showing a robot")
    if name == "box":
        mesh = creation.box(2.0 * np.asarray(size))
    elif name == "cylinder":
        mesh = creation.cylinder(float(size[0]), 2.0 * float(size[1]), sections=32)
    elif name == "capsule":
        mesh = creation.capsule(2.0 * float(size[1]), float(size[0]), count=[16, 16])
        mesh.apply_translation(-mesh.bounds.mean(axis=0))
    else:
        mesh = creation.icosphere(2, 1.0)
        mesh.apply_scale(np.broadcast_to(np.asarray(size, np.float64), 3))
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)


def _colour(rgb: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = (int(round(255.0 * float(np.clip(part, 0.0, 1.0)))) for part in rgb)
    return red, green, blue


def _matrix(quaternion: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a quaternion w, x, y, z."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
