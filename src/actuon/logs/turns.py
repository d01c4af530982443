# SPDX-License-Identifier: Apache-2.0
"""Angles that jump by a turn, where the encoder or the driver starts again."""

from __future__ import annotations

import math

import numpy as np

from .log import JointLog
from .table import Table

_SMALL = 0.5
"""Usual changes from one sample to the next [rad]; with greater ones, nobody can tell a jump from them."""


def unwrap_turns(joint: JointLog, time: np.ndarray, table: Table, rows: np.ndarray, findings: list[str]) -> JointLog:
    """The joint with a position that goes on where it passed the end of a turn, and commands on the same turns."""
    position = joint.position
    jumps = _jumps(position, time)
    if not len(jumps):
        return joint
    findings.append(
        f"{joint.name}: the position jumps by a turn {_times(len(jumps))} (first: {table.row(rows[jumps[0] + 1])}), "
        "and is unwrapped"
    )
    unwrapped = _joined(position, jumps)
    if joint.command is None:
        return joint.replaced({"position": unwrapped})
    command = _joined(joint.command, _jumps(joint.command, time))
    turns = float(np.median(np.round((unwrapped - command) / math.tau)))
    return joint.replaced({"position": unwrapped, "command": command + math.tau * turns})


def _jumps(angle: np.ndarray, time: np.ndarray) -> np.ndarray:
    """The samples after which an angle that stays within one turn jumps from one end of it to the other."""
    if not math.pi < np.ptp(angle) < 1.001 * math.tau:
        return np.array([], dtype=int)
    steps, change = np.diff(time), np.abs(np.diff(angle))
    if np.quantile(change, 0.75) > _SMALL:
        return np.array([], dtype=int)
    found: np.ndarray = np.flatnonzero((change > 0.75 * math.tau) & (steps < 5.0 * np.median(steps)))
    return found


def _joined(angle: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """The angle, taken on by a turn from each jump on."""
    turns = np.zeros(len(angle))
    turns[jumps + 1] = -np.sign(np.diff(angle)[jumps])
    joined: np.ndarray = angle + math.tau * np.cumsum(turns)
    return joined


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
