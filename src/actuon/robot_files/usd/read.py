# SPDX-License-Identifier: Apache-2.0
"""Read actuators from USD."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Mapping
from typing import Any

from pxr import Sdf, Tf, Usd

from ...actuator.config import ActuatorConfig
from ...components.component import Component
from ...declare.config import Config
from ...declare.registry import ComponentKind, Registered, by_schema, class_of
from ...errors import ActuonError, RobotFileError, located, shown
from ..parsed import ActuatorParsed
from ..paths import unique_name
from ..yaml import ActuatorEntry, check_trusted
from .attributes import (
    ACTUATOR,
    IN_ORDER,
    RELATIONSHIP,
    TARGETS,
    check_kind,
    read_control_every,
    read_effort_mode,
    read_parameters,
)
from .stage import (
    StageLike,
    default_root,
    dofs_of,
    everything_below,
    joint_of,
    joint_paths,
    open_stage,
    what_usd_says,
    why_not_driven,
)


def parse_actuator_prim(prim: Usd.Prim, allow_unsafe_torch_checkpoints: bool = False) -> ActuatorParsed | None:
    """Read one ``NewtonActuator`` prim.

    Args:
        prim: Any prim.
        allow_unsafe_torch_checkpoints: Let the file name a ``.pt`` or ``.pt2`` network. Loading one can run code that
            is in it, so allow it only for files that you trust.

    Returns:
        The actuator, or None if the prim is not a ``NewtonActuator``.

    Raises:
        RobotFileError: It holds a value that is not allowed. The message starts with the prim's path.

    Examples:
        >>> robot = actuon.usd.open_stage(actuon.assets.arm_usd)
        >>> parsed = actuon.parse_actuator_prim(robot.GetPrimAtPath("/Arm/Actuators/joint5"))
        >>> parsed.target_path, parsed.config.controller.kp
        ('/Arm/joints/joint5', 150.0)
    """
    if not isinstance(prim, Usd.Prim) or not prim:
        raise RobotFileError(f"got {prim!r}; must be a prim of an open stage")
    if prim.GetTypeName() != ACTUATOR:
        return None
    with located(prim.GetPath(), RobotFileError):
        try:
            return _parse(prim, allow_unsafe_torch_checkpoints)
        except Tf.ErrorException as error:
            raise RobotFileError(what_usd_says(error)) from error
        except ActuonError:
            raise
        except (ValueError, OSError) as error:
            raise RobotFileError(str(error)) from error


def _parse(prim: Usd.Prim, allow_torch: bool) -> ActuatorParsed:
    targets = _targets(prim)
    found: list[tuple[ComponentKind, Config, type[Component], Mapping[str, str]]] = []
    for schema_name in applied_schemas(prim):
        schema = by_schema(schema_name)
        if schema is None:
            continue
        values, sources = read_parameters(prim, schema)
        check_trusted(values, allow_torch)
        _check_networks(schema, values)
        config = schema.make_config(values)
        found.append((schema.kind, config, class_of(config), sources))
    in_order = IN_ORDER in applied_schemas(prim)
    if not in_order:
        usual = list(ComponentKind)
        found.sort(key=lambda stage: usual.index(stage[0]))
    _check_kinds(prim, [kind for kind, *_ in found], in_order)
    return ActuatorParsed(
        ActuatorConfig(
            stages=[config for _, config, _, _ in found],
            control_every=read_control_every(prim),
            effort_mode=read_effort_mode(prim),
        ),
        target_path=targets[0],
        target_paths=targets,
        prim_path=str(prim.GetPath()),
        classes=tuple(cls for _, _, cls, _ in found),
        sources=tuple(sources for *_, sources in found),
    )


def _check_kinds(prim: Usd.Prim, kinds: list[ComponentKind], in_order: bool) -> None:
    controllers = kinds.count(ComponentKind.CONTROLLER)
    if controllers != 1:
        applied = ", ".join(shown(name)[1:-1] for name in applied_schemas(prim)) or "none"
        has = "no controller" if not controllers else f"{controllers} controllers"
        raise RobotFileError(f"has {has}; must have one, such as NewtonPDControlAPI. Applied schemas: {applied}")
    for kind in (ComponentKind.DELAY, ComponentKind.TRANSMISSION):
        if kinds.count(kind) > 1 and not in_order:
            raise RobotFileError(f"has two {kind.value}s; must have one or none")


def applied_schemas(prim: Usd.Prim) -> list[str]:
    """Return the API schemas applied to a prim, in order, including those that USD does not know."""
    return list(prim.GetPrimTypeInfo().GetAppliedAPISchemas())


def _targets(prim: Usd.Prim) -> tuple[str, ...]:
    check_kind(prim, TARGETS, RELATIONSHIP)
    relationship = prim.GetRelationship(TARGETS)
    targets = relationship.GetTargets() if relationship else []
    if not targets:
        raise RobotFileError(f"has no target; {TARGETS} must name a joint (deactivate the prim to switch it off)")
    for target in targets:
        path = joint_of(target)
        joint = prim.GetStage().GetPrimAtPath(path) if not path.isEmpty else None
        if not joint:
            raise RobotFileError(f"its target '{target}' does not exist")
        if str(target) not in [dof.path for dof in dofs_of(joint)]:
            raise RobotFileError(f"its target '{target}' {why_not_driven(joint)}")
        if not joint.IsActive():
            raise RobotFileError(f"its target '{target}' is deactivated; deactivate this prim as well")
    return tuple(str(target) for target in targets)


def _check_networks(schema: Registered, values: dict[str, Any]) -> None:
    for name, declared in (schema.config.declared() if schema.config is not None else {}).items():
        if not declared.path:
            continue
        path = values.get(name)
        if not path:
            raise RobotFileError(f"{schema.schema_name} does not name a network file")
        if path.endswith("]"):
            raise RobotFileError(f"the network '{path}' is inside a package; unpack it, and refer to the file")


def parse_actuators(stage_or_root: StageLike, allow_unsafe_torch_checkpoints: bool = False) -> list[ActuatorParsed]:
    """Read all actuators of a stage or below a prim, one for each joint that is driven.

    Args:
        stage_or_root: A ``Usd.Stage``, a prim, or the path of a USD file.
        allow_unsafe_torch_checkpoints: As for `parse_actuator_prim`.

    Returns:
        One entry per joint, in the order of the prims and their targets.

    Examples:
        >>> len(actuon.parse_actuators(actuon.assets.arm_usd))
        7
    """
    found = []
    _stage, root = stage_and_root(stage_or_root)
    for prim in everything_below(root):
        parsed = parse_actuator_prim(prim, allow_unsafe_torch_checkpoints)
        if parsed is not None:
            found += [
                dataclasses.replace(parsed, target_path=path, config=parsed.config.copy())
                for path in parsed.target_paths
            ]
    return found


def stage_and_root(stage_or_root: StageLike) -> tuple[Usd.Stage, Usd.Prim]:
    """Return the stage, which must be kept, and the prim to start from."""
    if isinstance(stage_or_root, (str, os.PathLike)):
        stage_or_root = open_stage(stage_or_root)
    if isinstance(stage_or_root, Usd.Stage):
        return stage_or_root, stage_or_root.GetPseudoRoot()
    if isinstance(stage_or_root, Usd.Prim) and stage_or_root:
        return stage_or_root.GetStage(), stage_or_root
    raise RobotFileError(f"got {stage_or_root!r}; must be a Usd.Stage, a prim of one, or the path of a USD file")


def export_actuators(stage_or_root: StageLike, allow_unsafe_torch_checkpoints: bool = False) -> list[ActuatorEntry]:
    """Read all actuators of a robot as entries for `save_actuators`.

    Prims that are named after their joint and have the same actuator become one entry.

    Args:
        stage_or_root: A ``Usd.Stage``, a prim, or the path of a USD file. Of a stage, its robot is taken.
        allow_unsafe_torch_checkpoints: As for `parse_actuator_prim`.

    Examples:
        >>> entries = actuon.export_actuators(actuon.assets.arm_usd)
        >>> [entry.joints for entry in entries]
        [('joint1', 'joint2', 'joint3', 'joint4'), ('joint5', 'joint6', 'joint7')]
        >>> actuon.save_actuators("arm.actuon.yaml", entries)
    """
    stage, root = stage_and_root(stage_or_root)
    root = default_root(stage) if root.IsPseudoRoot() else root
    names = {path: name for name, path in joint_paths(root).items()}
    entries: dict[str, ActuatorEntry] = {}
    alike: dict[Hashable, list[str]] = {}
    owners: dict[str, str] = {}
    for parsed in parse_actuators(root, allow_unsafe_torch_checkpoints):
        if parsed.target_path != parsed.target_paths[0]:
            continue
        outside = [path for path in parsed.target_paths if path not in names]
        if outside:
            raise RobotFileError(f"{parsed.prim_path}: its target '{outside[0]}' is not below '{root.GetPath()}'")
        for path in parsed.target_paths:
            if path in owners:
                raise RobotFileError(f"'{path}' is driven by {owners[path]} and by {parsed.prim_path}; must be by one")
            owners[path] = parsed.prim_path
        joints = tuple(names[path] for path in parsed.target_paths)
        name = unique_name(Sdf.Path(parsed.prim_path).name, entries)
        entries[name] = ActuatorEntry(name, joints, parsed.config, one_prim=len(joints) > 1)
        if joints == (name,):
            config = parsed.config
            alike.setdefault((*config.stages, config.control_every, config.effort_mode), []).append(name)
    for members in alike.values():
        if len(members) > 1:
            _merge(entries, entries[members[0]].actuator, members)
    return list(entries.values())


def _merge(entries: dict[str, ActuatorEntry], config: ActuatorConfig, members: list[str]) -> None:
    """Replace entries with the same actuator by one, named after the common end or beginning of their names."""
    ending = os.path.commonprefix([member[::-1] for member in members])[::-1].strip("_")
    others = set(entries) - set(members)
    name = unique_name(ending or os.path.commonprefix(members).strip("_") or "joints", others)
    merged = [
        (name, ActuatorEntry(name, tuple(members), config)) if key == members[0] else (key, entry)
        for key, entry in entries.items()
        if key == members[0] or key not in members
    ]
    entries.clear()
    entries.update(merged)
