# SPDX-License-Identifier: Apache-2.0
"""Missing effects of catalogue motors, and the torque that their vendors rate them for."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable, Sequence

from ..actuator.config import ActuatorConfig, Part
from ..components.effects.friction import Friction
from ..components.limits.heat import Heat
from ..declare.config import Config
from .catalogue import CatalogueMotor, find_motor, motor_names

_EFFECTS = {"friction": Friction, "heat": Heat}
"""Effects of real motors that need a stage, and the class of the stage."""
_ROUNDING = 1e-6
"""Relative rounding of values in a file."""

_log = logging.getLogger("actuon.actuators")

_Stage = tuple[type, tuple[float, ...]]
"""Class and numbers of a stage."""


def unmodelled(stages: Iterable[Part]) -> tuple[str, ...]:
    """Return the effects, of friction and heat, for which there is no stage."""
    parts = list(stages)
    return tuple(name for name, kind in _EFFECTS.items() if not any(isinstance(part, kind) for part in parts))


def limits_of_model(motor: CatalogueMotor, stages: Iterable[Part] | None = None) -> str:
    """Return a sentence on what is not modelled, and the rated torque; empty if friction and heat are modelled.

    Args:
        motor: The motor.
        stages: Stages of an actuator with this motor. Default: those of the motor alone.
    """
    lacking = unmodelled(motor.datasheet.stages() if stages is None else stages)
    if not lacking:
        return ""
    rated = motor.datasheet.at_joint.get("rated_torque")
    allowed = "no source has a rated torque" if rated is None else f"its vendor rates it for {rated:.4g} N·m"
    if rated is not None and "heat" in lacking:
        allowed += ", and the model allows more for any length of time"
    verb = "is" if len(lacking) == 1 else "are"
    return f"motor {motor.name}: {' and '.join(lacking)} {verb} not modelled; {allowed}"


def warn_of_unmodelled(configs: Iterable[ActuatorConfig]) -> None:
    """Log `limits_of_model` once for each motor of the catalogue in the actuators of a robot."""
    different = {id(config): config.stages for config in configs}.values()
    said = (limits_of_model(motor, stages) for stages in different for motor in _motors_in(stages))
    for sentence in dict.fromkeys(filter(None, said)):
        _log.warning("%s", sentence)


def _motors_in(stages: Sequence[Part]) -> list[CatalogueMotor]:
    """Return the motors of the catalogue whose stages are among these, whichever file or code they come from."""
    present = [_stage(part) for part in stages]
    return [
        motor
        for motor, own in _catalogue_stages()
        if any(_alike(present[at : at + len(own)], own) for at in range(len(present) - len(own) + 1))
    ]


@functools.cache
def _catalogue_stages() -> list[tuple[CatalogueMotor, list[_Stage]]]:
    motors = [find_motor(name) for name in motor_names()]
    return [(motor, [_stage(part) for part in motor.datasheet.stages()]) for motor in motors]


def _stage(part: Part) -> _Stage:
    return type(part), tuple(_numbers(part.arguments().values())) if isinstance(part, Config) else ()


def _numbers(values: Iterable[object]) -> Iterable[float]:
    for value in values:
        if isinstance(value, (int, float)):
            yield float(value)
        elif isinstance(value, (tuple, list)):
            yield from _numbers(value)


def _alike(some: Sequence[_Stage], others: Sequence[_Stage]) -> bool:
    return all(
        mine is kind and len(values) == len(own) and all(map(_is_close, values, own))
        for (mine, values), (kind, own) in zip(some, others, strict=True)
    )


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING)
