# SPDX-License-Identifier: Apache-2.0
"""Calls in a process of their own, with a bound on time and memory, that may crash without taking us along."""

from __future__ import annotations

import faulthandler
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon import ActuonError

SECONDS = 30.0
"""Longest that a call may take [s]; on a machine that is busy, far more than it needs."""
MEGABYTES = 2048
"""Most that a process may take on top of what it has after its imports."""
CALLS = 2000
"""Calls until a process is replaced: other libraries leak a little with each."""


@dataclass(frozen=True)
class Refused:
    """An `ActuonError` of the other process."""

    kind: str
    message: str


class Worker:
    """A process that is kept for many calls. What fails is called once more in a new one, and only then has failed."""

    def __init__(self, prepare: Callable[[], None]):
        self._prepare = prepare
        self._process: Any = None
        self._calls = 0

    def call(self, function: Callable[..., Any], *arguments: Any, may_crash: bool = False) -> Any:
        """Return what ``function`` returns, or `Refused` where it raised an `ActuonError`.

        Args:
            function: A function of a module.
            arguments: Its arguments.
            may_crash: Take a crash as a refusal.

        Raises:
            AssertionError: It raised something else, crashed, or took too much time or memory.
        """
        if self._calls >= CALLS:
            self.stop()
        fresh = self._process is None
        kind, value = self._try(function, arguments)
        if kind in ("crashed", "raised") and not fresh:
            self.stop()
            kind, value = self._try(function, arguments)
        if kind == "crashed" and may_crash:
            return Refused(kind, value)
        assert kind == "returned", f"{function.__name__}: {kind}: {value}"
        return value

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._errors.close()
            self._process = None

    def _try(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
        if self._process is None:
            self._start()
        self._calls += 1
        self._pipe.send((function, arguments))
        try:
            if self._pipe.poll(SECONDS):
                return self._pipe.recv()
            os.kill(self._process.pid, signal.SIGUSR1)  # says where it is, if it still can
            self._process.join(1.0)
            problem = f"it took more than {SECONDS:g} s"
        except EOFError:
            self._process.join()
            problem = f"exit code {self._process.exitcode}"
        said = Path(self._errors.name).read_text(errors="replace")[-4000:]
        self.stop()
        return "crashed", f"{problem}; its errors end with:\n{said}"

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._errors = tempfile.NamedTemporaryFile("r", suffix=".txt", errors="replace")  # noqa: SIM115
        self._process = context.Process(target=_serve, args=(other, self._prepare, self._errors.name), daemon=True)
        self._process.start()
        other.close()
        self._calls = 0
        assert self._pipe.recv() == "ready"


def _serve(pipe: Any, prepare: Callable[[], None], errors: str) -> None:
    stream = open(errors, "w")  # noqa: SIM115
    for number in (1, 2):
        os.dup2(stream.fileno(), number)
    faulthandler.enable(stream)
    faulthandler.register(signal.SIGUSR1, stream)
    warnings.simplefilter("ignore")
    prepare()
    if sys.platform == "linux":
        _limit_memory()
    pipe.send("ready")
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("returned", function(*arguments)))
        except ActuonError as error:
            pipe.send(("returned", Refused(type(error).__name__, str(error))))
        except BaseException:
            pipe.send(("raised", traceback.format_exc()[-4000:]))


def _limit_memory() -> None:
    import resource

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = taken + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


@functools.cache
def worker(prepare: Callable[[], None]) -> Worker:
    """The worker of this process that has been prepared so."""
    return Worker(prepare)
