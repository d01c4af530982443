# SPDX-License-Identifier: Apache-2.0
"""Replays and fits a log in the background, while the robot moves on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from ..actuator.config import ActuatorConfig
from ..errors import ActuonError
from ..logs import Log
from .replay import GENERATIONS, Fitted, Replayed, fit_log, load_log, replay_log
from .session import Session
from .source import Source
from .worker import Worker

_log = logging.getLogger("actuon.studio")


class LogWork:
    """At most one log, and what is known of it. Anything may be asked from any thread.

    Args:
        session: Whose robot, and whose values.
    """

    def __init__(self, session: Session):
        self._session = session
        self._changed = threading.Condition()
        self._wanted: list[Callable[[], None]] = []
        self._ends = self._stop_fit = False
        self.log: Log | None = None
        """What is loaded."""
        self._path = Path()
        self._worker = Worker()
        self.found: list[Replayed] = []
        """Its joints with the values of `version`."""
        self.version = -1
        self.progress: float | None = None
        """Share of a fit that is done; None where none is going on."""
        self.said = ""
        """How the last fit went, or is going."""
        self.problem = ""
        """What went wrong last."""
        self._asked_version = -1
        self._thread = threading.Thread(target=self._run, name="actuon-studio-log", daemon=True)
        self._thread.start()

    def load(self, path: Path) -> None:
        """Read a log, and replay it."""
        self._ask(lambda: self._load(path))

    def refresh(self) -> None:
        """Replay the log anew where values have changed."""
        version = self._session.values_version
        if self.log is not None and self.progress is None and self._asked_version != version:
            self._asked_version = version
            configs = dict(self._session.real.configs)
            self._ask(lambda: self._replay(configs, version))

    def fit(self, paths: list[str]) -> None:
        """Look for the values at some paths, and give them to the robot."""
        self.progress, self._stop_fit, self.said = 0.0, False, "starting"
        self._ask(lambda: self._fit(dict(self._session.real.configs), paths))

    def stop_fit(self) -> None:
        """End a fit with the best so far."""
        self._stop_fit = True

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._ends = self._stop_fit = True
            self._wanted.clear()
            self._changed.notify()
        self._worker.close()
        self._thread.join()

    def _ask(self, job: Callable[[], None]) -> None:
        with self._changed:
            self._wanted.append(job)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ends or self._wanted)
                if self._ends:
                    return
                job = self._wanted.pop(0)
            try:
                self.problem = ""
                job()
            except ActuonError as error:
                self.problem = "" if self._ends else str(error)
            except Exception as error:
                _log.exception("a log could not be worked on")
                self.problem = f"{type(error).__name__}: {error}"
            finally:
                self.progress = None if not self._wanted else self.progress

    def _load(self, path: Path) -> None:
        self.log = self._worker.call(load_log, *self._about(path))
        self._path, self.found, self._asked_version = path, [], -1
        self.said = f"{path.name}: {self.log.duration:.1f} s of {', '.join(self.log.joint_names)}"

    def _about(self, path: Path) -> tuple[Source, tuple[str, ...], Path]:
        return self._session.source, tuple(self._session.joints), path

    def _replay(self, configs: dict[str, ActuatorConfig], version: int) -> None:
        self.found = self._worker.call(replay_log, *self._about(self._path), configs)
        self.version = version

    def _fit(self, configs: dict[str, ActuatorConfig], paths: list[str]) -> None:
        def told(news: tuple[int, float, float]) -> bool:
            generation, error, before = news
            self.progress = min(0.99, generation / GENERATIONS)
            self.said = f"fit: {1e3 * error:.2f} mrad after {generation} generations, {1e3 * before:.2f} before"
            return not self._stop_fit

        fitted: Fitted = self._worker.call(fit_log, *self._about(self._path), configs, paths, told=told)
        if fitted.after > fitted.before:
            self.said = f"fit: nothing better than {1e3 * fitted.before:.2f} mrad was found; the values stay"
            return
        self._session.do(self._session.set_configs, fitted.configs)
        ended = " (stopped early)" if fitted.interrupted else ""
        cautions = "".join(f"; {text}" for text in fitted.warnings)
        self.said = f"fit: {1e3 * fitted.after:.2f} mrad, {1e3 * fitted.before:.2f} before{ended}{cautions}"
