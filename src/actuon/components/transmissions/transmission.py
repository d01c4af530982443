# SPDX-License-Identifier: Apache-2.0
"""Base of transmissions."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ...declare.registry import ComponentKind
from ...kernel.structure import Stage
from ..component import Component


class Transmission(Component):
    """Base of transmissions: from the side of the joint to the side of the motor, and at the end of the chain back.

    The law of a subclass returns position, velocity and effort of the motor; stages after it see these.
    ``closing_law``, of the same parameters, then turns the motor's effort into the joint's: it returns just that.
    """

    kind = ComponentKind.TRANSMISSION
    closing_law: ClassVar[Any] = None
    """The way back, a ``@wp.func``."""
    _returns = ("q", "qd", "effort")

    @classmethod
    def _declared_stage(cls) -> Stage:
        return dataclasses.replace(super()._declared_stage(), closing_law=cls.closing_law)
