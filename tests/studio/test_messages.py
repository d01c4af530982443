# SPDX-License-Identifier: Apache-2.0
"""Messages of clients: only allowed values of one client reach the others."""

from __future__ import annotations

import contextlib
import math
import socket
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

import actuon

viser = pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
msgspec = pytest.importorskip("msgspec")
zstandard = pytest.importorskip("zstandard")
client = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")


CAMERA = {"type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.0, 0.0, 0.0), "fov": 1.0}
CAMERA |= {"near": 0.1, "far": 100.0, "image_height": 100, "image_width": 100}
CAMERA |= {"look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0)}
"""The first message of a page, which opens it."""


class Client:
    """A page without a browser, which finds controls by label."""

    def __init__(self, url):
        protocol = f"viser-v{viser.__version__}"
        self.socket = client.connect(url.replace("http", "ws"), subprotocols=[protocol], max_size=None)
        self.controls, self.contents = {}, {}
        self.socket.send(msgspec.msgpack.encode(CAMERA))

    def read(self, condition, seconds=60.0):
        """Read messages of the server until a condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "timed out"
            for message in self.messages():
                if "props" in message and "label" in message["props"]:
                    self.controls.setdefault(message["props"]["label"], message)
                if message["type"] == "GuiUpdateMessage":
                    self.contents.setdefault(message["uuid"], []).append(message["updates"])

    def messages(self):
        try:
            frame = self.socket.recv(timeout=0.2)
        except TimeoutError:
            return []
        size = int.from_bytes(frame[8:16], "little")
        return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(frame[16 : 16 + size]))["messages"]

    def send(self, label, **updates):
        message = {"type": "GuiUpdateMessage", "uuid": self.controls[label]["uuid"], "updates": updates}
        self.socket.send(msgspec.msgpack.encode(message))

    def values(self, label):
        """Values of a control that the server has sent."""
        return [each["value"] for each in self.contents.get(self.controls[label]["uuid"], []) if "value" in each]

    def pictures(self):
        """Return the number of updates of plots."""
        return sum("data" in update for own in self.contents.values() for update in own)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with actuon.studio.open(actuon.assets.arm_mjcf, port=8217, folder=tmp_path_factory.mktemp("work")) as opened:
        while not len(opened.session.history) and not opened.session.problem:
            time.sleep(0.1)  # kernels are compiled, which takes long with an empty cache on a busy machine
        yield opened


@pytest.fixture
def clients(studio):
    made = [Client(studio.url), Client(studio.url)]
    for each in made:
        each.read(lambda each=each: {"Joint", "Knock", "Amplitude [rad]", "Command", "Values"} <= each.controls.keys())
    yield made
    for each in made:
        each.socket.close()


BAD = [
    ("Joint", {"value": "no_such_joint"}),
    ("Joint", {"value": 3}),
    ("Joint", {"value": ["joint1"]}),
    ("Joint", {"removed": True}),
    ("Joint", {"update_cb": []}),
    ("Joint", {"value": "joint2", "removed": True}),
    ("Command", {"value": "dance"}),
    ("Amplitude [rad]", {"value": math.nan}),
    ("Amplitude [rad]", {"value": math.inf}),
    ("Amplitude [rad]", {"value": 1e300}),
    ("Amplitude [rad]", {"value": "0.5"}),
    ("Amplitude [rad]", {"value": True}),
    ("Amplitude [rad]", {"value": None}),
    ("Frequency [Hz]", {"value": 10**18}),
    ("Replace files", {"value": "yes"}),
    ("Values", {"value": "x" * 100_000}),
    ("Values", {"value": {}}),
    ("Knock", {"value": 1}),
]


def test_no_client_stops_the_plots_of_all(clients, studio):
    bad, other = clients
    for label, updates in BAD:
        bad.send(label, **updates)
    upload = {"type": "FileTransferStartUpload", "source_component_uuid": bad.controls["Joint"]["uuid"]}
    upload |= {"transfer_uuid": "a", "filename": "a", "mime_type": "a", "part_count": 0, "size_bytes": 0}
    bad.socket.send(msgspec.msgpack.encode(upload))
    bad.send("Joint", value="joint3")
    other.read(lambda: other.values("Joint") == ["joint3"])
    before = other.pictures()
    other.read(lambda: other.pictures() > before + 3)
    for label in ("Command", "Amplitude [rad]", "Frequency [Hz]", "Replace files", "Values"):
        assert other.values(label) == []
    assert studio.session.message == studio.session.problem == ""


def test_values_that_are_allowed_reach_the_robot(clients, studio):
    one, other = clients
    one.send("Amplitude [rad]", value=1)
    one.send("Command", value="step")
    other.read(lambda: studio.session.motion.kind == "step" and studio.session.motion.amplitude == 1.0)
    other.read(lambda: other.values("Amplitude [rad]")[-1:] == [1.0])
    one.send("Pause", value=True)
    other.read(lambda: studio.session.is_paused)


def test_typed_numbers_are_applied_or_taken_back(clients, studio):
    one, other = clients
    one.read(lambda: "kp [N·m/rad]" in one.controls)
    joint = [one.controls["Joint"]["value"], *one.values("Joint")][-1]
    for kp in (44.125, 4000.0):  # finer than the slider's step, and beyond its end
        one.send("kp [N·m/rad]", value=kp)
        other.read(lambda kp=kp: studio.session.real.configs[joint].controller.kp == kp)
    one.send("kp [N·m/rad]", value=-5.0)
    one.read(lambda: one.values("kp [N·m/rad]")[-1:] == [4000.0])
    assert "kp" in studio.session.message
    studio.session.do(studio.session.restore_all)


@pytest.mark.parametrize("renamed", [False, True])
def test_a_recording_is_saved_where_it_began_unless_its_name_is_changed(tmp_path, renamed):
    with actuon.studio.open("ak80-9", record=tmp_path / "mine.npz", folder=tmp_path, port=8231) as opened:
        page = Client(opened.url)
        page.read(lambda: "Record" in page.controls and opened.session.time > 0.0)
        if renamed:
            page.send("Recording", value="other.npz")
        page.send("Record", value=True)
        page.read(lambda: not opened.session.is_recording)
        page.socket.close()
    assert [path.name for path in tmp_path.glob("*.*")] == ["other.npz" if renamed else "mine.npz"]


def test_a_command_that_is_not_there_leaves_the_present_one(clients, studio):
    one, other = clients
    one.send("Command", value="hold")
    other.read(lambda: studio.session.motion.kind == "hold")
    one.send("Command", value="recorded")
    other.read(lambda: "load a log in the tab Log first" in studio.session.message)
    other.read(lambda: other.values("Command")[-1:] == ["hold"])
    one.send("Command", value="sine")
    other.read(lambda: studio.session.motion.kind == "sine")


def connect(studio, host="localhost", page=None, **options):
    """Connect like a page of another host."""
    port = studio.server.get_port()
    options |= {"sock": socket.create_connection(("localhost", port)), "open_timeout": 60}
    page = urlsplit(studio.url).path if page is None else page
    return client.connect(f"ws://{host}:{port}{page}", subprotocols=[f"viser-v{viser.__version__}"], **options)


OTHERS = [
    {"page": ""},
    {"page": "/"},
    {"page": "/index.html"},
    {"page": "/" + "a" * 22 + ".html"},
    {"origin": "https://elsewhere.example"},
    {"origin": "null"},
    {"host": "rebound.example"},
    {"host": "rebound.example", "origin": "http://rebound.example"},
    {"additional_headers": {"Host": "localhost"}},
]
"""Connections without the token, of pages of other sites, or with two hosts."""


@pytest.mark.parametrize("options", OTHERS)
def test_pages_of_other_sites_are_refused(studio, options, capfd):
    with connect(studio, origin=f"http://localhost:{studio.server.get_port()}") as own:
        assert own.recv(timeout=60)
    with (
        connect(studio, **options) as other,
        pytest.raises(exceptions.ConnectionClosedError, match="1008 .* pages of other sites may not use the studio"),
    ):
        other.recv(timeout=60)
    with connect(studio) as own:
        assert own.recv(timeout=60)
    assert capfd.readouterr() == ("", "")


def test_a_page_without_a_step_says_that_kernels_are_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(actuon.studio.Session, "start", lambda session: session)
    with actuon.studio.open(actuon.assets.arm_mjcf, port=8217, folder=tmp_path) as opened:
        page = Client(opened.url)
        page.read(lambda: "kernels are compiled before the first step" in str(page.contents))
        assert page.pictures() == 0
        page.socket.close()


@pytest.fixture(scope="module")
def in_network(tmp_path_factory):
    """A studio that listens at all addresses of this computer."""
    folder = tmp_path_factory.mktemp("work")
    with actuon.studio.open("ak80-9", host="0.0.0.0", port=8241, folder=folder, hosts=["Robot.lan"]) as opened:
        yield opened


REBOUND = {"host": "rebound.example", "origin": "http://rebound.example:{port}"}


@pytest.mark.parametrize("options", [*OTHERS, REBOUND], ids=str)
def test_a_network_reaches_the_studio_by_its_token_and_a_known_host_only(in_network, options):
    port = in_network.server.get_port()
    if "origin" in options:
        options = options | {"origin": options["origin"].format(port=port)}
    with (
        connect(in_network, **options) as other,
        pytest.raises(exceptions.ConnectionClosedError, match="1008 .* pages of other sites may not use the studio"),
    ):
        other.recv(timeout=60)
    for host in ("localhost", "127.0.0.1", "192.0.2.7", "robot.lan", socket.gethostname()):
        with connect(in_network, host=host, origin=f"http://{host.lower()}:{port}") as own:
            assert own.recv(timeout=60)


def test_the_page_is_at_the_address_with_the_token_only(in_network):
    port = in_network.server.get_port()
    with urllib.request.urlopen(in_network.url) as answer:
        assert answer.headers["Content-Type"].startswith("text/html")
        assert b"Viser" in answer.read()
    for page in ("", "index.html", "a.html", "../index.html"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://localhost:{port}/{page}")
    assert urlsplit(in_network.network_url).hostname == socket.gethostname().lower()
    assert urlsplit(in_network.network_url).path == urlsplit(in_network.url).path


def test_each_studio_has_another_token(studio, in_network):
    assert len(urlsplit(studio.url).path) > 22
    assert urlsplit(studio.url).path != urlsplit(in_network.url).path
    assert studio.network_url == ""


def test_there_are_no_public_links(studio):
    assert studio.server.request_share_url() is None


def test_messages_of_other_sites_are_not_read(studio):
    own = Client(studio.url)
    own.read(lambda: "Command" in own.controls)
    change = {"type": "GuiUpdateMessage", "uuid": own.controls["Command"]["uuid"], "updates": {"value": "chirp"}}
    with connect(studio, origin="https://elsewhere.example") as other:
        with contextlib.suppress(exceptions.ConnectionClosed):
            for _ in range(50):
                other.send(msgspec.msgpack.encode(change))
        with pytest.raises(exceptions.ConnectionClosed):
            other.recv(timeout=60)
    own.send("Frequency [Hz]", value=3.0)
    own.read(lambda: studio.session.motion.frequency == 3.0)
    assert studio.session.motion.kind != "chirp"
    own.socket.close()
