# SPDX-License-Identifier: Apache-2.0
"""Charts as data, and how they are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actuon.errors import MissingExtraError

FORMATS = (".png", ".svg", ".pdf")
"""Of pictures."""


def pyplot() -> Any:
    """Matplotlib, without a screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "a plot") from error
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot().close(figure)
