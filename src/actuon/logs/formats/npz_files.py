# SPDX-License-Identifier: Apache-2.0
"""NPZ: arrays by name with a value per sample, or per sample and joint, and an array with the names of joints."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import LogError, shown
from ..columns import recognise
from ..log import Finding
from ..table import Columns, Format, Settings, Table
from .content import SETTINGS, check_size, is_setting

NAMES = ("dof_names", "joint_names", "names", "joints")
"""Arrays that hold the names of joints, in the order of columns of other arrays."""
DOF_UNITS = "dof_units"
OF_RECORDS = ("paths", DOF_UNITS)
"""Arrays of recordings that are not series: paths of robots, and units of their DOFs."""


def read_npz(path: Path) -> Table:
    """Return the arrays of a ``.npz`` file: a column per joint for shape (T, D), per robot and joint for (T, N, D).

    Raises:
        LogError: It cannot be read, is cut off, or its arrays do not belong together.
    """
    try:
        with path.open("rb") as stream:
            check_size(path, sum(member.file_size for member in zipfile.ZipFile(stream).infolist()))
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as contents:
                members = {name: contents[name] for name in contents.files}
    except FileNotFoundError as error:
        raise LogError(f"'{path}' does not exist") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise LogError(f"'{path}' is cut off, or not a valid .npz file: {error}") from error
    except (OSError, ValueError, KeyError, MemoryError, NotImplementedError) as error:
        raise LogError(f"'{path}' is not a valid .npz file: {' '.join(str(error).split())[:200]}") from error
    arrays = {name: member for name, member in members.items() if isinstance(member, np.ndarray)}
    check_size(path, sum(max(array.nbytes, 8 * array.size) for array in arrays.values()))
    settings: dict[str, float | str] = {}
    names: list[str] = []
    units: list[str] = []
    series: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if name in NAMES and array.ndim == 1 and array.dtype.kind in "US":
            names = [str(each) for each in array.astype(str)]
        elif name in OF_RECORDS and array.dtype.kind in "US":
            units = [str(each) for each in array.astype(str).ravel()] if name == DOF_UNITS else units
        elif array.ndim == 0:
            settings |= _settings(name, array)
        else:
            series[name] = array
    count = _samples(path, series)
    columns: dict[str, np.ndarray] = {}
    unused = [name for name in members if name not in arrays]
    for name, array in series.items():
        if len(array) == count and array.ndim <= 3:
            columns |= {column: _plain(values) for column, values in _columns(path, name, array, names)}
        elif recognise(name):
            raise LogError(f"'{path}': '{name}' has the shape {array.shape}; must be ({count}, …), a value per sample")
        else:
            unused.append(name)
    names_unused = ", ".join(unused)
    findings = (Finding(f"arrays that are not used: {names_unused}", "unused", names_unused),) if unused else ()
    of_joints = dict(zip(names, units, strict=False))
    return Table(str(path), columns, "sample", range(1, count + 1), settings, findings, of_joints)


def write_npz(columns: Columns, settings: Settings) -> bytes:
    """Return the content of a ``.npz`` file."""
    everything = {**columns, SETTINGS: np.array(json.dumps(dict(settings)))}
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **everything)
    return stream.getvalue()


def _settings(name: str, array: np.ndarray) -> dict[str, float | str]:
    value = array.item()
    if name == SETTINGS and isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return {key: each for key, each in found.items() if is_setting(each)}
    return {name: value} if is_setting(value) else {}


def _samples(path: Path, series: dict[str, np.ndarray]) -> int:
    """Return the number of samples: that of the time, or of most arrays."""
    for name, array in series.items():
        column = recognise(name)
        if column and column.quantity == "time":
            return len(array)
    lengths = Counter(len(array) for array in series.values())
    if not lengths or not lengths.most_common(1)[0][0]:
        raise LogError(f"'{path}' is empty; must hold arrays with a value per sample")
    return lengths.most_common(1)[0][0]


def _columns(path: Path, name: str, array: np.ndarray, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    if array.ndim == 1:
        yield name, array
        return
    dofs = array.shape[-1]
    if names and len(names) != dofs:
        raise LogError(
            f"'{path}': '{name}' has the shape {array.shape}, and there are {len(names)} joints: {shown(names)}"
        )
    joints = names or ([str(dof) for dof in range(dofs)] if dofs > 1 else [""])
    robots = array[:, None] if array.ndim == 2 else array
    for robot in range(robots.shape[1]):
        for dof, joint in enumerate(joints):
            place = f"{robot}/{joint}" if robots.shape[1] > 1 else joint
            yield (f"{name}/{place}" if place else name), robots[:, robot, dof]


def _plain(values: np.ndarray) -> np.ndarray:
    """Return numbers as float64, others as text."""
    return values.astype(np.float64) if values.dtype.kind in "fiub" else values.astype(str)


NPZ = Format((".npz",), "arrays by name, (T,) or (T, joints) with `joint_names`", read_npz, write_npz)
