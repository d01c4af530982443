# SPDX-License-Identifier: Apache-2.0
"""The inertia of motors as robots' engines get it: as the armature of their joints."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

import numpy as np

from ..actuator import Actuator
from ..components.transmissions.transmission import Transmission
from ..errors import SimulationError
from ..sim import Articulation

_log = logging.getLogger("actuon.actuators")


def hand_over_inertia(articulation: Articulation, actuators: Sequence[Actuator], undo: contextlib.ExitStack) -> None:
    """Make what stages bring of inertia the armature of their joints, in the place of the asset's, and read it back.

    Args:
        articulation: The robots.
        actuators: Whose ``effort_indices`` count through robots and DOFs.
        undo: Gets what gives the armature back.
    """
    wanted = _inertia(articulation, actuators)
    columns = np.flatnonzero(wanted.any(axis=0))
    if not columns.size:
        return
    robots, simulation = articulation.robot_ids, articulation.simulation
    held = simulation.dof_property("armature", robots)
    if held is None:
        _log.warning("%s holds no armature: the inertia of motors is left out", type(simulation).__name__)
        return
    before = held[:, columns].copy()
    values = np.where(wanted[:, columns] > 0.0, wanted[:, columns], before)
    for i, column in enumerate(columns):
        other = (before[:, i] != 0.0) & ~np.isclose(before[:, i], values[:, i], rtol=1e-5)
        if other.any():
            robot = int(np.argmax(other))
            _log.warning(
                "joint '%s': the asset's armature of %g kg·m² is replaced by %g kg·m², the inertia of the rotor at "
                "the joint",
                articulation.dof_names[column],
                before[robot, i],
                values[robot, i],
            )
    undo.callback(simulation.keep_properties(robots, columns))
    _write(articulation, columns, values)


@contextlib.contextmanager
def inertia_may_change(
    articulation: Articulation, actuators: Sequence[Actuator], undo: contextlib.ExitStack
) -> Iterator[None]:
    """Hand it over again where parameters have changed."""
    before = _inertia(articulation, actuators)
    yield
    wanted = _inertia(articulation, actuators)
    robots, simulation = articulation.robot_ids, articulation.simulation
    held = simulation.dof_property("armature", robots)
    columns = np.flatnonzero((wanted != before).any(axis=0))
    if not columns.size or held is None:
        return
    first = columns[~before[:, columns].any(axis=0)]
    if first.size:
        undo.callback(simulation.keep_properties(robots, first))
    _write(articulation, columns, np.where(wanted[:, columns] > 0.0, wanted[:, columns], held[:, columns]))


def _inertia(articulation: Articulation, actuators: Sequence[Actuator]) -> np.ndarray:
    """At each joint of each robot [kg·m²], shape (N, D); 0 where stages bring none."""
    wanted = np.zeros((len(articulation), articulation.num_dofs), np.float32)
    for actuator in actuators:
        wanted.ravel()[actuator.effort_indices.numpy()] = inertia_at_joints(actuator)
    return wanted


def _write(articulation: Articulation, columns: np.ndarray, values: np.ndarray) -> None:
    robots, simulation = articulation.robot_ids, articulation.simulation
    simulation.set_dof_property("armature", robots, columns, values)
    now = simulation.dof_property("armature", robots)
    if now is None or not np.allclose(now[:, columns], values, rtol=1e-5):
        raise SimulationError("the engine holds a different armature from what was written")


def inertia_at_joints(actuator: Actuator) -> np.ndarray:
    """What the stages of an actuator bring of inertia at each joint [kg·m²], shape (N,)."""
    total = np.zeros(actuator.num_actuators)
    ratio: np.ndarray | None = np.ones(actuator.num_actuators)
    varies = ""
    for component in actuator.stages:
        inertia = component.engine_armature()
        if inertia is not None and inertia.any():
            if ratio is None:
                _log.warning(
                    "the inertia of %s is left out: behind %s it is not the same at every position and for each joint, "
                    "as an armature is",
                    type(component).__name__,
                    varies,
                )
            else:
                total += inertia * ratio**2
        if isinstance(component, Transmission):
            own = component.constant_ratio()
            varies = varies or ("" if own is not None else type(component).__name__)
            ratio = ratio * own if ratio is not None and own is not None else None
    return total
