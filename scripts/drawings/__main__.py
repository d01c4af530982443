# SPDX-License-Identifier: Apache-2.0
"""Write the drawings of the documentation: ``python -m scripts.drawings [--only NAME ...]``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from . import diagrams
from .style import in_style, svg

DRAWINGS: dict[str, Callable[[], Figure]] = {"chain": diagrams.chain, "timing": diagrams.timing}
"""By the name of their file, without its suffix."""


def write(name: str, folder: Path) -> Path:
    """Draw one of them into a folder."""
    with in_style():
        text = svg(DRAWINGS[name]())
    path = folder / f"{name}.svg"
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.drawings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=DRAWINGS, metavar="NAME", help="drawings to write")
    parser.add_argument("--folder", type=Path, default=Path("docs/images"), help="where to write them")
    options = parser.parse_args()
    for chosen in options.only or DRAWINGS:
        print(f"wrote {write(chosen, options.folder)}")
