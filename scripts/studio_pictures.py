# SPDX-License-Identifier: Apache-2.0
"""Pictures of the studio's page in Chromium: ``python -m scripts.studio_pictures``.

``studio.webp`` is a loop of ten seconds, ``studio.png`` its first frame, and ``studio_log.png`` a replayed log. Robots
are paused, and step by one frame after each screenshot: without a graphics card, the browser draws about one frame per
second.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actuon import assets, quiet
from actuon.robot_source import find_source
from actuon.studio import Session, Studio
from actuon.studio.motion import CHIRP, CHIRP_SECONDS, Motion
from actuon.studio.scene import poses_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
"""Arguments with which Chromium draws without a graphics card."""
_PATIENCE = 120_000
"""Longest wait for the page [ms]."""
_LOOP_SIZE, _LOG_SIZE = (1024, 768), (1280, 720)
"""Width and height [px]."""
_RATE = 10
"""Frames per second of the loop."""
_SECONDS, _BEFORE = 10, 6
"""Duration of the loop, and of the motion before it, after which the motion is periodic [s]."""
_LIMIT, _LOWERED = "max_motor_effort", 10.0
"""Parameter that the loop changes, and its value [N·m]."""
_REST = 560.0, 690.0
"""Place of the pointer at the start and the end of the loop."""
_EYE, _LOOK_AT = (1.35, -1.35, 0.75), (0.0, 0.3, 0.16)
"""Camera that sees both robots [m]."""
_MOTOR, _RECORDED = "ak80-9", {"kp": 30.0, "kd": 1.5}
"""Motor of the log, and the gains with which it is recorded."""
_QUALITY = {"quality": 50, "method": 6, "minimize_size": True}
_POINTER = """() => {
    const tip = document.createElement("div")
    tip.innerHTML = '<svg width="22" height="24"><path d="M1 1v18l5-5 3 8 3-1-3-8h7z" fill="#000" stroke="#fff"/></svg>'
    tip.style.cssText = "position:fixed;z-index:9999;pointer-events:none"
    document.body.append(tip)
    addEventListener("pointermove", event => {
        tip.style.left = event.clientX + "px"
        tip.style.top = event.clientY + "px"
    }, true)
}"""
"""Draws the pointer, which screenshots leave out."""


def browser_path() -> str | None:
    """Return the path of Chromium or Chrome; None if none is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def _page(studio: Studio, width: int, height: int) -> Iterator[Any]:
    """Open the page, without the notice that there is no graphics card."""
    from playwright.sync_api import sync_playwright

    path = browser_path()
    if path is None:
        sys.exit(f"no browser is installed: none of {', '.join(BROWSERS)} is on the path")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=OPTIONS)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(_PATIENCE)
        page.goto(studio.url)
        page.get_by_text("Stages").wait_for()
        page.add_style_tag(content=".mantine-Notifications-root{display:none}")
        yield page
        browser.close()


def _pause(studio: Studio) -> None:
    """Pause, but keep showing the pace that the robots had in real time."""
    session, rows = studio.session, studio._status_rows
    while session.time < 3.0 or session.pace.real_time < 0.995:
        time.sleep(0.1)
    pace = rows(session.first_joint)[0]["pace"]
    session.do(session.pause, True)
    session.do(session.reset)
    studio._status_rows = lambda joint: (rows(joint)[0] | {"pace": pace}, [])  # type: ignore[method-assign]


def _advance(session: Session, seconds: float) -> None:
    """Step robots that are paused."""
    session.advance(seconds)
    session.poses = [poses_of(robot.simulation) for robot in session.robots]


def take_loop(path: Path) -> None:
    """Film the quadruped: its knees get a lower limit, it sinks, and rises when the value is restored."""
    from PIL import Image

    frames = []
    with tempfile.TemporaryDirectory() as folder, Studio(assets.quadruped_mjcf, folder=folder) as studio:
        session = studio.session
        session.do(session.show_ideal, True)
        _pause(studio)
        session.do(_advance, session, _BEFORE, timeout=60.0)
        with _page(studio, *_LOOP_SIZE) as page:
            (client,) = studio.server.get_clients().values()
            client.camera.position, client.camera.look_at = _EYE, _LOOK_AT
            page.evaluate(_POINTER)
            page.mouse.move(*_REST)
            page.wait_for_timeout(5_000)
            pointer = _pointed(page)
            for _ in range(_SECONDS * _RATE):
                next(pointer, None)
                page.wait_for_timeout(300)  # until the value has reached the robot
                session.do(_advance, session, 1.0 / _RATE, timeout=60.0)
                page.get_by_text(f"{session.time:.1f} s", exact=True).wait_for()
                page.wait_for_timeout(300)
                frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    frames[0].quantize().save(path.with_suffix(".png"), optimize=True)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=1000 // _RATE, loop=0, **_QUALITY)


def _pointed(page: Any) -> Iterator[None]:
    """Move the pointer as a person does, a little in each frame: drag the slider, then click the button below it."""
    thumb = page.locator("label", has_text=_LIMIT).locator("xpath=ancestor::div[.//input][1]").get_by_role("slider")
    restore = page.get_by_role("button", name=f"restore {_LIMIT}")

    def lowered() -> tuple[float, float]:
        track, high = thumb.locator("xpath=..").bounding_box(), float(thumb.get_attribute("aria-valuemax"))
        return track["x"] + track["width"] * _LOWERED / high, _middle(thumb)[1]

    mouse, place = page.mouse, _REST
    phases: list[tuple[int, Callable[[], tuple[float, float]], Callable[[], Any]]] = [
        (10, lambda: _middle(thumb), mouse.down),
        (12, lowered, mouse.up),
        (22, lambda: _middle(restore), lambda: mouse.click(*place)),
        (12, lambda: _REST, lambda: None),
    ]
    for frames, goal, act in phases:
        for left in range(frames, 0, -1):
            x, y = goal()
            place = place[0] + (x - place[0]) / left, place[1] + (y - place[1]) / left
            mouse.move(*place)
            yield
        act()


def _middle(element: Any) -> tuple[float, float]:
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def take_log(path: Path) -> None:
    """Show a log of a motor, recorded with lower gains than those of its replay."""
    with tempfile.TemporaryDirectory() as folder:
        with Session(find_source(_MOTOR)) as recorded:
            recorded.set_motion(Motion(CHIRP, (0,), amplitude=0.5, frequency=2.0, names=recorded.dof_names))
            for name, value in _RECORDED.items():
                recorded.set_number(["motor"], 0, name, value)
            recorded.record(Path(folder) / "run.csv")
            recorded.advance(CHIRP_SECONDS)
        with Studio(_MOTOR, folder=folder) as studio:
            _pause(studio)
            studio.session.do(_advance, studio.session, 4.0)
            with _page(studio, *_LOG_SIZE) as page:
                page.get_by_role("tab", name="Log").first.click()
                page.get_by_role("tab", name="Log").last.click()
                page.locator('input[value="choose a log"]').first.click()
                page.get_by_role("option", name="run.csv").click()
                page.locator('[data-actuon="error"]').first.wait_for()
                page.wait_for_timeout(5_000)
                page.screenshot(path=path)


if __name__ == "__main__":
    quiet()
    for name, take in {"studio.webp": take_loop, "studio_log.png": take_log}.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            take(Path("docs/images") / name)
            print(f"wrote docs/images/{name}")
