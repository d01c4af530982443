# SPDX-License-Identifier: Apache-2.0
"""Ctrl+C during a fit: it is held until a point at which nothing is lost, and ends the present phase there."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class _Held:
    """Interrupts that were held since the last `check`."""

    is_held = False
    is_pending = False


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold Ctrl+C in this block until `check`. Does nothing inside another such block, or if a handler is set."""
    is_main = threading.current_thread() is threading.main_thread()
    if _Held.is_held or not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def hold(number: int, frame: FrameType | None) -> None:
        _Held.is_pending = True

    signal.signal(signal.SIGINT, hold)
    _Held.is_held, _Held.is_pending = True, False
    try:
        yield
    finally:
        _Held.is_held = _Held.is_pending = False
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check() -> None:
    """Raise KeyboardInterrupt if one is held. Call where results so far are consistent."""
    if _Held.is_pending:
        _Held.is_pending = False
        raise KeyboardInterrupt
