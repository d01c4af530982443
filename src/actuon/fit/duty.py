# SPDX-License-Identifier: Apache-2.0
"""The gain of a servo's firmware, where its log tells the duty of the PWM: ``duty = gain · (command − position)``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..logs import Log
from .model import setting_of

_FULL_SHARE = 0.005
"""Share of all samples at the largest duty from which on that is taken as 100 %."""
_UNEXPLAINED = 0.01
"""Share of the duty's variance that a proportional law may leave open."""


def duty_gain(logs: Sequence[Log], joint: str, times: str = "") -> float | None:
    """Duty per position error [1/rad], by unit of a setting of the logs; None where the logs do not tell.

    They tell it where the duty is logged as ``load``, grows in proportion to the error, and stays at its largest value
    in some samples, which is then 100 %. Position and duty need not be read at the same moment: what follows the speed
    is put down to that.

    Args:
        logs: The logs.
        joint: Name of the joint.
        times: Name of the setting, such as ``kp``; empty where the gain is the same in all logs.
    """
    duties, wanted, rates = [], [], []
    for log in logs:
        own = log.joint(joint)
        if "load" not in own.extra or own.command is None:
            return None
        on = np.ones(len(log), bool) if own.enabled is None else own.enabled.astype(bool)
        factor = setting_of(log.settings, times, "controller.kp") if times else 1.0
        duties.append(own.extra["load"][on])
        wanted.append(factor * (own.command - own.position)[on])
        rates.append(factor * np.gradient(own.position, log.time)[on])
    duty, error, rate = (np.concatenate(parts) for parts in (duties, wanted, rates))
    full = float(np.abs(duty).max(initial=0.0))
    if full == 0.0 or np.mean(np.abs(duty) >= 0.999 * full) < _FULL_SHARE:
        return None
    inside = np.abs(duty) < 0.98 * full
    if not inside.any():
        return None
    causes, effect = np.stack([error[inside], rate[inside]], axis=1), duty[inside] / full
    (gain, skew), *_ = np.linalg.lstsq(causes, effect, rcond=None)
    left = effect - causes @ (gain, skew)
    unexplained = float(np.mean(left**2) / max(np.mean(effect**2), 1e-300))
    return float(gain) if gain > 0.0 and unexplained < _UNEXPLAINED else None
