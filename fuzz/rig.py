# SPDX-License-Identifier: Apache-2.0
"""A rig: what is drawn at random, and what must hold for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.strategies import SearchStrategy


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

    def run(self, seed: int, examples: int | None = None) -> int:
        """Draw the examples of ``seed``, the same ones each time, and check them. Returns how many there were."""
        count = 0

        def counted(**arguments: Any) -> None:
            nonlocal count
            count += 1
            self.check(**arguments)

        configured = settings(
            max_examples=examples or self.examples,
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.target, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        configured(hypothesis.seed(seed)(hypothesis.given(**self.drawn(seed))(counted)))()
        return count


def rig(
    name: str, examples: int, drawn: Callable[[int], Mapping[str, SearchStrategy[Any]]]
) -> Callable[[Callable[..., None]], Rig]:
    """Make a rig of a check."""
    return lambda check: Rig(name, check, drawn, examples)
