# SPDX-License-Identifier: Apache-2.0
"""Parquet, by pyarrow. Settings are JSON in the metadata of the file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LogError, require
from ..table import Columns, Format, Settings, Table
from .content import SETTINGS, check_size, is_setting, text_column

_ROWS = 1024
"""Rows to unpack at once."""


def _pyarrow(module: str = "") -> Any:
    return require(f"pyarrow{module}", "parquet", "reading and writing Parquet files")


def read_parquet(path: Path) -> Table:
    """Return the columns of a ``.parquet`` file.

    Raises:
        LogError: It cannot be read, or is not a Parquet file.
    """
    reader = _pyarrow(".parquet")
    try:
        with path.open("rb") as stream:
            found = _read(path, reader.ParquetFile(stream))
        names = found.column_names
        columns = {name: _plain(column) for name, column in zip(names, found.columns, strict=True)}
        settings = json.loads((found.schema.metadata or {}).get(SETTINGS.encode(), b"{}"))
    except FileNotFoundError as error:
        raise LogError(f"'{path}' does not exist") from error
    except LogError:
        raise
    except Exception as error:  # pyarrow has other errors
        raise LogError(f"'{path}' is not a valid Parquet file: {' '.join(str(error).split())[:200]}") from error
    for i, name in enumerate(names):
        if name in names[:i]:
            raise LogError(f"'{path}': two columns are called '{name}'; names must differ")
    if not found.num_rows or not columns:
        raise LogError(f"'{path}' is empty; must hold a row per sample")
    said = settings if isinstance(settings, dict) else {}
    said = {name: value for name, value in said.items() if is_setting(value)}
    return Table(str(path), columns, "row", range(1, found.num_rows + 1), said)


def write_parquet(columns: Columns, settings: Settings) -> bytes:
    """Return the content of a ``.parquet`` file."""
    table = _pyarrow().table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    stream = io.BytesIO()
    _pyarrow(".parquet").write_table(table.replace_schema_metadata({SETTINGS: json.dumps(dict(settings))}), stream)
    return stream.getvalue()


def _read(path: Path, file: Any) -> Any:
    """Return the table of a file, unpacked up to the largest size: a few bytes can represent any number of rows."""
    check_size(path, 8 * file.metadata.num_rows * file.metadata.num_columns)
    batches, size = [], 0
    for batch in file.iter_batches(_ROWS):
        size += batch.nbytes
        check_size(path, size)
        batches.append(batch)
    return _pyarrow().Table.from_batches(batches, file.schema_arrow)


def _plain(column: Any) -> np.ndarray:
    """Return numbers, and dates in nanoseconds, as float64; others as text."""
    pa = _pyarrow()
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return column.to_numpy().astype("int64").astype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return text_column("" if value is None else str(value) for value in column.to_pylist())


PARQUET = Format((".parquet",), "`pip install 'actuon[parquet]'`", read_parquet, write_parquet)
