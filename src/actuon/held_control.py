# SPDX-License-Identifier: Apache-2.0
"""Runs the controller of a chain at every k-th step, and holds what it gave in between.

There are two chains for the same stages and states: one with the controller, which keeps what it gives in the state,
and one in which that is taken from the state. A clock in the state picks one of them, on the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import warp as wp

from .actuator_state import assign_state
from .components.component import Component
from .components.controllers.controller import Controller
from .components.state import State
from .errors import StateError, StructureError
from .kernel.binding import Chain, Holding, held
from .kernel.fused import FusedRunner
from .kernel.staged import StagedRunner
from .kernel.structure import Stage
from .kernel.taped import TapedRunner


class Runner(Protocol):
    """A way to step a chain."""

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""


def runner_of(chain: Chain, requires_grad: bool, staged: bool) -> Runner:
    """The way to step a chain: as one kernel, or ``staged``, one kernel after the other."""
    if chain.holding is not None:
        return HeldControlRunner(chain, requires_grad, staged)
    return _runner(chain, requires_grad, staged)


def _runner(chain: Chain, requires_grad: bool, staged: bool) -> Runner:
    if staged:
        return StagedRunner(chain, requires_grad)
    return TapedRunner(chain) if requires_grad else FusedRunner(chain)


def holding_of(components: Sequence[Component], every: int) -> Holding | None:
    """How the controller among these stages runs at every k-th step; None where that is each step.

    Raises:
        StructureError: There is not one controller, or it works after the last stage too.
    """
    if every == 1:
        return None
    found = [position for position, component in enumerate(components) if isinstance(component, Controller)]
    if len(found) != 1:
        raise StructureError(f"control_every: got {every} for a chain with {len(found)} controllers; must have one")
    stage = components[found[0]].stage()
    if stage.closing() is not None:
        name = type(components[found[0]]).__name__
        raise StructureError(f"control_every: got {every}, but {name} has a closing law, which runs at every step")
    return Holding(found[0], every, (*stage.returns, *stage.outputs))


def held_state(chain: Chain, requires_grad: bool) -> State | None:
    """A new state of what the controller gave; None where it runs at every step."""
    if chain.holding is None:
        return None
    return State(chain.device, chain.num_actuators, [held(name) for name in chain.holding.signals], requires_grad)


@wp.func
def held_law(held_effort: float) -> float:
    return held_effort


class HeldController(Component):
    """Stands in the place of a controller in steps in which that does not run: its effort is the one that is held.

    Args:
        controller: The controller.
    """

    law = held_law

    def __init__(self, controller: Component):
        super().__init__()
        self._custom_inputs = controller.stage().custom_inputs

    def stage(self) -> Stage:
        """The stage. A step is given the arrays that the controller takes, at which it does not look."""
        return dataclasses.replace(super().stage(), custom_inputs=self._custom_inputs)


class HeldControlRunner:
    """Steps with the controller where the clock of the state is at 0, and with what it gave elsewhere.

    Args:
        chain: With the controller.
        requires_grad: Let a `wp.Tape` differentiate through steps.
        staged: Run one stage after the other.
    """

    def __init__(self, chain: Chain, requires_grad: bool, staged: bool):
        assert chain.holding is not None
        self._every, self._at = chain.holding.every, chain.holding.position
        self._device = chain.device
        components = list(chain.components)
        self._name = type(components[self._at]).__name__
        components[self._at] = HeldController(components[self._at])
        holding = dataclasses.replace(chain.holding, runs=False)
        between = dataclasses.replace(chain, components=tuple(components), holding=holding)
        self._controlled = _runner(chain, requires_grad, staged)
        self._in_between = _runner(between, requires_grad, staged)

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""
        clock = current.clock
        self._check_graph(clock, current.in_graph)
        if clock == 0:
            self._controlled.run(given, current, following, dt)
        else:
            self._in_between.run(given, current, following, dt)
            if following is not current:
                assign_state(self._name, following.stages[self._at], current.stages[self._at])
        following.clock = (clock + 1) % self._every
        following.in_graph = self._device.is_capturing

    def _check_graph(self, clock: int, in_graph: bool) -> None:
        """A captured graph replays the steps that the controller ran in, whatever the clock says then."""
        if clock == 0 or in_graph == self._device.is_capturing:
            return
        if in_graph:
            raise StateError(
                f"a graph was captured whose number of steps is not a multiple of control_every = {self._every}: its "
                "replays would run the controller at other steps; capture a multiple"
            )
        raise StateError(
            f"the controller runs at one of every {self._every} steps, and this would be captured as the step {clock} "
            "after: a graph must begin with a step in which it runs; reset the state before"
        )
