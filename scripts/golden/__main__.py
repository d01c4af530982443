# SPDX-License-Identifier: Apache-2.0
"""Writes golden files, and compares with them bit for bit.

Run ``python -m scripts.golden write`` on the commit before a rebuild, and ``python -m scripts.golden check`` after each
step of it. The files belong to one machine: bits differ between CPUs, so they are not committed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import warp as wp

import actuon
from actuon.kernel import types

from . import chains, file, fits, implicit, networks, robots
from .case import Case, Scope, Unavailable

PARTS: dict[str, Callable[[Scope], Iterator[Case]]] = {
    "chains": chains.cases,
    "networks": networks.cases,
    "implicit": implicit.cases,
    "robots": robots.cases,
    "fits": fits.cases,
}


class Run:
    """One pass over the cases of a part."""

    def __init__(self, part: str, scope: Scope):
        self.part = part
        self.arrays: file.Arrays = {}
        """Results, by entry."""
        self.failed: dict[str, str] = {}
        """Cases that raised, and what."""
        self.unavailable: dict[str, str] = {}
        """Cases that this machine cannot run, and why."""
        self._begin = self._told = time.monotonic()
        cases = [case for case in PARTS[part](scope) if case.name.startswith(scope.prefix)]
        for count, case in enumerate(cases, start=1):
            self._run(case)
            self._tell(count)
        self._tell(len(cases), final=True)

    def _run(self, case: Case) -> None:
        try:
            found = {f"{case.name}/{name}": np.array(array) for name, array in case.arrays()}
        except Unavailable as error:
            self.unavailable[case.name] = str(error)
        except Exception as error:  # any: the other cases are still worth their comparison
            self.failed[case.name] = f"{type(error).__name__}: {error}"
        else:
            self.arrays |= found

    def _tell(self, count: int, *, final: bool = False) -> None:
        now = time.monotonic()
        if final or now - self._told > 5.0:
            self._told = now
            said = f"{self.part}: {count} cases, {len(self.arrays)} entries, {now - self._begin:.0f} s"
            print(said, file=sys.stderr, flush=True)


def write(folder: Path, parts: Sequence[str], scope: Scope) -> int:
    """Write the golden files of some parts. Returns the exit code: 1 where a case failed."""
    folder.mkdir(parents=True, exist_ok=True)
    described, failed = file.about(), 0
    for part in parts:
        run = Run(part, scope)
        file.write(folder / f"{part}.npz", run.arrays, described)
        failed += len(run.failed)
        _print_cases(run)
        print(f"{folder / part}.npz: {_count(len(run.arrays), 'entries')}", flush=True)
    return 1 if failed else 0


def check(folder: Path, parts: Sequence[str], scope: Scope) -> int:
    """Compute some parts anew and compare. Returns the exit code: 1 where anything differs, failed or is missing."""
    equal = differ = 0
    told: set[str] = set()
    here = file.about()
    for part in parts:
        path = folder / f"{part}.npz"
        if not path.is_file():
            print(f"{path}: does not exist; write it first, at the commit to compare with")
            differ += 1
            continue
        stored, before = file.read(path)
        stored = {name: array for name, array in stored.items() if name.startswith(scope.prefix)}
        for line in _other_machine(before, here):
            if line not in told:
                print(line)
                told.add(line)
        run = Run(part, scope)
        _print_cases(run)
        differ += len(run.failed)
        for name, array in run.arrays.items():
            said = file.difference(stored[name], array) if name in stored else "is new"
            differ += bool(said)
            equal += not said
            if said:
                print(f"{name}: {said}")
        for name in sorted(stored.keys() - run.arrays.keys()):
            if not _is_of(name, run.failed) and not _is_of(name, run.unavailable):
                print(f"{name}: is missing")
                differ += 1
        differ += sum(_is_of(name, run.unavailable) for name in stored)
    print(f"{_count(equal, 'entries')} equal, {_count(differ, 'differ')}", flush=True)
    if not equal + differ:
        print(f"nothing was compared: no case begins with '{scope.prefix}'")
    return 1 if differ or not equal else 0


def _is_of(entry: str, cases: Iterable[str]) -> bool:
    return any(entry.startswith(f"{case}/") for case in cases)


def _print_cases(run: Run) -> None:
    for name, said in run.unavailable.items():
        print(f"{name}: left out: {said}")
    for name, said in run.failed.items():
        print(f"{name}: failed with {said}")


def _other_machine(before: dict[str, str], here: dict[str, str]) -> Iterator[str]:
    """Say what is not as it was when the file was written; another commit is the point of it."""
    yield f"compared with commit {before['commit']}"
    for key, value in here.items():
        if key != "commit" and before.get(key) != value:
            yield f"{key}: is {value}; was {before.get(key)}. Bits may differ for that reason"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}".replace(",", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.golden", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("write", "check"))
    parser.add_argument("--folder", type=Path, default=Path("golden"), help="folder of the files, one for each part")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to run: {', '.join(PARTS)}")
    parser.add_argument("--prefix", default="", help="check only cases whose names begin so, such as chains/drive")
    parser.add_argument(
        "--dofs", nargs="+", type=int, default=Scope.dofs, metavar="N", help="numbers of DOFs of chains"
    )
    parser.add_argument(
        "--level", type=int, choices=range(4), help="optimisation of kernels; default: as users have it"
    )
    parser.add_argument("--narrow", action="store_true", help="use no 512-bit vectors in any kernel")
    options = parser.parse_args(arguments)
    if options.prefix and options.command == "write":
        parser.error("--prefix goes with check: a file holds its part whole")
    actuon.quiet()
    wp.config.optimization_level = options.level
    if options.narrow:
        wp.config.cpu_compiler_flags = f"{wp.config.cpu_compiler_flags or '-march=native'} {types.NARROW}"
    warnings.simplefilter("ignore")
    logging.getLogger("actuon").setLevel(logging.ERROR)
    run = write if options.command == "write" else check
    scope = Scope(dofs=tuple(options.dofs), prefix=options.prefix)
    return run(options.folder, options.only or list(PARTS), scope)


if __name__ == "__main__":
    sys.exit(main())
