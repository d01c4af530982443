# SPDX-License-Identifier: Apache-2.0
"""What an engine holds of a chain: inertia of the rotor, and friction that is the same at every speed and load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...actuator import Actuator
from ...actuator_config import ActuatorConfig
from ...components.effects.friction import LOAD_PARAMETERS, EffectFriction
from ...components.transmissions.transmission import Transmission
from ..engine_inertia import inertia_at_joints


@dataclass(frozen=True)
class EngineSide:
    """What the engine gets of one joint's chain. None: the asset keeps its own."""

    armature: float | None
    """Inertia of the rotor at the joint [kg·m²]."""
    frictionloss: float | None
    """Dry friction at the joint [N·m]."""
    damping: float | None
    """Viscous friction at the joint [N·m·s/rad]."""
    solves_friction: bool
    """Whether the engine solves all friction of the chain that the joint feels."""


def engine_side(config: ActuatorConfig) -> EngineSide:
    """Find what the engine holds of a chain: friction that changes with speed or load stays in the chain.

    Args:
        config: The chain of one joint.
    """
    chain = Actuator([0], stages=config.stages, control_every=config.control_every, in_engine=True)
    found = _constant_friction(chain)
    if found is None:
        chain = Actuator([0], stages=config.stages, control_every=config.control_every)
    armature = float(inertia_at_joints(chain)[0])
    dry, viscous = found if found is not None else (None, None)
    return EngineSide(armature or None, dry, viscous, found is not None)


def _constant_friction(chain: Actuator) -> tuple[float | None, float | None] | None:
    """Dry and viscous friction at the joint; None of each without friction, and None where it is not constant."""
    dry = viscous = 0.0
    ratio: float | None = 1.0
    any_friction = False
    for stage in chain.stages:
        if isinstance(stage, EffectFriction) and not stage.is_apart:
            given = {name: array.numpy() for name, array in stage.parameters().items()}
            at_rest = "static" in given and bool(np.any(given["static"] > given["dynamic"]))
            if ratio is None or at_rest or not given.keys().isdisjoint(LOAD_PARAMETERS):
                return None
            any_friction = True
            dry += abs(ratio) * float(given["dynamic"][0])
            viscous += ratio**2 * float(given["viscous"][0])
        if isinstance(stage, Transmission):
            own = stage.constant_ratio()
            ratio = ratio * float(own[0]) if ratio is not None and own is not None else None
    return (dry, viscous) if any_friction else (None, None)
