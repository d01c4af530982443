# SPDX-License-Identifier: Apache-2.0
"""From an MJCF, URDF or binary file to a model, and the robots in it."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import RobotFileError
from ...files import check_readable
from ..robot import Robot
from .names import body_name, joint_name
from .tendons import TendonDrive

FORMATS = (".xml", ".urdf", ".mjb")


def load_model(mujoco: Any, path_or_model: Any, dt: float | None) -> Any:
    """A model of its own, with time step ``dt`` [s] where it is given.

    Raises:
        RobotFileError: The file cannot be read, or its time step is not one.
    """
    where = f"'{path_or_model}'" if isinstance(path_or_model, (str, Path)) else "the model"
    if isinstance(path_or_model, mujoco.MjModel):
        model = copy.copy(path_or_model)
    elif isinstance(path_or_model, mujoco.MjSpec):
        try:
            model = path_or_model.copy().compile()
        except ValueError as error:
            raise RobotFileError(f"the MjSpec cannot be compiled: {' '.join(str(error).split())}") from error
    elif isinstance(path_or_model, (str, Path)):
        model = _read(mujoco, Path(path_or_model))
    else:
        raise RobotFileError(f"got {path_or_model!r}; must be the path of a model, an MjModel or an MjSpec")
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
        elif suffix == ".urdf":
            model = read_spec(mujoco, path).compile()
        else:
            model = mujoco.MjModel.from_xml_path(str(path))
        model.names.decode()
    except UnicodeDecodeError as error:
        raise RobotFileError(f"'{path}' cannot be read: a name in it is not valid UTF-8: {error}") from error
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
    return model


def spec_reader(mujoco: Any, path_or_model: Any) -> Callable[[], Any] | None:
    """What reads the `MjSpec` from which `load_model` makes a model; None where there is none."""
    if isinstance(path_or_model, mujoco.MjSpec):
        spec = path_or_model.copy()
        return lambda: spec
    if isinstance(path_or_model, mujoco.MjModel) or Path(path_or_model).suffix.lower() == ".mjb":
        return None
    return functools.partial(read_spec, mujoco, Path(path_or_model))


def read_spec(mujoco: Any, path: Path) -> Any:
    """The `MjSpec` of an MJCF or URDF file."""
    spec = mujoco.MjSpec.from_file(str(path))
    if path.suffix.lower() == ".urdf":
        spec.compiler.fusestatic = False  # the fixed base would be melted into the world, and its name with it
    return spec


def find_robots(mujoco: Any, model: Any, num_envs: int, tendons: Sequence[TendonDrive] = ()) -> list[Robot]:
    """Robots of all environments: bodies of the world with hinge or slide joints below them, and with their tendons."""
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
        pulled = tuple(tendon.name for tendon in tendons if tendon.root == root)
        kinds.append((root, name, names, slides, pulled, model.jnt_qposadr[joints], model.jnt_dofadr[joints]))
    robots = []
    for env in range(num_envs):
        for root, name, names, slides, pulled, coordinates, dofs in kinds:
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
                    name=name,
                    tendon_names=pulled,
                )
            )
    return robots


def links_of(model: Any, root: int) -> np.ndarray:
    """Bodies of the robot below and with body ``root``, shape (L,)."""
    return np.flatnonzero(model.body_rootid == root)
