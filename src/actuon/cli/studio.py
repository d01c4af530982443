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

import typer

import actuon

from .options import AllowTorch
from .outputs import check_record


def bench(
    robot: Annotated[
        str,
        typer.Argument(
            help="A robot with actuators in or beside its file, .xml, .urdf, .mjb, .usda, .usd, .usdc or .usdz; or the "
            "name of a motor.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen at. 0.0.0.0 lets everyone in your network use the page.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where to listen; the next free one if taken.")] = 8017,
    record: Annotated[
        Path | None, typer.Option(help="Save every step as .npz or .csv, at the end.", readable=False)
    ] = None,
    allow_torch: AllowTorch = False,
) -> None:
    """Move a robot, or a motor, in real time in a page of the browser, and change its values meanwhile.

    The page can read and write files in the working folder only. Ctrl+C ends it.
    """
    if record is not None:
        check_record(record)
    actuon.quiet()
    print("kernels are compiled on first use", flush=True)
    with actuon.studio.open(robot, host=host, port=port, record=record, allow_torch=allow_torch) as opened:
        print(f"{opened.session.source.title}: serving at {opened.url} (Ctrl+C to stop)")
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
