# SPDX-License-Identifier: Apache-2.0
"""The inertia of motors as robots' engines get it: as the armature of their joints."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from ..actuator.actuator import Actuator
from ..components.component import Component
from ..components.kinds import Transmission
from ..errors import SimulationError
from ..sim import Articulation

_log = logging.getLogger("actuon.actuators")

_left_out: weakref.WeakSet[Component] = weakref.WeakSet()
"""Stages whose inertia is left out, which was said."""


class EngineInertia:
    """Makes what stages bring of inertia the armature of their joints, in the place of the asset's.

    Args:
        articulation: The robots.
        actuators: Whose ``effort_indices`` count through robots and DOFs.
        undo: Gets what gives the armature back.
    """

    def __init__(self, articulation: Articulation, actuators: Sequence[Actuator], undo: contextlib.ExitStack):
        self._articulation, self._actuators = articulation, actuators
        self.is_stale = False
        """Whether a parameter was assigned since the engine got the inertia."""
        self._wanted = _inertia(articulation, actuators)
        for stage in dict.fromkeys(stage for actuator in actuators for stage in actuator.stages):
            if isinstance(stage, Transmission) or type(stage).engine_armature is not Component.engine_armature:
                undo.callback(stage.on_write(self._on_write))
        properties = articulation.simulation.engine.properties
        held = properties.get("armature", articulation.at)
        self._own = None if held is None else held.copy()
        columns = np.flatnonzero(self._wanted.any(axis=0))
        if not columns.size:
            return
        if self._own is None:
            self._warn_of_none()
            return
        self._say(columns, self._own)
        undo.callback(properties.keep(articulation.at.of_dofs(columns)))
        _write(articulation, columns, self._values(columns, self._own))

    def _warn_of_none(self) -> None:
        engine = type(self._articulation.simulation).__name__
        _log.warning("%s holds no armature: the inertia of motors is left out", engine)

    def _on_write(self) -> None:
        self.is_stale = True

    def _values(self, columns: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Armature that DOFs are to have [kg·m²], shape (N, d): the asset's where stages bring none."""
        wanted = self._wanted[:, columns]
        return np.where(wanted > 0.0, wanted, own[:, columns])

    def _say(self, columns: np.ndarray, own: np.ndarray) -> None:
        """Warn of armatures of the asset that are replaced."""
        for column, values in zip(columns, self._values(columns, own).T, strict=True):
            before = own[:, column]
            other = (before != 0.0) & ~np.isclose(before, values, rtol=1e-5)
            if other.any():
                robot = int(np.argmax(other))
                _log.warning(
                    "joint '%s': the asset's armature of %g kg·m² is replaced by %g kg·m², the inertia of the rotor at "
                    "the joint",
                    self._articulation.dof_names[column],
                    before[robot],
                    values[robot],
                )

    def update(self, undo: contextlib.ExitStack) -> None:
        """Hand over inertia again where parameters have changed it.

        Args:
            undo: Gets what gives the armature back to joints whose stages brought none before.
        """
        before, wanted = self._wanted, _inertia(self._articulation, self._actuators)
        columns = np.flatnonzero((wanted != before).any(axis=0))
        if columns.size:
            self._wanted = wanted
            try:
                self._change(columns, columns[~before[:, columns].any(axis=0)], undo)
            except SimulationError:
                self._wanted = before
                raise
        self.is_stale = False

    def _change(self, columns: np.ndarray, first: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Write the armature of DOFs, of which stages of the ``first`` brought none before."""
        properties, at = self._articulation.simulation.engine.properties, self._articulation.at
        held = properties.get("armature", at)
        if held is None or self._own is None:
            self._warn_of_none()
            return
        self._own[:, first] = held[:, first]
        values = self._values(columns, self._own)
        if np.array_equal(held[:, columns], values):
            return
        if first.size:
            undo.callback(properties.keep(at.of_dofs(first)))
        _write(self._articulation, columns, values)


def _inertia(articulation: Articulation, actuators: Sequence[Actuator]) -> np.ndarray:
    """At each joint of each robot [kg·m²], shape (N, D); 0 where stages bring none."""
    wanted = np.zeros((len(articulation), articulation.num_dofs), np.float32)
    for actuator in actuators:
        wanted.ravel()[actuator.effort_indices.numpy()] = inertia_at_joints(actuator)
    return wanted


def _write(articulation: Articulation, columns: np.ndarray, values: np.ndarray) -> None:
    properties, at = articulation.simulation.engine.properties, articulation.at.of_dofs(columns)
    properties.set(at, armature=values)
    now = properties.get("armature", at)
    if now is None or not np.allclose(now, values, rtol=1e-5):
        raise SimulationError("the engine holds a different armature from what was written")


def inertia_at_joints(actuator: Actuator) -> np.ndarray:
    """Return the inertia that the stages of an actuator bring at each joint [kg·m²], shape (N,)."""
    total = np.zeros(actuator.num_actuators)
    for component, ratio, varies in stages_with_ratios(actuator):
        inertia = component.engine_armature()
        if inertia is None or not inertia.any():
            continue
        if ratio is not None:
            total += inertia * ratio**2
        elif component not in _left_out:
            _left_out.add(component)
            _log.warning(
                "the inertia of %s is left out: behind %s it is not the same at every position and for each joint, "
                "as an armature is",
                type(component).__name__,
                varies,
            )
    return total


def stages_with_ratios(actuator: Actuator) -> Iterator[tuple[Component, np.ndarray | None, str]]:
    """Yield each stage with the speed that it sees by the joint's [1], shape (N,); None behind a transmission whose
    ratio varies, and the name of that one's class."""
    ratio: np.ndarray | None = np.ones(actuator.num_actuators)
    varies = ""
    for component in actuator.stages:
        yield component, ratio, varies
        if isinstance(component, Transmission):
            own = component.constant_ratio()
            varies = varies or ("" if own is not None else type(component).__name__)
            ratio = ratio * own if ratio is not None and own is not None else None
