# SPDX-License-Identifier: Apache-2.0
"""What the logs do not tell: parameters, or combinations of them, that can change without a change of the motion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .local import LocalResult
from .parameters import LOG, Parameter

UNSURE = 0.35
"""Spread along a direction, in powers of e for a logarithmic scale or as a share of the range for a linear one, from
which on it counts as not determined."""
_TAKES_PART = 0.3
"""Share in a direction of length 1 from which on a parameter takes part in it."""

_ADVICE = {
    frozenset({"controller.torque_constant", "controller.resistance"}): "record the current, or fix one",
    frozenset({"controller.kp", "controller.torque_constant"}): "record the duty, or fix one",
    frozenset({"controller.kp", "controller.resistance"}): "record the duty, or fix one",
    frozenset({"friction.viscous", "controller.torque_constant"}): "let the motor swing while it is switched off",
    frozenset({"friction.viscous", "controller.kd"}): "let the motor swing while it is switched off",
}


def undetermined(parameters: Sequence[Parameter], local: LocalResult) -> list[str]:
    """What the logs do not determine, in sentences.

    Args:
        parameters: The free ones, P.
        local: Of the joint, with its Jacobian.
    """
    if not parameters:
        return []
    widths = np.array([math.log(p.high / p.low) if p.scale == LOG else 1.0 for p in parameters])
    _, sizes, directions = np.linalg.svd(local.jacobian / widths, full_matrices=False)
    spreads = local.noise / np.maximum(sizes, 1e-300)
    found = []
    for spread, direction in sorted(zip(spreads, directions, strict=True), key=lambda pair: -pair[0]):
        if spread < UNSURE:
            break
        found.append(_sentence(parameters, direction))
    return found


def _sentence(parameters: Sequence[Parameter], direction: np.ndarray) -> str:
    part = [i for i in np.argsort(-np.abs(direction)) if abs(direction[i]) >= _TAKES_PART]
    if len(part) == 1:
        return f"{parameters[part[0]].path} is not determined by these logs: fix it, or record motion that shows it"
    paths = [parameters[i].path for i in part]
    advice = _ADVICE.get(frozenset(paths), "fix one of them")
    if len(part) == 2 and all(parameters[i].scale == LOG and not parameters[i].above for i in part):
        share = direction[part[1]] / direction[part[0]]
        power = 1.0 / abs(share)
        shown = "" if abs(power - 1.0) < 0.2 else f"^{power:.2g}"
        sign = "/" if share > 0.0 else "·"
        return f"{paths[0]} and {paths[1]} only as {paths[0]}{sign}{paths[1]}{shown}: {advice}"
    return f"{', '.join(paths[:-1])} and {paths[-1]} only together, not each of them: {advice}"
