# SPDX-License-Identifier: Apache-2.0
"""`Studio`: a session with a page in the browser."""

from __future__ import annotations

import html
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ..charts import GREY, RED, Chart
from ..errors import require
from ..robot_source import find_source
from ..stability.advice import percent
from ..typing import PathLike
from .analyses import Analyses
from .background import Background
from .folder import Folder
from .history import Window
from .numbers import written
from .panels.log import LogPanel
from .panels.motion import MotionPanel
from .panels.motor import MotorPanel
from .panels.save import SavePanel
from .plots import SECONDS, Plots, joint_charts
from .saving import save_report
from .scene import Scene
from .server import LOCALHOST, make_server, quietly
from .session import Session

PORT = 8017
_EVERYWHERE = "0.0.0.0", "::"
"""Addresses that stand for all of this computer's."""
_PICTURES = 25.0
"""Frame rate of the robot [Hz]."""
_PLOTS_EVERY = 3
"""Frames of the robot per update of the plots."""
_BEHIND = 0.95
"""Ratio to real time below which the page shows a warning."""
_FELL = 2.0
"""Fall of the trunk above which the page shows a warning [m]."""
_PLOTS_WIDTH, _CONTROLS_WIDTH = 350, 300
"""Widths of the panels [px]: a window of 1024 leaves 370 to the robot."""
_NO_LOG = '<div style="margin:1em;color:#8a94a3">No log is loaded. Choose one in the tab Log on the right.</div>'
_STYLE = (
    "<style>.mantine-Notifications-root{top:auto!important;bottom:8px!important;max-width:340px}"
    ".mantine-NumberInput-root{width:4.2rem!important}"
    ".uplot .u-legend{font-size:11px;text-align:left;margin:-6px 0 0 50px}.uplot .u-legend tr:first-child{display:none}"
    ".uplot .u-legend th{padding:0;font-weight:normal}.uplot .u-legend td{padding:0 6px 0 2px}</style>"
)
"""Notices below the readouts, room for the digits of values, compact legends."""
_TICKS = (
    "setInterval(()=>Object.values(window.__viserTestpoints?.uplots??{})"
    ".forEach(({chart})=>chart.axes[0]._found?.[0]===0&&chart.redraw(false,true)),500)"
)
"""Lays out axes again that uPlot laid out before the chart had a width; they have no ticks."""
_log = logging.getLogger("actuon.studio")


class Studio:
    """A robot or a motor that moves in a page of the browser, in real time.

    Args:
        robot: Robot file with actuators in it or next to it, or the name of a motor.
        host: Address to serve at. Default: this computer only.
        port: Port to serve at; if it is in use, the next free one.
        hosts: Further names by which browsers may address this computer. Loopback is allowed, and in a network its
            IP addresses and own name.
        folder: Folder that the page may read from and write to. Default: the working folder.
        record: Record all steps into this ``.npz`` or ``.csv`` file.
        allow_torch: Trust ``.pt`` and ``.pt2`` networks that the robot's file names.
        actuators: YAML with the robot's motors, instead of those in or next to its file. With several, a robot for each
            moves next to the first; values and files are those of the first.

    Examples:
        >>> with actuon.studio.Studio("ak80-9", port=0) as studio:
        ...     print(studio.url.startswith("http://localhost:"))
        ...     studio.session.do(studio.session.set_number, ["motor"], 0, "kp", 60.0)
        True
    """

    def __init__(
        self,
        robot: PathLike,
        *,
        host: str = LOCALHOST,
        port: int = PORT,
        hosts: Iterable[str] = (),
        folder: PathLike = ".",
        record: PathLike | None = None,
        allow_torch: bool = False,
        actuators: PathLike | Iterable[PathLike] = (),
    ):
        for module in ("viser", "trimesh"):  # before the robot is loaded, which may take long
            require(module, "studio", "the page in the browser")
        self.folder = Folder(folder)
        files = [actuators] if isinstance(actuators, (str, os.PathLike)) else list(actuators)
        source, *compared = [find_source(robot, allow_torch, file) for file in files or (None,)]
        self.session = Session(source, compared)
        self._background = Background()
        self._analyses = Analyses(self.session.source, self._background)
        try:
            if record is not None:
                self.session.record(record)
            self.server, self._page = make_server(host, port, hosts)
            try:
                self._lay_out()
            except BaseException:
                with quietly():
                    self.server.stop()
                raise
        except BaseException:
            self._background.close()
            self.session.close()
            raise
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="actuon-studio-page", daemon=True)
        self.session.start()
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the page. Whoever knows it may use the page: it contains a token, new for each studio."""
        host = self.server.get_host()
        return self._url_at("localhost" if host in (LOCALHOST, *_EVERYWHERE) else host)

    @property
    def network_url(self) -> str:
        """Address of the page for other computers, by the name of this one; empty if it serves at one address."""
        return self._url_at(socket.gethostname()) if self.server.get_host() in _EVERYWHERE else ""

    def _url_at(self, host: str) -> str:
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server.get_port()}/{self._page}"

    def _lay_out(self) -> None:
        gui, session = self.server.gui, self.session
        gui.configure_theme(brand_color=(47, 111, 208), show_logo=False, show_share_button=False)
        gui.set_panel_label(f"Actuon · {session.title}")
        title = html.escape(json.dumps(f"{session.title} · Actuon"))
        self._scene = Scene(self.server, session.real)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_CONTROLS_WIDTH)
        # viser runs no scripts of ours, but the error handler of an empty image
        gui.add_html(f'{_STYLE}<img hidden src="data:," onerror="document.title={title};{_TICKS}">')
        self._status = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Motor"):
            self._motor = MotorPanel(gui, session, lambda: self._motion.follow_joint())
        with tabs.add_tab("Motion"):
            self._motion = MotionPanel(gui, session, self._joint)
        with tabs.add_tab("Log"):
            self._log = LogPanel(gui, session, self.folder, self._background, self._motion, self._joint)
        with tabs.add_tab("Save"):
            self._save = SavePanel(gui, session, self.folder, self._save_report)
        panel = gui.add_panel()
        self._plots = Plots(self.server, panel.add_tab("Plots"))
        log_tab = panel.add_tab("Log")
        with log_tab:
            self._no_log = gui.add_html(_NO_LOG)
        self._log_plots = Plots(self.server, log_tab)
        panel.dock_left()
        panel.set_width(_PLOTS_WIDTH)

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
                _log.exception("the page could not be updated")
                time.sleep(1.0)

    def refresh(self) -> None:
        """Update plots, values and status."""
        session, joint = self.session, self._joint()
        self._analyses.update(joint, session.real.configs, session.real.mode, session.values_version)
        self._plots.show(self._charts(joint))
        self._log.refresh()
        self._log_plots.show(self._log.charts)
        self._no_log.visible = not self._log.charts
        self._motor.refresh()
        self._motion.refresh()
        self._save.refresh()
        self._status.content = _as_html(*self._status_rows(joint))

    def _window(self, joint: str) -> Window:
        session = self.session
        return session.history.window(session.dof_names.index(joint), SECONDS, session.real.dt)

    def _charts(self, joint: str) -> dict[str, Chart]:
        session, dt, window = self.session, self.session.real.dt, self._window(joint)
        column = session.dof_names.index(joint)
        others = [(each.name, each.colour, each.history.window(column, SECONDS, dt)) for each in session.robots[1:]]
        units = ("m", "N") if session.real.slides[column] else ("rad", "N·m")
        return joint_charts(window, others, self._analyses.envelope(joint), dt, units) if len(window.time) > 1 else {}

    def _save_report(self, path: Path, picture: bytes | None) -> None:
        joint = self._joint()
        rows, _ = self._status_rows(joint)
        charts = self._charts(joint) | self._log.charts
        save_report(path, f"{self.session.title}: {joint}", picture, rows, charts, self.session.real.configs)

    def _status_rows(self, joint: str) -> tuple[dict[str, str], list[str]]:
        """Return readouts by name, and warnings."""
        session, pace, analyses = self.session, self.session.pace, self._analyses
        column = session.dof_names.index(joint)
        slow = ", slow motion" if pace.real_time < _BEHIND else ""
        kept = f"{pace.real_time:.2f} × real time{slow}, CPU {100.0 * pace.cpu:.0f} %"
        state = "paused" if session.is_paused else "stopped" if session.problem else kept
        if state == kept and not len(session.history):
            state = "kernels are compiled before the first step"
        rows = {"time": f"{session.time:.1f} s", "pace": state}
        if len(session.robots) > 1:
            rows["robots"] = ", ".join(robot.name for robot in session.robots)
        usage = analyses.usages.get(joint)
        if usage is not None:
            stale = " …" if analyses.usages_version != session.values_version else ""
            rows["stability usage"] = f"{percent(usage)}{' (unstable)' if usage >= 1.0 else ''}{stale}"
        shares = self._window(joint).clipped_shares()
        clipped = [f"{100.0 * each:.0f} % by {name.removeprefix('Clamping')}" for name, each in shares.items()]
        rows["clipped"] = ", ".join(clipped) or f"not in the last {SECONDS:g} s"
        rows["work of the joint"] = f"{written(session.work[column])} of {written(session.work.sum())} J"
        drawn = session.electrical[column]
        if drawn == drawn:
            rows["electrical energy"] = f"{written(drawn)} J net"
        warnings = [text for text in (session.problem, session.message, analyses.error) if text]
        if self._scene.fallen > _FELL:
            warnings.append(f"the robot fell by more than {_FELL:g} m: open a scene that includes it and a floor")
        return rows, warnings

    def wait(self) -> None:
        """Block until the program is interrupted."""
        while not self._ends.wait(1.0):
            pass

    def close(self) -> None:
        """Close the page and save the recording. Further calls have no effect.

        Examples:
            >>> studio = actuon.studio.open("ak80-9", port=0, record="run.npz")
            >>> studio.close()
        """
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
        return f"<Studio of {self.session.title} at {self.url}>"


def _as_html(rows: Mapping[str, str], warnings: Sequence[str]) -> str:
    left = f'<td style="color:{GREY};padding-right:1em;white-space:nowrap">'
    cells = "".join(f"<tr>{left}{name}</td><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    notes = "".join(f'<div style="color:{RED};margin-top:0.3em">{html.escape(text)}</div>' for text in warnings)
    return f'<div style="margin:0.4em 0.8em;font-size:0.8em;line-height:1.35"><table>{cells}</table>{notes}</div>'
