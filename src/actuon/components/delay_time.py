# SPDX-License-Identifier: Apache-2.0
r"""Delays in seconds: the same at any time step, with jitter and lost messages.

A signal that is given at time :math:`t` arrives at :math:`t + d`, with

.. math:: d = d_0 + s\,u_{reset} + j\,u_{step}

of a lag :math:`d_0`, a spread :math:`s` drawn at each reset, and a jitter :math:`j` drawn at each step; :math:`u` are
uniform in [0, 1). What is there at a step is the newest that has arrived (held), or what lies between the two around
:math:`t - d` (interpolated); never an older one than before, so that its age at step :math:`k` is

.. math:: a_k = \min(d_k,\; a_{k-1} + t_k - t_{k-1})

A message that is lost, with the probability ``dropout``, leaves the one before it there. Steps may differ in length.

Random numbers come from the ``seed``, the ``stream``, the number of resets and the number of steps since: a run can be
repeated. DOFs with the same seed and stream share their random delays, as on one bus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import numpy as np
import warp as wp

from ..declare.config import Config
from ..declare.parameter import param
from ..declare.registry import ComponentKind
from ..errors import ParameterError, StateError
from ..kernel.structure import COMMANDS, FEEDBACK, Ring, Stage
from ..kernel.types import LANES, Bools, Floats, Ints
from ..typing import DeviceLike
from .component import Component
from .ring_state import RingState
from .sensors.sensor import Sensor
from .state import State, as_mask, check_range, copy_where

_DEEPEST = 10_000
"""Longest lag [steps], which keeps rings small, whatever a file says."""
LOST_IN_A_ROW = wp.constant(8)
"""Lost messages in a row after which one arrives, for the same reason."""
_LAST_COUNT = wp.constant(2**31 - 1)
"""The last step that is counted before counting starts again."""
_ALL_ALIKE = wp.constant(2**20)
"""More steps than a ring holds: all are as long as the last one."""
_UNKNOWN = wp.constant(-1.0)
"""Stands for the age of what is there, in states of version 1."""


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
def time_lag(
    dt: float,
    gap: float,
    delay: float,
    spread: float,
    jitter: float,
    dropout: float,
    seed: int,
    stream: int,
    count: int,
    lost: int,
    episode: int,
    alike: int,
    oldest: float,
):
    at_reset = wp.rand_init(int(wp.rand_init(seed, stream)), episode)
    at_step = wp.rand_init(int(at_reset), count)
    late = delay + spread * wp.randf(at_reset) + jitter * wp.randf(at_step)
    lost_next = wp.where(wp.randf(at_step) < dropout, wp.where(lost < LOST_IN_A_ROW, lost + 1, 0), 0)
    most = wp.where(oldest < 0.0, late, oldest)
    age = wp.where(lost_next > 0, most, wp.min(late, most))
    count_next = wp.where(count == _LAST_COUNT, 0, count + 1)
    alike_next = wp.where(dt == gap, wp.min(alike + 1, _ALL_ALIKE), 1)
    return age, alike, count_next, lost_next, episode, alike_next, age + dt


class _TimedRing(RingState):
    """A ring of past signals and lengths of steps, and where the random numbers are."""

    def __init__(self, depth: int, columns: int, num_actuators: int, device: wp.Device, requires_grad: bool):
        self.count, self.lost, self.episode, self.alike = (
            wp.zeros(num_actuators, dtype=wp.int32, device=device) for _ in range(4)
        )
        self.alike.fill_(_ALL_ALIKE)
        self.oldest = wp.zeros(num_actuators, dtype=wp.float32, device=device, requires_grad=requires_grad)
        super().__init__(depth, columns, num_actuators, device, requires_grad)

    def _own(self) -> dict[str, wp.array]:
        whole = {"count": self.count, "lost": self.lost, "episode": self.episode, "alike": self.alike}
        return {**whole, "oldest": self.oldest}

    def arrays(self) -> dict[str, wp.array]:
        """The arrays by name, as kernels call them."""
        return super().arrays() | self._own()

    def reset(self, mask: Any = None) -> None:
        """Forget the past, and draw again, for all DOFs or those where ``mask``, bool of shape (N,), is true."""
        super().reset(mask)
        n, device = self.count.shape[0], self.count.device
        chosen = None if mask is None else as_mask(mask, n, device)
        wp.launch(_next_episode, n, [chosen, *self._own().values()], device=device)

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the ring of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        super().assign(other, mask)
        for name, array in self._own().items():
            copy_where(mask, array, getattr(other, name))

    def check_saved(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Refuse arrays of a file that no step gives."""
        super().check_saved(where, values)
        for name, low, high in (("count", 0, _LAST_COUNT), ("episode", 0, _LAST_COUNT), ("alike", 1, _ALL_ALIKE)):
            check_range(f"{where}{name}", values[name], low, int(high))
        check_range(f"{where}lost", values["lost"], 0, int(LOST_IN_A_ROW))

    def from_version_1(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Convert arrays of version 1, which had no lengths of steps, and counts in float32."""
        changed = dict(values)
        ring = changed.get("ring")
        if ring is not None and ring.size * self.columns == self._ring.size * (self.columns - 1):
            shaped = ring.reshape(self.depth + 1, -1, self.columns - 1, LANES)
            changed["ring"] = np.pad(shaped, ((0, 0), (0, 0), (0, 1), (0, 0))).ravel()
        for name in ("count", "lost", "episode"):
            array = changed.get(name)
            if array is not None and array.dtype == np.float32 and np.isfinite(array).all():
                changed[name] = np.clip(array, -1.0, 2.0**30).astype(np.int32)
        shape = self.count.shape
        return {"alike": np.full(shape, _ALL_ALIKE, np.int32), "oldest": np.full(shape, _UNKNOWN, np.float32)} | changed


@wp.kernel(enable_backward=False)
def _next_episode(mask: Bools, count: Ints, lost: Ints, episode: Ints, alike: Ints, oldest: Floats):
    i = wp.tid()
    chosen = bool(True)
    if mask:
        chosen = mask[i]
    if chosen:
        count[i] = 0
        lost[i] = 0
        episode[i] = wp.where(episode[i] == _LAST_COUNT, 0, episode[i] + 1)
        alike[i] = _ALL_ALIKE
        oldest[i] = 0.0


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
    _blends: ClassVar[bool] = False

    _depth: int | None = None
    """Steps that states have room for, from the first `finalize` on."""

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Bring the parameters onto ``device``. Called by `Actuator`."""
        super().finalize(device, num_actuators)
        longest, shortest, lost = self._room_needed(self._values)
        steps = longest / shortest
        if not steps <= _DEEPEST:
            raise ParameterError(
                f"{type(self).__name__}: a delay of {longest:.3g} s at steps of {shortest:.3g} s takes more than "
                f"{_DEEPEST} steps; make shortest_dt longer"
            )
        if self._depth is None:
            self._depth = math.ceil(steps) + 1 + lost
        self._shortest = self._shortest_with_room()

    def _has_written(self) -> None:
        super()._has_written()
        if self._depth is not None:
            before, self._shortest = self._shortest, self._shortest_with_room()
            self._revision += before != self._shortest  # the time step is to be checked again

    def _shortest_with_room(self) -> float:
        """Shortest time step [s] at which the delays fit into the memory; not below ``shortest_dt``."""
        assert self._depth is not None
        longest, shortest, lost = self._room_needed(self._values)
        room = self._depth - 1 - lost
        if room > 0:
            return max(shortest, longest / room * (1.0 - 1e-6))
        return shortest if room == 0 and longest == 0.0 else math.inf

    def check_memory(self, values: Mapping[str, Any], dt: float | None) -> None:
        """Refuse delays that there is no memory for at steps of ``dt`` [s]; None for ``shortest_dt``."""
        if self._depth is None:
            return
        longest, shortest, lost = self._room_needed(values)
        shortest = shortest if dt is None else max(shortest, dt)
        if math.ceil(longest / shortest * (1.0 - 1e-6)) + 1 + lost > self._depth:
            room = max(self._depth - 1 - lost, 0) * shortest
            losses = f" and {lost} lost messages" if lost else ""
            steps = f"{shortest:.3g} s{' (shortest_dt)' if dt is None else ''}"
            raise ParameterError(
                f"{type(self).__name__}: got {longest:.3g} s of delay, spread and jitter; it was built with memory for "
                f"{room:.3g} s{losses} at steps of {steps}: build it with the longest delay, and with a dropout above "
                "0 if it is to have one"
            )

    @staticmethod
    def _room_needed(values: Mapping[str, Any]) -> tuple[float, float, int]:
        """Longest delay [s], shortest time step [s], and how many messages may be lost in a row."""
        numbers = {n: v.numpy() if isinstance(v, wp.array) else np.asarray(v) for n, v in values.items()}
        longest = np.max(sum(numbers[name] for name in ("delay", "spread", "jitter")), initial=0.0)
        shortest = np.min(numbers["shortest_dt"], initial=math.inf)
        return float(longest), float(shortest), int(LOST_IN_A_ROW) if numbers["dropout"].any() else 0

    @property
    def shortest_step(self) -> float:
        """Shortest time step that it takes [s]."""
        return self._shortest

    def longest(self, dt: float) -> np.ndarray:
        """Longest ``delay`` that there is memory for at steps of ``dt`` [s], shape (N,)."""
        assert self._depth is not None
        room = (self._depth - 1 - self._room_needed(self._values)[2]) * dt
        return np.maximum(room - self._values["spread"].numpy() - self._values["jitter"].numpy(), 0.0)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        if dt is None:
            raise StateError(f"{type(self).__name__} is a delay in seconds: step() needs dt")
        if not isinstance(dt, SupportsFloat) or not self._shortest * (1.0 - 1e-5) <= float(dt) < math.inf:
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
            integers=frozenset((*whole, "count", "lost", "episode", "alike")),
            states=("count", "lost", "episode", "alike", "oldest"),
            returns=(),
            sensed=self._sees_sensed,
            ring=Ring(self._signals, law=time_lag, blends=self._blends),
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
        assert self._depth is not None
        columns = len(self._signals) + 1
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
