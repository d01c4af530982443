# SPDX-License-Identifier: Apache-2.0
"""Stages, and the joints on them.

A joint that turns or slides along one axis is a DOF, and its path that of the joint. A ``PhysicsJoint`` has one for
each axis that its limits leave free, linear ones first: ``waist:0``, ``waist:1``, as Newton and Isaac Sim call them.
Its path is USD's own for a drive of that axis: ``/Robot/waist.drive:rotX``.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pxr import Sdf, Tf, Usd, UsdGeom, UsdPhysics, UsdUtils

from ...errors import Fix, RobotFileError, listed, shown
from ...files import check_readable, is_unicode, where_not_utf8
from ...typing import PathLike
from ..formats import USD_FORMATS
from ..paths import shortest_endings

JOINT_TYPES = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint")
"""Joints of one DOF."""
MANY_AXES = "PhysicsJoint"
AXES = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
_DRIVE = "drive:"

PrimLike: TypeAlias = "Usd.Prim | Sdf.Path | str"
"""A prim, or its absolute path."""
StageLike: TypeAlias = "Usd.Stage | Usd.Prim | PathLike"
"""A stage, a prim of one, or a USD file."""

_LONGEST_PROBLEM = 1000
_current: contextvars.ContextVar[Usd.Stage | None] = contextvars.ContextVar("actuon_stage", default=None)
_stage_of_simulation: list[Callable[[], Usd.Stage | None]] = []


def provide_stage(provider: Callable[[], Usd.Stage | None]) -> None:
    """Register a function that returns the stage of the current simulation, or None."""
    _stage_of_simulation[:] = [provider]


@contextlib.contextmanager
def use_stage(stage: Usd.Stage) -> Iterator[Usd.Stage]:
    """Make ``stage`` the default of functions that take a stage.

    Args:
        stage: A ``Usd.Stage``.

    Examples:
        >>> robot = actuon.usd.open_stage(actuon.assets.arm_usd)
        >>> with actuon.use_stage(robot):
        ...     actuon.current_stage() is robot
        True
    """
    check_stage(stage)
    token = _current.set(stage)
    try:
        yield stage
    finally:
        _current.reset(token)


def current_stage() -> Usd.Stage:
    """Return the stage of the innermost ``with use_stage(stage):`` block, or of the current simulation.

    Raises:
        RobotFileError: There is none.

    Examples:
        >>> with actuon.use_stage(actuon.usd.open_stage(actuon.assets.arm_usd)):
        ...     str(actuon.current_stage().GetDefaultPrim().GetPath())
        '/Arm'
    """
    stage = _current.get()
    for provider in _stage_of_simulation:
        stage = stage or provider()
    if stage is None:
        raise RobotFileError("there is no current stage; pass stage=..., or call inside  with use_stage(stage):")
    return stage


def check_stage(stage: Usd.Stage) -> Usd.Stage:
    """Return ``stage`` if it is an open stage; raise if not."""
    if not isinstance(stage, Usd.Stage) or not stage:
        raise RobotFileError(f"stage: got {stage!r}; must be an open Usd.Stage")
    return stage


def stage_or_current(stage: Usd.Stage | None, prim: PrimLike | None = None) -> Usd.Stage:
    """Return ``stage``; if it is None, the stage of ``prim``, or the current one."""
    if stage is None and isinstance(prim, Usd.Prim) and prim:
        return prim.GetStage()
    return current_stage() if stage is None else check_stage(stage)


def open_stage(path: PathLike) -> Usd.Stage:
    """Open a USD file.

    Raises:
        RobotFileError: It is missing, cannot be read, or is not a valid USD file.

    Examples:
        >>> robot = actuon.usd.open_stage(actuon.assets.arm_usd)
        >>> str(robot.GetDefaultPrim().GetPath())
        '/Arm'
    """
    path = Path(path)
    check_readable(path, USD_FORMATS)
    delegate = UsdUtils.CoalescingDiagnosticDelegate()  # USD would print what is raised here
    try:
        stage = Usd.Stage.Open(str(path))
    except Tf.ErrorException as error:
        raise RobotFileError(f"'{path}' cannot be read: {_not_utf8(path) or what_usd_says(error)}") from error
    finally:
        delegate.TakeUncoalescedDiagnostics()
        del delegate
    return stage


def _not_utf8(path: Path) -> str:
    """Return where a text file is not UTF-8, and the fix, for a message; empty if it is."""
    data = path.read_bytes()
    where = where_not_utf8(data) if data.startswith(b"#usda") else ""
    return f"{where}, which is not UTF-8; save it as UTF-8" if where else ""


def what_usd_says(error: object) -> str:
    """Return the first report of a USD error on one line, without names of functions."""
    try:
        first = error.args[0] if isinstance(error, Tf.ErrorException) and error.args else error
        text = str(getattr(first, "commentary", first))
    except UnicodeDecodeError as undecoded:  # it quotes a file that is not UTF-8
        text = undecoded.object.decode(errors="backslashreplace")
    text = re.sub(r"parse error matching .*?(?= at '|$)", "syntax error", " ".join(text.split()))
    return text[:_LONGEST_PROBLEM] or "it is not a valid USD file"


def composition_problems(stage: Usd.Stage) -> list[str]:
    """Return USD's composition errors: layers that are missing or cannot be read, references without a target."""
    return [what_usd_says(error) for error in stage.GetCompositionErrors()]


def _because(stage: Usd.Stage) -> str:
    """Return the first composition error as the end of a message; empty without one."""
    problems = composition_problems(stage)
    return f". USD says: {problems[0]}" if problems else ""


def find_prim(stage: Usd.Stage, path: PrimLike) -> Usd.Prim:
    """Return the prim at ``path``, which may also be a prim itself.

    Raises:
        RobotFileError: There is none.
    """
    if isinstance(path, Usd.Prim) and path and path.GetStage() != stage:
        raise RobotFileError(f"'{path.GetPath()}' is a prim of another stage")
    text = str(path.GetPath() if isinstance(path, Usd.Prim) else path)
    sdf = Sdf.Path(text) if is_unicode(text) and Sdf.Path.IsValidPathString(text) else Sdf.Path()
    if not sdf.IsAbsoluteRootOrPrimPath():
        raise RobotFileError(f"got {shown(text)}; must be an absolute prim path such as '/World/Robot'")
    if not sdf.IsAbsolutePath():
        raise RobotFileError(f"got '{text}'; must be an absolute prim path: '/{text}'?")
    prim = stage.GetPrimAtPath(sdf)
    if not prim:
        parent = stage.GetPrimAtPath(sdf.GetParentPath()) or stage.GetPseudoRoot()
        known = [str(child.GetPath()) for child in parent.GetChildren()]
        raise RobotFileError(f"there is no prim '{text}'; {listed(text, known, f'prims below {parent.GetPath()}')}")
    return prim


@dataclass(frozen=True)
class Units:
    """Units of a stage."""

    length: float
    """``metersPerUnit`` [m]."""
    mass: float
    """``kilogramsPerUnit`` [kg]."""

    @property
    def are_si(self) -> bool:
        """True if values need no conversion."""
        return math.isclose(self.length, 1.0) and math.isclose(self.mass, 1.0)

    def __str__(self) -> str:
        return f"metersPerUnit {self.length:g}, kilogramsPerUnit {self.mass:g}"


def units_of(stage: Usd.Stage) -> Units:
    """Return the units of a stage. As in Newton, the default is metres and kilograms.

    Raises:
        RobotFileError: One is not a length or a mass.
    """
    has_length = UsdGeom.StageHasAuthoredMetersPerUnit(stage)
    has_mass = UsdPhysics.StageHasAuthoredKilogramsPerUnit(stage)
    units = Units(
        UsdGeom.GetStageMetersPerUnit(stage) if has_length else 1.0,
        UsdPhysics.GetStageKilogramsPerUnit(stage) if has_mass else 1.0,
    )
    if not (0.0 < units.length < math.inf and 0.0 < units.mass < math.inf):
        name = Path(stage.GetRootLayer().identifier).name
        raise RobotFileError(f"'{name}': got {units}; both must be finite and > 0 [m and kg]")
    return units


def everything_below(root: Usd.Prim) -> Iterator[Usd.Prim]:
    """Iterate over all active, loaded, defined prims from ``root`` on, also those inside instances."""
    return iter(Usd.PrimRange(root, Usd.TraverseInstanceProxies()))


def default_root(stage: Usd.Stage) -> Usd.Prim:
    """Return the robot of a stage: its default prim, or the only root prim with joints below it.

    Raises:
        RobotFileError: There is no joint, or more than one such prim and no default prim.
    """
    default = stage.GetDefaultPrim()
    if default:
        return default
    roots = [prim for prim in stage.GetPseudoRoot().GetChildren() if joint_paths(prim)]
    if len(roots) == 1:
        return roots[0]
    name = Path(stage.GetRootLayer().identifier).name
    if not roots:
        raise RobotFileError(f"'{name}' has no joint that can be driven{_because(stage)}")
    fix = Fix("name the robot's root", "name the robot's root with --root")
    raise RobotFileError(f"'{name}' has no default prim, and several robots: {_names(roots)}; ", fix=fix)


def _names(prims: list[Usd.Prim]) -> str:
    return ", ".join(str(prim.GetPath()) for prim in prims)


@dataclass(frozen=True)
class JointDof:
    """DOF that an actuator can drive."""

    label: str
    """Path of the joint, with the number of the axis if it has several."""
    path: str
    """Path that an actuator targets."""
    drive: str
    """Instance of ``PhysicsDriveAPI`` that is the engine's own drive: ``angular``, ``linear``, or an axis."""

    @property
    def is_linear(self) -> bool:
        """True if it slides; its units are then N and m."""
        return self.drive.startswith(("linear", "trans"))


def dofs_of(prim: Usd.Prim) -> list[JointDof]:
    """Return the DOFs of a joint that can be driven; none for other prims."""
    path, kind = str(prim.GetPath()), prim.GetTypeName()
    if kind in JOINT_TYPES:
        return [JointDof(path, path, "angular" if kind == JOINT_TYPES[0] else "linear")]
    if kind != MANY_AXES:
        return []
    free = [axis for axis in AXES if _is_free(prim, axis)]
    return [JointDof(f"{path}:{i}", f"{path}.{_DRIVE}{axis}", axis) for i, axis in enumerate(free)]


def joint_of(target: Sdf.Path | str) -> Sdf.Path:
    """Return the path of the joint of a target; empty if it cannot be one."""
    target = Sdf.Path(target)
    if target.IsPrimPath():
        return target
    if target.IsPrimPropertyPath() and target.name.removeprefix(_DRIVE) in AXES:
        return target.GetPrimPath()
    return Sdf.Path()


def _is_free(prim: Usd.Prim, axis: str) -> bool:
    """Return True if an axis has limits that leave it room. Newton fixes an axis without limits."""
    if f"PhysicsLimitAPI:{axis}" not in prim.GetPrimTypeInfo().GetAppliedAPISchemas():
        return False
    ends = []
    for end, default in (("low", -math.inf), ("high", math.inf)):
        value = prim.GetAttribute(f"limit:{axis}:physics:{end}").Get()
        ends.append(value if isinstance(value, (int, float)) else default)
    return ends[0] < ends[1]


def joint_paths(root: Usd.Prim) -> dict[str, str]:
    """Return the paths of DOFs below ``root`` that can be driven, by the shortest unique ending of their labels."""
    dofs = [dof for prim in everything_below(root) for dof in dofs_of(prim)]
    return dict(zip(shortest_endings([dof.label for dof in dofs]), (dof.path for dof in dofs), strict=True))


def names_in_robots(root: Usd.Prim) -> dict[str, str]:
    """Return the names in a simulation of DOFs below ``root`` that can be driven, by path.

    A name is the shortest ending of the label that is unique in its robot: all bodies that joints connect. DOFs of
    several robots can have the same name.
    """
    parents: dict[str, str] = {}

    def robot_of(body: str) -> str:
        parents.setdefault(body, body)
        while parents[body] != body:
            parents[body] = body = parents[parents[body]]
        return body

    dofs = []
    for prim in everything_below(root):
        bodies = _bodies_of(prim) if prim.IsA(UsdPhysics.Joint) else []
        for body in bodies[1:]:
            parents[robot_of(body)] = robot_of(bodies[0])
        dofs += [(dof, bodies[0] if bodies else "") for dof in dofs_of(prim)]
    robots: dict[str, list[JointDof]] = {}
    for dof, body in dofs:
        robots.setdefault(robot_of(body), []).append(dof)
    names: dict[str, str] = {}
    for own in robots.values():
        names |= dict(zip((dof.path for dof in own), shortest_endings([dof.label for dof in own]), strict=True))
    return names


def _bodies_of(joint: Usd.Prim) -> list[str]:
    """Return the paths of the rigid bodies that a joint connects, without the static world."""
    bodies = []
    for name in ("physics:body0", "physics:body1"):
        relationship = joint.GetRelationship(name)
        for target in relationship.GetForwardedTargets() if relationship else []:
            prim = joint.GetStage().GetPrimAtPath(target)
            while prim and not prim.IsPseudoRoot() and not prim.HasAPI(UsdPhysics.RigidBodyAPI):
                prim = prim.GetParent()
            bodies += [str(prim.GetPath())] if prim and not prim.IsPseudoRoot() else []
    return bodies


def why_not_driven(prim: Usd.Prim) -> str:
    """Return why no actuator can drive a prim, as the end of a sentence that begins with its path."""
    axes = dofs_of(prim)
    if axes:
        return f"is not a DOF; those of this joint: {', '.join(dof.path for dof in axes)}"
    if prim.GetTypeName() == MANY_AXES:
        return "has no DOF: its limits leave no axis free"
    kind = prim.GetTypeName() or "prim without a type"
    return f"is a {kind}; an actuator drives a {' or '.join(JOINT_TYPES)}"


def find_joint(root: Usd.Prim, name: str) -> str:
    """Return the path of the joint below ``root`` whose path ends in ``name``.

    Raises:
        RobotFileError: None does, several do, or it is of a kind that cannot be driven.
    """
    where = f"'{root.GetPath()}'"
    if not isinstance(name, str) or not name:
        raise RobotFileError(f"target_names: got {name!r}; must be the name of a joint, or a list of them")
    ending = "/" + name.lstrip("/")
    joints = joint_paths(root)
    if name in joints.values():
        return name
    dofs = [dof for prim in everything_below(root) for dof in dofs_of(prim)]
    found = [dof.path for dof in dofs if dof.path.endswith(ending) or dof.label.endswith(ending)]
    if len(found) == 1:
        return found[0]
    if found:
        unique = [n for n, path in joints.items() if path in found]
        raise RobotFileError(
            f"{len(found)} joints below {where} are called '{name}': {', '.join(found)}; "
            f"write more of the path, such as '{unique[0]}'"
        )
    for prim in everything_below(root):
        if str(prim.GetPath()).endswith(ending):
            raise RobotFileError(f"'{prim.GetPath()}' {why_not_driven(prim)}")
    unloaded = [p for p in Usd.PrimRange(root, Usd.PrimIsActive & Usd.PrimIsDefined) if not p.IsLoaded()]
    hint = f". The payload of {unloaded[0].GetPath()} is not loaded" if unloaded else _because(root.GetStage())
    raise RobotFileError(f"there is no joint '{name}' below {where}; {listed(name, joints, 'joints')}{hint}")
