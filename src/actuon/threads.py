# SPDX-License-Identifier: Apache-2.0
"""Threads that share work on the CPU: kernels over many DOFs, physics of many environments.

Tasks take about half a millisecond, so overhead matters: a queue in each direction takes some 20 µs less than a pool of
`concurrent.futures`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from .errors import ParameterError

_helpers: list[_Helper] = []
_in_use = threading.Lock()


def available_threads() -> int:
    """Return the number of CPU threads for one step: ``ACTUON_NUM_THREADS``, or the cores available to this process."""
    configured = os.environ.get("ACTUON_NUM_THREADS")
    if configured:
        if not configured.isdecimal() or int(configured) < 1:
            raise ParameterError(f"ACTUON_NUM_THREADS: got {configured!r}; must be a whole number ≥ 1")
        return int(configured)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_only_thread() -> bool:
    """Return whether Python runs no threads except this one and the helpers."""
    return threading.active_count() <= 1 + len(_helpers)


def run_together(tasks: Sequence[Callable[[], object]]) -> None:
    """Run the first of ``tasks`` here and the others in helper threads, and return when all are done.

    Only tasks that release the interpreter lock benefit, such as compiled kernels. If another thread uses the helpers,
    all tasks run here. An interrupt is raised only after all tasks, since they use arrays of the caller.
    """
    if len(tasks) < 2 or sys.is_finalizing() or not _in_use.acquire(blocking=False):
        for task in tasks:
            task()
        return
    try:
        helpers = _wake(len(tasks) - 1)
        try:
            for helper, task in zip(helpers, tasks[1:], strict=False):
                helper.begin(task)
            for task in (tasks[0], *tasks[1 + len(helpers) :]):
                task()
        finally:
            try:
                _wait(helpers)
            except BaseException:
                _wait(helpers)  # where it was raised on the way in
                raise
    finally:
        _in_use.release()


def _wait(helpers: Sequence[_Helper]) -> None:
    """Return when all are done, even if a signal raises an exception; then raise that, or the exception of a task."""
    raised = None
    while any(helper.is_busy for helper in helpers):
        try:
            for helper in helpers:
                helper.wait()
        except BaseException as error:
            raised = error
    for helper in helpers:
        raised = helper.take_error() or raised
    if raised is not None:
        raise raised


def _wake(count: int) -> list[_Helper]:
    """Return ``count`` helpers, or fewer if the system allows no more threads."""
    try:
        while len(_helpers) < count:
            _helpers.append(_Helper())
    except RuntimeError:
        pass
    return _helpers[:count]


class _Helper:
    """A thread that waits for tasks."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[int, Callable[[], object]]] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._begun = self._finished = 0
        self._error: BaseException | None = None
        threading.Thread(target=self._work, name="actuon", daemon=True).start()

    def begin(self, task: Callable[[], object]) -> None:
        """Start a task. The one before it must be done."""
        self._begun += 1
        self._tasks.put((self._begun, task))

    def _work(self) -> None:
        while True:
            number, task = self._tasks.get()
            try:
                task()
            except BaseException as error:
                self._error = error
            del task  # otherwise its arrays stay alive until the next task
            self._finished = number
            self._done.put(None)

    @property
    def is_busy(self) -> bool:
        """Whether the task is not done yet."""
        return self._finished != self._begun

    def wait(self) -> None:
        """Return when the task is done."""
        while self.is_busy:
            self._done.get()

    def take_error(self) -> BaseException | None:
        """Return the task's exception, once."""
        raised, self._error = self._error, None
        return raised


def _forget_helpers() -> None:
    """Drop all helpers in a child process, which has none of its parent's threads."""
    global _in_use
    _helpers.clear()
    _in_use = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
