# SPDX-License-Identifier: Apache-2.0
"""`Workers`: runners of the tasks of a fit, in this process or on a Ray cluster.

The result of a task depends only on its inputs, so both runners give identical results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from ..errors import ActuonError, Option, ParameterError, StateError, require
from ..version import __version__
from .interrupts import check

Progress = Callable[[int, np.ndarray], None]
"""Callback after each generation, with its number and the smallest error of each joint [rad], shape (J,)."""
ProgressFactory = Callable[[str], Progress | None]
"""Function of the title of a task that returns its callback."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_PREFIX = "ray"
_POLL = 0.2
"""Time [s] between two reports of progress."""


class Workers(Protocol):
    """Runner of tasks, such as a cluster."""

    def map(
        self, function: Callable[[_Task, Progress | None], _Result], tasks: Sequence[_Task], titles: Sequence[str],
        progress: ProgressFactory | None = None,
    ) -> Iterator[_Result]:  # fmt: skip
        """Yield the result of each task in order, as soon as all tasks before it are done.

        After an interrupt, running tasks return their best result so far, and no others start.

        Args:
            function: Module-level function of a task and a callback.
            tasks: Tasks, which can be pickled.
            titles: Title of each task.
            progress: Called with the title of a task; returns its callback.
        """


_ON = Option("address", "--on")


class LocalWorkers:
    """Runner of tasks in this process, one after the other."""

    def map(
        self, function: Callable[[_Task, Progress | None], _Result], tasks: Sequence[_Task], titles: Sequence[str],
        progress: ProgressFactory | None = None,
    ) -> Iterator[_Result]:  # fmt: skip
        """See `Workers.map`."""
        for task, title in zip(tasks, titles, strict=True):
            check()
            yield function(task, progress(title) if progress is not None else None)


class RayWorkers:
    """Runner of tasks on a Ray cluster. A ``with`` statement leaves the cluster, or stops the one it started.

    Args:
        address: ``ray`` for this machine or the cluster in ``RAY_ADDRESS``; ``ray://HOST:PORT`` for another.
    """

    def __init__(self, address: str = _PREFIX):
        if address != _PREFIX and not (address.startswith(f"{_PREFIX}://") and len(address) > len(_PREFIX) + 3):
            raise ParameterError(f"got '{address}'; must be ray, or ray://HOST:PORT", option=_ON)
        self._ray = require("ray", "ray", "running fits on a Ray cluster")
        self._address = None if address == _PREFIX else address
        self._has_joined = False

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="error", include_dashboard=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise StateError(
                    f"cannot reach Ray at '{self._address or 'this machine'}': {error}; check that it runs, and that "
                    "RAY_AUTH_MODE has the same value on both sides",
                    option=_ON,
                ) from error
            self._has_joined = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._has_joined:
            self._ray.shutdown()
            self._has_joined = False

    def map(
        self, function: Callable[[_Task, Progress | None], _Result], tasks: Sequence[_Task], titles: Sequence[str],
        progress: ProgressFactory | None = None,
    ) -> Iterator[_Result]:  # fmt: skip
        """See `Workers.map`. Submits all tasks at once."""
        ray = self._ray
        board = ray.remote(num_cpus=0)(_Board).remote()
        run = ray.remote(num_cpus=1)(_run)
        running = [run.remote(function, task, number, board, __version__) for number, task in enumerate(tasks)]
        for awaited in running:
            is_done = False
            while not is_done:
                try:
                    check()
                    is_done = bool(ray.wait([awaited], timeout=_POLL)[0])
                    _tell(ray.get(board.news.remote()), titles, progress)
                except KeyboardInterrupt:
                    board.stop.remote()
            yield self._result(awaited)

    def _result(self, task: Any) -> Any:
        """Return the result of a task, or raise its error."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ActuonError):
                raise error.cause from None
            raise


class _Board:
    """Ray actor through which tasks report progress and learn that they must stop."""

    def __init__(self) -> None:
        self._news: dict[int, tuple[int, np.ndarray]] = {}
        self._is_stopped = False

    def tell(self, number: int, generation: int, errors: np.ndarray) -> bool:
        """Report the progress of a task; returns True if it must stop."""
        self._news[number] = generation, errors
        return self._is_stopped

    def news(self) -> dict[int, tuple[int, np.ndarray]]:
        """Return the progress since the last call, by task."""
        news, self._news = self._news, {}
        return news

    def stop(self) -> None:
        """Stop all tasks, present and future ones, after their present generation."""
        self._is_stopped = True


def _tell(news: dict[int, tuple[int, np.ndarray]], titles: Sequence[str], progress: ProgressFactory | None) -> None:
    """Report the progress of tasks under their titles."""
    for number, (generation, errors) in sorted(news.items()):
        told = progress(titles[number]) if progress is not None else None
        if told is not None:
            told(generation, errors)


def _run(
    function: Callable[[_Task, Progress | None], _Result], task: _Task, number: int, board: Any, version: str
) -> _Result:
    """Run one task on a machine of the cluster."""
    if version != __version__:
        raise StateError(
            f"a machine of the cluster has Actuon {__version__}, this one has {version}; both must agree", option=_ON
        )
    os.environ["ACTUON_NUM_THREADS"] = "1"
    ray = require("ray", "ray", "running fits on a Ray cluster")

    def told(generation: int, errors: np.ndarray) -> None:
        if ray.get(board.tell.remote(number, generation, errors)):
            raise KeyboardInterrupt

    return function(task, told)
