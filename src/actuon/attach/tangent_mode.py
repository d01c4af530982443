# SPDX-License-Identifier: Apache-2.0
"""``effort_mode="implicit"``: efforts that reach the engine as tangents.

A tangent is an effort with its slopes by position and velocity, and its bounds.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.config import EXPLICIT, IMPLICIT, Part, built
from ..actuator.implicit_step import slope_obstacle
from ..actuator.state import ActuatorState
from ..errors import ActuonError, StructureError
from ..kernel.chain import BOUNDS, SLOPES
from ..sim import Articulation
from ..sim.engine_drives import Ending, Tangent
from ..stability.limits import shares_of

COMPUTED = "computed"
"""What the array is called to which actuators write the effort before limits."""

TANGENT_ATTRS = {name: f"tangent_{name}" for name in (*SLOPES, *BOUNDS)}
"""What the arrays are called to which actuators write slopes and bounds of their efforts."""


def check_slopes(where: str, stages: Sequence[Part]) -> None:
    """Refuse a chain that has no slopes.

    Raises:
        StructureError: It has none; says ``where``, and why.
    """
    why = slope_obstacle([built(part) for part in stages], requires_grad=False)
    if why:
        raise StructureError(
            f"{where}: effort_mode '{IMPLICIT}' needs slopes of the effort, but {why}; use '{EXPLICIT}'"
        )


def mode_text(articulation: Articulation, columns: np.ndarray) -> str:
    """Describe how efforts reach the engine, with tangents of these DOFs; empty without any."""
    simulation = articulation.simulation
    changed = f" instead of {simulation.integrator_changed}" if simulation.integrator_changed else ""
    return f"implicit efforts of {len(columns)} DOFs, {simulation.integrator}{changed}" if columns.size else ""


def nothing() -> None:
    """Do nothing."""


def keep_to(tangent: Tangent, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
    """Keep a tangent on the CPU to the lowest and highest effort of joints in the engine, each of shape (N, D); None:
    any."""
    if bounds is None or not tangent.effort.device.is_cpu:
        return
    effort, slope_q, slope_qd, lower, upper = (array.numpy() for array in tangent)
    clipped = (effort <= bounds[0]) | (effort >= bounds[1])
    slope_q[clipped] = slope_qd[clipped] = 0.0
    np.clip(effort, *bounds, out=effort)
    np.fmax(lower, bounds[0], out=lower)
    np.fmin(upper, bounds[1], out=upper)


def _share(articulation: Articulation, actuators: Sequence[Actuator], columns: np.ndarray) -> float:
    """Share of the stability limit that tangents of these DOFs use; 0 where it cannot be told."""
    try:
        shares = shares_of(articulation, actuators, columns.tolist())
    except ActuonError:  # which a step will say
        return 0.0
    return max(shares[column] for column in columns.tolist())


class EndingChains:
    """The chains of tangents where a step ends: what they give there, remembering what they did before the step.

    Args:
        articulation: The robots.
        actuators: All actuators, of which those whose efforts are tangents count.
        states: What each remembered before the step that it took last; a list that changes.
        control: What they read and write, flat, by name.
        settle: Gets what they give at the end of a step, each of shape (N, D), by name; returns the effort that the
            engine would get, of the same shape, and what brings it up to date.
    """

    def __init__(
        self,
        articulation: Articulation,
        actuators: Sequence[Actuator],
        states: Sequence[ActuatorState | None],
        control: Mapping[str, wp.array],
        settle: Callable[[Mapping[str, wp.array]], tuple[wp.array, Callable[[], None]]],
    ):
        self._articulation, self._actuators, self._states = articulation, actuators, states
        self._own = [i for i, each in enumerate(actuators) if not {*SLOPES}.isdisjoint(each.control_signal_attrs)]
        shape = (len(articulation), articulation.num_dofs)
        names = {
            name
            for actuator in (actuators[i] for i in self._own)
            for name in (actuator.control_output_attr, COMPUTED, *actuator.control_signal_attrs.values())
        }
        given = {name: wp.zeros_like(control[name]).reshape(shape) for name in sorted(names)}
        effort, self._settle = settle(given)
        self.tangent = Tangent(effort, *(given[attr] for attr in TANGENT_ATTRS.values()))
        self._control = {**control, **{name: array.flatten() for name, array in given.items()}}
        self._scratch: list[ActuatorState | None] = []
        self._dt: float | None = None
        self._time = math.nan
        self._bounds: tuple[np.ndarray, np.ndarray] | None = None

    def begin(self, dt: float, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Be ready for the end of the step that is about to be taken."""
        self._dt, self._bounds, self._time = dt, bounds, self._articulation.simulation.time

    def evaluate(self) -> bool:
        """Bring ``tangent`` up to date with the state of the engine. False where the actuators were not stepped."""
        simulation = self._articulation.simulation
        if simulation.time != self._time:
            return False
        if not self._scratch:
            self._scratch = [self._actuators[i].state() for i in self._own]
        for i, scratch in zip(self._own, self._scratch, strict=True):
            self._actuators[i].step(simulation.arrays, self._control, self._states[i], scratch, self._dt)
        self._settle()
        keep_to(self.tangent, self._bounds)
        return True


class TangentHandOver:
    """Hands tangents to the engine, and reads the efforts that it applied.

    Args:
        articulation: The robots.
        actuators: All their actuators.
        columns: DOFs whose efforts are tangents, shape (d,).
        effort: What the actuators give [N·m or N], shape (N, D).
        signals: What they give beside it, slopes and bounds among it, each of shape (N, D).
        chains: What they give where a step ends.
        undo: Gets what makes the engine let go of slopes.
    """

    def __init__(
        self,
        articulation: Articulation,
        actuators: Sequence[Actuator],
        columns: np.ndarray,
        effort: wp.array,
        signals: Mapping[str, wp.array],
        chains: EndingChains,
        undo: contextlib.ExitStack,
    ):
        robots, simulation = articulation.robot_ids, articulation.simulation
        self.columns = columns
        self._chains = chains
        self._tangent = Tangent(effort, *(signals[name] for name in (*SLOPES, *BOUNDS)))
        self._forgotten = np.zeros(len(articulation), dtype=bool)
        share = functools.partial(_share, articulation, actuators, columns)
        undo.callback(simulation.hold_slopes(robots, columns, share))
        self._held = simulation.hold_tangent(robots, columns, self._tangent, Ending(chains.tangent, chains.evaluate))
        undo.callback(self._held.release)

    def hand_over(self, dt: float, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Hand the tangents of this step to the engine.

        Args:
            dt: Time step [s].
            bounds: Lowest and highest effort of joints in the engine, each of shape (N, D). None: there are none.
        """
        self._forgotten[:] = False
        keep_to(self._tangent, bounds)
        self._held.write()
        self._chains.begin(dt, bounds)

    def show(self, applied: np.ndarray) -> None:
        """Write the efforts that the engine applied in its last step into an array of shape (N, D)."""
        applied[:, self.columns] = np.where(self._forgotten[:, None], 0.0, self._held.applied())

    def forget(self, rows: np.ndarray) -> None:
        """Show no efforts of these robots until the next step."""
        self._forgotten[rows] = True
