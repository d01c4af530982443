# SPDX-License-Identifier: Apache-2.0
"""A separate Python process for long computations, so that the robot keeps real time.

In the same process, a fit would capture the robot's steps in its graphs. It is started as a command:
``multiprocessing`` would run a script without a ``__main__`` guard again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from ..errors import ActuonError, SimulationError
from ..warp_messages import quiet

_PROGRESS, _DONE, _FAILED = range(3)
"""Kinds of answers from the process."""
_CALL, _CONTINUE, _STOP = range(3)
"""Kinds of messages to the process."""
Tell = Callable[[Any], None]
"""Reports progress to the caller; raises KeyboardInterrupt if the function should return early."""
_log = logging.getLogger("actuon.studio")


@dataclass(frozen=True)
class _Call:
    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    done: Callable[[Any], None]
    failed: Callable[[str], None]
    progress: Callable[[Any], bool] | None


class Background:
    """One process that calls functions of modules, one at a time.

    A new call replaces a pending one with the same key. Whenever a running function reports progress, calls with other
    keys run: an envelope does not wait for the end of a fit. The first call starts the process.
    """

    def __init__(self) -> None:
        self._pending: dict[str, _Call] = {}
        self._running: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="actuon-studio-background", daemon=True)
        self._thread.start()

    def submit(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        progress: Callable[[Any], bool] | None = None,
    ) -> None:
        """Call ``function(*args, tell)``, instead of a pending call with this key.

        Args:
            key: Name of the computation.
            function: A function of a module, not of a script.
            args: Arguments, which are pickled.
            done: Called with the result, in the thread of this object.
            failed: Called with the message of an error.
            progress: Called with each value that the function reports; returns whether to continue.
        """
        with self._changed:
            self._pending[key] = _Call(key, function, args, done, failed, progress)
            self._changed.notify()

    def close(self) -> None:
        """End the process. Further calls have no effect."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        process = self._process
        if process is not None:
            process.kill()  # the thread may wait for its answer
        self._thread.join()
        self._end()

    def _next(self) -> _Call | None:
        with self._changed:
            key = next((key for key in self._pending if key not in self._running), None)
            return None if key is None else self._pending.pop(key)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._pending)
            if self._closed:
                return
            if (call := self._next()) is not None:
                self._make(call)

    def _make(self, call: _Call) -> None:
        self._running.append(call.key)
        try:
            call.done(self._answer(call))
        except ActuonError as error:
            if not self._closed:
                call.failed(str(error))
        except Exception as error:
            _log.exception("the result of a computation could not be used")
            call.failed(f"{type(error).__name__}: {error}")
        finally:
            self._running.remove(call.key)

    def _answer(self, call: _Call) -> Any:
        try:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            _send(process.stdin, (_CALL, (call.function, call.args)))
            while True:
                kind, value = pickle.load(process.stdout)
                if kind == _DONE:
                    return value
                if kind == _FAILED:
                    raise SimulationError(value)
                continues = call.progress is None or call.progress(value)
                while (other := self._next()) is not None:
                    self._make(other)
                    if self._process is not process:
                        raise EOFError
                _send(process.stdin, (_CONTINUE if continues else _STOP, None))
        except (OSError, EOFError, pickle.PickleError) as error:
            self._end()
            raise SimulationError(f"the background process has ended: {error}") from error

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                start_new_session=True,  # Ctrl+C must reach the studio only
            )
            if self._closed:
                self._process.kill()
        return self._process

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


def serve(messages: IO[bytes], answers: IO[bytes]) -> None:
    """Make the calls that arrive, until the stream ends."""

    def make(call: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
        function, args = call
        try:
            answer = _DONE, function(*args, tell)
        except ActuonError as error:
            answer = _FAILED, str(error)
        except Exception as error:
            traceback.print_exc()
            answer = _FAILED, f"{type(error).__name__}: {error}"
        _send(answers, answer)

    def tell(value: Any) -> None:
        _send(answers, (_PROGRESS, value))
        while True:
            kind, call = pickle.load(messages)
            if kind == _CONTINUE:
                return
            if kind == _STOP:
                raise KeyboardInterrupt
            make(call)

    with contextlib.suppress(EOFError):
        while True:
            make(pickle.load(messages)[1])


def main() -> None:
    """Serve the parent process. Prints go to its standard error."""
    quiet()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)
