# SPDX-License-Identifier: Apache-2.0
"""`Studio`: a session with a page in the browser."""

from __future__ import annotations

import html
import logging
import threading
import time
from pathlib import Path
from typing import Any, Self

from ..typing import PathLike
from .analyses import Analyses
from .background import Background
from .folder import Folder
from .panels.drive import DrivePanel
from .panels.log import LogPanel
from .panels.motor import MotorPanel
from .panels.save import SavePanel
from .plots import SECONDS, draw_joint
from .saving import save_report
from .scene import Scene
from .server import LOCALHOST, make_server, quietly
from .session import Session
from .source import find_source

PORT = 8017
_PICTURES = 25.0
"""How often the robot is drawn [Hz]."""
_PLOTS_EVERY = 3
"""At every which picture plots are drawn."""
_BEHIND = 0.95
"""Share of real time below which the page says that it cannot keep up."""
_NO_LOG = '<div style="margin:1em;color:#8a94a3">No log is loaded: choose one under Log, at the right.</div>'
_log = logging.getLogger("actuon.studio")


class Studio:
    """A robot, or a motor, that moves in a page of the browser.

    Args:
        robot: A robot's file with actuators in or beside it, or the name of a motor.
        host: Address to listen at. Default: this computer only.
        port: Where to listen; the next free one where it is taken.
        folder: The only folder that the page can read from and write to. Default: the working folder.
        record: Record every step into this ``.npz`` or ``.csv`` file, until the end.
        allow_torch: Trust ``.pt`` and ``.pt2`` networks that the robot's file names.
    """

    def __init__(
        self,
        robot: PathLike,
        *,
        host: str = LOCALHOST,
        port: int = PORT,
        folder: PathLike = ".",
        record: PathLike | None = None,
        allow_torch: bool = False,
    ):
        self.folder = Folder(folder)
        self.session = Session(find_source(robot, allow_torch))
        self._background = Background()
        self._analyses = Analyses(self.session.source, self._background)
        try:
            if record is not None:
                self.session.record(record)
            self.server: Any = make_server(host, port)
        except BaseException:
            self._background.close()
            self.session.close()
            raise
        self._lay_out()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="actuon-studio-page", daemon=True)
        self.session.start()
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self.server.get_host()
        return f"http://{'localhost' if host in (LOCALHOST, '0.0.0.0', '::') else host}:{self.server.get_port()}"

    def _lay_out(self) -> None:
        gui, session = self.server.gui, self.session
        gui.configure_theme(brand_color=(47, 111, 208), show_logo=False, show_share_button=False)
        gui.set_panel_label(f"Actuon · {session.source.title}")
        self._scene = Scene(self.server, session.real)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(340)
        self._status = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Motor"):
            self._motor = MotorPanel(gui, session, lambda: self._drive.follow_joint())
        with tabs.add_tab("Drive"):
            self._drive = DrivePanel(gui, session, self._joint)
        with tabs.add_tab("Log"):
            self._log = LogPanel(gui, session, self.folder, self._background, self._drive, self._joint)
        with tabs.add_tab("Save"):
            self._save = SavePanel(gui, session, self.folder, self._save_report)
        plots = gui.add_panel()
        with plots.add_tab("Plots"):
            self._plots = gui.add_html("")
        with plots.add_tab("Log"):
            self._log_plots = gui.add_html("")
        plots.dock_left()
        plots.set_width(440)

    def _joint(self) -> str:
        return str(self._motor.joint.value)

    def _run(self) -> None:
        count = 0
        while not self._ends.wait(1.0 / _PICTURES):
            count += 1
            try:
                if self.server.get_clients():
                    robots, poses = self.session.robots, self.session.poses
                    if len(robots) == len(poses):
                        self._scene.show(robots, poses)
                    if count % _PLOTS_EVERY == 0:
                        self.refresh()
            except Exception:
                _log.exception("the page could not be brought up to date")
                time.sleep(1.0)

    def refresh(self) -> None:
        """Bring plots, values and status up to date."""
        session, joint = self.session, self._joint()
        self._analyses.update(joint, session.real.configs, session.real.mode, session.values_version)
        self._plots.content = "".join(self._pictures(joint).values())
        self._log_plots.content = self._log.refresh() or _NO_LOG
        self._motor.refresh()
        self._drive.refresh()
        self._save.refresh()
        self._status.content = self._status_text(joint)

    def _pictures(self, joint: str) -> dict[str, str]:
        session, dt = self.session, self.session.real.dt
        column = session.dof_names.index(joint)
        window = session.history.window(column, SECONDS, dt)
        ideal = session.ideal_history.window(column, SECONDS, dt) if session.ideal is not None else None
        units = ("m", "N") if session.real.slides[column] else ("rad", "N·m")
        return draw_joint(window, ideal, self._analyses.envelope(joint), dt, units) if len(window.time) > 1 else {}

    def _save_report(self, path: Path, picture: bytes | None) -> None:
        joint = self._joint()
        title = f"{self.session.source.title}: {joint}"
        pictures = self._pictures(joint) | {"log": self._log.refresh()}
        save_report(path, title, picture, self._status_text(joint), pictures, self.session.real.configs)

    def _status_text(self, joint: str) -> str:
        column = self.session.dof_names.index(joint)
        session, pace, analyses = self.session, self.session.pace, self._analyses
        behind = pace.real_time < _BEHIND and not session.is_paused and not session.problem
        kept = f"{pace.real_time:.2f} × real time, load {100.0 * pace.load:.0f} %"
        state = "paused" if session.is_paused else "stopped" if session.problem else kept
        rows = [("time", f"{session.time:.1f} s"), ("pace", state)]
        share = analyses.shares.get(joint)
        if share is not None:
            stale = " …" if analyses.shares_version != session.values_version else ""
            rows.append(
                ("stability limit", f"{100.0 * share:.0f} % used{' (unstable)' if share >= 1.0 else ''}{stale}")
            )
        rows.append(("energy given", f"{session.work[column]:.3g} J of {session.work.sum():.3g} J"))
        drawn = session.electrical[column]
        if drawn == drawn:
            rows.append(("energy drawn", f"{drawn:.3g} J, less what came back"))
        cells = "".join(
            f'<tr><td style="color:#8a94a3;padding-right:1em">{name}</td><td>{html.escape(text)}</td></tr>'
            for name, text in rows
        )
        said = [text for text in (session.problem, session.message) if text]
        if behind:
            said.append("this computer cannot keep real time: what you see is slower than the robot would be")
        warnings = "".join(
            f'<div style="color:#d6453d;font-size:0.85em;margin-top:0.3em">{html.escape(text)}</div>' for text in said
        )
        return f'<div style="margin:0.4em 0.8em"><table style="font-size:0.85em">{cells}</table>{warnings}</div>'

    def wait(self) -> None:
        """Stay until the program is interrupted."""
        while not self._ends.wait(1.0):
            pass

    def close(self) -> None:
        """End it, and save what was recorded. May be called again."""
        if self._ends.is_set():
            return
        self._ends.set()
        self._thread.join()
        with quietly():
            self.server.stop()
        self._background.close()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="640" style="border:1px solid #ccc"></iframe>'

    def __repr__(self) -> str:
        return f"<Studio of {self.session.source.title} at {self.url}>"
