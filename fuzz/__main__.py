# SPDX-License-Identifier: Apache-2.0
"""``python -m fuzz``: run the rigs in turn, with one seed after the other, for some minutes or cases."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

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
    parser.add_argument("--cases", type=int, help="Stop after so many cases of each rig.")
    parser.add_argument("--seed", type=int, default=0, help="The first; without --minutes or --cases, the only one.")
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
    return run(rigs, asked.seed, asked.minutes, asked.cases, asked.examples) if rigs else 0


def run(
    rigs: Iterable[Rig], first: int, minutes: float | None, cases: int | None = None, examples: int | None = None
) -> int:
    """Run rigs in turn, and print a line for each that says what it did."""
    wp.config.optimization_level = 0  # rigs compile more than they step; `make test-levels` compares the bits
    left = list(rigs)
    for rig in left:
        rig.tally.clear()
    ran, start = list(left), time.monotonic()
    spent: Counter[str] = Counter()
    failed: defaultdict[str, list[str]] = defaultdict(list)
    for seed in itertools.count(first):
        for rig in left:
            began = time.monotonic()
            asked = examples or rig.examples
            if cases is not None:
                asked = min(asked, cases - rig.tally["cases"])
            print(f"{_clock(start)}  seed {seed}  {rig.name}: ", end="", flush=True)
            try:
                said = f"{rig.run(seed, asked)} cases"
            except Exception:
                print(f"\n{traceback.format_exc()}")
                again = f"python -m fuzz {rig.name} --seed {seed}" + (f" --examples {examples}" if examples else "")
                failed[rig.name].append(again)
                said = f"FAILED; again with: {again}"
            spent[rig.name] += time.monotonic() - began
            print(said, flush=True)
        is_over = minutes is not None and time.monotonic() - start >= 60.0 * minutes
        left = [] if is_over or cases is None else [rig for rig in left if rig.tally["cases"] < cases]
        if not left and (cases is not None or minutes is None or is_over):
            break
        left = left or ran
    commit = _commit()
    print()
    for rig in ran:
        seconds, failures = round(spent[rig.name]), len(failed[rig.name])
        print(f"{rig.name}: {rig.tally}, {seconds} s, {failures} failures, seeds {first} to {seed}, commit {commit}")
    for again in itertools.chain(*failed.values()):
        print(f"failed: {again}")
    return 1 if any(failed.values()) else 0


def _clock(start: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - start), 60)
    return f"{minutes:3d}:{seconds:02d}"


def _commit() -> str:
    """The commit that was run, with a ``+`` where files differ from it."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True).stdout.strip()

    try:
        return (git("rev-parse", "--short", "HEAD") or "unknown") + "+" * bool(git("status", "--porcelain"))
    except OSError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
