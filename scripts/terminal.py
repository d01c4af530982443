# SPDX-License-Identifier: Apache-2.0
"""Output of the ``actuon`` command, as text for blocks on pages, and as pictures with its colours."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import actuon
from actuon.cli import show
from actuon.cli.main import main as run_command

from .figure_style import FAINT, INK, MUTED, PANEL, WIDTH, in_points

_TUTORIAL = Path(__file__).resolve().parents[1] / "docs/tutorials/fit.md"
_GREY, _RED, _GREEN, _YELLOW, _BLUE = (82, 96, 109), (192, 52, 44), (31, 122, 73), (160, 98, 0), (47, 111, 208)
_PANEL, _INK = (255, 255, 255), (31, 41, 51)
_COLOURS = [_INK, _RED, _GREEN, _YELLOW, _BLUE, _BLUE, _BLUE, _GREY]
_THEME = TerminalTheme(_PANEL, _INK, _COLOURS)
"""Dark colours, as the panel is light."""
_HEIGHT = 20
"""Of a character in a picture of Rich [px]."""
_ASPECT = 0.6
"""Width of a character over its height, in most monospaced fonts."""
_FONTS = "Menlo, 'DejaVu Sans Mono', 'Liberation Mono', Consolas, monospace"
_SVG = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px FONTS }}
.{unique_id}-title {{ font: bold {char_height}px FONTS }}
{styles}
</style>
<rect width="100%" height="100%" rx="8" fill="PANEL" stroke="FAINT" stroke-width="2"/>
<text class="{unique_id}-title" x="{terminal_x}" y="28" fill="INK"><tspan fill="MUTED">$</tspan> TITLE</text>
<g class="{unique_id}-matrix" transform="translate({terminal_x}, {terminal_y})">
{matrix}
</g>
</svg>
"""
_TEXT = re.compile(r'<text class="(\S+)" x="(\S+)" y="(\S+)" textLength="\S+" clip-path="\S+">(.*?)</text>', re.DOTALL)
_CHANGING = re.compile(r"(?<= candidates) in \d+ s\b")
"""Times, which differ from run to run."""


class _Echo(io.TextIOBase):
    """Stream that prints plain text to a console."""

    def __init__(self, console: Console):
        self._console = console

    def write(self, text: str) -> int:
        self._console.out(text, end="", highlight=False)
        return len(text)

    def reconfigure(self, **_: Any) -> None:
        """Accept the settings of a standard stream."""


def printed(line: str, columns: int) -> Console:
    """Run a command line in the working directory; returns a console that recorded the output and its colours."""
    console = Console(file=io.StringIO(), width=columns, record=True)
    hidden = Console(file=io.StringIO())

    def make(stderr: bool = False, **_: Any) -> Console:
        console.width = columns  # which help texts narrow
        return hidden if stderr else console

    with (
        mock.patch.object(sys, "argv", shlex.split(line)),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        mock.patch.object(show, "Console", make),
        contextlib.redirect_stdout(_Echo(console)),
        contextlib.redirect_stderr(_Echo(console)),
        warnings.catch_warnings(),
        contextlib.suppress(SystemExit),
    ):
        run_command()
    return console


@dataclass(frozen=True)
class Terminal:
    """Picture of a command line and its output."""

    line: str
    columns: int
    """Width of the terminal [characters]."""

    def __call__(self) -> str:
        """Return the picture as SVG, with text that can be selected and in a font of the reader."""
        with _working_directory():
            text = printed(self.line, self.columns).export_text(styles=True)
        text = re.sub(r"\n{2,}", "\n", _CHANGING.sub("", text).strip("\n"))
        console = Console(file=io.StringIO(), width=self.columns, record=True)
        console.print(Text.from_ansi(text), soft_wrap=True)
        svg = console.export_svg(theme=_THEME, code_format=_SVG, font_aspect_ratio=_ASPECT, unique_id="terminal")
        return _finished(svg, self.line)


def _finished(svg: str, title: str) -> str:
    """Return an SVG of Rich as wide as a page, with plain spaces and without what its text does not need."""
    for name, value in {"TITLE": escape(title), "FONTS": _FONTS, "PANEL": PANEL, "FAINT": FAINT, "INK": INK}.items():
        svg = svg.replace(name, value)
    svg = _TEXT.sub(_phrases, svg.replace("MUTED", MUTED))
    width, height = (float(size) for size in re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0])
    size = f'<svg width="{in_points(WIDTH)}" height="{in_points(WIDTH * height / width)}" '
    svg = svg.replace("<svg ", size, 1)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def _phrases(found: re.Match[str]) -> str:
    """Return a text of Rich as texts without two spaces in a row, which browsers would merge, each at its place."""
    style, x, y, text = found.groups()
    width, text = _ASPECT * _HEIGHT, unescape(text)
    return "".join(
        f'<text class="{style}" x="{float(x) + width * phrase.start():g}" y="{y}" lengthAdjust="spacingAndGlyphs" '
        f'textLength="{width * len(phrase[0]):g}">{escape(phrase[0])}</text>\n'
        for phrase in re.finditer(r"\S+(?: \S+)*", text.replace("\xa0", " "))
    )


@contextlib.contextmanager
def _working_directory() -> Iterator[None]:
    """Work in a folder with the sample robots and the logs of the tutorial on fits."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for path in (*actuon.assets.FOLDER.glob("*.xml"), *actuon.assets.FOLDER.glob("*.actuon.yaml")):
            shutil.copy(path, folder)
        first = re.findall(r"^```python\n(.*?)^```", _TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
        Path("record.py").write_text(first, encoding="utf-8")
        runpy.run_path("record.py")
        yield


TERMINALS = {
    "terminal_check": Terminal("actuon check arm.xml --dt 0.01", 78),
    "terminal_run": Terminal("actuon run quadruped.xml", 96),
    "terminal_fit": Terminal("actuon fit swing.csv -o joint.yaml --model pd_coulomb", 90),
}
"""Pictures by the names of their files."""
