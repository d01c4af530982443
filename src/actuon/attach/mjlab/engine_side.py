# SPDX-License-Identifier: Apache-2.0
"""What an engine holds of a chain: inertia of the rotor, and friction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...actuator.actuator import Actuator
from ...actuator.config import ActuatorConfig
from ...components.effects.friction import LOAD_PARAMETERS, EffectFriction
from ..engine_inertia import inertia_at_joints, stages_with_ratios


@dataclass(frozen=True)
class EngineSide:
    """What the engine gets of one joint's chain. None: the asset keeps its own."""

    armature: float | None
    """Inertia of the rotor at the joint [kg·m²]."""
    frictionloss: float | None
    """Dry friction at the joint [N·m]; the most that it is without load, where it varies."""
    damping: float | None
    """Viscous friction at the joint [N·m·s/rad]."""
    solves_friction: bool
    """Whether the engine solves all friction of the chain that the joint feels."""
    varies: bool
    """Whether that friction changes with speed or load, so that the engine needs it anew at each step."""


def engine_side(config: ActuatorConfig, takes_varying: bool) -> EngineSide:
    """Find what the engine holds of a chain. Friction that varies stays in the chain where its inertia is given.

    Args:
        config: The chain of one joint.
        takes_varying: Whether the engine can be given friction at each step.
    """
    chain = Actuator([0], stages=config.stages, control_every=config.control_every, in_engine=True)
    friction = _friction(chain)
    in_engine = not friction.varies or (takes_varying and not friction.has_inertia)
    if not in_engine:
        chain = Actuator([0], stages=config.stages, control_every=config.control_every)
    armature = float(inertia_at_joints(chain)[0]) or None
    held = in_engine and friction.is_there
    dry, viscous = (float(friction.dry[0]), float(friction.viscous[0])) if held else (None, None)
    return EngineSide(armature, dry, viscous, in_engine, in_engine and friction.varies)


def friction_at_joints(actuator: Actuator) -> tuple[np.ndarray, np.ndarray]:
    """Dry friction without load at rest [N·m], and viscous friction [N·m·s/rad], of each joint, shape (N,)."""
    found = _friction(actuator)
    return found.dry, found.viscous


@dataclass
class _Friction:
    """Of an actuator, at its joints."""

    dry: np.ndarray
    viscous: np.ndarray
    is_there: bool = False
    varies: bool = False
    has_inertia: bool = True


def _friction(actuator: Actuator) -> _Friction:
    found = _Friction(*np.zeros((2, actuator.num_actuators)))
    for stage, ratio, _ in stages_with_ratios(actuator):
        if isinstance(stage, EffectFriction) and not stage.behind_spring:
            given = stage.numbers()
            at_rest = np.maximum(given["dynamic"], given.get("static", 0.0))
            found.is_there = True
            found.varies |= ratio is None or not given.keys().isdisjoint(("static", *LOAD_PARAMETERS))
            found.has_inertia &= "inertia" in given
            known = 1.0 if ratio is None else ratio
            found.dry += np.abs(known) * at_rest
            found.viscous += known**2 * given["viscous"]
    return found
