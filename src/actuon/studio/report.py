# SPDX-License-Identifier: Apache-2.0
"""A page for reports: what the studio shows now, in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..actuator.config import ActuatorConfig
from ..errors import MissingExtraError
from ..files import replacing
from .numbers import numbers_of
from .saving import entries_of

_STYLE = (
    "body{font-family:system-ui,sans-serif;max-width:60em;margin:2em auto;color:#222}"
    "td,th{padding:0.1em 1em 0.1em 0;text-align:left}svg{max-width:34em}img{max-width:100%}"
)


def as_png(picture: np.ndarray) -> bytes:
    """An image of shape (H, W, 3 or 4), 8 bits each, as a PNG file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "studio", "a picture of the page") from error
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def save_report(
    path: Path,
    title: str,
    picture: bytes | None,
    status: str,
    plots: Mapping[str, str],
    configs: Mapping[str, ActuatorConfig],
) -> None:
    """Write a report.

    Args:
        path: The HTML file.
        title: Of the robot, and the joint in the plots.
        picture: Of the robot, a PNG file; None where no page is open.
        status: Pace, energy and the like, as HTML.
        plots: By name, as SVG and HTML.
        configs: The actuators by joint.
    """
    image = ""
    if picture is not None:
        image = f'<img alt="the robot" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>{image}{status}{''.join(plots.values())}"
        f"<h2>Values</h2>{_values(configs)}</html>\n"
    )
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _values(configs: Mapping[str, ActuatorConfig]) -> str:
    parts = []
    for entry in entries_of(configs):
        rows = "".join(
            f"<tr><td>{html.escape(number.stage_name)}</td><td>{html.escape(number.label)}</td>"
            f"<td>{html.escape(str(number.value))}</td></tr>"
            for number in numbers_of(entry.actuator)
        )
        parts.append(f"<h3>{html.escape(', '.join(entry.joints))}</h3><table>{rows}</table>")
    return "".join(parts)
