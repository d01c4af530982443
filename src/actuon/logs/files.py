# SPDX-License-Identifier: Apache-2.0
"""Files of logs: found by paths, folders and patterns, and written."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import LogError, listed, located
from ..files import replacing
from ..typing import PathLike
from .formats import ENDINGS, format_of, known_format
from .formats.content import compressed
from .log import Log
from .units import default, held_in


def log_files(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the files that paths, folders and patterns name, each once, in this order; those of a folder by name.

    A folder may hold a folder of logs for each robot of a fleet.
    """
    found: dict[Path, None] = {}
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        found |= dict.fromkeys(_files(Path(path)))
    if not found:
        raise LogError("no logs; pass files, folders or patterns")
    return list(found)


def robot_folders(folder: PathLike) -> dict[str, Path]:
    """Return the folders with the logs of each robot of a fleet, by name; empty if the folder holds logs itself."""
    folder = Path(folder)
    if not folder.is_dir() or _logs_in(folder):
        return {}
    return {each.name: each for each in sorted(folder.iterdir()) if each.is_dir() and _logs_in(each)}


def _logs_in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_file() and format_of(each))


def _files(path: Path) -> list[Path]:
    robots = robot_folders(path)
    if robots:
        return [file for folder in robots.values() for file in _logs_in(folder)]
    if os.path.isdir(path):
        inside = _logs_in(path)
        if not inside:
            names = [each.name for each in sorted(path.iterdir())]
            raise LogError(f"'{path}' holds no logs ({', '.join(ENDINGS)}); {listed('', names, 'files')}")
        return inside
    if os.path.exists(path) or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(Path(each) for each in glob.glob(str(path), recursive=True))
    matches = [each for each in matches if each.is_file()]
    if not matches:
        raise LogError(f"'{path}' matches no file")
    return matches


def save_log(path: PathLike, log: Log) -> None:
    """Write a log with its units and settings. An existing file is replaced at once, or kept.

    Args:
        path: File to write; its ending determines the format, as for `read_log`.
        log: The log.

    Raises:
        LogError: No format has the ending, or it is one that is only read.

    Examples:
        >>> time = np.arange(0.0, 4.0, 0.01)
        >>> knee = actuon.fit.JointLog("knee", position=np.sin(time), command=np.sin(time + 0.05))
        >>> from actuon.logs import save_log
        >>> save_log("run.csv", actuon.fit.Log("run 1", time, (knee,), {"mass": 0.49}))
        >>> actuon.fit.read_log("run.csv").settings
        {'mass': 0.49}
    """
    path = Path(path)
    form = known_format(path)
    if form.write is None:
        raise LogError(f"'{path}': files of the format '{form.endings[0]}' are only read; write another")
    columns = {"time [s]": log.time}
    for joint in log.joints:
        for quantity, values in joint.quantities().items():
            unit = held_in(quantity, joint.units.get(quantity, default(quantity)))
            columns[f"{quantity}/{joint.name} [{unit}]"] = values
    with located(f"'{path}'", LogError):
        content = form.write(columns, log.settings)
    with replacing(path) as partial:
        partial.write_bytes(compressed(path, content))
