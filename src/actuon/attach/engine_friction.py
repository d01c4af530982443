# SPDX-License-Identifier: Apache-2.0
"""Friction in engines that solve it: what stages offer is handed over at each step, in place of the asset's own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..components.effects.friction import JOINT_LOAD
from ..sim import Articulation
from ..sim.engine import PROPERTIES
from ..sim.robots import DofSet

_log = logging.getLogger("actuon.actuators")

_SIGNALS = {"dry_friction": "friction", "viscous_friction": "viscous_friction"}
"""Property of the engine, by signal of stages."""

_OF_ASSETS = (*_SIGNALS.values(), "quadratic_friction", "cubic_friction")
"""Friction that an asset may have, as engines call it."""


class EngineFriction:
    """Hands the friction that stages offer to the engine, and the loads that the engine tells to stages.

    Args:
        articulation: The robots.
        actuators: Their actuators.
        signals: What stages offer, by name, each of shape (N, D).
        inputs: What stages read beside targets, by name, flat as velocities are.
        undo: Gets what gives the engine its own friction back.
    """

    def __init__(
        self,
        articulation: Articulation,
        actuators: Sequence[Actuator],
        signals: Mapping[str, wp.array],
        inputs: Mapping[str, wp.array],
        undo: contextlib.ExitStack,
    ):
        engine = articulation.simulation.engine
        self._writers: list[Callable[[], None]] = []
        self.handed_over: dict[str, tuple[wp.array, np.ndarray]] = {}
        """Properties of DOFs that the engine gets at each step, of shape (N, D), and which of the D, by name."""
        self._read: Callable[[], None] | None = None
        self.loads: wp.array | None = None
        """External loads of joints that stages read [N·m or N], flat; None where none does."""
        offering = [actuator for actuator in actuators if _SIGNALS.keys() & set(actuator.signals)]
        if not offering:
            return
        at = np.concatenate([actuator.effort_indices.numpy() for actuator in offering])
        columns = np.unique(at % articulation.num_dofs).astype(np.int64)
        dofs = articulation.at.of_dofs(columns)
        undo.callback(engine.properties.keep(dofs))
        _replace(articulation, dofs)
        if articulation.simulation.solves_friction(articulation.at):
            undo.callback(engine.properties.stiffen_friction(dofs))
            for signal, name in _SIGNALS.items():
                if signal in signals:
                    self._writers.append(engine.properties.writer(name, dofs, signals[signal]))
                    self.handed_over[name] = signals[signal], columns
        if JOINT_LOAD in inputs:
            self._read = engine.state.load_reader(articulation.at, inputs[JOINT_LOAD])
            self.loads = inputs[JOINT_LOAD] if self._read is not None else None

    def read_loads(self) -> None:
        """Let stages see what the engine tells of loads. To be called before they are stepped."""
        if self._read is not None:
            self._read()

    def hand_over(self) -> None:
        """Give the engine the friction of this step."""
        for write in self._writers:
            write()


def _replace(articulation: Articulation, at: DofSet) -> None:
    """Take the asset's own friction off these DOFs, and say so."""
    properties = articulation.simulation.engine.properties
    said: dict[str, list[str]] = {}
    for name in _OF_ASSETS:
        held = properties.get(name, at)
        if held is None:
            continue
        for joint, values in zip(at.names, held.T, strict=True):
            most = float(values[np.abs(values).argmax()])
            if most != 0.0:
                said.setdefault(joint, []).append(f"{most:g} {PROPERTIES[name].unit}")
        if held.any():
            properties.set(at, **{name: np.zeros(at.shape, np.float32)})
    if said:
        own = ", ".join(f"{joint} ({' and '.join(values)})" for joint, values in said.items())
        _log.warning("the asset's own friction is replaced by that of the actuators, until close(): %s", own)
