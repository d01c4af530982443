# SPDX-License-Identifier: Apache-2.0
"""Controls that save values, recordings, reports and images."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...attach.recorder import FORMATS as RECORDS
from ...charts import GREEN, RED
from ...errors import ActuonError, SimulationError
from ...robot_files.formats import USD_WRITTEN, YAML_FORMATS
from ..folder import Folder
from ..saving import as_png, save_usd, save_yaml, usd_of
from ..session import Session

_SIZE = 900, 1440
"""Height and width of an image of the robot [px]."""
_PICTURE = (".png",)
_REPORT = (".html",)


class SavePanel:
    """Controls in the container that is current in a viser GUI.

    Args:
        gui: The GUI of a viser server.
        session: Session of the robot.
        folder: Folder that files are written to.
        report: Writes a report, with or without an image.
    """

    def __init__(self, gui: Any, session: Session, folder: Folder, report: Callable[[Path, bytes | None], None]):
        self._session, self._folder, self._report = session, folder, report
        stem = Path(session.source.title).stem
        gui.add_markdown(f"Files are saved in `{folder.root}`.")
        self._replace = gui.add_checkbox("Replace files", False, hint="Otherwise existing files are kept.")
        self._row(gui, "Values", f"{stem}.studio.actuon.yaml", "Save as YAML", self._save_yaml)
        if usd_of(session.source) is not None:
            self._row(gui, "Robot", f"{stem}.studio.usda", "Save into USD", self._save_usd)
        self._row(gui, "Report", f"{stem}.studio.html", "Save report", self._save_report)
        self._row(gui, "Image", f"{stem}.studio.png", "Save image", self._save_picture)
        self._record_name = gui.add_text(
            "Recording", f"{stem}.studio.csv", hint=f"All steps, as {' or '.join(RECORDS)}."
        )
        self._recorded_as: str = self._record_name.value
        """Name in the field when the recording began."""
        self._record = gui.add_button("Record")
        self._record.on_click(lambda event: self._report_outcome(self._start_or_stop))
        self._outcome = gui.add_html("")

    def _row(self, gui: Any, label: str, name: str, button: str, action: Callable[[str, Any], str]) -> None:
        field = gui.add_text(label, name)
        gui.add_button(button).on_click(lambda event: self._report_outcome(lambda: action(field.value, event.client)))

    def _report_outcome(self, action: Callable[[], str]) -> None:
        """Run an action and show its outcome until the next one."""
        try:
            text, colour = action(), GREEN
        except (ActuonError, OSError) as error:
            text, colour = f"not saved: {error}", RED
        self._outcome.content = (
            f'<div data-actuon="outcome" style="margin:0.5em 0.8em;font-size:0.85em;color:{colour};'
            f'overflow-wrap:anywhere">{time.strftime("%H:%M:%S")} {html.escape(text)}</div>'
        )

    def _save_yaml(self, name: str, client: Any) -> str:
        path = self._folder.to_write(name, YAML_FORMATS, self._replace.value)
        save_yaml(path, dict(self._session.real.configs))
        return f"saved {path}"

    def _save_usd(self, name: str, client: Any) -> str:
        path = self._folder.to_write(name, USD_WRITTEN, self._replace.value)
        save_usd(path, self._session.source, dict(self._session.real.configs))
        return f"saved {path}"

    def _save_report(self, name: str, client: Any) -> str:
        path = self._folder.to_write(name, _REPORT, self._replace.value)
        self._report(path, _rendered(client))
        return f"saved {path}"

    def _save_picture(self, name: str, client: Any) -> str:
        path = self._folder.to_write(name, _PICTURE, self._replace.value)
        picture = _rendered(client)
        if picture is None:
            raise SimulationError("no page is open to take an image of")
        path.write_bytes(picture)
        return f"saved {path}"

    def _start_or_stop(self) -> str:
        session, name = self._session, self._record_name.value
        if session.is_recording and name == self._recorded_as:
            return f"saved {session.do(session.stop_recording)}"
        path = self._folder.to_write(name, RECORDS, self._replace.value)
        if session.is_recording:
            return f"saved {session.do(session.stop_recording, path)}"
        session.do(session.record, path)
        self._recorded_as = name
        return f"recording to {path}"

    def refresh(self) -> None:
        """Show whether steps are recorded."""
        self._record.label = "Stop and save the recording" if self._session.is_recording else "Record"


def _rendered(client: Any) -> bytes | None:
    if client is None:
        return None
    height, width = _SIZE
    return as_png(client.get_render(height=height, width=width))
