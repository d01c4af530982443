# SPDX-License-Identifier: Apache-2.0
"""A viser server that accepts connections of its own page only.

viser accepts any connection to its port: a page of another site, open in the same browser, could connect to it, and a
message of a page could open a tunnel to the internet.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import math
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ..errors import SimulationError, require, shown

LOCALHOST = "127.0.0.1"
_FORBIDDEN = 1008
"""WebSocket close code of a policy violation."""
_LAST_PORT = 65535
_LONGEST_TEXT = 1000
"""Longest text that a page may send [characters]."""
_ROUNDING = 1e-6
"""Tolerance at the ends of a slider, relative to its range."""
_wideners: dict[str, Callable[[float], bool]] = {}
"""Functions that widen a slider to a number beyond its ends, and return whether they did, by its identifier."""


def widen_by(slider: Any, widen: Callable[[float], bool] | None) -> None:
    """Let a page set a number beyond the ends of a slider if ``widen`` returns True for it; None: never."""
    _wideners.pop(slider._impl.uuid, None)
    if widen is not None:
        _wideners[slider._impl.uuid] = widen


def make_server(host: str, port: int) -> Any:
    """Return a ``viser.ViserServer``, at the next free port if this one is in use.

    Raises:
        SimulationError: The address cannot be used.
    """
    viser = require("viser", "studio", "the page in the browser")
    _check_address(host, port)
    with quietly():
        server = viser.ViserServer(host=host, port=port, verbose=False)
    _refuse_other_pages(server, is_loopback(host))
    server.request_share_url = lambda verbose=True: None
    _check_messages(server.gui)
    return server


def _check_messages(gui: Any) -> None:
    """Check messages of a page before a control accepts them and passes them on to other pages.

    viser sets any attribute of any control to any value, and an upload turns any control into one for files.
    """
    from viser._messages import FileTransferPart, FileTransferStartUpload, GuiUpdateMessage

    take, messages = gui._handle_gui_updates, gui._websock_interface

    async def checked(client: int, message: GuiUpdateMessage) -> None:
        handle = gui._gui_input_handle_from_uuid.get(message.uuid)
        if handle is None:
            return
        if is_allowed(handle, message.updates) or _is_widened(handle, message.updates):
            await take(client, message)
        elif _is_number(handle, message.updates):
            buffer = messages._client_state_from_id[client].message_buffer
            buffer.push(GuiUpdateMessage(message.uuid, {"value": handle.value}))

    messages.unregister_handler(GuiUpdateMessage, take)
    messages.register_handler(GuiUpdateMessage, checked)
    for upload in (FileTransferStartUpload, FileTransferPart):
        messages.unregister_handler(upload)


def _is_number(handle: Any, updates: Any) -> bool:
    """Return whether this is a finite number for a slider."""
    import viser

    if not isinstance(handle, viser.GuiSliderHandle) or not isinstance(updates, dict) or updates.keys() != {"value"}:
        return False
    value = updates["value"]
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_widened(handle: Any, updates: Any) -> bool:
    """Return whether a slider was widened to a number beyond its ends."""
    widen = _wideners.get(handle._impl.uuid)
    return widen is not None and _is_number(handle, updates) and not handle.disabled and widen(updates["value"])


def is_allowed(handle: Any, updates: Any) -> bool:
    """Return whether a page may change a control in this way.

    Args:
        handle: The control.
        updates: Attributes of the control and their new values.
    """
    import viser

    if not isinstance(updates, dict) or updates.keys() != {"value"} or handle.disabled:
        return False
    value = updates["value"]
    if isinstance(handle, viser.GuiDropdownHandle):
        return isinstance(value, str) and value in handle.options
    if isinstance(handle, viser.GuiSliderHandle):
        slack = _ROUNDING * (handle.max - handle.min)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and handle.min - slack <= value <= handle.max + slack
    if isinstance(handle, viser.GuiTextHandle):
        return isinstance(value, str) and len(value) <= _LONGEST_TEXT
    return isinstance(handle, (viser.GuiCheckboxHandle, viser.GuiButtonHandle)) and isinstance(value, bool)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress the addresses that viser prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this computer only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_address(host: str, port: int) -> None:
    """Raise an error if this is not an address of this computer: viser would try all ports, or wait forever."""
    import socket

    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise SimulationError(f"port: got {shown(port)}; must be a whole number from 1 to {_LAST_PORT}, or 0 for any")
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        raise SimulationError(f"cannot serve at '{host}': {error.strerror or error}") from error


def _refuse_other_pages(server: Any, is_local: bool) -> None:
    """Close connections of other pages before any data is exchanged."""
    connections = server._websock_server

    async def check(client: Any) -> None:
        connection = connections._live_connections[client.client_id]  # the client itself does not know its headers
        headers = connection.request.headers
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin") or [None]
        if len(hosts) == len(origins) == 1 and is_of_own_page(hosts[0], origins[0], is_local):
            return
        for table in (connections._live_connections, connections._client_state_from_id):
            del table[client.client_id]
        await connection.close(_FORBIDDEN, "pages of other sites may not use the studio")
        raise asyncio.CancelledError  # ends viser's handler of this connection

    connections._client_connect_cb.insert(0, check)
    connections.disconnect_all_clients()  # a page of an earlier studio may have connected already; it will again


def is_of_own_page(host: str, origin: str | None, is_local: bool) -> bool:
    """Return whether a request comes from the page that this server sent.

    Args:
        host: Host that the browser addresses.
        origin: Page that sends the request; None for programs that are not browsers.
        is_local: Whether the server is reachable from this computer only. Other host names, which another site could
            point here, are then rejected.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if is_local and not is_loopback(name):
        return False
    return origin is None or urlsplit(origin).netloc == host
