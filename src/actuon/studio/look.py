# SPDX-License-Identifier: Apache-2.0
"""What a robot looks like: the shapes of its model as triangles, and where its bodies are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import MissingExtraError
from ..sim import MujocoSimulation, NewtonSimulation, Simulation

_SHOWN_GROUPS = 3
"""MuJoCo's viewers show geoms of the groups before this."""


@dataclass(frozen=True)
class Shape:
    """Triangles of one colour on a body."""

    body: int
    """Its row in `poses`; -1 for what stands still."""
    vertices: np.ndarray
    """In the frame of the body [m], shape (V, 3)."""
    faces: np.ndarray
    """Shape (F, 3)."""
    colour: tuple[int, int, int]
    opacity: float
    is_smooth: bool


def shapes_of(simulation: Simulation) -> list[Shape]:
    """All visible shapes of the first environment, but for planes."""
    if isinstance(simulation, MujocoSimulation):
        return list(_mujoco_shapes(simulation.models[0]))
    if isinstance(simulation, NewtonSimulation):
        return list(_newton_shapes(simulation))
    return []


def poses_of(simulation: Simulation) -> np.ndarray:
    """Position [m] and orientation (quaternion w, x, y, z) of the bodies, shape (B, 7)."""
    if isinstance(simulation, MujocoSimulation):
        data = simulation.data[0]
        return np.concatenate([data.xpos, data.xquat], axis=1)
    if isinstance(simulation, NewtonSimulation):
        return simulation.state.body_q.numpy()[:, [0, 1, 2, 6, 3, 4, 5]].astype(np.float64)
    return np.zeros((0, 7))


def _mujoco_shapes(model: Any) -> Iterator[Shape]:
    import mujoco

    kinds = mujoco.mjtGeom
    groups = [i for i in range(model.ngeom) if model.geom_group[i] < _SHOWN_GROUPS]
    for i in groups or range(model.ngeom):
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
            placed = vertices @ _matrix(model.geom_quat[i]).T + model.geom_pos[i]
            is_smooth = kind not in (kinds.mjGEOM_BOX, kinds.mjGEOM_MESH)
            yield Shape(body, placed, np.array(faces), _colour(rgba[:3]), float(rgba[3]), is_smooth)


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
    """Vertices and faces of a shape along z, of half sizes as MuJoCo gives them."""
    try:
        from trimesh import creation
    except ImportError as error:
        raise MissingExtraError("trimesh", "studio", "showing a robot") from error
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
    """The rotation of a quaternion w, x, y, z."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
