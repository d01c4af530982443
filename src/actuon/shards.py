# SPDX-License-Identifier: Apache-2.0
"""One recorded launch, called without Warp's bookkeeping."""

from __future__ import annotations

import ctypes
import functools
from typing import Any


class Shard:
    """One launch over a range of DOFs.

    On the CPU it keeps its own packed arguments and calls the compiled function itself. That leans on how Warp's
    recorded launches are made; where a release of Warp makes them otherwise, the recorded launch is used as it is.
    """

    def __init__(self, command: Any):
        self.command = command
        self.run = command.launch
        self._names: list[str] = []
        self.call: tuple[int, int, int] | None = None
        """Addresses of the compiled function, its launch bounds and its arguments."""
        if command.device.is_cpu and all(hasattr(command, name) for name in ("params", "hooks", "bounds", "kernel")):
            self._pack(command)

    def _pack(self, command: Any) -> None:
        self._names = [argument.label for argument in command.kernel.adj.args]
        packed = command.params[1:]
        layout = [(name, type(value)) for name, value in zip(self._names, packed, strict=True)]
        self._arguments = type("Arguments", (ctypes.Structure,), {"_fields_": layout})(*packed)
        bounds, arguments = ctypes.byref(command.bounds), ctypes.byref(self._arguments)
        self.run = functools.partial(command.hooks.forward, bounds, arguments)
        function = ctypes.cast(command.hooks.forward, ctypes.c_void_p).value
        if function:
            self.call = function, ctypes.addressof(command.bounds), ctypes.addressof(self._arguments)

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
