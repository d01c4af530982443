# SPDX-License-Identifier: Apache-2.0
"""Content of files, decompressed and limited in size, and helpers of the formats."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import numpy as np

from ...errors import LogError
from ...files import where_not_utf8
from ..table import Columns

SETTINGS = "settings"
"""Name of the array or the metadata with settings, as JSON."""
LARGEST = 1 << 30
"""Largest size of a file when decompressed, with 8 bytes per number [bytes]."""
_LARGEST_SETTING = 10**25
"""Largest whole number of a setting, as of other numbers of a log."""
_LONGEST = 100
"""Longest text of a cell that is not a number [characters]."""


def read_content(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark, decompressed if it ends in ``.gz``.

    Raises:
        LogError: It cannot be read, is cut off, too large, or not UTF-8.
    """
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except EOFError as error:
        raise LogError(f"'{path}' is cut off: the compressed data has no end; copy or record it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise LogError(f"'{path}' is not a valid gzip file: {error}") from error
    except FileNotFoundError as error:
        raise LogError(f"'{path}' does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise LogError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > LARGEST:
        raise LogError(f"'{path}' has more than {LARGEST >> 20} MiB of text; cut it, or write it as .npz or .parquet")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise LogError(f"'{path}' is not UTF-8 text: {where_not_utf8(data)}; save it as UTF-8") from error


def compressed(path: Path, data: bytes) -> bytes:
    """Return the content of a file, compressed if its name ends in ``.gz``."""
    return gzip.compress(data, compresslevel=6, mtime=0) if path.suffix.lower() == ".gz" else data


def plain_rows(columns: Columns) -> Iterator[tuple[float, ...]]:
    """Yield the samples of columns as Python numbers; booleans as 0 and 1."""
    plain = ((values.astype(int) if values.dtype == bool else values).tolist() for values in columns.values())
    return zip(*plain, strict=True)


def check_size(path: Path, size: int) -> None:
    """Check the unpacked size of a file.

    Args:
        path: Path of the file.
        size: Unpacked size, or the part known so far [bytes].

    Raises:
        LogError: It is larger than `LARGEST`.
    """
    if size > LARGEST:
        raise LogError(f"'{path}' unpacks to more than {LARGEST >> 20} MiB; cut it into several logs")


def text_column(cells: Iterable[str]) -> np.ndarray:
    """Return cells as an array of text. Long cells are cut, since the longest determines the size of all."""
    return np.array([cell[:_LONGEST] for cell in cells])


def setting(text: str) -> float | str:
    """Return the number or text in JSON; text that is not JSON is returned unchanged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # ValueError also of whole numbers of more than 4300 digits
        return text
    return value if is_setting(value) else text


def is_setting(value: object) -> TypeGuard[float | str]:
    """Return whether a value can be a setting: text, or a finite number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= _LARGEST_SETTING
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, str)
