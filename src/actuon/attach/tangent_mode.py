# SPDX-License-Identifier: Apache-2.0
"""Efforts that reach the engine as tangents: with their slopes by position and velocity, and their bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np
import warp as wp

from ..actuator_config import Part, built
from ..declare.effort_mode import EXPLICIT, TANGENT
from ..errors import StructureError
from ..kernel.structure import BOUNDS, SLOPES
from ..sim import Articulation
from ..sim.engine_drives import Tangent
from ..tangent import why_no_slopes

TANGENT_ATTRS = {name: f"tangent_{name}" for name in (*SLOPES, *BOUNDS)}
"""What the arrays are called to which actuators write slopes and bounds of their efforts."""


def check_slopes(where: str, stages: Sequence[Part]) -> None:
    """Refuse a chain whose slopes cannot be had.

    Raises:
        StructureError: It has none; says ``where``, and why.
    """
    why = why_no_slopes([built(part) for part in stages], requires_grad=False)
    if why:
        raise StructureError(
            f"{where}: effort_mode '{TANGENT}' needs slopes of the effort, but {why}; use '{EXPLICIT}'"
        )


class TangentHandOver:
    """Hands tangents to the engine, and reads the efforts that it applied.

    Args:
        articulation: The robots.
        columns: DOFs whose efforts are tangents, shape (d,).
        effort: What the actuators give [N·m or N], shape (N, D).
        signals: What they give beside it, slopes and bounds among it, each of shape (N, D).
        undo: Gets what makes the engine let go of slopes.
    """

    def __init__(
        self,
        articulation: Articulation,
        columns: np.ndarray,
        effort: wp.array,
        signals: Mapping[str, wp.array],
        undo: contextlib.ExitStack,
    ):
        simulation = articulation.simulation
        self.columns = columns
        self._tangent = Tangent(effort, *(signals[name] for name in (*SLOPES, *BOUNDS)))
        undo.callback(simulation.hold_slopes(articulation.robot_ids, columns))
        self._forgotten = np.zeros(len(articulation), dtype=bool)
        self._held = simulation.hold_tangent(articulation.robot_ids, columns, self._tangent)

    def hand_over(self, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Hand the tangents of this step to the engine.

        Args:
            bounds: Lowest and highest effort of joints in the engine, each of shape (N, D), which the efforts have been
                kept to. None: there are none.
        """
        self._forgotten[:] = False
        if bounds is not None:
            given = self._tangent.effort.numpy()
            clipped = (given <= bounds[0]) | (given >= bounds[1])
            for slope in (self._tangent.slope_q, self._tangent.slope_qd):
                slope.numpy()[clipped] = 0.0
            for array, bound, tighter in (
                (self._tangent.lower, bounds[0], np.fmax),
                (self._tangent.upper, bounds[1], np.fmin),
            ):
                tighter(array.numpy(), bound, out=array.numpy())
        self._held.write()

    def show(self, applied: np.ndarray) -> None:
        """Write the efforts that the engine applied in its last step into an array of shape (N, D)."""
        applied[:, self.columns] = np.where(self._forgotten[:, None], 0.0, self._held.applied())

    def forget(self, rows: np.ndarray) -> None:
        """Show no efforts of these robots until the next step."""
        self._forgotten[rows] = True
