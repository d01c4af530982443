# SPDX-License-Identifier: Apache-2.0
"""``actuon motors``: the motor catalogue."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import actuon

from .show import make_console, print_motor, print_motors


def motors() -> None:
    """List the motor catalogue, or show one motor.

    Values are those at the joint. Empty cells: no source has the value.
    """
    print_motors(make_console(), [actuon.find_motor(name) for name in actuon.motor_names()])


def show(name: Annotated[str, Parameter(completer=lambda context: actuon.motor_names())], /) -> None:
    """Show one motor: each value of its data sheet with its source, and the parameter that it becomes.

    Args:
        name: Name of a motor in `actuon motors`. Case, spaces and hyphens are ignored.
    """
    print_motor(make_console(), actuon.find_motor(name))
