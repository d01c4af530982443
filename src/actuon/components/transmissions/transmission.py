# SPDX-License-Identifier: Apache-2.0
"""Base of transmissions."""

from __future__ import annotations

import numpy as np

from ...declare.registry import ComponentKind
from ..component import Component

SMALLEST_RATIO = 1e-6
"""A smaller ratio of a motor's speed to a joint's is taken as none."""


class Transmission(Component):
    """Base of transmissions: from the side of the joint to the side of the motor, and at the end of the chain back.

    The law of a subclass returns position, velocity and effort of the motor; stages after it see these.
    ``closing_law``, of the same parameters, then turns the motor's effort into the joint's.
    """

    kind = ComponentKind.TRANSMISSION
    _returns = ("q", "qd", "effort")

    def constant_ratio(self) -> np.ndarray | None:
        """The motor's speed by the joint's [1], shape (N,), where it is the same at every position, and that of no
        other joint; None otherwise."""
        return None
