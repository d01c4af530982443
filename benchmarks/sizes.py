# SPDX-License-Identifier: Apache-2.0
"""The whole chain at all sizes, beside Newton and PyTorch."""

from __future__ import annotations

from .contenders import (
    ActuonByRobot,
    ActuonCaptured,
    ActuonInPlace,
    ActuonSwapped,
    Copy,
    NewtonActuators,
    Problem,
    TorchEager,
    require_same_efforts,
)
from .gate import Gate
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, progress, times_faster

SIZES = (12, 1_200, 49_152, 786_432)
LAYOUTS = {"contiguous": "equal", "scattered": "mixed"}
"""Lags by layout."""


def contenders(layout: str, dofs: int) -> list[Stepper]:
    """Build Newton's actuators, PyTorch and Actuon's, which must agree, and a copy of the same bytes."""
    problem = Problem(dofs, layout, lags=LAYOUTS[layout])
    classes = (NewtonActuators, TorchEager, ActuonSwapped, ActuonInPlace, ActuonCaptured, ActuonByRobot)
    made = [contender(problem) for contender in classes]
    require_same_efforts(f"sizes, {layout}", problem, made, tolerance=1e-4)
    return [*made, Copy(problem)]


GATE = Gate(LAYOUTS, contenders, smallest=12)


def measure_sizes(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for n in SIZES:
        for layout in LAYOUTS:
            progress(f"{n} DOFs, {layout}")
            steppers = contenders(layout, n)
            times = measure(steppers, n, seconds if n < 100_000 else 3 * seconds)
            for stepper, own in zip(steppers, times, strict=True):
                faster = (times_faster(peer, own) for peer in times[:2])
                rows.append((grouped(n), layout, stepper.label, *own.cells(), f"{own.loop / n * 1e9:.2f}", *faster))
    header = ("DOFs", "layout", "who", *TIMES_HEADER, "ns per DOF", "faster than Newton", "faster than PyTorch")
    return [Table("PD + delay 5 + DC motor + max effort.", header, rows)]
