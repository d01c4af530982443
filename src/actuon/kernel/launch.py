# SPDX-License-Identifier: Apache-2.0
"""Launches a program again and again with few changes in between, at little cost per launch.

`wp.launch` packs every argument on every call, some 20 µs for a whole actuator. A `BoundProgram` packs an argument when
it changes. On the CPU it then calls the compiled function directly, from several threads where there is enough to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import warp as wp

from ..threads import available_threads, run_together
from .arguments import Role
from .program import Program
from .types import CELL, Flavour

DOFS_PER_THREAD = 24576
"""Fewest DOFs worth a CPU thread of their own: less work than this is done before a second thread has woken."""

WORTH_WAKING = 6e-4
"""Shortest step [s] that is shared with sleeping threads: waking one takes some 50 µs, on a virtual machine more."""


def recording_tape() -> Any:
    """The `wp.Tape` that is recording launches, or None."""
    runtime = wp._src.context.runtime
    return None if runtime is None else runtime.tape


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """No `wp.Tape` records what is launched in this block."""
    tape = recording_tape()
    if tape is None:
        yield
        return
    wp._src.context.runtime.tape = None
    try:
        yield
    finally:
        wp._src.context.runtime.tape = tape


class Shard:
    """One launch over a range of DOFs.

    On the CPU it keeps its own packed arguments and calls the compiled function itself. That leans on how Warp's
    recorded launches are made; where a release of Warp makes them otherwise, the recorded launch is used as it is.
    """

    def __init__(self, command: Any):
        self.command = command
        self.run = command.launch
        self._names: list[str] = []
        if command.device.is_cpu and all(hasattr(command, name) for name in ("params", "hooks", "bounds", "kernel")):
            self._pack(command)

    def _pack(self, command: Any) -> None:
        self._names = [argument.label for argument in command.kernel.adj.args]
        packed = command.params[1:]
        layout = [(name, type(value)) for name, value in zip(self._names, packed, strict=True)]
        self._arguments = type("Arguments", (ctypes.Structure,), {"_fields_": layout})(*packed)
        bounds, arguments = ctypes.byref(command.bounds), ctypes.byref(self._arguments)
        self.run = functools.partial(command.hooks.forward, bounds, arguments)

    @property
    def addresses(self) -> tuple[int, int, int] | None:
        """Where the compiled function lies, and the two arguments that `run` calls it with; None off the CPU."""
        function = ctypes.cast(self.command.hooks.forward, ctypes.c_void_p).value if self._names else None
        if function is None:
            return None
        return function, ctypes.addressof(self.command.bounds), ctypes.addressof(self._arguments)

    def move(self, index: int, address: int) -> bool:
        """Change where an array argument lies, and nothing else of it. False where only `set` can."""
        if not self._names:
            return False
        for packed in (self.command.params[index + 1], getattr(self._arguments, self._names[index])):
            packed.data = address
        return True

    def set(self, index: int, value: Any) -> None:
        self.command.set_param_at_index(index, value)
        if self._names:
            setattr(self._arguments, self._names[index], self.command.params[index + 1])


class BoundProgram:
    """A program with its arguments packed, ready to be launched.

    Args:
        program: The kernel.
        num_dofs: How many DOFs it runs over.
        device: Where it runs.
        values: Every argument, in order. Those for ``n`` and ``first`` are filled in.
        parallel: Whether different DOFs may be written from different threads.
    """

    def __init__(self, program: Program, num_dofs: int, device: wp.Device, values: Sequence[Any], parallel: bool):
        self._device = device
        self._kernel = program.kernel
        self._position = {(argument.role, argument.key): i for i, argument in enumerate(program.arguments)}
        self._in_blocks = program.structure.flavour is Flavour.BLOCK
        self._inputs = list(values)
        self._inputs[self._position[Role.SIZE, "n"]] = num_dofs
        self._moved: dict[int, int] = {}
        units = -(-num_dofs // CELL) if self._in_blocks else num_dofs
        threads = 1
        if self._in_blocks and parallel:
            threads = max(1, min(available_threads(), num_dofs // DOFS_PER_THREAD))
        self._shards = self._split([units * shard // threads for shard in range(threads + 1)])
        self._split_by: dict[tuple[int, ...], list[Shard]] = {}
        self._slow_runs = 0
        self._launches = 0

    def _split(self, bounds: Sequence[int]) -> list[Shard]:
        """A launch for each range of units: cells of DOFs, or single ones."""
        shards = []
        for first, last in itertools.pairwise(bounds):
            self._inputs[self._position[Role.SIZE, "first"]] = first
            dim = (last - first, 1) if self._in_blocks else last - first
            shards.append(Shard(wp.launch(self._kernel, dim, self._inputs, device=self._device, record_cmd=True)))
            for index, address in self._moved.items():
                shards[-1].move(index, address)
        return shards

    def split(self, bounds: tuple[int, ...]) -> list[Shard]:
        """A launch for each range of cells of DOFs, for others to run. They follow changes of arguments."""
        if bounds not in self._split_by:
            self._split_by[bounds] = self._split(bounds)
        return self._split_by[bounds]

    def _all_shards(self) -> Iterator[Shard]:
        return itertools.chain(self._shards, *self._split_by.values())

    def set(self, role: Role, key: Any, value: Any) -> None:
        """Change one argument for all launches to come. One that the kernel does not take is left alone."""
        index = self._position.get((role, key))
        if index is not None:
            self._inputs[index] = value
            self._moved.pop(index, None)
            for shard in self._all_shards():
                shard.set(index, value)

    def move(self, role: Role, key: Any, address: int) -> bool:
        """Change where an array argument lies, for all launches to come. False where only `set` can."""
        index = self._position.get((role, key))
        if index is None:
            return True
        self._moved[index] = address
        return all(shard.move(index, address) for shard in self._all_shards())

    def launch(self) -> None:
        """Run the kernel over all DOFs, or record it where a graph is being captured."""
        if not self._device.is_cpu or self._device.is_capturing:
            for shard in self._shards:
                shard.command.launch()
        elif len(self._shards) == 1:
            self._shards[0].run()
        else:
            self._launches += 1
            if self._slow_runs >= 2 and self._launches % 64:  # now and then it is timed again
                self._run_in_pool()
            else:
                self._run_alone()

    def _run_alone(self) -> None:
        start = time.perf_counter()
        for shard in self._shards:
            shard.run()
        self._slow_runs = self._slow_runs + 1 if time.perf_counter() - start > WORTH_WAKING else 0

    def _run_in_pool(self) -> None:
        run_together([shard.run for shard in self._shards])
