# SPDX-License-Identifier: Apache-2.0
"""Calls of tests in another process."""

from __future__ import annotations

import os
import time

import actuon


def count_up(count, tell):
    """Tells 0, 1, … and how far it came."""
    for i in range(count):
        try:
            tell(i)
        except KeyboardInterrupt:
            return i
    return count


def refuse(what, tell):
    raise actuon.ParameterError(f"must be {what}")


def divide(by, tell):
    return 1 / by


def leave(tell):
    os._exit(1)


def wait_long(tell):
    tell("began")
    time.sleep(600.0)
