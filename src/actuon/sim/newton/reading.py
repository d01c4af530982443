# SPDX-License-Identifier: Apache-2.0
"""Reading of a USD stage or an MJCF file into a Newton builder, with the names of robots and joints."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import MissingExtraError, RobotFileError
from ...files import check_readable
from ...robot_files.paths import shortest_endings
from ...typing import PathLike
from ..mujoco.actuators import Actuators
from ..mujoco.limits import Limits
from ..mujoco.model import joint_name

if TYPE_CHECKING:
    from pxr import Usd

MJCF = ".xml"
HOME = "home"
"""The keyframe that an MJCF robot starts at."""
_AXES = "XYZ"


@dataclass(frozen=True)
class Dof:
    """One axis of a joint."""

    joint: int
    axis: int
    """Index of the DOF in its joint."""
    name: str
    path: str
    """Path in the file."""


@dataclass(frozen=True)
class RobotInFile:
    """A robot in its file."""

    root: str
    """Its path."""
    label: str
    """Name of its articulation in Newton."""
    base: int
    """Joint of its root body."""
    dofs: Sequence[Dof]
    links: Sequence[int]
    """Bodies, the root first."""
    link_names: tuple[str, ...]


@dataclass(frozen=True)
class RobotFile:
    """Content of a file, for one environment."""

    builder: Any
    """A ``newton.ModelBuilder``."""
    dt: float | None
    """Time step of the file [s]."""
    robots: list[RobotInFile]
    stage: Usd.Stage | None = None
    source: Path | None = None


def read_robot_file(newton: Any, given: Usd.Stage | PathLike) -> RobotFile:
    """Read a stage, a USD file or an MJCF file.

    Raises:
        RobotFileError: It cannot be read, or holds no robot.
        MissingExtraError: Newton needs a package for its meshes that is not installed.
    """
    try:
        if isinstance(given, (str, os.PathLike)) and Path(given).suffix.lower() == MJCF:
            return _read_mjcf(newton, Path(given))
        return _read_usd(newton, given)
    except ImportError as error:
        if isinstance(error, MissingExtraError) or not error.name:
            raise
        raise MissingExtraError(error.name, "newton", "reading the meshes of a robot with Newton") from error


def new_builder(newton: Any) -> Any:
    """Return an empty builder that keeps the attributes of the MuJoCo solver."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    return builder


def _read_usd(newton: Any, given: Usd.Stage | PathLike) -> RobotFile:
    from ...robot_files.usd.attributes import ACTUATOR
    from ...robot_files.usd.stage import check_stage, everything_below, open_stage, units_of

    source = Path(given) if isinstance(given, (str, os.PathLike)) else None
    stage = check_stage(given) if source is None else open_stage(source)
    name = Path(stage.GetRootLayer().identifier).name
    units = units_of(stage)
    if not units.are_si:
        raise RobotFileError(
            f"'{name}' cannot be simulated: it has {units}; both must be 1. Newton does not convert units, and efforts "
            "of actuators are in SI: write its lengths, masses and drives in metres and kilograms"
        )
    builder = new_builder(newton)
    prims = everything_below(stage.GetPseudoRoot())
    ours = [str(prim.GetPath()) for prim in prims if prim.GetTypeName() == ACTUATOR]
    try:
        found = builder.add_usd(stage, ignore_paths=ours)
    except (ValueError, RuntimeError, KeyError) as error:
        raise RobotFileError(f"'{name}' cannot be simulated: {' '.join(str(error).split())}") from error
    robots = []
    for label, members in _articulations(builder):
        dofs = [dof for joint in members for dof in usd_dofs(newton, builder, joint)]
        links = [builder.joint_child[j] for j in members]
        paths = [builder.body_label[link] for link in links]
        if dofs:
            root = _common_root([label, *paths, *(dof.path for dof in dofs)]) or label
            robots.append(RobotInFile(root, label, members[0], dofs, links, shortest_endings(paths)))
    roots = [robot.root for robot in robots]
    robots = [r if roots.count(r.root) == 1 else replace(r, root=r.label) for r in robots]
    return RobotFile(builder, found["physics_dt"], _named(name, robots), stage, source)


def usd_dofs(newton: Any, builder: Any, joint: int) -> list[Dof]:
    """Return the DOFs of a joint; that of ``waist`` around its x axis is ``waist:0``, at the path of its drive."""
    label, count = builder.joint_label[joint], _dof_count(newton, builder, joint)
    if count == 1 and builder.joint_type[joint] != newton.JointType.D6:
        return [Dof(joint, 0, label, label)]
    start = builder.joint_qd_start[joint]
    labels = builder.custom_attributes.get("mujoco:joint_dof_label")
    prims = (labels.values if labels is not None else None) or {}
    dofs = []
    for axis in range(count):
        prim = prims.get(start + axis, "")
        if prim and ":" not in prim:  # a separate joint in the stage, which Newton merged with its neighbours
            dofs.append(Dof(joint, axis, prim, prim))
            continue
        kind = "trans" if axis < builder.joint_dof_dim[joint][0] else "rot"
        letter = _AXES[int(np.abs(builder.joint_axis[start + axis]).argmax())]
        dofs.append(Dof(joint, axis, f"{label}:{axis}", f"{label}.drive:{kind}{letter}"))
    return dofs


def _read_mjcf(newton: Any, path: Path) -> RobotFile:
    check_readable(path, (MJCF,))
    mujoco, _ = newton.solvers.SolverMuJoCo.import_mujoco()
    builder = new_builder(newton)
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        builder.add_mjcf(str(path))
        if not spec.option.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
            builder.gravity = spec.option.gravity  # Newton reads only whether gravity is disabled
    except (ValueError, RuntimeError, KeyError, mujoco.FatalError) as error:
        raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
    bodies = _mjcf_bodies(mujoco, spec)
    if builder.body_count != len(bodies):
        raise RobotFileError(
            f"'{path}' cannot be simulated: Newton reads {builder.body_count} of its {len(bodies)} bodies; use "
            "MujocoSimulation"
        )
    _start_at_home(spec, bodies, builder)
    _limit_efforts(mujoco, spec, bodies, builder)
    robots = []
    for label, members in _articulations(builder):
        links = [builder.joint_child[j] for j in members]
        root = f"/{bodies[links[0]].name}"
        dofs = []
        for joint, link in zip(members, links, strict=True):
            names = [name for name, *_ in bodies[link].dofs]
            if _dof_count(newton, builder, joint) == len(names):
                dofs += [Dof(joint, axis, name, f"{root}/{name}") for axis, name in enumerate(names)]
        if dofs:
            link_names = tuple(bodies[link].name for link in links)
            robots.append(RobotInFile(root, label, members[0], dofs, links, link_names))
    return RobotFile(builder, float(spec.option.timestep), _named(path.name, robots), None, path)


class _Body(NamedTuple):
    """A body of an MJCF file."""

    name: str
    dofs: list[tuple[str, int, float]]
    """Name, index into ``qpos`` and reference [rad or m] of its joints of one DOF, in Newton's order."""
    base: int | None
    """Index into ``qpos`` of its free joint."""


def _mjcf_bodies(mujoco: Any, spec: Any) -> list[_Body]:
    """Return all bodies except the world. Newton puts sliding joints of a body before rotating ones."""
    kinds = mujoco.mjtJoint
    widths = {kinds.mjJNT_FREE: 7, kinds.mjJNT_BALL: 4}
    bodies = []
    number = at = 0
    for i, body in enumerate(list(spec.bodies)[1:]):
        dofs: dict[Any, list[tuple[str, int, float]]] = {kinds.mjJNT_SLIDE: [], kinds.mjJNT_HINGE: []}
        base = None
        for joint in body.joints:
            if joint.type == kinds.mjJNT_FREE:
                base = at
            elif joint.type in dofs:
                in_degrees = spec.compiler.degree and joint.type == kinds.mjJNT_HINGE
                reference = math.radians(joint.ref) if in_degrees else joint.ref
                dofs[joint.type].append((joint.name or f"joint{number}", at, reference))
            at += widths.get(joint.type, 1)
            number += 1
        bodies.append(_Body(body.name or f"body{i + 1}", [*dofs[kinds.mjJNT_SLIDE], *dofs[kinds.mjJNT_HINGE]], base))
    return bodies


def _start_at_home(spec: Any, bodies: list[_Body], builder: Any) -> None:
    """Set joints and their targets to the keyframe ``home``, if it exists."""
    home = next((list(key.qpos) for key in spec.keys if key.name == HOME), None)
    if home is None:
        return
    for joint, child in enumerate(builder.joint_child):
        start = builder.joint_q_start[joint]
        base = bodies[child].base
        if base is not None:
            x, y, z, qw, qx, qy, qz = home[base : base + 7]
            builder.joint_q[start : start + 7] = [x, y, z, qx, qy, qz, qw]
        for i, (_, at, reference) in enumerate(bodies[child].dofs):
            builder.joint_q[start + i] = builder.joint_target_q[start + i] = home[at] - reference


def _limit_efforts(mujoco: Any, spec: Any, bodies: list[_Body], builder: Any) -> None:
    """Set the effort limits of joints from their motors and servos, which Newton ignores.

    If MuJoCo cannot compile the file, joints keep the limits that Newton reads.
    """
    try:
        model = spec.copy().compile()
    except ValueError:
        return
    limits = Limits(Actuators(model))
    places = {joint_name(model, joint): int(model.jnt_dofadr[joint]) for joint in range(model.njnt)}
    for joint, child in enumerate(builder.joint_child):
        names = [name for name, *_ in bodies[child].dofs]
        dofs = np.array([places[name] for name in names if name in places], dtype=np.int64)
        if len(dofs) == len(names):
            for i, limit in enumerate(limits.effort_limits(model, dofs), start=builder.joint_qd_start[joint]):
                builder.joint_effort_limit[i] = min(builder.joint_effort_limit[i], float(limit))


def _articulations(builder: Any) -> list[tuple[str, list[int]]]:
    """Return label and joints of each articulation."""
    members: list[list[int]] = [[] for _ in builder.articulation_label]
    for joint, articulation in enumerate(builder.joint_articulation):
        if articulation >= 0:
            members[articulation].append(joint)
    return [(label, joints) for label, joints in zip(builder.articulation_label, members, strict=True) if joints]


def _dof_count(newton: Any, builder: Any, joint: int) -> int:
    """Return the number of a joint's DOFs that can be driven one by one: 0 for a free base or a ball."""
    kinds = (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC, newton.JointType.D6)
    return sum(builder.joint_dof_dim[joint]) if builder.joint_type[joint] in kinds else 0


def _named(file: str, robots: list[RobotInFile]) -> list[RobotInFile]:
    """Return the robots, with the shortest unique names of their DOFs."""
    if not robots:
        raise RobotFileError(f"'{file}' holds no robot: no articulation with a revolute, prismatic or D6 joint")
    named = []
    for robot in robots:
        names = shortest_endings([dof.name for dof in robot.dofs])
        dofs = [replace(dof, name=name) for dof, name in zip(robot.dofs, names, strict=True)]
        named.append(replace(robot, dofs=dofs))
    return named


def _common_root(paths: list[str]) -> str:
    """Return the deepest path that contains all of ``paths``; empty without one."""
    split = [path.split("/") for path in paths if path.startswith("/")]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)
