# SPDX-License-Identifier: Apache-2.0
"""``actuon.yaml``: the actuators of a robot, by joint name or regular expression, for people without USD."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..actuator_config import ActuatorConfig
from ..bounded_yaml import plain_yaml, read_yaml
from ..declare.config import Config
from ..declare.effort_mode import EXPLICIT
from ..declare.registry import ComponentKind, Registered, by_config, by_type
from ..errors import ActuonError, RobotFileError, listed, shown
from ..files import replacing
from ..motors.catalogue import motor_of
from ..patterns import compile_pattern
from .actuator_parsed import carried
from .trust import check_trusted

_VERSION = 1
FIT = "fit"
"""Section of a file that says where fitted actuators come from. Who reads actuators leaves it alone."""
_HEADER = """\
# Actuators of a robot, for Actuon. 'joints' are names or regular expressions, matched whole. SI units, radians.
"""
_MOTOR = "motor"
_KEYS = ("joints", *(kind.key for kind in ComponentKind), _MOTOR, "stages", "control_every", "effort_mode", "one_prim")


@dataclass(frozen=True)
class ActuatorEntry:
    """A named group of joints with the same actuator.

    Args:
        name: What to call it.
        joints: Names of joints, or regular expressions that match them whole.
        actuator: The actuator that each of them gets.
        one_prim: In USD, drive all joints from one prim. By default each joint has a prim of its own, named after it,
            which every reader of the schema understands.
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
            self._actuator_at(place)

    def actuator_of(self, joint: str) -> ActuatorConfig:
        """The actuator of one of the joints, where the order of ``joints`` says something about its parts.

        Args:
            joint: Its name.
        """
        return self._actuator_at(next(i for i, pattern in enumerate(self.joints) if _is_match(pattern, joint)))

    def _actuator_at(self, place: int) -> ActuatorConfig:
        """The actuator of the joints that one of the names or regular expressions means."""
        places = len(self.joints)
        stages = self.actuator.stages
        try:
            own = [part.at_place(place, places) if isinstance(part, Config) else part for part in stages]
        except ActuonError as error:
            raise RobotFileError(f"{self.name}: {error}") from error
        return self.actuator.with_stages(own)


def match_joints(
    entries: Iterable[ActuatorEntry], names: Iterable[str], *, partial: bool = False
) -> list[tuple[ActuatorEntry, list[str]]]:
    """Find the joints of each entry.

    Args:
        entries: As `load_actuators` returns them.
        names: The robot's joints, in its order.
        partial: The names are some of the robot's joints, so that an entry may match none of them.

    Raises:
        RobotFileError: A name or regular expression matches nothing or is not valid, or two entries claim a joint.
    """
    names = list(names)
    entries = list(entries)
    if not entries:
        raise RobotFileError("there are no actuators")
    owner: dict[str, str] = {}
    matched = []
    for entry in entries:
        found: dict[str, None] = {}
        for pattern in entry.joints:
            found |= dict.fromkeys(_matches(f"{entry.name}: joints", pattern, names, partial))
        for name in found:
            if name in owner:
                raise RobotFileError(f"joint '{name}' is in '{owner[name]}' and in '{entry.name}'; must be in one")
            owner[name] = entry.name
        matched.append((entry, list(found)))
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
    """The YAML beside a robot's file, if any: ``robot.actuon.yaml`` for ``robot.xml``, else ``actuon.yaml``."""
    if robot is None:
        return None
    candidates = (robot.with_name(f"{robot.stem}.actuon.yaml"), robot.with_name("actuon.yaml"))
    return next((path for path in candidates if path.is_file()), None)


def load_actuators(path: str | Path, allow_unsafe_torch_checkpoints: bool = False) -> list[ActuatorEntry]:
    """Read an ``actuon.yaml``. A network's path in it is relative to the file.

    Args:
        path: The file.
        allow_unsafe_torch_checkpoints: Let the file name ``.pt`` and ``.pt2`` networks. Loading one can run code that
            is in it, so allow it only for files that you trust.

    Raises:
        RobotFileError: The file is missing, is not a valid YAML file, is too large, or holds a value that is
            not allowed; the message says where.
    """
    path = Path(path)
    document = read_yaml(path)
    try:
        return _entries(document, path.parent, allow_unsafe_torch_checkpoints)
    except ActuonError as error:
        raise RobotFileError(f"{path}: {error}") from error


def _entries(document: Any, folder: Path, allow_torch: bool) -> list[ActuatorEntry]:
    document = _mapping("the file", document, ("version", "actuators", FIT))
    version = document.get("version", _VERSION)
    if type(version) is not int or version != _VERSION:
        raise RobotFileError(f"version: got {shown(version)}; this Actuon reads version {_VERSION}")
    if "actuators" not in document:
        raise RobotFileError("has no 'actuators'")
    groups = _mapping("actuators", document["actuators"])
    return [_entry(f"actuators.{name}", name, group, folder, allow_torch) for name, group in groups.items()]


def _entry(where: str, name: str, group: Any, folder: Path, allow_torch: bool) -> ActuatorEntry:
    group = _mapping(where, group, _KEYS)
    for key in ("joints", "stages" if "stages" in group else "controller"):
        if key not in group:
            raise RobotFileError(f"{where}: needs '{key}'")
    configs = [
        _config(f"{where}.{place}", kind, values, folder, allow_torch)
        for place, kind, values in written_stages(where, group)
    ]
    try:
        given = {key: group[key] for key in ("control_every", "effort_mode") if key in group}
        actuator = ActuatorConfig(stages=configs, **given)
        carried(actuator)
        return ActuatorEntry(name, group["joints"], actuator, group.get("one_prim", False))
    except ActuonError as error:
        text = str(error)
        raise RobotFileError(text if text.startswith(where) else f"{where}: {text}") from error


def written_stages(where: str, group: Mapping[str, Any]) -> Iterator[tuple[str, ComponentKind, Any]]:
    """The stages of an entry in the order in which they act: where each is written, its kind, and what is written."""
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


def _motor_stages(where: str, place: str, said: Any) -> Iterator[tuple[str, ComponentKind, Any]]:
    """The stages of a motor, by its name in the catalogue or by its figures, as if they were written."""
    try:
        stages = motor_of(said).stages()
    except ActuonError as error:
        raise RobotFileError(f"{where}.{place}: {error}") from error
    for config in stages:
        registered = by_config(config)
        yield f"{place}.{registered.type_name}", registered.kind, _values(config, registered, Path())


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RobotFileError(f"{where}: got {shown(value)}; must be a list")
    return value


def _config(where: str, kind: ComponentKind, values: Any, folder: Path, allow_torch: bool) -> Config:
    values = _mapping(where, values)
    type_name = values.pop("type", "delay" if kind is ComponentKind.DELAY else None)
    if type_name is None:
        raise RobotFileError(f"{where}: needs a 'type'")
    config = by_type(where, kind, type_name).config
    assert config is not None
    declared = config.declared()
    for name in values:
        if name not in declared:
            raise RobotFileError(f"{where}: unknown parameter '{name}'; {listed(name, declared, 'parameters')}")
    for field in dataclasses.fields(config):
        if field.default is dataclasses.MISSING and values.get(field.name) is None:
            raise RobotFileError(f"{where}: needs '{field.name}', {declared[field.name].range}")
        if declared[field.name].path and isinstance(values.get(field.name), str) and values[field.name]:
            path = folder.absolute() / values[field.name]
            values[field.name] = os.path.realpath(path) if ".." in path.parts else str(path)
    try:
        check_trusted(values, allow_torch)
        return config(**values)
    except ActuonError as error:
        raise RobotFileError(f"{where}: {error}") from error


def _mapping(where: str, value: Any, keys: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RobotFileError(f"{where}: got {shown(value)}; must be a mapping of names to values")
    for key in value:
        if not isinstance(key, str):
            raise RobotFileError(f"{where}: got the key {shown(key)}; must be text, so put it in quotes")
        if keys is not None and key not in keys:
            raise RobotFileError(f"{where}: unknown key '{key}'; {listed(key, keys, 'keys')}")
    return dict(value)


def save_actuators(path: str | Path, entries: Iterable[ActuatorEntry], fit: Mapping[str, Any] | None = None) -> None:
    """Write an ``actuon.yaml`` that `load_actuators` reads as the same. An existing file is replaced at once, or kept.

    Args:
        path: Where to.
        entries: The groups. A network below the file's folder is stored relative to it.
        fit: Where fitted actuators come from, for its section ``fit``.
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
    stages = [(registered.kind, _values(part, registered, folder)) for part, registered in carried(entry.actuator)]
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
    """The type and all parameters that differ from their default, as YAML can hold them."""
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
    """``path`` relative to ``folder`` where it lies in or below it, links followed; otherwise as an absolute path."""
    absolute = Path(os.path.abspath(path))
    for inner, outer in ((absolute, folder), (Path(os.path.realpath(absolute)), Path(os.path.realpath(folder)))):
        if inner.is_relative_to(outer):
            return inner.relative_to(outer).as_posix()
    return absolute.as_posix()
