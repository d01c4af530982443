# SPDX-License-Identifier: Apache-2.0
"""A whole motor, with gear and friction, beside a PD through a DC motor, each one launch."""

from __future__ import annotations

import sys

import numpy as np
import warp as wp

import actuon

from .contenders import DEPTH, ActuonInPlace, Copy, Problem
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, one_thread

DOFS = 49_152


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

    def check(self, problem: Problem) -> None:
        """The one launch gives what the stages give one by one."""
        staged = WholeMotor(problem, fused=False)
        for step in range(8):
            signals = problem.gate_signals(step)
            if not np.allclose(self.efforts(signals), staged.efforts(signals), rtol=1e-5, atol=1e-5):
                raise SystemExit("the motor in one launch disagrees with its stages: no times")


def measure_motors(seconds: float) -> list[Table]:
    print(f"  {DOFS} DOFs, whole motors …", file=sys.stderr, flush=True)
    rows: list[tuple[str, ...]] = []
    with one_thread():
        problem = Problem(DOFS, motor=True, lags="equal")
        whole = WholeMotor(problem)
        whole.check(problem)
        everyone: list[Stepper] = [Copy(problem), ActuonInPlace(problem), whole]
        times = measure(everyone, DOFS, seconds)
    labels = ("copying what the second touches", "delay + PD + DC motor + max effort", whole.label)
    for label, own in zip(labels, times, strict=True):
        rows.append((label, *own.cells(), f"{own.loop / times[1].loop:.2f}"))
    title = f"{grouped(DOFS)} DOFs, one thread, one launch each, in place."
    return [Table(title, ("chain", *TIMES_HEADER, "÷ without gear and friction"), rows)]
