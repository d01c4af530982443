# SPDX-License-Identifier: Apache-2.0
"""`read_logs`: many files that belong together."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import LogError, listed
from ..typing import PathLike
from .log import Log
from .reading import MappingLike, read_all
from .tables import FORMATS, format_of


def read_logs(paths: PathLike | Iterable[PathLike], mapping: MappingLike = None) -> list[Log]:
    """Read logs of the same joints. Records of several robots give a log for each.

    Args:
        paths: Files, folders of files, and patterns such as ``"runs/*.csv.gz"``.
        mapping: What columns mean, as in `read_log`.

    Raises:
        LogError: One cannot be read, there are none, or they have different joints.
    """
    logs = [log for path in log_files(paths) for log in read_all(path, mapping)]
    first = logs[0]
    for log in logs[1:]:
        more = [name for name in log.joint_names if name not in first.joint_names]
        fewer = [name for name in first.joint_names if name not in log.joint_names]
        if more or fewer:
            differences = [f"has no {_quoted(fewer)}"] if fewer else []
            differences += [f"has {_quoted(more)} too"] if more else []
            raise LogError(
                f"'{log.path}' {' and '.join(differences)}, compared with '{first.path}'; logs that are read together "
                "must have the same joints"
            )
    return [dataclasses.replace(log, joints=tuple(log.joint(name) for name in first.joint_names)) for log in logs]


def log_files(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """The files that files, folders and patterns mean, each once, in their order; those of a folder by name."""
    found: dict[Path, None] = {}
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        found |= dict.fromkeys(_files(Path(path)))
    if not found:
        raise LogError("there are no logs; give files, folders or patterns")
    return list(found)


def _files(path: Path) -> list[Path]:
    if os.path.isdir(path):
        inside = sorted(each for each in path.iterdir() if each.is_file() and format_of(each))
        if not inside:
            names = [each.name for each in sorted(path.iterdir())]
            raise LogError(f"'{path}' holds no logs, which end in {', '.join(FORMATS)}; {listed('', names, 'files')}")
        return inside
    if os.path.exists(path) or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(Path(each) for each in glob.glob(str(path), recursive=True))
    matches = [each for each in matches if each.is_file()]
    if not matches:
        raise LogError(f"'{path}' matches no file")
    return matches


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
