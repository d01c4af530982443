# SPDX-License-Identifier: Apache-2.0
"""A rig: what is drawn at random, and what must hold for it."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.strategies import SearchStrategy


@contextlib.contextmanager
def without_messages() -> Iterator[None]:
    """Mute warnings and what Actuon logs about robots, in this block."""
    loggers = [logging.getLogger(name) for name in ("actuon.sim", "actuon.lab", "actuon.actuators")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


class Tally:
    """Counts of a rig over all its seeds: cases, and whatever its check counts. Stops at a failure, until `resume`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin at zero."""
        self._counts: Counter[str] = Counter()
        self._seen: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._stopped = False

    def add(self, name: str, count: int = 1) -> None:
        """Count things."""
        if not self._stopped:
            self._counts[name] += count

    def see(self, name: str, what: Hashable) -> None:
        """Count different things: each once."""
        if not self._stopped:
            self._seen[name].add(what)

    def stop(self) -> None:
        """Count no more: what follows is the search for a smaller case."""
        self._stopped = True

    def resume(self) -> None:
        """Count again."""
        self._stopped = False

    def __getitem__(self, name: str) -> int:
        return len(self._seen[name]) if name in self._seen else self._counts[name]

    def __str__(self) -> str:
        counts = self._counts | {name: len(things) for name, things in self._seen.items()}
        return ", ".join(f"{count} {name}" for name, count in counts.items())


@dataclass(frozen=True)
class Rig:
    """A check, and what it is fed.

    Args:
        name: How a command line names it.
        check: Raises where something does not hold. Gets what is drawn, by name.
        drawn: What to draw, by name of the argument, given the seed. What costs a compilation is picked by the seed, so
            that a seed has few of it.
        examples: How many are drawn for a seed.
    """

    name: str
    check: Callable[..., None]
    drawn: Callable[[int], Mapping[str, SearchStrategy[Any]]]
    examples: int
    tally: Tally = field(default_factory=Tally)

    def run(self, seed: int, examples: int | None = None) -> int:
        """Draw the examples of ``seed``, the same ones each time, and check them. Returns how many there were."""
        count = 0

        def counted(**arguments: Any) -> None:
            nonlocal count
            count += 1
            self.tally.add("cases")
            try:
                self.check(**arguments)
            except Exception:
                self.tally.stop()
                raise

        configured = settings(
            max_examples=examples or self.examples,
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.target, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        try:
            configured(hypothesis.seed(seed)(hypothesis.given(**self.drawn(seed))(counted)))()
        finally:
            self.tally.resume()
        return count


def rig(
    name: str, examples: int, drawn: Callable[[int], Mapping[str, SearchStrategy[Any]]]
) -> Callable[[Callable[..., None]], Rig]:
    """Make a rig of a check."""
    return lambda check: Rig(name, check, drawn, examples)
