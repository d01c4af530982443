# SPDX-License-Identifier: Apache-2.0
"""Memory of actuators on robots, as arrays to compare."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np


def remembered(actuators):
    """Return what `save_state` writes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        actuators.save_state(path)
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
