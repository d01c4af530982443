"""The studio's page, in a real browser."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.parse import urlsplit

import numpy as np
import pytest

import actuon
from scripts.studio_pictures import BROWSERS, OPTIONS, browser_path

pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
SIZE = {"width": 1100, "height": 560}
PATIENCE = 60_000
"""Longest wait for the page [ms]."""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = browser_path()
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)} is on the path")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=found, args=OPTIONS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    with actuon.studio.open(actuon.assets.quadruped_mjcf, port=8117, folder=folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser, studio):
    opened = browser.new_page(viewport=SIZE)
    opened.goto(studio.url)
    opened.wait_for_selector("text=Stages", timeout=PATIENCE)
    until(lambda: envelope(opened) is not None)
    yield opened
    opened.close()


def until(condition, seconds=60.0):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def field_of(page, label):
    """Return the number field of a slider."""
    return page.locator("label", has_text=label).locator("xpath=ancestor::div[.//input][1]").locator("input").last


CHARTS = """() => Object.values(window.__viserTestpoints?.uplots ?? {}).map(({chart}) => ({
    labels: chart.series.map(each => each.label), data: chart.data.map(each => Array.from(each)),
    ticks: (chart.axes[0]._values ?? []).length,
    x: [chart.scales.x.min, chart.scales.x.max], y: [chart.scales.y.min, chart.scales.y.max],
    top: chart.root.getBoundingClientRect().top, width: chart.root.getBoundingClientRect().width}))"""
"""Return the charts of the page."""


def charts(page):
    """Return series and axes of the charts, by the label of the last series in each."""
    return {each["labels"][-1]: each for each in page.evaluate(CHARTS)}


def envelope(page):
    """Return the highest efforts of the envelope; None while the page does not show it."""
    plane = charts(page).get("now")
    if plane is None or "motor envelope ↑" not in plane["labels"]:
        return None
    return np.array(plane["data"][plane["labels"].index("motor envelope ↑")], float)


def robot_pixels(page):
    """Return an image of the middle of the page, where the robot is."""
    from PIL import Image

    picture = page.screenshot(clip={"x": 450, "y": 60, "width": 300, "height": 440})
    return np.asarray(Image.open(io.BytesIO(picture)).convert("L"), float)


def test_a_slider_reaches_the_robot_and_the_envelope_follows(page, studio):
    before, joint = envelope(page), studio.session.first_joint
    field = field_of(page, "max_effort [N·m]")
    field.fill("12")
    field.press("Enter")
    until(lambda: studio.session.real.configs[joint].clamping[1].max_effort == 12.0)
    until(lambda: np.nanmax(envelope(page)) == 12.0 < np.nanmax(before))
    restore = page.get_by_role("button", name="restore max_effort = 35.55")
    restore.wait_for(timeout=PATIENCE)
    page.get_by_role("button", name="Restore all values of the file").wait_for(timeout=PATIENCE)
    restore.click()
    until(lambda: studio.session.real.configs[joint].clamping[1].max_effort == 35.55)
    restore.wait_for(state="hidden", timeout=PATIENCE)
    page.get_by_role("button", name="Restore all values of the file").wait_for(state="hidden", timeout=PATIENCE)
    assert field.input_value() == "35.55"
    assert not studio.session.message


def test_an_infinite_limit_is_marked_as_off(page, studio):
    session = studio.session
    joint = session.first_joint
    stage = list(session.real.configs[joint].stages).index(session.real.configs[joint].clamping[1])
    session.do(session.set_number, [joint], stage, "max_effort", np.inf)
    off = page.get_by_text("max_effort [N·m] (off)")
    off.wait_for(timeout=PATIENCE)
    assert float(field_of(page, "max_effort [N·m] (off)").input_value()) > 35.55
    session.do(session.restore, [joint], stage, "max_effort")
    off.wait_for(state="hidden", timeout=PATIENCE)
    assert field_of(page, "max_effort [N·m]").input_value() == "35.55"


def test_the_tab_has_a_title_of_its_own(page):
    page.wait_for_function("document.title == 'quadruped.xml · Actuon'", timeout=PATIENCE)


def test_charts_move_on_and_keep_a_zoom(page, studio):
    until(lambda: {"now", "position", "clipped", "amplitude"} <= charts(page).keys())
    for label, chart in charts(page).items():
        assert np.isfinite(chart["x"] + chart["y"]).all(), label
    before = charts(page)["position"]
    page.evaluate(
        """() => Object.values(window.__viserTestpoints.uplots).map(each => each.chart)
        .find(chart => chart.series.at(-1).label == "position").setScale("x", {min: -1, max: -0.5})"""
    )
    until(lambda: charts(page)["position"]["data"] != before["data"])
    assert charts(page)["position"]["x"] == [-1, -0.5]


def test_axes_have_ticks_in_a_page_that_opens_when_there_is_data(browser, studio):
    other = browser.new_page(viewport=SIZE)
    other.goto(studio.url)
    until(lambda: len(charts(other)) == 4 and all(chart["ticks"] > 2 for chart in charts(other).values()))
    other.close()


def test_robot_and_plots_have_room_in_a_small_window(browser, studio):
    studio.session.do(studio.session.pause, True)  # what stands still is drawn quickly without a graphics card
    small = browser.new_page(viewport={"width": 1024, "height": 700})
    small.goto(studio.url)
    until(lambda: sum(chart["top"] < 600 and chart["width"] > 300 for chart in charts(small).values()) >= 3)
    left = max(chart["width"] for chart in charts(small).values())
    right = small.get_by_text("stability usage").bounding_box()
    assert right["x"] - left > 350  # the robot is between the plots and the readouts
    notices = [box.bounding_box() for box in small.locator(".mantine-Notification-root").all()]
    assert all(box["y"] > right["y"] + 100 for box in notices)
    small.close()


def test_a_key_resets_unless_it_is_typed(page, studio):
    session = studio.session
    session.do(session.pause, False)
    until(lambda: session.time > 0.5)
    session.do(session.pause, True)
    held = session.time
    page.get_by_role("tab", name="Save").first.click()
    name = page.locator("label", has_text="Values").locator("xpath=ancestor::div[.//input][1]").locator("input")
    name.press("r")
    page.wait_for_timeout(500)
    assert session.time == held
    page.get_by_role("tab", name="Motor").first.click()
    page.locator("canvas").first.focus()
    page.keyboard.press("r")
    until(lambda: session.time == 0.0)
    session.do(session.pause, False)


def test_the_robot_moves_in_the_page_unless_paused(page, studio):
    studio.session.do(studio.session.pause, True)
    page.wait_for_timeout(1000)
    held = robot_pixels(page)
    assert np.abs(robot_pixels(page) - held).max() < 30.0
    studio.session.do(studio.session.pause, False)
    until(lambda: np.abs(robot_pixels(page) - held).max() > 60.0)


def test_tabs_share_one_session_and_a_lost_one_loses_nothing(browser, page, studio):
    session, joint = studio.session, studio.session.first_joint
    session.do(session.pause, True)
    other = browser.new_page(viewport=SIZE)
    other.goto(studio.url)
    field = field_of(other, "kd [N·m·s/rad]")
    field.wait_for(timeout=PATIENCE)
    field.fill("3")
    field.press("Enter")
    until(lambda: session.real.configs[joint].controller.kd == 3.0)
    until(lambda: field_of(page, "kd [N·m·s/rad]").input_value() == "3")
    other.close()
    page.reload()
    field_of(page, "kd [N·m·s/rad]").wait_for(timeout=PATIENCE)
    assert field_of(page, "kd [N·m·s/rad]").input_value() == "3"
    assert session.real.configs[joint].controller.kd == 3.0


def test_files_are_saved_in_the_folder_and_nowhere_else(page, studio):
    page.get_by_role("tab", name="Save").first.click()
    name = page.locator("label", has_text="Values").locator("xpath=ancestor::div[.//input][1]").locator("input")
    name.fill("legs.yaml")
    name.press("Enter")
    page.get_by_role("button", name="Save as YAML").click()
    until((studio.folder.root / "legs.yaml").exists)
    outcome = page.locator('[data-actuon="outcome"]')
    outcome.wait_for(timeout=PATIENCE)
    page.get_by_role("tab", name="Motor").first.click()
    page.get_by_role("tab", name="Save").first.click()
    outcome.wait_for(timeout=PATIENCE)
    assert outcome.inner_text().endswith(f"saved {studio.folder.root / 'legs.yaml'}")
    assert len(actuon.load_actuators(studio.folder.root / "legs.yaml")) == 2
    name.fill("../legs.yaml")
    name.press("Enter")
    page.get_by_role("button", name="Save as YAML").click()
    page.get_by_text("is outside of").wait_for(timeout=PATIENCE)
    assert not (studio.folder.root.parent / "legs.yaml").exists()
    page.get_by_role("button", name="Save image").click()
    until((studio.folder.root / "quadruped.studio.png").exists)


def test_a_log_is_loaded_and_its_error_shown(page, studio):
    session = studio.session
    session.do(session.pause, False)
    session.do(session.reset)
    session.do(session.record, studio.folder.root / "run.csv")
    until(lambda: session.time > 1.0)
    session.do(session.stop_recording)
    session.do(session.pause, True)
    page.get_by_role("tab", name="Log").last.click()
    page.get_by_role("button", name="Refresh the list").click()
    page.locator('input[value="choose a log"]').first.click()
    page.get_by_role("option", name="run.csv").click()
    page.locator('[data-actuon="error"]').first.wait_for(timeout=PATIENCE)
    assert "mrad" in page.locator('[data-actuon="error"]').first.inner_text()


def test_the_command_opens_a_page_and_ends_with_an_interrupt(tmp_path):
    saved = tmp_path / "run.npz"
    arguments = ["studio", "ak80-9", "--port", "8131", "--record", str(saved)]
    started = subprocess.Popen(
        [sys.executable, "-m", "actuon.cli", *arguments],
        env=os.environ | {"SSH_CONNECTION": "somewhere"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = iter(started.stdout.readline, "")
        address = next(line for line in lines if "serving at" in line).split()[3]
        port = urlsplit(address).port  # another where that one is taken
        assert f"ssh -L {port}:localhost:{port} " in next(lines)
        with urllib.request.urlopen(address) as answer:
            assert b"viser" in answer.read()
        time.sleep(4.0)  # on first use, kernels are compiled
        started.send_signal(signal.SIGINT)
        rest, _ = started.communicate(timeout=60)
    finally:
        started.kill()
    assert f"saved {saved}" in rest
    assert started.returncode == 0
    with np.load(saved) as record:
        assert len(record["time"]) > 10


def test_the_page_is_for_this_computer_only_unless_asked():
    with actuon.studio.open("ak80-9", port=8141) as opened:
        assert opened.server.get_host() == "127.0.0.1"
        assert opened.url.startswith(f"http://localhost:{opened.server.get_port()}/")
        own = socket.gethostbyname(socket.gethostname())
        if own.startswith("127."):
            pytest.skip("this computer has no address of its own")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((own, opened.server.get_port()), timeout=5.0)
