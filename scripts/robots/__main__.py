# SPDX-License-Identifier: Apache-2.0
"""Writes the robots of `actuon.assets`, or into the folder that is given."""

from __future__ import annotations

import sys
from pathlib import Path

from actuon import assets

from . import write_all

write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else assets.FOLDER)
