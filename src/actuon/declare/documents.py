# SPDX-License-Identifier: Apache-2.0
"""Declarations of YAML documents: the allowed values of each key.

A `Check` is a function of the place of a value, for errors, and the value. It returns the value, or raises
`ParameterError`. Checks of mappings consist of checks of their entries::

    load = entries(mass=number(above=0.0), motor=text())
    load("plant.yaml: load", {"mass": 0.5})

A `Config` declares parameters of components, single numbers in the precision of kernels. Documents hold mappings, names
and numbers of full precision.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from ..errors import ParameterError, listed, shown

T = TypeVar("T")
Check: TypeAlias = Callable[[str, Any], T]
_LONGEST = 1000
"""Longest whole number that counts as text [bits]."""


def number(*, above: float | None = None, nonzero: bool = False) -> Check[float]:
    """Declare a finite number.

    Args:
        above: Exclusive lower bound.
        nonzero: Whether 0 is an error.
    """

    def check(where: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise ParameterError(f"{where}: got {shown(value)}; must be a finite number")
        if above is not None and value <= above:
            raise ParameterError(f"{where}: got {shown(value)}; must be greater than {above:g}")
        if nonzero and value == 0:
            raise ParameterError(f"{where}: got 0; must not be 0")
        return float(value)

    return check


def interval() -> Check[tuple[float, float]]:
    """Declare a list of two finite numbers, the lower end first."""

    def check(where: str, value: Any) -> tuple[float, float]:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise ParameterError(f"{where}: got {shown(value)}; must be two numbers, lowest and highest")
        low, high = (number()(where, end) for end in value)
        if low > high:
            raise ParameterError(f"{where}: got {shown(value)}; must be two numbers, lowest and highest")
        return low, high

    return check


def text(*, empty: bool = False) -> Check[str]:
    """Declare text. Whole numbers count as text, since YAML reads names such as ``1`` as numbers.

    Args:
        empty: Whether "" is allowed.
    """

    def check(where: str, value: Any) -> str:
        is_huge = isinstance(value, int) and value.bit_length() > _LONGEST  # Python writes no more than 4300 digits
        if isinstance(value, bool) or not isinstance(value, (str, int)) or is_huge or not (empty or str(value)):
            raise ParameterError(f"{where}: got {shown(value)}; must be text")
        return str(value)

    return check


def one_of(*values: T) -> Check[T]:
    """Declare one of a few values."""

    def check(where: str, value: Any) -> T:
        if isinstance(value, bool) or value not in values:
            raise ParameterError(f"{where}: got {shown(value)}; must be {' or '.join(map(str, values))}")
        return values[values.index(value)]

    return check


def mapping(entry: Check[T], *, keys: Iterable[str] | None = None) -> Check[dict[str, T]]:
    """Declare a mapping of names to values of one kind. Whole numbers count as names.

    Args:
        entry: Check of each value.
        keys: Allowed names. Default: any.
    """

    def check(where: str, value: Any) -> dict[str, T]:
        return {key: entry(f"{where}.{key}", each) for key, each in _named(where, value, keys).items()}

    return check


def entries(**checks: Check[Any]) -> Check[dict[str, Any]]:
    """Declare a mapping of known keys, each with a separate check. The result omits unset and null keys."""

    def check(where: str, value: Any) -> dict[str, Any]:
        named = _named(where, value, checks)
        return {key: checks[key](f"{where}: {key}", each) for key, each in named.items() if each is not None}

    return check


def _named(where: str, value: Any, keys: Iterable[str] | None) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ParameterError(f"{where}: got {shown(value)}; must be a mapping of names to values")
    named = {
        str(key) if type(key) is int and key.bit_length() <= _LONGEST else key: each for key, each in value.items()
    }
    for key in named:
        if not isinstance(key, str):
            raise ParameterError(f"{where}: got the key {shown(key)}; must be text: put it in quotes")
        if keys is not None and key not in keys:
            raise ParameterError(f"{where}: unknown key '{key}'; {listed(key, keys, 'keys')}")
    return named
