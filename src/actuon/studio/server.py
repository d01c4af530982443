# SPDX-License-Identifier: Apache-2.0
"""A viser server that talks to its own page only.

viser itself takes anyone who reaches its port: a page of another site, open in the same browser, could connect to a
port of this computer, and a message of a page could open a tunnel to the internet.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from ..errors import MissingExtraError, SimulationError, shown

LOCALHOST = "127.0.0.1"
_FORBIDDEN = 1008
"""Code of WebSocket for "violates a policy"."""
_LAST_PORT = 65535
_LONGEST_TEXT = 1000
"""Characters that a page may send."""
_ROUNDING = 1e-6
"""Share of a slider's range by which its ends may be exceeded."""


def make_server(host: str, port: int) -> Any:
    """A ``viser.ViserServer``, at the next free port where this one is taken.

    Raises:
        SimulationError: It cannot listen there.
    """
    try:
        import viser
    except ImportError as error:
        raise MissingExtraError("viser", "studio", "the page in the browser") from error
    _check_address(host, port)
    with quietly():
        server = viser.ViserServer(host=host, port=port, verbose=False)
    _refuse_other_pages(server, is_loopback(host))
    server.request_share_url = lambda verbose=True: None
    _check_messages(server.gui)
    return server


def _check_messages(gui: Any) -> None:
    """Have what a page sends checked before a control takes it, and hands it on to all other pages.

    viser itself sets any attribute of any control to any value, and an upload makes any control one for files.
    """
    from viser._messages import FileTransferPart, FileTransferStartUpload, GuiUpdateMessage

    take, messages = gui._handle_gui_updates, gui._websock_interface

    async def checked(client: int, message: GuiUpdateMessage) -> None:
        handle = gui._gui_input_handle_from_uuid.get(message.uuid)
        if handle is not None and is_allowed(handle, message.updates):
            await take(client, message)

    messages.unregister_handler(GuiUpdateMessage, take)
    messages.register_handler(GuiUpdateMessage, checked)
    for upload in (FileTransferStartUpload, FileTransferPart):
        messages.unregister_handler(upload)


def is_allowed(handle: Any, updates: Any) -> bool:
    """Whether a page may change a control so.

    Args:
        handle: Of the control.
        updates: What the page sent: attributes of the control and their values.
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
    """Keep viser from printing addresses of its own."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this computer only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_address(host: str, port: int) -> None:
    """Refuse what is not an address of this computer: viser would try one port after the other, or wait forever."""
    import socket

    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise SimulationError(f"port: got {shown(port)}; must be a whole number from 1 to {_LAST_PORT}, or 0 for any")
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        raise SimulationError(f"cannot listen at '{host}': {error.strerror or error}") from error


def _refuse_other_pages(server: Any, is_local: bool) -> None:
    """Close connections of other pages before viser reads from them or sends anything."""
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
    """Whether a request comes from the page that the server itself gave.

    Args:
        host: Where the browser thinks that it is sent to.
        origin: The page that sends it; None for programs that are not browsers.
        is_local: Whether the server listens at this computer alone. It is then called by no other name, which another
            site could give it.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if is_local and not is_loopback(name):
        return False
    return origin is None or urlsplit(origin).netloc == host
