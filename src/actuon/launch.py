# SPDX-License-Identifier: Apache-2.0
"""Launches a program again and again with few changes in between, at little cost per launch.

`wp.launch` packs every argument on every call, some 20 µs for a whole actuator. A `BoundProgram` packs an argument when
it changes. On the CPU it then calls the compiled function directly, from several threads where there is enough to do.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import warp as wp

from . import memory
from .errors import ParameterError
from .pipeline import Flavour, Program

DOFS_PER_THREAD = 24576
"""Fewest DOFs worth a CPU thread of their own: less work than this is done before a second thread has woken."""

_pool: ThreadPoolExecutor | None = None


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
    global _pool
    _pool = None


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
            self._shards.append(_Shard(command))
        self._own, *self._others = self._shards

    def set(self, name: str, value: Any) -> None:
        """Change one argument for all launches to come."""
        index = self._position[name]
        for shard in self._shards:
            shard.set(index, value)

    def launch(self) -> None:
        """Run the kernel over all DOFs, or record it where a graph is being captured."""
        if not self._device.is_cpu or self._device.is_capturing:
            for shard in self._shards:
                shard.command.launch()
            return
        pending = [_workers().submit(shard.run) for shard in self._others]
        self._own.run()
        for task in pending:
            task.result()


class _Shard:
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

    def set(self, index: int, value: Any) -> None:
        self.command.set_param_at_index(index, value)
        if self._names:
            setattr(self._arguments, self._names[index], self.command.params[index + 1])
