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
from ..sim.engine import EndOfStep, Tangent
from ..stability.limits import shares_of

COMPUTED = "computed"
"""Name of the array to which actuators write the effort before limits."""

TANGENT_ATTRS = {name: f"tangent_{name}" for name in (*SLOPES, *BOUNDS)}
"""Names of the arrays to which actuators write slopes and bounds of their efforts."""


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
        effort: Gets the effort that the engine would get [N·m or N], shape (N, D). Default: what the chains give.
    """

    def __init__(
        self,
        articulation: Articulation,
        actuators: Sequence[Actuator],
        states: Sequence[ActuatorState | None],
        control: Mapping[str, wp.array],
        effort: wp.array | None,
    ):
        self._articulation, self._actuators, self._states = articulation, actuators, states
        self.own = [i for i, each in enumerate(actuators) if not {*SLOPES}.isdisjoint(each.control_signal_attrs)]
        """Positions of the actuators that count."""
        shape = (len(articulation), articulation.num_dofs)
        names = {
            name
            for actuator in (actuators[i] for i in self.own)
            for name in (actuator.control_output_attr, COMPUTED, *actuator.control_signal_attrs.values())
        }
        self.given = {name: wp.zeros_like(control[name]).reshape(shape) for name in sorted(names)}
        """Their outputs, by name, each of shape (N, D)."""
        if effort is None:
            effort = self.given[actuators[self.own[0]].control_output_attr]
        self.tangent = Tangent(effort, *(self.given[attr] for attr in TANGENT_ATTRS.values()))
        """Effort that the engine would get, with its slopes and bounds."""
        self.control = {**control, **{name: array.flatten() for name, array in self.given.items()}}
        """Arrays that the chains read and write at the end of a step, flat, by name."""
        self.scratch: dict[int, ActuatorState] = {}
        """States that they write, by position."""
        for i in self.own:
            state = actuators[i].state()
            if state is not None:
                self.scratch[i] = state
        self.settle: Callable[[], None] = nothing
        """Makes the effort that the engine would get of what they give."""
        self._dt: float | None = None
        self._time = math.nan

    def begin(self, dt: float) -> None:
        """Be ready for the end of the step that is about to be taken."""
        self._dt, self._time = dt, self._articulation.simulation.time

    def end(self) -> None:
        """Do not wait for the end of a step."""
        self._time = math.nan

    def begun_at(self, time: float) -> bool:
        """Return whether `begin` was called for the step that begins at ``time`` [s]."""
        return self._time == time

    def evaluate(self) -> bool:
        """Bring ``tangent`` up to date with the state of the engine. False where the actuators were not stepped."""
        simulation = self._articulation.simulation
        if simulation.time != self._time:
            return False
        for i in self.own:
            scratch = self.scratch.get(i)
            self._actuators[i].step(simulation.arrays, self.control, self._states[i], scratch, self._dt)
        self.settle()
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
        self.columns = columns
        self.chains = chains
        self.tangent = Tangent(effort, *(signals[name] for name in (*SLOPES, *BOUNDS)))
        self.forgotten = np.zeros(len(articulation), dtype=bool)
        """Robots that were reset since the last step, whose efforts are shown as zero, shape (N,)."""
        share = functools.partial(_share, articulation, actuators, columns)
        ending = EndOfStep(chains.tangent, chains.evaluate)
        at, tangents = articulation.at.of_dofs(columns), articulation.simulation.engine.tangents
        self._held = tangents.hold(at, self.tangent, ending, share)
        undo.callback(self._held.release)

    def hand_over(self, dt: float) -> None:
        """Hand the tangents of this step to the engine, whose time step is ``dt`` [s]."""
        self._held.write()
        self.has_run(dt)

    def has_run(self, dt: float) -> None:
        """Show what the engine has got."""
        self.forgotten[:] = False
        self.chains.begin(dt)

    def show(self, applied: np.ndarray) -> None:
        """Write the efforts that the engine applied in its last step into an array of shape (N, D)."""
        applied[:, self.columns] = np.where(self.forgotten[:, None], 0.0, self._held.applied())

    def forget(self, rows: np.ndarray) -> None:
        """Show no efforts of these robots until the next step."""
        self.forgotten[rows] = True

    def resume(self, forgotten: np.ndarray) -> None:
        """Go on after a saved step, which has ended, with the robots that were reset since."""
        self.forgotten[:] = forgotten
        self.chains.end()
