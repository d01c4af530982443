# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that match names in bounded time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from re import _compiler, _parser  # type: ignore[attr-defined]  # nothing public reads an expression
from typing import Any

_MOST = 10**7
"""Largest number of ways to match a name: less than a second of `re`."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_ONE_CHARACTER = ("LITERAL", "NOT_LITERAL", "IN", "ANY")


def compile_pattern(pattern: str, names: Iterable[str] = ()) -> re.Pattern[str]:
    """Compile a regular expression for names.

    `re` tries all ways to match, which may never end: ``(a+)+b`` has 2ⁿ for a name of n characters.

    Args:
        pattern: The expression.
        names: Names to match.

    Raises:
        re.error: It is not valid, or has too many ways to match one of the names.
    """
    names = list(names)
    try:
        compiled = re.compile(pattern)
        parsed = _parser.parse(pattern)
        if _ways(parsed, max(map(len, names), default=0)) > _MOST:
            attempts = _Attempts(parsed)
            for name in dict.fromkeys(names):
                attempts.check(name)
    except (OverflowError, RecursionError) as error:
        raise re.error(str(error)) from error
    return compiled


def _ways(parsed: Any, length: int) -> int:
    """Return an upper bound of the number of ways in which a part of an expression can match ``length`` characters."""
    ways = 1
    for operation, value in parsed:
        if str(operation) in _REPEATS:
            least, most, part = value
            turns = max(min(int(most), length) - int(least) + 1, int(least) - length, 1)
            ways *= turns * _ways(part, length) ** min(int(most), length, _MOST.bit_length())
        elif str(operation) == "BRANCH":
            ways *= sum(_ways(part, length) for part in value[1])
        else:
            for part in value if isinstance(value, (tuple, list)) else [value]:
                ways *= _ways(part, length) if isinstance(part, _parser.SubPattern) else 1
        ways = min(ways, _MOST + 1)
    return ways


class _Attempts:
    """Counter of the ways to match a name with an expression.

    A state of matching is a position in the name. The number of ways to reach each is summed operation by operation.
    """

    def __init__(self, parsed: Any):
        self._parsed = parsed
        self._characters: dict[int, re.Pattern[str]] = {}
        """Expressions for operations that match one character, by the id of the operation in ``parsed``."""

    def check(self, name: str) -> None:
        """Raise if a name has too many ways to match."""
        self._name, self._left = name, _MOST
        self._after(self._parsed, Counter({0: 1}), 0)

    def _after(self, parsed: Any, reached: Counter[int], flags: int) -> Counter[int]:
        """Return the counts of each position after a part of the expression, from those before it."""
        for operation in parsed:
            reached = self._after_one(operation, reached, flags)
            self._spend(reached, 1)
        return reached

    def _spend(self, reached: Counter[int], times: int) -> None:
        self._left -= reached.total() * times
        if self._left < 0:
            raise re.error(
                f"would take too long to match '{self._name}': it has nested repetitions such as (a+)+, or too many "
                "in a row; use fewer"
            )

    def _after_one(self, operation: tuple[object, Any], reached: Counter[int], flags: int) -> Counter[int]:
        kind, value = str(operation[0]), operation[1]
        if kind in _ONE_CHARACTER:
            regex = self._character(operation, flags)
            return Counter({at + 1: n for at, n in reached.items() if regex.match(self._name, at)})
        if kind in _REPEATS:
            return self._repeated(value, reached, flags)
        if kind == "BRANCH":
            return sum((self._after(part, reached, flags) for part in value[1]), Counter())
        if kind == "SUBPATTERN":
            _, added, removed, part = value
            return self._after(part, reached, (flags | added) & ~removed)
        if kind == "ATOMIC_GROUP":
            return self._after(value, reached, flags)
        if kind == "GROUPREF":  # at most any text
            end = len(self._name) + 1
            return sum((Counter(dict.fromkeys(range(at, end), n)) for at, n in reached.items()), Counter())
        if kind == "GROUPREF_EXISTS":
            _, then, otherwise = value
            return self._after(then, reached, flags) + self._after(otherwise or (), reached, flags)
        if kind in ("ASSERT", "ASSERT_NOT"):
            direction, part = value
            back = part.getwidth()[0] if direction < 0 else 0
            self._after(part, Counter({at - back: n for at, n in reached.items() if at >= back}), flags)
        return reached

    def _repeated(self, value: Any, reached: Counter[int], flags: int) -> Counter[int]:
        least, most, part = int(value[0]), int(value[1]), value[2]
        found = reached.copy() if least == 0 else Counter()
        for turn in range(1, most + 1):
            reached = self._after(part, reached, flags)
            if turn >= least:
                found += reached
            if not reached:
                break
            if turn > len(self._name):  # from here on turns are empty
                self._spend(reached, max(least - turn, 0))
                return found + reached if turn < least else found
        return found

    def _character(self, operation: tuple[object, Any], flags: int) -> re.Pattern[str]:
        if id(operation) not in self._characters:
            alone = _parser.SubPattern(self._parsed.state, [operation])
            self._characters[id(operation)] = _compiler.compile(alone, flags)
        return self._characters[id(operation)]
