# SPDX-License-Identifier: Apache-2.0
"""The correctness gate of a part: contenders must agree before times are measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from .runner import Stepper

Row = TypeVar("Row")


class Disagreement(Exception):
    """Contenders that must give the same numbers do not.

    Args:
        where: Part, row, size and, where known, step.
        who: Label of the contender that is off.
        peer: Label of the contender that it is compared with.
        difference: Largest absolute difference between their numbers.
    """

    def __init__(self, where: str, who: str, peer: str, difference: float):
        super().__init__(f"{where}: {who} differs from {peer} by up to {difference:.3g}; no times are measured")
        self.where, self.who, self.peer, self.difference = where, who, peer, difference


def require_agreement(where: str, numbers: Mapping[str, np.ndarray], rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise `Disagreement` unless all arrays, given by contender, are close to the first; by default, equal to it."""
    (peer, expected), *others = numbers.items()
    for who, actual in others:
        if not np.allclose(actual, expected, rtol=rtol, atol=atol):
            raise Disagreement(where, who, peer, float(np.max(np.abs(actual - expected))))


@dataclass(frozen=True)
class Gate(Generic[Row]):
    """Rows of a part and the function that builds their contenders, with which the part measures too."""

    rows: Collection[Row]
    contenders: Callable[[Row, int], Sequence[Stepper]]
    """Builds the contenders of a row at a size; raises `Disagreement` unless they agree."""
    smallest: int
    """Size at which agreement is checked without measuring."""

    def check(self) -> int:
        """Build the contenders of every row at the smallest size. Returns the number of rows."""
        for row in self.rows:
            self.contenders(row, self.smallest)
        return len(self.rows)
