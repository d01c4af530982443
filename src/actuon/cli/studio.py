# SPDX-License-Identifier: Apache-2.0
"""``actuon studio``: a robot, or a motor, in a page of the browser."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

import actuon
from actuon.errors import check_installed

from .options import Actuators, AllowTorch, File
from .outputs import check_record
from .show import make_console, say


def studio(
    robot: Path,
    /,
    *,
    actuators: Actuators = (),
    host: Annotated[str, Parameter(metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=65535))] = 8017,
    allow_host: Annotated[tuple[str, ...], Parameter(metavar="NAME", show_default=False)] = (),
    record: File | None = None,
    allow_torch: AllowTorch = False,
) -> None:
    """Tune a robot or a motor live in the browser.

    Moves it in real time; every number can be changed while it runs. The page can read and write files in the
    working folder only. Ctrl+C stops it.

    Args:
        robot: MJCF, URDF or USD file with motors in it or next to it, or the name of a motor.
        actuators: Motors to use instead of those of the robot; repeat to compare. Values of the first can be changed.
        host: Address to listen at. 0.0.0.0: your network, for those who have the printed address with its token.
        port: Port to listen at; the next free one if it is taken.
        allow_host: Name by which browsers may address this computer, besides its own; repeat for several.
        record: Save every step at the end (.npz, .csv).
    """
    modules = "viser", "trimesh", "mujoco", "cmaes", "scipy", "ruamel.yaml"
    check_installed(modules, "studio", "the page in the browser")
    from actuon.robot_source import find_source

    if record is not None:
        check_record(record)
    actuon.quiet()
    console = make_console()
    for file in actuators or (None,):
        say(console, find_source(robot, allow_torch, file).motors_from())
    print("kernels are compiled on first use", flush=True)
    with actuon.studio.open(
        robot, actuators=actuators, host=host, port=port, hosts=allow_host, record=record, allow_torch=allow_torch
    ) as opened:
        print(f"{opened.session.title}: serving at {opened.url} (Ctrl+C to stop)")
        if opened.network_url:
            print(f"from other computers:  {opened.network_url}")
        if "SSH_CONNECTION" in os.environ:
            there = f"{getpass.getuser()}@{socket.gethostname()}"
            number = opened.server.get_port()
            print(f"from your own computer:  ssh -L {number}:localhost:{number} {there}  and open {opened.url} there")
        elif _has_screen():
            webbrowser.open(opened.url)
        sys.stdout.flush()
        try:
            opened.wait()
        except KeyboardInterrupt:
            print()
    if record is not None and record.exists():
        print(f"saved {record}")


def _has_screen() -> bool:
    return not sys.platform.startswith("linux") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
