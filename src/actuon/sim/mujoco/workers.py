# SPDX-License-Identifier: Apache-2.0
"""What threads step environments with: a model and an ``MjData`` each."""

from __future__ import annotations

import copy
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...threads import available_threads, run_together
from .fields import ModelFields, field
from .loop import Field, Worker

WORTH_SHARING = 2.0e-4
"""Shortest run [s] that is shared with other threads: waking one takes some 50 µs."""


class Workers:
    """The workers of all threads, and how many threads are worth waking.

    Args:
        mujoco: The module.
        fields: The models.
    """

    def __init__(self, mujoco: Any, fields: ModelFields):
        self._mujoco, self._fields = mujoco, fields
        self._work = self._last = 0.0
        self.renew()

    def renew(self) -> None:
        """Begin again with the model that the fields share now."""
        model = self._fields.model
        self.pairs: list[tuple[Any, Any]] = [(model, self._mujoco.MjData(model))]
        """Model and ``MjData`` of each thread."""
        self.field_table: Any = (Field * 0)()
        """The fields in which environments differ."""
        self._made: list[Worker] = []
        self._version = self._pairs_version = -1

    def ready(self, count: int) -> list[tuple[Any, Any]]:
        """At least so many pairs. Where environments differ, threads write into their models."""
        shared = self._fields.model
        if self._fields.rows and self._pairs_version != self._fields.version:
            self.pairs = [(copy.copy(shared), data) for _, data in self.pairs]
            self._pairs_version = self._fields.version
        while len(self.pairs) < count:
            model = copy.copy(shared) if self._fields.rows else shared
            self.pairs.append((model, self._mujoco.MjData(model)))
        return self.pairs

    def take(self, count: int) -> Sequence[Worker]:
        """At least so many workers: the same list as long as models and fields stay."""
        if count > len(self._made) or self._version != self._fields.version:
            self._make(max(count, len(self._made)))
        return self._made

    def _make(self, count: int) -> None:
        rows, envs = self._fields.rows, self._fields.num_envs
        self.field_table = (Field * len(rows))(*(Field(r.ctypes.data, r.nbytes // envs) for r in rows.values()))
        self._made = []
        for model, data in self.ready(count):
            into = (ctypes.c_void_p * len(rows))(*(field(model, name).ctypes.data for name in rows))
            self._made.append(Worker(model._address, data._address, into, data.qfrc_bias.ctypes.data))
        self._version = self._fields.version

    def count_for(self, steps: int) -> int:
        """How many threads are worth waking for so many steps."""
        return min(available_threads(), self._fields.num_envs) if steps * self._work > WORTH_SHARING else 1

    def run(self, runs: Sequence[Callable[[], Any]], steps: int) -> None:
        """Run what takes steps of all environments, side by side. Alone, see how long a step takes."""
        if len(runs) > 1:
            run_together(runs)
            return
        start = time.perf_counter()
        runs[0]()
        if steps:  # one that was held up by others on the machine says nothing
            taken = (time.perf_counter() - start) / steps
            self._work, self._last = min(taken, self._last), taken
