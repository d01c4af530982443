# SPDX-License-Identifier: Apache-2.0
"""Robots in MuJoCo. Importing the package does not load MuJoCo."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def mute_mujoco_warnings() -> Iterator[None]:
    """Keep MuJoCo, which Newton uses too, from printing and logging that a state diverges: that is an error here."""
    try:
        import mujoco
    except ImportError:
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
