# SPDX-License-Identifier: Apache-2.0
"""The whole chain at all sizes, beside Newton and PyTorch: eager with eager, captured or compiled with the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .contenders import (
    COMPILED,
    EAGER,
    ActuonByRobot,
    ActuonCaptured,
    ActuonInPlace,
    ActuonSwapped,
    Contender,
    Copy,
    NewtonActuators,
    NewtonCaptured,
    Problem,
    TorchCompiled,
    TorchEager,
    require_same_efforts,
)
from .gate import Gate
from .runner import TIMES_HEADER, Table, grouped, measure, progress, times_faster

SIZES = (12, 1_200, 49_152, 786_432)
LAYOUTS = {"contiguous": "equal", "scattered": "mixed"}
"""Lags by layout."""


PEERS: Sequence[Callable[[Problem], Contender]] = (NewtonActuators, NewtonCaptured, TorchEager)
OURS: Sequence[Callable[[Problem], Contender]] = (ActuonSwapped, ActuonInPlace, ActuonCaptured, ActuonByRobot)


def contenders(layout: str, dofs: int) -> list[Contender]:
    """Build Newton's actuators, eager PyTorch and Actuon's, which must agree."""
    problem = Problem(dofs, layout, lags=LAYOUTS[layout])
    made = [contender(problem) for contender in (*PEERS, *OURS)]
    require_same_efforts(f"sizes, {layout}", problem, made, tolerance=1e-4)
    return made


def compiled(layout: str, dofs: int) -> Contender:
    """Build compiled PyTorch, which must agree with eager PyTorch."""
    problem = Problem(dofs, layout, lags=LAYOUTS[layout])
    made = TorchCompiled(problem)
    require_same_efforts(f"sizes, {layout}", problem, [TorchEager(problem), made], tolerance=1e-4)
    return made


GATE = Gate(LAYOUTS, contenders, smallest=12)
"""Leaves out compiled PyTorch, which takes a minute to compile."""

HEADER = (
    "DOFs",
    "layout",
    "mode",
    "who",
    *TIMES_HEADER,
    "ns per DOF",
    "faster than Newton",
    "faster than PyTorch",
    "÷ copying",
)


def measure_sizes(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for n in SIZES:
        for layout in LAYOUTS:
            progress(f"{n} DOFs, {layout}")
            everyone = contenders(layout, n)
            everyone.insert(len(PEERS), compiled(layout, n))
            copy = Copy(Problem(n, layout, lags=LAYOUTS[layout]))
            *measured, copied = measure([*everyone, copy], n, seconds if n < 100_000 else 3 * seconds)
            times = dict(zip(everyone, measured, strict=True))
            newton, torch = ({peer.mode: times[peer] for peer in everyone[i : i + 2]} for i in (0, 2))
            for mode in (EAGER, COMPILED):
                for stepper in (stepper for stepper in everyone if stepper.mode == mode):
                    own = times[stepper]
                    faster = (times_faster(peer[mode], own) for peer in (newton, torch))
                    cells = (*own.cells(), f"{own.loop / n * 1e9:.2f}", *faster, f"{own.loop / copied.loop:.2f}")
                    rows.append((grouped(n), layout, mode, stepper.label, *cells))
            cells = (*copied.cells(), f"{copied.loop / n * 1e9:.2f}", "", "", "1.00")
            rows.append((grouped(n), layout, "", copy.label, *cells))
    return [Table("PD + delay 5 + DC motor + max effort. Speeds are compared within a mode.", HEADER, rows)]
