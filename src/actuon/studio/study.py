# SPDX-License-Identifier: Apache-2.0
"""What takes longer than a step, of the values as they are now: envelopes, and how near joints are to diverging."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..actuator.config import ActuatorConfig
from ..actuator.trials import Envelope, envelope, is_coupled, speed_range
from ..errors import ActuonError
from ..stability.report import stability_on
from .robot import StudioRobot
from .source import Source
from .worker import Tell, Worker

_SPEEDS = 121
_POSES = 4
_log = logging.getLogger("actuon.studio")


@dataclass(frozen=True)
class Asked:
    """What is to be looked at."""

    joint: str
    """Whose envelope."""
    configs: Mapping[str, ActuatorConfig]
    mode: str
    version: int
    """Of the values: what is known of an older one is out of date."""


@dataclass(frozen=True)
class Found:
    """What there is to know so far."""

    joint: str = ""
    envelope: Envelope | None = None
    """None where nothing limits the effort, or joints are coupled."""
    envelope_version: int = -1
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of the stability limit that each joint uses, in the worst pose; from 1 on it diverges."""
    shares_version: int = -1
    problem: str = ""
    """Why there are no shares."""


class Study:
    """Has the latest values looked at, in another process.

    Args:
        source: The robot.
    """

    def __init__(self, source: Source):
        self._source = source
        self._worker = Worker()
        self._wanted: Asked | None = None
        self._changed = threading.Condition()
        self._ends = False
        self.found = Found()
        self._thread = threading.Thread(target=self._run, name="actuon-studio-study", daemon=True)
        self._thread.start()

    def ask(self, asked: Asked) -> None:
        """Look at this next. What was asked for before, and not begun, is left out."""
        with self._changed:
            self._wanted = asked
            self._changed.notify()

    def close(self) -> None:
        """End it, whatever it does."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._worker.close()
        self._thread.join()

    def _next(self) -> Asked | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ends or self._wanted is not None)
            asked, self._wanted = self._wanted, None
            return None if self._ends else asked

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            try:
                self._look(asked)
            except ActuonError as error:
                self.found = replace(self.found, problem=str(error))
            except Exception as error:
                _log.exception("values could not be looked at")
                self.found = replace(self.found, problem=f"{type(error).__name__}: {error}")

    def _look(self, asked: Asked) -> None:
        drawn = self._worker.call(_envelope, asked.configs[asked.joint])
        self.found = replace(self.found, joint=asked.joint, envelope=drawn, envelope_version=asked.version, problem="")
        if self.found.shares_version != asked.version:
            shares = self._worker.call(_shares, self._source, dict(asked.configs), asked.mode)
            self.found = replace(self.found, shares=shares, shares_version=asked.version)


def envelope_of(config: ActuatorConfig) -> Envelope | None:
    """What an actuator can give at which speed; None where nothing limits it, or joints are coupled."""
    if is_coupled(config):
        return None
    width = 1.15 * speed_range(config)
    found = envelope(config, np.linspace(-width, width, _SPEEDS))
    return found if found.is_limited else None


def _envelope(config: ActuatorConfig, tell: Tell) -> Envelope | None:
    return envelope_of(config)


@functools.cache
def _robot_of(source: Source) -> StudioRobot:
    return StudioRobot(source)


def _shares(source: Source, configs: dict[str, ActuatorConfig], mode: str, tell: Tell) -> dict[str, float]:
    """The share of the stability limit that each joint uses."""
    robot = _robot_of(source)
    robot.set_all(configs, mode)
    return {joint.name: joint.share for joint in stability_on(robot.actuators, poses=_POSES).joints}
