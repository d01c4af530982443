# SPDX-License-Identifier: Apache-2.0
"""What a chain must give, in float64, and how far 32 bits may be off."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
from oracle import CLAMPS, Oracle

from . import laws

EPSILON = float(np.finfo(np.float32).eps)
LARGEST = 1e37
"""Where terms of a sum may overflow 32 bits, and NaN or infinity is as good as any number."""


@dataclass
class Reference(Oracle):
    """The oracle, with components of a user's own; its past can be copied."""

    laws = CLAMPS | laws.CLAMPS
    filtered: np.ndarray = field(init=False)
    errors: np.ndarray = field(init=False)
    """What rounding may have done to ``filtered``, in shares of a bit."""

    def reset(self, mask, first=False):
        super().reset(mask, first)
        if first:
            self.filtered, self.errors = np.zeros((2, self.n)), np.zeros((2, self.n))
        for states in (self.filtered, self.errors):
            states[:, np.asarray(mask)] = 0.0

    def control(self, *signals):
        if self.controller == "ControllerFiltered":
            return laws.filtered(self.filtered, *signals, **self.gains)
        return super().control(*signals)

    def copy(self):
        """The same chain, whose parameters are shared and whose past goes its own way."""
        other = copy.copy(self)
        other.past = [list(past) for past in self.past]
        for name in ("integral", "filtered", "errors"):
            setattr(other, name, getattr(self, name).copy())
        return other


class Magnitude(Reference):
    """The sum of the sizes of all terms that an effort is made of. Rounding errors are a share of that."""

    def step(self, q, qd, target_q, target_qd, feedforward, dt):
        sizes = [np.abs(np.where(np.isnan(x), 0.0, x)) for x in (q, qd, target_q, target_qd, feedforward)]
        computed = total = self.control(*sizes[:2], *self.late(*sizes[2:]), dt)
        for name, values in self.clamps:
            total = total + self._of_limit(name, total, *sizes[:2], values)
        return computed, total

    def control(self, q, qd, target_q, target_qd, feedforward, dt):
        gains = self.gains
        error = q + target_q
        rate = qd + target_qd
        terms = [feedforward, gains["kp"] * error, gains["kd"] * rate, np.abs(gains.get("const_effort", 0.0))]
        if self.controller == "ControllerFiltered":
            terms = [feedforward, *self._filtered(np.stack([error, rate]), dt)]
        elif self.controller == "ControllerPID":
            (bound,) = finite(gains["integral_max"])
            self.integral = np.where(np.isinf(error * dt), bound, self.integral + error * dt)
            terms.append(gains["ki"] * self.integral)
        return sum(finite(*terms))

    def _filtered(self, now, dt):
        """Each step rounds what it takes a share of, and forgets as much of the errors before."""
        gains = self.gains
        share = dt / (gains["time_constant"] + dt)
        (now,) = finite(now)
        rounded = self.filtered + (now + self.filtered) * share
        self.filtered += (now - self.filtered) * share
        self.errors += rounded - self.errors * share
        return gains["kp"] * self.errors[0], gains["kd"] * self.errors[1]

    @staticmethod
    def _of_limit(name, total, q, qd, values):
        if name == "ClampingDCMotor":
            speed = qd / values["velocity_limit"]
            usual = (speed < 1e12) & (values["velocity_limit"] > 1e-12)
            line = np.where(usual, values["saturation_effort"] * (1.0 + speed), np.inf)
            return np.where(np.isinf(values["velocity_limit"]), 0.0, line)
        if name == "ClampingPositionBased":
            return 4.0 * np.max(values["lookup_efforts"])
        if name == "ClampingStop":
            return values["slope"] * (values["reach"] + q) + values["drag"] * qd
        if name == "ClampingRepeated":
            return total * np.abs(values["count"] * values["gain"])
        return 0.0


def finite(*terms):
    """The terms, 0 where they are infinite or NaN: 32 bits are as exact there as 64."""
    return [np.nan_to_num(term, nan=0.0, posinf=0.0, neginf=0.0) for term in terms]


def assert_within(got, expected, magnitude, steps, where):
    """Check efforts: to rounding after ``steps`` steps, NaN and infinity where the reference has them."""
    comparable = magnitude < LARGEST
    got, expected = np.asarray(got, np.float64)[comparable], expected[comparable]
    tolerance = 8 * EPSILON * (steps + 4) * magnitude[comparable] + 1e-35
    with np.errstate(invalid="ignore"):
        right = np.abs(got - expected) <= tolerance
    right |= (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not right.all():
        worst = int(np.argmin(right))
        at = np.flatnonzero(comparable)[worst]
        raise AssertionError(
            f"{where}: entry {at}: got {got[worst]!r}, expected {expected[worst]!r} ± {tolerance[worst]:.3g}; "
            f"{int((~right).sum())} of {len(right)} entries are off"
        )
