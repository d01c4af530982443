# SPDX-License-Identifier: Apache-2.0
"""Warp's messages, and the function that turns them off."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

import warp as wp

_NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"


def quiet() -> None:
    """Suppress Warp's start-up message, its line for each kernel, and the message that no CUDA driver exists.

    Warnings and errors are still printed. Call it after the import, before anything else: it initialises Warp.

    Examples:
        >>> actuon.quiet()
    """
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    with without_missing_driver():
        wp.init()


@contextlib.contextmanager
def without_missing_driver() -> Iterator[None]:
    """Filter the message about the CUDA driver from the standard error of the block."""
    try:
        terminal = os.dup(2)
    except OSError:  # no standard error
        yield
        return
    _flush()
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            held.seek(0)
            for line in held:
                if _NO_DRIVER not in line:
                    os.write(2, line)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
