# SPDX-License-Identifier: Apache-2.0
"""Repeated launches of a kernel with few changes in between, at little cost per launch.

`wp.launch` packs every argument on every call, some 20 µs for a whole actuator. A `Launch` packs an argument when it
changes, and on the CPU calls the compiled function directly. A `TiledLaunch` does so for ranges of tiles, from several
threads if the step is long enough.
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
"""Smallest number of DOFs per CPU thread: fewer are done before a second thread wakes."""

WORTH_WAKING = 6e-4
"""Shortest step [s] that is shared with sleeping threads: waking one takes some 50 µs, on a virtual machine more."""


def recording_tape() -> Any:
    """Return the `wp.Tape` that is recording launches, or None."""
    runtime = wp._src.context.runtime
    return None if runtime is None else runtime.tape


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Hide the launches of this block from any recording `wp.Tape`."""
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
    """A launch for compiled code: ``function(bounds, arguments)``, all of them addresses.

    To step another cell, copy ``size`` bytes of arguments and write its number, an int32, at ``first``. The addresses
    are valid during the lifetime of this object and of the arrays in its arguments.
    """

    function: int
    bounds: int
    arguments: int
    size: int
    first: int | None
    """Offset of the argument ``first`` [bytes]; None if the kernel has none."""
    launch: Launch = field(repr=False, compare=False)
    """Owner of the memory at these addresses."""


class Launch:
    """A kernel with its arguments packed.

    On the CPU it keeps its own packed arguments and calls the compiled function itself. This uses attributes of Warp's
    recorded launches; without them it falls back to the recorded launch.

    Args:
        kernel: The kernel.
        dim: Number of threads.
        device: Device of the launch.
        values: All arguments, by name or in order.
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
        """Run the kernel, or record it during graph capture."""
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
        """Change an argument for all later launches."""
        self._values[name] = value
        index = self._at[name]
        self.record.set_param_at_index(index, value)
        if self._packed is not None:
            setattr(self._packed, name, self.record.params[index + 1])

    def update(self, values: Mapping[str, object]) -> None:
        """Change the arguments whose values differ."""
        for name, value in values.items():
            known = self._values[name]
            if value is not known and (not isinstance(value, float) or value != known):
                self.set(name, value)

    def move(self, name: str, address: int) -> bool:
        """Change only the address of an array argument. Return False if `set` is required."""
        if self._packed is None:
            return False
        for packed in (self.record.params[self._at[name] + 1], getattr(self._packed, name)):
            packed.data = address
        return True


class TiledLaunch:
    """A kernel over tiles of DOFs, or over single DOFs, launched as ranges.

    Args:
        kernel: The kernel, which has an argument ``first``.
        units: Number of tiles, or DOFs.
        in_tiles: Whether a thread of the kernel processes a tile.
        dofs: DOFs that CPU threads may share; 0 for one thread.
        device: Device of the launch.
        values: All arguments by name, except ``first``.
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
        """Return a launch of a range of units, with the current arguments."""
        dim = (last - first, 1) if self._in_tiles else last - first
        return Launch(self._kernel, dim, self._device, self._values | {"first": first})

    def set(self, name: str, value: object) -> None:
        """Change an argument for all later launches. Names that the kernel does not have are ignored."""
        if name in self._values:
            self._values[name] = value
            for shard in self._shards:
                shard.set(name, value)

    def move(self, name: str, address: int) -> bool:
        """Change only the address of an array argument for all later launches. Return False if `set` is required."""
        if name not in self._values:
            return True
        return all(shard.move(name, address) for shard in self._shards)

    def run(self) -> None:
        """Run the kernel over all DOFs, or record it during graph capture."""
        if not self._device.is_cpu or self._device.is_capturing:
            for shard in self._shards:
                shard.record.launch()
        elif len(self._shards) == 1:
            self._shards[0].run()
        else:
            self._launches += 1
            if self._slow_runs >= 2 and self._launches % 64:  # timed again at every 64th launch
                run_together([shard.run for shard in self._shards])
            else:
                self._run_in_turn()

    def _run_in_turn(self) -> None:
        start = time.perf_counter()
        for shard in self._shards:
            shard.run()
        self._slow_runs = self._slow_runs + 1 if time.perf_counter() - start > WORTH_WAKING else 0
