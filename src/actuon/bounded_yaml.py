# SPDX-License-Identifier: Apache-2.0
"""YAML whose size is known before anything is made of it.

An alias stands for all that it refers to, so that a few lines can mean more than fits into a memory. What a file means
is therefore counted first, aliases written out, while it passes as a stream of events; only then is it loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ActuonError, MissingExtraError, RobotFileError
from .files import is_unicode, read_text

LARGEST_FILE = 2**20
"""Bytes of a file."""
MOST_VALUES = 50_000
"""Values of a file, keys included and aliases written out."""
DEEPEST = 32
"""Lists and mappings inside each other, aliases written out."""
LONGEST_TEXT = 4096
"""Characters of one value."""
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./*|+-]*")
"""Text that means the same with and without quotes, unless it reads as a number or the like, which ruamel notices."""


def plain_yaml() -> Any:
    """A reader and writer of plain values: no tags that make objects."""
    try:
        from ruamel.yaml import YAML
    except ImportError as error:
        raise MissingExtraError("ruamel.yaml", "yaml", "reading and writing actuon.yaml") from error
    yaml = YAML(typ="safe", pure=True)

    class Representer(yaml.Representer):  # type: ignore[misc, name-defined]
        """Puts all other text in quotes: ruamel leaves some of it plain, and then reads something else."""

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
    """The one document of a file, as plain values.

    Args:
        path: Of the file.
        largest: Bytes that it may have.
        most: Values that it may mean.

    Raises:
        RobotFileError: The file cannot be read, is not a valid YAML file, or is larger than the bounds above.
    """
    text = read_text(path, largest)
    try:
        _check_size(str(path), plain_yaml().parse(text), most)
        return plain_yaml().load(text)
    except ActuonError:
        raise
    except Exception as error:  # ruamel has a tree of its own
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise RobotFileError(f"{path}{at}: is not a valid YAML file: {problem[:200]}") from error


@dataclass
class _Extent:
    """A value, with all that is in it: one that is complete, or a list or mapping that is being read."""

    values: int
    depth: int
    """Lists and mappings inside each other."""
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
            problem = f"the file means more than {most} values, aliases written out; write less"
        if around and len(around) - 1 + around[-1].depth > DEEPEST:
            problem = f"lists and mappings are more than {DEEPEST} deep inside each other, aliases written out"
        if problem:
            raise RobotFileError(f"{path}:{event.start_mark.line + 1}: {problem}")


def _problem_of_text(text: str) -> str | None:
    if len(text) > LONGEST_TEXT:
        return f"a value has {len(text)} characters; must have at most {LONGEST_TEXT}"
    return None if is_unicode(text) else f"{text!r} holds half a character (an unpaired surrogate); must be text"
