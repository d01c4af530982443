# SPDX-License-Identifier: Apache-2.0
"""Threads of this process that share work on the CPU: kernels over many DOFs, physics of many environments."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .errors import ParameterError

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


def run_together(tasks: Sequence[Callable[[], Any]]) -> None:
    """Run the first of ``tasks`` here and the others in threads of the pool, and return when all are done.

    Only tasks that let go of the interpreter lock gain from it, such as compiled kernels.
    """
    own, *others = tasks
    pending = []
    try:
        while others:
            pending.append(_workers().submit(others[-1]))
            others.pop()
    except RuntimeError:  # the interpreter is shutting down, and starts no more threads
        pass
    try:
        for task in (own, *others):
            task()
    finally:
        _wait(pending)


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(1, available_threads() - 1), thread_name_prefix="actuon")
    return _pool


def _forget_workers() -> None:
    """A child process has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def _wait(pending: Sequence[Future[Any]]) -> None:
    """Wait for threads that work on arrays of the caller. An interrupt is raised when they are done, not before."""
    interrupt = None
    for task in pending:
        while not task.done():
            try:
                task.exception()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
