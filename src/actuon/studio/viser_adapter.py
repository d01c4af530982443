# SPDX-License-Identifier: Apache-2.0
"""Private names of viser that the studio needs to refuse connections and messages, all of them here.

viser offers no way to check a connection or a message of a page. If one of these names is gone, the studio does not
start.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import SimulationError

FORBIDDEN = 1008
"""WebSocket close code of a policy violation."""
_CONNECTIONS = ("_http_server_root", "_client_connect_cb", "_live_connections", "_client_state_from_id")
_MESSAGES = ("GuiUpdateMessage", "FileTransferStartUpload", "FileTransferPart")

Admits = Callable[[Any], bool]
"""Function that returns whether a WebSocket request may connect."""


def guarded_server(host: str, port: int, page: str, admits: Admits) -> Any:
    """Return a ``viser.ViserServer`` that serves its page under one name only, and closes all other connections.

    Args:
        host: Address to serve at.
        port: Port to serve at; the next free one if it is in use.
        page: Name of the page, with the ending ``.html``.
        admits: Called with the request of each connection before any data is exchanged.

    Raises:
        SimulationError: This version of viser lacks a private name that this needs.
    """
    import viser

    class GuardedServer(viser.ViserServer):  # type: ignore[misc]
        _pages: tempfile.TemporaryDirectory[str] | None = None
        _guarded: Any = None

        @property
        def _websock_server(self) -> Any:
            return self._guarded

        @_websock_server.setter
        def _websock_server(self, connections: Any) -> None:
            """Guard connections; viser sets the attribute before it listens."""
            for name in _CONNECTIONS:
                _private(connections, name)
            client = Path(connections._http_server_root) / "index.html"
            if not client.is_file():
                raise _unsupported(f"a page at '{client}'")
            self._pages = tempfile.TemporaryDirectory(prefix="actuon-studio-")
            shutil.copyfile(client, Path(self._pages.name) / page)
            connections._http_server_root = Path(self._pages.name)
            _check_connections(connections, admits)
            self._guarded = connections

        def stop(self) -> None:
            super().stop()
            if self._pages is not None:
                self._pages.cleanup()

    server = GuardedServer(host=host, port=port, verbose=False)
    if server._guarded is None:
        server.stop()
        raise _unsupported("'ViserServer._websock_server'")
    return server


def _check_connections(connections: Any, admits: Admits) -> None:
    """Close connections that are not admitted before any data is exchanged."""

    async def check(client: Any) -> None:
        connection = connections._live_connections[client.client_id]  # the client itself does not know its request
        if admits(connection.request):
            return
        for table in (connections._live_connections, connections._client_state_from_id):
            del table[client.client_id]
        await connection.close(FORBIDDEN, "pages of other sites may not use the studio")
        raise asyncio.CancelledError  # ends viser's handler of this connection

    connections._client_connect_cb.insert(0, check)


def check_updates(gui: Any, is_wanted: Callable[[Any, Any], bool], is_taken_back: Callable[[Any, Any], bool]) -> None:
    """Pass on updates of controls that are wanted only, and remove uploads.

    Args:
        gui: Controls of a server.
        is_wanted: Returns whether a page may change a control so, given the control and its new attributes.
        is_taken_back: Returns whether the page gets the present value instead.

    Raises:
        SimulationError: This version of viser lacks a private name that this needs.
    """
    from viser import _messages

    update, *uploads = (_private(_messages, name) for name in _MESSAGES)
    take, messages = _private(gui, "_handle_gui_updates"), _private(gui, "_websock_interface")
    handles = _private(gui, "_gui_input_handle_from_uuid")

    async def checked(client: int, message: Any) -> None:
        handle = handles.get(message.uuid)
        if handle is None:
            return
        if is_wanted(handle, message.updates):
            await take(client, message)
        elif is_taken_back(handle, message.updates):
            buffer = messages._client_state_from_id[client].message_buffer
            buffer.push(update(message.uuid, {"value": handle.value}))

    try:
        messages.unregister_handler(update, take)
        for upload in uploads:
            messages.unregister_handler(upload)
    except (AssertionError, AttributeError, KeyError, ValueError) as error:
        raise _unsupported("its handlers of updates and uploads") from error
    messages.register_handler(update, checked)


def identifier(control: Any) -> str:
    """Return the identifier of a control, which messages of pages have."""
    return str(_private(_private(control, "_impl"), "uuid"))


def _private(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise _unsupported(f"'{getattr(owner, '__name__', type(owner).__name__)}.{name}'") from error


def _unsupported(what: str) -> SimulationError:
    return SimulationError(
        f"viser {importlib.metadata.version('viser')} has no {what}, without which the studio cannot refuse pages of "
        "other sites; install a version that the extra 'studio' allows: pip install 'actuon[studio]'"
    )
