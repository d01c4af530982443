# SPDX-License-Identifier: Apache-2.0
"""Another Python process that computes what takes long, so that the robot keeps moving in real time meanwhile.

Graphs that a fit captures, too, would take in steps of a robot in the same process. It is started as a command, and not
by ``multiprocessing``, which would run a script without a guard once more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import IO, Any

from ..errors import ActuonError, SimulationError
from ..warp_messages import quiet

_TOLD, _DONE, _FAILED = "told", "done", "failed"
Tell = Callable[[Any], None]
"""Hands something to the caller while a function runs; raises KeyboardInterrupt where it is to end early."""


class Worker:
    """Calls functions of modules in another process, one at a time. It is started by the first call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def call(self, function: Callable[..., Any], *args: Any, told: Callable[[Any], bool] | None = None) -> Any:
        """What ``function(*args, tell)`` gives there.

        Args:
            function: Of a module, not of a script.
            args: What can be pickled.
            told: Gets what the function tells; returns whether it is to go on.

        Raises:
            SimulationError: It failed there, in what it says; or the process ended.
        """
        with self._lock:
            if self._closed:
                raise SimulationError("the studio is closed")
            process = self._started()
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None
            assert stdout is not None
            try:
                _send(stdin, (function, args))
                while True:
                    kind, value = pickle.load(stdout)
                    if kind == _DONE:
                        return value
                    if kind == _FAILED:
                        raise SimulationError(value)
                    _send(stdin, told is None or told(value))
            except (OSError, EOFError, pickle.PickleError) as error:
                self._end()
                raise SimulationError(f"what computes in the background has ended: {error}") from error

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                start_new_session=True,  # an interrupt from the keyboard is for the studio
            )
        return self._process

    def close(self) -> None:
        """End the process, whatever it does."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()  # which ends a call that another thread waits for
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _send(stream: IO[bytes], message: Any) -> None:
    stream.write(pickle.dumps(message))
    stream.flush()


def serve(commands: IO[bytes], answers: IO[bytes]) -> None:
    """Call what comes, until nothing comes."""

    def tell(value: Any) -> None:
        _send(answers, (_TOLD, value))
        if not pickle.load(commands):
            raise KeyboardInterrupt

    while True:
        try:
            function, args = pickle.load(commands)
        except EOFError:
            return
        try:
            answer = _DONE, function(*args, tell)
        except ActuonError as error:
            answer = _FAILED, str(error)
        except Exception as error:
            traceback.print_exc()
            answer = _FAILED, f"{type(error).__name__}: {error}"
        _send(answers, answer)


def main() -> None:
    """Serve the process that started this one. What is printed goes to its errors."""
    quiet()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)
