# SPDX-License-Identifier: Apache-2.0
"""Writes the documentation's parameter tables from the declarations: ``python -m actuon.tools.reference PAGES``."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import actuon

_MARK = re.compile(r"<!-- parameters: (\w+) -->\n(?:\|.*\n)*")


def parameter_table(config: type[actuon.Config]) -> str:
    """A Markdown table of the parameters of ``config``."""
    lines = ["| parameter | unit | range | default | in USD | |", "|---|---|---|---|---|---|"]
    for field in dataclasses.fields(config):
        declared = config.declared()[field.name]
        left_open = "left open" if declared.nullable else "required"
        default = left_open if field.default in (None, dataclasses.MISSING) else f"{field.default}"
        fallback = left_open if declared.fallback is None else f"{declared.fallback}"
        allowed = declared.range.replace(f" [{declared.unit}]", "")
        lines.append(f"| `{field.name}` | {declared.unit} | {allowed} | {default} | {fallback} | {declared.doc} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    for page in sorted(Path(sys.argv[1]).rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        written = _MARK.sub(lambda m: f"<!-- parameters: {m[1]} -->\n{parameter_table(getattr(actuon, m[1]))}", text)
        if written != text:
            page.write_text(written, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
