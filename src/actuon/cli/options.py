# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

COMMANDS, ARGUMENTS = map(Group.create_ordered, ("Commands", "Arguments"))
"""First groups of a help text: groups appear in the order of their creation."""

File = Annotated[Path, Parameter(metavar="FILE")]
Folder = Annotated[Path, Parameter(metavar="DIR")]
OutputFile = Annotated[Path, Parameter(name=("--output", "-o"), metavar="FILE")]
OutputFolder = Annotated[Path, Parameter(name=("--output", "-o"), metavar="DIR")]
Seconds = Annotated[float, Parameter(metavar="SECONDS")]
Value = Annotated[float, Parameter(metavar="VALUE")]
Count = Annotated[int, Parameter(metavar="N", validator=Number(gte=1))]

Root = Annotated[str | None, Parameter(metavar="PRIM", help="Root prim of the robot (USD). Default: the default prim.")]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON.")]
Force = Annotated[bool, Parameter(help="Overwrite an existing file.")]
AllowTorch = Annotated[bool, Parameter(help="Load .pt and .pt2 networks named by the file. This can execute code.")]
Actuators = Annotated[tuple[Path, ...], Parameter(metavar="FILE", show_default=False)]
