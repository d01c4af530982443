# SPDX-License-Identifier: Apache-2.0
"""A log as people look at it: a row per joint, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .units import held_in

if TYPE_CHECKING:
    from .log import JointLog, Log

_HEADER = ("joint", "samples", "rate", "span", "position", "command", "unit in file", "also logged")


def describe(log: Log) -> str:
    """What a log holds, as text: a row per joint, its settings, and what was found and done."""
    rows = [_HEADER, *(_row(log, joint) for joint in log.joints)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    lines = [log.path]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if log.settings:
        lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in log.settings.items()))
    lines += ["found:", *(f"- {finding}" for finding in log.findings)] if log.findings else ["found: nothing unusual"]
    return "\n".join(lines)


def _row(log: Log, joint: JointLog) -> Sequence[str]:
    rate = 1.0 / float(np.median(np.diff(log.time)))
    command = joint.command if joint.command is not None else joint.effort_command
    quantity = "command" if joint.command is not None else "effort_command"
    shown = {"position", quantity}
    units = dict.fromkeys(joint.units.get(name, "") for name in ("position", quantity) if name in joint.units)
    others = (f"{name} [{joint.units[name]}]" if name in joint.units else name for name in joint.quantities())
    return (
        joint.name,
        str(len(log)),
        f"{rate:.4g} Hz",
        f"{log.duration:.4g} s",
        _range(joint, "position", joint.position),
        "none" if command is None else _range(joint, quantity, command),
        ", ".join(units) or "unknown",
        ", ".join(text for text, name in zip(others, joint.quantities(), strict=True) if name not in shown),
    )


def _range(joint: JointLog, quantity: str, values: np.ndarray) -> str:
    unit = held_in(quantity, joint.units[quantity]) if quantity in joint.units else ""
    return f"{values.min():.4g} to {values.max():.4g} {unit}".rstrip()
