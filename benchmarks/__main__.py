# SPDX-License-Identifier: Apache-2.0
"""Actuon beside Newton's actuators, PyTorch and copying the same bytes, measured in one run on this machine.

Each row first checks that all agree on the efforts of several steps. Then all step in turns, round after round: in a
loop, where other work of about 1 ms walks through 8 MB between two steps, and back to back. Robots in engines repeat
the same motion, beside the engine with the same efforts given.

Run with ``make bench``, or ``python -m benchmarks --markdown`` for the README's tables. ``--check`` checks that all
agree, at small sizes, and measures nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import warp as wp

from scripts.machine import machine
from scripts.measured import save_tables

from . import (
    arrays,
    attaching,
    chains,
    derivatives,
    environments,
    first_use,
    groups,
    motors,
    networks,
    one_robot,
    own_loop,
    robots,
    sizes,
)
from .gate import Disagreement, Gate
from .runner import Table, use_avx2

VECTORS = "kernels use vectors of at most 256 bits, those of networks over arrays of 512 if the CPU has them"


class Part(NamedTuple):
    """The function that measures a part, and the gate that it passes first, if there is anything to agree on."""

    measure: Callable[[float], Sequence[Table]]
    gate: Gate[Any] | None = None


PARTS = {
    "groups": Part(groups.measure_groups, groups.GATE),
    "chains": Part(chains.measure_chains, chains.GATE),
    "sizes": Part(sizes.measure_sizes, sizes.GATE),
    "arrays": Part(arrays.measure_arrays, arrays.GATE),
    "motors": Part(motors.measure_motors, motors.GATE),
    "derivatives": Part(derivatives.measure_derivatives, derivatives.GATE),
    "networks": Part(networks.measure_networks, networks.GATE),
    "robots": Part(robots.measure_robots, robots.GATE),
    "one_robot": Part(one_robot.measure_one_robot, one_robot.GATE),
    "own_loop": Part(own_loop.measure_own_loop, own_loop.GATE),
    "attaching": Part(attaching.measure_attaching, attaching.GATE),
    "environments": Part(environments.measure_environments, environments.GATE),
    "first_use": Part(first_use.measure_first_use),
}
GATES = {name: part.gate for name, part in PARTS.items() if part.gate}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="time for the rows that are measured together")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to run: {', '.join(PARTS)}")
    parser.add_argument("--avx2", action="store_true", help="compile for a CPU without AVX-512; leaves out first_use")
    parser.add_argument("--markdown", action="store_true", help="print tables for a README")
    parser.add_argument("--save", action="store_true", help="keep the tables for python -m scripts.measured")
    parser.add_argument("--check", action="store_true", help="check that contenders agree, without measuring")
    options = parser.parse_args(arguments)
    wp.config.log_level = wp.LOG_WARNING
    # Threads that torch.compile leaves behind would end the graphs of Newton on the CPU, in the parts that follow.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    if options.avx2:
        use_avx2()
    parts = options.only or [part for part in PARTS if part != "first_use" or not options.avx2]
    try:
        if options.check:
            _check([part for part in parts if part in GATES])
            return
        measured = {part: PARTS[part].measure(options.seconds) for part in parts}
    except Disagreement as error:
        sys.exit(f"{parser.prog}: {error}")
    where = machine("warp-lang", "newton", "mujoco", "torch", "numpy")
    print(f"\n{where}; {'compiled for AVX2' if options.avx2 else VECTORS}", flush=True)
    for tables in measured.values():
        for table in tables:
            table.print(options.markdown)
    sys.stdout.flush()
    if options.save:
        save_tables(
            {
                part if number == 1 else f"{part}_{number}": {"header": table.header, "rows": table.rows}
                for part, tables in measured.items()
                for number, table in enumerate(tables, start=1)
            }
        )


def _check(parts: Sequence[str]) -> None:
    for part in parts:
        count = GATES[part].check()
        print(f"{part}: {count} {'row agrees' if count == 1 else 'rows agree'}", flush=True)


if __name__ == "__main__":
    logging.getLogger("actuon").setLevel(logging.ERROR)  # friction and integrators that motors replace
    main()
