# SPDX-License-Identifier: Apache-2.0
"""Launches a kernel again and again with few changes in between, at little cost per launch.

`wp.launch` packs every argument on every call, some 20 µs for a whole actuator. A `Launch` packs an argument when it
changes, and on the CPU calls the compiled function directly. A `TiledLaunch` does so for ranges of tiles, from several
threads where there is enough to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import warp as wp

from ..threads import available_threads, run_together

DOFS_PER_THREAD = 24576
"""Fewest DOFs worth a CPU thread of their own: less work than this is done before a second thread has woken."""

WORTH_WAKING = 6e-4
"""Shortest step [s] that is shared with sleeping threads: waking one takes some 50 µs, on a virtual machine more."""


def recording_tape() -> Any:
    """Return the `wp.Tape` that is recording launches, or None."""
    runtime = wp._src.context.runtime
    return None if runtime is None else runtime.tape


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Let no `wp.Tape` record what is launched in this block."""
    tape = recording_tape()
    if tape is None:
        yield
        return
    wp._src.context.runtime.tape = None
    try:
        yield
    finally:
        wp._src.context.runtime.tape = tape


@dataclass(frozen=True)
class CCall:
    """A launch as compiled code calls it: ``function(bounds, arguments)``, all of them addresses.

    To step another cell, copy ``size`` bytes of arguments and write its number, an int32, at ``first``. The addresses
    are valid as long as this object lives, and what the arguments point to.
    """

    function: int
    bounds: int
    arguments: int
    size: int
    first: int | None
    """Offset of the argument ``first`` [bytes], where the kernel has it."""
    launch: Launch = field(repr=False, compare=False)
    """Holds what the addresses point to."""


class Launch:
    """A kernel with its arguments packed.

    On the CPU it keeps its own packed arguments and calls the compiled function itself. That leans on how Warp's
    recorded launches are made; where a release of Warp makes them otherwise, the recorded launch is used as it is.

    Args:
        kernel: The kernel.
        dim: How many threads.
        device: Where it runs.
        values: Every argument, by name or in order.
    """

    def __init__(
        self,
        kernel: wp.Kernel,
        dim: int | tuple[int, ...],
        device: wp.Device | str,
        values: Mapping[str, object] | Sequence[object],
    ):
        names = [argument.label for argument in kernel.adj.args]
        self._at = {name: index for index, name in enumerate(names)}
        self._values = dict(values) if isinstance(values, Mapping) else dict(zip(names, values, strict=True))
        inputs = [self._values[name] for name in names]
        self.record = wp.launch(kernel, dim, inputs, device=device, record_cmd=True)
        self.run = self.record.launch
        self._packed: Any = None
        if self.record.device.is_cpu and all(hasattr(self.record, name) for name in ("params", "hooks", "bounds")):
            packed = self.record.params[1:]
            layout = [(name, type(value)) for name, value in zip(names, packed, strict=True)]
            self._packed = type("Arguments", (ctypes.Structure,), {"_fields_": layout})(*packed)
            given = ctypes.byref(self.record.bounds), ctypes.byref(self._packed)
            self.run = functools.partial(self.record.hooks.forward, *given)

    def launch(self) -> None:
        """Run the kernel, or record it where a graph is being captured."""
        if self.record.device.is_capturing:
            self.record.launch()
        else:
            self.run()

    @property
    def c_call(self) -> CCall | None:
        """Entry for compiled code; None off the CPU."""
        if self._packed is None:
            return None
        function = ctypes.cast(self.record.hooks.forward, ctypes.c_void_p).value
        first = getattr(type(self._packed), "first", None)
        return CCall(
            function or 0,
            ctypes.addressof(self.record.bounds),
            ctypes.addressof(self._packed),
            ctypes.sizeof(self._packed),
            None if first is None else first.offset,
            self,
        )

    def set(self, name: str, value: object) -> None:
        """Change an argument for all launches to come."""
        self._values[name] = value
        index = self._at[name]
        self.record.set_param_at_index(index, value)
        if self._packed is not None:
            setattr(self._packed, name, self.record.params[index + 1])

    def update(self, values: Mapping[str, object]) -> None:
        """Change those arguments that are others than before."""
        for name, value in values.items():
            known = self._values[name]
            if value is not known and (not isinstance(value, float) or value != known):
                self.set(name, value)

    def move(self, name: str, address: int) -> bool:
        """Change where an array argument lies, and nothing else of it. False where only `set` can."""
        if self._packed is None:
            return False
        for packed in (self.record.params[self._at[name] + 1], getattr(self._packed, name)):
            packed.data = address
        return True


class TiledLaunch:
    """A kernel over tiles of DOFs, or over single ones, launched as ranges of them.

    Args:
        kernel: The kernel, which has an argument ``first``.
        units: How many tiles, or DOFs.
        in_tiles: Whether a thread of the kernel takes a tile.
        dofs: DOFs that CPU threads may share; 0 for one thread.
        device: Where it runs.
        values: Every argument, by name. That of ``first`` is filled in.
    """

    def __init__(
        self, kernel: wp.Kernel, units: int, in_tiles: bool, dofs: int, device: wp.Device, values: Mapping[str, object]
    ):
        self._device, self._kernel, self._in_tiles = device, kernel, in_tiles
        self._values = dict(values)
        threads = max(1, min(available_threads(), dofs // DOFS_PER_THREAD)) if in_tiles else 1
        bounds = [units * shard // threads for shard in range(threads + 1)]
        self._shards = [self.part(first, last) for first, last in itertools.pairwise(bounds)]
        self._slow_runs = 0
        self._launches = 0

    def part(self, first: int, last: int) -> Launch:
        """Return a launch of a range of units, with the arguments as they are now."""
        dim = (last - first, 1) if self._in_tiles else last - first
        return Launch(self._kernel, dim, self._device, self._values | {"first": first})

    def set(self, name: str, value: object) -> None:
        """Change one argument for all launches to come. One that the kernel does not take is left alone."""
        if name in self._values:
            self._values[name] = value
            for shard in self._shards:
                shard.set(name, value)

    def move(self, name: str, address: int) -> bool:
        """Change where an array argument lies, for all launches to come. False where only `set` can."""
        if name not in self._values:
            return True
        return all(shard.move(name, address) for shard in self._shards)

    def run(self) -> None:
        """Run the kernel over all DOFs, or record it where a graph is being captured."""
        if not self._device.is_cpu or self._device.is_capturing:
            for shard in self._shards:
                shard.record.launch()
        elif len(self._shards) == 1:
            self._shards[0].run()
        else:
            self._launches += 1
            if self._slow_runs >= 2 and self._launches % 64:  # now and then it is timed again
                run_together([shard.run for shard in self._shards])
            else:
                self._run_in_turn()

    def _run_in_turn(self) -> None:
        start = time.perf_counter()
        for shard in self._shards:
            shard.run()
        self._slow_runs = self._slow_runs + 1 if time.perf_counter() - start > WORTH_WAKING else 0
