# SPDX-License-Identifier: Apache-2.0
"""What all ways to step a chain share: locks, tapes, and arrays of float64."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from ..arrays import DoubleArray
from ..errors import ArrayError, StateError, StructureError
from .binding import Chain
from .launch import recording_tape

building = threading.RLock()
"""Held while kernels are made: neither they nor Warp's compiler are made for two threads at once."""


class HasLock(Protocol):
    """Something that is used by one thread at a time."""

    lock: threading.Lock


_locked: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_lock_after_fork(owner: HasLock) -> None:
    """Give ``owner`` a new lock in a child process, where the thread that may have held it is not."""
    _locked.add(owner)


def _renew_locks() -> None:
    building.release()
    for owner in list(_locked):
        owner.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A fork waits until kernels are made: a child could not finish what another thread had begun.
    os.register_at_fork(before=building.acquire, after_in_parent=building.release, after_in_child=_renew_locks)


def refuse_tape() -> None:
    """Refuse to step where a `wp.Tape` is recording that could not differentiate the step."""
    if recording_tape() is not None:
        raise StructureError(
            "a wp.Tape is recording, but the actuator cannot be differentiated: "
            "build it with requires_grad=True, or step it outside the tape"
        )


def check_states_on_tape(current: Any, following: Any) -> None:
    """On a tape every step needs a next state of its own: what the backward pass reads must not be written again."""
    tape = recording_tape()
    if current is None or tape is None:
        return
    if following.tape is tape or following is current:
        raise StateError(
            "next_act_state: was already used on this wp.Tape; each step needs a new next state, from actuator.state()"
        )
    current.tape = following.tape = tape


def run_on_copies(chain: Chain, doubles: dict[str, DoubleArray], run: Callable[[], None]) -> None:
    """Run a step on float32 copies of some arrays."""
    if doubles and chain.device.is_capturing:
        label = chain.labels[next(iter(doubles))]
        raise ArrayError(f"{label}: got dtype float64, which a captured graph cannot take; must be float32")
    targets = zip(chain.slots[-len(chain.writes) :], chain.writes, strict=True)
    written = [(write, doubles[slot]) for slot, write in targets if slot in doubles]
    for slot, double in doubles.items():
        if not chain.is_written(slot):
            double.fetch()
    for _, double in written:
        double.copy[:] = 0.0
    run()
    for write, double in written:
        double.deliver(chain.accesses["effort"].chosen, write.adds)
