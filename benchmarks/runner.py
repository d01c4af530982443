# SPDX-License-Identifier: Apache-2.0
"""Measuring contenders in turns, and printing tables."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import warp as wp

_TURN = 0.03
"""Length of a turn of steps back to back [s]: threads of who was before, which wait busily, have gone to sleep."""

_LOOP_TURN = 12
"""Steps in a turn with other work between them."""

_LOOP_UNCOUNTED = 3
"""The first steps of a turn, which find the arrays of who was before in the caches."""

_WALKED = 8 * 2**20
"""Bytes that the other work walks through. That takes about 1 ms."""


class Stepper(Protocol):
    """A contender that is measured."""

    label: str

    def step(self) -> None: ...


class Repeatable(Stepper, Protocol):
    """A contender that takes the same steps again and again."""

    def prepare(self, at: int) -> None:
        """Get ready for the step with this number; for the first, go back to the start."""


@dataclass(frozen=True)
class Times:
    """Time of one step [s]."""

    back_to_back: float
    """The best where one step follows the other."""
    loop: float
    """The median where other work comes between two steps, as physics does in a robot's loop."""
    loop_best: float

    def cells(self) -> tuple[str, str, str]:
        """Format the times in the order of `TIMES_HEADER`."""
        return micro(self.loop), micro(self.loop_best), micro(self.back_to_back)


TIMES_HEADER = ("in a loop, median µs", "best µs", "back to back, best µs")


def progress(text: str) -> None:
    """Print on stderr what is measured next."""
    print(f"  {text} …", file=sys.stderr, flush=True)


def micro(seconds: float) -> str:
    """Format a time in µs."""
    return f"{seconds * 1e6:.1f}"


def times_faster(peer: Times, own: Times) -> str:
    """Format how many times faster than a peer a contender is in a loop."""
    return f"{peer.loop / own.loop:.1f} ×"


def grouped(number: int) -> str:
    """Format a whole number, its digits in groups of three."""
    return f"{number:,}".replace(",", " ")


def measure(steppers: Sequence[Stepper], n: int, seconds: float) -> list[Times]:
    """Return the times of each, half of the seconds back to back and half with other work in between.

    All step in turns, round after round, so that other work on a shared machine hits all alike.
    """
    best = _back_to_back(steppers, n, seconds / 2)
    loops = _in_a_loop(steppers, seconds / 2)
    return [Times(a, statistics.median(b), min(b)) for a, b in zip(best, loops, strict=True)]


def _back_to_back(steppers: Sequence[Stepper], n: int, seconds: float) -> list[float]:
    per_round = max(1, min(200, 20_000 // n))
    best = [float("inf")] * len(steppers)
    end = time.perf_counter() + seconds
    while best[-1] == float("inf") or time.perf_counter() < end:
        for i, stepper in enumerate(steppers):
            step = stepper.step
            turn = time.perf_counter() + _TURN
            while (start := time.perf_counter()) < turn:
                for _ in range(per_round):
                    step()
                best[i] = min(best[i], (time.perf_counter() - start) / per_round)
    return best


def _in_a_loop(steppers: Sequence[Stepper], seconds: float) -> list[list[float]]:
    walked = np.zeros(_WALKED // 4, np.float32)
    taken: list[list[float]] = [[] for _ in steppers]
    end = time.perf_counter() + seconds
    while not taken[-1] or time.perf_counter() < end:
        for stepper, times in zip(steppers, taken, strict=True):
            step = stepper.step
            for i in range(_LOOP_TURN):
                walked += 1.0
                start = time.perf_counter()
                step()
                duration = time.perf_counter() - start
                if i >= _LOOP_UNCOUNTED:
                    times.append(duration)
    return taken


def best_steps(
    contenders: Sequence[Repeatable],
    steps: int,
    seconds: float,
    clocks: Sequence[Callable[[], float]] = (time.perf_counter,),
) -> np.ndarray:
    """Return the best time of each step, by each clock [s], shape (contenders, steps, clocks).

    All take the same steps in turns, round after round. A step is compared with itself in other rounds, so that what
    differs along a motion is not taken for noise. Getting ready is not timed.
    """
    best = np.full((len(contenders), steps, len(clocks)), np.inf)
    end = time.perf_counter() + seconds
    while not np.isfinite(best).all() or time.perf_counter() < end:
        for contender, times in zip(contenders, best, strict=True):
            step, taken = contender.step, []
            for at in range(steps):
                contender.prepare(at)
                start = [clock() for clock in clocks]
                step()
                taken.append([clock() - since for clock, since in zip(clocks, start, strict=True)])
            np.minimum(times, taken, out=times)
    return best


@dataclass(frozen=True)
class Table:
    """Results of a part of the benchmark."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def print(self, markdown: bool) -> None:
        widths = [max(len(row[i]) for row in (self.header, *self.rows)) for i in range(len(self.header))]
        edge, between = ("| ", " | ") if markdown else ("  ", "  ")
        print(f"\n{self.title}\n")
        for i, row in enumerate((self.header, *self.rows)):
            print(edge + between.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + edge[::-1])
            if i == 0 and markdown:
                print("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
            elif i == 0:
                print(" " + "-".join("-" * (width + 2) for width in widths))


@contextmanager
def one_thread() -> Iterator[None]:
    """Build and step on one CPU thread inside the context."""
    before = os.environ.get("ACTUON_NUM_THREADS")
    os.environ["ACTUON_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["ACTUON_NUM_THREADS"]
        else:
            os.environ["ACTUON_NUM_THREADS"] = before


def use_avx2() -> None:
    """Compile kernels as for a CPU with AVX2 and without AVX-512 (Zen 3), and have PyTorch choose its code so too.

    Call it before PyTorch is imported and before a kernel is made.
    """
    wp.config.cpu_compiler_flags = (wp.config.cpu_compiler_flags or "-march=native").replace(
        "-march=native", "-target-cpu znver3"
    )
    os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
    os.environ["ONEDNN_MAX_CPU_ISA"] = os.environ["MKL_ENABLE_INSTRUCTIONS"] = "AVX2"
