# SPDX-License-Identifier: Apache-2.0
"""`Workers`: what runs tasks of a fit, in this process or on a Ray cluster. The same is found on both.

A task is a function of what it holds alone, so that what is found does not depend on where it runs, or on what runs
beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from ..errors import ActuonError, Option, ParameterError, StateError, require
from ..version import __version__

Progress = Callable[[int, np.ndarray], None]
"""Called after each generation with its number and the least error of each joint [rad], shape (J,)."""
ProgressFactory = Callable[[str], Progress | None]
"""Gets the title of a task, gives what is told after each of its generations."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_PREFIX = "ray"
_POLL = 0.2
"""Time [s] between two looks at how far the tasks are."""


class Workers(Protocol):
    """Runner of tasks, such as a cluster."""

    def map(
        self, function: Callable[[_Task, Progress | None], _Result], tasks: Sequence[_Task], titles: Sequence[str],
        progress: ProgressFactory | None = None,
    ) -> Iterator[_Result]:  # fmt: skip
        """Return the result of each task, in their order, as soon as all before it are done.

        After an interrupt, tasks that have begun end with the best so far, and no others begin.

        Args:
            function: Of a module, so that others can import it. Gets a task, and what to tell after each generation.
            tasks: Each can be pickled.
            titles: What to call each.
            progress: Called with how far they are.
        """


_ON = Option("address", "--on")


class LocalWorkers:
    """Runs tasks in this process, one after the other."""

    def map(
        self, function: Callable[[_Task, Progress | None], _Result], tasks: Sequence[_Task], titles: Sequence[str],
        progress: ProgressFactory | None = None,
    ) -> Iterator[_Result]:  # fmt: skip
        """See `Workers.map`."""
        for task, title in zip(tasks, titles, strict=True):
            yield function(task, progress(title) if progress is not None else None)


class RayWorkers:
    """A Ray cluster. Use it in a ``with`` statement, which leaves the cluster, or ends the one it has started.

    Args:
        address: ``ray`` for a cluster on this machine, or the one in ``RAY_ADDRESS``; ``ray://HOST:PORT`` for another.
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
                    "RAY_AUTH_MODE is set as it is there",
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
        """See `Workers.map`. All tasks are handed to the cluster at once."""
        ray = self._ray
        board = ray.remote(num_cpus=0)(_Board).remote()
        run = ray.remote(num_cpus=1)(_run)
        running = [run.remote(function, task, number, board, __version__) for number, task in enumerate(tasks)]
        is_stopped = False
        for awaited in running:
            is_done = False
            while not is_done:
                try:
                    is_done = bool(ray.wait([awaited], timeout=_POLL)[0])
                    _tell(ray.get(board.news.remote()), titles, progress)
                except KeyboardInterrupt:
                    if is_stopped:
                        raise
                    is_stopped = True
                    board.stop.remote()
            yield self._result(awaited)

    def _result(self, task: Any) -> Any:
        """Return the result of a task; its errors are raised as if they had come from here."""
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
        """Return what was said since the last call, by task."""
        news, self._news = self._news, {}
        return news

    def stop(self) -> None:
        """Let all tasks stop after their present generation, those too that begin later."""
        self._is_stopped = True


def _tell(news: dict[int, tuple[int, np.ndarray]], titles: Sequence[str], progress: ProgressFactory | None) -> None:
    """Pass on how far tasks are, each under its title."""
    for number, (generation, errors) in sorted(news.items()):
        told = progress(titles[number]) if progress is not None else None
        if told is not None:
            told(generation, errors)


def _run(
    function: Callable[[_Task, Progress | None], _Result], task: _Task, number: int, board: Any, version: str
) -> _Result:
    """Run one task, on the machine that has it."""
    if version != __version__:
        raise StateError(
            f"a machine of the cluster has Actuon {__version__}, this one has {version}; must be the same", option=_ON
        )
    os.environ["ACTUON_NUM_THREADS"] = "1"
    ray = require("ray", "ray", "running fits on a Ray cluster")

    def told(generation: int, errors: np.ndarray) -> None:
        if ray.get(board.tell.remote(number, generation, errors)):
            raise KeyboardInterrupt

    return function(task, told)
