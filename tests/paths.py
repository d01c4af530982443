# SPDX-License-Identifier: Apache-2.0
"""Robots that are shipped, and public ones that may be there."""

from __future__ import annotations

from pathlib import Path

import actuon

ASSETS = actuon.assets.FOLDER
PUBLIC = Path(__file__).parents[2] / "shared" / "data" / "robots"


def robot_files(ending):
    """Public robots with this ending; none where they are not there."""
    return sorted(PUBLIC.glob(f"*{ending}"))
