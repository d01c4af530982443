# SPDX-License-Identifier: Apache-2.0
"""`save_log`: a `Log` to a file of any format, which `read_log` reads as the same."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import LogError
from ..files import replacing
from ..typing import PathLike
from .formats.json_files import ENTRIES
from .formats.npz_files import SETTINGS
from .formats.parquet_files import parquet
from .log import Log
from .tables import FORMATS, format_of
from .units import default, held_in


def save_log(path: PathLike, log: Log) -> None:
    """Write a log with its units and settings. An existing file is replaced at once, or kept.

    Args:
        path: Where to; its ending says the format, one of ``.csv``, ``.json``, both as ``.gz`` too, ``.npz`` and
            ``.parquet``.
        log: What to write.
    """
    path = Path(path)
    ending = format_of(path)
    if ending is None:
        raise LogError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(FORMATS)}")
    columns = {"time [s]": log.time}
    for joint in log.joints:
        for quantity, values in joint.quantities().items():
            unit = held_in(quantity, joint.units.get(quantity, default(quantity)))
            columns[f"{quantity}/{joint.name} [{unit}]"] = values
    with replacing(path) as partial:
        _WRITERS[ending](partial, columns, log)


Columns = dict[str, np.ndarray]


def _csv_text(columns: Columns, log: Log) -> bytes:
    stream = io.StringIO(newline="")
    for name, value in log.settings.items():
        stream.write(f"# {json.dumps(name)}: {json.dumps(value)}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(_plain(values) for values in columns.values()), strict=True):
        writer.writerow([repr(value) for value in row])
    return stream.getvalue().encode()


def _json_text(columns: Columns, log: Log) -> bytes:
    entries = [dict(zip(columns, row, strict=True)) for row in zip(*(_plain(v) for v in columns.values()), strict=True)]
    return json.dumps({**log.settings, ENTRIES: entries}).encode()


def _plain(values: np.ndarray) -> list[float]:
    return (values.astype(int) if values.dtype == bool else values).tolist()


def _text(make: Callable[[Columns, Log], bytes]) -> Callable[[Path, Columns, Log], None]:
    def write(path: Path, columns: Columns, log: Log) -> None:
        path.write_bytes(make(columns, log))

    return write


def _compressed(make: Callable[[Columns, Log], bytes]) -> Callable[[Path, Columns, Log], None]:
    def write(path: Path, columns: Columns, log: Log) -> None:
        path.write_bytes(gzip.compress(make(columns, log), compresslevel=6, mtime=0))

    return write


def _write_npz(path: Path, columns: Columns, log: Log) -> None:
    everything = {**columns, SETTINGS: np.array(json.dumps(dict(log.settings)))}
    np.savez_compressed(path, allow_pickle=False, **everything)


def _write_parquet(path: Path, columns: Columns, log: Log) -> None:
    writer = parquet()
    import pyarrow as pa

    table = pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    writer.write_table(table.replace_schema_metadata({SETTINGS: json.dumps(dict(log.settings))}), path)


_WRITERS: dict[str, Callable[[Path, Columns, Log], None]] = {
    ".csv": _text(_csv_text),
    ".csv.gz": _compressed(_csv_text),
    ".json": _text(_json_text),
    ".json.gz": _compressed(_json_text),
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
