# SPDX-License-Identifier: Apache-2.0
"""Test setups from YAML: mechanism, and the parameters that are fitted.

::

    robot: ak80_6.xml                     # MJCF, URDF or USD, next to the file
    columns: {...}                        # like joints, units, rate and settings, as in a mapping of columns
    window: 0.5                           # [s], each starts at its measured state; default: whole logs
    dt: 0.002                             # time step [s]
    encoder_offset: per_log               # estimate the encoder offsets of each log; default: as in the robot's file
    model: m1                             # default preset
    free:                                 # by joint: ranges of parameters of the actuator or of the link it moves
      shoulder: {link.mass: [0.3, 1.0], link.com_z: [-0.3, -0.1]}
    fix:
      shoulder: {controller.kp: 0.0}
    load: {mass: 0.49, length: 0.1}       # a known load, instead of robot and its keys
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...declare.documents import entries, interval, mapping, number, one_of, text
from ...errors import ParameterError, located
from ...files import read_yaml
from ...logs import read_logs
from ...logs.columns import MAPPING_KEYS, ColumnMapping
from ...typing import PathLike
from .known_load import KnownLoadPlant
from .plant import Plant
from .robot import RobotPlant

_OF_ROBOTS = {
    "encoder_offset": one_of("per_log"),
    "model": text(),
    "free": mapping(mapping(interval())),
    "fix": mapping(mapping(number())),
}
_FILE = entries(
    robot=text(),
    load=mapping(number()),
    window=number(above=0.0),
    dt=number(above=0.0),
    **_OF_ROBOTS,
    **MAPPING_KEYS,
)


def load_plant(
    path: PathLike, logs: PathLike | Iterable[PathLike], *, dt: float | None = None, window: float | None = None
) -> Plant:
    """Read a plant from a file, and its logs.

    Args:
        path: The YAML file.
        logs: Files, folders and patterns, as for `read_logs`.
        dt: Time step [s]; overrides the file.
        window: Length of windows [s]; overrides the file.

    Raises:
        ParameterError: The file has an invalid key or value.

    Examples:
        >>> from pathlib import Path
        >>> written = Path("stand.yaml").write_text("load: {mass: 0.49, length: 0.1}")
        >>> time = np.arange(0.0, 2.0, 0.01)
        >>> table = np.column_stack([time, np.ones(200), 0.5 * time])
        >>> names = "time,cmd_knee,pos_knee"
        >>> np.savetxt("run.csv", table, delimiter=",", header=names, comments="")
        >>> plant = actuon.fit.load_plant("stand.yaml", "run.csv", window=0.5)
        >>> plant.joints, len(plant.runs)
        (('knee',), 4)
    """
    values = _FILE(str(path), read_yaml(Path(path)))
    if ("robot" in values) == ("load" in values):
        raise ParameterError(f"{path}: must have either 'robot' or 'load'")
    dt = values.get("dt") if dt is None else dt
    window = values.get("window") if window is None else window
    with located(path, ParameterError):
        columns = ColumnMapping.of({key: values[key] for key in MAPPING_KEYS if key in values})
    runs = read_logs(logs, columns)
    if "load" in values:
        for key in _OF_ROBOTS:
            if key in values:
                raise ParameterError(f"{path}: {key}: requires 'robot', not 'load'")
        parts = runs if window is None else [part for run in runs for part in run.split_windows(window)]
        return KnownLoadPlant(parts, values["load"], dt)
    for key in ("free", "fix"):
        mapping(_as_it_is, keys=runs[0].joint_names)(f"{path}: {key}", values.get(key, {}))
    return RobotPlant(
        Path(path).parent / values["robot"],
        runs,
        dt,
        window,
        usual_model=values.get("model"),
        free=values.get("free"),
        fix=values.get("fix"),
        encoder_offset_per_log="encoder_offset" in values,
    )


def _as_it_is(where: str, value: Any) -> Any:
    return value
