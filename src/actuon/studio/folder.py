# SPDX-License-Identifier: Apache-2.0
"""Folder that the page may read from and write to."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import RobotFileError, shown
from ..typing import PathLike

_DEEPEST = 3
_MOST = 200
_MOST_FOLDERS = 1000


class Folder:
    """Files inside of a folder, by untrusted names.

    Args:
        root: The folder.
    """

    def __init__(self, root: PathLike):
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise RobotFileError(f"'{root}' is not a folder")

    def inside(self, name: str, formats: Sequence[str]) -> Path:
        """Return the file of this name, with links resolved.

        Args:
            name: Relative to the folder.
            formats: Allowed endings, in lower case.

        Raises:
            RobotFileError: The file is outside of the folder, or has another ending.
        """
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise RobotFileError(f"got {shown(name)}; must be the name of a file")
        try:
            path = (self.root / name.strip()).resolve()
            path.exists()  # raises an error if the name is too long
        except (OSError, RuntimeError) as error:
            raise RobotFileError(f"'{name}' cannot be used: {error}") from error
        if path == self.root or not path.is_relative_to(self.root):
            raise RobotFileError(f"'{name}' is outside of '{self.root}'; the page reads and writes only inside of it")
        if not path.name.lower().endswith(tuple(formats)):
            raise RobotFileError(f"'{name}' has the format '{path.suffix}'; must be one of {', '.join(formats)}")
        return path

    def to_read(self, name: str, formats: Sequence[str]) -> Path:
        """Return an existing file; otherwise like `inside`."""
        path = self.inside(name, formats)
        if not path.is_file():
            raise RobotFileError(f"'{name}' is not a file in '{self.root}'")
        return path

    def to_write(self, name: str, formats: Sequence[str], replace: bool = False) -> Path:
        """Return a file to be written; otherwise like `inside`. Raise an error if it exists, unless ``replace``."""
        path = self.inside(name, formats)
        if path.exists() and not replace:
            raise RobotFileError(f"'{name}' exists; choose another name, or tick Replace files")
        if path.is_dir():
            raise RobotFileError(f"'{name}' is a folder; must be a file")
        if not path.parent.is_dir():
            raise RobotFileError(f"'{name}': its folder does not exist")
        return path

    def files(self, formats: Sequence[str]) -> list[str]:
        """Return the names of files of these formats, up to three folders deep, without hidden files and links."""
        found: list[str] = []
        for folder, below, names in itertools.islice(os.walk(self.root), _MOST_FOLDERS):
            depth = len(Path(folder).relative_to(self.root).parts)
            below[:] = [] if depth >= _DEEPEST else sorted(name for name in below if not name.startswith("."))
            kept = [name for name in names if name.lower().endswith(tuple(formats)) and not name.startswith(".")]
            found += [os.path.relpath(os.path.join(folder, name), self.root) for name in kept]
            if len(found) >= _MOST:
                break
        return sorted(found)[:_MOST]
