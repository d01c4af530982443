# SPDX-License-Identifier: Apache-2.0
"""The torque-speed plane: the envelope, and the joint's path on it."""

from __future__ import annotations

import numpy as np

from ..actuator.trials import Envelope
from .svg import BLUE, GREY, ORANGE, RED, Canvas, Line

_OUTSIDE = 1.25
"""How far beyond the envelope a path is shown."""
_HEIGHT = 285.0


def draw_plane(
    envelope: Envelope | None,
    velocity: np.ndarray,
    effort: np.ndarray,
    is_clipped: np.ndarray,
    units: tuple[str, str],
) -> str:
    """An SVG picture.

    Args:
        envelope: What the actuator can give; None where that is not limited.
        velocity: Of the joint over time [rad/s or m/s], shape (T,).
        effort: That it got [N·m or N], shape (T,).
        is_clipped: Whether a limit took something away, shape (T,).
        units: Of position and effort.
    """
    fastest = float(np.abs(velocity).max(initial=0.0))
    strongest = float(np.abs(effort).max(initial=0.0))
    if envelope is not None:
        widest = float(envelope.velocity[-1])
        fastest = min(max(fastest, widest), _OUTSIDE * widest)
        strongest = max(strongest, float(np.abs([envelope.least, envelope.most]).max()))
    across, up = 1.03 * fastest or 1.0, 1.12 * strongest or 1.0
    labels = f"velocity [{units[0]}/s]", f"effort [{units[1]}]"
    canvas = Canvas((-across, across), (-up, up), _HEIGHT, labels)
    legend = []
    if envelope is not None:
        around = np.concatenate([envelope.velocity, envelope.velocity[::-1]])
        canvas.area(around, np.concatenate([envelope.most, envelope.least[::-1]]), BLUE, "envelope")
        legend.append(("can give", BLUE))
    if len(velocity):
        velocity = np.clip(velocity, -across, across)
        canvas.line(Line("path", velocity, effort, GREY, 1.0))
        canvas.line(Line("clipped", velocity, np.where(is_clipped, effort, np.nan), RED, 3.5, is_dots=True))
        canvas.spot(velocity[-1], effort[-1], ORANGE)
    return canvas.text([*legend, ("path", GREY), ("clipped", RED), ("now", ORANGE)])
