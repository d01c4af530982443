# SPDX-License-Identifier: Apache-2.0
"""What can be kept of a session: values, records, reports, pictures."""

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
"""Height and width of a picture of the robot."""
_PICTURE = (".png",)
_REPORT = (".html",)


class SavePanel:
    """Controls in the container that is current in a viser GUI.

    Args:
        gui: The GUI of a viser server.
        session: Whose robot.
        folder: Where files are written to.
        report: Writes a report, with a picture or without.
    """

    def __init__(self, gui: Any, session: Session, folder: Folder, report: Callable[[Path, bytes | None], None]):
        self._session, self._folder, self._report = session, folder, report
        stem = Path(session.source.title).stem
        gui.add_markdown(f"Files go to `{folder.root}`.")
        self._replace = gui.add_checkbox("Replace files", False, hint="Otherwise files that are there are kept.")
        self._row(gui, "Values", f"{stem}.studio.actuon.yaml", "Save as YAML", self._save_yaml)
        if usd_of(session.source) is not None:
            self._row(gui, "Robot", f"{stem}.studio.usda", "Save into USD", self._save_usd)
        self._row(gui, "Report", f"{stem}.studio.html", "Save report", self._save_report)
        self._row(gui, "Picture", f"{stem}.studio.png", "Save picture", self._save_picture)
        self._record_name = gui.add_text("Record", f"{stem}.studio.csv", hint=f"Every step, as {' or '.join(RECORDS)}.")
        self._record = gui.add_button("Record")
        self._record.on_click(lambda event: self._report_outcome(self._start_or_stop))
        self._outcome = gui.add_html("")

    def _row(self, gui: Any, label: str, name: str, button: str, action: Callable[[str, Any], str]) -> None:
        field = gui.add_text(label, name)
        gui.add_button(button).on_click(lambda event: self._report_outcome(lambda: action(field.value, event.client)))

    def _report_outcome(self, action: Callable[[], str]) -> None:
        """Do it, and say how that went, until the next one."""
        try:
            text, colour = action(), GREEN
        except ActuonError as error:
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
            raise SimulationError("no page is open whose picture could be taken")
        path.write_bytes(picture)
        return f"saved {path}"

    def _start_or_stop(self) -> str:
        session = self._session
        if session.is_recording:
            return f"saved {session.do(session.stop_recording)}"
        path = self._folder.to_write(self._record_name.value, RECORDS, self._replace.value)
        session.do(session.record, path)
        return f"recording into {path}, until you stop it"

    def refresh(self) -> None:
        """Show whether it records."""
        label = "Stop, and save the record" if self._session.is_recording else "Record"
        if self._record.label != label:
            self._record.label = label


def _rendered(client: Any) -> bytes | None:
    if client is None:
        return None
    height, width = _SIZE
    return as_png(client.get_render(height=height, width=width))
