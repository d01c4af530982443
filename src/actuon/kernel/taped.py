# SPDX-License-Identifier: Apache-2.0
"""Steps a chain as one kernel that a `wp.Tape` can record and differentiate."""

from __future__ import annotations

from typing import Any

import warp as wp

from ..errors import ArrayError
from .alone import argument_values
from .binding import OUTPUT, Chain
from .launch import recording_tape
from .program import program
from .stepping import building, check_states_on_tape
from .types import Flavour


class TapedRunner:
    """Runs the chain as one kernel with an adjoint."""

    def __init__(self, chain: Chain):
        self._chain = chain
        self._program = program(chain.structure(Flavour.GRAD))

    def run(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""
        chain = self._chain
        check_states_on_tape(current, following)
        self._check_signals_on_tape(given)
        signals = {slot: chain.signal(slot, value) for slot, value in zip(chain.slots, given, strict=True)}
        inputs = argument_values(self._program.arguments, chain.values(signals, current, following, chain.check_dt(dt)))
        with building:
            wp.launch(self._program.kernel, chain.num_actuators, inputs, device=chain.device)

    def _check_signals_on_tape(self, given: tuple[Any, ...]) -> None:
        """Refuse what would silently get no gradient."""
        if recording_tape() is None:
            return
        for slot, value in zip(self._chain.slots, given, strict=True):
            wanted = slot == OUTPUT or getattr(value, "requires_grad", False)
            if wanted and not (isinstance(value, wp.array) and value.requires_grad):
                raise ArrayError(
                    f"{self._chain.labels[slot]}: a wp.Tape is recording, which needs a Warp array with "
                    "requires_grad=True here, e.g. from wp.from_torch(tensor)"
                )
