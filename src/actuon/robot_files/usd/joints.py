# SPDX-License-Identifier: Apache-2.0
"""DOFs of the joints of a stage.

A joint that turns or slides along one axis is a DOF, and its path that of the joint. A ``PhysicsJoint`` has one for
each axis that its limits leave free, linear ones first: ``waist:0``, ``waist:1``, as Newton and Isaac Sim call them.
Its path is USD's own for a drive of that axis: ``/Robot/waist.drive:rotX``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pxr import Sdf, Usd

JOINT_TYPES = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint")
"""Joints of one DOF."""
MANY_AXES = "PhysicsJoint"
AXES = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
_DRIVE = "drive:"


@dataclass(frozen=True)
class JointDof:
    """A DOF that an actuator can drive."""

    label: str
    """Path of the joint, with the number of the axis where it has several."""
    path: str
    """What an actuator's target is."""
    drive: str
    """Which ``PhysicsDriveAPI`` is the engine's own drive of it: ``angular``, ``linear``, or an axis."""

    @property
    def is_linear(self) -> bool:
        """Whether it slides, so that its units are N and m."""
        return self.drive.startswith(("linear", "trans"))


def dofs_of(prim: Usd.Prim) -> list[JointDof]:
    """The DOFs of a joint; none where it is not one, or has none that can be driven."""
    path, kind = str(prim.GetPath()), prim.GetTypeName()
    if kind in JOINT_TYPES:
        return [JointDof(path, path, "angular" if kind == JOINT_TYPES[0] else "linear")]
    if kind != MANY_AXES:
        return []
    free = [axis for axis in AXES if _is_free(prim, axis)]
    return [JointDof(f"{path}:{i}", f"{path}.{_DRIVE}{axis}", axis) for i, axis in enumerate(free)]


def joint_of(target: Sdf.Path | str) -> Sdf.Path:
    """Path of the joint that a target is a DOF of; empty where it cannot be one."""
    target = Sdf.Path(target)
    if target.IsPrimPath():
        return target
    if target.IsPrimPropertyPath() and target.name.removeprefix(_DRIVE) in AXES:
        return target.GetPrimPath()
    return Sdf.Path()


def _is_free(prim: Usd.Prim, axis: str) -> bool:
    """Whether an axis has limits that leave it room. Newton holds an axis without limits fixed."""
    if f"PhysicsLimitAPI:{axis}" not in prim.GetPrimTypeInfo().GetAppliedAPISchemas():
        return False
    ends = []
    for end, default in (("low", -math.inf), ("high", math.inf)):
        value = prim.GetAttribute(f"limit:{axis}:physics:{end}").Get()
        ends.append(value if isinstance(value, (int, float)) else default)
    return ends[0] < ends[1]
