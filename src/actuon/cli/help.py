# SPDX-License-Identifier: Apache-2.0
"""Layout of help texts: titled blocks of names and sentences, wrapped at words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from cyclopts.help import HelpEntry, HelpPanel
from rich.console import Console, ConsoleOptions
from rich.text import Text

WIDEST = 90
"""Longest line of a help text [characters]."""
_NARROW = 60
"""Width of a terminal below which a sentence is written below its name [characters]."""
_COLUMNS = {"command": 7, "parameter": 17}
"""Smallest width of the column of names [characters]; the sentence of a longer option begins after its name."""


class HelpFormatter:
    """Help without frames: a usage line, paragraphs, and a block for each group of commands or options."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group."""
        rows = [(_name(entry, panel.format), _sentence(console, entry)) for entry in panel.entries]
        if not rows:
            return
        console.print()
        console.print(Text(str(panel.title), "bold"))
        column = _COLUMNS[panel.format]
        if panel.format == "command":
            column = max(column, *(len(name) for name, _ in rows))
        _print(console, _aligned(rows, column, console.width))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage line."""
        _print(console, f"Usage: {usage}".rstrip().splitlines())

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Print the paragraphs of a docstring."""
        for paragraph in _plain(console, description).split("\n\n"):
            console.print()
            _print(console, wrapped(paragraph, console.width))


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return the lines of a text, wrapped at words.

    Args:
        text: Words; line breaks count as spaces.
        width: Width of a line [characters].
        first: Beginning of the first line.
        rest: Beginning of the other lines.
    """
    words = text.split()
    if words and first.strip() and len(first) + len(words[0]) > width:
        return [first.rstrip(), *wrapped(text, width, rest, rest)]
    return textwrap.wrap(
        " ".join(words),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _aligned(rows: Iterable[tuple[str, str]], column: int, width: int) -> Iterator[str]:
    """Return the lines of names with their sentences next to them, or below them if there is no room."""
    for name, sentence in rows:
        if width < _NARROW:
            yield f"  {name}"
            yield from wrapped(sentence, width, " " * 6, " " * 6)
        else:
            yield from wrapped(sentence, width, f"  {name:<{column}}  ", " " * (column + 4)) or [f"  {name}"]


def _name(entry: HelpEntry, kind: str) -> str:
    if entry.positional_label:
        return entry.positional_label
    names = ", ".join((*entry.positive_shorts, *entry.positive_names))
    return f"{names} {entry.metavar}" if kind == "parameter" and entry.metavar else names


def _sentence(console: Console, entry: HelpEntry) -> str:
    """Return the sentence of an option, with its default in brackets."""
    has_default = entry.default is not None and entry.metavar is not None and not entry.positional_label
    default = f" [{entry.default}]" if has_default else ""
    return _plain(console, entry.description) + default


def _plain(console: Console, renderable: Any) -> str:
    """Return the characters of a renderable."""
    segments = console.render(renderable, console.options.update(width=10_000))
    return "".join(segment.text for segment in segments).strip()


def _print(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(line), soft_wrap=True)
