# SPDX-License-Identifier: Apache-2.0
"""Writing actuators into USD."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pxr import Sdf, Tf, Usd

from ...actuator.config import EFFORT_MODE, EXPLICIT, ActuatorConfig
from ...declare.config import Config
from ...declare.registry import Registered
from ...errors import Fix, RobotFileError, StructureError, located, shown
from ...files import check_name, is_unicode, replacing
from ..formats import USD_WRITTEN
from ..parsed import file_stages
from ..paths import unique_name
from ..yaml import ActuatorEntry, load_actuators, match_actuators, relative_below
from .attributes import (
    ACTUATOR,
    CONTROL_EVERY,
    EFFORT_MODE_ATTRIBUTE,
    IN_ORDER,
    TARGETS,
    attribute_names,
    usd_value,
    value_type,
)
from .read import applied_schemas, parse_actuator_prim
from .stage import (
    PrimLike,
    default_root,
    find_joint,
    find_prim,
    joint_paths,
    open_stage,
    stage_or_current,
    what_usd_says,
)

SCOPE = "Actuators"
"""Name of the prim that holds the actuators of a robot."""
_STAGE_KEYS = (
    "defaultPrim", "upAxis", "metersPerUnit", "kilogramsPerUnit", "timeCodesPerSecond", "framesPerSecond",
    "startTimeCode", "endTimeCode",
)  # fmt: skip
"""Metadata that a stage reads from its root layer only."""


def add_actuator(
    articulation_root: PrimLike,
    target_names: str | Sequence[str],
    name: str,
    controller: Config | None = None,
    *,
    clamping: Config | Sequence[Config] | None = None,
    delay: Config | None = None,
    transmission: Config | None = None,
    effects: Config | Sequence[Config] | None = None,
    sensors: Config | Sequence[Config] | None = None,
    stages: Sequence[Config] | None = None,
    control_every: int = 1,
    effort_mode: str = EXPLICIT,
    overwrite_existing: bool = False,
    stage: Usd.Stage | None = None,
) -> Usd.Prim:
    """Write an actuator onto a robot, as a ``NewtonActuator`` prim at ``{articulation_root}/Actuators/{name}``.

    Args:
        articulation_root: Path of the robot's root prim.
        target_names: The joint, or joints, that it drives: the end of their path, which must be unique below the root.
        name: Name of the prim.
        controller: E.g. ``PDControlConfig(kp=40.0, kd=1.0)``.
        clamping: Clamps, each class at most once. So are effects and sensors.
        delay: E.g. ``DelayConfig(delay_steps=2)``.
        transmission: Gear, linkage or spring between motor and joint.
        effects: Friction, current loop and other effects between motor and joint.
        sensors: Sensors between joint and controller, in order.
        stages: All stages in another order than the usual one, instead of the arguments by kind.
        control_every: The controller runs at every k-th step. Other readers of the schema run it at each.
        effort_mode: How the effort reaches an engine: ``"explicit"``, ``"implicit"`` or ``"auto"``. For other readers
            of the schema it is explicit.
        overwrite_existing: Replace an existing prim completely.
        stage: A ``Usd.Stage``. Default: the current one, see `use_stage`. Its edit target is written to.

    Returns:
        The prim.

    Raises:
        RobotFileError: The root, a joint or the name cannot be used, or the prim exists.
        StructureError: A part is of the wrong kind, or occurs twice.

    Examples:
        >>> robot = actuon.usd.open_stage(actuon.assets.arm_usd)
        >>> pd = actuon.PDControlConfig(kp=40.0, kd=1.0)
        >>> prim = actuon.add_actuator(
        ...     "/Arm", "joint1", "joint1", pd, overwrite_existing=True, stage=robot
        ... )
        >>> str(prim.GetPath())
        '/Arm/Actuators/joint1'
    """
    stage = stage_or_current(stage, articulation_root)
    root = find_prim(stage, articulation_root)
    path = _path_for(root, name)
    with located(path):
        actuator = ActuatorConfig(
            controller,
            clamping,
            delay,
            transmission=transmission,
            effects=effects,
            sensors=sensors,
            stages=stages,
            control_every=control_every,
            effort_mode=effort_mode,
        )
        names = [target_names] if isinstance(target_names, str) else target_names
        joints = [find_joint(root, target) for target in names] if isinstance(names, Sequence) else []
        if not joints or len(set(joints)) < len(joints):
            raise RobotFileError(f"target_names: got {target_names!r}; must be one joint or several different ones")
    return _add(stage, path, joints, actuator, overwrite_existing)


def _add(
    stage: Usd.Stage, path: Sdf.Path, joints: Sequence[str], actuator: ActuatorConfig, overwrite: bool
) -> Usd.Prim:
    with located(path):
        parts = file_stages(actuator)
        old = stage.GetPrimAtPath(path)
        if old and not overwrite:
            kind = old.GetTypeName() or "prim"
            fix = Fix("overwrite_existing=True replaces it", "--overwrite, or --force of fit, replaces it")
            raise RobotFileError(f"there is a {kind} already; ", fix=fix)
        if str(path) in joints:
            raise RobotFileError("it would replace the joint that it drives; give it another name")
        _write(stage, path, parts, joints, actuator)
    return stage.GetPrimAtPath(path)


def _path_for(root: Usd.Prim, name: str) -> Sdf.Path:
    if not isinstance(name, str) or not is_unicode(name) or not Sdf.Path.IsValidIdentifier(name):
        raise RobotFileError(
            f"name: got {shown(name)}; must be a USD identifier: letters, digits and _, no digit first"
        )
    scope = root.GetPath().AppendChild(SCOPE)
    for prim in (root, root.GetStage().GetPrimAtPath(scope)):
        if prim and (prim.IsInstance() or prim.IsInstanceProxy() or prim.IsInPrototype()):
            raise RobotFileError(
                f"'{prim.GetPath()}' is an instance, below which nothing can be written; write into the asset that it "
                "refers to, or set its instanceable to false"
            )
    return scope.AppendChild(name)


def _write(
    stage: Usd.Stage,
    path: Sdf.Path,
    parts: Sequence[tuple[Config, Registered]],
    joints: Sequence[str],
    actuator: ActuatorConfig,
) -> None:
    """Build the prim in a scratch layer, then copy it to the edited layer whole, or leave that as it was."""
    edit = stage.GetEditTarget()
    layer, at = _edited(stage, path)
    scratch = Sdf.Layer.CreateAnonymous()
    spec = Sdf.PrimSpec(scratch, path.name, Sdf.SpecifierDef, ACTUATOR)
    schemas = [IN_ORDER] if actuator.by_kind() is None else []
    owners = {CONTROL_EVERY: "control_every", EFFORT_MODE_ATTRIBUTE: "effort_mode"}
    if actuator.control_every != 1:
        Sdf.AttributeSpec(spec, CONTROL_EVERY, Sdf.ValueTypeNames.Int).default = actuator.control_every
    if actuator.effort_mode != EXPLICIT:
        Sdf.AttributeSpec(spec, EFFORT_MODE_ATTRIBUTE, value_type(EFFORT_MODE)).default = actuator.effort_mode
    for part, schema in parts:
        schemas.append(schema.schema_name)
        for name, attribute in attribute_names(schema).items():
            if attribute in owners:
                raise StructureError(
                    f"{owners[attribute]} and {type(part).__name__} both have the attribute '{attribute}'; "
                    "let the config of one name its own 'schema', which gives it a namespace"
                )
            owners[attribute] = type(part).__name__
            declared = part.declared()[name]
            value = getattr(part, name)
            if value is None:
                continue
            value = usd_value(declared, _stored_path(layer, value) if declared.path else value)
            Sdf.AttributeSpec(spec, attribute, value_type(declared)).default = value
    targets = [edit.MapToSpecPath(Sdf.Path(joint)).StripAllVariantSelections() for joint in joints]
    Sdf.RelationshipSpec(spec, TARGETS, False).targetPathList.explicitItems = targets
    old = stage.GetPrimAtPath(path)
    below = [s for s in old.GetPrimStack() if (s.layer, s.path) != (layer, at)] if old else []
    _hide(below, spec)
    kind = Sdf.TokenListOp.CreateExplicit if below else Sdf.TokenListOp.Create
    spec.SetInfo("apiSchemas", kind(schemas))
    with _undone_on_failure(layer, at):
        parent = Sdf.CreatePrimInLayer(layer, at.GetParentPath())
        scope = stage.GetPrimAtPath(path.GetParentPath())
        if not scope or not scope.IsDefined():
            parent.specifier, parent.typeName = Sdf.SpecifierDef, "Scope"
        if not _replace(layer, at, scratch, spec.path):
            raise RobotFileError(f"USD cannot write the prim to the layer '{layer.GetDisplayName()}'")
        _check_written(stage.GetPrimAtPath(path), spec, schemas, joints)


def _replace(layer: Sdf.Layer, at: Sdf.Path, source: Sdf.Layer, path: Sdf.Path) -> bool:
    """Copy a prim over another. Its old properties are removed first: Sdf keeps the type of those that stay."""
    specs = [spec for spec in (layer.GetPrimAtPath(at),) if spec]
    while specs:
        spec = specs.pop()
        specs += spec.nameChildren
        for name in list(spec.properties.keys()):
            spec.RemoveProperty(spec.properties[name])
    return Sdf.CopySpec(source, path, layer, at)


def _edited(stage: Usd.Stage, path: Sdf.Path) -> tuple[Sdf.Layer, Sdf.Path]:
    """Return the edited layer, and ``path`` in it."""
    edit = stage.GetEditTarget()
    layer, at = edit.GetLayer(), edit.MapToSpecPath(path)
    if not layer.permissionToEdit or at.isEmpty:
        raise RobotFileError(f"the layer '{layer.GetDisplayName()}' cannot be edited there")
    return layer, at


def _hide(specs: Iterable[Sdf.PrimSpec], spec: Sdf.PrimSpec) -> None:
    """Block opinions of other layers that the new prim does not replace."""
    for other in specs:
        spec.active = True
        if other.documentation:
            spec.documentation = ""
        for child in other.nameChildren:
            Sdf.PrimSpec(spec, child.name, Sdf.SpecifierOver).active = False
        for attribute in other.attributes:
            if attribute.name in spec.relationships:
                continue
            if attribute.name not in spec.attributes:
                Sdf.AttributeSpec(spec, attribute.name, attribute.typeName).default = Sdf.ValueBlock()
            if attribute.HasInfo("connectionPaths"):
                spec.attributes[attribute.name].connectionPathList.ClearEditsAndMakeExplicit()
        for relationship in other.relationships:
            if relationship.name not in spec.properties:
                Sdf.RelationshipSpec(spec, relationship.name, False).targetPathList.ClearEditsAndMakeExplicit()


def _check_written(prim: Usd.Prim, spec: Sdf.PrimSpec, schemas: list[str], joints: Sequence[str]) -> None:
    """Read the prim back: a stronger layer may override it."""
    holds = prim and prim.IsActive() and prim.GetTypeName() == ACTUATOR and applied_schemas(prim) == schemas
    holds = holds and [str(target) for target in prim.GetRelationship(TARGETS).GetTargets()] == list(joints)
    for attribute in spec.attributes if holds else ():
        if attribute.default == Sdf.ValueBlock():
            holds &= not prim.GetAttribute(attribute.name).HasAuthoredValue()
        else:
            held = prim.GetAttribute(attribute.name).Get()
            holds &= getattr(held, "path", held) == getattr(attribute.default, "path", attribute.default)
    if not holds:
        raise RobotFileError(
            "a stronger layer, or a deactivated prim above, overrides what would be written here; set the edit target"
        )


@contextlib.contextmanager
def _undone_on_failure(layer: Sdf.Layer, at: Sdf.Path) -> Iterator[None]:
    """Restore the prim at ``at`` if the block fails, and remove the prims above it that were created."""
    missing = [prefix for prefix in at.GetPrefixes() if not layer.GetObjectAtPath(prefix)]
    backup = Sdf.Layer.CreateAnonymous()
    kept = Sdf.Path("/kept")
    if not missing:
        Sdf.CopySpec(layer, at, backup, kept)
    try:
        yield
    except BaseException as error:
        if not missing:
            _replace(layer, at, backup, kept)
        elif made := layer.GetPrimAtPath(missing[0]):
            del (made.nameParent or layer.pseudoRoot).nameChildren[made.name]
        if isinstance(error, Tf.ErrorException):
            raise RobotFileError(
                f"USD cannot write the prim to the layer '{layer.GetDisplayName()}': {what_usd_says(error)}"
            ) from error
        raise


def _stored_path(layer: Sdf.Layer, path: str) -> str:
    """Return the path of a file for a layer: relative if it lies in or below the layer's folder."""
    if layer.anonymous or not layer.realPath:
        return os.path.abspath(path) if os.path.exists(path) else path
    folder = Path(os.path.abspath(layer.realPath)).parent
    if not os.path.isabs(path):
        if (folder / path).exists() or not os.path.exists(path):
            return path if path.startswith(".") else f"./{path}"
        path = os.path.abspath(path)
    stored = relative_below(path, folder)
    return stored if os.path.isabs(stored) else f"./{stored}"


def author_actuators(
    articulation_root: PrimLike,
    entries: Iterable[ActuatorEntry],
    *,
    overwrite_existing: bool = False,
    stage: Usd.Stage | None = None,
) -> list[Usd.Prim]:
    """Write the entries of an ``actuon.yaml`` onto a robot: all of them, or nothing.

    A joint's prim is named after the entry if that has one joint, otherwise after the joint: ``knee``, or ``left_knee``
    if only the path ``left/knee`` is unique. A number is appended if the name is taken.

    Args:
        articulation_root: Path of the robot's root prim.
        entries: As `load_actuators` returns them.
        overwrite_existing: Replace existing prims.
        stage: As for `add_actuator`.

    Returns:
        The prims.

    Examples:
        >>> robot = actuon.usd.open_stage(actuon.assets.arm_usd)
        >>> entries = actuon.load_actuators(actuon.assets.arm_yaml)
        >>> prims = actuon.author_actuators("/Arm", entries, overwrite_existing=True, stage=robot)
        >>> len(prims)
        7
    """
    stage = stage_or_current(stage, articulation_root)
    root = find_prim(stage, articulation_root)
    paths = joint_paths(root)
    matched = match_actuators(entries, paths)
    actuators = {joint: actuator for _, own in matched for joint, actuator in own.items()}
    prims = _named([(entry, list(own)) for entry, own in matched])
    scope = root.GetPath().AppendChild(SCOPE)
    with located(scope):
        edited = _edited(stage, scope)
    with _undone_on_failure(*edited):
        return [
            _add(
                stage,
                _path_for(root, name),
                [paths[joint] for joint in joints],
                _common_actuator(entry, [actuators[joint] for joint in joints]),
                overwrite_existing,
            )
            for name, entry, joints in prims
        ]


def _common_actuator(entry: ActuatorEntry, actuators: Sequence[ActuatorConfig]) -> ActuatorConfig:
    """Return the actuator of a prim's joints, which must be the same for all of them."""
    first, *others = actuators
    if any(other != first for other in others):
        raise RobotFileError(f"{entry.name}: its joints differ by their order, so one_prim must be false")
    return first


def _named(
    matched: Iterable[tuple[ActuatorEntry, Sequence[str]]],
) -> list[tuple[str, ActuatorEntry, Sequence[str]]]:
    """Return the prims to write, in order: name, entry, and the joints that it drives."""
    groups: list[tuple[str | None, ActuatorEntry, Sequence[str]]] = []
    for entry, joints in matched:
        if entry.name != joints[0] and (entry.one_prim or len(joints) == 1):
            groups.append((entry.name, entry, joints))
        else:
            each = [joints] if entry.one_prim else [(joint,) for joint in joints]
            groups += [(own[0] if own[0].isidentifier() else None, entry, own) for own in each]
    owners: dict[str, str] = {}
    for name, entry, _ in groups:
        if name is None:
            continue
        if name in owners:
            raise RobotFileError(f"'{entry.name}' and '{owners[name]}' both make a prim called '{name}'")
        owners[name] = entry.name
    prims = []
    for name, entry, joints in groups:
        if name is None:
            name = unique_name(joints[0].replace("/", "_").replace(":", "_"), owners)
            owners[name] = entry.name
        prims.append((name, entry, joints))
    return prims


def author_file(
    robot: str | Path,
    actuators: str | Path | Sequence[ActuatorEntry],
    output: str | Path,
    root: str | None = None,
    overwrite_existing: bool = False,
    allow_unsafe_torch_checkpoints: bool = False,
) -> list[str]:
    """Write a copy of a robot's file with the actuators of an ``actuon.yaml``.

    In the robot's folder, the output is a copy of its file. In another one, it is a layer that references the robot's
    file, which must not be moved.

    Args:
        robot: A USD file. It is unchanged unless it is also ``output``.
        actuators: An ``actuon.yaml``, or the entries from `load_actuators`.
        output: The file to write. It is written whole, or not at all.
        root: Path of the robot's root prim. Default: the file's default prim.
        overwrite_existing: Replace existing actuators of the robot.
        allow_unsafe_torch_checkpoints: As for `parse_actuator_prim`.

    Returns:
        Paths of the actuators.
    """
    robot, output = Path(robot), Path(output)
    check_name(output)
    if output.suffix.lower() not in USD_WRITTEN:
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be one of {', '.join(USD_WRITTEN)}")
    if isinstance(actuators, (str, Path)):
        actuators = load_actuators(actuators, allow_unsafe_torch_checkpoints)
    source = open_stage(robot)
    with replacing(output) as partial:
        try:
            layer = Sdf.Layer.CreateAnonymous(output.suffix)
            _fill(layer, partial, source.GetRootLayer())
            # Saved first, so that the layer has a folder, relative to which networks are stored.
            layer.Export(str(partial))
            layer = Sdf.Layer.FindOrOpen(str(partial))
            stage = Usd.Stage.Open(layer)
            prim = find_prim(stage, root) if root else default_root(stage)
            prims = author_actuators(prim, actuators, overwrite_existing=overwrite_existing, stage=stage)
            for written in prims:
                parse_actuator_prim(written, allow_unsafe_torch_checkpoints)
            paths = [str(prim.GetPath()) for prim in prims]
            layer.Save()
        except Tf.ErrorException as error:
            raise RobotFileError(f"'{output}' cannot be written: {what_usd_says(error)}") from error
    open_already = Sdf.Layer.Find(os.path.realpath(output))
    if open_already:
        open_already.Reload(True)
    return paths


def _fill(layer: Sdf.Layer, path: Path, source: Sdf.Layer) -> None:
    """Fill the layer that will be stored at ``path`` with a copy of ``source``, or with a sublayer reference to it."""
    original = Path(os.path.realpath(source.realPath))
    if original.parent == path.parent and original.suffix.lower() in USD_WRITTEN:
        layer.TransferContent(source)
        return
    layer.subLayerPaths.append(Path(os.path.relpath(original, path.parent)).as_posix())
    for key in _STAGE_KEYS:
        if source.pseudoRoot.HasInfo(key):
            layer.pseudoRoot.SetInfo(key, source.pseudoRoot.GetInfo(key))
