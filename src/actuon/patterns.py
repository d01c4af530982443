# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that match names in bounded time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]  # nothing public reads an expression
from typing import Any

_MOST = 10**8
"""Ways to match a name that are tried at most."""
_LENGTH = 100
"""Length of a name where there is none yet."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def compile_pattern(pattern: str, names: Iterable[str] = ()) -> re.Pattern[str]:
    """Compile a regular expression that is matched with names.

    `re` tries all ways to match, which can take for ever, in any thread: ``(a+)+b`` has 2ⁿ for a name of n characters.

    Args:
        pattern: The expression.
        names: What it is to match; their length bounds the number of ways.

    Raises:
        re.error: It is not valid, or has too many ways to match.
    """
    try:
        compiled = re.compile(pattern)
        ways = _ways(_parser.parse(pattern), max(map(len, names), default=_LENGTH))
    except (OverflowError, RecursionError) as error:
        raise re.error(str(error)) from error
    if ways > _MOST:
        raise re.error("repetitions inside repetitions, or too many of them, could take for ever; use fewer")
    return compiled


def _ways(parsed: Any, length: int) -> int:
    """Upper bound of the ways in which a part of an expression can match within ``length`` characters."""
    ways = 1
    for operation, value in parsed:
        if str(operation) in _REPEATS:
            least, most, part = value
            most = min(int(most), length)
            ways *= max(1, most - int(least) + 1) * _ways(part, length) ** min(most, _MOST.bit_length())
        elif str(operation) == "BRANCH":
            ways *= sum(_ways(part, length) for part in value[1])
        else:
            for part in value if isinstance(value, (tuple, list)) else [value]:
                ways *= _ways(part, length) if isinstance(part, _parser.SubPattern) else 1
        ways = min(ways, _MOST + 1)
    return ways
