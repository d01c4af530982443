# SPDX-License-Identifier: Apache-2.0
"""Reading a network file once, however many joints use it."""

from __future__ import annotations

import contextvars
import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..typing import PathLike

_Result = TypeVar("_Result")
_open: contextvars.ContextVar[dict[tuple[str, str], Any] | None] = contextvars.ContextVar("actuon_read", default=None)


class ReadOnce:
    """While it is entered, a file that was read is not read again. Inside another one, that one remembers."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Any] = {}
        self._tokens: list[Any] = []

    def __enter__(self) -> ReadOnce:
        outer = _open.get()
        self._tokens.append(_open.set(self._found if outer is None else outer))
        return self

    def __exit__(self, *_: object) -> None:
        _open.reset(self._tokens.pop())


def read_once(function: Callable[[PathLike], _Result]) -> Callable[[PathLike], _Result]:
    """Let a function of a file remember its result inside a `ReadOnce`."""

    @functools.wraps(function)
    def remembering(path: PathLike) -> _Result:
        found = _open.get()
        if found is None or not isinstance(path, (str, os.PathLike)):
            return function(path)
        key = (function.__name__, os.path.abspath(path))
        if key not in found:
            found[key] = function(path)
        return found[key]

    return remembering
