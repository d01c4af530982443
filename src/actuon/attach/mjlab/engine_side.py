# SPDX-License-Identifier: Apache-2.0
"""What an engine holds of a chain: inertia of the rotor, and friction."""

from __future__ import annotations

from dataclasses import dataclass

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
    dry, viscous = (friction.dry, friction.viscous) if held else (None, None)
    return EngineSide(armature, dry, viscous, in_engine, in_engine and friction.varies)


@dataclass
class _Friction:
    """Of a chain, at the joint."""

    dry: float = 0.0
    viscous: float = 0.0
    is_there: bool = False
    varies: bool = False
    has_inertia: bool = True


def _friction(chain: Actuator) -> _Friction:
    found = _Friction()
    ratio: float | None = 1.0
    for stage in chain.stages:
        if isinstance(stage, EffectFriction) and not stage.is_apart:
            given = {name: float(array.numpy()[0]) for name, array in stage.parameters().items()}
            at_rest = max(given["dynamic"], given.get("static", 0.0))
            found.is_there = True
            found.varies |= ratio is None or at_rest > given["dynamic"] or not given.keys().isdisjoint(LOAD_PARAMETERS)
            found.has_inertia &= "inertia" in given
            found.dry += abs(ratio or 1.0) * at_rest
            found.viscous += (ratio or 1.0) ** 2 * given["viscous"]
        if isinstance(stage, Transmission):
            own = stage.constant_ratio()
            ratio = ratio * float(own[0]) if ratio is not None and own is not None else None
    return found
