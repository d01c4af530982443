# SPDX-License-Identifier: Apache-2.0
"""Chains from PD alone to the whole, in place and with two states, with equal and mixed lags."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .contenders import ActuonInPlace, ActuonSwapped, Copy, NewtonActuators, Problem, require_same_efforts
from .gate import Gate
from .runner import Stepper, Table, Times, grouped, measure, micro, one_thread, progress

DOFS = 49_152


@dataclass(frozen=True)
class Chain:
    """PD, and what else."""

    name: str
    motor: bool = False
    lags: str | None = None


CHAINS = (
    Chain("PD"),
    Chain("PD + motor", motor=True),
    Chain("PD + delay", lags="equal"),
    Chain("PD + delay", lags="mixed"),
    Chain("PD + delay + motor", motor=True, lags="equal"),
    Chain("PD + delay + motor", motor=True, lags="mixed"),
)
PEERS = (NewtonActuators, Copy)

HEADER = (
    "motor model",
    "delays",
    "states",
    "in a loop, median µs",
    "best µs",
    "back to back, best µs",
    "Newton µs",
    "copying µs",
    "faster than Newton",
    "÷ copying (of best)",
    "÷ in place",
    "÷ equal delays",
)


def contenders(chain: Chain, dofs: int) -> list[Stepper]:
    """Build Newton's actuators and Actuon's, which must agree, and a copy of the same bytes."""
    problem = Problem(dofs, motor=chain.motor, lags=chain.lags)
    classes = (NewtonActuators, ActuonInPlace, ActuonSwapped) if chain.lags else (NewtonActuators, ActuonInPlace)
    made = [contender(problem) for contender in classes]
    where = f"chains, {chain.name}" + (f", {chain.lags} lags" if chain.lags else "")
    require_same_efforts(where, problem, made, tolerance=1e-4)
    return [*made, Copy(problem)]


GATE = Gate(CHAINS, contenders, smallest=12)


def measure_chains(seconds: float) -> list[Table]:
    progress(f"{DOFS} DOFs, chains")
    with one_thread():
        steppers = {(chain, type(stepper)): stepper for chain in CHAINS for stepper in contenders(chain, DOFS)}
        measured = measure(list(steppers.values()), DOFS, seconds / 4 * len(CHAINS))
    times = dict(zip(steppers, measured, strict=True))
    rows = [_cells(chain, who, times) for chain, who in times if who not in PEERS]
    title = (
        f"{grouped(DOFS)} DOFs, one thread. Delay: 5 steps at most; motor: DC motor and max effort. Newton and "
        "copying: medians in the loop. Ratios are of medians."
    )
    return [Table(title, HEADER, rows)]


def _cells(chain: Chain, who: type, times: dict[tuple[Chain, type], Times]) -> tuple[str, ...]:
    own, newton, copy = (times[chain, kind] for kind in (who, *PEERS))
    swapped, mixed = who is ActuonSwapped, chain.lags == "mixed"
    return (
        chain.name,
        chain.lags or "",
        ("two" if swapped else "in place") if chain.lags else "",
        *own.cells(),
        micro(newton.loop),
        micro(copy.loop),
        f"{newton.loop / own.loop:.1f} ×",
        f"{own.loop / copy.loop:.2f} ({own.loop_best / copy.loop_best:.2f})",
        f"{own.loop / times[chain, ActuonInPlace].loop:.2f}" if swapped else "",
        f"{own.loop / times[replace(chain, lags='equal'), who].loop:.2f}" if mixed else "",
    )
