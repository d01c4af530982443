# SPDX-License-Identifier: Apache-2.0
"""What takes longer than a step, of the values as they are now: envelopes, and how near joints are to diverging."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..actuator_config import ActuatorConfig
from ..attach.checking import stability_on
from ..errors import ActuonError
from ..trials import Envelope, envelope, is_coupled, speed_range
from .robot import BenchRobot
from .source import Source

_SPEEDS = 121
_POSES = 4


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
    """Looks at the latest values in a thread of its own, in a simulation of its own.

    Args:
        source: The robot.
    """

    def __init__(self, source: Source):
        self._source = source
        self._robot: BenchRobot | None = None
        self._wanted: Asked | None = None
        self._changed = threading.Condition()
        self._ends = False
        self.found = Found()
        self._thread = threading.Thread(target=self._run, name="actuon-bench-study", daemon=True)
        self._thread.start()

    def ask(self, asked: Asked) -> None:
        """Look at this next. What was asked for before, and not begun, is left out."""
        with self._changed:
            self._wanted = asked
            self._changed.notify()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join()
        if self._robot is not None:
            self._robot.close()

    def _next(self) -> Asked | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ends or self._wanted is not None)
            asked, self._wanted = self._wanted, None
            return None if self._ends else asked

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            before = self.found
            drawn = envelope_of(asked.configs[asked.joint])
            self.found = Found(asked.joint, drawn, asked.version, before.shares, before.shares_version, before.problem)
            if before.shares_version == asked.version:
                continue
            shares, problem = self._shares(asked)
            self.found = Found(asked.joint, drawn, asked.version, shares, asked.version, problem)

    def _shares(self, asked: Asked) -> tuple[Mapping[str, float], str]:
        try:
            if self._robot is None:
                self._robot = BenchRobot(self._source, configs=asked.configs, mode=asked.mode)
            elif self._robot.mode != asked.mode:
                self._robot.set_mode(asked.mode)
            self._robot.set_configs(asked.configs)
            result = stability_on(self._robot.actuators, poses=_POSES)
        except ActuonError as error:
            return {}, str(error)
        return {joint.name: joint.share for joint in result.joints}, ""


def envelope_of(config: ActuatorConfig) -> Envelope | None:
    """What an actuator can give at which speed; None where nothing limits it, or joints are coupled."""
    if is_coupled(config):
        return None
    width = 1.15 * speed_range(config)
    found = envelope(config, np.linspace(-width, width, _SPEEDS))
    return found if found.is_limited else None
