# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files, and reading with a size limit."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ActuonError, MissingExtraError, RobotFileError


def check_readable(path: Path, formats: Sequence[str]) -> None:
    """Raise an error for a path that is not a readable file with one of these endings, in lower case."""
    check_name(path)
    if os.path.isdir(path):
        raise RobotFileError(f"'{path}' is a directory; must be a file")
    if path.suffix.lower() not in formats:
        raise RobotFileError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(formats)}")
    try:
        with path.open("rb") as stream:
            empty = not stream.read(1)
    except FileNotFoundError as error:
        raise RobotFileError(f"'{path}' does not exist") from error
    except OSError as error:
        raise RobotFileError(f"'{path}' cannot be read: {error.strerror or error}") from error
    if empty:
        raise RobotFileError(f"'{path}' is empty; must be a valid {path.suffix} file")


def check_name(path: Path) -> None:
    """Raise an error for the name of a file that USD and the engines cannot open: not UTF-8, or with a NUL."""
    if not is_unicode(str(path)) or "\0" in str(path):
        readable = str(path).encode(errors="backslashreplace").decode()
        raise RobotFileError(f"'{readable}': the name is not valid UTF-8; rename the file")


def check_folder(folder: Path) -> None:
    """Raise an error for a folder that cannot be created or written to. Leaves nothing behind."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise RobotFileError(f"'{folder}' is a file; must be a folder")
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RobotFileError(f"the folder '{folder}' cannot be written to: {error.strerror}") from error
    finally:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file next to ``path``. It replaces ``path`` at the end, and is removed on an error.

    Raises:
        RobotFileError: The folder does not exist or is not writable, or ``path`` is not a regular file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise RobotFileError(f"'{path}' cannot be written: it is not a regular file")
    if not target.parent.is_dir():
        raise RobotFileError(f"'{path}' cannot be written: its folder does not exist")
    partial: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        partial = Path(name)
        yield partial
        os.chmod(partial, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.replace(partial, target)
    except OSError as error:
        raise RobotFileError(f"'{path}' cannot be written: {error.strerror or error}") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def json_text(document: Any) -> str:
    """Return a document as JSON, with null for numbers that are not finite, which JSON does not have."""
    return json.dumps(_finite(document), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_text(path: Path, largest: int) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark.

    Args:
        path: The file.
        largest: Largest number of bytes.

    Raises:
        RobotFileError: It cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(largest + 1)
    except FileNotFoundError as error:
        raise RobotFileError(f"'{path}' does not exist") from error
    except OSError as error:
        raise RobotFileError(f"'{path}' cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in its name
        raise RobotFileError(f"'{path}' cannot be read: {error}") from error
    if len(data) > largest:
        raise RobotFileError(f"'{path}' is too large; must have at most {largest} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RobotFileError(f"'{path}' is not UTF-8 text: {where_not_utf8(data)}; save it as UTF-8") from error


def where_not_utf8(data: bytes) -> str:
    """Describe the first byte of ``data`` that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return f"line {line} holds the byte 0x{data[error.start]:02x}"
    return ""


def is_unicode(text: str) -> bool:
    """Return whether ``text`` can be encoded. Escapes, and file names that are not UTF-8, can hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


LARGEST_FILE = 2**20
"""Largest number of bytes of a file."""
MOST_VALUES = 50_000
"""Largest number of values of a file, with its keys, aliases expanded."""
DEEPEST = 32
"""Largest depth of lists and mappings, aliases expanded."""
LONGEST_TEXT = 4096
"""Largest number of characters of a value."""
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./*|+-]*")
"""Text with the same meaning with and without quotes, except numbers and the like, which ruamel quotes itself."""


def plain_yaml() -> Any:
    """Return a YAML reader and writer of plain values, without tags that create objects."""
    try:
        from ruamel.yaml import YAML
    except ImportError as error:
        raise MissingExtraError("ruamel.yaml", "yaml", "reading and writing actuon.yaml") from error
    yaml = YAML(typ="safe", pure=True)

    class Representer(yaml.Representer):  # type: ignore[misc, name-defined]
        """Puts all other text in quotes: ruamel reads some unquoted text differently."""

    Representer.add_representer(
        str,
        lambda representer, text: representer.represent_scalar(
            "tag:yaml.org,2002:str", text, style=None if _PLAIN_TEXT.fullmatch(text) else '"'
        ),
    )
    yaml.Representer = Representer
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 200
    return yaml


def read_yaml(path: Path, largest: int = LARGEST_FILE, most: int = MOST_VALUES) -> Any:
    """Return the single document of a YAML file, as plain values.

    Args:
        path: The file.
        largest: Largest number of bytes.
        most: Largest number of values, aliases expanded.

    Raises:
        RobotFileError: The file cannot be read, is not a valid YAML file, or is too large.
    """
    text = read_text(path, largest)
    try:
        _check_size(str(path), plain_yaml().parse(text), most)
        return plain_yaml().load(text)
    except ActuonError:
        raise
    except Exception as error:  # ruamel has its own error classes
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise RobotFileError(f"{path}{at}: is not a valid YAML file: {problem[:200]}") from error


@dataclass
class _Extent:
    """Size of a value: complete, or a list or mapping that is being read."""

    values: int
    depth: int
    """Depth of lists and mappings."""
    anchor: str | None = None

    def add(self, inner: _Extent) -> None:
        self.values += inner.values
        self.depth = max(self.depth, inner.depth + 1)


def _check_size(path: str, events: Iterable[Any], most: int) -> None:
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent

    anchored: dict[str, _Extent] = {}
    around: list[_Extent] = []
    for event in events:
        complete: _Extent | None = None
        problem: str | None = None
        if isinstance(event, ScalarEvent):
            complete = _Extent(1, 0, event.anchor)
            problem = _problem_of_text(event.value)
        elif isinstance(event, AliasEvent):
            if any(collection.anchor == event.anchor for collection in around):
                problem = f"*{event.anchor} refers to a value that contains it"
            complete = anchored.get(event.anchor, _Extent(1, 0))
        elif isinstance(event, CollectionStartEvent):
            around.append(_Extent(1, 1, event.anchor))
        elif isinstance(event, CollectionEndEvent):
            complete = around.pop()
        if complete is not None:
            if complete.anchor:
                anchored[complete.anchor] = complete
            if around:
                around[-1].add(complete)
        if sum(collection.values for collection in around) > most:
            problem = f"the file has more than {most} values with its aliases expanded; use fewer"
        if around and len(around) - 1 + around[-1].depth > DEEPEST:
            problem = f"lists and mappings are more than {DEEPEST} deep, aliases expanded"
        if problem:
            raise RobotFileError(f"{path}:{event.start_mark.line + 1}: {problem}")


def _problem_of_text(text: str) -> str | None:
    if len(text) > LONGEST_TEXT:
        return f"a value has {len(text)} characters; must have at most {LONGEST_TEXT}"
    return None if is_unicode(text) else f"{text!r} holds half a character (an unpaired surrogate); must be text"
