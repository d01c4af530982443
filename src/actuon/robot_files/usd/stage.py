# SPDX-License-Identifier: Apache-2.0
"""Stages, and the joints on them."""

from __future__ import annotations

import contextlib
import contextvars
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pxr import Sdf, Tf, Usd, UsdGeom, UsdPhysics, UsdUtils

from ...errors import RobotFileError, listed, shown
from ...files import check_readable, is_unicode, where_not_utf8
from ...typing import PathLike
from ..names import shortest_endings
from .joints import JOINT_TYPES, MANY_AXES, JointDof, dofs_of

FORMATS = (".usda", ".usd", ".usdc", ".usdz")

PrimLike: TypeAlias = "Usd.Prim | Sdf.Path | str"
"""A prim, or its absolute path."""
StageLike: TypeAlias = "Usd.Stage | Usd.Prim | PathLike"
"""A stage, a prim of one, or a USD file."""

_LONGEST_PROBLEM = 1000
_current: contextvars.ContextVar[Usd.Stage | None] = contextvars.ContextVar("actuon_stage", default=None)
_stage_of_simulation: list[Callable[[], Usd.Stage | None]] = []


def provide_stage(provider: Callable[[], Usd.Stage | None]) -> None:
    """Let the current simulation say what its stage is; None where it has none."""
    _stage_of_simulation[:] = [provider]


@contextlib.contextmanager
def use_stage(stage: Usd.Stage) -> Iterator[Usd.Stage]:
    """Make ``stage`` the one that functions use which are given none.

    Args:
        stage: A ``Usd.Stage``.
    """
    check_stage(stage)
    token = _current.set(stage)
    try:
        yield stage
    finally:
        _current.reset(token)


def current_stage() -> Usd.Stage:
    """The stage of the innermost ``with use_stage(stage):`` block, or of the current simulation.

    Raises:
        RobotFileError: There is none.
    """
    stage = _current.get()
    for provider in _stage_of_simulation:
        stage = stage or provider()
    if stage is None:
        raise RobotFileError("there is no current stage; pass stage=..., or call inside  with use_stage(stage):")
    return stage


def check_stage(stage: Usd.Stage) -> Usd.Stage:
    """Refuse what is not an open stage."""
    if not isinstance(stage, Usd.Stage) or not stage:
        raise RobotFileError(f"stage: got {stage!r}; must be an open Usd.Stage")
    return stage


def stage_or_current(stage: Usd.Stage | None, prim: PrimLike | None = None) -> Usd.Stage:
    """``stage``; where it is None, that of ``prim`` if this is one, or the current one."""
    if stage is None and isinstance(prim, Usd.Prim) and prim:
        return prim.GetStage()
    return current_stage() if stage is None else check_stage(stage)


def open_stage(path: PathLike) -> Usd.Stage:
    """Open a USD file.

    Raises:
        RobotFileError: It is missing, cannot be read, or is not a valid USD file.
    """
    path = Path(path)
    check_readable(path, FORMATS)
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
    """What is not UTF-8 in a file of text, and what to do about it."""
    data = path.read_bytes()
    where = where_not_utf8(data) if data.startswith(b"#usda") else ""
    return f"{where}, which is not UTF-8; save it as UTF-8" if where else ""


def what_usd_says(error: Any) -> str:
    """What an error of USD reports first, on one line, without the names of its functions."""
    try:
        first = error.args[0] if isinstance(error, Tf.ErrorException) and error.args else error
        text = str(getattr(first, "commentary", first))
    except UnicodeDecodeError as undecoded:  # it quotes a file that is not UTF-8
        text = undecoded.object.decode(errors="backslashreplace")
    text = re.sub(r"parse error matching .*?(?= at '|$)", "syntax error", " ".join(text.split()))
    return text[:_LONGEST_PROBLEM] or "it is not a valid USD file"


def composition_problems(stage: Usd.Stage) -> list[str]:
    """What USD could not put together: layers that are missing or cannot be read, references that lead nowhere."""
    return [what_usd_says(error) for error in stage.GetCompositionErrors()]


def _because(stage: Usd.Stage) -> str:
    """Why something may be missing on a stage, as the end of a message."""
    problems = composition_problems(stage)
    return f". USD says: {problems[0]}" if problems else ""


def find_prim(stage: Usd.Stage, path: PrimLike) -> Usd.Prim:
    """The prim at ``path``, which may also be a prim itself.

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
    """Units in which a stage is written."""

    length: float
    """``metersPerUnit`` [m]."""
    mass: float
    """``kilogramsPerUnit`` [kg]."""

    @property
    def are_si(self) -> bool:
        """Whether values need no conversion."""
        return math.isclose(self.length, 1.0) and math.isclose(self.mass, 1.0)

    def __str__(self) -> str:
        return f"metersPerUnit {self.length:g}, kilogramsPerUnit {self.mass:g}"


def units_of(stage: Usd.Stage) -> Units:
    """The units of a stage. As in Newton, those that it does not author are metres and kilograms.

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
    """All active, loaded, defined prims from ``root`` on, also those inside instances."""
    return iter(Usd.PrimRange(root, Usd.TraverseInstanceProxies()))


def default_root(stage: Usd.Stage) -> Usd.Prim:
    """The robot of a stage: its default prim, or the only root prim with joints below it.

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
    raise RobotFileError(f"'{name}' has no default prim; name the robot's root: {_names(roots)}")


def _names(prims: list[Usd.Prim]) -> str:
    return ", ".join(str(prim.GetPath()) for prim in prims)


def joint_paths(root: Usd.Prim) -> dict[str, str]:
    """DOFs that can be driven, below ``root``: as little of the end of their label as makes them unique → the path."""
    dofs = [dof for prim in everything_below(root) for dof in dofs_of(prim)]
    return dict(zip(shortest_endings([dof.label for dof in dofs]), (dof.path for dof in dofs), strict=True))


def names_in_robots(root: Usd.Prim) -> dict[str, str]:
    """Paths of DOFs that can be driven, below ``root`` → their names in a simulation: as little of the end of the label
    as makes it unique in its robot, which is all that joints connect. DOFs of several robots can have the same name."""
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
    """Paths of the rigid bodies that a joint connects; what stands still is none."""
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
    """Why no actuator drives a prim, as the end of a sentence that begins with its path."""
    axes = dofs_of(prim)
    if axes:
        return f"is not a DOF; those of this joint: {', '.join(dof.path for dof in axes)}"
    if prim.GetTypeName() == MANY_AXES:
        return "has no DOF: its limits leave no axis free"
    kind = prim.GetTypeName() or "prim without a type"
    return f"is a {kind}; an actuator drives a {' or '.join(JOINT_TYPES)}"


def find_joint(root: Usd.Prim, name: str) -> str:
    """Path of the joint below ``root`` whose path ends in ``name``.

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
