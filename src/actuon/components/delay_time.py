# SPDX-License-Identifier: Apache-2.0
r"""Delays in seconds: the same at any time step, with jitter and lost messages.

A signal that is given at time :math:`t` arrives at :math:`t + d`, with

.. math:: d = d_0 + s\,u_{reset} + j\,u_{step}

of a lag :math:`d_0`, a spread :math:`s` drawn at each reset, and a jitter :math:`j` drawn at each step; :math:`u` are
uniform in [0, 1). What is there at a step is the newest that has arrived (held), or what lies between the two around
:math:`t - d` (interpolated). A message that is lost, with the probability ``dropout``, leaves the one before it there.

Random numbers come from the ``seed``, the ``stream``, the number of resets and the number of steps since: a run can be
repeated. DOFs with the same seed and stream share their random delays, as on one bus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import warp as wp

from ..declare.config import Config
from ..declare.parameter import param
from ..declare.registry import ComponentKind
from ..errors import ParameterError, StateError
from ..kernel.structure import COMMANDS, FEEDBACK, Ring, Stage
from ..kernel.types import Bools, Floats
from ..typing import DeviceLike
from .component import Component
from .ring_state import RingState
from .sensors.sensor import Sensor
from .state import State, as_mask, copy_where

_DEEPEST = 10_000
"""Longest lag [steps], which keeps rings small, whatever a file says."""
LOST_IN_A_ROW = wp.constant(8.0)
"""Lost messages in a row beyond which one arrives, for the same reason."""
_ROUNDING = wp.constant(1.0e-3)
"""Share of a step by which a lag may exceed a whole number of steps and still be that."""
_SHORTEST = wp.constant(1.0e-9)
"""A time step [s] below this is taken as this."""
_STREAMS = wp.constant(7919)
"""Keeps random numbers of streams and resets apart."""


@dataclass(frozen=True)
class TimeDelayConfig(Config):
    """A lag in seconds. What has arrived is held."""

    schema: ClassVar[str | None] = "ActuonTimeDelayAPI"

    delay: float = param("s", "Time by which signals are delayed.", minimum=0.0, fallback=0.0)
    spread: float = param("s", "Drawn at each reset from 0 to this, and added.", minimum=0.0, default=0.0)
    jitter: float = param("s", "Drawn at each step from 0 to this, and added.", minimum=0.0, default=0.0)
    dropout: float = param("1", "Share of messages that are lost.", minimum=0.0, maximum=1.0, default=0.0)
    seed: int = param("1", "Seed of the random numbers.", minimum=0, integer=True, default=0)
    stream: int = param("1", "DOFs with the same number share their random delays.", minimum=0, integer=True, default=0)
    shortest_dt: float = param("s", "Shortest time step that memory is reserved for.", above=0.0, default=0.001)


@dataclass(frozen=True)
class InterpolatedDelayConfig(TimeDelayConfig):
    """A lag in seconds. Between what arrives, signals are interpolated."""

    schema = "ActuonInterpolatedDelayAPI"


@dataclass(frozen=True)
class DelaySensorConfig(TimeDelayConfig):
    """A lag in seconds on what the controller sees of position and velocity."""

    schema = "ActuonDelaySensorAPI"


@wp.func
def _lateness(
    delay: float, spread: float, jitter: float, dropout: float, seed: int, stream: int, count: float, episode: float
):
    """How late a message is [s], and whether it is lost."""
    at_reset = wp.rand_init(seed, stream * _STREAMS + int(episode))
    at_step = wp.rand_init(seed + 1 + int(episode) * _STREAMS, stream * _STREAMS + int(count))
    late = delay + spread * wp.randf(at_reset) + jitter * wp.randf(at_step)
    return late, wp.where(wp.randf(at_step) < dropout, 1.0, 0.0)


@wp.func
def held_lag(
    dt: float,
    delay: float,
    spread: float,
    jitter: float,
    dropout: float,
    seed: int,
    stream: int,
    count: float,
    lost: float,
    episode: float,
):
    late, is_lost = _lateness(delay, spread, jitter, dropout, seed, stream, count, episode)
    missed = is_lost * wp.min(lost + 1.0, LOST_IN_A_ROW)
    steps = wp.ceil(late / wp.max(dt, _SHORTEST) - _ROUNDING)
    return int(steps + missed), 0.0, count + 1.0, missed, episode


@wp.func
def interpolated_lag(
    dt: float,
    delay: float,
    spread: float,
    jitter: float,
    dropout: float,
    seed: int,
    stream: int,
    count: float,
    lost: float,
    episode: float,
):
    late, is_lost = _lateness(delay, spread, jitter, dropout, seed, stream, count, episode)
    missed = is_lost * wp.min(lost + 1.0, LOST_IN_A_ROW)
    steps = late / wp.max(dt, _SHORTEST)
    whole = wp.floor(steps)
    return int(whole + missed), steps - whole, count + 1.0, missed, episode


class _TimedRing(RingState):
    """A ring of past signals, and where the random numbers are."""

    def __init__(self, depth: int, columns: int, num_actuators: int, device: wp.Device, requires_grad: bool):
        self.count, self.lost, self.episode = (
            wp.zeros(num_actuators, dtype=wp.float32, device=device) for _ in range(3)
        )
        super().__init__(depth, columns, num_actuators, device, requires_grad)

    def _own(self) -> dict[str, wp.array]:
        return {"count": self.count, "lost": self.lost, "episode": self.episode}

    def arrays(self) -> dict[str, wp.array]:
        """The arrays by name, as kernels call them."""
        return super().arrays() | self._own()

    def reset(self, mask: Any = None) -> None:
        """Forget the past, and draw again, for all DOFs or those where ``mask``, bool of shape (N,), is true."""
        super().reset(mask)
        n, device = self.count.shape[0], self.count.device
        chosen = None if mask is None else as_mask(mask, n, device)
        wp.launch(_next_episode, n, [chosen, self.count, self.lost, self.episode], device=device)

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the ring of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        super().assign(other, mask)
        for name, array in self._own().items():
            copy_where(mask, array, getattr(other, name))


@wp.kernel(enable_backward=False)
def _next_episode(mask: Bools, count: Floats, lost: Floats, episode: Floats):
    i = wp.tid()
    chosen = bool(True)
    if mask:
        chosen = mask[i]
    if chosen:
        count[i] = 0.0
        lost[i] = 0.0
        episode[i] = episode[i] + 1.0


class DelayTime(Component):
    """Holds commands back by a time, per DOF.

    Args:
        delay: Lags [s], shape (N,).
        spread: Drawn at each reset from 0 to this, and added [s], shape (N,).
        jitter: Drawn at each step from 0 to this, and added [s], shape (N,).
        dropout: Share of messages that are lost, shape (N,).
        seed: Seed of the random numbers, int32 of shape (N,).
        stream: Which DOFs share their random delays: those with the same number and seed, int32 of shape (N,). On
            robots it is the number of the robot, so that all its joints are on one bus.
        shortest_dt: Shortest time step that memory is reserved for [s].
    """

    kind = ComponentKind.DELAY
    config = TimeDelayConfig
    _signals: ClassVar[tuple[str, ...]] = COMMANDS
    _lag_law: ClassVar[Any] = held_lag
    _blends: ClassVar[bool] = False

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Bring the parameters onto ``device``. Called by `Actuator`."""
        super().finalize(device, num_actuators)
        longest = sum(self._values[name].numpy() for name in ("delay", "spread", "jitter"))
        shortest = float(np.min(self._values["shortest_dt"].numpy(), initial=math.inf))
        steps = np.max(longest, initial=0.0) / shortest
        if not steps <= _DEEPEST:
            raise ParameterError(
                f"{type(self).__name__}: a delay of {np.max(longest):.3g} s at steps of {shortest:.3g} s takes more "
                f"than {_DEEPEST} steps; make shortest_dt longer"
            )
        self._shortest = shortest
        self._depth = math.ceil(steps) + 1 + (int(LOST_IN_A_ROW) if self._values["dropout"].numpy().any() else 0)

    def longest(self, dt: float) -> np.ndarray:
        """Longest ``delay`` that there is memory for at steps of ``dt`` [s], shape (N,)."""
        lost = int(LOST_IN_A_ROW) if self._values["dropout"].numpy().any() else 0
        room = (self._depth - 1 - lost) * dt
        return np.maximum(room - self._values["spread"].numpy() - self._values["jitter"].numpy(), 0.0)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        if dt is None:
            raise StateError(f"{type(self).__name__} is a delay in seconds: step() needs dt")
        if not dt >= self._shortest * (1.0 - 1e-5):
            raise StateError(
                f"dt: got {dt!r}; {type(self).__name__} has room for steps of {self._shortest:.3g} s and longer; "
                "give it a shorter shortest_dt"
            )
        return float(dt)

    def stage(self) -> Stage:
        """The delay as a kernel sees it."""
        whole = ("seed", "stream")
        return Stage(
            self.label(),
            params=("delay", "spread", "jitter", "dropout", *whole),
            integers=frozenset(whole),
            states=("count", "lost", "episode"),
            returns=(),
            sensed=self._sees_sensed,
            ring=Ring(self._signals, law=self._lag_law, blends=self._blends),
        )

    def is_fused(self) -> bool:
        """Whether the delay runs inside the actuator's one kernel: always."""
        return True

    def is_stateful(self) -> bool:
        """Whether the delay remembers anything: always."""
        return True

    @classmethod
    def uses_dt(cls) -> bool:
        """Whether the time step counts: always."""
        return True

    def state(self, num_actuators: int, device: DeviceLike) -> RingState:
        """Return a new, empty ring for ``num_actuators`` DOFs."""
        columns = len(self._signals)
        return _TimedRing(self._depth, columns, num_actuators, wp.get_device(device), self.requires_grad)


class DelayInterpolated(DelayTime):
    """Holds commands back by a time, per DOF, and interpolates between them.

    Args:
        delay: As for `DelayTime`, and so are the others.
        spread: Drawn at each reset.
        jitter: Drawn at each step.
        dropout: Share of messages that are lost.
        seed: Seed of the random numbers.
        stream: Which DOFs share their random delays.
        shortest_dt: Shortest time step that memory is reserved for [s].
    """

    config = InterpolatedDelayConfig
    _lag_law = interpolated_lag
    _blends = True


class SensorDelay(DelayTime, Sensor):
    """Holds back what the controller sees of position and velocity, by a time, per DOF.

    Args:
        delay: As for `DelayTime`, and so are the others.
        spread: Drawn at each reset.
        jitter: Drawn at each step.
        dropout: Share of measurements that are lost.
        seed: Seed of the random numbers.
        stream: Which DOFs share their random delays.
        shortest_dt: Shortest time step that memory is reserved for [s].
    """

    kind = ComponentKind.SENSOR
    config = DelaySensorConfig
    _signals = FEEDBACK
    _sees_sensed = True
