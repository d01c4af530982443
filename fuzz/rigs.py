# SPDX-License-Identifier: Apache-2.0
"""All rigs, by name."""

from __future__ import annotations

from .chains import chains
from .command_line import command_line
from .fits import fits
from .gradients import gradients
from .networks import network_files, networks
from .robot_files import damaged_files, retyped_yaml, reworded_files, usd, yaml

RIGS = {
    rig.name: rig
    for rig in (
        chains, gradients, networks, network_files, yaml, usd, damaged_files, reworded_files, retyped_yaml,
        command_line, fits,
    )
}  # fmt: skip
