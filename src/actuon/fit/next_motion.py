# SPDX-License-Identifier: Apache-2.0
"""From where to look for a motion to record: from logs, from an actuator file, or from the load and limits alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import Fix, ParameterError, RobotFileError
from ..logs import JointLog, Log
from ..robot_files.provenance import Provenance
from ..typing import PathLike
from .apply import models_of
from .excitation import Limits
from .model import Model, value_at
from .plants.known_load import SMOOTHED, Load
from .plants.plant import Scales
from .terms import JointFacts, build_model

UNNAMED = "joint"
_QUICK = 0.3
"""Time [s] in which a joint of which nothing is known goes through its range."""
_LAG = 0.05
"""Share of its range by which it is behind its command."""


def limits_of(logs: Sequence[Log], joint: str) -> Limits:
    """What a joint did in the logs, at most: its positions, commanded or measured, and its speed."""
    lows, highs, speeds = [], [], []
    for log in logs:
        own = log.joint(joint)
        for path in (own.position, own.command):
            if path is not None:
                lows.append(path.min())
                highs.append(path.max())
        at = log.joint_names.index(joint)
        speeds.append(np.abs(log.derivatives(SMOOTHED)[1][:, at]).max())
    return Limits(float(min(lows)), float(max(highs)), float(max(speeds)) or None)


def facts_of(settings: Mapping[str, float], limits: Limits, joint: str = UNNAMED) -> JointFacts:
    """Return the facts on a joint that was never recorded, from its load and its limits.

    Args:
        settings: ``mass`` and ``length`` of a pendulum, or ``inertia``; ``vin`` [V] for a servo.
        limits: What the joint may do.
        joint: Its name.
    """
    load = Load.of_settings(settings)
    span = limits.high - limits.low
    speed = limits.speed or span / _QUICK
    effort = limits.effort or load.gravity + load.inertia * speed / _QUICK
    time = np.linspace(0.0, 1.0, 201)
    command = limits.low + span * (0.5 + 0.5 * np.sin(2.0 * np.pi * time))
    log = Log("unrecorded", time, (JointLog(joint, command - _LAG * span, command),), dict(settings))
    return JointFacts(Scales(effort, speed, load.inertia, span), (log,), joint)


def from_file(path: PathLike, facts: JointFacts, name: str | None = None) -> tuple[Model, np.ndarray]:
    """A model with the numbers of an actuator file: what is free is free, and begins there.

    Args:
        path: An ``actuon.yaml``, of a fit or by hand.
        facts: The joint, from which the model's ranges follow.
        name: Of the model. Default: as the file's section ``fit`` says.

    Returns:
        The model, and the values of its free parameters, shape (P,).
    """
    (known,) = models_of(path, [facts.joint])
    name = name or Provenance.from_yaml(path).models.get(known.name)
    if name is None:
        raise ParameterError(f"'{path}': does not say which model it is; name it with ", fix=Fix("name=", "--model"))
    model = build_model(name, facts)
    values = []
    for parameter in model.parameters:
        value = value_at(known.actuator, parameter.path)
        below = value_at(known.actuator, parameter.above) if parameter.above else 0.0
        if value is None or below is None:
            raise RobotFileError(f"'{path}': has no {parameter.path}, which the model {name} has")
        at = model.settings if known.times else {}
        factor = known.factors(at).get(parameter.path, 1.0) if at else 1.0
        values.append(np.clip((value - below) * factor, parameter.low, parameter.high))
    return model, np.array(values)
