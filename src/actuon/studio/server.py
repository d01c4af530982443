# SPDX-License-Identifier: Apache-2.0
"""A viser server that accepts connections of its own page only.

viser accepts any connection to its port: a page of another site, open in the same browser, could connect to it, and a
message of a page could open a tunnel to the internet. Here, a connection needs the token in the address of the page, a
host that another site cannot point here, and the page itself as its origin.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import math
import re
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ..errors import SimulationError, require, shown
from .viser_adapter import check_updates, guarded_server, identifier

LOCALHOST = "127.0.0.1"
_LAST_PORT = 65535
_LONGEST_TEXT = 1000
"""Longest text that a page may send [characters]."""
_ROUNDING = 1e-6
"""Tolerance at the ends of a slider, relative to its range."""
_TOKEN_BYTES = 16
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
_wideners: dict[str, Callable[[float], bool]] = {}
"""Functions that widen a slider to a number beyond its ends, and return whether they did, by its identifier."""


def widen_by(slider: Any, widen: Callable[[float], bool] | None) -> None:
    """Let a page set a number beyond the ends of a slider if ``widen`` returns True for it; None: never."""
    _wideners.pop(identifier(slider), None)
    if widen is not None:
        _wideners[identifier(slider)] = widen


def make_server(host: str, port: int, hosts: Iterable[str] = ()) -> tuple[Any, str]:
    """Return a ``viser.ViserServer``, at the next free port if this one is in use, and the path of its page.

    Args:
        host: Address to serve at.
        port: Port to serve at.
        hosts: Further names by which a browser may address this computer.

    Raises:
        SimulationError: The address or a name cannot be used, or viser lacks a name that the checks need.
    """
    require("viser", "studio", "the page in the browser")
    names = _checked_names(hosts)
    _check_address(host, port)
    is_local = is_loopback(host)
    names |= set() if is_local else own_names(host)
    page = f"{secrets.token_urlsafe(_TOKEN_BYTES)}.html"

    def admits(request: Any) -> bool:
        asked, origins = request.headers.get_all("Host"), request.headers.get_all("Origin") or [None]
        has_token = secrets.compare_digest(urlsplit(request.path).path.encode(), f"/{page}".encode())
        return has_token and len(asked) == len(origins) == 1 and is_of_own_page(asked[0], origins[0], is_local, names)

    with quietly():
        server = guarded_server(host, port, page, admits)
        try:
            check_updates(server.gui, lambda *update: is_allowed(*update) or _is_widened(*update), _is_number)
        except BaseException:
            server.stop()
            raise
    server.request_share_url = lambda verbose=True: None
    return server, page


def _checked_names(hosts: Iterable[str]) -> set[str]:
    if isinstance(hosts, str):
        raise SimulationError(f"hosts: got {shown(hosts)}; must be a list of names")
    names = list(hosts)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SimulationError(f"hosts: got {shown(name)}; must be the name of a host, without scheme and port")
    return {name.lower() for name in names}


def own_names(host: str) -> set[str]:
    """Return the names of this computer in its network, and the name that it serves at."""
    name = socket.gethostname().lower()
    return {name, f"{name}.local", host.lower()}


def _is_number(handle: Any, updates: Any) -> bool:
    """Return whether this is a finite number for a slider."""
    import viser

    if not isinstance(handle, viser.GuiSliderHandle) or not isinstance(updates, dict) or updates.keys() != {"value"}:
        return False
    value = updates["value"]
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_widened(handle: Any, updates: Any) -> bool:
    """Return whether a slider was widened to a number beyond its ends."""
    widen = _wideners.get(identifier(handle))
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
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise SimulationError(f"port: got {shown(port)}; must be a whole number from 1 to {_LAST_PORT}, or 0 for any")
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        raise SimulationError(f"cannot serve at '{host}': {error.strerror or error}") from error


def is_of_own_page(host: str, origin: str | None, is_local: bool, names: Collection[str] = ()) -> bool:
    """Return whether a request comes from the page that this server sent.

    A host is allowed if another site cannot point it here: a loopback address, a listed name, and, if the server is
    reachable from the network, an IP address.

    Args:
        host: Host that the browser addresses.
        origin: Page that sends the request; None for programs that are not browsers.
        is_local: Whether the server is reachable from this computer only.
        names: Further names that are allowed.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if not (is_loopback(name) or name in names or (not is_local and _is_address(name))):
        return False
    return origin is None or urlsplit(origin).netloc == host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
