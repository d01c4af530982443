# SPDX-License-Identifier: Apache-2.0
"""Actuon beside Newton's actuators, PyTorch and copying the same bytes, measured in one run on this machine.

Each row first checks that all agree on the efforts of several steps. Then all step in turns, round after round: in a
loop, where other work of about 1 ms walks through 8 MB between two steps, and back to back.

Run with ``make bench``, or ``python -m benchmarks --markdown`` for the README's tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import warp as wp

from scripts.machine import machine

from . import chains, environments, first_use, groups, motors, networks, robots, sizes, tangents
from .runner import Table, use_avx2

PARTS: dict[str, Callable[[float], Sequence[Table]]] = {
    "groups": groups.measure_groups,
    "chains": chains.measure_chains,
    "sizes": sizes.measure_sizes,
    "motors": motors.measure_motors,
    "tangents": tangents.measure_tangents,
    "networks": networks.measure_networks,
    "robots": robots.measure_robots,
    "environments": environments.measure_environments,
    "first_use": first_use.measure_first_use,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="time for the rows that are measured together")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to run: {', '.join(PARTS)}")
    parser.add_argument("--avx2", action="store_true", help="compile for a CPU without AVX-512; leaves out first_use")
    parser.add_argument("--markdown", action="store_true", help="print tables for a README")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    if options.avx2:
        use_avx2()
    parts = options.only or [part for part in PARTS if part != "first_use" or not options.avx2]
    tables = [table for part in parts for table in PARTS[part](options.seconds)]
    print(
        f"\n{machine('warp-lang', 'newton', 'torch', 'numpy')}{'; compiled for AVX2' if options.avx2 else ''}",
        flush=True,
    )
    for table in tables:
        table.print(options.markdown)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
