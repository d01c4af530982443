# SPDX-License-Identifier: Apache-2.0
"""The whole chain at all sizes, beside Newton and PyTorch."""

from __future__ import annotations

import sys

from .contenders import (
    ActuonCaptured,
    ActuonInPlace,
    ActuonSwapped,
    Contender,
    Copy,
    NewtonActuators,
    Problem,
    TorchEager,
    check,
)
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, times_faster

SIZES = (12, 1_200, 49_152, 786_432)
LAYOUTS = {"contiguous": "equal", "scattered": "mixed"}
"""Lags by layout."""


def measure_sizes(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for n in SIZES:
        for layout, lags in LAYOUTS.items():
            print(f"  {n} DOFs, {layout} …", file=sys.stderr, flush=True)
            problem = Problem(n, layout, lags=lags)
            classes = (NewtonActuators, TorchEager, ActuonSwapped, ActuonInPlace, ActuonCaptured)
            contenders: list[Contender] = [contender(problem) for contender in classes]
            check(problem, contenders)
            steppers: list[Stepper] = [*contenders, Copy(problem)]
            times = measure(steppers, n, seconds if n < 100_000 else 3 * seconds)
            for stepper, own in zip(steppers, times, strict=True):
                faster = (times_faster(peer, own) for peer in times[:2])
                rows.append((grouped(n), layout, stepper.label, *own.cells(), f"{own.loop / n * 1e9:.2f}", *faster))
    header = ("DOFs", "layout", "who", *TIMES_HEADER, "ns per DOF", "faster than Newton", "faster than PyTorch")
    return [Table("PD + delay 5 + DC motor + max effort.", header, rows)]
