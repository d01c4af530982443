# SPDX-License-Identifier: Apache-2.0
"""What actuators on robots did in a step, as people ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..actuator import Actuator
from ..kernel.structure import CLIPPED, LIMITED_BY

ENGINE = "engine"
"""What limited an effort where the limit is that of the joint in the engine."""


@dataclass(frozen=True)
class Telemetry:
    """What the actuators did in the last step, each of shape (N, D); zero on DOFs without an actuator."""

    dof_names: list[str]
    computed_effort: np.ndarray
    """What the controllers wanted [N·m or N]."""
    applied_effort: np.ndarray
    """What the limits left of it, and the joint got [N·m or N]."""
    clipped: np.ndarray
    """Whether a limit took something away."""
    limited_by: np.ndarray
    """Which stage did so last, by the name of its class, such as ``"ClampingDCMotor"``, or ``"engine"`` for a limit
    that the robot's model puts on the joint; empty where none did."""
    signals: Mapping[str, np.ndarray]
    """What stages of the chains offer, such as a motor's current, by name; NaN on DOFs without it, and before the first
    step."""


def make_telemetry(
    dof_names: list[str],
    computed: np.ndarray,
    applied: np.ndarray,
    signals: dict[str, np.ndarray],
    actuators: Sequence[Actuator],
    bounds: tuple[np.ndarray, np.ndarray] | None,
) -> Telemetry:
    """Make it from what actuators wrote.

    Args:
        dof_names: Names of the DOFs.
        computed: What the controllers wanted [N·m or N], shape (N, D).
        applied: What the joints got [N·m or N], shape (N, D).
        signals: What stages offered, each of shape (N, D).
        actuators: Whose stages.
        bounds: Lowest and highest effort that the engine lets through, each of shape (N, D). None: any.
    """
    with np.errstate(invalid="ignore"):  # infinity less infinity, which is told elsewhere
        clipped = np.abs(computed - applied) > CLIPPED * np.abs(computed)
    limited_by = np.full(applied.shape, "", dtype=object)
    positions = signals.pop(LIMITED_BY, None)
    if positions is not None:
        flat, numbers = limited_by.reshape(-1), positions.reshape(-1)
        for actuator in actuators:
            at = actuator.effort_indices.numpy()
            for position, stage in enumerate(actuator.stages):
                flat[at[numbers[at] == position]] = type(stage).__name__
    if bounds is not None:
        limited_by[clipped & ((applied <= bounds[0]) | (applied >= bounds[1]))] = ENGINE
    return Telemetry(dof_names, computed, applied, clipped, limited_by, signals)
