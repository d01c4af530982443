# SPDX-License-Identifier: Apache-2.0
"""Events of a simulation, and callbacks that are called at them."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..errors import StructureError


class Event(enum.Enum):
    """Moments in the life of a simulation, and what a callback gets after the simulation itself."""

    PHYSICS_READY = "physics ready"
    """The simulation starts, for the first time or again after a stop. Nothing."""
    PRE_STEP = "pre-step"
    """Just before the engine advances. The time step [s]."""
    POST_STEP = "post-step"
    """Just after. The time step [s]."""
    RESET = "reset"
    """Environments went back to their start. Their ids."""
    SAVE = "save"
    """`Simulation.save_state` was called. A dict to put one's own into."""
    LOAD = "load"
    """Environments went back to such a state. That dict, and their ids."""
    STOP = "stop"
    """The simulation stops. Nothing."""


def refuse_copies(owner: object, protocol: object) -> NoReturn:
    """Refuse to copy or pickle an object, as its ``__reduce_ex__``: a copy would close what the original still uses."""
    raise StructureError(
        f"{type(owner).__name__} cannot be copied or pickled: what it holds in a simulation has one owner. Use the "
        "object itself, or make another"
    )


class Subscription:
    """Keeps a callback subscribed until `cancel`."""

    __reduce_ex__ = refuse_copies

    def __init__(self, callbacks: dict[Subscription, Callable[..., object]]):
        self._callbacks = callbacks

    def cancel(self) -> None:
        """Stop being called. May be called again, and from the callback itself."""
        self._callbacks.pop(self, None)


def subscribe_weakly(simulation: Any, methods: Mapping[Event, Callable[..., object]]) -> list[Subscription]:
    """Let a simulation call methods of an object at events, until the object goes away.

    Args:
        simulation: The simulation.
        methods: Methods of one object, which get what a callback gets after the simulation itself.
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
    """Callbacks by event, called in the order in which they subscribed."""

    def __init__(self) -> None:
        self._callbacks: dict[Event, dict[Subscription, Callable[..., object]]] = {event: {} for event in Event}

    def subscribe(self, event: Event, callback: Callable[..., object]) -> Subscription:
        """Call ``callback`` at each ``event`` from now on."""
        callbacks = self._callbacks[Event(event)]
        subscription = Subscription(callbacks)
        callbacks[subscription] = callback
        return subscription

    def fire(self, event: Event, *arguments: Any) -> None:
        """Call all who subscribed. One that cancels another keeps it from being called."""
        callbacks = self._callbacks[event]
        for subscription in tuple(callbacks):
            if subscription in callbacks:
                callbacks[subscription](*arguments)

    def has_any(self, *events: Event) -> bool:
        """Whether somebody subscribed to one of ``events``."""
        for event in events:  # noqa: SIM110 - a generator takes longer than all of it, at each step
            if self._callbacks[event]:
                return True
        return False

    def clear(self) -> None:
        """Forget all callbacks."""
        for callbacks in self._callbacks.values():
            callbacks.clear()
