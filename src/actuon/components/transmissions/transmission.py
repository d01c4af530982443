# SPDX-License-Identifier: Apache-2.0
"""Base of transmissions."""

from __future__ import annotations

from ...declare.registry import ComponentKind
from ..component import Component


class Transmission(Component):
    """Base of transmissions: from the side of the joint to the side of the motor, and at the end of the chain back.

    The law of a subclass returns position, velocity and effort of the motor; stages after it see these.
    ``closing_law``, of the same parameters, then turns the motor's effort into the joint's.
    """

    kind = ComponentKind.TRANSMISSION
    _returns = ("q", "qd", "effort")
