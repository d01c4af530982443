# SPDX-License-Identifier: Apache-2.0
"""JSON as BAM's test stands write it: settings, and ``entries``, one object of values by name per sample."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LogError, listed, shown
from ..log import Finding
from ..table import Columns, Format, Settings, Table
from .content import check_size, is_setting, plain_rows, read_content, text_column

ENTRIES = "entries"
_CUT = re.compile(r'\s*("([^"\\]|\\.)*\\?)?', re.DOTALL)
"""Rest of a truncated file from the place where parsing fails: nothing, or a string without an end."""


def read_json(path: Path) -> Table:
    """Return the entries and settings of a ``.json`` or ``.json.gz`` file.

    Raises:
        LogError: It cannot be read, is cut off, or is not a list of entries.
    """
    text = read_content(path)
    if not text.strip():
        raise LogError(f"'{path}' is empty; must hold an object with '{ENTRIES}'")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        what = "is cut off" if _CUT.fullmatch(text, error.pos) else "is not a valid JSON file"
        raise LogError(f"'{path}', line {error.lineno}, column {error.colno}: {what}: {error.msg}") from error
    except RecursionError as error:
        raise LogError(f"'{path}' is not a log: lists and objects are too deep inside each other") from error
    except ValueError as error:  # Python reads no whole numbers of more digits
        raise LogError(f"'{path}' has a whole number of more than {sys.get_int_max_str_digits()} digits") from error
    found = {ENTRIES: found} if isinstance(found, list) else found
    if not isinstance(found, dict):
        raise LogError(f"'{path}': got {shown(found)}; must be an object with '{ENTRIES}', a list of samples")
    if ENTRIES not in found:
        raise LogError(f"'{path}' has no '{ENTRIES}', a list of samples; {listed(ENTRIES, found, 'keys')}")
    entries = found.pop(ENTRIES)
    if not isinstance(entries, list) or not entries:
        raise LogError(f"'{path}': {ENTRIES}: got {shown(entries)}; must be a list of samples, at least one")
    settings = {name: value for name, value in found.items() if is_setting(value)}
    others = [name for name in found if name not in settings]
    unused = ", ".join(others)
    findings = (Finding(f"settings that are not used: {unused}", "unused", unused),) if others else ()
    return Table(str(path), _columns(path, entries), "entry", range(1, len(entries) + 1), settings, findings)


def write_json(columns: Columns, settings: Settings) -> bytes:
    """Return the content of a ``.json`` file."""
    entries = [dict(zip(columns, row, strict=True)) for row in plain_rows(columns)]
    return json.dumps({**settings, ENTRIES: entries}).encode()


def _columns(path: Path, entries: list[Any]) -> dict[str, np.ndarray]:
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise LogError(f"'{path}', entry {i + 1}: got {shown(entry)}; must be an object of values by name")
    names = dict.fromkeys(name for entry in entries for name in entry)
    check_size(path, 8 * len(names) * len(entries))
    return {name: _column([entry.get(name) for entry in entries]) for name in names}


def _column(values: list[Any]) -> np.ndarray:
    if all(value is None or isinstance(value, (int, float)) for value in values):
        with contextlib.suppress(OverflowError):  # a whole number that float64 does not reach
            return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    return text_column(str(value) for value in values)


JSON = Format(
    (".json", ".json.gz"),
    "as [BAM](https://github.com/Rhoban/bam)'s test stands write it: settings, and `entries`, a list of samples",
    read_json,
    write_json,
)
