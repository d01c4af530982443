# SPDX-License-Identifier: Apache-2.0
"""Write ``llms.txt``, a map of the documentation for language models: ``python -m scripts.llms site/llms.txt``.

The format is that of llmstxt.org: the title and summary of the site, then a list of links for each section.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def llms_text() -> str:
    """Return the map: every page of the navigation with its title and its first sentence."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    sections = [f"# {project['site_name']}\n\n> {project['site_description']}\n"]
    for entry in project["nav"]:
        for title, pages in entry.items():
            lines = "\n".join(_link(page) for page in _pages(pages))
            sections.append(f"## {title}\n\n{lines}\n")
    return "\n".join(sections)


def _pages(entries: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation, in order."""
    if isinstance(entries, str):
        yield entries
        return
    parts: Iterable[Any] = entries.values() if isinstance(entries, dict) else entries
    for part in parts:
        yield from _pages(part)


def _link(page: str) -> str:
    """Return the link to a page, with the question that it answers, or its first sentence."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    text = re.sub(r'^--8<-- "(.+)"$', lambda found: (ROOT / found[1]).read_text("utf-8"), text, flags=re.MULTILINE)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = re.findall(r"^(?=[A-Z`\[])(?:.+\n?)+", prose, re.MULTILINE)
    sentences = [re.split(r"(?<=[.?!])\s", " ".join(paragraph.split()))[0] for paragraph in paragraphs]
    sentence = next((each for each in sentences if each[-1] in ".?:"), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", sentence)
    name = title[1] if title else Path(page).stem.capitalize()
    return f"- [{name}]({page.removesuffix('.md')}.html)" + (f": {plain}" if plain else "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(llms_text(), "utf-8")
