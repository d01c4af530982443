# SPDX-License-Identifier: Apache-2.0
"""All rigs, by name. A new one is imported here and added to the list; `tests/outside/test_fuzz.py` runs a slice."""

from __future__ import annotations

from .chains import chains
from .command_line import command_line
from .engines import loaded, step_counts, stepping
from .fits import fits, fits_without_information
from .gradients import gradients
from .mjcf_flags import mjcf_flags
from .motors import delays, motors
from .networks import network_files, networks
from .robot_files import damaged_files, retyped_yaml, reworded_files, usd, yaml
from .sequences import sequences
from .state_files import state_files

RIGS = {
    rig.name: rig
    for rig in (
        chains,
        motors,
        delays,
        gradients,
        networks,
        network_files,
        yaml,
        usd,
        damaged_files,
        reworded_files,
        retyped_yaml,
        state_files,
        sequences,
        mjcf_flags,
        stepping,
        step_counts,
        loaded,
        command_line,
        fits,
        fits_without_information,
    )
}
