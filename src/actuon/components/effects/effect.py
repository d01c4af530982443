# SPDX-License-Identifier: Apache-2.0
"""Base of effects."""

from __future__ import annotations

from ...declare.registry import ComponentKind
from ..component import Component


class Effect(Component):
    """Base of effects: effort in, effort after losses or lags out.

    Give a subclass a ``config``, a ``law`` and, where it remembers something, ``STATES``, and it is fused. To launch
    kernels of its own instead, override `run`.
    """

    kind = ComponentKind.EFFECT
