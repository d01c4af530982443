# SPDX-License-Identifier: Apache-2.0
"""From an MJCF, URDF or binary file to a model, and the robots in it."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import RobotFileError
from ...files import check_readable
from ..robot import Robot
from .names import body_name, joint_name

FORMATS = (".xml", ".urdf", ".mjb")


def load_model(mujoco: Any, path_or_model: Any, dt: float | None) -> Any:
    """A model of its own, with time step ``dt`` [s] where it is given.

    Raises:
        RobotFileError: The file cannot be read, or its time step is not one.
    """
    if isinstance(path_or_model, mujoco.MjModel):
        model, where = copy.copy(path_or_model), "the model"
    elif isinstance(path_or_model, (str, Path)):
        model, where = _read(mujoco, Path(path_or_model)), f"'{path_or_model}'"
    else:
        raise RobotFileError(f"got {path_or_model!r}; must be the path of a model, or an MjModel")
    if dt is not None:
        model.opt.timestep = dt
    elif not 0.0 < model.opt.timestep < math.inf:
        raise RobotFileError(f"{where}: option timestep: got {model.opt.timestep}; must be finite and > 0 [s]")
    # A state that is not finite must be seen, not silently replaced by the first one.
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return model


def _read(mujoco: Any, path: Path) -> Any:
    check_readable(path, FORMATS)
    suffix = path.suffix.lower()
    try:
        if suffix == ".mjb":
            model = mujoco.MjModel.from_binary_path(str(path))
        elif suffix == ".urdf":  # whose fixed base would be melted into the world, and its name with it
            spec = mujoco.MjSpec.from_file(str(path))
            spec.compiler.fusestatic = False
            model = spec.compile()
        else:
            model = mujoco.MjModel.from_xml_path(str(path))
        model.names.decode()
    except UnicodeDecodeError as error:
        raise RobotFileError(f"'{path}' cannot be read: a name in it is not valid UTF-8: {error}") from error
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
    return model


def find_robots(mujoco: Any, model: Any, num_envs: int) -> list[Robot]:
    """Robots of all environments: bodies of the world with hinge or slide joints below them."""
    single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    by_root: dict[int, list[int]] = {}
    for joint in range(model.njnt):
        if model.jnt_type[joint] in single:
            by_root.setdefault(int(model.body_rootid[model.jnt_bodyid[joint]]), []).append(joint)
    free = set(model.jnt_bodyid[model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE)].tolist())
    kinds = []
    for root, joints in by_root.items():
        name = body_name(model, root)
        names = tuple(joint_name(model, j) for j in joints)
        slides = tuple(bool(model.jnt_type[j] == single[1]) for j in joints)
        kinds.append((root, name, names, slides, model.jnt_qposadr[joints], model.jnt_dofadr[joints]))
    robots = []
    for env in range(num_envs):
        for root, name, names, slides, coordinates, dofs in kinds:
            path = f"/{name}" if num_envs == 1 else f"/World/envs/env_{env}/{name}"
            own = env * model.nv + dofs
            robots.append(
                Robot(
                    path,
                    env,
                    source_path=f"/{name}",
                    dof_names=names,
                    dof_paths=tuple(f"{path}/{n}" for n in names),
                    coordinates=env * model.nq + coordinates,
                    dofs=own,
                    targets=own,
                    root_body=root,
                    slides=slides,
                    is_fixed_base=root not in free,
                )
            )
    return robots


def links_of(model: Any, root: int) -> np.ndarray:
    """Bodies of the robot below and with body ``root``, shape (L,)."""
    return np.flatnonzero(model.body_rootid == root)
