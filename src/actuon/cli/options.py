# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

AllowTorch = Annotated[
    bool, typer.Option("--allow-torch", help="Trust .pt and .pt2 networks that the file names: loading can run code.")
]
