# SPDX-License-Identifier: Apache-2.0
"""Envelope and stability of the present values, computed in the background."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from ..actuator.config import ActuatorConfig
from ..actuator.trials import Envelope, envelope, is_coupled, speed_range
from ..robot_source import RobotSource
from ..stability.report import stability_on
from .background import Background, Tell
from .robot import StudioRobot

_SPEEDS = 121
_POSES = 4


class Analyses:
    """Envelope of one joint and stability of all, computed in the background.

    Args:
        source: The robot.
        background: Process that computes them.
    """

    def __init__(self, source: RobotSource, background: Background):
        self._source, self._background = source, background
        self._requested: tuple[str, int] = "", -1
        self._envelope: tuple[str, Envelope | None] = "", None
        self.usages: Mapping[str, float] = {}
        """Stability usage of each joint, in the worst pose; unstable from 1 (100 %)."""
        self.usages_version = -1
        """Version of the values that ``usages`` belong to."""
        self.error = ""
        """Message of the last failure; empty if there was none."""

    def envelope(self, joint: str) -> Envelope | None:
        """Return the envelope of a joint: None while it is unknown, or if it has no limits or joints are coupled."""
        of, found = self._envelope
        return found if of == joint else None

    def update(self, joint: str, configs: Mapping[str, ActuatorConfig], mode: str, version: int) -> None:
        """Compute envelope and stability again if joint or values have changed.

        Args:
            joint: Joint of the envelope.
            configs: Actuators by joint.
            mode: One of `robot.MODES`.
            version: Version of the values.
        """
        if (joint, version) == self._requested:
            return
        _, before = self._requested
        self._requested = joint, version
        self._background.submit(
            "envelope",
            _envelope,
            configs[joint],
            done=functools.partial(self._set_envelope, joint),
            failed=self._fail,
        )
        if version != before:
            self._background.submit(
                "stability",
                _usages,
                self._source,
                dict(configs),
                mode,
                done=functools.partial(self._set_usages, version),
                failed=self._fail,
            )

    def _set_envelope(self, joint: str, found: Envelope | None) -> None:
        self._envelope = joint, found

    def _set_usages(self, version: int, usages: dict[str, float]) -> None:
        self.usages, self.usages_version, self.error = usages, version, ""

    def _fail(self, error: str) -> None:
        self.error = error


def envelope_of(config: ActuatorConfig) -> Envelope | None:
    """Return the motor envelope of an actuator; None if it has no limits, or if joints are coupled."""
    if is_coupled(config):
        return None
    width = 1.15 * speed_range(config)
    found = envelope(config, np.linspace(-width, width, _SPEEDS))
    return found if found.is_limited else None


def _envelope(config: ActuatorConfig, tell: Tell) -> Envelope | None:
    return envelope_of(config)


@functools.cache
def _robot_of(source: RobotSource) -> StudioRobot:
    return StudioRobot(source)


def _usages(source: RobotSource, configs: dict[str, ActuatorConfig], mode: str, tell: Tell) -> dict[str, float]:
    robot = _robot_of(source)
    robot.set_configs(configs, mode)
    return {joint.name: joint.usage for joint in stability_on(robot.actuators, poses=_POSES).joints}
