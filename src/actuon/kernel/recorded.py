# SPDX-License-Identifier: Apache-2.0
"""A recorded launch whose arguments are changed by name."""

from __future__ import annotations

from typing import Any

import warp as wp


class RecordedLaunch:
    """Launches one kernel again and again, and packs an argument where it is another than before.

    Args:
        kernel: The kernel.
        dim: How many threads.
        device: Where it runs.
        values: Every argument, by name.
    """

    def __init__(self, kernel: Any, dim: tuple[int, int], device: wp.Device, values: dict[str, Any]):
        names = [argument.label for argument in kernel.adj.args]
        self._at = {name: index for index, name in enumerate(names)}
        self._values = values
        self._command = wp.launch(kernel, dim, [values[name] for name in names], device=device, record_cmd=True)

    def launch(self, **values: Any) -> None:
        """Launch with other ``values`` of some arguments, which stay."""
        for name, value in values.items():
            known = self._values[name]
            if value is not known and (not isinstance(value, float) or value != known):
                self._command.set_param_at_index(self._at[name], value)
                self._values[name] = value
        self._command.launch()
