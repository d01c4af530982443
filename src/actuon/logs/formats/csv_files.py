# SPDX-License-Identifier: Apache-2.0
"""CSV: a header and a row per sample. Comments before the header may hold settings: ``# mass: 0.49``."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from pathlib import Path

import numpy as np

from ...errors import LogError, shown
from ..log import Finding
from ..table import Columns, Format, Settings, Table
from .content import plain_rows, read_content, setting, text_column

_DELIMITERS = ",;\t"
_BOOLEANS = {"true": "1", "false": "0"}


def read_csv(path: Path) -> Table:
    """Return the columns of a ``.csv`` or ``.csv.gz`` file.

    Raises:
        LogError: It cannot be read, has no header, or a row has too many or too few cells.
    """
    text = read_content(path)
    settings, start, first = _settings(text)
    body = text[start:]
    if not body.strip():
        raise LogError(f"'{path}' is empty; must hold a header and a row per sample")
    lines = io.StringIO(body)
    delimiter = max(_DELIMITERS, key=body.partition("\n")[0].count)
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader)]
    except csv.Error as error:
        raise LogError(f"'{path}', line {first}: is not a valid CSV file: {error}") from error
    _check_header(path, first, header)
    first += reader.line_num - 1
    rest = lines.read()
    findings: list[Finding] = []
    if not rest.strip():
        raise LogError(f"'{path}' has a header and no samples")
    if delimiter == ";" and "," in rest:
        rest = rest.replace(",", ".")
        findings.append(Finding("numbers are written with a decimal comma", "number format"))
    values = _quickly(rest, delimiter, len(header))
    if values is not None:
        columns = dict(zip(header, values.T, strict=True))
        rows: range | list[int] = range(first + 1, first + 1 + len(values))
    else:
        columns, rows, cut = _carefully(path, rest, delimiter, header, first + 1)
        if cut:
            findings.append(Finding(f"line {cut} is cut off and is left out", "left out", f"line {cut}", "warning"))
    return Table(str(path), columns, "line", rows, settings, tuple(findings))


def write_csv(columns: Columns, settings: Settings) -> bytes:
    """Return the content of a ``.csv`` file, numbers with all digits."""
    stream = io.StringIO(newline="")
    for name, value in settings.items():
        stream.write(f"# {json.dumps(name)}: {json.dumps(value)}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([repr(value) for value in row] for row in plain_rows(columns))
    return stream.getvalue().encode()


def _settings(text: str) -> tuple[dict[str, float | str], int, int]:
    """Return the settings in comments before the header, the start of the header, and its line."""
    settings: dict[str, float | str] = {}
    start, line = 0, 1
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        content = text[start:end].strip()
        if content and not content.startswith("#"):
            break
        found = re.fullmatch(r'#\s*("(?:[^"\\]|\\.)*"|[^":]+?)\s*:\s*(.+)', content)
        if found:
            settings[str(setting(found[1]) if found[1].startswith('"') else found[1])] = setting(found[2])
        start, line = end + 1, line + 1
    return settings, start, line


def _check_header(path: Path, line: int, header: list[str]) -> None:
    for i, name in enumerate(header):
        if not name and i + 1 < len(header) and i > 0:
            raise LogError(f"'{path}', line {line}: column {i + 1} has no name")
        if name and name in header[:i]:
            raise LogError(f"'{path}', line {line}: two columns are called '{name}'; names must differ")
    if all(_is_number(name) for name in header if name):
        raise LogError(f"'{path}', line {line}: got the numbers {shown(header)}; the first line must name the columns")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quickly(body: str, delimiter: str, count: int) -> np.ndarray | None:
    """Return all cells, shape (T, C), if all are numbers and no line is empty; otherwise None."""
    if "\n\n" in body or "\r\n\r\n" in body or body.startswith(("\n", "\r")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.loadtxt(io.StringIO(body), delimiter=delimiter, ndmin=2, comments=None)
    except (ValueError, UserWarning):
        return None
    return values if values.shape[1] == count else None


def _carefully(
    path: Path, body: str, delimiter: str, header: list[str], line: int
) -> tuple[dict[str, np.ndarray], list[int], int]:
    """Return the columns, the line of each row, and the line of an incomplete last row, or 0."""
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter)
    cells: list[list[str]] = []
    rows: list[int] = []
    short = short_cells = 0
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            at = line + reader.line_num - 1
            if short:
                raise _wrong_length(path, short, len(header), short_cells)
            if len(row) > len(header):
                raise _wrong_length(path, at, len(header), len(row))
            if len(row) < len(header):
                short, short_cells = at, len(row)
                continue
            cells.append(row)
            rows.append(at)
    except csv.Error as error:
        raise LogError(f"'{path}', line {line + reader.line_num - 1}: is not a valid CSV file: {error}") from error
    if not cells:
        raise _wrong_length(path, short, len(header), short_cells) if short else LogError(f"'{path}' has no samples")
    return {name: _column([row[i] for row in cells]) for i, name in enumerate(header)}, rows, short


def _wrong_length(path: Path, line: int, expected: int, got: int) -> LogError:
    return LogError(f"'{path}', line {line}: got {got} cells; must be {expected}, one for each column")


def _column(cells: list[str]) -> np.ndarray:
    written = [cell.strip() for cell in cells]
    try:
        return np.array([_BOOLEANS.get(cell.lower(), cell) or "nan" for cell in written], dtype=np.float64)
    except ValueError:
        return text_column(written)


CSV = Format(
    (".csv", ".csv.gz"),
    "a header, a row per sample; comma, semicolon or tab; lines before the header such as `# mass: 0.49` are settings",
    read_csv,
    write_csv,
)
