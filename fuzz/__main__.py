# SPDX-License-Identifier: Apache-2.0
"""``python -m fuzz``: run the rigs in turn, with one seed after the other, for some minutes."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable

import torch
import warp as wp

from . import soak
from .rig import Rig
from .rigs import RIGS


def main() -> int:
    """Run what the command line asks for. The exit code is 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("rigs", nargs="*", metavar="rig", help=f"{', '.join(RIGS)} or soak. Default: all but the soak.")
    parser.add_argument("--minutes", type=float, help="Stop after so many minutes, at the end of a seed.")
    parser.add_argument("--seed", type=int, default=0, help="The first seed. Without --minutes, the only one.")
    parser.add_argument("--examples", type=int, help="How many to draw of each seed, instead of a rig's own number.")
    parser.add_argument("--steps", type=int, default=1_000_000, help="Length of the soak.")
    asked = parser.parse_args()
    unknown = sorted(set(asked.rigs) - {*RIGS, "soak"})
    if unknown:
        parser.error(f"there is no rig '{unknown[0]}'; rigs: {', '.join(RIGS)}, soak")
    faulthandler.enable()
    wp.config.log_level = wp.LOG_ERROR
    torch.set_num_threads(1)
    if "soak" in asked.rigs:
        soak.main(asked.steps, asked.seed)
    rigs = [RIGS[name] for name in asked.rigs if name != "soak"] or ([] if asked.rigs else list(RIGS.values()))
    return run(rigs, asked.seed, asked.minutes, asked.examples) if rigs else 0


def run(rigs: Iterable[Rig], first: int, minutes: float | None, examples: int | None) -> int:
    """Run rigs in turn, and print what they did."""
    rigs = list(rigs)
    start = time.monotonic()
    drawn: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    failed = []
    for seed in itertools.count(first):
        for rig in rigs:
            began = time.monotonic()
            print(f"{_clock(start)}  seed {seed}  {rig.name}: ", end="", flush=True)
            try:
                drawn[rig.name] += (count := rig.run(seed, examples))
                said = f"{count} examples"
            except Exception:
                print(f"\n{traceback.format_exc()}")
                again = f"python -m fuzz {rig.name} --seed {seed}" + (f" --examples {examples}" if examples else "")
                failed.append(again)
                said = f"FAILED; again with: {again}"
            spent[rig.name] += time.monotonic() - began
            print(said, flush=True)
        if minutes is None or time.monotonic() - start >= 60.0 * minutes:
            break
    print(f"\n{'rig':<16}{'examples':>10}{'seconds':>10}   seeds {first} to {seed}")
    for rig in rigs:
        print(f"{rig.name:<16}{drawn[rig.name]:>10}{spent[rig.name]:>10.0f}")
    for again in failed:
        print(f"failed: {again}")
    return 1 if failed else 0


def _clock(start: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - start), 60)
    return f"{minutes:3d}:{seconds:02d}"


if __name__ == "__main__":
    sys.exit(main())
