# SPDX-License-Identifier: Apache-2.0
"""``actuon.yaml``: the actuators of a robot, by joint name or regular expression, for people without USD."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ..actuator.config import EXPLICIT, ActuatorConfig, Part
from ..declare.config import Config
from ..declare.registry import ComponentKind, Registered, by_config, by_type
from ..errors import Fix, RobotFileError, listed, located, shown
from ..files import plain_yaml, read_yaml, replacing
from ..motors.catalogue import motor_of
from ..patterns import compile_pattern
from .parsed import file_stages

_VERSION = 1
FIT = "fit"
"""Section of a file on the origin of fitted actuators, which `load_actuators` ignores."""
_HEADER = """\
# Actuators of a robot, for Actuon. 'joints' are names or regular expressions, matched whole. SI units, radians.
"""
TORCH_FORMATS = (".pt", ".pth", ".pt2")
_MOTOR = "motor"
_KEYS = ("joints", *(kind.key for kind in ComponentKind), _MOTOR, "stages", "control_every", "effort_mode", "one_prim")


@dataclass(frozen=True)
class ActuatorEntry:
    """Entry of an ``actuon.yaml``: joints with the same actuator.

    Args:
        name: Name of the entry.
        joints: Names of joints, or regular expressions that match them whole.
        actuator: The actuator that each of them gets.
        one_prim: In USD, drive all joints from one prim. By default each joint has a separate prim, named after it,
            which every reader of the schema understands.

    Examples:
        >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=40.0, kd=1.0))
        >>> entry = actuon.ActuatorEntry("legs", (".*_hip", ".*_knee"), motor)
        >>> entry.actuator_of("left_knee").controller
        PDControlConfig(kp=40.0, kd=1.0, const_effort=0.0)
    """

    name: str
    joints: tuple[str, ...]
    actuator: ActuatorConfig
    one_prim: bool = False

    def __post_init__(self) -> None:
        joints = (self.joints,) if isinstance(self.joints, str) else self.joints
        if not isinstance(joints, Sequence) or not joints or not all(isinstance(j, str) and j for j in joints):
            raise RobotFileError(
                f"{self.name}: joints: got {shown(self.joints)}; must be joint names or regular expressions"
            )
        object.__setattr__(self, "joints", tuple(joints))
        if not isinstance(self.one_prim, bool):
            raise RobotFileError(f"{self.name}: one_prim: got {shown(self.one_prim)}; must be true or false")
        for place in range(len(joints)):
            self._stages_at(place)

    def actuator_of(self, joint: str) -> ActuatorConfig:
        """Return the actuator of one joint. Stages may depend on the place of the joint in ``joints``.

        Args:
            joint: Its name.
        """
        return self._actuator_at(next(i for i, pattern in enumerate(self.joints) if _is_match(pattern, joint)))

    def _actuator_at(self, place: int) -> ActuatorConfig:
        return self.actuator.with_stages(self._stages_at(place))

    def _stages_at(self, place: int) -> list[Part]:
        """Return the stages for the joints that the name or regular expression at ``place`` matches."""
        with located(self.name, RobotFileError):
            return [
                part.at_place(place, len(self.joints)) if isinstance(part, Config) else part
                for part in self.actuator.frozen_stages()
            ]


def match_joints(
    entries: Iterable[ActuatorEntry], names: Iterable[str], *, partial: bool = False
) -> list[tuple[ActuatorEntry, list[str]]]:
    """Find the joints of each entry.

    Args:
        entries: As `load_actuators` returns them.
        names: The robot's joints, in its order.
        partial: The names are some of the robot's joints: an entry may match none of them.

    Raises:
        RobotFileError: A name or regular expression matches nothing or is not valid, or two entries claim a joint.

    Examples:
        >>> entries = actuon.load_actuators(actuon.assets.arm_yaml)
        >>> for entry, joints in actuon.match_joints(entries, ["joint1", "joint5"], partial=True):
        ...     print(entry.name, joints)
        arm ['joint1']
        wrist ['joint5']
    """
    return [(entry, list(own)) for entry, own in match_actuators(entries, names, partial=partial)]


def match_actuators(
    entries: Iterable[ActuatorEntry], names: Iterable[str], *, partial: bool = False
) -> list[tuple[ActuatorEntry, dict[str, ActuatorConfig]]]:
    """Like `match_joints`, with a separate config for each joint."""
    names = list(names)
    entries = list(entries)
    if not entries:
        raise RobotFileError("there are no actuators")
    owner: dict[str, str] = {}
    matched = []
    for entry in entries:
        places: dict[str, int] = {}
        for place, pattern in enumerate(entry.joints):
            for name in _matches(f"{entry.name}: joints", pattern, names, partial):
                places.setdefault(name, place)
        for name in places:
            if name in owner:
                raise RobotFileError(f"joint '{name}' is in '{owner[name]}' and in '{entry.name}'; must be in one")
            owner[name] = entry.name
        matched.append((entry, {name: entry._actuator_at(place) for name, place in places.items()}))
    return matched


def _is_match(pattern: str, joint: str) -> bool:
    try:
        return pattern == joint or compile_pattern(pattern, [joint]).fullmatch(joint) is not None
    except re.error:
        return False


def _matches(where: str, pattern: str, names: list[str], partial: bool) -> list[str]:
    if pattern in names:
        return [pattern]
    try:
        regex = compile_pattern(pattern, names)
    except re.error as error:
        raise RobotFileError(
            f"{where}: '{pattern}' is neither a joint nor a valid regular expression: {error}"
        ) from error
    found = [name for name in names if regex.fullmatch(name)]
    if not found and not partial:
        raise RobotFileError(f"{where}: '{pattern}' matches no joint; {listed(pattern, names, 'joints')}")
    return found


def yaml_beside(robot: Path | None) -> Path | None:
    """Return the YAML next to a robot's file, or None: ``robot.actuon.yaml`` for ``robot.xml``, or ``actuon.yaml``."""
    if robot is None:
        return None
    candidates = (robot.with_name(f"{robot.stem}.actuon.yaml"), robot.with_name("actuon.yaml"))
    return next((path for path in candidates if path.is_file()), None)


def load_actuators(path: str | Path, allow_unsafe_torch_checkpoints: bool = False) -> list[ActuatorEntry]:
    """Read an ``actuon.yaml``. A network's path in it is relative to the file.

    Args:
        path: The file.
        allow_unsafe_torch_checkpoints: Let the file name ``.pt`` and ``.pt2`` networks. Loading one can run code in
            it: allow it only for files that you trust.

    Raises:
        RobotFileError: The file is missing, is not a valid YAML file, is too large, or a value is
            missing or not allowed; the message names it.

    Examples:
        >>> arm, wrist = actuon.load_actuators(actuon.assets.arm_yaml)
        >>> wrist.joints, wrist.actuator.controller.kp
        (('joint[5-7]',), 150.0)
    """
    path = Path(path)
    document = read_yaml(path)
    with located(path, RobotFileError):
        return _entries(document, path, allow_unsafe_torch_checkpoints)


def _entries(document: object, path: Path, allow_torch: bool) -> list[ActuatorEntry]:
    top = _mapping("the file", document, ("version", "actuators", FIT))
    version = top.get("version", _VERSION)
    if type(version) is not int or version != _VERSION:
        raise RobotFileError(f"version: got {shown(version)}; this Actuon reads version {_VERSION}")
    if "actuators" not in top:
        raise RobotFileError("has no 'actuators'")
    groups = _mapping("actuators", top["actuators"])
    return [_entry(f"actuators.{name}", name, group, path, allow_torch) for name, group in groups.items()]


def _entry(where: str, name: str, group: object, path: Path, allow_torch: bool) -> ActuatorEntry:
    written = _mapping(where, group, _KEYS)
    for key in ("joints", "stages" if "stages" in written else "controller"):
        if key not in written:
            raise RobotFileError(f"{where}: needs '{key}'")
    configs = [
        _config(f"{where}.{place}", kind, values, path.parent, allow_torch)
        for place, kind, values in written_stages(where, written)
    ]
    with located(where, RobotFileError):
        given = {key: written[key] for key in ("control_every", "effort_mode") if key in written}
        actuator = ActuatorConfig(stages=configs, **given)
        file_stages(actuator)
        return ActuatorEntry(name, written["joints"], actuator, written.get("one_prim", False))


def written_stages(where: str, group: Mapping[str, object]) -> Iterator[tuple[str, ComponentKind, Any]]:
    """Yield the stages of an entry in the order in which they act: their place in the file, kind, and plain values."""
    if group.get("stages") is not None:
        mixed = [key for key in (*(kind.key for kind in ComponentKind), _MOTOR) if key in group]
        if mixed:
            raise RobotFileError(f"{where}: has 'stages' and '{mixed[0]}'; must have one list, or keys by kind")
        kinds = {kind.value: kind for kind in ComponentKind}
        for i, stage in enumerate(_list(f"{where}.stages", group["stages"])):
            stage = _mapping(f"{where}.stages[{i}]", stage, (*kinds, _MOTOR))
            if len(stage) != 1:
                raise RobotFileError(f"{where}.stages[{i}]: got {len(stage)} keys; must be one kind and its values")
            ((key, values),) = stage.items()
            if key == _MOTOR:
                yield from _motor_stages(where, f"stages[{i}].{_MOTOR}", values)
            else:
                yield f"stages[{i}].{key}", kinds[key], values
        return
    for kind in ComponentKind:
        if kind is ComponentKind.CLAMPING and group.get(_MOTOR) is not None:
            yield from _motor_stages(where, _MOTOR, group[_MOTOR])
        values = group.get(kind.key)
        if values is None and kind is not ComponentKind.CONTROLLER:
            continue
        if not kind.several:
            yield kind.key, kind, values
            continue
        for i, part in enumerate(_list(f"{where}.{kind.key}", values)):
            yield f"{kind.key}[{i}]", kind, part


def _motor_stages(where: str, place: str, motor: object) -> Iterator[tuple[str, ComponentKind, Any]]:
    """Yield the stages of a motor, written by name or by its values, as `written_stages` does."""
    with located(f"{where}.{place}", RobotFileError):
        stages = motor_of(motor).stages()
    for config in stages:
        registered = by_config(config)
        yield f"{place}.{registered.type_name}", registered.kind, _values(config, registered, Path())


def _list(where: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise RobotFileError(f"{where}: got {shown(value)}; must be a list")
    return value


def _config(where: str, kind: ComponentKind, values: object, folder: Path, allow_torch: bool) -> Config:
    given = _mapping(where, values)
    type_name = given.pop("type", "delay" if kind is ComponentKind.DELAY else None)
    if type_name is None:
        raise RobotFileError(f"{where}: needs a 'type'")
    config = by_type(where, kind, type_name).config
    assert config is not None
    with located(where, RobotFileError):
        values = config.complete(given, fallbacks=False)
        for name, declared in config.declared().items():
            if declared.path and isinstance(values[name], str) and values[name]:
                path = folder.absolute() / values[name]
                values[name] = os.path.realpath(path) if ".." in path.parts else str(path)
        check_trusted(values, allow_torch)
        return config(**values)


def _mapping(where: str, value: object, keys: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RobotFileError(f"{where}: got {shown(value)}; must be a mapping of names to values")
    for key in value:
        if not isinstance(key, str):
            raise RobotFileError(f"{where}: got the key {shown(key)}; must be text, so put it in quotes")
        if keys is not None and key not in keys:
            raise RobotFileError(f"{where}: unknown key '{key}'; {listed(key, keys, 'keys')}")
    return dict(value)


def save_actuators(path: str | Path, entries: Iterable[ActuatorEntry], fit: Mapping[str, object] | None = None) -> None:
    """Write an ``actuon.yaml`` that `load_actuators` reads as the same. An existing file is replaced at once, or kept.

    Args:
        path: Output file.
        entries: The entries. A network below the file's folder is stored relative to it.
        fit: Provenance of fitted actuators, for the section ``fit``.

    Examples:
        >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=40.0, kd=1.0))
        >>> entry = actuon.ActuatorEntry("legs", (".*_knee",), motor)
        >>> actuon.save_actuators("robot.actuon.yaml", [entry])
        >>> [entry.name for entry in actuon.load_actuators("robot.actuon.yaml")]
        ['legs']
    """
    path = Path(path)
    groups: dict[str, Any] = {}
    for entry in entries:
        if entry.name in groups:
            raise RobotFileError(f"{path}: two entries are called '{entry.name}'")
        groups[entry.name] = _as_plain(entry, path.parent)
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write(_HEADER)
        plain_yaml().dump({"version": _VERSION, "actuators": groups, **({FIT: dict(fit)} if fit else {})}, stream)


def _as_plain(entry: ActuatorEntry, folder: Path) -> dict[str, Any]:
    stages = [(registered.kind, _values(part, registered, folder)) for part, registered in file_stages(entry.actuator)]
    plain: dict[str, Any] = {"joints": list(entry.joints)}
    if entry.actuator.by_kind() is None:
        plain["stages"] = [{kind.value: values} for kind, values in stages]
    else:
        for kind, values in sorted(stages, key=lambda stage: stage[0] is ComponentKind.DELAY):
            if kind.several:
                plain.setdefault(kind.key, []).append(values)
            else:
                plain[kind.key] = values
    if entry.actuator.control_every != 1:
        plain["control_every"] = entry.actuator.control_every
    if entry.actuator.effort_mode != EXPLICIT:
        plain["effort_mode"] = entry.actuator.effort_mode
    if entry.one_prim:
        plain["one_prim"] = True
    return plain


def _values(config: Config, registered: Registered, folder: Path) -> dict[str, Any]:
    """Return the type and the parameters that differ from their default, as plain YAML values."""
    is_plain_delay = registered.kind is ComponentKind.DELAY and registered.type_name == "delay"
    values: dict[str, Any] = {} if is_plain_delay else {"type": registered.type_name}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value == field.default:
            continue
        if config.declared()[field.name].path:
            value = relative_below(value, folder.absolute())
        values[field.name] = list(value) if isinstance(value, tuple) else value
    return values


def relative_below(path: str, folder: Path) -> str:
    """Return ``path`` relative to ``folder`` if it lies below it, links followed; otherwise as an absolute path."""
    absolute = Path(os.path.abspath(path))
    for inner, outer in ((absolute, folder), (Path(os.path.realpath(absolute)), Path(os.path.realpath(folder)))):
        if inner.is_relative_to(outer):
            return inner.relative_to(outer).as_posix()
    return absolute.as_posix()


def check_trusted(values: Mapping[str, object], allow_unsafe_torch_checkpoints: bool) -> None:
    """Raise an error if a parameter names a PyTorch file, unless that is allowed.

    Loading a ``.pt`` or ``.pt2`` file can run code in it. A path in Python code is the caller's choice; one in a
    robot file is not. So every reader of files calls this before it makes a config, and takes
    ``allow_unsafe_torch_checkpoints`` from its caller, never from the file.

    Args:
        values: Values that were read, by parameter: text, tuples of text, or anything else.
        allow_unsafe_torch_checkpoints: The caller trusts the file and the networks that it names.
    """
    if allow_unsafe_torch_checkpoints:
        return
    for value in values.values():
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, str) and PurePath(entry).suffix.lower() in TORCH_FORMATS:
                raise RobotFileError(
                    f"the network '{entry}' is a PyTorch file, and loading one can run code in it; store it as .onnx "
                    "or .safetensors, or, if you trust it, ",
                    fix=Fix(
                        "pass allow_unsafe_torch_checkpoints=True (on the command line --allow-torch)",
                        "allow it with --allow-torch",
                    ),
                )
