# SPDX-License-Identifier: Apache-2.0
"""What MuJoCo says beside its errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def without_prints_of_mujoco() -> Iterator[None]:
    """MuJoCo, which Newton uses too, would print and log that a state diverges, which is told as an error."""
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
