# SPDX-License-Identifier: Apache-2.0
"""Base of sensors."""

from __future__ import annotations

from ...declare.registry import ComponentKind
from ..component import Component


class Sensor(Component):
    """Base of sensors: position and velocity of the joint in, what the controller sees of them out.

    The law of a subclass returns position and velocity, then its states. Only controllers, and sensors and delays of
    feedback that come later, see what it returns; motor and joint keep the true values.
    """

    kind = ComponentKind.SENSOR
    _returns = ("q", "qd")
    _sees_sensed = True
