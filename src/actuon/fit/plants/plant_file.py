# SPDX-License-Identifier: Apache-2.0
"""Plants from YAML: what moves, and what of it is to be found.

::

    robot: ak80_6.xml                     # MJCF, URDF or USD, beside the file
    columns: {...}                        # as in a mapping of columns, and so are joints, units, rate and settings
    window: 0.5                           # [s], each from its measured state; default: whole logs
    dt: 0.002                             # [s]
    zeros: each log                       # encoders are set to zero anew for each log; default: as in the robot's file
    model: m1                             # preset that is fitted where none is named
    free:                                 # by joint: ranges of parameters, of the actuator or of the link it moves
      shoulder: {link.mass: [0.3, 1.0], link.com_z: [-0.3, -0.1]}
    fix:
      shoulder: {controller.kp: 0.0}
    load: {mass: 0.49, length: 0.1}       # in place of robot: a known load
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import ParameterError, listed, shown
from ...files import read_yaml
from ...logs import read_logs
from ...typing import PathLike
from .known_load import KnownLoadPlant
from .plant import Plant
from .robot import RobotPlant

_MAPPING = ("columns", "joints", "units", "rate", "settings")
_KEYS = ("robot", "load", *_MAPPING, "window", "dt", "zeros", "model", "free", "fix")
_EACH_LOG = "each log"


def load_plant(
    path: PathLike, logs: PathLike | Iterable[PathLike], *, dt: float | None = None, window: float | None = None
) -> Plant:
    """The plant that a file describes, with logs.

    Args:
        path: The YAML file.
        logs: Files, folders and patterns, as for `read_logs`.
        dt: Time step [s], in place of the file's.
        window: Length of windows [s], in place of the file's.

    Raises:
        ParameterError: A key or value of the file is not allowed; says which.
    """
    said = _mapping(str(path), read_yaml(Path(path)), _KEYS)
    if ("robot" in said) == ("load" in said):
        raise ParameterError(f"{path}: must have either 'robot' or 'load'")
    zeros = said.get("zeros")
    if zeros not in (None, _EACH_LOG):
        raise ParameterError(f"{path}: zeros: got {shown(zeros)}; must be '{_EACH_LOG}', or left out")
    if zeros is not None and "load" in said:
        raise ParameterError(f"{path}: zeros: go with 'robot'; the zero of a joint with a known load is encoder.bias")
    mapping = {key: said[key] for key in _MAPPING if key in said}
    runs = read_logs(logs, mapping or None)
    dt = _positive(path, "dt", said.get("dt")) if dt is None else dt
    window = _positive(path, "window", said.get("window")) if window is None else window
    if "load" in said:
        load = {
            name: _number(f"{path}: load.{name}", value)
            for name, value in _mapping(f"{path}: load", said["load"]).items()
        }
        if window is not None:
            runs = [part for run in runs for part in run.split_windows(window)]
        return KnownLoadPlant(runs, load, dt)
    robot = said["robot"]
    if not isinstance(robot, str):
        raise ParameterError(f"{path}: robot: got {shown(robot)}; must be the path of an MJCF, URDF or USD file")
    model = said.get("model")
    if model is not None and not isinstance(model, str):
        raise ParameterError(f"{path}: model: got {shown(model)}; must be the name of one")
    known = runs[0].joint_names
    free = _by_joint(path, "free", said.get("free"), known)
    fix = _by_joint(path, "fix", said.get("fix"), known)
    return RobotPlant(
        Path(path).parent / robot,
        runs,
        dt,
        window,
        usual_model=model,
        free={j: {p: _range(f"{path}: free.{j}.{p}", ends) for p, ends in own.items()} for j, own in free.items()},
        fix={j: {p: _number(f"{path}: fix.{j}.{p}", value) for p, value in own.items()} for j, own in fix.items()},
        has_own_zeros=zeros is not None,
    )


def _by_joint(path: PathLike, key: str, given: Any, known: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    found = _mapping(f"{path}: {key}", given or {}, tuple(known))
    return {joint: _mapping(f"{path}: {key}.{joint}", own) for joint, own in found.items()}


def _mapping(where: str, given: Any, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ParameterError(f"{where}: got {shown(given)}; must be a mapping")
    for key in given:
        if keys is not None and str(key) not in keys:
            raise ParameterError(f"{where}: got the key {shown(key)}; {listed(str(key), keys, 'keys')}")
    return {str(key): value for key, value in given.items()}


def _number(where: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ParameterError(f"{where}: got {shown(given)}; must be a number")
    return float(given)


def _positive(path: PathLike, key: str, given: Any) -> float | None:
    if given is None:
        return None
    number = _number(f"{path}: {key}", given)
    if not 0.0 < number < float("inf"):
        raise ParameterError(f"{path}: {key}: got {shown(given)}; must be > 0 [s]")
    return number


def _range(where: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        raise ParameterError(f"{where}: got {shown(given)}; must be two numbers, lowest and highest")
    low, high = (_number(where, end) for end in given)
    return low, high
