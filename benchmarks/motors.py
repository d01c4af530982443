# SPDX-License-Identifier: Apache-2.0
"""A whole motor, with gear and friction, beside a PD through a DC motor, each one launch."""

from __future__ import annotations

import numpy as np
import warp as wp

import actuon

from .contenders import DEPTH, ActuonInPlace, Copy, Problem, require_same_efforts
from .gate import Gate
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, one_thread, progress

DOFS = 49_152
LAGS = ("equal",)


class WholeMotor(ActuonInPlace):
    """Delay, PD, gear with losses, DC motor, and friction: Coulomb, viscous and Stribeck."""

    label = "delay + PD + gear + DC motor + friction"

    def __init__(self, problem: Problem, fused: bool = True):
        super().__init__(problem)
        rng = np.random.default_rng(1)

        def drawn(low: float, high: float) -> wp.array:
            return wp.array(rng.uniform(low, high, problem.dofs.size).astype(np.float32))

        friction = actuon.EffectFriction(
            dynamic=drawn(0.05, 0.1),
            viscous=drawn(0.01, 0.05),
            static=drawn(0.1, 0.2),
            stribeck_velocity=drawn(0.05, 0.5),
            inertia=drawn(0.01, 0.05),
        )
        self.actuator = actuon.Actuator(
            wp.array(problem.dofs),
            actuon.ControllerPD(*self.gains),
            delay=actuon.Delay(wp.array(problem.lags), DEPTH),
            transmission=actuon.TransmissionGear(drawn(5.0, 10.0), drawn(0.8, 0.95)),
            clamping=[actuon.ClampingDCMotor(*self.motor)],
            effects=[friction],
            pos_indices=wp.array(problem.coords),
            fused=fused,
        )
        self.current = self.other = self.actuator.state()


class StagedMotor(WholeMotor):
    """The motor with its stages launched one by one."""

    label = "stages one by one"

    def __init__(self, problem: Problem):
        super().__init__(problem, fused=False)


def contenders(lags: str, dofs: int) -> list[Stepper]:
    """Build a PD through a DC motor, a copy of its bytes, and the whole motor, which must agree with its stages."""
    problem = Problem(dofs, motor=True, lags=lags)
    whole = WholeMotor(problem)
    require_same_efforts(f"motors, {lags} lags", problem, (StagedMotor(problem), whole), tolerance=1e-5)
    return [Copy(problem), ActuonInPlace(problem), whole]


GATE = Gate(LAGS, contenders, smallest=12)


def measure_motors(seconds: float) -> list[Table]:
    labels = ("copying what the second touches", "delay + PD + DC motor + max effort", WholeMotor.label)
    rows: list[tuple[str, ...]] = []
    for lags in LAGS:
        progress(f"{DOFS} DOFs, whole motors")
        with one_thread():
            times = measure(contenders(lags, DOFS), DOFS, seconds)
        for label, own in zip(labels, times, strict=True):
            rows.append((label, *own.cells(), f"{own.loop / times[1].loop:.2f}"))
    title = f"{grouped(DOFS)} DOFs, one thread, one launch each, in place."
    return [Table(title, ("motor model", *TIMES_HEADER, "÷ without gear and friction"), rows)]
