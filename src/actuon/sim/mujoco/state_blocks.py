# SPDX-License-Identifier: Apache-2.0
"""Where the parts of MuJoCo's state lie in what ``mj_getState`` gives."""

from __future__ import annotations

from typing import Any


def find_blocks(mujoco: Any, model: Any, signature: int) -> dict[str, slice]:
    """The place of each part of a state, such as ``"qpos"``.

    Args:
        mujoco: The module.
        model: The ``MjModel``.
        signature: Which parts, as bits of ``mjtState``.
    """
    kinds = mujoco.mjtState
    names = {int(getattr(kinds, name)): name for name in dir(kinds) if name.startswith("mjSTATE_")}
    blocks, at, bit = {}, 0, 1
    while bit <= signature:
        if signature & bit:
            size = mujoco.mj_stateSize(model, bit)
            blocks[names[bit].removeprefix("mjSTATE_").lower()] = slice(at, at + size)
            at += size
        bit <<= 1
    return blocks
