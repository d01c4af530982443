# SPDX-License-Identifier: Apache-2.0
"""Controls for a log: load it, compare it with the simulation, fit values to it."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from ...charts import RED, Chart
from ...errors import ActuonError
from ...fit.units import error_text, shown_unit
from ...logs.formats import ENDINGS
from ..background import Background
from ..folder import Folder
from ..plots import log_charts
from ..replay import LogWork, Replayed, command_of, fittable
from ..session import Session
from .motion import MotionPanel

_NONE = "choose a log"


class LogPanel:
    """Controls in the container that is current in a viser GUI.

    Args:
        gui: The GUI of a viser server.
        session: Session of the robot.
        folder: Folder of the logs.
        background: Process that replays and fits.
        motion: Panel that plays the commands of a log.
        joint: Returns the name of the selected joint.
    """

    def __init__(
        self,
        gui: Any,
        session: Session,
        folder: Folder,
        background: Background,
        motion: MotionPanel,
        joint: Callable[[], str],
    ):
        self._gui, self._session, self._folder, self._motion, self._joint = gui, session, folder, motion, joint
        self.work = LogWork(session, background)
        self._file = gui.add_dropdown("Log", (_NONE, *folder.files(ENDINGS)), hint=f"In {folder.root}.")
        self._file.on_update(lambda event: self._load() if event.client is not None else None)
        gui.add_button("Refresh the list").on_click(lambda _: self._look_again())
        self._result = gui.add_html("")
        self._play = gui.add_button("Play its commands", visible=False)
        self._play.on_click(lambda _: self._play_commands())
        self._fit_folder = gui.add_folder("Fit", visible=False)
        self._charted: list[Replayed] = []
        self.charts: dict[str, Chart] = {}
        """Charts of the log by name."""
        self._boxes: dict[str, Any] = {}
        self._boxes_of: tuple[str, tuple[str, ...]] | None = None
        with self._fit_folder:
            self._bar = gui.add_progress_bar(0.0, visible=False)
            self._button = gui.add_button(
                "Fit these values", hint="Runs in the background, starting from the present values."
            )
            self._button.on_click(lambda _: self._fit_or_stop())

    def _look_again(self) -> None:
        self._file.options = (_NONE, *self._folder.files(ENDINGS))

    def _load(self) -> None:
        if self._file.value != _NONE:
            try:
                self.work.load(self._folder.to_read(self._file.value, ENDINGS))
            except ActuonError as error:
                self.work.error = str(error)

    def _play_commands(self) -> None:
        try:
            if self.work.log is not None:
                self._motion.play(command_of(self.work.log))
        except ActuonError as error:
            self.work.error = str(error)

    def _fit_or_stop(self) -> None:
        if self.work.progress is None:
            self.work.fit([path for path, box in self._boxes.items() if box.value])
        else:
            self.work.stop_fit()

    def refresh(self) -> None:
        """Update controls, errors and charts."""
        work = self.work
        work.refresh()
        is_there, is_fitting = work.log is not None, work.progress is not None
        self._play.visible = self._fit_folder.visible = is_there
        self._bar.visible = is_fitting
        if work.progress is not None:
            self._bar.value = 100.0 * work.progress
        self._button.label = "Stop the fit" if is_fitting else "Fit these values"
        if is_there:
            self._offer_values()
        self._result.content = self._text()
        shown = self._shown()
        if shown != self._charted:
            self._charted = shown
            charts = (log_charts(joint, self._units(joint)) for joint in shown)
            self.charts = {name: chart for own in charts for name, chart in own.items()}

    def _offer_values(self) -> None:
        assert self.work.log is not None
        joints = self.work.log.joint_names
        joint = self._joint() if self._joint() in joints else joints[0]
        paths = fittable(self._session.real.configs[joint])
        if self._boxes_of == (joint, tuple(paths)):
            return
        for box in self._boxes.values():
            box.remove()
        with self._fit_folder:
            self._boxes = {path: self._gui.add_checkbox(path, usual) for path, usual in paths.items()}
        self._boxes_of = joint, tuple(paths)

    def _shown(self) -> list[Replayed]:
        """Return the selected joint, or all if the log does not have it."""
        chosen = [joint for joint in self.work.replayed if joint.joint == self._joint()]
        return chosen or self.work.replayed

    def _units(self, joint: Replayed) -> tuple[str, str]:
        unit = self.work.unit_of(joint.joint)
        return unit, shown_unit(unit)

    def _text(self) -> str:
        work = self.work
        lines = [f"<div>{html.escape(work.status)}</div>"] if work.status else []
        rows = "".join(
            f'<tr><td style="padding-right:1em">{html.escape(joint.joint)}</td>'
            f'<td data-actuon="error">{error_text(joint.error, work.unit_of(joint.joint))} mean error</td>'
            f'<td data-actuon="verdict">{_level(joint)}</td></tr>'
            for joint in work.replayed
        )
        lines += [f"<table>{rows}</table>"] if rows else []
        lines += [f'<div style="color:{RED}">{html.escape(work.error)}</div>'] if work.error else []
        return f'<div style="margin:0.3em 0.8em;font-size:0.85em">{"".join(lines)}</div>'


def _level(joint: Replayed) -> str:
    """Return the level of the verdict on a joint, with the sentence as its tooltip."""
    if joint.verdict is None:
        return ""
    return f'<span title="{html.escape(joint.verdict.sentence())}">{joint.verdict.level}</span>'
