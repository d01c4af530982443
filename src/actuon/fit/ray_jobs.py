# SPDX-License-Identifier: Apache-2.0
"""Runs jobs on a Ray cluster: each is one task, on one core. The same is found as in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from ..errors import ActuonError, ParameterError, StateError
from ..version import __version__
from .extras import need
from .jobs import Titled
from .search import Progress

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")

_PREFIX = "ray"
_POLL = 0.2
"""Time [s] between two looks at how far the tasks are."""


class RayWorkers:
    """A Ray cluster. Use it in a ``with`` statement, which leaves the cluster, or ends the one it has started.

    Args:
        address: ``ray`` for a cluster on this machine, or the one in ``RAY_ADDRESS``; ``ray://HOST:PORT`` for another.
    """

    def __init__(self, address: str = _PREFIX):
        if address != _PREFIX and not (address.startswith(f"{_PREFIX}://") and len(address) > len(_PREFIX) + 3):
            raise ParameterError(f"--on: got '{address}'; must be ray, or ray://HOST:PORT")
        self._ray = need("ray", "ray", "running fits on a Ray cluster")
        self._address = None if address == _PREFIX else address
        self._has_joined = False

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="error", include_dashboard=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise StateError(
                    f"--on: cannot reach Ray at '{self._address or 'this machine'}': {error}; check that it runs, and "
                    "that RAY_AUTH_MODE is set as it is there"
                ) from error
            self._has_joined = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._has_joined:
            self._ray.shutdown()
            self._has_joined = False

    def map(
        self, function: Callable[[_Job, Progress | None], _Found], jobs: Sequence[_Job], titles: Sequence[str],
        progress: Titled | None = None,
    ) -> Iterator[_Found]:  # fmt: skip
        """See `jobs.Workers.map`. All tasks are handed to the cluster at once."""
        ray = self._ray
        board = ray.remote(num_cpus=0)(_Board).remote()
        task = ray.remote(num_cpus=1)(_run)
        tasks = [task.remote(function, job, number, board, __version__) for number, job in enumerate(jobs)]
        shown = _Shown(titles, progress)
        is_stopped = False
        for awaited in tasks:
            is_done = False
            while not is_done:
                try:
                    is_done = bool(ray.wait([awaited], timeout=_POLL)[0])
                    shown.update(ray.get(board.news.remote()))
                except KeyboardInterrupt:
                    if is_stopped:
                        raise
                    is_stopped = True
                    board.stop.remote()
            yield self._result(awaited)

    def _result(self, task: Any) -> Any:
        """What a task gave; its errors are raised as if they had come from here."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ActuonError):
                raise error.cause from None
            raise


class _Board:
    """Where tasks say how far they are, and learn that they are to stop. An actor of Ray."""

    def __init__(self) -> None:
        self._news: dict[int, tuple[int, np.ndarray]] = {}
        self._is_stopped = False

    def tell(self, number: int, generation: int, errors: np.ndarray) -> bool:
        """Say how far a task is. Returns whether it is to stop."""
        self._news[number] = generation, errors
        return self._is_stopped

    def news(self) -> dict[int, tuple[int, np.ndarray]]:
        """What was said since the last call, by task."""
        news, self._news = self._news, {}
        return news

    def stop(self) -> None:
        """Let all tasks stop after their present generation, those too that begin later."""
        self._is_stopped = True


class _Shown:
    """Passes on how far tasks are, each under its title."""

    def __init__(self, titles: Sequence[str], progress: Titled | None):
        self._titles, self._progress = titles, progress

    def update(self, news: dict[int, tuple[int, np.ndarray]]) -> None:
        for number, (generation, errors) in sorted(news.items()):
            told = self._progress(self._titles[number]) if self._progress is not None else None
            if told is not None:
                told(generation, errors)


def _run(
    function: Callable[[_Job, Progress | None], _Found], job: _Job, number: int, board: Any, version: str
) -> _Found:
    """One task, on the machine that runs it."""
    if version != __version__:
        raise StateError(
            f"--on: a machine of the cluster has Actuon {__version__}, this one has {version}; must be the same"
        )
    os.environ["ACTUON_NUM_THREADS"] = "1"
    ray = need("ray", "ray", "running fits on a Ray cluster")

    def told(generation: int, errors: np.ndarray) -> None:
        if ray.get(board.tell.remote(number, generation, errors)):
            raise KeyboardInterrupt

    return function(job, told)
