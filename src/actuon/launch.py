# SPDX-License-Identifier: Apache-2.0
"""Launches a program again and again with few changes in between, at little cost per launch.

`wp.launch` packs every argument on every call, some 20 µs for a whole actuator. A `BoundProgram` packs an argument when
it changes. On the CPU it then calls the compiled function directly, from several threads where there is enough to do.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import warp as wp

from . import memory
from .errors import ParameterError
from .helpers import Helper, helpers
from .pipeline import Flavour, Program
from .shards import Shard

DOFS_PER_THREAD = 24576
"""Fewest DOFs worth a CPU thread of their own: less work than this is done before a second thread has woken."""

_WORTH_WAKING = 6e-4
"""Shortest step [s] for which sleeping threads are woken. A shorter one is shared only with helpers that are awake."""

_pool: ThreadPoolExecutor | None = None
_sharing = threading.Lock()
"""Held while helpers work: they serve one step at a time."""


def available_threads() -> int:
    """CPU threads that one step may use: ``ACTUON_NUM_THREADS``, or the cores this process may run on."""
    configured = os.environ.get("ACTUON_NUM_THREADS")
    if configured:
        if not configured.isdecimal() or int(configured) < 1:
            raise ParameterError(f"ACTUON_NUM_THREADS: got {configured!r}; must be a whole number ≥ 1")
        return int(configured)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, available_threads() - 1), thread_name_prefix="actuon")
    return _pool


def _forget_workers() -> None:
    global _pool, _sharing
    _pool = None
    _sharing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def recording_tape() -> Any:
    """The `wp.Tape` that is recording launches, or None."""
    runtime = wp._src.context.runtime
    return None if runtime is None else runtime.tape


class BoundProgram:
    """A program with its arguments packed, ready to be launched.

    Args:
        program: The kernel.
        num_dofs: How many DOFs it runs over.
        device: Where it runs.
        values: Every argument by name. ``n`` and ``first`` are filled in.
        parallel: Whether different DOFs may be written from different threads.
    """

    def __init__(self, program: Program, num_dofs: int, device: wp.Device, values: dict[str, Any], parallel: bool):
        self._device = device
        self._position = {name: index for index, name in enumerate(program.arguments)}
        in_blocks = program.structure.flavour is Flavour.BLOCK
        units = -(-num_dofs // memory.CELL) if in_blocks else num_dofs
        threads = 1
        if in_blocks and parallel:
            threads = max(1, min(available_threads(), num_dofs // DOFS_PER_THREAD))
        bounds = [units * shard // threads for shard in range(threads + 1)]
        self._shards = []
        for first, last in itertools.pairwise(bounds):
            inputs = values | {"n": num_dofs, "first": first}
            dim = (last - first, 1) if in_blocks else last - first
            command = wp.launch(
                program.kernel, dim, [inputs[name] for name in program.arguments], device=device, record_cmd=True
            )
            self._shards.append(Shard(command))
        self._own, *self._others = self._shards
        self._helpers: list[Helper] | None = None
        self._slow_runs = 0
        self._launches = 0

    def set(self, name: str, value: Any) -> None:
        """Change one argument for all launches to come."""
        index = self._position[name]
        for shard in self._shards:
            shard.set(index, value)

    def move(self, name: str, address: int) -> bool:
        """Change where an array argument lies, for all launches to come. False where only `set` can."""
        index = self._position[name]
        return all(shard.move(index, address) for shard in self._shards)

    def launch(self) -> None:
        """Run the kernel over all DOFs, or record it where a graph is being captured."""
        if not self._device.is_cpu or self._device.is_capturing:
            for shard in self._shards:
                shard.command.launch()
            return
        if not self._others:
            self._own.run()
            return
        if not self._run_with_helpers():
            self._launches += 1
            is_long = self._slow_runs >= 2 and self._launches % 64  # now and then it is timed again
            self._run_in_pool() if is_long else self._run_alone()
        end = time.perf_counter()
        for helper in self._helpers or ():
            helper.last_work = end

    def _run_alone(self) -> None:
        start = time.perf_counter()
        for shard in self._shards:
            shard.run()
        self._slow_runs = self._slow_runs + 1 if time.perf_counter() - start > _WORTH_WAKING else 0

    def _run_in_pool(self) -> None:
        pending = [_workers().submit(shard.run) for shard in self._others]
        self._own.run()
        for task in pending:
            task.result()

    def _run_with_helpers(self) -> bool:
        """Share the work with helpers that are awake; False where they are not."""
        if not _sharing.acquire(blocking=False):
            return False
        try:
            if self._helpers is None or any(helper.is_gone for helper in self._helpers):
                self._helpers = helpers(self._others)
            awake = [helper.is_awake() for helper in self._helpers]
            if not awake or not all(awake):
                return False
            posted = []
            try:
                for helper, shard in zip(self._helpers, self._others, strict=True):
                    posted.append((helper, shard))
                    helper.post(shard)
                self._own.run()
            finally:
                for helper, shard in posted:
                    helper.wait(shard)
        finally:
            _sharing.release()
        return True
