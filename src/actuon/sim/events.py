# SPDX-License-Identifier: Apache-2.0
"""Events of a simulation, and their callbacks."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..errors import StructureError


class Event(enum.Enum):
    """Events of a simulation. Callbacks receive the simulation and the arguments below.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=4) as simulation:
        ...     kept = simulation.subscribe(actuon.Event.RESET, lambda _, ids: print(ids))
        ...     simulation.reset([1, 3])
        [1 3]
    """

    PHYSICS_READY = "physics ready"
    """The simulation starts, for the first time or again after a stop. No arguments."""
    PRE_STEP = "pre-step"
    """Before the engine advances. Argument: the time step [s]."""
    POST_STEP = "post-step"
    """After the engine advanced. Argument: the time step [s]."""
    RESET = "reset"
    """Environments were reset. Argument: their ids."""
    SAVE = "save"
    """`Simulation.save_state` was called. Argument: a dict for the callback's own data."""
    LOAD = "load"
    """`Simulation.load_state` was called. Arguments: that dict, and the ids of the environments."""
    STOP = "stop"
    """The simulation stops. No arguments."""


def refuse_copies(owner: object, protocol: object) -> NoReturn:
    """Raise an error, as the ``__reduce_ex__`` of an object: a copy would close what the original still uses."""
    raise StructureError(
        f"{type(owner).__name__} cannot be copied or pickled: it owns parts of a simulation; use the object "
        "itself, or make another"
    )


class Subscription:
    """Subscription of a callback, until `cancel`."""

    __reduce_ex__ = refuse_copies

    def __init__(self, callbacks: dict[Subscription, Callable[..., object]]):
        self._callbacks = callbacks

    def cancel(self) -> None:
        """End the subscription. May be called again, and from the callback.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     kept = simulation.subscribe(actuon.Event.PRE_STEP, lambda _, dt: print(dt))
            ...     simulation.step()
            ...     kept.cancel()
            ...     simulation.step()
            0.002
        """
        self._callbacks.pop(self, None)


def subscribe_weakly(simulation: Any, methods: Mapping[Event, Callable[..., object]]) -> list[Subscription]:
    """Subscribe methods of an object to events of a simulation, until the object is deleted.

    Args:
        simulation: The simulation.
        methods: Methods of one object, which receive the arguments of a callback without the simulation.
    """

    def caller(method: Callable[..., object]) -> Callable[..., None]:
        reference = weakref.WeakMethod(method)

        def call(_: Any, *arguments: Any) -> None:
            alive = reference()
            if alive is not None:
                alive(*arguments)

        return call

    subscriptions = [simulation.subscribe(event, caller(method)) for event, method in methods.items()]
    for method in methods.values():
        weakref.finalize(method.__self__, _cancel, subscriptions).atexit = False  # type: ignore[attr-defined]
        break
    return subscriptions


def _cancel(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions:
        subscription.cancel()


class Events:
    """Callbacks by event, called in the order of their subscription."""

    def __init__(self) -> None:
        self._callbacks: dict[Event, dict[Subscription, Callable[..., object]]] = {event: {} for event in Event}

    def subscribe(self, event: Event, callback: Callable[..., object]) -> Subscription:
        """Call ``callback`` at each ``event`` from now on."""
        callbacks = self._callbacks[Event(event)]
        subscription = Subscription(callbacks)
        callbacks[subscription] = callback
        return subscription

    def fire(self, event: Event, *arguments: Any) -> None:
        """Call all callbacks, except those that an earlier one cancelled."""
        callbacks = self._callbacks[event]
        for subscription in tuple(callbacks):
            if subscription in callbacks:
                callbacks[subscription](*arguments)

    def has_any(self, *events: Event) -> bool:
        """Return whether one of ``events`` has a callback."""
        for event in events:  # noqa: SIM110 - a generator takes longer than all of it, at each step
            if self._callbacks[event]:
                return True
        return False

    def clear(self) -> None:
        """Forget all callbacks."""
        for callbacks in self._callbacks.values():
            callbacks.clear()
