# SPDX-License-Identifier: Apache-2.0
"""Report on the joints and actuators of a USD file, as plain data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pxr import Usd

from ...actuator.config import EXPLICIT, ActuatorConfig
from ...declare.config import Config
from ...declare.parameters import rounded, unit_at_joint
from ...declare.registry import ComponentKind, kind_of
from ...errors import ActuonError
from ..parsed import ActuatorParsed
from ..problem import Problem
from .attributes import ACTUATOR, AUTHORED, SCHEMA_DEFAULT
from .read import parse_actuator_prim, stage_and_root
from .stage import JointDof, StageLike, Units, composition_problems, dofs_of, everything_below, units_of

FROM_NETWORK = "network file"
"""Source of a value that is read from a network file."""

ACCELERATION_DRIVE = "acceleration drive"
"""Name of an engine drive with gains per moved inertia."""
_DRIVE = {
    "stiffness": ("N·m/rad", "1/s²", 0.0),
    "damping": ("N·m·s/rad", "1/s", 0.0),
    "maxForce": ("N·m", "N·m", math.inf),
}
"""Units of drives of forces and of accelerations, and the default."""


@dataclass(frozen=True)
class Value:
    """Value of a parameter, and its source."""

    name: str
    value: float | int | str | tuple[float, ...]
    unit: str
    source: str


@dataclass(frozen=True)
class Part:
    """Component of a motor model, or engine drive, with its values."""

    name: str
    kind: str
    values: tuple[Value, ...]


@dataclass
class JointReport:
    """A joint and its actuator."""

    name: str
    path: str
    type: str
    actuators: list[str] = field(default_factory=list)
    """Paths of the prims that drive it: one, none, or by mistake several."""
    chain: tuple[Part, ...] = ()
    """Components of the first actuator."""
    drive: Part | None = None
    """Engine drive, which acts if there is no actuator."""


@dataclass
class Report:
    """Joints of a file with their actuators, and its problems."""

    joints: list[JointReport]
    problems: list[str]
    notes: list[str] = field(default_factory=list)
    """Remarks on the file that do not count as problems."""


def inspect_actuators(stage_or_root: StageLike, allow_unsafe_torch_checkpoints: bool = False) -> Report:
    """Report on every joint of a stage or below a prim.

    Args:
        stage_or_root: A ``Usd.Stage``, a prim, or the path of a USD file.
        allow_unsafe_torch_checkpoints: As for `parse_actuator_prim`. Otherwise a PyTorch file is a problem.

    Examples:
        >>> report = actuon.inspect_actuators(actuon.assets.arm_usd)
        >>> report.problems, report.joints[0].name, report.joints[0].actuators
        ([], 'joint1', ['/Arm/Actuators/joint1'])
    """
    stage, root = stage_and_root(stage_or_root)
    joints: dict[str, JointReport] = {}
    parsed: list[ActuatorParsed] = []
    problems = composition_problems(stage)
    units = units_of(stage)
    for prim in everything_below(root):
        for dof in dofs_of(prim):
            name = dof.label.rsplit("/", 1)[-1]
            joints[dof.path] = JointReport(name, dof.path, prim.GetTypeName(), drive=_drive(prim, dof, units))
        if prim.GetTypeName() == ACTUATOR:
            try:
                found = parse_actuator_prim(prim, allow_unsafe_torch_checkpoints)
                parsed += [found] if found is not None else []
            except (ActuonError, ImportError) as error:
                problems.append(Problem.of(error))
    for actuator in parsed:
        for target in actuator.target_paths:
            if target not in joints:
                problems.append(f"{actuator.prim_path}: its target '{target}' is not below '{root.GetPath()}'")
                continue
            joint = joints[target]
            joint.actuators.append(actuator.prim_path)
            if len(joint.actuators) == 1:
                joint.chain = _chain(actuator, is_linear(joint))
            else:
                problems.append(f"{target}: is driven by {' and '.join(joint.actuators)}; must be driven by one")
    if not joints:
        problems.append(f"'{root.GetPath()}' has no joint that can be driven")
    notes = [] if units.are_si else [f"values of drives are converted to SI: the file has {units}"]
    return Report(list(joints.values()), problems, notes)


def is_linear(joint: JointReport) -> bool:
    """Return True if a joint slides; its units are then N and m."""
    return joint.type == "PhysicsPrismaticJoint" or ".drive:trans" in joint.path


def _chain(actuator: ActuatorParsed, linear: bool) -> tuple[Part, ...]:
    stages = zip(actuator.config.stages, actuator.classes, actuator.sources, strict=True)
    parts = (part_of(config, cls, sources, linear) for config, cls, sources in stages)  # type: ignore[arg-type]
    return with_settings(parts, actuator.config)


def with_settings(parts: Iterable[Part], actuator: ActuatorConfig) -> tuple[Part, ...]:
    """Return the stages, with ``control_every`` and ``effort_mode`` among the controller's values if they are not the
    default."""
    values = []
    if actuator.control_every != 1:
        values.append(Value("control_every", actuator.control_every, "steps", AUTHORED))
    if actuator.effort_mode != EXPLICIT:
        values.append(Value("effort_mode", actuator.effort_mode, "", AUTHORED))
    return tuple(
        dataclasses.replace(part, values=(*part.values, *values))
        if part.kind == ComponentKind.CONTROLLER.value
        else part
        for part in parts
    )


def part_of(config: Config, cls: type, sources: Mapping[str, str], linear: bool = False) -> Part:
    """Return a stage with its values, their sources, and their units at a joint that turns or slides."""
    declared = config.declared()
    read = config.from_files()
    sources = {**sources, **dict.fromkeys(read, FROM_NETWORK)}
    values = tuple(
        Value(
            name, value, unit_at_joint(declared[name].unit if name in declared else "", linear), sources.get(name, "")
        )
        for name, value in (config.arguments() | read).items()
    )
    kind = kind_of(config)
    return Part(cls.__name__, kind.value if kind is not None else "", values)


def _drive(joint: Usd.Prim, dof: JointDof, units: Units) -> Part | None:
    """Return the ``PhysicsDriveAPI`` of a DOF in SI units. In USD, angular gains are per degree."""
    axis, linear = dof.drive, dof.is_linear
    if f"PhysicsDriveAPI:{axis}" not in joint.GetPrimTypeInfo().GetAppliedAPISchemas():
        return None
    kind = joint.GetAttribute(f"drive:{axis}:physics:type")
    is_acceleration = bool(kind) and kind.Get() == "acceleration"
    values = []
    for name, (unit, unit_per_inertia, default) in _DRIVE.items():
        attribute = joint.GetAttribute(f"drive:{axis}:physics:{name}")
        value = attribute.Get() if attribute else None
        value = value if isinstance(value, (int, float)) else default
        if not linear and name != "maxForce":
            value = math.degrees(value)
        if not is_acceleration or name == "maxForce":
            lengths = (1 if name == "maxForce" else 0) if linear else 2
            value *= units.mass * units.length**lengths
        unit = unit_per_inertia if is_acceleration else unit
        source = AUTHORED if attribute and attribute.HasAuthoredValue() else SCHEMA_DEFAULT
        values.append(Value(name, rounded(value), unit_at_joint(unit, linear), source))
    return Part(ACCELERATION_DRIVE if is_acceleration else "engine drive", "drive", tuple(values))
