# SPDX-License-Identifier: Apache-2.0
"""The content of a file, decompressed, no longer than it may be; and what formats share."""

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
"""Name of the column or array with settings, as JSON, in formats without another place for them."""
LARGEST = 1 << 30
"""Bytes of a file, decompressed; of its numbers, 8 each."""
_LONGEST = 100
"""Characters of a cell that is not a number."""


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


def write_content(path: Path, text: str) -> None:
    """Write text in UTF-8, compressed if the file ends in ``.gz``."""
    data = text.encode()
    path.write_bytes(gzip.compress(data, compresslevel=6, mtime=0) if path.suffix.lower() == ".gz" else data)


def plain_rows(columns: Columns) -> Iterator[tuple[float, ...]]:
    """Yield the samples of columns as Python numbers; booleans as 0 and 1."""
    plain = ((values.astype(int) if values.dtype == bool else values).tolist() for values in columns.values())
    return zip(*plain, strict=True)


def check_size(path: Path, size: int) -> None:
    """Refuse a file that unpacks to more than `LARGEST`.

    Args:
        path: Of the file.
        size: What it unpacks to, or the part that is known so far [bytes].

    Raises:
        LogError: It is more.
    """
    if size > LARGEST:
        raise LogError(f"'{path}' unpacks to more than {LARGEST >> 20} MiB; cut it into several logs")


def text_column(cells: Iterable[str]) -> np.ndarray:
    """Return cells as an array of text. Long ones are cut, since the longest decides the size of all."""
    return np.array([cell[:_LONGEST] for cell in cells])


def setting(text: str) -> float | str:
    """Return the number or text that JSON, or text without quotes, means."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
    return value if is_setting(value) else text


def is_setting(value: object) -> TypeGuard[float | str]:
    """Return whether a log can keep a value as a setting: text, or a finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return math.isfinite(value)
    return isinstance(value, str)
