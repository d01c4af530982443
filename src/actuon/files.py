# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and read no further than they may be long."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import RobotFileError


def check_readable(path: Path, formats: Sequence[str]) -> None:
    """Refuse what is not a file of one of these formats, given by their endings in small letters, that can be read."""
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
        raise RobotFileError(f"'{path}' is empty; must hold a robot")


def check_name(path: Path) -> None:
    """Refuse the name of a file that USD and the engines cannot open: it must be UTF-8, and hold no NUL."""
    if not is_unicode(str(path)) or "\0" in str(path):
        readable = str(path).encode(errors="backslashreplace").decode()
        raise RobotFileError(f"'{readable}': the name is not valid UTF-8; rename the file")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to. Nothing is left behind."""
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
    """A temporary file beside ``path`` to write to. At the end it takes its place; on an error it is removed.

    Raises:
        RobotFileError: The folder is not there or not writable, or ``path`` is not a regular file.
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


def read_text(path: Path, largest: int) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Args:
        path: The file.
        largest: Bytes that it may have.

    Raises:
        RobotFileError: It cannot be read, is larger, or is not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(largest + 1)
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
    """The first byte of ``data`` that is not UTF-8, in words."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return f"line {line} holds the byte 0x{data[error.start]:02x}"
    return ""


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be written. Escapes, and file names that are not UTF-8, can hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
