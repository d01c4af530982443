# SPDX-License-Identifier: Apache-2.0
"""Inertia and friction of a chain at its joint, for the engine."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig
from ..components.component import Component
from ..components.effects.friction import LOAD_PARAMETERS, EffectFriction
from ..components.kinds import Transmission

FRICTION = {"dry_friction": "friction", "viscous_friction": "viscous_friction"}
"""Property of joints in an engine, by signal of stages."""

_log = logging.getLogger("actuon.actuators")

_left_out: weakref.WeakSet[Component] = weakref.WeakSet()
"""Stages whose inertia is left out, after the warning."""


def stages_with_ratios(actuator: Actuator) -> Iterator[tuple[Component, np.ndarray | None, str]]:
    """Yield each stage with the ratio of its speed to the joint's [1], shape (N,), or None behind a transmission with
    a variable ratio, and the name of that transmission's class."""
    ratio: np.ndarray | None = np.ones(actuator.num_actuators)
    varies = ""
    for component in actuator.stages:
        yield component, ratio, varies
        if isinstance(component, Transmission):
            own = component.constant_ratio()
            varies = varies or ("" if own is not None else type(component).__name__)
            ratio = ratio * own if ratio is not None and own is not None else None


@dataclass
class AtJoints:
    """Inertia and friction of the stages of an actuator, at its joints, each of shape (N,)."""

    inertia: np.ndarray
    """Inertia [kg·m²]."""
    dry: np.ndarray
    """Dry friction without load at rest [N·m]."""
    viscous: np.ndarray
    """Viscous friction [N·m·s/rad]."""
    has_friction: bool = False
    varies: bool = False
    """Whether friction changes with speed or load."""
    stops_itself: bool = True
    """Whether all friction has an ``inertia``, so that the chain can apply it."""


def at_joints(actuator: Actuator) -> AtJoints:
    """Return the inertia and friction of an actuator's stages at its joints."""
    found = AtJoints(*np.zeros((3, actuator.num_actuators)))
    for stage, ratio, varies in stages_with_ratios(actuator):
        inertia = stage.engine_armature()
        if inertia is not None and inertia.any():
            if ratio is not None:
                found.inertia += inertia * ratio**2
            elif stage not in _left_out:
                _left_out.add(stage)
                _log.warning(
                    "the inertia of %s is left out: behind %s it depends on the position or on other joints, as no "
                    "armature does",
                    type(stage).__name__,
                    varies,
                )
        if isinstance(stage, EffectFriction) and not stage.behind_spring:
            given = stage.numbers()
            at_rest = np.maximum(given["dynamic"], given.get("static", 0.0))
            found.has_friction = True
            found.varies |= ratio is None or not given.keys().isdisjoint(("static", *LOAD_PARAMETERS))
            found.stops_itself &= "inertia" in given
            known = 1.0 if ratio is None else ratio
            found.dry += np.abs(known) * at_rest
            found.viscous += known**2 * given["viscous"]
    return found


@dataclass(frozen=True)
class SolvedByEngine:
    """Inertia and friction of one joint's chain for the engine. None keeps the asset's value."""

    armature: float | None
    """Inertia of the rotor at the joint [kg·m²]."""
    frictionloss: float | None
    """Dry friction at the joint [N·m]; if it varies, the largest without load."""
    damping: float | None
    """Viscous friction at the joint [N·m·s/rad]."""
    solves_friction: bool
    """Whether the engine solves all friction of the chain."""
    varies: bool
    """Whether that friction changes with speed or load, so that each step writes it to the engine."""


def solved_by_engine(config: ActuatorConfig, takes_varying: bool) -> SolvedByEngine:
    """Return the inertia and friction of a chain for the engine. The chain keeps variable friction with ``inertia``.

    Args:
        config: The chain of one joint.
        takes_varying: Whether friction can be written to the engine at each step.
    """
    stages, every = config.stages, config.control_every
    found = at_joints(Actuator([0], stages=stages, control_every=every, in_engine=True, losses_in_engine=False))
    in_engine = not found.varies or (takes_varying and not found.stops_itself)
    if not in_engine:  # which the chain may refuse
        Actuator([0], stages=stages, control_every=every)
    dry, viscous = (float(found.dry[0]), float(found.viscous[0])) if in_engine and found.has_friction else (None, None)
    return SolvedByEngine(float(found.inertia[0]) or None, dry, viscous, in_engine, in_engine and found.varies)
